"""P5: a branch that another working tree of the repository has is not moved under it, wherever that lies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.world import Clone, World


@pytest.mark.parametrize("where", ["there", "moved", "gone"])
def test_p5_a_branch_of_another_working_tree_is_left_alone(tmp_path: Path, where: str) -> None:
    world = World(tmp_path)
    tree = tmp_path / "another tree"
    world.a.git("worktree", "add", "-q", "-b", "side", str(tree))
    if where == "moved":
        tree.rename(tmp_path / "moved")
    elif where == "gone":
        shutil.rmtree(tree)
    done = world.a.run("--branch", "side", code=2)
    assert f"side is checked out in another working tree, {tree}" in done.err
    assert ("cd '" if where == "there" else "git worktree prune") in done.err
    assert not world.calls()
    if where == "gone":
        world.a.git("worktree", "prune")
        world.a.run("--branch", "side")


@pytest.mark.parametrize("kind", ["a git directory elsewhere", "a submodule"])
def test_a_working_tree_whose_git_directory_lies_elsewhere_is_not_taken_for_another(
    tmp_path: Path, kind: str
) -> None:
    world = World(tmp_path, remote=True)
    if kind == "a submodule":
        world.git(tmp_path, "init", "-q", "above")
        add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", world.url, "sub")
        world.git(tmp_path / "above", *add)
        here = Clone(world, tmp_path / "above/sub")
    else:
        here = world.clone("b", f"--separate-git-dir={tmp_path}/apart")
    here.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    world.a.run("one")
    here.run()
    assert (here.read("out/one.md"), here.status()) == (world.a.read("out/one.md"), "")
    assert world.paid() == {"one/article": 1, "two/article": 1}
    tree = Clone(world, tmp_path / "tree")
    done = tree.run("--branch", "main", code=2)
    assert "main is checked out in another working tree" in done.err


def test_a_head_that_is_a_link_to_a_ref_without_a_file_is_understood(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.a.path / ".git/HEAD").unlink()
    (world.a.path / ".git/HEAD").symlink_to("refs/heads/main")
    world.a.git("pack-refs", "--all")
    world.a.run()
    assert set(world.a.states().values()) == {"done exact"}


def test_a_branch_that_git_cannot_make_is_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.a.git("branch", "x/y")
    done = world.a.run("--branch", "x", code=2)
    assert "git cannot make refs/heads/x" in done.err
    assert not world.calls()
