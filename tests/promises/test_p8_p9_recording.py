"""P8: recorded or failed. P9: commits hold exactly the declared outputs, the index gains exactly their entries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.world import RECEIPTS, Clone, World, patiently, until


def changed(a: Clone, commit: str) -> set[str]:
    """The paths that a commit changes."""
    return set(a.git("diff-tree", "-r", "--no-commit-id", "--name-only", "--root", commit).splitlines())


def ours(a: Clone, since: str = "") -> list[str]:
    """gitstate's own commits, oldest first."""
    span = f"{since}..HEAD" if since else "HEAD"
    return a.git("log", "--reverse", "--format=%H", "--grep=^Gitstate-Work:", span).split()


# --- what commits hold -----------------------------------------------------------------------------------


def test_p9_a_commit_holds_exactly_its_outputs_and_names_its_works(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.a.run()
    for commit in ours(world.a):
        trailers = world.a.git(
            "log", "-1", "--format=%(trailers:key=Gitstate-Work,valueonly)", commit
        ).split()
        slugs = {trailer.partition("/")[0] for trailer in trailers}
        assert changed(world.a, commit) == {f"out/{slug}.md" for slug in slugs}
    works = {work["id"] for work in world.a.plan()["work"]}
    log = world.a.git("log", "--format=%(trailers:key=Gitstate-Work,valueonly)").split()
    assert set(log) == works
    assert world.a.git("log", "-1", "--format=%an <%ae>") == "A Writer <writer@example.org>"


def test_p9_staged_changes_stay_staged_and_out_of_our_commits(tmp_path: Path) -> None:
    world = World(tmp_path, files={"notes.txt": "old\n", "gone.txt": "x\n", "moved.txt": "a\nb\nc\n"})
    a = world.a
    a.write("notes.txt", "staged\n")
    a.write("new.txt", "staged\n")
    a.git("add", "notes.txt", "new.txt")
    a.git("rm", "-q", "gone.txt")
    a.git("mv", "moved.txt", "there.txt")
    a.write("notes.txt", "and changed again\n")
    a.write("untracked.txt", "mine\n")
    a.write("intended.txt", "later\n")
    a.git("add", "--intent-to-add", "intended.txt")
    before, staged = a.status(), a.git("ls-files", "-s")
    a.run()
    assert a.status() == before
    assert a.read("notes.txt") == "and changed again\n"
    assert set().union(*(changed(a, commit) for commit in ours(a))) == {"out/one.md", "out/two.md"}
    gained = set(a.git("ls-files", "-s").splitlines()) - set(staged.splitlines())
    assert gained == {f"100644 {a.blob(path)} 0\t{path}" for path in ("out/one.md", "out/two.md")}
    assert set(staged.splitlines()) <= set(a.git("ls-files", "-s").splitlines())


def test_p9_flags_of_index_entries_survive(tmp_path: Path) -> None:
    world = World(tmp_path, files={"assumed.txt": "x\n", "skipped.txt": "x\n"})
    world.a.git("update-index", "--assume-unchanged", "assumed.txt")
    world.a.git("update-index", "--skip-worktree", "skipped.txt")
    before = world.a.git("ls-files", "-v").splitlines()
    world.a.run()
    assert [line for line in world.a.git("ls-files", "-v").splitlines() if "out/" not in line] == before


def test_p9_a_merge_conflict_in_the_index_is_not_touched(tmp_path: Path) -> None:
    world = World(tmp_path, files={"text.txt": "base\n"})
    a = world.a
    a.git("checkout", "-q", "-b", "side")
    a.commit({"text.txt": "side\n"})
    a.git("checkout", "-q", "main")
    a.commit({"text.txt": "main\n"})
    a.git("merge", "-q", "side", check=False)
    before = a.git("ls-files", "-u")
    assert before
    a.gitstate("run")
    assert a.git("ls-files", "-u") == before
    assert "<<<<<<<" in a.read("text.txt")


def test_p9_the_stash_and_other_branches_are_not_touched(tmp_path: Path) -> None:
    world = World(tmp_path, files={"notes.txt": "old\n"})
    world.a.git("branch", "other")
    world.a.write("notes.txt", "put aside\n")
    world.a.git("stash", "-q")
    before = world.a.git("for-each-ref", "refs/stash", "refs/heads/other", "refs/tags")
    world.a.run()
    assert world.a.git("for-each-ref", "refs/stash", "refs/heads/other", "refs/tags") == before


# --- somebody else at work in the same clone -------------------------------------------------------------


def test_p9_a_users_commits_in_the_middle_of_a_run_stay(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"], files={"notes.txt": "0\n"})
    world.tell(before=patiently("date +%N >> notes.txt && git commit -q -m Mine notes.txt"))
    world.a.run("-j", "1")
    mine = world.a.git("log", "--format=%H", "--grep=^Mine").split()
    assert len(mine) == 3
    assert all(changed(world.a, commit) == {"notes.txt"} for commit in mine)
    assert set(world.a.states().values()) == {"done exact"}
    assert world.a.status() == ""
    assert set(world.paid().values()) == {1}


def test_p9_a_users_commit_that_takes_everything_along_loses_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"])
    world.tell("two", before=patiently("date > notes.txt && git add -A && git commit -q -m Mine"))
    world.a.run()
    assert world.a.files() >= {"out/one.md", "out/two.md", "out/three.md", "notes.txt"}
    assert set(world.a.states().values()) == {"done exact"}
    assert world.a.status() == ""


def test_p9_a_users_change_of_the_prompt_in_the_middle_of_a_run_makes_stale_what_was_made_before(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, items=["one", "two"])
    change = "echo 'Another for {{ slug }}.' > prompts/article.md && git commit -q -m Mine prompts/article.md"
    world.tell("two", before=patiently(change), once=True)
    world.a.run("--limit", "2")
    assert world.a.states()["one/article"] == "pending stale prompt"
    world.a.run()
    assert set(world.a.states().values()) == {"done exact"}
    receipts = {line["work"] for line in world.a.receipts() if line["slug"] == "one"}
    assert len(receipts) == 2


def test_p8_a_run_whose_finished_work_became_stale_meanwhile_does_not_end_in_0(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two"])
    change = "echo 'Another for {{ slug }}.' > prompts/article.md && git commit -q -m Mine prompts/article.md"
    world.tell("two", before=patiently(change), once=True)
    assert "1 work is due again" in world.a.run(code=75).err
    world.a.run()
    assert set(world.a.states().values()) == {"done exact"}


def test_p9_a_switch_of_branches_in_the_middle_of_a_run_mixes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two"])
    world.a.git("branch", "other")
    base = world.a.git("rev-parse", "main")
    world.tell("one", before="git checkout -q other", once=True)
    done = world.a.gitstate("run")
    assert world.a.git("symbolic-ref", "HEAD") == "refs/heads/other"
    assert (
        changed(world.a, "HEAD") <= {"out/one.md", "out/two.md"} or world.a.git("rev-parse", "HEAD") == base
    )
    world.a.gitstate("run")
    assert done.code in (0, 3, 75)
    world.a.git("checkout", "-q", "main")
    world.a.run()
    assert set(world.a.states().values()) == {"done exact"}
    assert world.a.status() == ""
    assert set(world.paid().values()) == {1}


def test_p9_a_held_index_lock_is_waited_for_and_then_costs_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    lock = world.a.path / ".git/index.lock"
    lock.write_bytes(b"DIRC somebody else's")
    done = world.a.run(code=75)
    assert str(lock) in done.err
    assert lock.read_bytes() == b"DIRC somebody else's"
    assert world.a.git("rev-parse", "--verify", "-q", RECEIPTS, check=False) == ""
    lock.unlink()
    world.a.run()
    assert world.paid() == {"one/article": 1}
    assert world.a.states() == {"one/article": "done exact"}


def test_p9_an_index_lock_that_goes_away_in_time_is_no_failure(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    lock = world.a.path / ".git/index.lock"
    lock.write_bytes(b"DIRC somebody else's")
    running = world.a.start("run")
    until(lambda: any((world.a.state / "attempts").glob("*.written")), running)
    lock.unlink()
    running.wait(0)
    assert world.a.states() == {"one/article": "done exact"}


# --- P8 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", [RECEIPTS, "refs/heads/main"])
def test_p8_where_a_ref_cannot_be_moved_the_run_does_not_say_done(tmp_path: Path, ref: str) -> None:
    world = World(tmp_path, items=["one"])
    lock = world.a.path / ".git" / f"{ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    done = world.a.run(code=75)
    assert str(lock) in done.err
    assert "1 done" not in done.err
    assert world.a.states()["one/article"] != "done exact"
    lock.unlink()
    world.a.run()
    assert world.paid() == {"one/article": 1}
    assert world.a.states() == {"one/article": "done exact"}


def test_p8_what_the_run_says_is_done_is_done_in_a_fresh_clone_of_the_folder(finished: World) -> None:
    finished.git(finished.folder, "clone", "-q", "--mirror", "a", "mirror.git")
    finished.git(finished.folder, "clone", "-q", "mirror.git", "b")
    copy = Clone(finished, finished.folder / "b")
    copy.git("fetch", "-q", "origin", f"{RECEIPTS}:{RECEIPTS}")
    assert set(copy.states().values()) == {"done exact"}
    assert copy.git("fsck", "--strict", "--no-dangling") == ""


# --- hooks and signatures --------------------------------------------------------------------------------


def hook(a: Clone, name: str, script: str) -> None:
    path = a.path / ".git/hooks" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_p9_a_commit_msg_hook_that_edits_is_honoured(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    hook(world.a, "commit-msg", 'echo "Change-Id: I0123" >> "$1"')
    world.a.run()
    message = world.a.git("log", "-1", "--format=%B")
    assert "Change-Id: I0123" in message
    assert "Gitstate-Work: one/article@" in message


def test_p8_a_commit_msg_hook_that_refuses_is_an_error_and_nothing_is_paid_again(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    hook(world.a, "commit-msg", 'echo "no ticket in the message" >&2; exit 1')
    head = world.a.git("rev-parse", "HEAD")
    done = world.a.run(code=3)
    assert "no ticket in the message" in done.err
    assert world.a.git("rev-parse", "HEAD") == head
    hook(world.a, "commit-msg", "true")
    world.a.run()
    assert world.paid() == {"one/article": 1}
    assert world.a.states() == {"one/article": "done exact"}


def test_p9_other_hooks_are_not_run_on_our_commits(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    for name in ("pre-commit", "prepare-commit-msg", "post-commit"):
        hook(world.a, name, f"touch {tmp_path}/{name}; exit 1")
    world.a.run()
    assert not (tmp_path / "pre-commit").exists()


@pytest.fixture
def signing(tmp_path: Path) -> World:
    """A clone that signs its commits with an SSH key."""
    world = World(tmp_path, items=["one"])
    key = tmp_path / "key"
    command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "writer", "-f", str(key))
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no ssh-keygen here")
    public = key.with_suffix(".pub").read_text()
    (tmp_path / "signers").write_text(f"writer@example.org {public}")
    for name, value in {
        "gpg.format": "ssh", "user.signingKey": str(key), "commit.gpgSign": "true",
        "gpg.ssh.allowedSignersFile": str(tmp_path / "signers"),
    }.items():  # fmt: skip
        world.a.git("config", name, value)
    return world


def test_p9_our_commits_are_signed_where_commits_are(signing: World) -> None:
    signing.a.run()
    assert signing.a.git("log", "-1", "--format=%G?") == "G"
    assert "Gitstate-Work: one/article@" in signing.a.git("log", "-1", "--format=%B")


def test_p8_where_signing_fails_nothing_unsigned_is_committed_and_nothing_is_paid_again(
    signing: World,
) -> None:
    key = signing.folder / "key"
    key.rename(key.with_suffix(".away"))
    head = signing.a.git("rev-parse", "HEAD")
    done = signing.a.run(code=3)
    assert "sign" in done.err
    assert signing.a.git("rev-parse", "HEAD") == head
    key.with_suffix(".away").rename(key)
    signing.a.run()
    assert signing.paid() == {"one/article": 1}
    assert signing.a.git("log", "-1", "--format=%G?") == "G"


# --- which branch ----------------------------------------------------------------------------------------


def test_p9_a_detached_head_needs_a_branch(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.a.git("checkout", "-q", "--detach")
    done = world.a.run(code=2)
    assert "--branch" in done.err
    assert world.calls() == []
    assert set(world.a.states().values()) == {"pending new"}


def test_p9_another_branch_is_recorded_on_without_being_checked_out(tmp_path: Path) -> None:
    world = World(tmp_path)
    head = world.a.git("rev-parse", "HEAD")
    world.a.run("--branch", "results")
    assert world.a.git("rev-parse", "HEAD") == head
    assert world.a.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert world.a.status() == ""
    assert not world.a.has("out")
    assert world.a.files("results") >= {"out/one.md", "out/two.md"}
    world.a.run("--branch", "results")
    assert world.paid() == {"one/article": 1, "two/article": 1}
    world.a.git("merge", "-q", "results")
    assert set(world.a.states().values()) == {"done exact"}


def test_p9_a_detached_head_may_record_on_a_branch(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.a.git("checkout", "-q", "--detach")
    world.a.run("--branch", "results")
    world.a.git("checkout", "-q", "results")
    assert set(world.a.states().values()) == {"done exact"}
    assert world.a.status() == ""


def test_p9_a_branch_without_a_commit_is_a_clear_error(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.a.git("checkout", "-q", "--orphan", "fresh")
    world.a.git("rm", "-rq", "--cached", ".")
    done = world.a.run(code=2)
    assert "gitstate.yaml" in done.err
    assert "ommit" in done.err
    assert world.calls() == []
    assert set(world.a.states().values()) == {"pending new"}


@pytest.mark.parametrize("path", ["gitstate.yaml", "plan.yaml", "prompts/article.md"])
def test_p9_sources_that_are_not_committed_stop_the_run_unless_allowed(tmp_path: Path, path: str) -> None:
    world = World(tmp_path)
    world.a.write(path, world.a.read(path) + "\n")
    done = world.a.run(code=2)
    assert path in done.err
    assert world.calls() == []
    world.a.run("--allow-dirty")
    assert len(world.calls()) == 2
    assert set(world.a.states().values()) == {"done exact"}
    assert world.a.status() == f" M {path}"
