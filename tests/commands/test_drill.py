"""`gitstate drill`: a sound workflow passes its whole matrix, an unsound one fails, and nothing else is touched."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gitstate.core.drill import CELLS
from tests.support.processes import bearing
from tests.support.world import OUTLINE, Clone, Done, World, until

# With GITSTATE_LONG=1 in the environment: each plays many cells again, in another place or with other commands.
LONG = bool(os.environ.get("GITSTATE_LONG"))
long = pytest.mark.skipif(not LONG, reason="minutes; GITSTATE_LONG=1 runs it")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what lives is told by /proc")

PUBLISH = {
    "needs": ["outline"],
    "effect": True,
    "run": "./bin/publish {{ slug }}",
    "evidence": "./bin/find {{ slug }}",
    "settle": 0,
    "output": "published/{slug}.json",
}
MAIL = {"needs": ["publish"], "effect": True, "run": ["./bin/publish", "mail"], "output": "mail/{slug}.txt"}
STAGES = {"outline": OUTLINE, "publish": PUBLISH, **({"mail": MAIL} if LONG else {})}
# Real commands whose world is the drill's folder.
SCRIPTS = {
    "bin/publish": '#!/bin/sh\necho "at $1" | tee -a "$GITSTATE_DRILL/published"\nexit 0\n',
    "bin/find": '#!/bin/sh\ncat "$GITSTATE_DRILL/published" 2>/dev/null || exit 1\n',
}
NEVER = {**SCRIPTS, "bin/find": "#!/bin/sh\nexit 1\n"}


def make(
    folder: Path, stages: dict[str, Any], files: dict[str, str] = SCRIPTS, outlined: bool = False, **top: Any
) -> World:
    """A world with a remote whose stages run scripts; `outlined`: with a recorded outline of "two"."""
    world = World(folder, stages=stages, files=files, remote=True, **top)
    for path in files:
        file = world.a.path / path
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    world.a.git("commit", "-q", "-a", "-m", "Executable")
    if outlined:
        world.a.run("two", "--stage", "outline")
    return world


def everything(folder: Path) -> dict[str, str]:
    """The content of every file below a folder."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def nothing_is_left(world: World) -> bool:
    return not list(world.home.glob("gitstate-*")) and until(lambda: not bearing("PROVIDER_HOME", world.home))


def drill(world: World, *words: str, code: int, clone: Clone | None = None, **env: str) -> Done:
    """`gitstate drill`, with the patience that it takes on a busy machine."""
    running = (clone or world.a).start("drill", *words, **env)
    out, err = running.process.communicate(timeout=1800)
    done = Done(running.process.returncode, out, err)
    assert done.code == code, done
    return done


def results(path: Path) -> dict[str, str]:
    """STAGE CELL -> result."""
    return {
        f"{cell['stage']} {cell['cell']}": cell["result"] for cell in json.loads(path.read_text())["cells"]
    }


@pytest.fixture(scope="module")
def drilled(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, str]:
    """A workflow after its drill, and what was printed."""
    folder = tmp_path_factory.mktemp("drill")
    world = make(folder / "w", STAGES, outlined=True)
    before, there = everything(world.a.path), everything(world.remote)
    done = drill(world, "--out", str(folder / "drill.json"), "--out", str(folder / "drill.md"), code=0)
    assert everything(world.a.path) == before
    assert everything(world.remote) == there
    assert world.paid() == {"two/outline": 1}  # by the run before it
    assert nothing_is_left(world)
    return world, done.out


def test_p11_a_workflow_of_every_kind_of_stage_passes_the_whole_matrix(drilled: tuple[World, str]) -> None:
    world, out = drilled
    found = results(world.folder.parent / "drill.json")
    assert found == {f"{stage} {cell.name}": "pass" for stage in STAGES for cell in CELLS}
    assert f"{len(found)} of {len(found)} cells passed." in out
    text = (world.folder.parent / "drill.md").read_text()
    assert text.count("✓") == len(found)
    assert "| publish | the reply was lost | 1 call, 1 act, " in text
    assert (
        "mail" not in STAGES
        or "| mail | the reply was lost | 1 call, 1 act, a human is asked, done |" in text
    )


def test_check_holds_until_the_workflow_changes_and_says_what_did(drilled: tuple[World, str]) -> None:
    world, _ = drilled
    check = ("--check", str(world.folder.parent / "drill.json"))
    drill(world, *check, code=0)
    world.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    drill(world, *check, code=0)
    assert "tried without --real" in drill(world, *check, "--real", code=1).out
    world.a.commit({"prompts/outline.md": "Another outline of {{ slug }}.\n"})
    assert "Changed since: stages.outline.prompt." in drill(world, *check, code=1).out


def test_check_of_a_part_is_no_full_pass(tmp_path: Path) -> None:
    world = make(tmp_path / "w", {"outline": OUTLINE})
    path = str(tmp_path / "part.json")
    drill(world, "two", "--cell", "killed-before", "--out", path, code=0)
    assert [cell["slug"] for cell in json.loads(Path(path).read_text())["cells"]] == ["two"]
    assert "no full pass" in drill(world, "--check", path, code=1).out


def test_p11_evidence_that_never_finds_anything_fails_the_cell(tmp_path: Path) -> None:
    world = make(tmp_path / "w", {"outline": OUTLINE, "publish": PUBLISH}, NEVER)
    path = tmp_path / "drill.json"
    words = ("--real", "--stage", "publish", "--cell", "killed-middle", "--cell", "killed-before")
    done = drill(world, *words, "--out", str(path), code=1)
    assert results(path) == {"publish killed-before": "pass", "publish killed-middle": "fail"}
    assert "2 acts in the world instead of 1." in done.out
    assert nothing_is_left(world)


@long
def test_real_commands_pass_where_they_are_sound(tmp_path: Path) -> None:
    world = make(tmp_path / "w", {"outline": OUTLINE, "publish": PUBLISH, "mail": MAIL})
    path = tmp_path / "drill.json"
    cells = [word for name in ("killed-after", "taken-over") for word in ("--cell", name)]
    drill(world, "--real", *cells, "--out", str(path), code=0)
    assert set(results(path).values()) == {"pass"}
    assert len(results(path)) == 6
    assert world.paid()["one/outline"] > 2  # the provider was really called


@long
def test_one_item_a_file_and_several_outputs_can_be_drilled(tmp_path: Path) -> None:
    stage = {"run": "$PROVIDER", "output": ["out/{slug}.a", "out/{slug}.b"]}
    world = make(
        tmp_path / "w", {"both": stage}, {"docs/x/one.md": "1\n", "docs/two.md": "2\n"}, each="docs/**/*.md"
    )
    cells = [word for name in ("killed-middle", "reply-lost") for word in ("--cell", name)]
    done = drill(world, "--items", "2", *cells, code=0)
    assert "x/one/both" in done.out
    assert "4 of 4 cells passed." in done.out


def test_a_workflow_that_does_not_work_is_not_drilled(tmp_path: Path) -> None:
    world = make(tmp_path / "w", {"publish": {"run": "exit 1", "output": "out/{slug}.md"}})
    done = drill(world, "--real", code=3)
    assert "Undisturbed, one does not go through" in done.err
    assert nothing_is_left(world)


def test_words_that_mean_nothing_are_refused_before_anything_is_done(tmp_path: Path) -> None:
    world = make(tmp_path / "w", {"outline": OUTLINE})
    for words in (
        ["--cell", "earthquake"],
        ["--stage", "outlines"],
        ["--out", "drill.txt"],
        ["--check", "nowhere.json"],
        ["--config", "other.yaml"],
        ["three"],
    ):
        drill(world, *words, code=2)
    drill(world, code=2, TMPDIR=str(world.a.path))
    assert nothing_is_left(world)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_drill_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    world = make(tmp_path / "w", {"outline": OUTLINE, "publish": PUBLISH})
    before = everything(world.a.path)
    running = world.a.start("drill", "-j", "2")
    until(lambda: list(world.home.glob("gitstate-drill-*/*-outline-*/ledger")), running)
    running.signal(number)
    running.wait(130)
    assert nothing_is_left(world)
    assert everything(world.a.path) == before


def test_what_is_kept_is_named(tmp_path: Path) -> None:
    world = make(tmp_path / "w", {"outline": OUTLINE})
    done = drill(world, "--cell", "killed-before", "--keep", code=0)
    (kept,) = world.home.glob("gitstate-drill-*")
    assert f"The clones are kept: {kept}" in done.err
    (clone,) = kept.glob("*-killed-before/A")
    assert Clone(world, clone).states() == {"one/outline": "done exact"}


@long
@pytest.mark.parametrize("real", [(), ("--real",)], ids=["stand-ins", "real"])
def test_no_place_and_no_setting_of_the_users_matters(tmp_path: Path, real: tuple[str, ...]) -> None:
    stages = {
        "draft": {
            "workspace": "worktree", "guard": "strict", "run": "$PROVIDER > made", "output": "w/{slug}.patch",
        },
        "tag": {
            "needs": ["draft"], "effect": True, "idempotent": True, "workspace": "scratch",
            "run": "echo {{ slug }}", "output": "t/{slug}",
        },
    }  # fmt: skip
    world = make(tmp_path / "w", stages, items=["zwei/ü"], format="sha256")
    hook = tmp_path / "hooks" / "commit-msg"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    hook.chmod(0o755)
    settings = tmp_path / "settings"
    settings.write_text(
        f"[commit]\ngpgsign = true\n[core]\nhooksPath = {hook.parent}\nautocrlf = true\n[push]\ndefault = nothing\n"
        f'[init]\ndefaultBranch = odd/name\ntemplateDir = {hook.parent}\n[protocol "file"]\nallow = never\n'
    )
    world.a.git("worktree", "add", "-q", "../linked", "-b", "side")
    (world.folder / "linked" / "below").mkdir()
    before = everything(world.a.path)
    linked = Clone(world, world.folder / "linked" / "below")
    done = drill(
        world, "--cell", "killed-middle", *real, code=0, clone=linked, GIT_CONFIG_GLOBAL=str(settings)
    )
    assert "2 of 2 cells passed." in done.out
    assert not (tmp_path / "ran").exists()
    assert everything(world.a.path) == before
