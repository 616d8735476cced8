"""An answer that a killed run left, and what others, or the user, have done until somebody comes back."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.world import ARTICLE, Clone, Running, World, until

SLOW_CHECK = {**ARTICLE, "check": {"command": "test ! -e $HOLD || sleep 3600"}}


def killed_with_an_answer(world: World, clone: Clone, *arguments: str) -> None:
    """A run that dies while its answer is being checked, which lies in the spool by then."""
    hold = world.folder / "hold"
    hold.touch()
    running = clone.start("run", *arguments, HOLD=str(hold))
    until(lambda: [*(clone.state / "attempts").glob("*.spooled")], running)
    running.kill()
    hold.unlink()


def test_p4_the_answer_of_a_work_that_another_machine_did_meanwhile_is_kept_and_stands_in_nobodys_way(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, stages={"article": SLOW_CHECK}, items=["one"], remote=True)
    other = world.clone("b")
    killed_with_an_answer(world, world.a)
    world.tell("one", answer="# one article\n\nThe other machine's.\n")
    other.run(HOLD="-")
    result = other.show("out/one.md")
    said = world.a.run(HOLD="-").err
    assert "done elsewhere meanwhile" in said
    assert world.a.show("out/one.md") == result
    assert world.a.states() == {"one/article": "done exact"}
    assert world.a.spooled() == []
    assert "Nothing to do" in world.a.run(HOLD="-").err
    assert world.a.status() == ""


def test_p5_the_answer_of_a_work_whose_own_text_the_user_committed_and_accepted_is_kept(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, stages={"article": SLOW_CHECK}, items=["one"])
    killed_with_an_answer(world, world.a)
    world.a.commit({"out/one.md": "The user's own.\n"})
    world.a.gitstate("accept", "one", "--why", "mine", code=0)
    world.a.run(HOLD="-")
    assert world.a.show("out/one.md") == world.a.read("out/one.md") == "The user's own.\n"
    assert world.a.states() == {"one/article": "done accepted"}
    assert (len(world.calls()), world.a.spooled()) == (1, [])


def test_p9_who_switches_branches_and_back_during_a_run_finds_every_output_where_it_belongs(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.a.git("branch", "other")
    for slug in ("one", "two"):
        world.tell(slug, wait=str(tmp_path / f"go-{slug}"))
    running = world.a.start("run", "-j", "2")
    until(lambda: len(world.calls()) == 2, running)
    world.a.git("switch", "-q", "other")
    (tmp_path / "go-one").touch()
    until(lambda: world.a.show("out/one.md", "main"), running)
    world.a.git("switch", "-q", "main")
    (tmp_path / "go-two").touch()
    assert running.wait().code in (0, 3)  # (whether it noticed before its last work had begun)
    assert world.a.status() == ""
    assert {"out/one.md", "out/two.md"} <= world.a.files()


def test_p1_what_a_run_in_another_working_tree_left_half_written_is_removed_there(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": SLOW_CHECK}, items=["one"])
    world.a.git("worktree", "add", "-q", "-b", "elsewhere", str(tmp_path / "tree"))
    tree = Clone(world, tmp_path / "tree")
    killed_with_an_answer(world, tree)
    (record,) = (tree.state / "attempts").glob("*.intent")
    half = tree.path / "out" / f".gitstate-{record.name.removesuffix('.intent')}-1.tmp"
    half.parent.mkdir()
    half.write_text("half an ans")
    world.a.run(HOLD="-")
    assert not half.exists()
    assert len(world.calls()) == 1
    tree.run(HOLD="-")
    assert len(world.calls()) == 1


def test_p9_recovery_alone_records_on_the_branch_that_the_run_was_for(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": SLOW_CHECK}, items=["one"])
    before = world.a.git("rev-parse", "main")
    killed_with_an_answer(world, world.a, "--branch", "made")
    assert "Recovered one/article" in world.a.gitstate("recover", code=0, HOLD="-").err
    assert world.a.git("rev-parse", "main") == before
    assert world.a.show("out/one.md", "made")
    assert (world.a.status(), world.a.leftovers()) == ("", [])


def test_p9_recovery_alone_leaves_what_belongs_to_a_branch_of_another_working_tree(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": SLOW_CHECK}, items=["one"])
    world.a.git("worktree", "add", "-q", "-b", "elsewhere", str(tmp_path / "tree"))
    tree = Clone(world, tmp_path / "tree")
    killed_with_an_answer(world, tree)
    assert "waits" in world.a.gitstate("recover", code=3, HOLD="-").err
    assert "Recovered" in tree.gitstate("recover", code=0, HOLD="-").err
    assert (tree.status(), tree.states()) == ("", {"one/article": "done exact"})


def test_p1_a_lock_on_the_index_leaves_no_half_made_index(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    (world.a.path / ".git/index.lock").touch()
    world.a.run(code=75)
    assert not list((world.a.path / ".git").glob("gitstate-index*"))
    (world.a.path / ".git/index.lock").unlink()
    assert "died" not in world.a.run().err
    assert len(world.calls()) == 1


@pytest.mark.parametrize("first", ["run", "sync"])
def test_p4_what_was_written_and_not_recorded_gives_way_to_what_another_machine_published(
    tmp_path: Path, first: str
) -> None:
    world = World(tmp_path, items=["one"], remote=True)
    other = world.clone("b")
    (world.a.path / ".git/index.lock").touch()
    world.a.run(code=75)
    (world.a.path / ".git/index.lock").unlink()
    assert world.a.has("out/one.md")
    assert list(world.a.path.glob(".git/gitstate/attempts/*.written"))
    world.tell("one", answer="by b\n")
    other.run()
    done = world.a.gitstate(first, code=0)
    assert "yours" not in done.err
    world.a.run()
    assert (world.a.read("out/one.md"), world.a.status()) == ("by b\n", "")
    assert world.paid() == {"one/article": 2}
    assert len(world.a.receipts()) == 2
    other.run()
    assert world.a.plan_text() == other.plan_text()


def ends_without_a_report(running: Running) -> None:
    done = running.wait(3)
    assert "gone" in done.err, done.err


def test_a_working_tree_that_is_removed_during_its_run_is_said_and_costs_no_answer(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"])
    world.a.git("worktree", "add", "-q", "-b", "elsewhere", str(tmp_path / "tree"))
    tree = Clone(world, tmp_path / "tree")
    world.tell(wait=str(tmp_path / "go"))
    running = tree.start("run")
    until(world.calls, running)
    subprocess.run(("rm", "-rf", str(tree.path)), check=True)
    (tmp_path / "go").touch()
    ends_without_a_report(running)
    world.a.run()
    assert len(world.calls()) == 1


def test_a_path_with_a_line_break_is_named_as_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "new\nline"
    folder.mkdir()
    world = World(tmp_path / "w", items=["one"])
    world.git(folder, "init", "-q")
    done = Clone(world, folder).gitstate("plan", code=2)
    assert "line break" in done.err


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting a small disk takes root"
)
def test_p7_an_answer_that_a_full_disk_has_cut_off_is_no_answer_whatever_the_exit_code(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(("mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(disk)), check=False).returncode:
        pytest.skip("no mounting here")
    try:
        whole = "".join(f"{number}\n" for number in range(200_000))
        world = World(
            disk / "w", stages={"article": {"run": "seq 0 199999; true", "output": "out/{slug}.txt"}}
        )
        full = disk / "full"
        room = os.statvfs(disk)
        full.write_bytes(bytes(room.f_bavail * room.f_frsize - 200_000))
        running = world.a.start("run")
        done = running.wait()
        assert done.code == 3, done
        assert not world.a.receipts()
        full.unlink()
        subprocess.run(("mount", "-o", "remount,size=50m", str(disk)), check=True)
        world.a.run()
        assert world.a.show("out/one.txt") == whole
    finally:
        subprocess.run(("umount", "-l", str(disk)), check=True)
