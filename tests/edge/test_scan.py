"""Looking at a working tree: everything that git could hold, nothing else, and no trouble on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitstate.edge.git import Git
from gitstate.edge.protect import ignored
from gitstate.edge.repo import find
from gitstate.edge.scan import ahead, nobodys, scan, seen
from tests.support.world import git_init


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git_init(tmp_path)
    return tmp_path


def put(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")


def test_files_and_links_are_seen_and_nothing_else(root: Path) -> None:
    put(root, "a", "deep/er/b", "nested/.git/HEAD", "nested/c", "linked/.git", "linked/d")
    (root / "link").symlink_to("deep")
    (root / "nowhere").symlink_to("/nonexistent")
    os.mkfifo(root / "pipe")
    found = scan(str(root))
    assert set(found.files) == {"a", "deep/er/b", "link", "nowhere"}
    assert found.blind == {"nested/", "linked/"}
    assert found.files["a"] == seen(str(root / "a"))


def test_names_may_hold_any_bytes(root: Path) -> None:
    names = [b"line\nbreak", b"not-utf8-\xff", b" blank ", b"-x"]
    for name in names:
        (root / os.fsdecode(name)).write_text("x")
    assert {os.fsencode(path) for path in scan(str(root)).files} == set(names)


def test_a_folder_that_cannot_be_listed_is_left_out_and_said_to_be(root: Path) -> None:
    """Deeper than a path can name: to anybody, even to the superuser, an error."""
    before = os.getcwd()
    os.chdir(root)
    try:
        for _ in range(25):
            os.mkdir("n" * 200)
            os.chdir("n" * 200)
        Path("file").write_text("x")
    finally:
        os.chdir(before)
    found = scan(str(root))
    assert not found.files
    assert len(found.blind) == 1


def test_a_root_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert scan(str(tmp_path / "gone")).files == {}
    assert seen(str(tmp_path / "gone")) is None


def test_files_of_this_machine_bear_its_time(root: Path) -> None:
    assert ahead(str(root)) == 0
    assert ahead(str(root / "gone")) == 0


def test_ignored_folders_and_gits_own_need_no_look(root: Path) -> None:
    put(root, "build/a.o", "objects/b.o", "kept/c.o", "kept/d.c", "tracked/e.o")
    (root / ".gitignore").write_text("/build/\n*.o\n/tracked/\n")
    git = Git(str(root))
    git.run("add", "-f", "tracked/e.o")
    assert nobodys(git, find(str(root))) == {"build/", ".git/"}


def test_a_git_folder_of_another_name_is_gits_own_too(tmp_path: Path) -> None:
    git_init(tmp_path / "tree", "sha1", f"--separate-git-dir={tmp_path / 'tree' / 'gitdata'}")
    root = str(tmp_path / "tree")
    assert set(scan(root, nobodys(Git(root), find(root))).files) == set()


def test_what_git_will_not_speak_about_is_not_ignored_and_hides_no_other(root: Path) -> None:
    put(root, "real/x", "a.log", "tracked.log")
    (root / "link").symlink_to("real")
    (root / ".gitignore").write_text("*.log\n!kept.log\n")
    git = Git(str(root))
    git.run("add", "-f", "tracked.log")
    paths = ["link/x.log", "a.log", "b\n.log", "tracked.log", "real/x", os.fsdecode(b"\xff.log"), "kept.log"]
    assert ignored(git, paths) == {"a.log", "b\n.log", os.fsdecode(b"\xff.log")}
    assert ignored(git, []) == set()
