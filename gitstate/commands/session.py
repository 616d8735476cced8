"""A locked clone at work: what it shows, kept up to date with what is recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Optional

from gitstate.commands.clone import Clone, statuses_of, utc_now
from gitstate.commands.guarding import Guard
from gitstate.commands.judging import Judge, Judged
from gitstate.commands.lines import (
    act_line,
    lost_line,
    manifest_blob,
)
from gitstate.core.derive import Status, derive
from gitstate.core.effect import closed_by, is_end
from gitstate.core.plan import Effect
from gitstate.core.receipt import LogLine, Receipt, Verdict, encode
from gitstate.core.snapshot import WorkKey
from gitstate.edge import protect
from gitstate.edge.attempts import Attempts, Intent
from gitstate.edge.disk import Barrier
from gitstate.edge.jobs import Jobs
from gitstate.edge.process import Flag, Job, Result, execute
from gitstate.edge.record import Record, Recorder
from gitstate.edge.snapshot import View
from gitstate.edge.workspace import Worktrees

if TYPE_CHECKING:
    from gitstate.edge.pool import Pool


class Session:
    """One locked clone, one branch to record on, and what is known of the works while they are done."""

    def __init__(self, clone: Clone, branch: str, checked_out: bool) -> None:
        self.clone, self.branch, self.checked_out = clone, branch, checked_out
        self._shown = checked_out  # at the start
        self.root = clone.repository.root
        self.recorder = Recorder(clone.git, clone.repository, clone.objects, branch, checked_out)
        self.attempts = Attempts(clone.repository.state)
        self.disk = Barrier(clone.repository.common_dir, self.root)  # for files; objects have their own
        self.jobs = Jobs(clone.repository, clone.objects)
        self.worktrees = Worktrees(clone.git, clone.repository)
        self.records = 0  # how often something was recorded
        self.switched = False  # whether the user has switched to another branch meanwhile
        self.scratch = os.path.join(clone.repository.state, "scratch")
        # What failed, for a person to look at, or to pass later.
        self.rejected = Attempts(clone.repository.state, "rejected")
        self.answers: Optional[dict[tuple[str, str, str], list[str]]] = None
        # Whether a slug's results are ours to publish, where machines that run at once share the works.
        self.holds: Callable[[str], bool] = lambda slug: True
        # Whether a slug is none of this run's business, as long as it has not claimed it. An act that somebody else
        # has begun there is not of unknown outcome.
        self.elsewhere: Callable[[str], bool] = lambda slug: False
        self.judging = Judge(self.jobs, self.root, self.scratch)
        self.pool: Optional[Pool] = None  # where commands run, if not here
        self.guard = Guard(clone.git, clone.repository, lambda: self.stages)
        os.makedirs(self.scratch, exist_ok=True)
        self.refresh()

    def close(self) -> None:
        """End what serves the recording, and the pool."""
        if self.pool is not None:
            self.pool.close()
        self.recorder.close()
        self.disk.close()

    def execute(self, job: Job, cancel: Flag, hurry: Flag) -> Result:
        """Run a job to its end, here or on the pool."""
        return (execute if self.pool is None else self.pool.execute)(job, cancel, hurry)

    def threads(self, jobs: int, ahead: int) -> int:
        """How many threads so many jobs at once want, of which some more are ready."""
        return jobs if self.pool is None else self.pool.threads(jobs, ahead)

    def refresh(self) -> None:
        """Read the view anew: somebody else may have changed what it stands on."""
        clone = self.clone
        self.recorder.look_again()
        self.tip = clone.objects.resolve(self.branch)
        outputs_from = None if self.checked_out or self.tip is None else self.tip
        self.view: View = clone.view(outputs_from)
        self.tree: dict[str, str] = dict(self.view.snapshot.tree)
        self.verdicts = dict(self.view.snapshot.verdicts)
        self.acts = {key: acts for key, acts in self.view.snapshot.acts.items() if not self.elsewhere(key[0])}
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
        subject = ids[0] if len(ids) == 1 else f"{len(ids)} works" if ids else "log"
        trailers = [f"Gitstate-Work: {name}" for name in ids]
        commit = self.recorder.record(Record(outputs, notes, entries, f"gitstate: {subject}", trailers))
        self.records += 1
        if commit is not None:
            self.tip = commit
            if self.checked_out:
                self.view = self.view._replace(tips=self.view.tips._replace(head=commit))

    def learn(
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
            if is_end(entry):
                self.act_is_over(key[:2], entry.attempt)
            if entry.kind == "reset":
                self.verdicts.pop(key, None)
            if entry.kind == "verdict" and (state := entry.extra["state"]) != "pending":
                earlier = self.verdicts[key].attempts if key in self.verdicts else ()
                self.verdicts[key] = Verdict(
                    str(entry.extra["category"]), (*earlier, entry.attempt), entry, state
                )

    def note(self, blob: str, *lines: LogLine) -> None:
        """Record lines of the log on one object, durably."""
        log = [(blob, line) for line in lines]
        self.record({}, (), log, [])
        self.learn((), {}, (), log)

    def act_is_over(self, key: WorkKey, attempt: str) -> None:
        """An act is not under way any more, however it ended."""
        if key in self.acts:
            self.acts[key] = tuple(
                act._replace(over=act.over or act.attempt == attempt) for act in self.acts[key]
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
        if not intents:
            return
        log = [
            (
                manifest_blob(self.clone.objects, intent),
                act_line(intent, "withdrawn", {"attempts": [intent.attempt]}),
            )
            for intent in intents
        ]
        self.record({}, (), log, [])
        self.learn((), {}, (), log)
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
