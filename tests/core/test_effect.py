"""What the log tells of acts, and what may be done next."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core.effect import (
    answer_of,
    closed_by,
    dated,
    has_not_happened,
    intent_extra,
    may_be_under_way,
    open_acts,
    step,
    tells_of,
    tells_of_act,
    unclear,
    unknown_outcome,
    was_there,
)
from gitstate.core.plan import Effect
from gitstate.core.receipt import LogLine, Receipt, decode_log, encode
from gitstate.core.snapshot import Act, Receipts
from gitstate.core.verdict import Failed

WORK, OTHER = "a" * 64, "b" * 64
NOW = datetime(2026, 8, 7, 12, tzinfo=timezone.utc)
ASKING = Effect(evidence="find")
IDEMPOTENT = Effect(idempotent=True)
BARE = Effect()


def line(
    kind: str, attempt: str, at: str = "2026-08-07T12:00:00Z", work: str = WORK, **extra: Any
) -> LogLine:
    return LogLine(work, kind, "s", "publish", attempt, at, extra)


def intent(attempt: str, key: str = "k", work: str = WORK, at: str = "2026-08-07T12:00:00Z") -> LogLine:
    return line("intent", attempt, at, work, **intent_extra(key, {"run": WORK}, 1))


def receipt(attempt: str, kind: str = "done", blob: str = "c" * 40) -> Receipt:
    return Receipt(WORK, kind, "s", "publish", attempt, "2026-08-07T12:01:00Z", {}, (("p", blob),))


def attempts(*lines: LogLine, receipts: tuple[Receipt, ...] = ()) -> list[str]:
    held = Receipts({one.outputs[0][1]: [one] for one in receipts})
    return [act.attempt for act in open_acts(lines, held).get(("s", "publish"), ())]


def act(attempt: str = "1", work: str = WORK, at: str = "2026-08-07T12:00:00Z", *, over: bool = False) -> Act:
    return Act(attempt, work, at, "k", {}, 1, None, over)


def test_an_act_is_open_until_something_says_how_it_ended() -> None:
    assert attempts() == []
    assert attempts(intent("1")) == ["1"]
    assert attempts(intent("1"), line("lost", "1")) == ["1"]
    assert attempts(intent("1"), line("verdict", "1", category="timeout")) == ["1"]
    assert attempts(intent("1"), line("reset", "9", attempts=["1"])) == ["1"]
    assert attempts(intent("1"), line("evidence", "1", attempts=["1"], answer="unclear")) == ["1"]
    assert attempts(intent("1"), line("evidence", "1", attempts=["2"], answer="absent")) == ["1"]


@pytest.mark.parametrize(
    "closing",
    [
        line("withdrawn", "1", attempts=["1"]),
        line("evidence", "1", attempts=["1"], answer="absent"),
        line("evidence", "1", attempts=["1"], answer="exists"),
        line("resolved", "1", attempts=["1"], answer="happened"),
        line("resolved", "1", attempts=["1"], answer="did-not-happen"),
        line("verdict", "1", happened="no"),
    ],
)
def test_it_is_closed_by_whatever_says_so(closing: LogLine) -> None:
    assert attempts(intent("1"), closing) == attempts(closing, intent("1")) == []
    assert closed_by(closing) == {"1"}


def test_it_is_closed_by_its_receipt_and_with_it_all_under_its_key() -> None:
    assert attempts(intent("1"), receipts=(receipt("1"),)) == []
    assert attempts(intent("1"), intent("2"), receipts=(receipt("2"),)) == []
    assert attempts(intent("1"), intent("2", key="other"), receipts=(receipt("2"),)) == ["1"]
    assert attempts(intent("1"), receipts=(receipt("9"),)) == ["1"]


def test_a_receipt_that_was_taken_back_closes_nothing() -> None:
    void = receipt("1", "void", blob="d" * 40)
    assert attempts(intent("1"), receipts=(receipt("1"), void)) == ["1"]


def test_acts_come_oldest_first_and_say_whether_they_are_over() -> None:
    lines = [intent("2", at="2026-08-07T13:00:00Z"), intent("1"), line("lost", "1")]
    (first, second) = open_acts(lines, Receipts({}))["s", "publish"]
    assert (first.attempt, first.over, second.attempt, second.over) == ("1", True, "2", False)
    assert (first.key, first.components, first.scheme) == ("k", {"run": WORK}, 1)


@given(
    st.dictionaries(
        st.sampled_from(["key", "components", "scheme", "attempts", "answer"]),
        st.none() | st.integers() | st.text() | st.lists(st.text()),
    )
)
def test_no_line_of_somebody_elses_is_stumbled_over(extra: dict[str, Any]) -> None:
    if "attempts" in extra and not (isinstance(extra["attempts"], list)):
        del extra["attempts"]
    found = decode_log(encode(line("intent", "1", **extra)))
    assert found is not None
    assert [one.attempt for one in open_acts([found], Receipts({}))["s", "publish"]] == ["1"]


@pytest.mark.parametrize(
    ("effect", "happened", "acts", "redo", "then"),
    [
        (BARE, False, [], False, "act"),
        (BARE, False, [act()], False, "human"),
        (BARE, False, [act()], True, "human"),
        (ASKING, False, [act()], False, "ask"),
        (ASKING, True, [act()], True, "ask"),
        (ASKING, True, [], False, "leave"),
        (ASKING, True, [], True, "act"),
        (ASKING._replace(on_stale="update"), True, [], False, "act"),
        (ASKING._replace(on_stale="ignore"), True, [], False, "leave"),
        (IDEMPOTENT, False, [act(), act("2")], False, "act"),
        (IDEMPOTENT, False, [act(), act("2", OTHER)], False, "human"),
        (IDEMPOTENT._replace(evidence="find"), False, [act("2", OTHER)], False, "ask"),
    ],
)
def test_what_may_be_done_next(
    effect: Effect, happened: bool, acts: list[Act], redo: bool, then: str
) -> None:
    assert step(effect, WORK, happened, acts, redo=redo) == then


@pytest.mark.parametrize(
    ("failed", "bare", "asking"),
    [
        (Failed("quota", "throttle", ""), True, False),
        (Failed("phase_error", "auth", ""), True, False),
        (Failed("quota", "capacity", ""), False, False),  # a gateway may have passed it on
        (Failed("timeout", "wall", ""), False, False),
        (Failed("phase_error", "not_found", "", "stopped.not_started"), True, True),
        (Failed("phase_error", "not_found", "", "http.404"), False, False),
        (Failed("planning_error", "", "", "render"), False, False),  # of its template, after the act
        (Failed("validation", "empty", ""), False, False),
        (Failed("planning_error", "", "", "own.refused"), True, True),
        (Failed("planning_error", "", "", "words.request"), False, False),
    ],
)
def test_which_failures_prove_that_nothing_happened(failed: Failed, bare: bool, asking: bool) -> None:
    assert has_not_happened(BARE, failed) is bare
    assert has_not_happened(ASKING, failed) is asking


def test_what_only_a_person_can_settle_says_so() -> None:
    assert unknown_outcome(Failed("timeout", "wall", "too long")).asks
    assert "(timeout/wall): too long" in unknown_outcome(Failed("timeout", "wall", "too long")).evidence
    assert unclear("down").asks
    assert not Failed("unknown", "", "").asks


@pytest.mark.parametrize(
    ("ended_by", "code", "printed", "answer"),
    [
        ("exit", 0, b"https://x\n", "exists"),
        ("exit", 0, b" \n", "unclear"),
        ("exit", 1, b"", "absent"),
        ("exit", 1, b"text", "absent"),
        ("exit", 2, b"", "unclear"),
        ("exit", None, b"", "unclear"),
        ("wall", None, b"", "unclear"),
        ("not_started", None, b"", "unclear"),
    ],
)
def test_what_evidence_says(ended_by: str, code: int | None, printed: bytes, answer: str) -> None:
    assert answer_of(ended_by, code, printed) == answer


@pytest.mark.parametrize(
    ("complaint", "answer"),
    [
        (Failed("unknown", "", "", "exit.bare"), "absent"),
        (Failed("unknown", "", "no page", "unplaced"), "absent"),
        (Failed("phase_error", "not_found", "404", "status.404"), "absent"),
        (Failed("phase_error", "crash", "Traceback", "words.traceback"), "unclear"),
        (Failed("phase_error", "auth", "401", "words.auth"), "unclear"),
        (Failed("unknown", "", "no host", "words.connection"), "unclear"),
    ],
)
def test_evidence_that_ends_in_1_over_some_trouble_has_not_looked(complaint: Failed, answer: str) -> None:
    assert answer_of("exit", 1, b"", complaint) == answer


def test_an_act_is_not_dated_before_what_it_followed() -> None:
    assert dated("2026-08-07T12:00:00Z", []) == "2026-08-07T12:00:00Z"
    assert dated("2026-08-07T12:00:00Z", [receipt("1")]) == "2026-08-07T12:01:00Z"
    assert dated("2026-08-07T12:02:00Z", [receipt("1")]) == "2026-08-07T12:02:00Z"


def test_what_a_person_accepts_is_no_act_unless_they_say_that_it_happened() -> None:
    assert tells_of_act(receipt("1"))
    assert not tells_of_act(receipt("1", "accepted"))
    assert tells_of_act(receipt("1", "accepted")._replace(extra={"adopted": "human"}))


def test_what_evidence_found_before_tells_nothing_of_the_act() -> None:
    assert tells_of(act(), b"x")
    assert tells_of(act()._replace(before=was_there("absent", b"")), b"x")
    assert tells_of(act()._replace(before=was_there("exists", b"w")), b"x")
    assert not tells_of(act()._replace(before=was_there("exists", b"x")), b"x")
    assert not tells_of(act()._replace(before=was_there("unclear", b"")), b"x")


def test_an_act_that_nobody_told_the_end_of_may_be_under_way_until_its_timeout() -> None:
    assert may_be_under_way([act(over=True)], None, NOW) is None
    assert may_be_under_way([act(at="2026-08-07T11:59:00Z")], 30, NOW) is None
    assert may_be_under_way([act(at="2026-08-07T11:59:00Z")], 90, NOW) == NOW + timedelta(seconds=30)
    assert may_be_under_way([act(at="2026-08-07T11:30:00Z")], None, NOW) == NOW + timedelta(minutes=30)
    assert may_be_under_way([act(at="2027-01-01T00:00:00Z")], 60, NOW) == NOW + timedelta(seconds=60)
    assert may_be_under_way([act(at="whenever")], 60, NOW) == NOW + timedelta(seconds=60)
