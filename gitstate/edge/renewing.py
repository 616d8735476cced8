"""Renewing leases in the background, while the commands that they are for run."""

from __future__ import annotations

import threading
from typing import Optional

from gitstate.core.lease import RENEWALS
from gitstate.edge.leases import Leases
from gitstate.errors import GitstateError

_LEAST = 0.05  # seconds between two renewals: the main thread wants to write leases, too
_AGAIN = 5.0  # seconds until another try, where the remote could not be told


class Renewing:
    """A context in which the leases of this process are renewed in time. What fails in it is tried again: the main
    thread meets the same, and a lease that runs out only means that others may take over."""

    def __init__(self, leases: Leases) -> None:
        self.failed: Optional[GitstateError] = None  # why the last try failed, if it did
        self._leases = leases
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gitstate-leases", daemon=True)

    def __enter__(self) -> Renewing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        longest = self._leases.length / RENEWALS
        wait = self._leases.until_due(longest)
        while not self._end.wait(wait):
            try:
                self._leases.renew()
                self.failed = None
                wait = max(_LEAST, self._leases.until_due(longest))
            except GitstateError as error:
                self.failed = error
                wait = min(_AGAIN, longest)
