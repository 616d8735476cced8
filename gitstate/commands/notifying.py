"""Telling somebody: the configured command is run when a run pauses, fails or ends."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from gitstate import show
from gitstate.core.plan import Command
from gitstate.edge.process import Job, execute

_TIMEOUT = 30.0  # seconds


def event_of(code: int) -> str:
    """What a run that ended in `code` is to people: pause, failure or end."""
    return "pause" if code == 75 else "end" if code in (0, 130) else "failure"


def notify(command: Command, fields: Mapping[str, Any], message: str, root: str, state: str) -> None:
    """Run the command with the event and one line about it; what goes wrong with it is said and changes nothing."""
    scratch = os.path.join(state, "scratch")
    os.makedirs(scratch, exist_ok=True)
    event = event_of(fields["code"])
    env = {"GITSTATE_EVENT": event, "GITSTATE_MESSAGE": message}
    stdin = json.dumps({"event": event, "message": message, **fields}, ensure_ascii=True).encode() + b"\n"
    job = Job(command, stdin, env, root, outputs=0, timeout=_TIMEOUT, scratch_parent=scratch)
    result = execute(job)
    if result.code != 0:
        said = (
            show.first_words(result.stderr or result.stdout)
            or f"it ended by {result.ended_by}, code {result.code}"
        )
        show.story(f"The `notify` command failed, which changes nothing else: {said}")
