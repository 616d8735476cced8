"""Own rules of failure: understood or refused with their place, and fitted without regular expressions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core import validate
from gitstate.core.ownrules import OwnRule, Seen, fits, own
from gitstate.errors import ConfigError
from tests.core.test_workflow import config

RULE: dict[str, Any] = {"id": "full", "when": {"exit": 3}, "category": "quota", "kind": "capacity"}


def read(*rules: Any) -> tuple[OwnRule, ...]:
    return validate.workflow(config(rules=list(rules)), {}, "gitstate.yaml").rules


def problems(*rules: Any, places: dict[Any, int] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        validate.workflow(config(rules=list(rules)), places or {}, "gitstate.yaml")
    return str(caught.value)


def test_a_rule_is_read_as_it_is_written() -> None:
    when = {
        "exit": [3, 4],
        "status": 418,
        "stderr": "no slots*left",
        "header": {"X-House": ["full", "shut"]},
        "code": "house_*",
    }
    (rule,) = read({**RULE, "when": when, "wait": "5m"})
    assert rule == OwnRule(
        "full",
        (
            ("exit", (3, 4)),
            ("status", (418,)),
            ("code", ("house_*",)),
            ("stderr", ("no slots*left",)),
            ("header.x-house", ("full", "shut")),
        ),
        "quota",
        "capacity",
        300.0,
    )
    assert read() == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"when": {"exitt": 3}}, "Did you mean 'exit'?"),
        ({"when": {}}, "would fit everything"),
        ({"when": {"exit": "three"}}, "rules[0].when.exit must be a whole number"),
        ({"when": {"stderr": "/no .* left/"}}, "looks like a regular expression"),
        ({"when": {"header": {"x": "/^a/i"}}}, "looks like a regular expression"),
        ({"category": "qouta"}, "Did you mean 'quota'?"),
        ({"kind": "throtle"}, "has no kind 'throtle'. Did you mean 'throttle'?"),
        ({"category": "unknown"}, "has no kind 'capacity'. Remove it."),
        ({"kind": "billing", "wait": "5m"}, "billing has none"),
        ({"category": "timeout", "kind": "wall", "wait": "5m"}, "Only a quota has a wait"),
        ({"wait": "soon"}, "A duration is written like"),
        ({"id": "a b"}, "cannot be used"),
        ({"idd": "x"}, "Did you mean 'id'?"),
    ],
)
def test_a_mistake_in_a_rule_is_named(change: dict[str, Any], message: str) -> None:
    assert message in problems({**RULE, **change})


@pytest.mark.parametrize("key", ["id", "when", "category", "kind"])
def test_what_a_rule_needs_is_asked_for(key: str) -> None:
    assert key in problems({name: RULE[name] for name in RULE if name != key})


def test_rules_are_told_apart_and_mistakes_have_their_line() -> None:
    assert "two rules 'full'" in problems(RULE, RULE)
    found = problems({**RULE, "kind": "x"}, places={("rules", 0, "kind"): 12})
    assert found.startswith("gitstate.yaml:12: ")
    with pytest.raises(ConfigError, match="rules must be a list"):
        validate.workflow(config(rules={}), {}, "gitstate.yaml")


@pytest.mark.parametrize(
    ("pattern", "text", "whole", "is_found"),
    [
        ("no slots", "trace\nERROR: No Slots left", False, True),
        ("no*left", "no slots left", False, True),
        ("no*left", "left, no slots", False, False),
        ("no*left", "no slots\nleft", False, False),
        ("*", "", False, False),
        ("a.c", "abc", False, False),
        ("RateLimitError", "rate_limit_error", True, True),
        ("rate_limit", "rate_limit_error", True, False),
        ("rate*", "rate_limit_error", True, True),
        ("*error", "rate_limit_error", True, True),
        ("rate*error", "rate_limit_error", True, True),
        ("rate_limit_error*rate_limit_error", "rate_limit_error", True, False),
        ("*", "anything", True, True),
    ],
)
def test_a_pattern_is_text_with_stars(pattern: str, text: str, whole: bool, is_found: bool) -> None:
    assert fits(pattern, text, whole) is is_found


@given(st.text("ab*", max_size=30), st.text("ab", max_size=60), st.booleans())
def test_any_pattern_is_answered(pattern: str, text: str, whole: bool) -> None:
    assert fits(pattern, text, whole) in (True, False)


def test_the_first_rule_that_fits_counts_and_all_it_names_must_hold() -> None:
    rules = read(
        {**RULE, "id": "a", "when": {"exit": 3, "stdout": "x"}},
        {**RULE, "id": "b", "when": {"tool": ["gen", "llm"]}},
    )
    assert own(rules, Seen(exit=3, stdout="y")) is None
    found = own(rules, Seen(exit=3, stdout="x", tool="llm"))
    assert found is not None
    assert found.id == "a"
    assert own(rules, Seen(exit=3, tool="llm")) == rules[1]


def test_a_hostile_pattern_is_no_slower_than_reading() -> None:
    assert not fits("*".join("a" * 2000) + "b", "a" * 100_000)
