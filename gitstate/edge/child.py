"""A git process that stays: asked over its standard input, answering on its standard output."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import Optional

from gitstate.edge.git import Git, stream
from gitstate.errors import GitFailed

_TAIL = 8192  # bytes of standard error kept for a message
_PATIENCE = 10.0  # seconds that a child gets to end by itself


class Child:
    """One long-lived git process. Not safe for two threads at once; its owner locks.

    Its standard error is drained by a thread, so that warnings can never fill the pipe and hang it.
    """

    def __init__(self, git: Git, *args: str, env: Optional[Mapping[str, str]] = None) -> None:
        self._args = args
        self._process = git.start(*args, env=env)
        self._stdin = stream(self._process, "stdin")
        self._stdout = stream(self._process, "stdout")
        self._tail = b""
        self._drain = threading.Thread(target=self._listen, daemon=True)
        self._drain.start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in stream(self._process, "stderr"):
                self._tail = (self._tail + line)[-_TAIL:]

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def send(self, request: bytes) -> None:
        """Write a request. Raises GitFailed if the process has ended."""
        try:
            self._stdin.write(request)
            self._stdin.flush()
        except (OSError, ValueError):
            raise self._died() from None

    def line(self) -> bytes:
        """One line of the answer without its newline. Raises GitFailed if the process ends instead."""
        line = self._stdout.readline()
        if not line.endswith(b"\n"):
            raise self._died()
        return line[:-1]

    def take(self, size: int) -> bytes:
        """Exactly `size` bytes of the answer. Raises GitFailed if the process ends before."""
        data = self._stdout.read(size)
        if len(data) != size:
            raise self._died()
        return data

    def _died(self) -> GitFailed:
        code = self.close()
        words = self._tail.decode("utf-8", "replace").strip() or f"ended with exit code {code}"
        return GitFailed(f"git {' '.join(self._args)}: {words}")

    def close(self) -> int:
        """End the process: end of input first, then SIGQUIT, on which git removes its own lock files, and which it is
        not shielded from. Returns the exit code."""
        for pipe in (self._stdin, self._stdout):  # the latter in case it is stuck in an answer nobody reads
            with contextlib.suppress(OSError, ValueError):
                pipe.close()
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            code = self._end()
        self._drain.join(1.0)
        with contextlib.suppress(OSError, ValueError):
            stream(self._process, "stderr").close()
        return code

    def _end(self) -> int:
        self._process.send_signal(getattr(signal, "SIGQUIT", signal.SIGTERM))
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            # A job in the background was started with this signal ignored, and so was git. A lock file that it leaves
            # is recovered by the next run; waiting for ever would be worse.
            self._process.kill()
            return self._process.wait()
