"""`status --resume SLUG`: what would otherwise be looked up by hand, from facts; and `why` on acts."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.outside import Outside, run_killed, world
from tests.support.world import ARTICLE, World, until

NO_EVIDENCE = ("evidence", "settle")


def facts(made: World, *arguments: str) -> dict[str, Any]:
    """The checklist of one as JSON, its works by stage under `stages`."""
    done = made.a.gitstate("status", "--resume", "one", "--json", *arguments, code=0)
    found: dict[str, Any] = json.loads(done.out)
    found["stages"] = {work["stage"]: work for work in found["work"]}
    return found


def publish(made: World, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = facts(made, *arguments)["stages"]["publish"]
    return found


def text(made: World, *arguments: str) -> str:
    """The checklist of one as people read it: no more than a screen."""
    out = made.a.gitstate("status", "--resume", "one", *arguments, code=0).out
    assert len(out.splitlines()) <= 24
    return out


def killed(folder: Path, order: str = "kill-after", **changes: Any) -> tuple[World, Outside]:
    """A world in which the run was killed in the middle of the act for one."""
    made, outside = world(folder, **changes)
    run_killed(made, outside, order)
    return made, outside


def type_next(made: World, **words: str) -> None:
    """Type the first command that the checklist says is next, as it stands there."""
    command = publish(made)["next"]["commands"][0]
    typed = shlex.split(
        command.replace("EVIDENCE", words.get("evidence", "")).replace("…", words.get("why", ""))
    )
    assert typed[0] == "gitstate"
    made.a.gitstate(*typed[1:], code=0)


# --- what is told ----------------------------------------------------------------------------------------------


def test_of_a_slug_that_was_never_begun_it_says_what_is_first(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    found = facts(made)
    assert (found["last_recorded"], found["next_stage"], found["held"]) == (None, "article", False)
    assert list(found["stages"]) == ["article", "publish", "after"]
    assert found["stages"]["article"]["next"]["commands"] == ["gitstate run one"]
    assert found["stages"]["publish"]["next"]["do"] == "wait"
    assert "nothing is recorded yet; article is next" in text(made)
    made.a.run()
    assert outside.acts()[0][2] not in text(made)  # (what is done has no next attempt)


def test_of_a_killed_act_it_says_what_is_known_and_runs_nothing(tmp_path: Path) -> None:
    made, outside = killed(tmp_path)
    ((_, attempt, key, _),) = outside.acts()
    found = facts(made)
    assert found["last_recorded"]["stage"] == "article"
    assert found["next_stage"] == "publish"
    work = found["stages"]["publish"]
    assert (work["previous"]["attempt"], work["previous"]["end"]) == (attempt, "open")
    assert work["new"] == {"key": key, "same_key": True}
    assert work["effect"]["happened"] == "unknown"
    assert [act["attempt"] for act in work["open"]] == [attempt]
    assert [(one["attempt"], one["step"], one["partial"]) for one in work["here"]] == [
        (attempt, "acting", [])
    ]
    assert work["next"]["do"] == "ask"
    out = text(made)
    assert f"the run asks evidence about attempt {attempt}" in out
    assert f"the key stays {key}" in out
    assert "its command was started, no answer is here" in out
    assert "evidence: sh evidence.sh" in out
    assert "nobody has a claim on it" in out
    assert outside.questions() == []
    type_next(made)
    assert outside.made() == {"one": 1}
    assert publish(made)["recorded"]["adopted"] == "evidence"
    assert "as evidence said" in text(made)


@pytest.mark.parametrize(
    ("order", "answer"),
    [("kill-after", "exists (found one)"), ("kill-before", "absent"), ("down", "unclear")],
)
def test_with_ask_evidence_answers_and_nothing_is_recorded(tmp_path: Path, order: str, answer: str) -> None:
    made, outside = killed(tmp_path, "kill-before" if order == "kill-before" else "kill-after")
    if order == "down":
        outside.set("down")
    ((_, attempt, key, _),) = outside.acts()
    before = (made.a.log(), made.a.receipts(), made.a.git("rev-parse", "HEAD"))
    assert f"asked now {answer}" in text(made, "--ask")
    assert outside.questions() == [["one", attempt, key]]
    assert (made.a.log(), made.a.receipts(), made.a.git("rev-parse", "HEAD")) == before
    assert publish(made, "--ask")["asked_now"]["answer"] == answer.split()[0]
    assert publish(made)["next"]["do"] == "ask"
    assert made.a.status() == ""


def test_with_ask_nothing_is_run_where_no_act_is_open(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.run()
    assert publish(made, "--ask")["asked_now"] is None
    assert outside.questions() == []


def test_an_act_that_was_told_of_and_never_begun_is_no_question(tmp_path: Path) -> None:
    made, outside = killed(tmp_path, "kill-before", without=NO_EVIDENCE)
    for path in (made.a.state / "attempts").glob("*.acting"):
        path.unlink()  # as a death in the instant before the command would have left it
    work = publish(made)
    assert work["next"]["do"] == "begin"
    assert work["effect"]["happened"] == "no"
    assert "it was told of and never begun" in text(made)
    type_next(made)
    assert outside.made() == {"one": 1}


def test_an_answer_that_waits_is_said_to_be_paid_and_not_recorded(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.run("--stage", "article")
    outside.next("wait")
    outside.set("hold")
    running = made.a.start("run")
    assert until(outside.acts, running)
    objects, state = made.a.path / ".git" / "objects", made.a.state
    objects.rename(objects.with_name("away"))
    outside.set("hold", on=False)
    assert until(lambda: list(state.glob("attempts/*.spooled")), running)
    running.kill()
    objects.with_name("away").rename(objects)
    work = publish(made)
    assert [one["step"] for one in work["here"]] == ["spooled"]
    assert work["next"]["do"] == "record"
    assert "its answer has arrived, and is not recorded yet" in text(made)
    type_next(made)
    assert (outside.made(), outside.questions()) == ({"one": 1}, [])


def test_unfinished_files_of_an_attempt_are_named(tmp_path: Path) -> None:
    made, _ = killed(tmp_path)
    (intent,) = (made.a.state / "attempts").glob("*.intent")
    (partial,) = json.loads(intent.read_text())["temporaries"]
    (made.a.path / partial).parent.mkdir(exist_ok=True)
    (made.a.path / partial).write_text("half")
    assert publish(made)["here"][0]["partial"] == [partial]
    assert f"unfinished: {partial}" in text(made)


def test_while_a_run_is_at_it_nothing_else_is_to_be_typed(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    outside.next("wait")
    outside.set("hold")
    running = made.a.start("run")
    assert until(outside.acts, running)
    found = facts(made)
    assert found["held"]
    assert found["running"]["pid"] == running.process.pid
    assert found["stages"]["publish"]["next"] == {
        "do": "underway",
        "say": "a run is at it now; let it end",
        "commands": [],
    }
    assert f"pid {running.process.pid}" in text(made)
    outside.set("hold", on=False)
    running.wait(0)


def test_what_only_a_person_can_tell_is_asked_with_the_commands_to_type(tmp_path: Path) -> None:
    made, outside = killed(tmp_path, without=NO_EVIDENCE)
    attempt = outside.acts()[0][1]
    assert f"only you can tell: look whether attempt {attempt} has happened" in text(made)
    type_next(made, evidence="https://example.org/one")
    assert publish(made)["effect"]["happened"] == "yes"
    assert "by the word of A Writer" in text(made)
    assert outside.made() == {"one": 1}


def test_what_evidence_could_not_tell_is_said_with_its_words(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    outside.next("lose")
    outside.set("down")
    made.a.run(code=3)
    work = publish(made)
    assert work["next"]["do"] == "unclear"
    assert work["evidence"]["answer"] == "unclear"
    assert work["previous"]["attempt"] == outside.acts()[0][1]
    assert "the service is down" in text(made)
    outside.set("down", on=False)
    type_next(made)
    assert outside.made() == {"one": 1}


def test_an_idempotent_act_is_done_again_under_its_key(tmp_path: Path) -> None:
    made, outside = killed(tmp_path, without=NO_EVIDENCE, idempotent=True)
    work = publish(made)
    assert (work["next"]["do"], work["new"]["same_key"]) == ("repeat", True)
    type_next(made)
    assert len({act[2] for act in outside.acts()}) == 1


def test_of_an_effect_whose_inputs_changed_it_says_that_keys_differ(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.run()
    made.a.commit({"prompts/article.md": "Another prompt for {{ slug }}.\n"})
    made.a.run(code=3)
    work = publish(made)
    assert (work["next"]["do"], work["effect"]["happened"]) == ("changed", "yes")
    assert work["new"]["same_key"] is False
    assert "a new key" in text(made)
    type_next(made, why="a typo")
    assert publish(made)["next"]["do"] == "nothing"
    assert outside.made() == {"one": 1}


def test_what_evidence_found_before_a_repetition_tells_nothing_of_it(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.run()
    made.a.commit({"prompts/article.md": "Another prompt for {{ slug }}.\n"})
    made.a.run(code=3)
    outside.next("lose")
    made.a.run("--redo", "one", "--stage", "publish", code=3)
    assert "asked now unclear (it finds what it found before this act: found one)" in text(made, "--ask")


def test_before_an_effect_is_updated_evidence_is_asked_what_is_there(tmp_path: Path) -> None:
    made, outside = world(tmp_path, on_stale="update")
    made.a.run()
    made.a.commit({"prompts/article.md": "Another prompt for {{ slug }}.\n"})
    made.a.run("--stage", "article")
    assert publish(made)["next"]["do"] == "begin"
    assert "the run asks evidence what is there, then does it" in text(made)
    type_next(made)
    assert (len(outside.acts()), len(outside.questions())) == (2, 1)


def test_an_act_of_another_clone_may_still_be_under_way(tmp_path: Path) -> None:
    made, outside = world(tmp_path, remote=True, timeout=600)
    outside.next("wait")
    outside.set("hold")
    running = made.a.start("run")
    assert until(outside.acts, running)
    other = made.clone("b")
    other.gitstate("sync", code=0)
    out = other.gitstate("status", "--resume", "one", code=0).out
    assert "another clone may be at it until" in out
    assert "no attempt on record in this clone" in out
    outside.set("hold", on=False)
    running.wait(0)


def test_a_stage_that_is_no_effect_has_its_facts_too(tmp_path: Path) -> None:
    made = World(tmp_path, stages={"article": {**ARTICLE, "policy": {"validation": {"tries": 1}}}})
    made.tell("one", answer="")
    made.a.run(code=1)
    work = facts(made)["stages"]["article"]
    assert work["effect"] is None
    assert (work["previous"]["end"], work["next"]["do"]) == ("failed", "failed")
    assert work["new"]["same_key"] is True
    assert "(validation/empty)" in text(made)
    made.forgive()
    made.a.gitstate(*shlex.split(work["next"]["commands"][0])[1:], code=0)


def test_of_a_closed_window_it_says_until_when(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.tell(exit=1, answer="", stderr="HTTP 429: usage limit reached, resets in 3600 seconds\n")
    made.a.run(code=75)
    work = facts(made)["stages"]["article"]
    assert (work["next"]["do"], work["pause"]["kind"]) == ("later", "window")
    assert f"next look {work['pause']['probe']}" in text(made)
    made.forgive()
    for command in reversed(work["next"]["commands"]):
        made.a.gitstate(*shlex.split(command)[1:], code=0)
    assert outside.made() == {"one": 1}


# --- what may be typed ------------------------------------------------------------------------------------------


def test_one_stage_can_be_looked_at_alone(tmp_path: Path) -> None:
    made, _ = world(tmp_path)
    assert list(facts(made, "--stage", "publish")["stages"]) == ["publish"]


def test_a_path_of_an_output_stands_for_its_slug(tmp_path: Path) -> None:
    made, _ = world(tmp_path)
    made.a.run()
    assert "one: " in made.a.gitstate("status", "--resume", "published/one.txt", code=0).out


def test_a_slug_that_is_not_there_is_an_error_with_the_nearest(tmp_path: Path) -> None:
    made, _ = world(tmp_path)
    done = made.a.gitstate("status", "--resume", "onne", code=2)
    assert "Did you mean one?" in done.err
    for arguments in (("--ask",), ("--stage", "publish"), ("--resume", "one", "--stage", "nope")):
        made.a.gitstate("status", *arguments, code=2)


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    made, _ = killed(tmp_path)
    (intent,) = (made.a.state / "attempts").glob("*.intent")
    intent.write_text("{")
    done = made.a.gitstate("status", "--resume", "one", code=3)
    assert intent.name in done.err


# --- why --------------------------------------------------------------------------------------------------------


def test_why_shows_what_was_begun_asked_and_answered(tmp_path: Path) -> None:
    made, outside = killed(tmp_path, "kill-before")
    attempt = outside.acts()[0][1]
    out = made.a.gitstate("why", "one", "--stage", "publish", code=0).out
    assert f"to begin: {attempt}" in out
    assert f"open       attempt {attempt}" in out
    assert "$ gitstate run one" in out
    (work,) = [work for work in made.a.why("one") if work["stage"] == "publish"]
    assert [act["attempt"] for act in work["open"]] == [attempt]
    assert work["next"]["do"] == "ask"
    made.a.run()
    out = made.a.gitstate("why", "one", "--stage", "publish", code=0).out
    assert f"asked about {attempt}  absent  exit code 1, and no words" in out
    assert "open " not in out


def test_why_shows_the_word_of_a_person(tmp_path: Path) -> None:
    made, outside = killed(tmp_path, without=NO_EVIDENCE)
    out = made.a.gitstate("why", "one", code=0).out
    assert "$ gitstate resolve one --stage publish --did-not-happen" in out
    made.a.gitstate("resolve", "one", "--did-not-happen", "--why", "I looked", code=0)
    out = made.a.gitstate("why", "one", code=0).out
    assert f"settled: {outside.acts()[0][1]}  did-not-happen  A Writer <writer@example.org>  I looked" in out
