"""What to do next: the works that are due, those that wait for them, and those that must be left alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gitstate.core.derive import PROTECTED, Status
from gitstate.core.plan import Workflow
from gitstate.core.snapshot import WorkKey


class Agenda(NamedTuple):
    """The selected works, by what `run` does about them; each part in plan order."""

    due: tuple[Status, ...]  # to be done now; some may turn out to be restorable for nothing
    waiting: tuple[Status, ...]  # due once the works that they need are done
    protected: tuple[Status, ...]  # edited or unverified: left, and the run says so (exit 3)
    failed: tuple[Status, ...]  # a verdict stands against them
    blocked: tuple[Status, ...]  # they need one that is left or failed
    done: tuple[Status, ...]


def agenda(
    workflow: Workflow,
    selected: Sequence[Status],
    *,
    redo: frozenset[WorkKey] = frozenset(),
    retry_failed: bool = False,
) -> Agenda:
    """Sort the selected works by what is to be done about them.

    `redo` are works to do again although they are done, edited, unverified or deleted; those that need them
    wait. `retry_failed` takes up works against which a verdict stands.
    """
    needs = {stage.name: stage.needs for stage in workflow.stages}
    places: dict[WorkKey, str] = {}
    for status in order_of(selected, workflow):
        above = {places.get((status.slug, name)) for name in needs[status.stage]}
        place = _place(status, (status.slug, status.stage) in redo, retry_failed)
        if place in ("due", "waiting"):
            if above & {"protected", "failed", "blocked"}:
                place = "blocked"
            elif above & {"due", "waiting"}:
                place = "waiting"
        places[status.slug, status.stage] = place
    return Agenda(
        *(
            tuple(status for status in selected if places[status.slug, status.stage] == name)
            for name in Agenda._fields
        )
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
    if status.state in ("failed", "paused") and not retry_failed:
        return "failed"
    return "due"


def is_due(status: Status) -> bool:
    """Whether a work is to be done as it stands: pending, its upstream done, nobody's hand in it."""
    return status.state == "pending" and status.reason != "upstream" and status.reason not in PROTECTED


def order_of(statuses: Iterable[Status], workflow: Workflow) -> list[Status]:
    """Works in the order to start them: item by item, so that chains that were begun are finished first."""
    rank = {workflow.stages[position].name: number for number, position in enumerate(workflow.order)}
    return sorted(statuses, key=lambda status: (status.item, rank[status.stage]))
