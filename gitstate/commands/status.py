"""`gitstate status`: one screen with the counts by group and stage, what is going on, and the last run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional

from gitstate import show
from gitstate.commands.clone import Answer, Clone, utc_now
from gitstate.commands.known import leases_of, pauses_of, receipts_hint, undelivered
from gitstate.core.derive import STATES
from gitstate.edge import lock
from gitstate.edge.files import load_json

LAST_RUN = "last-run.json"


def status(clone: Clone, *, as_json: bool = False) -> int:
    """Answer on standard output; always 0."""
    answer = clone.answer(utc_now())
    rows = counts(answer)
    is_held = lock.is_held(clone.repository.state)
    holder = lock.holder(clone.repository.state) if is_held else None
    left = (0, 0) if is_held else left_here(clone.repository.state)
    last = last_run(clone.repository.state)
    spend = clone.spend(answer.tips)
    standing = pauses_of(clone, answer.tips)
    held = leases_of(clone, answer.tips)
    due = undelivered(clone, answer.tips)
    if as_json:
        fields = {
            "format": 1,
            "head": answer.tips.head,
            "total": answer.summary.total,
            "counts": [{"group": group, "stage": stage, **row} for (group, stage), row in rows.items()],
            "unknown": [{"slug": slug, "stage": stage} for slug, stage in answer.summary.unknown],
            "running": holder,
            "interrupted": left[0],
            "pauses": [one._asdict() for one in standing],
            "leases": [one._asdict() for one in held],
            "undelivered": due._asdict() if due else None,
            "spend": {kind: sums._asdict() for kind, sums in spend.items()},
            "last_run": last,
        }
        show.tell_json(fields)
        return 0
    for line in [*_screen(clone, answer, rows), *receipts_hint(answer.tips, answer.summary.open)]:
        show.tell(line)
    if answer.summary.unknown:
        show.tell(show.unknown_line(len(answer.summary.unknown)))
    for line in [*show.spend_lines(spend), *map(show.pause_line, standing)]:
        show.tell(line)
    for line in show.lease_lines(held):
        show.tell(line)
    if holder is not None:
        show.tell(f"A run is going on here: {show.holder(holder)}.")
    if left[0]:
        show.tell(show.left_line(*left))
    if due is not None:
        show.tell(show.undelivered_line(due.works, due.remote, is_held))
    if last is not None:
        show.tell(f"Last run: {show.run_summary(last)}")
    return 0


def counts(answer: Answer) -> dict[tuple[str, str], dict[str, int]]:
    """Works by (group, stage), then by state."""
    rows: dict[tuple[str, str], dict[str, int]] = {}
    for (group, stage, state, _), number in answer.summary.counts.items():
        row = rows.setdefault((group, stage), dict.fromkeys(STATES, 0))
        row[state] += number
    return rows


def left_here(state: str) -> tuple[int, int]:
    """How many calls of runs that are over are still on record here, and how many of those were answered.

    To be asked where nobody holds the lock.
    """
    if not os.path.isdir(os.path.join(state, "attempts")):
        return 0, 0
    from gitstate.edge.attempts import Attempts  # 3 ms, for what is rarely so

    left = Attempts(state).number()
    # (a run that began meanwhile has its own on record)
    return left if left[0] and not lock.is_held(state) else (0, 0)


def last_run(state: str) -> Optional[dict[str, Any]]:
    """What the last run on this clone did; None if there was none or its note is not readable."""
    return load_json(os.path.join(state, LAST_RUN))


def _screen(clone: Clone, answer: Answer, rows: Mapping[tuple[str, str], Mapping[str, int]]) -> list[str]:
    summary = answer.summary
    head = answer.tips.head[:9] if answer.tips.head else "no commit yet"
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
