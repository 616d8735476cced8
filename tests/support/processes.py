"""What lives on this machine, told by /proc; zombies do not."""

from __future__ import annotations

import contextlib
import os


def lives(pid: int) -> bool:
    """Whether a process lives."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def bearing(variable: str, value: object) -> list[int]:
    """The living processes that have a variable of exactly this value in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if f"{variable}={value}".encode() in file.read().split(b"\0") and lives(int(name)):
                found.append(int(name))
    return found
