"""Hosts that refuse something, met through the command line: nothing is paid twice, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import hosts
from tests.support.world import ARTICLE, Clone, World

BOTH_DONE = {"one/article": "done exact", "two/article": "done exact"}
PAID_ONCE = {"one/article": 1, "two/article": 1}


def merge(clone: Clone) -> None:
    clone.git("merge", "-q", "--no-ff", "-m", "Merge the results", "origin/results")


def squash(clone: Clone) -> None:
    clone.git("merge", "-q", "--squash", "origin/results")
    clone.git("commit", "-q", "-m", "All results at once")


def rebase(clone: Clone) -> None:
    clone.git("checkout", "-q", "-b", "rebased", "origin/results")
    clone.git("rebase", "-q", "main")
    clone.git("checkout", "-q", "main")
    clone.git("merge", "-q", "--ff-only", "rebased")


@pytest.mark.parametrize("bring_in", [merge, squash, rebase], ids=lambda f: f.__name__)
def test_p2_results_on_a_branch_of_their_own_are_done_once_they_are_merged_into_a_protected_one(
    tmp_path: Path, bring_in: Callable[[Clone], None]
) -> None:
    world = World(tmp_path, remote=True)
    hosts.protected(world.remote)
    world.a.run("--branch", "results")
    reviewer = world.clone("reviewer")
    reviewer.commit({"unrelated.txt": "meanwhile\n"})
    bring_in(reviewer)
    (world.remote / "merging").touch()
    reviewer.git("push", "-q", "origin", "main", ":results")
    (world.remote / "merging").unlink()
    world.a.git("pull", "-q")
    other = world.clone("b")
    for clone in (other, world.a):
        clone.run()
        assert clone.states() == BOTH_DONE
    assert other.plan_text() == world.a.plan_text()
    assert world.paid() == PAID_ONCE


def test_a_protected_branch_stops_the_run_with_the_way_out_and_what_is_paid_stays(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True)
    hosts.protected(world.remote)
    done = world.a.run(code=3)
    assert "main is protected" in done.err
    assert "gitstate run --branch NAME" in done.err
    assert world.paid() == {"one/article": 1}
    world.a.run("--branch", "results")
    assert len(world.git(world.remote, "ls-tree", "-r", "--name-only", "results", "out").split()) == 2
    assert world.paid() == PAID_ONCE


def test_too_many_pushes_end_in_come_back_later_and_the_next_sync_delivers(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True)
    hosts.limited(world.remote, 0)
    done = world.a.run(code=75)
    assert "too many pushes" in done.err
    assert "Traceback" not in done.err
    assert world.a.states() == BOTH_DONE
    (world.remote / "hooks/pre-receive").unlink()
    world.a.gitstate("sync", code=0)
    other = world.clone("b")
    other.run()
    assert other.plan_text() == world.a.plan_text()
    assert world.paid() == PAID_ONCE
    assert "refs/heads/gitstate" not in world.git(world.remote, "for-each-ref")


@pytest.mark.parametrize("refuse", hosts.BRANCHES_ONLY, ids=lambda f: f.__name__)
def test_p3_a_plain_clone_of_a_host_that_takes_only_branches_agrees_after_its_first_run(
    tmp_path: Path, refuse: Callable[[Path], None]
) -> None:
    world = World(tmp_path, remote=True)
    refuse(world.remote)
    world.a.run()
    other = world.clone("b")
    other.run()
    assert world.paid() == PAID_ONCE
    assert other.plan_text() == world.a.plan_text()
    assert other.states() == BOTH_DONE


def test_ci_reads_the_receipts_of_such_a_host_with_one_fetch(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True)
    hosts.hidden(world.remote)
    world.a.run()
    reader = world.clone("reader", "--depth", "1")
    reader.git("fetch", "-q", "origin", "refs/heads/gitstate/notes:refs/notes/gitstate")
    reader.gitstate("verify", code=0)
    reader.gitstate("plan", "--exit-code", code=0)


def test_results_are_not_recorded_on_a_branch_that_is_for_notes(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True)
    done = world.a.run("--branch", "gitstate/notes", code=2)
    assert "gitstate's own" in done.err
    assert world.paid() == {}


@pytest.mark.parametrize("refuse", [hosts.hidden, hosts.per_push], ids=lambda f: f.__name__)
def test_p10_claims_work_on_a_host_that_takes_only_branches(
    tmp_path: Path, refuse: Callable[[Path], None]
) -> None:
    world = World(tmp_path, remote=True, coordinate="leases")
    refuse(world.remote)
    world.a.run()
    other = world.clone("b")
    other.commit({"plan.yaml": "- one\n- two\n- three\n"})
    other.run()
    world.a.run()
    assert world.paid() == {**PAID_ONCE, "three/article": 1}
    assert other.plan_text() == world.a.plan_text()
    assert "lease" not in world.git(world.remote, "for-each-ref")


@pytest.mark.parametrize("refuse", [hosts.keeping, hosts.undeleting], ids=lambda f: f.__name__)
def test_p10_claims_work_where_no_ref_can_be_deleted_and_what_was_given_back_is_free(
    tmp_path: Path, refuse: Callable[[Path], None]
) -> None:
    world = World(tmp_path, remote=True, coordinate="leases")
    refuse(world.remote)
    world.a.run()
    other = world.clone("b")
    other.commit({"plan.yaml": "- one\n- two\n- three\n"})
    other.run()
    other.run("one", "--redo")
    world.a.run()
    assert world.paid() == {"one/article": 2, "two/article": 1, "three/article": 1}
    assert other.plan_text() == world.a.plan_text()
    assert "lease" in world.git(world.remote, "for-each-ref")
    for clone in (world.a, other):
        assert json.loads(clone.gitstate("status", "--json").out)["leases"] == []


def test_where_no_publish_can_be_fenced_a_claiming_run_says_so_and_what_is_paid_is_delivered_without(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, remote=True, coordinate="leases")
    hosts.few(world.remote)
    done = world.a.run(code=3)
    assert "fences a publish" in done.err
    assert "take `coordinate` out" in world.a.gitstate("sync", code=3).err
    world.a.configure({"article": ARTICLE})
    world.a.gitstate("sync", code=0)
    other = world.clone("b")
    other.gitstate("sync", code=0)
    assert other.states() == world.a.states()
