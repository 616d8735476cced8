"""Moving index and working tree: whole files, the user's things untouched, and a killed move finished."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from gitstate.edge import worktree
from gitstate.edge.disk import Barrier
from gitstate.errors import ComeBackLater, GitstateError, NeedsHuman
from tests.support.clones import ENVIRONMENT, Bare, Clone


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """On commit `old`; `new` changes, adds, removes and renames, and turns files into folders and links."""
    made = Bare(tmp_path / "remote.git").clone("clone")
    for path in ("keep", "change", "remove", "own", "file", "folder/x"):
        made.write(path, f"old {path}\n")
    made.write("script", "#!/bin/sh\n")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "old")
    made.git("tag", "old")
    made.write("change", "new change\n")
    made.write("added/deep/a", "new a\n")
    made.git("rm", "-q", "remove", "file", "folder/x")
    made.write("file/below", "new below\n")
    made.write("folder", "new folder\n")
    (made.path / "script").chmod(0o755)
    (made.path / "link").symlink_to("keep")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "new")
    made.git("tag", "new")
    made.git("reset", "-q", "--hard", "old")
    return made


def move(clone: Clone, old: str = "old", new: str = "new") -> None:
    worktree.move(clone.plumbing, clone.repository, clone.objects, old, new)


def arrived(clone: Clone) -> bool:
    """Whether index and working tree are exactly `new`."""
    return clone.git("diff", "--cached", "new") == clone.git("diff", "new") == ""


def test_everything_that_differs_follows(clone: Clone) -> None:
    move(clone)
    assert arrived(clone)
    assert clone.shown()["added/deep/a"] == "new a\n"
    assert os.readlink(clone.path / "link") == "keep"
    assert os.access(clone.path / "script", os.X_OK)
    assert [path.name for path in (clone.path / ".git" / "gitstate").iterdir()] == ["lock-owner"]


def test_p9_local_edits_staged_changes_and_untracked_files_elsewhere_stay(clone: Clone) -> None:
    clone.write("own", "edited\n")
    clone.write("keep", "staged\n")
    clone.git("add", "keep")
    clone.write("untracked", "mine\n")
    move(clone)
    clone.git("update-ref", "HEAD", "new")
    assert clone.status() == "M  keep\n M own\n?? untracked"


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("path", ["change", "remove", "added/deep/a", "link"])
def test_p5_what_is_in_the_way_stops_it_before_anything_moves(clone: Clone, path: str, staged: bool) -> None:
    clone.write(path, "mine\n")
    if staged:
        clone.git("add", path)
    before = clone.status(), clone.shown()
    with pytest.raises(NeedsHuman, match=path):
        move(clone)
    assert (clone.status(), clone.shown()) == before


def test_a_staged_change_alone_is_in_the_way_too(clone: Clone) -> None:
    clone.write("change", "mine\n")
    clone.git("add", "change")
    clone.write("change", "old change\n")
    with pytest.raises(NeedsHuman, match="change"):
        move(clone)


def test_all_that_is_in_the_way_is_named(clone: Clone) -> None:
    clone.write("change", "mine\n")
    clone.write("remove", "mine\n")
    with pytest.raises(NeedsHuman, match="change, remove"):
        move(clone)


def test_a_file_that_is_already_as_it_comes_is_no_obstacle(clone: Clone) -> None:
    clone.write("added/deep/a", "new a\n")
    clone.write("change", "new change\n")
    (clone.path / "link").symlink_to("keep")
    (clone.path / "remove").unlink()
    move(clone)
    assert arrived(clone)


def test_a_file_touched_but_not_changed_is_no_obstacle(clone: Clone) -> None:
    os.utime(clone.path / "change", (1, 1))
    clone.git("update-index", "--cacheinfo", f"100644,{clone.tip('old:remove')},remove")
    move(clone)
    assert arrived(clone)


def test_a_folder_of_the_user_s_in_the_place_of_a_file_is_in_the_way(clone: Clone) -> None:
    clone.write("link/mine", "mine\n")
    with pytest.raises(NeedsHuman, match="link"):
        move(clone)
    assert clone.shown()["link/mine"] == "mine\n"


def test_nothing_is_written_through_a_symlinked_folder(clone: Clone, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (clone.path / "added").symlink_to(outside)
    with pytest.raises(NeedsHuman):
        move(clone)
    assert not list(outside.iterdir())


def test_line_endings_of_the_checkout_are_kept(clone: Clone) -> None:
    clone.git("config", "core.autocrlf", "true")
    clone.git("rm", "-q", "-r", "--cached", ".")
    clone.git("reset", "-q", "--hard", "old")
    move(clone)
    assert (clone.path / "added/deep/a").read_bytes() == b"new a\r\n"
    assert (clone.path / "change").read_bytes() == b"new change\r\n"
    assert arrived(clone)


def test_attributes_that_come_along_apply_to_what_comes_with_them(clone: Clone) -> None:
    clone.git("reset", "-q", "--hard", "new")
    clone.write(".gitattributes", "*.win text eol=crlf\n")
    clone.write("a.win", "one\n")
    clone.git("add", "-A")
    clone.git("commit", "-q", "-m", "newer")
    clone.git("tag", "newer")
    clone.git("reset", "-q", "--hard", "old")
    move(clone, new="newer")
    assert (clone.path / "a.win").read_bytes() == b"one\r\n"
    assert clone.git("diff", "newer") == ""


def test_a_sparse_checkout_stays_sparse(clone: Clone) -> None:
    clone.git("sparse-checkout", "set", "--no-cone", "/*", "!/added/")
    move(clone)
    assert not (clone.path / "added").exists()
    assert clone.shown()["change"] == "new change\n"
    assert clone.git("diff", "--cached", "new") == ""


def test_an_index_that_somebody_holds_is_something_to_come_back_for(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worktree, "PATIENCE", 0.1)
    lock = clone.path / ".git" / "index.lock"
    lock.touch()
    with pytest.raises(ComeBackLater, match=r"index\.lock"):
        move(clone)
    lock.unlink()
    move(clone)
    assert arrived(clone)


class Killed(Exception):
    """Stands for a SIGKILL between two steps."""


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("step", ["link", "rename"])
def test_p1_a_move_killed_between_two_files_shows_whole_files_and_is_finished_by_the_next(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, at: int, step: str
) -> None:
    real, calls = getattr(os, step), []

    def dies(*arguments: object, **options: object) -> None:
        calls.append(arguments)
        if len(calls) > at:
            raise Killed
        real(*arguments, **options)

    monkeypatch.setattr(os, step, dies)
    # With `rename`, pretend that the file system knows no links.
    if step == "rename":
        monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(PermissionError()))
    with contextlib.suppress(Killed):
        move(clone)
    monkeypatch.undo()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    whole = {f"{when} {path}\n" for when in ("old", "new") for path in clone.shown()}
    whole |= {"#!/bin/sh\n", "new a\n", "new below\n", "old folder/x\n", "old keep\n"}
    assert set(clone.shown().values()) <= whole
    move(clone)
    assert arrived(clone)


def test_an_edit_between_the_look_and_the_rename_is_not_replaced(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Barrier.flush

    def edits(barrier: Barrier) -> None:
        real(barrier)
        clone.write("change", "typed just now\n")
        clone.write("added/deep/a", "typed just now\n")

    monkeypatch.setattr(Barrier, "flush", edits)
    with pytest.raises(GitstateError):
        move(clone)
    assert clone.shown()["change"] == clone.shown()["added/deep/a"] == "typed just now\n"


def test_nothing_is_moved_when_nothing_differs(clone: Clone) -> None:
    move(clone, "old", "old")
    assert clone.status() == ""
