"""Values: one form for equal text, an encoding that JSON can carry, and nothing else."""

from __future__ import annotations

import json
import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core import values

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text("abé", max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(plain)
def test_normal_values_stay_as_they_are_and_survive_json(value: object) -> None:
    normal = values.normal(value)
    assert values.normal(normal) == normal
    assert json.loads(values.canonical(normal)) == normal


@given(plain)
def test_equal_text_in_other_unicode_forms_has_the_same_bytes(value: object) -> None:
    def decomposed(value: object) -> object:
        if isinstance(value, str):
            return unicodedata.normalize("NFD", value)
        if isinstance(value, list):
            return [decomposed(entry) for entry in value]
        if isinstance(value, dict):
            return {decomposed(key): decomposed(entry) for key, entry in reversed(value.items())}
        return value

    assert values.canonical(values.normal(decomposed(value))) == values.canonical(values.normal(value))


def test_canonical_bytes_are_sorted_without_spaces_in_utf8() -> None:
    value = values.normal({"b": [1, 2.5, True, None], "a": "e\u0301\n", "ä": {}, "B": 1e16})
    assert values.canonical(value) == '{"B":1e+16,"a":"é\\n","b":[1,2.5,true,null],"ä":{}}'.encode()


def test_minus_zero_is_zero_and_tuples_are_lists() -> None:
    assert math.copysign(1, values.normal(-0.0)) == 1  # type: ignore[arg-type]
    assert values.normal((1, ("a",))) == [1, ["a"]]


def test_true_and_one_differ() -> None:
    assert values.canonical(values.normal([True, 1, 1.0])) == b"[true,1,1.0]"


def nested(depth: int) -> object:
    value: object = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "finite"),
        (-math.inf, "finite"),
        ("a\ud800", "surrogate"),
        ({"a\udc00": 1}, "surrogate"),
        (10**400, "digits"),
        (b"bytes", "bytes"),
        ({1: 2}, "not text"),
        ({"\u00e9": 1, "e\u0301": 2}, "the same"),
        (nested(values.MAX_DEPTH + 1), "nested"),
        ({"a": nested(values.MAX_DEPTH)}, "nested"),
        ({"a": [object()]}, "object"),
    ],
)
def test_what_a_plan_cannot_hold_is_refused_by_name(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        values.normal(value)


def test_the_deepest_nesting_is_accepted() -> None:
    deepest = values.normal(nested(values.MAX_DEPTH))
    assert values.canonical(deepest) == b"[" * values.MAX_DEPTH + b"]" * values.MAX_DEPTH


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("10m", 600), ("4h", 14400), ("14d", 1209600), ("1.5h", 5400), ("30", 30), (90, 90),
        (0.5, 0.5), ("10 m", 600), (0, 0),
    ],
)  # fmt: skip
def test_durations_are_seconds(text: object, seconds: float) -> None:
    assert values.duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", "m", "10 min", "-5s", "1h30m", "١s", "9" * 400 + "d", "10001d", None, True, -1, math.nan,
        math.inf, 10**400, [1],
    ],
)  # fmt: skip
def test_other_durations_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        values.duration(text)
