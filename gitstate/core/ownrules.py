"""A repository's own rules of failure (`rules:` in gitstate.yaml): reading them, and asking them.

Patterns are plain text with `*` for anything within a line, never regular expressions: those of a hostile
repository could keep the classifier busy for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional, Union

_LOOK = 65_536  # characters of a stream that are looked at, from its start and from its end


class OwnRule(NamedTuple):
    """If everything in `when` holds, it is this."""

    id: str
    when: tuple[tuple[str, tuple[Union[int, str], ...]], ...]  # what is looked at, and what it may be
    category: str
    kind: str = ""
    wait: Optional[float] = None  # seconds


class Seen(NamedTuple):
    """What rules look at."""

    exit: Optional[int] = None
    status: Optional[int] = None
    codes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    message: str = ""
    stdout: str = ""
    stderr: str = ""
    headers: Mapping[str, str] = {}
    tool: str = ""


def own(rules: Sequence[OwnRule], seen: Seen) -> Optional[OwnRule]:
    """The first of `rules` that fits."""
    return next(
        (rule for rule in rules if all(_holds(name, wanted, seen) for name, wanted in rule.when)), None
    )


def _holds(name: str, wanted: tuple[Union[int, str], ...], seen: Seen) -> bool:
    if name == "exit":
        return seen.exit in wanted
    if name == "status":
        return seen.status in wanted
    texts = _texts(name, seen)
    whole = name in ("code", "type", "tool")
    return any(fits(str(pattern), text, whole) for pattern in wanted for text in texts)


def _texts(name: str, seen: Seen) -> Sequence[str]:
    if name.startswith("header."):
        value = seen.headers.get(name.removeprefix("header."))
        return () if value is None else (value,)
    if name == "code":
        return seen.codes
    if name == "type":
        return seen.types
    text = {"message": seen.message, "stdout": seen.stdout, "stderr": seen.stderr, "tool": seen.tool}[name]
    return (text,) if len(text) <= 2 * _LOOK else (text[:_LOOK], text[-_LOOK:])


def fits(pattern: str, text: str, whole: bool) -> bool:
    """Whether `pattern` is found in a line of `text`, or is all of it; case does not count.

    One pass over the text: each part between stars is looked for behind the last.
    """
    if whole:
        from gitstate.core.unwrap import words

        return _line(pattern.lower(), text.lower(), True) or _line(
            "*".join(map(words, pattern.split("*"))), text.lower(), True
        )
    return any(_line(pattern.lower(), line, False) for line in text.lower().splitlines())


def _line(pattern: str, line: str, whole: bool) -> bool:
    parts = pattern.split("*")
    if whole and len(parts) == 1:
        return pattern == line
    at = 0
    for number, part in enumerate(parts):
        found = line.find(part, at)
        if found < 0 or (whole and number == 0 and found > 0):
            return False
        at = found + len(part)
    return not whole or (line.endswith(parts[-1]) and len(line) >= sum(map(len, parts)))
