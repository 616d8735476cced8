"""The user's index: it learns exactly our outputs' entries, and nothing else in it changes.

git's `index.lock` names no owner. Ours is a hard link to a file of our own, so that after a kill it can be
told from everybody else's, by identity and not by age.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping

from gitstate.edge.backoff import Backoff
from gitstate.edge.disk import flush
from gitstate.edge.git import DURABLE, Git
from gitstate.edge.repo import Repository
from gitstate.edge.tree import Entry
from gitstate.errors import ComeBackLater

PATIENCE = 5.0  # seconds to wait for somebody else's lock
_MARK = b"gitstate holds this lock while its lock file says so\n"  # never the beginning of an index
_PRIVATE = "gitstate-index"


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
    removed = []
    for path in left:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            removed.append(path)
    return removed


def learn(git: Git, repository: Repository, entries: Mapping[str, Entry], index: str) -> None:
    """Put entries into the private index file `index`. Everything else that is staged stays as it is."""
    lines = b"".join(
        [b"%s %s\t%s\0" % (m.encode(), o.encode(), os.fsencode(p)) for p, (m, o) in entries.items()]
    )
    git.run(*DURABLE, "update-index", "-z", "--index-info", stdin=lines, env={"GIT_INDEX_FILE": index})


@contextlib.contextmanager
def private_index(repository: Repository, patience: float = PATIENCE) -> Iterator[str]:
    """Hold the index's lock; what the body makes of the file it is given becomes the index.

    For any git command that writes the index (GIT_INDEX_FILE). If the body raises, the index stays as it was.
    Raises ComeBackLater if somebody else holds the lock for more than `patience` seconds.
    """
    index = os.path.realpath(os.path.join(repository.git_dir, "index"))
    private = os.path.join(repository.git_dir, _PRIVATE)
    lock = lock_path(repository.git_dir)
    _take(lock, _owner_file(repository.state), time.monotonic() + patience)
    try:
        for leftover in (private, private + ".lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(leftover)
        _same_file(index, private)
        yield private
        os.replace(private, index)
    finally:
        # (git leaves an unchanged index alone, and renaming one link over the other removes neither)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(private)
        if is_ours(lock):
            os.unlink(lock)


def _same_file(index: str, private: str) -> None:
    """Make `private` the index, time stamps included: git judges by them which entries it must look at again.
    git replaces index files and never writes into one, so a second link is as good as a copy."""
    try:
        os.link(index, private)
    except FileNotFoundError:
        pass  # nothing was ever added
    except OSError:
        shutil.copy2(index, private)


def _owner_file(state: str) -> str:
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


def _take(lock: str, owner: str, deadline: float) -> None:
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
