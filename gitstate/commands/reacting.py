"""What the failures of one run lead to: who comes again and when, what is counted, and what ends the run."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Optional

from gitstate.commands.judging import Judged
from gitstate.core import policy
from gitstate.core.breaker import Breaker, Cause
from gitstate.core.pause import stamp
from gitstate.core.plan import Stage
from gitstate.core.policy import Reaction
from gitstate.core.snapshot import WorkKey
from gitstate.core.verdict import Failed

_REST = 3600.0  # seconds for which a work whose tries are used up is left alone, where no time was stated


class Reactions:
    """Decides about each failed attempt by the policy, and remembers what it decided."""

    def __init__(
        self,
        stages: Callable[[], Mapping[str, Stage]],
        breaker: Breaker,
        now: Callable[[], datetime],
        elapsed: Callable[[], float],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`elapsed`: seconds that never jump, for back-off; `chance`: numbers from 0 to 1, for jitter."""
        self._stages, self._breaker, self._now, self._elapsed = stages, breaker, now, elapsed
        self._chance = chance
        self._tries: dict[WorkKey, int] = {}
        self._decided: dict[str, Reaction] = {}  # by attempt
        self._later: list[tuple[float, int, WorkKey]] = []  # a heap: due, in which order, which work
        self._count = 0
        self.tripped = ""  # why the breaker stopped the run

    def weigh(self, judged: Judged) -> Judged:
        """Decide about a failed answer; it comes back with what it makes of its work, for the log."""
        failed = judged.failed
        if failed is None:
            return judged
        intent = judged.intent
        key = (intent.slug, intent.stage)
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        stage = self._stages().get(intent.stage)
        reaction = _reaction(stage.policy if stage else {}, failed, tries, self._chance())
        self._decided[intent.attempt] = reaction
        return judged._replace(failed=with_state(failed, reaction, self._now()))

    def closes(self, attempt: str) -> bool:
        """Whether the reaction to an attempt is that the whole run pauses."""
        return self._decided.get(attempt, Reaction("fail")).do == "pause_run"

    def of(self, attempt: str) -> Reaction:
        """What was decided about an attempt; it is asked once."""
        return self._decided.pop(attempt, Reaction("fail"))

    def later(self, key: WorkKey, after: float) -> None:
        """A work comes again after some seconds."""
        self._count += 1
        heapq.heappush(self._later, (self._elapsed() + after, self._count, key))

    def tries(self, key: WorkKey) -> int:
        """How many attempts at a work have failed in this run."""
        return self._tries.get(key, 0)

    def come(self) -> list[WorkKey]:
        """The works whose time has come."""
        found = []
        while self._later and self._later[0][0] <= self._elapsed():
            found.append(heapq.heappop(self._later)[2])
        return found

    @property
    def resting(self) -> int:
        """How many works wait for their next try."""
        return len(self._later)

    def next_in(self) -> Optional[float]:
        """Seconds until the next work comes again; None if none does."""
        return max(0.0, self._later[0][0] - self._elapsed()) if self._later else None

    def done(self) -> None:
        """A work has succeeded."""
        self._breaker.done()

    def ended(self, failed: Failed) -> None:
        """A work has failed or is paused for good, as far as this run goes."""
        self.tripped = self.tripped or self._breaker.failed(Cause(failed.category, failed.kind, failed.rule))


def decided(judged: Judged, stages: Mapping[str, Stage], now: datetime) -> Judged:
    """An answer that a run which died had received, with what is made of it if it failed: the first try of this run."""
    failed = judged.failed
    if failed is None:
        return judged
    return judged._replace(
        failed=with_state(failed, first_reaction(failed, judged.intent.stage, stages), now)
    )


def first_reaction(failed: Failed, name: str, stages: Mapping[str, Stage]) -> Reaction:
    """The reaction to a failure of the first try at a work of the stage `name`."""
    rows = stages[name].policy if name in stages else {}
    return _reaction(rows, failed, 1, 0.0)


def _reaction(rows: policy.Policy, failed: Failed, tries: int, chance: float) -> Reaction:
    if failed.asks:
        return Reaction("fail")  # no policy says what has happened
    return policy.react(rows, failed.category, failed.kind, tries, failed.wait, chance)


def with_state(failed: Failed, reaction: Reaction, now: datetime) -> Failed:
    """A failure with what is made of it: the state of its work, and until when it rests."""
    until = None
    if reaction.do == "pause":
        until = stamp(failed.opens or now + timedelta(seconds=_REST))
    return failed._replace(state=reaction.state, until=until)
