"""What came from a run's threads, and what follows from it: it is recorded in groups, told, and reacted to."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional, TypeVar

from gitstate import story
from gitstate.commands.acts import Asked, weighed
from gitstate.commands.judging import Judged
from gitstate.commands.settling import Settled, settle
from gitstate.core.identity import work_id
from gitstate.core.snapshot import WorkKey
from gitstate.core.verdict import Failed
from gitstate.edge.attempts import Intent
from gitstate.errors import ComeBackLater, GitFailed, GitstateError, NeedsHuman, is_full

if TYPE_CHECKING:
    from gitstate.commands.loop import Loop

_GATHER = 0.1  # seconds
_WATCH = 0.5  # seconds between looks at the user's index while commands run; one `stat` each
_PATIENCE = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # seconds between tries to record what an effect has done

T = TypeVar("T")


class Answer(NamedTuple):
    """What came from a thread: an attempt's answer, or that of a question about one; neither if it was cancelled."""

    intent: Intent
    judged: Optional[Judged] = None
    error: Optional[BaseException] = None
    asked: Optional[Asked] = None
    is_question: bool = False


class Answers:
    """The answers of one run. Everything but `put` belongs to the loop's thread."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._came: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._again: set[WorkKey] = set()  # works whose inputs changed once while they were made
        self.dropped = 0  # commands that were ended before their answer came
        # What makes going on pointless, once all that runs has ended.
        self.trouble: Optional[BaseException] = None

    def put(self, answer: Answer) -> None:
        """In any thread: hand over what came."""
        self._came.put(answer)

    def take(self) -> list[Answer]:
        """The next answer, and all that wait with it: they are recorded together."""
        loop = self._loop
        answers: list[Answer] = []
        while not answers:
            try:
                rest = loop.reactions.next_in()
                answers.append(self._came.get(timeout=_WATCH if rest is None else min(rest, _WATCH)))
            except queue.Empty:
                if not loop.flying or loop.reactions.next_in() == 0:
                    break
                # A `git commit` of the user's that began before the last record may have put its old index back since,
                # and the next one would delete our outputs.
                loop.session.recorder.mend()
        if loop.session.pool is not None and loop.is_quick():
            # A pool's answers trickle in. Half of what flies keeps it busy while the other half is waited for.
            until = time.monotonic() + _GATHER
            while self._came.qsize() < loop.flying // 2 and time.monotonic() < until:
                time.sleep(_GATHER / 10)
        while not self._came.empty():
            answers.append(self._came.get())
        loop.flying -= len(answers)
        loop.progress.running = min(loop.flying, loop.options.jobs)
        return answers

    def follow(self, answers: Sequence[Answer]) -> None:
        """Record what came, and do all that follows from it."""
        loop, session = self._loop, self._loop.session
        attempts = [answer for answer in answers if not answer.is_question]
        for answer in attempts:
            loop.acts.ended(answer.intent)
        judged = [self._weigh(answer.judged) for answer in attempts if answer.judged is not None]
        for intent, found, *_ in attempts:
            loop.landed(intent, found, loop.reactions.closes(intent.attempt))
        settled = self._record(judged)
        keys = ((work.intent.slug, work.intent.stage) for work in settled)
        session.judge_again(session.statuses[key].item for key in keys if key in session.statuses)
        for work in settled:
            self.tell(work)
        questions = [answer.asked for answer in answers if answer.asked is not None]
        for asked in questions:
            loop.acting.heed(asked)
        loop.put_back(self._without_answer(answers))
        if self._came.empty() and not loop.is_over():
            loop.alarm.clear()
        loop.look_at_gates()
        if settled or questions:
            self.push(loop.syncing.recorded)

    def push(self, push: Callable[[], bool]) -> None:
        """Push by `push`, which says whether something came. What then needs a person ends the run once all that is
        under way, and has been paid for, has ended."""
        try:
            if push():
                self._loop.session.refresh()
        except NeedsHuman as error:
            self.trouble = self.trouble or error

    def _weigh(self, judged: Judged) -> Judged:
        """Decide about an answer. What is made of a failed act is not said before evidence has been asked."""
        loop, intent = self._loop, judged.intent
        found = loop.reactions.weigh(weighed(judged, loop.session.effect(intent.stage)))
        if found.failed is not None and not loop.reactions.closes(intent.attempt):
            return loop.acts.held_open(found)
        return found

    def _record(self, judged: Sequence[Judged]) -> list[Settled]:
        """Settle what came. On a full disk it stays in the spool, where the next run finds it."""
        loop = self._loop
        if not judged or is_full(self.trouble):
            return []
        try:
            if any(loop.session.effect(one.intent.stage) for one in judged):
                return self.insist(lambda: settle(loop.session, judged))
            return settle(loop.session, judged)
        except OSError as error:
            if not is_full(error):
                raise
            self.trouble = error
            return []

    def insist(self, record: Callable[[], T]) -> T:
        """What has changed the world is recorded, however often that takes to succeed; nothing else begins before."""
        loop = self._loop
        for pause in _PATIENCE:
            try:
                return record()
            except (ComeBackLater, GitFailed, OSError) as error:
                if loop.stop.is_set():
                    raise
                loop.progress.story(story.insisting_line(str(error), pause))
                loop.stop.cancel.wait(pause)
        return record()

    def tell(self, work: Settled) -> None:
        """An attempt is settled, which is recorded: say so, and do what follows."""
        loop, intent = self._loop, work.intent
        key = (intent.slug, intent.stage)
        name = work_id(intent.slug, intent.stage, intent.work)
        if work.failed is not None:
            self._react(key, name, work, work.failed)
            return
        loop.progress.settled(work, name)
        if work.how == "done":
            loop.reactions.done()
        if work.late or (work.how == "kept" and key not in self._again):
            # Its inputs changed on the way, so it is still to be done; but a command that changes its own inputs
            # must not be paid without end.
            self._again.add(key)
            loop.come_again(key)
        else:
            loop.progress.left += work.how == "kept" and loop.session.effect(key[1]) is None
            loop.close(key, done=work.how == "done")

    def _react(self, key: WorkKey, name: str, work: Settled, failed: Failed) -> None:
        """An attempt has failed, which is recorded: do what the policy says."""
        loop = self._loop
        reaction = loop.reactions.of(work.intent.attempt)
        if not failed.asks and reaction.do != "pause_run" and loop.acting.asks_first(work, failed, reaction):
            loop.windows.unclear(loop.account(key))
        elif reaction.do == "again":
            loop.progress.again(work, name, reaction.after)
            loop.reactions.later(key, reaction.after)
            if failed.category == "quota":
                loop.windows.rest(loop.account(key))  # the same work is the next look
            else:
                loop.windows.unclear(loop.account(key))
        elif reaction.do == "pause_run":
            loop.progress.closed(work, name)
            loop.windows.shut(loop.account(key), failed)
            loop.begun.discard(key)  # no attempt counts against it
        else:
            loop.progress.settled(work, name)
            loop.windows.unclear(loop.account(key))
            loop.reactions.ended(failed)
            loop.close(key, done=False)

    def _without_answer(self, answers: Sequence[Answer]) -> list[WorkKey]:
        """See to what brought no answer. Returns the works that were only held back. Raises what went wrong, unless
        what else is under way can still be recorded."""
        loop = self._loop
        held_back: list[WorkKey] = []
        for intent, found, error, asked, is_question in answers:
            if isinstance(error, GitstateError) or is_full(error):
                self.trouble = self.trouble or error  # what else is under way has been paid for: let it end
            elif error is not None:
                raise error
            elif found is None and asked is None:
                begun = not is_question and loop.session.forget(intent)
                self.dropped += begun
                if not begun and not loop.stop.is_set():  # (it was held back, see `Loop.work`)
                    held_back.append((intent.slug, intent.stage))
        return held_back
