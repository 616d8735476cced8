"""Jobs on other machines: an executor that exists already, of dask or of the kind of `concurrent.futures`.

A pool gives no answer twice and repeats nothing by itself: what it lost has no answer, and the policy decides.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from concurrent import futures
from functools import partial
from importlib import import_module
from typing import Any, Optional

from gitstate.edge.process import Flag, Job, Result
from gitstate.edge.worker import lost, work
from gitstate.errors import ComeBackLater, UsageError

_LOOK = 0.25  # seconds between looks at `cancel` and at the time
_PATIENCE = 10.0  # seconds to reach a scheduler
LARGE = 4 * 1024 * 1024  # bytes of files in one job; more is worth a hint


class Pool:
    """One run's executor. `execute` is what `edge.process.execute` is without one; safe in many threads."""

    def __init__(self, name: str, state: str, margin: float = 30.0) -> None:
        """Open the pool called `name`: `dask:ADDRESS` or `MODULE:FACTORY`. `state`: a folder of this run's; `margin`:
        seconds that an answer may be late.

        Raises UsageError for a name that is none, and ComeBackLater for a cluster that cannot be reached.
        """
        self._name, self._margin = name, margin
        self._stop = os.path.join(state, f"ended-{secrets.token_hex(8)}")
        self._lock = threading.Lock()
        self._gone: Optional[ComeBackLater] = None
        self._left = False  # whether a worker may still be at what nobody waits for
        self._work = partial(work, coordinator=os.getpid())
        self._executor = _open(name)
        self.cores = _cores(self._executor)  # 0: it does not tell

    def threads(self, jobs: int, ahead: int) -> int:
        """How many threads `jobs` jobs at once need: `ahead` more where it is the cores that bound them, so that none
        is idle while an answer travels."""
        return jobs + (ahead if self.cores and jobs >= self.cores else 0)

    def execute(self, job: Job, cancel: Flag, hurry: Optional[Flag] = None) -> Result:
        """Run a job on a worker to its end, whatever that is: `lost` where no answer came.

        Raises ComeBackLater where the pool is gone, and UsageError where its workers cannot run jobs at all.
        """
        began = time.monotonic()
        future = self._submit(job)
        if future is None:
            return lost("The pool broke when the job was handed over.", 0.0)
        period = None if job.timeout is None else job.timeout + job.grace + self._margin
        check, was_running = began + (period or 0.0), False
        while not cancel.is_set():
            if future.done() or _is_done(future, _LOOK):
                return _answer(future, time.monotonic() - began)
            if period is not None and time.monotonic() >= check:
                if was_running:
                    self._left |= not future.cancel()
                    return lost(
                        f"No answer came {time.monotonic() - began:.0f} s after it was handed over.", period
                    )
                # Until a look it may have waited for a free worker.
                check, was_running = time.monotonic() + period, future.running()
        return self._cancelled(future, job, began, hurry)

    def close(self) -> None:
        """End it. What its workers still do for nobody is ended, too, as far as they can be reached."""
        if self._left:
            self._tell()
        _shut(self._executor, kill=self._left)
        with contextlib.suppress(OSError):
            os.unlink(self._stop)

    def _submit(self, job: Job) -> Optional[futures.Future[Result]]:
        """Hand a job over, to a new executor where this one is broken; None where that is, too."""
        for _ in range(2):
            executor = self._executor
            if self._gone is not None:
                raise self._gone
            try:
                found: futures.Future[Result] = executor.submit(
                    self._work, job, job.env["GITSTATE_ATTEMPT_ID"], self._stop
                )
                return found
            except (futures.BrokenExecutor, RuntimeError):  # (RuntimeError: it was shut down)
                self._renew(executor)
        return None

    def _renew(self, broken: Any) -> None:
        with self._lock:
            if self._executor is not broken or self._gone is not None:
                return
            _shut(broken, kill=True)
            try:
                self._executor = _open(self._name)
            except ComeBackLater as error:
                self._gone = error

    def _cancelled(
        self, future: futures.Future[Result], job: Job, began: float, hurry: Optional[Flag]
    ) -> Result:
        """End a job at our own word. An answer that comes meanwhile is taken: it has been paid for."""
        if not future.cancel():
            self._tell()
            until = time.monotonic() + job.grace + 4 * _LOOK
            while not (future.done() or (hurry and hurry.is_set()) or time.monotonic() >= until):
                _is_done(future, _LOOK)
            if future.done():
                answer = _answer(future, time.monotonic() - began)
                if answer.ended_by != "lost":
                    return answer
            self._left = True
        return Result("cancelled", None, None, (), (), "", "", time.monotonic() - began)

    def _tell(self) -> None:
        """Leave word for workers that see this machine's files."""
        with contextlib.suppress(OSError), open(self._stop, "w", encoding="ascii"):
            pass


def _is_done(future: futures.Future[Result], seconds: float) -> bool:
    with contextlib.suppress(BaseException):  # its own, or that the time is up
        future.result(seconds)
    return future.done()


def _answer(future: futures.Future[Result], seconds: float) -> Result:
    """What a job that is over came to."""
    try:
        result = future.result()
    except ImportError as error:
        raise UsageError(
            f"The pool's workers cannot run jobs: {error}.", "Install the same gitstate where they run."
        ) from error
    except BaseException as error:  # CancelledError, a worker's death, what could not be carried over …
        return lost(f"The pool lost it: {type(error).__name__}: {error}"[:2000], seconds)
    if not isinstance(result, Result):
        return lost(f"The pool gave something else than an answer: {result!r:.200}", seconds)
    return result


def _open(name: str) -> Any:
    kind, _, rest = name.partition(":")
    if not rest:
        raise UsageError(f"--executor {name}: this names none.", "Write dask:ADDRESS or MODULE:FACTORY.")
    return _dask(rest) if kind == "dask" else _made(kind, rest)


def _dask(address: str) -> Any:
    # Imported here: 0.5 s, for those who have a cluster.
    try:
        from gitstate.edge.dask import DaskExecutor
    except ImportError as error:
        raise UsageError(f"--executor dask: {error}.", "Install it: pip install 'gitstate[dask]'") from error
    try:
        return DaskExecutor(address, _PATIENCE)
    except (OSError, futures.TimeoutError, TimeoutError) as error:
        raise ComeBackLater(
            f"The scheduler at {address} cannot be reached: {error}.",
            "What is done is safe. Start the cluster, and run again.",
        ) from error
    except ImportError as error:
        raise UsageError(
            f"The scheduler at {address} cannot serve: {error}.", "Install the same gitstate where it runs."
        ) from error
    except ValueError as error:
        raise UsageError(
            f"--executor dask:{address}: {error}.", "Write it like dask:tcp://host:8786."
        ) from error


def _made(module: str, factory: str) -> Any:
    try:
        make = getattr(import_module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"--executor {module}:{factory}: {error}.",
            "It names a function of a module that Python finds (PYTHONPATH) and that returns an executor.",
        ) from error
    if not callable(make):
        raise UsageError(
            f"--executor {module}:{factory}: that is no function.", "Name one that returns an executor."
        )
    try:
        executor = make()
    except Exception as error:
        raise ComeBackLater(
            f"--executor {module}:{factory}: {type(error).__name__}: {error}",
            "What is done is safe. Mend it, and run again.",
        ) from error
    if not callable(getattr(executor, "submit", None)):
        raise UsageError(f"--executor {module}:{factory}: what it returns has no `submit`.")
    return executor


def _cores(executor: Any) -> int:
    for name in ("cores", "max_workers", "_max_workers"):  # the last: those of `concurrent.futures`
        if isinstance(found := getattr(executor, name, None), int):
            return found
    return 0


def _shut(executor: Any, *, kill: bool) -> None:
    """Shut an executor down; with `kill`, its processes with it, whose commands their watchdogs end."""
    processes = getattr(executor, "_processes", None) or {}  # (a public way is there from Python 3.14 on)
    if kill:
        for process in list(processes.values()):
            with contextlib.suppress(Exception):
                process.kill()
    with contextlib.suppress(Exception):
        executor.shutdown(wait=not kill, cancel_futures=True)
