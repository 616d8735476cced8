"""The branch that results are recorded on."""

from __future__ import annotations

import os
from typing import NamedTuple

from gitstate.commands.clone import Clone
from gitstate.errors import UsageError

_IN_PROGRESS = {"rebase-merge": "rebase", "rebase-apply": "rebase", "BISECT_LOG": "bisect"}


class Target(NamedTuple):
    """A branch, and whether it is the one that this working tree shows."""

    branch: str  # full ref
    checked_out: bool


def target(clone: Clone, name: str) -> Target:
    """The branch called `name`, or the one checked out. Raises UsageError on a detached HEAD without a name."""
    head = clone.git.text("symbolic-ref", "-q", "HEAD", check=False)
    if not name:
        if not head:
            doing = [
                word
                for file, word in _IN_PROGRESS.items()
                if os.path.exists(os.path.join(clone.repository.git_dir, file))
            ]
            during = f" (a {doing[0]} is under way)" if doing else ""
            raise UsageError(
                f"HEAD is detached{during}, so there is no branch to record on.",
                "Switch to a branch, or name one: --branch NAME",
            )
        return Target(head, True)
    branch = name if name.startswith("refs/heads/") else f"refs/heads/{name}"
    if clone.git.run("check-ref-format", branch, check=False).code:
        raise UsageError(f"--branch {name}: git does not allow this name.", "Choose another.")
    if (
        branch != head
        and f"branch {branch}" in clone.git.text("worktree", "list", "--porcelain").splitlines()
    ):
        raise UsageError(
            f"{name} is checked out in another worktree, whose files a run here would leave behind.",
            "Run there, or choose another branch.",
        )
    return Target(branch, branch == head)
