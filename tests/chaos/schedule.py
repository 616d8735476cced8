"""What a round of chaos is: everything about it that is drawn, from one seed. Pure.

The processes of a round are real, so no two runs of one seed are the same instruction by instruction. Who takes part,
with which clock, and what befalls whom after how many purchases or seconds is.
"""

from __future__ import annotations

import random
from typing import NamedTuple

RATE = 4.0  # the clocks of all clones run that much faster than time, or a lease of the least length outlasts a round
LEASE = 10  # seconds by the clones' clocks; the least that the configuration allows
CALM = 600  # the same, in a round in which no lease may end
KILLS = ("gitstate", "machine", "server")
CUTS = {"file": ("gone",), "http": ("gone", "refused", "dropped")}
TRIES = 4  # runs of one clone during the storm


class Member(NamedTuple):
    """A clone that takes part."""

    name: str
    jobs: int
    waits: bool  # `--wait`
    each: bool  # `--push work`: nothing begins before what is finished is pushed
    begins: float  # seconds after the others
    rate: float  # of its clock, in its seconds for each of the world's
    skew: str  # of its time of day, as libfaketime reads it; "": none


class Blow(NamedTuple):
    """A disturbance: it falls when so many works were bought, and then some seconds later."""

    kind: str  # kill, stop, cut, lost, commit, edit
    who: str  # a clone; "": all of them, or the user
    how: str
    bought: int
    later: float  # seconds
    lasts: float  # seconds


class Round(NamedTuple):
    """All that is drawn of one round."""

    seed: int
    number: int
    calm: bool  # nobody is killed, stopped or cut off, so no work may be bought twice
    transport: str  # file, http
    items: tuple[tuple[str, float], ...]  # slug, and how many seconds each of its works takes
    stages: int
    members: tuple[Member, ...]
    blows: tuple[Blow, ...]

    @property
    def lease(self) -> int:
        """How long a lease lasts, in seconds by the clones' clocks."""
        return CALM if self.calm else LEASE

    def member(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)


def draw(seed: int, number: int, transport: str | None = None) -> Round:
    """Draw round `number` of a seed; `transport` overrules what is drawn of that."""
    rng = random.Random(f"{seed}/{number}")
    calm = rng.random() < 0.2
    drawn = rng.choice(("file", "http"))
    transport = transport or drawn
    stages = rng.choice((1, 1, 2))
    size = rng.randrange(6, 12) // stages
    items = tuple((f"topic-{at}", round(rng.uniform(0.02, 0.2), 3)) for at in range(size))
    count = rng.choices((2, 3, 4, 5, 8), (8, 6, 3, 1, 0.3))[0]
    members = tuple(_member(rng, "abcdefgh"[at]) for at in range(count))
    blows = [_beside(rng, size * stages) for _ in range(rng.choice((0, 1, 1, 2)))]
    if not calm:
        blows += [_blow(rng, transport, members, size * stages) for _ in range(rng.randrange(1, 5))]
    return Round(seed, number, calm, transport, items, stages, members, tuple(blows))


def _member(rng: random.Random, name: str) -> Member:
    rate = RATE * rng.choices((1.0, 0.5, 2.0), (6, 1, 1))[0]
    hours = rng.choice((1, 5, 26, 72)) * rng.choice((-1, 1))
    skew = f"{hours:+d}h" if rng.random() < 0.25 else ""
    begins = rng.choice((0.0, 0.0, rng.uniform(0, 1)))
    each = rng.random() < 0.3
    return Member(name, rng.choice((1, 1, 2, 3)), rng.random() < 0.7, each, begins, rate, skew)


def _beside(rng: random.Random, works: int) -> Blow:
    """Something that a user does beside the runs, in a clone of their own."""
    kind = rng.choice(("commit", "commit", "edit"))
    return Blow(kind, "", "", rng.randrange(works), rng.uniform(0, 0.3), 0.0)


def _blow(rng: random.Random, transport: str, members: tuple[Member, ...], works: int) -> Blow:
    kind = rng.choices(("kill", "stop", "cut", "lost"), (4, 3, 3, 2))[0]
    who = rng.choice(members).name
    lease = LEASE / RATE
    lasts, how = rng.uniform(0.5, 1.6) * lease, ""
    if kind == "kill":
        # (A server of a remote on this disk is a process of the pusher's; over HTTP it is none.)
        lasts, how = 0.0, rng.choice(KILLS if transport == "file" else KILLS[:2])
    elif kind == "stop":
        how = rng.choice(KILLS[:2])
    elif kind == "cut":
        how = rng.choice(CUTS[transport])
        who = "" if rng.random() < 0.3 else who
    else:
        lasts = rng.uniform(0.3, 1.0) * lease
    return Blow(kind, who, how, rng.randrange(works), rng.uniform(0, 0.3), lasts)
