"""`gitstate demo`: the whole story holds on any machine, and a claim that does not hold ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitstate.commands import demo as command
from gitstate.commands.demo import demo
from gitstate.commands.demo_world import Ended, FalseClaim, World
from gitstate.errors import UsageError

# Settings that people have, each of which has broken a script that makes repositories.
HOSTILE = """
[commit]
    gpgsign = true
[init]
    defaultBranch = odd/name
[core]
    hooksPath = HOOKS
    autocrlf = true
[clone]
    defaultRemoteName = elsewhere
[push]
    default = nothing
[protocol "file"]
    allow = never
[user]
    useConfigOnly = true
"""


def test_the_story_holds_whatever_git_is_set_to(tmp_path: Path) -> None:
    home, hooks, place = tmp_path / "home", tmp_path / "hooks", tmp_path / "a folder with spaces" / "demo"
    home.mkdir()
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "pre-push", "post-checkout"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(HOSTILE.replace("HOOKS", str(hooks)))
    names = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME")
    env = {name: value for name, value in os.environ.items() if name not in names}
    env.update(HOME=str(home), GIT_DIR=str(home), LC_ALL="POSIX", TZ="Asia/Kolkata", PYTHONSAFEPATH="1")
    done = subprocess.run(
        (sys.executable, "-m", "gitstate", "demo", str(place)),
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "16 claims, all of them checked" in done.stdout
    assert "✗" not in done.stdout
    assert sorted(os.listdir(place)) == ["A", "B", "ledger.txt", "remote.git", "transcript.txt"]
    assert (place / "transcript.txt").read_text(encoding="utf-8").strip() == done.stdout.strip()
    # What it leaves is to be used by hand, under those settings.
    del env["GIT_DIR"]
    subprocess.run(
        ("git", "commit", "-q", "--allow-empty", "-m", "by hand"), cwd=place / "A", env=env, check=True
    )


def test_a_claim_that_does_not_hold_ends_it_and_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        command, "_plan", lambda world, name: {"summary": {"total": 24, "done": 1}, "work": []}
    )
    assert demo(str(tmp_path / "demo")) == 1
    out = capsys.readouterr().out
    assert "✗ The plan knows 24 works, none is done" in out
    assert f"Look into {tmp_path / 'demo'}" in out
    assert "2. A runs" not in out


def test_a_command_that_fails_is_a_false_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(str(tmp_path))
    with pytest.raises(FalseClaim, match="should end in 0, and ended in 3"):
        world.run("", "echo trouble; exit 3", quiet=True)
    world.close()
    assert "trouble" in capsys.readouterr().out


def test_a_killed_command_shows_the_signal(tmp_path: Path) -> None:
    world = World(str(tmp_path))
    running = world.start("", "sleep 60 && true")
    assert running.kill() == -9
    assert running.wait() == Ended(-9, "")
    world.close()


def test_p5_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(UsageError, match="not empty"):
        demo(str(tmp_path))
    assert os.listdir(tmp_path) == ["mine"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(UsageError, match="cannot be used"):
        demo(str(tmp_path / "mine"))
