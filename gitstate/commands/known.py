"""What this clone knows of its remote and of others, as of when the remote was last asked. Never the network."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Optional

from gitstate.commands.clone import Clone
from gitstate.core.derive import Status
from gitstate.core.pause import Pause
from gitstate.edge.repo import RECEIPTS, head_branch
from gitstate.edge.tips import Tips
from gitstate.errors import GitstateError

if TYPE_CHECKING:
    from gitstate.core.lease import Held


class Undelivered(NamedTuple):
    """Works that are finished here, and on the remote not yet."""

    remote: str
    works: int


def receipts_hint(at: Tips, undone: Iterable[Status]) -> list[str]:
    """What to do where files without a receipt stand in a clone that has no receipts at all: a line, or none."""
    if at.receipts is not None or not any(status.reason == "unverified" for status in undone):
        return []
    return ["No receipts are here: if another clone made these files, fetch them with `gitstate sync`."]


def pauses_of(clone: Clone, at: Tips) -> list[Pause]:
    """The pauses that stand."""
    if not at.pauses:
        return []
    from gitstate.edge import pauses  # rarely so, and what it needs takes a while to load

    return [one.pause for _, one in sorted(pauses.of(clone.objects, at.pauses).items())]


def leases_of(clone: Clone, at: Tips) -> list[Held]:
    """Who holds what."""
    if not at.has_leases:
        return []
    from gitstate.core.lease import Held
    from gitstate.edge.clock import Clock  # what these need takes a while to load
    from gitstate.edge.leasememory import Memory
    from gitstate.edge.leases import tracked

    memory, now = Memory(clone.repository.state, clone.config), Clock().elapsed()
    found = []
    for one in tracked(clone.git, clone.objects, clone.config):
        since = memory.since(one.bucket, one.oid)
        age = round(now - since, 1) if since is not None else None
        found.append(
            Held(
                one.bucket,
                one.lease.holder,
                one.lease.holder in memory.holders,
                one.lease.generation,
                tuple(f"{claim.slug}/{claim.stage}" for claim in one.lease.works),
                age,
                round(max(0.0, one.lease.length - age), 1) if age is not None else None,
            )
        )
    return sorted(found, key=lambda held: (held.holder, held.works))


def claimed_by_others(clone: Clone, at: Tips, undone: Iterable[Status]) -> int:
    """How many of these works others have claimed."""
    if not at.has_leases:
        return 0
    others = {work for held in leases_of(clone, at) if not held.own for work in held.works}
    return sum(f"{status.slug}/{status.stage}" in others for status in undone)


def undelivered(clone: Clone, at: Tips) -> Optional[Undelivered]:
    """What a sync of the branch that is checked out would deliver; None where there is nothing, or no remote.

    Counted once for each state of the refs.
    """
    if at.delivered or at.head is None:
        return None
    from gitstate.edge import remote  # needed until all is delivered, and slow to load
    from gitstate.edge.unpublished import unpublished

    # (what stands in the way of telling is what `sync` says)
    with suppress(GitstateError, OSError):
        branch = head_branch(clone.repository, clone.git)
        there = remote.pick(clone.git, branch)
        if branch is None or there is None:
            return None
        tracked = [there.tracked(home.receipts) for home in remote.HOMES]
        refs = (RECEIPTS, *tracked, there.tracked_branch)
        key = (at.head, there.name, *map(clone.objects.resolve, refs))
        kept = clone.cache.load("undelivered")
        if kept is None or kept[0] != key:
            found = unpublished(clone.git, clone.objects, there, branch)
            kept = (key, len({(one.receipt.slug, one.receipt.stage) for one in found}))
            clone.cache.save("undelivered", kept)
        return Undelivered(there.name, kept[1]) if kept[1] else None
    return None
