"""What a pool's worker runs: one self-contained job. A worker needs this package, and neither git nor a clone."""

from __future__ import annotations

import functools
import os
import pickle
import threading
from typing import Any, NamedTuple

from gitstate.core.redact import is_secret_name, redact
from gitstate.edge.process import Flag, Job, Result, execute

TASK = "gitstate"  # what dask sums our tasks up under


def work(job: Job, attempt: str, stop: str, coordinator: int = 0) -> Result:
    """Run a job to its end, or until there is a file at `stop`, where this machine sees the coordinator's files.

    `coordinator`: its process id. A process of its own that it made does not outlive it.
    """
    _end_with(coordinator)
    return _run(job, _Stopped(stop))


def work_on_dask(job: bytes, attempt: str, stop: str) -> bytes:
    """The same in a task of dask's, which ends also when the task is cancelled or its client is gone. Job and result
    are pickled."""
    # Imported here: whoever uses no dask has none.
    from distributed import get_worker
    from distributed.utils import sync

    worker = get_worker()
    # Dask runs a task again when it has lost the worker; what is paid for is tried again only where that is recorded.
    if not sync(worker.loop, worker.scheduler.gitstate_claim, attempt=attempt, worker=worker.address):
        return pickle.dumps(lost("The worker that had begun it is gone.", 0.0))
    found: Job = pickle.loads(job)  # noqa: S301 (dask unpickles all that it is sent)
    return pickle.dumps(_run(found, _Dropped(worker, (TASK, attempt), _Stopped(stop))))


def lost(words: str, seconds: float) -> Result:
    """The end of a job of which nobody knows how it ended."""
    return Result("lost", None, None, (), (), "", words, seconds)


@functools.cache
def _end_with(coordinator: int) -> None:
    """Have this process end when its parent does, once that is known to be the coordinator.

    The workers of a ProcessPoolExecutor whose maker was killed by force wait for its next word for ever. The commands
    of one that ends are ended by its watchdog.
    """
    from multiprocessing import connection, parent_process  # 10 ms, which the coordinator need not pay

    parent = parent_process()
    if parent is None or parent.pid != coordinator:
        return

    def wait(sentinel: int) -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait, args=(parent.sentinel,), daemon=True).start()


def _run(job: Job, cancel: Flag) -> Result:
    result = execute(job, cancel)
    # The coordinator does not know what must not be shown of this machine's environment.
    secrets = [value for name, value in os.environ.items() if is_secret_name(name)]
    return result._replace(stdout=redact(result.stdout, secrets), stderr=redact(result.stderr, secrets))


class _Stopped(NamedTuple):
    path: str

    def is_set(self) -> bool:
        return os.path.exists(self.path)


class _Dropped(NamedTuple):
    worker: Any
    key: tuple[str, str]
    stopped: Flag

    def is_set(self) -> bool:
        task = self.worker.state.tasks.get(self.key)
        return task is None or task.state == "cancelled" or self.stopped.is_set()
