"""Running one job: a command with its input and limits in, bytes and the way it ended out.

A job and its result are plain values that pickle; nothing here knows of a repository, so a job can run in
another process or on another machine. Its input, output and errors are files in a private folder: no pipe can
fill up and stop it, and what it writes is bounded.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from gitstate.core.plan import Command
from gitstate.edge import group
from gitstate.edge.folder import File, Folder, collect, is_filed, lay_out, private, room, tail, usage
from gitstate.edge.group import Leader
from gitstate.edge.watch import WATCH

_FIRST_LOOK, _LAST_LOOK = 0.05, 0.25  # seconds between looks at sizes and at `cancel`; an exit needs no look
_SETTLE = 0.02  # seconds between looks at a job that was told to end

EndedBy = Literal["exit", "wall", "silence", "too_large", "cancelled", "not_started", "too_long", "lost"]


class Job(NamedTuple):
    """One command to run, self-contained."""

    command: Command  # a string runs through `sh -c`, a tuple without a shell
    stdin: bytes = b""  # also to be read from $GITSTATE_PROMPT
    env: Mapping[str, str] = {}  # beside this process's own environment
    hidden: Sequence[str] = ()  # what it must not see of that
    cwd: str | None = None  # None: the job's scratch folder; a relative one lies in the job's private folder
    outputs: int = 1  # how many outputs the stage has; 0: none is looked for
    timeout: float | None = None  # seconds
    silence: float | None = None  # seconds without anything new on stdout, on stderr or in an output
    max_bytes: int = 256 * 1024 * 1024  # of stdout, of stderr, and of each output
    grace: float = 5.0  # seconds from TERM to KILL
    scratch_parent: str | None = None  # where the private folder is made; None: the system's place
    # What it brings along, laid out in the folder `root` of its private folder, which is its $GITSTATE_ROOT then;
    # None: it runs beside a clone.
    files: Sequence[File] | None = None


class Result(NamedTuple):
    """How a job ended. `outputs` is empty unless it ended by itself with exit code 0."""

    # wall: its time was up; silence: it said nothing for too long; not_started, too_long (the command line), lost (the
    # machine that ran it gave no answer): `stderr` says why
    ended_by: EndedBy
    code: int | None  # exit code; None if a signal ended it, or nobody can tell
    signal: int | None
    outputs: tuple[bytes, ...]  # one for each output of the job
    missing: tuple[int, ...]  # numbers (from 1) of the outputs that did not come; `stderr` says why
    stdout: str  # its end (`TAIL`)
    stderr: str  # its end
    seconds: float
    usage: Mapping[
        str, int | float | str
    ] = {}  # what the command says it cost: usd, tokens_in, tokens_out, model
    filed: bool = False  # whether the first output came as a file, so that stdout is only talk
    free: int = 1 << 62  # bytes of room on the disk when it had ended, with what it had written still there


class Flag(Protocol):
    """What can be asked whether it was set; a threading.Event is one."""

    def is_set(self) -> bool: ...


def execute(job: Job, cancel: Flag | None = None, hurry: Flag | None = None) -> Result:
    """Run `job` to its end, whatever that is. Safe in many threads at once.

    `cancel` ends it early: TERM to its process group, KILL after the grace, or at once when `hurry` is set.
    After it, nothing of its process group lives and its private folder is gone, also when this raises. Where this
    process is killed instead, a watchdog ends the group. A job that is ended early does not leave behind what
    left its group either, where /proc shows that; one that ends by itself may leave a server in a session of its own.
    A command that cannot be started is a result (`not_started`, `too_long`), never an exception. Raises OSError
    only where this machine has no room for the private folder and the files.
    """
    began = time.monotonic()
    if cancel and cancel.is_set():
        return Result("cancelled", None, None, (), (), "", "", 0.0)
    try:
        with private(job.stdin, job.scratch_parent) as folder:
            if job.files is not None:
                lay_out(folder, job.files)
            WATCH.begin(folder.mark)
            try:
                return _run(job, folder, began, _Stop(cancel, hurry))
            finally:
                WATCH.end(folder.mark)
    except _NotStartedError as error:
        how: EndedBy = "too_long" if isinstance(error, _TooLongError) else "not_started"
        return Result(how, None, None, (), (), "", str(error), time.monotonic() - began)


class _NotStartedError(Exception):
    """Why there was nothing to run, as a sentence."""


class _TooLongError(_NotStartedError):
    """The command line is longer than this system takes."""


class _Stop(NamedTuple):
    cancel: Flag | None
    hurry: Flag | None


def _run(job: Job, folder: Folder, began: float, stop: _Stop) -> Result:
    process = _start(job, folder)
    WATCH.group(folder.mark, process.pid)
    leader = Leader(process)
    ended_by: EndedBy = "cancelled"
    try:
        ended_by = _wait(job, folder, leader, began, stop)
        if ended_by != "exit":
            _end(job, folder, leader, stop)
    finally:
        code = _sweep(folder, leader, early=ended_by != "exit")
        leader.close()
    seconds = time.monotonic() - began
    if ended_by == "exit" and _largest(folder.written(job.outputs)) > job.max_bytes:
        ended_by = "too_large"
    outputs: tuple[bytes, ...] = ()
    missing: dict[int, str] = {}
    if ended_by == "exit" and code == 0:
        outputs, missing = collect(folder, job.outputs)
    return Result(
        ended_by=ended_by,
        code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        outputs=outputs,
        missing=tuple(missing),
        stdout=tail(folder.stdout),
        stderr="".join([tail(folder.stderr), *missing.values()]),
        seconds=seconds,
        usage=usage(folder.of("usage")),
        filed=bool(outputs) and is_filed(folder),
        free=room(folder),
    )


def _start(job: Job, folder: Folder) -> subprocess.Popen[bytes]:
    shell = "/bin/sh" if os.name == "posix" else "sh"
    argv = [shell, "-c", job.command] if isinstance(job.command, str) else list(job.command)
    cwd = folder.of(job.cwd if job.cwd is not None else "scratch")
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
        if isinstance(error, OSError) and error.errno == errno.E2BIG:
            size = sum(len(os.fsencode(word)) for word in argv)
            raise _TooLongError(
                f"The command line is too long for this system ({size:,} bytes, environment not counted): "
                "let the command read long text from its standard input or from $GITSTATE_PROMPT."
            ) from error
        raise _NotStartedError(
            f"{argv[0] if argv else 'An empty command'} cannot be run: {error}."
        ) from error


def _environment(job: Job, folder: Folder) -> dict[str, str]:
    # A job inside a job must not see where the outer one writes.
    hidden = {*job.hidden, *(name for name in os.environ if name.startswith("GITSTATE_OUTPUT"))}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env.update(job.env)
    env["GITSTATE_PROMPT"] = folder.of("prompt")
    env["GITSTATE_SCRATCH"] = folder.of("scratch")
    env["GITSTATE_USAGE"] = folder.of("usage")
    if job.files is not None:
        env["GITSTATE_ROOT"] = folder.of("root")
        env["GIT_CEILING_DIRECTORIES"] = (
            folder.path
        )  # a repository that this machine's temporary files lie in
    if job.outputs:
        env["GITSTATE_OUTPUT"] = folder.of("out-1")
    if job.outputs > 1:
        for number in range(1, job.outputs + 1):
            env[f"GITSTATE_OUTPUT_{number}"] = folder.of(f"out-{number}")
    return env


def _wait(job: Job, folder: Folder, leader: Leader, began: float, stop: _Stop) -> EndedBy:
    """Sleep until the job has ended or must be ended, and say which."""
    deadline = None if job.timeout is None else began + job.timeout
    pause = _FIRST_LOOK
    written, heard = folder.written(job.outputs), began
    while True:
        wake = time.monotonic() + pause
        if deadline is not None:
            wake = min(wake, deadline)
        if job.silence is not None:
            wake = min(wake, heard + job.silence)
        if leader.ended(max(wake - time.monotonic(), 0)):
            return "exit"
        now = time.monotonic()
        before, written = written, folder.written(job.outputs)
        if written != before:
            heard = now
        if stop.cancel and stop.cancel.is_set():
            return "cancelled"
        if deadline is not None and now >= deadline:
            return "wall"
        if job.silence is not None and now >= heard + job.silence:
            return "silence"
        if _largest(written) > job.max_bytes:
            return "too_large"
        pause = min(pause * 2, _LAST_LOOK)
        if _largest(written) - _largest(before) > job.max_bytes / 4:
            pause = _FIRST_LOOK  # a flood


def _largest(written: Sequence[tuple[int, int]]) -> int:
    return max(size for size, _ in written)


def _end(job: Job, folder: Folder, leader: Leader, stop: _Stop) -> None:
    """Ask all that lives of the job to end, and give it the grace for it; less to one that goes on flooding."""
    jobs, told = {folder.mark: leader.process.pid}, set[int]()
    group.tell(jobs, signal.SIGTERM, told)
    until = time.monotonic() + job.grace
    while time.monotonic() < until and not (stop.hurry and stop.hurry.is_set()):
        if leader.ended(_SETTLE):
            if not group.tell(jobs, signal.SIGTERM, told):
                return
            time.sleep(_SETTLE)
        if _largest(folder.written(job.outputs)) > 2 * job.max_bytes:
            return


def _sweep(folder: Folder, leader: Leader, *, early: bool) -> int | None:
    """Kill what is left of the group, then reap its leader: its return code, negative for a signal.

    In this order: until the leader is reaped nobody else can be given the group's number.
    """
    process = leader.process
    group.send(process.pid, group.KILL)
    if early:
        group.kill({folder.mark: process.pid})
    WATCH.end(folder.mark)
    code: int | None = process.wait()
    if leader.lost:
        code = None  # somebody else reaped it, so what Popen says (0) is made up
    for _ in range(50):  # a killed process that is still inside a write
        if not group.exists(process.pid):
            break
        time.sleep(0.002)
    return code
