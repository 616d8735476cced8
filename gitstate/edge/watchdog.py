"""The watchdog: a process that ends the jobs of a runner that was killed.

It reads what the runner says of its jobs, one line each, until the end of input, which is the runner's end: only the
runner holds the other end of the pipe. What is not withdrawn by then is ended. `edge/watch.py` is the runner's side.
"""

from __future__ import annotations

import os

GRACE = 2.0  # seconds from TERM to KILL


def main() -> None:
    """Read standard input to its end, and end what lives. Changes no file."""
    jobs: dict[str, int] = {}
    rest = b""
    while data := os.read(0, 65_536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            word, mark, *group = line.decode().split()
            if word == "end":
                jobs.pop(mark, None)
            else:
                jobs[mark] = int(group[0]) if group else 0
    if jobs:
        from gitstate.edge import group as groups  # 8 ms, which a run that ends in order need not pay

        groups.end(jobs, GRACE)
