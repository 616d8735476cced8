"""Many quick works on a local dask cluster: what plain dask takes for them, and what `run --executor dask:…` takes.

Run as a script it is the floor: it maps the works' command over the cluster, and writes what comes into files, durable
or not, as whoever uses dask alone would. Usage: pooled.py ADDRESS FOLDER COUNT
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from measure import cost, environment
from repos import GITSTATE, PROMPT, Shelf, copy, git, item, slugs

SECONDS = 0.02  # that a work takes
WORKERS, THREADS = 2, 2  # processes, and works at once in each
_COMMAND = f"sleep {SECONDS}; cat"
_QUIET = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}
_PATIENCE = 60.0  # seconds until the cluster is up


class Spent(NamedTuple):
    """What some works took beyond themselves, each; from the start of the command that hands them out to its end, so
    that imports, connecting, and of gitstate the planning and recording count."""

    wall: (
        float  # seconds, less those of the ideal in which all threads of the cluster do nothing but the works
    )
    cpu: float  # seconds of user and system: of that command, the cluster, and all that they started


def pooled(shelf: Shelf, works: int, rounds: int) -> Iterator[tuple[Spent, Spent]]:
    """(gitstate's, plain dask's) of each round on one cluster, in turns, after a warm-up that is not counted."""
    origin = shelf(0, works)
    place, plain = (os.path.join(shelf.folder, name) for name in ("pooled", "plain"))
    with _cluster(shelf.scratch("cluster")) as (address, pids):
        os.makedirs(shelf.scratch("plain"))
        _spent(_floor(address, plain, works // 10), plain, works // 10, pids)
        for _ in range(rounds):
            os.makedirs(shelf.scratch("plain"))
            floor = _spent(_floor(address, plain, works), plain, works, pids)
            assert len(os.listdir(plain)) == works
            _new(origin, place)
            ours = _spent((*GITSTATE, "run", "--executor", f"dask:{address}"), place, works, pids)
            assert len(git(place, "ls-tree", "-r", "--name-only", "main", "out/").split()) == works
            yield ours, floor


def _floor(address: str, folder: str, count: int) -> Sequence[str]:
    return (sys.executable, os.path.abspath(__file__), address, folder, str(count))


def _new(origin: str, place: str) -> None:
    """A clone in use, with works that take their time."""
    copy(origin, place)
    config = os.path.join(place, "gitstate.yaml")
    with open(config, encoding="utf-8") as file:
        text = file.read().replace("run: cat", f"run: {_COMMAND}")
    with open(config, "w", encoding="utf-8") as file:
        file.write(text)
    git(place, "commit", "-q", "-a", "-m", "Take some time")
    cost((*GITSTATE, "plan"), place)


def _spent(command: Sequence[str], folder: str, works: int, pids: Sequence[int]) -> Spent:
    before, began = _cpu(pids), time.monotonic()
    used = cost(command, folder)
    wall = time.monotonic() - began
    ideal = works * SECONDS / (WORKERS * THREADS)
    return Spent((wall - ideal) / works, (used.cpu + _cpu(pids) - before) / works)


def _cpu(pids: Sequence[int]) -> float:
    from psutil import Process  # dask brings it

    return sum(sum(Process(pid).cpu_times()[:4]) for pid in pids)


@contextlib.contextmanager
def _cluster(folder: str) -> Iterator[tuple[str, list[int]]]:
    """A scheduler and workers, each a process of its own; its address and their numbers. Ended afterwards."""
    os.makedirs(folder)
    place = os.path.join(folder, "scheduler.json")
    options = (
        "--nthreads",
        str(THREADS),
        "--no-nanny",
        "--local-directory",
        folder,
        "--scheduler-file",
        place,
    )
    commands = [("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", place)]
    commands += [("dask_worker", *options)] * WORKERS
    running = [
        subprocess.Popen(
            (sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *words),
            cwd=folder,
            env={**environment(), **_QUIET},
            stderr=subprocess.DEVNULL,
        )
        for module, *words in commands
    ]
    try:
        from distributed import Client

        until = time.monotonic() + _PATIENCE
        while not (os.path.exists(place) and os.path.getsize(place)) and time.monotonic() < until:
            time.sleep(0.1)
        with open(place, encoding="utf-8") as file:
            address = str(json.load(file)["address"])
        with Client(address, timeout=_PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(WORKERS, timeout=_PATIENCE)
        yield address, [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def _work(prompt: bytes) -> bytes:
    return subprocess.run(
        ("/bin/sh", "-c", _COMMAND), input=prompt, stdout=subprocess.PIPE, check=True
    ).stdout


def main(address: str, folder: str, count: int) -> None:
    """The floor."""
    from distributed import Client

    names = slugs(0, count)
    prompts = [PROMPT.replace("{{ topic }}", item(slug)["topic"]).encode() for slug in names]
    with Client(address) as client:
        for slug, answer in zip(names, client.gather(client.map(_work, prompts, pure=False))):
            with open(os.path.join(folder, f"{slug}.md"), "wb") as file:
                file.write(answer)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
