"""The run lock: one `run` at a time in a clone and all its worktrees, orphaned git children counted in.

An operating system's lock, so it is never stale. gitstate's git children inherit the descriptor
(`Git(inherit=…)`) and keep it held after a killed parent: who holds it knows that none of them is left.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
import weakref
from typing import Optional

from gitstate.edge.backoff import Backoff
from gitstate.edge.files import load_json
from gitstate.errors import ComeBackLater, UsageError

_FILE = "lock"
_HOLDER = "lock.json"
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_PROBES = 3  # tries of one taking: `is_held` of another process may have the lock for an instant


class Locked(ComeBackLater):
    """Another run holds the lock."""


class NoLocks(UsageError):
    """The file system has no locks, or none that hold anybody off."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"Locks do not work on the file system that holds {path} ({why}).",
            "Two runs could not be told apart there: move the clone to a local disk.",
        )
        self.why = why


class Lock:
    """The held lock; a context manager that gives it back. `descriptor` is what git children inherit."""

    def __init__(self, state: str, descriptor: int) -> None:
        """For `acquire`."""
        self.descriptor = descriptor
        _HELD.add(self)
        self._state = state
        # Whether the holder before us did not give it back: what it left of its work lies about.
        self.after_death = os.path.exists(os.path.join(state, _HOLDER))

    @classmethod
    def acquire(cls, state: str, timeout: float = 0.0) -> Lock:
        """Take the lock of the state folder `state`, waiting up to `timeout` seconds.

        Raises Locked, saying who has it since when, or UsageError where the file system has no locks, or
        gives them to everybody.
        """
        os.makedirs(state, exist_ok=True)
        deadline = time.monotonic() + timeout
        path = os.path.join(state, _FILE)
        tries, backoff = 0, Backoff(longest=0.5)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if _take(descriptor, path, shared=False) and _holds(descriptor, path):
                    lock = cls(state, descriptor)
                    lock._sign()
                    return lock
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
            tries += 1
            if tries >= _PROBES and time.monotonic() >= deadline:
                raise _locked(state)
            backoff.wait(deadline - time.monotonic() if tries >= _PROBES else None)

    def _sign(self) -> None:
        """Leave word who holds the lock. For people only: nothing is decided by it."""
        holder = {
            "host": _host(),
            "boot": boot(),
            "pid": os.getpid(),
            "since": int(time.time()),
        }
        temp = os.path.join(self._state, f"{_HOLDER}.tmp")
        with contextlib.suppress(OSError):
            with open(temp, "w", encoding="utf-8") as file:
                json.dump(holder, file)
            os.replace(temp, os.path.join(self._state, _HOLDER))

    def release(self) -> None:
        """Give the lock back. A git child that still lives keeps it (so it is closed, not unlocked)."""
        if self.descriptor >= 0:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._state, _HOLDER))
            self._close()

    def _close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


def _leave() -> None:
    """In a fork of this process, a pool's worker say: the lock is not its, and is not to outlive the runner in it."""
    for lock in list(_HELD):
        lock._close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave)


def path_of(state: str) -> str:
    """Where the lock of a state folder is."""
    return os.path.join(state, _FILE)


def is_held(state: str) -> bool:
    """Whether somebody holds the lock of a state folder now.

    There is no way to ask without trying. The try is for a shared lock and is given back at once: readers
    do not get into each other's way, and `acquire` tries more than once, so that it outlasts such an instant.
    Where locks do not work nobody can hold one (`acquire` refuses), so what only reads can still answer.
    """
    try:
        return _refused_to_others(os.path.join(state, _FILE))
    except (FileNotFoundError, NoLocks):
        return False


def holder(state: str) -> Optional[dict[str, object]]:
    """What the holder of the lock left word of, for people; None where there is no word. See `is_held`."""
    return load_json(os.path.join(state, _HOLDER))


def _refused_to_others(path: str) -> bool:
    """Whether a lock file is held, as whoever opens it anew finds it. Raises NoLocks, FileNotFoundError."""
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        return not _take(descriptor, path, shared=True)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: str, *, shared: bool) -> bool:
    """Try to lock an open file; False if somebody else has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            return False
        if error.errno in _NO_LOCKS:
            raise NoLocks(path, os.strerror(error.errno or 0)) from error
        raise
    return True


def _holds(descriptor: int, path: str) -> bool:
    """Whether the lock just taken keeps others out: False if the lock file is no longer the one at `path` (the
    state folder may be deleted at any time).

    Raises NoLocks if the lock is given to others too, as some network and user-space file systems do. It belongs
    to the open file and not to the process, so a second opening here is refused what another process would be.
    """
    if not _is_at(descriptor, path):
        return False
    try:
        if _refused_to_others(path):
            return True
    except FileNotFoundError:
        return False
    if _is_at(descriptor, path):
        raise NoLocks(path, "one that is held was given a second time")
    return False


def _is_at(descriptor: int, path: str) -> bool:
    """Whether an open file is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _locked(state: str) -> Locked:
    said = load_json(os.path.join(state, _HOLDER)) or {}
    try:
        host, booted, pid, since = said["host"], said["boot"], int(said["pid"]), float(said["since"])
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    except (OSError, ValueError, TypeError, KeyError, OverflowError):  # (some years have no calendar)
        return Locked(
            "Another gitstate run holds this clone.", "Wait for it: --lock-timeout 10m. Nothing was changed."
        )
    here = host == _host() and booted == boot()
    if here and not _runs(pid):
        return Locked(
            f"The gitstate run with pid {pid} has ended, but a git process that it started is still at work.",
            "Run again in a moment, or wait for it: --lock-timeout 1m",
        )
    return Locked(
        f"Another gitstate run holds this clone: pid {pid} on {host}, since {clock}.",
        f"Wait for it: --lock-timeout 10m{f', or end it: kill {pid}' if here else ''}",
    )


def _host() -> str:
    import socket  # 4 ms, which whoever only asks whether the lock is held need not pay

    return socket.gethostname()


def _runs(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # no harmless signal there; this only chooses between two sentences
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def boot() -> Optional[str]:
    """What tells this boot of this machine from others, where the system says."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None
