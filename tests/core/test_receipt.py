"""Lines of notes: what they say, how they are written, and what is made of any bytes that stand there instead."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core.receipt import (
    LogLine,
    Receipt,
    Unreadable,
    aside,
    decode_log,
    decode_receipt,
    digest,
    encode,
    set_aside,
    verdicts,
)

HASH = "0123456789abcdef" * 4
RECEIPT = Receipt(
    HASH,
    "done",
    "topic/é",
    "article",
    "20260807T120000-1a2b3c4d5e",
    "2026-08-07T12:00:00Z",
    {"run": "1" * 64, "plan": "2" * 64},
    (("content/é.md", "a" * 40), ("content/é.json", "b" * 40)),
    extra={"seconds": 1.5, "usd": 0.01, "checks": ["not_empty"], "why": None},
)
LINE = (
    '{"work":"' + HASH + '","at":"2026-08-07T12:00:00Z","attempt":"20260807T120000-1a2b3c4d5e",'
    '"checks":["not_empty"],"components":{"plan":"' + "2" * 64 + '","run":"' + "1" * 64 + '"},"kind":"done",'
    '"outputs":[["content/\\u00e9.md","' + "a" * 40 + '"],["content/\\u00e9.json","' + "b" * 40 + '"]],'
    '"scheme":1,"seconds":1.5,"slug":"topic/\\u00e9","stage":"article","usd":0.01,"v":1}'
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
receipts = st.builds(
    Receipt,
    work=st.text("0123456789abcdef", min_size=64, max_size=64),
    scheme=st.just(1),
    kind=st.sampled_from(["done", "accepted", "void"]),
    slug=texts,
    stage=texts,
    attempt=texts,
    at=texts,
    components=st.dictionaries(texts, texts, max_size=4),
    outputs=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    extra=st.dictionaries(
        st.sampled_from(["seconds", "by", "why", "more"]), texts | st.integers(), max_size=4
    ),
)


def test_a_receipt_is_one_compact_ascii_line_with_work_first_and_the_other_keys_sorted() -> None:
    assert encode(RECEIPT).decode("ascii") == LINE


@given(receipts)
def test_what_is_written_is_read_back(receipt: Receipt) -> None:
    line = encode(receipt)
    assert b"\n" not in line
    assert line.isascii()
    assert decode_receipt(line) == receipt


@pytest.mark.parametrize(
    "line", [b"", b"reviewed by Bob", b'{"aside":"x"}', b'{"note":"hi","v":1}', b"\xff\xfe"]
)
def test_somebody_else_s_lines_are_not_ours(line: bytes) -> None:
    assert decode_receipt(line) is None
    assert decode_log(line) is None


@pytest.mark.parametrize("change", [{"v": 2}, {"v": "1"}, {"scheme": 2}, {"scheme": None}])
def test_p12_lines_of_a_newer_format_or_scheme_do_not_count(change: dict[str, object]) -> None:
    fields = {**json.loads(LINE), **change}
    assert decode_receipt(json.dumps(fields, separators=(",", ":")).encode()) is None


def test_fields_that_this_version_does_not_know_are_kept() -> None:
    fields = {**json.loads(LINE), "later": [1]}
    found = decode_receipt(json.dumps(fields, separators=(",", ":")).encode())
    assert found is not None
    assert found.extra["later"] == [1]


@pytest.mark.parametrize("end", range(9, len(LINE)))
def test_p6_a_line_cut_anywhere_is_an_error_and_never_nothing(end: int) -> None:
    with pytest.raises(Unreadable):
        decode_receipt(LINE[:end].encode())


@pytest.mark.parametrize(
    "change",
    [
        {"work": "12"},
        {"slug": 1},
        {"components": []},
        {"outputs": [["a"]]},
        {"outputs": None},
        {"components": {"a": 1}},
    ],
)
def test_p6_a_line_with_the_wrong_types_is_an_error(change: dict[str, object]) -> None:
    fields = {**json.loads(LINE), **change}
    with pytest.raises(Unreadable):
        decode_receipt(json.dumps(fields, separators=(",", ":")).encode())


@given(st.binary(max_size=200))
def test_p6_any_bytes_are_a_line_or_not_ours_or_unreadable(data: bytes) -> None:
    for line in (data, b'{"work":"' + data, LINE.encode()[:40] + data):
        for decode in (decode_receipt, decode_log):
            with contextlib.suppress(Unreadable):
                decode(line)


def log(kind: str, attempt: str, at: str = "2026-08-07T12:00:00Z", **extra: object) -> LogLine:
    return LogLine(HASH, kind, "one", "article", attempt, at, extra)


def test_log_lines_are_read_back() -> None:
    for line in (
        log("verdict", "a1", category="timeout"),
        log("reset", "a2", attempts=["a1"]),
        log("lost", "a3"),
    ):
        assert decode_log(encode(line)) == line


def test_verdicts_stand_until_they_are_reset_and_the_last_one_gives_the_category() -> None:
    key = ("one", "article", HASH)
    first = log("verdict", "a1", "2026-08-07T12:00:00Z", category="timeout")
    second = log("verdict", "a2", "2026-08-07T13:00:00Z", category="validation")
    found = verdicts([second, first, log("lost", "a0")])
    assert found[key].category == "validation"
    assert found[key].attempts == ("a1", "a2")
    assert verdicts([first, second, log("reset", "a3", attempts=["a2"])])[key].category == "timeout"
    assert verdicts([first, second, log("reset", "a3", attempts=["a1", "a2"])]) == {}


def test_p6_a_reset_that_names_no_attempts_as_text_is_an_error() -> None:
    with pytest.raises(Unreadable):
        decode_log(encode(log("reset", "a3", attempts=[1])))


def test_a_broken_line_is_set_aside_by_a_line_of_its_own() -> None:
    broken = LINE[:60].encode()
    line = aside(broken, "A <a@x>", "2026-08-07T12:00:00Z")
    assert decode_receipt(line) is None
    assert set_aside([broken, line]) == {digest(broken)}
