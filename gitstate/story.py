"""The story of a run, line by line: what each attempt came to, and what the run did in the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gitstate.core.schedule import Agenda
from gitstate.core.verdict import Failed
from gitstate.show import (
    ASK_OR_SAY,
    KEEP_OR_REPEAT,
    SHOWN,
    duration,
    first_words,
    money,
    names,
    number,
    paint,
    safe,
)

if TYPE_CHECKING:
    from gitstate.core.guard import Stray


def done_line(name: str, outputs: Sequence[str], seconds: float, usd: object, counter: str) -> str:
    """A work that is done and recorded."""
    price = f", {money(usd)}" if isinstance(usd, (int, float)) else ""
    return f"{paint('✓', '32', sys.stderr)} {safe(name)}  {safe(outputs[0])}  {duration(seconds)}{price}  [{counter}]"


def recalled_line(name: str, outputs: Sequence[str], seconds: float, usd: object, counter: str) -> str:
    """A work that is done by an answer kept from before, which passes today."""
    sign = paint("✓", "32", sys.stderr)
    return f"{sign} {safe(name)}  {safe(outputs[0])}  its kept answer passes now, nothing was paid again  [{counter}]"


def adopted_line(name: str, outputs: Sequence[str], seconds: float, usd: object, counter: str) -> str:
    """An effect that has happened before, as evidence says."""
    sign = paint("✓", "32", sys.stderr)
    return f"{sign} {safe(name)}  {safe(outputs[0])}  it has happened, says evidence; not done again  [{counter}]"


def unsure_line(name: str, failed: Failed) -> str:
    """An act that failed, and may have happened all the same."""
    sign = paint("?", "33", sys.stderr)
    return f"{sign} {safe(name)}  {failed.name}: {first_words(failed.evidence)}  (asking whether it has happened)"


def asked_again_line(name: str, after: float) -> str:
    """An act that does not show, and may still."""
    return f"? {safe(name)}  it does not show; asked again in {duration(after)}, in case it is on its way"


def elsewhere_line(name: str, until: str) -> str:
    """An act that another clone began and has not told the end of."""
    return f"{paint('‖', '33', sys.stderr)} {safe(name)}  may be under way in another clone until {until}"


def absent_line(name: str, said: str) -> str:
    """An act that has not happened."""
    return f"{paint('↻', '33', sys.stderr)} {safe(name)}  it has not happened, says evidence ({safe(said)})"


def insisting_line(said: str, after: float) -> str:
    """What an effect did is not recorded yet."""
    return f"What has been done cannot be recorded ({first_words(said)}); trying again in {duration(after)}."


def large_job_line(stage: str, size: int) -> str:
    """What each work of a stage brings along to its worker is much."""
    return (
        f"Each work of {stage} takes {size / 1e6:.0f} MB of files along to its worker (`code`, `inputs`, `needs`); "
        "where that is slow, install what does not change on the workers instead."
    )


def failed_line(name: str, failed: Failed) -> str:
    """A work that failed, with the first line of the evidence."""
    words = first_words(failed.evidence)
    sign = paint("‖", "33", sys.stderr) if failed.state == "paused" else paint("✗", "31", sys.stderr)
    return f"{sign} {safe(name)}  {failed.name}: {words}"


def again_line(name: str, failed: Failed, after: float) -> str:
    """An attempt that failed, and when its work comes again."""
    return (
        f"{paint('↻', '33', sys.stderr)} {safe(name)}  {failed.name}: "
        f"{first_words(failed.evidence)}  (again in {duration(after)})"
    )


def closed_line(name: str, failed: Failed) -> str:
    """An attempt that found its account's window closed."""
    sign = paint("‖", "33", sys.stderr)
    return f"{sign} {safe(name)}  {failed.name}: {first_words(failed.evidence)}"


def kept_line(name: str, taken: Sequence[str]) -> str:
    """A response whose work has changed since it was asked for, or was done by somebody else, who took its paths."""
    if taken:
        return f"~ {safe(name)}  was done elsewhere meanwhile; that one stays, this one is kept with its own receipt"
    return f"~ {safe(name)}  its inputs changed while it was made; kept with a receipt of its own, not put in place"


def late_line(name: str) -> str:
    """A response that came after another machine had taken its work over."""
    return (
        f"~ {safe(name)}  another machine had taken it over before this one could be published; this one is kept, and "
        "counted as a duplicate"
    )


def waiting_for_others_line(held: int, others: int, left: float) -> str:
    """What a run waits for that has nothing else to do, and for how many seconds at most where nobody renews."""
    who = number(others, "other")
    return (
        f"Waiting for {number(held, 'work')} held by {who} (gitstate status says by whom). Where that has died, its "
        f"claim ends in {duration(left)} at the latest."
    )


def waiting_for_remote_line(message: str) -> str:
    """Why a run that waits claims nothing."""
    return f"Waiting for the remote, to claim more: {first_words(message)}"


def taken_over_line(count: int, holder: str, own: bool) -> str:
    """Works of somebody who did not renew its claim."""
    who = (
        "a run of this clone that was killed"
        if own
        else f"{holder[:8]}, which did not renew its claim in time"
    )
    return f"Took over {number(count, 'work')} from {who}."


def not_claimed_line(message: str, hint: str) -> str:
    """Why a run that shares its works with others begins nothing more."""
    return f"Nothing more can be claimed: {message.rstrip('.')}. {hint}".rstrip()


def in_the_way_line(name: str, paths: Sequence[str]) -> str:
    """A work whose place is taken by something nobody vouches for."""
    return (
        f"{paint('!', '35', sys.stderr)} {safe(name)}  left alone: {', '.join(map(safe, paths))} holds content that "
        "neither a commit nor a receipt vouches for"
    )


def disturbed_line(branch: str, dirty: Sequence[str]) -> str:
    """Why nothing new begins in a run whose clone was changed under it."""
    name = safe(branch.removeprefix("refs/heads/"))
    if dirty:
        changed = ", ".join(map(safe, dirty[:5]))
        return f"Changed while this runs, and not committed: {changed}. Nothing new begins; commit it and run again."
    return f"Another branch was checked out: what is under way is recorded on {name}, nothing new begins."


_AWAY = "The remote does not have all results yet: they are safe here, `{}` delivers them."


def stray_words(stray: Stray) -> str:
    """A file that was written where no output is declared, and by whom, as far as that can be known."""
    suspects = sorted({span.name for span in stray.suspects})
    who = safe(", ".join(suspects[:SHOWN]))
    if len(suspects) > SHOWN:
        who = f"{who} and {len(suspects) - SHOWN:,} more"
    one_of = "one of: " if len(suspects) > 1 else ""
    return f"{safe(stray.path)} was {stray.how} by {one_of}{who}, or somebody else"


def strayed(strays: Sequence[Stray], most: int = 10) -> str:
    """Why a work failed whose command wrote elsewhere."""
    more = f"; and {len(strays) - most:,} more" if len(strays) > most else ""
    return f"Not declared as an output: {'; '.join(map(stray_words, strays[:most]))}{more}"


def strayed_lines(strays: Sequence[Stray], most: int) -> list[str]:
    """What a run's commands wrote where no output is declared, for the end of the run."""
    if not strays:
        return []
    lines = [f"{number(len(strays), 'file was', 'files were')} written where no output is declared:"]
    lines += [f"  {stray_words(stray)}" for stray in strays[:most]]
    if strays[most:]:
        lines.append(f"  and {len(strays) - most:,} more")
    return [
        *lines,
        "Nothing was put back. Declare them under `output`, let git ignore them, or write to $GITSTATE_SCRATCH ; "
        "`guard: off` ends the looking.",
    ]


def run_end(fields: Mapping[str, Any], agenda: Agenda, done: int, command: str, sync: str) -> list[str]:
    """What a run did, at its end, and what to type next: `command` to go on, and where results wait here `sync`."""
    counts = (
        (fields["restored"], "restored"),
        (fields["elsewhere"], "done by others"),
        (fields["unchanged"], "still as they should be"),
        (fields["failed"], "failed"),
        (fields["paused"], "paused"),
        (fields["left"], "left alone"),
        (fields["asked"], "waiting for your word"),
        (fields["held"], "held by others"),
        (fields["unfinished"] - fields["held"], "not begun or not finished"),
        (len(agenda.failed) + fields["before"], "failed before"),
        (len(agenda.paused), "paused before"),
        (len(agenda.blocked), "wait for those"),
    )
    if not fields["done"] and not fields["untold"] and not any(count for count, _ in counts):
        lines = [f"Nothing to do: {number(done, 'work is', 'works are')} done.{_skipped(fields)}"]
        return [*lines, _AWAY.format(sync)] if sync else lines
    parts = [f"{fields['done']:,} done", *(f"{count:,} {words}" for count, words in counts if count)]
    if done:
        parts.append(f"{number(done, 'was', 'were')} done already")
    spent = f", {money(fields['usd'])}" if fields["usd"] else ""
    lines = [f"{', '.join(parts)} in {duration(fields['seconds'])}{spent}.{_skipped(fields)}"]
    if fields["stopped"]:
        lines.append(f"Stopped: {safe(fields['stopped'])}.")
    if fields["asked"]:
        lines.append(
            "Some effects wait for your word (gitstate plan names them). Where nobody can tell what happened: "
            f"{ASK_OR_SAY}. Changed after it happened: {KEEP_OR_REPEAT}."
        )
    if fields["untold"]:
        lines.append(
            f"{number(fields['untold'], 'effect was', 'effects were')} not begun: the remote has to know before, and "
            "was not to be asked, or out of reach."
        )
    if agenda.failed or fields["failed"]:
        lines.append(
            "Failed works stay failed until an input changes; see gitstate why SLUG. `gitstate run --retry-failed` "
            "holds kept answers against today's checks first, and asks again where they do not pass."
        )
    if agenda.protected:
        lines.append(
            f"Left alone, because nobody vouches for them or a human edited them: {names(agenda.protected)}. "
            'Take them as they are: gitstate accept SLUG --why "…"; make them anew: '
            "gitstate run --redo SLUG --stage STAGE"
        )
    if fields["dropped"]:
        lines.append(
            f"{number(fields['dropped'], 'call was', 'calls were')} ended before an answer came; whether that is "
            "billed, only the provider knows."
        )
    if fields["held"]:
        lines.append(
            f"{number(fields['held'], 'work is', 'works are')} held by {number(fields['holders'], 'other')}. "
            f"`{command} --wait` waits for what becomes of them."
        )
    if fields["again"]:
        count = number(fields["again"], "work is", "works are")
        lines.append(f"{count} due again: something that shapes them was changed, or others took them over.")
    if fields["again"] or (fields["unfinished"] and not fields["held"]):
        lines.append(f"`{command}` goes on from here.")
    return [*lines, _AWAY.format(sync)] if sync else lines


def _skipped(fields: Mapping[str, Any]) -> str:
    """What was not bought again, by the receipts that stand for it."""
    if not fields["saved_seconds"]:
        return ""
    price = f" and {money(fields['saved_usd'])}" if fields["saved_usd"] else ""
    return f" What was done already stands for {duration(fields['saved_seconds'])} of work{price} not spent again."


def causes_lines(causes: Mapping[str, tuple[int, str, str]]) -> list[str]:
    """What failed, by category and kind, the most frequent first, with the first evidence and the command to type."""
    lines = []
    for cause, (count, first, evidence) in sorted(causes.items(), key=lambda pair: -pair[1][0]):
        slug = safe(first.rpartition("@")[0].rpartition("/")[0])
        lines.append(f"  {count:,} x {cause}, first: {first_words(evidence) or '(no words)'}")
        lines.append(f"      gitstate why {slug}")
    return lines
