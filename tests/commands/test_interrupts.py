"""What ends a run from outside: interrupts, a closed terminal, a kill. Nothing goes on, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes import bearing
from tests.support.world import ARTICLE, FAIL_AT_ONCE, Clone, Running, World, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what lives is told by /proc")

SLUGS = ["one", "two", "three"]
# How the command of "two" takes it that it is to end. The provider hangs in all of them.
COMMANDS = {
    "hangs": "exec $PROVIDER",
    "ignores TERM": "trap '' TERM; exec $PROVIDER",
    "has grandchildren": '(sleep 3600 & $PROVIDER <"$GITSTATE_PROMPT"; :) & wait $!',
    "left its group": 'setsid sleep 3600 & sleeper=$!; setsid $PROVIDER <"$GITSTATE_PROMPT" & wait $!; kill $sleeper',
}


def hanging(folder: Path, command: str) -> tuple[World, Running]:
    """A world in which the second of three works is under way."""
    run = f'if [ "$GITSTATE_SLUG" = two ]; then {command}; else exec $PROVIDER; fi'
    world = World(folder, items=SLUGS, stages={"article": {**ARTICLE, "run": run}})
    world.tell("two", hang=True)
    running = world.a.start("run")
    until(lambda: len(world.calls()) == 2)
    return world, running


def nothing_lives(world: World) -> bool:
    return until(lambda: not bearing("PROVIDER_HOME", world.home))


def after(world: World) -> None:
    """What is true after every end: what was answered is recorded, the rest is to be done, and that costs no more."""
    assert nothing_lives(world)
    states = world.a.states()
    assert states["one/article"] == "done exact"
    assert {states["two/article"], states["three/article"]} == {"pending new"}
    assert world.a.leftovers() == []
    world.a.gitstate("verify", code=0)
    go_on(world)


def go_on(world: World) -> None:
    """The next run, at once: it takes the lock, and pays only for what was not answered."""
    world.forgive()
    world.a.run()
    assert set(world.a.states().values()) == {"done exact"}
    assert world.paid() == {"one/article": 1, "two/article": 2, "three/article": 1}
    assert world.a.why("two")[0]["spend"]["unknown"] == 1
    assert world.a.leftovers() == []
    world.a.gitstate("verify", code=0)


WAYS: dict[str, Callable[[Running], None]] = {
    "SIGINT": lambda running: running.signal(signal.SIGINT),
    "SIGTERM": lambda running: running.signal(signal.SIGTERM),
    "SIGHUP": lambda running: running.signal(signal.SIGHUP),
    "Ctrl-C": lambda running: os.killpg(running.process.pid, signal.SIGINT),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_interrupted_run_ends_all_that_it_started(
    tmp_path: Path, way: Callable[[Running], None], command: str
) -> None:
    world, running = hanging(tmp_path, command)
    way(running)
    running.wait(130)
    after(world)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_second_interrupt_does_not_wait_for_the_command(
    tmp_path: Path, way: Callable[[Running], None]
) -> None:
    trap = 'trap "echo x > $PROVIDER_HOME/ending; sleep 4; echo x > $PROVIDER_HOME/grace; exit" TERM; '
    world, running = hanging(tmp_path, trap + '$PROVIDER <"$GITSTATE_PROMPT" & wait $!')
    way(running)
    until((world.home / "ending").exists)
    way(running)
    running.wait(130)
    assert not (world.home / "grace").exists()
    after(world)


def test_what_was_answered_beside_a_command_that_is_ended_is_recorded(tmp_path: Path) -> None:
    world = World(tmp_path, items=SLUGS)
    world.tell("two", hang=True)
    running = world.a.start("run", "-j", "3")
    until(lambda: len(world.calls("answered")) == 2)
    os.killpg(running.process.pid, signal.SIGINT)
    running.wait(130)
    assert nothing_lives(world)
    world.forgive()
    world.a.run()
    assert world.paid()["two/article"] == 2
    assert sum(world.paid().values()) <= 3 + len([x for x in world.a.log() if x["kind"] == "lost"])


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_p4_a_run_that_is_killed_leaves_nothing_that_pays(tmp_path: Path, command: str) -> None:
    world, running = hanging(tmp_path, command)
    running.process.kill()
    running.process.communicate()
    go_on(world)  # while what was left is being ended: it does not hold the lock
    assert nothing_lives(world)


def test_p4_a_check_of_a_run_that_is_killed_ends_too(tmp_path: Path) -> None:
    check = {"command": "echo x > $PROVIDER_HOME/checking; sleep 3600 & setsid sleep 3600"}
    world = World(tmp_path, items=["one"], stages={"article": {**ARTICLE, "check": check}})
    running = world.a.start("run")
    until((world.home / "checking").exists)
    running.process.kill()
    running.process.communicate()
    assert nothing_lives(world)


def test_a_run_whose_command_says_nothing_for_too_long_ends_it(tmp_path: Path) -> None:
    stages = {"article": {**ARTICLE, "silence": "1s", "run": "echo half; $PROVIDER & wait"}}
    world = World(tmp_path, items=["one"], stages=stages, policy=FAIL_AT_ONCE)
    world.tell(hang=True)
    done = world.a.run(code=1)
    assert "Nothing new came from it for too long." in done.err
    assert world.a.states() == {"one/article": "failed new timeout"}
    assert nothing_lives(world)


def test_a_closed_terminal_ends_a_run_in_order(tmp_path: Path) -> None:
    world = World(tmp_path, items=SLUGS)
    world.tell("two", hang=True)
    process, master = in_terminal(world.a, "run")
    until(lambda: len(world.calls()) == 2)
    os.close(master)
    assert process.wait(120) == 130
    after(world)


def test_nohup_keeps_a_run_going_when_the_terminal_is_closed(tmp_path: Path) -> None:
    world = World(tmp_path, items=SLUGS)
    world.tell("two", wait=str(world.home / "go"))
    process, master = in_terminal(world.a, "run", ignore=True)
    until(lambda: len(world.calls()) == 2)
    os.close(master)
    (world.home / "go").touch()
    assert process.wait(120) == 0
    assert set(world.a.states().values()) == {"done exact"}


def in_terminal(clone: Clone, *arguments: str, ignore: bool = False) -> tuple[subprocess.Popen[bytes], int]:
    """gitstate with a terminal of its own; the descriptor is the terminal's other side."""
    master, slave = os.openpty()

    def prepare() -> None:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if ignore:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = subprocess.Popen(
        (sys.executable, "-m", "gitstate", *arguments), cwd=clone.path, env=clone.world.environment,
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=prepare,
    )  # fmt: skip
    os.close(slave)
    return process, master


def test_a_run_whose_log_nobody_reads_any_more_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, items=SLUGS)
    read, write = os.pipe()
    process = subprocess.Popen(
        (sys.executable, "-m", "gitstate", "run"), cwd=world.a.path, env=world.environment, stderr=write
    )
    os.close(write)
    os.close(read)
    assert process.wait() == 0
    assert set(world.a.states().values()) == {"done exact"}
