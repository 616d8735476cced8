"""Writing lines into the notes without touching a branch, and what every line says: when, who, which attempt."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing

from gitstate.commands.clone import Clone, utc_now
from gitstate.edge.record import Record, Recorder


def new_attempt() -> str:
    """A fresh attempt id: when, and 40 random bits."""
    return f"{utc_now():%Y%m%dT%H%M%S}-{secrets.token_hex(5)}"


def stamp() -> str:
    """Now, as lines write it: UTC, to the second."""
    return f"{utc_now():%Y-%m-%dT%H:%M:%SZ}"


def who(clone: Clone) -> str:
    """Name and address of the user, as git knows them. Raises UsageError where it does not."""
    return clone.git.text("var", "GIT_COMMITTER_IDENT").rpartition(">")[0] + ">"


def add_lines(
    clone: Clone,
    receipts: Mapping[str, Sequence[bytes]],
    log: Mapping[str, Sequence[bytes]],
    subject: str,
) -> None:
    """Add lines (object -> lines) to the receipts and the log, durably. To be called under the run lock."""
    with closing(Recorder(clone.git, clone.repository, clone.objects, None, False)) as recorder:
        recorder.record(Record({}, receipts, log, subject, []))
