"""Pushes a branch that carries one work's result, and finds it again. It leaves index, files and branches here alone.

    branch.py push REMOTE BASE PREFIX FILE [PATH]   BASE with FILE at PATH; without PATH, with the patch FILE applied
    branch.py find REMOTE BASE PREFIX               exit 0: it is there; 1: it is not; 2: cannot tell

The branch is PREFIX and the slug. Lines in its commit's message make it this work's: so it is known again by whoever
asks, below commits that others put on top, and in BASE once it is merged and gone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import NamedTuple, Optional

SLUG = os.environ["GITSTATE_SLUG"]
WORK = f"Gitstate-Work: {SLUG}/{os.environ['GITSTATE_STAGE']}"
KEY = (
    f"Gitstate-Key: {os.environ['GITSTATE_IDEMPOTENCY_KEY']}"  # the same for all attempts at the same content
)
TIMEOUT = 60.0  # seconds for one git command
QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}  # asks nobody; says in English, which gitstate reads, what failed


class Trouble(Exception):
    """It cannot be done, or cannot be known."""

    code = 1


class Refused(Trouble):
    """It must not be done. gitstate.yaml has a rule for this exit code: trying again would not help."""

    code = 3


def git(*arguments: str, stdin: str = "", **env: str) -> str:
    """What git prints. Raises Trouble with what it said."""
    command = ("git", "-c", "gc.auto=0", "-c", "maintenance.auto=false", *arguments)
    env = {**os.environ, **QUIET, **env}
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, encoding="utf-8", env=env, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise Trouble(f"git {arguments[0]} timed out after {TIMEOUT:.0f} seconds.") from None
    if done.returncode:
        raise Trouble(done.stderr.strip() or f"git {arguments[0]} ended in {done.returncode}.")
    return done.stdout.strip()


def name_of(prefix: str) -> str:
    """PREFIX and the slug as git takes it, no two alike: a `+` for `/`, since a/b cannot stand beside a."""
    coded = re.sub(r"[^\w/-]", lambda sign: "".join(f"%{byte:02X}" for byte in sign[0].encode()), SLUG)
    return git("check-ref-format", "--branch", prefix + coded.replace("/", "+"))


class Seen(NamedTuple):
    """What the remote has."""

    branch: str
    tip: str  # of the branch; empty: there is none
    base: str  # the tip of BASE
    commit: Optional[str]  # the one that carries this work


def look(remote: str, base: str, prefix: str) -> Seen:
    """Ask the remote. Raises Refused where the branch is somebody else's, Trouble where it cannot be known."""
    branch = name_of(prefix)
    ref, trunk = f"refs/heads/{branch}", f"refs/heads/{base}"
    listed = git("ls-remote", "--quiet", "--", remote, ref, trunk)
    there = {name: oid for oid, name in (line.split() for line in listed.splitlines())}
    if trunk not in there:
        raise Trouble(f"{remote} has no branch {base}.")
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=")
    git("fetch", *quiet, "--", remote, *(name for name in (ref, trunk) if name in there))
    tip, base = there.get(ref, ""), there[trunk]
    commit = commit_with(KEY, *filter(None, (tip, base)))
    own = commit or not tip or commit_with(WORK, "--no-walk", tip) or commit_with(WORK, tip, "--not", base)
    if not own:
        raise Refused(f"The branch {branch} is there already, and not of this work.")
    return Seen(branch, tip, base, commit)


def commit_with(line: str, *among: str) -> Optional[str]:
    """The newest commit whose message has this line."""
    found = git("log", "--format=%H%n%B%x00", "--fixed-strings", f"--grep={line}", *among)
    messages = (message.strip().splitlines() for message in found.split("\0"))
    return next((message[0] for message in messages if line in message), None)


def build(base: str, file: str, path: str) -> str:
    """The commit with FILE on top of BASE, by an index of its own. Dated as BASE is: equal work is an equal commit."""
    index = {"GIT_INDEX_FILE": os.path.join(os.environ["GITSTATE_SCRATCH"], "index")}
    git("read-tree", base, **index)
    if path:
        mode = "100755" if os.access(file, os.X_OK) else "100644"
        blob = git("hash-object", "-w", "--", file)
        git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}", **index)
    else:
        try:
            git("apply", "--cached", "--3way", "--whitespace=nowarn", "--", file, **index)
        except Trouble as trouble:
            raise Refused(f"The patch does not apply to {base[:12]}: {trouble}") from None
    tree = git("write-tree", **index)
    if tree == git("rev-parse", f"{base}^{{tree}}"):
        raise Refused("There is nothing to push: the base has this result already.")
    date = git("show", "--no-patch", "--format=%ct +0000", base)
    message = f"Add {SLUG}\n\n{WORK}\n{KEY}\n"
    return git("commit-tree", "-p", base, tree, stdin=message, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)


def push(remote: str, base: str, prefix: str, file: str, path: str = "") -> Seen:
    """Bring it about, unless it is there. After a push that failed, what the remote has decides."""
    seen = look(remote, base, prefix)
    if seen.commit:
        return seen
    # With `on_stale: update`, what was printed last time (or said by you). The commit in it may be replaced, no other.
    if seen.tip not in os.environ.get("GITSTATE_PREVIOUS_EVIDENCE", ""):
        raise Refused(f"The branch {seen.branch} is at {seen.tip[:12]}, which is not what was pushed last.")
    commit = build(seen.base, file, path)
    ref = f"refs/heads/{seen.branch}"
    try:
        # Compare and swap: without an id, the branch must not exist.
        git("push", "--quiet", "--no-verify", "--no-follow-tags", f"--force-with-lease={ref}:{seen.tip}", "--", remote,
            f"{commit}:{ref}")  # fmt: skip
    except Trouble:
        again = look(remote, base, prefix)
        if not again.commit:
            raise
        return again
    return seen._replace(commit=commit)


def main(verb: str, *arguments: str) -> int:
    try:
        seen = look(*arguments) if verb == "find" else push(*arguments)
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 2 if verb == "find" else trouble.code
    if not seen.commit:
        return 1
    print(json.dumps({"branch": seen.branch, "commit": seen.commit}))
    return 0


sys.exit(main(*sys.argv[1:]))
