"""Trees: parsing, writing, and changing a few paths, checked against git's own index."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import find as find_repository
from gitstate.edge.tree import Cache, TreeConflict, entry, find, load, parse, serialise, splice
from gitstate.errors import CorruptState


def store(folder: Path, object_format: str = "sha1") -> Objects:
    subprocess.run(["git", "init", "-q", f"--object-format={object_format}", str(folder)], check=True)
    git = Git(str(folder))
    return Objects(git, find_repository(str(folder)))


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    made = store(tmp_path)
    yield made
    made.close()


def blob(objects: Objects, text: str) -> tuple[str, str]:
    return "100644", objects.write("blob", text.encode())


def listing(objects: Objects, tree: str) -> dict[str, str]:
    out = objects.git.run("ls-tree", "-r", "-z", tree).out.decode()
    return {line.split("\t")[1]: line.split()[2] for line in out.split("\0") if line}


NAMES = st.sampled_from(["a", "b", "a.b", "a-b", "a0", "ab", "é", "A", "a b", "zz"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TREES = st.dictionaries(PATHS, st.tuples(st.sampled_from(["100644", "100755", "120000"]), st.integers(0, 5)))


def without_conflicts(tree: dict[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    folders = {path[:i] for path in tree for i, char in enumerate(path) if char == "/"}
    return {path: change for path, change in tree.items() if path not in folders}


def write_tree(objects: Objects, tree: dict[str, tuple[str, str]]) -> str:
    """What git makes of these entries, by its index."""
    lines = b"".join(f"{mode} {oid}\t{path}\0".encode() for path, (mode, oid) in tree.items())
    with tempfile.TemporaryDirectory() as folder:
        env = {"GIT_INDEX_FILE": folder + "/index"}
        objects.git.run("update-index", "-z", "--index-info", stdin=lines, env=env)
        return objects.git.run("write-tree", env=env).out.decode().strip()


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_any_change_gives_the_tree_that_git_itself_would_write(
    tmp_path_factory: pytest.TempPathFactory, object_format: str
) -> None:
    objects = store(tmp_path_factory.mktemp("repo"), object_format)
    oids = [objects.write("blob", b"%d" % n) for n in range(6)]

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(TREES, TREES, st.lists(st.one_of(PATHS, st.integers(0, 20)), max_size=6))
    def check(
        before: dict[str, tuple[str, int]], added: dict[str, tuple[str, int]], gone: list[str | int]
    ) -> None:
        before = without_conflicts(before)
        removed = {
            one if isinstance(one, str) else sorted(before)[one % len(before)] for one in gone if before
        }
        kept = {path: change for path, change in before.items() if path not in removed}
        after = without_conflicts({**kept, **added})
        added = {path: change for path, change in added.items() if after.get(path) == change and kept | added}
        changes: dict[str, tuple[str, str] | None] = dict.fromkeys(removed | (set(before) - set(after)))
        changes.update({path: (mode, oids[n]) for path, (mode, n) in added.items() if path in after})
        start = splice(objects, None, {path: (mode, oids[n]) for path, (mode, n) in before.items()})
        assert start == write_tree(objects, {path: (mode, oids[n]) for path, (mode, n) in before.items()})
        end = splice(objects, start, changes)
        assert end == write_tree(objects, {path: (mode, oids[n]) for path, (mode, n) in after.items()})
        for path, (mode, n) in after.items():
            assert find(objects, end, path) == (mode, oids[n])

    check()
    objects.close()


def test_only_the_folders_on_the_way_are_written(objects: Objects) -> None:
    tree = splice(objects, None, {f"{a}/{b}/f": blob(objects, a + b) for a in "abc" for b in "xyz"})
    written: list[str] = []
    plain = objects.write

    def watching(kind: str, data: bytes) -> str:
        written.append(kind)
        return plain(kind, data)

    objects.write = watching  # type: ignore[method-assign]
    splice(objects, tree, {"a/x/g": ("100644", "1" * 40)})
    assert written == ["tree"] * 3


def test_emptied_folders_go_and_an_empty_tree_is_the_empty_tree(objects: Objects) -> None:
    tree = splice(objects, None, {"a/b/c": blob(objects, "x"), "d": blob(objects, "y")})
    without = splice(objects, tree, {"a/b/c": None})
    assert list(listing(objects, without)) == ["d"]
    assert find(objects, without, "a") is None
    assert splice(objects, without, {"d": None}) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert objects.read("4b825dc642cb6eb9a060e54bf8d69288fbee4904") == ("tree", b"")


def test_removing_what_is_not_there_changes_nothing(objects: Objects) -> None:
    tree = splice(objects, None, {"a/b": blob(objects, "x"), "d": blob(objects, "y")})
    assert splice(objects, tree, {"a": None, "q/r": None, "d/e": None, "a/z": None}) == tree


def test_a_file_where_a_folder_is_needed_is_a_conflict_that_names_the_path(objects: Objects) -> None:
    tree = splice(objects, None, {"a": blob(objects, "x")})
    with pytest.raises(TreeConflict) as caught:
        splice(objects, tree, {"a/b/c": blob(objects, "y")})
    assert caught.value.path == "a/b/c"
    assert "the file a is in its way" in str(caught.value)


def test_a_folder_where_a_file_is_needed_is_a_conflict_that_names_the_path(objects: Objects) -> None:
    tree = splice(objects, None, {"a/b/c": blob(objects, "x")})
    with pytest.raises(TreeConflict) as caught:
        splice(objects, tree, {"a/b": blob(objects, "y")})
    assert caught.value.path == "a/b"


def test_a_file_may_take_the_place_of_a_folder_that_is_emptied_at_once(objects: Objects) -> None:
    tree = splice(objects, None, {"a/b": blob(objects, "x"), "c": blob(objects, "y")})
    swapped = splice(
        objects, tree, {"a/b": None, "a": blob(objects, "z"), "c": None, "c/d": blob(objects, "w")}
    )
    assert sorted(listing(objects, swapped)) == ["a", "c/d"]


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/./b", ".git/x", "a/.GIT/x"])
def test_what_is_no_path_is_refused(objects: Objects, path: str) -> None:
    with pytest.raises(ValueError):
        splice(objects, None, {path: blob(objects, "x")})


def test_p6_a_tree_that_is_not_there_is_an_error_and_not_an_empty_one(objects: Objects) -> None:
    with pytest.raises(CorruptState, match="not in this clone"):
        splice(objects, "1" * 40, {"a": blob(objects, "x")})
    with pytest.raises(CorruptState, match="it is a blob"):
        load(objects, objects.write("blob", b"x"))


@pytest.mark.parametrize("cut", [1, 5, 10, 27])
def test_a_tree_cut_short_cannot_be_parsed(cut: int) -> None:
    whole = serialise(dict([entry("100644", b"name", "1" * 40), entry("40000", b"name2", "2" * 40)]))
    assert serialise(parse(whole, 20)) == whole
    with pytest.raises(ValueError):
        parse(whole[:-cut], 20)


def test_the_cache_forgets_the_least_used_trees_first_and_stays_bounded() -> None:
    cache = Cache(limit=10)
    for name in "abc":
        cache.put(name, {b"%d" % n: b"" for n in range(3)})
        cache.get("a")
    assert cache.get("a") is not None
    assert cache.get("b") is None
    assert cache.get("c") is not None
    cache.put("d", {b"%d" % n: b"" for n in range(99)})
    assert cache.get("d") is not None, "one that is larger than the limit is kept while nothing else is"
    assert cache.get("c") is None
