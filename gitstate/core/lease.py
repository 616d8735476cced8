"""Leases: who works on what, for machines that run at once. Pure.

A slug belongs to one of BUCKETS fixed buckets, by hash, and a bucket has one holder at most: its ref on the shared
remote names it, and the remote moves a ref only from what the pusher expected. So two claims on one work are two
writes of one ref, of which the remote takes one, and nothing has to be compared afterwards. (A ref for each claim
would leave it to the claimants to see each other: either's reading may come before the other's write, so no order
among them is safe, and nothing fences off the one that lost.) All stages of a slug share its bucket: a chain stays
with whoever began it. A ref stands only while its bucket is held, or else says that nobody holds it. A held bucket
keeps a 256th of the plan from the others, for as long as its holder has work there.

Clocks decide when a lease may be taken over, never who may publish: see docs/leases.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, Optional

from blake3 import blake3

from gitstate.core.values import duration

FORMAT = 1
BUCKETS = 256
DEFAULT = 600  # seconds that a lease lasts where nothing is known about how long works take
SHORTEST, LONGEST = 120, 7200  # bounds of what is chosen by receipts
LEAST, MOST = 10, 86_400  # what anybody may ask for: an abandoned lease must end some day
NOBODY = "-"  # the holder of a bucket that was given back where refs cannot be deleted: it is free
RENEWALS = 3  # a lease is renewed when this part of it has passed
_SLOW = 4  # times the slow works' seconds is how long a lease lasts by default
_RANK = 0.9  # a work is slow that takes longer than this part of them
_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})", re.ASCII)
_TEXT = re.compile(r"[0-9A-Za-z._-]{1,80}", re.ASCII)


class Claim(NamedTuple):
    """A work that a lease is for, and the attempt that is made at it ("": none yet)."""

    slug: str
    stage: str
    hash: str
    attempt: str = ""


class Lease(NamedTuple):
    """One holder's hold on a bucket."""

    holder: str  # a random name for one process
    nonce: str  # new with every write: the same content twice would be the same object, and moving to it no change
    generation: int  # of holders in a row, none of whom gave the bucket back: one more with every take-over
    length: int  # seconds without any change after which others may take it over
    works: tuple[Claim, ...]


class Seen(NamedTuple):
    """What a process knows of a bucket's ref. Times are its own, of a clock that never jumps, in seconds."""

    oid: str
    lease: Lease
    since: float  # when this very object was first known to be there
    last: float  # a time at which it surely was still there

    @property
    def is_over(self) -> bool:
        """Whether it did not change for its whole length, as far as this process watched."""
        return self.last - self.since >= self.lease.length


class Held(NamedTuple):
    """What somebody holds of the plan, as the remote was last asked. Seconds are None where they are not known."""

    bucket: str
    holder: str  # a random name
    own: bool  # whether it is a run of this clone
    generation: int  # of holders in a row, none of whom gave it back
    works: tuple[str, ...]  # SLUG/STAGE
    age: Optional[
        float
    ]  # seconds since it was first seen here as it is now; it is renewed while its holder lives
    left: Optional[float]  # seconds until others may take it over, unless it is renewed


class Standing(Enum):
    """What a bucket is for somebody."""

    FREE = "free"
    MINE = "mine"
    OTHERS = "others"
    OVER = "over"  # another's, and its time is over


class Step(Enum):
    """What to do about a bucket."""

    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"  # another's lives, or one's own has been renewed lately
    LOST = "lost"  # it was one's own, and is no more


def encode(lease: Lease) -> bytes:
    """The bytes of a lease's blob."""
    fields = {"v": FORMAT, **lease._asdict(), "works": sorted(lease.works)}
    return json.dumps(fields, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def decode(data: bytes) -> Lease:
    """The lease in a blob. Raises ValueError (or RecursionError) for anything else; unknown fields are ignored."""
    fields: Any = json.loads(data)
    if not isinstance(fields, dict) or type(fields.get("v")) is not int:
        raise ValueError("it is no lease")
    if fields["v"] != FORMAT:
        raise ValueError(f"its format is {fields['v']}, this version knows {FORMAT}")
    for name in ("holder", "nonce"):
        if not isinstance(fields.get(name), str) or not _TEXT.fullmatch(fields[name]):
            raise ValueError(f"its {name} is not a name")
    for name, most in (("generation", 2**53), ("length", MOST)):
        if type(fields.get(name)) is not int or not 1 <= fields[name] <= most:
            raise ValueError(f"its {name} is not a whole number from 1 to {most}")
    works = fields.get("works")
    if not isinstance(works, list) or not all(_is_claim(entry) for entry in works):
        raise ValueError("its works are not a list of slug, stage, hash and attempt")
    claims = tuple(sorted(Claim(*entry) for entry in works))
    return Lease(fields["holder"], fields["nonce"], fields["generation"], fields["length"], claims)


def _is_claim(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 4 and all(isinstance(text, str) for text in entry)


def plan_of(path: str) -> str:
    """The part of a lease's ref that stands for the plan: from the path of its configuration in the repository."""
    return blake3(path.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@cache
def bucket_of(slug: str) -> str:
    """The bucket that a slug belongs to, as the last part of a ref: two hex digits."""
    return _digest("gitstate lease bucket v1", slug)[:1].hex()


def shard_of(slug: str, count: int) -> int:
    """Which of `count` shards a slug belongs to, from 1; all its stages with it."""
    return int.from_bytes(_digest("gitstate lease shard v1", slug)[:8], "big") % count + 1


def shard(text: str) -> tuple[int, int]:
    """The number of a shard and how many there are, of "2/4". ValueError says what is wrong."""
    match = _SHARD.fullmatch(text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise ValueError("A shard is written like 1/4: the first of four")
    return number, count


def length(value: object) -> int:
    """Whole seconds of a `lease` as configured. ValueError says what is wrong."""
    seconds = duration(value)
    if not LEAST <= seconds <= MOST:
        raise ValueError("A lease lasts between 10s and 1d")
    return math.ceil(seconds)


def default_length(seconds: Iterable[float]) -> int:
    """How long a lease lasts, in whole seconds, where nobody said so: a multiple of what the slow works took."""
    known = sorted(value for value in seconds if math.isfinite(value) and value >= 0)
    if not known:
        return DEFAULT
    slow = known[math.ceil(_RANK * len(known)) - 1]
    return math.ceil(min(max(_SLOW * slow, SHORTEST), LONGEST))


def observe(
    before: Mapping[str, Seen], listed: Mapping[str, tuple[str, Lease]], asked: float, answered: float
) -> dict[str, Seen]:
    """What is known after the remote was read: `listed` is what it has (bucket → object, lease).

    `asked` and `answered`: this process's times before and after. What has not changed was there from its first
    answer to this question at least.
    """
    found = {}
    for bucket, (oid, lease) in listed.items():
        known = before.get(bucket)
        same = known is not None and known.oid == oid
        found[bucket] = known._replace(last=asked) if same and known else Seen(oid, lease, answered, answered)
    return found


def standing(seen: Optional[Seen], me: str) -> Standing:
    """What a bucket is for the holder `me`. The lease says whose it is: a write of one's own whose answer was lost
    is known by it, too."""
    if seen is None or seen.lease.holder == NOBODY:
        return Standing.FREE
    if seen.lease.holder == me:
        return Standing.MINE
    return Standing.OVER if seen.is_over else Standing.OTHERS


def due_at(seen: Seen) -> float:
    """When one's own lease is to be renewed."""
    return seen.since + seen.lease.length / RENEWALS


def decide(seen: Optional[Seen], me: str, held: bool, now: float) -> Step:
    """What `me` does about a bucket at its own time `now`. `held`: it believes that the bucket is its own."""
    what = standing(seen, me)
    if what is Standing.MINE and seen is not None:
        return Step.RENEW if now >= due_at(seen) else Step.WAIT
    if held:
        return Step.LOST
    return Step.WAIT if what is Standing.OTHERS else Step.TAKE


def is_doubtful(seen: Seen, now: float) -> bool:
    """Whether others may have taken over one's own lease by now: then look before anything is paid."""
    return now - seen.since >= seen.lease.length


def written(seen: Optional[Seen], me: str, nonce: str, length: int, works: Iterable[Claim]) -> Lease:
    """The lease with which `me` takes or renews a bucket that is as `seen`."""
    free = standing(seen, me) is Standing.FREE
    generation = 1 if free or seen is None else seen.lease.generation + (seen.lease.holder != me)
    return Lease(me, nonce, generation, length, tuple(sorted(works)))


def given_back(nonce: str) -> Lease:
    """What stands in a bucket that nobody holds any more, where its ref cannot be deleted."""
    return Lease(NOBODY, nonce, 1, LEAST, ())


def fence(
    seen: Mapping[str, Seen], me: str, left: Iterable[Claim], nonce: Callable[[], str], length: int
) -> dict[str, Optional[Lease]]:
    """What becomes of each bucket of `me` in a publish: renewed for the works that are `left` to it, else given back.

    Every one of them changes. The remote compares only refs that change: one that stays as it is fences nothing.
    """
    kept: dict[str, list[Claim]] = {}
    for claim in left:
        kept.setdefault(bucket_of(claim.slug), []).append(claim)
    return {
        bucket: written(known, me, nonce(), length, kept[bucket]) if bucket in kept else None
        for bucket, known in seen.items()
        if standing(known, me) is Standing.MINE
    }


def choose(
    due: Sequence[Claim], seen: Mapping[str, Seen], me: str, begun: Container[str], most: int
) -> dict[str, tuple[Claim, ...]]:
    """The works to do next, at most `most`, by bucket; none if nothing is due that no other live one holds.

    First those in buckets that are `me`'s already, then those of slugs `begun`, then what is free, at last what an
    other left lying. Of those who are at work each bucket has one whom it suits best, then a second, and so on, by hash
    (rendezvous hashing, Thaler and Ravishankar 1998): each begins with what suits itself, so that they seldom collide.
    """
    others = {known.lease.holder for known in seen.values() if standing(known, me) is Standing.OTHERS}
    ranked, orders = [], {}
    for place, claim in enumerate(due):
        bucket = bucket_of(claim.slug)
        if bucket not in orders:
            mine = _suits(me, bucket)
            order = (sum(_suits(other, bucket) < mine for other in others), mine)
            orders[bucket] = standing(seen.get(bucket), me), order
        what, order = orders[bucket]
        if what is not Standing.OTHERS:
            first = (what is not Standing.MINE, claim.slug not in begun, what is Standing.OVER)
            ranked.append((first, order, place, bucket))
    chosen: dict[str, tuple[Claim, ...]] = {}
    for *_, place, bucket in sorted(ranked)[: max(0, most)]:
        chosen[bucket] = (*chosen.get(bucket, ()), due[place])
    return chosen


@cache
def _suits(holder: str, bucket: str) -> bytes:
    """How well a bucket suits a holder: the lowest the best."""
    return _digest("gitstate lease order v1", f"{holder} {bucket}")


def abandoned(
    seen: Mapping[str, Seen], me: str, due: Iterable[Claim], dead: Container[str] = ()
) -> list[str]:
    """The buckets that others left behind, and in which nothing is due that would make somebody take them over; and
    whatever holders are left with that are known to be `dead`, of which nobody else knows that."""
    wanted = {bucket_of(claim.slug) for claim in due}
    return [
        bucket
        for bucket, known in seen.items()
        if known.lease.holder in dead or (standing(known, me) is Standing.OVER and bucket not in wanted)
    ]


@cache
def _hasher(context: str) -> blake3:
    return blake3(derive_key_context=context)


def _digest(context: str, text: str) -> bytes:
    hasher = _hasher(context).copy()
    hasher.update(text.encode("utf-8", "surrogatepass"))
    return hasher.digest()
