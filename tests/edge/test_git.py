"""Git's processes beside a run that is ended: those that it needs for ending in order live on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and groups")

CODE = """
import os, signal, time
from gitstate.edge.git import Git
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda *a: None)
git = Git(".", inherit=[os.open(".", os.O_RDONLY)] if {locked} else [])
process = git.start("stripspace", interruptible={interruptible})
os.killpg(0, signal.SIG{signal})
print(process.communicate(b"a")[0], process.returncode, signal.pthread_sigmask(signal.SIG_BLOCK, []))
process = git.start("stripspace")
process.send_signal(signal.SIGQUIT)
print(process.wait() == -signal.SIGQUIT)
"""


def said(folder: Path, **how: object) -> str:
    return subprocess.run(
        (sys.executable, "-c", CODE.format(**how)), cwd=folder, capture_output=True, text=True, check=True,
        start_new_session=True,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_under_the_lock_git_is_not_ended_with_the_terminal_s_foreground_group(
    tmp_path: Path, number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    assert said(tmp_path, signal=name, locked=True, interruptible=False) == "b'a\\n' 0 set()\nTrue\n"
    assert said(tmp_path, signal=name, locked=True, interruptible=True) == f"b'' {-number} set()\nTrue\n"
    assert said(tmp_path, signal=name, locked=False, interruptible=False) == f"b'' {-number} set()\nTrue\n"
