"""The records of attempts as they were written by this version and by earlier ones: any of them, as today's.

    1   at first without `committed` (intent), `at` and `usage` (spooled), later with them
    2   all of these always; `branch` and `root` (intent); what the command printed as `stdout` and `stderr`, and if
        its answer was `filed` (before: the end of either as `said`); `sum`, which tells a whole record from another

A new number with every change of what a record holds, and its step in `lift`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

from blake3 import blake3

FORMAT = 2


class NewerFormat(ValueError):
    """A record of a later version, which this one must leave alone."""


def encode(fields: Mapping[str, Any]) -> bytes:
    """A record as its file holds it."""
    whole = {"v": FORMAT, **fields}
    return _dump({**whole, "sum": _sum(whole)}) + b"\n"


def decode(data: bytes, step: str) -> dict[str, Any]:
    """The fields of a record (`intent`, `spooled` or `written`), as `encode` would write them today.

    Raises NewerFormat, and ValueError for one that is not whole.
    """
    fields = json.loads(data)
    if not isinstance(fields, dict) or type(fields.get("v")) is not int or fields["v"] < 1:
        raise ValueError("it names no format")
    if fields["v"] > FORMAT:
        raise NewerFormat(f"format {fields['v']}; this version knows {FORMAT}")
    if fields["v"] > 1 and fields.pop("sum", None) != _sum(fields):
        raise ValueError("its content does not match its checksum")
    return lift(step, fields)


def lift(step: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an earlier format as today's. What an earlier version did not keep gets the careful value."""
    lifted = dict(fields)
    if lifted.pop("v") < 2:
        if step == "intent":
            # What the branch held is not known: then whatever it holds may be somebody else's.
            lifted.setdefault("committed", [None] * len(lifted["outputs"]))
            lifted.update(branch="", root="")
        if step == "spooled":
            lifted.setdefault("at", None)
            facts = {"usage": {}, **lifted["facts"]}
            said = facts.pop("said")
            lifted["facts"] = {**facts, "stdout": "", "stderr": said, "filed": False}
    return lifted


def as_facts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """How the command ended, as the judgement needs it. Raises TypeError where it is something else."""
    for name in ("ended_by", "stdout", "stderr"):
        as_text(fields[name])
    for name in ("code", "signal"):
        if fields[name] is not None:
            as_number(fields[name])
    if not isinstance(fields["filed"], bool):
        raise TypeError("filed is neither true nor false")
    return {**fields, "missing": [*map(as_number, fields["missing"])], "usage": dict(fields["usage"])}


def as_text(value: Any) -> str:
    """A field that is a text. Raises TypeError where it is something else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def as_number(value: Any) -> int:
    """A field that is a whole number. Raises as `as_text`."""
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no number")
    return value


def as_texts(values: Any) -> tuple[str, ...]:
    """A field that lists texts. Raises as `as_text`."""
    if not isinstance(values, list):
        raise TypeError(f"{values!r:.40} is no list")
    return tuple(map(as_text, values))


def as_texts_or_none(values: Any) -> tuple[Optional[str], ...]:
    """A field that lists texts, or None for what is not there. Raises as `as_text`."""
    if not isinstance(values, list):
        raise TypeError(f"{values!r:.40} is no list")
    return tuple(None if value is None else as_text(value) for value in values)


def _dump(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode()


def _sum(fields: Mapping[str, Any]) -> str:
    return blake3(_dump(fields)).hexdigest(16)
