"""The loop of `run`: keep N commands going, record what finishes in groups, take up what became due by it."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Optional

from gitstate import show
from gitstate.commands.progress import Progress
from gitstate.commands.session import Judged, Session, Settled
from gitstate.commands.syncing import Syncing
from gitstate.core.derive import Status
from gitstate.core.identity import work_id
from gitstate.core.schedule import is_due, order_of
from gitstate.edge.attempts import Intent
from gitstate.edge.process import Job

if TYPE_CHECKING:
    from gitstate.commands.run import Options, Stop

# Works handed out beyond those that run: while a group is recorded, the commands must not wait for their next one.
# Nothing is spent on them before their turn.
AHEAD = 8

_Answer = tuple[Intent, Optional[Judged], Optional[BaseException]]


class Loop:
    """One run's works, from due to settled."""

    def __init__(
        self, session: Session, syncing: Syncing, progress: Progress, options: Options, stop: Stop
    ) -> None:
        self.session, self.syncing, self.progress, self.options, self.stop = (
            session,
            syncing,
            progress,
            options,
            stop,
        )
        self.unfinished = 0  # due works that were not begun, or not finished
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._begun = 0
        self._flying = 0
        self._redo = options.redo
        self.disturbed = False

    def go(self, due: Sequence[Status], waiting: Sequence[Status]) -> None:
        """Do the due works, and those that wait for them. Raises what makes going on pointless or unsafe."""
        todo = list(reversed(order_of(due, self.session.view.plan.workflow)))
        later = {(status.slug, status.stage) for status in waiting}
        pool = ThreadPoolExecutor(self.options.jobs, thread_name_prefix="gitstate-job")
        try:
            while todo or self._flying:
                while todo and self._may_begin():
                    self._begin(pool, todo.pop())
                if not self._flying:
                    break
                settled = self._settle(self._take())
                for status in self._became_due(settled, later):
                    todo.append(
                        status
                    )  # at the end, which is taken first: chains that were begun are finished
        except BaseException:
            self.stop.cancel.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.unfinished += len(todo)

    def _may_begin(self) -> bool:
        if (
            self._disturbed()
            or self.stop.is_set()
            or (self.options.limit is not None and self._begun >= self.options.limit)
        ):
            return False
        return self._flying < self.options.jobs + AHEAD

    def _disturbed(self) -> bool:
        """Whether the user has changed the clone so that nothing new may begin; says so once."""
        dirty = self.session.view.snapshot.dirty
        if self.disturbed or not (self.session.switched or (dirty and not self.options.allow_dirty)):
            return self.disturbed
        self.disturbed = True
        self.progress.story(show.disturbed_line(self.session.branch, dirty))
        return True

    def _begin(self, pool: ThreadPoolExecutor, status: Status) -> None:
        # What stands in the queue may be older than the view: somebody may have committed meanwhile.
        now = self.session.statuses.get((status.slug, status.stage))
        if now is None or now.hash is None or not (self._redo or is_due(now) or self.options.retry_failed):
            return
        status = now
        prepared = self.session.prepare(status, self._redo)
        if isinstance(prepared, Settled):
            self.progress.settled(prepared, self._name(prepared.intent))
            return
        self._begun += 1
        self._flying += 1
        self.progress.running = min(self._flying, self.options.jobs)
        self.progress.tick()
        pool.submit(self._work, *prepared)

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
        answers = [self._answers.get()]
        while not self._answers.empty():
            answers.append(self._answers.get())
        self._flying -= len(answers)
        self.progress.running = min(self._flying, self.options.jobs)
        return answers

    def _settle(self, answers: Sequence[_Answer]) -> list[Settled]:
        judged = [found for _, found, _ in answers if found is not None]
        settled = self.session.settle(judged) if judged else []
        for work in settled:
            self.progress.settled(work, self._name(work.intent))
        for intent, found, error in answers:
            if error is not None:
                raise error
            if found is None:
                self.unfinished += 1
                self.session.forget(intent)
        if settled and self.syncing.recorded():
            self.session.refresh()
        return settled

    def _became_due(self, settled: Sequence[Settled], later: set[tuple[str, str]]) -> list[Status]:
        """The works that wait no more."""
        session = self.session
        keys = ((work.intent.slug, work.intent.stage) for work in settled)
        items = {session.statuses[key].item for key in keys if key in session.statuses}
        found = []
        again = {(work.intent.slug, work.intent.stage) for work in settled if work.how == "kept"}
        for status in session.judge_again(items):
            key = (status.slug, status.stage)
            if (key in later or key in again) and status.reason != "upstream":
                later.discard(key)
                if is_due(status):
                    found.append(status)
        return list(reversed(order_of(found, session.view.plan.workflow)))

    @staticmethod
    def _name(intent: Intent) -> str:
        return work_id(intent.slug, intent.stage, intent.work)
