"""The rows of the table: each measures gitstate and, in the same run, the floor that it is held against."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import NamedTuple, Optional

import others
from measure import Do, cost, environment, from_small_process, in_memory, medians, output_of, several
from pooled import SECONDS, THREADS, WORKERS, pooled
from repos import GITSTATE, Shelf, copy, forget, git, item, output, slugs
from together import CLONES, together

_GROUP = 50  # works that are recorded at once
_SIGNALS = 20_000  # to be judged in a second


class Outcome(NamedTuple):
    """One line of the table. `met` is None where nothing could be measured; `note` then says why."""

    what: str
    against: str
    ours: str = ""
    floor: str = ""
    figure: str = ""
    goal: str = ""
    met: Optional[bool] = None
    note: str = ""


class Bench(NamedTuple):
    """What rows work with."""

    shelf: Shelf
    repeat: int
    small: int  # sizes; --quick divides them by ten
    middle: int
    large: int
    works: int  # of one `run`


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds >= 0.001 else f"{seconds * 1000:,.3f} ms"


def _ratio(what: str, against: str, ours: float, floor: float, goal: float) -> Outcome:
    ratio = ours / floor
    return Outcome(what, against, _ms(ours), _ms(floor), f"{ratio:.2f} x", f"<= {goal:g} x", ratio <= goal)


def version(bench: Bench) -> Iterator[Outcome]:
    """Start-up alone."""
    found = medians(
        bench.repeat * 3,
        {
            "floor": lambda: cost((sys.executable, "-c", "pass")),
            "ours": lambda: cost((*GITSTATE, "--version")),
        },
    )
    yield _ratio("gitstate --version", "python -c pass", found["ours"], found["floor"], 3)


def hook(bench: Bench) -> Iterator[Outcome]:
    """The pre-commit hook with one output staged."""
    what, against = (
        f"pre-commit hook, 1 staged of {bench.middle:,}",
        "import yaml, blake3 + git diff --cached",
    )
    if find_spec("gitstate.commands.hook") is None:
        yield Outcome(what, against, note="skipped: this checkout has no hook yet")
        return
    repository = bench.shelf(bench.middle)
    slug = slugs(0, 1)[0]
    path = os.path.join(repository, "out", item(slug)["shard"], f"{slug}.md")
    with open(path, "ab") as file:
        file.write(b"A human's last word.\n")
    git(repository, "add", path)
    try:
        found = medians(
            bench.repeat,
            {
                "imports": lambda: cost((sys.executable, "-c", "import yaml, blake3")),
                "git": lambda: cost(("git", "diff", "--cached", "--quiet"), repository, codes=(0, 1)),
                "ours": lambda: cost((*GITSTATE, "hooks", "run", "pre-commit"), repository),
            },
        )
    finally:
        git(repository, "reset", "-q", "--hard")
    yield _ratio(what, against, found["ours"], found["imports"] + found["git"], 2)


def warm(bench: Bench) -> Iterator[Outcome]:
    """`plan` where nothing changed since the last one."""
    sizes = [bench.small // 10, bench.middle, bench.large]
    repositories = {str(size): bench.shelf(size) for size in sizes}
    for repository in repositories.values():
        cost((*GITSTATE, "plan"), repository)
    parts = {size: _plan(repository) for size, repository in repositories.items()}
    found = medians(bench.repeat * 3, parts)
    floor = found[str(sizes[0])]
    for size in sizes:
        what = f"plan, nothing changed, {size:,} done"
        yield _ratio(what, f"itself at {sizes[0]:,}", found[str(size)], floor, 1.5)


def cold(bench: Bench) -> Iterator[Outcome]:
    """`plan` without any cache."""
    each = []
    for size in (bench.middle, bench.large):
        repository = bench.shelf(size)
        notes = os.path.join(bench.shelf.folder, "notes.txt")
        with open(notes, "w", encoding="ascii") as file:
            file.write(git(repository, "ls-tree", "-r", "--object-only", "refs/notes/gitstate") + "\n")
        read = ("sh", "-c", f"exec git cat-file --batch < '{notes}'")
        lists = [("git", "ls-tree", "-r", "HEAD"), ("git", "ls-tree", "-r", "refs/notes/gitstate"), read]
        found = medians(
            bench.repeat,
            {"floor": lambda: several(lists, repository), "ours": _plan(repository)},  # noqa: B023
            before=lambda name: forget(repository) if name == "ours" else None,  # noqa: B023
        )
        each.append(found["ours"] / size)
        what = f"plan without any cache, {size:,} done"
        yield _ratio(what, "ls-tree HEAD and notes, cat-file notes", found["ours"], found["floor"], 5)
    growth = each[1] / each[0]
    ours, floor = _ms(each[1]), _ms(each[0])
    against = f"itself at {bench.middle:,}"
    yield Outcome("the same, a work", against, ours, floor, f"{growth:.2f} x", "<= 1.25 x", growth <= 1.25)


def edited(bench: Bench) -> Iterator[Outcome]:
    """`plan` after the template that all works share was edited."""
    what, against = f"plan after editing the template, {bench.middle:,}", "ninja -n after the same edit"
    if not others.is_there("ninja"):
        yield Outcome(what, against, note="skipped: ninja is not installed")
        return
    repository = bench.shelf(bench.middle)
    folder = bench.shelf.scratch("ninja")
    others.ninja(folder, bench.middle)
    cost((*GITSTATE, "plan"), repository)
    count = itertools.count()

    def edit(name: str) -> None:
        place = repository if name == "ours" else folder
        with open(os.path.join(place, "templates", "article.md"), "a", encoding="utf-8") as file:
            file.write(f"Edit {next(count)}\n")

    try:
        found = medians(
            bench.repeat,
            {"floor": lambda: cost(("ninja", "-n"), folder), "ours": _plan(repository)},
            before=edit,
        )
    finally:
        git(repository, "reset", "-q", "--hard")
    yield _ratio(what, against, found["ours"], found["floor"], 4)


def dvc(bench: Bench) -> Iterator[Outcome]:
    """`plan` where all is done, against DVC's status of the same."""
    what, against = f"plan, all done, {bench.small:,}", "dvc status"
    if not others.is_there("dvc"):
        yield Outcome(what, against, note="skipped: DVC is not installed")
        return
    repository, folder = bench.shelf(bench.small), bench.shelf.scratch("dvc")
    others.dvc(folder, bench.small)
    cost((*GITSTATE, "plan"), repository)
    found = medians(
        bench.repeat, {"floor": lambda: cost(("dvc", "status"), folder), "ours": _plan(repository)}
    )
    yield _ratio(what, against, found["ours"], found["floor"], 1 / 25)


def run(bench: Bench) -> Iterator[Outcome]:
    """`run` of trivial works, one at a time and eight, into repositories that hold many outputs."""
    for size, jobs, goal in (
        (bench.small, 1, 15),
        (bench.middle, 1, 25),
        (bench.small, 8, 6),
        (bench.middle, 8, 6),
    ):
        origin = bench.shelf(size, size + bench.works)
        place = os.path.join(bench.shelf.folder, "run")
        loop = os.path.join(bench.shelf.folder, "loop")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loop.py")

        def before(name: str) -> None:
            shutil.rmtree(loop, ignore_errors=True)  # noqa: B023
            os.makedirs(loop)  # noqa: B023
            if name == "ours":
                copy(origin, place)  # noqa: B023
                cost((*GITSTATE, "plan"), place)  # noqa: B023 (a clone in use; without caches is a row of its own)

        found = medians(
            bench.repeat,
            {
                "floor": lambda: cost((sys.executable, script, loop, str(size), str(size + bench.works))),  # noqa: B023
                "ours": lambda: cost((*GITSTATE, "run", "-j", str(jobs)), place),  # noqa: B023
            },
            before=before,
        )
        _all_done(place, size + bench.works)
        each = {name: seconds / bench.works for name, seconds in found.items()}
        more = (each["ours"] - each["floor"]) * 1000
        what = f"run -j {jobs}, {bench.works:,} works into {size:,}, a work"
        yield Outcome(
            what,
            "plain loop",
            _ms(each["ours"]),
            _ms(each["floor"]),
            f"+ {more:.1f} ms",
            f"<= {goal} ms",
            more <= goal,
        )


def guard(bench: Bench) -> Iterator[Outcome]:
    """`run` with the guard that looks for files beside the outputs, and without."""
    origin = bench.shelf(bench.middle, bench.middle + bench.works)
    place = os.path.join(bench.shelf.folder, "guarded")

    def before(name: str) -> None:
        copy(origin, place)
        with open(os.path.join(place, "gitstate.yaml"), "a", encoding="utf-8") as file:
            file.write(f"guard: {name}\n")
        git(place, "commit", "-q", "-m", "Guard", "gitstate.yaml")
        cost((*GITSTATE, "plan"), place)

    do = lambda: cost((*GITSTATE, "run"), place)  # noqa: E731
    found = medians(bench.repeat, {"off": do, "warn": do}, before=before)
    what = f"run with guard: warn, {bench.works:,} works into {bench.middle:,}"
    yield _ratio(what, "the same with guard: off", found["warn"], found["off"], 1.05)


def record(bench: Bench) -> Iterator[Outcome]:
    """Wall time of recording one work and a group, each round beside a bare script that writes the same bytes."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recording.py")
    for size, rounds in ((1, bench.repeat * 8), (_GROUP, bench.repeat)):
        what = f"recording {size} work{'s' * (size > 1)} into {bench.small:,}, wall"
        against = "bare script: same bytes, same barriers"
        if in_memory(bench.shelf.folder):
            yield Outcome(what, against, note="skipped: no disk there; point TMPDIR at one")
            continue
        origin = bench.shelf(bench.small, bench.small + max(bench.works, _GROUP * bench.repeat))
        places = [copy(origin, os.path.join(bench.shelf.folder, name)) for name in ("recorded", "bare")]
        found = json.loads(output_of((sys.executable, script, *places, str(size), str(rounds))))
        outcome = _ratio(what, against, *(statistics.median(found[name]) for name in ("ours", "floor")), 1.5)
        spread = " against ".join(_spread(found[name]) for name in ("ours", "floor"))
        yield outcome._replace(note=f"{'ok' if outcome.met else 'MISSED'}; middle half: {spread}")


def _spread(seconds: Sequence[float]) -> str:
    low, _, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [seconds[0]] * 3
    return f"{low * 1000:,.0f}-{high * 1000:,.0f} ms"


def classify(bench: Bench) -> Iterator[Outcome]:
    """Captured signals that one core judges in a second, beside reading the lines that they stand in."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "classifying.py")
    found = json.loads(output_of((sys.executable, script, str(bench.repeat * 2))))
    ours, floor = (1 / statistics.median(found[name]) for name in ("ours", "floor"))
    yield Outcome(
        "classify: signals a second",
        "json.loads of the same lines",
        f"{ours:,.0f}",
        f"{floor:,.0f}",
        f"{ours:,.0f}",
        f">= {_SIGNALS:,}",
        ours >= _SIGNALS,
    )


def fetch(bench: Bench) -> Iterator[Outcome]:
    """`run` on a fresh clone where everything is done: what it takes beside fetching and looking."""
    origin = bench.shelf.scratch("origin.git")
    subprocess.run(
        ("git", "clone", "-q", "--mirror", bench.shelf(bench.middle), origin), env=environment(), check=True
    )
    place = os.path.join(bench.shelf.folder, "clone")

    def before(name: str) -> None:
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run(("git", "clone", "-q", f"file://{origin}", place), env=environment(), check=True)
        if name == "plan":
            git(place, "fetch", "-q", "origin", "+refs/notes/*:refs/notes/*")

    refs = ("refs/heads/main:refs/remotes/origin/main", "refs/notes/gitstate:refs/notes/gitstate")
    found = medians(
        bench.repeat,
        {
            "fetch": lambda: cost(("git", "fetch", "-q", "--no-tags", "origin", *refs), place),
            "plan": _plan(place),
            "ours": lambda: cost((*GITSTATE, "run"), place),
        },
        before=before,
    )
    what = f"run, nothing to do, fresh clone, {bench.middle:,} done"
    yield _ratio(what, "git fetch + plan without cache", found["ours"], found["fetch"] + found["plan"], 1.3)


def claim(bench: Bench) -> Iterator[Outcome]:
    """Clones that run at once and claim, against parts that were given out before, and against one clone alone whose
    time is divided by the workers that the cores allow."""
    works = bench.small * 2 // 5
    ours, floor, alone = (together(bench.shelf, works, share) for share in ("claim", "shard", "alone"))
    workers = min(CLONES, os.cpu_count() or 1)
    what = f"{CLONES} clones at once, {works:,} works of 50 ms"
    yield Outcome(
        f"{what}: calls paid",
        "",
        f"{ours.calls:,}",
        f"{works:,}",
        f"{ours.calls / works:.2f}",
        "1.00",
        ours.calls == works,
    )
    times = ours.asked / works
    yield Outcome(
        f"{what}: asking the remote",
        "--shard",
        f"{ours.asked:,}",
        f"{floor.asked:,}",
        f"{times:.2f} a work",
        "<= 1.5",
        times <= 1.5,
    )
    part = ours.collisions / max(1, ours.claims)
    yield Outcome(
        f"{what}: claims that another was faster with",
        "",
        f"{ours.collisions:,}",
        f"{ours.claims:,}",
        f"{part:.0%}",
        "<= 50%",
        part <= 0.5,
    )
    yield _ratio(f"{what}: wall clock", f"one alone / {workers}", ours.seconds, alone.seconds / workers, 1.6)
    yield _ratio(f"{what}: wall clock", "--shard", ours.seconds, floor.seconds, 1.6)


def dask(bench: Bench) -> Iterator[Outcome]:
    """`run` on a local dask cluster, against plain dask that maps the same command over it; see `pooled.Spent`."""
    works = bench.small * 2
    what = f"dask, {works:,} works of {SECONDS * 1000:.0f} ms, beyond, a work"
    if find_spec("distributed") is None:
        yield Outcome(what, "plain dask", note="skipped: dask is not installed")
        return
    rounds = list(pooled(bench.shelf, works, bench.repeat))
    for kind, goal in (("wall", 3.0), ("cpu", None)):
        pairs = [(getattr(ours, kind), getattr(floor, kind)) for ours, floor in rounds]
        ours, floor = (statistics.median(column) for column in zip(*pairs))
        outcome = _ratio(
            f"{what}: {kind}", f"plain dask, {WORKERS} x {THREADS} threads", ours, floor, goal or 0.0
        )
        each = ", ".join(f"{ours / floor:.2f}" for ours, floor in pairs)
        words = "no goal" if goal is None else "ok" if outcome.met else "MISSED"
        outcome = outcome._replace(note=f"{words}; rounds: {each}; load {os.getloadavg()[0]:.1f}")
        yield outcome if goal else outcome._replace(goal="", met=None)


def memory(bench: Bench) -> Iterator[Outcome]:
    """The most memory that `plan` holds, with and without its caches."""
    repository = bench.shelf(bench.large)
    forget(repository)
    for how in ("no cache", "warm"):
        peak = from_small_process((*GITSTATE, "plan"), repository).peak
        what = f"peak memory, plan, {bench.large:,} done, {how}"
        yield Outcome(what, "", f"{peak:.0f} MB", "", f"{peak:.0f} MB", "<= 300 MB", peak <= 300)


def _plan(repository: str) -> Do:
    return lambda: cost((*GITSTATE, "plan"), repository)


def _all_done(repository: str, count: int) -> None:
    """What was measured must have happened."""
    last = slugs(count - 1, count)[0]
    with open(os.path.join(repository, "out", item(last)["shard"], f"{last}.md"), "rb") as file:
        assert file.read() == output(last)
    cost((*GITSTATE, "plan", "--exit-code"), repository)


ROWS = {
    "version": version,
    "hook": hook,
    "warm": warm,
    "cold": cold,
    "edited": edited,
    "dvc": dvc,
    "run": run,
    "guard": guard,
    "record": record,
    "classify": classify,
    "fetch": fetch,
    "claim": claim,
    "memory": memory,
    "dask": dask,
}
APART = {"dask"}  # only by name: some minutes, and a machine to itself
