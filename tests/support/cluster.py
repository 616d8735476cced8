"""A dask cluster of real processes, each of which can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.world import until

_QUIET = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical", "PYTHONDONTWRITEBYTECODE": "1"}


class Cluster:
    """A scheduler and workers of two threads each, without anybody who starts them again."""

    def __init__(self, folder: Path, env: Mapping[str, str], workers: int = 2) -> None:
        self._folder, self._env = folder, {**os.environ, **env, **_QUIET}
        folder.mkdir(exist_ok=True)
        self._file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        command = (
            "dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--scheduler-file",
            str(self._file),
        )
        self.scheduler = self._start(*command)
        until(lambda: self._file.exists() and self._file.stat().st_size)
        self.address: str = json.loads(self._file.read_text(encoding="utf-8"))["address"]
        for _ in range(workers):
            self.grow()

    def grow(self) -> None:
        """One more worker."""
        options = ("--nthreads", "2", "--no-nanny", "--local-directory", str(self._folder))
        self.workers.append(self._start("dask_worker", self.address, *options))

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
        for process in (*self.workers, self.scheduler):
            process.wait()

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = (sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments)
        return subprocess.Popen(command, cwd=self._folder, env=self._env, stderr=subprocess.DEVNULL)


@contextmanager
def cluster(folder: Path, workers: int = 2, **env: str) -> Iterator[Cluster]:
    """A cluster that is up, and ended afterwards."""
    found = Cluster(folder, env, workers)
    try:
        from distributed import Client

        with Client(found.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        yield found
    finally:
        found.end()
