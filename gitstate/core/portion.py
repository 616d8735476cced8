"""How much of a plan one machine claims at once, and when it looks again for what others give back. Pure."""

from __future__ import annotations

import math
from typing import Optional

from gitstate.core.lease import RENEWALS

_LEAST, _BATCH = 1.0, 20.0  # seconds of work that are claimed at once, at least and at most
_FIRST = 2  # works a job that are claimed where nobody knows how long they take
_MOST = 128  # works that are claimed at once
_POLL, _SOONEST = 15.0, 2.0  # seconds between looks for what others give back, at most and at least
_LOOKS = 4  # that somebody takes who waits for others, while they do what they hold


def size(due: int, others: int, jobs: int, mean: Optional[float]) -> int:
    """How many of `due` works to claim next, beside so many `others`: `jobs` at once, each of `mean` seconds.

    Enough of them that asking the remote costs little beside the work, and few enough that others find some, to the
    end: half of an equal share, unless that is soon done. (Never more than `due` are chosen.)
    """

    def done_in(seconds: float, unknown: int) -> int:
        return jobs * (max(1, math.ceil(seconds / max(mean, 0.001))) if mean is not None else unknown)

    share = math.ceil(due / (2 * (others + 1)))
    return min(max(share, done_in(_LEAST, 1)), done_in(_BATCH, _FIRST), _MOST)


def look(held: int, others: int, mean: Optional[float], length: int, chance: float) -> float:
    """Seconds until the next look: a part of what `others` take for all the works that they hold, and no longer than a
    third of a lease's `length`. `chance`: a random number from 0 to 1, by which not all look at once."""
    takes = mean * held / max(1, others) if mean is not None else math.inf
    return _spread(min(max(takes / _LOOKS, _SOONEST), _POLL, length / RENEWALS), chance)


def look_late(chance: float) -> float:
    """The same, where the remote is away."""
    return _spread(_POLL, chance)


def _spread(seconds: float, chance: float) -> float:
    return seconds * (0.5 + chance / 2)
