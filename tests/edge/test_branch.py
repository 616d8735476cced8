"""Bringing a branch forward: what moves, what is refused, and what must never be rewritten."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from gitstate.edge import branch, remote
from gitstate.edge.branch import Forward, Way
from gitstate.edge.remote import Remote
from gitstate.edge.reparent import Lost, is_ours
from gitstate.errors import ComeBackLater, NeedsHuman
from tests.support.clones import ENVIRONMENT, MAIN, Bare, Clone

ORIGIN = Remote("origin", MAIN)


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path / "remote.git")


@pytest.fixture
def other(bare: Bare) -> Clone:
    """Somebody else's clone, who has pushed a first commit."""
    made = bare.clone("other")
    made.commit(plan="plan", own="own")
    made.git("push", "-q", "origin", "main")
    return made


@pytest.fixture
def clone(bare: Bare, other: Clone) -> Clone:
    return bare.clone("clone")


def forward(clone: Clone, ref: str = MAIN, **options: object) -> Forward:
    there = ORIGIN._replace(branch=ref)
    fetched = remote.fetch(clone.plumbing, there)
    return branch.bring_forward(
        clone.plumbing,
        clone.repository,
        clone.objects,
        ref,
        there,
        fetched,
        **options,  # type: ignore[arg-type]
    )


def push(clone: Clone, *more: str) -> None:
    clone.git("push", "-q", *more, "origin", "main")


def test_equal_is_left_alone(clone: Clone) -> None:
    assert forward(clone) == Forward(Way.EQUAL, clone.tip(), clone.tip())


def test_ahead_is_left_alone(clone: Clone) -> None:
    clone.commit(mine="x")
    assert forward(clone).way is Way.AHEAD


def test_a_branch_that_the_remote_has_not_is_left_alone(clone: Clone) -> None:
    clone.git("switch", "-q", "-c", "topic")
    assert forward(clone, "refs/heads/topic").way is Way.ABSENT


def test_behind_is_fast_forwarded_with_index_and_files(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    other.commit(two="2")
    push(other)
    clone.write("untracked", "mine")
    moved = forward(clone)
    assert moved[0] is Way.FORWARDED
    assert moved.came == 2
    assert clone.tip() == other.tip()
    assert clone.shown()["two.txt"] == "2"
    assert clone.status() == "?? untracked"
    assert clone.git("reflog", "-1", "--format=%gs") == "gitstate sync: fast-forward"


def test_a_branch_that_is_not_checked_out_moves_alone(clone: Clone, other: Clone) -> None:
    clone.git("switch", "-q", "-c", "topic")
    other.commit(one="1")
    push(other)
    assert forward(clone).way is Way.FORWARDED
    assert clone.tip(MAIN) == other.tip()
    assert "one.txt" not in clone.shown()
    assert clone.status() == ""


def test_a_branch_that_is_not_here_yet_is_made(clone: Clone, other: Clone) -> None:
    other.git("push", "-q", "origin", "main:topic")
    assert forward(clone, "refs/heads/topic") == Forward(Way.FORWARDED, None, other.tip(), 1)
    assert clone.tip("refs/heads/topic") == other.tip()


def test_a_repository_without_a_commit_gets_its_first(bare: Bare, other: Clone, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    subprocess.run(("git", "init", "-q", "-b", "main", str(fresh)), check=True)
    clone = Clone(fresh)
    clone.git("remote", "add", "origin", bare.url)
    clone.write("mine", "mine")
    clone.git("add", "mine")
    assert forward(clone).way is Way.FORWARDED
    assert clone.shown() == {"plan.txt": "plan", "own.txt": "own", "mine": "mine"}
    assert clone.status() == "A  mine"


def test_p5_a_local_edit_in_the_way_stops_a_fast_forward(clone: Clone, other: Clone) -> None:
    other.commit(own="theirs")
    push(other)
    clone.write("own.txt", "mine")
    tip = clone.tip()
    with pytest.raises(NeedsHuman, match=r"own\.txt") as caught:
        forward(clone)
    assert "git stash" in caught.value.hint
    assert clone.tip() == tip
    assert clone.status() == " M own.txt"
    clone.git("stash", "-q")
    assert forward(clone).way is Way.FORWARDED


# Diverged by gitstate's own commits


def test_own_commits_are_put_on_the_remote_s_tip_as_one(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    push(other)
    clone.record("out/a.md", "a")
    clone.record("out/b.md", "b")
    clone.write("own.txt", "edited, not committed")
    old = clone.tip()
    replaced = clone.git("rev-list", "--reverse", "HEAD~2..").split()
    moved = forward(clone)
    assert moved.way is Way.REPARENTED
    assert moved.replaced == tuple(replaced)
    assert moved.lost == ()
    assert clone.tip("HEAD^") == other.tip()
    outputs = {"out/a.md": "a", "out/b.md": "b"}
    assert clone.files() == {"plan.txt": "plan", "own.txt": "own", "one.txt": "1", **outputs}
    assert clone.git("log", "-1", "--format=%B").count("Gitstate-Work: ") == 2
    assert clone.status() == " M own.txt"
    assert clone.tip("HEAD@{1}") == old  # nothing is lost: the reflog has it
    assert forward(clone).way is Way.AHEAD


def test_one_own_commit_keeps_its_message(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    push(other)
    clone.record("out/a.md", "a")
    before = clone.git("log", "-1", "--format=%B")
    assert forward(clone).way is Way.REPARENTED
    assert clone.git("log", "-1", "--format=%B") == before


def test_own_outputs_that_the_remote_has_alike_leave_nothing_to_add(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    other.record("out/a.md", "a")
    push(other)
    clone.record("out/a.md", "a")
    moved = forward(clone)
    assert (moved.way, moved.new, moved.lost) == (Way.REPARENTED, other.tip(), ())


def test_where_both_changed_a_path_the_remote_s_stays_and_ours_is_told(clone: Clone, other: Clone) -> None:
    other.record("out/a.md", "theirs")
    push(other)
    clone.record("out/a.md", "ours")
    clone.record("out/b.md", "b")
    mine, theirs = clone.tip("HEAD:out/a.md"), other.tip("HEAD:out/a.md")
    moved = forward(clone)
    assert moved.lost == (Lost("out/a.md", "100644", mine, theirs),)
    assert clone.files()["out/a.md"] == clone.shown()["out/a.md"] == "theirs"
    assert clone.files()["out/b.md"] == "b"


def test_where_both_changed_a_path_the_caller_may_choose_ours(clone: Clone, other: Clone) -> None:
    other.record("out/a.md", "theirs")
    push(other)
    clone.record("out/a.md", "ours")
    asked = []

    def ours(path: str, mine: str, theirs: str | None) -> str | None:
        asked.append((path, theirs))
        return mine

    moved = forward(clone, choose=ours)
    assert asked == [("out/a.md", other.tip("HEAD:out/a.md"))]
    assert moved.lost == ()
    assert clone.files()["out/a.md"] == clone.shown()["out/a.md"] == "ours"


def test_a_path_that_the_remote_deleted_stays_deleted_unless_chosen(clone: Clone, other: Clone) -> None:
    other.record("out/a.md", "first")
    push(other)
    forward(clone)
    other.git("rm", "-q", "out/a.md")
    other.git("commit", "-q", "-m", "not wanted")
    push(other)
    clone.record("out/a.md", "second")
    moved = forward(clone)
    assert [lost.stays for lost in moved.lost] == [None]
    assert "out/a.md" not in clone.shown()
    assert clone.tip() == other.tip()


def test_other_outputs_of_a_receipted_work_are_vouched_for(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    push(other)
    clone.write("out/a.md", "a")
    clone.write("out/a.json", "{}")
    clone.git("add", "-A")
    first, second = (clone.git("rev-parse", f":out/a.{end}") for end in ("md", "json"))
    clone.note("refs/notes/gitstate", first, outputs=[["out/a.md", first], ["out/a.json", second]])
    clone.git("commit", "-q", "-m", "x\n\nGitstate-Work: a/s@012345678901")
    assert forward(clone).way is Way.REPARENTED


def test_signed_repositories_get_signed_commits(clone: Clone, other: Clone, tmp_path: Path) -> None:
    signer = tmp_path / "signer"
    signer.write_text("#!/bin/sh\ncat >/dev/null\necho SIGNED\necho '[GNUPG:] SIG_CREATED ' >&2\n")
    signer.chmod(0o755)
    other.commit(one="1")
    push(other)
    clone.record("out/a.md", "a")
    clone.git("config", "commit.gpgSign", "true")
    clone.git("config", "gpg.program", str(signer))
    forward(clone)
    assert "gpgsig SIGNED" in clone.git("cat-file", "commit", "HEAD")


# Diverged by a user


def refused(clone: Clone, words: str) -> NeedsHuman:
    """Bringing forward is refused with these words, and nothing at all has moved."""
    before = clone.tip(), clone.status(), clone.shown()
    with pytest.raises(NeedsHuman, match=words) as caught:
        forward(clone)
    assert (clone.tip(), clone.status(), clone.shown()) == before
    return caught.value


def test_a_user_s_commit_that_diverged_is_never_rewritten(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    push(other)
    clone.record("out/a.md", "a")
    clone.commit(mine="x")
    error = refused(clone, "by hand: mine")
    assert error.exit_code == 3
    assert "git pull --rebase origin main" in error.hint
    assert "out/a.md" not in error.message
    clone.git("pull", "-q", "--rebase", "origin", "main")
    assert forward(clone).way is Way.AHEAD


def test_a_user_s_merge_is_never_rewritten(clone: Clone, other: Clone) -> None:
    clone.record("out/a.md", "a")
    clone.git("switch", "-q", "-c", "topic", "HEAD^")
    clone.record("out/b.md", "b")
    clone.git("switch", "-q", "main")
    clone.git("merge", "-q", "-m", "joined\n\nGitstate-Work: x", "topic")
    other.commit(one="1")
    push(other)
    refused(clone, "joined")


def test_what_a_user_put_into_a_commit_of_ours_is_theirs(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    push(other)
    clone.record("out/a.md", "a")
    clone.write("own.txt", "amended")
    clone.git("commit", "-q", "-a", "--amend", "--no-edit")
    refused(clone, r"own\.txt")


def test_an_output_that_a_user_deleted_in_a_commit_of_ours_is_theirs_to_decide(
    clone: Clone, other: Clone
) -> None:
    other.commit(one="1")
    push(other)
    clone.record("out/a.md", "a")
    clone.git("rm", "-q", "own.txt")
    clone.git("commit", "-q", "--amend", "--no-edit")
    refused(clone, r"own\.txt")


def test_histories_without_a_common_commit_are_refused(clone: Clone, other: Clone) -> None:
    other.git("switch", "-q", "--orphan", "fresh")
    other.commit(elsewhere="x")
    other.git("push", "-q", "--force", "origin", "fresh:main")
    assert "--allow-unrelated-histories" in refused(clone, "no commit in common").hint


def test_a_remote_whose_history_was_rewritten_does_not_get_the_old_one_back(
    clone: Clone, other: Clone
) -> None:
    other.record("out/a.md", "a")
    push(other)
    forward(clone)
    other.git("reset", "-q", "--hard", "HEAD^")
    push(other, "--force")
    error = refused(clone, "rewritten.*Record out/a.md")
    assert "git rebase --onto origin/main" in error.hint
    clone.record("out/b.md", "b")
    gone = error.hint.split("--onto origin/main ")[1].split(" ")[0]
    clone.git("rebase", "-q", "--onto", "origin/main", gone)
    assert forward(clone).way is Way.AHEAD
    assert "out/b.md" in clone.files()


@pytest.mark.parametrize("amended", [False, True])
def test_a_remote_whose_history_was_rewritten_gets_the_old_one_back_as_the_error_says(
    bare: Bare, clone: Clone, other: Clone, amended: bool
) -> None:
    other.record("out/a.md", "a")
    push(other)
    forward(clone)
    other.git("reset", "-q", "--hard", "HEAD^")
    if amended:
        other.commit(plan="another")
    push(other, "--force")
    (command,) = re.findall(r"put it back: (git push .*?)\. Then", refused(clone, "rewritten").hint)
    clone.git(*command.split()[1:])
    assert forward(clone).way is Way.EQUAL


@pytest.mark.parametrize("user", [False, True])
def test_what_is_to_be_mended_is_the_branch_that_is_recorded_on_whatever_is_checked_out(
    clone: Clone, other: Clone, user: bool
) -> None:
    other.record("out/a.md", "a")
    push(other)
    forward(clone)
    if user:
        clone.commit(mine="x")
        other.commit(theirs="x")
    else:
        other.git("reset", "-q", "--hard", "HEAD^")
    push(other, "--force")
    hint = refused(clone, "origin").hint
    clone.git("switch", "-q", "-c", "another")
    assert refused(clone, "origin").hint == "Go to that branch: git switch main. " + hint


def test_a_rewritten_history_is_noticed_from_what_the_clone_brought(bare: Bare, other: Clone) -> None:
    other.commit(secret="x")
    push(other)
    clone = bare.clone("late")
    other.git("commit", "-q", "--amend", "-m", "without it")
    push(other, "--force")
    refused(clone, "rewritten.*secret")


def slow(commits: int, other: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many commits of somebody whose clock is slow by days."""
    with monkeypatch.context() as clock:
        for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
            clock.setenv(name, "1700000000 +0000")
        for number in range(commits):
            other.record(f"out/{number}.md", str(number))
    push(other)


def test_p3_own_commits_go_onto_many_by_a_clock_that_is_slow(
    clone: Clone, other: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.commit(plan="another")
    push(other)
    forward(clone)
    slow(9, other, monkeypatch)
    clone.record("out/mine.md", "mine")
    moved = forward(clone)
    assert (moved.way, moved.came, len(moved.replaced)) == (Way.REPARENTED, 9, 1)
    assert {"out/mine.md", "out/8.md"} <= set(clone.files())


def test_p3_what_a_clock_that_is_slow_recorded_over_is_not_brought_back(
    clone: Clone, other: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.record("out/0.md", "by an older prompt")
    push(other)
    forward(clone)
    slow(9, other, monkeypatch)  # this very output anew, too
    clone.record("out/mine.md", "mine")
    moved = branch_choosing_ours(clone)
    assert (moved.way, len(moved.replaced)) == (Way.REPARENTED, 1)
    assert clone.files()["out/0.md"] == "0"


def branch_choosing_ours(clone: Clone) -> Forward:
    """`forward` where whatever counts as ours stays."""
    return forward(clone, choose=lambda path, ours, theirs: ours)


def test_a_merge_under_way_is_not_disturbed(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    push(other)
    (clone.path / ".git" / "MERGE_HEAD").write_text(clone.tip() + "\n")
    refused(clone, "MERGE_HEAD")
    (clone.path / ".git" / "MERGE_HEAD").unlink()
    assert forward(clone).way is Way.FORWARDED


def test_a_branch_that_is_being_rebased_is_not_moved(clone: Clone, other: Clone) -> None:
    clone.commit(own="mine")
    clone.commit(mine="x")
    clone.git("-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "HEAD~2", check=False)
    assert (clone.path / ".git" / "rebase-merge").exists()
    other.commit(one="1")
    push(other)
    with pytest.raises(NeedsHuman):
        forward(clone)


def test_a_branch_checked_out_in_another_working_tree_is_moved_there_only(
    clone: Clone, other: Clone, tmp_path: Path
) -> None:
    clone.git("worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    linked = Clone(tmp_path / "linked")
    other.commit(one="1")
    push(other)
    refused(linked, "another working tree")
    assert forward(clone).way is Way.FORWARDED
    other.git("push", "-q", "origin", "main:topic")
    assert forward(linked, "refs/heads/topic").way is Way.FORWARDED
    assert linked.shown()["one.txt"] == "1"
    assert linked.status() == ""


# Shallow


def test_a_shallow_clone_is_brought_forward_and_its_own_commits_re_parented(bare: Bare, other: Clone) -> None:
    for n in range(3):
        other.commit(**{f"f{n}": "x"})
    push(other)
    clone = bare.clone("shallow", "--depth", "1")
    other.commit(one="1")
    push(other)
    assert forward(clone).way is Way.FORWARDED
    other.commit(two="2")
    push(other)
    clone.record("out/a.md", "a")
    assert forward(clone).way is Way.REPARENTED
    assert clone.git("rev-parse", "--is-shallow-repository") == "true"


def test_a_clone_too_shallow_to_decide_says_so(bare: Bare, other: Clone) -> None:
    clone = bare.clone("shallow", "--depth", "1")
    clone.record("out/a.md", "a")
    for n in range(3):
        other.commit(**{f"f{n}": "x"})
    push(other)
    clone.git("fetch", "-q", "--depth", "1", "origin", "+main:refs/remotes/origin/main")
    assert "--unshallow" in refused(clone, "too shallow").hint
    clone.git("fetch", "-q", "--unshallow", "origin")
    assert forward(clone).way is Way.REPARENTED


# Races and kills


class Killed(Exception):
    """Stands for a SIGKILL between two steps."""


def die(*_: object, **__: object) -> bool:
    raise Killed


@pytest.mark.parametrize("diverged", [False, True])
def test_killed_between_files_and_branch_the_next_one_finishes(
    clone: Clone, other: Clone, monkeypatch: pytest.MonkeyPatch, diverged: bool
) -> None:
    other.commit(one="1", own="theirs")
    push(other)
    if diverged:
        clone.record("out/a.md", "a")
    with monkeypatch.context() as patch:
        patch.setattr(branch, "compare_and_swap", die)
        with pytest.raises(Killed):
            forward(clone)
    assert clone.status() != ""
    # Meanwhile the remote goes on, and changes again what the interrupted move had brought.
    other.commit(own="theirs again")
    other.git("rm", "-q", "one.txt")
    other.git("commit", "-q", "-m", "gone")
    push(other)
    forward(clone)
    assert clone.status() == ""
    assert clone.shown() == clone.files()
    assert clone.files()["own.txt"] == "theirs again"
    assert "one.txt" not in clone.files()
    assert clone.files().get("out/a.md") == ("a" if diverged else None)


def test_a_user_who_commits_in_the_middle_of_it_loses_nothing(
    clone: Clone, other: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.commit(one="1")
    push(other)
    real = branch.compare_and_swap

    def commits_first(*arguments: object) -> bool:
        monkeypatch.setattr(branch, "compare_and_swap", real)
        clone.write("own.txt", "mine")
        clone.git("commit", "-q", "-m", "by hand: only mine", "own.txt")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(branch, "compare_and_swap", commits_first)
    with pytest.raises(NeedsHuman, match="by hand: only mine"):
        forward(clone)
    assert clone.status() == ""
    assert clone.files() == {"plan.txt": "plan", "own.txt": "mine"}
    clone.git("pull", "-q", "--rebase", "origin", "main")
    assert clone.files()["one.txt"] == "1"


def test_an_index_that_a_failing_commit_of_the_user_s_wrote_over_ours_is_mended(
    clone: Clone, other: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.commit(one="1", own="theirs")
    push(other)
    index = clone.path / ".git" / "index"
    old, real = index.read_bytes(), branch.compare_and_swap

    def overwritten(*arguments: object) -> bool:
        index.unlink()
        index.write_bytes(old)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(branch, "compare_and_swap", overwritten)
    assert forward(clone).way is Way.FORWARDED
    assert clone.status() == ""


def test_an_interrupted_move_that_the_user_has_left_behind_is_forgotten(clone: Clone, other: Clone) -> None:
    journal = clone.path / ".git" / "gitstate" / "forward"
    journal.parent.mkdir()
    journal.write_text(f"{MAIN} {'1' * 40} {clone.tip()} .\n")
    assert forward(clone).way is Way.EQUAL
    assert not journal.exists()
    journal.write_text("torn")
    assert forward(clone).way is Way.EQUAL
    assert not journal.exists()
    journal.write_text(f"refs/heads/topic {'1' * 40} {clone.tip()} .\n")
    assert forward(clone).way is Way.EQUAL
    assert journal.exists()


def test_a_ref_that_another_process_holds_is_something_to_come_back_for(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    push(other)
    lock = clone.path / ".git" / "refs" / "heads" / "main.lock"
    lock.touch()
    with pytest.raises(ComeBackLater, match=r"main\.lock"):
        forward(clone)
    lock.unlink()
    assert forward(clone).way is Way.FORWARDED
    assert clone.status() == ""


def test_a_commit_is_ours_by_its_trailer_and_one_parent(clone: Clone) -> None:
    def made(body: str, *parents: str) -> bool:
        options = [word for parent in parents for word in ("-p", parent)]
        oid = clone.git("commit-tree", "-m", body, *options, "HEAD^{tree}")
        found = clone.objects.read(oid)
        assert found is not None
        return is_ours(found[1])

    tip = clone.tip()
    assert made("x\n\nGitstate-Work: a/b@0123", tip)
    assert made("x\n\nGitstate-Record: 1", tip)
    assert not made("x\n\nGitstate-Record: 12", tip)
    assert not made("x\n\n> Gitstate-Work: a/b@0123", tip)
    assert not made("x\n\nGitstate-Work: a/b@0123")
    assert not made("x\n\nGitstate-Work: a/b@0123", tip, clone.commit(y="y"))
    assert not made("by hand", tip)


def test_notes_that_are_no_receipts_vouch_for_what_they_hang_on(clone: Clone, other: Clone) -> None:
    other.commit(one="1")
    push(other)
    clone.record("out/a.md", "a")
    blob = clone.tip("HEAD:out/a.md")
    clone.note("refs/notes/gitstate", blob, outputs="odd")
    clone.note("refs/notes/gitstate", blob, outputs=[json.loads("1")])
    assert forward(clone).way is Way.REPARENTED
