"""P6: what a machine, a disk or a person puts into gitstate's way is said as what it is, and is no bug."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from gitstate.__main__ import main
from tests.support.damage import here
from tests.support.world import ARTICLE, World

READING = (("plan",), ("plan", "--json"), ("status",), ("why", "one"), ("verify",))
WRITING = (("run",), ("recover",), ("sync",), ("accept",))


def test_p6_a_file_where_the_folder_of_gitstate_belongs_is_named(finished: World) -> None:
    state = finished.a.state
    shutil.rmtree(state)
    state.write_text("mine")
    for command in (*READING, *WRITING):
        done = here(finished.a, *command)
        assert done.code == 3, (command, done)
        assert str(state) in done.err
    assert state.read_text() == "mine"


@pytest.mark.parametrize(
    "name",
    [
        "attempts/sub",
        "attempts/X.intent",
        "attempts/X.spooled",
        "attempts/X.response-1",
        "rejected/X.intent",
        "cache/x.tmp",
        "cache/gitstate",
        "cache/answer",
        "x.tmp",
        "lock",
        "lock.json",
        "lock-owner",
        "recording.json",
        "last-run.json",
        "scratch/x",
    ],
)
def test_p6_a_folder_where_a_file_belongs_is_named_or_means_nothing(finished: World, name: str) -> None:
    a = finished.a
    before = here(a, "plan", "--json").out
    path = a.state / name
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    assert here(a, "plan", "--json").out == before
    for command in (*READING, *WRITING):
        done = here(a, *command)
        assert done.code == 0 or str(path.with_suffix("")) in done.out + done.err, (command, done)
    assert len(finished.calls()) == 2


@pytest.mark.parametrize("name", ["attempts", "rejected", "cache", "scratch"])
def test_p6_a_file_where_a_folder_of_gitstate_belongs_is_named_or_means_nothing(
    finished: World, name: str
) -> None:
    path = finished.a.state / name
    shutil.rmtree(path, ignore_errors=True)
    path.write_text("mine")
    finished.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    for command in (*READING, *WRITING):
        done = here(finished.a, *command)
        assert done.code == 0 or str(path) in done.out + done.err, (command, done)
    assert path.read_text() == "mine"


def test_p6_a_schema_that_is_no_json_is_named_by_all_that_need_it(finished: World) -> None:
    a = finished.a
    a.configure({"article": {**ARTICLE, "check": {"json_schema": "schema.json"}}})
    for text in ("{", "", "\xff", '{"type": 7}', "[" * 5000):
        a.commit({"schema.json": text})
        for command in ("verify", "run"):
            done = here(a, command)
            assert done.code == 2
            assert "schema.json: " in done.err
    assert len(finished.calls()) == 2


def test_p6_an_answer_stays_in_the_spool_while_its_schema_is_broken(tmp_path: Path) -> None:
    stage = {**ARTICLE, "check": {"json_schema": "schema.json"}}
    world = World(tmp_path, stages={"article": stage}, items=["one"], files={"schema.json": "{}\n"})
    world.tell(answer='"yes"', before="mkdir -p out && echo mine > out/one.md", once=True)
    world.a.run(code=3)
    (world.a.path / "out/one.md").unlink()
    world.a.commit({"schema.json": "{"})
    for command in ("run", "recover"):
        assert "schema.json: " in world.a.gitstate(command, code=2).err
    assert len(world.a.spooled()) == 1
    world.a.commit({"schema.json": "{}\n"})
    world.a.run()
    assert len(world.calls()) == 1


def test_a_value_in_a_csv_plan_may_be_as_long_as_an_article(tmp_path: Path) -> None:
    text = "long " * 60_000
    world = World(tmp_path, plan="plan.csv", files={"plan.csv": f"slug,text\none,{text}\n"})
    world.a.run()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other limits")
@pytest.mark.parametrize("run", ["$PROVIDER {{ text }}", ["cat", "{{ text }}"]], ids=["shell", "list"])
def test_a_command_line_that_is_too_long_is_called_that(tmp_path: Path, run: object) -> None:
    items = [{"slug": "one", "text": "x" * 3_000_000}]
    world = World(tmp_path, stages={"article": {**ARTICLE, "run": run}}, items=items)
    done = world.a.run(code=1)
    assert "planning_error: The command line is too long" in done.err
    assert "standard input" in done.err


@pytest.mark.parametrize("damage", ["empty", "cut", "gone"])
def test_p6_a_damaged_note_is_not_called_a_partial_clone(finished: World, damage: str) -> None:
    a = finished.a
    oid = a.git("ls-tree", "-r", "refs/notes/gitstate").splitlines()[0].split()[2]
    path = a.path / ".git/objects" / oid[:2] / oid[2:]
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(data[: len(data) // 2 if damage == "cut" else 0])
    a.forget_state()
    done = a.run(code=3)
    assert "partial" not in done.err
    assert (str(path) if damage != "gone" else oid) in done.err
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    a.run()
    assert len(finished.calls()) == 2


def test_p6_a_damaged_output_is_found_by_verify(finished: World) -> None:
    oid = finished.a.blob("out/one.md")
    path = finished.a.path / ".git/objects" / oid[:2] / oid[2:]
    path.unlink()
    path.write_bytes(b"")
    done = here(finished.a, "verify")
    assert done.code == 1
    assert f"error: out/one.md: {path}" in done.out


def test_p6_a_ref_that_is_lost_is_not_a_ref_that_never_was(finished: World) -> None:
    a = finished.a
    a.run("--redo", "one")
    for ref in ("refs/heads/main", "refs/notes/gitstate"):
        path = a.path / ".git" / ref
        data = path.read_bytes()
        path.unlink()
        for command in (*READING, ("run",)):
            done = here(a, *command)
            assert done.code == 3
            assert ref in done.out + done.err
        path.write_bytes(data)
    a.run()
    assert len(finished.calls()) == 3


def test_p6_a_kill_before_the_first_note_leaves_a_log_and_no_ref(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = world.a.path / ".git/logs/refs/notes/gitstate"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{'0' * 40} {'1' * 40} A <a@example.org> 1 +0000\tgitstate: record\n")
    world.a.run()


def test_a_ref_that_git_deleted_is_one_that_never_was(finished: World) -> None:
    finished.a.git("update-ref", "-d", "refs/notes/gitstate")
    assert set(finished.a.states().values()) == {"pending unverified"}
    finished.a.git("switch", "-q", "--orphan", "other")
    finished.a.commit({"gitstate.yaml": finished.a.git("show", "main:gitstate.yaml")})


def test_p6_a_journal_of_a_later_format_vouches_for_no_lock(finished: World) -> None:
    a = finished.a
    tip = a.git("rev-parse", "refs/notes/gitstate")
    journal = {"format": 2, "git_dir": str(a.path / ".git"), "moves": [["refs/notes/gitstate", tip, tip]]}
    (a.state / "recording.json").write_text(json.dumps(journal))
    lock = a.path / ".git/refs/notes/gitstate.lock"
    lock.write_text(tip + "\n")
    assert str(lock) in a.run().err
    assert lock.exists()


# --- the machine -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (IsADirectoryError(21, "Is a directory", "/here/it/is"), "move it away"),
        (PermissionError(13, "Permission denied", "/here/it/is"), "read and write"),
        (OSError(28, "No space left on device", "/here/it/is"), "Make room"),
        (OSError(36, "File name too long", "/here/it/is"), "shorter"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, OSError) else "",
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_what_the_system_refuses_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    words: str,
    command: str,
) -> None:
    def refuse(_: list[str]) -> int:
        raise error

    monkeypatch.setattr("gitstate.__main__._dispatch", refuse)
    assert main([command]) == 3
    said = capsys.readouterr().err
    assert "/here/it/is" in said
    assert words in said
    assert ("spool" in said) == (command == "run")


@pytest.mark.parametrize("clock", [-1.0, OverflowError()], ids=["before 1970", "after 2262"])
def test_a_clock_that_nothing_can_be_dated_by_is_named(
    finished: World, monkeypatch: pytest.MonkeyPatch, clock: float | Exception
) -> None:
    def now() -> float:
        if isinstance(clock, Exception):
            raise clock
        return clock

    monkeypatch.setattr(time, "time", now)
    done = here(finished.a, "run")
    assert done.code == 2
    assert "clock" in done.err


def test_a_date_that_git_does_not_take_is_named(finished: World) -> None:
    done = finished.a.run("--redo", "one", code=2, GIT_AUTHOR_DATE="2100-01-01T00:00:00Z")
    assert "GIT_AUTHOR_DATE" in done.err
    assert "in whose name" not in done.err


def test_after_2099_git_shows_a_zone_that_is_none_and_results_are_recorded(
    finished: World, tmp_path: Path
) -> None:
    git = shutil.which("git")
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = var ] && echo "A <a@example.org> 4102842325 +5336802" && exit\nexec {git} "$@"\n'
    )
    fake.chmod(0o755)
    finished.a.run("--redo", "one", PATH=f"{fake.parent}{os.pathsep}{finished.environment['PATH']}")
