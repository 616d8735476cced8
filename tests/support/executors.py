"""Executors for `--executor tests.support.executors:NAME`, good ones and bad ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any


def processes() -> Executor:
    return ProcessPoolExecutor(2, get_context("spawn"))


def forks() -> Executor:
    return ProcessPoolExecutor(2, get_context("fork"))


def threads() -> Executor:
    return ThreadPoolExecutor(2)


class Failing:
    """Every answer is the same error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def submit(self, run: Callable[..., Any], *arguments: object) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(self._error)
        return future


class Silent:
    """No answer ever comes."""

    def submit(self, run: Callable[..., Any], *arguments: object) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        return future


def cancelling() -> Failing:
    return Failing(CancelledError())


def overflowing() -> Failing:
    return Failing(OverflowError("a message of 5 GB cannot be sent"))


def bare() -> Failing:
    return Failing(ModuleNotFoundError("No module named 'gitstate'"))


def silent() -> Silent:
    return Silent()


def nothing() -> object:
    return object()


def unreachable() -> Executor:
    raise ConnectionError("nobody there")
