"""What goes to the shared log opens no doors."""

from __future__ import annotations

import pytest

from gitstate.core.redact import is_secret_name, redact

# Built here, so that no scanner takes this file for a leak.
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEF"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "proj-" + LETTERS,
        "sk-" + "ant-api03-" + LETTERS,
        "gh" + "p_" + LETTERS,
        "hf" + "_" + LETTERS,
        "AI" + "za" + LETTERS,
        "AK" + "IA" + "ABCDEFGHIJKLMNOP",
        "ey" + "J" + LETTERS + "." + LETTERS + "." + LETTERS,
    ],
)
@pytest.mark.parametrize("around", ["{}", "invalid key: {}.", '{{"error": "{}"}}', "x={}\nnext"])
def test_keys_and_tokens_are_taken_out_wherever_they_stand(secret: str, around: str) -> None:
    found = redact(around.format(secret))
    assert secret not in found
    assert "[redacted]" in found


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer [redacted]"),
        ("api_key=hunter2hunter2&x=1", "api_key=[redacted]"),
        ('"password": "correct horse"', '"password": "[redacted] horse"'),
        ("https://bob:s3cret@host/x.git", "https://[redacted]@host/x.git"),
        ("GET https://h/v1?key=q1w2e3r4t5&alt=sse", "GET https://h/v1?key=[redacted]&alt=sse"),
        ("x-goog-api-key: q1w2e3r4t5", "x-goog-api-key: [redacted]"),
    ],
)
def test_values_that_are_called_secret_are_taken_out(text: str, left: str) -> None:
    assert redact(text) == left


def test_values_of_the_environment_are_taken_out_and_short_ones_are_not_hunted() -> None:
    assert redact("bad credential zebra-zebra!", ["zebra-zebra", "bad"]) == "bad credential [redacted]!"


@pytest.mark.parametrize(
    "text",
    [
        "Rate limit reached for gpt-5-mini on tokens per min",
        "Exit code 1. No such file: content/risk-report-2026.md",
    ],
)
def test_ordinary_evidence_stays(text: str) -> None:
    assert redact(text) == text


def test_names_that_say_that_a_value_is_secret() -> None:
    assert is_secret_name("OPENAI_API_KEY")
    assert is_secret_name("GITHUB_TOKEN")
    assert not is_secret_name("PATH")
