"""git tree objects: reading, writing, and changing a few paths of a large one.

`splice` reads only the trees on the way to what changes, so its cost does not grow with the repository.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Optional, Protocol

from gitstate.errors import CorruptState, NeedsHuman

# A tree's entries, each as the bytes that git stores ("MODE NAME\0ID"), under the key that git sorts by:
# the name, with a "/" behind it for a folder.
Entries = dict[bytes, bytes]
Entry = tuple[str, str]  # (mode, object id)

FOLDER = "40000"
_FOLDER = b"40000 "


class TreeConflict(NeedsHuman):
    """A path cannot be added because something else stands in its way: a file where a folder is needed,
    or the reverse. `path` names what was to be added."""

    def __init__(self, path: str, other: str) -> None:
        super().__init__(
            f"{path} cannot be recorded: {other} is in its way in the branch's tree.",
            "Move or remove the one that is not wanted, commit that, and run again.",
        )
        self.path = path


class Cache:
    """Parsed trees by object id, the least recently used dropped when `limit` entries are exceeded."""

    def __init__(self, limit: int = 200_000) -> None:
        self._limit = limit
        self._size = 0
        self._trees: OrderedDict[str, Entries] = OrderedDict()

    def get(self, oid: str) -> Optional[Entries]:
        """The tree's entries if they are here. Not to be changed by the caller."""
        found = self._trees.get(oid)
        if found is not None:
            self._trees.move_to_end(oid)
        return found

    def put(self, oid: str, entries: Entries) -> None:
        """Keep a tree's entries; from now on nobody may change them."""
        if oid not in self._trees:
            self._trees[oid] = entries
            self._size += len(entries) + 1
        while self._size > self._limit and len(self._trees) > 1:
            self._size -= len(self._trees.popitem(last=False)[1]) + 1

    def __len__(self) -> int:
        return self._size


class Store(Protocol):
    """What splicing needs of the object store (`edge.objects.Objects` is one)."""

    trees: Cache
    width: int  # bytes of an object id

    def read(self, name: str) -> Optional[tuple[str, bytes]]: ...
    def write(self, kind: str, data: bytes) -> str: ...


def parse(data: bytes, width: int) -> Entries:
    """A tree object's content as entries, in git's order. Raises ValueError if it is broken."""
    entries: Entries = {}
    start, find, end = 0, data.index, len(data)
    while start < end:
        nul = find(b"\0", start)
        after = nul + 1 + width
        name = data[find(b" ", start, nul) + 1 : nul]
        if data.startswith(_FOLDER, start):
            name += b"/"
        entries[name] = data[start:after]
        start = after
    if start != end:
        raise ValueError("the last entry is cut short")
    return entries


def serialise(entries: Entries) -> bytes:
    """Entries as a tree object's content."""
    return b"".join([entries[key] for key in sorted(entries)])


def entry(mode: str, name: bytes, oid: str) -> tuple[bytes, bytes]:
    """Key and stored bytes of one entry."""
    mode = mode.lstrip("0")
    return (name + b"/" if mode == FOLDER else name), b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(oid))


def load(store: Store, oid: Optional[str]) -> Entries:
    """A tree's entries by its id (None: no tree, no entries). Raises CorruptState if it is not there."""
    if oid is None:
        return {}
    entries = store.trees.get(oid)
    if entries is None:
        found = store.read(oid)
        if found is None:
            raise CorruptState(
                f"Tree {oid} is not in this clone.",
                "A partial clone may lack it: git fetch --refetch --no-filter. Otherwise: git fsck.",
            )
        kind, data = found
        try:
            if kind != "tree":
                raise ValueError(f"it is a {kind}")
            entries = parse(data, store.width)
        except ValueError as error:
            raise CorruptState(f"Tree {oid} cannot be read: {error}.", "Look with: git fsck.") from error
        store.trees.put(oid, entries)
    return entries


def folder_at(store: Store, entries: Entries, name: bytes) -> Optional[str]:
    """The id of the tree called `name` among `entries`, or None."""
    stored = entries.get(name + b"/")
    return stored[-store.width :].hex() if stored is not None else None


def find(store: Store, tree: Optional[str], path: str) -> Optional[Entry]:
    """Mode and id of what stands at `path` below a tree (a folder too), or None."""
    *folders, name = os.fsencode(path).split(b"/")
    for folder in folders:
        tree = folder_at(store, load(store, tree), folder)
        if tree is None:
            return None
    entries = load(store, tree)
    stored = entries.get(name) or entries.get(name + b"/")
    if stored is None:
        return None
    return stored[: stored.index(b" ")].decode("ascii"), stored[-store.width :].hex()


def splice(store: Store, tree: Optional[str], changes: Mapping[str, Optional[Entry]]) -> str:
    """The id of `tree` (None: the empty tree) with the entries of `changes` put in, or taken out where None.

    Writes the changed trees; folders that become empty go. Removing what is not there changes nothing.
    Raises TreeConflict where a file and a folder would need the same name, ValueError for what is no path.
    """
    parted = []
    for path, change in changes.items():
        parts = os.fsencode(path).split(b"/")
        if any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts):
            raise ValueError(f"not a path in a tree: {path!r}")
        parted.append((parts, change))
    new = _splice(store, tree, parted, 0)
    return new if new is not None else store.write("tree", b"")


_Parted = list[tuple[list[bytes], Optional[Entry]]]


def _splice(store: Store, oid: Optional[str], changes: _Parted, depth: int) -> Optional[str]:
    """One folder's share of the work; `depth` parts of each path lie above it. None: it is empty."""
    old = load(store, oid)
    new = old.copy()
    deeper: dict[bytes, _Parted] = {}
    added: _Parted = []
    for parts, change in changes:
        if len(parts) > depth + 1:
            deeper.setdefault(parts[depth], []).append((parts, change))
        elif change is None:
            new.pop(parts[depth], None)
        else:
            added.append((parts, change))
    for name, below in deeper.items():
        _splice_folder(store, new, name, below, depth)
    for parts, change in added:
        assert change is not None
        name = parts[depth]
        key, stored = entry(change[0], name, change[1])
        if (name if key != name else name + b"/") in new:
            raise TreeConflict(_shown(parts), f"a {'folder' if key == name else 'file'} of that name")
        new[key] = stored
    if new == old:
        return oid if old else None
    if not new:
        return None
    written = store.write("tree", serialise(new))
    store.trees.put(written, new)
    return written


def _splice_folder(store: Store, entries: Entries, name: bytes, changes: _Parted, depth: int) -> None:
    """Change what lies below the folder `name` of `entries`."""
    if name in entries:  # a file (or a submodule, or a symlink) where a folder would have to be
        for parts, change in changes:
            if change is not None:
                raise TreeConflict(_shown(parts), f"the file {_shown(parts[: depth + 1])}")
        return
    child = _splice(store, folder_at(store, entries, name), changes, depth + 1)
    if child is None:
        entries.pop(name + b"/", None)
    else:
        key, stored = entry(FOLDER, name, child)
        entries[key] = stored


def _shown(parts: list[bytes]) -> str:
    return os.fsdecode(b"/".join(parts))
