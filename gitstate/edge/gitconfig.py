"""Changing the repository's git configuration, so that neither a kill nor a power cut harms the user's file.

`git config` never forces what it writes onto the disk: after a power cut its new file may stand there empty, and
with it go the user's remotes. And the lock that it leaves when it is killed names no owner.
"""

from __future__ import annotations

import os
import shutil
import time

from gitstate.edge import index
from gitstate.edge.disk import flush, flush_folder
from gitstate.edge.git import Git

_PRIVATE = "gitstate-config"


def lock_path(common_dir: str) -> str:
    """The lock file that everybody who writes the configuration must create."""
    return os.path.realpath(os.path.join(common_dir, "config")) + ".lock"


def change(git: Git, *arguments: str) -> None:
    """`git config ARGUMENTS` on the repository's own file. Raises ComeBackLater while somebody else has its lock."""
    lock = lock_path(git.common_dir)
    path = lock[: -len(".lock")]
    private = os.path.join(os.path.dirname(path), _PRIVATE)
    owner = index.owner_file(os.path.join(git.common_dir, "gitstate"))
    index.take(lock, owner, time.monotonic() + index.PATIENCE)
    try:
        index.remove((private, private + ".lock"))
        shutil.copy2(path, private)
        git.run("config", "--file", private, *arguments)
        with open(private, "rb+") as file:
            flush(file.fileno())
        os.replace(private, path)
        flush_folder(os.path.dirname(path))
    finally:
        index.remove((private, private + ".lock"))
        if index.is_ours(lock):
            os.unlink(lock)


def clear(common_dir: str) -> list[str]:
    """Remove what a killed run of ours left of such a change; the caller holds the run lock. Returns the paths."""
    lock = lock_path(common_dir)
    private = os.path.join(os.path.dirname(lock), _PRIVATE)
    return index.remove([private, private + ".lock", *([lock] if index.is_ours(lock) else [])])
