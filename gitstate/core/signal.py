"""What one call left behind (a signal), and what gitstate makes of it (a verdict): the nouns, and reading them.

`core/classify.py` leads from the one to the other. Nothing here decides anything.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple, Optional
from zoneinfo import ZoneInfo

from gitstate.core.problems import kind, nearest, quoted
from gitstate.errors import UsageError

CHANNELS = ("http", "stream", "cli")
STOPPED_BY = ("wall", "silence", "too_large", "not_started", "too_long", "lost")


class Http(NamedTuple):
    """An HTTP reply. `status` None: no reply came; names of headers in lower case; `body` as JSON has it."""

    status: Optional[int]
    headers: Mapping[str, str]
    body: object


class Cli(NamedTuple):
    """How a command ended. `exit` below 0 is a signal's number, None unknown."""

    exit: Optional[int]
    stdout: str
    stderr: str
    argv: tuple[str, ...] = ()
    tool: str = ""
    missing: tuple[int, ...] = ()  # numbers of the outputs that were promised and did not come
    filed: bool = False  # its answer came as files: what it printed is only talk


class Signal(NamedTuple):
    """One call's end, captured."""

    http: Optional[Http] = None  # at most one of these two is set
    cli: Optional[Cli] = None
    provider: str = ""
    now: Optional[datetime] = None  # when the call ended; aware
    zone: Optional[tzinfo] = None  # of the machine that ran it; None: cannot be known
    stopped_by: str = ""  # one of STOPPED_BY where the runner itself ended the call


class Verdict(NamedTuple):
    """What a signal means. `kind` is None where the category has none; the wait is what was stated, or None."""

    outcome: str  # ok, fail
    category: Optional[str]
    kind: Optional[str]
    state: Optional[str]  # paused, retry, failed
    wait_seconds: Optional[float] = None
    until: Optional[datetime] = None  # UTC
    rule: str = ""  # the id of the rule that decided
    evidence: Mapping[str, str] = {}  # what it decided on, without secrets


class SignalError(UsageError):
    """What should be a signal is none; the message says why."""


def parse(data: object) -> Signal:
    """The signal in plain data, as `gitstate classify` reads it. Raises SignalError with what is wrong.

    What is not known is ignored, so that captured lines may carry notes of their own.
    """
    if not isinstance(data, dict):
        raise SignalError(f"A signal is a JSON object, not {kind(data)}.")
    stopped_by = _text(data, "stopped_by")
    if stopped_by and stopped_by not in STOPPED_BY:
        raise SignalError(f"stopped_by is {quoted(stopped_by)}.", nearest(stopped_by, STOPPED_BY))
    channel = _text(data, "channel") or ("cli" if isinstance(data.get("cli"), dict) else "http")
    if channel not in CHANNELS:
        raise SignalError(f"The channel {quoted(channel)} is not known.", nearest(channel, CHANNELS))
    name = "cli" if channel == "cli" else "http"
    part = data.get(name)
    if part is None and not stopped_by:
        raise SignalError(f"A signal of the channel {channel} has an object {quoted(name)}.")
    if part is not None and not isinstance(part, dict):
        raise SignalError(f"{name} must be a JSON object, not {kind(part)}.")
    now = _now(_text(data, "now"))
    return Signal(
        http=_http(part) if part is not None and name == "http" else None,
        cli=_cli(part) if part is not None and name == "cli" else None,
        provider=_text(data, "provider").lower(),
        now=now,
        zone=_zone(_text(data, "tz"), now),
        stopped_by=stopped_by,
    )


def of_command(
    ended_by: str,
    code: Optional[int],
    signal: Optional[int],
    stdout: str,
    stderr: str,
    missing: Sequence[int] = (),
    argv: Sequence[str] = (),
    *,
    filed: bool = False,
    now: Optional[datetime] = None,
    zone: Optional[tzinfo] = None,
) -> Signal:
    """The signal of a command that gitstate ran itself.

    `ended_by` is what ended it: exit, or one of STOPPED_BY. `stdout` is its whole answer, not an end of it.
    """
    exit_code = -signal if signal else code
    cli = Cli(exit_code, stdout, stderr, tuple(argv), "", tuple(missing), filed)
    return Signal(cli=cli, now=now, zone=zone, stopped_by=ended_by if ended_by in STOPPED_BY else "")


def to_plain(verdict: Verdict) -> dict[str, object]:
    """A verdict as `gitstate classify` writes it: the six keys of every verdict first, then why."""
    return {
        "outcome": verdict.outcome,
        "category": verdict.category,
        "kind": verdict.kind,
        "wait_seconds": _short(verdict.wait_seconds),
        "until": verdict.until.isoformat() if verdict.until else None,
        "state": verdict.state,
        "rule": verdict.rule,
        "evidence": dict(verdict.evidence),
    }


def _short(seconds: Optional[float]) -> Optional[float]:
    if seconds is None:
        return None
    return int(seconds) if seconds == int(seconds) else round(seconds, 3)


def _http(part: Mapping[str, object]) -> Http:
    headers = part.get("headers") or {}
    if not isinstance(headers, dict):
        raise SignalError(f"http.headers must be a JSON object, not {kind(headers)}.")
    # Sorted, so that of two spellings of one name always the same wins.
    known = {str(name).strip().lower(): _header(value) for name, value in sorted(headers.items())}
    return Http(_whole(part, "status", "http"), known, part.get("body"))


def _header(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_header, value[:10]))
    return value.strip() if isinstance(value, str) else "" if value is None else json.dumps(value)[:1000]


def _cli(part: Mapping[str, object]) -> Cli:
    argv = part.get("argv") or []
    if isinstance(argv, str):
        argv = argv.split()
    if not isinstance(argv, list):
        raise SignalError(f"cli.argv must be a list, not {kind(argv)}.")
    return Cli(
        exit=_whole(part, "exit", "cli"),
        stdout=_stream(part, "stdout"),
        stderr=_stream(part, "stderr"),
        argv=tuple(str(word) for word in argv),
        tool=_text(part, "tool"),
    )


def _stream(part: Mapping[str, object], name: str) -> str:
    """What a command printed; bytes that are not UTF-8 are replaced, and are no failure in themselves."""
    encoded = part.get(f"{name}_b64")
    if not isinstance(encoded, str):
        return _text(part, name)
    try:
        return base64.b64decode(encoded, validate=False).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise SignalError(f"cli.{name}_b64 is not base64: {error}.") from None


def _text(part: Mapping[str, object], name: str) -> str:
    value = part.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SignalError(f"{name} must be text, not {kind(value)}.")
    return value


def _whole(part: Mapping[str, object], name: str, where: str) -> Optional[int]:
    value = part.get(name)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,10}", value.strip()):
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if value is None or type(value) is int:
        return value
    raise SignalError(f"{where}.{name} must be a whole number or null, not {kind(value)}.")


_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?\s*(Z|z|UTC|GMT|[+-]\d\d:?\d\d)?"
)


def iso(text: str, zone: Optional[tzinfo] = None) -> Optional[datetime]:
    """The moment that an ISO 8601 date or date and time names; one without an offset is in `zone`.

    None where it names none, or has no offset and `zone` is None.
    """
    match = _ISO.fullmatch(text.strip())
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    if match[8]:
        zone = offset(match[8])
    if zone is None:
        return None
    micro = int((match[7] or "0").ljust(6, "0")[:6])
    try:
        return datetime(year, month, day, hour, minute, second, micro, zone)
    except ValueError:
        return None


def offset(text: str) -> tzinfo:
    """The zone of a written offset: Z, UTC, GMT, +01:00, -0530."""
    digits = re.sub(r"\D", "", text).rjust(4, "0")
    distance = timedelta(hours=int(digits[:2]) % 24, minutes=int(digits[2:]) % 60)
    return timezone(-distance if text.startswith("-") else distance)


def zone_named(name: str) -> Optional[tzinfo]:
    """The zone with this name in the IANA database; None if there is none."""
    if not re.fullmatch(r"[A-Za-z][\w+-]*(?:/[\w+-]+){0,2}", name, re.ASCII):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found is a KeyError; a folder of zones an OSError
        return None


def _now(text: str) -> Optional[datetime]:
    if not text:
        return None
    now = iso(text, timezone.utc)
    if now is None or not 1970 <= now.year < 9000:
        raise SignalError(f"now is {quoted(text)}.", "Write it like 2026-08-07T12:00:00+00:00.")
    return now


def _zone(name: str, now: Optional[datetime]) -> Optional[tzinfo]:
    if name:
        return zone_named(
            name
        )  # unknown: then clock times without a zone cannot be read, and are not guessed
    return now.tzinfo if now else None
