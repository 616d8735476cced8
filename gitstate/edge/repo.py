"""Finding the repository a command was started in, and where gitstate keeps its own files there."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

from gitstate.edge.git import Git
from gitstate.errors import UsageError

RECEIPTS = "refs/notes/gitstate"
LOG = "refs/notes/gitstate-log"
TRACKING = "refs/gitstate-remote"  # refs/gitstate-remote/REMOTE/notes and …/notes-log
KEEP = "refs/gitstate/keep"


class Repository(NamedTuple):
    """One working tree of one repository."""

    root: str  # absolute path of the working tree
    git_dir: str  # absolute; a linked worktree has one of its own
    common_dir: str  # absolute; shared by all worktrees
    format: str  # of object ids: "sha1" or "sha256"

    @property
    def state(self) -> str:
        """gitstate's own folder: attempts, spool, lock, caches. Shared by all worktrees."""
        return os.path.join(self.common_dir, "gitstate")

    @property
    def zero(self) -> str:
        """The object id that means "no object"."""
        return "0" * (40 if self.format == "sha1" else 64)


def find(start: str, git: Optional[Git] = None) -> Repository:
    """The repository that `start` lies in, as `git` sees it. Raises UsageError outside one and in a bare one."""
    done = (git or Git(start)).run(
        "rev-parse",
        "--path-format=absolute",
        "--show-object-format",
        "--absolute-git-dir",
        "--git-common-dir",
        "--show-toplevel",
        check=False,
    )
    lines = os.fsdecode(done.out).splitlines()
    if len(lines) == 4:
        return Repository(lines[3], lines[1], lines[2], lines[0])
    if "safe.directory" in done.err:
        raise UsageError(
            done.err.strip().splitlines()[0], "Trust it: git config --global --add safe.directory PATH"
        )
    if lines:
        raise UsageError("This repository has no working tree.", "Run gitstate in a clone that has one.")
    raise UsageError("This is not a git repository.", "Run `git init` here, or change into a clone.")
