"""Waiting for a window: until a stated moment, through suspension and changed clocks, and until somebody says stop."""

from __future__ import annotations

import threading
from datetime import datetime

from gitstate import show
from gitstate.edge.clock import Clock

_LOOK = 15.0  # seconds between looks at the clock, which may have jumped


def wait_until(moment: datetime, why: str, stop: threading.Event, clock: Clock) -> bool:
    """Sleep until `moment`; says once what for. False if `stop` was set before.

    It ends when the time of day has come or as many seconds have passed as it was away, whichever is first: a clock
    that is set back must not keep a run waiting, and one that jumped over the moment has reached it.
    """
    left = (moment - clock.now()).total_seconds()
    show.story(f"Waiting until {show.clock_time(moment)} ({show.duration(max(0.0, left))}): {why}")
    began = clock.elapsed()
    while clock.now() < moment and (passed := clock.elapsed() - began) < left:
        if clock.wait(stop, min(_LOOK, left - passed)):
            return False
    return not stop.is_set()
