"""How mistakes in the user's own files are worded: what was found, what was meant, not too much."""

from __future__ import annotations

from collections.abc import Iterable

from gitstate.errors import ConfigError, Problem

_SHOWN = 100  # mistakes in one report


def quoted(text: str) -> str:
    """`text` in quotes, on one line, cut where it is long; safe to print whatever it holds."""
    return repr(text if len(text) <= 80 else text[:79] + "…")


def kind(value: object) -> str:
    """What a value is, in words: "a list", "the whole number 7"."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"the whole number {value}" if value.bit_length() < 100 else "a very long whole number"
    if isinstance(value, float):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else f"a {type(value).__name__}"


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the known name that `name` was probably meant to be, else with all of them if few."""
    import difflib  # only a mistake pays for it: 2 ms at every start otherwise

    names = list(known)
    close = difflib.get_close_matches(name[:100].lower(), names[:1000], n=1)
    if close:
        return f"Did you mean {quoted(close[0])}?"
    return f"Known: {', '.join(map(quoted, names))}." if 0 < len(names) <= 30 else ""


def report(problems: Iterable[Problem]) -> ConfigError:
    """The error that shows all `problems`, or the first hundred and how many there are."""
    found = sorted(set(problems))
    rest = len(found) - _SHOWN
    if rest > 0:
        # the dots make it sort last among what is said of its place
        more = Problem(found[_SHOWN - 1].place, f"… and {rest} more mistakes after this one.")
        found = [*found[:_SHOWN], more]
    return ConfigError(found)
