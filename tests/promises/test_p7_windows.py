"""Closed windows: who closes one, who opens it, and that a failed answer is one wherever the command puts it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.world import ARTICLE, World, until

CLOSED = {"exit": 1, "answer": "", "stderr": "HTTP 429: usage limit reached, resets in 3 hours\n"}
PAUSES = "refs/gitstate/pause"


def world_of(folder: Path, slugs: str = "one two three", **more: object) -> World:
    return World(folder, items=slugs.split(), remote=True, model={"name": "m"}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "written",
    [
        json.dumps({"error": {"message": "The server is overloaded", "type": "overloaded_error"}}),
        "<html>\n<head><title>502 Bad Gateway</title></head>\n<body><h1>502 Bad Gateway</h1></body></html>",
        "  \n\x1b[0m\n",
    ],
)
def test_p7_an_error_that_a_command_puts_into_its_output_file_is_no_answer(
    tmp_path: Path, written: str
) -> None:
    (tmp_path / "bad").write_text(written)
    stage = {"run": 'cat "$BAD" > "$GITSTATE_OUTPUT"; echo done', "output": "out/{slug}.md"}
    policy = {name: {"tries": 1} for name in ("validation/empty", "validation/error_shaped", "unknown")}
    world = World(tmp_path / "w", stages={"article": stage}, items=["one"], policy=policy)
    done = world.a.gitstate("run", BAD=str(tmp_path / "bad"))
    assert done.code in (1, 75), done
    assert not world.a.receipts()


def test_p7_a_tool_that_says_that_it_failed_is_believed_although_a_file_is_there(tmp_path: Path) -> None:
    result = {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "result": "API Error: 500",
    }
    stage = {"run": 'echo half > "$GITSTATE_OUTPUT"; echo "$RESULT"', "output": "out/{slug}.md"}
    world = World(tmp_path, stages={"article": stage}, items=["one"], policy={"unknown": {"tries": 1}})
    assert world.a.gitstate("run", RESULT=json.dumps(result)).code in (1, 75)
    assert not world.a.receipts()


def test_p7_what_a_killed_run_had_heard_of_a_closed_window_is_not_asked_again(tmp_path: Path) -> None:
    stage = {**ARTICLE, "run": "$PROVIDER; code=$?; touch $HOME/ended; exit $code"}
    world = world_of(tmp_path, stages={"article": stage})
    world.tell(**CLOSED)
    running = world.a.start("run")
    until(lambda: [*(world.a.state / "attempts").glob("*.spooled")] or running.ended(), running)
    running.kill()
    before = len(world.calls())
    said = world.a.run("-j", "3", code=75).err
    assert len(world.calls()) == before
    assert "Paused: m, quota/window" in said


def test_p7_a_command_that_is_not_there_opens_no_window(tmp_path: Path) -> None:
    world = world_of(tmp_path, stages={"article": {**ARTICLE, "run": "${COMMAND:-$PROVIDER}"}})
    world.tell(exit=1, answer="", stderr="HTTP 429: usage limit reached, resets in 1 seconds\n")
    world.a.run(code=75)
    time.sleep(1.5)
    other = world.clone("b")
    other.gitstate("run", "-j", "3", COMMAND="/no/such/command")
    assert world.git(world.remote, "for-each-ref", PAUSES)


@pytest.mark.parametrize("how", ["away", "gone", "changed"])
def test_p7_a_pause_is_lifted_by_hand_whatever_has_become_of_the_remote(tmp_path: Path, how: str) -> None:
    world = world_of(tmp_path)
    world.tell(**CLOSED)
    world.a.run(code=75)
    world.forgive()
    if how == "away":
        world.take_remote_away()
    elif how == "gone":
        world.a.git("remote", "remove", "origin")
    else:
        text = world.git(world.remote, "cat-file", "blob", f"{PAUSES}/m").replace('"rounds":0', '"rounds":1')
        blob = subprocess.run(
            ("git", "hash-object", "-w", "--stdin"), cwd=world.remote, input=text, text=True,
            env=world.environment, capture_output=True, check=True,
        ).stdout.strip()  # fmt: skip
        world.git(world.remote, "update-ref", f"{PAUSES}/m", blob)
    world.a.gitstate("reset", "--state", "paused", code=0)
    assert set(world.a.states().values()) == {"pending new"}
    assert "Paused" not in world.a.gitstate("status", code=0).out


def test_p7_a_pause_of_an_account_that_nobody_uses_any_more_can_be_lifted(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.tell(**CLOSED)
    world.a.run(code=75)
    world.forgive()
    world.a.configure({"article": ARTICLE}, ["one", "two", "three"], model={"name": "other"})
    world.a.run()
    world.a.gitstate("reset", "--state", "paused", code=0)
    assert not world.git(world.remote, "for-each-ref", PAUSES)


def test_p6_a_pause_that_cannot_be_read_is_said_with_a_way_out_that_works(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    blob = world.a.git("hash-object", "-w", "--stdin", stdin="no pause")
    world.a.git("push", "-q", "origin", f"{blob}:{PAUSES}/m")
    said = world.a.run(code=3).err
    assert f"git push origin :{PAUSES}/m; git update-ref -d refs/gitstate-pause/origin/m" in said
    world.a.git("push", "-q", "origin", f":{PAUSES}/m")
    world.a.git("update-ref", "-d", "refs/gitstate-pause/origin/m")
    world.a.run()


def test_p7_calls_that_time_out_count_in_the_budget_at_the_price_of_the_others(tmp_path: Path) -> None:
    slugs = " ".join(f"i{number}" for number in range(8))
    world = world_of(tmp_path, slugs, stages={"article": {**ARTICLE, "timeout": "4s"}})
    world.tell(usage={"usd": 0.4})
    world.a.run("--limit", "1")
    world.tell(hang=True)
    world.a.run("-j", "4", "--budget", "1usd", "--breaker", "0", code=75)
    assert len(world.calls()) <= 3


def test_p7_a_run_that_claims_sleeps_until_a_window_opens_that_another_one_found_closed(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, coordinate="leases")
    world.tell(exit=1, answer="", stderr="HTTP 429: usage limit reached, resets in 4 seconds\n")
    world.a.run(code=75)
    world.forgive()
    before = len(world.calls())
    other = world.clone("b")
    other.run("--wait")
    assert len(world.calls()) == before + 3
    assert set(other.states().values()) == {"done exact"}


def test_p7_whoever_waits_for_anothers_works_looks_at_a_window_that_may_have_opened(tmp_path: Path) -> None:
    stages = {
        "article": ARTICLE,
        "other": {**ARTICLE, "output": "other/{slug}.md", "model": {"name": "n"}},
    }
    world = world_of(tmp_path, "one two", stages=stages, coordinate="leases", lease="600s")
    world.tell("one", "other", hang=True)
    world.tell(
        "two", "article", once=True, exit=1, answer="", stderr="usage limit reached, resets in 5 seconds\n"
    )
    holder = world.clone("b").start("run", "--stage", "other", "one")
    assert until(world.calls, holder)
    world.a.run("--stage", "article", "two", code=75)
    waiting = world.a.start("run", "--wait")
    assert until(lambda: world.paid()["two/article"] == 2, waiting)
    waiting.kill()
    holder.kill()


def test_p7_an_answer_that_passes_later_is_counted_once(tmp_path: Path) -> None:
    world = world_of(tmp_path, "one", stages={"article": {**ARTICLE, "check": {"min_bytes": 4000}}})
    world.tell(usage={"usd": 0.4})
    world.a.run(code=1)
    world.a.configure({"article": ARTICLE}, ["one"], model={"name": "m"})
    said = world.a.run("--retry-failed").err
    assert "nothing was paid again" in said
    assert "$" not in said
    assert len(world.calls()) == 1
    spend = json.loads(world.a.gitstate("status", "--json", code=0).out)["spend"]
    assert (spend["accepted"]["usd"], spend["rejected"]["attempts"]) == (0.4, 0)


def test_p7_a_probe_that_finds_the_window_open_lifts_the_pause(tmp_path: Path) -> None:
    world = world_of(tmp_path, probe='exit "$OPEN"')
    world.tell(**CLOSED)
    world.a.run(code=75, OPEN="75")
    world.forgive()
    assert "closed" in world.a.gitstate("probe", code=75, OPEN="75").out
    assert "lifted" in world.a.gitstate("probe", code=0, OPEN="0").out
    world.a.run(OPEN="75")


def test_p7_a_pause_that_the_remote_could_not_be_told_of_is_told_by_the_next_run(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.a.run("--limit", "1")
    world.tell(**CLOSED)
    world.take_remote_away()
    world.a.run(code=75)
    world.bring_remote_back()
    assert not world.git(world.remote, "for-each-ref", PAUSES)
    world.a.run(code=75)
    assert world.git(world.remote, "for-each-ref", PAUSES)
    other = world.clone("b")
    before = len(world.calls())
    other.run(code=75)
    assert len(world.calls()) == before


def test_p7_a_night_does_not_use_up_the_limit_by_looking(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.tell(
        "one", exit=1, answer="", once=True, stderr="HTTP 429: usage limit reached, resets in 5 seconds\n"
    )
    world.a.run("--wait", "--limit", "1")
    assert sorted(world.a.states().values()) == ["done exact", "pending new", "pending new"]


def test_a_remote_that_never_answers_does_not_keep_a_run_from_ending_when_it_is_told_to(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path)
    world.a.git("remote", "set-url", "origin", "ssh://nowhere.invalid/x.git")
    asked = tmp_path / "asked"
    running = world.a.start("run", GIT_SSH_COMMAND=f"touch {asked}; exec sleep 600 #")
    for _ in range(8):  # each call of git's that hangs ends by a signal of its own
        if until(asked.exists, running):
            asked.unlink(missing_ok=True)
            running.signal(signal.SIGTERM)
            time.sleep(0.5)
        if running.ended():
            break
    assert running.wait().code in (75, 130)
    assert not world.calls()
