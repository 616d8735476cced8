"""The name of a failure, from how a command ended: the one way from a process to the classifier."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Optional

from gitstate.core.ownrules import OwnRule
from gitstate.core.redact import is_secret_name
from gitstate.core.verdict import Failed


class Ending(NamedTuple):
    """How a command ended, and what it printed: all that the classifier goes by."""

    ended_by: str
    code: Optional[int]
    signal: Optional[int]
    stdout: str
    stderr: str
    missing: Sequence[int] = ()  # numbers of the outputs that did not come
    filed: bool = False  # its answer came as files


def failure(ending: Ending, rules: Sequence[OwnRule], now: datetime) -> Optional[Failed]:
    """The failure that an ending shows, without secrets; None if it ended well. `now`: when it ended."""
    # Imported here: 0.1 s that only those who run commands need pay.
    from gitstate.core.classify import classify
    from gitstate.core.signal import of_command
    from gitstate.edge.timezone import local_zone

    signal = of_command(
        ending.ended_by,
        ending.code,
        ending.signal,
        ending.stdout,
        ending.stderr,
        ending.missing,
        filed=ending.filed,
        now=now,
        zone=local_zone(),
    )
    verdict = classify(signal, rules, secrets())
    if verdict.category is None:
        return None
    seen = dict(verdict.evidence)
    said = seen.pop("said", "").strip()
    return Failed(
        verdict.category,
        verdict.kind or "",
        said or _plain(ending),
        verdict.rule,
        max(0.0, verdict.wait_seconds) if verdict.wait_seconds is not None else None,
        verdict.until,
        seen=seen,
    )


def secrets() -> list[str]:
    """The values of this environment that no evidence may show."""
    return [value for name, value in os.environ.items() if is_secret_name(name)]


_WORDS = {
    "wall": "It ran into its timeout.",
    "silence": "Nothing new came from it for too long.",
    "too_large": "Its answer was larger than allowed.",
    "not_started": "The command could not be started.",
    "too_long": "The command line is too long.",
    "lost": "The pool gave no answer.",
}


def _plain(ending: Ending) -> str:
    """How it ended, where nobody said anything."""
    if ending.ended_by in _WORDS:
        return _WORDS[ending.ended_by]
    if ending.signal is not None:
        return f"It was ended by signal {ending.signal}."
    if ending.missing:
        return f"Nothing came for output {', '.join(map(str, ending.missing))}."
    return f"Exit code {ending.code}." if ending.code else "Nothing came."
