"""P7: a failure never becomes data: it is logged, kept for people outside the managed tree, and exit 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.world import ARTICLE, CHAIN, FAIL_AT_ONCE, World


class Case(NamedTuple):
    """One way to fail: how the stage is configured, what the provider does, and what is made of it."""

    stage: dict[str, Any]
    order: dict[str, Any]
    category: str
    said: str = ""  # a word of the evidence


SCHEMA = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
PAIR = ["out/{slug}.md", "out/{slug}.json"]


def check(**checks: Any) -> dict[str, Any]:
    return {"check": checks}


CASES = {
    "an exit code": Case({}, {"exit": 3, "stderr": "quota of words used up"}, "unknown", "quota of words"),
    "an exit code with a perfect answer": Case({}, {"exit": 1}, "unknown"),
    "a crash half way": Case({}, {"half": True}, "phase_error"),
    "a timeout": Case({"timeout": "2s"}, {"hang": True}, "timeout"),
    "silence": Case({"silence": "2s"}, {"hang": True}, "timeout"),
    "a command that is not there": Case({"run": "no-such-command-anywhere"}, {}, "phase_error", "not found"),
    "nothing": Case({}, {"answer": ""}, "validation", "nothing"),
    "blanks": Case({}, {"answer": " \n\t\n\u00a0"}, "validation"),
    "zeros": Case({}, {"answer": "\0" * 64}, "validation"),
    "blanks that a template would hide": Case(
        {"template": "templates/page.md"}, {"answer": "\n"}, "validation"
    ),
    "less than min_bytes": Case(check(min_bytes=100), {"answer": "short\n"}, "validation", "min_bytes"),
    "more than max_bytes": Case(check(max_bytes=10), {"answer": "x" * 11}, "validation", "max_bytes"),
    "no front matter": Case(check(front_matter=["title"]), {"answer": "# Title\n"}, "validation", "front"),
    "front matter without a key": Case(
        check(front_matter=["title", "date"]), {"answer": "---\ntitle: A\n---\nText\n"}, "validation", "date"
    ),
    "front matter with an empty key": Case(
        check(front_matter=["title"]), {"answer": "---\ntitle:\n---\nText\n"}, "validation", "title"
    ),
    "no JSON": Case(check(json=True), {"answer": "Sure! Here is your JSON: {}"}, "validation", "JSON"),
    "JSON that was cut off": Case(check(json=True), {"answer": '{"title": "A'}, "validation", "JSON"),
    "JSON of another shape": Case(
        check(json_schema="schema.json"), {"answer": '{"title": 7}'}, "validation", "title"
    ),
    "a refusal": Case(
        check(regex=["^# ", "answered"]), {"answer": "# I cannot help with that.\n"}, "validation", "answered"
    ),
    "a check command that says no": Case(
        check(command="grep -q answered {{ output }} || { echo no good; false; }"),
        {"answer": "something\n"}, "validation", "no good",
    ),
    "no second output": Case({"output": PAIR}, {"outputs": ["text\n"]}, "validation", "output_2 was not"),
    "an empty second output": Case({"output": PAIR}, {"outputs": ["text\n", ""]}, "validation", "2"),
    "a blank second output": Case({"output": PAIR}, {"outputs": ["text\n", " \n"]}, "validation"),
    "a link instead of an output": Case({}, {"link": "/etc/passwd"}, "validation", "link"),
    "a link to a file in the repository": Case({}, {"link": "plan.yaml"}, "validation"),
}  # fmt: skip


@pytest.mark.parametrize("how", CASES)
def test_p7_it_fails_is_logged_and_not_promoted_and_the_others_go_on(tmp_path: Path, how: str) -> None:
    stage, order, category, said = CASES[how]
    bad = {**ARTICLE, **stage}
    good = {"run": "echo fine {{ slug }}", "output": "good/{slug}.txt"}
    files = {"schema.json": json.dumps(SCHEMA), "templates/page.md": "# {{ slug }}\n\n{{ response }}"}
    world = World(
        tmp_path, stages={"article": bad, "good": good}, items=["one"], files=files, policy=FAIL_AT_ONCE
    )
    world.tell("one", "article", **order)
    done = world.a.run(code=1)
    assert world.a.states() == {"one/article": f"failed new {category}", "one/good": "done exact"}
    assert "one/article" in done.err
    assert category in done.err
    assert not any((world.a.path / "out").glob("*"))
    assert not any(path.startswith("out/") for path in world.a.files())
    assert [line["slug"] for line in world.a.receipts()] == ["one"]
    assert world.a.receipts()[0]["stage"] == "good"
    [verdict] = [line for line in world.a.log() if line["kind"] == "verdict"]
    assert (verdict["slug"], verdict["stage"], verdict["category"]) == ("one", "article", category)
    assert said.lower() in verdict["evidence"].lower()
    assert world.a.status() == ""
    assert world.a.leftovers() == []


def test_p7_the_rejected_text_is_kept_outside_the_managed_tree(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": {**ARTICLE, "check": {"min_bytes": 100}}}, items=["one"])
    world.tell(answer="too short to be true\n")
    world.a.run(code=1)
    kept = [path for path in world.a.state.rglob("*") if path.is_file()]
    assert any(path.read_bytes() == b"too short to be true\n" for path in kept)


def test_p7_a_check_command_that_is_not_there_judges_nothing_and_nothing_is_paid_twice(
    tmp_path: Path,
) -> None:
    def checked(command: str) -> dict[str, Any]:
        return {"article": {**ARTICLE, "check": {"command": command}}}

    world = World(tmp_path, stages=checked("no-such-checker {{ output }}"), items=["one"])
    done = world.a.run(code=2)
    assert "gitstate.yaml:" in done.err
    assert "no-such-checker" in done.err
    assert not any((world.a.path / "out").glob("*"))
    assert world.a.receipts() == world.a.log() == []
    world.a.configure(checked("grep -q answered {{ output }}"), ["one"])
    world.a.run()
    assert world.paid() == {"one/article": 1}
    assert world.a.states() == {"one/article": "done exact"}


def test_p7_a_failed_upstream_stops_what_needs_it_and_nothing_else(tmp_path: Path) -> None:
    world = World(tmp_path, stages=CHAIN, policy=FAIL_AT_ONCE)
    world.tell("one", "outline", answer="")
    world.a.run(code=1)
    assert world.a.states() == {
        "one/outline": "failed new validation", "one/article": "pending upstream",
        "two/outline": "done exact", "two/article": "done exact",
    }  # fmt: skip
    assert world.paid() == {"one/outline": 1, "two/outline": 1, "two/article": 1}


@pytest.fixture(scope="module")
def failed_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("failed"), policy=FAIL_AT_ONCE)
    world.tell("one", exit=1, stderr="no")
    world.a.run(code=1)
    return world


@pytest.fixture
def failed(failed_once: World, tmp_path: Path) -> World:
    """One work of two failed, and would succeed now."""
    world = failed_once.copy(tmp_path)
    world.forgive()
    return world


def test_p7_a_failed_work_is_not_retried_by_the_next_run_which_still_exits_1(failed: World) -> None:
    failed.a.run(code=1)
    failed.a.forget_state()
    failed.a.run(code=1)
    assert failed.paid() == {"one/article": 1, "two/article": 1}


def test_p7_a_failed_work_is_retried_when_asked_for(failed: World) -> None:
    failed.a.run("--retry-failed")
    assert failed.paid() == {"one/article": 2, "two/article": 1}
    assert failed.a.states()["one/article"] == "done exact"
    keys = {call.key for call in failed.calls() if call.slug == "one"}
    assert len(keys) == 1  # until one attempt completes, they are the same request


@pytest.mark.parametrize(
    "selection",
    [("one",), ("--state", "failed"), ("--category", "unknown"), ("--stage", "article")],
    ids=lambda words: words[-1],
)
def test_p7_a_failed_work_is_retried_after_reset(failed: World, selection: tuple[str, ...]) -> None:
    failed.a.gitstate("reset", *selection, code=0)
    assert failed.a.states()["one/article"] == "pending new"
    failed.a.run()
    assert failed.paid() == {"one/article": 2, "two/article": 1}


def test_p7_a_failed_work_is_retried_when_its_prompt_changes_and_failed_again_when_it_changes_back(
    failed: World,
) -> None:
    failed.a.commit({"prompts/article.md": "Please write about {{ slug }}.\n"})
    assert failed.a.states()["one/article"] == "pending new"
    failed.a.git("revert", "--no-edit", "HEAD")
    assert failed.a.states()["one/article"] == "failed new unknown"
    failed.a.git("revert", "--no-edit", "HEAD")
    failed.a.run("one")
    assert failed.paid()["one/article"] == 2


def test_p7_failing_again_after_a_reset_stands_again(failed: World) -> None:
    failed.tell("one", answer="")
    failed.a.gitstate("reset", "one", code=0)
    failed.a.run(code=1)
    failed.a.run(code=1)
    assert failed.paid()["one/article"] == 2
    assert failed.a.states()["one/article"] == "failed new validation"


def test_p7_an_old_output_stays_while_its_renewal_fails(finished: World) -> None:
    old = finished.a.read("out/one.md")
    finished.a.commit({"prompts/article.md": "Please write about {{ slug }}.\n"})
    finished.tell("one", answer="")
    finished.a.run(code=1)
    assert finished.a.show("out/one.md") == old
    assert finished.a.states() == {
        "one/article": "failed stale prompt validation",
        "two/article": "done exact",
    }


def test_p7_a_second_clone_honours_the_verdict_and_the_reset(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True, policy=FAIL_AT_ONCE)
    world.tell("one", answer="")
    world.a.run(code=1)
    world.forgive()
    other = world.clone("b")
    other.run(code=1)
    assert world.paid() == {"one/article": 1, "two/article": 1}
    assert other.states()["one/article"] == "failed new validation"
    other.gitstate("reset", "one", code=0)
    other.gitstate("sync", code=0)
    world.a.run()
    assert world.paid() == {"one/article": 2, "two/article": 1}
    other.run()
    assert world.paid() == {"one/article": 2, "two/article": 1}


def test_p7_one_failure_among_many_side_by_side_is_not_lost(tmp_path: Path) -> None:
    slugs = [f"item-{number}" for number in range(12)]
    world = World(tmp_path, items=slugs, policy=FAIL_AT_ONCE)
    world.tell("item-7", exit=9)
    world.a.run("-j", "4", code=1)
    states = world.a.states()
    assert states.pop("item-7/article") == "failed new unknown"
    assert set(states.values()) == {"done exact"}


def test_p7_a_prompt_that_cannot_be_rendered_for_one_item_fails_before_it_is_paid_for(tmp_path: Path) -> None:
    files = {"prompts/article.md": "Write about {{ topic }}.\n"}
    world = World(tmp_path, items=[{"slug": "one", "topic": "sea"}, "two"], files=files)
    done = world.a.run(code=1)
    assert world.paid() == {"one/article": 1}
    assert world.a.states() == {"one/article": "done exact", "two/article": "failed new planning_error"}
    assert "prompts/article.md:1" in done.err
    assert "topic" in done.err
