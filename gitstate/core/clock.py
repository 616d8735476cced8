"""Clock times in words: "resets 4:20am (America/Sao_Paulo)", "try again at Sep 2nd, 2026 7:23 AM".

Pure: the time and the machine's zone are passed in. Comparisons are made in UTC, as two local times of one zone
compare by what their clocks show, also when these jump in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import NamedTuple, Optional

from gitstate.core.sieve import fold, gate
from gitstate.core.signal import iso, offset, zone_named

_JUST = timedelta(hours=1)  # a time that passed less than this ago has just been reached
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_MONTH = (
    r"(?P<month{0}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"(?:uary|ruary|ch|il|e|y|ust|t(?:ember)?|tember|ober|ember)?\.?"
)
_DATE = "|".join(
    (
        r"(?P<iso>\d{4}-\d\d-\d\d)",
        _MONTH.format(1) + r"\s+(?P<day1>\d{1,2})(?:st|nd|rd|th)?(?!\d|:)(?:,?\s+(?P<year1>20\d\d))?",
        r"(?P<day2>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?" + _MONTH.format(2) + r"(?:,?\s+(?P<year2>20\d\d))?",
        r"(?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:day|sday|nesday|rsday|urday|s|rs|r)?\b",
        r"(?P<relative>today|tomorrow)",
    )
)
_TIME = (
    r"(?P<word>midnight|noon)"
    r"|(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?)?\s?(?P<half>[ap]\.?m\b\.?)"
    r"|(?P<hour24>\d{1,2}):(?P<minute24>\d\d)(?::(?P<second24>\d\d)(?:\.\d+)?)?(?![\d:])"
)
_ZONE = (
    r"\(?(?P<zone>[A-Za-z]+/[A-Za-z_]+(?:/[A-Za-z_]+)?|(?:utc|gmt)?\s?[+-]\d{1,2}(?::?\d\d)?\b"
    r"|utc|gmt|z\b|[ECMPAH][SD]?T\b|[CEW]ES?T\b|BST|JST|IST|KST|AEST|AEDT|SGT|HKT|MSK"
    r"|(?:us[ /])?(?:pacific|eastern|central|mountain)(?:\s(?:standard|daylight))?(?:\stime)?)\)?"
)
_JOIN = r"(?:,?\s*(?:at|on|@|by|around|[T,])?\s*)"
# A date then a time, a time then a date, one of them alone; a zone behind the time or behind all.
_MOMENT = re.compile(rf"(?:(?:(?P<first>{_DATE}),?{_JOIN})?(?P<time>{_TIME})(?:\s*{_ZONE})?)", re.IGNORECASE)
_BEHIND = re.compile(rf"{_JOIN}(?:{_DATE})(?:\s*{_ZONE})?", re.IGNORECASE)
_DATE_ALONE = re.compile(rf"(?:{_DATE})(?:\s*{_ZONE})?", re.IGNORECASE)
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?(?![\d:])",
    re.IGNORECASE,
)
_SAID = re.compile(  # in lower case, see `sieve.fold`
    r"""(?x) \b(?: resets? | resetting | try \s again | retry | available | unavailable | regain\w* | access | until
    | resum\w+ | renew\w* | refresh\w* | restor\w+ | replenish\w* | lift\w* | unlock\w* | unblock\w* | back | again
    | after | expires? | ends? | next ) \b [^\n.;!?]{0,30}? (?= \b\d | \b(?:midnight|noon|today|tomorrow|mon|tue|wed
    |thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) )"""
)

_HOW_LONG = re.compile(r"(?i)\b(?:in|within|for)\s+(?:about\s+|~\s*)?$")

_ABBREVIATED = {  # hours from UTC, for those that name one offset
    "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7, "akst": -9, "hst": -10,
    "ast": -4, "adt": -3, "bst": 1, "cest": 2, "eest": 3, "west": 1, "jst": 9, "kst": 9, "ist": 5.5, "sgt": 8,
    "hkt": 8, "aest": 10, "aedt": 11, "msk": 3, "utc": 0, "gmt": 0, "z": 0,
}  # fmt: skip
_REGIONS = {
    "pt": "America/Los_Angeles", "pacific": "America/Los_Angeles", "et": "America/New_York",
    "eastern": "America/New_York", "ct": "America/Chicago", "central": "America/Chicago",
    "mt": "America/Denver", "mountain": "America/Denver", "cet": "Europe/Paris", "eet": "Europe/Helsinki",
    "wet": "Europe/Lisbon", "at": "America/Halifax",
}  # fmt: skip


class Clock(NamedTuple):
    """A clock time that was stated: the moment, or None where it cannot be read, has passed or is just reached."""

    until: Optional[datetime]


_may_return = gate(_SAID)


def stated(text: str, folded: str, now: Optional[datetime], zone: Optional[tzinfo]) -> Optional[Clock]:
    """The clock time of a return that `text` states, of which `folded` is `sieve.fold`; None where it states none.

    `zone` is the machine's, for times without one of their own.
    """
    if not _may_return(folded):
        return None
    found: Optional[Clock] = None
    for start in _starts(folded):
        moment = _read(text[start : start + 80], now, zone)
        if moment is None:
            continue
        if moment.until is not None and (found is None or found.until is None or moment.until > found.until):
            found = moment
        found = found or moment
    return found


def _starts(text: str) -> Iterator[int]:
    """Where, behind a word of return, something begins that may be a time."""
    seen = set()
    for number, match in enumerate(_SAID.finditer(text)):
        if number == 20:
            return
        # "in 02:30:00" is how long, not when
        if match.end() not in seen and not _HOW_LONG.search(match[0]):
            seen.add(match.end())
            yield match.end()


def _read(text: str, now: Optional[datetime], zone: Optional[tzinfo]) -> Optional[Clock]:
    stamp = _STAMP.match(text)
    if stamp:
        rest = re.match(rf"\s*{_ZONE}", text[stamp.end() :], re.IGNORECASE)
        named = (
            _zone_of(rest["zone"])
            if rest and not re.search(r"(?:Z|UTC|GMT|[+-]\d\d:?\d\d)$", stamp[0])
            else zone
        )
        return Clock(_ahead(iso(re.sub(r"(?i)\s?(utc|gmt)$", "Z", stamp[0]), named), now))
    clock = _MOMENT.match(text)
    if clock:
        behind = None if clock["first"] else _BEHIND.match(text, clock.end())
        said = clock["zone"] or (behind["zone"] if behind else None)
        here = _zone_of(said) if said else zone
        return Clock(_next(_time(clock), _when(clock if clock["first"] else behind), here, now))
    alone = _DATE_ALONE.match(text)
    if alone:
        here = _zone_of(alone["zone"]) if alone["zone"] else zone
        return Clock(_next(time(0), _when(alone), here, now))
    return None


def _zone_of(said: str) -> Optional[tzinfo]:
    word = said.strip("() ").lower()
    if "/" in word and not word.startswith("us"):
        return zone_named(said.strip("() "))
    match = re.fullmatch(r"(?:utc|gmt)?\s?([+-])(\d{1,2})(?::?(\d\d))?", word)
    if match:
        return offset(f"{match[1]}{match[2].rjust(2, '0')}{match[3] or '00'}")
    if word in _ABBREVIATED:
        return timezone(timedelta(hours=_ABBREVIATED[word]))
    name = _REGIONS.get(re.sub(r"^us[ /]", "", word).split(" ")[0])
    return zone_named(name) if name else None


def _time(match: re.Match[str]) -> Optional[time]:
    if match["word"]:
        return time(12) if match["word"].lower() == "noon" else time(0)
    if match["half"]:
        hour, minute, second = int(match["hour"]), int(match["minute"] or 0), int(match["second"] or 0)
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match["half"].lower().startswith("p") else 0)
    else:
        hour, minute, second = int(match["hour24"]), int(match["minute24"]), int(match["second24"] or 0)
    return time(hour % 24, minute, second) if hour <= 24 and minute < 60 and second < 60 else None


class _When(NamedTuple):
    """A date as far as it was said."""

    year: Optional[int] = None
    month: Optional[int] = None
    day: Optional[int] = None
    weekday: Optional[int] = None
    ahead: Optional[int] = None  # days from today


def _when(match: Optional[re.Match[str]]) -> _When:
    if match is None:
        return _When()
    if match["iso"]:
        year, month, day = map(int, match["iso"].split("-"))
        return _When(year, month, day)
    for number in ("1", "2"):
        if match[f"month{number}"]:
            said = match[f"year{number}"]
            month = _MONTHS.index(fold(match[f"month{number}"])) + 1
            return _When(int(said) if said else None, month, int(match[f"day{number}"]))
    if match["weekday"]:
        return _When(weekday=_DAYS.index(fold(match["weekday"])))
    return _When(ahead=0 if match["relative"].lower() == "today" else 1)


def _next(
    at: Optional[time], when: _When, zone: Optional[tzinfo], now: Optional[datetime]
) -> Optional[datetime]:
    """The next moment at which the clocks of `zone` show this; None where it was reached within the last hour."""
    if at is None or zone is None:
        return None
    if when.year is not None:
        return _ahead(_moment(_day(when.year, when.month, when.day), at, zone), now)
    if now is None:
        return None
    today = now.astimezone(zone).date()
    for day in _days(when, today):  # which follow each other, and so do the moments
        moment = _moment(day, at, zone)
        if moment is not None and moment > now - _JUST:
            return moment if moment > now else None
    return None


def _days(when: _When, today: date) -> list[Optional[date]]:
    """The days around `today` that a date without a year may mean."""
    if when.month is not None:
        return [
            _day(today.year + years, when.month, when.day) for years in range(-1, 9)
        ]  # to the next 29 February
    if when.ahead is not None:
        return [today + timedelta(days=when.ahead)]
    around = [today + timedelta(days=days) for days in range(-1, 9)]
    return [day for day in around if when.weekday is None or day.weekday() == when.weekday]


def _day(year: int, month: Optional[int], day: Optional[int]) -> Optional[date]:
    try:
        return date(year, month or 0, day or 0)
    except ValueError:
        return None


def _moment(day: Optional[date], at: time, zone: tzinfo) -> Optional[datetime]:
    if day is None:
        return None
    try:
        return datetime.combine(day, at, zone).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def _ahead(moment: Optional[datetime], now: Optional[datetime]) -> Optional[datetime]:
    """`moment` in UTC, unless it has passed."""
    if moment is None:
        return None
    try:
        moment = moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    return moment if now is None or moment > now else None
