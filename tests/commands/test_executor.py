"""`run --executor`: commands on a cluster's workers, while all that is recorded is recorded by the run."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from pathlib import Path
from typing import Any

import pytest

from gitstate.edge.process import Job
from gitstate.edge.worker import work
from tests.support.cluster import Cluster, cluster
from tests.support.processes import bearing
from tests.support.world import PROVIDER, Clone, Running, World, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what lives is told by /proc")

ROOT = Path(__file__).parents[2]
PATH = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
SLUGS = ["one", "two", "three", "four", "five", "six"]
CALL = "PROVIDER_HOME={{ vars.home }} $PROVIDER"  # a worker's environment is its own
ARTICLE = {"prompt": "prompts/article.md", "run": CALL, "output": "out/{slug}.md"}
CHAIN = {
    "outline": {"prompt": "prompts/outline.md", "run": CALL, "output": "work/{slug}.md"},
    "article": {
        "needs": ["outline"], "inputs": ["data/*.txt"], "code": ["bin/*"], "output": "out/{slug}.md",
        "run": "./bin/join {{ needs.outline }} {{ inputs | join(' ') }}",
    },
    "count": {"needs": ["article"], "workspace": "scratch", "run": "wc -c <{{ needs.article }}", "output": "n/{slug}"},
}  # fmt: skip


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    provider = f"{sys.executable} -I -S {PROVIDER}"
    with cluster(tmp_path_factory.mktemp("dask"), 2, PROVIDER=provider, **PATH) as found:
        yield found


def world(folder: Path, items: Any = SLUGS, stages: Any = None, **more: Any) -> World:
    stages = stages or {"article": ARTICLE}
    return World(folder, items=items, stages=stages, vars={"home": str(folder / "provider")}, **more)


def start(clone: Clone, executor: Cluster | str, *arguments: str) -> Running:
    name = executor if isinstance(executor, str) else f"dask:{executor.address}"
    return clone.start("run", "--executor", name, *arguments, **PATH)


def all_done(made: World) -> None:
    assert set(made.a.states().values()) == {"done exact"}
    assert made.a.leftovers() == []
    made.a.gitstate("verify", code=0)


def test_both_ways_give_the_same_outputs_identities_and_receipts(tmp_path: Path, dask: Cluster) -> None:
    files = {"bin/join": "#!/bin/sh\ncat -- bin/part $1 $2\n", "bin/part": "part\n", "data/a.txt": "data\n"}
    made = world(tmp_path / "x", stages=CHAIN, items=SLUGS[:2], files=files)
    os.chmod(made.a.path / "bin/join", 0o755)
    made.a.git("commit", "-qam", "Make it a program")
    twin = made.copy(tmp_path / "y")
    made.a.write("bin/part", "not committed, and not what runs\n")
    made.a.git("checkout", "-q", "bin/part")
    made.a.run("-j", "2")
    start(twin.a, dask).wait(0)
    all_done(twin)
    assert "data" in twin.a.read("out/one.md")
    assert twin.a.plan()["work"] == made.a.plan()["work"]
    assert known(twin.a) == known(made.a)
    assert twin.a.git("ls-tree", "-r", "HEAD") == made.a.git("ls-tree", "-r", "HEAD")
    made.a.run()
    assert start(twin.a, "dask:127.0.0.1:1").wait(0).err  # nothing is due, so no pool is asked


def known(clone: Clone) -> list[list[tuple[str, Any]]]:
    """The receipts without what differs between any two runs."""
    lines = clone.receipts()
    return sorted(
        sorted((k, str(v)) for k, v in line.items() if k not in ("seconds", "at", "attempt"))
        for line in lines
    )


@pytest.mark.parametrize("factory", ["processes", "forks"])
def test_an_executor_of_the_standard_library_does_as_well(tmp_path: Path, factory: str) -> None:
    made = world(tmp_path)
    start(made.a, f"tests.support.executors:{factory}").wait(0)
    all_done(made)
    assert set(made.paid().values()) == {1}


def test_p4_a_worker_that_is_killed_costs_what_it_was_at_and_no_more(tmp_path: Path, dask: Cluster) -> None:
    made = world(tmp_path)
    made.tell(wait=str(tmp_path / "go"))
    running = start(made.a, dask)
    until(lambda: len(made.calls()) == 4, running)
    dask.workers.pop(0).kill()
    dask.grow()
    until(lambda: len(made.calls()) >= 5, running)
    (tmp_path / "go").touch()
    running.wait(0)
    all_done(made)
    assert sum(made.paid().values()) == len(SLUGS) + 2
    assert max(made.paid().values()) == 2
    lost = [line for line in made.a.log() if line["kind"] == "verdict"]
    assert [(line["category"], line["state"]) for line in lost] == [("unknown", "pending")] * 2


def test_p11_an_act_that_is_lost_with_its_worker_is_asked_about_and_not_repeated(
    tmp_path: Path, dask: Cluster
) -> None:
    act = "echo $PPID > {{ vars.home }}/worker; echo acted >> {{ vars.home }}/acts; sleep 300 & wait"
    publish = {"effect": True, "run": act, "evidence": "cat {{ vars.home }}/acts", "output": "out/{slug}.txt"}
    made = world(tmp_path, items=["one"], stages={"publish": {**publish, "settle": "0s"}})
    running = start(made.a, dask, "-j", "1")
    until((made.home / "acts").exists, running)
    pid = int((made.home / "worker").read_text())
    (worker,) = (one for one in dask.workers if one.pid == pid)
    worker.kill()
    dask.workers.remove(worker)
    dask.grow()
    running.wait(0)
    assert (made.home / "acts").read_text() == "acted\n"
    assert made.a.read("out/one.txt") == "acted\n"


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_a_run_ends_its_commands_on_the_workers(tmp_path: Path, dask: Cluster, way: int) -> None:
    made = world(tmp_path, items=["one", "two", "three"])
    made.tell("two", hang=True)
    running = start(made.a, dask)
    until(lambda: len(made.calls("answered")) == 2 and len(made.calls()) == 3, running)
    running.signal(way)
    running.wait(130 if way == signal.SIGINT else -way)
    assert until(lambda: not bearing("PROVIDER_HOME", made.home))
    made.forgive()
    made.a.run()
    all_done(made)
    assert made.paid()["two/article"] == 2


def test_p7_what_is_under_way_when_the_connection_is_closed_has_no_answer(dask: Cluster) -> None:
    from gitstate.edge.dask import DaskExecutor

    executor = DaskExecutor(dask.address, 30.0)
    try:
        hanging = Job("exec sleep 300", env={"MARK": "of-executor-tests"}, cwd="root", files=())
        future = executor.submit(work, hanging, "a1", "/nowhere")
        assert until(lambda: bearing("MARK", "of-executor-tests"))
        executor.shutdown()
    finally:
        logging.disable(logging.NOTSET)
    assert isinstance(future.exception(timeout=60), (BrokenExecutor, CancelledError))
    assert until(lambda: not bearing("MARK", "of-executor-tests"))


def test_an_interrupt_ends_the_commands_of_a_pool_of_processes(tmp_path: Path) -> None:
    made = world(tmp_path, items=["one", "two"])
    made.tell("two", hang=True)
    running = start(made.a, "tests.support.executors:processes")
    until(lambda: len(made.calls("answered")) == 1 and len(made.calls()) == 2, running)
    running.signal(signal.SIGINT)
    running.wait(130)
    assert until(lambda: not bearing("PROVIDER_HOME", made.home))


@pytest.mark.parametrize("factory", ["processes", "forks"])
def test_a_run_that_is_killed_by_force_leaves_nothing_of_a_pool_of_processes(
    tmp_path: Path, factory: str
) -> None:
    made = world(tmp_path, items=["one", "two"])
    made.tell("one", hang=True)
    running = start(made.a, f"tests.support.executors:{factory}", "-j", "2")
    assert until(lambda: len(made.calls("answered")) == 1 and len(made.calls()) == 2, running)  # one is idle
    running.process.kill()
    running.wait()
    assert until(lambda: not bearing("PROVIDER_HOME", made.home))
    made.forgive()
    made.a.run()
    all_done(made)


def test_a_worktree_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    stages = {"article": ARTICLE, "patch": {"run": CALL, "workspace": "worktree", "output": "p/{slug}.patch"}}
    made = world(tmp_path, stages=stages)
    done = start(made.a, "tests.support.executors:processes").wait(2)
    assert "workers have no clone" in done.err
    assert made.calls() == []


def test_files_of_some_megabytes_are_worth_a_hint(tmp_path: Path) -> None:
    stages = {"article": {"run": "wc -c {{ inputs[0] }}", "inputs": ["big"], "output": "out/{slug}.md"}}
    made = world(tmp_path, stages=stages, items=["one", "two"], files={"big": "x" * 5_000_000})
    done = start(made.a, "tests.support.executors:threads").wait(0)
    assert done.err.count("Each work of article takes 5 MB") == 1


def test_a_scheduler_that_dies_ends_the_run_and_the_next_one_goes_on(tmp_path: Path, dask: Cluster) -> None:
    made = world(tmp_path)
    made.tell("two", hang=True)
    running = start(made.a, dask)
    until(lambda: len(made.a.receipts()) == 5, running)
    dask.scheduler.kill()  # (the last test that needs it)
    done = running.wait(75)
    assert "cannot be reached" in done.err
    assert made.a.plan()["summary"]["done"] == 5
    made.forgive()
    made.a.run()
    all_done(made)
    assert sum(made.paid().values()) == len(SLUGS) + 1
