"""`gitstate status --resume SLUG`: what somebody who takes up a night's work would otherwise look up by hand.

Every line is a fact of the receipts, the log, this clone's records or its lock; and what the next run does about it is
what `run` itself would conclude. Nothing is recorded, and only with `ask` anything of the repository's is run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Optional

from gitstate import checklist, show
from gitstate.commands.clone import Clone, statuses_of, utc_now
from gitstate.commands.known import leases_of, pauses_of
from gitstate.commands.why import act_of, log_of, next_of
from gitstate.core import effect, select
from gitstate.core.derive import Status, derive
from gitstate.core.identity import work_id
from gitstate.core.lease import bucket_of
from gitstate.core.outlook import Heard, Tried, attempts_of, last_answer
from gitstate.core.pause import Pause, stamp
from gitstate.core.plan import Stage, account_of
from gitstate.core.receipt import Receipt
from gitstate.core.schedule import order_of
from gitstate.core.select import Selection
from gitstate.core.snapshot import Act
from gitstate.edge import lock
from gitstate.edge.attempts import Attempts, Trace
from gitstate.edge.jobs import idempotency_key
from gitstate.edge.snapshot import View
from gitstate.errors import UsageError


class _Known(NamedTuple):
    """What is at hand about the works of one slug."""

    view: View  # as the next start will find it
    traces: Sequence[Trace]  # of the slug's attempts that this clone has on record
    pauses: Mapping[str, Pause]  # by account
    now: datetime


def resume(
    clone: Clone, slug: str, stages: Sequence[str] = (), *, ask: bool = False, as_json: bool = False
) -> int:
    """Answer on standard output; always 0. Raises UsageError for a slug that the plan does not hold."""
    view, now = clone.view(), utc_now()
    chosen = _chosen(clone, view, slug, stages)
    name = chosen[0].slug
    held = lock.is_held(clone.repository.state)
    traces = [one for one in Attempts(clone.repository.state).traces() if one.intent.slug == name]
    if not held:
        view = _without_withdrawn(view, traces)
        row = derive(view.plan, view.identity, view.snapshot, now, {status.item for status in chosen})
        wanted = {status.stage for status in chosen}
        chosen = [status for status in row if status.stage in wanted]
    known = _Known(view, traces, {one.account: one for one in pauses_of(clone, view.tips)}, now)
    works = [_work(clone, known, status) for status in order_of(chosen, view.plan.workflow)]
    if ask:
        for work, status in zip(works, order_of(chosen, view.plan.workflow)):
            work["asked_now"] = _ask(clone, view, status)
    recorded = [work for work in works if work["recorded"]]
    last = max(recorded, key=lambda work: str(work["recorded"]["at"]), default=None)
    facts = {
        "format": 1,
        "slug": name,
        "head": view.tips.head,
        "last_recorded": {"stage": last["stage"], **last["recorded"]} if last else None,
        "next_stage": next((work["stage"] for work in works if work["next"]["do"] != "nothing"), None),
        "running": lock.holder(clone.repository.state) if held else None,
        "held": held,
        "lease": _lease(clone, view, name),
        "work": works,
    }
    if as_json:
        show.tell_json(facts)
        return 0
    for line in checklist.lines(facts, asked=ask):
        show.tell(line)
    return 0


def _lease(clone: Clone, view: View, slug: str) -> Optional[dict[str, Any]]:
    """Who has a claim on a slug, as the remote was last asked."""
    return next((one._asdict() for one in leases_of(clone, view.tips) if one.bucket == bucket_of(slug)), None)


def _chosen(clone: Clone, view: View, slug: str, stages: Sequence[str]) -> list[Status]:
    """The works of the one slug that is meant."""
    selection = clone.words(Selection(slugs=(slug,), stages=tuple(stages)))
    select.check(selection, view.plan.workflow)
    found = select.choose(selection, statuses_of(view, utc_now()))
    if len({status.slug for status in found}) > 1:
        raise UsageError(f"{slug!r} stands for more than one slug.", "Name one: gitstate plan shows them.")
    if slug == found[0].slug:
        return found
    # (an output's path: the whole chain that it is part of)
    return _chosen(clone, view, found[0].slug, stages)


def _without_withdrawn(view: View, traces: Iterable[Trace]) -> View:
    """The view once those acts are withdrawn that this clone told of and never began, as the next start will do."""
    never = {one.intent.attempt for one in traces if one.step == "intent"}
    acts = {}
    for key, open_ in view.snapshot.acts.items():
        if left := tuple(act for act in open_ if act.attempt not in never):
            acts[key] = left
    return view._replace(snapshot=view.snapshot._replace(acts=acts))


def _work(clone: Clone, known: _Known, status: Status) -> dict[str, Any]:
    """The facts about one work, as plain values."""
    view = known.view
    workflow = view.plan.workflow
    stage = next(one for one in workflow.stages if one.name == status.stage)
    key = (status.slug, status.stage)
    receipts = sorted(view.snapshot.receipts.of(*key), key=lambda line: line.at)
    log = log_of(view, status)
    acts = view.snapshot.acts.get(key, ())
    traces = [one for one in known.traces if one.intent.stage == status.stage]
    tried = attempts_of(log, receipts, acts)
    heard = last_answer(log, receipts)
    pause = known.pauses.get(account_of(workflow, stage))
    verdict = view.snapshot.verdicts.get((*key, status.hash or ""))
    answered = [one for one in traces if one.step in ("spooled", "written")]
    return {
        "stage": status.stage,
        "id": work_id(*key, status.hash) if status.hash else None,
        "state": status.state,
        "reason": status.reason,
        "components": list(status.components),
        "category": status.category,
        "needs": list(stage.needs),
        "outputs": [
            {
                "path": path,
                "blob": view.snapshot.tree.get(path),
                "stands": os.path.lexists(os.path.join(clone.repository.root, path)),
            }
            for path in status.outputs
        ],
        "recorded": _recorded(receipts, status),
        "previous": tried[-1]._asdict() if tried else None,
        "new": _new(view, status, tried),
        "effect": _effect(stage, acts, receipts, heard),
        "open": [act_of(act, status) for act in acts],
        "evidence": heard._asdict() if heard else None,
        "here": [_trace(clone, one) for one in traces],
        "pause": pause._asdict() if pause else None,
        "until": verdict.last.extra.get("until") if verdict else None,
        "elsewhere_until": _elsewhere(acts, traces, stage, known.now),
        "next": next_of(view, status, acts, [one.intent.attempt for one in answered]),
    }


def _recorded(receipts: Sequence[Receipt], status: Status) -> Optional[dict[str, Any]]:
    """The receipt that was recorded last; `today`: whether it is for what the work is now."""
    if not receipts:
        return None
    # (those for today's identity tell more than a later one of an earlier)
    last = max(receipts, key=lambda line: (line.work == status.hash, line.at))
    extra = {name: last.extra.get(name) for name in ("adopted", "by", "why")}
    return {
        "at": last.at,
        "attempt": last.attempt,
        "kind": last.kind,
        **extra,
        "today": last.work == status.hash,
    }


def _new(view: View, status: Status, tried: Sequence[Tried]) -> Optional[dict[str, Any]]:
    """What the next attempt would have: a new id always, and this key. `same_key`: the previous one had it, too."""
    if status.hash is None or status.state == "done":
        return None
    count = view.snapshot.receipts.completed(status.slug, status.stage, status.hash)
    key = idempotency_key(status.slug, status.stage, status.hash, count)
    if not tried:
        return {"key": key, "same_key": None}
    last = tried[-1]
    same = last.key == key if last.key else last.work == status.hash and last.end != "recorded"
    return {"key": key, "same_key": same}


def _effect(
    stage: Stage, acts: Sequence[Act], receipts: Sequence[Receipt], heard: Optional[Heard]
) -> Optional[dict[str, Any]]:
    """What an effect is known by, and whether it has happened: yes, no or unknown."""
    if stage.effect is None:
        return None
    command = stage.effect.evidence
    return {
        "evidence": list(command) if isinstance(command, tuple) else command,
        "idempotent": stage.effect.idempotent,
        "on_stale": stage.effect.on_stale,
        "happened": "unknown" if acts else "yes" if receipts else "no",
    }


def _trace(clone: Clone, trace: Trace) -> dict[str, Any]:
    """What this clone has on record of an attempt, and the unfinished files that it owns."""
    intent = trace.intent
    roots = dict.fromkeys(filter(None, (intent.root, clone.repository.root)))
    partial = [
        path
        for path in intent.temporaries
        if any(os.path.lexists(os.path.join(root, path)) for root in roots)
    ]
    return {"attempt": intent.attempt, "at": intent.at, "step": trace.step, "partial": partial}


def _elsewhere(acts: Sequence[Act], traces: Sequence[Trace], stage: Stage, now: datetime) -> Optional[str]:
    """Until when an act that another clone began may still be under way there."""
    mine = {one.intent.attempt for one in traces}
    others = [act for act in acts if act.attempt not in mine]
    until = effect.may_be_under_way(others, stage.timeout, now) if stage.effect else None
    return stamp(until) if until else None


def _ask(clone: Clone, view: View, status: Status) -> Optional[dict[str, Any]]:
    """What evidence answers now about the open acts of a work. None where there is nothing to ask, or nothing to ask
    with. Recorded is nothing of it."""
    acts = view.snapshot.acts.get((status.slug, status.stage), ())
    stage = next(one for one in view.plan.workflow.stages if one.name == status.stage)
    if not acts or stage.effect is None or stage.effect.evidence is None or status.hash is None:
        return None
    # With all that a run needs; only this needs it.
    from gitstate.commands.acts import answer_in, as_act, of_act
    from gitstate.commands.attempting import intent_in, previous_in
    from gitstate.edge.jobs import Jobs
    from gitstate.edge.process import execute
    from gitstate.edge.render import RenderError

    jobs, before = Jobs(clone.repository, clone.objects), previous_in(view.snapshot, status)
    try:
        intent = as_act(intent_in(view, status, stage, acts[-1].attempt), acts[-1])
        job = jobs.question(intent, stage, acts[-1].key, before)
    except RenderError as error:
        return {"answer": "unclear", "said": str(error)}
    with TemporaryDirectory() as folder:  # a run that starts meanwhile sweeps the place that commands share
        found, printed, words = answer_in(execute(job._replace(scratch_parent=folder)))
    answer, said = of_act(acts[-1], found, printed, words)
    return {"answer": answer, "said": said}
