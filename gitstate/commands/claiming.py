"""How a run shares its plan with others that run at once: it claims before it pays, and publishes what is its own."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Optional

from gitstate import story
from gitstate.commands.lines import duplicate_line
from gitstate.commands.session import Session
from gitstate.core import lease, portion
from gitstate.core.identity import work_id
from gitstate.core.lease import Claim, Seen, Standing
from gitstate.core.snapshot import WorkKey
from gitstate.edge import hosting
from gitstate.edge.branch import withhold
from gitstate.edge.clock import Clock
from gitstate.edge.keep import keep
from gitstate.edge.leasememory import Memory
from gitstate.edge.leases import Leases
from gitstate.edge.pushing import Pushed
from gitstate.edge.remote import Fetched, Remote
from gitstate.edge.renewing import Renewing
from gitstate.edge.unpublished import Unpublished, unpublished
from gitstate.errors import Away, ComeBackLater, GitstateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gitstate.commands.loop import Loop
    from gitstate.commands.syncing import Syncing

_NAMED = 50  # works that a lease names: that it is held says the ref alone
_TRIES = 20  # claims in a row that others were faster with


class Claiming:
    """The leases of one run; a context in which they are renewed, and at whose end they are given back.

    Everything but `may` and `holds` belongs to the run's main thread.
    """

    def __init__(self, session: Session, syncing: Syncing, there: Remote, clock: Clock) -> None:
        """To be made right after a sync has fetched what the remote has."""
        clone = session.clone
        self.session, self._syncing, self._there, self._clock = session, syncing, there, clock
        self._memory = Memory(clone.repository.state, clone.config)
        self.leases = Leases(clone.git, clone.objects, there, clone.config, _length(session), clock.elapsed)
        self.leases.dead = self._memory.holders
        self._read_first()
        self._renewing = Renewing(self.leases)
        self._noted = False
        self._aside: dict[WorkKey, None] = {}  # works that wait for a claim
        self._withdrawn: list[WorkKey] = []  # done by this run, and taken over by another machine before
        self._again = 0.0  # when it makes sense to look for more
        self._said = ""  # what was last said to be waited for
        self._prices = clone.prices(session.view)
        self.open: Callable[[], Collection[WorkKey]] = tuple  # the works of the run that are not settled
        self.trouble = ""  # why nothing can be claimed any more

    def _read_first(self) -> None:
        """Take in what was just fetched, with the times at which this clone first saw it."""
        asked = self._clock.elapsed()
        self.leases.read(asked)
        self.leases.seen = self._memory.dated(self.leases.seen, asked)

    def __enter__(self) -> Claiming:
        if self._waiting():
            self.regain()
            self._syncing.deliver()
            self.session.refresh()
        with contextlib.suppress(GitstateError):  # (then it ends by itself)
            self.leases.collect(self._named(key) for key in self._undone())
        self.session.holds = self.still_holds
        self.session.elsewhere = lambda slug: not self.holds(slug)
        if self.session.acts:
            self.session.refresh()
        self._renewing.__enter__()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._renewing.__exit__()
        # Where the remote is away they end by themselves, or the next run of this clone takes them over.
        with contextlib.suppress(GitstateError):
            kept = {lease.bucket_of(one.receipt.slug) for one in self._waiting()}
            self.leases.release(kept)
            self.leases.collect(self._named(key) for key in self._undone())
            self._remember(ended=True)

    # --- before paying ---------------------------------------------------------------------------------------------

    def holds(self, slug: str) -> bool:
        """Whether a slug is ours, as far as is known without asking."""
        return self.leases.holds(slug)

    def may(self, key: WorkKey) -> bool:
        """Whether a work may be paid for now. In any thread."""
        if self.holds(key[0]) and self.leases.is_doubtful(key[0]):
            try:
                self.leases.look()
            except GitstateError:
                return False  # (it is claimed anew, or that says what is wrong)
        return self.holds(key[0])

    def still_holds(self, slug: str) -> bool:
        """Whether a slug's results are ours to publish, as far as can be found out; where nothing can, they are."""
        if self.holds(slug) and self.leases.is_doubtful(slug):
            with contextlib.suppress(GitstateError):
                self.leases.look()
        return self.holds(slug)

    @property
    def crowd(self) -> int:
        """How many others are at work."""
        seen, me = self.leases.seen.values(), self.leases.me
        return len({one.lease.holder for one in seen if lease.standing(one, me) is Standing.OTHERS})

    def is_others(self, slug: str) -> bool:
        """Whether a live other holds a slug, as far as is known without asking."""
        seen = self.leases.seen.get(lease.bucket_of(slug))
        return lease.standing(seen, self.leases.me) is Standing.OTHERS

    def put_aside(self, key: WorkKey) -> None:
        """A work is ready, and not ours."""
        self._aside[key] = None

    def waits(self, loop: Loop) -> bool:
        """Whether to wait for works that others hold, and may give back. What a closed window keeps from beginning is
        waited for in another round, and so is all once it is time to look at one again."""
        if not loop.options.wait or self.trouble or self._is_enough(loop) or loop.windows.is_due():
            return False
        return any(loop.lets(key) for key in self._aside)

    def refill(self, loop: Loop) -> bool:
        """Hand more of what was put aside to the loop, once that may begin. Whether there was any."""
        if self._is_enough(loop):
            return False
        if self._withdrawn:
            loop.reopen(self._withdrawn)
            self._withdrawn.clear()
            return True
        found = self.more(loop, idle=not (loop.flying or loop.reactions.resting or loop.options.wait))
        for key in reversed(found):
            loop.come_again(key)
        return bool(found)

    def is_short(self, loop: Loop) -> bool:
        """Whether works are left because they could not be claimed."""
        return bool(self.trouble) or (bool(self._aside) and not self._is_enough(loop))

    def _is_enough(self, loop: Loop) -> bool:
        return loop.options.limit is not None and len(loop.begun) >= loop.options.limit

    def others(self, loop: Loop) -> tuple[int, int]:
        """How many works are left because others hold them, and how many others those are."""
        held = self._held_by_others(loop)
        return len(held), len({one.lease.holder for one in held})

    def _held_by_others(self, loop: Loop) -> list[Seen]:
        """The leases of the works that are left because others hold them; one for each work."""
        seen, me = self.leases.seen, self.leases.me  # (what is renewed meanwhile makes a new mapping)
        found = (seen.get(lease.bucket_of(slug)) for slug, _ in loop.open)
        return [one for one in found if one is not None and lease.standing(one, me) is Standing.OTHERS]

    def more(self, loop: Loop, idle: bool) -> list[WorkKey]:
        """Works that were put aside and may begin now, for which more is claimed, or that are done elsewhere by now.

        `idle`: nothing else is left to do, so that it is worth asking the remote at once.
        """
        if not self._aside or self.trouble:
            return []
        try:
            for _ in range(_TRIES):
                if (ready := self._take_ready(loop)) or loop.stop.is_set():
                    return ready
                if any(self.holds(slug) for slug, _ in self._aside):
                    self._renew()
                    continue
                if chosen := self._choose(loop):
                    self._claim(loop, chosen)
                elif not (idle or self._keeps_waiting(loop)) and self._clock.elapsed() < self._again:
                    self._tell_of_waiting(loop)
                    return []
                elif self._syncing.deliver():  # others may wait for just that
                    self._look_anew()
                else:
                    self._fetch()
                idle = False
                self._again = self._clock.elapsed() + self._poll(loop)
        except Away as error:
            if not loop.options.wait:
                self._give_up(loop, error)
            else:
                self._say(loop, "remote", story.waiting_for_remote_line(error.message))
                self._again = self._clock.elapsed() + portion.look_late(random.random())  # noqa: S311 (no secret)
        except ComeBackLater as error:
            self._give_up(loop, error)
        return self._take_ready(loop)

    def _renew(self) -> None:
        """Renew what is held, since claiming it took so long that it is doubtful. Raises ComeBackLater where this takes
        longer than a claim lasts, too."""
        began, length = self._clock.elapsed(), self.leases.length
        self.leases.renew()
        took = self._clock.elapsed() - began
        if took >= length:
            raise ComeBackLater(
                f"{self._there.name} takes {took:.0f} s to renew a claim that lasts {length} s, so it is over before "
                "anything can begin.",
                f"Let claims last longer in the configuration: lease: {5 * math.ceil(took)}s",
            )

    def _give_up(self, loop: Loop, error: ComeBackLater) -> None:
        self.trouble = error.message.splitlines()[0]
        loop.progress.story(story.not_claimed_line(error.message, error.hint))

    def _claim(self, loop: Loop, works: Mapping[str, Sequence[Claim]]) -> None:
        """Take the buckets of `works`, as far as they are to be had, and look what is due now: a bucket that was seen
        free may have been worked off and given back since."""
        fetched: list[Fetched] = []
        self._prepare()
        over = {
            bucket: self.leases.seen[bucket].lease.holder for bucket in works if bucket in self.leases.seen
        }
        won = self.leases.claim(works, lambda: fetched.append(self.fetch()))
        for holder in sorted(
            {over[bucket] for bucket in won if bucket in over} - {lease.NOBODY, self.leases.me}
        ):
            count = sum(len(works[bucket]) for bucket in won if over.get(bucket) == holder)
            loop.progress.story(story.taken_over_line(count, holder, holder in self.leases.dead))
        self._said = ""
        self._syncing.merge(fetched[-1])
        self._look_anew()

    def _take_ready(self, loop: Loop) -> list[WorkKey]:
        ready = [key for key in self._aside if not self.leases.is_doubtful(key[0]) or not loop.concerns(key)]
        for key in ready:
            del self._aside[key]
        return ready

    def _choose(self, loop: Loop) -> dict[str, tuple[Claim, ...]]:
        """The works to claim next."""
        due = [key for key in self._aside if loop.lets(key) and not self.is_others(key[0])]
        most = portion.size(len(due), self.crowd, loop.options.jobs, loop.mean or self._mean(due))
        if loop.options.limit is not None:
            most = min(most, loop.options.limit - len(loop.begun))
        begun = {slug for slug, _ in loop.begun}
        return lease.choose([self._named(key) for key in due], self.leases.seen, self.leases.me, begun, most)

    def _mean(self, keys: Iterable[WorkKey]) -> Optional[float]:
        """Seconds that works of these stages took, by the receipts; None where there are none."""
        known = [price for stage in {stage for _, stage in keys} if (price := self._prices.get(stage))]
        works = sum(price.works for price in known)
        return sum(price.seconds for price in known) / works if works else None

    def _tell_of_waiting(self, loop: Loop) -> None:
        if loop.flying or not loop.options.wait:
            return
        if held := self._held_by_others(loop):
            now, holders = self._clock.elapsed(), {one.lease.holder for one in held}
            left = max(one.lease.length - (now - one.since) for one in held)
            line = story.waiting_for_others_line(len(held), len(holders), max(0.0, left))
            self._say(loop, "others", line)

    def _say(self, loop: Loop, what: str, line: str) -> None:
        """Say what is waited for, once for as long as it is."""
        if what != self._said:
            self._said = what
            loop.progress.story(line)

    def _keeps_waiting(self, loop: Loop) -> bool:
        """Whether what is finished here waits for nothing more, and others may wait for it."""
        return not loop.flying and self._syncing.owes and self._syncing.reachable is not None

    def _poll(self, loop: Loop) -> float:
        """Seconds until the next look."""
        held, others = self.others(loop)
        mean = loop.mean or self._mean(self._aside)
        return portion.look(held, others, mean, self.leases.length, random.random())  # noqa: S311 (no secret)

    def _named(self, key: WorkKey) -> Claim:
        status = self.session.statuses.get(key)
        return Claim(*key, (status.hash if status is not None else None) or "")

    # --- publishing ------------------------------------------------------------------------------------------------

    def send(self, updates: Mapping[str, str], deletes: bool) -> Pushed:
        """Push, fenced by all leases that are held. Raises LeaseLost where what would be published is not ours."""
        return self.leases.push(updates, {one.receipt.slug for one in self._waiting()}, self._left(), deletes)

    def fetch(self) -> Fetched:
        """Fetch all that the remote has, and see what the leases are by it."""
        return self.leases.fetch(self._syncing.say)

    def _left(self) -> list[Claim]:
        """The works of the run that are still to be done, in the buckets that it holds."""
        mine, left = self.leases.mine, dict[str, list[WorkKey]]()
        for key in self.open():
            if (bucket := lease.bucket_of(key[0])) in mine:
                left.setdefault(bucket, []).append(key)
        return [self._named(key) for keys in left.values() for key in keys[:_NAMED]]

    def regain(self) -> None:
        """Hold what is finished here and not published, as an earlier run may have left it, and after a publish was
        refused. What another has by now is theirs to publish: it is taken off the branch and kept.

        Raises ComeBackLater if the remote cannot be reached.
        """
        self._fetch()
        if lacking := [one.receipt for one in self._waiting() if not self.holds(one.receipt.slug)]:
            self._prepare()
            self.leases.claim_finished(lacking)
            self._fetch()
        lost = [one for one in self._waiting() if not self.holds(one.receipt.slug)]
        # What an effect did has happened: that stays, and is published as soon as it can be.
        self._withhold([one for one in lost if self.session.effect(one.receipt.stage) is None])

    def _withhold(self, lost: Collection[Unpublished]) -> None:
        if not lost:
            return
        clone, session = self.session.clone, self.session
        for one in lost:
            keep(clone.git, one.receipt.attempt, [blob for _, blob in one.receipt.outputs])
        paths = {path for one in lost for path in one.paths}
        with session.guard.moving(paths):
            gone = withhold(
                clone.git, clone.repository, clone.objects, self._syncing.aim.branch, self._there, paths
            )
        if not gone:
            return
        session.refresh()
        for one in lost:
            session.note(*duplicate_line(clone.objects, one.receipt))
            self._withdrawn.append((one.receipt.slug, one.receipt.stage))
            name = work_id(one.receipt.slug, one.receipt.stage, one.receipt.work)
            self._syncing.say(story.late_line(name))

    def _waiting(self) -> list[Unpublished]:
        """What is finished here of this plan, and not published."""
        clone, plan = self.session.clone, self.session.view.plan
        slugs = {item.slug for item in plan.items}
        found = unpublished(clone.git, clone.objects, self._there, self._syncing.aim.branch)
        return [one for one in found if one.receipt.slug in slugs]

    # --- small things ----------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Fetch and merge all that the remote has, leases too, and look anew."""
        self._syncing.merge()
        self._look_anew()

    def _look_anew(self) -> None:
        self.session.refresh()
        self._remember()

    def _undone(self) -> list[WorkKey]:
        return [key for key, status in self.session.statuses.items() if status.state != "done"]

    def _prepare(self) -> None:
        """Before the first claim. The name is noted so that the next run here knows that it is dead, should this one
        die. Raises ComeBackLater where the remote does not take what fences."""
        if not self._noted:
            hosting.require_atomic(self.session.clone.git, self._there)
            self._memory.note(self.leases.me)
            self._noted = True

    def _remember(self, ended: bool = False) -> None:
        holding = {seen.lease.holder for seen in self.leases.seen.values()}
        if not ended:
            holding.add(self.leases.me)
        with contextlib.suppress(OSError):
            self._memory.keep(self.leases.seen, self._memory.holders & holding)


def _length(session: Session) -> int:
    """Seconds that a lease lasts: as configured, else by what the slow works took so far."""
    workflow = session.view.plan.workflow
    if workflow.lease is not None:
        return workflow.lease
    facts = session.view.snapshot.receipts.facts()
    took = [extra.get("seconds") for stage, extra in facts if stage in session.stages]
    return lease.default_length(float(value) for value in took if isinstance(value, (int, float)))
