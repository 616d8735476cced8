"""What was written in a working tree between two looks at it, and whose command may have done that. Pure.

Who wrote a file cannot be seen afterwards. What can be known is when, and which commands ran then.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Optional

# Of a file or a symbolic link: modified (ns), size, inode, mode; and last its latest change of any kind (ns), 0 where
# the system does not keep that.
Seen = tuple[int, int, int, int, int]

How = Literal["created", "changed", "deleted"]

RUNNING = 1 << 63  # ns: the end of a command that still runs
GRAIN = 20_000_000  # ns by which a file's time may lie before the moment of its change: the clock's tick


class Scan(NamedTuple):
    """One look at a working tree."""

    files: Mapping[str, Seen]  # by path; names that are not UTF-8 with surrogate escapes
    blind: frozenset[str]  # folders that were not looked into, each with a final '/'
    began: int  # ns since the epoch
    ended: int


class Change(NamedTuple):
    """One file that is not as it was."""

    path: str
    how: How
    at: Optional[int]  # ns; None where nothing tells


class Span(NamedTuple):
    """A command and the time in which it ran."""

    attempt: str
    name: str  # slug/stage
    outputs: tuple[str, ...]  # the paths that it declares
    guarded: bool
    begun: int  # ns
    ended: int = RUNNING


class Stray(NamedTuple):
    """A file that was written where no output is declared, and all whose command may have done it."""

    path: str
    how: How
    suspects: tuple[Span, ...]


def compare(before: Scan, after: Scan, ahead: int = 0) -> list[Change]:
    """What changed from one look to the next, by path. What one of them could not see did not change. `ahead`: ns by
    which the clock that the files' times are of is ahead of the looks'."""
    changes = []
    old, new = before.files, after.files
    for path, seen in new.items():
        was = old.get(path)
        if was is None:
            if not _below(path, before.blind):
                changes.append(Change(path, "created", _when(seen, before, after, ahead)))
        elif was[:4] != seen[:4]:
            changes.append(Change(path, "changed", _when(seen, before, after, ahead)))
    changes += [
        Change(path, "deleted", None)
        for path in old.keys() - new.keys()
        if path not in after.blind and not _below(path, after.blind)
    ]
    return sorted(changes)


def _when(seen: Seen, before: Scan, after: Scan, ahead: int) -> Optional[int]:
    """When a file was changed last; None where its time does not lie between the looks, so that it means nothing."""
    at = (seen[4] or seen[0]) - ahead
    return at if before.began - GRAIN <= at <= after.ended + GRAIN else None


def _below(path: str, folders: Collection[str]) -> bool:
    """Whether a path lies in one of some folders."""
    if not folders:
        return False
    at = path.find("/")
    while at >= 0:
        if path[: at + 1] in folders:
            return True
        at = path.find("/", at + 1)
    return False


def attribute(changes: Iterable[Change], spans: Sequence[Span]) -> list[Stray]:
    """The changes that a guarded command may have made and that no command which ran then declares.

    `spans` are the commands that ran at any time between the two looks. A change of a known time is laid to those
    that ran at that moment, and to nobody where none did; one of an unknown time to all of them.
    """
    strays = []
    everybody = tuple(spans)
    timed = sorted(
        ((change.at, change) for change in changes if change.at is not None), key=lambda pair: pair[0]
    )
    for change in changes:
        if change.at is None:
            strays.append(Stray(change.path, change.how, everybody))
    waiting = sorted(spans, key=lambda span: span.begun, reverse=True)
    running: list[tuple[int, int, Span]] = []  # by their ends
    for at, change in timed:
        while waiting and waiting[-1].begun - GRAIN <= at:
            span = waiting.pop()
            heapq.heappush(running, (span.ended, len(waiting), span))
        while running and running[0][0] < at:
            heapq.heappop(running)
        strays.append(Stray(change.path, change.how, tuple(span for _, _, span in sorted(running))))
    declared = {path for span in spans for path in span.outputs}
    return sorted(stray for stray in strays if _counts(stray, stray.path in declared))


def _counts(stray: Stray, declared: bool) -> bool:
    if declared and any(stray.path in span.outputs for span in stray.suspects):
        return False
    return any(span.guarded for span in stray.suspects)
