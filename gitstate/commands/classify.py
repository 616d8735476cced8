"""`gitstate classify`: what a captured signal means, for scripts (JSON Lines) and for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple, Optional

from gitstate.core.classify import classify as verdict_on
from gitstate.core.ownrules import OwnRule
from gitstate.core.redact import is_secret_name
from gitstate.core.signal import Cli, Signal, SignalError, Verdict, parse, to_plain
from gitstate.edge.timezone import local_zone
from gitstate.errors import UsageError

_KEYS = ("outcome", "category", "kind", "wait_seconds", "until", "state")


class Command(NamedTuple):
    """A command that has ended, as told on the command line; paths of files with what it printed."""

    exit: int = 0
    stdout: str = ""
    stderr: str = ""
    tool: str = ""
    argv: tuple[str, ...] = ()


class _Judge:
    """The classifier with this repository's rules and this environment's secrets."""

    def __init__(self, config: str) -> None:
        self.rules = _own_rules(config)
        self.secrets = [value for name, value in os.environ.items() if is_secret_name(name)]

    def __call__(self, signal: Signal) -> Verdict:
        return verdict_on(signal, self.rules, self.secrets)


def classify(
    path: str = "",
    *,
    command: Optional[Command] = None,
    as_json: bool = False,
    config: str = "gitstate.yaml",
) -> int:
    """Classify `command`, or the signals in the file `path`, or those on standard input. Returns 0, or 2 where
    a line was no signal; all other lines are answered nevertheless.

    Raises UsageError where there is nothing to read, and ConfigError where the rules of this repository are wrong.
    """
    judge = _Judge(config)
    if command is not None:
        zone = local_zone()
        cli = Cli(command.exit, _file(command.stdout), _file(command.stderr), command.argv, command.tool)
        _answer(judge(Signal(cli=cli, now=datetime.now(timezone.utc), zone=zone)), as_json)
        return 0
    if path and path != "-":
        return _whole(judge, _bytes(path), as_json)
    if sys.stdin.isatty():
        raise UsageError(
            "There is nothing to classify.",
            "Give signals as JSON Lines on standard input, a file, or --exit with --stdout and --stderr.",
        )
    return _lines(judge, sys.stdin.buffer, as_json)


def _whole(judge: _Judge, data: bytes, as_json: bool) -> int:
    """A file that is one signal, however it is laid out, or else lines of them."""
    try:
        signal = parse(json.loads(data.decode("utf-8-sig", "replace")))
    except (ValueError, RecursionError, SignalError):
        return _lines(judge, data.splitlines(), as_json)
    _answer(judge(signal), as_json)
    return 0


def _lines(judge: _Judge, lines: Iterable[bytes], as_json: bool) -> int:
    """Answer line by line, each as soon as it is there: a pipeline may wait for it."""
    code = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            signal = _signal(line)
        except SignalError as error:
            code = UsageError.exit_code
            words = f"line {number}: {error.message}"
            print(
                f"gitstate: {words}" + (f"\n  {error.hint}" if error.hint else ""),
                file=sys.stderr,
                flush=True,
            )
            if as_json:  # a line for a line, so that answers can be put beside what was asked
                print(_dumps({**dict.fromkeys(_KEYS), "error": words}), flush=True)
            continue
        _answer(judge(signal), as_json)
    return code


def _signal(line: bytes) -> Signal:
    try:
        data = json.loads(line.decode("utf-8-sig", "replace"))
    except RecursionError:
        raise SignalError("It is nested too deeply.") from None
    except ValueError as error:
        raise SignalError(
            f"This is not JSON: {str(error).lower()}.", "Write one JSON object on each line."
        ) from None
    return parse(data)


def _answer(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        print(_dumps(to_plain(verdict)), flush=True)
        return
    from gitstate import explain, show  # 20 ms of imports that scripts need not pay for

    for line in explain.verdict_lines(verdict):
        show.tell(line)


def _dumps(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def _file(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace") if path else ""


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def _own_rules(config: str) -> Sequence[OwnRule]:
    """The rules of the repository that this is run in, as they stand in the working tree; none outside of one.

    Found without git, as a script may ask for every call that it makes.
    """
    folder = os.path.realpath(".")
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return ()
        folder = above
    try:
        with open(os.path.join(folder, config), "rb") as file:
            text = file.read()
    except OSError:
        return ()
    if b"rules" not in text:  # nor 30 ms for reading what says nothing of it
        return ()
    from gitstate.edge.config import read_workflow

    return read_workflow(text, config).rules
