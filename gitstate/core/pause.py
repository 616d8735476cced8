"""Pauses: an account whose window is closed, for all machines that use it. Pure.

A pause is one JSON object in a blob. It stands until somebody who probed lifts it; its times only say when looking
again makes sense.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from blake3 import blake3

from gitstate.core.verdict import STATES

FORMAT = 1
LIFTED = b'{"v":1,"lifted":true}\n'  # what stands for no pause, on a host that lets no ref be deleted
_FIRST, _LONGEST = 300.0, 3600.0  # seconds between probes where no time was stated; doubled each time
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class Pause(NamedTuple):
    """Why nothing of an account is begun, and when to look again."""

    account: str
    kind: str  # of quota: throttle, window, billing, capacity; else the whole name of a failure
    at: str  # when it was found closed, in UTC
    until: str | None  # when it opens, as far as was stated
    probe: str  # when to look next; pushed further by whoever is about to look
    rounds: int  # how often somebody has looked
    why: str  # evidence, without secrets
    rule: str
    holder: str = ""  # a random name for whoever is about to look

    @property
    def name(self) -> str:
        """The failure that it stands for, as people read it."""
        return f"quota/{self.kind}" if self.kind in STATES["quota"] else self.kind


def begin(account: str, kind: str, rule: str, why: str, until: datetime | None, now: datetime) -> Pause:
    """The pause of an account that was found closed at `now`; `until`: when it opens again, if that was stated."""
    look = until if until is not None and until > now else now + timedelta(seconds=_FIRST)
    return Pause(account, kind, stamp(now), stamp(until) if until else None, stamp(look), 0, why, rule)


def again(pause: Pause, kind: str, rule: str, why: str, until: datetime | None, now: datetime) -> Pause:
    """The same pause, after a probe at `now` found the account closed still: the next look is later."""
    fresh = begin(pause.account, kind, rule, why, until, now)
    if until is not None and until > now:
        return fresh._replace(at=pause.at, rounds=pause.rounds)
    return fresh._replace(at=pause.at, rounds=pause.rounds, probe=stamp(now + _interval(pause.rounds)))


def claim(pause: Pause, holder: str, now: datetime) -> Pause:
    """The pause as whoever is about to probe leaves it, so that the others wait for the next round."""
    return pause._replace(
        rounds=pause.rounds + 1, probe=stamp(now + _interval(pause.rounds + 1)), holder=holder
    )


def is_over(pause: Pause, now: datetime) -> bool:
    """Whether it is time to look again."""
    return now >= when(pause.probe)


def _interval(rounds: int) -> timedelta:
    return timedelta(seconds=min(_LONGEST, _FIRST * 2 ** min(rounds, 10)))


def ref_name(account: str) -> str:
    """The last part of a pause's ref: the account's name where git takes it as one, else made into one."""
    name = _NAME.sub("-", account).strip(".-") or "account"
    name = re.sub(r"\.{2,}", ".", name).removesuffix(".lock")
    if name == account:
        return name
    return f"{name[:60]}-{blake3(account.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def encode(pause: Pause) -> bytes:
    """The bytes of a pause's blob."""
    return (
        json.dumps({"v": FORMAT, **pause._asdict()}, ensure_ascii=True, separators=(",", ":")).encode()
        + b"\n"
    )


def decode(data: bytes) -> Pause:
    """The pause in a blob. Raises ValueError for anything else; unknown fields are ignored."""
    fields: Any = json.loads(data)
    if not isinstance(fields, dict) or type(fields.get("v")) is not int:
        raise ValueError("it is no pause")
    if fields["v"] != FORMAT:
        raise ValueError(f"its format is {fields['v']}, this version knows {FORMAT}")
    texts = {name: fields.get(name) for name in ("account", "kind", "at", "probe", "why", "rule")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("a field is missing")
    until, rounds = fields.get("until"), fields.get("rounds", 0)
    pause = Pause(
        **texts,  # type: ignore[arg-type]
        until=until if isinstance(until, str) else None,
        rounds=rounds if type(rounds) is int and rounds >= 0 else 0,
        holder=str(fields.get("holder", "")),
    )
    for text in (pause.at, pause.probe, pause.until):
        if text is not None:
            when(text)
    return pause


def stamp(moment: datetime) -> str:
    """A moment as it is written: UTC, to the second, rounded up so that nobody looks too early."""
    moment = moment.astimezone(timezone.utc)
    if moment.microsecond:
        moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def when(text: str) -> datetime:
    """The inverse of `stamp`. Raises ValueError."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
