"""Jobs on a pool: what they bring along, what comes back, and what becomes of those that nobody answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitstate.edge.folder import File
from gitstate.edge.lock import Lock
from gitstate.edge.pool import Pool
from gitstate.edge.process import Job
from gitstate.edge.worker import work
from gitstate.errors import ComeBackLater, UsageError
from tests.support.processes import bearing
from tests.support.world import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="commands of a POSIX shell")

GOOD = ["processes", "threads"]
NEVER = threading.Event()


@pytest.fixture(params=GOOD)
def pool(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pool]:
    found = opened(request.param, tmp_path)
    yield found
    found.close()
    assert list(tmp_path.iterdir()) == []


def opened(factory: str, folder: Path, margin: float = 30.0) -> Pool:
    return Pool(f"tests.support.executors:{factory}", str(folder), margin)


def job(command: str, **fields: object) -> Job:
    env = {"GITSTATE_ATTEMPT_ID": "a1", "MARK": "of-pool-tests"}
    return Job(command, env=env, cwd="root", files=())._replace(**fields)  # type: ignore[arg-type]


def test_a_job_finds_the_files_that_it_brings_at_their_paths_with_their_modes(pool: Pool) -> None:
    files = (
        File("bin/x", b"#!/bin/sh\ncat in/a.bin\n", True),
        File("in/a.bin", b"\0\xff\r\n"),
        File("b", b""),
    )
    result = pool.execute(job("test ! -x b && ./bin/x", files=files), NEVER)
    assert result.outputs == (b"\0\xff\r\n",)
    assert (result.ended_by, result.code) == ("exit", 0)


def test_it_runs_in_a_private_folder_that_is_gone_afterwards(pool: Pool) -> None:
    told = 'echo x > left; pwd; echo "$GITSTATE_ROOT"; dirname "$GITSTATE_SCRATCH"; echo "$GIT_CEILING_DIRECTORIES"'
    cwd, root, above, ceiling = pool.execute(job(told), NEVER).outputs[0].decode().split()
    assert cwd == root == f"{above}/root" == f"{ceiling}/root"
    assert not os.path.exists(above)
    scratch = pool.execute(job("cat ../root/a", cwd=None, files=(File("a", b"x"),)), NEVER)
    assert scratch.outputs == (b"x",)


def test_the_limits_are_kept_where_it_runs(pool: Pool) -> None:
    assert pool.execute(job("yes", max_bytes=100_000), NEVER).ended_by == "too_large"
    assert pool.execute(job("head -c 200000 /dev/zero", max_bytes=100_000), NEVER).ended_by == "too_large"
    assert pool.execute(job("sleep 300", timeout=0.2), NEVER).ended_by == "wall"
    assert pool.execute(job("echo x; sleep 300", silence=0.2), NEVER).ended_by == "silence"


def test_a_job_that_is_cancelled_ends_where_it_runs(pool: Pool) -> None:
    cancel = threading.Event()
    threading.Timer(2, cancel.set).start()
    result = pool.execute(job("exec sleep 300"), cancel)
    assert (result.ended_by, result.outputs) == ("cancelled", ())
    assert until(lambda: not bearing("MARK", "of-pool-tests"))


def test_a_worker_that_dies_is_an_attempt_without_answer_and_the_pool_goes_on(tmp_path: Path) -> None:
    pool = opened("processes", tmp_path)
    try:
        result = pool.execute(job("kill -9 $PPID; exec sleep 300"), NEVER)
        assert (result.ended_by, result.outputs) == ("lost", ())
        assert "BrokenProcessPool" in result.stderr
        assert pool.execute(job("echo again"), NEVER).outputs == (b"again\n",)
        assert until(lambda: not bearing("MARK", "of-pool-tests"))
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("factory", "words"), [("cancelling", "CancelledError"), ("overflowing", "5 GB cannot be sent")]
)
def test_p7_what_the_pool_fails_with_is_no_answer_and_said(tmp_path: Path, factory: str, words: str) -> None:
    result = opened(factory, tmp_path).execute(job("echo never"), NEVER)
    assert (result.ended_by, result.code, result.outputs) == ("lost", None, ())
    assert words in result.stderr


def test_a_worker_that_hangs_is_given_up_some_time_after_the_timeout(tmp_path: Path) -> None:
    pool = opened("silent", tmp_path, margin=0.1)
    began = time.monotonic()
    result = pool.execute(job("x", timeout=0.3, grace=0.1), NEVER)
    assert time.monotonic() - began >= 0.5
    assert result.ended_by == "lost"
    assert "No answer came" in result.stderr
    pool.close()


def test_workers_without_this_package_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No module named 'gitstate'"):
        opened("bare", tmp_path).execute(job("x"), NEVER)


@pytest.mark.parametrize(
    "name",
    [
        "dask",
        "dask:",
        "nonsense:x",
        "tests.support.executors:no",
        "tests.support.executors:nothing",
        "dask:a b:c:d",
    ],
)
def test_a_name_that_is_none_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--executor"):
        Pool(name, str(tmp_path))


def test_what_is_no_function_makes_no_pool(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no function"):
        opened("__name__", tmp_path)


def test_a_pool_that_cannot_be_made_is_something_to_come_back_for(tmp_path: Path) -> None:
    with pytest.raises(ComeBackLater, match="nobody there"):
        opened("unreachable", tmp_path)


def test_what_is_secret_on_a_worker_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKERS_API_KEY", "longworkersecret")
    result = work(job('echo "no $WORKERS_API_KEY" >&2; exit 1'), "a1", str(tmp_path / "stop"))
    assert result.stderr == "no [redacted]\n"


def test_a_worker_needs_nothing_that_reads_repositories() -> None:
    code = "import sys, gitstate.edge.worker; print(*sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"git", "blake3", "jinja2", "typer", "jsonschema", "yaml"}
    assert not {name for name in loaded if name.startswith("gitstate.commands")}


def test_a_fork_of_the_runner_does_not_hold_its_lock(tmp_path: Path) -> None:
    with Lock.acquire(str(tmp_path)) as lock:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.write(write, b"held" if lock.descriptor >= 0 else b"free")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 9) == b"free"
        assert lock.descriptor >= 0


def claims() -> tuple[Callable[[str, str], bool], dict[tuple[str, str], object], Callable[..., None]]:
    from types import SimpleNamespace

    from gitstate.edge.dask import Claims

    plugin, tasks = Claims(), {}
    plugin.start(SimpleNamespace(tasks=tasks, handlers={}))
    for name in ("one", "two"):
        tasks["gitstate", name] = SimpleNamespace(processing_on=SimpleNamespace(address="w1"))
    return plugin.claim, tasks, plugin.transition


def test_p11_a_task_begins_once_whichever_worker_it_is_given_to() -> None:
    claim, tasks, _ = claims()
    assert not claim("one", "w2")  # it was given to another one meanwhile
    assert claim("one", "w1")
    assert not claim("one", "w1")
    tasks["gitstate", "one"].processing_on.address = "w2"  # type: ignore[attr-defined]
    assert not claim("one", "w2")
    tasks["gitstate", "two"].processing_on = None  # type: ignore[attr-defined]
    assert not claim("two", "w1")
    assert not claim("unknown", "w1")
