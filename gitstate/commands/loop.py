"""The loop of `run`: keep N commands going, each work after those that it needs; and what may begin next."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Optional

from gitstate import story
from gitstate.commands.acting import Acting
from gitstate.commands.acts import Acts
from gitstate.commands.answers import Answer, Answers
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
from gitstate.core.plan import account_of
from gitstate.core.schedule import asks_human, is_due, order_of
from gitstate.core.snapshot import WorkKey
from gitstate.edge.attempts import Intent
from gitstate.edge.process import Job

if TYPE_CHECKING:
    from gitstate.commands.claiming import Claiming
    from gitstate.commands.run import Options
    from gitstate.commands.stopping import Stop

# Works handed out beyond those that run: while a group is recorded, the commands must not wait for their next one.
# Nothing is spent on them before their turn.
AHEAD = 24  # against 8: half as many groups with -j 8, and 0.5 ms of CPU less a work
_AHEAD_OF_POOL = (
    96  # the same, where the workers have cores of their own: they must not wait for one's recording
)
_QUICK = 0.25  # seconds that a quick command takes


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
        self.acting, self.answers, self.claiming = Acting(self, acts), Answers(self), claiming
        self.unfinished = 0  # works that were not begun, or not finished
        self.disturbed = False
        self._ended = 0
        self._seconds = 0.0  # of the commands that ended
        self.begun: set[WorkKey] = set()  # works, over all rounds of a run that waits
        self.flying = 0
        self._open: set[WorkKey] = set()  # works of this run that are not settled
        self._broken: set[WorkKey] = set()  # those that ended otherwise than done
        self._ready: list[WorkKey] = []  # taken from the end
        self._held: list[WorkKey] = []  # ready, but for a window that is closed, or for the limit
        self._gates = 0  # when those were last looked at
        self.alarm = threading.Event()  # a call has failed, and what is made of it is not known yet
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
        threads = self.session.threads(self.options.jobs, self._ahead)
        pool = ThreadPoolExecutor(threads, thread_name_prefix="gitstate-job")
        try:
            while True:
                if self.answers.trouble is None:
                    self.answers.push(self.syncing.catch_up)
                self._ready += self.reactions.come()
                while (key := self._next()) is not None:
                    self._begin(pool, key)
                if self.acting.begin(pool):
                    continue
                waits = (
                    self.reactions.resting
                    or (self.claiming is not None and self.claiming.waits(self))
                    or (self.syncing.is_stuck and self._open)
                )
                if not self.flying and (self.is_over() or not waits):
                    break
                self.answers.follow(self.answers.take())
        except BaseException:
            self.stop.cancel.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.unfinished = len(self._open)
        if self.answers.trouble is not None:
            raise self.answers.trouble

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

    @property
    def open(self) -> Collection[WorkKey]:
        """The works of this run that are not settled."""
        return self._open

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
            if self.claiming is not None and not self.claiming.may(key) and self.concerns(key):
                self.claiming.put_aside(key)
                continue
            beyond = self.options.limit is not None and len(self.begun) >= self.options.limit
            if self.flying >= self.options.jobs and self.session.effect(key[1]) is not None:
                self._ready.append(key)  # an act is not handed out before its turn
                return None
            if (beyond and not self.reactions.tries(key)) or not self.windows.lets(
                self.account(key), bool(self.reactions.tries(key))
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
        return self.windows.lets(self.account(key))

    def wants(self, key: WorkKey) -> bool:
        """Whether a work is to be done as it stands now."""
        status = self.session.statuses.get(key)
        if status is None or status.hash is None:
            return False
        again = key in self.again and status.state != "done"
        return is_due(status) or key in self.redo or again or self.acting.is_asking(key)

    def concerns(self, key: WorkKey) -> bool:
        """Whether a work is to be done, or seems to be nobody's while another machine holds it: then its receipt is on
        the way, as where a user pushed the branch of a clone that a run was at work in."""
        status = self.session.statuses.get(key)
        held = self.claiming is not None and self.claiming.is_others(key[0])
        return self.wants(key) or (held and status is not None and status.reason == "unverified")

    def reopen(self, keys: Iterable[WorkKey]) -> None:
        """What this run had done has gone off the branch again: others do it, or it is still to be done."""
        for key in keys:
            self.progress.done -= key in self.begun
            self._open.add(key)
            self._ready.insert(0, key)

    def due_again(self, works: Iterable[Status]) -> int:
        """How many of these works were done, and are due again by what has come or was committed meanwhile. (None where
        no more was asked for, and what expires is no news.)"""
        if self.options.limit is not None and len(self.begun) >= self.options.limit:
            return 0
        keys = {(status.slug, status.stage) for status in works} - self._open - self._broken
        known = (self.session.statuses.get(key) for key in keys)
        return sum(status is not None and is_due(status) and status.reason != "expired" for status in known)

    def account(self, key: WorkKey) -> str:
        """The account that a work's calls are paid from."""
        stage = self.session.stages.get(key[1])
        return account_of(self.session.view.plan.workflow, stage) if stage else ""

    def is_over(self) -> bool:
        """Whether nothing new begins any more in this run."""
        return bool(
            self.stop.is_set()
            or self.answers.trouble is not None
            or self.windows.found
            or self.reactions.tripped
            or self.spent
            or (self.syncing.is_stuck and not self.options.wait)
            or self._disturbed()
        )

    def _may_begin(self) -> bool:
        if self.is_over() or self.alarm.is_set() or self.syncing.is_stuck:
            return False
        return self.flying < self.options.jobs + (self._ahead if self.is_quick() else 0)

    @property
    def _ahead(self) -> int:
        """How many more than jobs are handed out where commands are quick."""
        if self.syncing.each:
            return 0
        return AHEAD if self.session.pool is None else _AHEAD_OF_POOL

    def is_quick(self) -> bool:
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
            if status.reason == "unverified" and self.syncing.look_again():
                self.come_again(key)
                return
            asks = asks_human(self.session.stages[key[1]], status, key in self.session.acts)
            self.progress.asked += asks
            self.progress.left += status.reason in PROTECTED and status.state != "done"
            here = any((key[0], name) in self.begun for name in self.session.needs(key[1]))
            self.progress.unchanged += here and status.state == "done"
            self.progress.elsewhere += not here and status.state == "done"
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
            self.answers.tell(settled._replace(seconds=0.0, facts={}, recalled=True))
            return
        if self.acting.is_held(pool, status, key in self.redo):
            return
        prepared = prepare(self.session, status, key in self.redo)
        if isinstance(prepared, Settled):
            self.answers.tell(prepared)
            return
        self.begun.add(key)
        self.windows.began(self.account(key))
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
        self.windows.ended(self.account(key), None, closes=False)
        self.purse.end(intent.attempt, key[1], None)

    def landed(self, intent: Intent, found: Optional[Judged], closes: bool) -> None:
        """An attempt has ended: its answer, if it brought one, and whether the whole run pauses for it."""
        self.windows.ended(self.account((intent.slug, intent.stage)), found, closes)
        self.purse.end(intent.attempt, intent.stage, *_cost(found))
        if found is not None:
            self._ended += 1
            self._seconds += found.seconds

    def come_again(self, key: WorkKey) -> None:
        """A work is to be looked at again, at once."""
        self._ready.append(key)

    def put_back(self, keys: Sequence[WorkKey]) -> None:
        """Works were handed out and did not begin. They come again in their order, before the others."""
        self.begun.difference_update(key for key in keys if not self.reactions.tries(key))
        self._ready += reversed(keys)

    def look_at_gates(self) -> None:
        """Works that a gate held come again where one lets through by now what it did not before."""
        if self._gates != self.windows.changes:
            self._gates = self.windows.changes
            self._ready += self._held[::-1]
            self._held.clear()

    def work(self, intent: Intent, job: Job) -> None:
        """In a thread: do one attempt, and hand over how it went, whatever that is."""
        try:
            # What was handed out ahead does not begin while a failure is still to be weighed: it may end the run.
            judged = (
                None
                if self.alarm.is_set()
                or (self.claiming is not None and not self.claiming.may((intent.slug, intent.stage)))
                else self.session.guard.over(
                    intent, lambda: attempt(self.session, intent, job, self.stop.cancel, self.stop.hurry)
                )
            )
            if judged is not None and judged.failed is not None:
                self.alarm.set()
        except BaseException as error:
            self.answers.put(Answer(intent, error=error))
        else:
            self.answers.put(Answer(intent, judged))


def _cost(found: Optional[Judged]) -> tuple[Optional[Spent], bool]:
    """What an attempt said that it cost, and whether it counts at its expected price where it said nothing: it may have
    been charged, unless it was not begun or was turned away."""
    if found is None:
        return None, False
    cost = spent(found.facts)
    if found.failed is None or found.failed.category == "validation" or cost != Spent(None, None):
        return cost, False
    return None, found.failed.category in ("timeout", "unknown")
