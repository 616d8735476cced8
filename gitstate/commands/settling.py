"""Judged answers, put in their places and recorded, a group at a time: fresh ones and those of a killed run alike."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Optional

from gitstate.commands.judging import Judged
from gitstate.commands.lines import (
    duplicate_line,
    manifest_blob,
    receipt,
    verdict_line,
)
from gitstate.commands.session import Session
from gitstate.core import effect
from gitstate.core.identity import work_id
from gitstate.core.receipt import LogLine, Receipt
from gitstate.core.verdict import Failed
from gitstate.edge import protect
from gitstate.edge.attempts import Intent
from gitstate.edge.files import New, write_all
from gitstate.edge.keep import keep
from gitstate.edge.record import Moved


class Settled(NamedTuple):
    """How one attempt ended, for the story and the counts."""

    how: Literal["done", "failed", "kept", "in_the_way"]
    intent: Intent
    seconds: float
    facts: dict[str, Any]
    failed: Optional[Failed] = None
    paths: tuple[str, ...] = ()  # those in the way
    recalled: bool = False  # whether it was an answer kept from before
    late: bool = False  # whether its lease had been lost when it came


def settle(session: Session, group: Sequence[Judged]) -> list[Settled]:
    """Promote and record a group of judged responses; one barrier for all of them.

    When this returns, what it says is done is on the disk, and nothing of it can be lost. Raises what the
    recorder raises where nothing could be recorded; the responses are then safe in the spool.
    """
    session.moved()
    group = [_dated(session, judged) for judged in group]
    ready: list[Judged] = []
    settled: dict[str, Settled] = {}
    kept: list[Judged] = []
    passed = [judged for judged in group if judged.failed is None]
    late = {judged.intent.attempt for judged in passed if _is_late(session, judged.intent)}
    promoted = _promote(
        session,
        [
            judged
            for judged in passed
            if judged.intent.attempt not in late and _has_a_place(session, judged.intent)
        ],
    )
    for judged in group:
        blocked = promoted.get(judged.intent.attempt)
        if judged.failed is not None:
            settled[judged.intent.attempt] = _settled("failed", judged)
        elif blocked == ():
            how: Literal["done", "kept"] = "done" if _is_current(session, judged.intent) else "kept"
            settled[judged.intent.attempt] = _settled(how, judged)
            ready.append(judged)
        elif blocked is None or _is_done(session, judged):
            # (its inputs have changed, or somebody else's result of the same work stands and stays)
            work = _settled("kept", judged, blocked or ())
            settled[judged.intent.attempt] = work._replace(late=judged.intent.attempt in late)
            kept.append(judged)
        else:
            settled[judged.intent.attempt] = _settled("in_the_way", judged, blocked)
    lost = _record(session, ready, kept, [judged for judged in group if judged.failed is not None], late)
    for judged, paths in lost:
        settled[judged.intent.attempt] = _settled("in_the_way", judged, paths)
    for attempt, work in settled.items():
        if (
            work.failed is not None
            and _is_worth_keeping(session, work)
            and session.attempts.has_answer(attempt)
        ):
            session.attempts.put_aside(attempt, session.rejected)
    session.attempts.remove(attempt for attempt, work in settled.items() if work.how != "in_the_way")
    return [settled[judged.intent.attempt] for judged in group]


def _dated(session: Session, judged: Judged) -> Judged:
    """An act's answer, not dated before what it followed."""
    intent = judged.intent
    if session.effect(intent.stage) is None:
        return judged
    every = session.view.snapshot.receipts.of(intent.slug, intent.stage)
    earlier = [line for line in every if line.attempt != intent.attempt]
    return judged._replace(at=effect.dated(judged.at, earlier))


def _is_worth_keeping(session: Session, work: Settled) -> bool:
    """Whether the answer of a failed attempt is put aside. An act's always: it may be all that tells of it."""
    failed = work.failed
    return failed is not None and (failed.state == "failed" or session.effect(work.intent.stage) is not None)


def _is_late(session: Session, intent: Intent) -> bool:
    """Whether another machine has taken a work over since its attempt began. What an effect did has happened."""
    return session.effect(intent.stage) is None and not session.holds(intent.slug)


def _has_a_place(session: Session, intent: Intent) -> bool:
    """Whether an answer belongs at its outputs' paths. What an effect did has happened, also where its inputs have
    changed since: that must be seen."""
    status = session.statuses.get((intent.slug, intent.stage))
    if session.effect(intent.stage) is not None and status is not None:
        return status.outputs == intent.outputs
    return _is_current(session, intent)


def _is_current(session: Session, intent: Intent) -> bool:
    """Whether the work still has the identity that the attempt began with."""
    status = session.statuses.get((intent.slug, intent.stage))
    return status is not None and status.hash == intent.work and status.outputs == intent.outputs


def _is_done(session: Session, judged: Judged) -> bool:
    """Whether the work was done by somebody else's hand since the attempt began: that one was first, and stays."""
    intent = judged.intent
    status = session.statuses.get((intent.slug, intent.stage))
    return (
        status is not None
        and status.state == "done"
        and any(
            session.tree.get(path) not in (None, then) for path, then in zip(intent.outputs, intent.committed)
        )
    )


def _promote(session: Session, group: Sequence[Judged]) -> dict[str, tuple[str, ...]]:
    """Put the outputs of a group in their places. By attempt, the paths that something else has taken meanwhile."""
    taken = {judged.intent.attempt: _taken(session, judged) for judged in group}
    if not session.checked_out:
        return taken
    free = {judged.intent.attempt: judged for judged in group if not taken[judged.intent.attempt]}
    session.attempts.written({attempt: judged.outputs for attempt, judged in free.items()}, session.disk)
    news = {path: new for judged in free.values() for path, new in _news(session, judged)}
    with session.guard.writing(news) as others:
        named = write_all(list(news.values()), session.disk)
        others.update(
            path
            for (path, new), ours in zip(news.items(), named)
            if not ours and protect.content(session.root, path) != new.data
        )
    for attempt, judged in free.items():
        taken[attempt] = tuple(path for path in judged.intent.outputs if path in others)
    return taken


def _taken(session: Session, judged: Judged) -> tuple[str, ...]:
    """The paths of an answer's outputs that something else has taken since its attempt began."""
    intent = judged.intent
    taken = _taken_on_branch(session, judged)
    if taken or not session.checked_out:
        return taken
    return tuple(
        path
        for path, before, data in zip(intent.outputs, intent.before, judged.outputs)
        if not _is_free(session.root, path, before, data)
    )


def _is_free(root: str, path: str, before: Optional[str], data: bytes) -> bool:
    """Whether an output may be put at its path: what its attempt found there still stands, or nothing, or itself."""
    return protect.unchanged(root, path, before) or protect.content(root, path) in (None, data)


def _news(session: Session, judged: Judged) -> Iterator[tuple[str, New]]:
    """The files that an answer's outputs become, but for those that a run which died has put there."""
    intent = judged.intent
    for path, temporary, before, data in zip(
        intent.outputs, intent.temporaries, intent.before, judged.outputs
    ):
        standing = protect.content(session.root, path)
        if standing != data:
            replace = standing is not None and (before is not None or not standing)
            is_free = partial(_is_free, session.root, path, before, data)
            full, temp = os.path.join(session.root, path), os.path.basename(temporary)
            yield path, New(full, data, temp, replace, session.root, is_free)


def _taken_on_branch(session: Session, judged: Judged) -> tuple[str, ...]:
    """Paths to which somebody else has committed other content since the attempt began (P5)."""
    intent = judged.intent
    made = {
        blob
        for line in session.view.snapshot.receipts.of(intent.slug, intent.stage)
        for _, blob in line.outputs
    }
    return tuple(
        path
        for path, then, data in zip(intent.outputs, intent.committed, judged.outputs)
        if (now := session.tree.get(path)) not in (None, then, session.view.snapshot.empty, *made)
        # (a power cut may keep the branch's move and lose that of the receipts: then it is this very answer)
        and now != _blob(session, path, data)
    )


def _blob(session: Session, path: str, data: bytes) -> str:
    """The blob that some bytes become when committed at `path`; written to the object store."""
    return os.fsdecode(
        session.clone.git.run("hash-object", "-w", "--stdin", "--path", path, stdin=data).out
    ).strip()


def _record(
    session: Session,
    ready: Sequence[Judged],
    kept: Sequence[Judged],
    failed: Sequence[Judged],
    late: Collection[str] = (),
) -> list[tuple[Judged, tuple[str, ...]]]:
    """Record a group. Returns those whose paths somebody else committed meanwhile; they stay in the spool."""
    blobs = _blobs(session, ready, kept)
    lost: list[tuple[Judged, tuple[str, ...]]] = []
    while True:
        receipts = {
            judged.intent.attempt: receipt(
                judged, blobs[judged.intent.attempt], _ignored(session, judged.intent)
            )
            for judged in (*ready, *kept)
        }
        log = [
            (manifest_blob(session.clone.objects, judged.intent), verdict_line(judged, judged.failed))
            for judged in failed
            if judged.failed
        ]
        log += [duplicate_line(session.clone.objects, receipts[attempt]) for attempt in sorted(late)]
        try:
            _write(session, ready, blobs, list(receipts.values()), log)
        except Moved as error:
            gone = [judged for judged in ready if set(judged.intent.outputs) & set(error.paths)]
            if not gone:
                raise
            lost += [(judged, tuple(error.paths)) for judged in gone]
            ready = [judged for judged in ready if judged not in gone]
            continue
        break
    for judged in kept:
        keep(session.clone.git, judged.intent.attempt, blobs[judged.intent.attempt])
    session.learn(ready, blobs, receipts.values(), log)
    return lost


def _blobs(session: Session, ready: Sequence[Judged], kept: Sequence[Judged]) -> dict[str, list[str]]:
    """The blobs that the outputs become when committed, by attempt; written to the object store."""
    blobs: dict[str, list[str]] = {}
    if session.checked_out:
        paths = [path for judged in ready for path in judged.intent.outputs]
        found = iter(session.recorder.blobs(paths))
        for judged in ready:
            blobs[judged.intent.attempt] = [next(found) for _ in judged.intent.outputs]
    for judged in (*ready, *kept):
        if judged.intent.attempt in blobs and _stands(session, judged):
            continue
        blobs[judged.intent.attempt] = [
            _blob(session, path, data) for path, data in zip(judged.intent.outputs, judged.outputs)
        ]
    return blobs


def _stands(session: Session, judged: Judged) -> bool:
    """Whether the working tree still holds an answer that was just put there. A user who edits it in that
    instant keeps the edit, as one of what is recorded; the receipt must not vouch for it."""
    pairs = zip(judged.intent.outputs, judged.outputs)
    return all(protect.content(session.root, path) == data for path, data in pairs)


def _write(
    session: Session,
    ready: Sequence[Judged],
    blobs: dict[str, list[str]],
    receipts: Sequence[Receipt],
    log: Sequence[tuple[str, LogLine]],
) -> None:
    outputs = {
        path: ("100644", blob)
        for judged in ready
        for path, blob in zip(judged.intent.outputs, blobs[judged.intent.attempt])
    }
    ids = [work_id(j.intent.slug, j.intent.stage, j.intent.work) for j in ready]
    session.record(outputs, receipts, log, ids)


def _ignored(session: Session, intent: Intent) -> tuple[str, ...]:
    stage = session.stages.get(intent.stage)
    return stage.ignore if stage else ()


def _settled(
    how: Literal["done", "failed", "kept", "in_the_way"], judged: Judged, paths: tuple[str, ...] = ()
) -> Settled:
    return Settled(how, judged.intent, judged.seconds, judged.facts, judged.failed, paths)
