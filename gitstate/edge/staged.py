"""What is about to be committed: the index against HEAD, and files as the index has them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional, cast

from gitstate.core.plan import Plan
from gitstate.core.snapshot import Receipts
from gitstate.edge.cache import Cache
from gitstate.edge.git import Done, Git, failed
from gitstate.edge.objects import Objects
from gitstate.edge.repo import RECEIPTS, Repository

if TYPE_CHECKING:
    from gitstate.edge.sources import Sources

_EMPTY_TREES = {  # git knows them without having them
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_DEPTHS = 4  # folders above a note's name; git makes a third one at some hundred thousand notes
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
    """The index of one commit in the making (GIT_INDEX_FILE, if git has set it)."""

    def __init__(self, repository: Repository, git: Git, objects: Objects) -> None:
        self._repository, self._git, self._objects = repository, git, objects

    def staged(self) -> Staged:
        """What the commit would add or change; what it would delete is left out."""
        done, born = self._against("HEAD"), True
        if done.code and self._objects.resolve("HEAD^{commit}") is None:
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
        return self._objects.resolve(f":{path}")

    def text(self, path: str) -> Optional[bytes]:
        """The content that the index has at `path`; None if there is no such file in it."""
        found = self._objects.read(f":{path}")
        return found[1] if found is not None else None

    def files(self) -> dict[str, str]:
        """All regular files of the index -> blob id."""
        entries = self._git.run("ls-files", "-s", "-z").out.decode("utf-8", "surrogateescape").split("\0")
        return {entry.partition("\t")[2]: entry.split(" ")[1] for entry in entries if entry.startswith("100")}

    def contents(self, blobs: Sequence[str]) -> Iterator[Optional[bytes]]:
        """The contents of blobs, in their order."""
        found = map(self._objects.read, blobs) if len(blobs) <= _FEW else self._objects.read_many(blobs)
        return (pair[1] if pair is not None else None for pair in found)

    def plan(self, cache: Cache, config: str) -> Plan:
        """The plan of the configuration `config`, both as the index has them. Raises ConfigError."""
        from gitstate.edge.snapshot import _plan  # 35 ms with what it imports; most commits need no plan
        from gitstate.edge.sources import Tree

        return _plan(
            cast("Sources", self), cache, Tree(self.files(), {}), config
        )  # asks it for nothing but `text`

    def receipts(self, cache: Cache) -> Receipts:
        """All receipts of this clone. Raises CorruptState for a line that is not whole."""
        from gitstate.core.receipt import Receipt, decode_receipt
        from gitstate.edge.snapshot import read_notes

        tree = self._objects.resolve(f"{RECEIPTS}^{{tree}}")
        notes = read_notes(self._git, self._objects, cache, RECEIPTS, tree, decode_receipt)
        return Receipts(
            {blob: [Receipt._make(line) for line in lines] for blob, lines in notes.lines.items()}
        )

    def merged(self) -> list[str]:
        """The commits that are being merged into HEAD."""
        try:
            with open(os.path.join(self._repository.git_dir, "MERGE_HEAD"), encoding="ascii") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def came_with(self, commits: Iterable[str], change: Change) -> bool:
        """Whether one of `commits` has the same content at the same path."""
        return any(self._objects.resolve(f"{commit}:{change.path}") == change.blob for commit in commits)


def note_lines(objects: Objects, blob: str) -> list[bytes]:
    """The lines of the receipts' note on one blob, looked up by name at each fan-out."""
    lines: list[bytes] = []
    for depth in range(_DEPTHS):
        name = "/".join([*(blob[2 * level : 2 * level + 2] for level in range(depth)), blob[2 * depth :]])
        found = objects.read(f"{RECEIPTS}:{name}")
        if found is not None and found[0] == "blob":
            lines += found[1].split(b"\n")
    return lines
