"""How often the guard looks: by the clock, and no more than it may cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitstate.commands import guarding
from gitstate.commands.guarding import Guard
from gitstate.core.guard import Scan
from gitstate.core.material import Material
from gitstate.core.plan import Stage
from gitstate.edge.attempts import Intent
from gitstate.edge.clock import Clock
from gitstate.edge.git import Git
from gitstate.edge.repo import find
from gitstate.edge.scan import scan
from gitstate.errors import Place
from tests.support.world import git_init

LOOK = 0.5  # seconds that a look takes, by the clock of these tests


class Stopped(Clock):
    """A clock that goes on only when it is told to."""

    def __init__(self) -> None:
        self.at = 0.0

    def elapsed(self) -> float:
        return self.at


class Guarded:
    """A guard in an empty repository, whose looks are counted."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, level: str) -> None:
        git_init(root)
        (root / ".git" / "gitstate").mkdir()
        git = Git(str(root))
        stage = Stage("a", Place("gitstate.yaml", 1), "true", ("out/{slug}",))
        stages = {"a": stage._replace(guard="strict" if level == "strict" else "warn")}
        self.root, self.clock, self.looks = root, Stopped(), 0
        self.said: list[str] = []
        self.guard = Guard(git, find(str(root)), lambda: stages)
        self.guard.clock, self.guard.say = self.clock, self.said.append
        monkeypatch.setattr(guarding, "scan", self._scan)

    def _scan(self, root: str, leave_out: set[str]) -> Scan:
        self.looks += 1
        self.clock.at += LOOK
        return scan(root, leave_out)

    def do(self, number: int, seconds: float) -> None:
        """One work that writes a file beside its output."""
        name = f"{number:04}"
        material = Material({"slug": name}, {}, {}, {}, (), None, None, None, {})
        intent = Intent(name, name, "a", "", 1, {}, (f"out/{name}",), ("",), "", material, (None,), (None,))

        def work() -> None:
            self.clock.at += seconds
            (self.root / f"stray-{name}").write_text("x")

        self.guard.over(intent, work)


def test_warn_looks_at_most_for_a_fiftieth_of_the_run_and_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Guarded(tmp_path, monkeypatch, "warn")
    for number in range(2000):
        run.do(number, 0.1)
    run.guard.end()
    assert len(run.guard.strays) == 2000
    assert run.looks > 5
    assert run.looks * LOOK <= 0.02 * run.clock.at


def test_a_short_run_is_looked_at_when_it_begins_and_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Guarded(tmp_path, monkeypatch, "warn")
    for number in range(10):
        run.do(number, 0.1)
    assert run.looks == 1
    run.guard.end()
    assert (run.looks, len(run.guard.strays)) == (2, 10)
    run.guard.end()
    assert run.looks == 2


def test_a_run_without_commands_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Guarded(tmp_path, monkeypatch, "strict")
    run.guard.end()
    assert run.looks == 0
    assert run.guard.lines() == []


def test_a_few_files_are_told_of_when_they_are_found_and_the_rest_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Guarded(tmp_path, monkeypatch, "warn")
    for number in range(30):
        run.do(number, 1000.0)
    assert len(run.said) == 10
    assert run.said[0] == "! stray-0000 was created by 0000/a, or somebody else"
    run.guard.end()
    lines = run.guard.lines()
    assert lines[0] == "30 files were written where no output is declared:"
    assert lines[11] == "  and 20 more"


def test_a_look_that_fails_ends_no_run_that_only_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Guarded(tmp_path, monkeypatch, "warn")
    run.do(1, 1.0)
    monkeypatch.setattr(
        guarding, "ignored", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error"))
    )
    run.guard.end()
    (line,) = run.said
    assert "Input/output error" in line
    monkeypatch.undo()
    run.guard.end()
    assert list(run.guard.strays) == ["stray-0001"]
