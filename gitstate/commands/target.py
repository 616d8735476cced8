"""The branch that results are recorded on."""

from __future__ import annotations

import os
from typing import NamedTuple

from gitstate import show
from gitstate.commands.clone import Clone
from gitstate.edge.history import shared
from gitstate.edge.repo import head_branch, other_tree
from gitstate.edge.snapshot import View
from gitstate.edge.sources import read_tree
from gitstate.errors import NeedsHuman, UsageError

_IN_PROGRESS = {"rebase-merge": "rebase", "rebase-apply": "rebase", "BISECT_LOG": "bisect"}


class Target(NamedTuple):
    """A branch, and whether it is the one that this working tree shows."""

    branch: str  # full ref
    checked_out: bool


def require_sources(clone: Clone, view: View, tip: str) -> None:
    """Raise NeedsHuman where the branch that results go to, now at the commit `tip`, has sources that the checked-out
    ones are behind of: what is made by those would be stale there, and take the place of what is not."""
    head = view.tips.head
    bases = shared(clone.git, tip, [head]) if head else []
    if not bases or tip in bases:  # (a shallow clone cannot tell which of them is behind)
        return
    width = len(clone.repository.zero)
    theirs = read_tree(clone.git, tip, width).files
    other = [path for path in view.watch.paths if theirs.get(path) != view.tree.files.get(path)]
    before = [read_tree(clone.git, base, width).files for base in bases if other]
    newer = [path for path in other if all(files.get(path) != theirs.get(path) for files in before)]
    if newer:
        names = ", ".join(map(show.safe, newer[:5])) + (" …" if len(newer) > 5 else "")
        raise NeedsHuman(
            f"The branch that results go to has changes that are not checked out here: {names}. What is made without "
            "them would be stale there.",
            "Merge it, or switch to it; or delete it, where it was merged by squash or rebase.",
        )


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
    short = branch[len("refs/heads/") :]
    # (this says no to HEAD and to -x, too, and would write @{-1} out)
    if clone.git.text("check-ref-format", "--branch", short, check=False) != short:
        raise UsageError(f"--branch {name}: git does not allow this name.", "Choose another.")
    if branch != head and (elsewhere := other_tree(clone.repository, clone.git, branch)):
        raise UsageError(
            f"{name} is checked out in another working tree, {elsewhere.path}, whose files a run here would leave "
            "behind.",
            f"{elsewhere.way}, or choose another branch.",
        )
    return Target(branch, branch == head)
