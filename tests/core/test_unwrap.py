"""Errors are found inside of what they are wrapped in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core.unwrap import objects, of_object, of_text, status_in, words

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc'\"\\{", max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text("abc'\"", min_size=1, max_size=4), PLAIN, min_size=1, max_size=4))
def test_objects_are_read_in_both_languages(value: dict[str, Any]) -> None:
    assert objects(f"Error code: 429 - {value!r} and more") == [value]
    assert objects(f"API Error: 429 {json.dumps(value)} and more") == [value]


@given(st.text("{}[]()'\"\\,:abN1 \n", max_size=80))
def test_any_text_has_objects_or_none(text: str) -> None:
    assert isinstance(objects(text), list)


@pytest.mark.parametrize(
    "text",
    [
        "{'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}",
        '{"error": {"type": "overloaded_error", "mess',
        "{ error: { type: 'overloaded_error', message: 'Overloaded' } }",
        json.dumps({"message": json.dumps({"error": {"type": "overloaded_error"}})}),
        json.dumps({"detail": "{'error': {'type': 'overloaded_error'}}"}),
        "b'" + '{"error":{"type":"overloaded_error"}}' + "'",
    ],
)
def test_a_code_is_found_whole_or_broken(text: str) -> None:
    found = of_text(f"Error: {text}")
    assert "overloaded_error" in (*found.codes, *found.types)


@pytest.mark.parametrize(
    ("token", "form"),
    [
        ("RateLimitError", "rate_limit_error"),
        ("RESOURCE_EXHAUSTED", "resource_exhausted"),
        ("com.amazon.coral.service#ThrottlingException", "throttling_exception"),
        ("ThrottlingException:http://internal.amazon.com/coral/", "throttling_exception"),
        ("ResponsibleAIPolicyViolation", "responsible_ai_policy_violation"),
        ("Throttling.RateQuota", "throttling_rate_quota"),
        ("rate-limit", "rate_limit"),
    ],
)
def test_names_have_one_form(token: str, form: str) -> None:
    assert words(token) == form


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("API Error: Request rejected (429)", 429),
        ("last status: 429 Too Many Requests", 429),
        ("HTTP/1.1 503 Service Unavailable", 503),
        ("Error code: 402 - {}", 402),
        ("requests.exceptions.HTTPError: 404 Client Error: Not Found for url", 404),
        ("status=529", 529),
        ("line 429 of 500", None),
        ("used 500 tokens", None),
        ("error 429.5", None),
        ("It took 503 ms", None),
    ],
)
def test_a_status_is_one_where_it_is_called_one(text: str, status: int | None) -> None:
    assert status_in(text) == status


def test_what_a_model_wrote_is_no_part_of_an_error() -> None:
    found = of_object(
        {"error": {"message": "x"}, "choices": [{"message": {"content": "insufficient_quota"}}]}
    )
    assert found.message == "x"
