"""What lives of a job: the process group of its first process, and on Linux what has left that group.

A group is known by the number of its leader, which is also that of its session. What has left it, by another `setsid`,
is still known by the job's mark: the name of its private folder, which stands in the environment of all that the job
started, and into which that writes. The watchdog imports this: only what it needs, and nothing that is slow to load.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import subprocess

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_SETTLE = 0.05  # seconds between looks at processes that were told to end
_ROUNDS = (
    100  # of killing: what starts processes faster than it is killed, or hangs in the kernel, is given up
)
_LOADING = 5.0  # seconds until the last process that was being started shows its environment

Jobs = Mapping[str, int]  # mark -> group; 0 where a job was perhaps started, and its group is not known


class _Living(NamedTuple):
    pid: int
    group: int


def end(jobs: Jobs, grace: float) -> None:
    """End all that lives of some jobs that are not this process's children: TERM, and KILL after `grace` seconds."""
    began = time.monotonic()
    told: set[int] = set()
    while tell(jobs, signal.SIGTERM, told) and time.monotonic() < began + grace:
        time.sleep(_SETTLE)
    kill(jobs)
    while 0 in jobs.values() and time.monotonic() < began + _LOADING:
        time.sleep(_SETTLE)
        kill(jobs)


def kill(jobs: Jobs) -> None:
    """Kill all that lives of some jobs, also what they start meanwhile."""
    for _ in range(_ROUNDS):
        if not tell(jobs, KILL, set()):
            return
        time.sleep(0.005)


def tell(jobs: Jobs, number: int, told: set[int]) -> bool:
    """Send a signal to all that lives of some jobs but for what is in `told`, groups and processes, which grows.

    Returns whether anything lived. Zombies do not count where /proc tells them from the living.
    """
    for group in filter(None, jobs.values()):
        if group not in told:
            told.add(group)
            send(group, number)
    if not os.path.exists("/proc/self/environ"):
        return any(exists(group) for group in filter(None, jobs.values()))
    lives = False
    for pid, group in _living(jobs):
        lives = True
        if group not in told and pid not in told:
            told.add(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
    return lives


def send(group: int, number: int) -> None:
    """Send a signal to a group; where there are no groups, end its first process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(group, number)
        else:
            os.kill(group, KILL)


def exists(group: int) -> bool:
    """Whether a group has a member; in most systems a zombie is one."""
    try:
        os.killpg(group, 0)
    except (AttributeError, ProcessLookupError, PermissionError):
        return False
    return True


def _living(jobs: Jobs) -> Iterator[_Living]:
    """The processes of some jobs that are no zombies."""
    if not jobs:
        return  # (there may be thousands of processes to read)
    groups = set(jobs.values()) - {0}
    marks = [os.fsencode(f"/{mark}/") for mark in jobs]
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:
                state, _, group = file.read().rpartition(b")")[2].split()[:3]
            if state not in (b"Z", b"X") and (int(group) in groups or _bears(name, marks)):
                yield _Living(int(name), int(group))


def _bears(name: str, marks: list[bytes]) -> bool:
    """Whether one of the marks is in a process's environment, or it writes into that job's folder."""
    found: list[bytes] = []
    with contextlib.suppress(OSError):  # of another user, or ended
        with open(f"/proc/{name}/environ", "rb") as file:
            found = [line for line in file.read().split(b"\0") if line.startswith(b"GITSTATE_SCRATCH=")]
        for number in (1, 2):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.fsencode(os.readlink(f"/proc/{name}/fd/{number}")))
    return any(mark in line for mark in marks for line in found)


class Leader:
    """The job's first process, to be waited for without reaping it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lost = False  # there is no telling how it ended
        self._descriptor: int | None = None
        self._poll: Any = None
        # Without a descriptor for the process (not Linux, or an old one) short sleeps must do.
        with contextlib.suppress(AttributeError, OSError):
            self._descriptor = os.pidfd_open(process.pid)
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLIN)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def ended(self, seconds: float) -> bool:
        """Whether it has ended, after at most `seconds` of sleep."""
        if self._poll:
            self._poll.poll(int(seconds * 1000) + 1)
            return self._has_ended()
        until = time.monotonic() + seconds
        pause = 0.001
        while not self._has_ended():
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        return True

    def _has_ended(self) -> bool:
        if not hasattr(os, "waitid"):  # Windows, older macOS: reaping is the only way to look
            return self.process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # SIGCHLD is ignored in this process: the kernel reaped it
            self.lost = True
            return True
