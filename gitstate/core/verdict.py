"""Why an attempt failed: the categories and kinds, and the failure of one attempt with what is made of it.

How a command's ending gets its name is in `core/classify.py`; here are the failures that gitstate finds by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Optional

# Every category, its kinds, and the state that a failure of that category and kind ends in. `paused`: waiting (or a
# person, for billing) cures it; `retry`: back off and probe; `failed`: waiting will not help.
STATES: Mapping[str, Mapping[str, str]] = {
    "quota": {"throttle": "paused", "window": "paused", "billing": "paused", "capacity": "paused"},
    "timeout": {"wall": "retry", "silence": "retry"},
    "validation": {
        "truncated": "failed",
        "refused": "failed",
        "too_large": "failed",
        "empty": "retry",
        "error_shaped": "retry",
    },
    "phase_error": {"auth": "failed", "not_found": "failed", "crash": "failed"},
    "planning_error": {"": "failed"},
    "unknown": {"": "retry"},
}

# Further kinds of `validation`: what a stage's own checks find (see `core/check.py`), an answer that is no text, and a
# command that wrote where it should not (see `core/guard.py`).
CHECKS = ("too_small", "front_matter", "json", "json_schema", "regex", "command", "encoding", "strayed")

# Rules that name what only a person can settle: an act of unknown outcome, and evidence that cannot tell.
ASKING = ("effect.outcome", "effect.evidence")


class Failed(NamedTuple):
    """A failure: its category and kind, and in words what was seen."""

    category: str  # timeout, quota, validation, phase_error, planning_error, unknown
    kind: str  # "" where the category has none
    evidence: str
    rule: str = ""  # the id of the rule that named it
    wait: Optional[float] = None  # seconds from its end, as the provider stated it
    opens: Optional[datetime] = None  # the same as a moment
    state: str = "failed"  # what it makes of its work: failed, paused, or pending where it comes again
    until: Optional[str] = None  # when a paused work may come again, in UTC
    seen: Mapping[str, str] = {}  # what else the rule went by: status, exit, codes, where the wait was stated

    @property
    def asks(self) -> bool:
        """Whether only a person can say what has happened."""
        return self.rule in ASKING

    @property
    def name(self) -> str:
        """Category and kind, as people read them."""
        return f"{self.category}/{self.kind}" if self.kind else self.category


def of_check(kind: str, message: str) -> Failed:
    """The failure that a check found in what would have become the output."""
    return Failed("validation", kind, message, f"check.{kind}")


def of_rendering(message: str) -> Failed:
    """A prompt, command or template that could not be rendered for this work."""
    return Failed("planning_error", "", message, "render")
