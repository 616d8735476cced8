"""Kill sweeps: gitstate dies at each mutating call of its process tree, and is run again.

What dies: everything ("tree", as when the machine stops), the calling process ("caller", often a git child or a
paid command), or gitstate itself while its children go on ("parent"; "beside": and is run again while the child
that made the call still lives). "double" kills the recovery too. "wide" is "tree" with works side by side.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Optional

from tests.crash import invariants, supervise
from tests.crash.invariants import Crashed
from tests.crash.pinned import Plant
from tests.crash.stage import Base, Outcome, Point, Stage

SERIAL, WIDE = ("run", "--offline"), ("run", "--offline", "-j", "3")


def points(base: Base, mode: str, seed: int, count: Optional[int] = None) -> list[Point]:
    """Every call for the plain modes; `count` seeded pairs and triples for "double"."""
    numbers = [call.seq for call in base.calls if call.mutates]
    if mode == "double":
        rng = random.Random(seed)
        # (a recovery makes fewer calls than a run, and most of them early)
        return [
            Point(
                mode,
                (
                    rng.choice(numbers),
                    *(int(rng.paretovariate(0.6)) + 8 for _ in range(rng.choice((1, 1, 2)))),
                ),
            )
            for _ in range(count or 60)
        ]
    return [Point(mode, (number,)) for number in numbers]


def recovery_points(base: Base, seed: int) -> list[Point]:
    """For each of some crashes, every call of the run that recovers from it, to where it begins something new."""
    found = []
    for number in _tellings(base, random.Random(seed)):
        with Stage(base) as stage:
            stage.supervised(SERIAL, _at(number, "kill-tree"))
            # Until the first new attempt begins, it is recovery.
            for call in stage.supervised(SERIAL, lambda call: None, start=1).calls:
                if call.path.endswith(".intent.tmp"):
                    break
                if call.mutates:
                    found.append(Point("double", (number, call.seq)))
    return found


def _tellings(base: Base, rng: random.Random) -> list[int]:
    """Crashes that leave the most to recover: one of each step of the last work, which has two outputs."""
    last = [call for call in base.calls if call.mutates][-160:]
    steps = (
        "scratch/",
        ".spooled",
        ".written",
        "content/",
        ".git/objects",
        "index",
        ".git/refs",
        ".git/logs",
    )
    return sorted({rng.choice([call.seq for call in last if step in call.path]) for step in steps})


def one(base: Base, point: Point, plant: Optional[Plant] = None) -> Outcome:
    """One crash, and what came of it."""
    verdict: supervise.Verdict = "kill-tree"
    if point.mode in ("caller", "parent"):
        verdict = "kill-caller" if point.mode == "caller" else "kill-parent"
    if point.mode == "beside":
        verdict = "kill-parent"
    arguments, serial = (WIDE, False) if point.mode == "wide" else (SERIAL, True)
    bad: list[str] = []
    crashes: list[Crashed] = []
    where = []
    with Stage(base, plant) as stage:

        def held(call: supervise.Call) -> None:
            crashes.append(
                invariants.look(stage.world)
            )  # the run beside it finds it so, and may have finished it by the end
            bad.extend(_beside(stage, call))

        for start, number in enumerate(point.at):
            result = stage.supervised(
                arguments,
                _at(number, verdict),
                start=start,
                serial=serial,
                while_held=held if point.mode == "beside" else None,
            )
            if result.hit is None:
                break
            where.append(stage.words(result.hit))
            try:
                crashes.append(invariants.look(stage.world))
            except RuntimeError as error:  # what git itself cannot read is found, whatever comes after it
                return Outcome(point, " then ".join(where), [*bad, f"right after it: {error}"], True)
            bad += [f"right after it: {line}" for line in invariants.after_crash(stage.world)]
            if result.code == 1:
                # The paid command was what died: its work failed, and is to be done again because somebody says so.
                arguments = (*arguments, "--retry-failed")
                crashes[-1] = crashes[-1]._replace(asked=set(stage.world.works()))
        if crashes:
            bad += stage.finish(arguments if point.mode == "caller" else SERIAL, crashes, start=8)
        return Outcome(point, " then ".join(where), bad, bool(crashes))


def _beside(stage: Stage, call: supervise.Call) -> list[str]:
    """gitstate is dead, the process that made `call` lives and stands still: run again now.

    A git child has the run lock, so nothing may happen. A paid command has not: the work is done anew.
    """
    before = stage.world.paid()
    code = stage.plain(SERIAL, start=5)
    words = supervise.command_of(call.pid)
    if words[:1] == ["git"] and (code != 75 or stage.world.paid() != before):
        return [f"a run beside a living orphan ({' '.join(words[:6])}) exits {code}"]
    if words[:1] != ["git"] and code not in (0, 75):
        return [f"a run beside an orphaned command ({' '.join(words[:6])}) exits {code}"]
    return []


def _at(number: int, verdict: supervise.Verdict) -> Callable[[supervise.Call], supervise.Verdict]:
    return lambda call: verdict if call.seq == number else None
