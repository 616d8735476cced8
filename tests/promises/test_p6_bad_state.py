"""P6: whatever happens to a file that gitstate reads, it says so, or answers as before; it never begins anew.

Every file is cut, flipped, emptied, exchanged for noise or a folder, and put back. A handful of each; with
GITSTATE_LONG=1 in the environment, small files are cut at every byte (minutes).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitstate.edge.attempts import Attempts
from gitstate.edge.disk import Barrier
from gitstate.errors import CorruptState
from tests.support.damage import Damage, damaged, damages, here
from tests.support.world import Clone, Done, World

RECORDS = Path(__file__).with_name("records")
LONG = bool(os.environ.get("GITSTATE_LONG"))
STAGES = {
    "article": {
        "prompt": "prompts/article.md",
        "template": "templates/article.md",
        "run": "$PROVIDER",
        "output": "out/{slug}.md",
        "check": {"json_schema": "schema.json"},
    }
}
SOURCES = {
    "templates/article.md": '{"title": "{{ slug }}", "text": {{ response | trim }}}\n',
    "schema.json": "{}\n",
}


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world with something of everything: two done, one failed, one answer in the spool, a remote."""
    world = World(
        tmp_path_factory.mktemp("rich"),
        stages=STAGES,
        items=["one", "two", "three", "four"],
        files=SOURCES,
        remote=True,
    )
    world.tell(answer='"yes"')
    world.tell("three", answer="")
    world.tell("four", answer='"yes"', before="mkdir -p out && echo mine > out/four.md")
    a = world.a
    a.run(code=1)
    (a.path / "out/four.md").unlink()
    attempts = Attempts(str(a.state))
    attempts.written({attempts.all()[0].intent.attempt: [b"any"]}, Barrier(str(a.path)))
    a.git("update-ref", "refs/gitstate/keep/x-1", a.blob("out/one.md"))
    journal = {"format": 1, "git_dir": str(a.path / ".git"), "moves": [["refs/heads/main", None, "1" * 40]]}
    (a.state / "recording.json").write_text(json.dumps(journal))
    (a.state / "lock.json").write_text('{"host": "here", "boot": "b", "pid": 1, "since": 1}')
    for command in (("plan",), ("status",), ("hooks", "run", "pre-commit")):  # which fill the caches
        here(a, *command)
    assert {path.suffix for path in (a.state / "attempts").iterdir()} == {
        ".intent", ".spooled", ".written", ".response-1",
    }  # fmt: skip
    return world


@pytest.fixture(scope="module")
def packed(rich: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The same with its refs and objects packed."""
    world = rich.copy(tmp_path_factory.mktemp("packed") / "world")
    world.a.git("pack-refs", "--all")
    world.a.git("repack", "-adq")
    here(world.a, "plan")
    return world


def plan(clone: Clone) -> Done:
    return here(clone, "plan", "--json")


def files(clone: Clone, *globs: str) -> list[Path]:
    found = [path for glob in globs for path in sorted((clone.path / ".git").glob(glob)) if path.is_file()]
    assert found
    return found


def is_honest(done: Done, before: Done) -> bool:
    """Whether nothing is done that was not, and nothing that was done is as if it had never been."""
    works, known = (
        {(work["slug"], work["stage"]): work for work in json.loads(found.out)["work"]}
        for found in (done, before)
    )
    return all(
        work["state"] != "done" or known.get(key, {}).get("state") == "done" for key, work in works.items()
    ) and all(
        work["reason"] != "new" or works[key]["reason"] != "done"
        for key, work in known.items()
        if key in works
    )


def names(path: Path, clone: Clone) -> set[str]:
    """What a message about a file may call it."""
    try:
        inside = path.relative_to(clone.path / ".git").as_posix()
    except ValueError:
        return {path.relative_to(clone.path).as_posix()}
    if inside == "packed-refs" or "objects/pack" in inside:
        return {inside, "refs/", "HEAD", "git fsck"}
    if inside.startswith("objects/"):
        return {inside, path.parent.name + path.name, "git fsck"}
    return {inside}


def is_clear(done: Done, path: Path, damage: Damage, clone: Clone) -> bool:
    """Whether an error says what is wrong."""
    if damage.name == "folder" and "objects" in path.parts:
        return "mmap failed" in done.err or "refs/" in done.err  # all that git says
    if path.suffix == ".idx":
        return (
            "git " in done.err
        )  # git names the object that it did not find by it, or the index, as it happens
    return any(name in done.err for name in names(path, clone))


def sweep(clone: Clone, paths: Iterable[Path], judge: Callable[[Done, Done], bool]) -> None:
    """Make each file bad in every way; each answer is a clear error, or what `judge` allows."""
    before = plan(clone)
    assert before.code == 0
    wrong = []
    for path in paths:
        for damage in damages(path.read_bytes(), LONG):
            with damaged(path, damage):
                done = plan(clone)
                here(clone, "status")
            if not (judge(done, before) if done.code == 0 else is_clear(done, path, damage, clone)):
                wrong.append((path, damage.name, done))
    assert not wrong, "\n\n".join(f"{path}: {name}: {done}" for path, name, done in wrong[:20])
    assert plan(clone) == before, "something was destroyed meanwhile"


def same(done: Done, before: Done) -> bool:
    return done.out == before.out


LOCAL = [
    "cache",
    "attempts",
    "rejected",
    "last-run.json",
    "lock.json",
    "lock",
    "lock-owner",
    "recording.json",
]


@pytest.mark.parametrize("name", LOCAL)
def test_p6_local_files_of_gitstate_change_no_answer(rich: World, name: str) -> None:
    sweep(rich.a, files(rich.a, f"gitstate/{name}", f"gitstate/{name}/*"), same)


@pytest.mark.parametrize("glob", ["refs/**/*", "objects/??/*", "HEAD", "index", "config"])
def test_p6_bad_files_of_git_are_errors_and_never_a_fresh_start(rich: World, glob: str) -> None:
    sweep(rich.a, files(rich.a, glob), is_honest if glob in ("HEAD", "config") else same)


@pytest.mark.parametrize("glob", ["packed-refs", "objects/pack/*.pack", "objects/pack/*.idx"])
def test_p6_bad_packs_are_errors_and_never_a_fresh_start(packed: World, glob: str) -> None:
    sweep(packed.a, files(packed.a, glob), is_honest if glob == "packed-refs" else same)


@pytest.mark.parametrize("path", ["gitstate.yaml", "plan.yaml", *SOURCES, "prompts/article.md"])
def test_p6_a_bad_source_is_an_error_or_an_edit_that_makes_nothing_done(rich: World, path: str) -> None:
    sweep(rich.a, [rich.a.path / path], is_honest)


@st.composite
def changes(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A change of a file's bytes: some of them go, others come in their place."""
    start, length = draw(st.floats(0, 1)), draw(st.sampled_from([0, 1, 3, 40, 10_000]))
    new = draw(
        st.binary(max_size=12) | st.sampled_from([b"\n", b"0", b"\0" * 600, b'"', b"ref: ", b"{", b"- "])
    )

    def change(data: bytes) -> bytes:
        at = int(start * len(data))
        return data[:at] + new + data[at + length :]

    return change


@pytest.fixture(scope="module")
def everything(rich: World) -> list[Path]:
    """All files of the clone, those of git and of gitstate too."""
    found = (path for path in rich.a.path.rglob("*") if path.is_file() and "hooks" not in path.parts)
    return sorted(found)


@settings(max_examples=5000 if LONG else 150)
@given(data=st.data())
def test_p6_no_change_of_any_files_is_a_traceback_or_a_fresh_start(
    rich: World, everything: list[Path], data: st.DataObject
) -> None:
    a = rich.a
    before = plan(a)
    chosen = data.draw(st.lists(st.sampled_from(everything), min_size=1, max_size=3, unique=True))
    changed = {path: Damage("changed", data.draw(changes())(path.read_bytes())) for path in chosen}
    with contextlib.ExitStack() as stack:
        for path, damage in changed.items():
            stack.enter_context(damaged(path, damage))
        done = plan(a)
        here(a, "status")
        here(a, "verify")
        here(a, "hooks", "run", "pre-commit")
    if done.code:
        assert any(is_clear(done, path, damage, a) for path, damage in changed.items()), done
    else:
        assert is_honest(done, before), done
    assert plan(a) == before, "something was destroyed meanwhile"


# --- plans of the other kinds ----------------------------------------------------------------------------

PLANS = {
    "plan.jsonl": '{"slug": "one"}\n{"slug": "two", "n": 1.5, "of": ["a", {"b": null}]}\n',
    "plan.csv": 'slug,title\none,"A, and ""B"""\ntwo,C\n',
}


@pytest.mark.parametrize("name", PLANS)
def test_p6_a_bad_plan_of_any_kind_is_an_error_or_an_edit(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, plan=name, files={name: PLANS[name]})
    world.a.run()
    sweep(world.a, [world.a.path / name], is_honest)


# --- a run on bad state ----------------------------------------------------------------------------------


RUN = [
    "attempts/*",
    "rejected/*",
    "recording.json",
    "lock",
    "lock.json",
    "lock-owner",
    "last-run.json",
    "cache/*",
]
REFS = ["refs/notes/*", "refs/heads/*", "refs/gitstate-remote/**/*", "HEAD", "index", "config"]


@pytest.mark.parametrize("glob", [*(f"gitstate/{name}" for name in RUN), *REFS])
def test_p6_a_run_on_bad_state_pays_nothing_and_keeps_what_had_arrived(
    rich: World, tmp_path: Path, glob: str
) -> None:
    a, calls = rich.a, len(rich.calls())
    (spooled,) = a.spooled()
    answer = spooled.read_bytes()
    for number, path in enumerate(files(a, glob)):
        inside = path.relative_to(rich.folder)
        for damage in [*damages(path.read_bytes(), LONG)][:: 1 if LONG else 3]:
            world = rich.copy(tmp_path / f"{number} {damage.name}")
            damage.do(world.folder / inside)
            done = here(world.a, "run", "--offline")
            assert len(world.calls()) == calls, (path, damage.name, done)
            if damage.name == "unreadable":
                (world.folder / inside).chmod(0o600)
            responses = [found for found in world.folder.rglob("*.response-1") if found.is_file()]
            kept = any(found.read_bytes() == answer for found in responses)
            recorded = done.code in (0, 1, 2) and any(line["slug"] == "four" for line in world.a.receipts())
            assert kept or recorded or path == spooled, (path, damage.name, done)
            shutil.rmtree(world.folder)


def test_p6_a_bad_saved_plan_is_refused(finished: World, tmp_path: Path) -> None:
    a, saved = finished.a, tmp_path / "saved"
    a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    here(a, "plan", "three", "--out", str(saved))
    for damage in damages(saved.read_bytes(), LONG):
        if damage.data is not None and damage.data == saved.read_bytes().rstrip():
            continue
        with damaged(saved, damage):
            done = here(a, "run", "--plan", str(saved))
        assert done.code in (2, 3), (damage.name, done)
        assert str(saved) in done.err
    assert len(finished.calls()) == 2


# --- records, byte by byte -------------------------------------------------------------------------------


def test_p6_a_record_that_is_changed_anywhere_is_an_error(rich: World, tmp_path: Path) -> None:
    folder = tmp_path / "attempts"
    shutil.copytree(rich.a.state / "attempts", folder)
    attempts = Attempts(str(tmp_path))
    (before,) = attempts.all()
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        cuts = [data[:length] for length in range(len(data))]
        flips = [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))]
        for changed in (*cuts, *flips):
            path.write_bytes(changed)
            try:
                (found,) = attempts.all()
            except CorruptState as error:
                if str(path) not in str(error):
                    pytest.fail(f"{path} is not named: {error}")
            else:
                assert found == before, (path, changed)
        path.write_bytes(data)


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDS.iterdir()))
def test_p6_an_older_record_that_is_changed_anywhere_is_read_or_an_error(name: str, tmp_path: Path) -> None:
    shutil.copytree(RECORDS / name, tmp_path / "attempts")
    attempts = Attempts(str(tmp_path))
    for path in sorted((tmp_path / "attempts").iterdir()):
        data = path.read_bytes()
        for at in range(len(data)):
            for changed in (data[:at], data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]):
                path.write_bytes(changed)
                with contextlib.suppress(CorruptState):
                    attempts.all()
        path.write_bytes(data)
    assert len(attempts.all()) == 1
