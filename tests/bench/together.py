"""Clones that run at once on one remote: what it takes until all works are published, and how often it is asked."""

from __future__ import annotations

import os
import subprocess
import time
from typing import NamedTuple

from measure import environment
from repos import GITSTATE, Shelf, git

CLONES = 8
_GIT = """#!/bin/sh
PATH="${PATH#*:}"
for word in "$@"; do case "$word" in push|fetch|ls-remote) echo "$word" >> "$ASKED"; break;; esac; done
case " $* " in *" push "*" --atomic "*|*" fetch "*|*" ls-remote "*) ;; *" push "*)
    said=$(git "$@"; echo "$?") # (each lease that is claimed by itself: a line each)
    printf '%s\n' "$said" | grep 'refs/gitstate/lease/' | cut -c1 >> "$CLAIMED"
    printf '%s\n' "$said" | sed '$d'
    exit "$(printf '%s\n' "$said" | tail -n 1)"
esac
exec git "$@"
"""


class Together(NamedTuple):
    """How it went."""

    seconds: float  # until the last clone ended
    calls: int  # that were paid
    asked: int  # pushes, fetches and questions to the remote
    claims: int  # of buckets
    collisions: int  # those that another clone was faster with


def together(shelf: Shelf, works: int, share: str) -> Together:
    """Run CLONES clones on a plan of `works` new works of 50 ms, by `share`: "claim" or "shard"; or one "alone"."""
    place = shelf.scratch(f"together-{share}")
    origin = os.path.join(place, "origin.git")
    asked, paid, claimed, tools = (
        os.path.join(place, name) for name in ("asked", "paid", "claimed", "tools")
    )
    subprocess.run(("git", "clone", "-q", "--bare", shelf(0, works), origin), env=environment(), check=True)
    os.makedirs(tools)
    with open(os.path.join(tools, "git"), "w", encoding="utf-8", opener=_executable) as file:
        file.write(_GIT)
    words = _words(share)
    clones = [os.path.join(place, f"clone-{number}") for number in range(len(words))]
    for clone in clones:
        git(place, "clone", "-q", f"file://{origin}", clone)
    config = os.path.join(clones[0], "gitstate.yaml")
    with open(config, encoding="utf-8") as file:
        text = file.read().replace("run: cat", f"run: sleep 0.05; echo paid >> {paid}; cat")
    with open(config, "w", encoding="utf-8") as file:
        file.write(text)
    git(clones[0], "commit", "-q", "-a", "-m", "A ledger")
    git(clones[0], "push", "-q")
    env = {
        **environment(),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "ASKED": asked,
        "CLAIMED": claimed,
    }
    began = time.monotonic()
    running = [
        subprocess.Popen((*GITSTATE, "run", *more), cwd=clone, env=env, stderr=subprocess.DEVNULL)
        for clone, more in zip(clones, words)
    ]
    codes = [process.wait() for process in running]
    seconds = time.monotonic() - began
    files = git(origin, "ls-tree", "-r", "--name-only", "main", "out/").split()
    assert (codes, len(files)) == ([0] * len(clones), works), (codes, len(files))
    flags = _lines(claimed)
    collisions = flags.count("!")
    return Together(seconds, len(_lines(paid)), len(_lines(asked)), flags.count("*") + collisions, collisions)


def _words(share: str) -> list[tuple[str, ...]]:
    if share == "alone":
        return [()]
    if share == "claim":
        return [("--claim", "--wait")] * CLONES
    return [("--shard", f"{number}/{CLONES}") for number in range(1, CLONES + 1)]


def _executable(path: str, flags: int) -> int:
    return os.open(path, flags, 0o755)


def _lines(path: str) -> list[str]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()
