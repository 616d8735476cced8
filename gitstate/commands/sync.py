"""`gitstate sync`: fetch, merge, push; branch and notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

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
from gitstate.edge.leases import Leases
from gitstate.edge.pushing import Pushed
from gitstate.edge.sync import Outcome
from gitstate.edge.unpublished import unpublished
from gitstate.errors import GitstateError, UsageError


def sync(config: str, *, branch: str = "", lock_timeout: str = "0", dry_run: bool = False) -> int:
    """Bring this clone and its remote together, or with `dry_run` say what that would bring and send.

    Returns 0; what stands in the way is raised.
    """
    if dry_run:
        with Clone(config=config) as clone:
            aim = target(clone, branch)
            outcome = edge.preview(clone.git, clone.objects, aim.branch, show.story)
            _tell(clone, aim, outcome, show.preview_lines)
        return 0
    with locked(config, lock_timeout) as clone:
        aim = target(clone, branch)
        if (there := remote.pick(clone.git, aim.branch)) is not None:
            hosting.require_same(clone.git, clone.objects, there)
        fence = _Fence(clone, aim)
        outcome, _ = meet(
            clone,
            aim,
            lambda: edge.sync(
                *(clone.git, clone.repository, clone.objects, aim.branch),
                say=show.story,
                send=fence.send if fence.slugs else None,
            ),
        )
        fence.bury()
        fence.remember()
        _tell(clone, aim, outcome, show.sync_lines)
    return 0


def _tell(clone: Clone, aim: Target, outcome: Outcome, lines: Callable[[Outcome, str], list[str]]) -> None:
    """Say what has come of it in the words of `lines`. Raises UsageError for a branch that is nowhere."""
    name = aim.branch.removeprefix("refs/heads/")
    there = outcome.remote
    if there is None:
        show.tell(show.alone(aim.branch, remote.names(clone.git)))
        return
    if not aim.checked_out and not any(map(clone.objects.resolve, (aim.branch, there.tracked_branch))):
        raise UsageError(
            f"There is no branch {show.safe(name)}, neither here nor on {show.safe(there.name)}.",
            "See which there are: git branch --all",
        )
    for line in lines(outcome, name):
        show.tell(line)


class _Fence:
    """How to push what is finished here under leases, where machines share their works by them."""

    def __init__(self, clone: Clone, aim: Target) -> None:
        self._clone, self._branch = clone, aim.branch
        self._there = remote.pick(clone.git, aim.branch)
        self._memory = Memory(clone.repository.state, clone.config)
        self.slugs = set[str]()  # of the plan, if its works are shared
        if self._there is None:
            return
        with suppress(GitstateError):  # (whoever wants to agree needs no valid configuration)
            plan = clone.view().plan
            if plan.workflow.coordinate is not None:
                self.slugs = {item.slug for item in plan.items}
        elapsed = Clock().elapsed
        self._begun = elapsed()
        self._leases = Leases(clone.git, clone.objects, self._there, clone.config, lease.DEFAULT, elapsed)
        self._leases.dead = self._memory.holders

    def send(self, updates: Mapping[str, str], deletes: bool) -> Pushed:
        """Push. Raises LeaseLost where others hold some of what is finished here."""
        clone, leases = self._clone, self._leases
        assert self._there is not None
        found = unpublished(clone.git, clone.objects, self._there, self._branch)
        works = [one.receipt for one in found if one.receipt.slug in self.slugs]
        if works:
            hosting.require_atomic(clone.git, self._there)
            self._memory.note(leases.me)
            leases.look()
            leases.claim_finished(works)  # (if others published before, the branch has moved: it is refused)
        return leases.push(updates, {line.slug for line in works}, (), deletes)

    def bury(self) -> None:
        """Give back what runs of this clone held when they were killed: others would wait for the end of it."""
        if self._there is None or not self._memory.holders:
            return
        with suppress(GitstateError):  # (then it ends by itself)
            self._leases.look()
            self._leases.collect(())

    def remember(self) -> None:
        """Note since when those of others stand as they do: so long has nobody here seen a sign of their holders."""
        if self._there is None:
            return
        with suppress(GitstateError, OSError):  # (then it is seen first the next time)
            self._leases.read(self._begun)
            self._memory.keep(self._memory.dated(self._leases.seen, self._begun), self._memory.holders)
