"""P11: effects happen at most once. Their intent is on record before; what nobody can tell, a person is asked."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.support.outside import SCRIPTS, run_killed, stages, world
from tests.support.world import World, until

NO_EVIDENCE = ("evidence", "settle")


def kinds(world: World) -> list[str]:
    """What the log says of acts."""
    wanted = ("intent", "withdrawn", "evidence", "resolved")
    return sorted(line["kind"] for line in world.a.log() if line["kind"] in wanted)


def all_done(made: World) -> bool:
    return {state.split()[0] for state in made.a.states().values()} == {"done"}


# --- the way it goes ----------------------------------------------------------------------------------------------


def test_p11_an_effect_happens_once_and_its_result_is_an_output_before_later_stages_start(
    tmp_path: Path,
) -> None:
    made, outside = world(tmp_path, "one", "two")
    made.a.run("-j", "2")
    assert outside.made() == {"one": 1, "two": 1}
    assert made.a.show("after/one.txt") == "made for one\n"
    assert kinds(made) == ["intent", "intent"]
    assert outside.questions() == []
    made.a.run()
    assert len(outside.acts()) == 2
    assert made.a.gitstate("verify").code == 0


def test_p11_the_intent_is_on_record_and_pushed_before_the_act(tmp_path: Path) -> None:
    made, outside = world(tmp_path, remote=True)
    outside.next("wait")
    outside.set("hold")
    running = made.a.start("run")
    assert until(outside.acts, running)
    other = made.clone("b")
    other.git("fetch", "-q", "origin", "refs/notes/gitstate-log:refs/notes/gitstate-log")
    ((_, attempt, key, _),) = outside.acts()
    (intent,) = [line for line in other.log() if line["kind"] == "intent"]
    assert (intent["attempt"], intent["key"], intent["slug"]) == (attempt, key, "one")
    outside.set("hold", on=False)
    running.wait(0)
    assert outside.made() == {"one": 1}


def test_p11_attempts_share_a_key_and_have_an_id_of_their_own(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    outside.next("fail")
    made.a.run()
    (_, first, key, _), (_, second, same, _) = outside.acts()
    assert key == same
    assert first != second
    assert outside.made() == {"one": 1}
    assert [line[1:] for line in outside.questions()] == [[first, key]]


# --- outcomes that are not known ----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["kill-before", "kill-after", "lose", "hang", "empty"])
def test_p11_evidence_is_asked_before_a_retry(tmp_path: Path, order: str) -> None:
    made, outside = world(tmp_path, timeout=4)
    if order.startswith("kill"):
        run_killed(made, outside, order)
        assert "whether it has happened is not known" in made.a.run().err
    else:
        outside.next(order)
        made.a.run()
    assert outside.made() == {"one": 1}
    assert len(outside.questions()) == 1
    assert len(outside.acts()) == (2 if order == "kill-before" else 1)
    assert all_done(made)
    if order != "kill-before":
        assert made.a.show("published/one.txt") == "found one\n"
        (line,) = [line for line in made.a.receipts() if line["stage"] == "publish"]
        assert line["adopted"] == "evidence"
        assert line["attempt"] == outside.acts()[0][1]
    assert made.a.leftovers() == []


def test_p11_an_answer_that_a_check_turns_away_is_of_an_act_that_may_have_happened(tmp_path: Path) -> None:
    made, outside = world(tmp_path, check={"regex": "^found"})
    made.a.run()
    assert outside.made() == {"one": 1}
    assert made.a.show("published/one.txt") == "found one\n"


@pytest.mark.parametrize("without", [(), NO_EVIDENCE])
def test_p11_an_answer_that_its_template_cannot_take_is_of_an_act_that_may_have_happened(
    tmp_path: Path, without: tuple[str, ...]
) -> None:
    made, outside = world(tmp_path, without=without, template="templates/page.md")
    made.a.commit({"templates/page.md": "{{ response.nosuch.thing }}\n"})
    made.a.gitstate("run")
    made.a.gitstate("run", "--retry-failed")
    assert outside.made() == {"one": 1}
    assert made.a.why("one")[1]["open"]


def test_p11_evidence_that_cannot_be_asked_about_one_work_fails_it_once(tmp_path: Path) -> None:
    made, outside = world(tmp_path, evidence="sh evidence.sh {{ item.slug[99] }}")
    outside.next("lose")
    made.a.run(code=1)
    assert len(outside.acts()) == 1
    assert made.a.states()["one/publish"] == "failed new planning_error"


@pytest.mark.parametrize(
    "complaint",
    [
        'Traceback (most recent call last):\n  File "find.py", line 1\nModuleNotFoundError: No module named x',
        "curl: (6) Could not resolve host: example.org",
        "gh: Bad credentials (HTTP 401)",
        "Error: 429 Too Many Requests",
    ],
)
def test_p11_evidence_that_broke_with_exit_code_1_is_no_word_of_absence(
    tmp_path: Path, complaint: str
) -> None:
    made, outside = world(tmp_path)
    made.a.commit({"evidence.sh": f"cat >&2 <<'END'\n{complaint}\nEND\nexit 1\n"})
    outside.next("lose")
    assert "cannot tell" in made.a.run(code=3).err
    assert len(outside.acts()) == 1


@pytest.mark.parametrize("complaint", ["gh: Not Found (HTTP 404)", "no such page yet"])
def test_p11_evidence_may_say_why_it_concludes_that_it_is_absent(tmp_path: Path, complaint: str) -> None:
    made, outside = world(tmp_path)
    made.a.commit({"evidence.sh": f"echo '{complaint}' >&2\nexit 1\n"})
    outside.next("fail")
    made.a.run()
    assert (len(outside.acts()), outside.made()) == (2, {"one": 1})


def test_p11_what_evidence_says_is_shown_and_shared_without_secrets(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.commit({"evidence.sh": 'echo "not found, with token=$MY_TOKEN and $MY_TOKEN" >&2; exit 1'})
    outside.next("fail")
    done = made.a.run(MY_TOKEN="a-secret-value-1")
    (line,) = [line for line in made.a.log() if line["kind"] == "evidence"]
    assert line["said"] == "not found, with token=[redacted] and [redacted]"
    assert "a-secret-value-1" not in done.err


def test_p11_where_evidence_cannot_tell_the_work_waits_for_a_person_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    made, outside = world(tmp_path, "one", "two")
    outside.next("lose")
    outside.set("down")
    done = made.a.run(code=3)
    assert "cannot tell" in done.err
    assert "gitstate resolve" in done.err
    assert made.a.states() == {
        "one/article": "done exact",
        "one/publish": "failed new unknown",
        "one/after": "pending upstream",
        "two/article": "done exact",
        "two/publish": "done exact",
        "two/after": "done exact",
    }
    made.a.run(code=3)
    assert len(outside.acts()) == 2
    made.a.run("--retry-failed", code=3)  # asks again, and does not act
    assert (len(outside.acts()), len(outside.questions())) == (2, 2)
    outside.set("down", on=False)
    made.a.run("--retry-failed")
    assert outside.made() == {"one": 1, "two": 1}
    assert all_done(made)


def test_p11_evidence_that_finds_it_and_does_not_say_where_cannot_tell(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    outside.next("lose")
    outside.set("mute")
    made.a.run(code=3)
    assert len(outside.acts()) == 1
    said = [line["evidence"] for line in made.a.why("one")[1]["log"] if line.get("rule") == "effect.evidence"]
    assert "exit code 0, and no words" in said[0]


def test_p11_absence_counts_only_once_the_act_could_have_arrived(tmp_path: Path) -> None:
    made, outside = world(tmp_path, settle="0.5s")
    outside.next("lose")
    outside.set("blind")  # the service has it, and does not show it yet
    done = made.a.run()
    assert "asked again" in done.err
    assert outside.made() == {"one": 1}
    assert (len(outside.acts()), len(outside.questions())) == (1, 2)


def test_p11_without_evidence_a_person_is_asked(tmp_path: Path) -> None:
    made, outside = world(tmp_path, "one", "two", without=NO_EVIDENCE)
    outside.next("lose")
    made.a.run(code=3)
    assert made.a.states()["one/publish"] == "failed new unknown"
    for again in ((), ("--retry-failed",), ("--redo", "one"), ("--state", "failed")):
        made.a.run(*again, code=3)
    assert outside.made() == {"one": 1, "two": 1}
    assert len(outside.acts()) == 2


def test_p11_without_evidence_a_killed_act_is_a_persons_matter_in_every_clone(tmp_path: Path) -> None:
    made, outside = world(tmp_path, without=NO_EVIDENCE, remote=True)
    run_killed(made, outside, "kill-after")
    made.a.run(code=3)
    other = made.clone("b")
    other.run(code=3)
    assert other.states()["one/publish"] == "failed new unknown"
    assert made.a.plan_text() == other.plan_text()
    assert outside.made() == {"one": 1}
    other.gitstate("resolve", "one", "--happened", "https://example.org/1", "--why", "I looked", code=0)
    other.run()
    made.a.run()
    assert all_done(made)
    assert made.a.show("published/one.txt") == "https://example.org/1\n"
    assert outside.made() == {"one": 1}


def test_p11_what_was_turned_away_did_not_happen(tmp_path: Path) -> None:
    made, outside = world(tmp_path, without=NO_EVIDENCE)
    outside.next("throttle")
    made.a.run()
    assert len(outside.acts()) == 2
    assert outside.made() == {"one": 1}


def test_p11_a_command_that_is_not_there_did_nothing(tmp_path: Path) -> None:
    made, _ = world(tmp_path, without=NO_EVIDENCE, run=["./not-there"])
    made.a.run(code=1)
    assert made.a.states()["one/publish"] == "failed new phase_error"
    made.a.commit({"not-there": "#!/bin/sh\necho here\n"})
    (made.a.path / "not-there").chmod(0o755)
    made.a.git("commit", "-qam", "May be run")
    made.a.run("--retry-failed")
    assert all_done(made)


def test_p11_an_idempotent_act_is_repeated_under_its_key(tmp_path: Path) -> None:
    made, outside = world(tmp_path, without=NO_EVIDENCE, idempotent=True)
    outside.set("by-key")
    run_killed(made, outside, "kill-after")
    outside.next("lose")
    made.a.run()
    assert len({act[2] for act in outside.acts()}) == 1
    assert len(outside.acts()) == 3
    assert outside.made() == {"one": 1}
    made.a.commit({"prompts/article.md": "Anew: {{ slug }}.\n"})
    made.a.run(code=3)
    assert made.a.states()["one/publish"].startswith("paused stale")


def test_p11_a_key_that_is_another_by_now_is_no_ground_for_repeating(tmp_path: Path) -> None:
    made, outside = world(tmp_path, without=NO_EVIDENCE, idempotent=True)
    outside.set("by-key")
    run_killed(made, outside, "kill-after")
    made.a.commit({"prompts/article.md": "Anew: {{ slug }}.\n"})
    made.a.run(code=3)
    assert made.a.states()["one/publish"] == "failed new unknown"
    assert outside.made() == {"one": 1}


# --- a person's word ----------------------------------------------------------------------------------------------


def test_p11_a_person_says_that_it_happened(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    outside.next("lose")
    outside.set("down")
    made.a.run(code=3)
    made.a.gitstate("resolve", "one", "--happened", "https://example.org/one", "--why", "seen", code=0)
    made.a.run()
    assert all_done(made)
    assert made.a.show("published/one.txt") == "https://example.org/one\n"
    (line,) = [line for line in made.a.receipts() if line["stage"] == "publish"]
    assert (line["kind"], line["adopted"], line["why"]) == ("accepted", "human", "seen")
    assert line["by"] == "A Writer <writer@example.org>"
    (said,) = [line for line in made.a.log() if line["kind"] == "resolved"]
    assert (said["answer"], said["evidence"], said["by"]) == (
        "happened",
        "https://example.org/one",
        line["by"],
    )
    assert said["at"]
    assert len(outside.acts()) == 1


def test_p11_after_a_person_said_that_it_did_not_happen_evidence_is_not_asked_about_it(
    tmp_path: Path,
) -> None:
    made, outside = world(tmp_path)
    outside.next("fail")
    outside.set("down")
    made.a.run(code=3)
    asked = len(outside.questions())
    made.a.gitstate("resolve", "one", "--did-not-happen", code=0)
    assert made.a.states()["one/publish"] == "pending new"
    made.a.run()
    assert len(outside.questions()) == asked
    assert outside.made() == {"one": 1}


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("by_a_person", [False, True])
def test_p5_what_is_said_of_an_act_replaces_no_file_of_somebody_else(
    tmp_path: Path, committed: bool, by_a_person: bool
) -> None:
    made, outside = world(tmp_path)
    run_killed(made, outside, "kill-after")
    made.a.write("published/one.txt", "by hand\n")
    if committed:
        made.a.commit({"published/one.txt": "by hand\n"})
    if by_a_person:
        assert "Move that away" in made.a.gitstate("resolve", "one", "--happened", "seen", code=3).err
    else:
        made.a.run(code=3)
    assert made.a.read("published/one.txt") == "by hand\n"
    made.a.git("rm", "-q", "published/one.txt") if committed else (made.a.path / "published/one.txt").unlink()
    if committed:
        made.a.git("commit", "-q", "-m", "Move it away")
    made.a.run()
    assert made.a.read("published/one.txt") == ("seen\n" if by_a_person else "found one\n")
    assert outside.made() == {"one": 1}


def test_p11_an_answer_about_a_stage_of_another_name_by_now_says_so(tmp_path: Path) -> None:
    made, outside = world(tmp_path, without=NO_EVIDENCE)
    run_killed(made, outside, "kill-after")
    renamed = {name: stage for name, stage in stages(NO_EVIDENCE).items() if name == "article"}
    made.a.configure(renamed, ("one",))
    assert (
        "'publish', which is not configured"
        in made.a.gitstate("resolve", "one", "--did-not-happen", code=2).err
    )


def test_p11_an_answer_to_no_question_is_an_error(tmp_path: Path) -> None:
    made, _ = world(tmp_path)
    made.a.run()
    for arguments in (("one", "--did-not-happen"), ("none", "--happened", "x"), ("one",)):
        done = made.a.gitstate("resolve", *arguments, code=2)
        assert len(done.err.splitlines()) <= 2
    made.a.gitstate("resolve", "one", "--happened", " ", code=2)
    made.a.gitstate("resolve", "one", "--happened", "x", "--did-not-happen", code=2)


# --- changed after the fact ---------------------------------------------------------------------------------------


def change(made: World) -> None:
    made.a.commit({"prompts/article.md": "Another prompt for {{ slug }}.\n"})


def test_p11_what_was_published_is_not_published_again_when_it_changes(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.run()
    change(made)
    done = made.a.run(code=3)
    assert "gitstate run --redo SLUG" in done.err
    assert made.a.states()["one/publish"] == "paused stale inputs"
    for again in ((), ("--retry-failed",), ("--state", "paused")):
        made.a.run(*again, code=3)
    assert outside.made() == {"one": 1}
    made.a.run("--redo", "one", "--stage", "publish")
    first, second = outside.acts()
    assert first[2] != second[2]
    assert second[3] == "made for one"
    assert all_done(made)


def test_p11_an_act_that_failed_and_did_not_happen_is_no_question(tmp_path: Path) -> None:
    made, outside = world(tmp_path, policy={"unknown": {"tries": 1, "then": "fail"}})
    outside.next("fail")
    made.a.run(code=1)
    assert made.a.states()["one/publish"] == "failed new unknown"
    assert "no outcome is unknown" in made.a.gitstate("resolve", "one", "--did-not-happen", code=2).err
    made.a.run("--retry-failed")
    assert outside.made() == {"one": 1}


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("without", [(), NO_EVIDENCE])
def test_p11_what_is_done_is_done_again_when_that_is_asked_for(
    tmp_path: Path, without: tuple[str, ...], remote: bool
) -> None:
    made, outside = world(tmp_path, without=without, remote=remote)
    made.a.run()
    made.a.run("--redo", "one", "--stage", "publish")
    assert outside.made() == {"one": 2}
    assert kinds(made) == ["intent", "intent"]
    (_, _, first, _), (_, _, second, _) = outside.acts()
    assert first != second
    made.a.run()
    assert outside.made() == {"one": 2}


def test_p11_a_changed_article_may_keep_its_effect(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.run()
    change(made)
    made.a.run(code=3)
    made.a.gitstate("accept", "one", "--stage", "publish", "--why", "a typo", code=0)
    made.a.run()
    assert all_done(made)
    assert outside.made() == {"one": 1}


@pytest.mark.parametrize("on_stale", ["update", "ask"])
def test_p11_an_article_that_was_changed_back_is_not_what_the_world_shows(
    tmp_path: Path, on_stale: str
) -> None:
    made, _ = world(tmp_path, on_stale=on_stale)
    made.a.commit({"act.sh": "cat out/one.md >> $PROVIDER_HOME/world; echo https://example.org/one"})
    made.a.run()
    first = made.a.read("out/one.md")
    made.a.commit({"out/one.md": "changed\n"})
    time.sleep(1.1)  # (receipts are dated to the second)
    made.a.run("--redo", "one", "--stage", "publish")
    made.a.commit({"out/one.md": first})
    if on_stale == "ask":
        assert made.a.states()["one/publish"] == "paused stale inputs"
        made.a.run("--redo", "one", "--stage", "publish")
    else:
        assert made.a.states()["one/publish"] == "pending stale inputs"
        made.a.run()
    assert (made.home / "world").read_text() == f"{first}changed\n{first}"
    assert made.a.states()["one/publish"] == "done exact"


def test_p11_an_effect_may_update_what_it_made(tmp_path: Path) -> None:
    made, outside = world(tmp_path, on_stale="update")
    made.a.run()
    change(made)
    made.a.run()
    assert [act[3] for act in outside.acts()] == ["", "made for one"]
    assert all_done(made)


@pytest.mark.parametrize("order", ["kill-before", "kill-after"])
def test_p11_what_evidence_found_before_a_repetition_does_not_tell_of_it(tmp_path: Path, order: str) -> None:
    """Evidence that finds the article finds it whether or not the change arrived."""
    made, outside = world(tmp_path, on_stale="update")
    made.a.run()
    change(made)
    run_killed(made, outside, order)
    done = made.a.run(code=3)
    assert "it finds what it found before this act" in done.err
    assert len(outside.acts()) == 2
    made.a.gitstate("resolve", "one", "--did-not-happen", code=0)
    made.a.run()
    assert all_done(made)


@pytest.mark.parametrize("order", ["kill-before", "kill-after"])
def test_p11_evidence_that_shows_the_change_tells_of_a_repetition(tmp_path: Path, order: str) -> None:
    made, outside = world(
        tmp_path, on_stale="update", evidence="sh evidence.sh && grep -c one $PROVIDER_HOME/made"
    )
    made.a.run()
    change(made)
    run_killed(made, outside, order)
    if order == "kill-after":
        made.a.run()
        assert made.a.show("published/one.txt") == "found one\n2\n"
    else:
        made.a.run(code=3)
    assert len(outside.acts()) == 2


def test_p11_an_effect_may_ignore_that_its_inputs_changed(tmp_path: Path) -> None:
    made, outside = world(tmp_path, on_stale="ignore")
    made.a.run()
    change(made)
    made.a.run()
    assert made.a.states()["one/publish"] == "done stale inputs"
    assert made.a.states()["one/after"] == "done exact"
    assert outside.made() == {"one": 1}


@pytest.mark.parametrize("on_stale", ["ask", "ignore"])
def test_p11_a_lost_file_is_no_ground_for_doing_it_again(tmp_path: Path, on_stale: str) -> None:
    made, outside = world(tmp_path, on_stale=on_stale)
    made.a.run()
    change(made)
    made.a.git("rm", "-q", "published/one.txt")
    made.a.git("commit", "-qm", "Away")
    made.a.run(code=3)
    assert outside.made() == {"one": 1}


def test_p11_a_deleted_result_comes_back_from_git(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.run()
    made.a.git("rm", "-q", "published/one.txt")
    made.a.git("commit", "-qm", "Away")
    made.a.run()
    assert made.a.show("published/one.txt") == "made for one\n"
    assert outside.made() == {"one": 1}


def test_p11_an_act_of_before_the_change_is_found_and_then_asked_about(tmp_path: Path) -> None:
    """Killed after the act, then the article changed: what happened is recorded under the identity that it had."""
    made, outside = world(tmp_path)
    run_killed(made, outside, "kill-after")
    change(made)
    made.a.run(code=3)
    assert outside.made() == {"one": 1}
    assert made.a.show("published/one.txt") == "found one\n"
    assert made.a.states()["one/publish"].startswith("paused stale inputs")


def test_p11_an_act_whose_record_was_half_removed_had_begun(tmp_path: Path) -> None:
    """The run that recovered from its death died in turn, between the removal of `acting` and that of the intent."""
    made, outside = world(tmp_path, without=NO_EVIDENCE)
    run_killed(made, outside, "kill-after")
    (intent,) = made.a.state.glob("attempts/*.intent")
    words = intent.read_bytes()
    made.a.run(code=3)
    intent.write_bytes(words)
    made.a.run(code=3)
    assert "withdrawn" not in kinds(made)
    assert outside.made() == {"one": 1}


def test_p11_an_act_that_outlives_its_run_is_ended_before_anybody_is_asked_about_it(tmp_path: Path) -> None:
    """It takes no notice of the watchdog, so it would act when the next run has found that nothing has happened."""
    made, outside = world(tmp_path)
    made.a.commit({"act.sh": "trap '' TERM\n" + SCRIPTS["act.sh"]})
    outside.next("wait")
    outside.set("hold")
    running = made.a.start("run")
    assert until(outside.acts, running)
    running.process.kill()
    running.wait(-signal.SIGKILL)
    made.a.run()
    outside.set("hold", on=False)
    assert not living(made)
    assert outside.made() == {"one": 1}


def living(made: World) -> list[str]:
    """Processes that a run in this world has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"GITSTATE_SCRATCH={made.a.path}".encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


# --- remotes and other clones -------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--offline",), ("--push", "never")])
def test_p11_what_the_remote_cannot_be_told_is_not_begun(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    made, outside = world(tmp_path, remote=True)
    made.a.run("--stage", "article")
    if not arguments:
        made.take_remote_away()
    done = made.a.run(*arguments, code=75)
    assert "1 effect was not begun" in done.err
    assert outside.acts() == []
    assert [line for line in made.a.log() if line["kind"] == "intent"] == []
    if not arguments:
        made.bring_remote_back()
    made.a.run()
    assert outside.made() == {"one": 1}


def test_p11_a_remote_that_goes_away_just_before_the_act(tmp_path: Path) -> None:
    made, outside = world(tmp_path, remote=True)
    article = {"run": 'mv "$REMOTE" "$REMOTE.away"; echo words', "output": "out/{slug}.md"}
    made.a.configure({**stages(), "article": article}, ["one"])
    made.a.run(code=75, REMOTE=str(made.remote))
    assert outside.acts() == []
    shutil.move(f"{made.remote}.away", made.remote)
    made.a.run()
    assert outside.made() == {"one": 1}
    assert outside.questions() == []  # it was withdrawn, so nobody needs to ask


@pytest.mark.parametrize("how", [NO_EVIDENCE, ()])
def test_p11_an_act_that_was_told_of_and_never_begun_is_nobodys_matter(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    made, outside = world(tmp_path, remote=True, without=how)
    hook = made.remote / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"#!/bin/sh\nuntil [ -s {made.home}/pid ]; do sleep 0.02; done\nkill -9 $(cat {made.home}/pid)\n"
    )
    hook.chmod(0o755)
    running = made.a.start("run", "--push", "end")  # so that the first push tells of the act
    (made.home / "pid").write_text(str(running.process.pid))
    running.wait(-signal.SIGKILL)
    assert kinds(made) == ["intent"]
    hook.unlink()
    assert "word" not in made.a.run().err
    assert kinds(made) == ["intent", "intent", "withdrawn"]
    assert (outside.made(), outside.questions()) == ({"one": 1}, [])


def test_p11_two_clones_that_begin_at_once_act_once(tmp_path: Path) -> None:
    made, outside = world(tmp_path, "one", "two", "three", remote=True)
    made.a.run("--stage", "article")
    clones = [made.a, made.clone("b"), made.clone("c")]
    running = [clone.start("run") for clone in clones]
    for one in running:
        assert one.wait().code in (0, 3, 75)
    for clone in clones:
        clone.run("--retry-failed")
    assert outside.made() == {"one": 1, "two": 1, "three": 1}
    assert len({clone.plan_text() for clone in clones}) == 1


def test_p11_an_act_of_another_clone_may_still_be_under_way(tmp_path: Path) -> None:
    made, outside = world(tmp_path, remote=True, timeout=600)
    outside.next("wait")
    outside.set("hold")
    running = made.a.start("run")
    assert until(outside.acts, running)
    other = made.clone("b")
    done = other.run(code=75)
    assert "may be under way in another clone until" in done.err
    assert len(outside.acts()) == 1
    outside.set("hold", on=False)
    running.wait(0)
    other.run()
    assert outside.made() == {"one": 1}
    assert made.a.plan_text() == other.plan_text()


def test_p11_nobody_says_of_an_act_under_way_elsewhere_that_it_did_not_happen(tmp_path: Path) -> None:
    made, outside = world(tmp_path, without=NO_EVIDENCE, remote=True)
    outside.next("wait")
    outside.set("hold")
    running = made.a.start("run")
    assert until(outside.acts, running)
    other = made.clone("b")
    other.run(code=3)
    refused = other.gitstate("resolve", "one", "--did-not-happen", code=75)
    assert "may still be under way in another clone" in refused.err
    outside.set("hold", on=False)
    running.wait(0)
    other.run()
    assert outside.made() == {"one": 1}


def test_p11_an_act_of_a_clone_that_died_is_settled_by_another(tmp_path: Path) -> None:
    made, outside = world(tmp_path, remote=True, timeout=4)
    run_killed(made, outside, "kill-after")
    other = made.clone("b")
    other.run()
    assert other.show("published/one.txt") == "found one\n"
    made.a.run()
    assert outside.made() == {"one": 1}
    assert made.a.plan_text() == other.plan_text()


# --- recording ----------------------------------------------------------------------------------------------------


def test_p11_recording_what_has_happened_is_tried_until_it_works(tmp_path: Path) -> None:
    made, outside = world(tmp_path, "one", "two")
    made.a.run("--stage", "article")
    outside.next("wait")
    outside.set("hold")
    running = made.a.start("run")
    assert until(outside.acts, running)
    objects, state = made.a.path / ".git" / "objects", made.a.state
    objects.rename(objects.with_name("away"))
    outside.set("hold", on=False)
    assert until(lambda: list(state.glob("attempts/*.spooled")), running)
    assert len(outside.acts()) == 1  # nothing else begins before
    assert running.process.stderr is not None
    assert "trying again" in running.process.stderr.readline()
    objects.with_name("away").rename(objects)
    running.wait(0)
    assert outside.made() == {"one": 1, "two": 1}


def test_p11_deleting_local_state_does_not_lead_to_a_second_act(tmp_path: Path) -> None:
    made, outside = world(tmp_path, timeout=4)
    run_killed(made, outside, "kill-after")
    made.a.forget_state()
    made.a.run()
    assert outside.made() == {"one": 1}
    assert all_done(made)
