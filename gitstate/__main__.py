"""The way in: turns failures into messages and exit codes, and starts nothing that a command does not need."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import time
from collections.abc import Sequence

from gitstate import __version__
from gitstate.errors import GitstateError, NeedsHuman, UsageError

INTERRUPTED = 130
BUG = 70

_DENIED = "Let your user read and write there."
_FULL = "Make room there."
_IN_THE_WAY = "It is not what gitstate keeps there: look at it, and move it away."
_AWAY = "Look at the disk or the network behind it."
_SCARCE = "Close other programs, or raise the limit."
# What a disk or the system refuses, and a person can mend. Anything else that the system says is a bug of ours.
_MENDABLE = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _DENIED),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys(
        (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP, errno.ENXIO), _IN_THE_WAY
    ),
    errno.ENAMETOOLONG: "Choose shorter slugs, or a shorter `output`.",
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.EBUSY), _AWAY),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN), _SCARCE),
}
_PAYING = ("run", "recover")  # the commands under which answers may have arrived

# Measured: the command-line framework costs 0.15 s of CPU, more than `plan` itself takes for 10,000 works. So
# the plain forms of the commands that people and hooks type all day are answered without it; every other form
# goes through it. Both end in the same functions.
_QUICK_FLAGS = {"--json": "as_json", "--exit-code": "exit_code", "--all": "all"}
_QUICK = {"plan": ("--json", "--exit-code", "--all"), "status": ("--json",)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name); returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # A command is a short-lived process full of small objects: looking for cycles among them only costs time.
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        # A terminal or a log that cannot show a sign is no reason to die.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        _require_clock()
        return _dispatch(arguments)
    except GitstateError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _complain("Interrupted.")
        return INTERRUPTED
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # The reader of our output has gone (`| head`); nobody is left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        hint = _MENDABLE.get(error.errno or 0)
        if isinstance(error, FileNotFoundError) and not _is_here():
            _complain("The folder that this was started in is gone.\n  Run again in a clone that is there.")
            return NeedsHuman.exit_code
        if hint is None:
            return _report(arguments, error)
        return _refused(error, hint, arguments)
    except Exception as error:
        return _report(arguments, error)


def _is_here() -> bool:
    """Whether the folder that this process was started in still has a name."""
    try:
        return os.path.isdir(os.getcwd())
    except FileNotFoundError:
        return False


def _require_clock() -> None:
    """Raise UsageError for a clock that Python's own library cannot start with, or that nothing can be dated by."""
    try:
        seconds = time.time()
    except OverflowError:
        seconds = -1.0
    if seconds < 0:
        raise UsageError(
            "The clock of this machine shows a time before 1970 or after 2262.", "Set the clock."
        )


def _dispatch(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(f"gitstate {__version__}")
        return 0
    if arguments[:2] == ["hooks", "run"]:
        from gitstate.commands.hook import run_hook

        return run_hook(arguments[2:])
    if arguments[:1] == ["classify"] and arguments[1:] in ([], ["--json"]):
        from gitstate.commands.classify import classify

        return classify(as_json=bool(arguments[1:]))
    quick = _QUICK.get(arguments[0]) if arguments else None
    if quick is not None and all(flag in quick for flag in arguments[1:]):
        return _quickly(arguments[0], {_QUICK_FLAGS[flag]: True for flag in arguments[1:]})
    if arguments[:1] == ["run"] and (jobs := _jobs(arguments[1:])):
        from gitstate.commands.clone import CONFIG
        from gitstate.commands.run import Options, run

        return run(CONFIG, Options(jobs=jobs))
    from gitstate.cli import app

    return app(arguments)


def _jobs(arguments: list[str]) -> int:
    """How many works at once a plain `run` or `run -j N` asks for; 0 for any other form."""
    if not arguments:
        return 1
    plain = len(arguments) == 2 and arguments[0] == "-j" and arguments[1].isascii()
    return int(arguments[1]) if plain and arguments[1].isdigit() and len(arguments[1]) < 6 else 0


def _quickly(command: str, options: dict[str, bool]) -> int:
    from gitstate.commands.clone import Clone

    with Clone() as clone:
        if command == "plan":
            from gitstate.commands.plan import plan

            return plan(clone, **options)  # type: ignore[arg-type]
        from gitstate.commands.status import status

        return status(clone, **options)


def _refused(error: OSError, hint: str, arguments: Sequence[str]) -> int:
    """What the system refused, where, and what to do about it."""
    if arguments[:1] and arguments[0] in _PAYING:
        hint += " Answers that had arrived are kept in the spool: run again then."
    where = "" if error.filename else " (on the disk of this clone)"
    names = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    _complain(str(NeedsHuman(f"{error.strerror}{f': {names}' if names else where}", hint)))
    return NeedsHuman.exit_code


def _complain(text: str) -> None:
    for line in f"gitstate: {text}".splitlines():
        print(line, file=sys.stderr)


def _report(arguments: Sequence[str], error: BaseException) -> int:
    """A bug of ours: write a report to paste, say where it lies, and lose nothing."""
    from gitstate.report import write

    path = write(arguments, error)
    _complain(
        f"This is a bug in gitstate: {type(error).__name__}: {error}\n"
        f"  Finished results are safe. A report to paste into an issue: {path}"
    )
    return BUG


if __name__ == "__main__":
    sys.exit(main())
