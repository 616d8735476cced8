"""The branch that results are recorded on."""

from __future__ import annotations

import os
from typing import NamedTuple

from gitstate.commands.clone import Clone
from gitstate.edge.repo import head_branch, other_tree
from gitstate.errors import UsageError

_IN_PROGRESS = {"rebase-merge": "rebase", "rebase-apply": "rebase", "BISECT_LOG": "bisect"}


class Target(NamedTuple):
    """A branch, and whether it is the one that this working tree shows."""

    branch: str  # full ref
    checked_out: bool


def target(clone: Clone, name: str) -> Target:
    """The branch called `name`, or the one checked out. Raises UsageError on a detached HEAD without a name."""
    head = head_branch(clone.repository, clone.git)
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
    if branch != head and (elsewhere := other_tree(clone.repository, clone.git, branch)):
        raise UsageError(
            f"{name} is checked out in another working tree, {elsewhere.path}, whose files a run here would leave "
            "behind.",
            f"{elsewhere.way}, or choose another branch.",
        )
    return Target(branch, branch == head)
