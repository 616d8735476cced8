"""`gitstate doctor` tries the real thing and says what it saw."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitstate.edge import probe
from gitstate.edge.git import Git
from gitstate.edge.lock import Lock
from tests.support import hosts
from tests.support.clones import Bare, git


def doctor(clone: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gitstate", "doctor", *flags]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)


@contextlib.contextmanager
def elsewhere(clone: Path) -> Iterator[Path]:
    """A linked worktree of a clone on another file system, where this machine has one."""
    other = "/dev/shm"
    if not os.access(other, os.W_OK) or os.stat(other).st_dev == clone.stat().st_dev:
        pytest.skip("no second file system here")
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "first"], cwd=clone, check=True)
    with tempfile.TemporaryDirectory(dir=other) as folder:
        place = Path(folder) / "w"
        subprocess.run(["git", "worktree", "add", "-q", place], cwd=clone, check=True, capture_output=True)
        yield place


def tried(folder: Path) -> list[probe.Found]:
    return probe.file_system(str(folder / "git"), str(folder))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main", tmp_path / "c"], check=True)
    return tmp_path / "c"


def test_a_healthy_clone_passes_and_nothing_is_left_behind(clone: Path) -> None:
    done = doctor(clone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NO" not in done.stdout.split()
    assert os.listdir(clone / ".git" / "gitstate") == []


def test_the_answer_in_json_names_each_probe(clone: Path) -> None:
    found = json.loads(doctor(clone, "--json").stdout)["found"]
    assert {"git", "rename over a file", "lock between processes", "fsync of a folder", "remote"} <= {
        each["name"] for each in found
    }


def test_a_remote_out_of_reach_is_said_and_is_no_failure(clone: Path) -> None:
    subprocess.run(["git", "remote", "add", "origin", str(clone / "gone")], cwd=clone, check=True)
    done = doctor(clone)
    assert done.returncode == 0
    assert "origin" in done.stdout


def test_p1_a_file_system_without_locks_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    broken = [each.name for each in probe.broken(tried(tmp_path))]
    assert broken == ["lock between processes"]


def test_p1_locks_that_hold_nobody_off_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    (found,) = probe.broken(tried(tmp_path))
    assert "given a second time" in found.words
    assert "`run` refuses" in found.words


def test_a_folder_that_cannot_be_flushed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(probe.os, "fsync", refuse)
    words = {each.name: each for each in tried(tmp_path)}["fsync of a folder"]
    assert words.works is None
    assert "power cut" in words.words


def test_a_folder_whose_flush_fails_otherwise_is_no_place_for_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.fsync

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    broken = [each.name for each in probe.broken(tried(tmp_path))]
    assert broken == ["rename over a file", "rename without replacing", "fsync of a folder"]


def test_a_working_tree_on_another_file_system_is_tried_too(clone: Path) -> None:
    found = json.loads(doctor(clone, "--json").stdout)["found"]
    assert not [each["name"] for each in found if "working tree" in each["name"]], "it is on the same one"
    with elsewhere(clone) as place:
        found = json.loads(doctor(place, "--json").stdout)["found"]
        assert {"rename over a file (working tree)", "fsync of a folder (working tree)"} <= {
            each["name"] for each in found
        }
        assert os.listdir(place) == [".git"]


def test_p5_what_goes_wrong_in_the_working_tree_leaves_nothing_behind(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with elsewhere(clone) as place:
        (place / "mine").write_text("by hand")

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "replace", refuse)
        found = probe.file_system(str(clone / ".git" / "gitstate"), str(place))
        assert [each.name for each in probe.broken(found)] == [
            "rename over a file",
            "rename over a file (working tree)",
        ]
        assert sorted(os.listdir(place)) == [".git", "mine"]
        assert (place / "mine").read_text() == "by hand"


def test_a_place_where_nothing_can_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "git").write_text("a file in the way")
    (found,) = probe.file_system(str(tmp_path / "git"), str(tmp_path))
    assert found.works is False
    assert "nothing can be recorded" in found.words


def test_a_git_that_is_too_old_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.30.2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    found = probe.git_version(Git(str(tmp_path)))
    assert found.works is False
    assert "2.36" in found.words


def test_the_lock_of_a_run_is_not_disturbed(clone: Path) -> None:
    with Lock.acquire(str(clone / ".git" / "gitstate")):
        done = doctor(clone)
        assert "A run is going on here." in done.stdout
    assert done.returncode == 0


def remote_of(clone: Path) -> Bare:
    bare = Bare(clone.parent / "remote.git")
    subprocess.run(["git", "remote", "add", "origin", str(bare.path)], cwd=clone, check=True)
    return bare


def test_what_the_remote_takes_is_tried_and_nothing_is_left_there(clone: Path) -> None:
    bare = remote_of(clone)
    found = {each["name"]: each for each in json.loads(doctor(clone, "--json").stdout)["found"]}
    for name in "remote", "notes", "all or nothing", "leases", "deleting refs":
        assert found[name]["works"] is True, found[name]
    assert git(bare.path, "for-each-ref") == ""


@pytest.mark.parametrize(
    ("spec", "works"),
    [
        ("+refs/notes/*:refs/notes/*", False),
        ("+refs/notes/gitstate:refs/notes/gitstate", False),
        ("+refs/*:refs/*", False),
        ("refs/notes/*:refs/notes/*", None),
        ("+refs/notes/*:refs/notes-of-others/*", None),
    ],
)
def test_a_refspec_by_which_git_fetch_throws_away_receipts_is_found_with_the_way_out(
    clone: Path, spec: str, works: bool | None
) -> None:
    remote_of(clone)
    subprocess.run(["git", "config", "--add", "remote.origin.fetch", spec], cwd=clone, check=True)
    done = doctor(clone, "--json")
    found = {each["name"]: each for each in json.loads(done.stdout)["found"]}
    if works is None:
        assert "git fetch" not in found
        return
    assert (found["git fetch"]["works"], done.returncode) == (False, 1)
    way_out = found["git fetch"]["words"].partition(": ")[2]
    subprocess.run(way_out, shell=True, cwd=clone, check=True)
    assert doctor(clone).returncode == 0


def test_a_remote_that_takes_only_branches_is_said_and_is_no_failure(clone: Path) -> None:
    hosts.in_parts(remote_of(clone).path)
    done = doctor(clone, "--json")
    assert done.returncode == 0
    found = {each["name"]: each for each in json.loads(done.stdout)["found"]}
    assert found["notes"]["works"] is None
    assert "branches below gitstate/" in found["notes"]["words"]
    assert found["leases"]["works"] is None
    assert "--shard" in found["leases"]["words"]
    assert found["deleting refs"]["works"] is True


def test_offline_no_remote_is_asked(clone: Path) -> None:
    bare = remote_of(clone)
    hosts.limited(bare.path, 0)
    done = doctor(clone, "--offline")
    assert done.returncode == 0
    assert "origin" not in done.stdout
    assert not (bare.path / "pushes").exists()
