"""YAML by the core rules of version 1.2, with both of PyYAML's parsers."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gitstate.edge import yaml12
from gitstate.errors import ConfigError


def pure_parser() -> ModuleType:
    """The module as it is where PyYAML was built without its C library."""
    spec = importlib.util.find_spec("gitstate.edge.yaml12")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(yaml, "CSafeLoader", raising=False)
        spec.loader.exec_module(module)
    assert module._Loader.__mro__[1] is yaml.SafeLoader
    return module


PURE = pure_parser()
both = pytest.mark.parametrize("parser", [yaml12, PURE], ids=["c", "pure"])


def value(parser: Any, text: str) -> object:
    document = parser.parse(text, "f.yaml")
    found = None if document.root is None else document.value(document.root)
    if document.problems:
        raise ConfigError(document.problems)
    return found


def problem(parser: Any, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        value(parser, text)
    return str(caught.value)


@both
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("no", "no"), ("on", "on"), ("yes", "yes"), ("y", "y"), ("off", "off"), ("True", True),
        ("FALSE", False), ("tRue", "tRue"), ("null", None), ("Null", None), ("~", None), ("", None),
        ("nULL", "nULL"), ("~a", "~a"), ("1", 1), ("-1", -1), ("+1", 1), ("007", 7), ("0o17", 15),
        ("0O17", "0O17"), ("-0o17", "-0o17"), ("0x1F", 31), ("0b1", "0b1"), ("1_000", "1_000"),
        ("1,000", "1,000"), ("12:30", "12:30"), ("190:20:30", "190:20:30"), ("2026-08-07", "2026-08-07"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"), ("1.5", 1.5), (".5", 0.5),
        ("1.", 1.0), ("1e3", 1000.0), ("1.5E-3", 0.0015), ("-0.0", 0.0), ("1e", "1e"), (".", "."),
        ("-", [None]), ("+", "+"), (".e1", ".e1"), ("=", "="), ("- a", ["a"]), ("--- a", "a"),
        ("'1'", "1"), ('"null"', "null"), ("|\n  1\n", "1\n"), ("!!str 1", "1"), ("!!str", ""),
        ("!!int '12'", 12), ("!!float 1", 1.0), ("!!null ''", None), ("!!bool 'true'", True),
        ("!!map {a: 1}", {"a": 1}), ("!!seq [a]", ["a"]), ("{no: yes}", {"no": "yes"}),
        ("'<<': 1", {"<<": 1}), ("&a [1]", [1]), ("e\u0301", "é"), ("{e\u0301: 1}", {"é": 1}),
        ("&a x: *a", {"x": "x"}), ("'1': 2", {"1": 2}),
        ("a: &b {c: 1}\nd: *b", {"a": {"c": 1}, "d": {"c": 1}}),
    ],
)  # fmt: skip
def test_scalars_mean_what_the_core_rules_say(parser: Any, text: str, meant: object) -> None:
    found = value(parser, text)
    assert found == meant
    assert type(found) is type(meant)


@both
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3", 3, "'a' is there twice"),
        ("a: 1\n\u00e9: 2\ne\u0301: 3", 3, "'é' is there twice"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, "Merge keys"),
        ("a: .inf", 1, "finite"),
        ("a:\n- -.INF", 2, "finite"),
        ("a: .NaN", 1, "finite"),
        ("a: 1e999", 1, "finite"),
        ("a: " + "9" * 350, 1, "300 digits"),
        ("a: " + "9" * 5000, 1, "300 digits"),
        ("a: 0x" + "f" * 5000, 1, "300 digits"),
        ("1: a", 1, "The key '1' is not text"),
        ("true: a", 1, "Put it in quotes"),
        ("? [a]\n: b", 1, "A key must be text"),
        ("a:\n  !!python/object:os.system x", 2, "'!!python/object:os.system'"),
        ("a: !foo x", 1, "The tag '!foo'"),
        ("a: !foo [x]", 1, "The tag '!foo'"),
        ("a: !!omap [x]", 1, "'!!omap'"),
        ("a: !!set {x}", 1, "'!!set'"),
        ("a: !!timestamp 2026-01-01", 1, "'!!timestamp'"),
        ("a: !!binary aGk=", 1, "'!!binary'"),
        ("a: !!int x", 1, "!!int"),
        ("a: !!int 1.5", 1, "!!int"),
        ("a: !!bool yes", 1, "!!bool"),
        ("a: 1\n---\nb: 2", 2, "Keep one document"),
        ("a:\n\tb: 1", 2, "tab"),
        ("a: 1\nb: [", 2, "not YAML"),
        ("a: @x", 1, "quotes"),
        ("output: [a/{slug}, b]", 1, "Put paths with {placeholders} in quotes here."),
        ("output: {slug}.md", 1, "Put paths with {placeholders} in quotes here."),
        ("a: *nowhere", 1, "undefined alias"),
        ("a: 1\nb: \x07", 2, "U+0007"),
        ("&a [*a]", 1, "a part of"),
        ("x:\n  &a\n  b: {c: *a}", 2, "a part of"),
        ("[" * 101 + "]" * 101, 1, "nested deeper than 100"),
        ("[" * 100_000, 1, ""),
        ("{a: " * 101 + "1" + "}" * 101, 1, "nested deeper than 100"),
    ],
)  # fmt: skip
def test_mistakes_have_their_line(parser: Any, text: str, line: int, words: str) -> None:
    said = problem(parser, text)
    assert said.startswith(f"f.yaml:{line}: ")
    assert words in said


@both
def test_a_billion_laughs_are_refused(parser: Any) -> None:
    lines = ["a0: &a0 [" + "lol, " * 9 + "lol]"]
    lines += [f"a{n}: &a{n} [" + f"*a{n - 1}, " * 9 + f"*a{n - 1}]" for n in range(1, 10)]
    assert "Aliases make more than" in problem(parser, "\n".join(lines))


@both
def test_a_large_file_with_both_signs_is_not_taken_for_an_attack(parser: Any) -> None:
    assert value(parser, "a: R&D *\nb: &x text\nc: *x\n") == {"a": "R&D *", "b": "text", "c": "text"}


@both
def test_places_have_the_line_of_every_value(parser: Any) -> None:
    document = parser.parse("a:\n  b: [1,\n    2]\n\nc: x\n", "f.yaml")
    places: dict[tuple[object, ...], int] = {}
    assert document.value(document.root, (), places) == {"a": {"b": [1, 2]}, "c": "x"}
    assert places == {("a",): 1, ("a", "b"): 2, ("a", "b", 0): 2, ("a", "b", 1): 3, ("c",): 5}


@both
def test_nothing_is_no_document(parser: Any) -> None:
    assert parser.parse("# only words\n", "f.yaml").root is None


def told(error: ConfigError) -> None:
    """An error that can be printed and says something."""
    assert error.problems
    assert str(error).encode()


@given(st.text(st.sampled_from("ab:-[]{}&*!<'\"\n ?,|>#%@~.1e0xotn\\uU\t\x85\u2028é"), max_size=40))
@example('"\\U99999999"')
@example('"\\ud800"')
@example("%YAML 99999999999999999999.1\n--- a")
def test_p6_any_text_gives_values_or_config_error(text: str) -> None:
    for parser in (yaml12, PURE):
        try:
            value(parser, text)
        except ConfigError as error:
            told(error)
