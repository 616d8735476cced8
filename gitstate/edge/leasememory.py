"""What a clone remembers of the leases of one plan from run to run.

The names under which it held some, so that what a run of its own left behind when it died is not waited for: whoever
has the run lock knows that they are dead. And since when it has seen those of others: by the clock that counts from
boot, so that also runs which do not wait see one end. Losing it costs waiting, nothing else.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Mapping

from gitstate.core import lease
from gitstate.core.lease import Seen
from gitstate.edge import lock
from gitstate.edge.files import load_json, write_whole


class Memory:
    """The memory of one plan, in the state folder. To be changed under the run lock only."""

    def __init__(self, state: str, plan: str) -> None:
        """`plan`: the path of the configuration."""
        self._lock = lock.path_of(state)
        self._path = os.path.join(state, "leases", f"{lease.plan_of(plan)}.json")
        self._fields = load_json(self._path) or {}

    @property
    def holders(self) -> frozenset[str]:
        """The names under which runs of this clone have claimed.

        None where the clone is a copy of the one that noted them: there they may be alive.
        """
        names = self._fields.get("holders")
        known = isinstance(names, list) and self._fields.get("lock") == self._identity()
        return frozenset(filter(_is_text, names)) if known and isinstance(names, list) else frozenset()

    def since(self, bucket: str, oid: str) -> float | None:
        """When this very lease was first seen here, by the clock that counts from boot; None if that is not known."""
        seen = self._fields.get("seen")
        if not isinstance(seen, dict) or self._fields.get("boot") != lock.boot() or not lock.boot():
            return None
        known = seen.get(bucket)
        if not isinstance(known, list) or len(known) != 2 or known[0] != oid:
            return None
        return float(known[1]) if type(known[1]) in (int, float) else None

    def dated(self, seen: Mapping[str, Seen], now: float) -> dict[str, Seen]:
        """The same leases, each with the time at which it was first seen here, where that is known."""
        found = dict(seen)
        for bucket, one in seen.items():
            since = self.since(bucket, one.oid)
            if since is not None and since <= now and math.isfinite(one.since):
                found[bucket] = one._replace(since=since)
        return found

    def note(self, holder: str) -> None:
        """Remember, durably, a name that is going to claim."""
        self._write({**self._fields, "holders": sorted({*self.holders, holder})})

    def keep(self, seen: Mapping[str, Seen], holders: Collection[str]) -> None:
        """Remember what is seen, and of one's own names those that still may hold something."""
        times = {bucket: [one.oid, one.since] for bucket, one in seen.items() if math.isfinite(one.since)}
        if not (times or holders or self._fields):
            return  # nobody has ever claimed anything
        self._write({**self._fields, "holders": sorted(holders), "boot": lock.boot(), "seen": times})

    def _identity(self) -> list[int] | None:
        """What a copy of this clone does not share."""
        try:
            seen = os.stat(self._lock)
        except OSError:
            return None
        return [seen.st_dev, seen.st_ino]

    def _write(self, fields: dict[str, object]) -> None:
        self._fields = {**fields, "v": 1, "lock": self._identity()}
        data = json.dumps(self._fields, sort_keys=True).encode()
        write_whole(self._path, data, os.path.basename(self._path) + ".tmp", replace=True)


def _is_text(value: object) -> bool:
    return isinstance(value, str)
