"""`gitstate plan`: what is done, what is not and why; what `run` would do, and its price. Never the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

from gitstate import show
from gitstate.commands.clone import Answer, Clone, statuses_of, utc_now
from gitstate.commands.known import claimed_by_others, receipts_hint
from gitstate.core import select
from gitstate.core.derive import PROTECTED, Status
from gitstate.core.identity import work_id
from gitstate.core.select import Selection
from gitstate.core.summary import Summary, states, summarise
from gitstate.edge.protect import check_outputs
from gitstate.edge.snapshot import View, receipts_digest
from gitstate.errors import NeedsHuman, UsageError

DUE = 4  # the exit code for "work is due", where it was asked for


def plan(
    clone: Clone,
    *,
    selection: Selection = Selection(),
    branch: str = "",
    as_json: bool = False,
    exit_code: bool = False,
    all: bool = False,
    out: str = "",
) -> int:
    """Answer on standard output. Returns 0, or with `exit_code` 4 where something selected is not done.

    `branch`: the one that results are recorded on, where that is not the one checked out. Raises UsageError where it
    is not here, or a run could not record on it.
    """
    now = utc_now()
    if as_json or out or branch or not selection.is_whole:
        tip = _tip(clone, branch) if branch else None
        view = clone.view(tip)
        workflow, every = view.plan.workflow, statuses_of(view, now)
        select.check(selection, workflow)
        statuses = select.choose(clone.words(selection), every)
        along = select.along(workflow, statuses, every)
        check_outputs(clone.repository, clone.git, [s for s in (*statuses, *along) if s.state != "done"])
        if out:
            _save(out, to_json(view, [*along, *statuses]))
        if as_json:
            print(to_json(view, statuses), end="", flush=True)
        else:
            summary = summarise(view.plan, statuses, clone.prices(view), view.snapshot.acts)
            unknown = view.receipts.unknown + view.log.unknown
            answer = Answer(view.tips, view.snapshot.dirty, summary, unknown)
            refused = _refused(clone, view, tip) if tip else ""
            _show(answer, clone, all, _Asked(clone.command(selection, branch), tuple(along), refused))
        due = any(status.state != "done" for status in statuses) or not view.plan.items
    else:
        answer = clone.answer(now)
        check_outputs(clone.repository, clone.git, answer.summary.open)
        _show(answer, clone, all, _Asked(clone.command()))
        due = bool(answer.summary.open) or not answer.summary.total
    return DUE if exit_code and due else 0


class _Asked(NamedTuple):
    """What of the plan was asked about."""

    command: str  # the run that means the same
    along: tuple[Status, ...] = ()  # works that it does besides, because those need them
    refused: str = ""  # why it would not begin


def _tip(clone: Clone, branch: str) -> Optional[str]:
    """The commit of a branch that results are recorded on, as far as this clone knows; None: the one checked out."""
    from gitstate.commands.target import target  # with the next one 10 ms, for what is rarely asked
    from gitstate.edge import remote

    aim = target(clone, branch)
    there = remote.pick(clone.git, aim.branch)
    known = [aim.branch, *([there.tracked_branch] if there is not None else [])]
    tip = next(filter(None, map(clone.objects.resolve, known)), None)
    if tip is None:
        raise UsageError(
            f"--branch {branch}: there is no such branch here. A run would look for it on the remote, and begin it "
            "where HEAD is if that has none.",
            _to_fetch(there.name, there.branch, there.tracked_branch) if there else "See: gitstate plan",
        )
    return None if aim.checked_out else tip


def _refused(clone: Clone, view: View, tip: str) -> str:
    """Why a run would not record on a branch at the commit `tip`; "" where it would."""
    from gitstate.commands.target import require_sources

    try:
        require_sources(clone, view, tip)
    except NeedsHuman as error:
        return f"{error.message} {error.hint}"
    return ""


def _to_fetch(name: str, branch: str, tracked: str) -> str:
    import shlex  # for what is rarely said

    return f"If {name} has it: git fetch {shlex.join([name, f'+{branch}:{tracked}'])}"


def to_json(view: View, statuses: Sequence[Status]) -> str:
    """The answer as one line of JSON, the same on every clone that shows the same (P3)."""
    counts = states(statuses)
    fields = {
        "format": 1,
        "head": view.tips.head,
        "receipts": receipts_digest(view.receipts),
        "dirty": list(view.snapshot.dirty),
        "summary": {
            "total": len(statuses),
            "done": counts["done"],
            "pending": counts["pending"],
            "running": counts["running"],
            "failed": counts["failed"],
            "paused": counts["paused"],
        },
        "work": [
            {
                "slug": status.slug,
                "stage": status.stage,
                "id": work_id(status.slug, status.stage, status.hash) if status.hash else None,
                "state": status.state,
                "reason": status.reason,
                "components": list(status.components),
                "category": status.category,
                "outputs": list(status.outputs),
            }
            for status in statuses
        ],
    }
    return show.as_json(fields) + "\n"


def _save(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="ascii", newline="") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.", "Name a file that can be written.") from error


def _show(answer: Answer, clone: Clone, all: bool, asked: _Asked) -> None:
    summary = answer.summary
    head = answer.tips.head[:9] if answer.tips.head else "no commit yet"
    stages = {stage for _, stage, _, _ in summary.counts}
    show.tell(
        f"{clone.config} at {head}: {show.number(summary.items, 'item')}, {show.number(len(stages), 'stage')}, "
        f"{show.number(summary.total, 'work')}, {summary.total - len(summary.open):,} done."
    )
    for line in show.plan_lines(summary, all):
        show.tell(line)
    if summary.open:
        show.tell("")
    for line in _outlook(answer, clone, asked):
        show.tell(line)


def _outlook(answer: Answer, clone: Clone, asked: _Asked) -> list[str]:
    """What `run` will do, and what stands in its way."""
    summary, lines = answer.summary, []
    if not summary.items:
        return ["The plan has no items, so there is nothing that could be done."]
    if not summary.total:
        return ["No item of the plan is in this part, so nothing is to be done here."]
    lines += [*_will(summary, asked), *receipts_hint(answer.tips, summary.open)]
    left = [s for s in summary.open if s.state == "failed" or s.reason in PROTECTED]
    paused = [s for s in summary.open if s.state == "paused" and s.category is not None]
    changed = [s for s in summary.open if s.state == "paused" and s.category is None]
    if left:
        lines.append(
            f"{show.number(len(left), 'work')} will be left alone. Look closer: gitstate why {show.safe(left[0].slug)}"
        )
    if paused:
        lines.append(
            f"{show.number(len(paused), 'work')} will be taken up again when the time has come: gitstate status. "
            "At once: gitstate reset --state paused"
        )
    if changed:
        lines.append(
            f"{show.number(len(changed), 'effect waits', 'effects wait')} for your word. Look closer: "
            f"gitstate status --resume {show.safe(changed[0].slug)}"
        )
    if not summary.open:
        lines.append("Everything is done.")
    if answer.dirty:
        shown = ", ".join(map(show.safe, answer.dirty[:5])) + (" …" if len(answer.dirty) > 5 else "")
        lines.append(
            f"Not committed as it stands: {shown}. `gitstate run` wants it committed, or --allow-dirty."
        )
    if answer.unknown:
        lines.append(
            f"{show.number(answer.unknown, 'line')} in the notes come from a newer gitstate and do not count here. "
            "Upgrade before you run."
        )
    if claimed := claimed_by_others(clone, answer.tips, summary.open):
        lines.append(show.claimed_line(claimed))
    return lines


def _will(summary: Summary, asked: _Asked) -> list[str]:
    """What `run` will do."""
    works = (*summary.open, *asked.along)
    # A work waits for others of its item; where one of those is left alone, it will not be done.
    stuck = {s.item for s in works if s.state in ("failed", "paused") or s.reason in PROTECTED}
    due = [
        s
        for s in works
        if s.state == "pending"
        and s.reason not in (*PROTECTED, "missing")
        and not (s.reason == "upstream" and s.item in stuck)
    ]
    free = [s for s in works if s.state == "pending" and s.reason == "missing"]
    unclear = [s for s in due if s.category == "unknown"]
    due = [s for s in due if s.category != "unknown"]
    parts = []
    if unclear:
        parts.append(f"settle {show.number(len(unclear), 'effect')} of unknown outcome")
    if due:
        along = {(s.slug, s.stage) for s in asked.along}
        needed = sum((s.slug, s.stage) in along for s in due)
        because = f" ({needed:,} of them because others need it)" if needed else ""
        parts.append(f"do {show.number(len(due), 'work')}{because}: {show.price_of(summary, due)}")
    if free:
        parts.append(f"restore {len(free):,} from git")
    if asked.refused:
        return [f"`{asked.command}` would refuse. {asked.refused}"]
    return [f"`{asked.command}` will {'; '.join(parts)}."] if parts else []
