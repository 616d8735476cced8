"""What to do next: the works that are due, those that are free to restore, and those that must be left alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gitstate.core.derive import PROTECTED, Status
from gitstate.core.plan import Workflow


class Agenda(NamedTuple):
    """The selected works, by what `run` does about them."""

    due: tuple[Status, ...]  # to be done now; some may turn out to be restorable for nothing
    waiting: tuple[Status, ...]  # due once their upstream is done
    protected: tuple[Status, ...]  # edited or unverified: left, and the run says so (exit 3)
    failed: tuple[Status, ...]  # a verdict stands against them
    done: tuple[Status, ...]


def agenda(
    workflow: Workflow,
    selected: Sequence[Status],
    *,
    redo: frozenset[tuple[str, str]] = frozenset(),
    retry_failed: bool = False,
) -> Agenda:
    """Sort the selected works by what is to be done about them.

    `redo` are works (slug, stage) to do again although they are done, edited, unverified or deleted; those
    below them become stale by themselves. `retry_failed` takes up works against which a verdict stands.
    """
    found: dict[str, list[Status]] = {name: [] for name in Agenda._fields}
    blocked: set[tuple[int, str]] = set()  # works that cannot be done in this run
    needs = {stage.name: stage.needs for stage in workflow.stages}
    order = {workflow.stages[position].name: number for number, position in enumerate(workflow.order)}
    for status in sorted(selected, key=lambda status: (status.item, order[status.stage])):
        wanted = (status.slug, status.stage) in redo
        place = _place(status, wanted, retry_failed)
        if place == "waiting" and any((status.item, name) in blocked for name in needs[status.stage]):
            place = "blocked"
        if place in ("protected", "failed", "blocked"):
            blocked.add((status.item, status.stage))
        if place != "blocked":
            found[place].append(status)
    position = {id(status): number for number, status in enumerate(selected)}
    return Agenda(
        *(tuple(sorted(found[name], key=lambda status: position[id(status)])) for name in Agenda._fields)
    )


def _place(status: Status, redo: bool, retry_failed: bool) -> str:
    if status.reason == "upstream":
        return "waiting"
    if redo:
        return "due"
    if status.state == "done":
        return "done"
    if status.reason in PROTECTED:
        return "protected"
    if status.state in ("failed", "paused"):
        return "due" if retry_failed else "failed"
    return "due"


def is_due(status: Status) -> bool:
    """Whether a work is to be done as it stands: pending, its upstream done, nobody's hand in it."""
    return status.state == "pending" and status.reason != "upstream" and status.reason not in PROTECTED


def order_of(statuses: Iterable[Status], workflow: Workflow) -> list[Status]:
    """Due works in the order to start them: item by item, so that chains that were begun are finished first."""
    rank = {workflow.stages[position].name: number for number, position in enumerate(workflow.order)}
    return sorted(statuses, key=lambda status: (status.item, rank[status.stage]))
