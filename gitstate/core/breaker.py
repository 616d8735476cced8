"""The breaker: stops a run that fails again and again for one and the same reason, before it burns the budget. Pure."""

from __future__ import annotations

from typing import NamedTuple

IN_A_ROW = 3
SHARE, AT_LEAST = 0.5, 10  # half of the works, once there were ten


class Cause(NamedTuple):
    """What failures must have in common to count together."""

    category: str
    kind: str | None
    rule: str


class Breaker:
    """Counts how works end; each work once, in the order in which they ended."""

    def __init__(self, in_a_row: int = IN_A_ROW) -> None:
        """`in_a_row`: how many equal failures in a row break; 0: nothing does."""
        self._in_a_row = in_a_row
        self._works = 0
        self._counts: dict[Cause, int] = {}
        self._last: Cause | None = None
        self._row = 0

    def done(self) -> None:
        """A work has succeeded."""
        self._works += 1
        self._last, self._row = None, 0

    def failed(self, cause: Cause) -> str:
        """A work has failed for good. Returns why the run must stop now, or ""."""
        self._works += 1
        self._row = self._row + 1 if cause == self._last else 1
        self._last = cause
        self._counts[cause] = count = self._counts.get(cause, 0) + 1
        if not self._in_a_row:
            return ""
        name = f"{cause.category}/{cause.kind}" if cause.kind else cause.category
        if self._row >= self._in_a_row:
            return f"{self._row} works in a row failed alike ({name})"
        if self._works >= max(AT_LEAST, self._in_a_row) and count >= SHARE * self._works:
            return f"{count} of {self._works} works failed alike ({name})"
        return ""
