"""`gitstate reset`: forget the verdicts against the selected works, so that `run` takes them up again."""

from __future__ import annotations

from gitstate import show
from gitstate.commands.clone import statuses_of, utc_now
from gitstate.commands.lines import add_lines, new_attempt, stamp, who
from gitstate.commands.locked import locked
from gitstate.core import select
from gitstate.core.derive import manifest_of
from gitstate.core.identity import work_id
from gitstate.core.receipt import LogLine, encode
from gitstate.core.select import Selection
from gitstate.errors import UsageError


def reset(config: str, selection: Selection, why: str, lock_timeout: str) -> int:
    """Write the log lines that take the verdicts back. Returns 0."""
    if not selection:
        raise UsageError("reset wants to know what to forget.", "For example: gitstate reset --state failed")
    with locked(config, lock_timeout) as clone:
        view = clone.view()
        select.check(selection, view.plan.workflow)
        by_user = who(clone)
        lines: dict[str, list[bytes]] = {}
        names = []
        for status in select.choose(clone.words(selection), statuses_of(view, utc_now())):
            verdict = view.snapshot.verdicts.get((status.slug, status.stage, status.hash or ""))
            if verdict is None:
                continue
            manifest = manifest_of(view.plan, view.identity, view.snapshot, status)
            extra = {"attempts": list(verdict.attempts), "by": by_user, "why": why or None}
            line = LogLine(manifest.hash, "reset", status.slug, status.stage, new_attempt(), stamp(), extra)
            lines[clone.objects.oid("blob", manifest.encoded)] = [encode(line)]
            names.append(work_id(status.slug, status.stage, manifest.hash))
        if lines:
            add_lines(clone, {}, lines, f"gitstate: reset {show.number(len(names), 'work')}")
    show.tell(
        f"Forgot the verdicts against {show.number(len(names), 'work')}: {', '.join(map(show.safe, names[:20]))}"
        if names
        else "No verdict stands against the selected works."
    )
    return 0
