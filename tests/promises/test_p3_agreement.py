"""P3: two clones at the same commit with the same receipts and log print the same `plan --json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.world import CHAIN, Clone, World

SLUGS = ["one", "zwei", "tri/drei", "Ünïcödé", "five", "six", "seven"]
TOP = {"model": {"name": "tiny", "temperature": 0.1}, "vars": {"city": "Zürich"}}
FRENCH = {"LC_ALL": "fr_FR.UTF-8", "LANG": "fr_FR.UTF-8", "LANGUAGE": "fr"}
ANOTHER = {
    "GIT_AUTHOR_NAME": "Somebody Else", "GIT_AUTHOR_EMAIL": "else@example.org",
    "GIT_COMMITTER_NAME": "Somebody Else", "GIT_COMMITTER_EMAIL": "else@example.org",
    "USER": "else", "LOGNAME": "else", "HOME": "/nonexistent",
}  # fmt: skip


@pytest.fixture(scope="module")
def motley(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A shared world with works in as many states as possible; nobody changes it."""
    files = {"assets/logo.bin": "\r\nkeep\r\n", ".gitattributes": "*.bin -text\n"}
    world = World(
        tmp_path_factory.mktemp("motley"), stages=CHAIN, items=SLUGS, files=files, remote=True, **TOP
    )
    world.tell("five", answer="")
    world.a.run("-j", "2", "one", "zwei", "tri/drei", "Ünïcödé", "five", code=1)
    world.a.git("rm", "-q", "out/zwei.md")
    world.a.commit({"out/one.md": "edited\n", "work/six.md": "no receipt\n", "work/Ünïcödé.md": "edited\n"})
    world.a.gitstate("sync", code=0)
    states = {state.split()[-1] for state in world.a.states().values()}
    assert states == {"exact", "edited", "missing", "inputs", "validation", "upstream", "unverified", "new"}
    return world


@pytest.fixture(scope="module")
def text(motley: World) -> str:
    return motley.a.plan_text()


@pytest.fixture
def other(motley: World, tmp_path: Path) -> Clone:
    """Another clone, in a deep folder with an awkward name."""
    return fetch_clone(motley, tmp_path / "an other plâce" / "deep" / "b")


def fetch_clone(world: World, path: Path, *options: str) -> Clone:
    path.parent.mkdir(parents=True, exist_ok=True)
    clone = world.clone(str(path), *options)
    clone.gitstate("sync", code=0)
    return clone


def test_p3_a_clone_at_another_path_agrees(other: Clone, text: str) -> None:
    assert other.plan_text() == text


@pytest.mark.parametrize(
    "env",
    [
        {"TZ": "Pacific/Kiritimati"},
        FRENCH,
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "tr_TR.UTF-8", "TZ": "America/New_York"},
        ANOTHER,
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "4242"},
    ],
    ids=["time zone", "French", "plain C", "Turkish", "another user", "hash seed 1", "hash seed 4242"],
)
def test_p3_time_zone_locale_user_and_hash_seed_mean_nothing(
    other: Clone, text: str, env: dict[str, str]
) -> None:
    assert other.plan_text(**env) == text


@pytest.mark.parametrize(
    "settings",
    [
        ("core.autocrlf=true",),
        ("core.autocrlf=true", "core.eol=crlf"),
        ("core.quotePath=false",),
        ("core.precomposeUnicode=true", "core.ignoreCase=true"),
        ("diff.renames=copies", "diff.noprefix=true", "color.ui=always", "core.abbrev=4"),
        ("status.short=true", "log.showSignature=true", "notes.displayRef=refs/notes/*"),
    ],
    ids=lambda settings: settings[0],
)
def test_p3_the_users_git_settings_mean_nothing(
    motley: World, text: str, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    clone = fetch_clone(motley, tmp_path / "b", *(word for one in settings for word in ("-c", one)))
    if "core.autocrlf=true" in settings:
        assert "\r\n" in clone.read("prompts/article.md")
        assert "\r\n" in clone.read("out/tri/drei.md")
    assert clone.status() == ""
    assert clone.plan_text() == text


def test_p3_a_checkout_with_crlf_pays_for_nothing_again(motley: World, tmp_path: Path) -> None:
    clone = fetch_clone(motley, tmp_path / "b", "-c", "core.autocrlf=true")
    before = motley.calls()
    clone.run("one", "tri/drei", "zwei", "--push", "never", code=0)
    assert motley.calls() == before
    assert clone.status() == ""


def test_p3_repacking_means_nothing(other: Clone, text: str) -> None:
    other.git("gc", "-q", "--prune=now")
    other.git("pack-refs", "--all", "--prune")
    other.forget_state()
    assert other.plan_text() == text


def test_p3_a_deleted_cache_means_nothing(other: Clone, text: str) -> None:
    assert other.plan_text() == text
    other.forget_state()
    assert other.plan_text() == text


@pytest.mark.parametrize("fanout", [(), (2,), (2, 2)], ids=["flat", "2/38", "2/2/36"])
def test_p3_the_shape_of_the_notes_tree_means_nothing(
    other: Clone, text: str, fanout: tuple[int, ...]
) -> None:
    shape_notes(other, fanout)
    assert other.plan_text() == text
    other.forget_state()
    assert other.plan_text() == text


def shape_notes(clone: Clone, fanout: tuple[int, ...]) -> None:
    """Write the notes tree anew with another fan-out."""
    notes = {}
    for path, text in clone.notes().items():
        rest, parts = path.replace("/", ""), []
        for width in fanout:
            parts.append(rest[:width])
            rest = rest[width:]
        notes["/".join([*parts, rest])] = text
    clone.set_notes(notes)
    assert {path.count("/") for path in clone.notes()} == {len(fanout)}


def test_p3_clones_of_every_kind_agree(motley: World, text: str, tmp_path: Path) -> None:
    assert fetch_clone(motley, tmp_path / "shallow", "--depth", "1").plan_text() == text
    assert fetch_clone(motley, tmp_path / "single", "--single-branch", "--no-tags").plan_text() == text


def test_p3_a_linked_worktree_and_a_subfolder_agree(other: Clone, text: str) -> None:
    other.git("worktree", "add", "-q", "-b", "side", "../tree")
    assert Clone(other.world, other.path.parent / "tree").plan_text() == text
    assert Clone(other.world, other.path / "prompts").plan_text() == text


def test_p3_the_order_in_which_receipts_came_means_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"], remote=True)
    other = world.clone("b")
    other.run("two", "--push", "never")
    world.a.run("one", "three")
    other.gitstate("sync", code=0)
    world.a.gitstate("sync", code=0)
    assert set(world.a.states().values()) == {"done exact"}
    assert world.a.plan_text() == other.plan_text()


# --- the format itself -----------------------------------------------------------------------------------


def test_p3_the_format_is_as_the_design_says(motley: World, text: str) -> None:
    found = json.loads(text)
    assert text == json.dumps(found, ensure_ascii=True, separators=(",", ":")) + "\n"
    assert text.isascii()
    assert list(found) == ["format", "head", "receipts", "dirty", "summary", "work"]
    assert found["format"] == 1
    assert found["head"] == motley.a.git("rev-parse", "HEAD")
    assert found["dirty"] == []
    assert list(found["summary"]) == ["total", "done", "pending", "running", "failed", "paused"]
    keys = ["slug", "stage", "id", "state", "reason", "components", "category", "outputs"]
    assert all(list(work) == keys for work in found["work"])
    order = [(work["slug"], work["stage"]) for work in found["work"]]
    assert order == [(slug, stage) for slug in SLUGS for stage in CHAIN]
    work = found["work"][0]
    slug_and_stage, _, digest = work["id"].partition("@")
    assert slug_and_stage == "one/outline"
    assert len(digest) == 12
    assert set(digest) <= set("0123456789abcdef")
    states = [work["state"] for work in found["work"]]
    assert found["summary"]["total"] == len(states)
    assert all(found["summary"][state] == states.count(state) for state in list(found["summary"])[1:])
    assert all(work["id"] is None for work in found["work"] if work["reason"] == "upstream")


def test_p3_each_orders_items_by_the_bytes_of_their_paths(tmp_path: Path) -> None:
    names = ["b.md", "B.md", "a/b.md", "a-b.md", "é.md", "z.md", "a.md"]
    stages = {"fr": {"run": "cat {{ file }}", "output": "fr/{slug}.md"}}
    files = {f"docs/{name}": f"{name}\n" for name in names if name != "B.md"}
    world = World(tmp_path, stages=stages, items=[], each="docs/**/*.md", files=files)
    slugs = [work["slug"] for work in world.a.plan()["work"]]
    ordered = sorted(files, key=lambda path: path.encode())
    assert slugs == [path.removeprefix("docs/").removesuffix(".md") for path in ordered]


def test_p3_what_is_not_committed_is_named_in_dirty(motley: World, tmp_path: Path) -> None:
    clone = fetch_clone(motley, tmp_path / "b")
    clone.write("prompts/article.md", "changed\n")
    clone.write("prompts/outline.md", "changed, too\n")
    clone.write("out/one.md", "an output is no source\n")
    assert clone.plan()["dirty"] == ["prompts/outline.md"]  # the other one is used by no stage
    clone.git("checkout", "-q", ".")
    assert clone.plan()["dirty"] == []


def test_p3_reading_changes_no_ref_and_no_file(other: Clone) -> None:
    def everything() -> tuple[str, str, str]:
        return other.git("for-each-ref"), other.status(), other.git("ls-files", "-s")

    before = everything()
    for command in (("plan",), ("plan", "--json"), ("status",), ("why", "one"), ("verify",)):
        other.gitstate(*command)
        assert everything() == before
