"""The records of attempts as they were written by this version and by earlier ones: any of them, as today's.

    1   at first without `committed` (intent), `at` and `usage` (spooled), later with them
    2   all of these always; `branch` and `root` (intent); what the command printed as `stdout` and `stderr`, and if
        its answer was `filed` (before: the end of either as `said`); `sum`, which tells a whole record from another

A new number with every change of what a record holds, and its step in `lift`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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


def _dump(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode()


def _sum(fields: Mapping[str, Any]) -> str:
    return blake3(_dump(fields)).hexdigest(16)
