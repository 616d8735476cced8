"""The runner's side of the watchdog, which ends the jobs of a runner that was killed (`edge/watchdog.py`).

It is a second line of defence: where it cannot be started or has died, jobs go on, and `complaint` says so once.
It knows a job's mark before the job is started, so that it finds the job also when the runner dies before it
could tell the group. Where there is no /proc to find the mark in, these microseconds remain.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from typing import Optional

from gitstate.edge.git import shielded

_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from gitstate.edge.watchdog import main; main()"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Watch:
    """The jobs of this process that live, told to a watchdog that the first of them starts. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, int] = {}
        self._dog: Optional[subprocess.Popen[bytes]] = None
        self._pipe = -1
        self._trouble = ""
        self._told = False

    def begin(self, mark: str) -> None:
        """A job will be started. Before this returns nothing of it may live. See `edge/group.py` for the mark."""
        with self._lock:
            self._live[mark] = 0
            self._say(f"begin {mark}")

    def group(self, mark: str, group: int) -> None:
        """A job has been started, as the leader of a group."""
        with self._lock:
            self._live[mark] = group
            self._say(f"group {mark} {group}")

    def end(self, mark: str) -> None:
        """Nothing of a job lives any more, or nothing was started; may be said again. Say it before the leader is
        reaped: until then nobody else can be given the group's number."""
        with self._lock:
            if self._live.pop(mark, None) is not None and self._dog is not None:
                self._say(f"end {mark}")

    def complaint(self) -> str:
        """Why the jobs are not watched over, the first time that this is asked after there was trouble; else ''."""
        with self._lock:
            if self._told or not self._trouble:
                return ""
            self._told = True
            return self._trouble

    def _say(self, line: str) -> None:
        if os.name != "posix":
            return  # Windows has no groups: there a Job Object would be the way, and nothing is watched over yet
        try:
            if self._dog is not None and self._dog.poll() is None:
                os.write(self._pipe, f"{line}\n".encode())
                return
            if self._dog is not None:
                self._trouble = _trouble(f"has ended ({self._dog.returncode})")
            self._start()
        except OSError as error:  # BlockingIOError: it stands still
            self._trouble = _trouble(f"cannot be reached ({error.strerror or error})")
            self._stop()

    def _start(self) -> None:
        """Start a watchdog and tell it all that lives. Raises OSError."""
        self._stop()
        read, self._pipe = os.pipe()
        try:
            os.set_blocking(self._pipe, False)
            with shielded():  # it must outlive what ends the runner in order
                self._dog = subprocess.Popen(
                    (sys.executable, "-I", "-S", "-B", "-c", _CODE, _ROOT),
                    stdin=read,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    # Without the mark of a job that this runner may be a part of: it ends after that job's end.
                    env={
                        name: value for name, value in os.environ.items() if not name.startswith("GITSTATE_")
                    },
                    start_new_session=True,
                )
        finally:
            os.close(read)
        for mark, group in self._live.items():
            os.write(self._pipe, f"group {mark} {group}\n".encode())

    def _stop(self) -> None:
        if self._dog is not None and self._dog.poll() is None:
            self._dog.kill()
            self._dog.wait()
        self._forget()

    def _forget(self) -> None:
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.close(self._pipe)
        self._dog, self._pipe = None, -1

    def _in_child(self) -> None:
        """In a fork of this process: its jobs, and the pipe that tells of its end, are not ours."""
        self._forget()
        self.__init__()  # type: ignore[misc]


def _trouble(what: str) -> str:
    return f"The watchdog {what}: if this run is killed by force, its commands may go on and pay."


WATCH = Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCH._in_child)
