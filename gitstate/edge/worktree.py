"""Moving index and working tree from one commit to another without ever showing half a file.

git's own checkout writes files in place: killed, it leaves torn ones, and refuses the next try because of
them. So every file is first written elsewhere, whole, and then moved to its place; only then git is asked to
move, finds little left to write, and remains the judge of what may be replaced.
Killed anywhere, the same call finishes the move.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gitstate.edge import index
from gitstate.edge.git import DURABLE, Done, Git
from gitstate.edge.objects import Objects
from gitstate.edge.partial import fetch_missing
from gitstate.edge.repo import Repository
from gitstate.errors import NeedsHuman

REGULAR = ("100644", "100755")
LINK = "120000"
_SHOWN = 10  # names in one message
PATIENCE = index.PATIENCE  # seconds to wait for somebody else's lock on the index


_FREE, _ARRIVED, _BLOCKED = "free", "arrived", "blocked"


class Change(NamedTuple):
    """One path that differs between two trees. Mode "000000" and an id of zeros: it is not there."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str


def changes(git: Git, old: str, new: str) -> list[Change]:
    """What differs between two trees or commits, file by file, renames not guessed."""
    return _raw(git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new).out)


def move(git: Git, repository: Repository, objects: Objects, old: str, new: str) -> None:
    """Take index and working tree of the checked-out branch from `old` to `new` (commits or trees).

    Everything that the two have in common stays as the user has it, staged or not.
    Raises NeedsHuman, before anything is touched, where a local edit, a staged change or an untracked
    file stands in the way; ComeBackLater where another process holds the index.
    """
    with index.private_index(repository, PATIENCE) as private:
        _Mover(_Index(git, private), repository, objects, old, new).move()


def stamp(repository: Repository) -> tuple[int, int, int] | None:
    """Something that changes whenever the index is written."""
    seen = _lstat(os.path.realpath(os.path.join(repository.git_dir, "index")))
    return seen and (seen.st_ino, seen.st_mtime_ns, seen.st_size)


class _Index:
    """The user's index while we hold its lock: git works on a private file, which then becomes the index."""

    def __init__(self, git: Git, private: str) -> None:
        self.git = git
        self._env = {"GIT_INDEX_FILE": private}

    def refresh(self) -> None:
        """Let git look at every file whose time stamps moved, so that only real edits count as such."""
        self._run("update-index", "-q", "--refresh", check=False)

    def differs(self, *arguments: str) -> list[Change]:
        """`diff-index --cached TREE`: what is staged; `diff-files`: what is edited and not staged."""
        return _raw(self._run(*arguments, "-z", "--raw", "--no-renames", "--ignore-submodules").out)

    def stage(self, entries: Sequence[Change]) -> None:
        """Take over the new side of `entries`."""
        if entries:
            self._run("update-index", "-z", "--index-info", stdin=_entries(entries))

    def read_tree(self, *arguments: str) -> None:
        """Let git move index and files. Raises NeedsHuman, with git's words, if it will not."""
        done = self._run("read-tree", "-m", "-u", *arguments, check=False)
        if done.code:
            raise NeedsHuman(
                f"The working tree cannot be brought to what the remote has: {done.err.strip()}",
                "Commit it, or put it aside (git stash --include-untracked); then run `gitstate sync`.",
            )

    def _run(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> Done:
        options = (*DURABLE, "-c", "submodule.recurse=false")
        return self.git.run(*options, *arguments, stdin=stdin, env=self._env, check=check)


class Blocked(NeedsHuman):
    """Files stand where others have to go whose bytes nobody vouches for; `paths` are theirs."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = frozenset(paths)
        super().__init__(
            f"Changes of yours, not committed, are where the remote's have to go: {_names(paths)}.",
            "Commit them, or put them aside (git stash --include-untracked), run `gitstate sync`, "
            "and take them back (git stash pop).",
        )


class _Mover:
    """One move."""

    def __init__(self, held: _Index, repository: Repository, objects: Objects, old: str, new: str) -> None:
        self.index, self.git = held, held.git
        self.repository, self.objects = repository, objects
        self.old, self.new = old, new
        differing = changes(self.git, old, new)
        self.moving = [c for c in differing if "160000" not in (c.old_mode, c.new_mode)]
        self.before = {change.path: _lstat(self._full(change.path)) for change in self.moving}
        self.submodules = len(differing) > len(self.moving)

    def move(self) -> None:
        """See the module's `move`."""
        self.index.refresh()
        seen = self._look()
        blocked = [path for path, state in seen.items() if state is _BLOCKED]
        if blocked:
            raise Blocked(blocked)
        arrived = [change for change in self.moving if seen[change.path] is _ARRIVED]
        if len(arrived) == len(self.moving) and not self.submodules and self._is_staged(arrived):
            return  # a killed run had come this far
        self.index.stage(arrived)
        self.index.read_tree("-n", self.old, self.new)
        coming = [c for c in self.moving if seen[c.path] is _FREE and c.new_mode in (*REGULAR, LINK)]
        if coming and not os.path.exists(os.path.join(self.repository.git_dir, "info", "sparse-checkout")):
            fetch_missing(self.git, (change.new for change in coming))
            # Attributes say how the other files are to be written, so they come first.
            for group in (True, False):
                self._place([c for c in coming if c.path.endswith(".gitattributes") is group])
        self.index.read_tree(self.old, self.new)
        self.index.refresh()

    def _full(self, path: str) -> str:
        return os.path.join(self.repository.root, path)

    def _is_staged(self, arrived: Sequence[Change]) -> bool:
        other = {change.path for change in self.index.differs("diff-index", "--cached", self.new)}
        return other.isdisjoint(change.path for change in arrived)

    def _look(self) -> dict[str, str]:
        """What stands at each path: nothing or as `old` (free to be replaced), as `new`, or the user's."""
        staged = {c.path: c for c in self.index.differs("diff-index", "--cached", self.old)}
        dirty = {c.path for c in self.index.differs("diff-files")}
        state: dict[str, str] = {}
        to_hash: list[Change] = []
        for change in self.moving:
            entry, found = staged.get(change.path), self.before[change.path]
            indexed = (entry.new_mode, entry.new) if entry else (change.old_mode, change.old)
            arrived = indexed == (change.new_mode, change.new)
            if entry and not arrived:
                state[change.path] = _BLOCKED
            elif found is None or (_absent(indexed[0]) and stat.S_ISDIR(found.st_mode)):
                # Gone as it should be; or a folder in a file's place, which is left for git to judge.
                state[change.path] = _ARRIVED if arrived and _absent(change.new_mode) else _FREE
            elif change.path in dirty or _absent(indexed[0]):
                to_hash.append(change)
            else:
                state[change.path] = _ARRIVED if arrived else _FREE
        for change, oid in zip(to_hash, self._hash([change.path for change in to_hash])):
            here = _mode(self.before[change.path]), oid
            if here == (change.new_mode, change.new):
                state[change.path] = _ARRIVED
            else:
                state[change.path] = _FREE if here == (change.old_mode, change.old) else _BLOCKED
        return state

    def _hash(self, paths: Sequence[str]) -> list[str]:
        """The ids that git would give to what stands at `paths`, clean filters applied; "" for no file."""
        ids = dict.fromkeys(paths, "")
        plain = []
        for path in paths:
            if os.path.islink(self._full(path)):
                ids[path] = self.objects.oid("blob", os.fsencode(os.readlink(self._full(path))))
            elif os.path.isfile(self._full(path)) and "\n" not in path:
                plain.append(path)
        if plain:
            named = b"".join(os.fsencode(path) + b"\n" for path in plain)
            out = self.git.run("hash-object", "--stdin-paths", stdin=named).out.decode()
            ids.update(zip(plain, out.split()))
        return [ids[path] for path in paths]

    def _place(self, coming: Sequence[Change]) -> None:
        """Write files whole beside the working tree, move each to its path, and tell the index.

        A path that is not plain (below a symlink or a file, on another file system) is left for git, and so
        is one where something happened since it was first looked at: git then sees an edit and refuses.
        """
        if not coming:
            return
        folder = os.path.join(self.repository.git_dir, "gitstate", "forward.d")
        shutil.rmtree(folder, ignore_errors=True)  # of a killed run
        files = os.path.join(folder, "files")
        os.makedirs(files)
        own_index = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        self.git.run("update-index", "-z", "--index-info", stdin=_entries(coming), env=own_index)
        names = b"\0".join(os.fsencode(change.path) for change in coming)
        self.git.run("checkout-index", "-z", "--stdin", f"--prefix={files}/", stdin=names, env=own_index)
        for change in coming:
            if change.new_mode != LINK:
                self.objects.disk.cover(os.path.join(files, change.path))
        self.objects.barrier()
        plain: dict[str, bool] = {"": True}
        placed = []
        for change in coming:
            path = change.path
            if _plain(self.repository.root, os.path.dirname(path), plain) and _put(
                os.path.join(files, path), self._full(path), self.before[path]
            ):
                placed.append(change)
        self.index.stage(placed)
        shutil.rmtree(folder, ignore_errors=True)


def _plain(root: str, folder: str, known: dict[str, bool]) -> bool:
    """Whether no part of a folder's path is a symlink: what lies behind one is not ours to write."""
    if folder not in known:
        link = os.path.islink(os.path.join(root, folder))
        known[folder] = not link and _plain(root, os.path.dirname(folder), known)
    return known[folder]


def _put(source: str, target: str, before: os.stat_result | None) -> bool:
    """Put one file in its place, unless something has happened there since it was looked at."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if before is None:
            os.link(source, target, follow_symlinks=False)  # never replaces, unlike a rename
            return True
        now = _lstat(target)
        if now is None or _print(now) != _print(before):
            return False
        os.rename(source, target)
    except FileExistsError:
        return False
    except OSError:
        return before is None and _put_without_links(source, target)
    return True


def _put_without_links(source: str, target: str) -> bool:
    try:
        if os.path.lexists(target):
            return False
        os.rename(source, target)
    except OSError:
        return False
    return True


def _entries(entries: Iterable[Change]) -> bytes:
    """Lines for `update-index --index-info`; what is not in the new tree leaves the index."""
    return b"".join(f"{c.new_mode[-6:]} {c.new}\t".encode() + os.fsencode(c.path) + b"\0" for c in entries)


def _raw(out: bytes) -> list[Change]:
    """Parse git's `--raw -z` output."""
    parts = out.split(b"\0")
    found = []
    for head, path in zip(parts[::2], parts[1::2]):
        old_mode, new_mode, old, new, _ = head[1:].decode().split(" ")
        found.append(Change(os.fsdecode(path), old_mode, new_mode, old, new))
    return found


def _absent(mode: str) -> bool:
    return not mode.strip("0")


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _print(seen: os.stat_result) -> tuple[int, ...]:
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode


def _mode(seen: os.stat_result | None) -> str:
    if seen is None:
        return "000000"
    if stat.S_ISLNK(seen.st_mode):
        return LINK
    return REGULAR[bool(seen.st_mode & 0o100)]


def _names(paths: Mapping[str, str] | Sequence[str]) -> str:
    shown = ", ".join(sorted(paths)[:_SHOWN])
    return shown + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")
