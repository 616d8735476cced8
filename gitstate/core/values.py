"""Values that identity covers: one form for equal text, no number that JSON cannot carry, one encoding."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from sys import intern
from typing import cast

from gitstate.core.plan import Value

MAX_DEPTH = 100  # lists and mappings inside each other; keeps every recursion over values shallow
_MAX_BITS = 1024  # of a whole number, about 308 digits; Python's own limit varies with its version
_MAX_SECONDS = 10_000 * 86_400.0  # far below what the timeouts of operating systems can hold

_encoder = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def text(value: str) -> str:
    """`value` in Unicode NFC. Raises ValueError where it is not text that UTF-8 can hold."""
    if value.isascii():
        return value
    if re.search("[\ud800-\udfff]", value):
        raise ValueError("it holds half of a surrogate pair, which is not a character")
    return unicodedata.normalize("NFC", value)


def normal(value: object) -> Value:
    """A copy of plain data in the form that is hashed: text in NFC, -0.0 as 0.0, tuples as lists.

    Raises ValueError, with what is wrong as its text, for NaN and infinity, half surrogate pairs, numbers of
    more than about 300 digits, nesting deeper than MAX_DEPTH, keys that are not text or become equal in NFC,
    and every other type.
    """
    return _normal(value, 0)


def _normal(value: object, depth: int) -> Value:
    kind = type(value)
    if kind is str:
        return text(cast(str, value))
    if kind is dict:
        return _mapping(cast("dict[object, object]", value), depth + 1)
    if kind is list or kind is tuple:
        _check_depth(depth + 1)
        return [_normal(entry, depth + 1) for entry in cast("list[object]", value)]
    if value is None or kind is bool:
        return cast(Value, value)
    if kind is int:
        return whole(cast(int, value))
    if kind is float:
        return decimal(cast(float, value))
    raise ValueError(f"it is of the type {kind.__name__}, which a plan cannot hold")


def _mapping(value: dict[object, object], depth: int) -> Value:
    _check_depth(depth)
    result: dict[str, Value] = {}
    for key, entry in value.items():
        if type(key) is not str:
            raise ValueError(f"its key {key!r} is not text")
        # Items have the same few keys: one object for each key is a third less memory for a plan. And nearly all
        # of their values are plain text, which is taken as it is: a tenth of the time of reading a plan.
        name = intern(key if key.isascii() else text(key))
        result[name] = entry if type(entry) is str and entry.isascii() else _normal(entry, depth)
    if len(result) != len(value):
        raise ValueError("two of its keys are the same in Unicode's normal form")
    return result


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def whole(value: int) -> int:
    """`value`, unless it has more than about 300 digits: ValueError."""
    if value.bit_length() > _MAX_BITS:
        raise ValueError("it is a number of more than 300 digits")
    return value


def decimal(value: float) -> float:
    """`value` with -0.0 as 0.0. Raises ValueError for NaN and infinity."""
    if not math.isfinite(value):
        raise ValueError("it is not a finite number")
    return value + 0.0


def canonical(value: Value) -> bytes:
    """Canonical JSON of a normal value: keys sorted by code point, no spaces, UTF-8, floats as in `repr`.

    Raises ValueError for NaN and infinity, which `normal` would have refused.
    """
    return _encoder.encode(value).encode()


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([smhd]?)", re.ASCII)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration(value: object) -> float:
    """Seconds of "90s", "10m", "4h", "14d" or a bare number of seconds. ValueError says what is wrong."""
    seconds: float
    if type(value) is int or type(value) is float:
        seconds = float(min(value, _MAX_SECONDS + 1))
    else:
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if not match:
            raise ValueError("A duration is written like 90s, 10m, 4h or 14d")
        seconds = float(match[1]) * _UNITS[match[2]]
    if not 0 <= seconds <= _MAX_SECONDS:
        raise ValueError("A duration lies between 0 and 10,000 days")
    return seconds
