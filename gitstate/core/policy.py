"""What is done about a failure: one table from category and kind to a reaction. Pure.

A work gets some tries in one run, with growing pauses between them; when they are used up it fails, or is paused, or
the whole run pauses. What waiting cannot cure gets one try. A stage may set rows of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from gitstate.core.verdict import STATES

Then = Literal["fail", "pause", "pause_run"]
THENS: tuple[Then, ...] = ("fail", "pause", "pause_run")


class Row(NamedTuple):
    """How a failure of one category, or of one kind of it, is met."""

    tries: int  # attempts that a work gets within one run, the first included
    base: float  # seconds before the second; doubled before each further one. A wait that was stated counts instead
    then: Then  # once they are used up


# Quota is nobody's defect: when it does not pass in a few tries, the window is closed for all of this account.
TABLE: Mapping[str, Row] = {
    "quota/throttle": Row(3, 1.0, "pause_run"),
    "quota/capacity": Row(3, 1.0, "pause_run"),
    "quota/window": Row(1, 1.0, "pause_run"),
    "quota/billing": Row(1, 1.0, "pause_run"),
    "timeout": Row(3, 1.0, "pause"),
    "unknown": Row(3, 1.0, "pause"),
    "validation/empty": Row(3, 1.0, "fail"),
    "validation/error_shaped": Row(3, 1.0, "fail"),
    "validation": Row(1, 1.0, "fail"),  # truncated, refused, too_large, and each failing check
    "phase_error": Row(1, 1.0, "fail"),  # auth, not_found, crash
    "planning_error": Row(1, 1.0, "fail"),
}

CATEGORIES = tuple(STATES)

Policy = Mapping[str, Row]  # rows that count before those of the table


class Reaction(NamedTuple):
    """What is done about one failed attempt."""

    do: Literal["again", "fail", "pause", "pause_run"]
    after: float = 0.0  # seconds before `again`

    @property
    def state(self) -> Literal["pending", "failed", "paused"]:
        """What the attempt makes of its work, for the log. Where the run pauses, the work is innocent."""
        if self.do == "fail":
            return "failed"
        return "paused" if self.do == "pause" else "pending"


def row(policy: Policy, category: str, kind: str | None) -> Row:
    """The row for a failure: of its kind before that of its category, the stage's before the table's."""
    names = (f"{category}/{kind}", category)
    for rows in (policy, TABLE):
        for name in names:
            if name in rows:
                return rows[name]
    # A kind of quota that the table does not know is met like the most careful one.
    return TABLE["quota/window"] if category == "quota" else TABLE["unknown"]


def react(
    policy: Policy, category: str, kind: str | None, tries: int, wait: float | None, chance: float
) -> Reaction:
    """The reaction to a failure of the `tries`-th attempt (from 1) at a work in this run.

    `wait`: seconds that the provider asked for; they are kept in full. `chance`: a random number from 0 to 1, by which
    those who failed together do not come back together.
    """
    found = row(policy, category, kind)
    if tries >= found.tries:
        return Reaction(found.then)
    pause = found.base * 2 ** (tries - 1)
    if wait is not None:
        return Reaction("again", wait + min(pause, 1.0) * chance)
    return Reaction("again", pause * (0.5 + 0.5 * chance))
