"""Running one job: a command with its input and limits in, bytes and the way it ended out.

A job and its result are plain values that pickle; nothing here knows of a repository, so a job can run in
another process or on another machine. Its input, output and errors are files in a private folder: no pipe can
fill up and stop it, and what it writes is bounded.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from gitstate.core.plan import Command

TAIL = 16_384  # bytes of stdout and stderr that a result shows
_FIRST_LOOK, _LAST_LOOK = 0.05, 0.25  # seconds between looks at sizes and at `cancel`; an exit needs no look
_USAGE_BYTES = 65_536
_MOST = 2.0**63
_SETTLE = 0.02  # seconds between looks at a group that was told to end

EndedBy = Literal["exit", "wall", "too_large", "cancelled", "not_started"]


class Job(NamedTuple):
    """One command to run, self-contained."""

    command: Command  # a string runs through `sh -c`, a tuple without a shell
    stdin: bytes = b""  # also to be read from $GITSTATE_PROMPT
    env: Mapping[str, str] = {}  # beside this process's own environment
    cwd: str | None = None  # None: the job's scratch folder
    outputs: int = 1  # how many outputs the stage has; 0: none is looked for
    timeout: float | None = None  # seconds
    max_bytes: int = 256 * 1024 * 1024  # of stdout, of stderr, and of each output
    grace: float = 5.0  # seconds from TERM to KILL
    scratch_parent: str | None = None  # where the private folder is made; None: the system's place


class Result(NamedTuple):
    """How a job ended. `outputs` is empty unless it ended by itself with exit code 0."""

    ended_by: EndedBy  # wall: its time was up; not_started: `stderr` says why
    code: int | None  # exit code; None if a signal ended it, or nobody can tell
    signal: int | None
    outputs: tuple[bytes, ...]  # one for each output of the job
    missing: tuple[int, ...]  # numbers (from 1) of the outputs that did not come; `stderr` says why
    stdout: str  # its last 16 KiB
    stderr: str  # its last 16 KiB
    seconds: float
    usage: Mapping[
        str, int | float | str
    ] = {}  # what the command says it cost: usd, tokens_in, tokens_out, model


class Flag(Protocol):
    """What can be asked whether it was set; a threading.Event is one."""

    def is_set(self) -> bool: ...


def execute(job: Job, cancel: Flag | None = None, hurry: Flag | None = None) -> Result:
    """Run `job` to its end, whatever that is. Safe in many threads at once.

    `cancel` ends it early: TERM to its process group, KILL after the grace, or at once when `hurry` is set.
    After it, nothing of its process group lives and its private folder is gone, also when this raises.
    A command that cannot be started is a result (`not_started`), never an exception. Raises OSError only where
    this machine has no room for the private folder.
    """
    began = time.monotonic()
    if cancel and cancel.is_set():
        return Result("cancelled", None, None, (), (), "", "", 0.0)
    try:
        with _folder(job) as folder:
            return _run(job, folder, began, _Stop(cancel, hurry))
    except _NotStartedError as error:
        return Result("not_started", None, None, (), (), "", str(error), time.monotonic() - began)


class _NotStartedError(Exception):
    """Why there was nothing to run, as a sentence."""


class _Stop(NamedTuple):
    cancel: Flag | None
    hurry: Flag | None


class _Folder(NamedTuple):
    """A job's private folder and the descriptors of its streams, which the job cannot exchange."""

    path: str
    stdout: int
    stderr: int

    def of(self, name: str) -> str:
        return os.path.join(self.path, name)


@contextlib.contextmanager
def _folder(job: Job) -> Iterator[_Folder]:
    # What fails here is this machine's trouble and not the job's, so it is raised: a full disk must not be
    # written down as a failure of the work. Absolute, as the job runs elsewhere.
    path = os.path.abspath(tempfile.mkdtemp(prefix="gitstate-", dir=job.scratch_parent))
    streams: list[int] = []
    try:
        os.mkdir(os.path.join(path, "scratch"), 0o700)
        with open(os.path.join(path, "prompt"), "xb") as file:
            file.write(job.stdin)
        # Appending, so that a job that opens /dev/stderr anew does not write over itself.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        for name in ("stdout", "stderr"):
            streams.append(os.open(os.path.join(path, name), flags, 0o600))
        yield _Folder(path, streams[0], streams[1])
    finally:
        for stream in streams:
            os.close(stream)
        _remove(path)


def _remove(path: str) -> None:
    """Remove a folder whatever the job did to it; what cannot be removed is left, and nothing is raised."""
    for _ in range(3):  # again, for a file that came late
        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
            if not os.path.lexists(path):
                return
            _open_up(path)
    with contextlib.suppress(OSError):  # nested too deeply for Python
        subprocess.run(("rm", "-rf", "--", path), stderr=subprocess.DEVNULL, check=False)


def _open_up(path: str) -> None:
    """Make every folder below `path`, and itself, writable again; a folder is opened before it is entered."""
    with contextlib.suppress(OSError):
        os.chmod(path, 0o700)
    for top, folders, _ in os.walk(path):
        for inner in (os.path.join(top, name) for name in folders):
            with contextlib.suppress(OSError):
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)


def _run(job: Job, folder: _Folder, began: float, stop: _Stop) -> Result:
    process = _start(job, folder)
    leader = _Leader(process)
    ended_by: EndedBy = "cancelled"
    try:
        ended_by = _wait(job, folder, leader, began, stop)
        if ended_by != "exit":
            _end(process, leader, job.grace, stop)
    finally:
        code = _sweep(process, leader)
        leader.close()
    seconds = time.monotonic() - began
    if ended_by == "exit" and _too_large(job, folder):
        ended_by = "too_large"
    outputs: tuple[bytes, ...] = ()
    missing: dict[int, str] = {}
    if ended_by == "exit" and code == 0:
        outputs, missing = _collect(job, folder)
    return Result(
        ended_by=ended_by,
        code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        outputs=outputs,
        missing=tuple(missing),
        stdout=_tail(folder.stdout),
        stderr="".join([_tail(folder.stderr), *missing.values()]),
        seconds=seconds,
        usage=_usage(folder.of("usage")),
    )


def _start(job: Job, folder: _Folder) -> subprocess.Popen[bytes]:
    shell = "/bin/sh" if os.name == "posix" else "sh"
    argv = [shell, "-c", job.command] if isinstance(job.command, str) else list(job.command)
    cwd = job.cwd if job.cwd is not None else folder.of("scratch")
    try:
        with open(folder.of("prompt") if job.stdin else os.devnull, "rb") as stdin:
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=folder.stdout,
                stderr=folder.stderr,
                cwd=cwd,
                env=_environment(job, folder),
                start_new_session=True,  # a group of its own, which can be ended as one; POSIX only
            )
    except (OSError, ValueError, IndexError) as error:
        if not os.path.isdir(cwd):
            raise _NotStartedError(f"{cwd} is not a folder to run in.") from error
        raise _NotStartedError(
            f"{argv[0] if argv else 'An empty command'} cannot be run: {error}."
        ) from error


def _environment(job: Job, folder: _Folder) -> dict[str, str]:
    # A job inside a job must not see where the outer one writes.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GITSTATE_OUTPUT")}
    env.update(job.env)
    env["GITSTATE_PROMPT"] = folder.of("prompt")
    env["GITSTATE_SCRATCH"] = folder.of("scratch")
    env["GITSTATE_USAGE"] = folder.of("usage")
    if job.outputs:
        env["GITSTATE_OUTPUT"] = folder.of("out-1")
    if job.outputs > 1:
        for number in range(1, job.outputs + 1):
            env[f"GITSTATE_OUTPUT_{number}"] = folder.of(f"out-{number}")
    return env


def _wait(job: Job, folder: _Folder, leader: _Leader, began: float, stop: _Stop) -> EndedBy:
    """Sleep until the job has ended or must be ended, and say which."""
    deadline = None if job.timeout is None else began + job.timeout
    pause = _FIRST_LOOK
    while True:
        left = pause if deadline is None else min(pause, deadline - time.monotonic())
        if leader.ended(max(left, 0)):
            return "exit"
        if stop.cancel and stop.cancel.is_set():
            return "cancelled"
        if deadline is not None and time.monotonic() >= deadline:
            return "wall"
        if _too_large(job, folder):
            return "too_large"
        pause = min(pause * 2, _LAST_LOOK)


def _end(process: subprocess.Popen[bytes], leader: _Leader, grace: float, stop: _Stop) -> None:
    """Ask the job's whole group to end, and give it `grace` seconds for it."""
    _signal(process, signal.SIGTERM)
    until = time.monotonic() + grace
    while time.monotonic() < until and not (stop.hurry and stop.hurry.is_set()):
        if leader.ended(_SETTLE):
            if not _lives_on(process.pid):
                return
            time.sleep(_SETTLE)


def _sweep(process: subprocess.Popen[bytes], leader: _Leader) -> int | None:
    """Kill what is left of the group, then reap its leader: its return code, negative for a signal.

    In this order: until the leader is reaped nobody else can be given the group's number.
    """
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
    code: int | None = process.wait()
    if leader.lost:
        code = None  # somebody else reaped it, so what Popen says (0) is made up
    for _ in range(50):  # a killed process that is still inside a write
        if not _exists(process.pid):
            break
        time.sleep(0.002)
    return code


class _Leader:
    """The job's first process, to be waited for without reaping it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lost = False  # there is no telling how it ended
        self._descriptor: int | None = None
        self._poll: Any = None
        # Without a descriptor for the process (not Linux, or an old one) short sleeps must do.
        with contextlib.suppress(AttributeError, OSError):
            self._descriptor = os.pidfd_open(process.pid)
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLIN)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def ended(self, seconds: float) -> bool:
        """Whether it has ended, after at most `seconds` of sleep."""
        if self._poll:
            self._poll.poll(int(seconds * 1000) + 1)
            return self._has_ended()
        until = time.monotonic() + seconds
        pause = 0.001
        while not self._has_ended():
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        return True

    def _has_ended(self) -> bool:
        if not hasattr(os, "waitid"):  # Windows, older macOS: reaping is the only way to look
            return self.process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # SIGCHLD is ignored in this process: the kernel reaped it
            self.lost = True
            return True


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to the job's group; where there are no groups, to its first process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.kill()


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (AttributeError, ProcessLookupError, PermissionError):
        return False
    return True


def _lives_on(group: int) -> bool:
    """Whether a member of the group other than zombies is left; False where /proc does not tell."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, _, of_group = file.read().rpartition(b")")[2].split()[:3]
                if int(of_group) == group and state not in (b"Z", b"X"):
                    return True
    return False


def _too_large(job: Job, folder: _Folder) -> bool:
    if max(os.fstat(folder.stdout).st_size, os.fstat(folder.stderr).st_size) > job.max_bytes:
        return True
    for number in range(1, job.outputs + 1):
        with contextlib.suppress(OSError):
            if os.lstat(folder.of(f"out-{number}")).st_size > job.max_bytes:
                return True
    return False


def _collect(job: Job, folder: _Folder) -> tuple[tuple[bytes, ...], dict[int, str]]:
    """Each output's bytes, and for each that did not come the words."""
    outputs: list[bytes] = []
    missing: dict[int, str] = {}
    for number in range(1, job.outputs + 1):
        name = f"$GITSTATE_OUTPUT_{number}" if job.outputs > 1 else "$GITSTATE_OUTPUT"
        data = b""
        try:
            data = _regular(folder.of(f"out-{number}"))
        except FileNotFoundError:
            pass
        except OSError as error:
            missing[number] = f"gitstate: {name} cannot be taken: {error.strerror or error}.\n"
        if number == 1 and not data and not missing:
            # Standard output may stand for the first output. Whether it is enough, the checks say.
            data = _read(folder.stdout, 0)
        elif not data and number not in missing:
            missing[number] = f"gitstate: {name} was not written.\n"
        outputs.append(data)
    return tuple(outputs), missing


def _usage(path: str) -> dict[str, int | float | str]:
    """What a command left in $GITSTATE_USAGE, a JSON object; whatever is not of the kind expected is left out."""
    try:
        fields = json.loads(_regular(path)[:_USAGE_BYTES])
    except (OSError, ValueError, RecursionError):
        return {}
    found: dict[str, int | float | str] = {}
    for name, value in fields.items() if isinstance(fields, dict) else ():
        numbers = {"usd": (int, float), "tokens_in": (int,), "tokens_out": (int,)}.get(name, ())
        if type(value) in numbers and 0 <= value < _MOST:
            found[name] = value
        elif name == "model" and isinstance(value, str):
            found[name] = value[:200]
    return found


def _regular(path: str) -> bytes:
    """A file's bytes, if it is a plain file itself: no link is followed, no device or FIFO is read."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    if os.path.islink(path):
        raise OSError("it is a symbolic link")
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        return _read(descriptor, 0)
    finally:
        os.close(descriptor)


def _tail(descriptor: int) -> str:
    start = max(0, os.fstat(descriptor).st_size - TAIL)
    return _read(descriptor, start).decode("utf-8", "replace")


def _read(descriptor: int, start: int) -> bytes:
    os.lseek(descriptor, start, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()
