"""Waiting between tries, a random while each time, so that two who collided do not collide again."""

from __future__ import annotations

import time
from typing import Optional


class Backoff:
    """`wait` sleeps about `first` seconds, then longer each time, up to `longest`."""

    def __init__(self, first: float = 0.01, longest: float = 0.25) -> None:
        self._next, self._longest = first, longest

    def wait(self, most: Optional[float] = None) -> None:
        """Sleep once, `most` seconds at most."""
        import random  # 1.5 ms, wanted only where there is something to wait for

        seconds = self._next * random.uniform(0.5, 1.5)  # noqa: S311 (no secret)
        time.sleep(seconds if most is None else max(0.0, min(seconds, most)))
        self._next = min(self._next * 2, self._longest)
