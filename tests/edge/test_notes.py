"""Notes trees: adding at any fan-out, and the union of two, checked against git's own merge."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitstate.edge import notes
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import find
from gitstate.edge.tree import splice
from gitstate.errors import CorruptState

Notes = dict[str, list[bytes]]  # annotated id -> the note at each depth where it stands


def make(folder: Path, object_format: str = "sha1") -> Objects:
    subprocess.run(["git", "init", "-q", f"--object-format={object_format}", str(folder)], check=True)
    git = Git(str(folder))
    git.run("config", "user.name", "A")
    git.run("config", "user.email", "a@example.invalid")
    return Objects(git, find(str(folder)))


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    made = make(tmp_path)
    yield made
    made.close()


def at(oid: str, depth: int) -> str:
    """The path of an object's note at a fan-out depth."""
    return "/".join([*(oid[2 * n : 2 * n + 2] for n in range(depth)), oid[2 * depth :]])


def tree_of(objects: Objects, files: Mapping[str, bytes]) -> str:
    return splice(objects, None, {p: ("100644", objects.write("blob", data)) for p, data in files.items()})


def content(objects: Objects, tree: str | None) -> dict[str, set[bytes]]:
    """What a notes tree says: the lines noted on each object, wherever they stand."""
    found: dict[str, set[bytes]] = {}
    if tree is not None:
        for annotated, blob in notes.pairs(objects.git, tree):
            read = objects.read(blob)
            assert read is not None
            found.setdefault(annotated, set()).update(notes.lines(read[1]))
    return {annotated: lines for annotated, lines in found.items() if lines}


def files(objects: Objects, tree: str) -> dict[str, bytes]:
    out = objects.git.run("ls-tree", "-r", "-z", tree).out.decode()
    found = {}
    for line in out.split("\0")[:-1]:
        read = objects.read(line.split()[2])
        assert read is not None
        found[line.split("\t")[1]] = read[1]
    return found


# Ids that share their first bytes, so that fan-outs mix.
IDS = [
    f"{head}{'0' * (39 - len(head))}{n}" for n, head in enumerate(["ab", "abcd", "abce", "12", "12ab", "ff"])
]
LINES = st.sampled_from([b"a", b"b", b"\xc3\xa9", b"c\r", b" ", b'{"v":9}'])
NOTE = st.lists(LINES, max_size=4).map(lambda found: b"\n".join(found))
ENTRY = st.tuples(st.sampled_from(IDS), st.integers(0, 2))
TREES = st.dictionaries(ENTRY, NOTE, max_size=8)


def built(objects: Objects, entries: Mapping[tuple[str, int], bytes]) -> str | None:
    return (
        tree_of(objects, {at(oid, depth): note for (oid, depth), note in entries.items()})
        if entries
        else None
    )


def test_lines_and_merge_keep_carriage_returns_and_drop_blank_lines() -> None:
    assert notes.lines(b"b\r\n\n\nno newline") == [b"b\r", b"no newline"]
    assert notes.merge(b"b\na", b"\n\na\nc\r\n") == b"a\nb\nc\r\n"
    assert notes.merge(b"", b"\n") == b""


def test_the_first_notes_get_one_level_of_folders(objects: Objects) -> None:
    oid = "ab" + "1" * 38
    tree = notes.add(objects, None, {oid: [b"two", b"one"]})
    assert files(objects, tree) == {"ab/" + "1" * 38: b"one\ntwo\n"}
    assert notes.entries(objects.git, tree) == {oid: objects.oid("blob", b"one\ntwo\n")}


def test_a_small_flat_tree_stays_flat_and_a_large_one_does_not(objects: Objects) -> None:
    small = tree_of(objects, {f"{n:040x}": b"x\n" for n in range(5)})
    assert "ab" + "1" * 38 in files(objects, notes.add(objects, small, {"ab" + "1" * 38: [b"y"]}))
    large = tree_of(objects, {f"{n:040x}": b"x\n" for n in range(100)})
    assert "ab/" + "1" * 38 in files(objects, notes.add(objects, large, {"ab" + "1" * 38: [b"y"]}))


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_note_is_found_at_every_depth_and_stays_there(objects: Objects, depth: int) -> None:
    oid = "abcdef" + "1" * 34
    other = {"12/" + "3" * 38: b"kept\n"}
    tree = tree_of(objects, {at(oid, depth): b"old\n", **other})
    assert files(objects, notes.add(objects, tree, {oid: [b"new"]})) == {
        at(oid, depth): b"new\nold\n",
        **other,
    }


def test_a_new_note_goes_down_existing_folders_as_far_as_they_go(objects: Objects) -> None:
    tree = tree_of(objects, {at("abcd" + "1" * 36, 2): b"x\n", at("12" + "1" * 38, 1): b"x\n"})
    added = notes.add(
        objects, tree, {"abcd" + "2" * 36: [b"y"], "12" + "2" * 38: [b"y"], "99" + "2" * 38: [b"y"]}
    )
    assert {path for path, data in files(objects, added).items() if data == b"y\n"} == {
        at("abcd" + "2" * 36, 2),
        at("12" + "2" * 38, 1),
        at("99" + "2" * 38, 1),
    }


def test_an_object_noted_at_two_depths_is_brought_together(objects: Objects) -> None:
    oid = "abcd" + "1" * 36
    tree = tree_of(objects, {at(oid, 1): b"one\n", at(oid, 2): b"two\n"})
    assert [annotated for annotated, _ in notes.pairs(objects.git, tree)] == [oid, oid]
    assert files(objects, notes.add(objects, tree, {oid: []})) == {at(oid, 2): b"one\ntwo\n"}
    assert files(objects, notes.add(objects, tree, {oid: [b"six"]})) == {at(oid, 2): b"one\nsix\ntwo\n"}


def test_nothing_changes_where_the_lines_are_there(objects: Objects) -> None:
    tree = tree_of(objects, {at(IDS[0], 1): b"b\n\na"})
    assert notes.add(objects, tree, {IDS[0]: [b"a"], IDS[3]: []}) == tree


def test_what_is_no_note_is_kept_and_not_listed(objects: Objects) -> None:
    other = {"README": b"hello", "ab/README": b"x", "abcd/" + "1" * 36: b"not a fan-out of git's"}
    tree = tree_of(objects, {**other, at(IDS[0], 1): b"a\n"})
    assert notes.pairs(objects.git, tree) == [(IDS[0], objects.oid("blob", b"a\n"))]
    assert files(objects, notes.add(objects, tree, {IDS[0]: [b"b"]})) == {**other, at(IDS[0], 1): b"a\nb\n"}


def test_p6_a_note_that_is_not_in_this_clone_is_not_written_over(objects: Objects) -> None:
    tree = splice(objects, None, {at(IDS[0], 1): ("100644", "1" * 40)})
    with pytest.raises(CorruptState, match="not in this clone"):
        notes.add(objects, tree, {IDS[0]: [b"a"]})
    with pytest.raises(CorruptState, match="cannot be read"):
        notes.union(objects.git, objects, tree, "2" * 40)


def test_git_itself_reads_what_was_added(tmp_path: Path) -> None:
    for object_format in ("sha1", "sha256"):
        objects = make(tmp_path / object_format, object_format)
        oids = [objects.write("blob", b"%d" % n) for n in range(300)]
        tree: str | None = None
        for start in range(0, 300, 100):
            tree = notes.add(
                objects, tree, {oid: [b"note on " + oid.encode()] for oid in oids[start : start + 100]}
            )
        assert tree is not None
        commit = objects.git.run("commit-tree", "-m", "notes", tree).out.decode().strip()
        objects.git.run("update-ref", "refs/notes/gitstate", commit)
        listed = objects.git.run("notes", "--ref=gitstate", "list").out.decode().split()
        assert sorted(listed[1::2]) == sorted(oids)
        shown = objects.git.run("notes", "--ref=gitstate", "show", oids[7]).out
        assert shown == b"note on " + oids[7].encode() + b"\n"
        objects.close()


def test_union_is_a_union_of_lines_whatever_the_trees_look_like(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    objects = make(tmp_path_factory.mktemp("repo"))

    def union(ours: str | None, theirs: str | None) -> str | None:
        return notes.union(objects.git, objects, ours, theirs)

    def both(*trees: str | None) -> dict[str, set[bytes]]:
        found: dict[str, set[bytes]] = {}
        for tree in trees:
            for annotated, lines in content(objects, tree).items():
                found.setdefault(annotated, set()).update(lines)
        return found

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(TREES, TREES, TREES)
    def check(one: dict[tuple[str, int], bytes], two: dict[tuple[str, int], bytes], three: object) -> None:
        a, b = built(objects, one), built(objects, two)
        ab, ba = union(a, b), union(b, a)
        assert content(objects, ab) == both(a, b) == content(objects, ba)
        assert union(a, a) == a
        assert ab is None or union(ab, a) == ab or content(objects, a) == content(objects, ab)
        assert content(objects, union(ab, b)) == both(a, b)
        assert isinstance(three, dict)
        c = built(objects, three)
        assert content(objects, union(ab, c)) == content(objects, union(a, union(b, c))) == both(a, b, c)
        if a and b and ab:
            changed = {annotated for annotated, _ in set(raw(a)) ^ set(raw(b))}
            seen = [annotated for annotated, _ in raw(ab) if annotated in changed]
            assert len(seen) == len(set(seen)), "nothing that differed stands at two depths afterwards"

    def raw(tree: str | None) -> list[tuple[str, str]]:
        return notes.pairs(objects.git, tree) if tree else []

    check()
    objects.close()


def commit(objects: Objects, tree: str, *parents: str) -> str:
    args = [word for parent in parents for word in ("-p", parent)]
    return objects.git.run("commit-tree", *args, "-m", "notes", tree).out.decode().strip()


def test_union_gives_the_bytes_of_gits_own_merge(tmp_path_factory: pytest.TempPathFactory) -> None:
    objects = make(tmp_path_factory.mktemp("repo"))
    git = objects.git
    grown = st.dictionaries(st.sampled_from(IDS), st.lists(LINES, min_size=1, max_size=3), max_size=5)

    def texts(*found: Mapping[str, Iterable[bytes]]) -> dict[str, bytes]:
        return {
            oid: notes.merge(*(b"\n".join(one.get(oid, ())) for one in found)) for one in found for oid in one
        }

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(grown, grown, grown, st.integers(0, 2))
    def check(
        base: dict[str, list[bytes]], one: dict[str, list[bytes]], two: dict[str, list[bytes]], d: int
    ) -> None:
        def tree(found: dict[str, bytes], depth: int) -> str:
            return tree_of(objects, {at(oid, depth): note for oid, note in found.items()})

        root = commit(objects, tree(texts(base), 1))
        ours = commit(objects, tree(texts(base, one), 1), root)
        theirs = commit(objects, tree(texts(base, two), d), root)
        git.run("update-ref", "refs/notes/ours", ours)
        git.run("update-ref", "refs/notes/theirs", theirs)
        git.run("notes", "--ref=ours", "merge", "-q", "-s", "cat_sort_uniq", "theirs")
        merged = notes.union(git, objects, ours, theirs)
        assert merged is not None
        assert notes.entries(git, merged) == notes.entries(git, "refs/notes/ours")

    check()
    objects.close()


def test_after_a_union_git_can_merge_where_it_would_have_died(objects: Objects) -> None:
    oid = "abcd" + "1" * 36
    base = tree_of(objects, {at(oid, 1): b"one\n"})
    ours = tree_of(objects, {at(oid, 1): b"one\n", at(oid, 2): b"two\n"})
    theirs = tree_of(objects, {at(oid, 1): b"one\nthree\n"})
    merged = notes.union(objects.git, objects, ours, theirs)
    assert merged is not None
    assert files(objects, merged) == {at(oid, 2): b"one\nthree\ntwo\n"}
    root = commit(objects, base)
    objects.git.run("update-ref", "refs/notes/ours", commit(objects, merged, root))
    objects.git.run("update-ref", "refs/notes/theirs", commit(objects, theirs, root))
    objects.git.run("notes", "--ref=ours", "merge", "-q", "-s", "cat_sort_uniq", "theirs")
    assert objects.git.run("notes", "--ref=ours", "list", oid).code == 0


def test_union_takes_the_other_side_whole_where_ours_adds_nothing(objects: Objects) -> None:
    ours = tree_of(objects, {at(IDS[0], 1): b"a\n"})
    theirs = tree_of(objects, {at(IDS[0], 0): b"a\nb\n", at(IDS[3], 2): b"c\n"})
    assert notes.union(objects.git, objects, ours, theirs) == theirs
    assert notes.union(objects.git, objects, theirs, ours) == theirs
    assert notes.union(objects.git, objects, None, theirs) == theirs
    assert notes.union(objects.git, objects, ours, None) == ours
    assert notes.union(objects.git, objects, None, None) is None


def test_a_union_reads_only_what_both_changed(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {at(f"{n:02x}" + "1" * 38, 1): b"%d\n" % n for n in range(100)}
    ours = tree_of(objects, {at(IDS[0], 1): b"a\n", at(IDS[3], 1): b"mine\n"})
    theirs = tree_of(objects, {**many, at(IDS[0], 1): b"b\n"})
    read: list[str] = []
    plain = objects.read

    def watching(name: str) -> tuple[str, bytes] | None:
        found = plain(name)
        if found and found[0] == "blob":
            read.append(name)
        return found

    monkeypatch.setattr(objects, "read", watching)
    merged = notes.union(objects.git, objects, ours, theirs)
    assert set(read) == {objects.oid("blob", b"a\n"), objects.oid("blob", b"b\n")}
    assert merged is not None
    assert len(notes.pairs(objects.git, merged)) == 102


def test_files_that_are_no_notes_survive_a_union(objects: Objects) -> None:
    ours = tree_of(objects, {at(IDS[0], 1): b"a\n", "README": b"ours"})
    theirs = tree_of(objects, {at(IDS[0], 1): b"b\n", "README": b"theirs", "extra": b"x"})
    merged = notes.union(objects.git, objects, ours, theirs)
    assert merged is not None
    assert files(objects, merged) == {at(IDS[0], 1): b"a\nb\n", "README": b"ours", "extra": b"x"}
    clash = tree_of(objects, {at(IDS[0], 1): b"b\n", "README/x": b"theirs"})
    merged = notes.union(objects.git, objects, ours, clash)
    assert merged is not None
    assert files(objects, merged) == {at(IDS[0], 1): b"a\nb\n", "README": b"ours"}
