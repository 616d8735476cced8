"""The local refs that remember what the remote has, and what a kill or a power cut made of them.

git forces what it fetched onto the disk, but neither its name nor these refs: after a power cut a ref may name
objects that are not here, or be a file that holds no id, and then every fetch fails. They are a memory only, so one
that is broken is forgotten and fetched again. No other ref is ever touched here.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Optional

from gitstate.edge.git import DURABLE, Git
from gitstate.edge.repo import LOG, RECEIPTS
from gitstate.errors import CorruptState

_SETTLED = 1.0  # seconds that a lock must stand unchanged to count as left behind


class Broken(NamedTuple):
    """A tracking ref that cannot be relied on: its name and the id that it holds (None: its file holds none)."""

    ref: str
    value: Optional[str]


class Seen(NamedTuple):
    """What tracking refs hold: the ids, by ref, and those that cannot be relied on."""

    held: dict[str, str]
    broken: list[Broken]


def unreadable(ref: str, value: Optional[str]) -> CorruptState:
    """The error where something is to be read by a tracking ref that is broken."""
    what = f"names {value}, which is not whole here" if value else "is a file that holds no id"
    drop = f"git update-ref -d {ref}" if value else f'rm "$(git rev-parse --git-path {ref})"'
    return CorruptState(
        f"{ref} {what}, so what was fetched cannot be read.",
        f"Fetch it again: gitstate sync. If that remote is gone, forget what it had: {drop}",
    )


def look(git: Git, refs: Sequence[str], branch: str) -> Seen:
    """What the tracking refs `refs` (full names) hold. Broken is one that does not name a whole history that is here.

    What our own notes, `branch` (full ref; "" for none) and HEAD reach is taken as here. What a shallow or partial
    clone lacks by right does not count as missing.
    """
    own = [RECEIPTS, LOG, *filter(None, [branch])]
    held = _read(git, [*refs, *own])
    known = {held[ref] for ref in own if ref in held}
    asked = [ref for ref in refs if ref in held and held[ref] not in known]
    if _is_whole(git, {held[ref] for ref in asked}, own):
        asked = []
    lacking = [Broken(ref, held[ref]) for ref in asked if not _is_whole(git, {held[ref]}, own)]
    paths = _paths(git.common_dir, [ref for ref in refs if ref not in held])
    return Seen(held, lacking + [Broken(ref, None) for ref, path in paths.items() if os.path.isfile(path)])


def forget(git: Git, found: Iterable[Broken]) -> list[str]:
    """Drop these refs where they still are as they were found; returns the names of those that are gone."""
    gone = []
    for ref, value in found:
        if value is None:
            done = _drop_file(git, ref)
        else:
            done = not git.run(*DURABLE, "update-ref", "--no-deref", "-d", ref, value, check=False).code
        gone += [ref] if done else []
    _drop_void(git)
    return gone


def clear_locks(common_dir: str, refs: Sequence[str], folders: Sequence[str] = ()) -> list[str]:
    """Remove the locks that a killed git has left on tracking refs: on `refs`, and on all below `folders` (full names).
    Returns the paths of those that were there.

    Whose they are cannot be told, but a fetch holds them for an instant, and these refs only remember what
    the remote has: taking one from a living fetch would cost a fetch, nothing else.
    """
    paths = [path + ".lock" for path in _paths(common_dir, refs).values()]
    for folder in _paths(common_dir, folders).values():
        paths += [
            os.path.join(above, name)
            for above, _, names in os.walk(folder)
            for name in names
            if name.endswith(".lock")
        ]
    before = {path: _written(path) for path in paths if _written(path) is not None}
    if before:
        time.sleep(_SETTLED)
    for path, written in before.items():
        if _written(path) == written:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return [*before]


def _read(git: Git, refs: Sequence[str]) -> dict[str, str]:
    listed = git.run("for-each-ref", "--format=%(refname) %(objectname)", *refs).out
    found = (line.split(" ") for line in os.fsdecode(listed).splitlines())
    return {ref: oid for ref, oid in found if ref in refs}


def _is_whole(git: Git, tips: Iterable[str], own: Iterable[str]) -> bool:
    """Whether everything that `tips` reach and `own` refs do not is here."""
    if not tips:
        return True
    # (only what follows --ignore-missing may be missing)
    walk = ("rev-list", "--objects", "--quiet", "--exclude-promisor-objects", *tips)
    walk += ("--ignore-missing", "--not", "HEAD", *own)
    # (a commit that is gone may still stand in git's commit graph)
    return git.run("-c", "core.commitGraph=false", *walk, check=False).code == 0


def _drop_file(git: Git, ref: str) -> bool:
    """Remove the file of a ref that holds no id: git's own commands refuse to. The ref's lock keeps git away."""
    (path,) = _paths(git.common_dir, [ref]).values()
    try:
        os.close(os.open(path + ".lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError:
        return False
    try:
        if ref in _read(git, [ref]):
            return False  # somebody mended it meanwhile
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return True
    finally:
        os.unlink(path + ".lock")


def _drop_void(git: Git) -> None:
    """Remove the loose objects' files that a power cut emptied or zeroed: nothing can be read from them, and git
    refuses to take the object in again while such a file stands there."""
    folder = git.text("rev-parse", "--path-format=absolute", "--git-path", "objects")
    for above in os.scandir(folder):
        for entry in os.scandir(above.path) if len(above.name) == 2 else ():
            with contextlib.suppress(OSError):
                with open(entry.path, "rb") as file:
                    void = file.read(1) in (b"", b"\0") and not file.read().strip(b"\0")
                if void:
                    os.unlink(entry.path)


def _paths(common_dir: str, refs: Sequence[str]) -> Mapping[str, str]:
    """The file in which git keeps each of these refs, where it is not packed."""
    return {ref: os.path.join(common_dir, *ref.split("/")) for ref in refs}


def _written(path: str) -> Optional[tuple[int, int]]:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
