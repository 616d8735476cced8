"""`gitstate reset`: forget the verdicts against the selected works, and pauses, so that `run` takes them up again."""

from __future__ import annotations

from collections.abc import Iterable

from gitstate import show
from gitstate.commands.clone import Clone, statuses_of, utc_now
from gitstate.commands.lines import add_lines, reset_line, who
from gitstate.commands.locked import locked
from gitstate.core import select
from gitstate.core.derive import Status, manifest_of
from gitstate.core.identity import work_id
from gitstate.core.plan import account_of
from gitstate.core.receipt import encode
from gitstate.core.select import Selection
from gitstate.edge import remote
from gitstate.edge.pauses import Pauses
from gitstate.edge.repo import head_branch
from gitstate.edge.snapshot import View
from gitstate.errors import UsageError


def reset(config: str, selection: Selection, why: str, lock_timeout: str) -> int:
    """Write the lines that take the verdicts back, and lift the pauses of the accounts concerned. Returns 0."""
    if not selection:
        raise UsageError("reset wants to know what to forget.", "For example: gitstate reset --state failed")
    with locked(config, lock_timeout) as clone:
        view = clone.view()
        select.check(selection, view.plan.workflow)
        by_user = who(clone)
        lines: dict[str, list[bytes]] = {}
        names = []
        try:
            chosen = select.choose(clone.words(selection), statuses_of(view, utc_now()))
        except UsageError:
            if "paused" not in selection.states or not view.snapshot.pauses:
                raise
            chosen = []  # nobody waits for those pauses
        lifted = _lift(clone, view, chosen)
        for status in chosen:
            verdict = view.snapshot.verdicts.get((status.slug, status.stage, status.hash or ""))
            if verdict is None:
                continue
            manifest = manifest_of(view.plan, view.identity, view.snapshot, status)
            lines[clone.objects.oid("blob", manifest.encoded)] = [encode(reset_line(verdict, by_user, why))]
            names.append(work_id(status.slug, status.stage, manifest.hash))
        if lines:
            add_lines(clone, {}, lines, f"gitstate: reset {show.number(len(names), 'work')}")
    if lifted:
        show.tell(f"Forgot the {show.number(len(lifted), 'pause')} of {', '.join(map(show.safe, lifted))}.")
        if not names:
            return 0
    show.tell(
        f"Forgot the verdicts against {show.number(len(names), 'work')}: {', '.join(map(show.safe, names[:20]))}"
        if names
        else "No verdict stands against the selected works."
    )
    return 0


def _lift(clone: Clone, view: View, chosen: Iterable[Status]) -> list[str]:
    """Lift the pauses that the selected works wait for; returns their accounts."""
    stages = {stage.name: stage for stage in view.plan.workflow.stages}
    accounts = {account_of(view.plan.workflow, stages[s.stage]) for s in chosen if s.state == "paused"}
    used = {account_of(view.plan.workflow, stage) for stage in stages.values()}
    # With them those of accounts that no stage uses any more, which nobody would ever look at.
    wanted = sorted((accounts & view.snapshot.pauses) | (view.snapshot.pauses - used))
    if wanted:
        head = head_branch(clone.repository, clone.git)
        standing = Pauses(clone.git, clone.objects, remote.pick(clone.git, head))
        for account in wanted:
            standing.lift(account, insist=True)
        if standing.untold:
            show.tell(f"The remote does not know of it yet: {show.safe(standing.untold)}")
    return wanted
