"""The same worlds, with what happens next chosen by hypothesis, which then makes a failing story short."""

from __future__ import annotations

import random

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.sim.bugs import ForceAll
from tests.sim.world import Machine, Message, Violation, World

_some = st.integers(0, 9)
_PEACE = 20_000


class Story(RuleBasedStateMachine):
    """A world whose every event is a rule. The remote checks them all (`Violation`)."""

    kind: type[Machine] = Machine
    world: World

    @initialize(seed=st.integers(0, 2**32), machines=st.integers(2, 4))
    def begin(self, seed: int, machines: int) -> None:
        self.world = World(random.Random(seed), machines, self.kind)

    def machine(self, number: int) -> Machine:
        return self.world.machines[number % len(self.world.machines)]

    def message(self, number: int) -> Message:
        return self.world.line[number % len(self.world.line)]

    @precondition(lambda self: self.world.runnable())
    @rule(number=_some)
    def go_on(self, number: int) -> None:
        runnable = self.world.runnable()
        self.world.step(runnable[number % len(runnable)])

    @precondition(lambda self: self.world.line)
    @rule(number=_some)
    def arrives(self, number: int) -> None:
        self.world.deliver(self.message(number))

    @precondition(lambda self: self.world.line)
    @rule(number=_some)
    def arrives_and_its_answer_does_not(self, number: int) -> None:
        self.world.deliver(self.message(number), answered=False)

    @precondition(lambda self: self.world.line)
    @rule(number=_some)
    def arrives_twice(self, number: int) -> None:
        self.world.deliver(self.message(number), twice=True)

    @precondition(lambda self: self.world.line)
    @rule(number=_some)
    def is_given_up(self, number: int) -> None:
        self.world.delay(self.message(number))

    @precondition(lambda self: self.world.line)
    @rule(number=_some)
    def is_lost(self, number: int) -> None:
        self.world.drop(self.message(number))

    @rule(number=_some)
    def crashes(self, number: int) -> None:
        self.world.crash(self.machine(number))

    @rule(number=_some)
    def stops_or_goes_on(self, number: int) -> None:
        machine = self.machine(number)
        machine.stopped = not machine.stopped

    @rule(seconds=st.sampled_from([1.0, 60.0, 250.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(steps=st.integers(1, 60))
    def some_time_in_peace(self, steps: int) -> None:
        self.peace(steps)

    def peace(self, steps: int) -> bool:
        world = self.world
        for step in range(steps):
            if world.finished:
                return True
            runnable = world.runnable()
            if world.line:
                world.deliver(world.line[0])
            elif runnable:
                world.step(runnable[step % len(runnable)])
            else:
                world.doze()
        return world.finished

    def teardown(self) -> None:
        if hasattr(self, "world"):
            for machine in self.world.machines[1:]:
                machine.stopped = True
            self.world.machines[0].stopped = False
            if not self.peace(_PEACE):
                raise Violation("the one that lives does not come to an end")


class Mistaken(Story):
    kind = ForceAll


_SETTINGS = settings(max_examples=200, stateful_step_count=60)


def test_p10_no_story_makes_a_stale_worker_publish() -> None:
    run_state_machine_as_test(Story, settings=_SETTINGS)  # type: ignore[no-untyped-call]


def test_a_story_is_found_in_which_a_worker_takes_a_bucket_by_force() -> None:
    quick = settings(_SETTINGS, max_examples=500, phases=[Phase.generate])
    with pytest.raises(Violation):
        run_state_machine_as_test(Mistaken, settings=quick)  # type: ignore[no-untyped-call]
