"""A real file system that really runs full: a tmpfs of a size that ends somewhere in the middle of a run.

An answer that has arrived waits for room ("grows": somebody makes some, and the same run goes on); everything else
that finds none ends the run with a word ("again": room is made afterwards, and gitstate runs again).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Optional

from tests.crash import errors, invariants, pinned, supervise
from tests.crash.kills import SERIAL
from tests.crash.pinned import Plant
from tests.crash.stage import Base, Outcome, Point, Stage

_PAGE = 4096
_PATIENCE = 60.0
_WAITS = "waiting for some"


def unavailable() -> str:
    """'' where a tmpfs can be mounted, else why not."""
    if os.geteuid() != 0:
        return "mounting a tmpfs needs root"
    folder = f"/tmp/gitstate-mount-{os.getpid()}"
    os.makedirs(folder)
    try:
        done = subprocess.run(
            ("mount", "-t", "tmpfs", "none", folder), capture_output=True, text=True, check=False
        )
        if done.returncode:
            return f"a tmpfs cannot be mounted here: {done.stderr.strip()}"
        subprocess.run(("umount", folder), check=True)
        return ""
    finally:
        os.rmdir(folder)


def points(base: Base, seed: int) -> list[Point]:
    """Sizes from none to spare to nearly enough, in pages; each once waited for and once not."""
    del seed, base
    return [Point(mode, (pages,)) for pages in range(1, 110, 2) for mode in ("grows", "again")]


def one(base: Base, point: Point, plant: Optional[Plant] = None) -> Outcome:
    """Run on a disk with so many pages to spare."""
    with Stage(base, plant) as stage, _small(stage, point.at[0]):
        world = stage.world
        pid = supervise.start(
            pinned.gitstate(*SERIAL, plant=plant), env=world.environment, cwd=world.repo, output=world.output
        )
        began, code, waited, asked = time.monotonic(), None, False, 0.0
        while code is None:
            done, status = os.waitpid(pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if done else None
            now = time.monotonic()
            if now - began > _PATIENCE:
                os.kill(pid, signal.SIGKILL)
                return Outcome(point, f"{point.at[0]} pages", [f"still at work: {world.said()[-300:]!r}"])
            if _WAITS in world.said():
                waited = True
                if point.mode == "grows":
                    _make_room(world.repo)
                elif now - asked > 0.2:  # nobody makes room: the user gives up, and says so twice
                    os.kill(pid, signal.SIGINT)
                    asked = now
            time.sleep(0.01)
        bad = []
        if code not in (0, 1, 3, 130 if waited else 3):
            bad.append(f"exit {code}: {world.said()[-400:]!r}")
        if code:
            bad += errors.words(world.said(), 3, True)
        bad += [f"right after it: {line}" for line in invariants.after_crash(world)]
        _make_room(world.repo)
        left = invariants.look(world)
        # A command that found no room failed, and may be asked again. What had arrived may not, unless the user gave up
        # while it waited.
        again = set(world.works()) - set(world.answered()) | (
            left.asked - left.spooled if waited and code else set()
        )
        crash = left._replace(asked=again, spooled=set(world.answered()) - again)
        bad += stage.finish((*SERIAL, "--retry-failed"), [crash], start=8)
        return Outcome(
            point,
            f"{point.at[0]} pages, exit {code}",
            bad,
            note=f"exit {code}" + (", waited" if waited else ""),
        )


@contextlib.contextmanager
def _small(stage: Stage, pages: int) -> Iterator[None]:
    """The repository on a tmpfs of its own, with so many pages to spare."""
    repo, aside = stage.world.repo, f"{stage.world.repo}.aside"
    os.rename(repo, aside)
    os.mkdir(repo)
    _mount("-t", "tmpfs", "-o", "size=64m", "none", repo)
    try:
        shutil.copytree(aside, repo, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(aside)
        free = os.statvfs(repo)
        used = (free.f_blocks - free.f_bfree) * free.f_frsize
        _mount("-o", f"remount,size={used + pages * _PAGE}", repo)
        yield
    finally:
        subprocess.run(("umount", "-l", repo), check=False)


def _make_room(repo: str) -> None:
    _mount("-o", "remount,size=64m", repo)


def _mount(*arguments: str) -> None:
    subprocess.run(("mount", *arguments), check=True, capture_output=True)
