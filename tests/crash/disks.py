"""A model of a disk: what reached it when the power went, under four models of what a file system may do.

A recorded program is first replayed call by call, as the kernel did it. That turns each call into changes of
inodes: an entry of a folder, bytes of a file, its size. A sync makes earlier changes of one inode durable, a
syncfs all of them. What was not yet durable when the power went is kept or dropped by the model:

    kept     all of it is there: the process was killed, the machine was not
    ordered  names and sizes are there, in their order; bytes only if the file was synced (a journalling file
             system: the empty file after a crash)
    strict   only what was synced is there: bytes with their file, names with their folder (POSIX, to the letter)
    any      random parts of it are there, in any order; bytes may be torn or zero (a seed chooses)
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Optional

from tests.crash.trace import Op

MODELS = ("kept", "ordered", "strict", "any")
Model = Literal["kept", "ordered", "strict", "any"]


class Change(NamedTuple):
    """What one call did to one inode."""

    op: int  # the call's index
    kind: Literal["entries", "bytes", "size", "sync", "syncfs"]
    inode: int = 0
    entries: tuple[tuple[str, Optional[int]], ...] = ()  # name -> inode, or None: the name goes
    offset: int = 0
    data: bytes = b""


class File(NamedTuple):
    """A file or a folder as it stands on a rebuilt disk."""

    content: Optional[bytes]  # None: a folder
    mode: int
    time: float


Files = dict[str, File]  # by path relative to the root


class Base:
    """The disk before the program began; all of it durable."""

    def __init__(self, folder: str) -> None:
        self.content: dict[int, Optional[bytes]] = {0: None}  # None: a folder
        self.entries: dict[int, dict[str, int]] = {0: {}}
        self.modes: dict[int, int] = {0: 0o755}
        self.times: dict[int, float] = {0: 0.0}
        self._read(folder, 0)

    def _read(self, folder: str, inode: int) -> None:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            number = len(self.content)
            found = entry.stat(follow_symlinks=False)
            self.entries[inode][entry.name] = number
            self.modes[number] = found.st_mode & 0o7777
            self.times[number] = found.st_mtime
            if entry.is_dir(follow_symlinks=False):
                self.content[number] = None
                self.entries[number] = {}
                self._read(entry.path, number)
            else:
                with open(entry.path, "rb") as file:
                    self.content[number] = file.read()


class Disk:
    """A disk in some state. Changes are applied to it as if each were all there is."""

    def __init__(self, base: Base) -> None:
        self.content = {number: bytearray(data) for number, data in base.content.items() if data is not None}
        self.entries = {number: dict(names) for number, names in base.entries.items()}
        self.modes, self.times = dict(base.modes), dict(base.times)

    def apply(self, change: Change, time: float) -> None:
        """Make one change."""
        if change.kind == "entries":
            names = self.entries.setdefault(change.inode, {})
            for name, inode in change.entries:
                if inode is None:
                    names.pop(name, None)
                else:
                    names[name] = inode
                    self.times.setdefault(inode, time)
        elif change.kind == "bytes":
            content = self.content.setdefault(change.inode, bytearray())
            content.extend(bytes(max(0, change.offset - len(content))))
            content[change.offset : change.offset + len(change.data)] = change.data
            self.times[change.inode] = time
        elif change.kind == "size":
            content = self.content.setdefault(change.inode, bytearray())
            content.extend(bytes(max(0, change.offset - len(content))))
            del content[change.offset :]
            self.times[change.inode] = time

    def files(self, folders: Iterable[int]) -> Files:
        """Everything that can be reached from the root. `folders` are the inodes that are folders."""
        known = set(folders)
        found: Files = {}

        def walk(inode: int, prefix: str) -> None:
            for name, number in self.entries.get(inode, {}).items():
                path = prefix + name
                mode, time = self.modes.get(number, 0o644), self.times.get(number, 0.0)
                if number in known:
                    found[path] = File(None, mode | 0o700, time)
                    walk(number, path + "/")
                else:
                    found[path] = File(bytes(self.content.get(number, b"")), mode, time)

        walk(0, "")
        return found


class Replay:
    """A recording, understood: each call's changes of inodes."""

    def __init__(self, base: Base, ops: Sequence[Op]) -> None:
        self.base, self.ops = base, ops
        self.folders = {number for number, content in base.content.items() if content is None}
        self.changes: list[Change] = []
        self._next = len(base.content)
        self._disk = Disk(base)
        for index, op in enumerate(ops):
            for change in self._understand(op):
                change = change._replace(op=index)
                self.changes.append(change)
                self._disk.apply(change, op.time)
        self.end = self._disk.files(self.folders)

    def _lookup(self, path: str) -> Optional[int]:
        inode: Optional[int] = 0
        for name in path.split("/") if path else ():
            inode = self._disk.entries.get(inode, {}).get(name) if inode is not None else None
        return inode

    def _parent(self, path: str) -> tuple[Optional[int], str]:
        folder, _, name = path.rpartition("/")
        return self._lookup(folder), name

    def _new(self, folder: bool) -> int:
        self._next += 1
        if folder:
            self.folders.add(self._next)
            self._disk.entries[self._next] = {}
        return self._next

    def _understand(self, op: Op) -> list[Change]:
        """The changes of one call, as the kernel made them; none where it failed."""
        if op.kind == "say":
            return []
        if op.kind == "syncfs":
            return [Change(0, "syncfs")]
        parent, name = self._parent(op.path)
        inode = self._lookup(op.path)
        if op.kind in ("create", "mkdir"):
            if inode is not None or parent is None:
                return []
            return [Change(0, "entries", parent, ((name, self._new(op.kind == "mkdir")),))]
        if inode is None or parent is None:
            return []
        if op.kind == "sync":
            return [Change(0, "sync", inode)]
        if op.kind in ("unlink", "rmdir"):
            if (op.kind == "rmdir") != (inode in self.folders) or self._disk.entries.get(inode):
                return []
            return [Change(0, "entries", parent, ((name, None),))]
        if op.kind in ("rename", "link"):
            return self._rename(op, parent, name, inode)
        size = len(self._disk.content.get(inode, b""))
        if op.kind == "trunc":
            return [Change(0, "size", inode, offset=op.offset or 0)] if size != (op.offset or 0) else []
        return [Change(0, "bytes", inode, offset=size if op.offset is None else op.offset, data=op.data)]

    def _rename(self, op: Op, parent: int, name: str, inode: int) -> list[Change]:
        target, new = self._parent(op.other)
        there = self._lookup(op.other)
        if target is None or (there is not None and (op.kind == "link" or op.exclusive or there == inode)):
            return []  # (one link renamed over another of the same file: nothing happens)
        if op.kind == "link":
            return [Change(0, "entries", target, ((new, inode),))]
        if target == parent:
            return [Change(0, "entries", parent, ((name, None), (new, inode)))]
        # Two folders: each has its own share of it. The new name first, as file systems see to it.
        return [Change(0, "entries", target, ((new, inode),)), Change(0, "entries", parent, ((name, None),))]

    # What a cut leaves

    def durable(self, count: int) -> list[bool]:
        """For each change of the first `count` calls: whether a later one of them made it durable."""
        changes = self._until(count)
        found = [False] * len(changes)
        synced: set[int] = set()
        everything = False
        for index in range(len(changes) - 1, -1, -1):
            change = changes[index]
            everything |= change.kind == "syncfs"
            if change.kind == "sync":
                synced.add(change.inode)
            found[index] = everything or change.inode in synced
        return found

    def _until(self, count: int) -> list[Change]:
        return [change for change in self.changes if change.op < count]

    def cut(self, count: int, model: Model, seed: str = "") -> Files:
        """The disk after a power cut before call number `count` (from 0)."""
        chosen = _choose(self._until(count), self.durable(count), model, random.Random(seed))
        disk = Disk(self.base)
        for change in chosen:
            disk.apply(change, self.ops[change.op].time)
        return disk.files(self.folders)


def _choose(
    changes: Sequence[Change], durable: Sequence[bool], model: Model, rng: random.Random
) -> list[Change]:
    """The changes that reached the disk."""
    if model == "kept":
        return list(changes)
    if model == "ordered":
        return [change for change, safe in zip(changes, durable) if safe or change.kind != "bytes"]
    if model == "strict":
        return [change for change, safe in zip(changes, durable) if safe]
    pending = [index for index, safe in enumerate(durable) if not safe]
    # A third of the draws lacks exactly one change, a third has exactly one, a third is a coin for each.
    manner = rng.choice(("lacks", "has", "coin"))
    one = rng.choice(pending) if pending else -1
    likely = rng.choice((0.2, 0.5, 0.8))
    found: list[Change] = []
    for index, (change, safe) in enumerate(zip(changes, durable)):
        if safe or (manner == "lacks" and index != one) or (manner == "has" and index == one):
            found.append(change)
        elif manner == "coin" and rng.random() < likely:
            found.append(_torn(change, rng))
    return found


def _torn(change: Change, rng: random.Random) -> Change:
    """A write that reached the disk, perhaps in part, perhaps as a length of zeros."""
    if change.kind != "bytes" or rng.random() < 0.6:
        return change
    if rng.random() < 0.5:
        return change._replace(data=bytes(len(change.data)))
    return change._replace(data=change.data[: rng.randrange(len(change.data) + 1)])


def digest(files: Files, without: str = "") -> bytes:
    """What two disks have in common if they are the same one; time stamps do not count, nor does what lies below
    the folder `without`."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(files):
        if without and path.startswith(without):
            continue
        content = files[path].content
        kind = b"/" if content is None else b"=%d\0" % len(content)
        found.update(path.encode("utf-8", "surrogateescape") + b"\0" + kind + (content or b""))
    return found.digest()


def write_out(files: Files, folder: str) -> None:
    """Put a rebuilt disk into a new folder, time stamps in their order."""
    os.mkdir(folder)
    for path in sorted(files):
        content, mode, time = files[path]
        full = os.path.join(folder, path)
        if content is None:
            os.mkdir(full)
            continue
        descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, content) if content else None
        finally:
            os.close(descriptor)
        os.chmod(full, mode)
        os.utime(full, (time, time))


def read_in(folder: str) -> Files:
    """The files of a real folder, as `Disk.files` gives them."""
    base = Base(folder)
    folders = [number for number, content in base.content.items() if content is None]
    return Disk(base).files(folders)
