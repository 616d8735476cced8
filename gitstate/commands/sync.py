"""`gitstate sync`: fetch, merge, push; branch and notes."""

from __future__ import annotations

from gitstate import show
from gitstate.commands.clone import Clone
from gitstate.commands.locked import locked
from gitstate.commands.target import target
from gitstate.edge import sync as edge


def sync(config: str, *, branch: str = "", lock_timeout: str = "0", dry_run: bool = False) -> int:
    """Bring this clone and its remote together, or with `dry_run` say what that would bring and send.

    Returns 0; what stands in the way is raised.
    """
    if dry_run:
        with Clone(config=config) as clone:
            aim = target(clone, branch)
            outcome = edge.preview(clone.git, clone.objects, aim.branch, show.story)
            for line in show.preview_lines(outcome, aim.branch.removeprefix("refs/heads/")):
                show.tell(line)
        return 0
    with locked(config, lock_timeout) as clone:
        aim = target(clone, branch)
        outcome = edge.sync(clone.git, clone.repository, clone.objects, aim.branch, say=show.story)
        for line in show.sync_lines(outcome, aim.branch.removeprefix("refs/heads/")):
            show.tell(line)
    return 0
