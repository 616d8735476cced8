"""Machines that share a plan over leases, a remote and a line between them, all in one thread and by one seed.

The rules are those of `core.lease`; the machine says in which order they are asked, as a worker does. Every step is
one event: a machine goes on to its next question to the remote, a message arrives, is lost, is delivered twice or late,
a machine dies, stops, or goes on. What must never happen is checked by the remote, which knows the truth.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Mapping
from typing import Any, NamedTuple, Optional

from gitstate.core import lease
from gitstate.core.lease import Claim, Lease, Seen, Standing, Step

Swap = tuple[Optional[bytes], Optional[bytes]]  # the object that is expected, and the one wanted
ANY = b"any"  # expected by who pushes by force
DRIFT = 0.01  # how much faster or slower a machine's clock may run


class Violation(AssertionError):
    """Something happened that must never happen."""


class View(NamedTuple):
    """What a fetch brings."""

    refs: dict[str, bytes]
    version: int  # of the branch
    done: frozenset[Claim]


class Message(NamedTuple):
    """A question on its way to the remote."""

    sender: Machine
    number: int  # which of the sender's questions it is
    kind: str  # fetch, swap, publish
    content: Any


class Remote:
    """A git server: refs that change by compare-and-swap, and a branch."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.refs: dict[str, bytes] = {}
        self.written: dict[str, tuple[Machine, float]] = {}  # who wrote a ref last, and when
        self.version = 0
        self.done: set[Claim] = set()

    def handle(self, message: Message) -> Any:
        """Do what a message asks for; the answer."""
        if message.kind == "fetch":
            return View(dict(self.refs), self.version, frozenset(self.done))
        if message.kind == "swap":
            return {
                bucket: self._move(message.sender, bucket, swap) for bucket, swap in message.content.items()
            }
        return self._publish(message.sender, *message.content)

    def _publish(
        self, sender: Machine, version: int, works: Iterable[Claim], swaps: Mapping[str, Swap]
    ) -> bool:
        if version != self.version or (sender.atomic and not all(map(self._fits, swaps, swaps.values()))):
            return False
        for claim in works:
            if claim in self.done:
                raise Violation(f"{claim.slug}/{claim.stage} is published twice")
            bucket = lease.bucket_of(claim.slug)
            if bucket not in self.refs or self.written[bucket][0] is not sender:
                raise Violation(f"{sender.name} publishes {claim.slug} and does not hold it")
        self.done.update(works)
        self.version += 1
        for bucket, swap in swaps.items():
            self._move(sender, bucket, swap)
        return True

    def _fits(self, bucket: str, swap: Swap) -> bool:
        # (for a ref that it need not change git sends no command, so nothing is compared)
        return swap[0] in (ANY, swap[1], self.refs.get(bucket))

    def _move(self, sender: Machine, bucket: str, swap: Swap) -> bool:
        now = self.refs.get(bucket)
        if swap[1] in (now, swap[0]):
            return True  # up to date, or nothing that git would send
        if not self._fits(bucket, swap):
            return False
        if now is not None:
            self._check_age(sender, bucket, now)
        if swap[1] is None:
            del self.refs[bucket], self.written[bucket]
        else:
            self.refs[bucket] = swap[1]
            self.written[bucket] = sender, self.world.time
            sender.held.add(bucket)
        return True

    def _check_age(self, sender: Machine, bucket: str, data: bytes) -> None:
        owner, when = self.written[bucket]
        least = lease.decode(data).length * (1 - 2 * DRIFT)
        if owner is not sender and self.world.time - when < least:
            raise Violation(f"{sender.name} ends the lease of {owner.name} before its time")


Life = Generator[tuple[str, Any], Any, None]


class Machine:
    """One process of a worker: what it knows, and what it does next. The bugs of `tests.sim.bugs` are kinds of it."""

    atomic = True

    def __init__(self, world: World, number: int, incarnation: int) -> None:
        chance = world.chance
        self.world, self.number = world, number
        self.name = f"{number}.{incarnation}"
        self.me = f"{chance.getrandbits(64):016x}"
        self.rate = 1 + DRIFT * chance.uniform(-1, 1)
        self.base = chance.uniform(0, 1e6)
        self.length = chance.choice((120, 300, 600))
        self.most = chance.choice((1, 2, 3))
        self.held: set[str] = set()  # the buckets that it truly has held
        self.seen: dict[str, Seen] = {}
        self.version = 0
        self.done: frozenset[Claim] = frozenset()
        self.begun: set[str] = set()
        self.works: dict[str, tuple[Claim, ...]] = {}
        self.stopped = False
        self.asked = 0  # how many questions it has sent
        self.waiting = False  # for an answer
        self.answer: Any = None
        self.wake = world.time  # when it goes on, in the world's time
        self.life = self.live()

    @property
    def spool(self) -> set[Claim]:
        """The works whose results are on this machine's disk; a crash leaves them."""
        return self.world.spools[self.number]

    def now(self) -> float:
        """This machine's own clock that never jumps."""
        return self.base + self.rate * self.world.time

    def wall(self) -> float:
        """What this machine takes for the time of day."""
        return self.world.time + self.world.skews[self.number]

    # What a worker does

    def live(self) -> Life:
        """Work until everything is done, and beyond."""
        while True:
            yield from self.look()
            due = self.due()
            yield from self.collect(due)
            choice = lease.choose(due, self.seen, self.me, self.begun, self.most)
            if choice:
                yield from self.claim(choice)
            works = [claim for claims in choice.values() for claim in claims if self.may(claim)]
            for place, claim in enumerate(works):
                yield from self.work(claim)
                yield from self.publish([claim], works[place + 1 :])
            if not works:
                yield from self.release()
                yield "sleep", self.world.chance.uniform(5, self.length / 3)

    def due(self) -> list[Claim]:
        """The works that can be done now, as far as this machine knows."""
        return [
            claim
            for claim in self.world.works
            if claim not in self.done and (claim.stage == "a" or claim._replace(stage="a") in self.done)
        ]

    def mine(self, bucket: str) -> bool:
        """Whether it holds a bucket, as far as it knows."""
        return lease.standing(self.seen.get(bucket), self.me) is Standing.MINE

    def may(self, claim: Claim) -> bool:
        """Whether a work is still to be done, and by this machine."""
        return claim not in self.done and self.mine(lease.bucket_of(claim.slug))

    def look(self) -> Life:
        """Read the remote, until it answers."""
        while True:
            asked = self.now()
            view = yield "fetch", None
            if view is not None:
                break
            yield "sleep", 5.0
        self.version, self.done = view.version, view.done
        listed = {bucket: (oid, lease.decode(oid)) for bucket, oid in view.refs.items()}
        self.seen = self.observe(listed, asked, self.now())

    def observe(
        self, listed: Mapping[str, tuple[Any, Lease]], asked: float, answered: float
    ) -> dict[str, Seen]:
        """What is known after the remote was read."""
        return lease.observe(self.seen, listed, asked, answered)

    def claim(self, choice: Mapping[str, tuple[Claim, ...]]) -> Life:
        """Take buckets, and look what they are worth."""
        now, free = self.now(), []
        for bucket in choice:
            if lease.decide(self.seen.get(bucket), self.me, False, now) is Step.TAKE:
                free.append(bucket)
        self.works.update(choice)
        yield from self.change({bucket: self.written(bucket, choice[bucket]) for bucket in free})
        if free:
            yield from self.look()

    def written(self, bucket: str, works: Iterable[Claim]) -> Lease:
        """A lease of its own."""
        return lease.written(self.seen.get(bucket), self.me, self.nonce(), self.length, works)

    def nonce(self) -> str:
        """What makes every write another object."""
        return f"{self.world.chance.getrandbits(32):08x}"

    def swap(self, bucket: str, one: Optional[Lease]) -> Swap:
        """The change of a bucket's ref to a lease, or to none."""
        known = self.seen.get(bucket)
        return known.oid if known is not None else None, self.encode(one) if one is not None else None  # type: ignore[return-value]

    def encode(self, one: Lease) -> bytes:
        """The object that a lease is; here its bytes stand for their hash."""
        return lease.encode(one)

    def change(self, changes: Mapping[str, Optional[Lease]]) -> Life:
        """Write leases; unless all went well, look."""
        if not changes:
            return
        begun = self.now()
        swaps = {bucket: self.swap(bucket, one) for bucket, one in changes.items()}
        answer = yield "swap", swaps
        if answer is not None:
            self.took({b: one for b, one in changes.items() if answer[b]}, swaps, begun)
        if answer is None or not all(answer.values()):
            yield from self.look()

    def took(self, changes: Mapping[str, Optional[Lease]], swaps: Mapping[str, Swap], begun: float) -> None:
        """Note what the remote has taken."""
        for bucket, one in changes.items():
            if one is not None:
                self.seen[bucket] = Seen(swaps[bucket][1], one, begun, begun)  # type: ignore[arg-type]
            else:
                self.seen.pop(bucket, None)

    def work(self, claim: Claim) -> Life:
        """Pay for a work, unless its result is there already, and renew leases meanwhile."""
        bucket = lease.bucket_of(claim.slug)
        if self.mine(bucket) and lease.is_doubtful(self.seen[bucket], self.now()):
            yield from self.look()
        if not self.may(claim) or claim in self.spool:
            return
        self.world.pay(self, claim)
        self.begun.add(claim.slug)
        end = self.now() + self.world.chance.choice((5, 60, 400))
        while self.now() < end:
            yield "sleep", min(self.length / lease.RENEWALS, end - self.now())
            yield from self.renew()
        self.spool.add(claim)

    def renew(self) -> Life:
        """Renew what is due."""
        now = self.now()
        due = [b for b in self.seen if lease.decide(self.seen[b], self.me, True, now) is Step.RENEW]
        yield from self.change({b: self.written(b, self.works.get(b, ())) for b in due if self.mine(b)})

    def publish(self, finished: list[Claim], left: list[Claim]) -> Life:
        """Deliver results, as long as they are this machine's to deliver."""
        while finished := [claim for claim in finished if self.may(claim) and claim in self.spool]:
            left = [claim for claim in left if self.may(claim)]
            begun = self.now()
            changes = self.fence(left)
            swaps = {bucket: self.swap(bucket, one) for bucket, one in changes.items()}
            answer = yield "publish", (self.version, tuple(finished), swaps)
            if answer:
                self.took(changes, swaps, begun)
                self.done |= set(finished)
                self.version += 1
                return
            yield from self.look()

    def fence(self, left: list[Claim]) -> Mapping[str, Optional[Lease]]:
        """What becomes of its leases in a publish."""
        return lease.fence(self.seen, self.me, left, self.nonce, self.length)

    def release(self) -> Life:
        """Give back what is not wanted any more."""
        yield from self.change({bucket: None for bucket in self.seen if self.mine(bucket)})

    def collect(self, due: list[Claim]) -> Life:
        """Remove what others left behind."""
        yield from self.change(dict.fromkeys(self.abandoned(due)))

    def abandoned(self, due: list[Claim]) -> list[str]:
        """What others left behind."""
        return lease.abandoned(self.seen, self.me, due)


class World:
    """Some machines, a remote, and what is on its way between them. Everything that happens is one of its methods."""

    def __init__(self, chance: random.Random, machines: int, kind: type[Machine] = Machine) -> None:
        self.chance, self.kind, self.time = chance, kind, 0.0
        slugs = chance.sample(SLUGS, chance.randint(1, 6))
        self.works = [Claim(slug, stage, "h") for slug in slugs for stage in "ab"]
        self.spools: list[set[Claim]] = [set() for _ in range(machines)]
        self.skews = [chance.uniform(-36_000, 36_000) for _ in range(machines)]
        self.remote = Remote(self)
        self.line: list[Message] = []
        self.incarnations = machines
        self.machines = [kind(self, number, 0) for number in range(machines)]
        self.paid: list[Claim] = []
        self.quiet = False  # nothing goes wrong in this world

    def runnable(self) -> list[Machine]:
        """The machines that could go on now."""
        return [m for m in self.machines if not m.stopped and not m.waiting and m.wake <= self.time]

    def step(self, machine: Machine) -> None:
        """Let a machine go on to its next question, or to sleep."""
        answer, machine.answer = machine.answer, None
        kind, content = machine.life.send(answer)
        if kind == "sleep":
            machine.wake = self.time + content / machine.rate
            return
        machine.asked += 1
        machine.waiting = True
        self.line.append(Message(machine, machine.asked, kind, content))

    def pay(self, machine: Machine, claim: Claim) -> None:
        """A machine begins a work that costs."""
        if self.quiet and claim in self.paid:
            raise Violation(f"{claim.slug}/{claim.stage} is paid for twice, although nothing went wrong")
        self.paid.append(claim)
        bucket = lease.bucket_of(claim.slug)
        if bucket not in machine.held:
            raise Violation(f"{machine.name} pays for {claim.slug}, which it never held")
        holds = bucket in self.remote.refs and self.remote.written[bucket][0] is machine
        if holds and claim in self.remote.done:
            raise Violation(
                f"{machine.name} pays for {claim.slug}/{claim.stage}, which was done when it took it"
            )

    def deliver(self, message: Message, *, twice: bool = False, answered: bool = True) -> None:
        """A message arrives, once or twice; its (last) answer comes back, or does not."""
        self.line.remove(message)
        answer = self.remote.handle(message)
        if twice:
            answer = self.remote.handle(message)
        self.reply(message, answer if answered else None)

    def drop(self, message: Message) -> None:
        """A message is lost."""
        self.line.remove(message)
        self.reply(message, None)

    def delay(self, message: Message) -> None:
        """The sender gives a message up, and it arrives some day all the same."""
        self.reply(message, None)

    def reply(self, message: Message, answer: Any) -> None:
        """The sender goes on, if it waits for this."""
        machine = message.sender
        if machine.waiting and machine.asked == message.number:
            machine.waiting, machine.answer = False, answer

    def crash(self, machine: Machine) -> None:
        """A process dies, and the next one begins on its machine."""
        self.incarnations += 1
        self.machines[self.machines.index(machine)] = self.kind(self, machine.number, self.incarnations)

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.time += seconds

    def doze(self) -> None:
        """Time passes until a machine wakes up."""
        wakes = [m.wake for m in self.machines if not m.stopped and not m.waiting]
        self.time = max(self.time, min(wakes, default=self.time + 60))

    @property
    def finished(self) -> bool:
        """Whether everything is done, and nothing is left lying about."""
        return len(self.remote.done) == len(self.works) and not self.remote.refs


# Slugs of few buckets, so that they meet.
_BUCKETS = ("00", "01", "02", "03")
SLUGS = [slug for slug in map(str, range(2000)) if lease.bucket_of(slug) in _BUCKETS][:16]
