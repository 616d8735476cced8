"""One world on the stage: copied from the template, run, crashed, looked at, thrown away."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

from tests.crash import invariants, pinned, supervise, worlds
from tests.crash.invariants import Crashed, Ending
from tests.crash.pinned import Plant
from tests.crash.worlds import World


class Point(NamedTuple):
    """Where something happens: at which call of the run, and of the runs after it."""

    mode: str
    at: tuple[int, ...]
    errno: int = 0
    path: str = ""  # that of the last call, where that is known beforehand


class Outcome(NamedTuple):
    """What came of one point."""

    point: Point
    where: str
    bad: list[str]
    reached: bool = True  # else the call was never made, and the point does not count
    note: str = ""


class Base(NamedTuple):
    """The template, the calls of an undisturbed run in it, and what that run ended in."""

    world: World
    calls: list[supervise.Call]
    ending: Ending
    plant: Optional[Plant] = None  # the bug that this run had


def prepare(
    folder: str,
    items: tuple[str, ...] = ("one", "deep/two"),
    *,
    remote: bool = False,
    config: str = worlds.CONFIG,
    plant: Optional[Plant] = None,
) -> Base:
    """Make a template and run it once undisturbed, watched. Raises AssertionError if that run is not clean, unless
    it was given a bug to have."""
    template = os.path.join(folder, "template")
    os.makedirs(template)
    world = worlds.make(template, items, remote=remote, config=config)
    with Stage(Base(world, [], Ending({}, invariants.Counter())), plant) as stage:
        result = stage.supervised(SHARED if remote else RUN, lambda call: None)
        assert result.code == 0 or plant, stage.world.said()
        found = Base(world, [stage.relative(call) for call in result.calls], invariants.ending(stage.world))
        if plant is not None:
            return found
        bad = invariants.after_rerun(stage.world, found.ending, [], result.code) + stage.verified()
        assert not bad, bad
        assert found.ending.tree.keys() >= world.managed().keys()
    return found


RUN, SHARED = ("run", "--offline"), ("run", "--push", "end")


class Stage:
    """A copy of the template; a context manager that removes it."""

    def __init__(self, base: Base, plant: Optional[Plant] = None) -> None:
        self.base, self.plant = base, plant
        self._folder = ""

    def __enter__(self) -> Stage:
        self._folder = tempfile.mkdtemp(prefix="p", dir=os.path.dirname(self.base.world.folder))
        self.world = self.base.world.copy(self._folder)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def supervised(
        self,
        arguments: Sequence[str],
        decide: Callable[[supervise.Call], supervise.Verdict],
        *,
        start: int = 0,
        serial: bool = True,
        while_held: Optional[Callable[[supervise.Call], None]] = None,
    ) -> supervise.Result:
        """gitstate with these arguments, each mutating call below the repository asked about."""
        world = self.world
        return supervise.run(
            pinned.gitstate(*arguments, start=start, serial=serial, plant=self.plant),
            (world.repo, world.remote),
            decide,
            env=world.environment,
            cwd=world.repo,
            output=world.output,
            while_held=while_held,
        )

    def plain(self, arguments: Sequence[str], *, start: int = 0, plant: Optional[Plant] = None) -> int:
        """gitstate, not looked at; its exit code."""
        world = self.world
        program = pinned.gitstate(*arguments, start=start, plant=plant or self.plant)
        return supervise.plain(program, env=world.environment, cwd=world.repo, output=world.output)

    def finish(self, arguments: Sequence[str], crashes: list[Crashed], start: int) -> list[str]:
        """Run again to the end, and check everything."""
        code = self.plain(arguments, start=start)
        bad = invariants.after_rerun(self.world, self.base.ending, crashes, code)
        return bad or self.verified()

    def verified(self) -> list[str]:
        """`verify` finds nothing."""
        return invariants.verified(lambda *arguments: self.plain(arguments, start=9), self.world)

    def words(self, call: supervise.Call) -> str:
        """A call in a few words."""
        return f"{call.seq} {call.name} {self.relative(call).path}"

    def relative(self, call: supervise.Call) -> supervise.Call:
        """The call with paths from the repository's root on."""
        return call._replace(paths=tuple(os.path.relpath(path, self.world.repo) for path in call.paths))
