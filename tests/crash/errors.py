"""Error sweeps: the system refuses one call, or all of a kind for a while; gitstate says so, and loses nothing.

"one": a single call fails. "full": the disk takes nothing more from that call on, until somebody makes room.
"dead": from that call on every write and flush errs, to the end of the run.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Optional

from tests.crash import invariants, supervise
from tests.crash.kills import SERIAL
from tests.crash.pinned import Plant
from tests.crash.stage import Base, Outcome, Point, Stage

_WRITES = {"write", "writev", "pwrite64", "pwritev", "sendfile", "copy_file_range", "fallocate"}
_FLUSHES = {"fsync", "fdatasync", "syncfs"}
_OPENS = {"open", "openat", "creat"}
_NAMES = {"rename", "renameat", "renameat2", "link", "linkat", "mkdir", "mkdirat", "symlink", "symlinkat"}
_TAKES = {"unlink", "unlinkat", "rmdir"}

# What can give which error. (An open is only watched when it is for writing.)
KINDS: dict[str, tuple[int, set[str]]] = {
    "enospc": (errno.ENOSPC, _WRITES | _FLUSHES | _OPENS | _NAMES),
    "eio": (errno.EIO, _WRITES | _FLUSHES | _OPENS | _NAMES | _TAKES),
    "erofs": (errno.EROFS, _OPENS | _NAMES | _TAKES),
    "emfile": (errno.EMFILE, _OPENS),
    "eintr": (errno.EINTR, _WRITES | _FLUSHES | _OPENS),
}
_ROOM_AFTER = 25  # refused calls after which there is room again


def points(base: Base, kind: str, mode: str) -> list[Point]:
    """Every call that can give this error."""
    number, names = KINDS[kind]
    return [
        Point(mode, (call.seq,), number) for call in base.calls if call.name in names and _can(number, call)
    ]


def one(base: Base, point: Point, plant: Optional[Plant] = None) -> Outcome:
    """One error, what gitstate made of it, and the next run on a healthy disk."""
    with Stage(base, plant) as stage:
        who = ""

        def notice(call: supervise.Call) -> None:
            nonlocal who
            who = (supervise.command_of(call.pid) or ["?"])[0]

        result = stage.supervised(SERIAL, _decide(point, notice))
        if result.hit is None:
            return Outcome(point, "", [], reached=False)
        ours = who in ("git", "python", "python3") or who.startswith("python")
        world = stage.world
        bad = words(world.said(), result.code, ours)
        bad += [f"right after it: {line}" for line in invariants.after_crash(world)]
        bad += _flushes(result, point) if point.mode == "one" else []
        # What was answered whole may not be paid for again; what was under way, or was refused its answer, may.
        left = invariants.look(world)
        arrived = set(world.answered()) - ({*left.asked} - left.spooled if point.mode == "dead" else set())
        arrived = arrived if ours else set()
        crash = left._replace(asked=set(world.works()) - arrived, spooled=arrived)
        # (where much is refused, a command's failure may have been left for the next run to record)
        arguments = (*SERIAL, "--retry-failed") if result.code == 1 or point.mode != "one" else SERIAL
        bad += stage.finish(arguments, [crash], start=8)
        where = (
            f"{stage.words(result.hit)} by {who or '?'}, {errno.errorcode[point.errno]}, exit {result.code}"
        )
        return Outcome(point, where, bad, note=f"exit {result.code}")


def _can(number: int, call: supervise.Call) -> bool:
    return number != errno.ENOSPC or call.name not in _OPENS or call.mutates


def _decide(
    point: Point, notice: Callable[[supervise.Call], None]
) -> Callable[[supervise.Call], supervise.Verdict]:
    names = next(names for number, names in KINDS.values() if number == point.errno)
    refused = 0

    def decide(call: supervise.Call) -> supervise.Verdict:
        nonlocal refused
        if call.seq == point.at[0]:
            notice(call)
            refused += 1
            return point.errno
        if point.mode != "one" and call.seq > point.at[0] and call.name in names and _can(point.errno, call):
            refused += 1
            if point.mode == "dead" or refused <= _ROOM_AFTER:
                return point.errno
        return None

    return decide


def words(said: str, code: int, ours: bool) -> list[str]:
    """A failure has an exit code of the design, and says what is wrong in a line of its own."""
    bad = []
    if code not in ((0, 3, 75) if ours else (0, 1, 3)):
        bad.append(f"exit code {code}: {said[-400:]!r}")
    if code and not any(line.startswith(("gitstate: ", "✗ ")) for line in said.splitlines()):
        bad.append(f"exit code {code} without a word: {said[-400:]!r}")
    return bad


def _flushes(result: supervise.Result, point: Point) -> list[str]:
    """After a refused flush, what it was to flush is written anew, or the run does not end well; it is never
    flushed a second time as it is: the kernel counts the lost pages as clean, so that this would "succeed"."""
    hit = result.hit
    if (
        hit is None or hit.name not in _FLUSHES or point.errno == errno.EINTR
    ):  # (an interrupted one lost nothing)
        return []
    later = result.calls[hit.seq :]
    folder = any(call.path.startswith(hit.path + "/") for call in result.calls)
    inside = hit.path + "/" if folder else hit.path
    anew = again = False
    for call in later:
        if call.path == hit.path and call.name in _FLUSHES:
            again = True
            if not anew and not folder:
                return [f"{hit.path} was flushed again after an error"]
        elif call.path.startswith(inside) and call.name in _OPENS | _NAMES:
            anew = True
    if result.code == 0 and not (anew and again and hit.name != "syncfs"):
        return [f"a refused flush of {hit.path} was not heeded"]
    return []
