"""P2: the answer hangs on content, so it survives rewritten history and every kind of clone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.world import Clone, World

BOTH_DONE = {"one/article": "done exact", "two/article": "done exact"}


def amend(a: Clone) -> None:
    a.git("commit", "-q", "--amend", "-m", "Another message")


def squash_merge(a: Clone) -> None:
    a.git("checkout", "-q", "-b", "flat", first_commit(a))
    a.git("merge", "-q", "--squash", "main")
    a.git("commit", "-q", "-m", "All at once")


def rebase(a: Clone) -> None:
    a.git("checkout", "-q", "-b", "base", first_commit(a))
    a.commit({"unrelated.txt": "x\n"})
    a.git("rebase", "-q", "base", "main")


def cherry_pick(a: Clone) -> None:
    a.git("checkout", "-q", "-b", "picked", first_commit(a))
    a.commit({"unrelated.txt": "x\n"})
    a.git("cherry-pick", f"{first_commit(a)}..main")


def rebuild_without_history(a: Clone) -> None:
    """An orphan branch, with everything else gone for good."""
    a.git("checkout", "-q", "--orphan", "fresh")
    a.git("commit", "-q", "-m", "A new beginning")
    a.git("branch", "-D", "main")
    a.git("reflog", "expire", "--expire=now", "--all")
    a.git("gc", "-q", "--prune=now")


def first_commit(a: Clone) -> str:
    return a.git("rev-list", "--max-parents=0", "main")


@pytest.mark.parametrize(
    "rewrite", [amend, squash_merge, rebase, cherry_pick, rebuild_without_history], ids=lambda f: f.__name__
)
def test_p2_rewritten_history_stays_done(finished: World, rewrite: Callable[[Clone], None]) -> None:
    rewrite(finished.a)
    assert finished.a.states() == BOTH_DONE
    before = finished.a.git("rev-parse", "HEAD")
    finished.a.run()
    assert finished.paid() == {"one/article": 1, "two/article": 1}
    assert finished.a.git("rev-parse", "HEAD") == before


def test_p2_a_clone_of_depth_one_knows_everything(shared: World) -> None:
    shallow = shared.clone("shallow", "--depth", "1")
    shallow.run()
    assert shallow.states() == BOTH_DONE
    assert shared.paid() == {"one/article": 1, "two/article": 1}
    assert shallow.git("rev-parse", "--is-shallow-repository") == "true"


def test_p2_a_clone_of_depth_one_takes_part_like_any_other(shared: World) -> None:
    shallow = shared.clone("shallow", "--depth", "1")
    shallow.commit({"plan.yaml": "- one\n- two\n- three\n"})
    shallow.run()
    shared.a.run()
    assert shared.paid() == {"one/article": 1, "two/article": 1, "three/article": 1}
    assert shared.a.plan_text() == shallow.plan_text()


def events(trace: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in trace.read_text().splitlines()] if trace.exists() else []


def commands(trace: Path, name: str) -> int:
    """How many git processes of one name git's own trace shows."""
    return sum(event["event"] == "cmd_name" and event["name"] == name for event in events(trace))


def test_p2_a_blobless_clone_reads_its_notes_in_one_batch(tmp_path: Path) -> None:
    slugs = [f"item-{number:02}" for number in range(24)]
    world = World(tmp_path, items=slugs, remote=True)
    world.git(world.remote, "config", "uploadpack.allowFilter", "true")
    world.a.run("-j", "4", "--push", "end")
    partial = world.clone("partial", "--filter=blob:none")
    trace = tmp_path / "trace"
    partial.run(GIT_TRACE2_EVENT=str(trace))
    assert commands(trace, "fetch") + commands(trace, "ls-remote") <= 4
    assert len(world.calls()) == len(slugs)
    trace.unlink()
    text = partial.plan_text(GIT_TRACE2_EVENT=str(trace))
    assert events(trace)
    assert commands(trace, "fetch") == 0
    assert text == world.a.plan_text()


def test_p2_a_blobless_clone_restores_in_one_batch(tmp_path: Path) -> None:
    slugs = [f"item-{number:02}" for number in range(12)]
    world = World(tmp_path, items=slugs, remote=True)
    world.git(world.remote, "config", "uploadpack.allowFilter", "true")
    world.a.run("-j", "4", "--push", "end")
    world.a.git("rm", "-rq", "out")
    world.a.git("commit", "-q", "-m", "Delete all")
    world.a.git("push", "-q")
    partial = world.clone("partial", "--filter=blob:none")
    trace = tmp_path / "trace"
    done = partial.run(GIT_TRACE2_EVENT=str(trace))
    assert "12 restored" in done.err
    assert commands(trace, "fetch") <= 6
    assert len(world.calls()) == len(slugs)
    assert set(partial.states().values()) == {"done exact"}


def test_p2_a_linked_worktree_shares_the_receipts(finished: World) -> None:
    finished.a.git("worktree", "add", "-q", "-b", "side", "../tree")
    tree = Clone(finished, finished.folder / "tree")
    assert tree.states() == BOTH_DONE
    tree.commit({"plan.yaml": "- one\n- two\n- three\n"})
    tree.run()
    assert finished.paid() == {"one/article": 1, "two/article": 1, "three/article": 1}
    assert tree.states()["three/article"] == "done exact"
    assert tree.status() == ""
    assert not finished.a.has("out/three.md")
    finished.a.git("merge", "-q", "side")
    assert set(finished.a.states().values()) == {"done exact"}
    finished.a.run()
    assert len(finished.calls()) == 3


def test_p2_a_sha256_repository_works_like_any_other(tmp_path: Path) -> None:
    world = World(tmp_path, format="sha256", remote=True)
    world.a.run()
    assert world.a.states() == BOTH_DONE
    assert all(len(line["outputs"][0][1]) == 64 for line in world.a.receipts())
    other = world.clone("b")
    other.run()
    assert world.paid() == {"one/article": 1, "two/article": 1}
    other.git("rm", "-q", "out/one.md")
    other.commit({"out/two.md": "edited\n"})
    assert other.states() == {"one/article": "pending missing", "two/article": "done edited"}
    other.run()
    world.a.run()
    assert world.a.plan_text() == other.plan_text()
    assert world.paid() == {"one/article": 1, "two/article": 1}


def test_p2_garbage_collection_loses_nothing(finished: World) -> None:
    text = finished.a.plan_text()
    finished.a.git("reflog", "expire", "--expire=now", "--all")
    finished.a.git("gc", "-q", "--prune=now")
    assert finished.a.plan_text() == text
    assert finished.a.git("fsck", "--no-dangling") == ""


def test_p2_a_sparse_checkout_changes_no_answer(finished: World) -> None:
    text = finished.a.plan_text()
    assert finished.a.status() == ""  # which lets git's index learn the files' time stamps
    finished.a.git("sparse-checkout", "set", "prompts")
    assert not finished.a.has("out/one.md")
    assert finished.a.plan_text() == text
    finished.a.run()
    assert finished.paid() == {"one/article": 1, "two/article": 1}
