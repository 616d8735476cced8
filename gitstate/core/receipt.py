"""Lines in git notes: receipts ("this content is the complete result of this work id") and the shared log.

A line is one JSON object, compact, ASCII, `work` first and the other keys sorted. Adding is a new line,
taking back is a new line; nothing is ever rewritten, so two machines' notes merge by the union of lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Literal, NamedTuple, Optional

from blake3 import blake3

from gitstate.core.identity import SCHEME, SCHEMES

FORMAT = 1  # of a line (`v`); lines of another format are kept and never count
PREFIX = b'{"work":"'  # what a line of ours begins with; anything else in a note is somebody's own remark

_scan = json.JSONDecoder().raw_decode  # 2 microseconds less a line than json.loads
_dump = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode


class Unreadable(ValueError):
    """A line that begins like one of ours and cannot be read: torn or tampered with."""


class Receipt(NamedTuple):
    """One receipt. `kind` is done, accepted or void; a void takes back the attempt that it names."""

    work: str
    kind: str
    slug: str
    stage: str
    attempt: str
    at: str  # UTC, like 2026-08-07T12:00:00Z
    components: Mapping[str, str]
    outputs: tuple[tuple[str, str], ...]  # (path, blob id) in declared order
    scheme: int = SCHEME
    extra: Mapping[str, Any] = {}  # seconds, usd, tokens_in, tokens_out, model, checks, why, by, ignored


def is_adopted(receipt: Receipt) -> bool:
    """Whether its content is the word of evidence or of a person on what an effect did, which no check judges."""
    return bool(receipt.extra.get("adopted"))


class LogLine(NamedTuple):
    """One line of the log: a verdict on an attempt, an attempt whose outcome is lost, or a reset of verdicts."""

    work: str
    kind: str  # verdict, lost, reset, duplicate, and of acts those in `core/effect.py`
    slug: str
    stage: str
    attempt: str
    at: str
    extra: Mapping[str, Any] = {}  # category, rule, evidence, seconds, usd; attempts (of a reset); by, why


# A line as plain values, as a cache keeps it and 100,000 of them are held: a tuple of its fields, but for a receipt's
# `extra`, which is (names, values). Measured: the names being shared, that takes a third of the memory of a dict.
Plain = tuple[Any, ...]
_facts: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # tuples that many receipts have in common, each once


def to_plain(line: Receipt) -> Plain:
    """The receipt as plain values; the inverse of `from_plain`."""
    names, values = tuple(line.extra), tuple(line.extra.values())
    return (*line[:9], (_facts.setdefault(names, names), values))


def from_plain(line: Plain) -> Receipt:
    """The receipt that `to_plain` was given."""
    return Receipt._make((*line[:9], extra_of(line)))


def extra_of(line: Plain) -> dict[str, Any]:
    """The `extra` of a receipt that is plain values."""
    return dict(zip(*line[9]))


_OWN = ("plan", "inputs")  # components that works do not share
_RECEIPT_KEYS = {"work", "v", "kind", "slug", "stage", "attempt", "at", "components", "outputs", "scheme"}
_LOG_KEYS = {"work", "v", "kind", "slug", "stage", "attempt", "at"}


def encode(line: Receipt | LogLine) -> bytes:
    """The line's bytes, without a line feed."""
    fields: dict[str, Any] = {name: value for name, value in line.extra.items() if value is not None}
    fields.update(
        v=FORMAT, kind=line.kind, slug=line.slug, stage=line.stage, attempt=line.attempt, at=line.at
    )
    if isinstance(line, Receipt):
        components = {name: line.components[name] for name in sorted(line.components)}
        fields.update(
            scheme=line.scheme, components=components, outputs=[list(pair) for pair in line.outputs]
        )
    ordered = {"work": line.work, **{name: fields[name] for name in sorted(fields)}}
    return _dump(ordered).encode()


def decode_receipt(line: bytes) -> Optional[Receipt]:
    """The receipt in a line; None where it is not ours, or of a format or scheme that this version does not know.

    Raises Unreadable for a line that begins like ours and is not whole.
    """
    plain = plain_receipt(line)
    return None if plain is None else from_plain(plain)


def plain_receipt(line: bytes, blob: str = "") -> Optional[Plain]:
    """`decode_receipt`, as plain values. `blob` is what the line hangs on.

    What many receipts have in common is one object in memory. Measured: of 100,000 receipts that takes away half of
    the memory, and half of the time to load them from a cache.
    """
    fields = _fields(line)
    if fields is None:
        return None
    try:
        if fields["scheme"] not in SCHEMES:
            return None
        outputs = tuple([(_text(path), _text(oid)) for path, oid in fields["outputs"]])
        if outputs and outputs[0][1] == blob:  # as it nearly always is
            outputs = ((outputs[0][0], blob), *outputs[1:])
        names = tuple([name for name in fields if name not in _RECEIPT_KEYS])
        return (
            _hex(fields["work"]),
            intern(_text(fields["kind"])),
            _text(fields["slug"]),
            intern(_text(fields["stage"])),
            _text(fields["attempt"]),
            _text(fields["at"]),
            _components(fields["components"]),
            outputs,
            fields["scheme"],
            (_facts.setdefault(names, names), tuple([_fact(fields[name]) for name in names])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def decode_log(line: bytes) -> Optional[LogLine]:
    """The log entry in a line; None and Unreadable as in `decode_receipt`."""
    fields = _fields(line)
    if fields is None:
        return None
    try:
        extra = {name: value for name, value in fields.items() if name not in _LOG_KEYS}
        if not all(isinstance(name, str) for name in extra.get("attempts", ())):
            raise TypeError("attempts")
        return LogLine(
            work=_hex(fields["work"]),
            kind=_text(fields["kind"]),
            slug=_text(fields["slug"]),
            stage=_text(fields["stage"]),
            attempt=_text(fields["attempt"]),
            at=_text(fields["at"]),
            extra=extra,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def plain_log(line: bytes, blob: str = "") -> Optional[Plain]:
    """`decode_log`, as a tuple of its fields."""
    entry = decode_log(line)
    return None if entry is None else tuple(entry)


def _fields(line: bytes) -> Optional[dict[str, Any]]:
    if not line.startswith(PREFIX):
        return None
    try:
        text = line.decode("utf-8", "surrogatepass")
        fields, end = _scan(text)
        if text[end:].strip():
            raise ValueError("more than one value")
        version = fields["v"]
    except (ValueError, KeyError, RecursionError) as error:
        raise Unreadable("not one whole JSON object") from error
    return fields if version == FORMAT else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {type(value).__name__}")
    return value


def _fact(value: object) -> object:
    """A value of `extra`: text, and lists of text, as one object for all that are equal."""
    if type(value) is str:
        return intern(value)
    if type(value) is list and _all_text(value):
        found = tuple(value)
        return _facts.setdefault(found, found)
    return value


def _components(found: dict[str, Any]) -> dict[str, str]:
    if not _all_text(found.values()):
        raise TypeError("components are not all text")
    return {intern(name): value if name in _OWN else intern(value) for name, value in found.items()}


def _all_text(values: Iterable[object]) -> bool:
    return {*map(type, values)} <= {str}


def _hex(value: object) -> str:
    text = _text(value)
    if len(text) != 64:
        raise ValueError("work is not 64 hex digits")
    return text


_ASIDE = b'{"aside":"'


def digest(line: bytes) -> str:
    """What an aside line calls the line that it sets aside."""
    return blake3(line).hexdigest()


def aside(line: bytes, by: str, at: str) -> bytes:
    """The line that sets a broken line aside: it stays in the note, and is not stumbled over again."""
    return _dump({"aside": digest(line), "at": at, "by": by, "v": FORMAT}).encode()


def set_aside(lines: Iterable[bytes]) -> set[str]:
    """The digests of the lines that a note's aside lines name."""
    start = len(_ASIDE)
    return {line[start : start + 64].decode("ascii", "replace") for line in lines if line.startswith(_ASIDE)}


class Verdict(NamedTuple):
    """What stands against a work: the failures that nobody has reset."""

    category: str
    attempts: tuple[str, ...]  # ids of the attempts that failed, oldest first
    last: LogLine  # the one that made the state
    state: Literal["failed", "paused"] = "failed"


def verdicts(lines: Iterable[LogLine]) -> dict[tuple[str, str, str], Verdict]:
    """The standing verdicts by (slug, stage, work hash): what failed and was not reset since."""
    failed: dict[tuple[str, str, str], dict[str, LogLine]] = {}
    reset: set[str] = set()
    for line in lines:
        if line.kind == "verdict":
            attempts = failed.setdefault((line.slug, line.stage, line.work), {})
            # (of an act there may be two: one before evidence was asked, and what was made of it then)
            if line.attempt not in attempts or line.extra.get("state") != "pending":
                attempts[line.attempt] = line
        elif line.kind == "reset":
            reset.update(line.extra.get("attempts", ()))
    standing = {}
    for work, attempts in failed.items():
        kept = [line for name, line in attempts.items() if name not in reset]
        kept.sort(key=lambda line: (line.at, line.attempt))
        # (lines without a state are of a version that knew failures only)
        final = [line for line in kept if line.extra.get("state", "failed") != "pending"]
        if final:
            last = final[-1]
            standing[work] = Verdict(
                str(last.extra.get("category", "unknown")),
                tuple(line.attempt for line in kept),
                last,
                "paused" if last.extra.get("state") == "paused" else "failed",
            )
    return standing
