"""THE predicate: what is done, what is not, and why. Nothing else in gitstate decides that a work is done.

Pure: plan, identity, snapshot and the time in, states with reasons out (design section 4, the table).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Literal, NamedTuple, Optional

from gitstate.core.effect import step, tells_of_act
from gitstate.core.identity import Identity, Manifest
from gitstate.core.plan import Effect, Item, Plan, Stage, account_of
from gitstate.core.receipt import Receipt
from gitstate.core.snapshot import Act, Snapshot

State = Literal["pending", "running", "done", "failed", "paused"]
Reason = Literal[
    "new", "stale", "missing", "edited", "expired", "upstream", "unverified", "exact", "accepted"
]  # edited is a reason of done (a human changed it afterwards) and of pending (and it is also stale); stale of done,
# too, where an effect is never to be repeated (`on_stale: ignore`)
STATES: tuple[State, ...] = ("done", "pending", "running", "failed", "paused")
PROTECTED: tuple[Reason, ...] = (
    "edited",
    "unverified",
)  # never overwritten or paid for without being told to (P5)


class Status(NamedTuple):
    """One work, its state and the reason."""

    slug: str
    stage: str
    hash: Optional[str]  # None while an upstream is not done
    state: State
    reason: Optional[Reason]
    components: tuple[str, ...]  # those that moved, in the table's order
    category: Optional[str]
    outputs: tuple[str, ...]  # paths
    item: int  # index into the plan's items


def derive(
    plan: Plan, identity: Identity, snapshot: Snapshot, now: datetime, items: Optional[Iterable[int]] = None
) -> list[Status]:
    """The status of every work: item by item in plan order, stages as declared.

    `now` counts only where a stage sets `ttl`; `items` are the indexes of those to judge, all by default.
    """
    return list(each_status(plan, identity, snapshot, now, items))


def each_status(
    plan: Plan, identity: Identity, snapshot: Snapshot, now: datetime, items: Optional[Iterable[int]] = None
) -> Iterator[Status]:
    """`derive`, one status at a time: for whoever does not keep all of them (20 MB for 100,000)."""
    stages, order = plan.workflow.stages, plan.workflow.order
    declared = range(len(stages))
    needed = {name for stage in stages for name in stage.needs}
    closed = {stage.name for stage in stages if account_of(plan.workflow, stage) in snapshot.pauses}
    for index in range(len(plan.items)) if items is None else items:
        item, outputs = plan.items[index], plan.outputs[index]
        row: dict[int, Status] = {}
        content: dict[str, list[str]] = {}  # ids of the outputs of the stages that are done
        for position in order:
            stage, paths = stages[position], outputs[position]
            needs = [content[name] for name in stage.needs if name in content]
            if len(needs) == len(stage.needs):
                work = _Work(identity, snapshot, item, stage, paths, needs, stage.name in closed)
                state, reason, components, category = work.judge(now)
                if state == "done" and stage.name in needed:
                    content[stage.name] = [f"{snapshot.format}:{snapshot.tree[path]}" for path in paths]
                row[position] = Status(
                    item.slug, stage.name, work.hash, state, reason, components, category, paths, index
                )
            else:
                row[position] = Status(
                    item.slug, stage.name, None, "pending", "upstream", (), None, paths, index
                )
        for position in declared:
            yield row[position]


def manifest_of(plan: Plan, identity: Identity, snapshot: Snapshot, status: Status) -> Manifest:
    """The manifest behind a status whose hash is known: what `derive` hashed."""
    names = [stage.name for stage in plan.workflow.stages]
    stage = plan.workflow.stages[names.index(status.stage)]
    rows = plan.outputs[status.item]
    needs = [
        [f"{snapshot.format}:{snapshot.tree[path]}" for path in rows[names.index(name)]]
        for name in stage.needs
    ]
    return identity.manifest(plan.items[status.item], stage, needs)


_Judgement = tuple[
    State, Optional[Reason], tuple[str, ...], Optional[str]
]  # state, reason, components, category


class _Work:
    """One work whose upstream is done, and what the clone shows of it."""

    __slots__ = ("blobs", "closed", "hash", "identity", "item", "manifest", "needs", "snapshot", "stage")

    def __init__(
        self,
        identity: Identity,
        snapshot: Snapshot,
        item: Item,
        stage: Stage,
        paths: Sequence[str],
        needs: Sequence[Sequence[str]],
        closed: bool,
    ) -> None:
        self.closed = closed  # whether the account that its stage uses is paused
        self.identity, self.snapshot, self.item, self.stage, self.needs = (
            identity,
            snapshot,
            item,
            stage,
            needs,
        )
        self.manifest = identity.manifest(item, stage, needs)
        self.hash = self.manifest.hash
        tree, empty = snapshot.tree, snapshot.empty
        # An empty file is as if there were none: that is what a crashed or redirected command leaves.
        self.blobs = [None if (blob := tree.get(path)) == empty else blob for path in paths]

    def judge(self, now: datetime) -> _Judgement:
        """The table of design section 4, row by row."""
        slug, stage, first = self.item.slug, self.stage.name, self.blobs[0]
        mine = []
        if first is not None:
            mine = self.snapshot.receipts.on(first, (slug, stage))
            current = [receipt for receipt in mine if self._is_today(receipt)]
            if current and (later := self._later(current)):
                return self._due("stale", self._moved(later))
            if current:
                return self._current(current, now)
        if any(map(self._others_match, mine)):
            return self._due("stale", self._moved(mine))
        # Asked late: finding a work's receipts on other content takes an index over all of them.
        every = self.snapshot.receipts.of(slug, stage)
        if first is None:
            if self._is_receipted():
                return "pending", "missing", (), None
            if self.stage.effect and every:  # it has happened, whatever became of the file that said so
                return self._due("stale", self._moved(every))
            return self._due("new")
        if not every:
            return "pending", "unverified", (), None
        if any(map(self._is_today, every)):
            return "done", "edited", (), None
        return "pending", "edited", self._moved(every), None

    def _current(self, current: Sequence[Receipt], now: datetime) -> _Judgement:
        """The first output's content has a receipt for today's hash: what of the other outputs, and of time?"""
        whole = [receipt for receipt in current if self._others_match(receipt)]
        if whole:
            if self.stage.ttl is not None:
                made = [
                    when for when in map(_made, whole) if when
                ]  # one without a readable time never expires
                if made and now >= max(made) + timedelta(seconds=self.stage.ttl):
                    return self._due("expired")
            return "done", "exact" if any(r.kind == "done" for r in whole) else "accepted", (), None
        if None in self.blobs:
            return "pending", "missing", (), None
        return "done", "edited", (), None

    def _due(self, reason: Reason, components: tuple[str, ...] = ()) -> _Judgement:
        """Pending, unless it is being worked on or a verdict stands against it."""
        key = (self.item.slug, self.stage.name)
        if key in self.snapshot.running:
            return "running", reason, components, None
        acts: Sequence[Act] = ()
        if self.stage.effect is not None:
            acts = self.snapshot.acts.get(key, ())
            judged = self._of_effect(self.stage.effect, acts, reason, components)
            if judged is not None:
                return judged
        verdict = self.snapshot.verdicts.get((*key, self.hash))
        # One that was overcome, by a receipt for this very identity, stands against nothing any more.
        if verdict is not None and (reason == "expired" or not self._is_receipted()):
            return verdict.state, reason, components, verdict.category
        if self.closed:
            return "paused", reason, components, "quota"
        return "pending", reason, components, "unknown" if acts else None  # (evidence is to be asked first)

    def _of_effect(
        self, effect: Effect, acts: Sequence[Act], reason: Reason, components: tuple[str, ...]
    ) -> Optional[_Judgement]:
        """What stands against an act: only a person can tell how the last one ended, or it has happened already."""
        what = step(effect, self.hash, reason != "new", acts)
        if what == "human":
            return "failed", reason, components, "unknown"
        if what == "leave" and effect.on_stale == "ignore" and None not in self.blobs:
            return "done", "stale", components, None
        return ("paused", reason, components, None) if what == "leave" else None

    def _is_receipted(self) -> bool:
        today = list(filter(self._is_today, self.snapshot.receipts.of(self.item.slug, self.stage.name)))
        return bool(today) and not self._later(today)

    def _later(self, current: Sequence[Receipt]) -> list[Receipt]:
        """Acts of another identity after the last receipt for today's. A file can be put back, the world cannot: what
        an effect made is as the last act left it."""
        if self.stage.effect is None:
            return []
        last = max(receipt.at for receipt in current)
        every = self.snapshot.receipts.of(self.item.slug, self.stage.name)
        return [line for line in every if line.at > last and tells_of_act(line) and not self._is_today(line)]

    def _is_today(self, receipt: Receipt) -> bool:
        """Whether a receipt is for today's hash, under the scheme that it was made with (P12)."""
        if receipt.scheme == self.manifest.scheme:
            return receipt.work == self.hash
        other = self.identity.under(receipt.scheme)
        return other is not None and other.manifest(self.item, self.stage, self.needs).hash == receipt.work

    def _others_match(self, receipt: Receipt) -> bool:
        """Whether the outputs after the first have, by position, the blobs that the receipt names."""
        return self.blobs[1:] == [blob for _, blob in receipt.outputs[1:]]

    def _moved(self, receipts: Sequence[Receipt]) -> tuple[str, ...]:
        """What moved since the nearest of some earlier receipts: the fewest components, then the latest."""
        if len(receipts) > 1:
            receipts = sorted(receipts, key=lambda receipt: receipt.at, reverse=True)
        return min([self._moved_since(receipt) for receipt in receipts], key=len)

    def _moved_since(self, receipt: Receipt) -> tuple[str, ...]:
        if receipt.scheme == self.manifest.scheme:
            return self.manifest.moved(receipt.components)
        other = self.identity.under(receipt.scheme)
        if other is None:
            return self.manifest.moved(receipt.components)
        return other.manifest(self.item, self.stage, self.needs).moved(receipt.components)


def _made(receipt: Receipt) -> Optional[datetime]:
    """When a receipt was made; None where that cannot be read."""
    try:
        made = datetime.fromisoformat(receipt.at.replace("Z", "+00:00"))
    except ValueError:
        return None
    return made if made.tzinfo else made.replace(tzinfo=timezone.utc)
