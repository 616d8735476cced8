"""How long a provider said to wait: from fields, headers and words, first usable source first, never shortened."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple, Optional

from gitstate.core import clock
from gitstate.core.sieve import fold, gate
from gitstate.core.signal import iso

_MOST = 366 * 86_400.0  # seconds; whatever is beyond is no wait but a mistake
_HOUR = 3600.0
_EPOCH = 1e9  # numbers from here on are seconds since 1970, and from _EPOCH_MS on milliseconds
_EPOCH_MS = 1e11

# Names of fields in the order in which they count: in lower case, words joined by '-', without a leading `x-`.
# RetryInfo is Google's; it stands in a field of the same meaning in other envelopes, too.
_ORDER: tuple[tuple[str, re.Pattern[str], float], ...] = (  # name, pattern, seconds in one unit
    ("retry-after-ms", re.compile(r"(?:ms-)?retry-after-(?:ms|millis|milliseconds)"), 0.001),
    ("retry-after", re.compile(r"(?:ms-)?retry-after(?:-s|-sec|-secs|-seconds)?"), 1.0),
    ("retry-info", re.compile(r"retry-delay(?:-seconds)?"), 1.0),
    ("resets-at", re.compile(r"(?:quota-)?resets?-(?:at|time|timestamp|time-stamp|date)|resets"), 1.0),
    ("resets-in", re.compile(r"(?:quota-)?resets?-(?:in|after|delay)(?:-s|-sec|-secs|-seconds)?"), 1.0),
)
_RESET = re.compile(r"(?:^|-)reset(?:-(?:after|at|in))?(?:-(?P<unit>seconds|ms))?(?=-|$)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PIECE = (
    r"(\d+(?:[.,]\d+)?)\s?-?(milliseconds?|millis|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d"
    r"|weeks?|w)(?![a-z])"
)
_PIECES = re.compile(_PIECE, re.IGNORECASE)
_DURATION = re.compile(rf"{_PIECE}(?:(?:\s*,?\s*(?:and\s+)?){_PIECE}){{0,5}}", re.IGNORECASE)
_CLOCKED = re.compile(r"(?:(\d+)\.)?(\d{1,2}):(\d\d):(\d\d)(?:\.\d+)?(?![\d:])")
_ISO_DURATION = re.compile(r"P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", re.IGNORECASE)
_ONE = re.compile(r"(?:an?|one)\s(second|minute|hour|day|week)(?![a-z])", re.IGNORECASE)
# In lower case, as the next but one; see `sieve.fold`.
_SAID = re.compile(
    r"""(?x) \b(?: try \s (?:it \s )? again | retry(?:[ -]after)? | resets? | resetting | available | wait(?:ing)?
    | replenish\w* | renew\w* | refresh\w* | resum\w+ | restor\w+ | lift\w* | unblock\w* | unlock\w* | again | back
    | regain\w* | cool(?:ing)? [ -]?down | come \s back | retry_after | reset_after | expires? ) \b
    (?! \s+ every) [^\n!?;]{0,40}? (?= (?<![\d.,:]) \d | \b(?:an?|one)\s(?:second|minute|hour|day|week) )"""
)
_TOOLS_OWN = re.compile(
    r"(?i)\b(?:retrying|reconnecting|will retry|sleeping|backing off|waiting)\b[^\n]{0,40}?\d+(?:\.\d+)?\s*\w+[^\n]*"
)
_EPOCH_SAID = re.compile(r"(?:\||reset[s_]?(?:[ _]at)?\W{1,4}|until\s)(\d{10}|\d{13})(?!\d)")
_may_last, _may_be_tools_own, _may_be_epoch = gate(_SAID), gate(_TOOLS_OWN), gate(_EPOCH_SAID)


class Wait(NamedTuple):
    """A wait as stated: seconds from the reply, or a moment in UTC; `source` says what stated it."""

    seconds: Optional[float] = None
    until: Optional[datetime] = None
    source: str = ""
    clock: bool = False  # a clock time was stated, perhaps one that cannot be read or has passed

    def __bool__(self) -> bool:
        return self.seconds is not None or self.until is not None

    def length(self, now: Optional[datetime]) -> float:
        """Seconds from `now`; 0 where that cannot be known."""
        if self.seconds is not None:
            return self.seconds
        return (self.until - now).total_seconds() if self.until and now else 0.0


def name_of(field: str) -> str:
    """A field's or header's name in the one form in which names are compared."""
    return _name_of(field[:80])


@lru_cache(4096)  # names come again and again
def _name_of(field: str) -> str:
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", field)
    return re.sub(r"[_\s]+", "-", split).lower().removeprefix("x-")


def is_wait(name: str) -> bool:
    """Whether a field of this name (see `name_of`) may state a wait."""
    return "reset" in name or "retry" in name or "remaining" in name or "util" in name or "used" in name


def find(
    fields: Mapping[str, object], text: str, now: Optional[datetime], zone: Optional[tzinfo], bucket: str = ""
) -> Wait:
    """The wait that was stated. `fields` by `name_of`: headers and what stood in the body under the same names.

    `bucket` names the limit that was hit (tokens, requests), if that is known.
    """
    wait = _named(fields, len(_ORDER), now) or _reset(_spread(fields), now, bucket)
    return wait or said(text, now, zone)


def find_retry(
    fields: Mapping[str, object], text: str, now: Optional[datetime], zone: Optional[tzinfo]
) -> Wait:
    """The wait that was stated for a failure that is no limit: what tells of limits does not tell of it."""
    return _named(fields, 3, now) or said(text, now, zone)


def _named(fields: Mapping[str, object], places: int, now: Optional[datetime]) -> Wait:
    """The first usable wait in fields whose names stand among the first `places` of _ORDER."""
    named = [(place, name) for name in fields if (place := _place_in_order(name)) is not None]
    for place, name in sorted(named):
        source, _, unit = _ORDER[place]
        if place < places:
            wait = _field(fields[name], unit, now, source)
            if wait:
                return wait
    return Wait()


@lru_cache(4096)
def _place_in_order(name: str) -> Optional[int]:
    """How early the field of this name counts; None where it states no wait by its name alone."""
    if not is_wait(name):
        return None
    return next((place for place, (_, form, _) in enumerate(_ORDER) if form.fullmatch(name)), None)


def _spread(fields: Mapping[str, object]) -> Mapping[str, object]:
    """`fields` with what the IETF's one header says as if it were several."""
    whole = fields.get("ratelimit")
    if not isinstance(whole, str):
        return fields
    found: dict[str, object] = dict(fields)
    for letter, name in (("r", "remaining"), ("t", "reset"), ("remaining", "remaining"), ("reset", "reset")):
        match = re.search(rf"(?:^|[;,\s]){letter}=(\d+)", whole[:200])
        if match:
            found[f"ratelimit-{name}"] = match[1]
    return found


def said(text: str, now: Optional[datetime], zone: Optional[tzinfo]) -> Wait:
    """The wait that words state. What a tool says of its own retries is not a provider's statement."""
    folded = fold(text)
    if _may_be_tools_own(folded):
        text = _TOOLS_OWN.sub(" ", text)
        folded = fold(text)
    durations = [seconds for each in _durations(folded) if (seconds := _usable(each)) is not None]
    longest = Wait(max(durations), source="text") if durations else Wait()
    at = clock.stated(text, folded, now, zone)
    if _may_be_epoch(folded):
        epochs = [epoch for match in _EPOCH_SAID.finditer(folded) if (epoch := _epoch(float(match[1]), now))]
        if epochs:
            return Wait(until=max(epochs), source="text", clock=True)
    if at is None:
        return longest
    if at.until is None:
        return longest._replace(clock=True)
    stated = Wait(until=at.until, source="text", clock=True)
    # "resets 3pm (in 2h 5m)": both say the same, and the clock says it exactly
    return longest._replace(clock=True) if longest.length(now) > stated.length(now) + 120 else stated


def seconds_of(text: str) -> Optional[float]:
    """Seconds of a written duration: 6m0s, 900ms, 5.03:23:11, PT30S, "3 hours 42 minutes"; None if it is none."""
    text = fold(text.strip().lstrip("~≈ "))
    clocked = _CLOCKED.match(text)
    if clocked:
        days, hours, minutes, seconds = (int(part or 0) for part in clocked.groups())
        return days * 86_400.0 + hours * 3600 + minutes * 60 + seconds
    one = _ONE.match(text)
    if one:
        return _UNITS[one[1][0].lower()]
    match = _DURATION.match(text)
    if match:
        return sum(_in_seconds(number, unit) for number, unit in _PIECES.findall(match[0]))
    written = _ISO_DURATION.fullmatch(text) if len(text) > 2 else None
    if written:
        parts = (float(part or 0) for part in written.groups())
        return sum(part * unit for part, unit in zip(parts, (86_400.0, 3600.0, 60.0, 1.0)))
    return None


def _in_seconds(number: str, unit: str) -> float:
    known = "ms" if unit.startswith(("ms", "mil")) else unit[0]
    return float(number.replace(",", ".")) * _UNITS[known]


def _durations(text: str) -> Iterator[Optional[float]]:
    if not _may_last(text):
        return
    for number, match in enumerate(_SAID.finditer(text)):
        if number == 20:
            return
        yield seconds_of(text[match.end() : match.end() + 80])


def _usable(seconds: Optional[float]) -> Optional[float]:
    """Zero, negative and absurd values are as good as absent."""
    return seconds if seconds is not None and 0 < seconds <= _MOST else None


def _epoch(number: float, now: Optional[datetime]) -> Optional[datetime]:
    if number >= _EPOCH_MS:
        number /= 1000
    try:
        moment = datetime.fromtimestamp(number, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    if now is None:
        return moment
    return moment if timedelta(0) < moment - now <= timedelta(seconds=_MOST) else None


def _field(value: object, unit: float, now: Optional[datetime], source: str) -> Wait:
    """The wait in one field: a number in `unit`s, an epoch by its size, a duration or a date."""
    if isinstance(value, dict):  # a duration as protocol buffers have it
        value = value.get("seconds")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return Wait()
    number = _number(value)
    if number is not None:
        if number >= _EPOCH and unit >= 1:
            return Wait(until=_epoch(number, now), source=source)
        return Wait(_usable(number * unit), source=source)
    text = str(value)[:100].strip()
    moment = iso(text, timezone.utc) or _http_date(text)
    if moment is not None:
        moment = moment.astimezone(timezone.utc)
        return Wait(until=moment if now is None or moment > now else None, source=source)
    return Wait(_usable(seconds_of(text)), source=source)


def _number(value: object) -> Optional[float]:
    """A finite number, also one written as text."""
    if isinstance(value, str):
        if not re.fullmatch(r"\s*[+-]?\d{1,20}(?:\.\d{1,20})?\s*%?\s*", value):
            return None
        value = float(value.strip().rstrip("%"))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _http_date(text: str) -> Optional[datetime]:
    if not re.match(r"[A-Za-z]{3,9},? ?\d", text):
        return None
    from email.utils import parsedate_to_datetime  # 10 ms, and few replies state a date

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


class _Bucket(NamedTuple):
    """One of several limits that headers tell of: when it is full again, and whether it is exhausted."""

    name: str
    wait: Wait
    exhausted: Optional[bool]  # None: not said


def _buckets(fields: Mapping[str, object], now: Optional[datetime]) -> list[_Bucket]:
    found = []
    for name in sorted(fields):
        match = _RESET.search(name) if "reset" in name else None
        if (
            not match
            or "overage" in name
            or not ("limit" in name or "used" in name or _sibling(fields, name, match))
        ):
            continue
        unit = 0.001 if match["unit"] == "ms" else 1.0
        wait = _field(fields[name], unit, now, name)
        found.append(_Bucket(name, wait, _exhausted(fields, name, match)))
    return found


def _sibling(fields: Mapping[str, object], name: str, match: re.Match[str]) -> bool:
    return name == "reset" or _exhausted(fields, name, match) is not None


def _exhausted(fields: Mapping[str, object], name: str, match: re.Match[str]) -> Optional[bool]:
    """Whether the limit is used up whose reset is `name`, by the fields that tell of the same limit."""
    start, rest = name[: match.start()], name[match.end() :]
    join = "-" if start else ""
    for word, full in (
        ("remaining", 0.0),
        ("used-percent", 100.0),
        ("utilization", 1.0),
        ("used-percentage", 100.0),
    ):
        number = _number(fields.get(f"{start}{join}{word}{rest}"))
        if number is not None and number >= 0:
            return number == 0 if word == "remaining" else number >= full
    status = fields.get(f"{start}{join}status{rest}")
    return status in ("rejected", "exceeded", "exhausted") if isinstance(status, str) else None


def _reset(fields: Mapping[str, object], now: Optional[datetime], bucket: str) -> Wait:
    """The wait from reset headers: of several the exhausted one, else the one that was hit."""
    found = [each for each in _buckets(fields, now) if each.wait or each.exhausted]
    usable = [each for each in found if each.wait]
    exhausted = [each.wait for each in usable if each.exhausted]
    if exhausted:
        return max(exhausted, key=lambda wait: _rank(wait, now))
    if any(each.exhausted for each in found):
        return Wait()  # the one that counts says nothing usable; another limit's reset is not its
    if len(usable) == 1:
        return usable[0].wait
    hit = [each.wait for each in usable if bucket and bucket in each.name]
    open_ = hit or [each.wait for each in usable if each.exhausted is None]
    return max(open_, key=lambda wait: _rank(wait, now), default=Wait())


def later(now: datetime, seconds: float) -> Optional[datetime]:
    """`seconds` after `now`, in UTC."""
    try:
        return now.astimezone(timezone.utc) + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


def _rank(wait: Wait, now: Optional[datetime]) -> float:
    if wait.until is not None and now is None:
        return wait.until.timestamp()
    return wait.length(now)


def exhausted_names(fields: Mapping[str, object], now: Optional[datetime]) -> str:
    """The names of the limits that headers call exhausted; these may tell of a day or a week."""
    found = []
    for each in _buckets(fields, now):
        if each.exhausted:
            minutes = _number(fields.get(f"{each.name.partition('-reset')[0]}-window-minutes"))
            found.append(f"{each.name} hour" if minutes and minutes >= 60 else each.name)
    for name in sorted(fields):
        if "remaining" in name and _number(fields[name]) == 0:
            found.append(name)
        elif name.endswith("representative-claim"):
            status = fields.get(name.replace("representative-claim", "status"))
            if not str(status).startswith("allowed"):
                found.append(str(fields[name])[:40])
    return " ".join(found)
