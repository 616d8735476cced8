"""Power cuts: what must be on the disk before the next step, and that the model of the disk is what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash import disks, powercut, supervise
from tests.crash.disks import Base, Files, Replay
from tests.crash.powercut import Traced
from tests.crash.trace import Op

needs_seccomp = pytest.mark.skipif(bool(supervise.available()), reason=supervise.available() or "-")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return powercut.trace_fresh(str(tmp_path_factory.mktemp("fresh")))


def first(traced: Traced, kind: str, words: str) -> int:
    """The number of calls before the first one of this kind whose (new) name, or what it says, has these words."""
    for number, op in enumerate(traced.replay.ops):
        if op.kind == kind and words in (op.data.decode() if kind == "say" else op.other or op.path):
            return number
    raise AssertionError(f"no {kind} {words}")


# --- what gitstate does -------------------------------------------------------------------------------------------


@needs_seccomp
def test_an_intent_is_on_the_disk_by_name_before_anything_is_paid(traced: Traced) -> None:
    left = traced.replay.cut(first(traced, "say", "one/outline"), "strict")
    # (the folders above it, too: the lock makes them, and does not force their names out)
    assert [path for path in left if path.endswith(".intent")]


@needs_seccomp
def test_p4_a_spooled_response_is_on_the_disk_by_name_with_all_its_bytes(traced: Traced) -> None:
    left = traced.replay.cut(first(traced, "say", "spooled one/article"), "strict")
    spool = {path.rpartition(".")[2]: file.content for path, file in left.items() if "/attempts/" in path}
    assert {"intent", "response-1", "response-2", "spooled"} <= spool.keys()
    assert spool["response-1"] == traced.replay.end["content/one.md"].content


@needs_seccomp
def test_what_says_that_a_response_came_is_never_without_the_response(traced: Traced) -> None:
    at = first(traced, "rename", "2.spooled") + 1
    for draw in range(60):
        left = traced.replay.cut(at, "any", f"{draw}")
        names = {path.rpartition("0001000002.")[2] for path in left if "0001000002." in path}
        assert "spooled" not in names or {"response-1", "response-2"} <= names


@needs_seccomp
def test_the_index_is_on_the_disk_under_its_name_before_a_ref_moves(traced: Traced) -> None:
    # Else a cut may keep the branch's new name and lose the index's, and the user's next commit deletes the outputs.
    at = first(traced, "rename", ".git/refs/heads/main")
    left = traced.replay.cut(at, "strict")
    assert left[".git/index"].content == traced.replay.cut(at, "kept")[".git/index"].content


@needs_seccomp
def test_every_object_is_on_the_disk_before_a_ref_names_it(traced: Traced) -> None:
    at = first(traced, "rename", ".git/refs/notes/gitstate")
    everything, left = traced.replay.cut(at, "kept"), traced.replay.cut(at, "strict")
    objects = [path for path in everything if path.startswith(".git/objects/") and "tmp_obj" not in path]
    assert len(objects) > 10
    assert not [path for path in objects if left.get(path, path) != everything[path]]


@needs_seccomp
def test_what_is_called_done_is_on_the_disk(traced: Traced, tmp_path: Path) -> None:
    for work in ("one/outline", "deep/two/article"):
        at = first(traced, "say", f"✓ {work}")
        cut = powercut.Cut(at + 1, at + 1, "strict", 0)
        folder = tmp_path / work.replace("/", "-")
        folder.mkdir()
        assert powercut.judge(traced, cut, str(folder)).bad == []


@needs_seccomp
def test_p4_a_rejected_answer_has_its_second_name_on_the_disk_before_it_loses_the_first(
    tmp_path: Path,
) -> None:
    # Else the verdict stands, the answer is gone, and a mended check has it bought again.
    replay = powercut.trace_rejected(str(tmp_path)).replay
    gone = [
        (number, op.path.rpartition("/")[2])
        for number, op in enumerate(replay.ops)
        if op.kind == "unlink" and op.path.endswith(".spooled") and "/attempts/" in op.path
    ]
    aside = {name for _, name in gone} & {
        path.rpartition("/")[2] for path in replay.end if "/rejected/" in path
    }
    assert len(aside) == 2
    for number, name in gone:
        left = replay.cut(number + 1, "strict")
        assert name not in aside or f".git/gitstate/rejected/{name}" in left


@needs_seccomp
def test_the_users_git_configuration_is_never_lost(tmp_path: Path) -> None:
    # git renames a configuration that it did not force out: the remotes were gone, and all was paid for again.
    replay = powercut.trace_pull(str(tmp_path)).replay
    changed = [n for n, op in enumerate(replay.ops) if op.other == ".git/config"]
    assert changed
    for number in changed:
        assert b"remote.git" in (replay.cut(number + 1, "ordered")[".git/config"].content or b"")


# --- what the model does ------------------------------------------------------------------------------------------


@pytest.fixture
def empty(tmp_path: Path) -> Base:
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "old").write_bytes(b"old content")
    return Base(str(folder))


def contents(files: Files) -> dict[str, bytes | None]:
    return {path: file.content for path, file in files.items()}


WRITTEN = [Op("create", "new"), Op("write", "new", offset=0, data=b"bytes"), Op("rename", "new", "old")]


def test_without_any_sync_a_journal_keeps_the_name_and_loses_the_bytes(empty: Base) -> None:
    replay = Replay(empty, WRITTEN)
    assert contents(replay.cut(3, "kept")) == {"old": b"bytes"}
    assert contents(replay.cut(3, "ordered")) == {"old": b""}
    assert contents(replay.cut(3, "strict")) == {"old": b"old content"}


def test_a_synced_file_has_its_bytes_and_its_name_needs_the_folder(empty: Base) -> None:
    synced = [*WRITTEN[:2], Op("sync", "new"), WRITTEN[2]]
    assert contents(Replay(empty, synced).cut(4, "ordered")) == {"old": b"bytes"}
    assert contents(Replay(empty, synced).cut(4, "strict")) == {"old": b"old content"}
    assert contents(Replay(empty, [*synced, Op("sync", "")]).cut(5, "strict")) == {"old": b"bytes"}


def test_syncfs_makes_everything_durable_and_nothing_after_it(empty: Base) -> None:
    replay = Replay(empty, [*WRITTEN, Op("syncfs", ""), Op("unlink", "old")])
    assert contents(replay.cut(5, "strict")) == {"old": b"bytes"}
    assert contents(replay.cut(5, "ordered")) == {}


def test_what_is_in_a_folder_that_is_lost_is_lost(empty: Base) -> None:
    ops = [Op("mkdir", "a"), Op("create", "a/b"), Op("sync", "a/b"), Op("sync", "a")]
    assert contents(Replay(empty, ops).cut(4, "strict")) == {"old": b"old content"}
    assert contents(Replay(empty, [*ops, Op("sync", "")]).cut(5, "strict"))["a/b"] == b""


def test_a_call_that_failed_changes_nothing(empty: Base) -> None:
    ops = [
        Op("create", "old", exclusive=True),
        Op("link", "gone", "x"),
        Op("link", "old", "old"),
        Op("mkdir", "no/x"),
    ]
    replay = Replay(empty, ops)
    assert replay.changes == []
    assert contents(replay.end) == {"old": b"old content"}


def test_a_second_link_is_the_same_file(empty: Base) -> None:
    ops = [
        Op("link", "old", "twin"),
        Op("write", "twin", offset=None, data=b"!"),
        Op("sync", "old"),
        Op("sync", ""),
    ]
    assert contents(Replay(empty, ops).cut(4, "strict")) == {"old": b"old content!", "twin": b"old content!"}


def test_any_keeps_all_that_is_durable_and_some_of_the_rest(empty: Base) -> None:
    ops = [*WRITTEN, Op("syncfs", ""), *(Op("create", f"f{n}") for n in range(8))]
    replay = Replay(empty, ops)
    found = [contents(replay.cut(len(ops), "any", seed=str(n))) for n in range(40)]
    assert all(disk["old"] == b"bytes" for disk in found)
    assert len({frozenset(disk) for disk in found}) > 10
    assert found[7] == contents(replay.cut(len(ops), "any", seed="7"))


def test_a_disk_written_out_reads_back_the_same(empty: Base, tmp_path: Path) -> None:
    files = Replay(empty, [*WRITTEN, Op("mkdir", "a"), Op("create", "a/b")]).end
    disks.write_out(files, os.fspath(tmp_path / "out"))
    assert disks.digest(disks.read_in(os.fspath(tmp_path / "out"))) == disks.digest(files)
