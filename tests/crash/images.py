"""Cut the power of real file systems: copy the disk's image at every call, mount the copy, start gitstate on it.

    python -m tests.crash --only images                          (root, loop devices, and mkfs of each)
    python -m tests.crash.images --fs ext4 --stride 5
    python -m tests.crash.images --fs ext4 --mutant no-barrier-after-refs      must find something

gitstate works in a loop-mounted image. Before each of its state-changing calls the caller is held and the image
file is copied: the copy has just what the file system had sent to its device by then, so it is the disk after a
power cut there. Mounting it replays the journal. What is judged is the same as in `powercut`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Optional

from tests.crash import pinned, supervise, worlds
from tests.crash.powercut import Outcomes, Traced, judge_world, put_beside, trace_run
from tests.crash.powermutants import MUTANTS
from tests.crash.stage import Outcome, Point
from tests.crash.trace import Op


class System(NamedTuple):
    """A file system: how large its image, how it is made, how it is mounted."""

    size: int  # MiB; the least that its mkfs accepts, and room for the world
    make: tuple[str, ...]
    options: str


# The kernel writes back by itself as seldom as it can be told to, so that only what was forced out is on the image.
SYSTEMS = {
    "ext4": System(24, ("mkfs.ext4", "-q", "-F", "-J", "size=4"), "commit=300"),
    "xfs": System(300, ("mkfs.xfs", "-q", "-f"), "nouuid"),
    "btrfs": System(128, ("mkfs.btrfs", "-q", "-f"), "commit=300"),
}


_TICK = 50_000_000  # nanoseconds; time stamps of files are coarser than the clock


class Swept(NamedTuple):
    """What came of one file system."""

    system: str
    cuts: int
    images: int  # distinct ones
    violations: list[tuple[int, str, list[str]]]
    seconds: float


def missing(system: str) -> str:
    """Why this file system cannot be had here; '' if it can."""
    if why := supervise.available():
        return why
    if os.geteuid():
        return "mounting needs root"
    if shutil.which(SYSTEMS[system].make[0]) is None:
        return f"{SYSTEMS[system].make[0]} is not installed"
    with tempfile.TemporaryDirectory(prefix="images-") as folder:
        try:
            with _mounted(_image(folder, system), system, os.path.join(folder, "disk")):
                return ""
        except subprocess.CalledProcessError as error:
            return f"it cannot be mounted: {error.stderr.decode('utf-8', 'replace').strip()[:120]}"


def sweep(system: str, folder: str, stride: int = 1, plant: Optional[Callable[[], None]] = None) -> Swept:
    """Cut at every `stride`-th call of a run; judge each distinct image, mounted again."""
    began = time.monotonic()
    pinned.preload()
    world = worlds.make(_made(folder, "world"))
    before = os.path.join(folder, "before")
    os.rename(world.repo, before)
    image = _image(folder, system)
    shots: list[tuple[int, str]] = []  # (calls that were made, copy)
    seen: dict[bytes, int] = {}  # digest -> its place in `shots`
    count = cuts = quiet = latest = 0

    def shoot() -> None:
        nonlocal cuts, quiet, latest
        cuts += 1
        written, now = os.stat(image).st_mtime_ns, time.time_ns()
        if written == quiet:
            shots[latest] = (count, shots[latest][1])  # nothing has reached the disk since the last copy
            return
        quiet = written if now - written > _TICK else 0
        copy = os.path.join(folder, f"shot{count}")
        key = _copy(image, copy)
        if key in seen:
            # The same disk, and more was promised by now: the later cut is the one to judge.
            os.unlink(copy)
            shots[seen[key]] = (count, shots[seen[key]][1])
        else:
            seen[key] = len(shots)
            shots.append((count, copy))
        latest = seen[key]

    def held(op: Op) -> None:
        nonlocal count
        if op.kind != "say" and count % stride == 0:
            shoot()
        count += 1

    # The repository is the root of the file system; what outlives any crash stands beside it.
    with _mounted(image, system, world.repo):
        shutil.copytree(before, world.repo, symlinks=True, dirs_exist_ok=True)
        os.sync()
        traced = trace_run(f"images-{system}", world, plant, before=held, timeout=1800.0)
        shoot()
    bad = []
    for calls, copy in shots:
        with _mounted(copy, system, world.repo):
            put_beside(world, traced, calls)
            what = judge_world(world, traced, calls).bad
        os.unlink(copy)
        if what:
            bad.append((calls, _place(traced, calls), what))
    return Swept(system, cuts, len(shots), bad, time.monotonic() - began)


def _place(traced: Traced, calls: int) -> str:
    op = traced.replay.ops[calls] if calls < len(traced.replay.ops) else None
    return f"before {op.kind} {op.path} {op.other}".rstrip() if op is not None else "at the end"


def _image(folder: str, system: str) -> str:
    path = os.path.join(folder, "image")
    with open(path, "wb") as file:
        file.truncate(SYSTEMS[system].size << 20)
    _do(*SYSTEMS[system].make, path)
    return path


@contextlib.contextmanager
def _mounted(image: str, system: str, place: str) -> Iterator[None]:
    os.makedirs(place, exist_ok=True)
    _do("mount", "-t", system, "-o", f"loop,{SYSTEMS[system].options}", image, place)
    try:
        yield
    finally:
        for attempt in range(20):  # a process that was ended may need a moment to be gone
            try:
                _do("umount", place)
                break
            except subprocess.CalledProcessError:
                if attempt == 19:
                    raise
                time.sleep(0.1)


def _copy(image: str, copy: str) -> bytes:
    """Copy the parts of an image that hold something; returns a digest of it."""
    found = hashlib.blake2b(digest_size=16)
    with open(image, "rb") as source, open(copy, "wb") as target:
        size = os.fstat(source.fileno()).st_size
        target.truncate(size)
        at = 0
        while at < size:
            try:
                at = os.lseek(source.fileno(), at, os.SEEK_DATA)
            except OSError:
                break  # nothing but holes up to the end
            end = os.lseek(source.fileno(), at, os.SEEK_HOLE)
            while at < end:
                piece = os.pread(source.fileno(), min(end - at, 1 << 20), at)
                if piece.strip(b"\0"):
                    found.update(b"%d " % at + piece)
                    os.pwrite(target.fileno(), piece, at)
                at += len(piece)
    return found.digest()


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _made(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    os.mkdir(path)
    return path


def run(systems: Sequence[str], stride: int, plant: Optional[Callable[[], None]] = None) -> Iterator[Swept]:
    """Sweep file systems, telling what comes, and what cannot be had here."""
    for system in systems:
        if why := missing(system):
            print(f"  images {system}: SKIPPED, {why}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="images-", dir=worlds.scratch() or None) as folder:
            found = sweep(system, folder, stride, plant)
        print(
            f"  images {found.system:6} {found.cuts:5} cuts {found.images:5} distinct images "
            f"{len(found.violations):4} violations {found.seconds:7.1f} s",
            flush=True,
        )
        for calls, place, what in found.violations[:6]:
            print(f"  VIOLATION after {calls} calls, {place}: {what[0][:400]}")
        yield found


def all_systems(quick: bool, jobs: int) -> Outcomes:
    """The sweep "images" of `python -m tests.crash`; the sample is of a file system that most machines have."""
    began = time.monotonic()
    chosen = ["ext4"] if quick else list(SYSTEMS)
    found = list(run(chosen, 30 if quick else 2))
    bad = [
        Outcome(Point(f"images:{one.system}", (calls,)), place, what)
        for one in found
        for calls, place, what in one.violations
    ]
    notes = {f"of {one.system}": one.images for one in found}
    why = "" if found else missing(chosen[0])
    return sum(one.images for one in found), bad, time.monotonic() - began, notes, why


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command line. Returns 1 where an image is not sound (with a planted bug: where all are)."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.images", description=__doc__.splitlines()[0])
    parser.add_argument("--fs", choices=SYSTEMS, action="append")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--mutant", choices=MUTANTS)
    options = parser.parse_args(arguments)
    found = list(run(options.fs or list(SYSTEMS), options.stride, MUTANTS.get(options.mutant)))
    bad = any(one.violations for one in found)
    return int(bool(found) and not bad) if options.mutant else int(bad)


if __name__ == "__main__":
    sys.exit(main())
