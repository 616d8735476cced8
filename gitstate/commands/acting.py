"""The loop's part for effects: acts are told of first, and asked about where nobody knows how they ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Optional

from gitstate import story
from gitstate.commands.acts import Acts, Announced, Asked
from gitstate.commands.answers import Answer
from gitstate.commands.judging import Judged
from gitstate.commands.lines import manifest_blob, verdict_line
from gitstate.commands.reacting import with_state
from gitstate.commands.settling import Settled
from gitstate.core.derive import Status
from gitstate.core.identity import work_id
from gitstate.core.policy import Reaction
from gitstate.core.snapshot import Act, WorkKey
from gitstate.core.verdict import Failed
from gitstate.edge.attempts import Intent
from gitstate.edge.process import Job

if TYPE_CHECKING:
    from gitstate.commands.loop import Loop


_LOOKS = 8  # at a work that others were first with; the next run goes on


class Acting:
    """What the loop does with the works of effects. Everything but `_ask` belongs to the loop's thread."""

    def __init__(self, loop: Loop, acts: Acts) -> None:
        self._loop, self._acts = loop, acts
        self._beaten: dict[WorkKey, int] = {}  # how often others were first with a work
        self._announced: list[Announced] = []  # to be told of, then begun
        # Works to be asked about in this run: what is made of each if it has not happened.
        self._then: dict[WorkKey, tuple[Optional[Settled], Reaction]] = {}

    def add(self, prepared: Announced) -> None:
        """An act is to begin."""
        self._announced.append(prepared)

    def begin(self, pool: ThreadPoolExecutor) -> bool:
        """Tell of the acts that are to begin, all at once; then begin those that may. Returns whether there are works
        to be looked at again because of it."""
        group, self._announced = self._announced, []
        come_again = False
        for (intent, job), may in zip(group, self._acts.announce(group) if group else ()):
            if may:
                pool.submit(self._loop.work, intent, job)
                continue
            self._loop.take_back(intent)
            # Somebody else was first: look again. But where the remote cannot be told, or others are first time and
            # again, it waits.
            key = (intent.slug, intent.stage)
            self._beaten[key] = self._beaten.get(key, 0) + 1
            if self._acts.untold or self._beaten[key] > _LOOKS:
                self._loop.close(key, done=False)
            else:
                self._loop.come_again(key)
                come_again = True
        return come_again

    def is_asking(self, key: WorkKey) -> bool:
        """Whether a work is due because evidence is to be asked about it, whatever stands against it."""
        return key in self._then

    def is_held(self, pool: ThreadPoolExecutor, status: Status, redo: bool) -> bool:
        """Whether an effect is not to act now: it is asked about, or waits for a person or the remote."""
        loop, key = self._loop, (status.slug, status.stage)
        if loop.session.effect(status.stage) is None:
            return False
        step = self._acts.step(status, redo)
        if step == "ask" or (step == "act" and loop.syncing.can_tell and self._acts.must_look(status)):
            question = self._acts.question(status)
            if isinstance(question, Settled):
                loop.answers.tell(question)
            else:
                loop.fly()
                pool.submit(self._ask, *question)
            return True
        if step == "act" and loop.syncing.can_tell:
            return False
        if step == "act":
            self._acts.untold += 1
        else:
            loop.progress.asked += 1
        loop.close(key, done=False)
        return True

    def _ask(self, intent: Intent, job: Job, acts: tuple[Act, ...]) -> None:
        """In a thread: ask whether an act has happened."""
        loop = self._loop
        try:
            asked = self._acts.ask(intent, job, acts, loop.stop.cancel)
            loop.answers.put(Answer(intent, asked=asked, is_question=True))
        except BaseException as error:
            loop.answers.put(Answer(intent, error=error, is_question=True))

    def asks_first(self, work: Settled, failed: Failed, reaction: Reaction) -> bool:
        """Whether a failed act is to be asked about before anything is made of it."""
        key = (work.intent.slug, work.intent.stage)
        if key in self._then or not self._acts.must_ask(key):  # (what comes of asking is not asked about)
            return False
        self._loop.progress.unsure(work, work_id(*key, work.intent.work))
        made_of_it = with_state(failed, reaction, self._acts.clock.now())
        self._then[key] = (work._replace(failed=made_of_it), reaction)
        self._loop.come_again(key)
        return True

    def heed(self, asked: Asked) -> None:
        """Evidence has answered about an act: do what follows."""
        loop, intent = self._loop, asked.intent
        key = (intent.slug, intent.stage)
        name = work_id(*key, intent.work)
        heeded = loop.answers.insist(lambda: self._acts.heed(asked))
        if key in loop.session.statuses:
            loop.session.judge_again([loop.session.statuses[key].item])
        if heeded.what == "looked":
            loop.come_again(key)
        elif heeded.settled is not None:
            loop.answers.tell(heeded.settled)
            self._then.pop(key, None)
        elif heeded.what == "later":
            loop.progress.story(story.asked_again_line(name, heeded.after))
            self._then.setdefault(key, (None, Reaction("again")))
            loop.reactions.later(key, heeded.after)
        elif heeded.what == "elsewhere":
            loop.progress.story(story.elsewhere_line(name, heeded.until))
            loop.progress.paused += 1
            loop.close(key, done=False)
        else:
            self._absent(key, name, asked.said)

    def _absent(self, key: WorkKey, name: str, said: str) -> None:
        """Evidence says that an act has not happened: it may begin again, unless its failure says otherwise."""
        loop = self._loop
        work, reaction = self._then.pop(key, (None, Reaction("again")))
        if work is not None and work.failed is not None and reaction.do != "again":
            judged = Judged(work.intent, work.seconds, work.facts, failed=work.failed)
            blob = manifest_blob(loop.session.clone.objects, work.intent)
            loop.session.note(blob, verdict_line(judged, work.failed))
            loop.progress.settled(work, name)
            loop.reactions.ended(work.failed)
            loop.close(key, done=False)
            return
        loop.progress.story(story.absent_line(name, said))
        loop.reactions.later(key, reaction.after)
