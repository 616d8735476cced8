"""One cell of the failure matrix, tried: a world is made, its run sabotaged and resumed, and judged."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from gitstate.commands.clone import CONFIG
from gitstate.commands.lines import stamp
from gitstate.core import sabotage
from gitstate.core.drill import KILLS, Judged, OtherWay, Seen, judge, kind_of
from gitstate.core.plan import Stage
from gitstate.core.sabotage import Wrapping
from gitstate.edge import saboteur
from gitstate.edge.throwaway import Ended, Throwaway, World
from gitstate.errors import NeedsHuman

_HUMAN = NeedsHuman.exit_code
_LOOK = 0.01  # seconds between looks at a run that is to become slow
_WORDS = 200  # characters of a story that a table shows


class Chain(NamedTuple):
    """One item's way through all stages, and all that its cells need."""

    place: Throwaway
    name: str  # of its folders
    config: str  # the configuration's path
    data: Mapping[str, Any]  # what it says
    plan: object  # where the one item comes from
    slug: str
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]  # paths, of all stages
    material: Mapping[str, list[str]]  # stage -> files with what its stand-in answers
    real: bool
    seconds: Mapping[str, float] = {}  # what the stages' commands took undisturbed


def undisturbed(chain: Chain) -> Chain:
    """Let everything go well once. Returns the chain with the times; raises NeedsHuman where it did not."""
    world = _world(chain, f"{chain.name}-undisturbed", {})
    ended = _gitstate(chain, world, "A", "run")
    if ended.code or _undone(_plan(chain, world)):
        raise NeedsHuman(
            f"Undisturbed, {chain.slug} does not go through (exit {ended.code}): {_last(ended)}",
            "Let it go through first: the drill needs a workflow that works. (--keep leaves its clone.)",
        )
    asked: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for line in world.ledger():
        if line["event"] == "asked":
            asked[line["stage"]] = line["time"]
        elif line["event"] == "answered":
            seconds[line["stage"]] = line["time"] - asked[line["stage"]]
    return chain._replace(seconds=seconds)


def try_cell(chain: Chain, stage: Stage, cell: str) -> Judged:
    """Try one cell, and judge it."""
    timeouts = {stage.name: sabotage.timeout_of(chain.seconds[stage.name])} if cell == "timeout" else {}
    world = _world(chain, f"{chain.name}-{stage.name}-{cell}", timeouts)
    world.write("order.json", {"slug": chain.slug, "stage": stage.name, "do": cell})
    seen = _Trial(chain, stage, cell, world).go()
    return judge(chain.slug, stage.name, kind_of(stage), cell, seen, stamp())


def _world(chain: Chain, name: str, timeouts: Mapping[str, float]) -> World:
    data = sabotage.rewritten(chain.data, wrapping(chain.real), chain.plan, timeouts, name)
    stages = {
        stage.name: {
            "effect": stage.effect is not None,
            "idempotent": kind_of(stage) == "idempotent",
            "material": chain.material[stage.name],
        }
        for stage in chain.stages
    }
    return chain.place.world(
        name, f"{chain.name}.git", {chain.config: sabotage.encoded(data)}, {"stages": stages}
    )


def wrapping(real: bool) -> Wrapping:
    """How commands are wrapped here."""
    command = (sys.executable, "-I", "-S", "-B", os.path.abspath(saboteur.__file__))
    return Wrapping(command, saboteur.REPLY, real)


class _Trial:
    """One cell on its way."""

    def __init__(self, chain: Chain, stage: Stage, cell: str, world: World) -> None:
        self.chain, self.stage, self.cell, self.world = chain, stage, cell, world
        self.place = chain.place
        self.codes: list[int] = []

    def go(self) -> Seen:
        """Sabotage, mend, resume; and ask a human's answer where one is wanted."""
        second: Optional[Ended] = None
        running = self.place.start(self.world, "A", *_words(self.chain, "run"))
        if self.cell == "taken-over":
            while not running.ended() and not os.path.exists(self.world.of("waiting")):
                time.sleep(_LOOK)
            if not running.ended():
                second = self._run(self.world, "B")
            self.world.write("go.json", {})
        first = running.wait()
        self.codes.append(first.code)
        standing = self._standing()
        self.place.mend(self.world, "A")
        last, other_way = self._run(self.world), None
        if last.code == _HUMAN and (truth := self._is_open()) is not None:
            if not self.chain.real:
                other_way = self._answer_falsely(truth)
            self._resolve(self.world, truth)
            last = self._run(self.world)
        return self._seen(first, second, last, standing, other_way)

    def _run(self, world: World, clone: str = "A") -> Ended:
        ended = _gitstate(self.chain, world, clone, "run")
        if world is self.world:
            self.codes.append(ended.code)
        return ended

    # --- a human's answer -----------------------------------------------------------------------------------------

    def _is_open(self) -> Optional[bool]:
        """Whether the act has truly happened, where the stage waits for somebody to say so; None where it does not."""
        if kind_of(self.stage) != "asks":
            return None
        return self._count(self.world, "acted") > 0

    def _resolve(self, world: World, happened: bool) -> None:
        answer = ("--happened", "seen by the drill") if happened else ("--did-not-happen",)
        words = ("resolve", self.chain.slug, "--stage", self.stage.name, *answer)
        _gitstate(self.chain, world, "A", *words)

    def _answer_falsely(self, truth: bool) -> OtherWay:
        """What the other answer comes to, in a copy of the world."""
        world = self.place.copy(self.world, f"{os.path.basename(self.world.folder)}-other")
        before = self._count(world, "acted")
        self._resolve(world, not truth)
        self._run(world)
        return OtherWay(not truth, before, self._count(world, "acted"), _undone(_plan(self.chain, world)))

    # --- what came of it ------------------------------------------------------------------------------------------

    def _seen(
        self,
        first: Ended,
        second: Optional[Ended],
        last: Ended,
        standing: Mapping[str, bytes],
        other_way: Optional[OtherWay],
    ) -> Seen:
        world = self.world
        struck = [line["do"] for line in world.ledger() if line["event"] == "struck"]
        verified = _gitstate(self.chain, world, "A", "verify")
        _gitstate(self.chain, world, "B", "sync")
        plan = _plan(self.chain, world)
        now = self._standing()
        acts = self._count(world, "acted")
        undone = _undone(plan)
        return Seen(
            struck=struck[0] if struck else "",
            first=first.code,
            last=last.code,
            calls=self._count(world, "asked"),
            acts=acts,
            others={
                stage.name: self._count(world, "acted", stage.name)
                for stage in self.chain.stages
                if stage.effect is not None and stage.name != self.stage.name
            },
            second=None if second is None else second.code,
            asked=_HUMAN in self.codes,
            undone=undone,
            torn=tuple(path for path, was in standing.items() if self.cell in KILLS and now.get(path) != was),
            left=self._left(),
            verified=verified.code,
            agrees=_plan(self.chain, world, "B").out == plan.out,
            other_way=other_way,
            had_before=self.chain.real and kind_of(self.stage) == "evidence" and not acts and not undone,
            words=_last(last if last.code else first),
        )

    def _count(self, world: World, event: str, stage: str = "") -> int:
        wanted = (event, stage or self.stage.name)
        return sum((line["event"], line["stage"]) == wanted for line in world.ledger())

    def _standing(self) -> dict[str, bytes]:
        """What stands at the outputs' paths in A."""
        found = {}
        for path in self.chain.outputs:
            with contextlib.suppress(OSError), open(self.world.of("A", path), "rb") as file:
                found[path] = file.read()
        return found

    def _left(self) -> tuple[str, ...]:
        """What lies about in A that no finished run leaves."""
        attempts = os.path.join(self.world.state("A"), "attempts")
        names = sorted(os.listdir(attempts)) if os.path.isdir(attempts) else []
        dirty = self.place.git(self.world, "A", "status", "--porcelain").splitlines()
        return (*(line[3:] for line in dirty), *(f"attempts/{name}" for name in names))


def _gitstate(chain: Chain, world: World, clone: str, *words: str) -> Ended:
    return chain.place.run(world, clone, *_words(chain, *words))


def _words(chain: Chain, *words: str) -> tuple[str, ...]:
    """A command line; in its plain form, which starts faster, where the configuration is where it is expected."""
    return words if chain.config == CONFIG else (*words, "--config", chain.config)


def _plan(chain: Chain, world: World, clone: str = "A") -> Ended:
    return _gitstate(chain, world, clone, "plan", "--json")


def _undone(plan: Ended) -> tuple[str, ...]:
    """The works that a plan does not call done, with their states."""
    if plan.code:
        return (f"plan ended in {plan.code}",)
    work = json.loads(plan.out)["work"]
    return tuple(
        " ".join(filter(None, (each["stage"], each["state"], each["reason"], each["category"])))
        for each in work
        if each["state"] != "done"
    )


def _last(ended: Ended) -> str:
    """The last thing that a gitstate complained of, else said, for a table."""
    lines = [line.strip() for line in ended.err.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("gitstate: ", "✗ "))]
    return (said or lines or [""])[-1][:_WORDS]
