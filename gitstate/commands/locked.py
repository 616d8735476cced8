"""A clone held for writing: the run lock, whose descriptor git's children inherit, and what the lock allows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gitstate import show
from gitstate.commands.clone import Clone
from gitstate.core.values import duration
from gitstate.edge import lock
from gitstate.edge.refs import clear_stale_locks
from gitstate.edge.repo import find
from gitstate.edge.tips import own
from gitstate.errors import UsageError


@contextlib.contextmanager
def locked(config: str, lock_timeout: str = "0") -> Iterator[Clone]:
    """The clone, locked. `lock_timeout` is a duration ("60s"). Raises Locked (75) while somebody else holds it."""
    try:
        seconds = duration(_number(lock_timeout))
    except ValueError as error:
        raise UsageError(f"--lock-timeout {lock_timeout}: {error}.", "Write 60s or 10m.") from error
    state = find(".").state
    with lock.Lock.acquire(state, seconds) as held, Clone(config=config, inherit=[held.descriptor]) as clone:
        if held.after_death:
            clone.objects.sweep()
        found = clear_stale_locks(clone.repository)
        for path in found.removed:
            show.story(f"Removed {path}, which a run that died here had left.")
        for sentence in found.left:
            show.story(sentence)
        # Nothing is built on notes that cannot be read. (What was fetched may be broken: syncing mends that.)
        own(clone.repository, clone.git, clone.objects)
        yield clone


def _number(text: str) -> object:
    return int(text) if text.isascii() and text.isdigit() else text
