"""`gitstate accept`: bind outputs that stand there to today's identity, with a receipt that says who and why.

Also how an existing repository is taken in. Pays nothing, and never commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from gitstate import show
from gitstate.commands.clone import Clone, statuses_of, utc_now
from gitstate.commands.lines import add_lines, new_attempt, stamp, who
from gitstate.commands.locked import locked
from gitstate.core import select
from gitstate.core.derive import Status, derive, manifest_of
from gitstate.core.effect import dated
from gitstate.core.identity import COMPONENTS, work_id
from gitstate.core.receipt import Receipt, encode
from gitstate.core.select import Selection
from gitstate.edge.protect import staged_changes
from gitstate.edge.snapshot import View
from gitstate.errors import UsageError

BEFORE = "was there before gitstate"


def accept(config: str, selection: Selection, components: Sequence[str], why: str, lock_timeout: str) -> int:
    """Accept the selected works, or every unverified one. Returns 0; UsageError where nothing can be accepted."""
    for name in components:
        if name not in COMPONENTS:
            raise UsageError(
                f"--component {name}: there is no such component.", f"Known: {', '.join(COMPONENTS)}."
            )
    with locked(config, lock_timeout) as clone:
        view = _with_staged(clone, clone.view())
        if view.snapshot.dirty:
            raise UsageError(
                f"Not committed as it stands: {', '.join(view.snapshot.dirty[:10])}.",
                "Commit it first: a receipt must name what others can have too.",
            )
        accepted = _accept(clone, view, selection, frozenset(components), why)
    if accepted:
        show.tell(f"Accepted {show.number(len(accepted), 'work')}.")
    elif selection or components:
        show.tell("None of these is unverified, stale or edited, so there is nothing to accept.")
    else:
        show.tell(
            'Nothing is unverified. Stale or edited works are accepted by name: gitstate accept SLUG --why "…"'
        )
    for name in accepted[:20]:
        show.tell(f"  {show.safe(name)}")
    if len(accepted) > 20:
        show.tell(f"  … {len(accepted) - 20:,} more")
    return 0


def _with_staged(clone: Clone, view: View) -> View:
    """The view with the index's outputs in place of HEAD's: what is staged is what the user means."""
    paths = {path for row in view.plan.outputs for stage in row for path in stage}
    tree = dict(view.snapshot.tree)
    for path, blob in staged_changes(clone.git, view.tips.head).items():
        if path in paths and blob.strip("0"):
            tree[path] = blob
        elif path in paths:
            tree.pop(path, None)
    return view._replace(snapshot=view.snapshot._replace(tree=tree))


def _accept(
    clone: Clone, view: View, selection: Selection, components: frozenset[str], why: str
) -> list[str]:
    """Write the receipts; works below accepted ones become known, so it goes round by round."""
    select.check(selection, view.plan.workflow)
    statuses = statuses_of(view, utc_now())
    chosen = select.choose(clone.words(selection), statuses)
    wanted = {(status.slug, status.stage) for status in chosen}
    by_user = who(clone)
    receipts: list[Receipt] = []
    names: list[str] = []
    seen: set[tuple[str, str]] = set()
    while True:
        round_: list[Receipt] = []
        for status in statuses:
            key = (status.slug, status.stage)
            if (
                key in wanted
                and key not in seen
                and _may(status, bool(selection) or bool(components), components)
            ):
                seen.add(key)
                if receipt := _receipt(view, status, why, by_user):
                    round_.append(receipt)
                    names.append(work_id(status.slug, status.stage, receipt.work))
        if not round_:
            break
        for receipt in round_:
            view.snapshot.receipts.add(receipt.outputs[0][1], receipt)
        receipts += round_
        statuses = derive(view.plan, view.identity, view.snapshot, utc_now())
    lines: dict[str, list[bytes]] = {}
    for receipt in receipts:
        lines.setdefault(receipt.outputs[0][1], []).append(encode(receipt))
    if lines:
        add_lines(clone, lines, {}, f"gitstate: accept {show.number(len(receipts), 'work')}")
    return names


def _may(status: Status, selected: bool, components: frozenset[str]) -> bool:
    """Whether a work's output may be accepted: unverified ones always, others only when selected."""
    if components and (not status.components or not set(status.components) <= components):
        return False
    if status.reason == "unverified":
        return True
    return selected and (status.reason in ("stale", "edited", "expired")) and status.hash is not None


def _receipt(view: View, status: Status, why: str, by_user: str) -> Optional[Receipt]:
    blobs = [view.snapshot.tree.get(path) for path in status.outputs]
    if None in blobs or view.snapshot.empty in blobs:
        return None
    if status.reason != "unverified" and not why:
        raise UsageError(
            f"{status.slug}/{status.stage} is {status.reason}: say why it is right as it is.",
            'Add --why "…".',
        )
    manifest = manifest_of(view.plan, view.identity, view.snapshot, status)
    extra = {"by": by_user, "why": why or BEFORE}
    stage = next(stage for stage in view.plan.workflow.stages if stage.name == status.stage)
    return Receipt(
        work=manifest.hash,
        kind="accepted",
        slug=status.slug,
        stage=status.stage,
        attempt=new_attempt(),
        at=dated(stamp(), view.snapshot.receipts.of(status.slug, status.stage)),
        components=manifest.components,
        outputs=tuple((path, blob) for path, blob in zip(status.outputs, blobs) if blob),
        scheme=manifest.scheme,
        extra={**extra, "ignored": list(stage.ignore)} if stage.ignore else extra,
    )
