"""What may become an output, and what the failure says about what may not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitstate.core import check as module
from gitstate.core.check import Failure, check, schema_problem
from gitstate.core.plan import Checks, Value

ARTICLE = b"---\ntitle: A\ndate: 2026-01-02\ntags: [a]\n---\n# Text\n"
NONE = Checks()
SCHEMA: Value = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def failure(data: bytes, checks: Checks = NONE, schema: object = None) -> Failure:
    _, found = check(data, checks, schema)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_every_check_passed_is_named_in_order() -> None:
    data = b'---\n{"n": 1}\n---\n'
    assert check(data, Checks(min_bytes=1, max_bytes=99, front_matter=("n",), regex=("n",))) == (
        ["not_empty", "min_bytes", "max_bytes", "front_matter", "regex"],
        None,
    )
    assert check(b'{"n": 1}', Checks(json_schema="s.json"), SCHEMA) == (
        ["not_empty", "json", "json_schema"],
        None,
    )


def test_checks_passed_before_the_failure_are_named() -> None:
    passed, found = check(b"abc", Checks(min_bytes=1, json=True, regex=("abc",)))
    assert passed == ["not_empty", "min_bytes"]
    assert found
    assert found.kind == "json"


@pytest.mark.parametrize(
    "data",
    [b"", b" \n\t\r\n", b"\0" * 4096, b"\xef\xbb\xbf", "\u00a0\u2003\n".encode(), b"\0", b" " * 100_000],
)
def test_p7_nothing_but_white_space_is_empty(data: bytes) -> None:
    assert failure(data).kind == "empty"


def test_size_limits_say_both_numbers() -> None:
    assert failure(b"abc", Checks(min_bytes=400)) == (
        "too_small",
        "The response has 3 bytes; min_bytes is 400.",
    )
    assert failure(b"abc", Checks(max_bytes=2)) == ("too_large", "The response has 3 bytes; max_bytes is 2.")
    assert check(b"abc", Checks(min_bytes=3, max_bytes=3))[1] is None


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_front_matter_with_the_named_keys_passes(newline: bytes, start: bytes) -> None:
    data = start + ARTICLE.replace(b"\n", newline)
    assert check(data, Checks(front_matter=("title", "date", "tags")))[1] is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"# Text\n", "first line"),
        (b"\n---\ntitle: A\n---\n", "first line"),
        (b"---- \ntitle: A\n---\n", "first line"),
        (b"---\ntitle: A\n", "no end"),
        (b"---\ntitle: A\n ---\n", "no end"),
        (b"---", "no end"),
        (b"---\n---\n", "not a mapping"),
        (b"---\n- title\n---\n", "not a mapping"),
        (b"---\nother: A\n---\n", "no key 'title'"),
        (b"---\nother: A\ntitle:\n---\n", "Line 3: the front matter's 'title' is empty"),
        (b"---\ntitle: ''\n---\n", "Line 2"),
        (b"---\ntitle: ~\n---\n", "empty"),
        (b"---\ntitle: null\n---\n", "empty"),
        (b"---\ntitle: []\n---\n", "empty"),
        (b"---\ntitle: a: b\n---\n", "Line 2, column 9: not YAML"),
        (b"---\ntitle: [a\n---\n", "not YAML"),
        (b"---\nx: 1\ntitle: \xff\n---\n", "Line 3 is not UTF-8"),
        (b"---\na: &a [x]\ntitle: *a\n---\n", "Line 3: an alias"),
        (b"---\ntitle: \x01\n---\n", "not YAML"),
    ],
)
def test_front_matter_failures_say_what_and_where(data: bytes, words: str) -> None:
    found = failure(data, Checks(front_matter=("title",)))
    assert found.kind == "front_matter"
    assert words in found.message


def test_a_quoted_null_is_a_value_and_a_tag_builds_nothing() -> None:
    data = b"---\ntitle: 'null'\nwhen: 2026-99-99\nrun: !!python/object/apply:os.system [exit]\n---\n"
    assert check(data, Checks(front_matter=("title", "when", "run")))[1] is None


def test_hostile_front_matter_is_a_failure() -> None:
    bomb = b"---\na: &a [x,x]\n" + b"".join(
        b"%c: &%c [*%c,*%c]\n" % (c + 1, c + 1, c, c) for c in range(97, 120)
    )
    deep = b"---\ntitle: " + b"[" * 20_000 + b"\n---\n"
    for data in (bomb + b"---\n", deep, b"---\n" + b"title: A\n" * 100_000 + b"---\n"):
        assert failure(data, Checks(front_matter=("title",))).kind == "front_matter"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
        (b'{"a": 1', "at the end"),
        (b"sorry, I cannot", "at 'sorry, I cannot'"),
        (b'{"a": NaN}', "NaN is not"),
        (b'{"a": -Infinity}', "-Infinity is not"),
        (b'["a",\n"\xff"]', "line 2 is not UTF-8"),
        (b"1" * 10_000, "Not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a": 1} {"b": 2}', "column 10"),
    ],
)
def test_json_failures_say_what_and_where(data: bytes, words: str) -> None:
    found = failure(data, Checks(json=True))
    assert found.kind == "json"
    assert words in found.message


def test_json_may_start_with_a_byte_order_mark() -> None:
    assert check(b"\xef\xbb\xbf[1]", Checks(json=True))[1] is None


def test_a_value_against_its_schema_says_the_path() -> None:
    found = failure(b'{"n": "x"}', Checks(json_schema="s.json"), SCHEMA)
    assert found.kind == "json_schema"
    assert found.message == "At $.n: 'x' is not of type 'integer' (schema: type)."
    assert failure(b"x", Checks(json_schema="s.json"), SCHEMA).kind == "json"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "not valid"),
        ([], "not valid"),
        (None, "not valid"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "cannot be applied"),
        ({"$ref": "#/absent"}, "cannot be applied"),
        ({"$ref": "#"}, "too deeply"),
        ({"pattern": "("}, ""),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_failure_and_fetches_nothing(schema: object, words: str) -> None:
    found = failure(b'"text"', Checks(json_schema="s.json"), schema)
    assert found.kind == "json_schema"
    assert words in found.message


def test_a_million_schema_errors_are_one_short_message() -> None:
    data = json.dumps(["x"] * 200_000).encode()
    found = failure(data, Checks(json_schema="s.json"), {"items": {"type": "integer"}})
    assert len(found.message) < 500
    assert schema_problem({"items": {"type": "integer"}}) is None
    assert len(failure(data, Checks(json_schema="s.json"), {"type": "integer"}).message) < 500


def test_regexes_look_at_every_line_of_decoded_text() -> None:
    assert check("ä\n# Größe\n".encode(), Checks(regex=("^# Größe$", "ä")))[1] is None
    assert check(b"\xff\xfe# x", Checks(regex=("# x$",)))[1] is None
    assert failure(b"text", Checks(regex=("text", "^absent$"))).message == (
        "Nothing in the response matches '^absent$'."
    )
    assert "not a regular expression" in failure(b"text", Checks(regex=("(",))).message


def test_the_modules_that_cost_start_up_time_are_imported_when_needed() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from gitstate.core.check import check; from gitstate.core.plan import Checks;"
        "check(b'{}', Checks(json=True, regex=('.',)));"
        "sys.exit(bool({'yaml', 'jsonschema'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=200) | st.text(alphabet="-\n: [{&*!|>'\"?%@`a0", max_size=60).map(str.encode),
    st.booleans(),
)
def test_no_bytes_whatsoever_raise(data: bytes, fenced: bool) -> None:
    if fenced:
        data = b"---\n" + data + b"\n---\n"
    for checks in (Checks(), Checks(front_matter=("a",)), Checks(json=True), Checks(regex=("a",))):
        passed, found = check(data, checks)
        assert (found is None) == (len(passed) == 1 + (checks != Checks()))
        assert found is None or found.message.endswith(".")


def test_an_absent_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(module, "import_module", gone)
    module._validator.cache_clear()
    assert "No module named" in failure(b"1", Checks(json_schema="s"), {"type": "integer"}).message
