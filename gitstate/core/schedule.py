"""What to do next: the works that are due, those that wait for them, and those that must be left alone."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gitstate.core.derive import PROTECTED, Status
from gitstate.core.plan import Stage, Workflow
from gitstate.core.receipt import Verdict
from gitstate.core.snapshot import WorkKey

VerdictKey = tuple[str, str, str]  # slug, stage, hash


class Agenda(NamedTuple):
    """The selected works, by what `run` does about them; each part in plan order."""

    due: tuple[Status, ...]  # to be done now; some may turn out to be restorable for nothing
    waiting: tuple[Status, ...]  # due once the works that they need are done
    protected: tuple[Status, ...]  # edited or unverified: left, and the run says so (exit 3)
    asked: tuple[
        Status, ...
    ]  # effects that wait for a person's word: what has happened, or whether to repeat it
    failed: tuple[Status, ...]  # a verdict stands against them
    paused: tuple[Status, ...]  # one stands that waiting may cure, and its time has not come
    blocked: tuple[Status, ...]  # they need one that is left or failed
    done: tuple[Status, ...]


def agenda(
    workflow: Workflow,
    selected: Sequence[Status],
    *,
    redo: frozenset[WorkKey] = frozenset(),
    again: frozenset[WorkKey] = frozenset(),
    acts: Container[WorkKey] = frozenset(),
) -> Agenda:
    """Sort the selected works by what is to be done about them.

    `redo` are works to do again although they are done, edited, unverified or deleted; those that need them
    wait. `again` are works to take up although a verdict stands against them; `acts` those of effects of which
    nobody knows whether they happened.
    """
    stages = {stage.name: stage for stage in workflow.stages}
    places: dict[WorkKey, str] = {}
    for status in order_of(selected, workflow):
        stage = stages[status.stage]
        above = {places.get((status.slug, name)) for name in stage.needs}
        key = (status.slug, status.stage)
        place = _place(stage, status, key in redo, key in again, key in acts)
        if place in ("due", "waiting"):
            if above & {"protected", "asked", "failed", "paused", "blocked"}:
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


def taken_up(
    statuses: Iterable[Status], verdicts: Mapping[VerdictKey, Verdict], now: str
) -> frozenset[WorkKey]:
    """The paused works whose time has come. `now` as the log writes times: those sort as text."""
    found = set()
    for status in statuses:
        if status.state == "paused" and status.hash is not None:
            verdict = verdicts.get((status.slug, status.stage, status.hash))
            if verdict is not None and str(verdict.last.extra.get("until") or "") <= now:
                found.add((status.slug, status.stage))
    return frozenset(found)


def _place(stage: Stage, status: Status, redo: bool, again: bool, unknown: bool) -> str:
    if status.reason == "upstream":
        return "waiting"
    if redo:
        return "due"
    if status.state == "done":
        return "done"
    if status.reason in PROTECTED:
        return "protected"
    if status.state in ("failed", "paused") and not again:
        return "asked" if asks_human(stage, status, unknown) else status.state
    return "due"


def asks_human(stage: Stage, status: Status, unknown: bool) -> bool:
    """Whether a work that is not done waits for a person's word: on what happened, or on doing it again. `unknown`:
    nobody knows whether its last act happened."""
    if stage.effect is None:
        return False
    lost = unknown and status.state == "failed" and status.category == "unknown"
    return lost or (status.state == "paused" and status.category is None)


def is_due(status: Status) -> bool:
    """Whether a work is to be done as it stands: pending, its upstream done, nobody's hand in it."""
    return status.state == "pending" and status.reason != "upstream" and status.reason not in PROTECTED


def order_of(statuses: Iterable[Status], workflow: Workflow) -> list[Status]:
    """Works in the order to start them: item by item, so that chains that were begun are finished first."""
    rank = {workflow.stages[position].name: number for number, position in enumerate(workflow.order)}
    return sorted(statuses, key=lambda status: (status.item, rank[status.stage]))
