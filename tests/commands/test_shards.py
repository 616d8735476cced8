"""`run --shard`: machines that run at once, each on a part of the plan of its own."""

from __future__ import annotations

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
