"""`gitstate sync`: fetch, merge, push; branch and notes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Optional

from gitstate import show
from gitstate.commands.clone import Clone
from gitstate.commands.locked import locked
from gitstate.commands.recovery import meet
from gitstate.commands.target import Target, target
from gitstate.core import lease
from gitstate.edge import hosting, remote
from gitstate.edge import sync as edge
from gitstate.edge.clock import Clock
from gitstate.edge.leasememory import Memory
from gitstate.edge.leases import Leases, unpublished
from gitstate.edge.pushing import Pushed
from gitstate.errors import GitstateError


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
        if (there := remote.pick(clone.git, aim.branch)) is not None:
            hosting.require_same(clone.git, clone.objects, there)
        send = _fenced(clone, aim)
        outcome, _ = meet(
            clone,
            aim,
            lambda: edge.sync(
                clone.git, clone.repository, clone.objects, aim.branch, say=show.story, send=send
            ),
        )
        for line in show.sync_lines(outcome, aim.branch.removeprefix("refs/heads/")):
            show.tell(line)
    return 0


def _fenced(clone: Clone, aim: Target) -> Optional[edge.Send]:
    """Where machines share their works by leases: how to push what is finished here under leases of its own.

    Raises LeaseLost, when it is called, where others hold some of it by now.
    """
    there, slugs = remote.pick(clone.git, aim.branch), set[str]()
    with suppress(GitstateError):  # (whoever wants to agree needs no valid configuration)
        plan = clone.view().plan
        if plan.workflow.coordinate is not None:
            slugs = {item.slug for item in plan.items}
    if there is None or not slugs:
        return None
    memory = Memory(clone.repository.state, clone.config)
    leases = Leases(clone.git, clone.objects, there, clone.config, lease.DEFAULT, Clock().elapsed)
    leases.dead = memory.holders

    def send(updates: Mapping[str, str], deletes: bool) -> Pushed:
        found = unpublished(clone.git, clone.objects, there, aim.branch)
        works = [one.receipt for one in found if one.receipt.slug in slugs]
        if works:
            hosting.require_atomic(clone.git, there)
            memory.note(leases.me)
            leases.look()
            leases.claim_finished(works)  # (if others published before, the branch has moved: it is refused)
        return leases.push(updates, {line.slug for line in works}, (), deletes)

    return send
