"""What the start of every run, and `gitstate recover`, does about a run that died (design section 6, the table)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from typing import Optional, TypeVar

from gitstate import show
from gitstate.commands.acts import weighed
from gitstate.commands.attempting import judge
from gitstate.commands.clone import Clone, utc_now
from gitstate.commands.judging import Judged
from gitstate.commands.lines import lost_line
from gitstate.commands.locked import locked
from gitstate.commands.reacting import decided
from gitstate.commands.session import Session
from gitstate.commands.settling import Settled, settle
from gitstate.commands.target import Target, target
from gitstate.core.identity import work_id
from gitstate.core.receipt import LogLine
from gitstate.edge import group
from gitstate.edge.attempts import Attempt, Attempts, Intent
from gitstate.edge.worktree import Blocked
from gitstate.errors import UsageError

T = TypeVar("T")


def recover(session: Session, only: Optional[str] = None) -> list[Settled]:
    """Finish every attempt on record: promote and record what was spooled, forget what was not. `only`: those that
    were begun for this branch.

    Pays nothing, says what it did in one line each, and may itself be killed anywhere. Returns how the
    attempts with a response ended; those whose place is taken stay in the spool.
    """
    found = [
        attempt for attempt in session.attempts.all() if only is None or attempt.intent.branch in (only, "")
    ]
    _sweep(session, found)
    spooled: list[Judged] = []
    lost: list[tuple[str, LogLine]] = []
    withdrawn: list[Intent] = []
    for attempt in found:
        if attempt.spooled is not None and attempt.intent.stage not in session.stages:
            show.story(f"{_name(attempt)}: its answer waits in the spool; its stage is not configured here.")
        elif attempt.spooled is not None:
            judged = judge(session, attempt.intent, attempt.spooled)
            spooled.append(_decided(session, judged))
        elif _never_acted(session, attempt):
            withdrawn.append(attempt.intent)
        elif not session.on_record(attempt.intent):
            lost.append(lost_line(session.clone.objects, attempt.intent))
    if lost:
        session.record({}, (), lost, [])
    session.withdraw(withdrawn)
    unknown = {line.attempt for _, line in lost}
    for attempt in found:
        if attempt.intent.attempt in unknown:
            what = "it is pending again"
            if session.acts.get((attempt.intent.slug, attempt.intent.stage)):
                what = "whether it has happened is not known"
            show.story(f"Recovered {_name(attempt)}: it died before its answer came; {what}.")
    session.attempts.remove(attempt.intent.attempt for attempt in found if attempt.spooled is None)
    settled = settle(session, spooled) if spooled else []
    for work in settled:
        show.story(_line(work))
    for attempt in found:
        intent = attempt.intent
        session.act_is_over((intent.slug, intent.stage), intent.attempt)
    session.judge_again(
        session.statuses[key].item
        for intent in (*withdrawn, *(work.intent for work in settled))
        if (key := (intent.slug, intent.stage)) in session.statuses
    )
    return settled


def meet(clone: Clone, aim: Target, remote: Callable[[], T]) -> tuple[T, list[Settled]]:
    """Meet the `remote`, and where the files that a killed run wrote and did not record stand in the way of what comes,
    `recover` first, and meet it again: recorded, they are gitstate's, and another's results go before them.

    Returns what the meeting gave, and how those attempts ended.
    """
    try:
        return remote(), []
    except Blocked as error:
        written = (one.intent for one in Attempts(clone.repository.state).all() if one.written is not None)
        if not any(error.paths.intersection(intent.outputs) for intent in written):
            raise
    with contextlib.closing(Session(clone, aim.branch, aim.checked_out)) as session:
        settled = recover(session)
    return remote(), settled


def recover_all(config: str, lock_timeout: str) -> int:
    """Finish what killed runs left, each on the branch that it was for. Returns 0, or 3 where something waits for a
    human."""
    found: list[Settled] = []
    waits = False
    with locked(config, lock_timeout) as clone:
        here = target(clone, "")
        begun = {intent.branch for intent in Attempts(clone.repository.state).intents()}
        for branch in (here.branch, *sorted(begun - {here.branch, ""})):
            try:
                # (one that is gone by now: on the branch here)
                aim = target(clone, branch) if clone.objects.resolve(branch) else here
            except UsageError as error:  # checked out in another working tree
                show.story(f"What was begun for {show.safe(branch)} waits: {error.message}")
                waits = True
                continue
            with contextlib.closing(Session(clone, aim.branch, aim.checked_out)) as session:
                found += recover(session, branch)
    if not begun:
        show.story("Nothing to recover.")
    return 3 if waits or any(work.how == "in_the_way" for work in found) else 0


def _never_acted(session: Session, attempt: Attempt) -> bool:
    """Whether an attempt is an act that was told of and never begun."""
    acts = session.acts.get((attempt.intent.slug, attempt.intent.stage), ())
    # (one that is over had begun: what it left was being removed)
    mine = any(act.attempt == attempt.intent.attempt and not act.over for act in acts)
    return mine and not session.attempts.has_acted(attempt.intent.attempt)


def _decided(session: Session, judged: Judged) -> Judged:
    """An answer with what is made of it. If it is of an act that failed, evidence is asked before anything is."""
    effect = session.effect(judged.intent.stage)
    found = decided(weighed(judged, effect), session.stages, utc_now())
    if found.failed is None or effect is None or effect.evidence is None or "happened" in found.facts:
        return found
    return found._replace(failed=found.failed._replace(state="pending", until=None))


def _sweep(session: Session, found: list[Attempt]) -> None:
    """Remove the temporary files that the attempts on record may have made, and what no record owns of ours."""
    for attempt in found:
        # (another working tree of this clone, perhaps; and a clone may have been moved)
        for root in {attempt.intent.root or session.root, session.root}:
            for path in attempt.intent.temporaries:
                full = os.path.join(root, path)
                if os.path.isfile(full) and not os.path.islink(os.path.dirname(full)):
                    os.unlink(full)
    state = session.clone.repository.state
    # (a command that only reads may be writing a cache file just now; it can do without)
    for path in (*session.attempts.strays(), *_temporary(state), *_temporary(os.path.join(state, "cache"))):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    # What a killed run had started lives until its watchdog is done with it. What it does by then is not seen by those
    # who ask whether it has happened, so it is ended first. (Each such folder's name is its job's mark.)
    group.kill(dict.fromkeys(os.listdir(session.scratch), 0))
    session.worktrees.clear()
    # Private folders of commands that died with their run. Nothing of value: a response is spooled from there.
    shutil.rmtree(session.scratch, ignore_errors=True)
    os.makedirs(session.scratch, exist_ok=True)


def _temporary(folder: str) -> list[str]:
    """The temporary files in a folder of ours that runs which died have left."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):  # (a cache folder that is none keeps nothing)
        return []
    paths = [os.path.join(folder, name) for name in names if name.endswith(".tmp")]
    return [path for path in paths if not os.path.isdir(path)]


def _name(attempt: Attempt) -> str:
    intent = attempt.intent
    return show.safe(work_id(intent.slug, intent.stage, intent.work))


def _line(work: Settled) -> str:
    name = show.safe(work_id(work.intent.slug, work.intent.stage, work.intent.work))
    if work.how == "done":
        return f"Recovered {name}: its answer had arrived; it is recorded now, nothing was paid again."
    if work.how == "failed" and work.failed is not None:
        return f"Recovered {name}: its answer had arrived and failed: {work.failed.name}."
    if work.how == "kept" and work.paths:
        return (
            f"Recovered {name}: its answer had arrived, but the work was done elsewhere meanwhile. That one stays, "
            "this one is kept with a receipt of its own."
        )
    if work.how == "kept":
        return f"Recovered {name}: its answer had arrived, but its inputs changed; kept with a receipt of its own."
    return (
        f"Recovered {name}: its answer waits in the spool, because {', '.join(map(show.safe, work.paths))} "
        "holds content that nobody vouches for. Move that away, and run again."
    )
