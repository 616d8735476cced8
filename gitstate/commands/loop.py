"""The loop of `run`: keep N commands going, record what finishes in groups, take up what became due by it."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Optional

from gitstate import show
from gitstate.commands.judging import Judged
from gitstate.commands.progress import Progress
from gitstate.commands.restore import restore
from gitstate.commands.session import Session, Settled
from gitstate.commands.syncing import Syncing
from gitstate.core.derive import PROTECTED, Status
from gitstate.core.identity import work_id
from gitstate.core.schedule import is_due, order_of
from gitstate.core.snapshot import WorkKey
from gitstate.edge.attempts import Intent
from gitstate.edge.process import Job
from gitstate.errors import GitstateError

if TYPE_CHECKING:
    from gitstate.commands.run import Options, Stop

# Works handed out beyond those that run: while a group is recorded, the commands must not wait for their next one.
# Nothing is spent on them before their turn.
AHEAD = 24  # against 8: half as many groups with -j 8, and 0.5 ms of CPU less a work
_QUICK = 0.25  # seconds that a quick command takes
_WATCH = 0.5  # seconds between looks at the user's index while commands run; one `stat` each

_Answer = tuple[Intent, Optional[Judged], Optional[BaseException]]


class Loop:
    """One run's works, from due to settled."""

    def __init__(
        self,
        session: Session,
        syncing: Syncing,
        progress: Progress,
        options: Options,
        redo: frozenset[WorkKey],
        stop: Stop,
    ) -> None:
        self.session, self.syncing, self.progress = session, syncing, progress
        self.options, self.redo, self.stop = options, redo, stop
        self.unfinished = 0  # works that were not begun, or not finished
        self.disturbed = False
        self.trouble: Optional[GitstateError] = (
            None  # what makes going on pointless, once all that runs has ended
        )
        self._ended = 0
        self._seconds = 0.0  # of the commands that ended
        self.dropped = 0  # commands that were ended before their answer came
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._begun = 0
        self._flying = 0
        self._open: set[WorkKey] = set()  # works of this run that are not settled
        self._broken: set[WorkKey] = set()  # those that ended otherwise than done
        self._again: set[WorkKey] = set()  # those whose inputs changed once while they were made
        self._ready: list[WorkKey] = []  # taken from the end
        self._waiting: dict[str, list[WorkKey]] = {}  # by slug: for others of this run

    def go(self, works: Sequence[Status]) -> None:
        """Do the works, in their order, each after those that it needs.

        Raises what makes going on pointless or unsafe.
        """
        keys = [(status.slug, status.stage) for status in order_of(works, self.session.view.plan.workflow)]
        self._open.update(keys)
        self._sort(keys)
        pool = ThreadPoolExecutor(self.options.jobs, thread_name_prefix="gitstate-job")
        try:
            while self._ready or self._flying:
                while self._ready and self._may_begin():
                    self._begin(pool, self._ready.pop())
                if not self._flying:
                    break
                self._settle(self._take())
        except BaseException:
            self.stop.cancel.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.unfinished = len(self._open)
        if self.trouble is not None:
            raise self.trouble

    def _sort(self, keys: Sequence[WorkKey]) -> None:
        """Keep each work with the ready or with the waiting ones. The ready are put before those that were."""
        ready = []
        for key in keys:
            if any((key[0], name) in self._open for name in self.session.needs(key[1])):
                self._waiting.setdefault(key[0], []).append(key)
            else:
                ready.append(key)
        # Before the others: chains that were begun are finished first.
        self._ready += reversed(ready)

    def _close(self, key: WorkKey, done: bool) -> None:
        """A work is settled: those that waited for it may be ready."""
        self._open.discard(key)
        if not done:
            self._broken.add(key)
        self._sort(self._waiting.pop(key[0], []))

    def _may_begin(self) -> bool:
        if self.stop.is_set() or self.trouble is not None or self._disturbed():
            return False
        if self.options.limit is not None and self._begun >= self.options.limit:
            return False
        return self._flying < self.options.jobs + (AHEAD if self._is_quick() else 0)

    def _is_quick(self) -> bool:
        """Whether this run's commands end so fast that they would wait for the recording.

        Slow ones are prepared only when their turn has come, so that they see what was committed until then.
        """
        return self._ended > 0 and self._seconds / self._ended < _QUICK

    def _disturbed(self) -> bool:
        """Whether the user has changed the clone so that nothing new may begin; says so once."""
        dirty = self.session.view.snapshot.dirty
        if self.disturbed or not (self.session.switched or (dirty and not self.options.allow_dirty)):
            return self.disturbed
        self.disturbed = True
        self.progress.story(show.disturbed_line(self.session.branch, dirty))
        return True

    def _begin(self, pool: ThreadPoolExecutor, key: WorkKey) -> None:
        # By the status of now: what was due when the run began may have been changed by somebody since.
        status = self.session.statuses.get(key)
        failed_above = any((key[0], name) in self._broken for name in self.session.needs(key[1]))
        if status is None or status.hash is None or failed_above:
            self._close(key, done=False)
            return
        if not (
            is_due(status) or key in self.redo or (status.state == "failed" and self.options.retry_failed)
        ):
            self.progress.left += status.reason in PROTECTED and status.state != "done"
            self.progress.failed += status.state == "failed"
            self._close(key, done=status.state == "done")
            return
        if key not in self.redo and restore(self.session, [status], self.progress):
            self._close(key, done=True)  # made before, and known only now that what it needs is done
            return
        if key not in self.redo and (kept := self.session.recall(status)):
            (settled,) = self.session.settle([kept])
            self.session.judge_again([status.item])
            self._tell(settled)
            return
        prepared = self.session.prepare(status, key in self.redo)
        if isinstance(prepared, Settled):
            self._tell(prepared)
            return
        self._begun += 1
        self._flying += 1
        self.progress.running = min(self._flying, self.options.jobs)
        self.progress.tick()
        pool.submit(self._work, *prepared)

    def _tell(self, work: Settled) -> None:
        intent = work.intent
        self.progress.settled(work, work_id(intent.slug, intent.stage, intent.work))
        key = (intent.slug, intent.stage)
        if work.how == "kept" and key not in self._again:
            # Its inputs changed on the way, so it is still to be done; but a command that changes its own inputs
            # must not be paid without end.
            self._again.add(key)
            self._ready.append(key)
        else:
            self.progress.left += work.how == "kept"
            self._close(key, done=work.how == "done")

    def _work(self, intent: Intent, job: Job) -> None:
        """In a thread: do one attempt, and hand over how it went, whatever that is."""
        try:
            judged = self.session.work(intent, job, self.stop.cancel, self.stop.hurry)
        except BaseException as error:
            self._answers.put((intent, None, error))
        else:
            self._answers.put((intent, judged, None))

    def _take(self) -> list[_Answer]:
        """The next answer, and all that wait with it: they are recorded together."""
        answers: list[_Answer] = []
        while not answers:
            try:
                answers.append(self._answers.get(timeout=_WATCH))
            except queue.Empty:
                # A `git commit` of the user's that began before the last record may have put its old index back since,
                # and the next one would delete our outputs.
                self.session.recorder.mend()
        while not self._answers.empty():
            answers.append(self._answers.get())
        self._flying -= len(answers)
        self.progress.running = min(self._flying, self.options.jobs)
        return answers

    def _settle(self, answers: Sequence[_Answer]) -> None:
        """Record what came, and all that follows from it."""
        session = self.session
        judged = [found for _, found, _ in answers if found is not None]
        self._ended += len(judged)
        self._seconds += sum(found.seconds for found in judged)
        settled = session.settle(judged) if judged else []
        keys = ((work.intent.slug, work.intent.stage) for work in settled)
        session.judge_again(session.statuses[key].item for key in keys if key in session.statuses)
        for work in settled:
            self._tell(work)
        for intent, found, error in answers:
            if isinstance(error, GitstateError):
                self.trouble = self.trouble or error  # what else is under way has been paid for: let it end
            elif error is not None:
                raise error
            elif found is None:
                self.dropped += session.forget(intent)
        if settled and self.syncing.recorded():
            session.refresh()
