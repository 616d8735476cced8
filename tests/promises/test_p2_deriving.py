"""P2: what is done, and every reason why not, is derived from plan, committed tree and receipts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.support.world import ARTICLE, World, until

BOTH_DONE = {"one/article": "done exact", "two/article": "done exact"}


def change_prompt(world: World, text: str = "Write better about {{ slug }}.\n") -> None:
    world.a.commit({"prompts/article.md": text}, "Change the prompt")


def nothing_more_is_paid(world: World, *arguments: str, code: int = 0) -> None:
    before = world.calls()
    world.a.run(*arguments, code=code)
    assert world.calls() == before


def test_p2_equal_content_of_two_items_is_two_finished_works(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.tell(answer="the same\n")
    world.a.run()
    assert world.a.blob("out/one.md") == world.a.blob("out/two.md")
    assert world.a.states() == BOTH_DONE
    world.a.commit({"plan.yaml": '- {slug: one, tone: dry}\n- "two"\n'})
    assert world.a.states() == {"one/article": "pending stale plan", "two/article": "done exact"}


def test_p2_an_emptied_file_is_as_if_there_were_none(finished: World) -> None:
    content = finished.a.read("out/one.md")
    finished.a.commit({"out/one.md": ""}, "Empty it")
    assert finished.a.states()["one/article"] == "pending missing"
    nothing_more_is_paid(finished)
    assert finished.a.show("out/one.md") == content


def test_p2_an_empty_file_of_a_work_that_was_never_done_is_no_output(tmp_path: Path) -> None:
    world = World(tmp_path, files={"out/one.md": ""})
    assert world.a.states()["one/article"] == "pending new"
    world.a.run()
    assert world.a.states() == BOTH_DONE


def test_p2_a_renamed_output_folder_stays_done(finished: World) -> None:
    finished.a.git("mv", "out", "articles")
    stages = {"article": {**ARTICLE, "output": "articles/{slug}.md"}}
    finished.a.configure(stages, model={"name": "tiny", "temperature": 0})
    assert finished.a.states() == BOTH_DONE
    nothing_more_is_paid(finished)


def test_p2_a_hand_edited_output_is_done_and_respected(finished: World) -> None:
    finished.a.commit({"out/one.md": "better words\n"}, "Edit")
    assert finished.a.states() == {"one/article": "done edited", "two/article": "done exact"}
    nothing_more_is_paid(finished)
    assert finished.a.show("out/one.md") == "better words\n"


def test_p2_an_edited_output_whose_prompt_changed_is_left_alone_and_the_run_says_so(finished: World) -> None:
    finished.a.commit({"out/one.md": "better words\n"}, "Edit")
    change_prompt(finished)
    assert finished.a.states() == {
        "one/article": "pending edited prompt",
        "two/article": "pending stale prompt",
    }
    done = finished.a.run(code=3)
    assert "one" in done.err
    assert finished.paid() == {"one/article": 1, "two/article": 2}
    assert finished.a.show("out/one.md") == "better words\n"


def test_p2_a_deleted_output_is_missing_and_restored_free(finished: World) -> None:
    content = finished.a.read("out/one.md")
    finished.a.git("rm", "-q", "out/one.md")
    finished.a.git("commit", "-q", "-m", "Delete")
    assert finished.a.states() == {"one/article": "pending missing", "two/article": "done exact"}
    nothing_more_is_paid(finished)
    assert finished.a.read("out/one.md") == content
    assert finished.a.states() == BOTH_DONE
    assert finished.a.status() == ""


def test_p2_a_reverted_prompt_brings_the_old_output_back_free(finished: World) -> None:
    old = finished.a.read("out/one.md")
    change_prompt(finished)
    finished.a.run()
    assert finished.a.read("out/one.md") != old
    assert finished.paid() == {"one/article": 2, "two/article": 2}
    finished.a.git("revert", "--no-edit", "HEAD~2")
    assert set(finished.a.states().values()) == {"pending stale prompt"}
    nothing_more_is_paid(finished)
    assert finished.a.show("out/one.md") == old
    assert finished.a.states() == BOTH_DONE


def test_p2_an_upstream_that_yields_the_same_bytes_stops_there(tmp_path: Path, chained: World) -> None:
    chained.tell(stage="outline", answer=chained.a.read("work/one.md"))
    chained.a.commit({"prompts/outline.md": "Sketch {{ slug }}.\n"})
    plan = {f"{work['slug']}/{work['stage']}": work for work in chained.a.plan()["work"]}
    assert plan["one/outline"]["reason"] == "stale"
    assert plan["one/article"]["reason"] == "upstream"
    assert plan["one/article"]["id"] is None
    chained.a.run("one")
    assert chained.paid()["one/outline"] == 2
    assert chained.paid()["one/article"] == 1
    assert chained.a.states("one") == {"one/outline": "done exact", "one/article": "done exact"}


def test_p2_an_upstream_that_yields_other_bytes_makes_the_next_stage_stale(chained: World) -> None:
    chained.a.commit({"prompts/outline.md": "Sketch {{ slug }}.\n"})
    chained.a.run("one", "--stage", "outline")
    states = chained.a.states()
    assert states["one/outline"] == "done exact"
    assert states["one/article"] == "pending stale inputs"
    chained.a.run("one")
    assert chained.paid() == {"one/outline": 2, "one/article": 2, "two/outline": 1, "two/article": 1}


def test_p2_an_edited_upstream_counts_by_its_content(chained: World) -> None:
    chained.a.commit({"work/one.md": "my own outline\n"}, "Edit")
    assert chained.a.states("one") == {"one/outline": "done edited", "one/article": "pending stale inputs"}
    chained.a.run()
    prompt = "Write by this outline:\nmy own outline\n"
    assert chained.paid() == {"one/outline": 1, "one/article": 2, "two/outline": 1, "two/article": 1}
    assert answer_to(prompt) in chained.a.read("out/one.md")


def test_p2_adding_removing_or_moving_an_item_changes_no_other(finished: World) -> None:
    before = {work["slug"]: work for work in finished.a.plan()["work"]}
    finished.a.commit({"plan.yaml": "- three\n- two\n- one\n"})
    after = {work["slug"]: work for work in finished.a.plan()["work"]}
    assert list(after) == ["three", "two", "one"]
    assert {slug: after[slug] for slug in before} == before
    assert after["three"]["reason"] == "new"
    finished.a.commit({"plan.yaml": "- two\n"})
    assert finished.a.plan()["work"] == [before["two"]]


def test_p2_an_output_expires_only_where_the_stage_sets_a_ttl(finished: World) -> None:
    def set_ttl(ttl: str) -> None:
        stages = {"article": {**ARTICLE, "ttl": ttl}}
        finished.a.configure(stages, model={"name": "tiny", "temperature": 0})

    set_ttl("14d")
    assert finished.a.states() == BOTH_DONE
    set_ttl("1s")
    until(lambda: set(finished.a.states().values()) == {"pending expired"})
    assert "expired" in finished.a.gitstate("plan", code=0).out
    finished.a.run("one")
    assert finished.paid() == {"one/article": 2, "two/article": 1}
    set_ttl("14d")
    assert finished.a.states() == BOTH_DONE


def test_p2_an_ignored_component_makes_nothing_stale_and_the_receipt_says_so(tmp_path: Path) -> None:
    stages = {"article": {**ARTICLE, "ignore": ["model"]}}
    world = World(tmp_path, stages=stages, model={"name": "tiny"})
    world.a.run()
    world.a.configure(stages, model={"name": "huge"})
    assert world.a.states() == BOTH_DONE
    assert all(line["ignored"] == ["model"] for line in world.a.receipts())
    assert all("model" not in line["components"] for line in world.a.receipts())


def test_p2_a_file_without_any_receipt_is_unverified_until_it_is_accepted(tmp_path: Path) -> None:
    world = World(tmp_path, files={"out/one.md": "from before\n", "out/two.md": "from before, too\n"})
    assert set(world.a.states().values()) == {"pending unverified"}
    world.a.gitstate("accept", code=0)
    assert set(world.a.states().values()) == {"done accepted"}
    assert {line["by"] for line in world.a.receipts()} == {"A Writer <writer@example.org>"}
    assert all(line["why"] for line in world.a.receipts())
    world.a.run()
    assert world.calls() == []


def test_p2_a_stale_output_may_be_accepted_by_component(finished: World) -> None:
    change_prompt(finished)
    finished.a.commit({"plan.yaml": '- {slug: one, tone: dry}\n- "two"\n'})
    finished.a.gitstate("accept", "--component", "prompt", "--why", "only a typo", code=0)
    assert finished.a.states() == {
        "one/article": "pending stale plan,prompt",
        "two/article": "done accepted",
    }
    nothing_more_is_paid(finished, "two")


# --- several outputs -------------------------------------------------------------------------------------

PAIR = {"article": {**ARTICLE, "output": ["out/{slug}.md", "out/{slug}.json"]}}


@pytest.fixture
def paired(tmp_path: Path) -> World:
    world = World(tmp_path, stages=PAIR, items=["one"])
    world.tell(outputs=["text\n", '{"n": 1}\n'])
    world.a.run()
    assert world.a.states() == {"one/article": "done exact"}
    return world


def test_p2_an_edited_second_output_is_respected_and_then_left_alone(paired: World) -> None:
    paired.a.commit({"out/one.json": '{"n": 2}\n'}, "Edit")
    assert paired.a.states() == {"one/article": "done edited"}
    nothing_more_is_paid(paired)
    change_prompt(paired)
    assert paired.a.states() == {"one/article": "pending edited prompt"}
    nothing_more_is_paid(paired, code=3)
    assert paired.a.show("out/one.json") == '{"n": 2}\n'


@pytest.mark.parametrize("path", ["out/one.md", "out/one.json"])
def test_p2_one_deleted_output_of_two_is_missing_and_restored_free(paired: World, path: str) -> None:
    content = paired.a.read(path)
    paired.a.git("rm", "-q", path)
    paired.a.git("commit", "-q", "-m", "Delete")
    assert paired.a.states() == {"one/article": "pending missing"}
    nothing_more_is_paid(paired)
    assert paired.a.show(path) == content
    assert paired.a.states() == {"one/article": "done exact"}


# --- local state -----------------------------------------------------------------------------------------


@pytest.fixture
def motley(chained: World) -> World:
    """A world with works in as many states as possible."""
    a = chained.a
    items = ["one", "two", "three", "four", "five", "six"]
    a.commit({"plan.yaml": "".join(f"- {slug}\n" for slug in items)})
    chained.tell("three", answer="")
    a.run("one", "two", "three", "four", code=1)
    a.git("rm", "-q", "out/four.md")
    a.commit({"out/one.md": "edited\n", "work/five.md": "never seen\n", "work/two.md": "edited\n"}, "Change")
    return chained


def test_p2_deleting_or_damaging_local_state_changes_no_answer(motley: World) -> None:
    a = motley.a
    assert a.states() == {
        "one/outline": "done exact", "one/article": "done edited",
        "two/outline": "done edited", "two/article": "pending stale inputs",
        "three/outline": "failed new validation", "three/article": "pending upstream",
        "four/outline": "done exact", "four/article": "pending missing",
        "five/outline": "pending unverified", "five/article": "pending upstream",
        "six/outline": "pending new", "six/article": "pending upstream",
    }  # fmt: skip

    def answers() -> tuple[str, str, str]:
        status = json.loads(a.gitstate("status", "--json", code=0).out)
        return a.plan_text(), a.gitstate("plan", code=0).out, json.dumps(status["counts"])

    before = answers()
    a.forget_state()
    assert answers() == before
    for damage in (b"", b"garbage\n", None):
        for path in (a.state / "cache").iterdir():
            data = path.read_bytes()
            path.write_bytes(data[: len(data) // 2] if damage is None else damage)
        assert answers() == before


def answer_to(prompt: str) -> str:
    """What the provider answers to a prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]
