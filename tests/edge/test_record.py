"""Recording: the order, what it leaves alone, what it survives, and what a kill leaves behind."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitstate.edge import index, record
from gitstate.edge.child import Child
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.record import Moved, Record, Recorder
from gitstate.edge.refs import Move, Refs, clear_stale_locks
from gitstate.edge.repo import LOG, RECEIPTS, find
from gitstate.edge.tree import TreeConflict
from gitstate.errors import ComeBackLater, CorruptState, GitFailed, NeedsHuman, UsageError

MAIN = "refs/heads/main"


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
        monkeypatch.delenv(name, raising=False)


class Clone:
    """A repository with a user in it, and a recorder."""

    def __init__(self, root: Path, object_format: str = "sha1", *, unborn: bool = False) -> None:
        if not root.exists():
            subprocess.run(
                ["git", "init", "-q", "-b", "main", f"--object-format={object_format}", str(root)], check=True
            )
        self.root = root
        self.git = Git(str(root))
        self.git.run("config", "user.name", "A U Thor")
        self.git.run("config", "user.email", "a@example.invalid")
        if not unborn:
            self.commit({"README": "hello\n"}, "start")
        self.repository = find(str(root))
        self.objects = Objects(self.git, self.repository)
        self._recorders: list[Recorder] = []

    def recorder(self, branch: str | None = MAIN, checked_out: bool = True) -> Recorder:
        made = Recorder(self.git, self.repository, self.objects, branch, checked_out)
        self._recorders.append(made)
        return made

    def write(self, path: str, content: str | bytes) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, files: dict[str, str], message: str) -> None:
        for path, content in files.items():
            self.write(path, content)
        self.git.run("add", "--", *files)
        self.git.run("commit", "-q", "-m", message, "--", *files)

    def of(self, *paths: str, subject: str = "Record", log: bool = False) -> Record:
        """A record of these files as they stand in the working tree."""
        blobs = [self.objects.write("blob", (self.root / path).read_bytes()) for path in paths]
        lines = {
            blob: [b'{"work":"' + path.encode() + b'"}'] for path, blob in zip(paths, blobs, strict=True)
        }
        outputs = {path: ("100644", blob) for path, blob in zip(paths, blobs, strict=True)}
        trailers = [f"Gitstate-Work: {path}/make@0123456789ab" for path in paths]
        return Record(outputs, lines, lines if log else {}, subject, trailers)

    def out(self, *args: str) -> str:
        return self.git.run(*args).out.decode()

    def status(self) -> list[str]:
        return self.out("status", "--porcelain", "-uall").splitlines()

    def tip(self, ref: str) -> str | None:
        return self.git.text("rev-parse", "-q", "--verify", ref, check=False) or None

    def close(self) -> None:
        for made in self._recorders:
            made.close()
        self.objects.close()
        assert list(Path(self.repository.common_dir).rglob("*.lock")) == []
        assert self.git.run("fsck", "--strict", "--no-dangling").err == ""


@pytest.fixture(params=["sha1", "sha256"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clone]:
    made = Clone(tmp_path / "clone", request.param)
    yield made
    made.close()


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    made = Clone(tmp_path / "clone")
    yield made
    made.close()


def before(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[[], object]) -> None:
    """Do `act` once, right before the next call of `owner.name`."""
    plain = getattr(owner, name)

    def wrapped(*args: object, **kwargs: object) -> object:
        monkeypatch.setattr(owner, name, plain)
        act()
        return plain(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)


# What it does


def test_outputs_receipts_and_log_are_there_afterwards(both: Clone) -> None:
    both.write("out/a.md", "one")
    both.write("out/b.md", "two")
    parent = both.tip(MAIN)
    commit = both.recorder().record(both.of("out/a.md", "out/b.md", subject="Record 2 works", log=True))
    assert commit == both.tip(MAIN) == both.tip("HEAD")
    assert both.tip("HEAD^") == parent
    assert both.out("show", "HEAD:out/a.md") == "one"
    assert both.out("notes", "--ref=gitstate", "show", "HEAD:out/b.md").strip() == '{"work":"out/b.md"}'
    assert both.out("notes", "--ref=gitstate-log", "show", "HEAD:out/b.md").strip() == '{"work":"out/b.md"}'
    assert both.status() == []
    assert both.out("log", "-1", "--format=%an <%ae>|%cn|%B", "HEAD").strip() == (
        "A U Thor <a@example.invalid>|A U Thor|Record 2 works\n\n"
        "Gitstate-Work: out/a.md/make@0123456789ab\nGitstate-Work: out/b.md/make@0123456789ab"
    )
    assert both.out("log", "-1", "--format=%(trailers:key=Gitstate-Work,valueonly)").split() == [
        "out/a.md/make@0123456789ab",
        "out/b.md/make@0123456789ab",
    ]
    assert both.out("log", "-1", "--format=%s", RECEIPTS).strip() == "Record 2 works"
    assert not os.path.exists(os.path.join(both.repository.state, "recording.json"))


def test_the_first_commit_of_a_repository_may_be_ours(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "clone", unborn=True)
    clone.write("out", "one")
    commit = clone.recorder().record(clone.of("out"))
    assert clone.out("rev-list", "--all", "--count", "HEAD").strip() == "1" or commit
    assert clone.out("log", "--format=%P", "HEAD").strip() == ""
    assert clone.status() == []
    clone.close()


def test_repeating_a_record_changes_nothing(clone: Clone) -> None:
    clone.write("out", "one")
    recorder = clone.recorder()
    first = recorder.record(clone.of("out", log=True))
    tips = [clone.tip(ref) for ref in (MAIN, RECEIPTS, LOG)]
    assert recorder.record(clone.of("out", log=True)) == first
    assert clone.recorder().record(clone.of("out", log=True)) == first
    assert [clone.tip(ref) for ref in (MAIN, RECEIPTS, LOG)] == tips


def test_notes_alone_can_be_recorded(clone: Clone) -> None:
    blob = clone.objects.write("blob", b"manifest")
    tip = clone.tip(MAIN)
    assert clone.recorder(None).record(Record({}, {}, {blob: [b"x"]}, "Log", [])) is None
    assert clone.recorder().record(Record({}, {}, {blob: [b"y"]}, "Log", [])) == tip
    assert clone.out("notes", "--ref=gitstate-log", "show", blob) == "x\ny\n"
    assert clone.tip(RECEIPTS) is None
    assert clone.recorder().record(Record({}, {blob: []}, {}, "Nothing", [])) == tip
    assert clone.tip(RECEIPTS) is None
    with pytest.raises(ValueError, match="branch"):
        clone.recorder(None).record(Record({"a": ("100644", blob)}, {}, {}, "x", []))


def test_the_order_is_objects_index_refs_and_a_barrier_before_and_after(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def watch(owner: object, name: str, what: Callable[..., object]) -> None:
        plain = getattr(owner, name)

        def wrapped(*args: object) -> object:
            seen.append(what(*args))
            return plain(*args)

        monkeypatch.setattr(owner, name, wrapped)

    recorder = clone.recorder()
    journal = os.path.join(clone.repository.state, "recording.json")
    watch(clone.objects, "barrier", lambda: ("barrier", journal in clone.objects.disk.files))
    watch(recorder._index, "learn", lambda entries, _: ("index", sorted(entries)))
    watch(
        recorder._refs, "move", lambda moves: ("refs", [move.ref for move in moves], os.path.exists(journal))
    )
    clone.write("out", "one")
    recorder.record(clone.of("out", log=True))
    assert seen == [
        ("barrier", True),
        ("index", ["out"]),
        ("refs", [RECEIPTS, LOG, MAIN], True),
        ("barrier", False),
    ]


def test_everything_that_must_survive_a_power_cut_is_covered(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    covered: list[set[str]] = []
    plain = clone.objects.disk.flush

    def watching() -> None:
        disk = clone.objects.disk
        covered.append(
            {os.path.relpath(path, clone.repository.common_dir) for path in disk.files | disk.folders}
        )
        plain()

    monkeypatch.setattr(clone.objects.disk, "flush", watching)
    clone.write("out", "one")
    recorder = clone.recorder()
    commit = recorder.record(clone.of("out"))
    assert commit is not None
    first, second = covered
    for name in (commit, clone.tip(RECEIPTS), clone.tip("HEAD:out"), clone.tip("HEAD^{tree}")):
        assert name is not None
        assert os.path.join("objects", name[:2], name[2:]) in first
    assert {"gitstate/recording.json", "gitstate", "objects"} <= first
    assert {MAIN, RECEIPTS, "refs/heads", "refs/notes", "refs", "."} <= second


# What it leaves alone


def test_p9_staged_changes_and_unrelated_edits_stay_as_they_were(clone: Clone) -> None:
    clone.commit({"tracked": "one\n", "gone": "x\n"}, "more")
    clone.write("staged", "staged\n")
    clone.write("tracked", "staged content\n")
    clone.git.run("add", "staged", "tracked")
    clone.git.run("rm", "-q", "--cached", "gone")
    clone.write("tracked", "and then edited\n")
    clone.write("untracked", "x")
    before = clone.status()
    assert before == ["D  gone", "A  staged", "MM tracked", "?? gone", "?? untracked"]
    clone.write("out/a", "one")
    clone.recorder().record(clone.of("out/a"))
    assert clone.status() == before
    assert clone.out("show", "--name-status", "--format=", "HEAD").split() == ["A", "out/a"]
    assert clone.out("show", ":tracked") == "staged content\n"


def test_a_file_that_was_edited_right_after_it_was_staged_still_shows_as_edited(clone: Clone) -> None:
    for n in range(3):
        clone.write("racy", f"a{n}\n")
        clone.git.run("add", "racy")
        clone.write("racy", f"b{n}\n")  # same size, same second: only the index's time stamp tells
        clone.write(f"out{n}", "x")
        clone.recorder().record(clone.of(f"out{n}"))
        assert clone.status() == ["AM racy"]


def test_a_merge_under_way_is_not_disturbed(clone: Clone) -> None:
    clone.git.run("checkout", "-q", "-b", "other")
    clone.commit({"file": "theirs\n"}, "theirs")
    clone.git.run("checkout", "-q", "main")
    clone.commit({"file": "ours\n"}, "ours")
    clone.git.run("merge", "other", check=False)
    clone.write("out", "one")
    clone.recorder().record(clone.of("out"))
    assert clone.status() == ["AA file"]
    assert len(clone.out("ls-files", "-u").splitlines()) == 2


@pytest.mark.parametrize("kind", ["split", "v4", "sparse", "sparse index"])
def test_every_kind_of_index_learns_the_output(clone: Clone, kind: str) -> None:
    clone.commit({"in/a": "1\n", "out/old": "2\n"}, "files")
    if kind == "split":
        clone.git.run("update-index", "--split-index")
    elif kind == "v4":
        clone.git.run("update-index", "--index-version", "4")
    else:
        args = ["--sparse-index"] if kind == "sparse index" else ["--no-sparse-index"]
        clone.git.run("sparse-checkout", "set", "--cone", *args, "in")
        assert not (clone.root / "out").exists()
    clone.write("out/new", "one")
    clone.write("out/old", "changed")
    clone.recorder().record(clone.of("out/new", "out/old"))
    assert clone.status() == []
    clone.git.run("commit", "-q", "--allow-empty", "-m", "the user's")
    assert clone.out("show", "HEAD:out/old") == "changed"
    assert clone.out("show", "HEAD:in/a") == "1\n"


def test_if_the_user_switched_branches_the_index_is_theirs(clone: Clone) -> None:
    recorder = clone.recorder()
    clone.write("out", "one")
    of = clone.of("out")
    (clone.root / "out").unlink()
    clone.git.run("checkout", "-q", "-b", "other")
    recorder.record(of)
    assert clone.status() == []
    assert clone.out("show", "main:out") == "one"
    assert clone.tip("HEAD:out") is None
    clone.git.run("checkout", "-q", "--detach")
    recorder.record(of)
    clone.write("out2", "two")
    recorder.record(clone.of("out2"))
    assert clone.status() == ["?? out2"]


def test_a_branch_that_is_not_checked_out_is_made_and_grows(clone: Clone) -> None:
    recorder = clone.recorder("refs/heads/results", checked_out=False)
    clone.write("out", "one")
    recorder.record(clone.of("out"))
    assert clone.out("ls-tree", "-r", "--name-only", "results").split() == ["out"]
    assert clone.status() == ["?? out"]


def test_a_linked_worktree_has_its_own_index(clone: Clone, tmp_path: Path) -> None:
    clone.git.run("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Clone(tmp_path / "side", unborn=True)
    side.write("out", "one")
    side.recorder("refs/heads/side").record(side.of("out"))
    assert side.status() == []
    assert clone.status() == []
    assert clone.tip(RECEIPTS) is not None
    side.close()


def test_an_entry_in_the_way_in_the_tree_is_named(clone: Clone) -> None:
    clone.commit({"out": "a file\n"}, "file")
    blob = clone.objects.write("blob", b"x")
    with pytest.raises(TreeConflict, match="out/a"):
        clone.recorder().record(Record({"out/a": ("100644", blob)}, {blob: [b"x"]}, {}, "x", []))
    assert clone.tip(RECEIPTS) is None


# What it survives


@pytest.mark.parametrize("moment", ["_prepare", "_teach", "_cover_refs"])
def test_a_users_commit_in_between_is_kept_and_ours_comes_on_top(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    recorder = clone.recorder()
    clone.write("out", "one")
    of = clone.of("out")
    before(monkeypatch, recorder, moment, lambda: clone.commit({"theirs": "x\n"}, "the user's"))
    recorder.record(of)
    assert clone.status() == []
    assert clone.out("show", "HEAD:out") == "one"
    assert clone.out("show", "HEAD:theirs") == "x\n"


def test_a_user_who_commits_everything_right_after_the_index_learned_commits_our_outputs_too(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = clone.recorder()
    clone.write("out", "one")
    of = clone.of("out")

    def commit_all() -> None:
        clone.git.run("commit", "-q", "-m", "the user's")

    before(monkeypatch, recorder._refs, "move", commit_all)
    commit = recorder.record(of)
    assert clone.out("log", "-1", "--format=%s").strip() == "the user's"
    assert commit == clone.tip("HEAD")
    assert clone.out("show", "HEAD:out") == "one"
    assert clone.tip(RECEIPTS) is not None
    assert clone.status() == []


def test_lines_that_somebody_else_notes_in_between_are_kept(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = clone.recorder()
    clone.write("out", "one")
    of = clone.of("out")
    blob = of.outputs["out"][1]
    before(
        monkeypatch,
        recorder,
        "_teach",
        lambda: clone.git.run("notes", "--ref=gitstate", "add", "-m", "x", blob),
    )
    recorder.record(of)
    assert clone.out("notes", "--ref=gitstate", "show", blob) == 'x\n{"work":"out"}\n'


def test_a_user_who_keeps_committing_loses_nothing_and_neither_do_we(clone: Clone) -> None:
    stop = threading.Event()
    made: list[str] = []

    def user() -> None:
        while not stop.is_set() and len(made) < 60:
            name = f"user/{len(made)}"
            try:
                clone.commit({name: "x\n"}, name)
            except GitFailed:  # a lock that we had; the file is committed with the next or not at all
                clone.git.run("reset", "-q", "--", name, check=False)
                (clone.root / name).unlink()
                continue
            made.append(name)

    thread = threading.Thread(target=user)
    thread.start()
    recorder = clone.recorder()
    try:
        for n in range(25):
            clone.write(f"out/{n}", f"{n}")
            recorder.record(clone.of(f"out/{n}"))
    finally:
        stop.set()
        thread.join()
    recorder.close()
    there = set(clone.out("ls-tree", "-r", "--name-only", "HEAD").split())
    assert there == {"README", *made, *(f"out/{n}" for n in range(25))}
    assert len(clone.out("notes", "--ref=gitstate", "list").splitlines()) == 25
    assert clone.status() == []


@pytest.mark.parametrize("moment", ["in the middle", "afterwards", "at the end"])
def test_an_index_that_a_commit_under_way_wrote_back_without_our_entry_is_mended(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    # git commit reads the index, then locks it, then writes what it read: here, from before our entries
    clone.commit({"out/a": "old\n"}, "old")
    path = clone.root / ".git/index"
    stale = clone.root / ".git/stale"
    recorder = clone.recorder()
    for name in ("out/a", "out/b"):
        clone.write(name, "new")
    of = clone.of("out/a", "out/b")
    os.link(path, stale)
    if moment == "in the middle":
        plain = recorder._refs.move

        def move(moves: list[Move]) -> GitFailed | None:
            error = plain(moves)
            os.replace(stale, path)
            return error

        monkeypatch.setattr(recorder._refs, "move", move)
    recorder.record(of)
    if moment != "in the middle":
        assert clone.status() == []
        os.replace(stale, path)
        assert clone.status() == ["MM out/a", "D  out/b", "?? out/b"]
        if moment == "afterwards":
            clone.write("out/c", "next")
            recorder.record(clone.of("out/c"))
        else:
            recorder.close()
    assert clone.status() == []


def test_an_entry_that_the_user_took_out_or_staged_otherwise_is_not_brought_back(clone: Clone) -> None:
    recorder = clone.recorder()
    for name in ("out/a", "out/b"):
        clone.write(name, "new")
    recorder.record(clone.of("out/a", "out/b"))
    clone.git.run("rm", "-q", "out/a")
    clone.write("out/b", "edited")
    clone.git.run("add", "out/b")
    clone.write("out/c", "next")
    recorder.record(clone.of("out/c"))
    assert clone.status() == ["D  out/a", "M  out/b"]


def test_p5_what_somebody_else_put_at_the_path_meanwhile_is_not_replaced(clone: Clone) -> None:
    clone.commit({"out/a": "old\n"}, "old")
    recorder = clone.recorder()
    clone.write("out/a", "ours")
    clone.write("out/b", "ours")
    clone.write("out/c", "ours")
    of = clone.of("out/a", "out/b", "out/c")
    clone.commit({"out/a": "theirs\n", "out/b": "theirs\n"}, "theirs")
    tips = [clone.tip(ref) for ref in (MAIN, RECEIPTS)]
    with pytest.raises(Moved) as caught:
        recorder.record(of)
    assert caught.value.paths == ("out/a", "out/b")
    assert caught.value.exit_code == 3
    assert [clone.tip(ref) for ref in (MAIN, RECEIPTS)] == tips, "nothing of it was recorded"
    recorder.record(clone.of("out/c"))
    with pytest.raises(Moved):
        recorder.record(of)
    recorder.look_again()
    recorder.record(of)
    assert clone.out("show", "HEAD:out/a") == "ours"


def test_what_was_there_at_the_start_or_came_from_us_may_be_replaced(clone: Clone) -> None:
    clone.commit({"out": "stale\n", "deleted": "x\n"}, "old")
    recorder = clone.recorder()
    for content in ("new", "newer"):
        clone.commit({"other": content}, "unrelated")
        clone.write("out", content)
        recorder.record(clone.of("out"))
        assert clone.out("show", "HEAD:out") == content
    clone.git.run("rm", "-q", "deleted")
    clone.git.run("commit", "-q", "-m", "deleted")
    clone.write("deleted", "again")
    recorder.record(clone.of("deleted"))
    assert clone.out("show", "HEAD:deleted") == "again"


def test_somebody_elses_index_lock_is_waited_for_and_never_broken(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = clone.root / ".git" / "index.lock"
    lock.write_bytes(b"")
    recorder = clone.recorder()
    clone.write("out", "one")
    of = clone.of("out")
    tips = [clone.tip(ref) for ref in (MAIN, RECEIPTS)]
    monkeypatch.setattr(index, "PATIENCE", 0.1)
    with pytest.raises(ComeBackLater, match=r"index\.lock is held .* results are safe") as caught:
        recorder.record(of)
    assert "rm " in caught.value.hint
    assert [clone.tip(ref) for ref in (MAIN, RECEIPTS)] == tips
    assert lock.exists()
    monkeypatch.setattr(index, "PATIENCE", 30.0)
    timer = threading.Timer(0.2, lock.unlink)
    timer.start()
    recorder.record(of)
    timer.join()
    assert clone.status() == []


@pytest.mark.parametrize("name", ["refs/heads/main.lock", "refs/notes/gitstate.lock", "HEAD.lock"])
def test_somebody_elses_ref_lock_is_waited_for_and_never_broken(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    recorder = clone.recorder()
    clone.write("out", "one")
    of = clone.of("out")
    lock = clone.root / ".git" / name
    lock.parent.mkdir(exist_ok=True)
    lock.write_bytes(b"")
    monkeypatch.setattr(record, "_PATIENCE", 0.1)
    with pytest.raises(ComeBackLater, match="is held by another git process"):
        recorder.record(of)
    assert lock.exists()
    assert clone.tip(RECEIPTS) is None
    monkeypatch.setattr(record, "_PATIENCE", 30.0)
    timer = threading.Timer(0.2, lock.unlink)
    timer.start()
    recorder.record(of)
    timer.join()
    assert clone.status() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_children_that_were_ended_are_replaced(clone: Clone, how: signal.Signals) -> None:
    recorder = clone.recorder()
    for n in range(3):
        clone.write(f"out{n}", f"{n}")
        blobs = recorder.blobs([f"out{n}"])
        recorder.record(Record({f"out{n}": ("100644", blobs[0])}, {blobs[0]: [b"x"]}, {}, "x", []))
        for child in (clone.objects._child, recorder._refs._child, recorder._filters._child):
            assert child is not None
            child._process.send_signal(how)
    assert clone.status() == []


def test_p8_what_the_disk_refuses_is_not_recorded(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = clone.recorder()
    clone.write("out", "one")
    of = clone.of("out")
    tips = [clone.tip(ref) for ref in (MAIN, RECEIPTS)]
    calls: list[int] = []

    def broken(_: int) -> None:
        calls.append(1)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(clone.objects.disk, "_sync", broken)
        with pytest.raises(OSError):
            recorder.record(of)
    assert len(calls) == 1
    assert [clone.tip(ref) for ref in (MAIN, RECEIPTS)] == tips
    assert clone.status() == ["?? out"]
    recorder.record(clone.of("out"))
    assert clone.status() == []


def test_p6_refs_that_are_broken_are_an_error_and_not_a_fresh_start(clone: Clone) -> None:
    clone.write("out", "one")
    of = clone.of("out")
    blob = of.outputs["out"][1]
    path = clone.root / ".git/refs/notes/gitstate"
    path.parent.mkdir()
    for content in ("", "garbage\n", "1" * 40 + "\n", blob + "\n"):
        path.write_text(content)
        with pytest.raises((GitFailed, CorruptState)):
            clone.recorder().record(of)
        assert path.read_text() == content
        clone.git.run("reset", "-q")
    path.unlink()


# Names, messages, signatures, hooks


def test_without_a_name_it_says_so_before_anything_is_done(clone: Clone) -> None:
    for name in ("user.name", "user.email"):
        clone.git.run("config", "--unset", name)
    clone.git.run("config", "user.useConfigOnly", "true")
    with pytest.raises(UsageError, match="in whose name") as caught:
        clone.recorder()
    assert "git config user.name" in caught.value.hint


def test_names_and_messages_are_utf_8_whatever_the_encoding_for_commits_is(clone: Clone) -> None:
    clone.git.run("config", "i18n.commitEncoding", "ISO-8859-1")
    clone.git.run("config", "user.name", "Ævar Þ")
    clone.write("out", "one")
    clone.recorder().record(clone.of("out", subject="Größe\nand a second line"))
    raw = clone.git.run("cat-file", "commit", "HEAD").out
    assert "author Ævar Þ <a@example.invalid> ".encode() in raw
    assert b"\nencoding " not in raw
    assert raw.decode().split("\n\n")[1] == "Größe and a second line"


def test_dates_are_fresh_unless_they_are_given(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    clone.write("out", "one")
    recorder = clone.recorder()
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.5)
    recorder.record(clone.of("out"))
    assert clone.out("log", "-1", "--format=%at %ct").split() == ["1800000000"] * 2
    monkeypatch.undo()
    monkeypatch.setenv("GIT_COMMITTER_DATE", "1234567890 +0130")
    clone.git = Git(str(clone.root))
    clone.write("out2", "two")
    clone.recorder().record(clone.of("out2"))
    assert clone.out("log", "-1", "--format=%ct %cd", "--date=raw").strip() == "1234567890 1234567890 +0130"
    assert int(clone.out("log", "-1", "--format=%at")) > 1_600_000_000


def signer(clone: Clone, works: bool) -> None:
    """A stand-in for gpg."""
    program = clone.root / ".git" / "fake-gpg"
    script = (
        "cat >/dev/null; echo '[GNUPG:] SIG_CREATED x' >&2; echo '-----BEGIN PGP SIGNATURE-----'; echo fake"
    )
    program.write_text(f"#!/bin/sh\n{script if works else 'echo no secret key >&2; exit 2'}\n")
    program.chmod(0o755)
    clone.git.run("config", "gpg.program", str(program))
    clone.git.run("config", "commit.gpgsign", "true")


def test_commits_on_the_branch_are_signed_where_the_user_signs(both: Clone) -> None:
    signer(both, works=True)
    both.write("out", "one")
    commit = both.recorder().record(both.of("out"))
    raw = both.out("cat-file", "commit", "HEAD")
    assert "BEGIN PGP SIGNATURE" in raw
    assert raw.split("\n\n", 1)[1] == "Record\n\nGitstate-Work: out/make@0123456789ab\n"
    assert commit == both.tip(MAIN)
    assert both.status() == []


def test_if_it_cannot_be_signed_nothing_is_recorded(clone: Clone) -> None:
    signer(clone, works=False)
    clone.write("out", "one")
    tip = clone.tip(MAIN)
    with pytest.raises(NeedsHuman, match="could not sign the commit"):
        clone.recorder().record(clone.of("out"))
    assert (clone.tip(MAIN), clone.tip(RECEIPTS)) == (tip, None)
    assert clone.status() == ["?? out"]


def hook(clone: Clone, name: str, script: str, folder: str = ".git/hooks") -> None:
    path = clone.root / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("folder", [".git/hooks", "my-hooks"])
def test_the_commit_msg_hook_is_asked_and_may_change_the_message(clone: Clone, folder: str) -> None:
    if folder != ".git/hooks":
        clone.git.run("config", "core.hooksPath", folder)
    hook(clone, "commit-msg", 'printf "\\nChange-Id: I1  \\n\\n" >> "$1"', folder)
    hook(clone, "pre-commit", "exit 1", folder)
    clone.write("out", "one")
    clone.recorder().record(clone.of("out"))
    assert clone.out("log", "-1", "--format=%B").strip() == (
        "Record\n\nGitstate-Work: out/make@0123456789ab\n\nChange-Id: I1"
    )
    assert clone.out("log", "-1", "--format=%B", RECEIPTS).strip() == "Record"


@pytest.mark.parametrize(
    ("script", "words"), [("echo needs a ticket; exit 1", "needs a ticket"), (': > "$1"', "empty")]
)
def test_a_message_that_the_hook_refuses_is_not_committed(clone: Clone, script: str, words: str) -> None:
    hook(clone, "commit-msg", script)
    clone.write("out", "one")
    tip = clone.tip(MAIN)
    with pytest.raises(NeedsHuman, match=words):
        clone.recorder().record(clone.of("out"))
    assert (clone.tip(MAIN), clone.tip(RECEIPTS)) == (tip, None)
    assert os.listdir(clone.repository.state) == []


def test_a_hook_that_is_not_executable_is_no_hook(clone: Clone) -> None:
    hook(clone, "commit-msg", "exit 1")
    (clone.root / ".git/hooks/commit-msg").chmod(0o644)
    clone.write("out", "one")
    clone.recorder().record(clone.of("out"))
    assert clone.status() == []


# What a kill leaves behind


def killed_while_prepared(
    clone: Clone, recorder: Recorder, of: Record, monkeypatch: pytest.MonkeyPatch
) -> list[Path]:
    """Record up to the moment where git holds all its locks, and kill both sides there. Returns the locks."""

    class KilledError(BaseException):
        pass

    def move(moves: list[Move]) -> None:
        child = recorder._refs._started()
        zero = clone.repository.zero
        lines = "".join(f"update {ref} {new} {old or zero}\n" for ref, old, new in moves)
        child.send(f"start\n{lines}prepare\n".encode())
        assert [child.line(), child.line()] == [b"start: ok", b"prepare: ok"]
        child._process.kill()
        child._process.wait()
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(recorder._refs, "move", move)
        patch.setattr(recorder._refs, "forget", lambda: None)
        with pytest.raises(KilledError):
            recorder.record(of)
    return sorted(Path(clone.repository.common_dir).rglob("*.lock"))


def test_locks_of_a_killed_transaction_are_cleared_and_the_work_is_recorded(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.write("out", "one")
    of = clone.of("out", log=True)
    locks = killed_while_prepared(clone, clone.recorder(), of, monkeypatch)
    assert [str(path.relative_to(clone.root / ".git")) for path in locks] == [
        "HEAD.lock",
        "refs/heads/main.lock",
        "refs/notes/gitstate-log.lock",
        "refs/notes/gitstate.lock",
    ]
    cleared = clear_stale_locks(clone.repository)
    assert sorted(cleared.removed) == [str(path) for path in locks]
    assert cleared.left == []
    assert clear_stale_locks(clone.repository) == ([], [])
    clone.recorder().record(of)
    assert clone.status() == []
    assert clone.out("show", "HEAD:out") == "one"


def test_if_only_git_was_killed_its_locks_are_cleared_at_once(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = clone.recorder()
    clone.write("out", "one")
    of = clone.of("out")
    plain = recorder._refs._started

    def killed_after_prepare() -> Child:
        monkeypatch.setattr(recorder._refs, "_started", plain)
        child = plain()
        send = child.send

        def send_and_die(request: bytes) -> None:
            send(request.replace(b"prepare\ncommit\n", b"prepare\n"))
            assert [child.line(), child.line()] == [b"start: ok", b"prepare: ok"]
            child._process.kill()
            child._process.wait()

        monkeypatch.setattr(child, "send", send_and_die)
        return child

    monkeypatch.setattr(recorder._refs, "_started", killed_after_prepare)
    recorder.record(of)
    assert clone.status() == []
    assert os.listdir(clone.repository.state) == ["lock-owner"]


def test_an_empty_lock_and_one_left_after_the_branch_moved_are_ours_too(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.write("out", "one")
    of = clone.of("out")
    locks = killed_while_prepared(clone, clone.recorder(), of, monkeypatch)
    git_dir = clone.root / ".git"
    (git_dir / "refs/notes/gitstate.lock").write_bytes(b"")  # killed between creating and writing it
    os.replace(git_dir / "refs/heads/main.lock", git_dir / "refs/heads/main")  # killed after the rename
    cleared = clear_stale_locks(clone.repository)
    assert sorted(cleared.removed) == [str(path) for path in locks if path.name != "main.lock"]
    assert cleared.left == []
    clone.recorder().record(of)
    assert clone.tip(RECEIPTS) is not None
    assert clone.status() == []


def test_locks_where_nobody_else_writes_are_ours_whatever_they_hold(clone: Clone) -> None:
    names = (
        "gitstate/keep/1-1",
        "gitstate/pause/team",
        "gitstate-pause/origin/team",
        "gitstate-lease/origin/own/a/00",
    )
    theirs = clone.root / ".git/refs/heads/side.lock"
    locks = [clone.root / f".git/refs/{name}.lock" for name in names]
    for path in (*locks, theirs):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1")
    assert sorted(clear_stale_locks(clone.repository).removed) == sorted(map(str, locks))
    theirs.unlink()  # (it was still there)


@pytest.mark.parametrize("content", [None, b"", bytes(41)], ids=["gone", "empty", "zeros"])
def test_the_lock_of_head_is_ours_whatever_a_power_cut_made_of_the_branchs(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    clone.write("out", "one")
    of = clone.of("out")
    killed_while_prepared(clone, clone.recorder(), of, monkeypatch)
    lock = clone.root / ".git/refs/heads/main.lock"
    lock.unlink() if content is None else lock.write_bytes(content)
    assert str(clone.root / ".git/HEAD.lock") in clear_stale_locks(clone.repository).removed
    clone.recorder().record(of)
    assert clone.status() == []


def test_the_lock_of_a_head_that_names_another_branch_is_not_ours(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.write("out", "one")
    killed_while_prepared(clone, clone.recorder(), clone.of("out"), monkeypatch)
    head = clone.root / ".git/HEAD"
    head.write_text("ref: refs/heads/other\n")
    assert f"{head}.lock" not in clear_stale_locks(clone.repository).removed
    head.write_text(f"ref: {MAIN}\n")
    head.with_name("HEAD.lock").unlink()


@pytest.mark.parametrize("journal", [None, b"", b"{", b'{"moves": [1]}', b"[]"])
def test_without_a_readable_journal_no_lock_is_ours(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, journal: bytes | None
) -> None:
    clone.write("out", "one")
    locks = killed_while_prepared(clone, clone.recorder(), clone.of("out"), monkeypatch)
    path = Path(clone.repository.state, "recording.json")
    path.unlink() if journal is None else path.write_bytes(journal)
    cleared = clear_stale_locks(clone.repository)
    assert cleared.removed == []
    named = [lock for lock in locks if lock.name != "main.lock"]  # which branch was meant, nobody knows
    assert len(cleared.left) == len(named)
    assert all("not provably ours" in sentence and "rm '" in sentence for sentence in cleared.left)
    for lock in locks:
        lock.unlink()


def test_locks_that_somebody_else_made_are_named_and_left(clone: Clone) -> None:
    git_dir = clone.root / ".git"
    (git_dir / "refs/notes").mkdir()
    tip = clone.tip(MAIN)
    assert tip is not None
    Refs(clone.git, clone.repository).intend([Move(RECEIPTS, None, "1" * 40), Move(MAIN, tip, "2" * 40)])
    names = [
        "HEAD.lock",
        "index.lock",
        "packed-refs.lock",
        "refs/heads/main.lock",
        "refs/notes/gitstate.lock",
    ]
    for name in names:
        (git_dir / name).write_text("3" * 40 + "\n" if name.startswith("refs/") else "")
    cleared = clear_stale_locks(clone.repository)
    assert cleared.removed == []
    assert [name for name in names if any(name in sentence for sentence in cleared.left)] == names
    for name in names:
        (git_dir / name).unlink()


def test_a_lock_older_than_the_journal_is_not_ours(clone: Clone) -> None:
    lock = clone.root / ".git/refs/heads/main.lock"
    lock.write_bytes(b"")
    os.utime(lock, ns=(1, 1))
    Refs(clone.git, clone.repository).intend([Move(MAIN, clone.tip(MAIN), "2" * 40)])
    assert clear_stale_locks(clone.repository).removed == []
    lock.unlink()


def test_a_lock_that_changes_while_we_look_is_alive(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    Refs(clone.git, clone.repository).intend([Move(MAIN, clone.tip(MAIN), "2" * 40)])
    lock = clone.root / ".git/refs/heads/main.lock"
    lock.write_bytes(b"")
    monkeypatch.setattr(time, "sleep", lambda _: lock.write_text("4" * 40))
    cleared = clear_stale_locks(clone.repository)
    assert cleared.removed == []
    assert len(cleared.left) == 1
    lock.unlink()


def test_the_index_lock_of_a_killed_run_is_told_by_what_it_is(clone: Clone) -> None:
    class KilledError(BaseException):
        pass

    lock = clone.root / ".git/index.lock"
    names = ("gitstate-index", "gitstate-index.lock", "index.lock")
    leftovers = [str(lock.with_name(name)) for name in names]

    def die() -> None:
        with index.private_index(clone.repository):
            for path in leftovers:
                if os.path.exists(path):
                    os.link(path, path + ".kept")
                else:
                    Path(path + ".kept").write_bytes(b"half")
            raise KilledError

    with pytest.raises(KilledError):
        die()
    for path in leftovers:
        os.replace(path + ".kept", path)
    assert clone.git.run("add", "README", check=False).code == 0 or lock.exists()
    cleared = clear_stale_locks(clone.repository)
    assert sorted(cleared.removed) == sorted(leftovers)
    assert cleared.left == []
    assert clone.status() == []


def test_a_body_that_fails_leaves_the_index_as_it_was(clone: Clone) -> None:
    path = clone.root / ".git/index"
    content = path.read_bytes()
    with pytest.raises(GitFailed):
        index.Teacher(clone.git, clone.repository).learn({"out": ("100644", "not an id")}, {})
    assert path.read_bytes() == content
    assert sorted(os.listdir(clone.root / ".git")) == sorted(
        {*os.listdir(clone.root / ".git")} - {"gitstate-index"}
    )


def test_what_the_user_stages_while_the_index_is_made_ahead_is_kept(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.write("out", "one")
    clone.write("mine", "by hand\n")
    recorder = clone.recorder()
    before(monkeypatch, recorder._index, "learn", lambda: clone.git.run("add", "mine"))
    recorder.record(clone.of("out"))
    assert clone.status() == ["A  mine"]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("staged", ["other content", "a deletion"])
def test_p9_what_the_user_stages_at_an_outputs_own_path_meanwhile_stays_staged(
    clone: Clone, staged: str, known: bool
) -> None:
    clone.commit({"out": "before\n", "other": "before\n"}, "By hand")
    recorder = clone.recorder()
    if staged == "a deletion":
        clone.git.run("rm", "--cached", "-q", "out")
    else:
        clone.write("out", "the user's\n")
        clone.git.run("add", "out")
    if known:
        recorder.look_again()  # whoever records has looked at it, and decided to replace it
    clone.write("out", "ours\n")
    clone.write("other", "ours\n")
    recorder.record(clone.of("out", "other"))
    assert clone.out("show", "HEAD:out") == clone.out("show", "HEAD:other") == clone.out("show", ":other")
    if known:
        assert clone.status() == []
    elif staged == "a deletion":
        assert clone.status() == ["D  out", "?? out"]
    else:
        assert clone.out("show", ":out") == "the user's\n"


def test_an_index_made_ahead_whose_process_was_killed_is_made_again(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.write("out", "one")
    recorder = clone.recorder()
    plain = clone.git.start

    def start(*args: str, **kwargs: object) -> subprocess.Popen[bytes]:
        process = plain(*args, **kwargs)  # type: ignore[arg-type]
        if "update-index" in args:
            monkeypatch.setattr(clone.git, "start", plain)
            process.kill()
            process.wait()
        return process

    monkeypatch.setattr(clone.git, "start", start)
    recorder.record(clone.of("out"))
    assert clone.status() == []
    assert not list((clone.root / ".git").glob("gitstate-index*"))


def test_an_index_made_ahead_for_nothing_leaves_nothing_behind(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.write("out", "one")
    index_file = clone.root / ".git/index"
    content = index_file.read_bytes()
    plain = clone.objects.barrier

    def refuses() -> None:
        monkeypatch.setattr(clone.objects, "barrier", plain)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(clone.objects, "barrier", refuses)
    recorder = clone.recorder()
    with pytest.raises(OSError, match="Input/output"):
        recorder.record(clone.of("out"))
    assert index_file.read_bytes() == content
    assert not list((clone.root / ".git").glob("gitstate-index*"))
    recorder.record(clone.of("out"))
    assert clone.status() == []


def test_without_hard_links_the_index_works_the_same(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuses)
    clone.write("racy", "a\n")
    clone.git.run("add", "racy")
    clone.write("racy", "b\n")
    clone.write("out", "x")
    clone.recorder().record(clone.of("out"))
    assert clone.status() == ["AM racy"]
    lock = clone.root / ".git/index.lock"
    lock.write_bytes(b"")
    with pytest.raises(ComeBackLater), index.private_index(clone.repository, patience=0.05):
        pass
    assert lock.read_bytes() == b""
    lock.unlink()
