"""Why an attempt failed, by what can be seen of it: how the command ended, and which check did not hold.

Nothing else in gitstate gives a failure its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

_EVIDENCE = 2000  # characters kept of what the command said last

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


class Failed(NamedTuple):
    """A failure: its category and kind, and in words what was seen."""

    category: str  # timeout, quota, validation, phase_error, planning_error, unknown
    kind: str
    evidence: str
    rule: str = ""  # the id of the rule that named it
    wait: Optional[float] = None  # seconds, as the provider stated it
    state: str = "failed"  # what it makes of its work: failed, paused, or pending where it comes again
    until: Optional[str] = None  # when a paused work may come again, in UTC


def of_ending(
    ended_by: str, code: Optional[int], signal: Optional[int], missing: Sequence[int], words: str
) -> Optional[Failed]:
    """The failure that the way a command ended shows; None if it ended well.

    `ended_by` is what ended it (exit, wall, silence, too_large, not_started, too_long), `missing` the numbers of the
    outputs that did not come, `words` the end of what it said on standard error, or else on standard output.
    """
    said = words.strip()[-_EVIDENCE:]
    if ended_by == "wall":
        return Failed("timeout", "wall", _with("It ran into its timeout.", said))
    if ended_by == "silence":
        return Failed("timeout", "silence", _with("Nothing new came from it for too long.", said))
    if ended_by == "too_large":
        return Failed("validation", "too_large", _with("Its answer was larger than allowed.", said))
    if ended_by == "too_long":
        return Failed("phase_error", "command_too_long", said)
    if ended_by == "not_started":
        return Failed("phase_error", "not_found", said or "The command could not be started.")
    if signal is not None:
        return Failed("phase_error", "crash", _with(f"It was ended by signal {signal}.", said))
    if code == 127:  # POSIX: the shell did not find the command
        return Failed("phase_error", "not_found", said or "exit code 127")
    if code != 0:
        return Failed("phase_error", "crash", _with(f"Exit code {code}.", said))
    if missing:
        numbers = ", ".join(map(str, missing))
        return Failed("validation", "empty", _with(f"Nothing came for output {numbers}.", said))
    return None


def of_check(kind: str, message: str) -> Failed:
    """The failure that a check found in what would have become the output."""
    return Failed("validation", kind, message)


def of_rendering(message: str) -> Failed:
    """A prompt, command or template that could not be rendered for this work."""
    return Failed("planning_error", "render", message)


def _with(sentence: str, words: str) -> str:
    return f"{sentence} {words}" if words else sentence
