"""What `plan`, `status` and `why` say of the remote, of others and of runs that died, by what this clone knows."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import Clone, World, until

ITEMS = ["one", "two", "three"]
HINT = "No receipts are here: if another clone made these files, fetch them with `gitstate sync`."


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, items=ITEMS, remote=True)


def status(clone: Clone) -> tuple[str, dict[str, Any]]:
    """What `status` shows people and scripts."""
    fields = json.loads(clone.gitstate("status", "--json", code=0).out)
    return clone.gitstate("status", code=0).out, fields


def begin(world: World, clone: Clone, slug: str, *arguments: str) -> tuple[Any, Path]:
    """A run in the middle of its call for a slug, and the file that it waits for."""
    go = world.folder / f"{slug} may go on"
    world.tell(slug, wait=str(go), once=True)
    running = clone.start("run", *arguments)
    until(lambda: any(call.slug == slug for call in world.calls()), running)
    return running, go


def test_a_fresh_clone_is_told_on_both_screens_where_receipts_come_from(world: World) -> None:
    world.a.run()
    fresh = world.clone("fresh")
    assert HINT in status(fresh)[0].splitlines()
    plan = fresh.gitstate("plan", code=0).out.splitlines()
    (left,) = [line for line in plan if "3 works will be left alone" in line]
    assert plan.index(HINT) < plan.index(left)
    assert HINT in fresh.gitstate("plan", "one", code=0).out
    fresh.git("fetch", "-q", "origin", "+refs/notes/gitstate:refs/gitstate-remote/origin/notes")
    assert HINT not in status(fresh)[0] + fresh.gitstate("plan", code=0).out
    assert set(fresh.states().values()) == {"done exact"}


def test_files_without_a_receipt_are_no_reason_to_fetch_where_receipts_were_fetched(world: World) -> None:
    world.a.run("one")
    fresh = world.clone("fresh")
    fresh.commit({"out/two.md": "By hand.\n"})
    assert HINT in fresh.gitstate("plan", code=0).out
    fresh.git("fetch", "-q", "origin", "+refs/notes/gitstate:refs/gitstate-remote/origin/notes")
    assert fresh.states()["two/article"] == "pending unverified"
    assert HINT not in status(fresh)[0] + fresh.gitstate("plan", code=0).out


def test_status_says_what_a_killed_run_left(world: World) -> None:
    running, go = begin(world, world.a, "two")
    text, fields = status(world.a)
    assert "killed" not in text
    assert fields["interrupted"] == 0
    running.kill()
    until(lambda: status(world.a)[1]["running"] is None)
    text, fields = status(world.a)
    assert (
        "A run was killed here and left 1 call: the next `gitstate run` (or `gitstate recover`) sees to it."
        in text.splitlines()
    )
    assert fields["interrupted"] == 1
    go.touch()
    world.a.gitstate("recover", code=0)
    text, fields = status(world.a)
    assert "killed" not in text
    assert fields["interrupted"] == 0


def test_status_says_that_answers_wait_after_a_run_that_was_not_killed(world: World) -> None:
    running, go = begin(world, world.a, "two")
    world.a.write("out/two.md", "By hand.\n")
    go.touch()
    running.wait(3)
    text, fields = status(world.a)
    assert "killed" not in text
    assert "1 answer waits here to be recorded: the next `gitstate run`" in text
    assert fields["interrupted"] == 1


def test_status_says_what_is_not_delivered_without_asking_the_remote(world: World) -> None:
    world.a.run("one")
    assert status(world.a)[1]["undelivered"] is None
    assert "origin" not in status(world.a)[0]
    world.take_remote_away()
    world.a.run("two", "three", code=75)
    for _ in range(2):  # the second time it is remembered
        text, fields = status(world.a)
        assert "2 works are not on origin yet: `gitstate sync` delivers them." in text.splitlines()
        assert fields["undelivered"] == {"remote": "origin", "works": 2}
    world.a.forget_state()
    assert status(world.a)[1]["undelivered"] == {"remote": "origin", "works": 2}
    world.bring_remote_back()
    world.a.gitstate("sync", code=0)
    text, fields = status(world.a)
    assert "not on origin" not in text
    assert fields["undelivered"] is None


def test_status_says_what_is_not_delivered_to_a_remote_that_was_never_met(tmp_path: Path) -> None:
    world = World(tmp_path, items=ITEMS)
    world.a.run()
    assert status(world.a)[1]["undelivered"] is None
    world.a.git("remote", "add", "origin", world.url)
    assert status(world.a)[1]["undelivered"] == {"remote": "origin", "works": 3}
    world.a.git("checkout", "-q", "--detach")
    assert status(world.a)[1]["undelivered"] is None


def test_plan_says_that_others_have_claimed_works(tmp_path: Path) -> None:
    world = World(tmp_path, items=ITEMS, remote=True, coordinate="leases", lease="10m")
    other = world.clone("other")
    running, go = begin(world, world.a, "one", "one")
    assert "claimed" not in other.gitstate("plan", code=0).out
    other.run("one", code=75)
    said = "1 work is claimed by others, when the remote was last asked: gitstate status"
    assert other.gitstate("plan", code=0).out.splitlines()[-1] == said
    assert said in other.gitstate("plan", "one", code=0).out
    assert "claimed" not in other.gitstate("plan", "two", code=0).out
    assert "claimed" not in world.a.gitstate("plan", code=0).out
    assert "claimed" not in other.plan_text()
    go.touch()
    running.wait(0)
    other.git("pull", "-q")
    other.git("fetch", "-q", "origin", "+refs/notes/gitstate:refs/gitstate-remote/origin/notes")
    assert "claimed" not in other.gitstate("plan", code=0).out


def test_why_counts_what_came_too_late_as_status_does(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"], remote=True, coordinate="leases", lease="10s")
    quick = world.clone("quick")
    world.tell("one", answer="late\n", usage={"usd": 0.5}, wait=str(tmp_path / "go"), once=True)
    running = world.a.start("run")
    until(lambda: world.calls(), running)
    running.signal(signal.SIGSTOP)
    world.tell("one", answer="in time\n", usage={"usd": 0.25})
    quick.run("--wait")
    (tmp_path / "go").touch()
    running.signal(signal.SIGCONT)
    running.wait(0)
    spend, (work,) = status(world.a)[1]["spend"], world.a.why("one")
    for kind in ("accepted", "rejected", "duplicate"):
        assert spend[kind]["attempts"] == work["spend"][kind]
    assert (work["spend"]["accepted"], work["spend"]["duplicate"], work["spend"]["usd"]) == (1, 1, 0.75)
    said = world.a.gitstate("why", "one", code=0).out
    assert "1 attempt accepted, 0 failed, 1 came after another machine had taken the work over" in said
