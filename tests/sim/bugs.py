"""Mistakes that a worker could make, each of which the simulator must find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from gitstate.core import lease
from gitstate.core.lease import Claim, Lease, Seen
from tests.sim.world import ANY, Life, Machine, Swap


class UnchangedLease(Machine):
    """Publishes beside its lease, and gives it back afterwards."""

    def fence(self, left: list[Claim]) -> Mapping[str, Optional[Lease]]:
        return {bucket: seen.lease for bucket, seen in self.seen.items() if self.mine(bucket)}


class NoNonce(Machine):
    """Writes the same lease again when it renews."""

    def nonce(self) -> str:
        return "same"


class OneName(Machine):
    """Goes by the name of its user, as on every machine of theirs, and has no nonce."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.me, self.length, self.most = "user", 600, 9

    def nonce(self) -> str:
        return "same"


class WallClock(Machine):
    """Compares its own time of day with the time of day at which the holder says that it wrote."""

    def encode(self, one: Lease) -> bytes:
        data = super().encode(one)
        self.world.__dict__.setdefault("stamps", {})[data] = self.wall()
        return data

    def observe(
        self, listed: Mapping[str, tuple[Any, Lease]], asked: float, answered: float
    ) -> dict[str, Seen]:
        stamps = self.world.__dict__.get("stamps", {})
        return {b: Seen(oid, one, stamps[oid], self.wall()) for b, (oid, one) in listed.items()}


class Force(Machine):
    """Takes over by force what it has seen to be over."""

    def swap(self, bucket: str, one: Optional[Lease]) -> Swap:
        expected, wanted = super().swap(bucket, one)
        return (expected if self.mine(bucket) or expected is None else ANY), wanted


class ForceAll(Machine):
    """Claims by force what it has seen to be free."""

    def swap(self, bucket: str, one: Optional[Lease]) -> Swap:
        expected, wanted = super().swap(bucket, one)
        return (ANY if expected is None else expected), wanted


class NoLookAfterClaim(Machine):
    """Takes what it saw before its claim for what it is worth."""

    def claim(self, choice: Mapping[str, tuple[Claim, ...]]) -> Life:
        free = [bucket for bucket in choice if not self.mine(bucket)]
        yield from self.change({bucket: self.written(bucket, choice[bucket]) for bucket in free})


class BlindRetry(Machine):
    """Sends again what was turned away, and does not look whether it is there by now."""

    def publish(self, finished: list[Claim], left: list[Claim]) -> Life:
        finished = [claim for claim in finished if self.may(claim) and claim in self.spool]
        while finished:
            begun, changes = self.now(), self.fence(left)
            swaps = {bucket: self.swap(bucket, one) for bucket, one in changes.items()}
            answer = yield "publish", (self.version, tuple(finished), swaps)
            if answer:
                self.took(changes, swaps, begun)
                self.done |= set(finished)
                self.version += 1
                return
            yield from self.look()
            finished = [claim for claim in finished if self.mine(lease.bucket_of(claim.slug))]


class Hopeful(Machine):
    """Takes no answer for a good one."""

    def change(self, changes: Mapping[str, Optional[Lease]]) -> Life:
        if not changes:
            return
        begun = self.now()
        swaps = {bucket: self.swap(bucket, one) for bucket, one in changes.items()}
        answer = yield "swap", swaps
        taken = answer if answer is not None else dict.fromkeys(changes, True)
        self.took({b: one for b, one in changes.items() if taken[b]}, swaps, begun)
        if not all(taken.values()):
            yield from self.look()

    def claim(self, choice: Mapping[str, tuple[Claim, ...]]) -> Life:
        yield from NoLookAfterClaim.claim(self, choice)  # type: ignore[arg-type]


class Restless(Machine):
    """Counts the time of a lease anew with every look."""

    def observe(
        self, listed: Mapping[str, tuple[Any, Lease]], asked: float, answered: float
    ) -> dict[str, Seen]:
        return lease.observe({}, listed, asked, answered)


class BucketTime(Machine):
    """Counts since it first saw a bucket held, whatever was written there since."""

    def observe(
        self, listed: Mapping[str, tuple[Any, Lease]], asked: float, answered: float
    ) -> dict[str, Seen]:
        found = super().observe(listed, asked, answered)
        return {
            b: Seen(known.oid, known.lease, self.seen[b].since if b in self.seen else answered, asked)
            for b, known in found.items()
        }


class NotAtomic(Machine):
    """Pushes branch and lease in one command, each by itself."""

    atomic = False


class LostForgotten(Machine):
    """Publishes all that it has finished, under the leases that it still holds."""

    def publish(self, finished: list[Claim], left: list[Claim]) -> Life:
        while finished := [claim for claim in finished if claim not in self.done and claim in self.spool]:
            begun, changes = self.now(), self.fence(left)
            swaps = {bucket: self.swap(bucket, one) for bucket, one in changes.items()}
            answer = yield "publish", (self.version, tuple(finished), swaps)
            if answer:
                self.took(changes, swaps, begun)
                self.done |= set(finished)
                self.version += 1
                return
            yield from self.look()


class Tidy(Machine):
    """Removes every lease in a bucket where it knows of nothing to do."""

    def abandoned(self, due: list[Claim]) -> list[str]:
        wanted = {lease.bucket_of(claim.slug) for claim in due}
        return [bucket for bucket in self.seen if not self.mine(bucket) and bucket not in wanted]


class Sloppy(Machine):
    """Leaves its finished leases for others to collect, and collects none."""

    def release(self) -> Life:
        yield from ()

    def abandoned(self, due: list[Claim]) -> list[str]:
        return []


BUGS: Iterable[type[Machine]] = (
    UnchangedLease, NoNonce, OneName, WallClock, Force, ForceAll, NoLookAfterClaim, BlindRetry, Hopeful,
    Restless, BucketTime, NotAtomic, LostForgotten, Tidy, Sloppy,
)  # fmt: skip
