"""Playing worlds: what happens next is drawn from a seed, first with everything that can go wrong, then in peace."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.sim.world import Machine, Violation, World

_CHAOS = (200, 1200)  # steps
_PEACE = 20_000  # steps in which whoever lives must be done


class Played(NamedTuple):
    """How much was played, and what happened in it."""

    steps: int
    worlds: int
    paid: int
    works: int
    events: dict[str, int]


class Found(Violation):
    """A violation, and the seed of the world in which it happened."""

    def __init__(self, seed: str, step: int, what: object) -> None:
        super().__init__(f"{what} (world {seed}, step {step})")
        self.step = step


def play(steps: int, seed: int, kind: type[Machine] = Machine) -> Played:
    """Play worlds one after another until at least `steps` steps are made. Raises Found."""
    done = worlds = paid = works = 0
    events: dict[str, int] = {}
    while done < steps:
        one = Game(f"{seed}:{worlds}", kind)
        try:
            one.run()
        except Violation as error:
            raise Found(one.seed, done + one.steps, error) from error
        worlds, done, paid, works = (
            worlds + 1,
            done + one.steps,
            paid + len(one.world.paid),
            works + len(one.world.works),
        )
        for name, number in one.events.items():
            events[name] = events.get(name, 0) + number
    return Played(done, worlds, paid, works, events)


class Game:
    """One world from its beginning to its end."""

    def __init__(self, seed: str, kind: type[Machine]) -> None:
        self.seed, self.chance = seed, random.Random(seed)
        self.world = World(self.chance, self.chance.randint(2, 5), kind)
        self.wild = self.chance.choice((0.0, 0.02, 0.1, 0.3))  # how often the line does wrong
        self.deadly = self.chance.choice((0.0, 0.002, 0.02))
        self.world.quiet = not self.wild and not self.deadly
        self.steps = 0
        self.events: dict[str, int] = {}

    def run(self) -> None:
        """Play. Raises Violation."""
        for _ in range(self.chance.randint(*_CHAOS)):
            self.steps += 1
            if not self.mischief():
                self.go_on(self.wild)
        self.survivors()
        for _ in range(_PEACE):
            if self.world.finished:
                return
            self.steps += 1
            self.go_on(0.0)
        raise Violation("those that live do not come to an end")

    def mischief(self) -> bool:
        """Perhaps a machine dies, stops, or goes on."""
        if self.chance.random() >= self.deadly:
            return False
        machine = self.chance.choice(self.world.machines)
        if machine.stopped:
            machine.stopped = False
            self.count("goes on")
        elif self.chance.random() < 0.5:
            self.world.crash(machine)
            self.count("crash")
        else:
            machine.stopped = True
            self.count("stop")
        return True

    def go_on(self, wild: float) -> None:
        """The next thing that happens."""
        world, chance = self.world, self.chance
        runnable = world.runnable()
        choices = len(runnable) + len(world.line)
        if not choices:
            world.doze()
        elif chance.random() < 0.1:
            world.advance(chance.expovariate(1 / 5))
        else:
            place = chance.randrange(choices)
            if place < len(runnable):
                world.step(runnable[place])
            else:
                self.transport(world.line[place - len(runnable)], wild)

    def transport(self, message: object, wild: float) -> None:
        """A message arrives, in one of the ways in which messages do."""
        world, line = self.world, self.world.line
        one = line[next(place for place, other in enumerate(line) if other is message)]
        if self.chance.random() >= wild:
            world.deliver(one)
            return
        how = self.chance.choice(("lost", "answer lost", "twice", "late"))
        self.count(how)
        if how == "lost":
            world.drop(one)
        elif how == "answer lost":
            world.deliver(one, answered=False)
        elif how == "twice":
            world.deliver(one, twice=True)
        else:
            world.delay(one)

    def survivors(self) -> None:
        """Peace: some machines live on, the others do nothing ever again."""
        self.world.quiet = False
        for machine in self.world.machines:
            machine.stopped = True
        for machine in self.chance.sample(
            self.world.machines, self.chance.randint(1, len(self.world.machines))
        ):
            machine.stopped = False

    def count(self, event: str) -> None:
        """Note that something happened."""
        self.events[event] = self.events.get(event, 0) + 1
