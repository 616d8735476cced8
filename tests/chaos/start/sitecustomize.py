"""What each gitstate of a round begins with: a clock that runs at a rate of its own, and perhaps a planted bug.

Python's clocks that count up, and the waits of its threads, run faster or slower here, from `$CHAOS_ORIGIN` (seconds
since boot) on, so that they agree from one run of a clone to its next. Nothing of the product knows of it; what is no
Python (git, the paid commands) has the world's time.
"""

from __future__ import annotations

import os
import runpy
import select
import threading
import time
from typing import Any


def _run_at(rate: float, origin: float) -> None:
    told, monotonic, wait = time.clock_gettime, time.monotonic, threading.Condition.wait
    boot = time.CLOCK_BOOTTIME
    apart = monotonic() - told(boot)

    def clock_gettime(clock: int) -> float:
        now = told(clock)
        return origin + (now - origin) * rate if clock == boot else now

    def waits(self: Any, timeout: float | None = None) -> bool:
        return wait(self, None if timeout is None else timeout / rate)

    time.clock_gettime = clock_gettime
    time.monotonic = lambda: clock_gettime(boot) + apart
    # (Not by `sleep` itself, which libfaketime refuses where the time of day is set back and this clock is not.)
    time.sleep = lambda seconds: select.select((), (), (), seconds / rate) and None
    threading.Condition.wait = waits  # type: ignore[method-assign]


if "CHAOS_RATE" in os.environ:
    _run_at(float(os.environ["CHAOS_RATE"]), float(os.environ["CHAOS_ORIGIN"]))
if os.environ.get("CHAOS_BUG"):
    # (By its place: what is tested may be installed elsewhere than beside the tests.)
    planted = runpy.run_path(os.path.join(os.path.dirname(__file__), "..", "bugs.py"))
    planted["BUGS"][os.environ["CHAOS_BUG"]]()
