"""`gitstate why`: everything about one slug or path: components then and now, receipts, attempts, spend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from gitstate import checklist, explain, show
from gitstate.commands.clone import Clone, statuses_of, utc_now
from gitstate.core import select
from gitstate.core.derive import Status, manifest_of
from gitstate.core.identity import COMPONENTS, work_id
from gitstate.core.outlook import in_time, outlook
from gitstate.core.receipt import LogLine, Receipt
from gitstate.core.select import Selection
from gitstate.core.snapshot import Act
from gitstate.core.summary import spend_of
from gitstate.edge.snapshot import View


def why(clone: Clone, what: str, stages: Sequence[str] = (), *, as_json: bool = False) -> int:
    """Explain the works of one slug, or of the slug that an output's path belongs to. Always 0."""
    view = clone.view()
    selection = clone.words(Selection(slugs=(what,), stages=tuple(stages)))
    select.check(selection, view.plan.workflow)
    works = [_explain(view, status) for status in select.choose(selection, statuses_of(view, utc_now()))]
    if as_json:
        show.tell_json({"format": 1, "work": works})
        return 0
    for number, work in enumerate(works):
        if number:
            show.tell("")
        for line in [*explain.why_lines(work), *checklist.open_lines(work["open"], work["next"])]:
            show.tell(line)
    return 0


def _explain(view: View, status: Status) -> dict[str, Any]:
    """What is known of one work, as plain values."""
    manifest = manifest_of(view.plan, view.identity, view.snapshot, status) if status.hash else None
    receipts = sorted(view.snapshot.receipts.of(status.slug, status.stage), key=lambda line: line.at)
    today = manifest.components if manifest else {}
    earlier = _compared(view, status, receipts)
    then = earlier.components if earlier else {}
    log = log_of(view, status)
    acts = view.snapshot.acts.get((status.slug, status.stage), ())
    return {
        "slug": status.slug,
        "stage": status.stage,
        "id": work_id(status.slug, status.stage, status.hash) if status.hash else None,
        "hash": status.hash,
        "state": status.state,
        "reason": status.reason,
        "category": status.category,
        "outputs": [{"path": path, "blob": view.snapshot.tree.get(path)} for path in status.outputs],
        "components": [
            {
                "name": name,
                "now": today.get(name),
                "then": then.get(name),
                "moved": bool(today) and today.get(name) != then.get(name),
            }
            for name in COMPONENTS
            if name in today or name in then
        ],
        "compared_with": earlier.attempt if earlier else None,
        "receipts": [_receipt(line) for line in receipts],
        "log": [_line(line) for line in log],
        "open": [act_of(act, status) for act in acts],
        "next": next_of(view, status, acts),
        "spend": _spend(receipts, log),
    }


def _compared(view: View, status: Status, receipts: Sequence[Receipt]) -> Optional[Receipt]:
    """The receipt that today's components are held against: one on the committed content, else the latest."""
    blob = view.snapshot.tree.get(status.outputs[0])
    here = [line for line in receipts if line.outputs[0][1] == blob]
    same = [line for line in here if line.work == status.hash]
    for candidates in (same, here, receipts):
        if candidates:
            return candidates[-1]
    return None


def log_of(view: View, status: Status) -> list[LogLine]:
    """The log's lines on one work, whatever its hash, oldest first."""
    lines = (LogLine._make(line) for found in view.log.lines.values() for line in found)
    mine = (line for line in lines if (line.slug, line.stage) == (status.slug, status.stage))
    return sorted(mine, key=in_time)


def act_of(act: Act, status: Status) -> dict[str, Any]:
    """An act of unknown outcome, as plain values. `today`: whether it was of what the work is now."""
    return {
        "attempt": act.attempt,
        "at": act.at,
        "key": act.key,
        "work": act.work,
        "today": act.work == status.hash,
    }


def next_of(view: View, status: Status, acts: Sequence[Act], answered: Sequence[str] = ()) -> dict[str, Any]:
    """What the next run does about a work, and what to type. `answered` are the attempts whose answer waits here."""
    stage = next(one for one in view.plan.workflow.stages if one.name == status.stage)
    happened = bool(view.snapshot.receipts.of(status.slug, status.stage))
    return checklist.following(
        status.slug,
        status.stage,
        outlook(stage, status, acts, happened, bool(answered)),
        attempts=answered or [act.attempt for act in acts],
        needs=stage.needs,
        same_key=all(act.work == status.hash for act in acts),
        looks=happened and stage.effect is not None and stage.effect.evidence is not None,
    )


def _receipt(line: Receipt) -> dict[str, Any]:
    return {
        "kind": line.kind,
        "work": line.work,
        "attempt": line.attempt,
        "at": line.at,
        "outputs": [list(pair) for pair in line.outputs],
        **line.extra,
    }


def _line(line: LogLine) -> dict[str, Any]:
    return {"kind": line.kind, "work": line.work, "attempt": line.attempt, "at": line.at, **line.extra}


def _spend(receipts: Sequence[Receipt], log: Sequence[LogLine]) -> dict[str, Any]:
    """What all attempts took together, and how many came to what: counted as `status` counts."""
    sums = spend_of(receipts, log)
    known = [sums[kind] for kind in ("accepted", "rejected", "duplicate")]
    return {
        "seconds": round(sum(one.seconds for one in known), 3),
        "usd": round(sum(one.usd for one in known), 6),
        "accepted": sums["accepted"].attempts,
        "rejected": sums["rejected"].attempts,
        "duplicate": sums["duplicate"].attempts,
        "unknown": sums["lost"].attempts,
    }
