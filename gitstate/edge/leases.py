"""Leases on the shared remote: claimed, renewed, taken over and given back, each by compare-and-swap.

A ref for each held bucket, whose commit on an empty tree has the lease as its message (a branch takes nothing but
commits, and hosts that refuse other refs get branches). What a lease means is in `core.lease`.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple, Optional

from gitstate.core import lease
from gitstate.core.lease import Claim, Lease, Seen, Standing, Step
from gitstate.core.receipt import Receipt
from gitstate.edge import hosting, pushing, remote, tracking
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.pushing import Answer, Pushed, Swap, Swapped
from gitstate.edge.remote import Fetched, Remote
from gitstate.edge.repo import LEASE_HEADS, LEASES, TRACKED_LEASES
from gitstate.edge.tracking import Broken
from gitstate.errors import ComeBackLater, CorruptState

_REFUSALS = 3  # in a row, with nothing moved on the remote, that are no race any more
_TRIES = 2 * _REFUSALS  # of claiming: refs of both kinds
_MENDINGS = 2
_HOME = {"own": LEASES, "heads": LEASE_HEADS}


class LeaseLost(ComeBackLater):
    """The results of works were about to be published whose `buckets` this process does not hold, or not any more.

    Fetch, and claim those that are still wanted: then they may be published.
    """

    def __init__(self, name: str, buckets: Iterable[str]) -> None:
        self.buckets = frozenset(buckets)
        super().__init__(
            f"Works that are finished here are leased to another machine by now, so {name} was not told of them.",
            "They are safe here. Run `gitstate run` again: it publishes those that are still wanted.",
        )


class Leases:
    """One process's view of the leases of one plan, and those that it holds. Safe to use from several threads.

    After a claim (by its `look`, say) fetch all that the remote has, and pay only for what is then still due in `mine`:
    a bucket that was seen free may have been taken, worked off and given back since.
    """

    def __init__(
        self,
        git: Git,
        objects: Objects,
        there: Remote,
        plan: str,
        length: int,
        elapsed: Callable[[], float],
        me: Optional[str] = None,
    ) -> None:
        """`plan`: the path of the configuration; `length`: of new leases, in seconds; `elapsed`: a clock that never
        jumps, in seconds; `me`: a random name for this process."""
        self._git, self._objects, self._there = git, objects, there
        self._plan, self.length, self._elapsed = lease.plan_of(plan), length, elapsed
        self.me = me or secrets.token_hex(8)
        self.seen: dict[str, Seen] = {}
        self._refs: dict[str, str] = {}  # bucket -> the remote's ref that holds what is seen
        self._held: dict[str, tuple[Claim, ...]] = {}  # bucket -> the works that it was taken for
        self._home = LEASES
        self._deletes = True  # whether what is given back is deleted; else nobody holds it
        self._stuck = 0  # times in a row that refs were not deleted, although nothing had moved
        self._taken = False  # whether the remote has ever taken one: then a refusal is one of a busy server
        self._lock = threading.RLock()
        # Holders that are known to be dead: what they hold is over at once.
        self.dead: frozenset[str] = frozenset()

    @property
    def mine(self) -> dict[str, Seen]:
        """The buckets that this process holds, as far as it knows."""
        return {
            bucket: seen
            for bucket, seen in self.seen.items()
            if lease.standing(seen, self.me) is Standing.MINE
        }

    def look(self) -> None:
        """Fetch the leases and read them. Raises ComeBackLater if the remote cannot be reached, CorruptState for a
        lease that cannot be read."""
        with self._lock:
            asked = self._elapsed()
            remote.fetch_leases(self._git, self._there)
            self.read(asked)

    def fetch(self, say: Callable[[str], None]) -> Fetched:
        """`remote.fetch`, and read the leases that it has brought, too."""
        with self._lock:  # nothing is renewed meanwhile
            asked = self._elapsed()
            fetched = remote.fetch(self._git, self._there, say)
            self.read(asked)
            return fetched

    def holds(self, slug: str) -> bool:
        """Whether the bucket of a slug is this process's, as far as it knows. Asks nobody, and waits for nobody."""
        return lease.standing(self.seen.get(lease.bucket_of(slug)), self.me) is Standing.MINE

    def read(self, asked: float) -> None:
        """Take in the leases that a fetch has brought which began at `asked`.

        Of one bucket with a lease in either namespace, which nobody can prevent, this process gives its own back:
        whoever wrote second sees both, so that never two hold it.
        """
        with self._lock:
            answered = self._elapsed()
            found = self._found(_MENDINGS)
            self._refs, listed, doubled = {}, {}, []
            last = {self.me: 1, lease.NOBODY: 2}
            for bucket, ref, oid, one in sorted(found, key=lambda entry: last.get(entry[3].holder, 0)):
                if bucket not in listed:
                    self._refs[bucket], listed[bucket] = ref, (oid, one)
                elif one.holder == self.me:
                    doubled.append(Swap(ref, None, oid))
            seen = lease.observe(self.seen, listed, asked, answered)
            self.seen = {
                bucket: known._replace(since=-math.inf) if known.lease.holder in self.dead else known
                for bucket, known in seen.items()
            }
            pushing.swap_all(self._git, self._there, doubled)

    def claim(
        self, works: Mapping[str, Sequence[Claim]], look: Optional[Callable[[], object]] = None
    ) -> list[str]:
        """Take the buckets of `works` (as `core.lease.choose` gives them) in one push; those that are now held.

        `look`: how to look afterwards what the remote has, as by `fetch`, whether or not all went well.
        Raises ComeBackLater if the remote cannot be reached, or does not take such refs.
        """
        with self._lock:
            swapped, refusals = Swapped(frozenset()), 0
            for attempt in range(_TRIES):
                wanted = {
                    bucket: self._written(bucket, claims)
                    for bucket, claims in works.items()
                    if lease.decide(self.seen.get(bucket), self.me, False, self._elapsed()) is Step.TAKE
                }
                swapped = self._change(wanted, look)
                if not swapped.refused | swapped.unclear:
                    break
                refusals += bool(swapped.refused)
                if refusals == _REFUSALS and not self._taken:
                    self._home = LEASE_HEADS
                remote.pause(attempt, longest=0.5)
            mine = self.mine
            won = [bucket for bucket in works if bucket in mine]
            self._held.update({bucket: tuple(works[bucket]) for bucket in won})
            if not won and not self._taken and swapped.refused | swapped.unclear:
                raise ComeBackLater(
                    f"{self._there.name} does not take leases: {swapped.words}",
                    hosting.WITHOUT_LEASES,
                )
            return won

    def claim_finished(self, works: Iterable[Receipt]) -> None:
        """Take what is needed to publish finished works, as far as it is not another's. Raises as `claim` does."""
        wanted: dict[str, list[Claim]] = {}
        for line in works:
            if not self.holds(line.slug):
                claim = Claim(line.slug, line.stage, line.work, line.attempt)
                wanted.setdefault(lease.bucket_of(line.slug), []).append(claim)
        self.claim(wanted)

    def renew(self) -> None:
        """Renew the leases whose time has come, in one push.

        Raises ComeBackLater if the remote cannot be reached: they live on until others find them over.
        """
        with self._lock:
            now = self._elapsed()
            due = [b for b in self.mine if lease.decide(self.seen[b], self.me, True, now) is Step.RENEW]
            self._change({b: self._written(b, self._held.get(b, self.seen[b].lease.works)) for b in due})

    def until_due(self, longest: float) -> float:
        """Seconds until a lease is to be renewed, `longest` at most."""
        with self._lock:
            now = self._elapsed()
            return max(0.0, min([longest, *(lease.due_at(seen) - now for seen in self.mine.values())]))

    def is_doubtful(self, slug: str) -> bool:
        """Whether a slug may be another's by now: then `look` before anything of it is paid for. Waits for nobody."""
        seen = self.seen.get(lease.bucket_of(slug))
        mine = lease.standing(seen, self.me) is Standing.MINE
        return seen is None or not mine or lease.is_doubtful(seen, self._elapsed())

    def release(self, keep: Container[str] = ()) -> None:
        """Give everything back, but for the buckets to `keep`. Raises ComeBackLater; then it ends by itself."""
        with self._lock:
            self._change({bucket: None for bucket in self.mine if bucket not in keep})
            self._held.clear()

    def collect(self, due: Iterable[Claim]) -> None:
        """Remove what others left behind and nobody will take over: nothing that is `due` belongs there; and all that
        the `dead` left.

        Raises ComeBackLater if the remote cannot be reached.
        """
        with self._lock:
            self._change(dict.fromkeys(lease.abandoned(self.seen, self.me, due, self.dead)))

    def push(
        self, updates: Mapping[str, str], slugs: Iterable[str], left: Iterable[Claim], deletes: bool = True
    ) -> Pushed:
        """`pushing.push`, fenced by all leases that are held: renewed for the works that are `left`, else given back.

        `slugs`: of the works that the updates publish (`unpublished`); `deletes`: whether the remote lets refs be
        deleted. Raises LeaseLost, and sends nothing, where one
        of them is not held; ComeBackLater if the remote cannot be reached. Unless it was applied: `fetch` or `look`
        before anything else, for what is known of the leases may be wrong.
        """
        with self._lock:
            lacking = {lease.bucket_of(slug) for slug in slugs}.difference(self.mine)
            if lacking:
                raise LeaseLost(self._there.name, lacking)
            begun, claims = self._elapsed(), tuple(left)
            self._deletes = self._deletes and deletes
            changes = self._spelled(lease.fence(self.seen, self.me, claims, _nonce, self.length))
            swaps = self._swaps(changes)
            pushed = pushing.push(self._git, self._there, updates, fence=list(swaps.values()))
            if pushed.answer is Answer.APPLIED:
                self._took(changes, swaps, begun)
                kept = {
                    b: one.works for b, one in changes.items() if one is not None and one.holder == self.me
                }
                self._held.update(kept)
            return pushed

    def _written(self, bucket: str, works: Iterable[Claim]) -> Lease:
        return lease.written(self.seen.get(bucket), self.me, _nonce(), self.length, works)

    def _change(
        self, changes: Mapping[str, Optional[Lease]], look: Optional[Callable[[], object]] = None
    ) -> Swapped:
        """Write buckets' leases, or (None) give them back. Unless all went well, and with a `look` in any case, what
        the remote has is read anew."""
        changes = self._spelled(changes)
        begun, swaps = self._elapsed(), self._swaps(changes)
        looked = 0

        def there() -> dict[str, str]:
            nonlocal looked
            looked += 1
            (look or self.look)()
            return {self._refs[bucket]: seen.oid for bucket, seen in self.seen.items()}

        swapped = pushing.swap_all(self._git, self._there, list(swaps.values()), there)
        taken = {bucket: swap for bucket, swap in swaps.items() if swap.ref in swapped.taken}
        self._took(changes, taken, begun)
        if look and not looked:
            look()
        refused = (b for b, swap in swaps.items() if swap.new is None and swap.ref in swapped.refused)
        if not (stays := [bucket for bucket in refused if bucket in self.seen]):
            self._stuck = 0
            return swapped
        self._stuck += 1
        self._deletes = self._stuck < _REFUSALS
        remote.pause(self._stuck, longest=0.5)
        return self._change(dict.fromkeys(stays))

    def _spelled(self, changes: Mapping[str, Optional[Lease]]) -> Mapping[str, Optional[Lease]]:
        """The same, without deletions where the remote does not take them."""
        if self._deletes:
            return changes
        return {b: lease.given_back(_nonce()) if one is None else one for b, one in changes.items()}

    def _swaps(self, changes: Mapping[str, Optional[Lease]]) -> dict[str, Swap]:
        return {
            bucket: Swap(
                self._refs.get(bucket, f"{self._home}/{self._plan}/{bucket}"),
                self._objects.letter(lease.encode(one)) if one is not None else None,
                self.seen[bucket].oid if bucket in self.seen else None,
            )
            for bucket, one in changes.items()
        }

    def _took(self, changes: Mapping[str, Optional[Lease]], taken: Mapping[str, Swap], begun: float) -> None:
        """Note what the remote took. A lease of one's own counts from before it was sent."""
        lines = []
        for bucket, swap in taken.items():
            one, tracked = changes[bucket], self._tracked(swap.ref)
            if one is not None and swap.new is not None:
                self._taken = True
                if one.holder == lease.NOBODY:
                    self._held.pop(bucket, None)
                self.seen[bucket], self._refs[bucket] = Seen(swap.new, one, begun, begun), swap.ref
                lines.append(f"update {tracked} {swap.new}\n")
            else:
                self.seen.pop(bucket, None)
                self._refs.pop(bucket, None)
                self._held.pop(bucket, None)
                lines.append(f"delete {tracked}\n")
        if lines:
            self._git.run("update-ref", "--stdin", stdin="".join(lines).encode(), check=False)

    def _found(self, mendings: int) -> list[tuple[str, str, str, Lease]]:
        """The fetched leases of this plan: bucket, the remote's ref, object, lease."""
        folder = f"{TRACKED_LEASES}/{self._there.label}"
        names = [f"{folder}/{home}/{self._plan}" for home in _HOME]
        listed = self._git.run("for-each-ref", "--format=%(refname) %(objectname)", *names).out
        found, broken = [], []
        for line in os.fsdecode(listed).splitlines():
            name, _, oid = line.rpartition(" ")
            home, _, rest = name[len(folder) + 1 :].partition("/")
            read = self._objects.read(oid)
            if read is None:
                broken.append(Broken(name, oid))
            else:
                ref = f"{_HOME[home]}/{rest}"
                found.append((rest.rpartition("/")[2], ref, oid, self._load(ref, read[1])))
        if broken and mendings:
            # As after a power cut. They are a memory only: what the remote has comes with the next fetch.
            tracking.forget(self._git, broken)
            remote.fetch_leases(self._git, self._there)
            return self._found(mendings - 1)
        for lacking in broken:
            raise tracking.unreadable(*lacking)
        return found

    def _load(self, ref: str, data: bytes) -> Lease:
        try:
            return lease.decode(data.partition(b"\n\n")[2])
        except (ValueError, RecursionError) as error:
            raise CorruptState(
                f"{ref} on {self._there.name} does not hold a lease that this version knows ({error}).",
                f"Remove it, which costs at most a call: git push {self._there.name} :{ref}",
            ) from error

    def _tracked(self, ref: str) -> str:
        home = "heads" if ref.startswith(LEASE_HEADS + "/") else "own"
        rest = ref[len(_HOME[home]) + 1 :]
        return f"{TRACKED_LEASES}/{self._there.label}/{home}/{rest}"


class Tracked(NamedTuple):
    """A lease as it was when the remote was last asked."""

    bucket: str
    oid: str
    lease: Lease


def tracked(git: Git, objects: Objects, plan: str) -> list[Tracked]:
    """The leases of a plan (the path of its configuration) on any remote, as last fetched; never the network.

    What cannot be read is left out: they are for people here.
    """
    part = lease.plan_of(plan)
    listed = git.text("for-each-ref", "--format=%(objectname) %(refname)", TRACKED_LEASES)
    found = []
    for line in listed.splitlines():
        oid, _, ref = line.partition(" ")
        *_, of, bucket = ref.split("/")
        read = objects.read(oid) if of == part else None
        with contextlib.suppress(ValueError, RecursionError):
            if read is not None:
                found.append(Tracked(bucket, oid, lease.decode(read[1].partition(b"\n\n")[2])))
    return [one for one in found if one.lease.holder != lease.NOBODY]


def _nonce() -> str:
    return secrets.token_hex(8)
