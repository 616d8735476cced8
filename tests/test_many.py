"""What docs/many.md shows is valid, and what of it can run here does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.world import ARTICLE, World

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/many.md").read_text(encoding="utf-8")
ITEMS = ["one", "two", "three", "four", "five", "six"]


def block(mark: str) -> str:
    (found,) = re.findall(rf"^<!-- test: {mark} -->\n```\w*\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Where `gitstate` and `pip` are commands, and installing does nothing."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, does in (("gitstate", f'exec "{sys.executable}" -m gitstate "$@"'), ("pip", "exit 0")):
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    return {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, items=ITEMS, stages={"article": ARTICLE}, remote=True)


def type_in(world: World, script: str, folder: Path, **env: str) -> None:
    done = subprocess.run(
        ("/bin/sh", "-e", "-c", script), cwd=folder, env={**world.environment, **env}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def everything_once(world: World) -> None:
    assert world.paid() == {f"{slug}/article": 1 for slug in ITEMS}
    assert set(world.clone("last").states().values()) <= {"done exact", "pending unverified"}
    world.a.gitstate("sync", code=0)
    assert set(world.a.states().values()) == {"done exact"}
    world.a.gitstate("verify", code=0)


def test_the_matrix_of_github_does_everything_once(world: World, env: dict[str, str]) -> None:
    workflow = yaml.safe_load(block("github"))
    assert workflow["permissions"] == {"contents": "write"}
    job = workflow["jobs"]["run"]
    shards = job["strategy"]["matrix"]["shard"]
    script = job["steps"][-1]["run"]
    assert f"/{len(shards)}" in script
    for shard in shards:
        clone = world.clone(f"job-{shard}", "--depth", "1")
        type_in(world, script.replace("${{ matrix.shard }}", str(shard)), clone.path, **env)
    everything_once(world)


def test_the_matrix_of_gitlab_does_everything_once(world: World, env: dict[str, str]) -> None:
    job = yaml.safe_load(block("gitlab"))["content"]
    (matrix,) = job["parallel"]["matrix"]
    script = "\n".join(line for line in job["script"] if "set-url" not in line)
    assert f"$SHARD/{len(matrix['SHARD'])}" in script
    for shard in matrix["SHARD"]:
        clone = world.clone(f"job-{shard}", "--depth", "1")
        clone.git("checkout", "-q", "--detach")
        commit = clone.git("rev-parse", "HEAD")
        told = {"SHARD": shard, "CI_COMMIT_BRANCH": "main", "CI_COMMIT_SHA": commit}
        type_in(world, script, clone.path, **env, **told)
    everything_once(world)


def test_a_branch_of_ones_own_that_is_deleted_after_a_squash_merges_again(world: World) -> None:
    a, reviewer = world.a, world.clone("reviewer")

    def merge() -> None:
        reviewer.git("pull", "-q")
        reviewer.git("fetch", "-q", "origin", "content")
        reviewer.git("merge", "-q", "--squash", "FETCH_HEAD")
        reviewer.git("commit", "-q", "-m", "Merge content")
        reviewer.git("push", "-q")

    a.run("--branch", "content", "--limit", "3")
    world.clone("job", "--depth", "1").run("--branch", "content")
    assert set(world.paid().values()) == {1}  # (it went on with what waited there)
    merge()
    type_in(world, block("branch"), a.path)
    world.tell(answer="For experts.\n")
    a.configure({"article": ARTICLE}, ITEMS, vars={"audience": "experts"})
    a.git("push", "-q")
    world.clone("another", "--depth", "1").run("--branch", "content")
    merge()  # (git would end in 1 where that conflicts)
    a.git("pull", "-q")
    a.gitstate("sync", code=0)
    assert set(a.states().values()) == {"done exact"}
    assert world.paid() == {f"{slug}/article": 2 for slug in ITEMS}


def test_it_installs_as_the_readme_does_and_not_by_a_name_of_an_index() -> None:
    installs = re.findall(r"pip install (.*?)(?: #.*)?$", TEXT, re.MULTILINE)
    assert len(installs) >= 3
    assert not [what for what in installs if "git+" not in what and "PATH" not in what]


def test_the_lines_of_two_crontabs_do_everything_once(world: World, env: dict[str, str]) -> None:
    command = block("crontab").strip().removeprefix("17 * * * * ")
    for shard in ("1/2", "2/2"):
        home = world.folder / f"home-{shard[0]}"
        home.mkdir()
        world.git(world.folder, "clone", "-q", world.url, str(home / "content"))
        type_in(world, command.replace("1/2", shard), home, **env, HOME=str(home))
    everything_once(world)


def test_a_slurm_array_does_everything_once(world: World, env: dict[str, str]) -> None:
    script = block("slurm")
    assert "#SBATCH --array=1-2\n" in script
    for task in ("1", "2"):
        told = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": "2", "REMOTE": world.url}
        type_in(world, script, world.folder, **env, **told)
    everything_once(world)


def test_an_executor_of_ones_own_runs_as_shown(world: World, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mymodule.py").write_text(block("module").replace("(8,", "(2,"))
    path = os.pathsep.join(filter(None, (str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH"))))
    type_in(world, "gitstate run --executor mymodule:make", world.a.path, **env, PYTHONPATH=path)
    everything_once(world)


def test_the_options_that_it_shows_for_dask_are_there() -> None:
    assert "gitstate run --executor dask:tcp://" in block("dask")
    assert 'dask = ["dask[distributed]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_no_link_leads_nowhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / "docs" / target).exists(), target
