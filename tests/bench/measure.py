"""What a command costs: CPU time of the process and all its descendants that were waited for, and peak memory.

Run as a script it measures one command from a process that is itself small: on Linux a child's peak memory
counts from what its parent held when it was started.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Optional

# What people and CI have set must not count, nor what points git elsewhere.
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A Bench",
    "GIT_AUTHOR_EMAIL": "bench@example.org",
    "GIT_COMMITTER_NAME": "A Bench",
    "GIT_COMMITTER_EMAIL": "bench@example.org",
    "LC_ALL": "C",
}


class Cost(NamedTuple):
    """One run of a command."""

    cpu: float  # seconds, user and system, descendants included
    peak: float  # megabytes, of the largest process


Do = Callable[[], Cost]


def environment() -> dict[str, str]:
    """This process's environment without what would make two machines differ.

    PYTHONDONTWRITEBYTECODE goes too: compiling a checkout's modules each time would be half of what is measured,
    and an installed gitstate never does it.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "GITSTATE_", "PYTHON"))
    }
    return {**kept, **ENVIRONMENT}


def cost(command: Sequence[str], folder: str = ".", codes: Sequence[int] = (0,)) -> Cost:
    """Run a command to its end, its output thrown away. Raises RuntimeError for an exit code not in `codes`."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode not in codes:
        raise RuntimeError(
            f"{' '.join(command)}: exit code {process.returncode}\n{said.decode(errors='replace')[-4000:]}"
        )
    scale = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / scale)


def several(commands: Sequence[Sequence[str]], folder: str = ".") -> Cost:
    """The cost of some commands one after another."""
    costs = [cost(command, folder) for command in commands]
    return Cost(sum(found.cpu for found in costs), max(found.peak for found in costs))


def from_small_process(command: Sequence[str], folder: str) -> Cost:
    """`cost`, measured by a process that holds next to nothing."""
    done = subprocess.run(
        (sys.executable, "-S", os.path.abspath(__file__), folder, *command),
        capture_output=True,
        text=True,
        check=True,
    )
    return Cost(*json.loads(done.stdout))


def output_of(command: Sequence[str]) -> str:
    """Standard output of a command that measures by itself. Raises CalledProcessError, its words on our stderr."""
    return subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True).stdout


def in_memory(folder: str) -> bool:
    """Whether a folder lies on no disk at all, so that putting something on it costs nothing there."""
    if sys.platform != "linux":
        return False
    kind = subprocess.run(("stat", "-f", "-c", "%T", folder), capture_output=True, text=True, check=False)
    return kind.stdout.strip() in ("tmpfs", "ramfs")


def medians(
    repeat: int, parts: Mapping[str, Do], before: Optional[Callable[[str], None]] = None
) -> dict[str, float]:
    """The median CPU seconds of each part, taken in turns so that a busy moment hits them all.

    `before` is called with a part's name before each of its runs, and is not measured.
    """
    found: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(repeat):
        for name, do in parts.items():
            if before is not None:
                before(name)
            found[name].append(do().cpu)
    return {name: statistics.median(costs) for name, costs in found.items()}


if __name__ == "__main__":
    print(json.dumps(cost(sys.argv[2:], sys.argv[1])))
