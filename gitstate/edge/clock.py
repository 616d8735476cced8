"""The clock of a run that waits. Passed in, so that a night can be played in a second."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timezone


class Clock:
    """The machine's own."""

    def now(self) -> datetime:
        """The time of day, in UTC. It may jump."""
        return datetime.now(timezone.utc)

    def elapsed(self) -> float:
        """Seconds since some moment; they never jump, and count on while the machine sleeps, where it tells."""
        boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; macOS counts that in its monotonic clock
        return time.clock_gettime(boot) if boot is not None else time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Sleep, but no longer than until `event` is set; whether it is."""
        return event.wait(seconds)
