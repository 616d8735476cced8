"""gitstate in a forked child, with what would differ from run to run pinned, and bugs planted where asked for.

Nothing of the product knows of this. Forking saves the imports (a third of a second) at each of thousands of
points; `python -m tests.crash.pinned ARGUMENTS` is the same in a process of its own.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from gitstate.edge.tree import Entry

Plant = Callable[[], None]


def preload() -> None:
    """Import all that a run imports, so that forked children need not."""
    import gitstate.cli
    import gitstate.commands.plan
    import gitstate.commands.resolve
    import gitstate.commands.run
    import gitstate.commands.sync
    import gitstate.commands.verify
    import gitstate.edge.cache
    import gitstate.edge.sandbox
    import gitstate.report  # noqa: F401


def gitstate(
    *arguments: str, start: int = 0, serial: bool = True, plant: Optional[Plant] = None
) -> Callable[[], int]:
    """A function for a forked child: gitstate with these arguments.

    `start` tells the runs in one world from each other: ids and times begin with it. `serial` does one thing after
    the other, a work only when the one before is recorded, so that calls come in the same order every time; without
    it, recording and the next commands overlap as they do in life.
    """

    def program() -> int:
        # (under pytest these are not the descriptors)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        pin(start, serial)
        if plant is not None:
            plant()
        from gitstate.__main__ import main

        return main(list(arguments))

    return program


def pin(start: int, serial: bool) -> None:
    """Replace clock, attempt ids and the seconds that commands take by what is the same every time."""
    from gitstate.commands import attempting, loop, session
    from gitstate.edge import files, index, refs

    ticks = itertools.count()
    ids = itertools.count(1)

    def utc_now() -> datetime:
        return datetime(2026, 1, 2, tzinfo=timezone.utc) + timedelta(hours=start, seconds=next(ticks))

    def new_attempt() -> str:
        return f"20260102T000000-{start:04x}{next(ids):06x}"

    for module in list(sys.modules.values()):
        for replaced in (utc_now, new_attempt):
            if getattr(module, "__name__", "").startswith("gitstate.") and hasattr(module, replaced.__name__):
                setattr(module, replaced.__name__, replaced)
    execute = session.execute
    session.execute = lambda *args: execute(*args)._replace(seconds=1.0)
    # Only for speed: here nothing living ever holds a lock that is to be cleared, and room comes at once or never.
    refs._SETTLED = attempting._ROOM = 0.05
    if serial:
        loop.AHEAD, files._AT_ONCE = 0, 1
        begin = index.Teacher.begin

        def begin_and_wait(self: index.Teacher, entries: Mapping[str, Entry]) -> None:
            begin(self, entries)
            if self._ahead is not None:
                self._ahead.process.wait()

        index.Teacher.begin = begin_and_wait  # type: ignore[method-assign]


def command(*arguments: str) -> Sequence[str]:
    """The same as a command line, for a process of its own."""
    return (sys.executable, "-m", "tests.crash.pinned", *arguments)


if __name__ == "__main__":
    preload()
    os._exit(gitstate(*sys.argv[1:])())
