"""Blob ids of working-tree files as git would store them: after its clean filters, without a process each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from gitstate.edge.child import Child
from gitstate.edge.git import DURABLE, Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import Repository
from gitstate.errors import CorruptState, GitFailed, UsageError

_ATTRIBUTES = ("text", "crlf", "eol", "filter", "ident", "working-tree-encoding")
_OFF = ("unspecified", "unset")
_ROUND = 100  # paths asked about at once; their answers fit into a pipe
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

_Stamp = Optional[tuple[int, int, int, int]]


class Filters:
    """Decides by attributes and configuration which files git must convert, and hashes the others itself."""

    def __init__(self, git: Git, repository: Repository, objects: Objects, config: Mapping[str, str]) -> None:
        """`config`: core.autocrlf and core.attributesFile where set, by their lower-case names."""
        self._git, self._root, self._objects = git, repository.root, objects
        self._autocrlf = config.get("core.autocrlf", "false").lower() not in ("false", "no", "off", "0")
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        self._files = (
            os.path.join(repository.common_dir, "info", "attributes"),
            os.path.expanduser(config.get("core.attributesfile", os.path.join(home, "git", "attributes"))),
            "/etc/gitattributes",
        )
        self._seen: dict[str, _Stamp] = {}
        self._child: Optional[Child] = None

    def blobs(self, paths: Sequence[str]) -> list[str]:
        """The ids of these files' contents as committed, the objects written. Raises OSError for a file that
        is not there or is a symlink, UsageError for a path that git cannot be given."""
        found: dict[str, str] = {}
        converted = []
        for path, kind in zip(paths, self._kinds(paths), strict=True):
            data = _content(os.path.join(self._root, path))
            # Line ends are the most common conversion, and do nothing where no line ends in CR LF.
            if kind == "none" or (kind == "line ends" and b"\r" not in data):
                found[path] = self._objects.write("blob", data, new=True)
            else:
                converted.append(path)
        if converted:
            found.update(zip(converted, self._by_git(converted), strict=True))
        return [found[path] for path in paths]

    def _by_git(self, paths: Sequence[str]) -> list[str]:
        names = b"".join(quoted(path) + b"\n" for path in paths)
        for last in (False, True):
            done = self._git.run(
                *DURABLE, "-c", "core.safecrlf=false", "hash-object", "-w", "--stdin-paths", stdin=names
            )
            oids = done.out.decode("ascii").split()
            # git takes a file that a power cut tore for the object; `rely` removes it, and git is asked anew
            torn = [oid for oid in oids if not self._objects.rely(oid) and self._objects.resolve(oid) is None]
            if not torn:
                return oids
            if last:
                raise CorruptState(
                    f"git wrote object {torn[0]} and it cannot be read.", "Look with: git fsck."
                )
        raise AssertionError

    def _kinds(self, paths: Sequence[str]) -> list[str]:
        """For each path what git would do to it: "none", "line ends" or "filter"."""
        self._notice_changes(paths)
        kinds: list[str] = []
        try:
            for start in range(0, len(paths), _ROUND):
                kinds += self._ask(paths[start : start + _ROUND])
        except GitFailed:
            kinds.clear()  # an interrupt from the terminal ends our children too: once more
            self.close()
            for start in range(0, len(paths), _ROUND):
                kinds += self._ask(paths[start : start + _ROUND])
        except BaseException:
            self.close()
            raise
        return kinds

    def _ask(self, paths: Sequence[str]) -> Iterable[str]:
        if self._child is None:
            self._child = Child(self._git, "check-attr", "--stdin", *_ATTRIBUTES)
        self._child.send(b"".join(quoted(path) + b"\n" for path in paths))
        for _ in paths:
            values = [self._child.line().rpartition(b": ")[2].decode("utf-8", "replace") for _ in _ATTRIBUTES]
            yield self._kind(*values)

    def _kind(self, text: str, crlf: str, eol: str, filter: str, ident: str, encoding: str) -> str:
        if not (filter in _OFF and ident in _OFF and encoding in _OFF):
            return "filter"
        if text == "unspecified":
            text = crlf  # its old name
        if text == "unset" or (text == eol == "unspecified" and not self._autocrlf):
            return "none"
        return "line ends"

    def _notice_changes(self, paths: Sequence[str]) -> None:
        """The process that stays keeps what it read; a changed attributes file means a new process."""
        folders = {""}
        for path in paths:
            folder = os.path.dirname(path)
            while folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)
        files = (os.path.join(self._root, folder, ".gitattributes") for folder in folders)
        for file in (*files, *self._files):
            stamp = _stamp(file)
            if self._seen.setdefault(file, stamp) != stamp:
                self._seen[file] = stamp
                self.close()

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.close()
            self._child = None


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(path: str) -> bytes:
    with os.fdopen(os.open(path, _FLAGS), "rb") as file:
        return file.read()


def quoted(path: str) -> bytes:
    """A path as git's `--stdin` modes without -z read it. Raises UsageError for one with a line break."""
    name = os.fsencode(path)
    if b"\n" in name:
        raise UsageError(f"git cannot be asked about a path with a line break: {path!r}", "Rename the file.")
    if name.startswith(b'"'):
        return b'"' + name.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return name
