"""The demo's world: a folder with a remote, two clones and a ledger, in which commands run as they are typed.

Nothing of the user's git settings reaches it, and nothing of it leaves the folder.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, Optional

from gitstate import show
from gitstate.edge import itself
from gitstate.errors import UsageError

_PATIENCE = 120.0  # seconds that any one command gets; all of them take a few


class FalseClaim(Exception):
    """Something that the demo claims does not hold."""


class Ended(NamedTuple):
    """A command that has ended: exit code (negative: the signal) and what it printed."""

    code: int
    out: str


class Call(NamedTuple):
    """One line of the ledger: a call to the pretended provider began, or has its answer."""

    event: str  # called, answered
    slug: str
    pid: int


class World:
    """The folder, and the story that is told of it. `claims` counts those that were checked."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.ledger = os.path.join(folder, "ledger.txt")
        self.claims = 0
        self._began = time.monotonic()
        self._transcript = open(os.path.join(folder, "transcript.txt"), "w", encoding="utf-8")  # noqa: SIM115
        self._env = _environment(self.ledger)

    def close(self) -> None:
        """End the transcript."""
        self._transcript.close()

    # --- telling --------------------------------------------------------------------------------------------------

    def say(self, text: str = "", colour: str = "") -> None:
        """A line of the story, for the terminal and the transcript."""
        self._transcript.write(text + "\n")
        show.tell(show.paint(text, colour))

    def chapter(self, title: str, *lines: str) -> None:
        """Begin a part of the story."""
        self.say()
        self.say(title, "1")
        for line in lines:
            self.say(line)
        self.say()

    def claim(self, text: str, holds: bool, seen: object = "") -> None:
        """Check one claim. Raises FalseClaim where it does not hold; `seen` is what was found instead."""
        self.claims += 1
        if not holds:
            self.say(f"  ✗ {text}", "31")
            raise FalseClaim(f"{text} Found instead: {seen}" if seen != "" else text)
        self.say(f"  ✓ {text}", "32")

    def seconds(self) -> float:
        """How long the story has taken so far."""
        return time.monotonic() - self._began

    # --- doing ----------------------------------------------------------------------------------------------------

    def run(self, where: str, *command: str, shown: int = 99, code: int = 0, quiet: bool = False) -> Ended:
        """Run a command in one of the folders, show it and the first `shown` lines that it prints.

        Raises FalseClaim if it does not end in `code`. `quiet` shows the command and not what it prints.
        """
        running = self.start(where, *command, shown=0 if quiet else shown)
        ended = running.wait()
        if ended.code != code:
            for line in ended.out.splitlines()[-20:] if quiet else ():
                self.say(f"    {show.safe(line)}")
            raise FalseClaim(
                f"`{_typed(command)}` in {where} should end in {code}, and ended in {ended.code}."
            )
        return ended

    def ask(self, where: str, *command: str) -> str:
        """What a command prints on standard output, without showing anything."""
        done = subprocess.run(
            _argv(command),
            cwd=os.path.join(self.folder, where),
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=_PATIENCE,
            check=False,
        )
        if done.returncode:
            raise FalseClaim(
                f"`{_typed(command)}` in {where} ended in {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def start(self, where: str, *command: str, shown: int = 99) -> Running:
        """Start a command as the leader of a process group of its own, and show what it prints as it comes."""
        self.say(f"  {where or '.'} $ {_typed(command)}", "36")
        return Running(self, os.path.join(self.folder, where), _argv(command), self._env, shown)

    def calls(self, event: str = "called") -> list[Call]:
        """The ledger's lines of one kind, oldest first."""
        return [call for call in self._entries() if call.event == event]

    def under_way(self) -> list[Call]:
        """The calls that have begun and have no answer yet."""
        entries = self._entries()
        ended = {call.pid for call in entries if call.event == "answered"}
        return [call for call in entries if call.event == "called" and call.pid not in ended]

    def freeze(self) -> Optional[Call]:
        """Stop a call in its middle (commands have process groups of their own); None if none could be caught."""
        for call in self.under_way():
            group = _group(call)
            if group is not None:
                _signal(group, "SIGSTOP")
                if call in self.under_way():
                    return call
                _signal(group, "SIGCONT")  # its answer came meanwhile
        return None

    def kill(self, call: Call) -> None:
        """SIGKILL for a call that was caught."""
        group = _group(call)
        if group is not None:
            _signal(group, "SIGKILL")

    def _entries(self) -> list[Call]:
        try:
            with open(self.ledger, encoding="utf-8") as file:
                rows = [line.split() for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [Call(event, slug, int(pid)) for event, slug, pid in rows]


class Running:
    """A command under way; its output, errors included, is read by a thread."""

    def __init__(
        self, world: World, folder: str, argv: Sequence[str], env: dict[str, str], shown: int
    ) -> None:
        self._world, self._shown = world, shown
        self._process = subprocess.Popen(
            argv,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            self._lines.append(raw.decode("utf-8", "replace").rstrip("\r\n"))
            if len(self._lines) <= self._shown:
                self._world.say(f"    {show.safe(self._lines[-1])}")

    def wait(self) -> Ended:
        """Wait for the end, and show the last lines of those that were not shown."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise FalseClaim(f"A command took more than {_PATIENCE:.0f} seconds.") from None
        self._reader.join(5)
        hidden = self._lines[self._shown :] if self._shown else []
        if len(hidden) > 2:
            self._world.say(f"    … {len(hidden) - 1} lines like these", "2")
            hidden = hidden[-1:]
        for line in hidden:
            self._world.say(f"    {show.safe(line)}")
        return Ended(code, "\n".join(self._lines))

    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def kill(self) -> int:
        """SIGKILL for its whole process group: nobody gets a chance to put anything in order."""
        _signal(self._process.pid, "SIGKILL")
        code = self._process.wait(_PATIENCE)
        self._reader.join(5)
        return code


def _signal(group: int, name: str) -> None:
    """Send a signal to a process group that may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, getattr(signal, name))


def _group(call: Call) -> Optional[int]:
    """The process group of a call; None if it has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(call.pid)
        return group if group != os.getpgid(0) else None
    return None


def make_folder(folder: str) -> str:
    """The absolute path of the demo's folder, made if need be. Raises UsageError unless it is empty."""
    import tempfile

    if not folder:
        return os.path.realpath(tempfile.mkdtemp(prefix="gitstate-demo-"))
    path = os.path.abspath(folder)
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise UsageError(
                f"{show.safe(folder)} is not empty.", "Name a folder that is empty, or not there yet."
            )
    except OSError as error:
        raise UsageError(
            f"{show.safe(folder)} cannot be used: {error.strerror}.", "Name another folder."
        ) from error
    return path


def _environment(ledger: str) -> dict[str, str]:
    """What runs alike on every machine."""
    return itself.environment(
        LEDGER=ledger,
        PYTHONIOENCODING="utf-8",
        PYTHONUTF8="1",
        # `python3` in the workflow is the one that runs gitstate
        PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
    )


def _argv(command: Sequence[str]) -> list[str]:
    """What to start for a command as typed: `gitstate` is this very installation, one word with spaces a shell's."""
    if command[0] == "gitstate":
        return [*itself.COMMAND, *command[1:]]
    return ["/bin/sh", "-c", command[0]] if len(command) == 1 and " " in command[0] else list(command)


def _typed(command: Sequence[str]) -> str:
    return command[0] if len(command) == 1 else shlex.join(command)
