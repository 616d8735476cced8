"""What the README shows is true: its commands run, its configuration is valid, the tests that it names are there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from gitstate.cli import cli
from gitstate.core import workflow
from gitstate.edge.config import read_workflow
from gitstate.edge.repo import LOG, RECEIPTS
from gitstate.errors import GitstateError

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
PROMISES = re.compile(r"^\| P(\d+) \| (.*) \| (.*) \|$", re.MULTILINE)


def blocks(mark: str) -> list[str]:
    """The code under the marks `<!-- test: MARK -->`."""
    found = re.findall(rf"^<!-- test: {mark} -->\n```\w*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"The README has nothing marked {mark!r}."
    return found


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A newcomer's shell, in which `gitstate` is this one."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gitstate").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitstate "$@"\n')
    (tools / "gitstate").chmod(0o755)
    names = {f"GIT_{who}_NAME": "A Newcomer" for who in ("AUTHOR", "COMMITTER")}
    addresses = {f"GIT_{who}_EMAIL": "newcomer@example.org" for who in ("AUTHOR", "COMMITTER")}
    return {**os.environ, **names, **addresses, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


def type_in(script: str, folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        ("/bin/sh", "-e", "-c", script), cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_quick_start_runs_as_it_stands(tmp_path: Path, env: dict[str, str]) -> None:
    first, second = blocks("quick start")
    out = type_in(first, tmp_path, env)
    assert "`gitstate run` will do 6 works" in out
    assert "6 done in" in out
    out = type_in(second, tmp_path / "books", env)
    assert "run moved" in out
    assert re.search(r"run +\w{12} +\w{12} +moved", out)
    assert "6 done in" in out


def test_it_runs_in_a_repository_of_ones_own(tmp_path: Path, env: dict[str, str]) -> None:
    repo = tmp_path / "own"
    type_in(
        "git init -q own && cd own && echo mine > notes.txt && git add . && git commit -q -m mine",
        tmp_path,
        env,
    )
    assert "2 done in" in type_in(blocks("own repository")[0], repo, env)
    assert type_in("git status --porcelain", repo, env) == ""


def test_the_configuration_of_effects_is_valid() -> None:
    (text,) = blocks("effects")
    (_, publish) = read_workflow(text.encode(), "gitstate.yaml").stages
    assert publish.effect is not None


def test_the_configuration_is_valid_and_complete() -> None:
    (text,) = blocks("configuration")
    read_workflow(text.encode(), "gitstate.yaml")
    reference = README.partition("## Configuration")[2].partition("## Several machines")[0]
    for key in {*workflow._TOP, *workflow._STAGE, *workflow._CHECK}:
        assert re.search(rf"\b{key}\b", reference), f"The README does not know the key {key}."


def test_the_first_two_commands_are_one_line_each() -> None:
    for mark in ("demo", "tests"):
        (command,) = blocks(mark)
        assert command.startswith("python3 -m venv .venv && ")
        assert command.count("\n") == 1


def test_each_promise_names_tests_that_are_there() -> None:
    rows = PROMISES.findall(README)
    assert [int(number) for number, _, _ in rows] == list(range(1, 13))
    there = {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    for number, _, tests in rows:
        named = re.findall(r"`(test_\w+)`", tests)
        assert named or "Not built yet" in tests
        for name in named:
            assert name.startswith(f"test_p{number}_")
            assert name in there, f"There is no test {name}."


def test_it_names_every_command_and_no_other() -> None:
    table = README.partition("## Commands")[2].partition("## Exit codes")[0]
    named = set(re.findall(r"^\| `gitstate (\w+)` \|", table, re.MULTILINE))
    assert named == set(typer.main.get_command(cli).commands)  # type: ignore[attr-defined]


def test_every_exit_code_has_its_row() -> None:
    def kinds(kind: type[GitstateError]) -> set[int]:
        return {kind.exit_code}.union(*(kinds(below) for below in kind.__subclasses__()))

    table = README.partition("## Exit codes")[2].partition("## Limits")[0]
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert kinds(GitstateError) | {0, 1, 4, 69, 130} == rows


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_no_link_leads_nowhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / name).parent.joinpath(target).exists(), target


def test_it_begins_with_three_sentences() -> None:
    first = README.partition("\n\n")[2].partition("\n\n")[0]
    assert len(re.findall(r"\.(?:\s|$)", first)) == 3


def test_the_formats_name_the_refs_and_contexts_of_the_code() -> None:
    source = (ROOT / "gitstate/core/identity.py").read_text(encoding="utf-8")
    for context in ("gitstate work v1", "gitstate component v1"):
        assert context in FORMATS
        assert f'"{context}"' in source
    assert RECEIPTS in FORMATS
    assert LOG in FORMATS
