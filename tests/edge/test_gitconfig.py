"""Changing the user's git configuration: durably, under git's own lock, and with a lock that says whose it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gitstate.edge import gitconfig, index
from gitstate.edge.git import Git
from gitstate.edge.refs import clear_stale_locks
from gitstate.edge.repo import Repository, find
from gitstate.errors import ComeBackLater


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    subprocess.run(("git", "init", "-q", os.fspath(tmp_path / "repo")), check=True)
    return find(os.fspath(tmp_path / "repo"))


def test_a_change_is_in_the_file_and_everything_else_is_as_it_was(repository: Repository) -> None:
    config = Path(repository.common_dir, "config")
    config.write_text(config.read_text() + "# a comment of the user's\n[alias]\n\tst = status\n")
    config.chmod(0o640)
    git = Git(repository.root)
    gitconfig.change(git, "--add", "some.key", "one")
    gitconfig.change(git, "--add", "some.key", "two")
    assert git.text("config", "--get-all", "some.key") == "one\ntwo"
    assert "# a comment of the user's\n[alias]\n\tst = status\n" in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o640
    assert not [name for name in os.listdir(repository.common_dir) if "config" in name and name != "config"]


def test_somebody_elses_lock_is_waited_for_and_then_named(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "PATIENCE", 0.05)
    lock = Path(repository.common_dir, "config.lock")
    lock.write_text("")
    with pytest.raises(ComeBackLater, match=r"config\.lock"):
        gitconfig.change(Git(repository.root), "--add", "some.key", "one")
    assert lock.exists()
    assert any(str(lock) in sentence for sentence in clear_stale_locks(repository).left)
    assert lock.exists()


def test_the_lock_that_a_killed_run_of_ours_left_is_cleared(repository: Repository) -> None:
    lock = Path(repository.common_dir, "config.lock")
    os.link(index.owner_file(repository.state), lock)
    Path(repository.common_dir, "gitstate-config").write_text("half")
    found = clear_stale_locks(repository)
    assert str(lock) in found.removed
    assert found.left == []
    assert sorted(name for name in os.listdir(repository.common_dir) if "config" in name) == ["config"]


def test_a_linked_worktree_changes_the_configuration_of_all(repository: Repository, tmp_path: Path) -> None:
    git = Git(repository.root)
    git.run("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    git.run("worktree", "add", "-q", os.fspath(tmp_path / "linked"))
    gitconfig.change(Git(os.fspath(tmp_path / "linked")), "--add", "some.key", "one")
    assert git.text("config", "--local", "--get", "some.key") == "one"
