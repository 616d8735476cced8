"""The saboteur of `gitstate drill`: stands around a stage's command, in throw-away clones only.

Run by its path, with nothing but the standard library. It counts every call and every act in a ledger outside of the
clones, and strikes once: at the one work that the order names, in the one way that it names. The drill's folder is
told by $GITSTATE_DRILL, the state folder of the clone that it works for by $GITSTATE_DRILL_STATE.

    act               a recorded stand-in of the command
    evidence          a recorded stand-in of the evidence command
    before, after N   what a real command stands between, in a shell; N: its exit code
    around WORD …     the same for a command without a shell
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn, Optional

_LONG = 3600.0  # seconds: longer than anybody waits
_SPOOLING = 20.0  # seconds that gitstate gets to spool an answer
_LOOK = 0.0005
REPLY = ".gitstate-drill"  # where a real command's standard output waits, in its scratch folder


def main(arguments: Sequence[str]) -> int:
    """Do what the first word says; returns the exit code."""
    word, rest = arguments[0], list(arguments[1:])
    if word == "act":
        before()
        return after(0, stand_in())
    if word == "evidence":
        return evidence()
    if word == "before":
        before()
        return 0
    if word == "around":
        before()
        return after(around(rest), None)
    return after(int(rest[0]), None)


def before() -> None:
    """The command is about to act: a call is counted, unless the order is to strike before it."""
    do = _take_order()
    if do == "killed-before":
        _note("struck", do=do)
        _kill_run()
    _note("asked")


def around(command: Sequence[str]) -> int:
    """Run a real command without a shell; its exit code as a shell tells it."""
    with open(_reply(), "wb") as file:
        try:
            code = subprocess.run(command, stdout=file, check=False).returncode
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            return 127
    return code if code >= 0 else 128 - code


def after(code: int, answers: Optional[list[bytes]]) -> int:
    """The command has acted: its reply is handed on, unless the order is to strike now.

    `answers` are a stand-in's outputs; None: a real command's reply, which waits in its files.
    """
    real = answers is None
    if answers is None:
        answers = _real_answers()
        if code == 0:
            _act()
    do = _taken() if code == 0 else ""
    if do:
        _note("struck", do=do)
        code = _strike(do, answers)
    elif real:
        _hand_on(answers[0])
    else:
        _deliver(answers)
    if code == 0:
        _note("answered")
    return code


def _strike(do: str, answers: Sequence[bytes]) -> int:
    """The one failure of this cell, now that the act has happened; returns the exit code."""
    if do == "killed-middle":
        _deliver([answer[: len(answer) // 2] for answer in answers])
        _kill_run()
    if do in ("reply-lost", "timeout"):
        _deliver([b"" for _ in answers])
        if do == "timeout":
            time.sleep(_LONG)
        print("Recv failure: Connection reset by peer", file=sys.stderr)
        return 56
    if do == "killed-after":
        _kill_once_spooled()
    elif do == "taken-over":
        _wait_for("go.json")
    elif do == "store":
        _hold_the_store()
    _deliver(answers)
    return 0


# --- stand-ins ----------------------------------------------------------------------------------------------------


def stand_in() -> list[bytes]:
    """The recorded outputs; an effect acts in the pretended world first."""
    _act()
    answers = []
    for path in _stage()["material"]:
        with open(path, "rb") as file:
            answers.append(file.read())
    return answers


def evidence() -> int:
    """Looks in the pretended world: prints what was made there and returns 0, or 1 where there is nothing."""
    _note("evidence")
    folder = _world()
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if _read(os.path.join(folder, name))["slug"] == os.environ["GITSTATE_SLUG"]:
            with open(_stage()["material"][0], "rb") as answer:
                _hand_on(answer.read())
            return 0
    return 1


def _act() -> None:
    """An effect changes the pretended world, which is a folder, or has changed the real one, of which this keeps count.
    An idempotent one does so once a key."""
    stage = _stage()
    if not stage["effect"]:
        return
    name = os.environ["GITSTATE_IDEMPOTENCY_KEY" if stage["idempotent"] else "GITSTATE_ATTEMPT_ID"]
    os.makedirs(_world(), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        with open(os.path.join(_world(), name), "x", encoding="utf-8") as file:
            json.dump({"slug": os.environ["GITSTATE_SLUG"]}, file)
        _note("acted")


def _world() -> str:
    return _of("world", os.environ["GITSTATE_STAGE"])


def _stage() -> dict[str, Any]:
    found: dict[str, Any] = _read(_of("setup.json"))["stages"][os.environ["GITSTATE_STAGE"]]
    return found


# --- replies ------------------------------------------------------------------------------------------------------


def _reply() -> str:
    return os.path.join(os.environ["GITSTATE_SCRATCH"], REPLY)


def _outputs() -> list[str]:
    """The files that the command may write, first one first."""
    if "GITSTATE_OUTPUT_1" not in os.environ:
        return [os.environ["GITSTATE_OUTPUT"]] if "GITSTATE_OUTPUT" in os.environ else []
    names = iter(range(1, 10_000))
    return [os.environ[f"GITSTATE_OUTPUT_{n}"] for n in names if f"GITSTATE_OUTPUT_{n}" in os.environ]


def _real_answers() -> list[bytes]:
    """What a real command answered: standard output first, then each file that it wrote."""
    answers = []
    for path in (_reply(), *_outputs()):
        try:
            with open(path, "rb") as file:
                answers.append(file.read())
        except OSError:
            answers.append(b"")
    return answers


def _hand_on(stdout: bytes) -> None:
    """A real command's standard output; its files stand where it put them."""
    sys.stdout.buffer.write(stdout)
    sys.stdout.buffer.flush()


def _deliver(answers: Sequence[bytes]) -> None:
    """Put an answer where gitstate looks for it: a real command's, which begins with its standard output, or a
    stand-in's, of one file for each output, which is an answer wherever the command runs."""
    paths = _outputs()
    if len(answers) > len(paths):
        _hand_on(answers[0])
        answers = answers[1:]
    for path, answer in zip(paths, answers):
        if answer or os.path.exists(path):
            with open(path, "wb") as file:
                file.write(answer)


# --- striking -----------------------------------------------------------------------------------------------------


def _take_order() -> str:
    """What to do, if the order is for this work and nobody has taken it yet; else ''."""
    try:
        order = _read(_of("order.json"))
        if [order["slug"], order["stage"]] != [os.environ["GITSTATE_SLUG"], os.environ["GITSTATE_STAGE"]]:
            return ""
        os.rename(_of("order.json"), _mine())
    except FileNotFoundError:
        return ""
    return str(order["do"])


def _taken() -> str:
    """What the order is that this attempt has taken; else ''."""
    return str(_read(_mine())["do"]) if os.path.exists(_mine()) else ""


def _mine() -> str:
    return _of(f"order.{os.environ['GITSTATE_ATTEMPT_ID']}")


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def _run() -> int:
    """The process that holds this clone's run lock, once it is sure that it is what started this command."""
    try:
        pid = int(_read(os.path.join(os.environ["GITSTATE_DRILL_STATE"], "lock.json"))["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        pid = 0
    if pid not in _ancestors():
        _note("trouble", said="the run that holds the lock did not start this command")
        raise SystemExit(70)
    return pid


def _ancestors() -> list[int]:
    found: list[int] = []
    pid = os.getppid()
    while pid > 1 and pid not in found:
        found.append(pid)
        pid = _parent(pid)
    return found


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        said = subprocess.run(("ps", "-o", "ppid=", "-p", str(pid)), capture_output=True, check=False).stdout
        return int(said) if said.strip().isdigit() else 0


def _kill_run() -> NoReturn:
    os.kill(_run(), signal.SIGKILL)
    raise SystemExit(137)


def _kill_once_spooled() -> None:
    """Leave somebody behind who kills the run as soon as the answer is in the spool. Until the drill mends the store
    it cannot be recorded, however busy the machine is."""
    pid = _run()
    _hold_the_store()
    spooled = os.path.join(
        os.environ["GITSTATE_DRILL_STATE"], "attempts", f"{os.environ['GITSTATE_ATTEMPT_ID']}.spooled"
    )
    if os.fork():
        return
    # What is left of a command's own group is ended with it.
    os.setsid()
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    until = time.monotonic() + _SPOOLING
    while not os.path.exists(spooled) and time.monotonic() < until and os.path.exists(_of("setup.json")):
        time.sleep(_LOOK)
    if os.path.exists(spooled):
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def _wait_for(name: str) -> None:
    """Be slow until the drill says go on, or is gone."""
    with open(_of("waiting"), "w", encoding="utf-8"):
        pass
    while not os.path.exists(_of(name)) and os.path.exists(_of("waiting")):
        time.sleep(0.01)


def _hold_the_store() -> None:
    """Hold git's lock on the receipts. (Permissions would not keep root out.)"""
    path = os.path.join(os.path.dirname(os.environ["GITSTATE_DRILL_STATE"]), "refs", "notes", "gitstate.lock")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "x", encoding="utf-8"):
        pass


def _of(*names: str) -> str:
    return os.path.join(os.environ["GITSTATE_DRILL"], *names)


def _note(event: str, **more: str) -> None:
    """One line in the ledger, on the disk before anything else happens; whole, because it is one write at the end."""
    line = {
        "event": event,
        "slug": os.environ.get("GITSTATE_SLUG", ""),
        "stage": os.environ.get("GITSTATE_STAGE", ""),
        "key": os.environ.get("GITSTATE_IDEMPOTENCY_KEY", ""),
        "time": time.time(),
        **more,
    }
    ledger = os.open(_of("ledger"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(ledger, json.dumps(line).encode() + b"\n")
        os.fsync(ledger)
    finally:
        os.close(ledger)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
