"""Crashes that once did harm, each at the very call, and the harness's own promises."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash import errors, kills, strangers, supervise, sweeps, worlds
from tests.crash.stage import Base, Outcome, Point
from tests.crash.supervise import Call

pytestmark = pytest.mark.skipif(bool(supervise.available()), reason=f"crash sweeps: {supervise.available()}")


@pytest.fixture(scope="module")
def base() -> Iterator[Base]:
    with sweeps.template() as found:
        yield found


def at(base: Base, wanted: Callable[[Call], bool]) -> list[int]:
    """The numbers of the calls that are wanted; there are some."""
    found = [call.seq for call in base.calls if wanted(call)]
    assert found
    return found


def nothing_wrong(outcome: Outcome) -> None:
    assert outcome.reached
    assert not outcome.bad, (outcome.where, outcome.bad)


def test_p4_a_kill_while_a_recorded_attempt_is_removed_leaves_one_receipt_and_no_error(base: Base) -> None:
    removals = at(base, lambda call: call.name == "unlink" and "/attempts/" in call.path)
    for number in removals[-6:]:  # those of a work with two outputs: spooled, two responses, written, intent
        nothing_wrong(kills.one(base, Point("tree", (number,))))


@pytest.mark.parametrize("mode", ["tree", "double"])
def test_a_kill_while_a_worktree_is_made_or_removed_leaves_none(mode: str) -> None:
    config = worlds.CONFIG.replace("needs: [outline]\n", "needs: [outline]\n    workspace: worktree\n")
    with sweeps.template(config=config) as there:
        numbers = at(there, lambda call: call.mutates and "worktrees/" in call.path)
        for number in numbers[len(mode) :: len(numbers) // 4]:
            nothing_wrong(kills.one(there, Point(mode, (number, 30) if mode == "double" else (number,))))


def test_a_kill_in_the_middle_of_an_object_leaves_no_temporary_file(base: Base) -> None:
    number = at(base, lambda call: call.name == "write" and "tmp_obj_" in call.path)[3]
    nothing_wrong(kills.one(base, Point("tree", (number,))))


def test_a_kill_in_the_middle_of_a_cache_file_leaves_no_temporary_file(base: Base) -> None:
    number = at(base, lambda call: call.name == "write" and "/cache/" in call.path)[0]
    nothing_wrong(kills.one(base, Point("tree", (number,))))


def test_an_interrupted_barrier_is_no_error(base: Base) -> None:
    number = at(base, lambda call: call.name == "syncfs")[0]
    outcome = errors.one(base, Point("one", (number,), errno.EINTR))
    nothing_wrong(outcome)
    assert outcome.note == "exit 0"


def test_p4_an_answer_that_could_not_be_spooled_at_once_is_written_anew(base: Base) -> None:
    for number in at(base, lambda call: call.name == "fsync" and ".response-" in call.path)[:2]:
        outcome = errors.one(base, Point("one", (number,), errno.EIO))
        nothing_wrong(outcome)
        assert outcome.note == "exit 0"


def test_p5_an_edit_between_promoting_and_recording_is_not_receipted(base: Base) -> None:
    promoted = at(base, lambda call: call.name == "linkat" and call.path == "content/one.md")[0]
    recorded = at(base, lambda call: call.seq > promoted and call.path.startswith(".git/objects"))[0]
    path = list(base.world.managed()).index("content/one.md")
    nothing_wrong(strangers.bystander(base, Point("bystander", (recorded, path))))


def test_a_head_lock_that_git_could_not_remove_is_cleared_at_once(base: Base) -> None:
    number = at(base, lambda call: call.name == "unlink" and call.path.endswith("HEAD.lock"))[0]
    outcome = errors.one(base, Point("one", (number,), errno.EIO))
    nothing_wrong(outcome)
    assert outcome.note == "exit 0"


def test_p4_a_killed_command_is_a_failure_and_its_half_answer_no_answer(base: Base) -> None:
    number = at(base, lambda call: call.name == "write" and call.path.endswith("/out-1"))[2]
    nothing_wrong(kills.one(base, Point("caller", (number,))))


# --- the harness itself -------------------------------------------------------------------------------------------


def test_a_killed_tree_takes_processes_in_sessions_of_their_own_along(tmp_path: Path) -> None:
    script = (
        '(setsid sh -c "echo a > child; sleep 30" &); until [ -s child ]; do sleep 0.01; done; echo b > mine'
    )
    result = supervise.run(
        ["sh", "-c", script],
        str(tmp_path),
        lambda call: "kill-tree" if call.path.endswith("/mine") else None,
        cwd=str(tmp_path),
    )
    assert result.hit is not None
    assert sorted(os.listdir(tmp_path)) == ["child"]


def test_calls_repeat_exactly_from_run_to_run(base: Base) -> None:
    with sweeps.template() as again:
        assert [(call.name, _shape(call)) for call in again.calls] == [
            (call.name, _shape(call)) for call in base.calls
        ]


def test_an_errno_is_given_to_the_very_call(tmp_path: Path) -> None:
    output = tmp_path.parent / "output"
    result = supervise.run(
        ["sh", "-c", "mkdir a; mkdir b"],
        str(tmp_path),
        lambda call: errno.ENOSPC if call.path.endswith("/b") else None,
        cwd=str(tmp_path),
        output=str(output),
    )
    assert (result.code, os.listdir(tmp_path)) == (1, ["a"])
    assert "No space left" in output.read_text()


def test_what_is_about_to_be_written_can_be_seen(tmp_path: Path) -> None:
    seen: list[supervise.Write | None] = []
    supervise.run(
        ["sh", "-c", "echo one > a; echo two >> a"],
        str(tmp_path),
        lambda call: seen.append(supervise.writes(call)),
        cwd=str(tmp_path),
    )
    assert [found for found in seen if found] == [
        supervise.Write(0, b"one\n"),
        supervise.Write(None, b"two\n"),
    ]


def test_a_sweep_without_points_is_red(base: Base) -> None:
    summary = sweeps.run("nothing", _never, [Point("tree", (1,))])
    assert (summary.points, summary.red) == (0, True)


def _never(point: Point) -> Outcome:
    return Outcome(point, "", [], reached=False)


def _shape(call: Call) -> str:
    """A path without the names that chance or the process id chose."""
    parts = call.path.split("/")
    return "/".join("*" if part.startswith(("gitstate-", "tmp_obj_", "plan.")) else part for part in parts)
