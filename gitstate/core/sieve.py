"""Words without which a pattern cannot be found: a look for them costs a hundredth of a search.

They are read from the pattern itself, so that no rule is forgotten when it changes.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

# The parser of `re` itself, which has moved once. Where it has gone altogether every pattern is tried.
_parser: Any = None
with contextlib.suppress(ImportError):
    _parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_MOST = 8  # words that are spelled out
_RARE = 5  # characters from which on a longer word is no rarer in practice
_COMMON = frozenset(
    {"limit", "limited", "quota", "request", "requests", "token", "tokens"}
)  # in most messages

# What `re.IGNORECASE` takes for i and s beside what `lower` does.
_FOLDED = {"\u0130": "i", "\u0131": "i", "\u017f": "s"}


def fold(text: str) -> str:
    """`text`, as long as it was, in lower case: the one in which `re.IGNORECASE` compares ASCII letters."""
    if not text.isascii():
        for letter, other in _FOLDED.items():
            text = text.replace(letter, other)
    return text.lower()


class Sieve:
    """Patterns joined by "or", all in lower case, of which only those are tried whose words a text holds.

    A pattern may be of several parts that must all be found. Each is compiled when it is first tried; most never are.
    """

    __slots__ = ("_by_word", "_compiled", "patterns")

    def __init__(self, *patterns: str | tuple[str, ...]) -> None:
        self.patterns = [(pattern,) if isinstance(pattern, str) else pattern for pattern in patterns]
        self._compiled: list[tuple[re.Pattern[str], ...]] = [()] * len(patterns)
        self._by_word: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def search(self, folded: str) -> bool:
        """Whether one of the patterns is found in a text of `fold`."""
        for word, numbers in self._by_word or self._read():
            if word in folded:
                for number in numbers:
                    if self._at(number, folded) >= 0:
                        return True
        return False

    def start(self, folded: str) -> int:
        """Where the first begins of those that are found, one of several parts at 0; -1 if none is."""
        by_word = self._by_word or self._read()
        found = [self._at(number, folded) for word, some in by_word if word in folded for number in some]
        return min((at for at in found if at >= 0), default=-1)

    def _read(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The patterns by a word that they need; by none, which stands in every text, where nothing can be said."""
        by_word: dict[str, list[int]] = {}
        for number, parts in enumerate(self.patterns):
            for word in sorted(_rarest(map(needs, parts))) or ("",):
                by_word.setdefault(word, []).append(number)
        self._by_word = tuple((word, tuple(numbers)) for word, numbers in by_word.items())
        return self._by_word

    def _at(self, number: int, folded: str) -> int:
        parts = self._compiled[number]
        if not parts:
            parts = self._compiled[number] = tuple(map(re.compile, self.patterns[number]))
        match = parts[0].search(folded)
        if match is None:
            return -1
        if len(parts) == 1:
            return match.start()
        return 0 if all(part.search(folded) for part in parts[1:]) else -1


def gate(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    """Whether `pattern` may be found in a text, which must be one of `fold` where case does not count."""
    needed: tuple[str, ...] = ()

    def may(text: str) -> bool:
        nonlocal needed
        if not needed:
            needed = tuple(sorted(needs(pattern.pattern, pattern.flags))) or ("",)
        for word in needed:  # noqa: SIM110 (four times as fast as any() with a generator)
            if word in text:
                return True
        return False

    return may


def needs(pattern: str, flags: int = 0) -> frozenset[str]:
    """Words of which every text holds one in which `pattern` is found, folded where case does not count.

    Empty where nothing can be said.
    """
    if _parser is None:
        return frozenset()
    parsed = _parser.parse(pattern, flags)
    return _of_sequence(parsed, bool(parsed.state.flags & re.IGNORECASE))


def _of_sequence(parsed: Iterable[tuple[Any, Any]], folds: bool) -> frozenset[str]:
    """The rarest of what the parts of a sequence need, as all of them are needed."""
    found: list[frozenset[str]] = []
    runs = [""]  # what the last parts spell, one behind another
    for code, value in parsed:
        if code.name in ("AT", "ASSERT_NOT"):  # which stand between characters
            continue
        spelled = _spelled(code.name, value, folds)
        if len(spelled) != 1:
            found += [frozenset(runs), _of_part(code.name, value, folds)]
        runs = [run + word for run in runs for word in spelled] if len(spelled) * len(runs) <= _MOST else []
        runs = runs or [""]
    return _rarest([*found, frozenset(runs)])


def _spelled(code: str, value: Any, folds: bool) -> list[str]:
    """All that a part of a pattern can be found as; empty where that is not a few words."""
    if code == "LITERAL" and _has_one_form(chr(value), folds):
        return [fold(chr(value)) if folds else chr(value)]
    if code == "SUBPATTERN" and not value[1] and not value[2]:
        words = [""]
        for inner, what in value[3]:
            ends = _spelled(inner.name, what, folds)
            if not ends or len(words) * len(ends) > _MOST:
                return []
            words = [word + end for word in words for end in ends]
        return words
    if code in ("IN", "BRANCH"):
        each = value if code == "IN" else [(_parser.SUBPATTERN, (None, 0, 0, branch)) for branch in value[1]]
        spelled = [_spelled(inner.name, what, folds) for inner, what in each]
        return [word for some in spelled for word in some] if all(spelled) else []
    return []


def _of_part(code: str, value: Any, folds: bool) -> frozenset[str]:
    if code == "BRANCH":
        each = [_of_sequence(branch, folds) for branch in value[1]]
        return frozenset().union(*each) if all(each) else frozenset()
    if code == "SUBPATTERN" and not value[1] and not value[2]:  # without flags of its own
        return _of_sequence(value[3], folds)
    if code in ("MAX_REPEAT", "MIN_REPEAT") and value[0] > 0:
        return _of_sequence(value[2], folds)
    return _of_sequence(value[1], folds) if code == "ASSERT" else frozenset()


def _has_one_form(letter: str, folds: bool) -> bool:
    return not folds or letter.isascii() or letter.lower() == letter.upper()


def _rarest(each: Iterable[frozenset[str]]) -> frozenset[str]:
    return max((words for words in each if words and all(words)), key=_rarity, default=frozenset())


def _rarity(words: frozenset[str]) -> float:
    least = min(1 if word in _COMMON else len(word) if len(word) > 2 else len(word) - 3 for word in words)
    return min(least, _RARE) - len(words) * 0.4
