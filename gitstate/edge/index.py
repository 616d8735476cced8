"""The user's index: it learns exactly our outputs' entries, and nothing else in it changes.

git's `index.lock` names no owner. Ours is a hard link to a file of our own, so that after a kill it can be
told from everybody else's, by identity and not by age.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from gitstate.edge.backoff import Backoff
from gitstate.edge.disk import flush
from gitstate.edge.git import DURABLE, Git, stream
from gitstate.edge.repo import Repository
from gitstate.edge.tree import Entry
from gitstate.errors import ComeBackLater

PATIENCE = 5.0  # seconds to wait for somebody else's lock
_MARK = b"gitstate holds this lock while its lock file says so\n"  # never the beginning of an index
_PRIVATE = "gitstate-index"
_PUT = (*DURABLE, "update-index", "-z", "--index-info")
_WATCHED = 10.0  # seconds; a living git needs milliseconds between reading the index and writing it


def lock_path(git_dir: str) -> str:
    """The lock file that everybody who writes the index of a working tree must create."""
    return os.path.join(git_dir, "index.lock")


def is_ours(path: str) -> bool:
    """Whether a lock file is one that `private_index` made."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MARK) + 1) == _MARK
    except OSError:
        return False


def clear(git_dir: str) -> list[str]:
    """Remove what a killed run of ours left of its work on the index; the caller holds the run lock.
    Returns the paths removed."""
    left = [os.path.join(git_dir, _PRIVATE), os.path.join(git_dir, _PRIVATE + ".lock")]
    if is_ours(lock_path(git_dir)):
        left.append(lock_path(git_dir))
    return remove(left)


def remove(paths: Iterable[str]) -> list[str]:
    """Remove files, so far as they are there. Returns the paths removed."""
    removed = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            removed.append(path)
    return removed


@contextlib.contextmanager
def private_index(repository: Repository, patience: Optional[float] = None) -> Iterator[str]:
    """Hold the index's lock; what the body makes of the file it is given becomes the index.

    For any git command that writes the index (GIT_INDEX_FILE). If the body raises, the index stays as it was.
    Raises ComeBackLater if somebody else holds the lock for more than `patience` seconds (PATIENCE).
    """
    with _held(repository, patience) as (index, private):
        _copy(index, private)
        yield private


@contextlib.contextmanager
def _held(repository: Repository, patience: Optional[float] = None) -> Iterator[tuple[str, str]]:
    """Hold the index's lock. Yields the paths of the index and of the private file that replaces it at the end."""
    index, private = _paths(repository)
    lock = lock_path(repository.git_dir)
    take(lock, owner_file(repository.state), time.monotonic() + (PATIENCE if patience is None else patience))
    try:
        yield index, private
        os.replace(private, index)
    finally:
        # (git leaves an unchanged index alone, and renaming one link over the other removes neither)
        _remove(private)
        if is_ours(lock):
            os.unlink(lock)


def _paths(repository: Repository) -> tuple[str, str]:
    """The index, behind any link, and the private file beside it."""
    return (
        os.path.realpath(os.path.join(repository.git_dir, "index")),
        os.path.join(repository.git_dir, _PRIVATE),
    )


def _remove(private: str) -> None:
    for leftover in (private, private + ".lock"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(leftover)


_Stamp = Optional[tuple[int, int, int]]


class _Ahead(NamedTuple):
    """An index in the making beside the real one: the git process, what it puts in, and what it began with."""

    process: subprocess.Popen[bytes]
    entries: Mapping[str, Entry]
    stamp: _Stamp


class Teacher:
    """Teaches the index what we record, and notices if it was made to forget."""

    def __init__(self, git: Git, repository: Repository) -> None:
        self._git, self._repository = git, repository
        self._stamp: _Stamp = None  # of the index as we left it
        self._seen: _Stamp = None  # of the index as it was when somebody last looked at what is staged in it
        self._ahead: Optional[_Ahead] = None
        # path -> what it learned, what was before, when (monotonic); the oldest first
        self._taught: dict[str, tuple[Entry, Optional[Entry], float]] = {}

    def look(self) -> None:
        """What is staged now is known to whoever records; what comes later is looked at before it is replaced."""
        self._seen = self._now()

    def begin(self, entries: Mapping[str, Entry]) -> None:
        """Let git make, beside the index and without its lock, what it is to be once it has learned `entries`.

        So the 5 to 10 ms that this takes pass while the disk is waited for, and the user's git finds the index locked
        for an instant only. The index itself does not change before `learn`.
        """
        self.give_up()
        index, private = _paths(self._repository)
        stamp = self._now()
        _copy(index, private)
        process = self._git.start(*_PUT, env={"GIT_INDEX_FILE": private})
        with contextlib.suppress(OSError):  # it has died: `learn` asks another one
            stream(process, "stdin").write(_lines(entries))
        with contextlib.suppress(OSError):
            stream(process, "stdin").close()
        process.stdin = None
        self._ahead = _Ahead(process, dict(entries), stamp)

    def give_up(self) -> None:
        """Nothing is to come of what was begun."""
        if self._ahead is not None:
            self._finish()
            _remove(_paths(self._repository)[1])

    def _finish(self) -> Optional[_Ahead]:
        """What was begun, now that its process has ended; None if it came to nothing."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        ahead.process.communicate()
        return None if ahead.process.returncode else ahead

    def learn(self, entries: Mapping[str, Entry], before: Mapping[str, Optional[Entry]]) -> None:
        """The index learns entries; all else that is staged stays as it is, also where somebody has staged something
        of their own at these very paths. `before` is what the branch held there.

        Raises ComeBackLater while somebody else has the index's lock.
        """
        ahead = self._finish()
        try:
            held = self._learn(entries, before, ahead)
        except ComeBackLater:
            _remove(_paths(self._repository)[1])
            raise
        now = time.monotonic()
        for path, entry in held.items():
            self._taught.pop(path, None)
            self._taught[path] = (entry, before.get(path), now)
        self._stamp = self._seen = self._now()

    def _learn(
        self, entries: Mapping[str, Entry], before: Mapping[str, Optional[Entry]], ahead: Optional[_Ahead]
    ) -> Mapping[str, Entry]:
        with _held(self._repository) as (index, private):
            if self._now() != self._seen:
                there = self._entries(index, list(entries))
                entries = {
                    path: entry
                    for path, entry in entries.items()
                    if there.get(path) in (before.get(path), entry)
                }
            # What was begun counts only if nobody has written the index since: under the lock, nobody does.
            if ahead is None or ahead.entries != entries or ahead.stamp != self._now():
                _copy(index, private)
                self._put(entries, private)
        return entries

    def mend(self) -> list[str]:
        """Teach again what was taught lately and is lost; returns those paths.

        `git commit` reads the index before it locks it. If we wrote in that instant, it writes the index
        without our entries; the user's next commit would then delete our outputs. Noticed by the file, which
        is no longer the one that we left. What the user took out on purpose, file and all, stays out.
        """
        if not self._taught or self._now() == self._stamp:
            return []
        self.give_up()
        with private_index(self._repository) as private:
            there = self._entries(private, list(self._taught))
            lost = {
                path: entry
                for path, (entry, before, _) in self._taught.items()
                if there.get(path) in (None, before)
                and there.get(path) != entry
                and os.path.lexists(os.path.join(self._repository.root, path))
            }
            if lost:
                self._put(lost, private)
        self._stamp = self._now()
        return list(lost)

    def forget(self) -> None:
        """What was taught a while ago is not watched any more."""
        since = time.monotonic() - _WATCHED
        while self._taught and next(iter(self._taught.values()))[2] < since:
            del self._taught[next(iter(self._taught))]

    def _put(self, entries: Mapping[str, Entry], private: str) -> None:
        self._git.run(*_PUT, stdin=_lines(entries), env={"GIT_INDEX_FILE": private})

    def _entries(self, file: str, paths: Sequence[str]) -> dict[str, Optional[Entry]]:
        """What an index holds at some paths (an unmerged one is like nothing that anybody wrote)."""
        env = {"GIT_INDEX_FILE": file, "GIT_LITERAL_PATHSPECS": "1"}
        found: dict[str, Optional[Entry]] = {}
        for start in range(0, len(paths), 200):
            done = self._git.run("ls-files", "-s", "-z", "--", *paths[start : start + 200], env=env)
            for line in os.fsdecode(done.out).split("\0")[:-1]:
                head, _, path = line.partition("\t")
                mode, oid, level = head.split(" ")
                found[path] = (mode, oid if level == "0" else "")
        return found

    def _now(self) -> _Stamp:
        try:
            found = os.stat(os.path.join(self._repository.git_dir, "index"))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _lines(entries: Mapping[str, Entry]) -> bytes:
    """Entries as `_PUT` reads them."""
    return os.fsencode("".join(f"{mode} {oid}\t{path}\0" for path, (mode, oid) in entries.items()))


def _copy(index: str, private: str) -> None:
    """Make `private` the index, time stamps included: git judges by them which entries it must look at again.
    git replaces index files and never writes into one, so a second link is as good as a copy."""
    _remove(private)
    try:
        os.link(index, private)
    except FileNotFoundError:
        pass  # nothing was ever added
    except OSError:
        shutil.copy2(index, private)


def owner_file(state: str) -> str:
    """The file that our locks are links to; made once, durable before its first use."""
    path = os.path.join(state, "lock-owner")
    if not is_ours(path):
        os.makedirs(state, exist_ok=True)
        temp = f"{path}.tmp"
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            os.write(descriptor, _MARK)
            flush(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temp, path)
    return path


def take(lock: str, owner: str, deadline: float) -> None:
    """Create a lock of git's that says it is ours; ComeBackLater if somebody else has it up to the deadline."""
    backoff = Backoff()
    while True:
        try:
            _create(lock, owner)
            return
        except FileExistsError:
            if time.monotonic() > deadline:
                raise ComeBackLater(
                    f"{lock} is held by another git process; the results are safe and not recorded yet.",
                    f"Let it finish and run again. If no git is running: rm '{lock}'",
                ) from None
        backoff.wait()


def _create(lock: str, owner: str) -> None:
    try:
        os.link(owner, lock)  # appears with its content, so that no kill leaves an empty one
    except FileExistsError:
        raise
    except OSError:  # no hard links here: the content marks it too
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MARK)
