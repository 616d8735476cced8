"""The loop of `run`: keep N commands going, record what finishes in groups, take up what became due by it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Optional

from gitstate import show
from gitstate.commands.judging import Judged
from gitstate.commands.progress import Progress
from gitstate.commands.reacting import Reactions
from gitstate.commands.restore import restore
from gitstate.commands.session import Session, Settled
from gitstate.commands.syncing import Syncing
from gitstate.commands.windows import Windows
from gitstate.core.budget import Purse, Spent, spent
from gitstate.core.derive import PROTECTED, Status
from gitstate.core.identity import work_id
from gitstate.core.plan import account_of
from gitstate.core.schedule import is_due, order_of
from gitstate.core.snapshot import WorkKey
from gitstate.core.verdict import Failed
from gitstate.edge.attempts import Intent
from gitstate.edge.process import Job
from gitstate.errors import GitstateError, is_full

if TYPE_CHECKING:
    from gitstate.commands.run import Options
    from gitstate.commands.stopping import Stop

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
        again: frozenset[WorkKey],
        stop: Stop,
        reactions: Reactions,
        windows: Windows,
        purse: Purse,
    ) -> None:
        self.session, self.syncing, self.progress = session, syncing, progress
        self.options, self.redo, self.again, self.stop = options, redo, again, stop
        self.reactions, self.windows, self.purse = reactions, windows, purse
        self.unfinished = 0  # works that were not begun, or not finished
        self.disturbed = False
        # What makes going on pointless, once all that runs has ended.
        self.trouble: Optional[BaseException] = None
        self._ended = 0
        self._seconds = 0.0  # of the commands that ended
        self.dropped = 0  # commands that were ended before their answer came
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self.begun: set[WorkKey] = set()  # works, over all rounds of a run that waits
        self._flying = 0
        self._open: set[WorkKey] = set()  # works of this run that are not settled
        self._broken: set[WorkKey] = set()  # those that ended otherwise than done
        self._again: set[WorkKey] = set()  # those whose inputs changed once while they were made
        self._ready: list[WorkKey] = []  # taken from the end
        self._held: list[WorkKey] = []  # ready, but for a window that is closed, or for the limit
        self._gates = 0  # when those were last looked at
        self._alarm = threading.Event()  # a call has failed, and what is made of it is not known yet
        self.spent = ""  # why the budget lets nothing more begin
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
            while True:
                self._ready += self.reactions.come()
                while (key := self._next()) is not None:
                    self._begin(pool, key)
                if not self._flying and (self._is_over() or not self.reactions.resting):
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

    def _next(self) -> Optional[WorkKey]:
        """A work to begin now; None if none may, or none is there."""
        while self._ready and self._may_begin():
            key = self._ready.pop()
            beyond = self.options.limit is not None and len(self.begun) >= self.options.limit
            if (beyond and not self.reactions.tries(key)) or not self.windows.lets(
                self._account(key), bool(self.reactions.tries(key))
            ):
                self._held.append(key)
            elif self.purse.unpriced(key[1]):
                self.spent = (
                    f"{key[1]} does not say what it costs ($GITSTATE_USAGE), or not as JSON like "
                    '{"usd": 0.02}, so no budget can hold'
                )
            elif not self.purse.fits(key[1]):
                self._ready.append(key)  # what is under way may turn out cheaper
                if not self._flying:
                    self.spent = f"the next work would pass the budget of {self.purse.budget}"
                return None
            else:
                return key
        return None

    def _account(self, key: WorkKey) -> str:
        stage = self.session.stages.get(key[1])
        return account_of(self.session.view.plan.workflow, stage) if stage else ""

    def _is_over(self) -> bool:
        """Whether nothing new begins any more in this run."""
        return bool(
            self.stop.is_set()
            or self.trouble is not None
            or self.windows.found
            or self.reactions.tripped
            or self.spent
            or self._disturbed()
        )

    def _may_begin(self) -> bool:
        if self._is_over() or self._alarm.is_set():
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
        if not (is_due(status) or key in self.redo or key in self.again):
            self.progress.left += status.reason in PROTECTED and status.state != "done"
            self.progress.before += status.state in ("failed", "paused")
            self._close(key, done=status.state == "done")
            return
        if key not in self.redo and restore(self.session, [status], self.progress):
            self._close(key, done=True)  # made before, and known only now that what it needs is done
            return
        if key not in self.redo and (kept := self.session.recall(status)):
            (settled,) = self.session.settle([kept])
            self.session.judge_again([status.item])
            # It was paid for, and counted, when it came.
            self._tell(settled._replace(seconds=0.0, facts={}, recalled=True))
            return
        prepared = self.session.prepare(status, key in self.redo)
        if isinstance(prepared, Settled):
            self._tell(prepared)
            return
        self.begun.add(key)
        self._flying += 1
        self.windows.began(self._account(key))
        self.purse.begin(prepared[0].attempt, key[1])
        self.progress.running = min(self._flying, self.options.jobs)
        self.progress.tick()
        pool.submit(self._work, *prepared)

    def _tell(self, work: Settled) -> None:
        intent = work.intent
        key = (intent.slug, intent.stage)
        name = work_id(intent.slug, intent.stage, intent.work)
        if work.failed is not None:
            self._react(key, name, work, work.failed)
            return
        self.progress.settled(work, name)
        if work.how == "done":
            self.reactions.done()
        if work.how == "kept" and key not in self._again:
            # Its inputs changed on the way, so it is still to be done; but a command that changes its own inputs
            # must not be paid without end.
            self._again.add(key)
            self._ready.append(key)
        else:
            self.progress.left += work.how == "kept"
            self._close(key, done=work.how == "done")

    def _react(self, key: WorkKey, name: str, work: Settled, failed: Failed) -> None:
        """An attempt has failed, which is recorded: do what the policy says."""
        reaction = self.reactions.of(work.intent.attempt)
        if reaction.do == "again":
            self.progress.again(work, name, reaction.after)
            self.reactions.later(key, reaction.after)
            if failed.category == "quota":
                self.windows.rest(self._account(key))  # the same work is the next look
            else:
                self.windows.unclear(self._account(key))
        elif reaction.do == "pause_run":
            self.progress.closed(work, name)
            self.windows.shut(self._account(key), failed)
            self.begun.discard(key)  # no attempt counts against it
        else:
            self.progress.settled(work, name)
            self.windows.unclear(self._account(key))
            self.reactions.ended(failed)
            self._close(key, done=False)

    def _work(self, intent: Intent, job: Job) -> None:
        """In a thread: do one attempt, and hand over how it went, whatever that is."""
        try:
            # What was handed out ahead does not begin while a failure is still to be weighed: it may end the run.
            judged = (
                None
                if self._alarm.is_set()
                else self.session.work(intent, job, self.stop.cancel, self.stop.hurry)
            )
            if judged is not None and judged.failed is not None:
                self._alarm.set()
        except BaseException as error:
            self._answers.put((intent, None, error))
        else:
            self._answers.put((intent, judged, None))

    def _take(self) -> list[_Answer]:
        """The next answer, and all that wait with it: they are recorded together."""
        answers: list[_Answer] = []
        while not answers:
            try:
                rest = self.reactions.next_in()
                answers.append(self._answers.get(timeout=_WATCH if rest is None else min(rest, _WATCH)))
            except queue.Empty:
                if not self._flying or self.reactions.next_in() == 0:
                    break
                # A `git commit` of the user's that began before the last record may have put its old index back since,
                # and the next one would delete our outputs.
                self.session.recorder.mend()
        while not self._answers.empty():
            answers.append(self._answers.get())
        self._flying -= len(answers)
        self.progress.running = min(self._flying, self.options.jobs)
        return answers

    def _record(self, judged: Sequence[Judged]) -> list[Settled]:
        """Settle what came. On a full disk it stays in the spool, where the next run finds it."""
        if not judged or is_full(self.trouble):
            return []
        try:
            return self.session.settle(judged)
        except OSError as error:
            if not is_full(error):
                raise
            self.trouble = error
            return []

    def _settle(self, answers: Sequence[_Answer]) -> None:
        """Record what came, and all that follows from it."""
        session = self.session
        judged = [self.reactions.weigh(found) for _, found, _ in answers if found is not None]
        for intent, found, _ in answers:
            closes = self.reactions.closes(intent.attempt)
            self.windows.ended(self._account((intent.slug, intent.stage)), found, closes)
            self.purse.end(intent.attempt, intent.stage, *_cost(found))
        self._ended += len(judged)
        self._seconds += sum(found.seconds for found in judged)
        settled = self._record(judged)
        keys = ((work.intent.slug, work.intent.stage) for work in settled)
        session.judge_again(session.statuses[key].item for key in keys if key in session.statuses)
        for work in settled:
            self._tell(work)
        held_back: list[WorkKey] = []
        for intent, found, error in answers:
            if isinstance(error, GitstateError) or is_full(error):
                self.trouble = self.trouble or error  # what else is under way has been paid for: let it end
            elif error is not None:
                raise error
            elif found is None:
                begun = session.forget(intent)
                self.dropped += begun
                if not begun and not self.stop.is_set():  # (it was held back, see `_work`)
                    held_back.append((intent.slug, intent.stage))
        self.begun.difference_update(key for key in held_back if not self.reactions.tries(key))
        self._ready += reversed(held_back)  # in their order, before the others
        if self._answers.empty() and not self._is_over():
            self._alarm.clear()
        if self._gates != self.windows.changes:
            self._gates = self.windows.changes
            self._ready += self._held[::-1]
            self._held.clear()
        if settled and self.syncing.recorded():
            session.refresh()


def _cost(found: Optional[Judged]) -> tuple[Optional[Spent], bool]:
    """What an attempt said that it cost, and whether it counts at its expected price where it said nothing: it may have
    been charged, unless it was not begun or was turned away."""
    if found is None:
        return None, False
    cost = spent(found.facts)
    if found.failed is None or found.failed.category == "validation" or cost != Spent(None, None):
        return cost, False
    return None, found.failed.category in ("timeout", "unknown")
