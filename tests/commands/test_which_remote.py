"""Which remote a branch is synced with, where nothing says it; and options that say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import Clone, World

ITEMS = [f"topic-{number}" for number in range(6)]


def renamed(clone: Clone, *names: str) -> Clone:
    """A clone whose remotes have these names, on a branch without an upstream."""
    clone.git("remote", "rename", "origin", names[0])
    for name in names[1:]:
        clone.git("remote", "add", name, clone.world.url)
    clone.git("switch", "-q", "-c", "feature")
    return clone


def test_p10_the_only_remote_is_the_one_whatever_its_name(tmp_path: Path) -> None:
    world = World(tmp_path, items=ITEMS, remote=True)
    world.tell(sleep=0.3)
    clones = [renamed(world.clone(name), "up") for name in "bc"]
    running = [clone.start("run", "--claim", "--wait") for clone in clones]
    assert [one.wait(0).code for one in running] == [0, 0]
    assert world.paid() == {f"{slug}/article": 1 for slug in ITEMS}
    assert clones[0].plan_text() == clones[1].plan_text()
    assert "feature and up agree" in clones[0].gitstate("sync", code=0).out


@pytest.mark.parametrize("shared", ["--claim", "coordinate"])
def test_p10_of_several_remotes_none_is_guessed_and_nothing_is_bought_unclaimed(
    tmp_path: Path, shared: str
) -> None:
    top = {"coordinate": "leases"} if shared == "coordinate" else {}
    world = World(tmp_path, items=ITEMS, remote=True, **top)
    clone = renamed(world.clone("b"), "up", "down")
    done = clone.run(*(["--claim"] if not top else []), code=2)
    assert "none of the remotes down, up is `origin`" in done.err
    assert "git push -u REMOTE feature" in done.err
    assert world.calls() == []
    for command in (("sync",), ("sync", "--dry-run"), ("doctor",)):
        assert "none of the remotes down, up is `origin`" in clone.gitstate(*command, code=0).out
    clone.git("push", "-q", "-u", "down", "feature")
    clone.run(*(["--claim"] if not top else []), "--limit", "1")
    assert len(world.calls()) == 1


def test_claims_without_a_remote_are_refused_where_somebody_asks_for_them(tmp_path: Path) -> None:
    world = World(tmp_path, coordinate="leases")
    assert "no remote" in world.a.run("--claim", code=2).err
    assert world.calls() == []
    world.a.run()  # nobody can be at work beside it
    assert len(world.calls()) == 2


def test_a_branch_that_is_nowhere_is_said_to_be(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True)
    for options in ((), ("--dry-run",)):
        done = world.a.gitstate("sync", "--branch", "nonesuch", *options, code=2)
        assert "no branch nonesuch, neither here nor on origin" in done.err


@pytest.mark.parametrize("name", ["HEAD", "-x", "@{-1}", "refs/heads/HEAD"])
def test_a_name_that_git_takes_for_no_branch_is_none(tmp_path: Path, name: str) -> None:
    world = World(tmp_path)
    world.a.git("switch", "-q", "-c", "other")
    assert "git does not allow this name" in world.a.run(f"--branch={name}", code=2).err
    assert world.calls() == []


@pytest.mark.parametrize(
    "words",
    [("run", "--branch", ""), ("run", "--executor="), ("plan", "--shard", ""), ("run", "--plan=")],
)  # fmt: skip
def test_an_empty_value_is_not_taken_for_none(tmp_path: Path, words: tuple[str, ...]) -> None:
    world = World(tmp_path)
    assert f"{words[1].rstrip('=')} was given an empty value" in world.a.gitstate(*words, code=2).err
    assert world.calls() == []
