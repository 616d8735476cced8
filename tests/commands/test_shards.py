"""`run --shard`: machines that run at once, each on a part of the plan of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitstate.core.lease import shard_of
from tests.support.world import CHAIN, World

ITEMS = ["one", "two", "three", "four", "five"]


def test_shards_are_disjoint_and_together_the_whole_plan_chains_and_all(tmp_path: Path) -> None:
    world = World(tmp_path, items=ITEMS, stages=CHAIN, remote=True)
    other = world.clone("b")
    world.a.run("--shard", "1/2")
    first = {call.slug for call in world.calls()}
    assert first == {slug for slug in ITEMS if shard_of(slug, 2) == 1}
    assert 0 < len(first) < len(ITEMS)
    other.run("--shard", "2/2")
    assert set(world.paid().values()) == {1}
    assert set(other.states().values()) == {"done exact"}


def test_a_shard_without_works_has_nothing_to_do(tmp_path: Path) -> None:
    world = World(tmp_path)
    empty = next(number for number in range(1, 10) if number not in {shard_of(s, 9) for s in ("one", "two")})
    world.a.run("--shard", f"{empty}/9")
    assert world.calls() == []


@pytest.mark.parametrize("word", ["3/2", "0/2", "half"])
def test_a_shard_that_is_none_is_a_usage_error(tmp_path: Path, word: str) -> None:
    done = World(tmp_path).a.run("--shard", word, code=2)
    assert f"--shard {word}: A shard is written like 1/4" in done.err


def test_plan_shows_what_a_shard_has_to_do(tmp_path: Path) -> None:
    world = World(tmp_path, items=ITEMS, stages=CHAIN)
    mine = [slug for slug in ITEMS if shard_of(slug, 2) == 1]
    assert (
        f"`gitstate run --shard 1/2` will do {2 * len(mine)} works"
        in world.a.gitstate("plan", "--shard", "1/2").out
    )
    world.a.run("--shard", "1/2")
    assert "Everything is done." in world.a.gitstate("plan", "--shard", "1/2").out
    world.a.gitstate("plan", "--shard", "1/2", "--exit-code", code=0)
    world.a.gitstate("plan", "--shard", "2/2", "--exit-code", code=4)
    shown = json.loads(world.a.gitstate("plan", "--shard", "2/2", "--json").out)
    assert {work["slug"] for work in shown["work"]} == {*ITEMS} - {*mine}
    assert (
        "--shard 3/2: A shard is written like 1/4" in world.a.gitstate("plan", "--shard", "3/2", code=2).err
    )


def test_a_saved_plan_of_a_shard_is_run_as_it_is(tmp_path: Path) -> None:
    world = World(tmp_path, items=ITEMS)
    saved = str(tmp_path / "saved.json")
    world.a.gitstate("plan", "--shard", "1/2", "--out", saved)
    world.a.run("--plan", saved)
    assert {call.slug for call in world.calls()} == {slug for slug in ITEMS if shard_of(slug, 2) == 1}


def test_plan_shows_what_is_left_by_a_branch_of_results(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two"], remote=True)
    world.a.run("one", "--branch", "results")
    for clone in (world.a, world.clone("b")):
        clone.git("fetch", "-q", "origin")
        clone.gitstate("sync", "--branch", "results")
        assert "restore 1 from git" in clone.gitstate("plan").out
        assert (
            "`gitstate run --branch results` will do 1 work"
            in clone.gitstate("plan", "--branch", "results").out
        )
    done = world.a.gitstate("plan", "--branch", "resuls", code=2)
    assert "--branch resuls: there is no such branch here" in done.err
