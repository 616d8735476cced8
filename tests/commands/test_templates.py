"""Every template that ships runs: by `gitstate init`, a commit and `gitstate run`, as a newcomer does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitstate.data import folder
from tests.support.service import Service

TEMPLATES = Path(folder("templates"))
NAMES = sorted(path.name for path in TEMPLATES.iterdir() if path.is_dir())
FAKE_LLM = """#!/bin/sh
echo "An answer of $*, to this:"
cat
"""


class Newcomer:
    """Somebody in an empty repository of their own, with a remote, a service, and a pretended `llm` on PATH."""

    def __init__(self, path: Path, service: Service) -> None:
        self.path = path / "repo"
        tools = path / "tools"
        tools.mkdir()
        (tools / "llm").write_text(FAKE_LLM)
        (tools / "llm").chmod(0o755)
        person = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "A Newcomer"), ("EMAIL", "newcomer@example.org"))
        }
        search = os.pathsep.join([str(tools), os.path.dirname(sys.executable), os.environ["PATH"]])
        api = dict.fromkeys(("PUBLISH_URL", "GITHUB_API_URL"), service.url)
        self.env = {**os.environ, **person, **api, "GITHUB_TOKEN": "a-token", "PATH": search}
        subprocess.run(("git", "init", "-q", "-b", "main", str(self.path)), check=True, env=self.env)
        self.remote = path / "remote.git"
        self.types("git", "init", "-q", "--bare", "-b", "main", str(self.remote))
        self.types("git", "remote", "add", "origin", str(self.remote))

    def types(self, *command: str, code: int = 0) -> str:
        """A command; what it prints on standard output."""
        argv = [sys.executable, "-m", *command] if command[0] == "gitstate" else command
        done = subprocess.run(argv, cwd=self.path, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return done.stdout

    def commits(self) -> None:
        self.types("git", "add", "-A")
        self.types("git", "commit", "-q", "-m", "by hand")
        self.types("git", "push", "-q", "-u", "origin", "main")

    def plan(self) -> dict[str, int]:
        summary: dict[str, int] = json.loads(self.types("gitstate", "plan", "--json"))["summary"]
        return summary


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "service.sqlite") as service:
        yield service


@pytest.fixture
def newcomer(tmp_path: Path, service: Service) -> Newcomer:
    return Newcomer(tmp_path, service)


@pytest.mark.parametrize("name", NAMES)
def test_a_template_goes_from_init_to_done(newcomer: Newcomer, name: str) -> None:
    newcomer.types("gitstate", "init", *(() if name == "starter" else ("--example", name)))
    newcomer.commits()
    before = newcomer.plan()
    assert before["total"] > 1
    assert before["done"] == 0

    newcomer.types("gitstate", "run")

    assert newcomer.plan() == {**before, "done": before["total"], "pending": 0}
    newcomer.types("gitstate", "verify")
    assert newcomer.types("git", "status", "--porcelain") == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_template_says_on_its_first_line_what_it_is_for(name: str) -> None:
    first = (TEMPLATES / name / "gitstate.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")


def test_the_examples_that_were_promised_are_there() -> None:
    promised = {"articles", "branch", "demo", "extract", "publish", "pull-request", "starter", "translate"}
    assert promised <= set(NAMES)


def test_the_articles_have_front_matter_and_the_outline_in_their_prompt(newcomer: Newcomer) -> None:
    newcomer.types("gitstate", "init", "--example", "articles")
    newcomer.commits()
    newcomer.types("gitstate", "run")
    article = (newcomer.path / "content/bread/why-bread-rises.md").read_text(encoding="utf-8")
    assert article.startswith('---\ntitle: "Why bread rises"\ndate: 2026-08-07\n')
    assert "Write an outline of four to six headings" in article


def test_a_page_that_is_added_to_the_documentation_is_translated_alone(newcomer: Newcomer) -> None:
    newcomer.types("gitstate", "init", "--example", "translate")
    newcomer.commits()
    newcomer.types("gitstate", "run")
    (newcomer.path / "docs/guide/more.md").write_text("# More\n\nThere is more to say.\n")
    newcomer.commits()
    assert newcomer.plan()["pending"] == 1
    newcomer.types("gitstate", "run")
    translated = (newcomer.path / "i18n/de/guide/more.md").read_text(encoding="utf-8")
    assert "There is more to say." in translated
    assert "working tree = Arbeitsverzeichnis" in translated


def test_p7_a_record_that_cannot_be_read_is_a_failure_and_no_file(newcomer: Newcomer) -> None:
    newcomer.types("gitstate", "init", "--example", "extract")
    with (newcomer.path / "plan.jsonl").open("a", encoding="utf-8") as plan:
        plan.write('{"slug": "nonsense", "text": "Nothing of the kind."}\n')
    newcomer.commits()
    newcomer.types("gitstate", "run", code=1)
    assert not (newcomer.path / "data/nonsense.json").exists()
    book = json.loads((newcomer.path / "data/melville-moby-dick.json").read_text(encoding="utf-8"))
    assert (book["author"], book["year"]) == ("Herman Melville", 1851)


def test_the_recipes_for_effects_reach_the_world_once(newcomer: Newcomer, service: Service) -> None:
    newcomer.types("gitstate", "init", "--example", "pull-request")
    newcomer.commits()
    newcomer.types("gitstate", "run")
    newcomer.types("gitstate", "run")
    branches = newcomer.types("git", "ls-remote", "--heads", "origin", "draft/*").splitlines()
    assert len(branches) == len(service.things("pull")) == len(service.writes) == 2
    opened = json.loads((newcomer.path / "pull-requests/why-bread-rises.json").read_text(encoding="utf-8"))
    assert opened == {"number": 1, "url": "https://example.org/pull/1", "state": "open"}
    (one,) = service.pulls("draft/why-bread-rises")
    assert one["title"] == "Why bread rises"
    assert one["body"].startswith("A draft of “Why bread rises”.\n\nYeast eats sugar")
