"""Worktrees of our own: patches that no setting changes, and recovery of what was cut short."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from gitstate.edge.git import Git
from gitstate.edge.process import Job, Result
from gitstate.edge.repo import find
from gitstate.edge.workspace import Interrupted, Worktrees, place
from gitstate.errors import GitFailed, UsageError
from tests.support.world import git_init

ENDED = Result("exit", 0, None, (b"talk\n",), (), "talk\n", "", 1.0)
NAME = "20260102T030405-0011223344"


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, (arguments, done.stderr)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A Writer")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "writer@example.org")
    path = tmp_path / "a clone"
    git_init(path)
    for name, text in (
        ("a.txt", "1\n2\n3\n4\n5\n6\n7\n\n9\n"),
        ("ü.txt", "u\n"),
        ("m.py", "def f():\n    pass\n"),
    ):
        (path / name).write_text(text)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "Begin")
    return path


def worktrees(clone: Path) -> Worktrees:
    repository = find(str(clone))
    os.makedirs(os.path.join(repository.state, "scratch"), exist_ok=True)
    return Worktrees(Git(repository.root), repository)


def job(clone: Path, name: str = NAME, base: str = "HEAD") -> Job:
    repository = find(str(clone))
    where = place(
        repository,
        "worktree",
        name,
        git(clone, "rev-parse", "--verify", "-q", base) if base == "HEAD" else base,
    )
    scratch = os.path.join(repository.state, "scratch")
    return Job(("true",), env=where.env, cwd=where.cwd, scratch_parent=scratch)


def patch_of(clone: Path, changes: str) -> bytes:
    """The patch of what a shell command changes."""
    todo = job(clone)
    with worktrees(clone).of(todo, threading.Event()) as worktree:
        assert worktree is not None
        subprocess.run(changes, shell=True, cwd=todo.cwd, check=True, capture_output=True)
        (patch,) = worktree.answer(ENDED).outputs
    return patch


def listed(clone: Path) -> int:
    return git(clone, "worktree", "list", "--porcelain").count("worktree ")


CHANGES = "sed -i s/1/one/ a.txt; echo 10 >> a.txt; echo v >> ü.txt; git mv m.py n.py; printf 'x\\0y' > b"


def test_no_setting_and_no_variable_changes_a_patch(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = patch_of(clone, CHANGES)
    assert plain.count(b"diff --git ") == 5
    for name, value in (
        ("diff.noprefix", "true"), ("diff.mnemonicPrefix", "true"), ("diff.context", "1"), ("color.ui", "always"),
        ("diff.external", "false"), ("diff.renames", "copies"), ("diff.algorithm", "patience"),
        ("diff.suppressBlankEmpty", "true"), ("diff.interHunkContext", "9"), ("core.quotePath", "false"),
        ("diff.own.textconv", "cat"), ("diff.own.command", "false"), ("diff.own.binary", "true"),
        ("core.abbrev", "5"), ("diff.ignoreSubmodules", "all"), ("diff.wordRegex", "."), ("core.splitIndex", "true"),
        ("core.untrackedCache", "true"), ("core.trustctime", "false"), ("core.checkStat", "minimal"),
        ("core.ignoreStat", "true"), ("core.safecrlf", "true"), ("init.templateDir", "/nowhere"),
        ("index.version", "4"), ("core.fsmonitor", "false"), ("worktree.guessRemote", "true"),
    ):  # fmt: skip
        git(clone, "config", name, value)
    (clone / ".git" / "info" / "attributes").write_text("*.txt diff=own\n*.py -diff\n")
    monkeypatch.setenv("GIT_DIFF_OPTS", "-u0")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    config = (clone / ".git" / "config").read_bytes()
    assert patch_of(clone, CHANGES) == plain
    assert (clone / ".git" / "config").read_bytes() == config


def test_a_patch_leaves_no_objects_behind(clone: Path) -> None:
    before = git(clone, "count-objects")
    assert patch_of(clone, "echo new > new.txt")
    assert git(clone, "count-objects") == before


def test_a_change_of_equal_size_in_the_same_instant_is_seen(clone: Path) -> None:
    for _ in range(5):
        assert b"+X" in patch_of(clone, "printf '1\\n2\\n3\\n4\\nX\\n6\\n7\\n\\n9\\n' > a.txt")


def test_a_file_and_a_folder_may_change_places(clone: Path) -> None:
    patch = patch_of(clone, "rm a.txt; mkdir a.txt; echo x > a.txt/x; rm ü.txt; ln -s a.txt ü.txt")
    assert b"+++ b/a.txt/x" in patch
    assert b"new file mode 120000" in patch


def test_an_ignored_file_that_was_added_may_become_a_folder(clone: Path) -> None:
    (clone / ".git" / "info" / "exclude").write_text("*.log\n")
    patch = patch_of(
        clone, "echo x > x.log; echo y > y.log; git add -f x.log y.log; rm x.log; mkdir x.log; touch x.log/z"
    )
    assert b"b/y.log" in patch
    assert b"b/x.log" not in patch


def test_a_submodule_stays_as_it_is(clone: Path, tmp_path: Path) -> None:
    git_init(tmp_path / "lib")
    (tmp_path / "lib" / "l").write_text("l\n")
    git(tmp_path / "lib", "add", "l")
    git(tmp_path / "lib", "commit", "-q", "-m", "l")
    git(clone, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "lib"), "lib")
    git(clone, "commit", "-q", "-m", "lib")
    git(clone, "config", "submodule.recurse", "true")
    patch = patch_of(clone, 'test -z "$(ls lib)"; echo more >> a.txt')
    assert patch.count(b"diff --git") == 1


def test_an_answer_too_large_says_so(clone: Path) -> None:
    todo = job(clone)._replace(max_bytes=100)
    with worktrees(clone).of(todo, threading.Event()) as worktree:
        assert worktree is not None
        Path(str(todo.cwd), "big").write_text("0123456789\n" * 100)
        result = worktree.answer(ENDED)
    assert (result.ended_by, result.outputs) == ("too_large", ())


def test_what_cannot_be_taken_is_an_output_that_did_not_come(clone: Path) -> None:
    todo = job(clone)
    with worktrees(clone).of(todo, threading.Event()) as worktree:
        assert worktree is not None
        shutil.rmtree(clone / ".git" / "objects" / git(clone, "rev-parse", "HEAD")[:2])
        Path(str(todo.cwd), "new").write_text("x\n")
        result = worktree.answer(ENDED)
    assert result.missing == (1,)
    assert "what it changed cannot be taken" in result.stderr
    assert listed_entries(clone) == []


def listed_entries(clone: Path) -> list[str]:
    folder = clone / ".git" / "worktrees"
    return sorted(os.listdir(folder)) if folder.exists() else []


# --- making and clearing ------------------------------------------------------------------------------------------


def test_a_worktree_of_a_commit_that_is_not_there_is_an_error_that_says_so(clone: Path) -> None:
    todo = job(clone, base="0" * 40)
    no = pytest.raises(GitFailed, match="No worktree can be made at 00000")
    with no, worktrees(clone).of(todo, threading.Event()):
        pass
    assert (listed(clone), listed_entries(clone)) == (1, [])
    with pytest.raises(UsageError, match="no commit yet"):
        place(find(str(clone)), "worktree", NAME, None)


def test_an_end_that_is_asked_for_while_one_is_made_is_no_error(clone: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Interrupted), worktrees(clone).of(job(clone, base="0" * 40), cancel):
        pass


def test_a_checkout_without_files_has_changes_too(clone: Path) -> None:
    git(clone, "rm", "-q", "-r", ".")
    git(clone, "commit", "-q", "-m", "Empty")
    assert b"+++ b/new" in patch_of(clone, "echo x > new")


def left(clone: Path, name: str = NAME) -> tuple[Path, Path]:
    """A worktree as a run that was killed leaves it: its folder, and git's entry."""
    path = Path(str(job(clone, name).cwd))
    path.parent.mkdir(parents=True, exist_ok=True)
    git(clone, "worktree", "add", "-q", "--detach", str(path), "HEAD")
    return path, clone / ".git" / "worktrees" / name


@pytest.mark.parametrize(
    "cut",
    [
        lambda folder, entry: None,
        lambda folder, entry: shutil.rmtree(folder),
        lambda folder, entry: shutil.rmtree(entry),
        lambda folder, entry: (entry / "gitdir").unlink(),
        lambda folder, entry: (entry / "gitdir").write_bytes(b"\0" * 40),
        lambda folder, entry: [path.unlink() for path in entry.iterdir() if path.is_file()],
        lambda folder, entry: [
            (entry / name).write_text("") for name in ("locked", "index.lock", "HEAD.lock")
        ],
        lambda folder, entry: (folder / ".git").unlink(),
        lambda folder, entry: shutil.rmtree(folder.parent.parent),
    ],
)
def test_what_a_dead_run_left_is_removed_in_whatever_state(clone: Path, cut: object) -> None:
    git(clone, "worktree", "add", "-q", "-b", "side", str(clone.parent / "side"))
    folder, entry = left(clone)
    assert listed(clone) == 3
    cut(folder, entry)  # type: ignore[operator]
    worktrees(clone).clear()
    assert (listed(clone), listed_entries(clone), folder.exists()) == (2, ["side"], False)
    worktrees(clone).clear()


def test_a_clone_that_was_moved_or_copied_is_cleared_too(clone: Path) -> None:
    left(clone)
    copy = clone.parent / "copy"
    shutil.copytree(clone, copy, symlinks=True)
    worktrees(copy).clear()
    assert (listed(copy), listed_entries(copy)) == (1, [])
    assert listed(clone) == 2  # its own is not the copy's to remove
    moved = clone.rename(clone.parent / "moved")
    worktrees(moved).clear()
    assert (listed(moved), listed_entries(moved)) == (1, [])


def test_a_worktree_of_the_users_is_never_taken_for_ours(clone: Path) -> None:
    mine = clone.parent / "gitstate" / "worktrees" / "mine"
    git(clone, "worktree", "add", "-q", "--detach", str(mine))
    away = clone.parent / "gitstate" / "worktrees" / "away"
    git(clone, "worktree", "add", "-q", "--detach", str(away))
    shutil.rmtree(away)  # on a disk that is not mounted, say
    left(clone)
    worktrees(clone).clear()
    assert listed_entries(clone) == ["away", "mine"]
    assert (mine / "a.txt").exists()
