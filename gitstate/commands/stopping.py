"""An orderly end, asked for from outside."""

from __future__ import annotations

import signal
import threading

from gitstate.edge.git import allow_network, end_network


class Stop:
    """An orderly end on SIGINT, SIGTERM and SIGHUP: nothing new starts, commands are ended, what has come is recorded.

    A second signal hurries: the commands are killed at once, and the remote is not asked any more. A context manager
    that puts the handlers back.
    """

    def __init__(self) -> None:
        self.cancel = threading.Event()
        self.hurry = threading.Event()
        self._before: dict[int, object] = {}

    def is_set(self) -> bool:
        """Whether an end was asked for."""
        return self.cancel.is_set()

    def __enter__(self) -> Stop:
        numbers = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # else: nohup
            numbers.append(signal.SIGHUP)
        for number in numbers:
            self._before[number] = signal.signal(number, self._asked)
        return self

    def __exit__(self, *_: object) -> None:
        allow_network()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _asked(self, number: int, frame: object) -> None:
        if self.cancel.is_set():
            self.hurry.set()
        self.cancel.set()
        end_network(for_good=self.hurry.is_set())
