"""The files that identities stand on: as committed, or, where that differs, as they stand in the working tree.

A file's id is the blob that git would commit (after clean filters), so a checkout with CRLF agrees with one
without. What is read is that blob's content too, never the checkout's.
"""

from __future__ import annotations

import bisect
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Optional

from blake3 import blake3

from gitstate.core.glob import is_glob, translate
from gitstate.edge.filters import quoted
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import Repository

_FEW = (
    256  # up to here files are read and hashed in process; above, git's own stat cache says which to look at
)


_SMALL = (
    1 << 20
)  # bytes of a file whose content is remembered; a plan of 100,000 items is parsed once and larger


class Tree(NamedTuple):
    """The files of one commit."""

    files: Mapping[str, str]  # regular files -> blob id
    others: Mapping[str, str]  # symbolic links and submodules -> mode


class Source(NamedTuple):
    """One file that an identity stands on."""

    blob: str  # what git would commit, hex
    dirty: bool  # not committed as it stands


def read_tree(git: Git, commit: Optional[str], id_length: int) -> Tree:
    """All files of `commit` (None: an empty tree). One git process, whatever the number."""
    if commit is None:
        return Tree({}, {})
    entries = git.run("ls-tree", "-r", "-z", commit).out.decode("utf-8", "surrogateescape").split("\0")
    # An entry reads "100644 blob ID<tab>PATH"; cutting at fixed places is what keeps 100,000 of them cheap.
    end = 12 + id_length
    files = {entry[end + 1 :]: entry[12:end] for entry in entries if entry.startswith("100")}
    others = {
        entry.partition("\t")[2]: entry[:6] for entry in entries if entry and not entry.startswith("100")
    }
    return Tree(files, others)


def blob_id(data: bytes, format: str) -> str:
    """The id of `data` as a blob, without any filter."""
    return hashlib.new(format, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Sources:
    """Looks at source files in the working tree beside one commit's tree; remembers what it saw."""

    def __init__(self, git: Git, repository: Repository, objects: Objects, tree: Tree) -> None:
        self._git, self._repository, self._objects, self._tree = git, repository, objects, tree
        self._found: dict[str, Optional[Source]] = {}
        self._content: dict[str, bytes] = {}  # of files that `text` was asked for

    def look(self, paths: Iterable[str], globs: Sequence[str] = ()) -> dict[str, Optional[Source]]:
        """What each path stands for; None where there is no such file, committed or not.

        `globs` say in a few words which paths are meant, for git, where the paths are many.
        """
        wanted = [path for path in dict.fromkeys(paths) if path not in self._found]
        if len(wanted) > _FEW:
            suspects = changed(self._git, globs) or set()
            for path in wanted:
                if path in self._tree.files and path not in suspects:
                    self._found[path] = Source(self._tree.files[path], False)
            wanted = [path for path in wanted if path not in self._found]
        unclear = [path for path in wanted if self._if_equals_head(path) is None]
        present = [path for path in unclear if self._is_regular(path)]
        for path, blob in zip(present, self._filtered(present)):
            self._found[path] = Source(blob, blob != self._tree.files.get(path))
        absent = [path for path in unclear if path not in self._found]
        sparse = self._sparse([path for path in absent if path in self._tree.files])
        for path in absent:
            self._found[path] = Source(self._tree.files[path], False) if path in sparse else None
        return {path: self._found[path] for path in paths}

    def text(self, path: str) -> Optional[bytes]:
        """The content that `path` has, or would have, as committed; None where there is no such file."""
        if path in self._content:
            return self._content[path]
        if path not in self._found and (data := self._if_equals_head(path)) is not None:
            if len(data) <= _SMALL:
                self._content[path] = data
            return data
        source = self.look([path])[path]
        if source is None:
            return None
        found = self._objects.read(source.blob)
        if found is not None:
            return found[1]
        with open(os.path.join(self._repository.root, path), "rb") as file:  # not committed yet
            return file.read()

    def dirty(self) -> list[str]:
        """The paths looked at so far that are not committed as they stand, sorted."""
        return sorted(path for path, source in self._found.items() if source is not None and source.dirty)

    def store(self, paths: Sequence[str]) -> None:
        """Write the blobs of files that are not committed into the object store, so that they can be read by id."""
        if paths:
            self._git.run(
                "hash-object", "-w", "--stdin-paths", stdin=b"".join(quoted(path) + b"\n" for path in paths)
            )

    def _if_equals_head(self, path: str) -> Optional[bytes]:
        """The bytes in the working tree if they are the committed blob as they are: no filter could say otherwise."""
        committed = self._tree.files.get(path)
        if committed is None or not self._is_regular(path):
            return None
        with open(os.path.join(self._repository.root, path), "rb") as file:
            data = file.read()
        if blob_id(data, self._repository.format) != committed:
            return None
        self._found[path] = Source(committed, False)
        return data

    def _is_regular(self, path: str) -> bool:
        full = os.path.join(self._repository.root, path)
        return os.path.isfile(full) and not os.path.islink(full)

    def _filtered(self, paths: Sequence[str]) -> list[str]:
        if not paths:
            return []
        names = b"".join(quoted(path) + b"\n" for path in paths)
        return self._git.run("hash-object", "--stdin-paths", stdin=names).out.decode().split()

    def _sparse(self, paths: Sequence[str]) -> set[str]:
        """Which of some absent files are absent because a sparse checkout leaves them out."""
        if not paths:
            return set()
        listed = self._git.run("ls-files", "-z", "-t", "--", *[f":(literal){path}" for path in paths])
        entries = listed.out.decode("utf-8", "surrogateescape").split("\0")
        return {entry[2:] for entry in entries if entry.startswith("S ")}


def fingerprint(
    git: Git, repository: Repository, paths: Sequence[str], globs: Sequence[str]
) -> dict[str, Optional[bytes]]:
    """What the working tree holds at `paths`: equal fingerprints under one HEAD mean that `look` finds the same.

    For many paths only those that git's stat cache suspects are read.
    """
    suspects = changed(git, globs) if len(paths) > _FEW else None
    chosen = paths if suspects is None else sorted(suspects.intersection(paths))
    # What files become when they are committed stands in these, too.
    folders = (
        {path[: at + 1] for path in paths for at in range(len(path)) if path[at] == "/"}
        if suspects is None
        else set()
    )
    attributes = [f"{folder}.gitattributes" for folder in ("", *sorted(folders))]
    common = repository.common_dir
    found = {path: _print(os.path.join(repository.root, path)) for path in (*chosen, *attributes)}
    for path in (os.path.join(common, "info", "attributes"), os.path.join(common, "config")):
        found[path] = _print(path)
    return found


def _print(path: str) -> Optional[bytes]:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b"not a regular file"
        with open(path, "rb") as file:
            return blake3(file.read()).digest()
    except OSError:
        return None


def uncommitted(git: Git, globs: Sequence[str]) -> list[str]:
    """The files that match `globs` (or more, where those are many), and that git neither tracks nor ignores."""
    if not globs:
        return []
    listed = git.run("ls-files", "-z", "--others", "--exclude-standard", "--", *_pathspecs(globs))
    return listed.out.decode("utf-8", "surrogateescape").split("\0")[:-1]


def changed(git: Git, globs: Sequence[str]) -> Optional[set[str]]:
    """Paths that may differ from HEAD: git's stat cache says so, their content decides. None: there is no HEAD."""
    listed = git.run("diff-index", "-z", "--name-only", "HEAD", "--", *_pathspecs(globs), check=False)
    if listed.code:
        return None
    return set(listed.out.decode("utf-8", "surrogateescape").split("\0"))


def _pathspecs(globs: Sequence[str]) -> list[str]:
    """`globs` for git's command line; nothing, which means all files, where they would not fit on it."""
    return [f":(glob){glob}" for glob in globs] if len(globs) <= _FEW else []


def match(globs: Iterable[str], paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The paths that each glob matches, sorted; a pattern without wildcards matches the file of that name."""
    found: dict[str, tuple[str, ...]] = {}
    ordered: Optional[list[str]] = None
    known = set(paths)
    for glob in dict.fromkeys(globs):
        if is_glob(glob):
            if ordered is None:
                ordered = sorted(known)
            prefix = re.split(r"[*?\[]", glob, maxsplit=1)[
                0
            ]  # per item there is a glob: look only where it can match
            start = bisect.bisect_left(ordered, prefix)
            end = bisect.bisect_left(ordered, prefix + "\U0010ffff")
            found[glob] = tuple(filter(translate(glob).fullmatch, ordered[start:end]))
        else:
            found[glob] = (glob,) if glob in known else ()
    return found
