"""P9 and P5 beside the outputs: what a command writes where nothing is declared is named, and left where it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import ARTICLE, FILES, World, patiently, until

ITEMS = ("one", "two", "three", "four")


def guarded(folder: Path, level: str = "", items: tuple[str, ...] = ("one", "two"), **more: Any) -> World:
    stage = {**ARTICLE, **({"guard": level} if level else {})}
    return World(folder, stages={"article": stage}, items=items, files={"README.md": "Mine.\n"}, **more)


def last_words(err: str) -> str:
    """What stands below the counts of a run."""
    return err.rpartition(" done")[2]


def test_p9_a_file_beside_the_outputs_is_named_with_the_work_whose_command_ran_then(tmp_path: Path) -> None:
    world = guarded(tmp_path)
    world.tell(
        "two", before="echo more >> README.md; mkdir notes; echo a > notes/a.txt; rm prompts/unused.md"
    )
    world.a.commit({"prompts/unused.md": "Old.\n"})
    err = last_words(world.a.run().err)
    assert "3 files were written where no output is declared" in err
    assert "README.md was changed by two/article, or somebody else" in err
    assert "notes/a.txt was created by two/article, or somebody else" in err
    assert "prompts/unused.md was deleted by" in err
    assert err.count("README.md") == 1
    assert world.a.read("README.md") == "Mine.\nmore\n"
    assert world.a.read("notes/a.txt") == "a\n"
    assert world.a.files() >= {"out/one.md", "out/two.md"}
    assert "notes/a.txt" not in world.a.files()


def test_p9_a_run_whose_commands_write_their_outputs_only_says_nothing(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict", items=ITEMS, remote=True)
    world.tell(before='echo x > "$TMPDIR/elsewhere"')
    err = world.a.run("-j", "4").err
    assert "no output is declared" not in err
    assert world.a.status() == ""


def test_p9_under_strict_the_work_fails_and_its_answer_is_kept(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict")
    world.tell("one", before="echo more >> README.md")
    done = world.a.run(code=1)
    assert world.a.states() == {"one/article": "failed new validation", "two/article": "done exact"}
    assert "validation/strayed" in done.err
    assert "README.md was changed by one/article, or somebody else" in done.err
    assert not world.a.has("out/one.md")
    assert world.a.read("README.md") == "Mine.\nmore\n"
    (line,) = [line for line in world.a.log() if line["slug"] == "one"]
    assert "README.md was changed by one/article" in line["evidence"]
    assert len(list((world.a.state / "rejected").glob("*.response-1"))) == 1
    # Who has looked at what it did takes the answer that is paid for.
    world.forgive()
    world.a.run("--retry-failed")
    assert world.paid() == {"one/article": 1, "two/article": 1}
    assert set(world.a.states().values()) == {"done exact"}


def test_p9_under_strict_every_command_is_held_to_the_files_it_may_have_written(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict", items=ITEMS)
    for slug in ("one", "three"):
        world.tell(slug, before="echo more >> README.md")
    world.a.run(code=1)
    assert {slug for slug, state in world.a.states().items() if state.startswith("failed")} == {
        "one/article",
        "three/article",
    }


def test_p9_where_several_ran_all_of_them_are_named(tmp_path: Path) -> None:
    world = guarded(tmp_path, items=("one", "two", "three"))
    gate = world.home / "gate"
    world.tell("one", wait=str(gate))
    world.tell("two", wait=str(gate))
    world.tell("three", wait=str(gate))
    running = world.a.start("run", "-j", "2")
    assert until(lambda: len(world.calls()) == 2, running)
    world.a.write("notes.txt", "by whom?\n")
    gate.touch()
    err = running.wait(0).err
    assert "notes.txt was created by one of: one/article, two/article, or somebody else" in err


def test_p9_what_was_edited_before_the_run_is_nobodys_fault(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict")
    world.a.write("before.txt", "mine\n")
    world.a.write("README.md", "Mine, edited.\n")
    err = world.a.run().err
    assert "before.txt" not in err
    assert "README.md" not in err


def test_p9_what_git_ignores_is_nobodys_business(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict")
    world.a.write(".gitignore", "*.log\n/build/\nforced.md\n")
    world.a.write("forced.md", "tracked all the same\n")
    world.a.write("build/old.o", "x\n")
    world.a.git("add", "-f", ".gitignore", "forced.md")
    world.a.git("commit", "-q", "-m", "Ignore")
    world.tell("one", before="mkdir deep; echo x | tee run.log deep/other.log build/new.o > /dev/null")
    world.a.run()
    world.tell("two", before="echo x >> forced.md")
    world.a.run("--redo", "two", code=1)


def test_p9_what_the_user_commits_meanwhile_is_not_laid_to_a_command(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict")
    commit = patiently("echo more >> README.md; git commit -q -m Mine README.md")
    world.tell("one", before=commit)
    world.a.run()
    assert world.a.show("README.md") == "Mine.\nmore\n"


def test_p9_what_comes_from_the_remote_meanwhile_is_not_laid_to_a_command(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict", items=ITEMS, remote=True)
    b = world.clone("b")
    b.commit({"README.md": "Theirs.\n", "more/new.txt": "new\n"})
    # Pushed while the first command runs; the first push of the run brings it here while the others run.
    world.tell("one", before=f"git -C {b.path} push -q origin main")
    world.tell("two", sleep=0.5)
    world.a.run("-j", "2")
    assert world.a.read("README.md") == "Theirs.\n"
    assert world.a.has("more/new.txt")
    assert set(world.a.states().values()) == {"done exact"}


def test_p9_what_gitstate_itself_restores_is_not_laid_to_a_command(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict", items=ITEMS)
    world.a.run("one", "two")
    world.a.git("rm", "-q", "out/one.md", "out/two.md")
    world.a.git("commit", "-q", "-m", "Remove")
    world.a.run("-j", "4")
    assert set(world.a.states().values()) == {"done exact"}


def test_p9_an_output_of_another_work_is_no_place_for_a_command_either(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict")
    world.a.run()
    world.tell("one", answer="anew\n", before="echo spoilt > out/two.md")
    done = world.a.run("--redo", "one", code=1)
    assert "out/two.md was changed by one/article" in done.err
    assert world.a.read("out/two.md") == "spoilt\n"


def test_p9_off_looks_at_nothing(tmp_path: Path) -> None:
    world = guarded(tmp_path, "off")
    world.tell(before="echo more >> README.md")
    assert "README.md" not in world.a.run().err


def test_p9_many_files_are_counted_and_a_few_are_named(tmp_path: Path) -> None:
    world = guarded(tmp_path)
    world.tell("one", before="for n in $(seq 100 131); do echo x > stray-$n; done")
    err = last_words(world.a.run().err)
    assert "32 files were written" in err
    assert "and 22 more" in err
    assert err.count("stray-") == 10
    world.a.git("clean", "-q", "-f")
    world.a.configure({"article": {**ARTICLE, "guard": "strict"}})
    world.a.run("--redo", "one", code=1)
    (line,) = [line for line in world.a.log() if line["slug"] == "one"]
    assert "and 22 more" in line["evidence"]


ODD = r"""
printf x > "$(printf 'line\nbreak')"; printf x > "$(printf 'not-utf8-\377')"; printf x > 'a "quoted" name'
ln -s /nowhere dangling; ln -s . loop; mkfifo pipe; mkdir -p gone/deep; printf x > gone/deep/file; rm -r gone
mkdir dark; printf x > dark/inside; chmod 0 dark
"""


@pytest.mark.parametrize("level", ["warn", "strict"])
def test_p9_odd_names_links_and_closed_folders_are_no_trouble(tmp_path: Path, level: str) -> None:
    world = guarded(tmp_path, level)
    (world.a.path / "was").mkdir()
    (world.a.path / "was" / "file").write_text("x")
    (world.a.path / "to").mkdir()
    nested = "git init -q nested; echo x > nested/file; rm -r was; ln -s to was"
    world.tell("one", before=ODD + nested)
    try:
        err = world.a.run(code=1 if level == "strict" else 0).err
    finally:
        os.chmod(world.a.path / "dark", 0o700)
    for name in (
        r"line\nbreak",
        r"not-utf8-\udcff",
        'a "quoted" name',
        "dangling",
        "loop",
        "was/file",
        "was",
    ):
        assert f"{name} was " in err
    assert "pipe" not in err
    assert "nested" not in err
    assert world.a.gitstate("why", "one", code=0).out


def test_p9_a_command_that_writes_its_own_declared_path_has_not_strayed(tmp_path: Path) -> None:
    world = guarded(tmp_path, "strict", items=("one",))
    world.tell("one", before="mkdir -p out; echo early > out/one.md")
    done = world.a.run(code=3)
    assert "strayed" not in done.err
    assert world.a.read("out/one.md") == "early\n"


def test_p9_the_guard_of_all_holds_for_a_stage_that_says_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, files={"README.md": FILES["prompts/article.md"]}, guard="strict")
    world.tell(before="echo more >> README.md")
    world.a.run(code=1)
