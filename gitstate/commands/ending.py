"""The end of a run: what it did, in words and for `status`, and the exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, Optional

from gitstate import show, story
from gitstate.commands.lines import stamp
from gitstate.commands.loop import Loop
from gitstate.commands.progress import Progress
from gitstate.commands.session import Session
from gitstate.commands.status import LAST_RUN
from gitstate.commands.stopping import Stop
from gitstate.commands.syncing import Syncing
from gitstate.core.derive import Status
from gitstate.core.plan import Command
from gitstate.core.schedule import Agenda


class Ended(NamedTuple):
    """How one round of a run ended."""

    fields: dict[str, Any]  # for `status` and `notify`; `code` is the exit code
    message: str  # one line
    look: Optional[datetime]  # when to come again
    notify: Optional[Command]


def conclude(
    session: Session,
    agenda: Agenda,
    progress: Progress,
    loop: Loop,
    syncing: Syncing,
    waiting: int,
    stop: Stop,
) -> Ended:
    """Say what this run did, keep it for `status`, and find the exit code."""
    closed = loop.windows.closed if loop.unfinished else {}
    again = loop.due_again([*agenda.due, *agenda.waiting, *agenda.done])
    failed = progress.failed + len(agenda.failed) + progress.before
    paused = progress.paused + len(agenda.paused)
    left = len(agenda.protected) + progress.left + waiting
    asked = len(agenda.asked) + progress.asked
    held, holders = loop.claiming.others(loop) if loop.claiming is not None else (0, 0)
    aside = loop.claiming is not None and loop.claiming.is_short(loop)
    code = (
        130
        if stop.is_set()
        else 75
        if closed
        else 3
        if asked
        else 1
        if failed or loop.reactions.tripped
        else 3
        if left or loop.disturbed
        else 75
        if paused or syncing.away or loop.spent or loop.acts.untold or aside or again
        else 0
    )
    saved = _saved(session, agenda.done)
    fields = {
        "at": stamp(),
        "done": progress.done,
        "restored": progress.restored,
        "elsewhere": progress.elsewhere,
        "unchanged": progress.unchanged,
        "failed": progress.failed,
        "paused": progress.paused,
        "before": progress.before,
        "left": left,
        "asked": asked,
        "untold": loop.acts.untold,
        "unfinished": loop.unfinished,
        "again": again,
        "held": held,
        "holders": holders,
        "dropped": loop.answers.dropped,
        "seconds": round(progress.clock() - progress.began, 1),
        "usd": round(progress.usd, 6),
        "unpriced": progress.unpriced,
        "saved_seconds": round(saved[0], 1),
        "saved_usd": round(saved[1], 6),
        "closed": {name: one.probe for name, one in sorted(closed.items())},
        "stopped": loop.reactions.tripped or loop.spent,
        "code": code,
    }
    options = loop.options
    sync = "gitstate sync" + (f" --branch {show.safe(options.branch)}" if options.branch else "")
    command = session.clone.command(options.selection, options.branch)
    lines = story.run_end(fields, agenda, len(agenda.done), command, sync if syncing.away else "")
    lines += story.causes_lines(progress.causes)
    for one in closed.values():
        lines.append(show.pause_line(one))
    lines += session.guard.lines()
    for line in lines:
        show.story(line)
    try:
        with open(os.path.join(session.clone.repository.state, LAST_RUN), "w", encoding="utf-8") as file:
            json.dump(fields, file)
    except OSError:
        pass  # a convenience for `status`; the record of what is done stands elsewhere
    message = show.pause_line(next(iter(closed.values()))) if closed else lines[0]
    return Ended(
        fields, message, loop.windows.next_look() if closed else None, session.view.plan.workflow.notify
    )


def _saved(session: Session, done: Iterable[Status]) -> tuple[float, float]:
    """Seconds and dollars of the receipts that stand for what was not bought again."""
    seconds = usd = 0.0
    receipts, tree = session.view.snapshot.receipts, session.tree
    for status in done:
        blob = tree.get(status.outputs[0])
        for receipt in receipts.on(blob, (status.slug, status.stage)) if blob else ():
            if receipt.work == status.hash:
                took, cost = receipt.extra.get("seconds"), receipt.extra.get("usd")
                seconds += took if isinstance(took, (int, float)) else 0.0
                usd += cost if isinstance(cost, (int, float)) else 0.0
                break
    return seconds, usd
