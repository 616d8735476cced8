"""Every failure a person can meet: what was seen, what to do, and the exit code it ends in."""

from __future__ import annotations

import errno
from typing import NamedTuple


class Place(NamedTuple):
    """Where in a file something is written: repository path and 1-based line (0: the whole file)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Problem(NamedTuple):
    """One mistake in the user's own files: where, what is wrong, what to do."""

    place: Place
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" + (f" {self.hint}" if self.hint else "")


class GitstateError(Exception):
    """Base of all that gitstate raises on purpose; `exit_code` is what the command ends in.

    `message` says what was seen, `hint` what to type or do next; each is one sentence.
    """

    exit_code = 70

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message + (f"\n  {self.hint}" if self.hint else "")


class UsageError(GitstateError):
    """The command line or the situation it was typed in does not allow what was asked."""

    exit_code = 2


class ConfigError(GitstateError):
    """Mistakes in the configuration or the plan, all of them at once."""

    exit_code = 2

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(set(problems))
        super().__init__("\n".join(map(str, self.problems)))


class NeedsHuman(GitstateError):
    """Only a person can decide: corrupt state, diverged history, an output nobody vouches for."""

    exit_code = 3


class CorruptState(NeedsHuman):
    """State that cannot be read; never taken for "nothing done yet" (P6)."""


class ComeBackLater(GitstateError):
    """Nothing is wrong that time does not cure: locked, or the remote is out of reach."""

    exit_code = 75


class Away(ComeBackLater):
    """The remote is out of reach."""


class GitFailed(GitstateError):
    """A git command failed in a way that has no better explanation; its own words are the message."""

    exit_code = 3


def is_full(error: BaseException | None) -> bool:
    """Whether an error says that a disk, or the room that one may use on it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
