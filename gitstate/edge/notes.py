"""Notes trees: what is noted on which object, adding to it, and the union of two of them.

A note is a sorted set of lines. Merging is the union of lines, so it never conflicts, and it is the same
as git's own `cat_sort_uniq`. Lines that are not ours are kept as they are.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Optional

from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.tree import Entry, TreeConflict, folder_at, load, splice
from gitstate.errors import CorruptState

_REMEMBERED = "--max-count=1000"  # moves of a notes ref that are looked at
_FORCED = ": forced-update"  # what git, in no language but this, notes of a fetch that overwrites
_FLAT = 64  # a notes tree without folders stays so up to this many notes; git's own writer splits at about 80

_NOTE = re.compile(rb"(?:[0-9a-f]{2}/)*[0-9a-f]+")
_FOLDERS = frozenset(b"%02x/" % byte for byte in range(256))


class _Spot(NamedTuple):
    """Where the note of one object stands, or would: path in the tree, and the note's blob."""

    path: str
    blob: str


def lines(note: bytes) -> list[bytes]:
    """A note's lines, blank ones left out; a carriage return belongs to its line."""
    return [line for line in note.split(b"\n") if line]


def merge(*notes: bytes) -> bytes:
    """The union of notes: their lines, sorted bytewise, each once, each ended by a newline."""
    return b"".join([line + b"\n" for line in sorted({line for note in notes for line in lines(note)})])


def pairs(git: Git, treeish: str) -> list[tuple[str, str]]:
    """All (annotated object, note's blob) of a notes commit or tree, at any fan-out, in the tree's order.

    Other tools may have noted one object at two depths; it then comes twice, and both notes count.
    """
    done = git.run("ls-tree", "-r", "-z", "--full-tree", "--format=%(objectname) %(path)", treeish)
    found = []
    for line in done.out.decode("ascii", "replace").split("\0"):
        blob, _, path = line.partition(" ")
        annotated = path.replace("/", "")
        if len(annotated) == len(blob) and _NOTE.fullmatch(path.encode()):
            found.append((annotated, blob))
    return found


def overwritten(git: Git, objects: Objects, ref: str) -> list[str]:
    """The commits that a notes ref of this clone named when somebody's fetch put the remote's in their place.

    By `+refs/notes/*:refs/notes/*`, say, which many configure: what was noted here and not pushed is in these alone.
    """
    if objects.resolve(ref) is None:
        return []
    path = os.path.join(git.common_dir, "logs", *ref.split("/"))
    with contextlib.suppress(OSError), open(path, "rb") as file:  # (where there is none, git tells)
        if os.fsencode(_FORCED) not in file.read():
            return []
    listed = git.text("log", "-g", _REMEMBERED, "--format=%H %gs", ref, "--", check=False).splitlines()
    return [before.partition(" ")[0] for entry, before in pairwise(listed) if entry.endswith(_FORCED)]


def entries(git: Git, treeish: str) -> dict[str, str]:
    """`pairs` as a mapping. Of an object noted twice (rare, see `pairs`) it shows the last only."""
    return dict(pairs(git, treeish))


def add(objects: Objects, tree: Optional[str], additions: Mapping[str, Iterable[bytes]]) -> str:
    """The id of the notes tree with lines added to the notes of objects (annotated id -> lines).

    An object's note is looked for at every depth, so that it never stands at two; where it does, it is
    brought together. Nothing changes where all lines are there. Raises CorruptState if a note is not here.
    """
    changes = _changes(objects, tree, {oid: [b"\n".join(new)] for oid, new in additions.items()}, {})
    return splice(objects, tree, changes) if changes or tree is None else tree


def _changes(
    objects: Objects, tree: Optional[str], texts: Mapping[str, Sequence[bytes]], blobs: Mapping[str, str]
) -> dict[str, Optional[Entry]]:
    """What to splice to merge `texts` into notes, and `blobs` too (unread where there is no note yet)."""
    changes: dict[str, Optional[Entry]] = {}
    for annotated in {**texts, **blobs}:
        spots, place = _look(objects, tree, annotated)
        new = [text for text in texts.get(annotated, ()) if text]
        if annotated in blobs and not new and not spots:
            changes[place] = ("100644", blobs[annotated])
            continue
        if not new and len(spots) < 2 and blobs.get(annotated) in (None, *(spot.blob for spot in spots)):
            continue
        known = [_note(objects, spot.blob) for spot in spots]
        if annotated in blobs:
            new.append(_note(objects, blobs[annotated]))
        if len(known) == 1 and set(lines(known[0])).issuperset(line for text in new for line in lines(text)):
            continue
        for spot in spots:
            changes[spot.path] = None
        merged = merge(*known, *new)
        if merged or spots:
            changes[place] = ("100644", objects.write("blob", merged, new=True))
    return changes


def _look(objects: Objects, tree: Optional[str], annotated: str) -> tuple[list[_Spot], str]:
    """Where an object's note stands, at all depths, and the path at which it should stand."""
    if len(annotated) != 2 * objects.width:
        raise ValueError(f"not an object id: {annotated!r}")
    spots = []
    prefix, rest = "", annotated
    node = tree
    while True:
        here = load(objects, node)
        stored = here.get(rest.encode())
        if stored is not None:
            spots.append(_Spot(prefix + rest, stored[-objects.width :].hex()))
        below = folder_at(objects, here, rest[:2].encode()) if len(rest) > 2 else None
        if below is None:
            break
        node, prefix, rest = below, f"{prefix}{rest[:2]}/", rest[2:]
    if spots:
        return spots, spots[-1].path
    if not prefix and not (0 < len(here) < _FLAT and _FOLDERS.isdisjoint(here)):
        prefix, rest = annotated[:2] + "/", annotated[2:]
    return spots, prefix + rest


def _note(objects: Objects, blob: str) -> bytes:
    found = objects.read(blob)
    if found is None or found[0] != "blob":
        raise objects.lacking(blob, "a note")
    return found[1]


def union(git: Git, objects: Objects, ours: Optional[str], theirs: Optional[str]) -> Optional[str]:
    """The tree that holds every line of two notes commits or trees; None if there is neither.

    Equal to one of them where the other adds nothing: theirs first, so that two clones come together.
    Raises CorruptState if a note that both changed is not here.
    """
    left, right = _tree(objects, ours), _tree(objects, theirs)
    if left is None or right is None or left == right:
        return left or right
    gained: dict[str, str] = {}  # annotated -> a blob of theirs that we lack or have otherwise
    more: dict[str, list[bytes]] = {}  # the same, where theirs noted it twice
    touched: dict[str, list[bytes]] = {}
    foreign: dict[str, Optional[Entry]] = {}
    lacking = False  # whether theirs lacks something of ours that is no note
    for status, path, mode, blob in _differences(git, left, right):
        annotated = path.replace(b"/", b"").decode("ascii", "replace")
        if len(annotated) != 2 * objects.width or not _NOTE.fullmatch(path):
            if status == b"A":
                foreign[os.fsdecode(path)] = (mode, blob)
            lacking |= status != b"A"
        elif status == b"D":
            touched.setdefault(annotated, [])
        elif annotated in gained:
            more.setdefault(annotated, []).append(_note(objects, blob))
        else:
            gained[annotated] = blob
    if not lacking and not _changes(objects, right, *_ours(objects, left, {**touched, **gained})):
        return right
    merged = splice(objects, left, _changes(objects, left, {**touched, **more}, gained))
    try:
        return splice(objects, merged, foreign)
    except TreeConflict:
        return merged  # files that are no notes, in each other's way: like git, keep our own


def gained(git: Git, objects: Objects, old: Optional[str], new: str) -> set[bytes]:
    """The lines that a notes commit or tree has and an older one does not. CorruptState if a note is not here."""
    right, left = _tree(objects, new), _tree(objects, old)
    assert right is not None
    if left is None:
        return {line for _, blob in pairs(git, right) for line in lines(_note(objects, blob))}
    found: set[bytes] = set()
    for status, path, _, blob in _differences(git, left, right):
        if status != b"D" and _NOTE.fullmatch(path):
            spots, _ = _look(objects, left, path.replace(b"/", b"").decode())
            known = {line for spot in spots for line in lines(_note(objects, spot.blob))}
            found.update(line for line in lines(_note(objects, blob)) if line not in known)
    return found


def _ours(
    objects: Objects, tree: str, annotated: Iterable[str]
) -> tuple[dict[str, list[bytes]], dict[str, str]]:
    """The notes of these objects in our tree as `_changes` takes them; those that stand once are not read."""
    texts: dict[str, list[bytes]] = {}
    blobs: dict[str, str] = {}
    for oid in annotated:
        spots, _ = _look(objects, tree, oid)
        if len(spots) == 1:
            blobs[oid] = spots[0].blob
        else:
            texts[oid] = [_note(objects, spot.blob) for spot in spots]
    return texts, blobs


def _tree(objects: Objects, name: Optional[str]) -> Optional[str]:
    if name is None:
        return None
    tree = objects.resolve(name + "^{tree}")
    if tree is None:
        raise CorruptState(f"The notes at {name} cannot be read.", "Look with: git fsck.")
    return tree


def _differences(git: Git, left: str, right: str) -> Iterable[tuple[bytes, bytes, str, str]]:
    """(status, path, their mode, their blob) of what differs between two trees."""
    done = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", left, right)
    fields = done.out.split(b"\0")
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        _, mode, _, blob, status = head.split(b" ")
        yield status[:1], path, mode.decode("ascii"), blob.decode("ascii")
