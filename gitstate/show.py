"""States and events as text, and how figures, times and lines are written for people."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, Optional

from gitstate.core.derive import Status
from gitstate.core.pause import Pause, when
from gitstate.core.snapshot import WorkKey
from gitstate.core.summary import Estimate, Spend, Summary, estimate

if TYPE_CHECKING:
    from gitstate.core.lease import Held
    from gitstate.edge.sync import Amount, Outcome

# What a person may do about an effect whose inputs have changed since.
KEEP_OR_REPEAT = (
    'gitstate accept SLUG --stage STAGE --why "…" keeps it so, '
    "gitstate run --redo SLUG --stage STAGE repeats it"
)
# And about one that nobody can tell of.
ASK_OR_SAY = (
    "gitstate run --retry-failed asks its evidence again, gitstate resolve SLUG --happened EVIDENCE or "
    "--did-not-happen says it"
)

_MARKS = {  # heading -> (sign, colour, what `run` does about it)
    "new": ("+", "32", "to be made"),
    "stale": ("~", "33", "to be made again"),
    "missing": ("=", "36", "file gone; restored from git for nothing where its content is still there"),
    "expired": ("~", "33", "older than its stage's ttl; to be made again"),
    "upstream": (".", "2", "after what they need"),
    "asked": (
        "?",
        "33",
        "outcome unknown, evidence is asked first; an idempotent one is done again under its key",
    ),
    "unknown": (
        "?",
        "31",
        f"nobody could tell whether it has happened: {ASK_OR_SAY}",
    ),
    "changed": (
        "~",
        "35",
        f"changed after it happened: {KEEP_OR_REPEAT}",
    ),
    "edited": ("!", "35", "changed by hand, and stale; left alone"),
    "unverified": ("?", "35", "a file without any receipt; left alone"),
    "failed": ("x", "31", "failed before; left alone"),
    "paused": ("‖", "33", "waiting will cure it; taken up again when its time has come"),
    "running": (">", "34", "under way"),
}
_ORDER = tuple(_MARKS)
DUPLICATE = "came after another machine had taken the work over"  # said of attempts
SHOWN = 4  # slugs named on a line


def paint(text: str, code: str, file: Optional[IO[str]] = None) -> str:
    """`text` in a colour where `file` is a terminal and NO_COLOR is not set."""
    stream = file or sys.stdout
    if not code or os.environ.get("NO_COLOR") or not stream.isatty():
        return text
    return f"\033[{code}m{text}\033[0m"


def safe(text: str) -> str:
    """`text` without control characters: what is printed must not drive the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def number(count: int, word: str, plural: str = "") -> str:
    """A count with its noun: "1 work", "12 works"."""
    return f"{count:,} {word if count == 1 else plural or word + 's'}"


def duration(seconds: float) -> str:
    """Seconds as people say them: "0.4 s", "41 s", "23 min", "5 h 10 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours / 24:.1f} days"


def clock_time(moment: datetime) -> str:
    """A moment in local time, with its day where that is not today."""
    local = moment.astimezone()
    today = local.date() == datetime.now().astimezone().date()
    return local.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S %Z").strip()


def money(usd: float) -> str:
    """US dollars, with more digits where there is little of it."""
    return f"${usd:,.2f}" if round(usd, 2) == round(usd, 4) else f"${usd:,.4f}"


def cost(price: Estimate) -> str:
    """What works will probably cost, in words."""
    if price.seconds is None and price.usd is None:
        return "no receipts yet to say how long it takes or what it costs"
    parts = []
    if price.seconds is not None:
        parts.append(f"about {duration(price.seconds)} of work")
    if price.usd is not None:
        parts.append(f"about {money(price.usd)}")
    words = ", ".join(parts) + " by the receipts so far"
    if price.unknown:
        words += f" ({number(price.unknown, 'work')} of a kind not seen yet left out)"
    return words


def names(statuses: Sequence[Status], all: bool = False) -> str:
    """The slugs of some works on one line, the first few unless `all`."""
    slugs = list(dict.fromkeys([status.slug for status in statuses]))
    if all or len(slugs) <= SHOWN + 1:
        return ", ".join(map(safe, slugs))
    return f"{', '.join(map(safe, slugs[:SHOWN]))} … {len(slugs) - SHOWN:,} more"


def grouped(
    works: Iterable[Status], unknown: Container[WorkKey] = ()
) -> dict[tuple[str, str, tuple[str, ...], str], list[Status]]:
    """Open works by (heading, stage, moved components, category), in the order in which they are shown. `unknown`
    are those of unknown outcome."""
    found: dict[tuple[str, str, tuple[str, ...], str], list[Status]] = {}
    for status in works:
        heading = _heading(status, (status.slug, status.stage) in unknown)
        category = "" if heading in ("asked", "unknown") else status.category or ""
        key = (heading, status.stage, status.components, category)
        found.setdefault(key, []).append(status)
    return dict(
        sorted(found.items(), key=lambda pair: _ORDER.index(pair[0][0]) if pair[0][0] in _MARKS else 99)
    )


def _heading(status: Status, unknown: bool) -> str:
    if unknown and status.state in ("failed", "pending") and status.category == "unknown":
        return "unknown" if status.state == "failed" else "asked"
    if status.state == "paused" and status.category is None:
        return "changed"
    return status.state if status.state in ("failed", "paused", "running") else str(status.reason)


def plan_lines(summary: Summary, all: bool = False) -> list[str]:
    """The body of `plan`: what is open, by reason, and what moved."""
    lines: list[str] = []
    heading = ""
    width = max((len(status.stage) for status in summary.open), default=0)
    groups = grouped(summary.open, frozenset(summary.unknown))
    for (reason, stage, components, category), works in groups.items():
        sign, colour, action = _MARKS.get(reason, ("-", "", ""))
        if reason != heading:
            total = sum(len(group) for key, group in groups.items() if key[0] == reason)
            lines += ["", paint(f"{sign} {reason} {total:,}", colour) + f"  ({action})"]
            heading = reason
        moved = f"  {', '.join(components)} moved:" if components else ""
        failed = f"  {category}:" if category else ""
        lines.append(
            f"    {safe(stage):<{width}}  {len(works):>6,} {moved}{failed}  {names(works, all)}".rstrip()
        )
    return lines


def price_of(summary: Summary, works: Iterable[Status]) -> str:
    """What some open works will probably cost, in words."""
    return cost(estimate(works, summary.prices))


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as aligned columns; the columns in `right` are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def tell(line: str, file: Optional[IO[str]] = None) -> None:
    """Write one line; a reader that has gone away is no error of ours."""
    print(line, file=file or sys.stdout, flush=True)


def as_json(fields: Mapping[str, object]) -> str:
    """An answer for scripts: the same bytes wherever it is asked (P3)."""
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))


def tell_json(fields: Mapping[str, object]) -> None:
    """Answer a script, in a line."""
    tell(as_json(fields))


def story(line: str, end: str = "\n") -> None:
    """One line of the story, on standard error: results go to standard output.

    Where nobody hears it any more (the terminal was closed, the reader of a pipe has gone), the work goes on without.
    """
    try:
        print(line, end=end, file=sys.stderr, flush=True)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EPIPE):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def bar(done: int, total: int, width: int = 20) -> str:
    """How far something is, as a bar of `width` characters; full only when all is done."""
    filled = width * done // total if total else 0
    return "█" * filled + "·" * (width - filled)


def unknown_line(count: int) -> str:
    """Effects of which nobody has noted whether they happened."""
    what = number(count, "effect is of unknown outcome", "effects are of unknown outcome")
    return f"{what}: gitstate plan names them, gitstate status --resume SLUG says what is known."


def spend_lines(spend: Mapping[str, Spend]) -> list[str]:
    """What all attempts took, those that brought nothing apart."""
    parts = []
    words = {
        "accepted": "brought results",
        "rejected": "failed",
        "duplicate": DUPLICATE,
        "lost": "ended without an answer, at a cost unknown",
    }
    for kind, sums in spend.items():
        if sums.attempts:
            price = [money(sums.usd)] if sums.usd else []
            price += [f"{sums.tokens:,} tokens"] if sums.tokens else []
            price += [duration(sums.seconds)] if sums.seconds else []
            if sums.unpriced and sums.usd and kind != "lost":
                price.append(f"{sums.unpriced:,} without a price")
            parts.append(
                f"{number(sums.attempts, 'attempt')} {words[kind]}{': ' + ', '.join(price) if price else ''}"
            )
    return [f"Spent so far: {'; '.join(parts)}."] if parts else []


def holder(fields: Mapping[str, object]) -> str:
    """Who holds the run lock, in words."""
    since, when = fields.get("since"), "?"
    with contextlib.suppress(OverflowError, ValueError, OSError):  # a number that is no time
        if isinstance(since, (int, float)):
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    return f"pid {safe(str(fields.get('pid', '?')))} on {safe(str(fields.get('host', '?')))} since {when}"


def left_line(calls: int, answered: int) -> str:
    """What runs that are over have left on record: those without an answer died with theirs, the others may wait."""
    told = f", {answered:,} of them answered" if answered else ""
    what = (
        f"{number(answered, 'answer waits', 'answers wait')} here to be recorded"
        if answered == calls
        else f"A run was killed here and left {number(calls, 'call')}{told}"
    )
    return (
        f"{what}: the next `gitstate run` (or `gitstate recover`) sees to {'it' if calls == 1 else 'them'}."
    )


def undelivered_line(works: int, remote: str, running: bool) -> str:
    """What is finished here and on the remote not yet; `running`: a run here will deliver it."""
    verb = "is" if works == 1 else "are"
    what = f"{number(works, 'work')} {verb} not on {safe(remote)} yet"
    who = "the run that is going on here" if running else "`gitstate sync`"
    return f"{what}: {who} delivers {'it' if works == 1 else 'them'}."


def claimed_line(works: int) -> str:
    """What others have claimed."""
    verb = "is" if works == 1 else "are"
    return (
        f"{number(works, 'work')} {verb} claimed by others, when the remote was last asked: gitstate status"
    )


def run_summary(fields: Mapping[str, object]) -> str:
    """What a run did, in words."""
    words = (
        ("done", "done"),
        ("restored", "restored"),
        ("failed", "failed"),
        ("paused", "paused"),
        ("left", "left alone"),
    )
    parts = [f"{fields.get(name, 0)} {word}" for name, word in words if fields.get(name)]
    end = " (interrupted)" if fields.get("code") == 130 else ""
    at, code = fields.get("at", "?"), fields.get("code", "?")
    return safe(f"{at}, {', '.join(parts) or 'nothing done'}, exit {code}{end}.")


def first_words(evidence: str) -> str:
    """The beginning of some evidence, on one line."""
    return safe(" ".join(evidence.split())[:200])


def pause_line(pause: Pause) -> str:
    """A closed window, and when it is looked at again."""
    stated = f", stated to open at {clock_time(when(pause.until))}" if pause.until else ""
    person = " A person must act: waiting does not help." if pause.kind == "billing" else ""
    person += " To go on at once: gitstate reset --state paused"
    words = f": {first_words(pause.why).removesuffix('.')}" if pause.why else ""
    look = f"Next look at {clock_time(when(pause.probe))}{stated}."
    return f"Paused: {safe(pause.account)}, {safe(pause.name)}{words}. {look}{person}"


def lease_lines(held: Sequence[Held]) -> list[str]:
    """Who is at work on the plan, a line for each."""
    lines = []
    for holder in dict.fromkeys(one.holder for one in held):
        theirs = [one for one in held if one.holder == holder]
        works = [work for one in theirs for work in one.works]
        named = ", ".join(map(safe, works[:SHOWN])) + (" …" if len(works) > SHOWN else "")
        who = "this clone" if theirs[0].own else "another machine"
        lines.append(
            f"Held by {holder[:8]} ({who}), when the remote was last asked: {number(len(works), 'work')}, generation "
            f"{max(one.generation for one in theirs)}{_standing(theirs)}: {named}"
        )
    return lines


def _standing(held: Sequence[Held]) -> str:
    """Since when one holder's leases stand as they do, and until when."""
    ages = [one.age for one in held if one.age is not None]
    left = [one.left for one in held if one.left is not None]
    since = f"; last sign of life {duration(min(ages))} ago" if ages else ""
    return since + (f", ends in {duration(min(left))} unless it is renewed" if left else "")


def _amount(what: Amount) -> str:
    parts = [
        number(what.commits, "commit") if what.commits else "",
        number(what.receipts, "receipt") if what.receipts else "",
        f"log lines on {number(what.log, 'work')}" if what.log else "",
    ]
    return ", ".join(filter(None, parts)) or "nothing"


def alone(branch: Optional[str], remotes: Sequence[str]) -> str:
    """That a branch (full ref; None: a detached HEAD) has no remote, of all that there are."""
    if not remotes:
        return "This repository has no remote, so there is nothing to sync with."
    name = safe((branch or "HEAD").removeprefix("refs/heads/"))
    return (
        f"{name} has no upstream, and none of the remotes {safe(', '.join(remotes))} is `origin`, so there is "
        f"nothing to sync with. Choose one: git push -u REMOTE {name}"
    )


def preview_lines(outcome: Outcome, branch: str) -> list[str]:
    """What a sync would do, in words."""
    assert outcome.remote is not None
    came, went = _amount(outcome.came), _amount(outcome.went)
    lines = [f"{safe(branch)} and {safe(outcome.remote.name)}: {came} would come, {went} would go."]
    if outcome.users_commits:
        lines.append(f"{number(outcome.users_commits, 'commit')} of your own would go along.")
    return lines


def sync_lines(outcome: Outcome, branch: str) -> list[str]:
    """What a sync did, in words."""
    assert outcome.remote is not None
    name = safe(outcome.remote.name)
    came, went = _amount(outcome.came), _amount(outcome.went)
    lines = [f"{safe(branch)} and {name} agree. Came: {came}. Went: {went}."]
    if outcome.users_commits:
        lines.append(f"{number(outcome.users_commits, 'commit')} of your own went along.")
    if outcome.replaced:
        lines.append(
            f"{number(len(outcome.replaced), 'commit')} of gitstate's became one on top of what came."
        )
    for lost in outcome.lost:
        lines.append(f"{safe(lost.path)} was made on both sides; the remote's stays.")
    return lines
