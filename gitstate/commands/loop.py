"""The loop of `run`: keep N commands going, record what finishes in groups, take up what became due by it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Optional, TypeVar

from gitstate import story
from gitstate.commands.acting import Acting, Answer
from gitstate.commands.acts import Acts, weighed
from gitstate.commands.attempting import attempt, prepare, recall
from gitstate.commands.judging import Judged
from gitstate.commands.progress import Progress
from gitstate.commands.reacting import Reactions
from gitstate.commands.restore import restore
from gitstate.commands.session import Session
from gitstate.commands.settling import Settled, settle
from gitstate.commands.syncing import Syncing
from gitstate.commands.windows import Windows
from gitstate.core.budget import Purse, Spent, spent
from gitstate.core.derive import PROTECTED, Status
from gitstate.core.identity import work_id
from gitstate.core.plan import account_of
from gitstate.core.schedule import asks_human, is_due, order_of
from gitstate.core.snapshot import WorkKey
from gitstate.core.verdict import Failed
from gitstate.edge.attempts import Intent
from gitstate.edge.process import Job
from gitstate.errors import ComeBackLater, GitFailed, GitstateError, is_full

if TYPE_CHECKING:
    from gitstate.commands.claiming import Claiming
    from gitstate.commands.run import Options
    from gitstate.commands.stopping import Stop

# Works handed out beyond those that run: while a group is recorded, the commands must not wait for their next one.
# Nothing is spent on them before their turn.
AHEAD = 24  # against 8: half as many groups with -j 8, and 0.5 ms of CPU less a work
_QUICK = 0.25  # seconds that a quick command takes
_GATHER = 0.1  # seconds
_WATCH = 0.5  # seconds between looks at the user's index while commands run; one `stat` each

_PATIENCE = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # seconds between tries to record what an effect has done


T = TypeVar("T")


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
        acts: Acts,
        claiming: Optional[Claiming] = None,
    ) -> None:
        self.session, self.syncing, self.progress = session, syncing, progress
        self.options, self.redo, self.again, self.stop = options, redo, again, stop
        self.reactions, self.windows, self.purse, self.acts = reactions, windows, purse, acts
        self.acting, self.claiming = Acting(self, acts), claiming
        self.unfinished = 0  # works that were not begun, or not finished
        self.disturbed = False
        # What makes going on pointless, once all that runs has ended.
        self.trouble: Optional[BaseException] = None
        self._ended = 0
        self._seconds = 0.0  # of the commands that ended
        self.dropped = 0  # commands that were ended before their answer came
        self.answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.begun: set[WorkKey] = set()  # works, over all rounds of a run that waits
        self.flying = 0
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
        if self.claiming is not None:
            self.claiming.open = lambda: self._open
        self._sort(keys)
        threads = self.session.threads(self.options.jobs, AHEAD)
        pool = ThreadPoolExecutor(threads, thread_name_prefix="gitstate-job")
        try:
            while True:
                self._ready += self.reactions.come()
                while (key := self._next()) is not None:
                    self._begin(pool, key)
                if self.acting.begin(pool):
                    continue
                waits = self.reactions.resting or (self.claiming is not None and self.claiming.waits(self))
                if not self.flying and (self._is_over() or not waits):
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

    def close(self, key: WorkKey, done: bool) -> None:
        """A work is settled: those that waited for it may be ready."""
        self._open.discard(key)
        if not done:
            self._broken.add(key)
        self._sort(self._waiting.pop(key[0], []))

    def _next(self) -> Optional[WorkKey]:
        """A work to begin now; None if none may, or none is there."""
        while self._may_begin() and (
            self._ready or (self.claiming is not None and self.claiming.refill(self))
        ):
            key = self._ready.pop()
            if self.claiming is not None and not self.claiming.may(key) and self.wants(key):
                self.claiming.put_aside(key)
                continue
            beyond = self.options.limit is not None and len(self.begun) >= self.options.limit
            if self.flying >= self.options.jobs and self.session.effect(key[1]) is not None:
                self._ready.append(key)  # an act is not handed out before its turn
                return None
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
                if not self.flying:
                    self.spent = f"the next work would pass the budget of {self.purse.budget}"
                return None
            else:
                return key
        return None

    @property
    def mean(self) -> Optional[float]:
        """The seconds that this run's commands took; None before the first has ended."""
        return self._seconds / self._ended if self._ended else None

    def lets(self, key: WorkKey) -> bool:
        """Whether the window of a work's account lets it begin."""
        return self.windows.lets(self._account(key))

    def wants(self, key: WorkKey) -> bool:
        """Whether a work is to be done as it stands now."""
        status = self.session.statuses.get(key)
        if status is None or status.hash is None:
            return False
        again = key in self.again and status.state != "done"
        return is_due(status) or key in self.redo or again or self.acting.is_asking(key)

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
        return self.flying < self.options.jobs + (AHEAD if self._is_quick() else 0)

    def _is_quick(self) -> bool:
        """Whether this run's commands end so fast that they would wait for the recording.

        Slow ones are prepared only when their turn has come, so that they see what was committed until then.
        """
        return self.mean is not None and self.mean < _QUICK

    def _disturbed(self) -> bool:
        """Whether the user has changed the clone so that nothing new may begin; says so once."""
        dirty = self.session.view.snapshot.dirty
        if self.disturbed or not (self.session.switched or (dirty and not self.options.allow_dirty)):
            return self.disturbed
        self.disturbed = True
        self.progress.story(story.disturbed_line(self.session.branch, dirty))
        return True

    def _begin(self, pool: ThreadPoolExecutor, key: WorkKey) -> None:
        # By the status of now: what was due when the run began may have been changed by somebody since.
        status = self.session.statuses.get(key)
        failed_above = any((key[0], name) in self._broken for name in self.session.needs(key[1]))
        if status is None or status.hash is None or failed_above:
            self.close(key, done=False)
            return
        if not self.wants(key):
            asks = asks_human(self.session.stages[key[1]], status, key in self.session.acts)
            self.progress.asked += asks
            self.progress.left += status.reason in PROTECTED and status.state != "done"
            self.progress.before += status.state in ("failed", "paused") and not asks
            self.close(key, done=status.state == "done")
            return
        if key not in self.redo and restore(self.session, [status], self.progress):
            self.close(key, done=True)  # made before, and known only now that what it needs is done
            return
        if key not in self.redo and (kept := recall(self.session, status)):
            (settled,) = settle(self.session, [kept])
            self.session.judge_again([status.item])
            # It was paid for, and counted, when it came.
            self.tell(settled._replace(seconds=0.0, facts={}, recalled=True))
            return
        if self.acting.is_held(pool, status, key in self.redo):
            return
        prepared = prepare(self.session, status, key in self.redo)
        if isinstance(prepared, Settled):
            self.tell(prepared)
            return
        self.begun.add(key)
        self.windows.began(self._account(key))
        self.purse.begin(prepared[0].attempt, key[1])
        self.fly()
        if self.session.effect(key[1]) is not None:
            self.acting.add(prepared)
        else:
            pool.submit(self.work, *prepared)

    def fly(self) -> None:
        """A thread has something to do."""
        self.flying += 1
        self.progress.running = min(self.flying, self.options.jobs)
        self.progress.tick()

    def take_back(self, intent: Intent) -> None:
        """What was to be begun is not, after all."""
        key = (intent.slug, intent.stage)
        self.flying -= 1
        self.begun.discard(key)
        self.windows.ended(self._account(key), None, closes=False)
        self.purse.end(intent.attempt, key[1], None)

    def come_again(self, key: WorkKey) -> None:
        """A work is to be looked at again, at once."""
        self._ready.append(key)

    def tell(self, work: Settled) -> None:
        """An attempt is settled, which is recorded: say so, and do what follows."""
        intent = work.intent
        key = (intent.slug, intent.stage)
        name = work_id(intent.slug, intent.stage, intent.work)
        if work.failed is not None:
            self._react(key, name, work, work.failed)
            return
        self.progress.settled(work, name)
        if work.how == "done":
            self.reactions.done()
        if work.late or (work.how == "kept" and key not in self._again):
            # Its inputs changed on the way, so it is still to be done; but a command that changes its own inputs
            # must not be paid without end.
            self._again.add(key)
            self._ready.append(key)
        else:
            self.progress.left += work.how == "kept" and self.session.effect(key[1]) is None
            self.close(key, done=work.how == "done")

    def _react(self, key: WorkKey, name: str, work: Settled, failed: Failed) -> None:
        """An attempt has failed, which is recorded: do what the policy says."""
        reaction = self.reactions.of(work.intent.attempt)
        if not failed.asks and reaction.do != "pause_run" and self.acting.asks_first(work, failed, reaction):
            self.windows.unclear(self._account(key))
        elif reaction.do == "again":
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
            self.close(key, done=False)

    def work(self, intent: Intent, job: Job) -> None:
        """In a thread: do one attempt, and hand over how it went, whatever that is."""
        try:
            # What was handed out ahead does not begin while a failure is still to be weighed: it may end the run.
            judged = (
                None
                if self._alarm.is_set()
                or (self.claiming is not None and not self.claiming.may((intent.slug, intent.stage)))
                else self.session.guard.over(
                    intent, lambda: attempt(self.session, intent, job, self.stop.cancel, self.stop.hurry)
                )
            )
            if judged is not None and judged.failed is not None:
                self._alarm.set()
        except BaseException as error:
            self.answers.put(Answer(intent, error=error))
        else:
            self.answers.put(Answer(intent, judged))

    def _take(self) -> list[Answer]:
        """The next answer, and all that wait with it: they are recorded together."""
        answers: list[Answer] = []
        while not answers:
            try:
                rest = self.reactions.next_in()
                answers.append(self.answers.get(timeout=_WATCH if rest is None else min(rest, _WATCH)))
            except queue.Empty:
                if not self.flying or self.reactions.next_in() == 0:
                    break
                # A `git commit` of the user's that began before the last record may have put its old index back since,
                # and the next one would delete our outputs.
                self.session.recorder.mend()
        if self.session.pool is not None and self._is_quick():
            # A pool's answers trickle in. Half of what flies keeps it busy while the other half is waited for.
            until = time.monotonic() + _GATHER
            while self.answers.qsize() < self.flying // 2 and time.monotonic() < until:
                time.sleep(_GATHER / 10)
        while not self.answers.empty():
            answers.append(self.answers.get())
        self.flying -= len(answers)
        self.progress.running = min(self.flying, self.options.jobs)
        return answers

    def _record(self, judged: Sequence[Judged]) -> list[Settled]:
        """Settle what came. On a full disk it stays in the spool, where the next run finds it."""
        if not judged or is_full(self.trouble):
            return []
        try:
            if any(self.session.effect(one.intent.stage) for one in judged):
                return self.insist(lambda: settle(self.session, judged))
            return settle(self.session, judged)
        except OSError as error:
            if not is_full(error):
                raise
            self.trouble = error
            return []

    def insist(self, record: Callable[[], T]) -> T:
        """What has changed the world is recorded, however often that takes to succeed; nothing else begins before."""
        for pause in _PATIENCE:
            try:
                return record()
            except (ComeBackLater, GitFailed, OSError) as error:
                if self.stop.is_set():
                    raise
                self.progress.story(story.insisting_line(str(error), pause))
                self.stop.cancel.wait(pause)
        return record()

    def _weigh(self, judged: Judged) -> Judged:
        """Decide about an answer. What is made of a failed act is not said before evidence has been asked."""
        intent = judged.intent
        found = self.reactions.weigh(weighed(judged, self.session.effect(intent.stage)))
        if found.failed is not None and not self.reactions.closes(intent.attempt):
            return self.acts.held_open(found)
        return found

    def _settle(self, answers: Sequence[Answer]) -> None:
        """Record what came, and all that follows from it."""
        session = self.session
        attempts = [answer for answer in answers if not answer.is_question]
        for answer in attempts:
            self.acts.ended(answer.intent)
        judged = [self._weigh(answer.judged) for answer in attempts if answer.judged is not None]
        for intent, found, *_ in attempts:
            closes = self.reactions.closes(intent.attempt)
            self.windows.ended(self._account((intent.slug, intent.stage)), found, closes)
            self.purse.end(intent.attempt, intent.stage, *_cost(found))
        self._ended += len(judged)
        self._seconds += sum(found.seconds for found in judged)
        settled = self._record(judged)
        keys = ((work.intent.slug, work.intent.stage) for work in settled)
        session.judge_again(session.statuses[key].item for key in keys if key in session.statuses)
        for work in settled:
            self.tell(work)
        questions = [answer.asked for answer in answers if answer.asked is not None]
        for asked in questions:
            self.acting.heed(asked)
        held_back = self._without_answer(answers)
        self.begun.difference_update(key for key in held_back if not self.reactions.tries(key))
        self._ready += reversed(held_back)  # in their order, before the others
        if self.answers.empty() and not self._is_over():
            self._alarm.clear()
        if self._gates != self.windows.changes:
            self._gates = self.windows.changes
            self._ready += self._held[::-1]
            self._held.clear()
        if (settled or questions) and self.syncing.recorded():
            session.refresh()

    def _without_answer(self, answers: Sequence[Answer]) -> list[WorkKey]:
        """See to what brought no answer. Returns the works that were only held back. Raises what went wrong, unless
        what else is under way can still be recorded."""
        held_back: list[WorkKey] = []
        for intent, found, error, asked, is_question in answers:
            if isinstance(error, GitstateError) or is_full(error):
                self.trouble = self.trouble or error  # what else is under way has been paid for: let it end
            elif error is not None:
                raise error
            elif found is None and asked is None:
                begun = not is_question and self.session.forget(intent)
                self.dropped += begun
                if not begun and not self.stop.is_set():  # (it was held back, see `_work`)
                    held_back.append((intent.slug, intent.stage))
        return held_back


def _cost(found: Optional[Judged]) -> tuple[Optional[Spent], bool]:
    """What an attempt said that it cost, and whether it counts at its expected price where it said nothing: it may have
    been charged, unless it was not begun or was turned away."""
    if found is None:
        return None, False
    cost = spent(found.facts)
    if found.failed is None or found.failed.category == "validation" or cost != Spent(None, None):
        return cost, False
    return None, found.failed.category in ("timeout", "unknown")
