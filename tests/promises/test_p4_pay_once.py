"""P4: a response that has arrived is never bought again, whenever the process dies.

Arrived means: in the spool, or recorded. What a call that was still under way costs when its run is killed
nobody can know; it is bought again, and the log says that the first one's outcome is lost.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.world import ARTICLE, CHAIN, Clone, Running, World, until

SLUGS = ["one", "two", "three"]
SLEEP = 0.03


class Undisturbed(NamedTuple):
    """What a run leaves that nobody kills, and the world before it."""

    before: World
    outputs: dict[str, str]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    world = World(tmp_path_factory.mktemp("sweep"), stages=CHAIN, items=SLUGS)
    world.tell(sleep=SLEEP)
    ran = world.copy(tmp_path_factory.mktemp("undisturbed"))
    ran.a.run("-j", "2")
    assert set(ran.paid().values()) == {1}
    return Undisturbed(world, outputs(ran.a))


def outputs(clone: Clone) -> dict[str, str]:
    """The outputs as committed, and nothing else may stand in their folders."""
    committed = sorted(path for path in clone.files() if path.startswith(("out/", "work/")))
    found = {path: clone.read(path) for path in committed}
    standing = [*clone.path.glob("out/*"), *clone.path.glob("work/*")]
    assert sorted(str(path.relative_to(clone.path)) for path in standing) == committed
    assert clone.status() == ""
    return found


def arrived(clone: Clone) -> set[str]:
    """The works whose response cannot be lost any more: recorded, or whole in the spool."""
    found = {f"{line['slug']}/{line['stage']}" for line in clone.receipts() if line["kind"] == "done"}
    for path in (clone.path / ".git" / "gitstate" / "attempts").glob("*.spooled"):
        if json.loads(path.read_text())["facts"]["code"] != 0:
            continue  # what arrived is a failure
        intent = json.loads(path.with_suffix(".intent").read_text())
        found.add(f"{intent['slug']}/{intent['stage']}")
    return found


def kill_and_look(world: World, running: Running, jobs: int = 2) -> set[str]:
    """Kill the whole process group; the works that must not be paid for again.

    Besides what gitstate itself shows as arrived: one worker takes a response before it begins the next work.
    """
    running.kill()
    safe = arrived(world.a)
    if jobs == 1:
        answered = {call.attempt for call in world.calls("answered")}
        safe |= {f"{call.slug}/{call.stage}" for call in world.calls()[:-1] if call.attempt in answered}
    return safe


def resume(undisturbed: Undisturbed, world: World, safe: set[str]) -> None:
    """Go on after kills: the end is that of an undisturbed run, and nothing that arrived was paid for again."""
    paid = world.paid()
    world.a.run("-j", "2")
    again = {work for work in safe if world.paid()[work] > paid[work]}
    assert not again
    assert outputs(world.a) == undisturbed.outputs
    assert world.a.leftovers() == []
    works = {f"{line['slug']}/{line['stage']}" for line in world.a.receipts()}
    assert works == {f"{slug}/{stage}" for slug in SLUGS for stage in CHAIN}
    lost = [line for line in world.a.log() if line["kind"] == "lost"]
    assert sum(world.paid().values()) <= len(works) + len(lost)


# --- a sweep over the whole run --------------------------------------------------------------------------

MOMENTS = [
    *[("asked", number, 0.0) for number in range(1, 5)],
    *[("answered", number, 0.0) for number in range(1, 5)],
    *[
        ("answered", 1, delay / 1000)
        for delay in (2, 3, 6, 7, 10, 11, 14, 15, 18, 21, 26, 31, 38, 45, 54, 65, 80)
    ],
]


@pytest.mark.parametrize(("event", "number", "delay"), MOMENTS, ids=lambda value: str(value))
def test_p4_killed_at_any_moment_nothing_that_arrived_is_bought_twice(
    undisturbed: Undisturbed, tmp_path: Path, event: str, number: int, delay: float
) -> None:
    world = undisturbed.before.copy(tmp_path)
    jobs = 1 if number > 1 or round(delay * 1000) % 2 else 2
    running = world.a.start("run", "-j", str(jobs))
    assert until(lambda: len(world.calls(event)) >= number, running)
    time.sleep(delay)
    safe = kill_and_look(world, running, jobs)
    assert len(safe) >= number - 1
    resume(undisturbed, world, safe)


def file_exists(pattern: str) -> Callable[[Clone], bool]:
    return lambda clone: any(clone.path.glob(pattern))


POINTS: dict[str, Callable[[Clone], bool]] = {
    "the intent stands": file_exists(".git/gitstate/attempts/*.intent"),
    "the response is being spooled": file_exists(".git/gitstate/attempts/*.response-1"),
    "the response is spooled": file_exists(".git/gitstate/attempts/*.spooled"),
    "the outputs are announced": file_exists(".git/gitstate/attempts/*.written"),
    "a temporary file stands": file_exists("work/.gitstate-*"),
    "an output is in its place": file_exists("work/*.md"),
    "the refs are about to move": file_exists(".git/gitstate/recording.json"),
    "the index is locked": file_exists(".git/index.lock"),
    "the notes are locked": file_exists(".git/refs/notes/gitstate.lock"),
    "the notes have moved": file_exists(".git/refs/notes/gitstate"),
    "the branch is locked": file_exists(".git/refs/heads/main.lock"),
}

FLEETING = {  # too short to be met every time
    "the response is being spooled", "the outputs are announced", "a temporary file stands",
    "the refs are about to move", "the index is locked", "the notes are locked", "the branch is locked",
}  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_p4_killed_at_a_step_of_recording_the_next_run_goes_on_from_there(
    undisturbed: Undisturbed, tmp_path: Path, point: str
) -> None:
    world = undisturbed.before.copy(tmp_path)
    running = world.a.start("run", "-j", "2")
    reached = POINTS[point]
    while not running.ended() and not reached(world.a):
        pass
    assert point in FLEETING or reached(world.a)
    safe = kill_and_look(world, running)
    resume(undisturbed, world, safe)


@pytest.mark.parametrize(
    "point", ["the response is spooled", "an output is in its place", "the notes have moved"]
)
def test_p4_a_recovery_that_is_killed_too_costs_nothing(
    undisturbed: Undisturbed, tmp_path: Path, point: str
) -> None:
    world = undisturbed.before.copy(tmp_path)
    running = world.a.start("run", "-j", "2")
    assert until(lambda: POINTS[point](world.a), running)
    safe = kill_and_look(world, running)
    for delay in (0.15, 0.25, 0.35):
        running = world.a.start("run", "-j", "2")
        time.sleep(delay)
        paid = world.paid()
        running.kill()
        assert all(world.paid()[work] == paid[work] for work in safe)
        safe |= arrived(world.a)
    resume(undisturbed, world, safe)


def test_p4_a_runner_killed_by_its_own_provider_knows_that_the_outcome_is_lost(tmp_path: Path) -> None:
    """The answer is complete, but its call has not ended: nobody is left who could take it."""
    world = World(tmp_path, items=["one"])
    world.tell(kill_runner=True, once=True)
    done = world.a.gitstate("run")
    assert done.code == -signal.SIGKILL
    until(lambda: world.calls("answered"))
    assert world.a.states() == {"one/article": "pending new"}
    world.a.run()
    assert world.a.states() == {"one/article": "done exact"}
    assert world.a.why("one")[0]["spend"]["unknown"] == world.paid()["one/article"] - 1
    keys = {call.key for call in world.calls()}
    assert len(keys) == 1  # so that the provider itself can tell that it was asked for the same thing


# --- two at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["the same clone", "another worktree"])
def test_p4_a_second_run_at_the_same_time_ends_at_once(tmp_path: Path, where: str) -> None:
    world = World(tmp_path)
    second = world.a
    if where == "another worktree":
        world.a.git("worktree", "add", "-q", "-b", "side", "../tree")
        second = Clone(world, tmp_path / "tree")
    go = world.home / "go"
    world.tell(wait=str(go))
    first = world.a.start("run")
    until(world.calls)
    done = second.run(code=75)
    assert str(first.process.pid) in done.err
    assert "Traceback" not in done.err
    states = second.states()
    assert states["one/article"] == "running new"
    go.touch()
    first.wait(0)
    assert world.paid() == {"one/article": 1, "two/article": 1}
    if second is world.a:
        second.run("--lock-timeout", "60s")
        assert world.paid() == {"one/article": 1, "two/article": 1}


def test_p4_a_run_may_wait_for_the_other(tmp_path: Path) -> None:
    world = World(tmp_path)
    go = world.home / "go"
    world.tell(wait=str(go))
    first = world.a.start("run")
    until(world.calls)
    second = world.a.start("run", "--lock-timeout", "100s")
    go.touch()
    first.wait(0)
    second.wait(0)
    assert world.paid() == {"one/article": 1, "two/article": 1}


# --- interrupted -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_p4_interrupted_it_ends_in_order_and_goes_on_from_there(tmp_path: Path, number: int) -> None:
    world = World(tmp_path, items=["one", "two", "three"])
    world.tell("two", hang=True)
    running = world.a.start("run")
    until(lambda: len(world.calls()) == 2)
    running.signal(number)
    running.wait(130)
    assert world.a.states()["one/article"] == "done exact"
    assert world.a.leftovers() == []
    world.forgive()
    world.a.run()
    assert world.paid() == {"one/article": 1, "two/article": 2, "three/article": 1}
    assert world.a.why("two")[0]["spend"]["unknown"] == 1


def test_p4_interrupted_while_answers_wait_they_are_recorded_first(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"])
    world.tell("three", hang=True)
    running = world.a.start("run", "-j", "3")
    until(lambda: len(world.calls("answered")) == 2)
    running.signal(signal.SIGINT)
    running.wait(130)
    safe = arrived(world.a)
    world.forgive()
    world.a.run()
    assert all(world.paid()[work] == 1 for work in safe)
    assert set(world.a.states().values()) == {"done exact"}


# --- the disk is full ------------------------------------------------------------------------------------

ANSWER = 150_000  # bytes


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of its own with little room."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder))
    if os.name != "posix" or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(("umount", "-l", str(folder)), check=True)


@pytest.mark.parametrize("room", [20_000, 200_000, 340_000, 480_000, 600_000])
def test_p4_a_full_disk_is_said_clearly_and_costs_nothing_that_arrived(
    small_disk: Path, tmp_path: Path, room: int
) -> None:
    world = World(small_disk)
    world.home = tmp_path / "provider"
    (world.home / "orders").mkdir(parents=True)
    world.tell(answer=os.urandom(ANSWER // 2).hex())
    fill(small_disk, room)
    done = world.a.gitstate("run")
    assert done.code not in (0, 70)
    assert "space left" in done.err
    safe, paid = arrived(world.a), world.paid()
    (small_disk / "filler").unlink()
    world.a.run(*(["--retry-failed"] if room < ANSWER else []))  # where the provider itself could not write
    assert set(world.a.states().values()) == {"done exact"}
    assert not {work for work in safe if world.paid()[work] > paid[work]}
    assert world.a.leftovers() == []


def fill(folder: Path, room: int) -> None:
    """Fill a file system but for so many bytes."""
    with open(folder / "filler", "wb") as file:
        found = os.statvfs(folder)
        file.write(b"\0" * max(0, found.f_bavail * found.f_frsize - room))


def test_p4_an_output_that_cannot_be_written_costs_nothing_that_arrived(tmp_path: Path) -> None:
    stages = {"article": {**ARTICLE, "template": "templates/thrice.md"}}
    files = {"templates/thrice.md": "{{ response }}" * 3}
    world = World(tmp_path, stages=stages, items=["one"], files=files)
    world.tell(answer="x" * ANSWER + "\n")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * ANSWER, 2 * ANSWER))

    done = world.a.start("run", prepare=limit).wait()
    assert done.code not in (0, 70)
    assert "too large" in done.err
    assert not world.a.has("out/one.md")
    world.a.run()
    assert world.a.states() == {"one/article": "done exact"}
    assert world.paid() == {"one/article": 1}


def test_p4_an_answer_that_is_committed_and_whose_receipt_was_lost_gets_its_receipt_and_costs_nothing(
    tmp_path: Path,
) -> None:
    # What a power cut leaves that keeps the branch's move and takes back that of the receipts: the attempt's record is
    # there, and its outputs are committed without a receipt.
    world = World(tmp_path, items=["one"])
    world.tell(before="mkdir -p out && echo mine > out/one.md", once=True)
    world.a.run(code=3)
    (answer,) = world.a.spooled()
    world.a.commit({"out/one.md": answer.read_text()})
    assert world.a.states() == {"one/article": "pending unverified"}
    said = world.a.run().err
    assert "Recovered one/article" in said
    assert world.a.states() == {"one/article": "done exact"}
    assert len(world.calls()) == 1
    assert world.a.leftovers() == []
