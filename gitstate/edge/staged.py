"""What is about to be committed: the index against HEAD, and files and receipts read by name.

Made for the pre-commit hook, which is run at every commit: what most commits do not need is imported late.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional, cast

from gitstate.edge.cache import Cache
from gitstate.edge.child import Child
from gitstate.edge.git import Done, Git, failed
from gitstate.edge.repo import RECEIPTS, Repository
from gitstate.errors import GitFailed

if TYPE_CHECKING:
    from gitstate.core.plan import Plan
    from gitstate.core.snapshot import Receipts
    from gitstate.edge.objects import Objects
    from gitstate.edge.sources import Sources

_EMPTY_TREES = {  # git knows them without having them
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_DEPTHS = 4  # folders above a note's name, and none; git makes a third one at some hundred thousand notes
_FEW = 64  # up to here one process is asked in turn; above, a process of its own streams the answers


class Change(NamedTuple):
    """One path that the commit would add or change."""

    path: str
    mode: str  # as git writes it, like 100644
    blob: str
    before: Optional[str]  # HEAD's blob at the path


class Staged(NamedTuple):
    """All that the commit would add or change, and whether there is a commit before it."""

    changes: list[Change]
    born: bool


class Index:
    """The index of one commit in the making (GIT_INDEX_FILE, if git has set it), beside the receipts."""

    def __init__(self, repository: Repository, git: Git) -> None:
        self._repository, self._git = repository, git
        self._reader = _Reader(git)
        self._objects: Optional[Objects] = None

    def close(self) -> None:
        """End the processes."""
        self._reader.close()
        if self._objects is not None:
            self._objects.close()

    def staged(self) -> Staged:
        """What the commit would add or change; what it would delete is left out."""
        done, born = self._against("HEAD"), True
        if done.code and self._reader.resolve("HEAD^{commit}") is None:
            done, born = self._against(_EMPTY_TREES[self._repository.format]), False
        if done.code:
            raise failed(("diff-index", "--cached"), done)
        fields = done.out.decode("utf-8", "surrogateescape").split("\0")
        changes = []
        for change, path in zip(fields[::2], fields[1::2], strict=False):
            _, mode, before, blob, status = change.split(" ")
            if status[0] in "AMT":
                changes.append(Change(path, mode, blob, before if before.strip("0") else None))
        return Staged(changes, born)

    def _against(self, tree: str) -> Done:
        # Without --ita-invisible-in-index a path that is only intended to be added looks like an empty file.
        options = ("--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--ita-invisible-in-index")
        return self._git.run("diff-index", *options, tree, "--", check=False)

    def id(self, path: str) -> Optional[str]:
        """The blob that the index has at `path`; None if there is no such file in it."""
        return self._reader.resolve(f":{path}")

    def text(self, path: str) -> Optional[bytes]:
        """The content that the index has at `path`; None if there is no such file in it."""
        return self._reader.read(f":{path}")

    def contents(self, blobs: Sequence[str]) -> Iterator[Optional[bytes]]:
        """The contents of blobs, in their order."""
        if len(blobs) <= _FEW:
            return map(self._reader.read, blobs)
        return (found[1] if found is not None else None for found in self._store().read_many(blobs))

    def note_lines(self, blob: str) -> list[bytes]:
        """The lines of the receipts' note on one blob, looked up by name at each fan-out."""
        lines: list[bytes] = []
        for depth in range(_DEPTHS):
            folders = [blob[2 * level : 2 * level + 2] for level in range(depth)]
            found = self._reader.read(f"{RECEIPTS}:{'/'.join([*folders, blob[2 * depth :]])}")
            if found is not None:
                lines += found.split(b"\n")
        return lines

    def plan(self, cache: Cache, config: str) -> Plan:
        """The plan of the configuration `config`, both as the index has them. Raises ConfigError."""
        # 35 ms with what it imports.
        from gitstate.edge.planning import read_plan
        from gitstate.edge.sources import Tree

        listed = self._git.run("ls-files", "-s", "-z").out.decode("utf-8", "surrogateescape").split("\0")
        entries = [entry for entry in listed if entry.startswith("100")]  # regular files
        files = {entry.partition("\t")[2]: entry.split(" ")[1] for entry in entries}
        # It asks its sources for nothing but `text`.
        plan, _ = read_plan(cast("Sources", self), cache, Tree(files, {}), config)
        return plan

    def receipts(self, cache: Cache) -> Receipts:
        """All receipts of this clone. Raises CorruptState for a line that is not whole."""
        from gitstate.core.receipt import plain_receipt
        from gitstate.core.snapshot import Receipts
        from gitstate.edge.snapshot import read_notes

        objects = self._store()
        tree = objects.resolve(f"{RECEIPTS}^{{tree}}")
        notes = read_notes(self._git, objects, cache, RECEIPTS, tree, plain_receipt)
        return Receipts.of_plain(notes.lines)

    def merged(self) -> list[str]:
        """The commits that are being merged into HEAD."""
        try:
            with open(os.path.join(self._repository.git_dir, "MERGE_HEAD"), encoding="ascii") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def came_with(self, commits: Iterable[str], change: Change) -> bool:
        """Whether one of `commits` has the same content at the same path."""
        return any(self._reader.resolve(f"{commit}:{change.path}") == change.blob for commit in commits)

    def _store(self) -> Objects:
        if self._objects is None:
            from gitstate.edge.objects import Objects

            self._objects = Objects(self._git, self._repository)
        return self._objects


class _Reader:
    """Reading a few objects by name. `Objects` does that and more, and with it costs 8 ms of imports."""

    def __init__(self, git: Git) -> None:
        # A partial clone would otherwise fetch what it lacks object by object.
        self._child = Child(git, "cat-file", "--batch-command", env={"GIT_NO_LAZY_FETCH": "1"})

    def read(self, name: str) -> Optional[bytes]:
        """The content of the blob that `name` stands for; None if there is none."""
        fields = self._ask(b"contents", name)
        if len(fields) != 3:
            return None
        data = self._child.take(int(fields[2]) + 1)[:-1]
        return data if fields[1] == b"blob" else None

    def resolve(self, name: str) -> Optional[str]:
        """The id of the object that `name` stands for; None if there is none."""
        fields = self._ask(b"info", name)
        return fields[0].decode("ascii") if len(fields) == 3 else None

    def _ask(self, command: bytes, name: str) -> list[bytes]:
        if "\n" in name:
            return []
        self._child.send(b"%s %s\n" % (command, os.fsencode(name)))
        header = self._child.line()
        if header.endswith((b" missing", b" submodule")):
            return []
        fields = header.split(b" ")
        if len(fields) != 3 or not fields[2].isdigit():
            raise GitFailed(f"git cannot tell what this is: {header.decode('utf-8', 'replace')}")
        return fields

    def close(self) -> None:
        """End the process."""
        self._child.close()
