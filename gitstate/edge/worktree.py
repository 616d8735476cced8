"""Moving index and working tree from one commit to another without ever showing half a file.

git's own checkout writes files in place: killed, it leaves torn ones, and refuses the next try because of them.
So every file is first written elsewhere, whole, and renamed to its place; the index learns it; and only then
git is asked to move, finds little left to write, and remains the judge of what may be replaced.
Killed anywhere, the same call finishes the move.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gitstate.edge.disk import Barrier
from gitstate.edge.git import DURABLE, Done, Git
from gitstate.edge.objects import Objects
from gitstate.edge.remote import fetch_missing
from gitstate.edge.repo import Repository
from gitstate.errors import ComeBackLater, NeedsHuman

REGULAR = ("100644", "100755")
LINK = "120000"
_SHOWN = 10  # names in one message
_INDEX_TRIES = 40  # × 50 ms: an editor's `git status` holds the index for less


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
    differing = changes(git, old, new)
    moving = [change for change in differing if "160000" not in (change.old_mode, change.new_mode)]
    before = {change.path: _lstat(os.path.join(repository.root, change.path)) for change in moving}
    _index(git, repository, "update-index", "-q", "--refresh")
    seen = _look(git, repository, objects, old, moving)
    blocked = [path for path, state in seen.items() if state is _BLOCKED]
    if blocked:
        raise NeedsHuman(
            f"Changes of yours, not committed, are where the remote's have to go: {_names(blocked)}.",
            "Commit them, or put them aside (git stash --include-untracked), run `gitstate sync`, "
            "and take them back (git stash pop).",
        )
    arrived = [change for change in moving if seen[change.path] is _ARRIVED]
    if len(arrived) == len(differing) and _is_staged(git, new, arrived):
        return  # a killed run had come this far
    _stage(git, repository, arrived)
    _read_tree(git, repository, "-n", old, new)
    coming = [
        change for change in moving if seen[change.path] is _FREE and change.new_mode in (*REGULAR, LINK)
    ]
    if coming and not os.path.exists(os.path.join(repository.git_dir, "info", "sparse-checkout")):
        fetch_missing(git, (change.new for change in coming))
        # Attributes say how the other files are to be written, so they come first.
        for group in (True, False):
            _place(git, repository, [c for c in coming if c.path.endswith(".gitattributes") is group], before)
    _read_tree(git, repository, "", old, new)
    _index(git, repository, "update-index", "-q", "--refresh")


def _is_staged(git: Git, new: str, arrived: Sequence[Change]) -> bool:
    other = {change.path for change in _raw(_index_diff(git, "diff-index", "--cached", new))}
    return other.isdisjoint(change.path for change in arrived)


_FREE, _ARRIVED, _BLOCKED = "free", "arrived", "blocked"


def _look(
    git: Git, repository: Repository, objects: Objects, old: str, moving: Sequence[Change]
) -> dict[str, str]:
    """What stands at each path: as `old` or nothing (free to be replaced), already as `new`, or the user's."""
    staged = {c.path: c for c in _raw(_index_diff(git, "diff-index", "--cached", old))}
    dirty = {c.path for c in _raw(_index_diff(git, "diff-files"))}
    state: dict[str, str] = {}
    to_hash: list[Change] = []
    for change in moving:
        entry = staged.get(change.path)
        indexed = (entry.new_mode, entry.new) if entry else (change.old_mode, change.old)
        arrived = indexed == (change.new_mode, change.new)
        found = _lstat(os.path.join(repository.root, change.path))
        if entry and not arrived:
            state[change.path] = _BLOCKED
        elif found is None or (_absent(indexed[0]) and stat.S_ISDIR(found.st_mode)):
            # Gone as it should be; or a folder in a file's place, which is left for git to judge.
            state[change.path] = _ARRIVED if arrived and _absent(change.new_mode) else _FREE
        elif change.path in dirty or _absent(indexed[0]):
            to_hash.append(change)
        else:
            state[change.path] = _ARRIVED if arrived else _FREE
    for change, oid in zip(to_hash, _hash(git, repository, objects, [c.path for c in to_hash])):
        mode = _mode(os.path.join(repository.root, change.path))
        if (mode, oid) == (change.new_mode, change.new):
            state[change.path] = _ARRIVED
        else:
            state[change.path] = _FREE if (mode, oid) == (change.old_mode, change.old) else _BLOCKED
    return state


def _hash(git: Git, repository: Repository, objects: Objects, paths: Sequence[str]) -> list[str]:
    """The ids that git would give to what stands at `paths`, after clean filters; "" where that is no file."""
    ids = dict.fromkeys(paths, "")
    plain = []
    for path in paths:
        full = os.path.join(repository.root, path)
        if os.path.islink(full):
            ids[path] = objects.oid("blob", os.fsencode(os.readlink(full)))
        elif os.path.isfile(full) and "\n" not in path:
            plain.append(path)
    if plain:
        named = b"".join(os.fsencode(path) + b"\n" for path in plain)
        out = git.run("hash-object", "--stdin-paths", stdin=named).out.decode()
        ids.update(zip(plain, out.split()))
    return [ids[path] for path in paths]


def _place(
    git: Git, repository: Repository, coming: Sequence[Change], before: Mapping[str, os.stat_result | None]
) -> None:
    """Write files whole beside the working tree, move each to its path, and tell the index.

    A path that is not plain (below a symlink or a file, on another file system) is left for git, and so is
    one where something happened since `before`: git then sees an edit and refuses.
    """
    if not coming:
        return
    folder = os.path.join(repository.git_dir, "gitstate", "forward.d")
    shutil.rmtree(folder, ignore_errors=True)  # of a killed run
    files = os.path.join(folder, "files")
    os.makedirs(files)
    index = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
    git.run("update-index", "-z", "--index-info", stdin=_entries(coming), env=index)
    names = b"\0".join(os.fsencode(change.path) for change in coming)
    git.run("checkout-index", "-z", "--stdin", f"--prefix={files}/", stdin=names, env=index)
    barrier = Barrier(files)
    for change in coming:
        if change.new_mode != LINK:
            barrier.cover(os.path.join(files, change.path))
    barrier.flush()
    barrier.close()
    plain: dict[str, bool] = {"": True}
    placed = []
    for change in coming:
        source, target = os.path.join(files, change.path), os.path.join(repository.root, change.path)
        if _plain(repository.root, os.path.dirname(change.path), plain) and _put(
            source, target, before[change.path]
        ):
            placed.append(change)
    _stage(git, repository, placed)
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


def _stage(git: Git, repository: Repository, arrived: Sequence[Change]) -> None:
    if arrived:
        _index(git, repository, "update-index", "-z", "--index-info", stdin=_entries(arrived), must=True)


def _entries(entries: Iterable[Change]) -> bytes:
    """Lines for `update-index --index-info`; what is not in the new tree leaves the index."""
    return b"".join(f"{c.new_mode[-6:]} {c.new}\t".encode() + os.fsencode(c.path) + b"\0" for c in entries)


def _read_tree(git: Git, repository: Repository, dry: str, old: str, new: str) -> None:
    arguments = ("read-tree", *((dry,) if dry else ()), "-m", "-u", old, new)
    done = _index(git, repository, *arguments)
    if done.code:
        raise NeedsHuman(
            f"The working tree cannot be brought to what the remote has: {done.err.strip()}",
            "Commit or put aside (git stash --include-untracked) what is in the way, then run `gitstate sync`.",
        )


def _index(git: Git, repository: Repository, *arguments: str, stdin: bytes = b"", must: bool = False) -> Done:
    """Run a command that writes the index; git does not wait for a held `index.lock`, so this does."""
    lock = os.path.join(repository.git_dir, "index.lock")
    for _ in range(_INDEX_TRIES):
        done = git.run(*DURABLE, "-c", "submodule.recurse=false", *arguments, stdin=stdin, check=False)
        if not done.code or not os.path.exists(lock):
            break
        time.sleep(0.05)
    else:
        raise ComeBackLater(
            f"Another process holds the index: {lock} exists.",
            "Let it finish. If no git is running here, it is left from one that died: remove the file.",
        )
    if done.code and must:
        raise NeedsHuman(f"The index cannot be written: {done.err.strip()}", "Look with: git status.")
    return done


def _index_diff(git: Git, *arguments: str) -> bytes:
    return git.run(arguments[0], "-z", "--raw", "--no-renames", "--ignore-submodules", *arguments[1:]).out


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


def _mode(path: str) -> str:
    seen = _lstat(path)
    if seen is None:
        return "000000"
    if stat.S_ISLNK(seen.st_mode):
        return LINK
    return REGULAR[bool(seen.st_mode & 0o100)]


def _names(paths: Mapping[str, str] | Sequence[str]) -> str:
    shown = ", ".join(sorted(paths)[:_SHOWN])
    return shown + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")
