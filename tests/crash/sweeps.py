"""The list of sweeps, and how one is run: its points spread over processes, its outcome in one line."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

from tests.crash import (
    acts,
    errors,
    fulldisk,
    images,
    kills,
    mutants,
    pinned,
    powercut,
    pushes,
    stage,
    strangers,
    supervise,
    together,
    worlds,
)
from tests.crash.pinned import Plant
from tests.crash.stage import Base, Outcome, Point


class Summary(NamedTuple):
    """How a sweep went."""

    name: str
    points: int  # that were reached
    violations: list[Outcome]
    seconds: float
    notes: dict[str, int]  # what was seen, how often
    skipped: str = ""  # why it did not run

    @property
    def red(self) -> bool:
        """Whether something is wrong: a sweep without points proves nothing."""
        return bool(self.violations) or not (self.points or self.skipped)


class Plan(NamedTuple):
    """A sweep: its points by template and seed, and what is done at one of them."""

    points: Callable[[Base, int], list[Point]]
    one: Callable[[Base, Point, Optional[Plant]], Outcome]
    every: int  # which part of the points CI runs: every n-th
    unavailable: Callable[[], str] = lambda: ""  # why it cannot run here
    prepare: Callable[..., Base] = stage.prepare  # makes the template that it needs


def _kill(mode: str, every: int, count: Optional[int] = None) -> Plan:
    return Plan(lambda base, seed: kills.points(base, mode, seed, count), kills.one, every)


def _error(kind: str, mode: str, every: int) -> Plan:
    return Plan(lambda base, seed: errors.points(base, kind, mode), errors.one, every)


_SHARED = functools.partial(stage.prepare, remote=True)
_ACTS = {name: functools.partial(acts.prepare, scenario=name) for name in acts.SCENARIOS}


def _push(mode: str) -> Plan:
    return Plan(lambda base, _: pushes.points(base, mode), pushes.one, 30, prepare=_SHARED)


def _acts(scenario: str, every: int) -> Plan:
    points = functools.partial(acts.points, scenario=scenario)
    return Plan(points, acts.one, every, prepare=_ACTS[scenario])


def _acts_after(scenario: str, every: int) -> Plan:
    return Plan(acts.points_after, acts.one, every, prepare=_ACTS[scenario])


PLANS: dict[str, Plan] = {
    "kill-tree": _kill("tree", 24),
    "kill-caller": _kill("caller", 40),
    "kill-parent": _kill("parent", 40),
    "kill-beside": _kill("beside", 50),
    "kill-double": _kill("double", 40, 600),
    "kill-wide": _kill("wide", 40),
    "kill-recovery": Plan(lambda base, seed: kills.recovery_points(base, seed), kills.one, 60),
    "error-enospc": _error("enospc", "one", 30),
    "error-eio": _error("eio", "one", 30),
    "error-erofs": _error("erofs", "one", 40),
    "error-emfile": _error("emfile", "one", 30),
    "error-eintr": _error("eintr", "one", 40),
    "error-full": _error("enospc", "full", 60),
    "error-dead": _error("eio", "dead", 60),
    "full-disk": Plan(fulldisk.points, fulldisk.one, 11, fulldisk.unavailable),
    "push-caller": _push("caller"),
    "push-parent": _push("parent"),
    "acts-evidence": _acts("evidence", 900),
    "acts-human": _acts("human", 900),
    "acts-keyed": _acts("keyed", 1000),
    "acts-asking": _acts_after("evidence", 400),
    "acts-resolve": _acts_after("human", 150),
    "bystander": Plan(strangers.bystander_points, strangers.bystander, 40),
    "together": Plan(together.points, together.one, 20),
    "torn": Plan(strangers.torn_points, strangers.torn, 4),
}


# Those whose points are disks, not calls: they record runs of their own.
DISKS: dict[str, Callable[[bool, int], powercut.Outcomes]] = {
    "power-cut": powercut.all_parts,
    "power-mutants": powercut.all_mutants,
    "images": images.all_systems,
}


def names() -> list[str]:
    """The names of all sweeps, in the order in which they run."""
    return [*PLANS, *DISKS, "mutants"]


def main(chosen: Iterable[str], quick: bool, seed: int, jobs: int, every: int = 1) -> int:
    """Run sweeps and print how they went; returns the exit code."""
    why = supervise.available()
    if why:
        print(f"SKIPPED: crash sweeps need Linux's seccomp; {why}.")
        return 0
    red = total = 0
    with Templates() as templates:
        calls = templates.of("kill-tree").calls
        print(f"{len(calls)} mutating calls in an undisturbed run; seed {seed}", flush=True)
        for name in chosen:
            if name == "mutants":
                summary = planted(templates, seed, jobs)
            elif name in DISKS:
                summary = Summary(name, *DISKS[name](quick, jobs))
            else:
                summary = sweep(templates, name, quick, seed, jobs, _say, every)
            red += summary.red
            total += summary.points
            _end(summary)
    print(f"{total} points, {red} sweeps red.")
    return 1 if red else 0


@contextlib.contextmanager
def template(
    plant: Optional[Plant] = None, prepare: Callable[..., Base] = stage.prepare, **more: Any
) -> Iterator[Base]:
    """A template to sweep over, gone afterwards. With a planted bug its ending is not to be relied on."""
    pinned.preload()
    with tempfile.TemporaryDirectory(prefix="gitstate-crash-", dir=worlds.scratch() or None) as folder:
        yield prepare(folder, plant=plant, **more)


class Templates:
    """Templates without a bug, each made when it is first needed; a context manager that removes them."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._made: dict[Callable[..., Base], Base] = {}

    def __enter__(self) -> Templates:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, sweep: str) -> Base:
        """The one that a sweep needs."""
        prepare = PLANS[sweep].prepare
        if prepare not in self._made:
            self._made[prepare] = self._stack.enter_context(template(prepare=prepare))
        return self._made[prepare]


def sweep(
    templates: Templates,
    name: str,
    quick: bool,
    seed: int,
    jobs: int = 0,
    say: Callable[[Outcome], None] = lambda _: None,
    every: int = 1,
) -> Summary:
    """Run one sweep over its template: all points, one in `every`, or CI's part of them (`quick`)."""
    plan = PLANS[name]
    if why := plan.unavailable():
        return Summary(name, 0, [], 0.0, {}, why)
    base = templates.of(name)
    points = _sample(plan.points(base, seed), plan.every if quick else every, seed)
    return run(name, functools.partial(_safely, plan.one, base), points, jobs, say)


def _sample(points: list[Point], every: int, seed: int) -> list[Point]:
    """One of each `every` in a row, so that the sample reaches into every part of a run."""
    rng = random.Random(seed)
    return [points[min(n + rng.randrange(every), len(points) - 1)] for n in range(0, len(points), every)]


def planted(templates: Templates, seed: int, jobs: int = 0, chosen: Iterable[str] = ()) -> Summary:
    """Plant each bug in turn; a violation is one that its sweep does not find."""
    bases = {
        number: templates.of(mutant.sweep)
        for number, (name, mutant) in enumerate(mutants.MUTANTS.items())
        if name in chosen or not chosen
    }
    points = [Point("mutant", (number, seed)) for number in bases]
    return run("mutants", functools.partial(_found, bases), points, jobs, say=_say)


def _found(bases: Mapping[int, Base], point: Point) -> Outcome:
    """Whether the sweep that must find a bug does; `bases` are the templates without it."""
    number, seed = point.at
    name, mutant = list(mutants.MUTANTS.items())[number]
    plan = PLANS[mutant.sweep]
    tried = 0
    with template(mutant.plant, plan.prepare) as mutated:
        near = {call.seq for call in mutated.calls if call.mutates and mutant.near(call)}
        points = [
            found for found in plan.points(mutated, seed) if found.at[0] in near and mutant.then in found.path
        ]
        random.Random(seed).shuffle(points)
        for where in points[:_ENOUGH]:
            outcome = plan.one(bases[number]._replace(calls=mutated.calls), where, mutant.plant)
            tried += outcome.reached
            if outcome.bad:
                print(
                    f"  {name}: {mutant.sweep} finds it at {outcome.where}: {outcome.bad[0][:150]}",
                    flush=True,
                )
                return Outcome(point, name, [], note=f"found by {mutant.sweep}")
    return Outcome(point, name, [f"{mutant.sweep} did not find {name} at {tried} points"])


_ENOUGH = 60  # points at which a planted bug may stay unseen


def run(
    name: str,
    one: Callable[[Point], Outcome],
    points: list[Point],
    jobs: int = 0,
    say: Callable[[Outcome], None] = lambda _: None,
) -> Summary:
    """Do what is to be done at each point, in forked processes, and count."""
    began = time.monotonic()
    reached, violations, notes = 0, [], dict[str, int]()
    sys.stdout.flush()
    with concurrent.futures.ProcessPoolExecutor(
        jobs or len(os.sched_getaffinity(0)), mp_context=multiprocessing.get_context("fork")
    ) as pool:
        for outcome in pool.map(one, points):
            reached += outcome.reached
            if outcome.note:
                notes[outcome.note] = notes.get(outcome.note, 0) + 1
            if outcome.bad:
                violations.append(outcome)
                say(outcome)
    return Summary(name, reached, violations, time.monotonic() - began, notes)


def _safely(one: Callable[[Base, Point, Optional[Plant]], Outcome], base: Base, point: Point) -> Outcome:
    """A point that the harness itself stumbles over is a violation, not an end."""
    try:
        return one(base, point, None)
    except Exception as error:
        import traceback

        return Outcome(point, "?", [f"{type(error).__name__}: {error} {traceback.format_exc(limit=-3)}"])


def _say(outcome: Outcome) -> None:
    print(f"  VIOLATION {outcome.point.mode} at {outcome.where or outcome.point.at}:")
    for line in outcome.bad[:4]:
        print(f"    {line}")
    sys.stdout.flush()


def _end(summary: Summary) -> None:
    if summary.skipped:
        print(f"SKIPPED {summary.name}: {summary.skipped}.", flush=True)
        return
    notes = "".join(f"; {count} {note}" for note, count in sorted(summary.notes.items()))
    print(
        f"{'RED' if summary.red else 'ok ':<4}{summary.name:<14} {summary.points:>5} points, "
        f"{len(summary.violations)} violations, {summary.seconds:.0f} s{notes}",
        flush=True,
    )
