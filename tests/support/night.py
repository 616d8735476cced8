"""`gitstate` by a clock that runs fast: a night in half a minute. $NIGHT is "START SPEED": when the night began by the
real clock (seconds), and how many of its seconds pass in one. It begins at 22:50 UTC.

As a script it is gitstate; `now` tells the provider beside it what time it is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import datetime, timedelta, timezone

BEGIN = datetime(2026, 8, 7, 22, 50, tzinfo=timezone.utc)


def now() -> datetime:
    """The night's time."""
    start, speed = map(float, os.environ["NIGHT"].split())
    return BEGIN + timedelta(seconds=(time.time() - start) * speed)


def main() -> int:
    """Run gitstate by this clock."""
    import gitstate.commands.clone as clone

    clone.utc_now = now  # before others take it by name
    from gitstate.edge.clock import Clock

    speed = float(os.environ["NIGHT"].split()[1])

    def wait(self: Clock, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds / speed)

    Clock.now = lambda self: now()  # type: ignore[method-assign]
    Clock.elapsed = lambda self: time.monotonic() * speed  # type: ignore[method-assign]
    Clock.wait = wait  # type: ignore[method-assign]
    from gitstate.__main__ import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
