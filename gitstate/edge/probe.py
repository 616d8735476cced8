"""Trying what gitstate's promises stand on, instead of trusting the platform: file system, locks, git.

Each probe does the real thing once, in a folder of its own, and says what it saw.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Optional

from gitstate.edge import disk
from gitstate.edge.files import write_whole
from gitstate.edge.git import DURABLE, Git
from gitstate.edge.lock import Lock, NoLocks, is_held
from gitstate.errors import ComeBackLater, GitstateError

OLDEST_GIT = (2, 36)  # knows core.fsync and cat-file --batch-command


class Found(NamedTuple):
    """What a probe saw. `works` is False where a promise cannot be kept here; None where less is promised."""

    name: str
    works: bool | None
    words: str


def file_system(state: str, root: str) -> list[Found]:
    """Probe the file system that holds gitstate's state folder and, where the working tree `root` is on another
    one, that too: outputs get their names there. Leaves nothing behind."""
    found = _probe(state, "probe-", "", _PROBES)
    if _device(state) != _device(root):
        # (named like a temporary file of ours, which git hooks and `verify` know)
        there = _probe(root, ".gitstate-probe", "-1.tmp", [each for each in _PROBES if each.try_it != _locks])
        found += [each._replace(name=f"{each.name} (working tree)") for each in there]
    return found


def _probe(place: str, prefix: str, suffix: str, probes: Sequence[_Probe]) -> list[Found]:
    try:
        os.makedirs(place, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=place)
    except OSError as error:
        return [Found("new folder", False, f"{_words(error)}: {place}; nothing can be recorded here")]
    try:
        return [_tried(probe, folder) for probe in probes]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except FileNotFoundError:  # could not be made, which is found already
        return None


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


def _tried(probe: _Probe, folder: str) -> Found:
    try:
        works, words = probe.try_it(folder)
    except (OSError, GitstateError) as error:
        return Found(probe.name, False, f"{_words(error)}; {probe.else_}")
    return Found(probe.name, works, words)


def _words(error: OSError | GitstateError) -> str:
    """What went wrong, without the path of a folder that is gone by now."""
    if isinstance(error, NoLocks):
        return f"does not work ({error.why})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error).splitlines()[0].rstrip(".")


_Tried = tuple[Optional[bool], str]  # as in `Found`
_WORKS: _Tried = (True, "works")


def _replace(folder: str) -> _Tried:
    """A rename over an existing file shows the new content, whole."""
    path = os.path.join(folder, "replaced")
    write_whole(path, b"old", "replaced.tmp", replace=True)
    write_whole(path, b"new", "replaced.tmp", replace=True)
    with open(path, "rb") as file:
        if file.read() != b"new":
            raise OSError("a rename over a file did not take effect")
    return _WORKS


def _keep(folder: str) -> _Tried:
    """A rename that must not replace does not."""
    path = os.path.join(folder, "kept")
    write_whole(path, b"old", "kept.tmp", replace=False)
    with contextlib.suppress(FileExistsError):
        write_whole(path, b"new", "kept.tmp", replace=False)
        raise OSError("a file that was there was replaced although that was forbidden")
    return _WORKS


def _locks(folder: str) -> _Tried:
    """A second process does not get a lock that is held, and gets it when it is given back."""
    with Lock.acquire(folder):
        if not _elsewhere(folder):
            raise OSError("two processes could hold the run lock at once")
    if is_held(folder) or _elsewhere(folder):
        raise OSError("the run lock stays held after it was given back")
    return _WORKS


def _elsewhere(folder: str) -> bool:
    """Whether another process sees the lock as held."""
    code = "import sys; from gitstate.edge.lock import is_held; sys.exit(10 if is_held(sys.argv[1]) else 20)"
    done = subprocess.run((sys.executable, "-c", code, folder), capture_output=True, check=False)
    if done.returncode not in (10, 20):
        raise ComeBackLater(
            f"a second process could not be asked: {done.stderr.decode(errors='replace').strip()}"
        )
    return done.returncode == 10


def _folders(folder: str) -> _Tried:
    """A folder's names can be put on the disk."""
    if sys.platform == "win32":
        return None, "not to be had on Windows; the file system's own journal must do"
    descriptor = os.open(folder, disk.FOLDER)
    try:
        disk.flush(descriptor)
    except OSError as error:
        if (
            error.errno != errno.EINVAL
        ):  # the one refusal that is put up with where it matters, see `flush_folder`
            raise
        return None, f"refused ({error.strerror}); after a power cut the last names may be missing here"
    finally:
        os.close(descriptor)
    return _WORKS


def _barrier(folder: str) -> _Tried:
    """All that was written can be put on the disk at once."""
    barrier = disk.Barrier(folder)
    try:
        if barrier.one_by_one:
            return True, "one file at a time here, which is slower"
        barrier.flush()
    finally:
        barrier.close()
    return _WORKS


def _case(folder: str) -> _Tried:
    """Names that differ in case only, or in Unicode form only, are told apart."""
    with open(os.path.join(folder, "Case-\u00e9"), "wb"):
        pass
    alike = [
        word
        for word, name in (("case", "cASE-\u00e9"), ("Unicode form", "Case-e\u0301"))
        if os.path.exists(os.path.join(folder, name))
    ]
    if not alike:
        return _WORKS
    return True, f"names are not told apart by {' and '.join(alike)}; gitstate refuses such slugs anyway"


class _Probe(NamedTuple):
    name: str
    try_it: Callable[[str], _Tried]
    else_: str  # what follows where it does not work


_PROBES = (
    _Probe("rename over a file", _replace, "a result cannot be put in its place whole"),
    _Probe("rename without replacing", _keep, "a file that appears during a run may be lost"),
    _Probe("lock between processes", _locks, "two runs could not be told apart, so `run` refuses"),
    _Probe("fsync of a folder", _folders, "no result can be made safe against a power cut"),
    _Probe("flush of the whole file system", _barrier, "no result can be made safe against a power cut"),
    _Probe("names", _case, "some slugs cannot be files here"),
)


def broken(found: list[Found]) -> Iterator[Found]:
    """The probes whose promise cannot be kept here."""
    return (each for each in found if each.works is False)
