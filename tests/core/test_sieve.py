"""What is looked for before a pattern is tried lets through every text in which the pattern is found."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitstate.core import clock, offers, redact, rules, speech, unwrap, waits, words
from gitstate.core.rules import Rule
from gitstate.core.sieve import Sieve, fold, gate, needs

RULES: list[Rule] = [*rules.TOKENS, *rules.ENDINGS, *words.ANNOUNCED, words.CONNECTION, words.CRASH]
RULES.append(words.BILLING_ADVICE)
SIEVES = [
    *((rule.id, rule.pattern) for rule in RULES),
    ("long", words.LONG),
    ("offers", offers._WORTH_LOOKING),
]
PATTERNS = [part for _, each in SIEVES for parts in each.patterns for part in parts]
GATED = [
    pattern
    for module in (clock, offers, redact, speech, unwrap, waits)
    for pattern in vars(module).values()
    if isinstance(pattern, re.Pattern)
]


def test_every_rule_is_in_lower_case_like_the_texts_that_it_is_tried_on() -> None:
    for pattern in PATTERNS:
        said = re.sub(r"\\[A-Za-z]", "", pattern)
        assert said == fold(said), pattern


def test_every_rule_needs_some_word() -> None:
    assert [pattern for pattern in PATTERNS if not needs(pattern)] == []


@pytest.mark.parametrize(("name", "each"), SIEVES, ids=[name for name, _ in SIEVES])
@settings(max_examples=20)
@given(data=st.data())
def test_a_sieve_finds_what_its_patterns_find(name: str, each: Sieve, data: st.DataObject) -> None:
    parts = data.draw(st.sampled_from(each.patterns))
    found = [fold(data.draw(st.from_regex(part))) for part in parts]
    text = data.draw(st.sampled_from(["", "a ", "not your "])) + " ".join(found)
    starts = [
        0 if len(patterns) > 1 else re.search(patterns[0], text).start()  # type: ignore[union-attr]
        for patterns in each.patterns
        if all(re.search(pattern, text) for pattern in patterns)
    ]
    assert each.search(text) == bool(starts)
    assert each.start(text) == min(starts, default=-1)


@pytest.mark.parametrize("pattern", GATED, ids=range(len(GATED)))
@settings(max_examples=20)
@given(data=st.data())
def test_no_gate_is_closed_before_what_a_pattern_finds(pattern: re.Pattern[str], data: st.DataObject) -> None:
    text = data.draw(st.from_regex(pattern))
    assert gate(pattern)(fold(text) if pattern.flags & re.IGNORECASE else text)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"rate[- ]?limit", {"rate"}),
        (r"\b(?:sk|pk)-\w{9}", {"sk-", "pk-"}),
        (r"(?:busy|full) (?:x|y)?", {"busy ", "full "}),
        (r"(?i)Retry(?=ing)", {"retry"}),
        (r"a*", set()),
        (r"(?:word|\d)", set()),
        (r"(?:word)?\d(?!other)", set()),
        (r"(?i:word)", set()),
    ],
)
def test_the_words_that_a_pattern_needs_are_read_from_it(pattern: str, words: set[str]) -> None:
    assert needs(pattern) == words


def test_folded_letters_are_those_that_count_as_the_same() -> None:
    for letter in string.ascii_lowercase:
        same = [sign for sign in map(chr, range(0x11_000)) if re.fullmatch(letter, sign, re.IGNORECASE)]
        assert {fold(sign) for sign in same} == {letter}
    assert all(len(fold(sign)) == 1 for sign in map(chr, range(0x11_000)))
