"""The watchdog: a runner that is killed leaves nothing of its jobs alive, whatever they are and whenever it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.processes import bearing, lives
from tests.support.world import until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what lives is told by /proc")

PRELUDE = """
import os, signal, subprocess, sys, threading, time
from gitstate.edge.process import Job, execute
from gitstate.edge.watch import WATCH
"""
Runner = Callable[[str], subprocess.Popen[str]]
READY = "echo $$ > $HERE/ready; "
COMMANDS = {
    "hangs": READY + "exec sleep 3600",
    "ignores TERM": "trap '' TERM; " + READY + "while :; do sleep 0.05; done",
    "has grandchildren": "sleep 3600 & (trap '' TERM; sleep 3600 & sleep 3600 & wait) & " + READY + "wait",
    "left its parent": "(sleep 3600 &) ; " + READY + "exec sleep 3600",
    "left its group": "setsid sleep 3600 & setsid -f sh -c 'trap \"\" TERM; sleep 3600; sleep 3600'; "
    + READY
    + "wait",
    "clears its environment": READY + "exec env -i sleep 3600",
    "closed its streams": READY + "exec sleep 3600 <&- >&- 2>&-",
}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """Start a runner with some code. All that it starts has HERE in its environment."""

    def start(code: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            (sys.executable, "-c", PRELUDE + code), env={**os.environ, "HERE": str(tmp_path)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    yield start
    for pid in living(tmp_path):
        os.kill(pid, signal.SIGKILL)


def living(folder: Path) -> list[int]:
    return bearing("HERE", folder)


def nothing_lives(folder: Path) -> bool:
    return until(lambda: not living(folder))


def ready(folder: Path) -> int:
    """The pid that a job left word of, once it has."""
    word = folder / "ready"
    until(lambda: word.exists() and word.read_text().endswith("\n"))
    return int(word.read_text())


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_killed_runner_leaves_nothing_of_its_job(runner: Runner, tmp_path: Path, command: str) -> None:
    process = runner(f"execute(Job({command!r}))")
    leader = ready(tmp_path)
    process.kill()
    process.communicate()
    assert nothing_lives(tmp_path)
    assert not lives(leader)


def test_a_job_that_clears_its_environment_before_its_group_is_told_is_found_too(
    runner: Runner, tmp_path: Path
) -> None:
    here = f"while [ ! -s {tmp_path}/ready ]; do :; done; kill -9 {{pid}}"
    code = f"WATCH.group = lambda *a: os.system({here!r}.format(pid=os.getpid()))\n"
    process = runner(f"{code}execute(Job({COMMANDS['clears its environment']!r}))")
    process.communicate()
    leader = ready(tmp_path)
    assert until(lambda: not lives(leader))


INSTANTS = {
    "the job was announced": "begin = WATCH.begin; WATCH.begin = lambda *a: (begin(*a), die())",
    "the job was started": "WATCH.group = lambda *a: die()",
    "the group was told": "group = WATCH.group; WATCH.group = lambda *a: (group(*a), die())",
    "the group was killed": "WATCH.end = lambda *a: die()",
    "the job was withdrawn": "end = WATCH.end; WATCH.end = lambda *a: (end(*a), die())",
}


@pytest.mark.parametrize("instant", INSTANTS.values(), ids=INSTANTS)
def test_a_runner_killed_in_any_step_of_a_job_leaves_nothing_of_it(
    runner: Runner, tmp_path: Path, instant: str
) -> None:
    die = "def die(): os.kill(os.getpid(), signal.SIGKILL)\n"
    process = runner(f"{die}{instant}\nexecute(Job('sleep 3600', timeout=0.3, grace=0.1))")
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert nothing_lives(tmp_path)


@pytest.mark.parametrize("delay", [0, 1, 2, 3, 5, 8, 12, 20])
def test_a_runner_killed_while_it_starts_many_jobs_leaves_nothing_of_them(
    runner: Runner, tmp_path: Path, delay: int
) -> None:
    code = "for _ in range(8): threading.Thread(target=execute, args=(Job('exec sleep 3600'),)).start()"
    process = runner(f"print('now', flush=True)\n{code}")
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay / 1000)
    process.kill()
    process.communicate()
    assert nothing_lives(tmp_path)


def test_what_an_ended_job_left_in_a_session_of_its_own_stays_when_the_runner_is_killed(
    runner: Runner, tmp_path: Path
) -> None:
    server = "setsid -f sh -c 'echo $$ > $HERE/server; exec sleep 3600' >&- 2>&-; until [ -s $HERE/server ]; do :; done"
    process = runner(f"execute(Job({server!r}))\nexecute(Job({COMMANDS['hangs']!r}))")
    ready(tmp_path)
    process.kill()
    process.communicate()
    assert until(lambda: len(living(tmp_path)) <= 1)
    assert lives(int((tmp_path / "server").read_text()))


def test_the_watchdog_outlives_what_ends_a_runner_in_order(runner: Runner, tmp_path: Path) -> None:
    process = runner(
        "threading.Thread(target=execute, args=(Job('exec sleep 3600'),)).start()\n"
        "while not WATCH._dog: pass\n"
        "for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): os.kill(WATCH._dog.pid, n)\n"
        "print(WATCH._dog.pid, os.getsid(WATCH._dog.pid), WATCH._dog.poll(), flush=True)\n"
    )
    assert process.stdout is not None
    pid, session, ended = process.stdout.readline().split()
    assert (session, ended) == (pid, "None")
    process.kill()
    process.communicate()
    assert nothing_lives(tmp_path)


def test_the_watchdog_keeps_nothing_open_but_its_pipe(runner: Runner, tmp_path: Path) -> None:
    process = runner(
        "kept = os.open('/', os.O_RDONLY); os.set_inheritable(kept, True)\n"
        "execute(Job('true')); dog = WATCH._dog.pid; time.sleep(1)\n"  # (while it starts it opens others)
        "os.kill(dog, signal.SIGSTOP); folder = f'/proc/{dog}/fd'\n"
        "print(sorted(os.readlink(f'{folder}/{n}').split(':')[0] for n in os.listdir(folder)))\n"
    )
    out, _ = process.communicate(timeout=60)  # though the watchdog stands still: it does not hold this pipe
    assert out == "['/dev/null', '/dev/null', 'pipe']\n"


def test_jobs_and_git_do_not_hold_the_watchdog_s_pipe(runner: Runner, tmp_path: Path) -> None:
    process = runner(
        "execute(Job('true')); pipe = os.readlink(f'/proc/self/fd/{WATCH._pipe}')\n"
        "holds = 'ls -l /proc/self/fd'\n"
        "said = execute(Job(holds)).stdout + subprocess.run(holds, shell=True, capture_output=True, text=True).stdout\n"
        "print(said.count(pipe), 'stdout' in said)\n"
    )
    assert process.communicate()[0] == "0 True\n"


def test_a_watchdog_that_was_killed_is_replaced_and_this_is_said_once(runner: Runner, tmp_path: Path) -> None:
    process = runner(
        f"threading.Thread(target=execute, args=(Job({COMMANDS['hangs']!r}),)).start()\n"
        "while not os.path.exists(os.environ['HERE'] + '/ready'): time.sleep(0.01)\n"
        "first = WATCH._dog; first.kill(); first.wait()\n"
        "outputs = execute(Job('echo a')).outputs\n"
        "print(outputs, WATCH.complaint(), WATCH.complaint(), WATCH._dog.pid != first.pid, flush=True)\n"
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said.startswith("(b'a\\n',) The watchdog has ended (-9): if this run is killed")
    assert said.endswith("pay.  True\n")
    process.kill()
    process.communicate()
    assert nothing_lives(tmp_path)


def test_a_watchdog_that_stands_still_holds_nobody_up(runner: Runner, tmp_path: Path) -> None:
    process = runner(
        "execute(Job('true')); first = WATCH._dog; os.kill(first.pid, signal.SIGSTOP)\n"
        "for n in range(5000): WATCH.begin(f'gitstate-{n}'); WATCH.end(f'gitstate-{n}')\n"
        "print(execute(Job('echo a')).outputs, WATCH.complaint()[:30])\n"
    )
    assert process.communicate()[0] == "(b'a\\n',) The watchdog cannot be reached\n"


def test_without_a_watchdog_jobs_run_and_this_is_said_once(runner: Runner, tmp_path: Path) -> None:
    process = runner(
        "sys.executable = '/nonexistent/python'\n"
        "print(execute(Job('echo a')).outputs, execute(Job('echo b')).outputs, WATCH.complaint(), WATCH.complaint())\n"
    )
    said = process.communicate()[0]
    assert said.startswith(
        "(b'a\\n',) (b'b\\n',) The watchdog cannot be reached (No such file or directory): if"
    )


def test_a_fork_of_the_runner_has_a_watchdog_of_its_own(runner: Runner, tmp_path: Path) -> None:
    process = runner(
        f"execute(Job('true'))\nif not os.fork(): execute(Job({COMMANDS['hangs']!r})); os._exit(0)\n"
        "time.sleep(3600)"
    )
    ready(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    fork = next(pid for pid in map(int, children) if os.getsid(pid) == process.pid)
    os.kill(fork, signal.SIGKILL)
    assert until(lambda: len(living(tmp_path)) <= 3)  # the runner, its watchdog, the fork's zombie
    process.kill()
    process.communicate()
    assert nothing_lives(tmp_path)


def test_a_job_that_is_a_runner_itself_is_ended_with_its_own_jobs(runner: Runner, tmp_path: Path) -> None:
    inner = f"{PRELUDE}execute(Job({COMMANDS['left its group']!r}))"
    process = runner(f"execute(Job((sys.executable, '-c', {inner!r})))")
    ready(tmp_path)
    process.kill()
    process.communicate()
    assert nothing_lives(tmp_path)
