"""What a clone stands on: its own notes, those that a plain pull brought, and never a silent nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitstate.edge.cache import Cache
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import LOG, RECEIPTS, find
from gitstate.edge.tips import Tips, own, tips
from gitstate.errors import CorruptState

TRACKED = "refs/gitstate-remote/origin/notes"


class Clone:
    def __init__(self, root: Path) -> None:
        subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
        self.root = root
        self.git("config", "user.name", "A")
        self.git("config", "user.email", "a@x")
        self.git("commit", "-q", "--allow-empty", "-m", "start")
        self.cache = Cache(str(root / "cache"))

    def git(self, *arguments: str) -> str:
        return Git(str(self.root)).text(*arguments)

    def note(self, ref: str, text: str, blob: str = "1" * 40) -> None:
        self.git("notes", f"--ref={ref}", "append", "-m", text, blob)

    def objects(self) -> Objects:
        return Objects(Git(str(self.root)), find(str(self.root)))

    def tips(self) -> Tips:
        repository = find(str(self.root))
        git = Git(str(self.root))
        objects = self.objects()
        try:
            return tips(repository, git, objects, self.cache)
        finally:
            objects.close()

    def lines(self, tree: str | None) -> set[str]:
        names = self.git("ls-tree", "-r", "--name-only", str(tree)).split()
        return {
            line
            for name in names
            for line in self.git("cat-file", "-p", f"{tree}:{name}").split("\n")
            if line
        }


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "c")


def track(clone: Clone, *texts: str) -> None:
    """What `git pull` with the refspec that `init` adds leaves behind."""
    for text in texts:
        clone.note("refs/notes/scratch", text)
    clone.git("update-ref", TRACKED, "refs/notes/scratch")


def test_without_notes_there_are_none(clone: Clone) -> None:
    assert clone.tips()[1:4] == (None, None, ())


def test_p3_what_a_pull_brought_counts_before_anything_merged_it(clone: Clone) -> None:
    track(clone, "theirs")
    assert clone.lines(clone.tips().receipts) == {"theirs"}
    assert clone.git("for-each-ref", RECEIPTS) == ""


def test_p3_own_and_fetched_lines_are_read_together_and_refs_stay_as_they_are(clone: Clone) -> None:
    track(clone, "theirs")
    clone.note(RECEIPTS, "ours")
    before = clone.git("for-each-ref")
    first = clone.tips()
    assert clone.lines(first.receipts) == {"ours", "theirs"}
    assert clone.git("for-each-ref") == before
    assert clone.tips() == first
    (clone.root / "cache" / "unions").unlink()
    assert clone.tips() == first


def test_what_was_merged_before_is_not_merged_again(clone: Clone) -> None:
    clone.note(RECEIPTS, "one")
    clone.git("update-ref", TRACKED, RECEIPTS)
    clone.note(RECEIPTS, "two")
    assert clone.tips().receipts == clone.git("rev-parse", f"{RECEIPTS}^{{tree}}")


@pytest.mark.parametrize("ref", [RECEIPTS, LOG])
@pytest.mark.parametrize(
    "content", ["", "garbage\n", "\0" * 41, "ref: refs/heads/nowhere\n", "1" * 40 + "\n"]
)
def test_p6_a_notes_ref_that_cannot_be_read_is_not_no_receipts(clone: Clone, ref: str, content: str) -> None:
    clone.note(ref, "ours")
    (clone.root / ".git" / ref).write_text(content)
    with pytest.raises(CorruptState, match=ref.rpartition("/")[2]):
        clone.tips()


@pytest.mark.parametrize("content", ["", "garbage\n", "1" * 40 + "\n"], ids=["empty", "garbage", "gone"])
def test_p6_a_fetched_ref_that_cannot_be_read_is_for_sync_to_fetch_again(clone: Clone, content: str) -> None:
    track(clone, "theirs")
    (clone.root / ".git" / TRACKED).write_text(content)
    with pytest.raises(CorruptState) as caught:
        clone.tips()
    assert "gitstate sync" in caught.value.hint
    own(find(str(clone.root)), Git(str(clone.root)), clone.objects())  # what syncing builds on is whole


def test_p6_the_way_out_works(clone: Clone) -> None:
    clone.note(RECEIPTS, "ours")
    tip = clone.git("rev-parse", RECEIPTS)
    (clone.root / ".git" / "logs" / "refs" / "notes").mkdir(parents=True, exist_ok=True)
    (clone.root / ".git" / RECEIPTS).write_text("garbage\n")
    (clone.root / ".git" / RECEIPTS).unlink()
    clone.git("update-ref", RECEIPTS, tip)
    assert clone.lines(clone.tips().receipts) == {"ours"}
