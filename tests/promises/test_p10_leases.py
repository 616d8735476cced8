"""P10: machines that run at the same moment share a plan by leases; who lost one publishes nothing under it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitstate.core import lease
from tests.support.httpgit import serve
from tests.support.world import ARTICLE, CHAIN, FAIL_AT_ONCE, PATIENCE, Clone, Running, World, until

ITEMS = [f"topic-{number}" for number in range(12)]
SHORT = "10s"  # the least that a lease may last


def shared(folder: Path, names: str = "b", **options: Any) -> tuple[World, list[Clone]]:
    """A world whose clones share their works."""
    options = {"items": ITEMS, "coordinate": "leases", "lease": "10m", **options}
    world = World(folder, remote=True, **options)
    return world, [world.a, *(world.clone(name) for name in names)]


def leases(world: World) -> list[str]:
    """The refs of leases that the remote has."""
    listed = world.git(world.remote, "for-each-ref", "--format=%(refname)", "refs/gitstate/lease")
    more = world.git(world.remote, "for-each-ref", "--format=%(refname)", "refs/heads/gitstate")
    return (listed + "\n" + more).split()


def published(world: World) -> list[str]:
    """The outputs on the remote's branch."""
    return world.git(world.remote, "ls-tree", "-r", "--name-only", "main", "out/").split()


def agree(world: World, clones: list[Clone]) -> None:
    """After one more run each, which pays nothing, all clones say the same."""
    calls = len(world.calls())
    for clone in clones:
        clone.run()
    assert len(world.calls()) == calls
    assert len({clone.plan_text() for clone in clones}) == 1
    assert [clone.status() for clone in clones] == [""] * len(clones)
    assert leases(world) == []


def gate(world: World, slug: str, **order: Any) -> Path:
    """A file; the next call for a slug waits until it is there."""
    path = world.folder / f"{slug} may go on {len(world.calls())}"
    world.tell(slug, wait=str(path), once=True, **order)
    return path


def asked(world: World, slug: str, times: int = 1) -> bool:
    return sum(call.slug == slug for call in world.calls()) >= times


@pytest.fixture(params=["file", "http"])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address under which the remote of the world in `tmp_path` is reached."""
    if request.param == "file":
        yield f"file://{tmp_path}/remote.git"
        return
    with serve(tmp_path) as address:
        yield f"{address}/remote.git"


def test_p10_clones_that_run_at_once_buy_each_work_once_and_agree(tmp_path: Path, transport: str) -> None:
    world, clones = shared(tmp_path, "bcd", stages=CHAIN)
    world.git(world.remote, "config", "http.receivepack", "true")
    for clone in clones:
        clone.git("remote", "set-url", "origin", transport)
    for running in [clone.start("run", "-j", "2", "--wait") for clone in clones]:
        running.wait(0)
    assert set(world.paid().values()) == {1}
    assert len(world.paid()) == 2 * len(ITEMS)
    agree(world, clones)


def stopped(world: World, clone: Clone, slug: str, *arguments: str) -> tuple[Running, Path]:
    """A run that is stopped in the middle of its call for a slug, as if its machine slept."""
    path = gate(world, slug)
    running = clone.start("run", *arguments)
    until(lambda: asked(world, slug), running)
    running.signal(signal.SIGSTOP)
    return running, path


def test_p10_a_worker_that_slept_past_its_lease_publishes_nothing_and_its_answer_is_kept(
    tmp_path: Path,
) -> None:
    world, (slow, quick) = shared(tmp_path, items=["one"], lease=SHORT)
    world.tell("one", answer="late\n", usage={"usd": 0.5}, wait=str(tmp_path / "go"), once=True)
    running = slow.start("run")
    until(lambda: asked(world, "one"), running)
    running.signal(signal.SIGSTOP)
    world.tell("one", answer="in time\n", usage={"usd": 0.25})
    quick.run("--wait")
    (tmp_path / "go").touch()
    running.signal(signal.SIGCONT)
    done = running.wait(0)
    assert "another machine had taken it over" in done.err
    assert world.git(world.remote, "show", "main:out/one.md") == "in time"
    assert world.paid() == {"one/article": 2}
    agree(world, [slow, quick])
    (line,) = [line for line in quick.log() if line["kind"] == "duplicate"]
    assert line["usd"] == 0.5
    (late,) = [receipt for receipt in slow.receipts() if receipt["attempt"] == line["attempt"]]
    assert slow.git("cat-file", "blob", late["outputs"][0][1]) == "late"
    spend = json.loads(quick.gitstate("status", "--json", code=0).out)["spend"]
    assert (spend["duplicate"]["usd"], spend["accepted"]["usd"]) == (0.5, 0.25)


def test_p10_what_was_recorded_and_not_published_in_time_goes_off_the_branch_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    world, (slow, quick) = shared(tmp_path, items=["one", "two"], stages=CHAIN, lease=SHORT)
    # Its first work is recorded and waits for the next push when the machine falls asleep in its second one.
    world.tell("one", "outline", answer="late\n", once=True)
    world.tell("one", "article", wait=str(tmp_path / "go"), once=True)
    running = slow.start("run", "one", "--push", "end")
    until(lambda: any(call.stage == "article" for call in world.calls()), running)
    assert slow.show("work/one.md") == "late\n"
    running.signal(signal.SIGSTOP)
    quick.run("one", "--wait")
    (tmp_path / "go").touch()
    running.signal(signal.SIGCONT)
    running.wait()
    assert world.paid() == {"one/outline": 2, "one/article": 2}
    assert slow.show("work/one.md") == quick.show("work/one.md") != "late\n"
    assert {line["stage"] for line in slow.log() if line["kind"] == "duplicate"} == {"outline", "article"}
    slow.run()
    agree(world, [slow, quick])
    assert world.paid() == {"one/outline": 2, "one/article": 2, "two/outline": 1, "two/article": 1}


def test_p9_what_goes_off_the_branch_again_is_laid_to_no_command(tmp_path: Path) -> None:
    world, (slow, quick) = shared(
        tmp_path, items=["one", "two"], stages=CHAIN, lease=SHORT, guard="strict", policy=FAIL_AT_ONCE
    )
    world.tell("one", "article", wait=str(tmp_path / "go"), once=True)
    running = slow.start("run", "--wait")
    until(lambda: any((call.slug, call.stage) == ("one", "article") for call in world.calls()), running)
    running.signal(signal.SIGSTOP)
    second = gate(world, "one", stage="outline")
    other = quick.start("run", "one", "--wait")
    until(lambda: asked(world, "one", 3), other)
    (tmp_path / "go").touch()
    running.signal(signal.SIGCONT)
    until(lambda: "two/article" in world.paid() or running.ended(), running)
    second.touch()
    other.wait(0)
    assert "deleted" not in running.wait(0).err
    agree(world, [slow, quick])


@pytest.mark.parametrize("begun", [False, True], ids=["before-it-begins", "while-it-runs"])
def test_p10_what_a_user_pushed_for_a_run_of_theirs_is_waited_for_and_not_called_nobodys(
    tmp_path: Path, begun: bool
) -> None:
    world, (one, other) = shared(tmp_path, items=["one", "two"])
    go = gate(world, "two")
    running = one.start("run", "-j", "2", "--push", "end")
    until(lambda: asked(world, "two") and one.git("ls-tree", "--name-only", "HEAD", "out/one.md"), running)
    waiting = other.start("run", "--wait") if begun else None
    if waiting is not None:
        until(lambda: (other.state / "leases").exists(), waiting)
    one.git("push", "-q", "origin", "main")
    waiting = waiting or other.start("run", "--wait")
    until(
        lambda: "held by 1 other" in (waiting.process.stderr.readline() if waiting.process.stderr else ""),
        waiting,
    )
    go.touch()
    running.wait(0)
    waiting.wait(0)
    assert set(world.paid().values()) == {1}
    agree(world, [one, other])


def test_p4_the_answer_of_a_worker_that_came_late_is_used_where_nobody_else_brings_one(
    tmp_path: Path,
) -> None:
    world, (slow, quick) = shared(tmp_path, items=["one"], lease=SHORT)
    running, go = stopped(world, slow, "one", "--wait")
    second = gate(world, "one")
    other = quick.start("run", "--wait")
    until(lambda: asked(world, "one", 2), other)
    go.touch()
    running.signal(signal.SIGCONT)
    until(lambda: any(line["kind"] == "duplicate" for line in slow.log()), running)
    other.kill()
    second.touch()
    running.wait(0)
    assert len(world.calls()) == 2
    assert published(world) == ["out/one.md"]
    agree(world, [slow, quick])


def die(world: World, clone: Clone, slug: str) -> None:
    """Kill a run in the middle of its call for a slug, which it holds a lease of."""
    world.tell(slug, hang=True, once=True)
    running = clone.start("run", slug)
    until(lambda: asked(world, slug), running)
    running.kill()


def test_p10_what_a_killed_worker_held_is_taken_over_when_its_lease_has_ended(tmp_path: Path) -> None:
    world, (dead, other) = shared(tmp_path, items=["one", "two"], lease=SHORT)
    die(world, dead, "one")
    assert "1 work is held by 1 other" in other.run(code=75).err
    assert "two/article" in world.paid()
    other.run("--wait")
    assert world.paid() == {"one/article": 2, "two/article": 1}
    agree(world, [dead, other])


def test_p10_where_each_work_is_pushed_a_machine_that_dies_costs_the_call_that_it_was_at(
    tmp_path: Path,
) -> None:
    world, (*dying, last) = shared(tmp_path, "bc", items=[*ITEMS, *"uvwxyz"], lease=SHORT)
    world.tell(before="sleep 0.2")
    for clone in dying:
        running = clone.start("run", "--push", "work")
        enough = len(world.calls()) + 6
        until(lambda: len(world.calls()) >= enough, running)  # noqa: B023
        running.kill()
    world.forgive()
    last.run("--wait")
    assert len(world.paid()) == len(ITEMS) + 6
    assert sum(world.paid().values()) <= len(world.paid()) + len(dying)
    agree(world, [*dying, last])


def slow_remote(world: World, seconds: int, times: int) -> Path:
    """The next claims take so long. Returns the file that is there once one has begun."""
    hook, began = world.remote / "hooks" / "pre-receive", world.home / "pushing"
    is_slow = f"grep -q /lease/ && echo x >>{began} && [ $(grep -c x {began}) -le {times} ]"
    hook.write_text(f"#!/bin/sh\nif {is_slow}; then exec sleep {seconds}; fi\n")
    hook.chmod(0o755)
    return began


def test_p10_where_a_push_takes_longer_than_a_claim_lasts_it_is_said_and_nothing_begins(
    tmp_path: Path,
) -> None:
    world, (clone,) = shared(tmp_path, "", items=["one"], lease=SHORT)
    slow_remote(world, 11, 3)  # the claim, and two renewals
    said = clone.run("--wait", code=75).err
    assert re.search("origin takes [0-9]+ s to renew a claim that lasts 10 s", said)
    assert re.search("lease: [0-9]+s", said)
    assert world.calls() == []


def test_a_second_signal_does_not_wait_for_a_remote_that_takes_long(tmp_path: Path) -> None:
    world, (clone,) = shared(tmp_path, "", items=["one"], lease=SHORT)
    began = slow_remote(world, int(PATIENCE) + 60, 99)
    running = clone.start("run")
    assert until(began.exists, running)
    for _ in range(2):
        running.signal(signal.SIGTERM)
        time.sleep(0.5)  # (two that are under way at once are one)
    running.wait(130)


@pytest.mark.parametrize("shares", [(), ("--claim",)], ids=["alone", "claims"])
@pytest.mark.parametrize("waits", [False, True])
def test_where_each_work_is_pushed_nothing_begins_while_the_remote_is_away(
    tmp_path: Path, shares: tuple[str, ...], waits: bool
) -> None:
    world = World(tmp_path, items=ITEMS, remote=True)
    third = "[ $(grep -c asked $PROVIDER_HOME/ledger) -ne 3 ]"
    world.tell(before=f"{third} || mv {world.remote} {world.remote.with_suffix('.away')}")
    running = world.a.start("run", "--push", "work", *shares, *(("--wait",) if waits else ()))
    until(lambda: not world.remote.exists(), running)
    if waits:
        time.sleep(2)
        assert not running.ended()
    else:
        assert "Nothing else begins before" in running.wait(75).err
    assert len(world.calls()) == 3
    world.forgive()
    world.bring_remote_back()
    if waits:
        assert "origin is back" in running.wait(0).err
    else:
        world.a.run("--push", "work", *shares)
    assert world.paid() == {f"{slug}/article": 1 for slug in ITEMS}


def test_where_each_work_is_pushed_what_is_restored_on_the_way_stops_nothing(tmp_path: Path) -> None:
    world, (clone, _) = shared(tmp_path)
    clone.run()
    clone.git("rm", "-q", "out/topic-1.md", "out/topic-4.md", "out/topic-7.md")
    clone.git("commit", "-q", "-m", "By mistake")
    clone.configure({"article": ARTICLE}, [*ITEMS, "x", "y", "z"], coordinate="leases", lease="10m")
    clone.run("--push", "work")
    assert world.paid() == {f"{slug}/article": 1 for slug in [*ITEMS, "x", "y", "z"]}
    assert len(published(world)) == len(ITEMS) + 3


@pytest.mark.parametrize("command", [["sync"], ["run", "two"]], ids=["sync", "run-of-others"])
def test_what_a_killed_run_held_is_given_back_by_the_next_command_of_its_clone(
    tmp_path: Path, command: list[str]
) -> None:
    world, (dead, other) = shared(tmp_path, items=["one", "two"])
    die(world, dead, "one")
    assert leases(world)
    dead.gitstate(*command, code=0)
    assert leases(world) == []
    other.run()
    agree(world, [dead, other])


def test_a_run_that_waits_outlasts_a_remote_that_is_away_for_a_while(tmp_path: Path) -> None:
    world, (clone,) = shared(tmp_path, "", items=ITEMS[:4], lease=SHORT)
    go = world.folder / "go"
    world.tell(wait=str(go))
    running = clone.start("run", "--wait", "-j", "2")
    until(lambda: len(world.calls()) == 2, running)  # and the others are not claimed yet
    away = world.remote.with_name("away.git")
    world.remote.rename(away)
    go.touch()
    assert running.process.stderr is not None
    while "Waiting for the remote" not in (line := running.process.stderr.readline()):
        assert line, "it did not wait"
    away.rename(world.remote)
    running.wait(0)
    assert len(published(world)) == 4
    agree(world, [clone])


def test_a_lease_ends_also_for_runs_that_do_not_wait(tmp_path: Path) -> None:
    world, (dead, other) = shared(tmp_path, items=["one"], lease=SHORT)
    die(world, dead, "one")
    until(lambda: other.gitstate("run").code == 0)
    assert world.paid() == {"one/article": 2}


def test_what_a_killed_run_of_this_clone_held_is_taken_over_at_once(tmp_path: Path) -> None:
    world, (clone, _) = shared(tmp_path, items=["one"], lease="1d")
    die(world, clone, "one")
    assert len(leases(world)) == 1
    clone.run()
    assert leases(world) == []


def test_a_run_that_is_killed_anywhere_leaves_nothing_that_the_next_one_waits_for(tmp_path: Path) -> None:
    world, (clone, other) = shared(tmp_path, items=ITEMS[:6], lease="1d")
    start = world.git(world.remote, "rev-parse", "main")
    moments = (
        lambda: leases(world),
        lambda: world.calls("answered"),
        lambda: clone.git("rev-parse", "HEAD") != start,
        lambda: world.git(world.remote, "rev-parse", "main") != start,
    )
    patient = ("run", "--lock-timeout", "60s")  # git processes that outlive the run hold the lock
    for moment in moments:
        running = clone.start(*patient)
        until(moment, running)
        # Not what it started: a remote on this disk would be killed in the middle of a push, too.
        running.process.kill()
        running.process.communicate()
    clone.gitstate(*patient, code=0)
    assert len(world.calls()) <= len(ITEMS[:6]) + len(moments)
    agree(world, [clone, other])


def test_what_the_original_of_a_copied_clone_holds_is_not_taken_for_dead(tmp_path: Path) -> None:
    world, (clone, _) = shared(tmp_path, items=["one"], lease="1d")
    running, go = stopped(world, clone, "one")
    shutil.copytree(clone.path, tmp_path / "copy", symlinks=True)
    copy = Clone(world, tmp_path / "copy")
    copy.run(code=75)
    assert len(world.calls()) == 1
    go.touch()
    running.signal(signal.SIGCONT)
    running.wait(0)


def killed(world: World, clone: Clone) -> None:
    """Kill a run that has made an outline, which is recorded and not published, in the call for the article."""
    world.tell("one", "article", hang=True, once=True)
    running = clone.start("run", "one", "--push", "end")
    until(lambda: any(call.stage == "article" for call in world.calls()), running)
    running.kill()
    assert clone.show("work/one.md") is not None
    assert len(leases(world)) == 1


def test_what_a_killed_run_recorded_is_published_under_a_lease_of_the_next_run(tmp_path: Path) -> None:
    world, (clone, other) = shared(tmp_path, items=["one"], stages=CHAIN, lease="1d")
    killed(world, clone)
    clone.run()
    assert world.paid() == {"one/outline": 1, "one/article": 2}
    agree(world, [clone, other])


def test_p10_what_a_killed_run_recorded_is_not_published_while_another_does_it(tmp_path: Path) -> None:
    world, (clone, other) = shared(tmp_path, items=["one", "two"], stages=CHAIN, lease=SHORT)
    killed(world, clone)
    go = gate(world, "one")
    running = other.start("run", "one", "--wait")
    until(lambda: sum(call.slug == "one" for call in world.calls()) == 3, running)
    assert "taken it over" in clone.run(code=75).err
    assert "work/one.md" not in world.git(world.remote, "ls-tree", "-r", "--name-only", "main").split()
    assert world.paid()["two/article"] == 1
    go.touch()
    running.wait(0)
    agree(world, [clone, other])
    assert world.paid() == {"one/outline": 2, "one/article": 2, "two/outline": 1, "two/article": 1}


def test_works_are_claimed_without_a_word_in_the_configuration_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    world, clones = shared(tmp_path, "bc", coordinate="leases")
    world.a.configure({"article": {**CHAIN["outline"], "output": "out/{slug}.md"}}, ITEMS)
    world.a.git("push", "-q")
    for running in [clone.start("run", "--claim", "--wait") for clone in clones]:
        running.wait(0)
    assert set(world.paid().values()) == {1}
    agree(world, clones)


@pytest.mark.parametrize("claim", [(), ("--claim",)], ids=["alone", "claims"])
def test_the_configuration_is_written_when_a_run_begins_and_then_left_alone(
    tmp_path: Path, claim: tuple[str, ...]
) -> None:
    world = World(tmp_path, items=["one"], remote=True)
    world.tell(before=f"ls -i {world.a.path}/.git/config > {tmp_path}/began")
    world.a.run(*claim)
    assert (tmp_path / "began").read_text().split()[0] == str((world.a.path / ".git/config").stat().st_ino)


def test_without_a_remote_there_is_nobody_to_share_with(tmp_path: Path) -> None:
    world = World(tmp_path, coordinate="leases")
    assert "claim" not in world.a.run().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--offline",), "--offline"),
        (("--push", "never"), "--push never"),
        ((), "out of reach"),
    ],
)
def test_what_cannot_be_claimed_is_not_begun(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    world, (clone, _) = shared(tmp_path)
    if not arguments:
        world.take_remote_away()
    done = clone.run(*arguments, code=75)
    assert why in done.err
    assert "nothing was begun" in done.err
    assert world.calls() == []


def test_what_keeps_a_run_from_claiming_is_not_called_a_remote_out_of_reach(tmp_path: Path) -> None:
    world, (clone, other) = shared(tmp_path, items=["one", "two"])
    clone.run("one")
    clone.gitstate("sync", code=0)
    other.run("two")
    held = clone.path / ".git" / "refs" / "notes" / "gitstate.lock"
    held.touch()
    done = clone.run("--redo", "one", code=75)
    assert "gitstate.lock is held by another git process" in done.err
    assert "nothing was begun" in done.err
    assert "out of reach" not in done.err
    held.unlink()
    agree(world, [clone, other])


def test_where_the_remote_goes_away_nothing_more_is_begun_and_what_came_is_delivered_later(
    tmp_path: Path,
) -> None:
    world, (clone, other) = shared(tmp_path, items=["one", "two", "three"], lease=SHORT)
    away = world.remote.with_suffix(".away")
    world.tell(before=f"mv {world.remote} {away}", sleep=11, once=True)
    assert "Nothing more can be claimed" in clone.run("-j", "2", code=75).err
    assert len(world.calls()) <= 2
    world.bring_remote_back()
    clone.run()
    assert set(world.paid().values()) == {1}
    agree(world, [clone, other])


# The remote is away when a run begins, and back when it has found that out.
_LATE = """#!/bin/sh
PATH="${PATH#*:}"
case " $* " in *" fetch "*|*" ls-remote "*) if [ ! -e "$HOME/back" ]; then
    case " $* " in *" ls-remote "*) touch "$HOME/back";; esac
    echo "fatal: no route to it" >&2
    exit 128
fi;; esac
exec git "$@"
"""


def test_p10_a_run_that_could_not_claim_publishes_nothing_although_the_remote_is_back(tmp_path: Path) -> None:
    world, (clone, _) = shared(tmp_path, items=["one"])
    world.tell(after=f"mv {world.remote} {world.remote.with_suffix('.away')}")
    clone.run(code=75)
    world.bring_remote_back()
    world.forgive()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text(_LATE)
    (tools / "git").chmod(0o755)
    clone.run(code=75, PATH=f"{tools}:{world.environment['PATH']}")
    assert (world.home / "back").exists()
    assert published(world) == []
    clone.run()
    assert published(world) == ["out/one.md"]
    assert world.paid() == {"one/article": 1}


@pytest.mark.parametrize(
    "ref",
    [
        f"refs/gitstate-lease/origin/own/{lease.plan_of('gitstate.yaml')}/{lease.bucket_of('one')}",
        "refs/gitstate-remote/origin/notes",
        "refs/remotes/origin/main",
    ],
    ids=lambda ref: ref.split("/")[1],
)
def test_a_lock_that_a_killed_fetch_left_stops_nobody(tmp_path: Path, ref: str) -> None:
    world, (clone, other) = shared(tmp_path, items=["one"])
    path = gate(world, "one")
    running = other.start("run")
    until(lambda: asked(world, "one"), running)
    lock = clone.path / f".git/{ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    assert "1 work is held by 1 other" in clone.run(code=75).err
    path.touch()
    running.wait(0)
    clone.run()
    assert world.paid() == {"one/article": 1}


def test_two_plans_in_one_repository_are_shared_each_for_itself(tmp_path: Path) -> None:
    world, clones = shared(tmp_path)
    second = json.loads(world.a.read("gitstate.yaml"))
    second["vars"] = {"language": "another"}
    second["stages"]["article"]["output"] = "second/{slug}.md"
    world.a.commit({"second.yaml": json.dumps(second)})
    world.a.git("push", "-q")
    runs = [clone.start("run", "--wait") for clone in clones[:1]]
    runs += [clone.start("run", "--config", "second.yaml", "--wait") for clone in clones[1:]]
    for running in runs:
        running.wait(0)
    assert set(world.paid().values()) == {2}
    agree(world, clones)


def test_works_that_are_found_done_by_others_are_not_left_open(tmp_path: Path) -> None:
    world, (one, other) = shared(tmp_path, items=["one", "two"])
    go = gate(world, "one")
    first = one.start("run", "one")
    until(lambda: asked(world, "one"), first)
    second = other.start("run", "--wait")
    until(lambda: asked(world, "two"), second)
    go.touch()
    first.wait(0)
    second.wait(0)
    assert set(world.paid().values()) == {1}


def test_no_more_is_claimed_than_a_limit_allows_to_begin(tmp_path: Path) -> None:
    world, (clone, other) = shared(tmp_path)
    go = tmp_path / "go"
    world.tell(wait=str(go))
    running = clone.start("run", "--limit", "1")
    until(lambda: world.calls(), running)
    assert len(leases(world)) == 1
    go.touch()
    running.wait(0)
    assert len(world.calls()) == 1
    assert leases(world) == []
    other.run()
    assert set(world.paid().values()) == {1}


def test_who_waits_for_others_ends_where_the_limit_is_reached(tmp_path: Path) -> None:
    world, (clone, _) = shared(tmp_path)
    clone.run("--limit", "1", "--wait")
    assert len(world.calls()) == 1
    assert leases(world) == []


def test_what_failed_elsewhere_meanwhile_is_not_tried_again(tmp_path: Path) -> None:
    world, (one, other) = shared(tmp_path, items=["one"], policy=FAIL_AT_ONCE)
    world.tell("one", answer="", exit=1, wait=str(tmp_path / "go"))
    first = one.start("run")
    until(lambda: asked(world, "one"), first)
    second = other.start("run", "--wait")
    until(lambda: other.has(".git/gitstate/lock.json"), second)
    (tmp_path / "go").touch()
    first.wait(1)
    second.wait(1)
    assert len(world.calls()) == 1


def test_a_work_that_failed_is_tried_again_by_one_of_those_that_were_asked_to(tmp_path: Path) -> None:
    world, clones = shared(tmp_path, items=["one"], policy=FAIL_AT_ONCE)
    world.tell("one", answer="", exit=1, once=True)
    clones[0].run(code=1)
    clones[1].gitstate("sync", code=0)
    for running in [clone.start("run", "--retry-failed", "--wait") for clone in clones]:
        running.wait(0)
    assert len(world.calls()) == 2
    agree(world, clones)


def test_p10_clocks_that_are_days_apart_change_nothing(tmp_path: Path) -> None:
    library = next(Path("/usr/lib").rglob("libfaketime.so.1"), None)
    if library is None:
        pytest.skip("libfaketime is not here")
    world, clones = shared(tmp_path, "bc", items=ITEMS[:6])
    # It sets the time of day alone, and then refuses Python's own `sleep`, which goes by another clock.
    sleep = "import select, time\ntime.sleep = lambda seconds: select.select((), (), (), seconds) and None\n"
    (tmp_path / "start").mkdir()
    (tmp_path / "start/sitecustomize.py").write_text(sleep)
    skewed = {
        "LD_PRELOAD": str(library),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "start"), os.environ.get("PYTHONPATH", "")]),
        "PROVIDER": f"env -u LD_PRELOAD {world.environment['PROVIDER']}",
    }
    skews = ["-3d", "+0", "+3d"]
    runs = [clone.start("run", "--wait", FAKETIME=skew, **skewed) for clone, skew in zip(clones, skews)]
    for running in runs:
        running.wait(0)
    assert set(world.paid().values()) == {1}
    agree(world, clones)


# --- effects ---------------------------------------------------------------------------------------------

ACT = {"effect": True, "run": "$PROVIDER", "output": "out/{slug}.md"}


def test_p11_an_act_that_is_under_way_elsewhere_is_neither_repeated_nor_called_unknown(
    tmp_path: Path,
) -> None:
    world, (one, other) = shared(tmp_path, stages={"act": ACT}, items=["one"])
    go = gate(world, "one")
    running = one.start("run")
    until(lambda: asked(world, "one"), running)
    done = other.run(code=75)
    assert "1 work is held by 1 other" in done.err
    go.touch()
    running.wait(0)
    assert len(world.calls()) == 1
    agree(world, [one, other])


def test_p11_clones_that_run_at_once_act_once(tmp_path: Path) -> None:
    world, clones = shared(tmp_path, "bc", stages={"act": ACT}, items=ITEMS[:6])
    for running in [clone.start("run", "--wait") for clone in clones]:
        running.wait(0)
    assert set(world.paid().values()) == {1}
    agree(world, clones)


# --- remotes ---------------------------------------------------------------------------------------------


def test_leases_are_branches_on_a_host_that_takes_nothing_else(tmp_path: Path) -> None:
    world, clones = shared(tmp_path, items=ITEMS[:4])
    hook = world.remote / "hooks" / "update"
    hook.write_text('#!/bin/sh\ncase "$1" in refs/gitstate/*) exit 1;; esac\n')
    hook.chmod(0o755)
    for running in [clone.start("run", "--wait") for clone in clones]:
        running.wait(0)
    assert set(world.paid().values()) == {1}
    agree(world, clones)


def test_leases_are_branches_where_the_host_hides_its_other_refs(tmp_path: Path) -> None:
    world, clones = shared(tmp_path, items=ITEMS[:4])
    world.git(world.remote, "config", "transfer.hideRefs", "refs/gitstate")
    for running in [clone.start("run", "--wait") for clone in clones]:
        running.wait(0)
    assert set(world.paid().values()) == {1}
    agree(world, clones)


def test_p10_where_the_remote_cannot_publish_all_or_nothing_no_work_is_begun(tmp_path: Path) -> None:
    world, (clone, _) = shared(tmp_path)
    world.git(world.remote, "config", "receive.advertiseAtomic", "false")
    done = clone.run(code=75)
    assert "--atomic" in done.err
    assert "--shard" in done.err
    assert world.calls() == []


def test_p10_sync_publishes_under_leases_too(tmp_path: Path) -> None:
    world, (clone, other) = shared(tmp_path, items=["one"], stages=CHAIN, lease=SHORT)
    killed(world, clone)
    go = gate(world, "one")
    running = other.start("run", "--wait")
    until(lambda: len(world.calls()) == 3, running)
    assert "leased to another machine" in clone.gitstate("sync", code=75).err
    go.touch()
    running.wait(0)
    clone.gitstate("sync", code=0)
    assert leases(world) == []
    agree(world, [clone, other])


def test_status_says_who_holds_what_without_asking_the_remote(tmp_path: Path) -> None:
    world, (one, other) = shared(tmp_path, items=["one"], lease=SHORT)
    go = gate(world, "one")
    running = one.start("run")
    until(lambda: asked(world, "one"), running)
    assert "Held by" not in other.gitstate("status", code=0).out
    other.run(code=75)
    world.take_remote_away()
    (held,) = json.loads(other.gitstate("status", "--json", code=0).out)["leases"]
    assert (held["own"], held["generation"], held["works"]) == (False, 1, ["one/article"])
    assert 0 <= held["age"] < 60
    assert 0 <= held["left"] <= 10
    assert ": 1 work, generation 1; last sign of life " in other.gitstate("status", code=0).out
    assert "(another machine)" in other.gitstate("status", code=0).out
    assert "(this clone)" in one.gitstate("status", code=0).out
    world.bring_remote_back()
    go.touch()
    running.wait(0)


def test_what_a_sync_saw_of_a_dead_holder_counts_when_its_lease_ends(tmp_path: Path) -> None:
    world, (dead, other) = shared(tmp_path, items=["one"], lease=SHORT)
    die(world, dead, "one")

    def left() -> float:
        other.gitstate("sync", code=0)
        (held,) = json.loads(other.gitstate("status", "--json", code=0).out)["leases"]
        return float(held["left"])

    assert left() > 0
    until(lambda: left() == 0)
    other.run()  # which does not wait
    assert world.paid() == {"one/article": 2}


def test_p10_a_lease_that_comes_back_late_is_seen_anew(tmp_path: Path) -> None:
    world, (dead, other) = shared(tmp_path, items=["one"], lease=SHORT)
    die(world, dead, "one")
    ref, oid = world.git(
        world.remote, "for-each-ref", "--format=%(refname) %(objectname)", "refs/gitstate/lease"
    ).split()

    def since() -> list[float]:
        other.gitstate("sync", code=0)
        (memory,) = (other.state / "leases").iterdir()
        return [time for _, time in json.loads(memory.read_text())["seen"].values()]

    first = since()
    world.git(world.remote, "update-ref", "-d", ref)
    assert since() == []
    world.git(world.remote, "update-ref", ref, oid)  # as by a push that was under way for long
    assert since() > first


def test_a_dry_sync_says_what_would_come_and_go_and_changes_nothing(tmp_path: Path) -> None:
    _, (one, other) = shared(tmp_path, items=["one", "two"])
    one.run("one")
    before = other.git("for-each-ref", "refs/heads", "refs/notes")
    said = other.gitstate("sync", "--dry-run", code=0).out
    assert "1 commit, 1 receipt would come, nothing would go" in said
    assert other.git("for-each-ref", "refs/heads", "refs/notes") == before
    assert not other.has("out/one.md")


def test_doctor_says_whether_the_remote_takes_leases(tmp_path: Path) -> None:
    world, (clone, _) = shared(tmp_path)

    def said() -> str:
        found = json.loads(clone.gitstate("doctor", "--json", code=0).out)["found"]
        return str(next(one["words"] for one in found if one["name"] == "leases"))

    assert said() == "origin takes them: machines may run at once"
    assert leases(world) == []
    world.git(world.remote, "config", "transfer.hideRefs", "refs/gitstate")
    assert "as branches" in said()
    assert leases(world) == []


def test_doctor_names_a_lease_that_no_run_can_read_and_how_to_be_rid_of_it(tmp_path: Path) -> None:
    world, (clone, _) = shared(tmp_path, items=["one"])
    tree = world.git(world.remote, "hash-object", "-w", "-t", "tree", os.devnull)
    commit = world.git(world.remote, "commit-tree", "-m", '{"v": 99}', tree)
    ref = f"refs/gitstate/lease/{lease.plan_of('gitstate.yaml')}/{lease.bucket_of('one')}"
    world.git(world.remote, "update-ref", ref, commit)
    clone.run(code=3)
    found = json.loads(clone.gitstate("doctor", "--json", code=1).out)["found"]
    (claims,) = [one for one in found if one["name"] == "claims"]
    assert "its format is 99" in claims["words"]
    clone.git("push", "-q", *claims["words"].partition("git push ")[2].split())
    clone.gitstate("doctor", code=0)
    clone.run()
    assert world.paid() == {"one/article": 1}
