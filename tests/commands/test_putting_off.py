"""Results that others' pushes keep here: they wait a while, and not for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitstate.commands import syncing
from gitstate.commands.clone import Clone
from gitstate.commands.syncing import Syncing
from gitstate.commands.target import target
from tests.support.world import World

_OVERTAKE = """#!/bin/sh
unset $(git rev-parse --local-env-vars)
n=$(($(cat '{count}' 2>/dev/null)+1))
[ $n -le {times} ] || exit 0
echo $n >'{count}'
cd '{rival}' && git pull -q && git commit -q --allow-empty -m rival && git push -q
"""


def test_results_do_not_wait_here_for_as_long_as_others_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, items=["one"], remote=True)
    rival = world.clone("rival")
    world.a.run("--push", "never")
    hook = world.a.path / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(_OVERTAKE.format(count=tmp_path / "count", times=6, rival=rival.path))
    hook.chmod(0o755)
    monkeypatch.setattr(syncing, "PAUSE", 0.0)
    monkeypatch.chdir(world.a.path)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "A Writer")

    def is_there() -> bool:
        return "out/one.md" in world.git(world.remote, "ls-tree", "-r", "--name-only", "main").split()

    with Clone() as clone:
        meetings = Syncing(clone, target(clone, ""), "group", False)
        for _ in range(2):
            meetings.recorded()
            assert not is_there()
        meetings.recorded()
        assert is_there()
