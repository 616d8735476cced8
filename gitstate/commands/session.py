"""A locked clone at work: attempts begun, responses judged, promoted and recorded in groups.

Everything that `run` and `recover` write goes through here, so that a fresh response and one that a killed
run left in the spool take the same way.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Optional

from gitstate import show
from gitstate.commands.clone import Clone, statuses_of, utc_now
from gitstate.commands.guarding import Guard
from gitstate.commands.judging import CancelledError, Judge, Judged
from gitstate.commands.lines import (
    act_line,
    lost_line,
    manifest_blob,
    new_attempt,
    receipt,
    stamp,
    verdict_line,
)
from gitstate.core import verdict
from gitstate.core.derive import Status, derive, manifest_of
from gitstate.core.effect import closed_by
from gitstate.core.identity import work_id
from gitstate.core.material import gather
from gitstate.core.plan import Effect
from gitstate.core.receipt import LogLine, Receipt, Verdict, encode
from gitstate.core.snapshot import WorkKey
from gitstate.core.verdict import Failed
from gitstate.edge import protect
from gitstate.edge.attempts import Attempts, Intent, Spooled
from gitstate.edge.files import temp_name, write_whole
from gitstate.edge.jobs import Jobs
from gitstate.edge.keep import keep
from gitstate.edge.process import Flag, Job, execute
from gitstate.edge.record import Moved, Record, Recorder
from gitstate.edge.render import RenderError
from gitstate.edge.snapshot import View
from gitstate.edge.watch import WATCH
from gitstate.edge.workspace import Interrupted, Worktree, Worktrees
from gitstate.errors import is_full

_LEAST_ROOM = 256 * 1024  # bytes; with less the disk is as good as full
_BLOCK = 1024  # bytes, the least that file systems allot
_ROOM = 2.0  # seconds between looks for room on a full disk
_AT_ONCE = 8  # works that are put in their places at a time
_TRIES = 3  # of spooling an answer on a disk that errs


class Settled(NamedTuple):
    """How one attempt ended, for the story and the counts."""

    how: Literal["done", "failed", "kept", "in_the_way"]
    intent: Intent
    seconds: float
    facts: dict[str, Any]
    failed: Optional[Failed] = None
    paths: tuple[str, ...] = ()  # those in the way
    recalled: bool = False  # whether it was an answer kept from before


class Session:
    """One locked clone, one branch to record on, and what is known of the works while they are done."""

    def __init__(self, clone: Clone, branch: str, checked_out: bool) -> None:
        self.clone, self.branch, self.checked_out = clone, branch, checked_out
        self._shown = checked_out  # at the start
        self.root = clone.repository.root
        self.recorder = Recorder(clone.git, clone.repository, clone.objects, branch, checked_out)
        self.attempts = Attempts(clone.repository.state)
        self.jobs = Jobs(clone.repository, clone.objects)
        self.worktrees = Worktrees(clone.git, clone.repository)
        self.switched = False  # whether the user has switched to another branch meanwhile
        self.scratch = os.path.join(clone.repository.state, "scratch")
        # What failed, for a person to look at, or to pass later.
        self.rejected = Attempts(clone.repository.state, "rejected")
        self._answers: Optional[dict[tuple[str, str, str], list[str]]] = None
        self.judging = Judge(self.jobs, self.root, self.scratch)
        self.guard = Guard(clone.git, clone.repository, lambda: self.stages)
        os.makedirs(self.scratch, exist_ok=True)
        self.refresh()

    def close(self) -> None:
        """End what serves the recording."""
        self.recorder.close()

    def refresh(self) -> None:
        """Read the view anew: somebody else may have changed what it stands on."""
        clone = self.clone
        self.recorder.look_again()
        self.tip = clone.objects.resolve(self.branch)
        outputs_from = None if self.checked_out or self.tip is None else self.tip
        self.view: View = clone.view(outputs_from)
        self.tree: dict[str, str] = dict(self.view.snapshot.tree)
        self.verdicts = dict(self.view.snapshot.verdicts)
        self.acts = dict(self.view.snapshot.acts)
        self.paused = self.view.snapshot.pauses  # accounts
        snapshot = self.view.snapshot._replace(
            tree=self.tree,
            verdicts=self.verdicts,
            acts=self.acts,
            dirty=self.view.snapshot.dirty,
            running=frozenset(),
            pauses=frozenset(),  # the run knows when to look again; see `Windows`
        )
        self.view = self.view._replace(snapshot=snapshot)
        self.stages = {stage.name: stage for stage in self.view.plan.workflow.stages}
        self.statuses = {(s.slug, s.stage): s for s in statuses_of(self.view, utc_now())}
        self.staged = protect.staged_changes(clone.git, self.view.tips.head)
        self.view.sources.store(
            self.view.snapshot.dirty
        )  # so that they can be read by id, if they are used at all

    def needs(self, stage: str) -> tuple[str, ...]:
        """The stages that a stage needs; none for one that is no longer configured."""
        return self.stages[stage].needs if stage in self.stages else ()

    def effect(self, stage: str) -> Optional[Effect]:
        """How a stage is an effect; None if it is none, or not configured any more."""
        return self.stages[stage].effect if stage in self.stages else None

    def moved(self) -> bool:
        """Whether somebody else has moved the branch; if so the view is read anew.

        While somebody has switched to another branch, the working tree is not ours to write to: what is under way is
        then recorded on our branch alone. Nothing new should begin from then on.
        """
        self.checked_out = self._shown and self.recorder.head() == self.branch
        if self._shown and not self.checked_out:
            self.switched = True
            return False
        tip = self.clone.objects.resolve(self.branch)
        head = tip if self.checked_out else self.clone.objects.resolve("HEAD^{commit}")
        if tip == self.tip and head == self.view.tips.head:
            return False
        self.refresh()
        return True

    # --- beginning ------------------------------------------------------------------------------------------------

    def intent(self, status: Status, attempt: str) -> tuple[Intent, protect.Standing]:
        """What an attempt at a work as it is now sets out to do, and what stands at its outputs' paths."""
        stage = self.stages[status.stage]
        view = self.view
        standing = protect.look(self.clone.repository, self.clone.git, view.snapshot, status, self.staged)
        manifest = manifest_of(view.plan, view.identity, view.snapshot, status)
        intent = Intent(
            attempt=attempt,
            slug=status.slug,
            stage=status.stage,
            work=manifest.hash,
            scheme=manifest.scheme,
            components=manifest.components,
            outputs=status.outputs,
            temporaries=tuple(
                _beside(path, temp_name(attempt, n)) for n, path in enumerate(status.outputs, 1)
            ),
            at=stamp(),
            material=gather(view.plan, view.identity, view.snapshot.tree, status.item, stage),
            committed=tuple(self.tree.get(path) for path in status.outputs),
            before=standing.before,
            branch=self.branch,
            root=self.root,
        )
        return intent, standing

    def prepare(self, status: Status, redo: bool) -> tuple[Intent, Job] | Settled:
        """The intent and the job of one due work, or why it cannot begin. Nothing is spent or written."""
        stage = self.stages[status.stage]
        attempt = new_attempt()
        intent, standing = self.intent(status, attempt)
        if standing.blocked or (standing.foreign and not redo):
            return Settled("in_the_way", intent, 0.0, {}, paths=standing.blocked or standing.foreign)
        if standing.foreign:
            self._save_foreign(attempt, standing.foreign)
        receipts = self.view.snapshot.receipts.of(status.slug, status.stage)
        completed = sum(line.work == intent.work for line in receipts)
        before = None
        if stage.effect is not None and receipts:
            latest = max(receipts, key=lambda line: line.at)
            before = self.tree.get(status.outputs[0], latest.outputs[0][1])
        try:
            return intent, self.jobs.job(intent, stage, completed, before, self.view.tips.head)
        except RenderError as error:
            failed = verdict.of_rendering(str(error))
            return self.settle([Judged(intent, 0.0, {}, failed=failed)])[0]

    def recall(self, status: Status) -> Optional[Judged]:
        """An answer to this very work that was rejected once and passes today, back in the spool; else None.

        A check may have been mended since: what was paid for is not bought again for that (P4).
        """
        if self._answers is None:
            self._answers = {}
            for intent in self.rejected.intents():
                self._answers.setdefault((intent.slug, intent.stage, intent.work), []).append(intent.attempt)
        for name in reversed(self._answers.pop((status.slug, status.stage, status.hash or ""), [])):
            attempt = self.rejected.read(name)
            if attempt.spooled is None or self.judge(attempt.intent, attempt.spooled).failed is not None:
                continue
            look = protect.look(
                self.clone.repository, self.clone.git, self.view.snapshot, status, self.staged
            )
            if not look.foreign and status.outputs == attempt.intent.outputs:
                intent = attempt.intent._replace(before=look.before, branch=self.branch, root=self.root)
                self.attempts.begin(intent)
                self.attempts.spool(intent.attempt, attempt.spooled)
                return self.judge(intent, attempt.spooled)
        return None

    def _save_foreign(self, attempt: str, paths: Sequence[str]) -> None:
        """Before what nobody vouches for is replaced, because that was asked for: keep it where it can be found."""
        blobs = [self.staged[path] for path in paths if self.staged.get(path, "").strip("0")]
        files = [path for path in paths if os.path.isfile(os.path.join(self.root, path))]
        for path in files:
            blobs.append(self.clone.git.text("hash-object", "-w", "--", path))
        keep(self.clone.git, f"{attempt}-before", blobs)
        show.story(
            f"What stood at {', '.join(map(show.safe, paths))} is kept: git cat-file blob {' '.join(blobs)}"
        )

    def work(self, intent: Intent, job: Job, cancel: Flag, hurry: Flag) -> Optional[Judged]:
        """Do one attempt, in any thread: intent, command, spool, judgement. None if it was cancelled."""
        if cancel.is_set():
            return None
        try:
            # Made before it begins: where that fails nothing has begun. Gone when the answer is safe.
            with self.worktrees.of(job, cancel) as worktree:
                spooled = self._execute(intent, job, worktree, cancel, hurry)
            return None if spooled is None else self.judge(intent, spooled, cancel)
        except (CancelledError, Interrupted):
            return None

    def _execute(
        self, intent: Intent, job: Job, worktree: Optional[Worktree], cancel: Flag, hurry: Flag
    ) -> Optional[Spooled]:
        """The spooled answer of one attempt; None if it was cancelled."""
        if self.effect(intent.stage) is None:
            self.attempts.begin(intent)
        else:  # (its intent stands already, and others have been told)
            self.attempts.act(intent.attempt)
        result = execute(job, cancel, hurry)
        if complaint := WATCH.complaint():
            show.story(complaint)
        if result.ended_by == "cancelled":
            return None
        # (of a file that was cut off in a worktree there is no telling)
        if result.free < _LEAST_ROOM and (
            worktree or result.code != 0 or any(map(_may_be_cut, result.outputs))
        ):
            # The command had no room to answer in: that is this disk's failure, not the work's.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.scratch)
        usage = dict(result.usage)
        if worktree is not None:
            result = worktree.answer(result)
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
        self._spool(intent, spooled, hurry)
        return spooled

    def _spool(self, intent: Intent, spooled: Spooled, hurry: Flag) -> None:
        """Spool an answer that is paid for. Rather than losing it, wait for room on a full disk, and write it
        anew where writing or flushing failed once."""
        told, tries = False, 0
        while True:
            try:
                return self.attempts.spool(intent.attempt, spooled)
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

    def judge(self, intent: Intent, spooled: Spooled, cancel: Optional[Flag] = None) -> Judged:
        """Hold a response against the checks of its stage, as configured now. See `Judge.judge`."""
        return self.judging.judge(
            intent,
            spooled,
            self.stages.get(intent.stage),
            self.view.sources.text,
            self.view.plan.workflow.rules,
            cancel,
        )

    # --- promoting and recording ----------------------------------------------------------------------------------

    def settle(self, group: Sequence[Judged]) -> list[Settled]:
        """Promote and record a group of judged responses; one barrier for all of them.

        When this returns, what it says is done is on the disk, and nothing of it can be lost. Raises what the
        recorder raises where nothing could be recorded; the responses are then safe in the spool.
        """
        self.moved()
        ready: list[Judged] = []
        settled: dict[str, Settled] = {}
        kept: list[Judged] = []
        promoted = self._promote_all(
            [judged for judged in group if judged.failed is None and self._has_a_place(judged.intent)]
        )
        for judged in group:
            blocked = promoted.get(judged.intent.attempt)
            if judged.failed is not None:
                settled[judged.intent.attempt] = _settled("failed", judged)
            elif blocked == ():
                how: Literal["done", "kept"] = "done" if self._is_current(judged.intent) else "kept"
                settled[judged.intent.attempt] = _settled(how, judged)
                ready.append(judged)
            elif blocked is None or self._is_done(judged):
                # (its inputs have changed, or somebody else's result of the same work stands and stays)
                settled[judged.intent.attempt] = _settled("kept", judged, blocked or ())
                kept.append(judged)
            else:
                settled[judged.intent.attempt] = _settled("in_the_way", judged, blocked)
        lost = self._record(ready, kept, [judged for judged in group if judged.failed is not None])
        for judged, paths in lost:
            settled[judged.intent.attempt] = _settled("in_the_way", judged, paths)
        for attempt, work in settled.items():
            if work.failed is not None and self._is_worth_keeping(work) and self.attempts.has_answer(attempt):
                self.attempts.put_aside(attempt, self.rejected)
        self.attempts.remove(attempt for attempt, work in settled.items() if work.how != "in_the_way")
        return [settled[judged.intent.attempt] for judged in group]

    def _is_worth_keeping(self, work: Settled) -> bool:
        """Whether the answer of a failed attempt is put aside. An act's always: it may be all that tells of it."""
        failed = work.failed
        return failed is not None and (failed.state == "failed" or self.effect(work.intent.stage) is not None)

    def _has_a_place(self, intent: Intent) -> bool:
        """Whether an answer belongs at its outputs' paths. What an effect did has happened, also where its inputs have
        changed since: that must be seen."""
        status = self.statuses.get((intent.slug, intent.stage))
        if self.effect(intent.stage) is not None and status is not None:
            return status.outputs == intent.outputs
        return self._is_current(intent)

    def _is_current(self, intent: Intent) -> bool:
        """Whether the work still has the identity that the attempt began with."""
        status = self.statuses.get((intent.slug, intent.stage))
        return status is not None and status.hash == intent.work and status.outputs == intent.outputs

    def _is_done(self, judged: Judged) -> bool:
        """Whether the work was done by somebody else's hand since the attempt began: that one was first, and stays."""
        intent = judged.intent
        status = self.statuses.get((intent.slug, intent.stage))
        return (
            status is not None
            and status.state == "done"
            and any(
                self.tree.get(path) not in (None, then)
                for path, then in zip(intent.outputs, intent.committed)
            )
        )

    def _promote_all(self, group: Sequence[Judged]) -> dict[str, tuple[str, ...]]:
        """Promote a group; by attempt, what `_promote` returns. Several at a time: a disk flushes what is wanted of
        it at once nearly as fast as one file, and each work waits for four flushes."""
        with ThreadPoolExecutor(min(_AT_ONCE, len(group)) or 1) as pool:
            found = pool.map(self._promote, group) if len(group) > 1 else map(self._promote, group)
            return {judged.intent.attempt: blocked for judged, blocked in zip(group, found)}

    def _promote(self, judged: Judged) -> tuple[str, ...]:
        """Put the outputs in their places. Returns the paths that something else has taken meanwhile."""
        intent = judged.intent
        taken = self._taken_on_branch(judged)
        if taken or not self.checked_out:
            return taken
        blocked = tuple(
            path
            for path, before, data in zip(intent.outputs, intent.before, judged.outputs)
            if not protect.unchanged(self.root, path, before)
            and protect.content(self.root, path) not in (None, data)
        )
        if blocked:
            return blocked
        self.attempts.written(intent.attempt, judged.outputs)
        for path, temporary, before, data in zip(
            intent.outputs, intent.temporaries, intent.before, judged.outputs
        ):
            standing = protect.content(self.root, path)
            if standing == data:
                continue  # put there by the run that died
            try:
                name = os.path.basename(temporary)
                replace = standing is not None and (before is not None or not standing)
                with self.guard.writing(path):
                    write_whole(os.path.join(self.root, path), data, name, replace=replace, within=self.root)
            except FileExistsError:
                return (path,)
        return ()

    def _taken_on_branch(self, judged: Judged) -> tuple[str, ...]:
        """Paths to which somebody else has committed other content since the attempt began (P5)."""
        intent = judged.intent
        made = {
            blob
            for line in self.view.snapshot.receipts.of(intent.slug, intent.stage)
            for _, blob in line.outputs
        }
        return tuple(
            path
            for path, then, data in zip(intent.outputs, intent.committed, judged.outputs)
            if (now := self.tree.get(path)) not in (None, then, self.view.snapshot.empty, *made)
            # (a power cut may keep the branch's move and lose that of the receipts: then it is this very answer)
            and now != self._blob(path, data)
        )

    def _blob(self, path: str, data: bytes) -> str:
        """The blob that some bytes become when committed at `path`; written to the object store."""
        return os.fsdecode(
            self.clone.git.run("hash-object", "-w", "--stdin", "--path", path, stdin=data).out
        ).strip()

    def _record(
        self, ready: Sequence[Judged], kept: Sequence[Judged], failed: Sequence[Judged]
    ) -> list[tuple[Judged, tuple[str, ...]]]:
        """Record a group. Returns those whose paths somebody else committed meanwhile; they stay in the spool."""
        blobs = self._blobs(ready, kept)
        lost: list[tuple[Judged, tuple[str, ...]]] = []
        while True:
            receipts = {
                judged.intent.attempt: receipt(
                    judged, blobs[judged.intent.attempt], self._ignored(judged.intent)
                )
                for judged in (*ready, *kept)
            }
            log = [
                (manifest_blob(self.clone.objects, judged.intent), verdict_line(judged, judged.failed))
                for judged in failed
                if judged.failed
            ]
            try:
                self._write(ready, blobs, list(receipts.values()), log)
            except Moved as error:
                gone = [judged for judged in ready if set(judged.intent.outputs) & set(error.paths)]
                if not gone:
                    raise
                lost += [(judged, tuple(error.paths)) for judged in gone]
                ready = [judged for judged in ready if judged not in gone]
                continue
            break
        for judged in kept:
            keep(self.clone.git, judged.intent.attempt, blobs[judged.intent.attempt])
        self._learn(ready, blobs, receipts.values(), log)
        return lost

    def _blobs(self, ready: Sequence[Judged], kept: Sequence[Judged]) -> dict[str, list[str]]:
        """The blobs that the outputs become when committed, by attempt; written to the object store."""
        blobs: dict[str, list[str]] = {}
        if self.checked_out:
            paths = [path for judged in ready for path in judged.intent.outputs]
            found = iter(self.recorder.blobs(paths))
            for judged in ready:
                blobs[judged.intent.attempt] = [next(found) for _ in judged.intent.outputs]
        for judged in (*ready, *kept):
            if judged.intent.attempt in blobs and self._stands(judged):
                continue
            blobs[judged.intent.attempt] = [
                self._blob(path, data) for path, data in zip(judged.intent.outputs, judged.outputs)
            ]
        return blobs

    def _stands(self, judged: Judged) -> bool:
        """Whether the working tree still holds an answer that was just put there. A user who edits it in that
        instant keeps the edit, as one of what is recorded; the receipt must not vouch for it."""
        pairs = zip(judged.intent.outputs, judged.outputs)
        return all(protect.content(self.root, path) == data for path, data in pairs)

    def _write(
        self,
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
        self.record(outputs, receipts, log, ids)

    def record(
        self,
        outputs: dict[str, tuple[str, str]],
        receipts: Iterable[Receipt],
        log: Iterable[tuple[str, LogLine]],
        ids: Sequence[str],
    ) -> None:
        """Record outputs, receipts and log lines in one transaction, durably."""
        notes: dict[str, list[bytes]] = {}
        for line in receipts:
            notes.setdefault(line.outputs[0][1], []).append(encode(line))
        entries: dict[str, list[bytes]] = {}
        for blob, entry in log:
            entries.setdefault(blob, []).append(encode(entry))
        subject = ids[0] if len(ids) == 1 else f"{len(ids)} works"
        trailers = [f"Gitstate-Work: {name}" for name in ids]
        commit = self.recorder.record(Record(outputs, notes, entries, f"gitstate: {subject}", trailers))
        if commit is not None:
            self.tip = commit
            if self.checked_out:
                self.view = self.view._replace(tips=self.view.tips._replace(head=commit))

    def _learn(
        self,
        ready: Sequence[Judged],
        blobs: dict[str, list[str]],
        receipts: Iterable[Receipt],
        log: Iterable[tuple[str, LogLine]],
    ) -> None:
        """Bring what is known up to date with what was just recorded."""
        for judged in ready:
            self.tree.update(zip(judged.intent.outputs, blobs[judged.intent.attempt]))
        for line in receipts:
            self.view.snapshot.receipts.add(line.outputs[0][1], line)
            self._forget_acts((line.slug, line.stage), {line.attempt}, with_their_key=True)
        for _, entry in log:
            key = (entry.slug, entry.stage, entry.work)
            self._forget_acts(key[:2], closed_by(entry))
            if entry.kind == "reset":
                self.verdicts.pop(key, None)
            if entry.kind == "verdict" and (state := entry.extra["state"]) != "pending":
                earlier = self.verdicts[key].attempts if key in self.verdicts else ()
                self.verdicts[key] = Verdict(
                    str(entry.extra["category"]), (*earlier, entry.attempt), entry, state
                )

    def note(self, blob: str, *lines: LogLine) -> None:
        """Record lines of the log on one object, durably."""
        self.record({}, (), [(blob, line) for line in lines], [])
        self._learn((), {}, (), [(blob, line) for line in lines])

    def fail(self, work: Settled) -> None:
        """Record what is made of an act that failed, once evidence has said that it did not happen."""
        if work.failed is not None:
            judged = Judged(work.intent, work.seconds, work.facts, failed=work.failed)
            self.note(manifest_blob(self.clone.objects, work.intent), verdict_line(judged, work.failed))

    def act_is_over(self, intent: Intent) -> None:
        """An act is not under way any more, however it ended."""
        key = (intent.slug, intent.stage)
        if key in self.acts:
            self.acts[key] = tuple(
                act._replace(over=act.over or act.attempt == intent.attempt) for act in self.acts[key]
            )

    def _forget_acts(self, key: WorkKey, closed: set[str], *, with_their_key: bool = False) -> None:
        """Some acts are not open any more; `with_their_key`: nor are those that had the same one."""
        acts = self.acts.pop(key, ())
        keys = {act.key for act in acts if with_their_key and act.attempt in closed}
        if left := tuple(act for act in acts if act.attempt not in closed and act.key not in keys):
            self.acts[key] = left

    def judge_again(self, items: Iterable[int]) -> list[Status]:
        """Derive some items' statuses anew, after something of theirs was recorded."""
        view = self.view
        found = derive(view.plan, view.identity, view.snapshot, utc_now(), sorted(set(items)))
        self.statuses.update({(status.slug, status.stage): status for status in found})
        return found

    def _ignored(self, intent: Intent) -> tuple[str, ...]:
        stage = self.stages.get(intent.stage)
        return stage.ignore if stage else ()

    def forget(self, intent: Intent) -> bool:
        """An attempt ended at our own word. Without an answer it is pending again, and what it cost is not known;
        an answer that had arrived stays in the spool for the next start. Returns whether a call was dropped."""
        if not self.attempts.is_begun(intent.attempt) or self.attempts.is_spooled(intent.attempt):
            return False
        if self.effect(intent.stage) is not None and not self.attempts.has_acted(intent.attempt):
            self.withdraw([intent])
            return False
        self.record({}, (), [lost_line(self.clone.objects, intent)], [])
        self.attempts.remove([intent.attempt])
        return True

    def withdraw(self, intents: Sequence[Intent]) -> None:
        """Take back acts that were announced and never begun."""
        for intent in intents:
            line = act_line(intent, "withdrawn", {"attempts": [intent.attempt]})
            self.note(manifest_blob(self.clone.objects, intent), line)
        self.attempts.remove(intent.attempt for intent in intents)
        # They stand against their works no longer.
        keys = ((intent.slug, intent.stage) for intent in intents)
        self.judge_again(self.statuses[key].item for key in keys if key in self.statuses)

    def on_record(self, intent: Intent) -> bool:
        """Whether the notes know an attempt: it was recorded, and what lies here of it are leftovers."""
        receipts = self.view.snapshot.receipts.of(intent.slug, intent.stage)
        verdict = self.verdicts.get((intent.slug, intent.stage, intent.work))
        return any(line.attempt == intent.attempt for line in receipts) or (
            verdict is not None and intent.attempt in verdict.attempts
        )


def _may_be_cut(output: bytes) -> bool:
    """Whether an output that was written on a full disk may be a part of the answer only, which its command did not
    notice. What did not fit ends where the last block ended that was to be had."""
    return len(output) % _BLOCK == 0


def _beside(path: str, name: str) -> str:
    """The path of a file called `name` in the same folder as `path`."""
    return f"{folder}/{name}" if (folder := path.rpartition("/")[0]) else name


def _settled(
    how: Literal["done", "failed", "kept", "in_the_way"], judged: Judged, paths: tuple[str, ...] = ()
) -> Settled:
    return Settled(how, judged.intent, judged.seconds, judged.facts, judged.failed, paths)
