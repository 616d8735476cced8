"""`gitstate status`: one screen with the counts by group and stage, what is going on, and the last run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from gitstate import show
from gitstate.commands.clone import Answer, Clone, utc_now
from gitstate.core.derive import STATES
from gitstate.core.pause import Pause
from gitstate.edge import lock
from gitstate.edge.files import load_json
from gitstate.edge.repo import TRACKED_LEASES
from gitstate.edge.tips import tips

if TYPE_CHECKING:
    from gitstate.core.lease import Held

LAST_RUN = "last-run.json"


def status(clone: Clone, *, as_json: bool = False) -> int:
    """Answer on standard output; always 0."""
    answer = clone.answer(utc_now())
    rows = counts(answer)
    holder = lock.holder(clone.repository.state) if lock.is_held(clone.repository.state) else None
    last = last_run(clone.repository.state)
    spend = clone.spend()
    standing = pauses_of(clone)
    held = leases_of(clone)
    if as_json:
        fields = {
            "format": 1,
            "head": answer.head,
            "total": answer.summary.total,
            "counts": [{"group": group, "stage": stage, **row} for (group, stage), row in rows.items()],
            "unknown": [{"slug": slug, "stage": stage} for slug, stage in answer.summary.unknown],
            "running": holder,
            "pauses": [one._asdict() for one in standing],
            "leases": [one._asdict() for one in held],
            "spend": {kind: sums._asdict() for kind, sums in spend.items()},
            "last_run": last,
        }
        show.tell_json(fields)
        return 0
    for line in _screen(clone, answer, rows):
        show.tell(line)
    if answer.summary.unknown:
        show.tell(show.unknown_line(len(answer.summary.unknown)))
    for line in [*show.spend_lines(spend), *map(show.pause_line, standing)]:
        show.tell(line)
    for line in show.lease_lines(held):
        show.tell(line)
    if holder is not None:
        show.tell(f"A run is going on here: {show.holder(holder)}.")
    if last is not None:
        show.tell(f"Last run: {show.run_summary(last)}")
    return 0


def pauses_of(clone: Clone) -> list[Pause]:
    """The pauses that this clone knows of. Never the network."""
    at = tips(clone.repository, clone.git, clone.objects, clone.cache)
    if not at.pauses:
        return []
    from gitstate.edge import pauses  # rarely so, and what it needs takes a while to load

    return [one.pause for _, one in sorted(pauses.of(clone.objects, at.pauses).items())]


def leases_of(clone: Clone) -> list[Held]:
    """Who holds what, as far as this clone knows. Never the network."""
    if not clone.git.text("for-each-ref", "--count=1", TRACKED_LEASES):
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


def counts(answer: Answer) -> dict[tuple[str, str], dict[str, int]]:
    """Works by (group, stage), then by state."""
    rows: dict[tuple[str, str], dict[str, int]] = {}
    for (group, stage, state, _), number in answer.summary.counts.items():
        row = rows.setdefault((group, stage), dict.fromkeys(STATES, 0))
        row[state] += number
    return rows


def last_run(state: str) -> Optional[dict[str, Any]]:
    """What the last run on this clone did; None if there was none or its note is not readable."""
    return load_json(os.path.join(state, LAST_RUN))


def _screen(clone: Clone, answer: Answer, rows: Mapping[tuple[str, str], Mapping[str, int]]) -> list[str]:
    summary = answer.summary
    head = answer.head[:9] if answer.head else "no commit yet"
    done = summary.total - len(summary.open)
    share = f" ({100 * done // summary.total} %)" if summary.total else ""
    lines = [f"{clone.config} at {head}: {done:,} of {show.number(summary.total, 'work')} done{share}."]
    if not rows:
        return lines
    states = [state for state in STATES if state == "done" or any(row[state] for row in rows.values())]
    grouped = any(group for group, _ in rows)
    cells = [[*(["group"] if grouped else []), "stage", *states, ""]]
    for (group, stage), row in rows.items():
        total = sum(row.values())
        cells.append(
            [
                *([show.safe(group) or "-"] if grouped else []),
                show.safe(stage),
                *[f"{row[state]:,}" for state in states],
                show.bar(row["done"], total),
            ]
        )
    first = 2 if grouped else 1
    lines += ["", *(f"  {line}" for line in show.table(cells, right=range(first, first + len(states)))), ""]
    return lines
