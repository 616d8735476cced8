"""Looking at all files of a working tree, cheaply: names and what `lstat` says of them, no content.

Whatever people do to the tree meanwhile, a scan ends with what it could see.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Collection, Iterable

from gitstate.core.guard import GRAIN, Scan, Seen
from gitstate.edge.git import Git
from gitstate.edge.protect import ignored
from gitstate.edge.repo import Repository

_KINDS = (stat.S_IFREG, stat.S_IFLNK)  # git knows no others
_CTIME = os.name == "posix"  # elsewhere st_ctime is the time of creation


def scan(root: str, leave_out: Collection[str] = (), within: Iterable[str] = ("",)) -> Scan:
    """Every regular file and symbolic link below `root`, or in some of its folders, each with a final '/'.

    Left out are `.git`, nested repositories, the folders `leave_out` (each with a final '/'), and those that cannot
    be read. Raises nothing for what vanishes or cannot be looked at.
    """
    began = time.time_ns()
    files: dict[str, Seen] = {}
    blind: set[str] = set(leave_out)
    folders = [folder for folder in within if not _linked(root, folder)]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                entries = list(found)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone since it was listed
        except OSError:
            blind.add(folder)
            continue
        if folder and any(entry.name == ".git" for entry in entries):
            blind.add(folder)
            continue
        for entry in entries:
            path = folder + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if f"{path}/" not in blind and path != ".git":
                        folders.append(f"{path}/")
                elif path != ".git":
                    found_there = entry.stat(follow_symlinks=False)
                    if stat.S_IFMT(found_there.st_mode) in _KINDS:
                        files[path] = _seen(found_there)
            except FileNotFoundError:
                continue
            except OSError:
                blind.add(path)
    return Scan(files, frozenset(blind), began, time.time_ns())


def _linked(root: str, folder: str) -> bool:
    """Whether a symbolic link is on the way to a folder: then it lies elsewhere."""
    parts = folder.split("/")[:-1]
    return any(os.path.islink(os.path.join(root, *parts[: n + 1])) for n in range(len(parts)))


def seen(path: str) -> Seen | None:
    """What a scan would see of one file; None where nothing can be seen."""
    try:
        return _seen(os.lstat(path))
    except OSError:
        return None


def ahead(folder: str) -> int:
    """By how many ns the clock of a folder's file system is ahead of this machine's: a server's may be. 0 where they
    agree but for a tick, and where nothing can be written."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            found = _seen(os.fstat(file.fileno()))
    except OSError:
        return 0
    difference = (found[4] or found[0]) - time.time_ns()
    return difference if abs(difference) > 5 * GRAIN else 0


def _seen(found: os.stat_result) -> Seen:
    changed = found.st_ctime_ns if _CTIME else 0
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, changed


def nobodys(git: Git, repository: Repository) -> set[str]:
    """The folders of a working tree that need no look, each with a final '/': those that git ignores, and git's own."""
    listed = git.run(
        "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", check=False
    ).out
    folders = [os.fsdecode(name) for name in listed.split(b"\0") if name.endswith(b"/")]
    # (git lists one, too, that holds ignored files only; a new file in there may be somebody's business)
    found = ignored(git, folders)
    for own in (repository.git_dir, repository.common_dir):
        inside = os.path.relpath(own, repository.root)
        if not inside.startswith(os.pardir):
            found.add(inside.replace(os.sep, "/") + "/")
    return found
