"""P5 and the exit codes: what others did while works were under way is respected, and what is left is said."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.world import ARTICLE, World

GATE = 'while [ ! -e "$HOME/go" ]; do sleep 0.05; done; echo machine'


def test_p5_what_a_human_commits_at_an_output_s_path_in_the_middle_of_a_run_stays(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": {"run": GATE, "output": "out/{slug}.md"}}, items=["one"])
    running = world.a.start("run", "--branch", "results")
    while not any(world.a.state.glob("attempts/*.intent")):
        time.sleep(0.02)
    tip = world.a.git("rev-parse", "refs/heads/results")
    blob = world.a.git("hash-object", "-w", "--stdin", stdin="human\n")
    world.a.git("read-tree", f"--index-output={tmp_path}/index", tip)
    index = {"GIT_INDEX_FILE": f"{tmp_path}/index"}
    world.a.git("update-index", "--add", "--cacheinfo", f"100644,{blob},out/one.md", **index)
    tree = world.a.git("write-tree", **index)
    commit = world.a.git("commit-tree", tree, "-p", tip, "-m", "By hand")
    world.a.git("update-ref", "refs/heads/results", commit, tip)
    (world.home / "go").touch()
    running.wait(3)
    assert world.a.show("out/one.md", "refs/heads/results") == "human\n"
    assert world.a.spooled()


def test_what_stands_unverified_behind_a_new_stage_is_left_and_the_exit_code_says_so(tmp_path: Path) -> None:
    stages = {
        "base": {"run": "echo base", "output": "base/{slug}.txt"},
        "article": {"run": "echo article", "needs": ["base"], "output": "out/{slug}.md"},
    }
    world = World(tmp_path, stages=stages, items=["one"], files={"out/one.md": "mine\n"})
    world.a.run(code=3)
    assert world.a.states() == {"one/base": "done exact", "one/article": "pending unverified"}
    assert world.a.show("out/one.md") == "mine\n"


def test_p5_nothing_is_paid_for_where_no_file_can_stand(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": {**ARTICLE, "output": "a/{slug}.md"}}, items=["one"])
    (world.a.path / "a").write_text("a file where a folder belongs\n")
    world.a.run(code=3)
    world.a.run("--redo", "one", code=3)
    assert world.calls() == []


# Somebody does something in the instant before the outputs of the group with `one` get their places, and once more
# right before its own does. (Of three works at once, each may come in a group of its own, in any order.)
MEANWHILE = """
import os
from gitstate.edge import attempts, files

def disturbed(module, name, is_one):
    plain = getattr(module, name)
    def first(*arguments):
        if os.environ["WHEN"] == name and is_one(*arguments):
            exec(os.environ["DO"])
        return plain(*arguments)
    setattr(module, name, first)

def has_one(store, outputs, disk):
    return any(store.read(attempt).intent.slug == "one" for attempt in outputs)

disturbed(attempts.Attempts, "written", has_one)
disturbed(files, "_name", lambda folder, new: new.path.endswith("out/one.md"))
"""


@pytest.mark.parametrize("when", ["written", "_name"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("do", "code", "stays"),
    [
        ("open('out/one.md', 'w').write('mine\\n')", 3, "mine\n"),
        ("open('out/one.md', 'w').write('the answer\\n')", 0, "the answer\n"),
        ("os.path.exists('out/one.md') and os.unlink('out/one.md')", 0, "the answer\n"),
    ],
    ids=["edits", "writes-the-same", "deletes"],
)
def test_p5_what_somebody_does_right_before_outputs_are_placed_is_not_undone(
    tmp_path: Path, when: str, count: int, do: str, code: int, stays: str
) -> None:
    world = World(tmp_path, items=["one", "two", "three"][:count])
    world.a.run()
    world.a.commit({"prompts/article.md": "Write anew about {{ slug }}.\n"})
    world.tell(answer="the answer\n")
    (tmp_path / "start").mkdir()
    (tmp_path / "start/sitecustomize.py").write_text(MEANWHILE)
    path = os.pathsep.join([str(tmp_path / "start"), os.environ.get("PYTHONPATH", "")])
    world.a.gitstate("run", "-j", "3", code=code, WHEN=when, DO=do, PYTHONPATH=path)
    assert world.a.read("out/one.md") == stays
    assert world.a.status() == (" M out/one.md" if code else "")


@pytest.mark.parametrize("before", ["new", "stale"])
def test_p5_what_a_human_pushes_to_an_output_s_path_in_the_middle_of_a_run_stays(
    tmp_path: Path, before: str
) -> None:
    world = World(tmp_path, items=["one"], remote=True)
    if before == "stale":
        world.a.run()
        world.a.commit({"prompts/article.md": "Write anew about {{ slug }}.\n"})
        world.a.git("push", "-q")
    human = world.clone("human")
    human.commit({"out/one.md": "by hand\n"})
    world.tell("one", before=f"git -C {human.path} push -q", once=True)
    done = world.a.gitstate("run")
    assert "out/one.md was made here and elsewhere" in done.err
    assert world.git(world.remote, "show", "main:out/one.md") == "by hand"
    assert (world.a.read("out/one.md"), world.a.status()) == ("by hand\n", "")
    calls = len(world.calls())
    world.a.gitstate("run")
    assert len(world.calls()) == calls
