"""A repository's own rules of failure (`rules:` in gitstate.yaml): reading them, and asking them.

Patterns are plain text with `*` for anything within a line, never regular expressions: those of a hostile
repository could keep the classifier busy for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional, Union

from gitstate.core.problems import nearest, quoted
from gitstate.core.verdict import STATES

if TYPE_CHECKING:
    from gitstate.core.schema import At, Reader

_LOOK = 65_536  # characters of a stream that are looked at, from its start and from its end
_NUMBERS = ("exit", "status")
_TEXTS = ("code", "type", "tool", "message", "stdout", "stderr")
_WHOLE = ("code", "type", "tool")  # to be fitted as a whole; the others anywhere in a line
_KEYS = ("id", "when", "category", "kind", "wait")
_REGEX = re.compile(r"/.*(?:[\\\[\](){}|^$+?]|\.\*).*/[a-z]*")

Wanted = tuple[Union[int, str], ...]


class OwnRule(NamedTuple):
    """If everything in `when` holds, it is this."""

    id: str
    when: tuple[tuple[str, Wanted], ...]  # what is looked at (`header.NAME` for a header), and what it may be
    category: str
    kind: str = ""
    wait: Optional[float] = None  # seconds


class Seen(NamedTuple):
    """What rules look at."""

    exit: Optional[int] = None
    status: Optional[int] = None
    codes: tuple[str, ...] = ()  # as unwrap.words has them
    types: tuple[str, ...] = ()
    message: str = ""
    stdout: str = ""
    stderr: str = ""
    headers: Mapping[str, str] = {}  # names in lower case
    tool: str = ""


def own(rules: Sequence[OwnRule], seen: Seen) -> Optional[OwnRule]:
    """The first of `rules` that fits."""
    return next(
        (rule for rule in rules if all(_holds(name, wanted, seen) for name, wanted in rule.when)), None
    )


def _holds(name: str, wanted: Wanted, seen: Seen) -> bool:
    if name in _NUMBERS:
        return (seen.exit if name == "exit" else seen.status) in wanted
    whole = name in _WHOLE
    return any(fits(str(pattern), text, whole) for pattern in wanted for text in _texts(name, seen))


def _texts(name: str, seen: Seen) -> Sequence[str]:
    if name.startswith("header."):
        value = seen.headers.get(name.removeprefix("header."))
        return () if value is None else (value,)
    if name in ("code", "type"):
        return seen.codes if name == "code" else seen.types
    text = {"message": seen.message, "stdout": seen.stdout, "stderr": seen.stderr, "tool": seen.tool}[name]
    return (text,) if len(text) <= 2 * _LOOK else (text[:_LOOK], text[-_LOOK:])


def fits(pattern: str, text: str, whole: bool = False) -> bool:
    """Whether `pattern` is found in a line of `text`, or is the `whole` of a name; case does not count.

    Each part between stars is looked for behind the one before, so the time is that of reading the text once.
    Names are compared by their words: `RateLimitError` is `rate_limit_error`.
    """
    if not whole:
        parts = pattern.lower().split("*")
        return any(_follow(parts, line) for line in text.lower().splitlines())
    from gitstate.core.unwrap import words

    parts = [words(part) for part in pattern.split("*")]
    name = words(text)
    if len(parts) == 1:
        return parts[0] == name
    if not (
        name.startswith(parts[0]) and name.endswith(parts[-1]) and len(name) >= len(parts[0]) + len(parts[-1])
    ):
        return False
    return _follow(parts[1:-1], name[len(parts[0]) : len(name) - len(parts[-1])])


def _follow(parts: Sequence[str], text: str) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def read(reader: Reader, value: object, at: At) -> Optional[tuple[OwnRule, ...]]:
    """The rules in `rules:`; notes every mistake."""
    entries = reader.sequence(value, at)
    if entries is None:
        return None
    found = [_rule(reader, entry, (*at, number)) for number, entry in enumerate(entries)]
    seen: set[str] = set()
    for number, rule in enumerate(found):
        if rule is not None and rule.id in seen:
            reader.wrong((*at, number), f"There are two rules {quoted(rule.id)}.", "Rename or remove one.")
        seen.add(rule.id if rule is not None else "")
    return tuple(rule for rule in found if rule is not None)


def _rule(reader: Reader, value: object, at: At) -> Optional[OwnRule]:
    rule = reader.mapping(value, at)
    if rule is None:
        return None
    reader.known(rule, at, _KEYS)
    for key, hint in (
        ("id", "Verdicts name the rule by it."),
        ("when", "Say what it looks at, such as `when: {exit: 3}`."),
        ("category", f"One of {', '.join(STATES)}."),
    ):
        if key not in rule:
            reader.wrong(at, f"The rule has no '{key}'.", hint)
    id = reader.get(rule, "id", at, reader.text) or ""
    if id and not re.fullmatch(r"[\w.-]{1,100}", id):
        reader.wrong(
            (*at, "id"), f"The id {quoted(id)} cannot be used.", "Use letters, digits, '.', '_' and '-'."
        )
    category = (
        reader.get(rule, "category", at, lambda given, here: reader.one_of(given, here, tuple(STATES))) or ""
    )
    kind = _kind(reader, rule, category, at)
    wait = reader.get(rule, "wait", at, reader.seconds)
    if wait is not None and category and (category != "quota" or kind == "billing"):
        reader.wrong((*at, "wait"), "Only a quota has a wait, and billing has none.", "Remove it.")
    when = reader.get(rule, "when", at, reader.mapping)
    return OwnRule(id, _when(reader, when, (*at, "when")) if when is not None else (), category, kind, wait)


def _kind(reader: Reader, rule: Mapping[str, object], category: str, at: At) -> str:
    kinds = [kind for kind in STATES.get(category, ()) if kind]
    if "kind" not in rule:
        if kinds:
            reader.wrong(
                at, f"A rule of the category '{category}' needs a kind.", f"One of {', '.join(kinds)}."
            )
        return ""
    kind = reader.text(rule["kind"], (*at, "kind")) or ""
    if kind and category and kind not in kinds:
        hint = nearest(kind, kinds) if kinds else "Remove it."
        reader.wrong((*at, "kind"), f"The category '{category}' has no kind {quoted(kind)}.", hint)
        return ""
    return kind


def _when(reader: Reader, when: Mapping[str, object], at: At) -> tuple[tuple[str, Wanted], ...]:
    reader.known(when, at, (*_NUMBERS, *_TEXTS, "header"))
    if not when:
        reader.wrong(at, "A rule with nothing under 'when' would fit everything.", "Say what it looks at.")
    found: list[tuple[str, Wanted]] = []
    for name in _NUMBERS:
        numbers = reader.get(when, name, at, lambda value, here: reader.several(value, here, reader.count))
        if numbers is not None:
            found.append((name, numbers))
    for name in _TEXTS:
        texts = reader.get(when, name, at, lambda value, here: _patterns(reader, value, here))
        if texts is not None:
            found.append((name, texts))
    headers = reader.get(when, "header", at, reader.mapping) or {}
    for name in headers:
        texts = _patterns(reader, headers[name], (*at, "header", name))
        if texts is not None:
            found.append((f"header.{name.lower()}", texts))
    return tuple(found)


def _patterns(reader: Reader, value: object, at: At) -> Optional[tuple[str, ...]]:
    return reader.several(value, at, lambda entry, here: _pattern(reader, entry, here))


def _pattern(reader: Reader, value: object, at: At) -> Optional[str]:
    text = reader.text(value, at)
    if text and _REGEX.fullmatch(text):
        hint = "Write the text to look for, with * for anything between."
        reader.wrong(at, f"{quoted(text)} looks like a regular expression, which rules do not have.", hint)
        return None
    return text
