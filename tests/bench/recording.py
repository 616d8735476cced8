"""Recording, timed: what a run does from a judged answer until its record is on the disk. Beside it a bare script
puts the same bytes on the same disk in the same order, behind the same barriers, with no git, no derivation and no
check around it.

Usage: recording.py REPOSITORY COPY SIZE ROUNDS; prints the wall seconds of each round as JSON. COPY is a copy of
REPOSITORY, and equal to it again at the end: the bare script writes all that a record consists of, index included.
What only serves a crash in the middle (the record of the attempt, the journal, locks) is written by gitstate alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from gitstate.commands.attempting import judge, prepare
from gitstate.commands.judging import Judged
from gitstate.commands.lines import stamp
from gitstate.commands.locked import locked
from gitstate.commands.session import Session
from gitstate.commands.settling import settle
from gitstate.core.derive import Status
from gitstate.edge.attempts import Spooled

_BRANCH = "refs/heads/main"
_REFS = ("refs/notes/gitstate", _BRANCH)  # in the order in which they move
_LOGS = (".git/logs/HEAD", *(f".git/logs/{ref}" for ref in _REFS))


class Left(NamedTuple):
    """What one recording left on the disk, by path below the repository."""

    outputs: Mapping[str, bytes]
    objects: Mapping[str, bytes]  # uncompressed
    index: bytes
    logs: Mapping[str, bytes]  # what was appended
    refs: Mapping[str, bytes]


def main(repository: str, copy: str, size: int, rounds: int) -> dict[str, list[float]]:
    """The seconds of each round, "ours" and "floor" in turns. Raises AssertionError if the two end up different."""
    os.chdir(repository)
    found: dict[str, list[float]] = {"ours": [], "floor": []}
    sync = _sync(copy)
    with locked("gitstate.yaml") as clone, closing(Session(clone, _BRANCH, True)) as session:
        due = iter([status for status in session.statuses.values() if status.state == "pending"])
        for _ in range(rounds):
            group = [_answered(session, next(due)) for _ in range(size)]
            before = _Before(repository)
            found["ours"].append(_recorded(session, group))
            left = before.what_came(group)
            began = time.perf_counter()
            bare(copy, left, sync)
            found["floor"].append(time.perf_counter() - began)
    _same(repository, copy)
    return found


def _answered(session: Session, status: Status) -> Judged:
    """A work whose answer has arrived and passed, as recording finds it: begun, spooled, judged."""
    prepared = prepare(session, status, False)
    assert len(prepared) == 2, prepared
    intent, job = prepared
    session.attempts.begin(intent)
    facts = {"ended_by": "exit", "code": 0, "signal": None, "missing": [], "usage": {}}
    facts.update(stdout="", stderr="", filed=False)
    spooled = Spooled((job.stdin,), 1.0, facts, stamp())
    session.attempts.spool(intent.attempt, spooled)
    return judge(session, intent, spooled)


def _recorded(session: Session, group: Sequence[Judged]) -> float:
    """Record a group; the seconds until all of it is on the disk, and what is no longer needed is removed next."""
    remove = session.attempts.remove
    ended = 0.0

    def removing(attempts: Iterable[str]) -> None:
        nonlocal ended
        ended = time.perf_counter()
        remove(attempts)

    session.attempts.remove = removing  # type: ignore[method-assign]
    began = time.perf_counter()
    settled = settle(session, group)
    session.attempts.remove = remove  # type: ignore[method-assign]
    assert [work.how for work in settled] == ["done"] * len(group), settled
    return ended - began


# The floor


def bare(folder: str, left: Left, sync: Callable[[], object]) -> None:
    """Write what one recording left: outputs, objects, barrier, index, refs, barrier."""
    for path, data in left.outputs.items():
        _write(os.path.join(folder, path), data)
        _flush(os.path.dirname(os.path.join(folder, path)))
    for path, data in left.objects.items():
        _write(os.path.join(folder, path), zlib.compress(data, 1), flushed=False)
    sync()
    _write(os.path.join(folder, ".git", "index"), left.index)
    _flush(os.path.join(folder, ".git"))
    for path, line in left.logs.items():
        with open(os.path.join(folder, path), "ab") as file:
            file.write(line)
    for path, value in left.refs.items():
        _write(os.path.join(folder, path), value)
    sync()


def _write(path: str, data: bytes, flushed: bool = True) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".lock", "xb", buffering=0) as file:
        file.write(data)
        if flushed:
            os.fsync(file.fileno())
    os.rename(path + ".lock", path)


def _flush(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _sync(folder: str) -> Callable[[], object]:
    """The barrier: all that was written to the file system of `folder` is on the disk."""
    if sys.platform != "linux":
        return os.sync
    call, descriptor = ctypes.CDLL(None).syncfs, os.open(folder, os.O_RDONLY)
    return lambda: call(descriptor)


# What to write


class _Before:
    """A repository before a recording."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.objects = set(self._objects())
        self.sizes = {path: _size(os.path.join(folder, path)) for path in _LOGS}

    def _objects(self) -> Iterator[str]:
        for place, _, names in os.walk(os.path.join(self.folder, ".git/objects")):
            if len(os.path.basename(place)) == 2:
                yield from (os.path.relpath(os.path.join(place, name), self.folder) for name in names)

    def what_came(self, group: Sequence[Judged]) -> Left:
        """What has come since."""
        return Left(
            {path: data for one in group for path, data in zip(one.intent.outputs, one.outputs)},
            {path: zlib.decompress(self._read(path)) for path in self._objects() if path not in self.objects},
            self._read(".git/index"),
            {path: self._read(path)[self.sizes[path] :] for path in _LOGS},
            {f".git/{ref}": self._read(f".git/{ref}") for ref in _REFS},
        )

    def _read(self, path: str) -> bytes:
        with open(os.path.join(self.folder, path), "rb") as file:
            return file.read()


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


def _same(repository: str, copy: str) -> None:
    """Raise AssertionError unless the copy is as whole as the repository: refs, objects, index and files."""
    for command in (("for-each-ref",), ("ls-files", "-s"), ("ls-tree", "-r", "HEAD"), ("fsck", "--full")):
        ours, floor = (
            subprocess.run(("git", *command), cwd=place, capture_output=True, check=True).stdout
            for place in (repository, copy)
        )
        assert ours == floor, command
    subprocess.run(("git", "update-index", "-q", "--refresh"), cwd=copy, check=True)
    assert not subprocess.check_output(("git", "status", "--porcelain"), cwd=copy)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
