"""A dask cluster as an executor, for those who have `gitstate[dask]`."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future, InvalidStateError
from functools import partial
from typing import Any

from distributed import Client, SchedulerPlugin

from gitstate.edge.process import Job, Result
from gitstate.edge.worker import TASK, work_on_dask


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


class DaskExecutor:
    """Submits to a cluster; what arrives is fetched in groups, which is what makes many short jobs fast."""

    def __init__(self, address: str, patience: float) -> None:
        """Connect to the scheduler at `address`. Raises OSError if that takes longer than `patience` seconds."""
        logging.disable(logging.CRITICAL)  # its words on a lost connection; ours are those of the failure
        # (what a work brings along is announced by us)
        warnings.filterwarnings("ignore", "Sending large graph")
        self._client = Client(address, timeout=patience, set_as_default=False)
        self._client.register_plugin(Claims())
        self.cores = sum(self._client.nthreads().values())
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._fetch, name="gitstate-dask", daemon=True).start()

    def submit(self, run: Callable[..., Result], job: Job, attempt: str, stop: str) -> Future[Result]:
        """Hand out a job; `run` is what others are given to run it by."""
        if self._client.status != "running":
            raise BrokenExecutor("The connection to the scheduler is lost.")
        ours = _Ours()
        key = (TASK, attempt)
        theirs = self._client.submit(work_on_dask, job, attempt, stop, key=key, pure=False)
        ours.is_running = lambda: self._is_processing(key)
        ours.add_done_callback(lambda future: theirs.cancel() if future.cancelled() else None)
        theirs.add_done_callback(lambda future: self._done.put((future, ours)))
        return ours

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Close the connection. What still runs for it is ended by the workers."""
        self._done.put(None)
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self._client.close(timeout=2)

    def _is_processing(self, key: tuple[str, str]) -> bool:
        with contextlib.suppress(Exception):
            return any(key in keys for keys in self._client.processing().values())
        return False

    def _fetch(self) -> None:
        """Until the end: take all that has finished, and fetch it at once."""
        while (first := self._done.get()) is not None:
            group = [first]
            with contextlib.suppress(queue.Empty):
                while (more := self._done.get_nowait()) is not None:
                    group.append(more)
            ended = [pair for pair in group if pair[0].status == "finished"]
            try:
                results = self._client.gather([theirs for theirs, _ in ended]) if ended else []
            except BaseException:  # one of them; which, they say one by one
                ended, results = [], []
            for (_, ours), result in zip(ended, results):
                _settle(ours, partial(_same, result))
            for theirs, ours in group:
                if not ours.done():
                    _settle(ours, theirs.result)


def _same(result: Result) -> Result:
    return result


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
