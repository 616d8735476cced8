"""P7: what is done about a failure: who comes again and when, what is paused, and what stops a run or goes on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import night
from tests.support.world import ARTICLE, CHAIN, FAIL_AT_ONCE, PATIENCE, Clone, Done, World, until

QUICKLY = {name: {"base": "0.05s"} for name in ("unknown", "timeout", "validation/empty", "quota/throttle")}


def error(**fields: Any) -> dict[str, Any]:
    """An order: fail as a provider's tool does, with an error object on standard error and no answer."""
    return {"answer": "", "exit": 1, "stderr": json.dumps(fields) + "\n"}


def throttled(seconds: float) -> dict[str, Any]:
    words = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Too many requests."}
    return error(error=words, status=429, headers={"retry-after": str(seconds)})


WINDOW = error(error={"type": "usage_limit_reached", "message": "The usage limit has been reached"})
CRASH = {"answer": "", "exit": 1, "stderr": "bash: line 1: 7 Segmentation fault (core dumped)\n"}
TRACEBACK = """Traceback (most recent call last):
  File "tool.py", line 1, in <module>
    main()
KeyError: 'choices'
"""
NAMELESS = {"answer": "", "exit": 1}


def verdicts(clone: Clone, slug: str = "one") -> list[dict[str, Any]]:
    return sorted(
        (line for line in clone.log() if line["kind"] == "verdict" and line["slug"] == slug),
        key=lambda line: (line["at"], line["state"] != "pending"),
    )


def at(clone: Clone, minutes: float, *arguments: str, code: int) -> Done:
    """A gitstate command as if it ran some minutes later than others of this world do."""
    env = {**clone.world.environment, "NIGHT": f"{time.time() - 60 * minutes} 1"}
    done = subprocess.run(
        (sys.executable, night.__file__, *arguments), cwd=clone.path, env=env, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


# --- who comes again ---------------------------------------------------------------------------------------


def test_p7_a_throttled_work_comes_again_after_the_stated_wait_while_others_go_on(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"])
    world.tell("one", once=True, **throttled(2))
    done = world.a.run()
    assert [call.slug for call in world.calls()] == ["one", "two", "three", "one"]
    refused = world.calls("answered")[0].time
    assert world.calls()[-1].time - refused >= 2, "a stated wait is kept in full"
    [line] = verdicts(world.a)
    assert (line["category"], line["failure"], line["state"]) == ("quota", "throttle", "pending")
    assert line["rule"]
    assert line["seen"]["wait"] == "retry-after"
    [pause] = re.findall(r"again in ([0-9.]+) s", done.err)
    assert 2 <= float(pause) <= 3, "what is said is the stated wait, and a random part of a second more"
    assert world.a.states() == {f"{slug}/article": "done exact" for slug in ("one", "two", "three")}
    assert world.a.leftovers() == []


def test_p7_what_needs_a_work_that_comes_again_waits_for_it(tmp_path: Path) -> None:
    world = World(tmp_path, stages=CHAIN, policy=QUICKLY)
    world.tell("one", "outline", once=True, **NAMELESS)
    world.a.run("-j", "2")
    assert world.paid() == {"one/outline": 2, "one/article": 1, "two/outline": 1, "two/article": 1}
    assert set(world.a.states().values()) == {"done exact"}
    assert len({call.key for call in world.calls() if (call.slug, call.stage) == ("one", "outline")}) == 1


def test_p7_an_empty_answer_is_asked_for_three_times_and_then_fails(tmp_path: Path) -> None:
    world = World(tmp_path, policy=QUICKLY)
    world.tell("one", answer=" \n")
    world.a.run(code=1)
    assert world.paid() == {"one/article": 3, "two/article": 1}
    assert world.a.states()["one/article"] == "failed new validation"
    assert [line["state"] for line in verdicts(world.a)] == ["pending", "pending", "failed"]
    assert {line["failure"] for line in verdicts(world.a)} == {"empty"}


@pytest.mark.parametrize(
    ("order", "name"),
    [
        ({"half": True}, "phase_error/crash"),
        (error(error={"type": "authentication_error", "message": "invalid x-api-key"}), "phase_error/auth"),
        (error(error={"type": "not_found_error", "message": "model: no-such-model"}), "phase_error/not_found"),
        ({"answer": "", "exit": 1, "stderr": TRACEBACK}, "phase_error/crash"),
    ],
    ids=["signal", "auth", "not_found", "traceback"],
)  # fmt: skip
def test_p7_what_waiting_cannot_cure_is_tried_once(tmp_path: Path, order: dict[str, Any], name: str) -> None:
    world = World(tmp_path)
    world.tell("one", **order)
    world.a.run(code=1)
    assert world.paid() == {"one/article": 1, "two/article": 1}
    [line] = verdicts(world.a)
    assert f"{line['category']}/{line['failure']}" == name
    assert line["state"] == "failed"


def test_p7_a_failing_check_fails_at_once_and_its_text_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": {**ARTICLE, "check": {"regex": ["answered"]}}})
    world.tell("one", answer="# one\n\nI would rather not.\n")
    world.a.run(code=1)
    assert world.paid() == {"one/article": 1, "two/article": 1}
    kept = (path.read_bytes() for path in (world.a.state / "rejected").iterdir() if path.is_file())
    assert b"# one\n\nI would rather not.\n" in list(kept)
    [line] = verdicts(world.a)
    assert (line["category"], line["failure"], line["rule"]) == ("validation", "regex", "check.regex")


def test_p7_rows_of_a_stage_count_before_those_of_the_configuration(tmp_path: Path) -> None:
    patient = {**ARTICLE, "policy": {"unknown": {"tries": 2, "base": "0.05s", "then": "fail"}}}
    other = {**ARTICLE, "output": "other/{slug}.md"}
    world = World(tmp_path, stages={"article": patient, "other": other}, items=["one"], policy=FAIL_AT_ONCE)
    world.tell(**NAMELESS)
    world.a.run(code=1)
    assert world.paid() == {"one/article": 2, "one/other": 1}
    assert set(world.a.states().values()) == {"failed new unknown"}


def test_p7_own_rules_change_what_a_run_does(tmp_path: Path) -> None:
    rules = [
        {"id": "no-slots", "when": {"exit": 3, "stderr": "no free slots"}, "category": "quota", "kind": "capacity",
         "wait": "1s"},
        {"id": "broken", "when": {"exit": 4}, "category": "phase_error", "kind": "crash"},
    ]  # fmt: skip
    world = World(tmp_path, rules=rules)
    world.tell("one", answer="", exit=3, stderr="no free slots in the queue\n", once=True)
    world.tell("two", answer="", exit=4)
    world.a.run(code=1)
    assert world.paid() == {"one/article": 2, "two/article": 1}
    assert world.a.states() == {"one/article": "done exact", "two/article": "failed new phase_error"}
    assert [line["rule"] for line in verdicts(world.a, "one")] == ["own.no-slots"]
    assert [line["rule"] for line in verdicts(world.a, "two")] == ["own.broken"]
    asked = [call.time for call in world.calls() if call.slug == "one"]
    assert asked[1] - asked[0] >= 1


def test_p7_an_own_rule_turns_away_what_would_have_passed(tmp_path: Path) -> None:
    rule = {"id": "polite-no", "when": {"exit": 0, "stdout": "i would rather not"}, "category": "validation",
            "kind": "refused"}  # fmt: skip
    world = World(tmp_path, rules=[rule])
    world.tell("one", answer="# One\n\nI would rather not write about that.\n")
    world.a.run(code=1)
    assert world.paid() == {"one/article": 1, "two/article": 1}
    assert world.a.states() == {"one/article": "failed new validation", "two/article": "done exact"}
    assert [line["rule"] for line in verdicts(world.a)] == ["own.polite-no"]
    assert not world.a.has("out/one.md")


def test_p7_a_throttle_that_three_tries_do_not_outlast_pauses_the_run_and_no_work_is_to_blame(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, items=["one", "two", "three"], model={"name": "m"}, policy=QUICKLY)
    world.tell(**throttled(0))
    done = world.a.run(code=75)
    assert "Paused: m, quota/throttle: Too many requests. Next look at" in done.err
    assert max(world.paid().values()) == 3
    assert {line["state"] for line in world.a.log()} == {"pending"}
    assert set(world.a.states().values()) == {"paused new quota"}
    asked = len(world.calls())
    world.a.run(code=75)
    assert len(world.calls()) == asked
    world.forgive()
    world.a.gitstate("reset", "--state", "paused", code=0)
    world.a.run()
    assert set(world.a.states().values()) == {"done exact"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_p7_an_end_is_heeded_while_a_work_waits_for_its_next_try(tmp_path: Path, how: signal.Signals) -> None:
    world = World(tmp_path, items=["one"])
    world.tell("one", **throttled(3000))
    running = world.a.start("run")
    assert until(lambda: verdicts(world.a), running)
    running.signal(how)
    running.wait(-9 if how == signal.SIGKILL else 130)
    assert how == signal.SIGKILL or world.a.leftovers() == []
    assert world.a.states() == {"one/article": "pending new"}
    world.forgive()
    world.a.run()
    assert world.paid() == {"one/article": 2}
    assert world.a.leftovers() == []


# --- paused works ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rested_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("rested"), policy=QUICKLY)
    world.tell("one", **NAMELESS)
    at(world.a, 0, "run", code=75)
    return world


@pytest.fixture
def rested(rested_once: World, tmp_path: Path) -> World:
    """The tries of one work of two were used up without anybody knowing why; it would succeed now."""
    world = rested_once.copy(tmp_path)
    assert world.paid() == {"one/article": 3, "two/article": 1}
    assert world.a.states()["one/article"] == "paused new unknown"
    assert [line["state"] for line in verdicts(world.a)] == ["pending", "pending", "paused"]
    world.forgive()
    return world


def test_p7_a_paused_work_is_left_until_its_time_and_then_taken_up(rested: World) -> None:
    at(rested.a, 30, "run", code=75)
    rested.a.forget_state()
    at(rested.a, 58, "run", code=75)
    assert rested.paid()["one/article"] == 3
    at(rested.a, 62, "run", code=0)
    assert rested.paid() == {"one/article": 4, "two/article": 1}
    assert rested.a.states()["one/article"] == "done exact"


def test_p7_a_paused_work_is_taken_up_at_once_when_asked_for(rested: World) -> None:
    at(rested.a, 1, "run", "--state", "paused", code=0)
    assert rested.paid() == {"one/article": 4, "two/article": 1}


def test_p7_reset_forgets_that_a_work_is_paused(rested: World) -> None:
    rested.a.gitstate("reset", "--state", "paused", code=0)
    assert rested.a.states()["one/article"] == "pending new"
    at(rested.a, 1, "run", code=0)
    assert rested.paid() == {"one/article": 4, "two/article": 1}


def test_p7_what_needs_a_paused_work_waits_and_nothing_else_does(tmp_path: Path) -> None:
    world = World(tmp_path, stages=CHAIN, policy=QUICKLY)
    world.tell("one", "outline", **NAMELESS)
    world.a.run(code=75)
    world.a.run(code=75)
    assert world.a.states() == {
        "one/outline": "paused new unknown", "one/article": "pending upstream",
        "two/outline": "done exact", "two/article": "done exact",
    }  # fmt: skip


def test_p7_a_run_that_a_policy_pauses_says_for_what(tmp_path: Path) -> None:
    policy = {"unknown": {"tries": 1, "then": "pause_run"}}
    world = World(tmp_path, items=["one", "two"], model={"name": "m"}, policy=policy)
    world.tell("one", **NAMELESS)
    done = world.a.run(code=75)
    assert "Paused: m, unknown: exit 1. Next look at" in done.err
    assert world.paid() == {"one/article": 1}
    assert "m: closed, unknown until" in world.a.gitstate("probe", code=75).out
    world.forgive()
    world.a.gitstate("reset", "--state", "paused", code=0)
    world.a.run()
    assert set(world.a.states().values()) == {"done exact"}


# --- the breaker -------------------------------------------------------------------------------------------


def test_p7_the_breaker_stops_a_run_after_three_equal_failures_in_a_row(tmp_path: Path) -> None:
    world = World(tmp_path, items=[f"i{number}" for number in range(5)], policy=FAIL_AT_ONCE)
    world.tell(**CRASH)
    done = world.a.run(code=1)
    assert len(world.calls()) == 3
    assert "Stopped: 3 works in a row failed alike (" in done.err
    assert "2 not begun" in done.err
    world.a.run(code=1)
    assert world.paid() == {f"i{number}/article": 1 for number in range(5)}, "the next run goes on from there"


def test_p7_the_breaker_stops_where_works_are_paused_too_and_that_is_a_failure(tmp_path: Path) -> None:
    world = World(tmp_path, items=[f"i{number}" for number in range(5)], policy=QUICKLY)
    world.tell(**NAMELESS)
    done = world.a.run(code=1)
    assert len(world.calls()) <= 3 * 5
    assert "Stopped: 3 works in a row failed alike (unknown)." in done.err


def test_p7_the_breaker_lets_a_failure_here_and_there_pass(tmp_path: Path) -> None:
    world = World(tmp_path, items=[f"i{number}" for number in range(9)], policy=FAIL_AT_ONCE)
    for number in (0, 1, 3, 4, 6, 7):
        world.tell(f"i{number}", **CRASH)
    done = world.a.run(code=1)
    assert len(world.calls()) == 9
    assert "Stopped" not in done.err


def test_p7_without_the_breaker_every_work_is_tried(tmp_path: Path) -> None:
    world = World(tmp_path, items=[f"i{number}" for number in range(12)], policy=FAIL_AT_ONCE)
    world.tell(**CRASH)
    done = world.a.run("--breaker", "0", code=1)
    assert len(world.calls()) == 12
    assert "Stopped" not in done.err


def test_p7_with_works_side_by_side_the_breaker_stops_with_what_was_under_way(tmp_path: Path) -> None:
    world = World(tmp_path, items=[f"i{number}" for number in range(30)], policy=FAIL_AT_ONCE)
    world.tell(**CRASH)
    done = world.a.run("-j", "4", code=1)
    assert "Stopped" in done.err
    assert len(world.calls()) <= 3 + 4


# --- the budget --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", ["1", "4"])
@pytest.mark.parametrize(
    ("usage", "budget"),
    [({"usd": 1.0}, "3.5usd"), ({"tokens_in": 800, "tokens_out": 200}, "3500tokens")],
    ids=["usd", "tokens"],
)
def test_p7_a_budget_stops_before_the_work_that_would_pass_it(
    tmp_path: Path, usage: dict[str, Any], budget: str, jobs: str
) -> None:
    world = World(tmp_path, items=[f"i{number}" for number in range(12)])
    world.tell(usage=usage)
    done = world.a.run("-j", jobs, "--budget", budget, code=75)
    assert len(world.calls()) == 3
    assert "Stopped: the next work would pass the budget of" in done.err
    done = world.a.run("-j", jobs, "--budget", budget, code=75)
    assert len(world.calls()) == 6, "the price is known from before, and each run has its budget"
    world.a.run()
    assert set(world.paid().values()) == {1}


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_p7_a_budget_says_so_where_a_stage_does_not_say_what_it_costs(tmp_path: Path, jobs: str) -> None:
    world = World(tmp_path, items=[f"i{number}" for number in range(6)])
    done = world.a.run("-j", jobs, "--budget", "3usd", code=75)
    assert len(world.calls()) == 1
    assert "article does not say what it costs ($GITSTATE_USAGE)" in done.err


def test_p7_rejected_answers_without_a_price_do_not_go_past_a_budget_unseen(tmp_path: Path) -> None:
    stages = {"article": {**ARTICLE, "check": {"min_bytes": 5000}}}
    world = World(tmp_path, items=["one", "two", "three"], stages=stages)
    done = world.a.run("--budget", "3usd", code=1)
    assert len(world.calls()) == 1
    assert "article does not say what it costs ($GITSTATE_USAGE)" in done.err


def test_p7_a_call_that_never_got_an_answer_says_nothing_about_the_price(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"], policy=QUICKLY)
    world.tell(usage={"usd": 1.0})
    world.tell("one", once=True, **throttled(0))
    world.a.run("--budget", "3usd")
    assert world.paid() == {"one/article": 2, "two/article": 1, "three/article": 1}


def test_p7_failed_tries_count_in_the_budget(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two"], policy=QUICKLY)
    world.tell(usage={"usd": 1.0})
    world.tell("one", usage={"usd": 1.0}, answer=" ")
    done = world.a.run("--budget", "2usd", code=75)
    assert len(world.calls()) == 2
    assert "Stopped: the next work would pass the budget of $2.00." in done.err


def test_p7_a_limit_counts_each_work_once_though_failures_come_between(tmp_path: Path) -> None:
    world = World(tmp_path, items=[f"i{number:02}" for number in range(40)], policy=QUICKLY)
    for number in (3, 6):
        world.tell(f"i{number:02}", **CRASH)
    world.tell("i09", once=True, **NAMELESS)
    world.a.run("--limit", "20", "-j", "2", code=1)
    assert len(world.paid()) == 20


# --- other machines ----------------------------------------------------------------------------------------


def test_p7_a_deterministic_failure_is_not_bought_again_by_another_machine(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": {**ARTICLE, "check": {"regex": ["answered"]}}}, remote=True)
    b = world.clone("b")
    world.tell("one", answer="# one\n\nI would rather not.\n")
    world.a.run(code=1)
    b.run(code=1)
    b.forget_state()
    b.git("pull", "-q")
    b.run(code=1)
    assert world.paid() == {"one/article": 1, "two/article": 1}
    assert b.states()["one/article"] == "failed new validation"
    assert world.a.plan_text() == b.plan_text()
    b.gitstate("reset", "--category", "validation", code=0)
    b.run(code=1)
    assert world.paid()["one/article"] == 2
    b.commit({"prompts/article.md": "Do write about {{ slug }}.\n"})
    world.forgive()
    b.run()
    assert world.paid() == {"one/article": 3, "two/article": 2}


def test_p7_a_paused_work_is_left_by_another_machine_too_until_its_time(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True, policy=QUICKLY)
    world.tell("one", **NAMELESS)
    at(world.a, 0, "run", code=75)
    world.forgive()
    b = world.clone("b")
    at(b, 30, "run", code=75)
    assert world.paid() == {"one/article": 3, "two/article": 1}
    assert b.states()["one/article"] == "paused new unknown"
    assert world.a.plan_text() == b.plan_text()
    at(b, 62, "run", code=0)
    at(world.a, 63, "run", code=0)
    assert world.paid() == {"one/article": 4, "two/article": 1}


def test_p7_a_budget_of_the_configuration_counts_and_the_command_line_before_it(tmp_path: Path) -> None:
    world = World(tmp_path, items=[f"i{number}" for number in range(6)], budget="2usd")
    world.tell(usage={"usd": 1.0})
    world.a.run(code=75)
    assert len(world.calls()) == 2
    world.a.run("--budget", "3usd", code=75)
    assert len(world.calls()) == 5


# --- selections, and what people are told ------------------------------------------------------------------


def test_p7_failed_works_are_taken_up_and_forgotten_by_category(tmp_path: Path) -> None:
    stage = {**ARTICLE, "timeout": "4s"}
    world = World(tmp_path, stages={"article": stage}, items=["one", "two", "three"], policy=FAIL_AT_ONCE)
    world.tell("one", answer="")
    world.tell("two", hang=True)
    world.tell("three", **CRASH)
    world.a.run(code=1)
    world.forgive()
    world.a.run("--state", "failed", "--category", "validation")
    assert world.paid() == {"one/article": 2, "two/article": 1, "three/article": 1}
    world.a.gitstate("reset", "--category", "timeout", code=0)
    states = world.a.states()
    assert states["two/article"] == "pending new"
    assert states["three/article"].startswith("failed new")
    world.a.run(code=1)
    assert world.paid() == {"one/article": 2, "two/article": 2, "three/article": 1}


TELL = 'cat > "$PROVIDER_HOME/told" && printf "%s|%s" "$GITSTATE_EVENT" "$GITSTATE_MESSAGE" > "$PROVIDER_HOME/event"'


@pytest.mark.parametrize(
    ("order", "code", "event"),
    [({}, 0, "end"), (CRASH, 1, "failure"), (WINDOW, 75, "pause")],
    ids=["end", "failure", "pause"],
)
def test_p7_somebody_is_told_how_a_run_ended(
    tmp_path: Path, order: dict[str, Any], code: int, event: str
) -> None:
    world = World(tmp_path, items=["one"], notify=TELL, model={"name": "m"}, policy=FAIL_AT_ONCE)
    world.tell(**order)
    world.a.run(code=code)
    said, _, message = (world.home / "event").read_text().partition("|")
    told = json.loads((world.home / "told").read_text())
    assert said == told["event"] == event
    assert message == told["message"]
    assert message
    assert "\n" not in message
    assert told["code"] == code
    if event == "pause":
        assert message.startswith("Paused: m, quota/window")


def test_p7_somebody_is_told_of_a_run_that_ends_in_an_error(tmp_path: Path) -> None:
    check = {"command": "no-such-checker {{ output }}"}
    world = World(tmp_path, stages={"article": {**ARTICLE, "check": check}}, notify=TELL)
    world.a.run(code=2)
    said, _, message = (world.home / "event").read_text().partition("|")
    assert said == "failure"
    assert "no-such-checker" in message
    assert json.loads((world.home / "told").read_text())["code"] == 2


def test_p7_a_notify_command_that_fails_changes_nothing_else(tmp_path: Path) -> None:
    world = World(tmp_path, notify="echo nobody is there >&2; exit 9")
    done = world.a.run()
    assert "`notify` command failed" in done.err
    assert "nobody is there" in done.err
    assert set(world.a.states().values()) == {"done exact"}
    assert world.a.leftovers() == []


def test_p7_probe_says_whether_the_window_is_open(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        model={"name": "m"},
        probe='cat "$PROVIDER_HOME/words" >&2; exit $(cat "$PROVIDER_HOME/code")',
    )
    for words, code, answer in (("", 0, 0), (WINDOW["stderr"], 1, 75), ("could not look\n", 1, 69)):
        (world.home / "words").write_text(words)
        (world.home / "code").write_text(str(code))
        done = world.a.gitstate("probe", code=answer)
        assert done.out.startswith("m: ")
    assert world.calls() == world.a.log() == []


def test_p7_probe_without_a_command_goes_by_the_pauses(tmp_path: Path) -> None:
    world = World(tmp_path, model={"name": "m"})
    world.a.gitstate("probe", code=0)
    world.tell(**WINDOW)
    world.a.run(code=75)
    assert "closed" in world.a.gitstate("probe", code=75).out
    world.a.gitstate("reset", "--state", "paused", code=0)
    world.a.gitstate("probe", code=0)


def test_p7_why_shows_every_try_with_the_rule_that_named_it(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"], policy=QUICKLY)
    world.tell("one", once=True, **throttled(0))
    world.a.run()
    [work] = world.a.why("one")
    [line] = work["log"]
    assert (line["kind"], line["category"], line["failure"], line["state"]) == (
        "verdict", "quota", "throttle", "pending",
    )  # fmt: skip
    assert line["rule"]
    assert "Too many requests" in line["evidence"]
    assert (work["spend"]["accepted"], work["spend"]["rejected"]) == (1, 1)
    shown = world.a.gitstate("why", "one", code=0).out
    assert line["rule"] in shown
    assert "throttle" in shown


def test_p7_status_has_the_totals_of_what_was_accepted_failed_and_lost_apart(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"], policy=FAIL_AT_ONCE)
    world.tell("one", usage={"usd": 1.0})
    world.tell("two", usage={"usd": 0.25}, answer="")
    world.tell("three", hang=True)
    running = world.a.start("run")
    assert until(lambda: "three/article" in world.paid(), running)
    running.kill()
    world.forgive()
    world.tell("three", usage={"usd": 2.0})
    world.a.run(code=1)
    spend = json.loads(world.a.gitstate("status", "--json", code=0).out)["spend"]
    assert {kind: (sums["attempts"], sums["usd"]) for kind, sums in spend.items()} == {
        "accepted": (2, 3.0), "rejected": (1, 0.25), "duplicate": (0, 0.0), "lost": (1, 0.0),
    }  # fmt: skip
    shown = world.a.gitstate("status", code=0).out
    assert "2 attempts brought results: $3.00" in shown
    assert "1 attempt failed: $0.25" in shown
    assert "1 attempt ended without an answer, at a cost unknown" in shown
