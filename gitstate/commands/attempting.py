"""One attempt at a work: what it sets out to do, its command, and its answer in the spool; several at once."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Optional, TypeVar

from gitstate import show
from gitstate.commands.judging import CancelledError, Judged
from gitstate.commands.lines import new_attempt, stamp
from gitstate.commands.session import Session
from gitstate.commands.settling import Settled, settle
from gitstate.core import verdict
from gitstate.core.derive import Status, manifest_of
from gitstate.core.material import gather
from gitstate.core.plan import Stage
from gitstate.core.snapshot import Snapshot
from gitstate.edge import protect
from gitstate.edge.attempts import Intent, Spooled
from gitstate.edge.files import temp_name
from gitstate.edge.keep import keep
from gitstate.edge.process import Flag, Job
from gitstate.edge.render import RenderError
from gitstate.edge.snapshot import View
from gitstate.edge.watch import WATCH
from gitstate.edge.worker import lost
from gitstate.edge.workspace import Interrupted, Worktree
from gitstate.errors import is_full

_LEAST_ROOM = 256 * 1024  # bytes; with less the disk is as good as full
_BLOCK = 1024  # bytes, the least that file systems allot
_ROOM = 2.0  # seconds between looks for room on a full disk
_T = TypeVar("_T")
_TRIES = 3  # of spooling an answer on a disk that errs


def intent_of(session: Session, status: Status, attempt: str) -> tuple[Intent, protect.Standing]:
    """What an attempt at a work as it is now sets out to do, and what stands at its outputs' paths."""
    view = session.view
    standing = protect.look(
        session.clone.repository, session.clone.git, view.snapshot, status, session.staged
    )
    intent = intent_in(view, status, session.stages[status.stage], attempt)
    return intent._replace(before=standing.before, branch=session.branch, root=session.root), standing


def intent_in(view: View, status: Status, stage: Stage, attempt: str) -> Intent:
    """`intent_of`, as a view shows it: it says nothing of where the outputs go, nor of what stands there."""
    manifest = manifest_of(view.plan, view.identity, view.snapshot, status)
    return Intent(
        attempt=attempt,
        slug=status.slug,
        stage=status.stage,
        work=manifest.hash,
        scheme=manifest.scheme,
        components=manifest.components,
        outputs=status.outputs,
        temporaries=tuple(_beside(path, temp_name(attempt, n)) for n, path in enumerate(status.outputs, 1)),
        at=stamp(),
        material=gather(view.plan, view.identity, view.snapshot.tree, status.item, stage),
        committed=tuple(view.snapshot.tree.get(path) for path in status.outputs),
        before=(),
    )


def prepare(session: Session, status: Status, redo: bool) -> tuple[Intent, Job] | Settled:
    """The intent and the job of one due work, or why it cannot begin. Nothing is spent or written."""
    stage = session.stages[status.stage]
    attempt = new_attempt()
    intent, standing = intent_of(session, status, attempt)
    if standing.blocked or (standing.foreign and not redo):
        return Settled("in_the_way", intent, 0.0, {}, paths=standing.blocked or standing.foreign)
    if standing.foreign:
        _save_foreign(session, attempt, standing.foreign)
    completed = session.view.snapshot.receipts.completed(status.slug, status.stage, intent.work)
    before = None if stage.effect is None else previous(session, status)
    try:
        return intent, session.jobs.job(intent, stage, completed, before, session.view.tips.head)
    except RenderError as error:
        failed = verdict.of_rendering(str(error))
        return settle(session, [Judged(intent, 0.0, {}, failed=failed)])[0]


def previous(session: Session, status: Status) -> Optional[str]:
    """The blob that says what an effect did the last time; None if it has not happened yet."""
    return previous_in(session.view.snapshot, status)


def previous_in(snapshot: Snapshot, status: Status) -> Optional[str]:
    """`previous`, as a snapshot shows it."""
    receipts = snapshot.receipts.of(status.slug, status.stage)
    if not receipts:
        return None
    latest = max(receipts, key=lambda line: line.at)
    return snapshot.tree.get(status.outputs[0], latest.outputs[0][1])


def recall(session: Session, status: Status) -> Optional[Judged]:
    """An answer to this very work that was rejected once and passes today, back in the spool; else None.

    A check may have been mended since: what was paid for is not bought again for that (P4).
    """
    if session.answers is None:
        session.answers = {}
        for intent in session.rejected.intents():
            session.answers.setdefault((intent.slug, intent.stage, intent.work), []).append(intent.attempt)
    open_ = {act.attempt for act in session.acts.get((status.slug, status.stage), ())}
    is_act = session.effect(status.stage) is not None
    for name in reversed(session.answers.pop((status.slug, status.stage, status.hash or ""), [])):
        if is_act and name not in open_:
            continue  # what it answered did not come to be, as is known by now
        attempt = session.rejected.read(name)
        if attempt.spooled is None or judge(session, attempt.intent, attempt.spooled).failed is not None:
            continue
        look = protect.look(
            session.clone.repository, session.clone.git, session.view.snapshot, status, session.staged
        )
        if not look.foreign and status.outputs == attempt.intent.outputs:
            intent = attempt.intent._replace(before=look.before, branch=session.branch, root=session.root)
            if is_act:
                session.attempts.act(intent.attempt)  # (before its intent, as in `adopt`)
            session.attempts.begin(intent)
            session.attempts.spool(intent.attempt, attempt.spooled)
            return judge(session, intent, attempt.spooled)
    return None


def _save_foreign(session: Session, attempt: str, paths: Sequence[str]) -> None:
    """Before what nobody vouches for is replaced, because that was asked for: keep it where it can be found."""
    blobs = [session.staged[path] for path in paths if session.staged.get(path, "").strip("0")]
    files = [path for path in paths if os.path.isfile(os.path.join(session.root, path))]
    for path in files:
        blobs.append(session.clone.git.text("hash-object", "-w", "--", path))
    keep(session.clone.git, f"{attempt}-before", blobs)
    show.story(
        f"What stood at {', '.join(map(show.safe, paths))} is kept: git cat-file blob {' '.join(blobs)}"
    )


def attempt(session: Session, intent: Intent, job: Job, cancel: Flag, hurry: Flag) -> Optional[Judged]:
    """Do one attempt, in any thread: intent, command, spool, judgement. None if it was cancelled."""
    if cancel.is_set():
        return None
    try:
        # Made before it begins: where that fails nothing has begun. Gone when the answer is safe.
        with session.worktrees.of(job, cancel) as worktree:
            spooled = _execute(session, intent, job, worktree, cancel, hurry)
        return None if spooled is None else judge(session, intent, spooled, cancel)
    except (CancelledError, Interrupted):
        return None


def _execute(
    session: Session, intent: Intent, job: Job, worktree: Optional[Worktree], cancel: Flag, hurry: Flag
) -> Optional[Spooled]:
    """The spooled answer of one attempt; None if it was cancelled."""
    if session.effect(intent.stage) is None:
        session.attempts.begin(intent)
    else:  # (its intent stands already, and others have been told)
        session.attempts.act(intent.attempt)
    result = session.execute(job, cancel, hurry)
    if complaint := WATCH.complaint():
        show.story(complaint)
    if result.ended_by == "cancelled":
        return None
    # (of a file that was cut off in a worktree there is no telling)
    if result.free < _LEAST_ROOM and (worktree or result.code != 0 or any(map(_may_be_cut, result.outputs))):
        # The command had no room to answer in: that is this disk's failure, not the work's.
        if job.files is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), session.scratch)
        result = lost("The disk of the worker that ran it is full.", result.seconds)
    usage = dict(result.usage)
    if worktree is not None:
        result = _patiently(session, intent, hurry, partial(worktree.answer, result))
        usage["base"] = worktree.base
    facts = {
        "ended_by": result.ended_by,
        "code": result.code,
        "signal": result.signal,
        "missing": list(result.missing),
        # (where it is the answer it is not kept twice)
        "stdout": "" if any(result.outputs[:1]) and not result.filed else result.stdout,
        "stderr": result.stderr,
        "filed": result.filed,
        "usage": usage,
    }
    spooled = Spooled(result.outputs, round(result.seconds, 3), facts, stamp())
    _patiently(session, intent, hurry, partial(session.attempts.spool, intent.attempt, spooled))
    return spooled


def _patiently(session: Session, intent: Intent, hurry: Flag, take: Callable[[], _T]) -> _T:
    """Take in an answer that is paid for. Rather than losing it, wait for room on a full disk, and write it
    anew where writing or flushing failed once."""
    told, tries = False, 0
    while True:
        try:
            return take()
        except OSError as error:
            full = is_full(error)
            tries += not full
            if tries >= _TRIES or hurry.is_set():
                raise
        if full and not told:
            show.story(
                f"No room on the disk for the answer of {intent.slug}/{intent.stage}: waiting for some."
            )
            told = True
        time.sleep(_ROOM if full else 0.0)


def judge(session: Session, intent: Intent, spooled: Spooled, cancel: Optional[Flag] = None) -> Judged:
    """Hold a response against the checks of its stage, as configured now. See `Judge.judge`."""
    return session.judging.judge(
        intent,
        spooled,
        session.stages.get(intent.stage),
        session.view.sources.text,
        session.view.plan.workflow.rules,
        cancel,
    )


def _may_be_cut(output: bytes) -> bool:
    """Whether an output that was written on a full disk may be a part of the answer only, which its command did not
    notice. What did not fit ends where the last block ended that was to be had."""
    return len(output) % _BLOCK == 0


def _beside(path: str, name: str) -> str:
    """The path of a file called `name` in the same folder as `path`."""
    return f"{folder}/{name}" if (folder := path.rpartition("/")[0]) else name
