"""The processes of a run: those of its machine, and the server's, which a remote on this disk makes its children.

A machine that dies or sleeps takes only its own ones along. They are told by their environment, and by /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tests.support.processes import bearing

_SERVERS = {b"git-receive-pack", b"git-upload-pack", b"receive-pack", b"upload-pack"}


def send(run: str, number: int, mark: str, *, servers: bool) -> int:
    """Send a signal to all processes of a run, those of the server only if asked to; how many they were."""
    found = [pid for pid in bearing("CHAOS_RUN", run) if _bears(pid, mark)]
    if not servers:
        found = [pid for pid in found if not _serves(pid, set(found))]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return len(found)


def kill(run: str, mark: str, *, servers: bool) -> None:
    """End all processes of a run: also those that were being started meanwhile."""
    send(run, signal.SIGSTOP, mark, servers=servers)  # so that nothing notices, and cleans up
    while send(run, signal.SIGKILL, mark, servers=servers):
        time.sleep(0.002)


def _bears(pid: int, mark: str) -> bool:
    try:
        return f"CHAOS={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _serves(pid: int, among: set[int]) -> bool:
    """Whether a process is git's side of the remote, or a child of it."""
    while pid in among:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            parent = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1]
        except OSError:
            return False
        if {os.path.basename(word) for word in words[:3]} & _SERVERS:
            return True
        pid = int(parent)
    return False


def clear_locks(remote: Path, mark: str) -> int:
    """Remove the locks that git processes of the remote left which were killed: those older than all that live.

    No client can know that they are stale; whoever runs a server that was killed does this. Returns how many.
    """
    all_living = set(bearing("CHAOS", mark))
    living = [age for pid in all_living if _serves(pid, all_living) and (age := _age(pid)) is not None]
    removed = 0
    for path in remote.rglob("*.lock"):
        with contextlib.suppress(FileNotFoundError):
            lasted = time.time() - path.stat().st_mtime
            if not any(age >= lasted - 0.1 for age in living):
                path.unlink()
                removed += 1
    return removed


def _age(pid: int) -> float | None:
    """Seconds since a process began."""
    try:
        began = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19]
    except OSError:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(began) / os.sysconf("SC_CLK_TCK")


def end_all(mark: str) -> None:
    """End whatever is left of a round."""
    while left := [pid for pid in bearing("CHAOS", mark) if pid != os.getpid()]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
