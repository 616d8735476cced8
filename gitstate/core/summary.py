"""Sums over works: how many are in which state and why, and what the open ones will cost by the receipts so far."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from gitstate.core.derive import STATES, Reason, State, Status
from gitstate.core.plan import Plan
from gitstate.core.receipt import LogLine, Receipt
from gitstate.core.snapshot import Receipts, WorkKey
from gitstate.core.verdict import ASKING


class Price(NamedTuple):
    """What one stage's works took so far."""

    works: int = 0  # receipts that say how long it took
    seconds: float = 0.0
    priced: int = 0  # receipts that say what it cost
    usd: float = 0.0
    tokens: int = 0


class Estimate(NamedTuple):
    """What some open works will probably cost; None where no receipt says."""

    seconds: Optional[float]
    usd: Optional[float]
    unknown: int  # works of stages without any receipt to go by


class Spend(NamedTuple):
    """What attempts of one kind took together."""

    attempts: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0  # attempts that did not say what they cost


class Summary(NamedTuple):
    """A plan's works, summed up."""

    total: int
    items: int
    counts: Mapping[tuple[str, str, State, Optional[Reason]], int]  # (group, stage, state, reason) -> works
    open: tuple[Status, ...]  # those not done, in plan order
    prices: Mapping[str, Price]  # by stage
    unknown: tuple[
        WorkKey, ...
    ] = ()  # effects of which nobody has noted whether they happened, in plan order

    def works(
        self, *, group: Optional[str] = None, stage: Optional[str] = None, state: Optional[str] = None
    ) -> int:
        """How many works are in a group, of a stage, in a state; None stands for any."""
        return sum(
            number
            for (a_group, a_stage, a_state, _), number in self.counts.items()
            if group in (None, a_group) and stage in (None, a_stage) and state in (None, a_state)
        )


def summarise(
    plan: Plan, statuses: Iterable[Status], prices: Mapping[str, Price], acts: Container[WorkKey] = ()
) -> Summary:
    """Sum up the statuses of a plan's works; `prices` say what works took so far, `acts` are of unknown outcome."""
    counts: dict[tuple[str, str, State, Optional[Reason]], int] = {}
    field = plan.workflow.group
    left, unknown = [], []
    for status in statuses:
        if status.state != "running" and (status.slug, status.stage) in acts:
            unknown.append((status.slug, status.stage))
        group = group_of(plan, status.item) if field else ""
        key = (group, status.stage, status.state, status.reason)
        counts[key] = counts.get(key, 0) + 1
        if status.state != "done":
            left.append(status)
    return Summary(sum(counts.values()), len(plan.items), counts, tuple(left), prices, tuple(unknown))


def group_of(plan: Plan, index: int) -> str:
    """The value of the configuration's `group` field of one item, as text."""
    value = plan.items[index].fields.get(plan.workflow.group or "")
    return "" if value is None else str(value)


def prices(receipts: Receipts) -> dict[str, Price]:
    """What each stage's works took, by what their receipts say."""
    sums: dict[str, list[float]] = {}
    for stage, extra in receipts.facts():
        if not extra:
            continue
        total = sums.setdefault(stage, [0, 0.0, 0, 0.0, 0])
        if isinstance(seconds := extra.get("seconds"), (int, float)):
            total[0] += 1
            total[1] += seconds
        if isinstance(usd := extra.get("usd"), (int, float)):
            total[2] += 1
            total[3] += usd
        for name in ("tokens_in", "tokens_out"):
            if isinstance(tokens := extra.get(name), int):
                total[4] += tokens
    return {
        stage: Price(int(works), seconds, int(priced), usd, int(tokens))
        for stage, (works, seconds, priced, usd, tokens) in sums.items()
    }


def spend(receipts: Receipts, log: Iterable[LogLine]) -> dict[str, Spend]:
    """What every attempt took, by what became of it: accepted, rejected, or lost, of which nobody knows the cost."""
    lines = list(log)
    extras = (extra for _, extra in receipts.facts(_duplicates(lines)))
    return _by_outcome(extras, receipts.attempts(), lines)


def spend_of(receipts: Sequence[Receipt], log: Sequence[LogLine]) -> dict[str, Spend]:
    """The same for one work, by its receipts and its lines of the log."""
    duplicates = _duplicates(log)
    extras = (line.extra for line in receipts if line.attempt not in duplicates)
    return _by_outcome(extras, {line.attempt for line in receipts}, log)


def _duplicates(lines: Iterable[LogLine]) -> dict[str, Mapping[str, Any]]:
    """What the attempts took whose result another's went before, by attempt."""
    return {line.attempt: line.extra for line in lines if line.kind == "duplicate"}


def _by_outcome(
    extras: Iterable[Mapping[str, Any]], accepted: Container[str], lines: Sequence[LogLine]
) -> dict[str, Spend]:
    """`extras` are of the receipts that are no duplicates; `accepted` are all attempts with a receipt: some of them had
    failed before, until a check was mended."""
    return {
        "accepted": _spent(extra for extra in extras if "seconds" in extra),
        "rejected": _spent(
            {
                line.attempt: line.extra
                for line in lines
                if is_failed_attempt(line) and line.attempt not in accepted
            }.values()
        ),
        "duplicate": _spent(_duplicates(lines).values()),
        "lost": _spent(line.extra for line in lines if line.kind == "lost"),
    }


def is_failed_attempt(line: LogLine) -> bool:
    """Whether a line is of an attempt that failed; where evidence could not tell of an act, nothing was attempted."""
    return line.kind == "verdict" and line.extra.get("rule") != ASKING[1]


def _spent(facts: Iterable[Mapping[str, Any]]) -> Spend:
    attempts = tokens = unpriced = 0
    seconds = usd = 0.0
    for extra in facts:
        attempts += 1
        if isinstance(took := extra.get("seconds"), (int, float)):
            seconds += took
        counts = [extra[name] for name in ("tokens_in", "tokens_out") if isinstance(extra.get(name), int)]
        tokens += sum(counts)
        cost = extra.get("usd")
        if isinstance(cost, (int, float)):
            usd += cost
        elif not counts:
            unpriced += 1
    # (rounded, so that the order in which they are added up does not show)
    return Spend(attempts, round(seconds, 3), round(usd, 6), tokens, unpriced)


def estimate(works: Iterable[Status], prices: Mapping[str, Price]) -> Estimate:
    """What `works` will probably cost: each stage's mean so far."""
    seconds: Optional[float] = None
    usd: Optional[float] = None
    unknown = 0
    for status in works:
        price = prices.get(status.stage, Price())
        if price.works:
            seconds = (seconds or 0.0) + price.seconds / price.works
        else:
            unknown += 1
        if price.priced:
            usd = (usd or 0.0) + price.usd / price.priced
    return Estimate(seconds, usd, unknown)


def states(statuses: Iterable[Status]) -> dict[str, int]:
    """How many works are in each state, every state present."""
    found: dict[str, int] = dict.fromkeys(STATES, 0)
    for status in statuses:
        found[status.state] += 1
    return found


def to_plain(summary: Summary) -> dict[str, Any]:
    """The summary as plain values, for a cache."""
    return {
        "total": summary.total,
        "items": summary.items,
        "counts": dict(summary.counts),
        "open": [tuple(status) for status in summary.open],
        "prices": {stage: tuple(price) for stage, price in summary.prices.items()},
        "unknown": list(summary.unknown),
    }


def from_plain(fields: Mapping[str, Any]) -> Summary:
    """The inverse of `to_plain`."""
    return Summary(
        fields["total"],
        fields["items"],
        fields["counts"],
        tuple(map(Status._make, fields["open"])),
        {stage: Price._make(price) for stage, price in fields["prices"].items()},
        tuple([(slug, stage) for slug, stage in fields["unknown"]]),
    )
