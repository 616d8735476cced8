"""`gitstate probe`, and the one way to ask whether a window is open without paying: the configured command."""

from __future__ import annotations

import contextlib
import os
from datetime import datetime
from typing import Literal, Optional

from gitstate import show
from gitstate.commands.clone import Clone
from gitstate.commands.naming import Ending, failure
from gitstate.core import pause
from gitstate.core.plan import Workflow, account_of
from gitstate.core.verdict import Failed
from gitstate.edge import remote
from gitstate.edge.clock import Clock
from gitstate.edge.pauses import Pauses
from gitstate.edge.process import Flag, Job, execute
from gitstate.edge.render import render_command
from gitstate.edge.repo import head_branch
from gitstate.errors import ComeBackLater

Answer = Literal["open", "closed", "unknown"]
CODES: dict[Answer, int] = {"open": 0, "closed": 75, "unknown": 69}
_TIMEOUT = 60.0  # seconds


def ask(
    workflow: Workflow, account: str, root: str, scratch: str, now: datetime, cancel: Optional[Flag] = None
) -> tuple[Answer, Optional[Failed]]:
    """Run the configured probe about an account: exit 0, its window is open; 75, or an error of the category quota, it
    is closed; anything else tells nothing. With what was seen where it is not open."""
    assert workflow.probe is not None
    context = {"account": account, "model": workflow.model, "vars": workflow.vars}
    command = render_command(workflow.probe, context, f"{workflow.path}: probe")
    os.makedirs(scratch, exist_ok=True)
    env = {"GITSTATE_ACCOUNT": account}
    job = Job(command, env=env, cwd=root, outputs=0, timeout=_TIMEOUT, scratch_parent=scratch)
    result = execute(job, cancel)
    ending = Ending(
        result.ended_by, result.code, result.signal, result.stdout, result.stderr, filed=result.code == 0
    )
    failed = failure(ending, workflow.rules, now)
    if failed is None:
        return "open", None
    return ("closed" if failed.category == "quota" or result.code == CODES["closed"] else "unknown"), failed


def probe(clone: Clone, account: str, clock: Clock) -> int:
    """Say whether the window of an account (of each, by default) is open. A pause that the configured probe finds over
    is lifted, so that a run begins at once; nothing else changes.

    Returns 0 open, 75 closed, 69 cannot tell; of several accounts the worst.
    """
    view = clone.view()
    workflow = view.plan.workflow
    accounts = [account] if account else sorted({account_of(workflow, stage) for stage in workflow.stages})
    known = _pauses(clone)
    worst: Answer = "open"
    for name in accounts:
        standing = known.standing.get(name)
        answer, words = _answer(
            clone, workflow, name, standing.pause if standing is not None else None, clock
        )
        if answer == "open" and standing is not None and known.lift(name):
            words = "and its pause is lifted"
        show.tell(f"{show.safe(name)}: {answer}{', ' + words if words else ''}")
        worst = max(worst, answer, key=("open", "unknown", "closed").index)
    return CODES[worst]


def _pauses(clone: Clone) -> Pauses:
    """The pauses that are known, after asking the remote where it answers."""
    head = head_branch(clone.repository, clone.git)
    there = remote.pick(clone.git, head)
    if there is not None:
        with contextlib.suppress(ComeBackLater):  # what was fetched before must do
            remote.fetch_pauses(clone.git, there)
    return Pauses(clone.git, clone.objects, there)


def _answer(
    clone: Clone, workflow: Workflow, account: str, standing: Optional[pause.Pause], clock: Clock
) -> tuple[Answer, str]:
    if workflow.probe is not None:
        scratch = os.path.join(clone.repository.state, "scratch")
        answer, failed = ask(workflow, account, clone.repository.root, scratch, clock.now())
        return answer, show.first_words(failed.evidence) if failed is not None else ""
    if standing is None:
        return "open", "as far as anybody has noted; no `probe` is configured that could ask"
    when = show.clock_time(pause.when(standing.probe))
    if pause.is_over(standing, clock.now()):
        return (
            "unknown",
            f"it was to be looked at again at {when}; configure `probe`, or let `gitstate run` try one work",
        )
    return "closed", f"{show.safe(standing.name)} until {when}: {show.safe(standing.why)}"
