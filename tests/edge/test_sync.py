"""Clones that agree through a real bare remote: alternately, at once, refused, cut off and killed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitstate.edge import refs, remote, sync
from gitstate.edge.branch import Way
from gitstate.edge.refs import clear_stale_locks
from gitstate.edge.repo import LOG, RECEIPTS
from gitstate.edge.sync import Amount, Outcome
from gitstate.errors import ComeBackLater, NeedsHuman
from tests.support.clones import ENVIRONMENT, MAIN, Bare, Clone
from tests.support.httpgit import serve


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["sha1", "sha256"])
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path / "remote.git")


@pytest.fixture
def a(bare: Bare) -> Clone:
    """A clone whose first commit and receipt are on the remote."""
    made = bare.clone("a")
    made.commit(plan="plan")
    made.record("out/0.md", "0")
    made.sync()
    return made


@pytest.fixture
def b(bare: Bare, a: Clone) -> Clone:
    return bare.clone("b")


def agree(*clones: Clone) -> None:
    """Everybody has the same commit and notes, nothing is left over, and one more sync does nothing."""
    first = clones[0]
    for clone in clones:
        assert clone.tip() == first.tip()
        assert clone.receipts() == first.receipts()
        assert clone.status() == ""
        assert clone.shown() == clone.files()
        done = clone.sync()
        assert (done.came, done.went, done.pushes) == (Amount(), Amount(), 0)


# One after another


def test_the_first_sync_makes_the_branch_on_an_empty_remote(bare: Bare) -> None:
    clone = bare.clone("a")
    clone.commit(plan="plan")
    clone.record("out/0.md", "0")
    clone.log("said")
    done = clone.sync()
    assert done.made_branch
    assert done.went == Amount(2, 1, 1)
    assert done.users_commits == 1
    assert done.pushes == 1
    for ref in (MAIN, RECEIPTS, LOG):
        assert bare.ref(ref) == clone.tip(ref)


def test_p3_a_fresh_clone_with_no_set_up_gets_everything(a: Clone, b: Clone) -> None:
    done = b.sync()
    assert (done.way, done.came, done.pushes) == (Way.EQUAL, Amount(0, 1, 0), 0)
    agree(a, b)
    picked = remote.pick(b.plumbing, MAIN)
    assert picked is not None
    assert picked.seen
    assert picked.set_up


def test_p3_two_clones_alternately_agree(tmp_path: Path, format: str) -> None:
    bare = Bare(tmp_path / "r.git", format)
    a = bare.clone("x")
    a.record("out/0.md", "0")
    a.sync()
    b = bare.clone("y")
    for n in range(1, 4):
        for clone in (a, b):
            clone.sync()
            clone.record(f"out/{clone.path.name}{n}.md", f"{clone.path.name}{n}")
            clone.log(f"{clone.path.name}{n}")
            assert clone.sync().went == Amount(1, 1, 1)
    a.sync()
    agree(a, b)
    assert len(a.receipts()) == 7
    assert len(a.files()) == 7


def test_p3_both_went_on_alone_and_both_results_stay(bare: Bare, a: Clone, b: Clone) -> None:
    b.sync()
    a.record("out/a.md", "a")
    b.record("out/b1.md", "b1")
    b.record("out/b2.md", "b2")
    a.sync()
    done = b.sync()
    assert (done.way, len(done.replaced)) == (Way.REPARENTED, 2)
    assert (done.came, done.went) == (Amount(1, 1, 0), Amount(1, 2, 0))
    a.sync()
    agree(a, b)
    assert set(bare.files()) == {"plan.txt", "out/0.md", "out/a.md", "out/b1.md", "out/b2.md"}
    assert bare.receipts() == a.receipts()
    assert len(a.receipts()) == 4


def test_where_both_made_the_same_path_the_first_one_there_stays_and_the_other_is_told(
    a: Clone, b: Clone
) -> None:
    a.record("out/x.md", "from a")
    b.record("out/x.md", "from b")
    a.sync()
    done = b.sync()
    assert [lost.path for lost in done.lost] == ["out/x.md"]
    a.sync()
    agree(a, b)
    assert a.files()["out/x.md"] == "from a"
    assert len(a.receipts()) == 3


def test_a_user_s_commit_that_diverged_stops_it_with_the_notes_merged(bare: Bare, a: Clone, b: Clone) -> None:
    a.record("out/a.md", "a")
    a.sync()
    b.commit(mine="x")
    tip, there = b.tip(), bare.ref(MAIN)
    with pytest.raises(NeedsHuman, match="by hand: mine") as caught:
        b.sync()
    assert caught.value.exit_code == 3
    assert b.tip() == tip
    assert bare.ref(MAIN) == there
    assert b.receipts() == a.receipts()
    b.git("pull", "-q", "--rebase")
    done = b.sync()
    assert done.users_commits == 1
    assert done.went == Amount(1, 0, 0)
    a.sync()
    agree(a, b)


def test_without_a_remote_it_does_nothing(a: Clone) -> None:
    a.git("remote", "remove", "origin")
    assert a.sync() == Outcome()


def test_nothing_is_pushed_when_nothing_differs(a: Clone) -> None:
    a.git("config", "remote.origin.receivepack", "false")
    assert a.sync().pushes == 0


def test_nothing_is_pushed_when_told_so(bare: Bare, a: Clone) -> None:
    a.record("out/a.md", "a")
    before = bare.ref(MAIN)
    assert a.sync(push=False).went == Amount()
    assert bare.ref(MAIN) == before


def test_offline_merges_what_plain_pull_brought_and_touches_no_network(
    bare: Bare, a: Clone, b: Clone
) -> None:
    b.sync()
    a.record("out/a.md", "a")
    a.sync()
    b.git("pull", "-q")
    bare.path.rename(bare.path.with_name("gone"))
    done = b.sync(offline=True)
    assert done.offline
    assert done.came == Amount(0, 1, 0)
    assert b.receipts() == a.receipts()


def test_a_detached_head_syncs_its_notes(bare: Bare, a: Clone, b: Clone) -> None:
    a.git("checkout", "-q", "--detach")
    line = a.note(RECEIPTS, a.tip("HEAD:plan.txt"), slug="accepted")
    done = a.sync()
    assert done.way is None
    assert done.went == Amount(0, 1, 0)
    assert line in bare.receipts()


def test_a_remote_that_is_away_leaves_everything_safe_and_gets_it_later(
    bare: Bare, a: Clone, b: Clone
) -> None:
    a.record("out/a.md", "a")
    away = bare.path.rename(bare.path.with_name("away"))
    with pytest.raises(ComeBackLater, match="out of reach") as caught:
        a.sync()
    assert caught.value.exit_code == 75
    away.rename(bare.path)
    assert a.sync().went == Amount(1, 1, 0)
    b.sync()
    agree(a, b)


# Notes


def test_notes_that_somebody_pruned_on_the_remote_come_back(bare: Bare, a: Clone, b: Clone) -> None:
    b.sync()
    # A descendant with fewer notes, as `git notes prune` in a shallow clone makes it.
    empty = b.git("hash-object", "-t", "tree", "-w", os.devnull)
    b.git(
        "push",
        "-q",
        "origin",
        b.git("commit-tree", "-p", b.tip(RECEIPTS), "-m", "pruned", empty) + f":{RECEIPTS}",
    )
    assert bare.receipts() == set()
    a.sync()
    assert bare.receipts() == a.receipts()
    assert len(a.receipts()) == 1
    b.sync()
    agree(a, b)


def test_notes_deleted_on_the_remote_come_back(bare: Bare, a: Clone) -> None:
    (bare.path / RECEIPTS).unlink()
    assert a.sync().went == Amount(0, 1, 0)
    assert bare.receipts() == a.receipts()


def test_equal_notes_with_different_histories_come_together_without_a_push(
    bare: Bare, a: Clone, b: Clone
) -> None:
    tree = a.tip(RECEIPTS + "^{tree}")
    b.git("fetch", "-q", "origin", RECEIPTS)
    b.git("update-ref", RECEIPTS, b.git("commit-tree", "-m", "another history", tree))
    assert b.sync().pushes == 0
    agree(a, b)


def test_notes_that_hang_on_the_same_blob_are_both_kept(bare: Bare, a: Clone, b: Clone) -> None:
    b.sync()
    blob = a.tip("HEAD:plan.txt")
    lines = {clone.note(RECEIPTS, blob, slug=clone.path.name) for clone in (a, b)}
    a.sync()
    b.sync()
    a.sync()
    agree(a, b)
    assert lines < bare.receipts()


def test_a_lost_race_for_the_local_notes_is_run_again(
    a: Clone, b: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    b.sync()
    a.record("out/a.md", "a")
    a.sync()
    mine = b.note(RECEIPTS, b.tip("HEAD:plan.txt"), slug="mine")
    real, late = sync.compare_and_swap, []

    def overtaken(*arguments: object) -> bool:
        if not late:
            late.append(b.note(RECEIPTS, b.tip("HEAD:plan.txt"), slug="late"))
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sync, "compare_and_swap", overtaken)
    b.sync()
    assert b.receipts() == a.receipts() | {mine, *late}


def test_a_local_race_that_never_ends_is_something_to_come_back_for(
    a: Clone, b: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "compare_and_swap", lambda *_: False)
    monkeypatch.setattr(remote, "pause", lambda *_: None)
    with pytest.raises(ComeBackLater, match=RECEIPTS):
        b.sync()


# Clones of other kinds


def test_a_clone_of_depth_1_syncs_both_ways(bare: Bare, a: Clone) -> None:
    for n in range(3):
        a.record(f"out/a{n}.md", str(n))
    a.sync()
    shallow = bare.clone("shallow", "--depth", "1")
    shallow.record("out/s.md", "s")
    a.record("out/later.md", "later")
    a.sync()
    assert shallow.sync().way is Way.REPARENTED
    a.sync()
    assert a.receipts() == shallow.receipts()
    assert a.tip() == shallow.tip()
    assert shallow.git("rev-parse", "--is-shallow-repository") == "true"


def test_a_blobless_clone_that_plain_pull_has_prefetched_gets_its_notes_in_one_batch(
    bare: Bare, a: Clone, tmp_path: Path
) -> None:
    for n in range(20):
        a.record(f"out/a{n}.md", str(n))
    a.sync()
    glob = "+refs/notes/gitstate*:refs/gitstate-remote/origin/notes*"
    blobless = bare.clone("blobless", "--filter=blob:none", "-c", f"remote.origin.fetch={glob}")
    blobless.note(RECEIPTS, blobless.tip("HEAD:plan.txt"), slug="mine")
    blobless.record("out/more.md", "more")
    trace = tmp_path / "trace"
    blobless.plumbing.env["GIT_TRACE2"] = str(trace)
    assert blobless.sync().went == Amount(1, 2, 0)
    started = [line for line in trace.read_text().splitlines() if " start " in line]
    assert sum(" fetch " in line for line in started) == 2  # the fetch, and one for what the filter left out
    assert blobless.receipts() == bare.receipts() > a.receipts()


def test_a_linked_worktree_syncs_its_own_branch_and_all_notes(bare: Bare, a: Clone, tmp_path: Path) -> None:
    a.git("worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    linked = Clone(tmp_path / "linked")
    linked.record("out/topic.md", "topic")
    done = linked.sync()
    assert done.made_branch
    assert bare.ref("refs/heads/topic") == linked.tip()
    assert a.tip(MAIN) == bare.ref(MAIN)
    assert a.receipts() == bare.receipts()
    other = bare.clone("other", "-b", "topic")
    other.record("out/more.md", "more")
    other.sync()
    assert linked.sync().way is Way.FORWARDED
    agree(linked, other)


def test_two_clones_agree_over_smart_http(bare: Bare, a: Clone, b: Clone, tmp_path: Path) -> None:
    subprocess.run(("git", "config", "http.receivepack", "true"), cwd=bare.path, check=True)
    with serve(tmp_path) as url:
        for clone in (a, b):
            clone.git("remote", "set-url", "origin", f"{url}/remote.git")
            clone.record(f"out/{clone.path.name}.md", clone.path.name)
            clone.sync()
        a.sync()
        agree(a, b)


# What a push can meet


def hook(folder: Path, name: str, script: str) -> None:
    path = folder / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def overtake(bare: Bare, a: Clone, tmp_path: Path, times: int) -> None:
    """Make `a`'s next pushes be overtaken by somebody else's, between its look at the remote and its push."""
    rival = bare.clone("rival")
    count = tmp_path / "count"
    script = (
        f"n=$(($(cat '{count}' 2>/dev/null)+1)); [ $n -le {times} ] || exit 0; echo $n >'{count}'; "
        f"unset $(git rev-parse --local-env-vars); cd '{rival.path}'; git pull -q; "
        "printf x >rival$n; git add rival$n; git commit -q -m rival; git push -q --no-verify"
    )
    hook(a.path / ".git", "pre-push", script)


def test_a_push_that_was_overtaken_is_repeated_on_what_came(
    bare: Bare, a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overtake(bare, a, tmp_path, 2)
    a.record("out/a.md", "a")
    done = a.sync()
    assert (done.pushes, done.way, done.came, done.went) == (3, Way.AHEAD, Amount(2, 0, 0), Amount(1, 1, 0))
    assert len(done.replaced) == 2  # each time anew
    b.sync()
    agree(a, b)
    assert {"rival1", "rival2", "out/a.md"} < set(b.files())


def test_a_remote_that_is_always_quicker_is_something_to_come_back_for(
    bare: Bare, a: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "pause", lambda *_: None)
    monkeypatch.setattr(sync, "_RACES", 3)
    overtake(bare, a, tmp_path, 99)
    a.record("out/a.md", "a")
    with pytest.raises(ComeBackLater, match="in 3 tries") as caught:
        a.sync()
    assert "safe here" in caught.value.hint
    shutil.rmtree(a.path / ".git" / "hooks")
    assert a.sync().went == Amount(1, 1, 0)


def test_a_remote_that_refuses_is_told_in_its_own_words(
    bare: Bare, a: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "pause", lambda *_: None)
    hook(bare.path, "update", "[ $1 != refs/heads/main ] || { echo 'main is protected' >&2; exit 1; }")
    a.record("out/a.md", "a")
    with pytest.raises(NeedsHuman, match="main is protected") as caught:
        a.sync()
    assert "--branch" in caught.value.hint
    shutil.rmtree(bare.path / "hooks")
    assert a.sync().went == Amount(1, 1, 0)


def test_the_user_s_pre_push_hook_is_asked_once_and_heard(bare: Bare, a: Clone, tmp_path: Path) -> None:
    hook(a.path / ".git", "pre-push", f"echo asked >>'{tmp_path}/asked'; echo 'not on a Friday' >&2; exit 1")
    a.record("out/a.md", "a")
    there = bare.ref(MAIN)
    with pytest.raises(NeedsHuman, match="not on a Friday"):
        a.sync()
    assert bare.ref(MAIN) == there
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_a_remote_without_atomic_push_gets_it_in_parts(bare: Bare, a: Clone, b: Clone) -> None:
    subprocess.run(("git", "config", "receive.advertiseAtomic", "false"), cwd=bare.path, check=True)
    a.record("out/a.md", "a")
    assert a.sync().went == Amount(1, 1, 0)
    b.sync()
    agree(a, b)


def test_a_push_that_nobody_takes_ends_in_come_back_later(
    a: Clone, bare: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "pause", lambda *_: None)
    a.git("config", "remote.origin.receivepack", "false")
    a.record("out/a.md", "a")
    with pytest.raises(ComeBackLater):
        a.sync()
    a.git("config", "--unset", "remote.origin.receivepack")
    assert a.sync().went == Amount(1, 1, 0)


@pytest.mark.parametrize("script", ['git-receive-pack "$@"; exit 3', 'git-receive-pack "$@"; kill -9 $$'])
def test_a_push_whose_answer_was_lost_is_not_repeated(
    a: Clone, b: Clone, tmp_path: Path, script: str
) -> None:
    server = tmp_path / "server"
    server.write_text(f"#!/bin/sh\n{script}\n")
    server.chmod(0o755)
    a.git("config", "remote.origin.receivepack", str(server))
    a.record("out/a.md", "a")
    assert a.sync().pushes == 1
    b.sync()
    agree(a, b)


def test_a_branch_that_a_dying_server_moved_alone_is_completed(bare: Bare, a: Clone, b: Clone) -> None:
    a.record("out/a.md", "a")
    a.git("push", "-q", "origin", "main")
    assert a.sync().went == Amount(0, 1, 0)
    b.sync()
    agree(a, b)


# At once


def rounds(path: Path, count: int) -> None:
    clone = Clone(path)
    for n in range(count):
        clone.record(f"out/{path.name}/{n}.md", f"{path.name} {n}")
        clone.sync()


def test_p3_several_that_push_at_once_lose_nothing(bare: Bare, a: Clone) -> None:
    clones = [a, bare.clone("b"), bare.clone("c")]
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=rounds, args=(clone.path, 5)) for clone in clones]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    clones = [Clone(clone.path) for clone in clones]
    for clone in clones:
        clone.sync()
    agree(*clones)
    assert len(bare.receipts()) == 16
    assert sum(path.startswith("out/") for path in bare.files()) == 16


# Killed

KILLER = """#!/bin/sh
# Stands in front of git; after the n-th call it kills who called.
n=$(($(cat "$COUNT")+1)); echo $n >"$COUNT"
"{git}" "$@"; code=$?
[ $n = $KILL_AFTER ] && kill -9 $PPID
exit $code
"""


def killed_sync(clone: Path, folder: Path, after: int) -> bool:
    """Sync in a process of its own, to be killed after its n-th call of git; False: it made fewer calls."""
    (folder / "count").write_text("0")
    child = os.fork()
    if not child:
        code = 1
        try:
            # git prefixes PATH for its own children, so only our calls are counted.
            os.environ.update(
                PATH=f"{folder}:{os.environ['PATH']}", COUNT=str(folder / "count"), KILL_AFTER=str(after)
            )
            Clone(clone).sync()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # The one call that does not end by itself, the reader of objects, kills nobody.
    assert code in (0, -signal.SIGKILL)
    return int((folder / "count").read_text()) >= after


@pytest.fixture
def killer(tmp_path: Path) -> Path:
    folder = tmp_path / "killer"
    folder.mkdir()
    (folder / "git").write_text(KILLER.format(git=shutil.which("git")))
    (folder / "git").chmod(0o755)
    return folder


def behind(a: Clone, b: Clone) -> None:
    """`b` has nothing of its own and must follow."""


def diverged(a: Clone, b: Clone) -> None:
    """`b` has results of its own, one of them at a path that `a` has too."""
    b.record("out/b.md", "b")
    b.record("out/0.md", "again, by b")


@pytest.mark.parametrize("prepare", [behind, diverged])
def test_p3_killed_after_any_call_of_git_the_next_sync_converges(
    a: Clone,
    b: Clone,
    killer: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Clone, Clone], None],
) -> None:
    monkeypatch.setattr(refs, "_SETTLED", 0.05)
    b.sync()
    a.record("out/a.md", "a")
    a.record("out/0.md", "again, by a")
    a.commit(plan="changed")
    a.sync()
    prepare(a, b)
    known = a.receipts() | b.receipts()
    for copy in sweep(tmp_path, killer):
        there, second = Clone(copy / "a"), Clone(copy / "b")
        left = clear_stale_locks(second.repository).left  # as every command does under the run lock
        assert not left
        second.sync()
        there.sync()
        assert there.tip() == second.tip()
        assert there.receipts() == second.receipts() == known
        assert second.status() == ""
        assert second.shown() == second.files()
        assert second.files()["out/0.md"] == "again, by a"


def sweep(tmp_path: Path, killer: Path) -> Iterator[Path]:
    """Copies of remote, a and b in which b's sync was killed, one call later each time, up to the last."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # git flushes much, and no plug is pulled here
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for after in range(1, 200):
            copy = Path(folder) / str(after)
            copy.mkdir()
            for name in ("remote.git", "a", "b"):
                shutil.copytree(tmp_path / name, copy / name, symlinks=True)
            for name in ("a", "b"):
                config = copy / name / ".git" / "config"
                config.write_text(config.read_text().replace(str(tmp_path), str(copy)))
            killed = killed_sync(copy / "b", killer, after)
            assert killed or after > 15, "the sweep must have points to sweep"
            yield copy
            shutil.rmtree(copy)
            if not killed:
                return
    sys.exit("the sync never came to its end")


def test_who_can_wait_gives_way_to_those_who_are_faster_and_has_merged_what_they_brought(
    bare: Bare, a: Clone, tmp_path: Path
) -> None:
    overtake(bare, a, tmp_path, 99)
    a.record("out/a.md", "a")
    done = a.sync(insist=False)
    assert (done.put_off, done.pushes, done.went) == (True, 2, Amount())
    assert {"rival1", "rival2", "out/a.md"} < set(a.files())
    shutil.rmtree(a.path / ".git" / "hooks")
    done = a.sync(insist=False)
    assert (done.put_off, done.went) == (False, Amount(1, 1, 0))


def test_a_remote_that_refuses_is_told_of_at_once_also_where_nobody_insists(bare: Bare, a: Clone) -> None:
    hook(bare.path, "update", "[ $1 != refs/heads/main ] || { echo 'main is protected' >&2; exit 1; }")
    a.record("out/a.md", "a")
    with pytest.raises(NeedsHuman, match="main is protected"):
        a.sync(insist=False)
