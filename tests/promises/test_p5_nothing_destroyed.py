"""P5: nothing is overwritten, or paid for again, that neither HEAD, a receipt nor an attempt vouches for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.world import ARTICLE, CHAIN, Clone, World, patiently, until

MINE = "my own words\n"


def committed(a: Clone) -> None:
    a.commit({"out/one.md": MINE}, "A file from before")


def uncommitted(a: Clone) -> None:
    a.write("out/one.md", MINE)


def staged(a: Clone) -> None:
    a.write("out/one.md", MINE)
    a.git("add", "out/one.md")


def staged_and_gone(a: Clone) -> None:
    staged(a)
    (a.path / "out/one.md").unlink()


def staged_then_changed(a: Clone) -> None:
    a.write("out/one.md", "an earlier draft\n")
    a.git("add", "out/one.md")
    a.write("out/one.md", MINE)


def a_folder(a: Clone) -> None:
    a.write("out/one.md/notes.txt", MINE)


def everything(a: Clone) -> tuple[str, dict[str, bytes]]:
    """What is staged and what stands in the working tree, but for the other item."""
    staged = [line for line in a.git("ls-files", "-s").splitlines() if "two" not in line]
    files = {str(path): path.read_bytes() for path in a.path.glob("out/one.md*") if path.is_file()}
    files.update({str(path): path.read_bytes() for path in a.path.glob("out/one.md/*")})
    return "\n".join(staged), files


WAYS = [committed, uncommitted, staged, staged_and_gone, staged_then_changed, a_folder]


@pytest.mark.parametrize("put", WAYS, ids=lambda function: function.__name__)
def test_p5_what_nobody_vouches_for_is_left_alone_and_nothing_is_paid_for_it(
    tmp_path: Path, put: Callable[[Clone], None]
) -> None:
    world = World(tmp_path)
    put(world.a)
    before = everything(world.a)
    done = world.a.run(code=3)
    assert "out/one.md" in done.err or "one" in done.err
    assert everything(world.a) == before
    assert world.paid() == {"two/article": 1}
    assert world.a.states()["two/article"] == "done exact"
    world.a.run(code=3)
    assert everything(world.a) == before
    assert world.paid() == {"two/article": 1}


@pytest.mark.parametrize("change", [uncommitted, staged], ids=lambda function: function.__name__)
def test_p5_an_edit_that_is_not_committed_yet_is_left_alone_when_its_work_is_stale(
    finished: World, change: Callable[[Clone], None]
) -> None:
    change(finished.a)
    finished.a.commit({"prompts/article.md": "Another one for {{ slug }}.\n"})
    if change is staged:  # (git commit has taken it along)
        finished.a.git("reset", "-q", "--soft", "HEAD~1")
        finished.a.git("commit", "-q", "-m", "Only the prompt", "prompts/article.md")
    before = everything(finished.a)
    finished.a.run(code=3)
    assert everything(finished.a) == before
    assert finished.paid() == {"one/article": 1, "two/article": 2}


def test_p5_an_edit_that_is_not_committed_yet_is_no_obstacle_where_nothing_is_due(finished: World) -> None:
    finished.a.write("out/one.md", MINE)
    finished.a.run()
    assert finished.a.read("out/one.md") == MINE
    assert len(finished.calls()) == 2


def test_p5_an_uncommitted_deletion_is_not_undone(finished: World) -> None:
    (finished.a.path / "out/one.md").unlink()
    finished.a.run()
    assert not finished.a.has("out/one.md")
    assert finished.a.status() == " D out/one.md"


@pytest.mark.parametrize("text", [MINE, ""], ids=["words", "an empty file"])
def test_p5_a_file_that_appears_while_the_command_runs_stays_and_the_response_is_kept(
    tmp_path: Path, text: str
) -> None:
    world = World(tmp_path, items=["one"])
    world.tell(before=f"mkdir -p out && printf '%s' '{text}' > out/one.md", once=True)
    code = 3 if text else 0
    world.a.run(code=code)
    assert len(world.calls()) == 1
    if text:
        assert world.a.read("out/one.md") == text
        assert [path.read_text() for path in world.a.spooled()]
        (world.a.path / "out/one.md").rename(world.a.path / "mine.txt")
        world.a.run()
    assert len(world.calls()) == 1
    assert world.a.states() == {"one/article": "done exact"}
    assert world.a.leftovers() == []


def test_p5_a_link_that_appears_while_the_command_runs_is_not_followed(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    target = tmp_path / "precious.txt"
    target.write_text(MINE)
    world.tell(before=f"mkdir -p out && ln -s {target} out/one.md", once=True)
    world.a.run(code=3)
    assert target.read_text() == MINE
    assert (world.a.path / "out/one.md").is_symlink()
    (world.a.path / "out/one.md").unlink()
    world.a.run()
    assert len(world.calls()) == 1
    assert target.read_text() == MINE


def test_p5_a_file_committed_by_a_user_while_the_command_runs_stays(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    commit = "mkdir -p out && echo mine > out/one.md && git add out/one.md && git commit -q -m Mine"
    world.tell(before=commit, once=True)
    world.a.run(code=3)
    assert world.a.show("out/one.md") == "mine\n"
    assert world.a.read("out/one.md") == "mine\n"
    assert len(world.a.spooled()) == 1
    world.a.run(code=3)
    assert world.a.show("out/one.md") == "mine\n"
    assert len(world.calls()) == 1


def test_p5_an_edit_made_while_the_command_runs_stays(finished: World) -> None:
    finished.a.commit({"prompts/article.md": "Another one for {{ slug }}.\n"})
    finished.tell("one", before="echo mine > out/one.md", once=True)
    finished.a.run(code=3)
    assert finished.a.read("out/one.md") == "mine\n"
    assert finished.paid() == {"one/article": 2, "two/article": 2}
    finished.a.git("checkout", "-q", "out/one.md")
    finished.a.run()
    assert finished.paid() == {"one/article": 2, "two/article": 2}
    assert finished.a.states()["one/article"] == "done exact"


def test_p5_one_of_two_outputs_in_the_way_keeps_both_from_being_written(tmp_path: Path) -> None:
    stages = {"article": {**ARTICLE, "output": ["out/{slug}.md", "out/{slug}.json"]}}
    world = World(tmp_path, stages=stages, items=["one"])
    world.tell(outputs=["text\n", "{}\n"], before="mkdir -p out && echo mine > out/one.json")
    world.a.run(code=3)
    assert world.a.read("out/one.json") == "mine\n"
    assert not world.a.has("out/one.md")
    (world.a.path / "out/one.json").unlink()
    world.a.run()
    assert len(world.calls()) == 1
    assert world.a.states() == {"one/article": "done exact"}


# --- being told to ---------------------------------------------------------------------------------------


def test_p5_redo_wants_a_selection(finished: World) -> None:
    finished.a.run("--redo", code=2)
    assert len(finished.calls()) == 2


@pytest.mark.parametrize("put", [committed, uncommitted, staged], ids=lambda function: function.__name__)
def test_p5_redo_replaces_what_it_is_told_to(tmp_path: Path, put: Callable[[Clone], None]) -> None:
    world = World(tmp_path)
    put(world.a)
    world.a.run("--redo", "one")
    assert world.paid() == {"one/article": 1}
    assert world.a.states() == {"one/article": "done exact", "two/article": "pending new"}
    assert world.a.show("out/one.md") != MINE
    assert world.a.status() == ""


def test_p5_what_redo_replaces_before_anybody_committed_it_can_still_be_found(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    uncommitted(world.a)
    world.a.run("--redo", "one")
    objects = world.a.git("cat-file", "--batch-all-objects", "--batch-check").splitlines()
    blobs = [world.a.git("cat-file", "blob", line.split()[0]) for line in objects if " blob " in line]
    files = [
        path.read_bytes().decode("utf-8", "replace") for path in world.a.state.rglob("*") if path.is_file()
    ]
    assert any(MINE.strip() in text for text in [*blobs, *files])


def test_p5_redo_does_again_what_is_done_edited_or_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three", "four"])
    world.a.run("-j", "2")
    world.a.git("rm", "-q", "out/three.md")
    world.a.commit({"out/two.md": MINE}, "Edit and delete")
    world.a.run("--redo", "one", "two", "three")
    assert world.paid() == {"one/article": 2, "two/article": 2, "three/article": 2, "four/article": 1}
    assert set(world.a.states().values()) == {"done exact"}
    assert world.a.show("out/two.md", "HEAD~3") == MINE or MINE in world.a.git(
        "log", "-p", "--", "out/two.md"
    )
    keys = [call.key for call in world.calls() if call.slug == "one"]
    assert len(set(keys)) == 2  # a wanted repetition is another request to the provider


def test_p5_an_edited_output_of_an_earlier_stage_is_used_and_not_replaced(tmp_path: Path) -> None:
    world = World(tmp_path, stages=CHAIN, items=["one"])
    world.a.run("--stage", "outline")
    world.a.commit({"work/one.md": MINE})
    world.a.run()
    assert world.a.show("work/one.md") == MINE
    assert world.paid() == {"one/outline": 1, "one/article": 1}
    world.a.commit({"prompts/outline.md": "Another outline for {{ slug }}.\n"})
    world.a.run(code=3)
    assert world.a.show("work/one.md") == MINE
    assert world.paid() == {"one/outline": 1, "one/article": 1}


def test_p5_an_answer_to_inputs_that_have_changed_since_is_kept_and_not_put_in_place(finished: World) -> None:
    finished.a.commit({"prompts/article.md": "Second for {{ slug }}.\n"})
    old = finished.a.read("out/one.md")
    change = "echo 'Third for {{ slug }}.' > prompts/article.md && git commit -q -m Third prompts/article.md"
    finished.tell("one", before=change, once=True)
    finished.a.run("one", "--limit", "1")
    assert finished.a.states()["one/article"] == "pending stale prompt"
    assert finished.a.read("out/one.md") == old
    finished.a.git("gc", "-q", "--prune=now")
    finished.a.git("revert", "--no-edit", "HEAD")
    finished.a.run("one")
    assert finished.paid() == {"one/article": 2, "two/article": 1}
    assert finished.a.states()["one/article"] == "done exact"
    assert finished.a.read("out/one.md") != old


def test_p5_a_command_that_changes_its_own_inputs_is_not_paid_without_end(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    world.tell(
        before=patiently("echo more >> prompts/article.md && git commit -q -m More prompts/article.md")
    )
    running = world.a.start("run")
    until(lambda: len(world.calls()) > 5, running)
    ended = running.ended()
    running.kill()
    assert ended
