"""Trying what gitstate's promises stand on, instead of trusting the platform: file system, locks, git.

Each probe does the real thing once, in a folder of its own, and says what it saw.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gitstate.edge import disk
from gitstate.edge.files import write_whole
from gitstate.edge.git import DURABLE, Git
from gitstate.edge.lock import Lock, is_held
from gitstate.errors import ComeBackLater, GitstateError, UsageError

OLDEST_GIT = (2, 36)  # knows core.fsync and cat-file --batch-command


class Found(NamedTuple):
    """What a probe saw. `works` is False where a promise cannot be kept here; None where less is promised."""

    name: str
    works: bool | None
    words: str


def file_system(state: str) -> list[Found]:
    """Probe the file system that holds gitstate's state folder. Leaves nothing behind."""
    os.makedirs(state, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="probe-", dir=state)
    try:
        return [_tried(name, probe, folder) for name, probe in _PROBES]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def git_version(git: Git) -> Found:
    """Whether git is new enough for what is asked of it, and takes the durability settings."""
    words = git.text("version")
    match = re.search(r"(\d+)\.(\d+)", words)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < OLDEST_GIT:
        return Found("git", False, f"{words} is too old; gitstate needs {'.'.join(map(str, OLDEST_GIT))}")
    if git.run(*DURABLE, "rev-parse", "--git-dir", check=False).code:
        return Found("git", False, f"{words} refuses the settings that make its objects and refs durable")
    return Found("git", True, words)


def _tried(name: str, probe: Callable[[str], str | None], folder: str) -> Found:
    try:
        words = probe(folder)
    except (OSError, GitstateError) as error:
        return Found(name, False, str(error).splitlines()[0])
    return Found(name, None if words else True, words or "works")


def _replace(folder: str) -> None:
    """A rename over an existing file shows the new content, whole."""
    path = os.path.join(folder, "replaced")
    write_whole(path, b"old", "replaced.tmp", replace=True)
    write_whole(path, b"new", "replaced.tmp", replace=True)
    with open(path, "rb") as file:
        if file.read() != b"new":
            raise OSError("a rename over a file did not take effect")


def _keep(folder: str) -> None:
    """A rename that must not replace does not."""
    path = os.path.join(folder, "kept")
    write_whole(path, b"old", "kept.tmp", replace=False)
    try:
        write_whole(path, b"new", "kept.tmp", replace=False)
    except FileExistsError:
        return
    raise OSError("a file that was there was replaced although that was forbidden")


def _locks(folder: str) -> None:
    """A second process does not get a lock that is held, and gets it when it is given back."""
    with Lock.acquire(folder):
        if not _elsewhere(folder):
            raise UsageError("two processes could hold the run lock at once")
    if is_held(folder) or _elsewhere(folder):
        raise UsageError("the run lock stays held after it was given back")


def _elsewhere(folder: str) -> bool:
    """Whether another process sees the lock as held."""
    code = "import sys; from gitstate.edge.lock import is_held; sys.exit(10 if is_held(sys.argv[1]) else 20)"
    done = subprocess.run((sys.executable, "-c", code, folder), capture_output=True, check=False)
    if done.returncode not in (10, 20):
        raise ComeBackLater(
            f"a second process could not be asked: {done.stderr.decode(errors='replace').strip()}"
        )
    return done.returncode == 10


def _folders(folder: str) -> str | None:
    """A folder's names can be put on the disk."""
    if sys.platform == "win32":
        return "not to be had on Windows; the file system's own journal must do"
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        return f"refused ({error.strerror}); after a power cut the last names may be missing here"
    finally:
        os.close(descriptor)
    return None


def _barrier(folder: str) -> str | None:
    """All that was written can be put on the disk at once."""
    if disk.whole_filesystem() is None:
        return "one file at a time here, which is slower"
    barrier = disk.Barrier(folder)
    try:
        barrier.flush()
    finally:
        barrier.close()
    return None


def _case(folder: str) -> str | None:
    """Names that differ in case only, or in Unicode form only, are told apart."""
    with open(os.path.join(folder, "Case-\u00e9"), "wb"):
        pass
    alike = [
        word
        for word, name in (("case", "cASE-\u00e9"), ("Unicode form", "Case-e\u0301"))
        if _there(folder, name)
    ]
    return (
        f"names are not told apart by {' and '.join(alike)}; gitstate refuses such slugs anyway"
        if alike
        else None
    )


def _there(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


_PROBES: tuple[tuple[str, Callable[[str], str | None]], ...] = (
    ("rename over a file", _replace),
    ("rename without replacing", _keep),
    ("lock between processes", _locks),
    ("fsync of a folder", _folders),
    ("flush of the whole file system", _barrier),
    ("names", _case),
)


def broken(found: list[Found]) -> Iterator[Found]:
    """The probes whose promise cannot be kept here."""
    return (each for each in found if each.works is False)
