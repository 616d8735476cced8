"""Looking before anything is paid for or replaced: what stands at an output's path, and who vouches for it (P5)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Optional

from blake3 import blake3

from gitstate.core.derive import Status
from gitstate.core.snapshot import Snapshot
from gitstate.edge.git import Git, failed
from gitstate.edge.repo import Repository
from gitstate.edge.sources import blob_id
from gitstate.errors import ConfigError, GitFailed, Place, Problem

_MANY = 16  # names in one folder from which listing it is cheaper than looking at each: 10 instead of 30 ms for 10,000


_NO_FILE = b"\0not a regular file"


class Standing(NamedTuple):
    """What stands at a work's output paths now."""

    before: tuple[
        Optional[str], ...
    ]  # BLAKE3 of each file's bytes; None where there is none, or an empty one
    foreign: tuple[str, ...]  # paths whose bytes neither HEAD nor a receipt of this work vouches for
    blocked: tuple[
        str, ...
    ]  # paths at which no file can be put: a folder, a link or a device is there, or above


def check_outputs(repository: Repository, git: Git, statuses: Iterable[Status]) -> None:
    """Raise ConfigError if an output that is still to be made is ignored by git or lies behind a symbolic link."""
    paths = [path for status in statuses for path in status.outputs]
    problems = [*_linked(repository.root, paths), *_ignored(git, paths)]
    if problems:
        raise ConfigError(problems)


def _linked(root: str, paths: Sequence[str]) -> Iterable[Problem]:
    names: dict[str, set[str]] = {}  # by folder: what of it must not be a link, folders included
    for path in paths:
        folder, _, name = path.rpartition("/")
        while folder and folder not in names:
            names[folder] = {name}
            folder, _, name = folder.rpartition("/")
        names.setdefault(folder, set()).add(name)
    for folder in sorted(names):
        for name in sorted(_links(os.path.join(root, folder), names[folder])):
            place = f"{folder}/{name}" if folder else name
            yield Problem(
                Place(place),
                "is a symbolic link, and an output must not be written through one.",
                "Put a real folder or file there, or change `output`.",
            )


def _links(folder: str, names: set[str]) -> set[str]:
    """Which of some names in a folder are symbolic links."""
    if len(names) < _MANY:
        return {name for name in names if os.path.islink(os.path.join(folder, name))}
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_symlink()} & names
    except OSError:  # not there yet, or not a folder
        return set()


def _ignored(git: Git, paths: Sequence[str]) -> Iterable[Problem]:
    fields = _matched(git, paths)
    for file, line, pattern, path in zip(fields[0::4], fields[1::4], fields[2::4], fields[3::4]):
        if pattern.startswith("!"):
            continue  # a pattern that takes the path out of what is ignored
        yield Problem(
            Place(file or "an exclude file", int(line or 0)),
            f"{pattern!r} makes git ignore the output {path}, so it could never be committed.",
            "Change the pattern or `output`.",
        )


def ignored(git: Git, paths: Sequence[str]) -> set[str]:
    """Those of some paths that git ignores. A path that git will not speak about (one beyond a symbolic link, or in a
    nested repository) is none."""
    try:
        fields = _matched(git, paths, check=True)
    except GitFailed:
        if len(paths) == 1:
            return set()
        half = len(paths) // 2
        return ignored(git, paths[:half]) | ignored(git, paths[half:])
    return {path for pattern, path in zip(fields[2::4], fields[3::4]) if not pattern.startswith("!")}


def _matched(git: Git, paths: Sequence[str], check: bool = False) -> list[str]:
    """What `git check-ignore -v` says of those paths that are not tracked: file, line, pattern, path.

    What is tracked is never ignored, but for each path that git holds against its index it goes through all of the
    index: 1.1 s for 10,000 paths, 0.01 s without it. So the index is asked only about those that a pattern matches.
    """
    return _check_ignore(git, _check_ignore(git, paths, check, "--no-index")[3::4], check)


def _check_ignore(git: Git, paths: Sequence[str], check: bool, *options: str) -> list[str]:
    """What `git check-ignore -v` says of `paths`: file, line, pattern and path of each that a pattern matches."""
    if not paths:
        return []
    # Sorted, because git reads a folder's own .gitignore each time it comes to the folder.
    names = "\0".join(sorted(paths)).encode("utf-8", "surrogateescape") + b"\0"
    arguments = ("check-ignore", *options, "-z", "-v", "--stdin")
    done = git.run(*arguments, stdin=names, check=False)
    if check and done.code not in (0, 1):
        raise failed(arguments, done)
    return done.out.decode("utf-8", "surrogateescape").split("\0")


def look(
    repository: Repository, git: Git, snapshot: Snapshot, status: Status, staged: Mapping[str, str]
) -> Standing:
    """What stands at a work's output paths in the working tree and, by `staged`, in the index."""
    before: list[Optional[str]] = []
    foreign = []
    for path in status.outputs:
        data = content(repository.root, path)
        before.append(blake3(data).hexdigest() if data else None)
        if (data and not _vouched(repository, git, snapshot, status, path, data)) or (
            path in staged and not _known(snapshot, status, path, staged[path])
        ):
            foreign.append(path)
    blocked = tuple(path for path in status.outputs if content(repository.root, path) == _NO_FILE)
    return Standing(tuple(before), tuple(foreign), blocked)


def content(root: str, path: str) -> Optional[bytes]:
    """The bytes at a path of the working tree; None if there is nothing. Anything but a file counts as bytes."""
    full = os.path.join(root, path)
    try:
        mode = os.lstat(full).st_mode
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return _NO_FILE
    if not stat.S_ISREG(mode):
        return _NO_FILE
    with open(full, "rb") as file:
        return file.read()


def unchanged(root: str, path: str, before: Optional[str]) -> bool:
    """Whether a path still holds what `look` saw there."""
    data = content(root, path)
    return (blake3(data).hexdigest() if data else None) == before


def staged_changes(git: Git, head: Optional[str]) -> dict[str, str]:
    """What the index holds that HEAD does not: path -> blob id, all zero where the file was removed."""
    if head is None:
        entries = git.run("ls-files", "-s", "-z").out.decode("utf-8", "surrogateescape").split("\0")
        return {entry.partition("\t")[2]: entry.split(" ")[1] for entry in entries if entry}
    fields = git.run("diff-index", "--cached", "-z", "--no-renames", head).out.decode(
        "utf-8", "surrogateescape"
    )
    parts = fields.split("\0")
    return {path: change.split(" ")[3] for change, path in zip(parts[::2], parts[1::2])}


def _vouched(
    repository: Repository, git: Git, snapshot: Snapshot, status: Status, path: str, data: bytes
) -> bool:
    if _known(snapshot, status, path, blob_id(data, repository.format)):
        return True
    # A filter may stand between these bytes and the blob that was committed.
    full = os.path.join(repository.root, path)
    if os.path.islink(full) or not os.path.isfile(full):
        return False
    return _known(snapshot, status, path, git.text("hash-object", "--", path))


def _known(snapshot: Snapshot, status: Status, path: str, blob: str) -> bool:
    """Whether HEAD holds this blob at this path, or a receipt of this work names it for this output."""
    if snapshot.tree.get(path) == blob or blob == snapshot.empty:
        return True
    position = status.outputs.index(path)
    return any(
        position < len(receipt.outputs) and receipt.outputs[position][1] == blob
        for receipt in snapshot.receipts.of(status.slug, status.stage)
    )
