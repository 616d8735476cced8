"""`plan` with a selection: what it names is what `run` then does, and the command that it prints is the one to type."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from gitstate.core.lease import shard_of
from tests.support.world import CHAIN, Clone, World


def typed(clone: Clone, *arguments: str) -> tuple[str, ...]:
    """The command that a plan prints, as the words behind `gitstate`; from where it was asked."""
    shown = clone.gitstate("plan", *arguments, code=0).out
    (command,) = re.findall(r"^`gitstate (.*)` will ", shown, re.M)
    return tuple(shlex.split(command))


@pytest.mark.parametrize(
    "arguments",
    [
        ("one",),
        ("--stage", "article"),
        ("t*", "--reason", "new"),
        ("--shard", "1/2"),
        ("--branch", "results"),
    ],
    ids=" ".join,
)
def test_the_command_that_plan_prints_does_what_plan_says(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    world = World(tmp_path, items=["one", "two", "three", "four", "five"], stages=CHAIN)
    world.a.git("branch", "results")
    said = re.findall(r"will do (\d+) works?", world.a.gitstate("plan", *arguments).out)
    world.a.run(*typed(world.a, *arguments)[1:])
    assert [str(len(world.calls()))] == said


def test_what_comes_along_is_counted_and_named(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two"], stages=CHAIN)
    last = list(CHAIN)[-1]
    shown = world.a.gitstate("plan", "one", "--stage", last).out
    assert f"will do {len(CHAIN)} works ({len(CHAIN) - 1} of them because others need it)" in shown


def test_another_configuration_is_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.a.commit({"b/gitstate.yaml": world.a.read("gitstate.yaml").replace("out/", "b/")})
    assert typed(world.a, "--config", "b/gitstate.yaml") == ("run", "--config", "b/gitstate.yaml")


def test_typed_in_a_folder_the_command_means_the_same_there(tmp_path: Path) -> None:
    world = World(
        tmp_path, items=["a", "b/c"], stages={"article": {"run": "echo x", "output": "b/{slug}.md"}}
    )
    world.a.run()
    world.a.commit({"gitstate.yaml": world.a.read("gitstate.yaml").replace("echo x", "echo y")})
    inside = Clone(world, world.a.path / "b")
    assert typed(inside, ".") == ("run", ".")
    assert "2 done" in inside.run(".").err


def test_a_shard_without_items_is_done(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    empty = f"{3 - shard_of('one', 2)}/2"
    shown = world.a.gitstate("plan", "--shard", empty, "--exit-code", code=0)
    assert "No item of the plan is in this part" in shown.out


def test_a_saved_plan_of_a_later_stage_has_what_that_needs(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two"], stages=CHAIN)
    saved = tmp_path / "saved.json"
    world.a.gitstate("plan", "one", "--stage", list(CHAIN)[-1], "--out", str(saved), code=0)
    assert [work["stage"] for work in json.loads(saved.read_text())["work"]] == list(CHAIN)
    world.a.run("--plan", str(saved))
    assert world.paid() == {f"one/{stage}": 1 for stage in CHAIN}


def test_a_saved_plan_takes_no_selection_besides(tmp_path: Path) -> None:
    world = World(tmp_path)
    saved = str(tmp_path / "saved.json")
    world.a.gitstate("plan", "--out", saved)
    done = world.a.run("one", "--plan", saved, code=2)
    assert f"gitstate plan one --out {saved}" in done.err
    assert not world.calls()


def test_what_is_called_just_so_comes_before_what_its_signs_could_mean(tmp_path: Path) -> None:
    world = World(tmp_path, items=["h[1]", "h1", "h2"])
    world.a.run("h[1]")
    assert world.paid() == {"h[1]/article": 1}
    world.a.run("h[12]")
    assert world.paid() == {"h[1]/article": 1, "h1/article": 1, "h2/article": 1}


def test_a_branch_whose_prompt_is_newer_than_the_one_checked_out_gets_no_results_of_the_older(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, items=["one", "two"], remote=True)
    other = world.clone("b")
    world.a.commit({"prompts/article.md": "Anew about {{ slug }}.\n"})
    world.a.run("one", "--branch", "content")
    done = other.run("--branch", "content", code=3)
    assert "changes that are not checked out here: prompts/article.md" in done.err
    shown = other.gitstate("plan", "--branch", "content", code=0).out
    assert "`gitstate run --branch content` would refuse." in shown
    assert world.paid() == {"one/article": 1}
    other.git("merge", "-q", "--no-edit", "origin/content")
    other.run("--branch", "content")
    assert world.paid() == {"one/article": 1, "two/article": 1}


@pytest.mark.parametrize("options", [(), ("--depth", "1")], ids=["whole", "shallow"])
def test_a_branch_whose_prompt_is_older_gets_results_of_the_one_checked_out(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    world = World(tmp_path, items=["one"], remote=True)
    world.a.run("--branch", "content")
    world.a.commit({"prompts/article.md": "Anew about {{ slug }}.\n", "more.txt": "by hand\n"})
    world.a.git("push", "-q")
    world.clone("job", *options).run("--branch", "content")
    assert world.paid() == {"one/article": 2}


def test_what_was_recorded_on_a_protected_branch_by_mistake_is_taken_back_and_not_paid_again(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, remote=True)
    world.a.run("--push", "never")
    world.a.git("checkout", "-q", "-B", "main", "origin/main")
    world.a.run("--branch", "content")
    assert world.git(world.remote, "ls-tree", "--name-only", "content", "out/").split() == [
        "out/one.md",
        "out/two.md",
    ]
    assert world.paid() == {"one/article": 1, "two/article": 1}


def test_the_command_to_go_on_is_named_with_its_options(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two"], remote=True)
    done = world.a.run("--branch", "content", "--limit", "1")
    assert "`gitstate run --branch content` goes on from here." in done.err
    world.take_remote_away()
    done = world.a.run("--branch", "content", code=75)
    assert "`gitstate sync --branch content` delivers them" in done.err


def test_what_is_as_it_should_be_after_what_it_needs_was_made_anew_is_not_called_somebody_elses(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, items=["one"], stages=CHAIN)
    world.tell(answer="the same\n")
    world.a.run()
    first = next(iter(CHAIN))
    text = json.loads(world.a.read("gitstate.yaml"))
    text["stages"][first]["model"] = {"name": "another"}
    world.a.commit({"gitstate.yaml": json.dumps(text)})
    done = world.a.run()
    assert "1 done, 1 still as they should be" in done.err


def test_a_word_of_another_option_is_told_so(tmp_path: Path) -> None:
    done = World(tmp_path).a.gitstate("plan", "--state", "stale", code=2)
    assert "Did you mean --reason stale?" in done.err
