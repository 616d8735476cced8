"""A dask cluster as an executor, for those who have `gitstate[dask]`."""

from __future__ import annotations

import contextlib
import logging
import pickle
import queue
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, InvalidStateError
from functools import partial
from typing import Any, NamedTuple

from distributed import Client, SchedulerPlugin

from gitstate.edge.process import Job, Result
from gitstate.edge.worker import TASK, work_on_dask

# Seconds in which jobs, and answers, gather: each message costs client, scheduler and worker more than what is in it.
_TOGETHER = 0.005
_FIRST_LOOK, _LAST_LOOK = 0.02, 0.1  # at what is under way, while answers come and while none do


class Claims(SchedulerPlugin):  # type: ignore[misc]
    """On the scheduler: lets each task begin once. A worker that was lost, or that lost its result, is not replaced."""

    name = "gitstate-claims"
    idempotent = True

    def start(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._claimed: set[object] = set()
        scheduler.handlers["gitstate_claim"] = self.claim

    def claim(self, attempt: str, worker: str) -> bool:
        """Whether `worker`, to which the task was given last, is the first to begin it."""
        key = (TASK, attempt)
        task = self._scheduler.tasks.get(key)
        if task is None or task.processing_on is None or task.processing_on.address != worker:
            return False
        first = key not in self._claimed
        self._claimed.add(key)
        return first

    def transition(self, key: object, start: str, finish: str, *args: object, **kwargs: object) -> None:
        if finish == "forgotten":
            self._claimed.discard(key)


class _Ours(Future):  # type: ignore[type-arg]
    """An answer to come."""

    is_running: Callable[[], bool]

    def running(self) -> bool:
        """Whether a worker has it, as the scheduler knows."""
        return not self.done() and self.is_running()


class _New(NamedTuple):
    """What is to be handed out."""

    ours: _Ours
    job: bytes
    attempt: str
    stop: str


class _Begun(NamedTuple):
    """What was handed out."""

    ours: _Ours
    theirs: Any


class DaskExecutor:
    """Submits to a cluster, and fetches what arrives, in groups: that is what makes many short jobs fast."""

    def __init__(self, address: str, patience: float) -> None:
        """Connect to the scheduler at `address`. Raises OSError if that takes longer than `patience` seconds."""
        logging.disable(logging.CRITICAL)  # its words on a lost connection; ours are those of the failure
        # (what a work brings along is announced by us)
        warnings.filterwarnings("ignore", "Sending large graph")
        self._client = Client(address, timeout=patience, set_as_default=False)
        self._client.register_plugin(Claims())
        self.cores = sum(self._client.nthreads().values())
        self._new: queue.SimpleQueue[_New | None] = queue.SimpleQueue()
        self._begun: queue.SimpleQueue[_Begun | None] = queue.SimpleQueue()
        for loop in (self._hand_out, self._fetch):
            threading.Thread(target=loop, name="gitstate-dask", daemon=True).start()

    def submit(self, run: Callable[..., Result], job: Job, attempt: str, stop: str) -> Future[Result]:
        """Hand out a job; `run` is what others are given to run it by."""
        if self._client.status != "running":
            raise BrokenExecutor("The connection to the scheduler is lost.")
        ours = _Ours()
        ours.is_running = lambda: self._is_processing((TASK, attempt))
        # As bytes, job and result cost dask no thought of what is in them.
        self._new.put(_New(ours, pickle.dumps(job), attempt, stop))
        return ours

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Close the connection. What still runs for it is ended by the workers."""
        self._new.put(None)
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self._client.close(timeout=2)

    def _is_processing(self, key: tuple[str, str]) -> bool:
        with contextlib.suppress(Exception):
            return any(key in keys for keys in self._client.processing().values())
        return False

    def _hand_out(self) -> None:
        """Until the end: hand out all that is to be, at once."""
        while (group := _together(self._new, _TOGETHER)) is not None:
            group = [new for new in group if not new.ours.done()]  # (else it was cancelled)
            keys = [(TASK, new.attempt) for new in group]
            arguments = zip(*((new.job, new.attempt, new.stop) for new in group))
            try:
                found = self._client.map(work_on_dask, *arguments, key=keys, pure=False) if group else []
            except BaseException as error:  # (nothing was handed out)
                for new in group:
                    _settle(new.ours, partial(_raise, error))
                continue
            for new, theirs in zip(group, found):
                self._begun.put(_Begun(new.ours, theirs))
                new.ours.add_done_callback(partial(_pass_on, theirs))
        self._begun.put(None)

    def _fetch(self) -> None:
        """Until the end: fetch at once all that has finished."""
        under_way: list[_Begun] = []
        pause = _FIRST_LOOK
        # Looking takes a microsecond for each; a callback of dask's takes hundreds.
        while (new := _together(self._begun, pause, wait=not under_way)) is not None:
            ended, under_way = _parted([*under_way, *new])
            pause = _FIRST_LOOK if ended else min(pause * 1.2, _LAST_LOOK)
            self._take(ended)
        for begun in under_way:  # nobody looks at them any more
            _settle(begun.ours, partial(_raise, BrokenExecutor("The connection was closed.")))

    def _take(self, group: Sequence[_Begun]) -> None:
        """Hand on what ended tasks came to."""
        ended = [begun for begun in group if begun.theirs.status == "finished"]
        try:
            results = self._client.gather([begun.theirs for begun in ended]) if ended else []
        except BaseException:  # one of them; which, they say one by one
            ended, results = [], []
        for begun, result in zip(ended, results):
            _settle(begun.ours, partial(pickle.loads, result))
        for ours, theirs in group:
            if not ours.done():
                _settle(ours, partial(_one, theirs))


def _together(source: queue.SimpleQueue[Any], seconds: float, *, wait: bool = True) -> list[Any] | None:
    """All that is there after some seconds, which begin with the first one where that is waited for; None at the end,
    which a None tells."""
    found = [source.get()] if wait else []
    time.sleep(seconds if found != [None] else 0.0)
    with contextlib.suppress(queue.Empty):
        while found[-1:] != [None]:
            found.append(source.get_nowait())
    if found[-1:] != [None]:
        return found
    source.put(None)
    return found[:-1] or None


def _parted(begun: Sequence[_Begun]) -> tuple[list[_Begun], list[_Begun]]:
    """What has ended, and what has not."""
    done: list[_Begun] = []
    others: list[_Begun] = []
    for one in begun:
        (done if one.theirs.done() else others).append(one)
    return done, others


def _pass_on(theirs: Any, ours: Future[Result]) -> None:
    """Where ours is cancelled theirs is, too."""
    if ours.cancelled():
        theirs.cancel()


def _one(theirs: Any) -> Result:
    found: Result = pickle.loads(theirs.result())  # noqa: S301 (dask unpickles all the same)
    return found


def _raise(error: BaseException) -> Result:
    raise error


def _settle(ours: Future[Result], result: Callable[[], Result]) -> None:
    with contextlib.suppress(InvalidStateError):  # it was cancelled
        try:
            ours.set_result(result())
        except InvalidStateError:
            raise
        except Exception as error:
            ours.set_exception(error)
        except BaseException as error:  # asyncio's CancelledError
            ours.set_exception(CancelledError(str(error)))
