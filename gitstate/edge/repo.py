"""Finding the repository a command was started in, and where gitstate keeps its own files there."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple, Optional

from gitstate.edge.git import Git
from gitstate.errors import CorruptState, UsageError

RECEIPTS = "refs/notes/gitstate"
LOG = "refs/notes/gitstate-log"
NOTE_HEADS = (
    "refs/heads/gitstate/notes"  # receipts, and with -log the log, on a host that takes only branches
)
TRACKING = (
    "refs/gitstate-remote"  # …/REMOTE/notes and …/notes-log; what came from branches below …/REMOTE/heads
)
KEEP = "refs/gitstate/keep"
PAUSES = "refs/gitstate/pause"  # …/ACCOUNT, on the remote and, until it is there, here
PAUSE_HEADS = "refs/heads/gitstate/pause"  # the same on the remote, where it takes only branches
TRACKED_PAUSES = "refs/gitstate-pause"  # …/REMOTE/ACCOUNT: what the remote had when last asked
TRACKED_PAUSE_HEADS = "refs/gitstate-pause-heads"  # the same, of those that are branches there
LEASES = "refs/gitstate/lease"  # …/PLAN/BUCKET, on the remote only
LEASE_HEADS = "refs/heads/gitstate/lease"  # the same, on a host that takes nothing but branches and tags
TRACKED_LEASES = (
    "refs/gitstate-lease"  # …/REMOTE/own or heads/PLAN/BUCKET: what the remote had when last asked
)
# All that remembers what remotes had, each with a part …/REMOTE/…
TRACKED = (TRACKING, TRACKED_PAUSES, TRACKED_PAUSE_HEADS, TRACKED_LEASES)


class Repository(NamedTuple):
    """One working tree of one repository."""

    root: str  # absolute path of the working tree
    git_dir: str  # absolute; a linked worktree has one of its own
    common_dir: str  # absolute; shared by all worktrees
    format: str  # of object ids: "sha1" or "sha256"

    @property
    def state(self) -> str:
        """gitstate's own folder: attempts, spool, lock, caches. Shared by all worktrees."""
        return os.path.join(self.common_dir, "gitstate")

    @property
    def zero(self) -> str:
        """The object id that means "no object"."""
        return "0" * (40 if self.format == "sha1" else 64)


def find(start: str, git: Optional[Git] = None) -> Repository:
    """The repository that `start` lies in, as `git` sees it. Raises UsageError outside one and in a bare one,
    CorruptState in one that git cannot read."""
    done = (git or Git(start)).run(
        "rev-parse",
        "--path-format=absolute",
        "--show-object-format",
        "--absolute-git-dir",
        "--git-common-dir",
        "--show-toplevel",
        check=False,
    )
    lines = os.fsdecode(done.out).removesuffix("\n").split("\n") if done.out else []
    if len(lines) == 4:
        return Repository(lines[3], lines[1], lines[2], lines[0])
    if "safe.directory" in done.err:
        raise UsageError(
            done.err.strip().splitlines()[0], "Trust it: git config --global --add safe.directory PATH"
        )
    if len(lines) > 4:
        raise UsageError(
            "The path of this repository has a line break in it, and gitstate cannot work there.",
            "Rename that folder.",
        )
    if lines:
        raise UsageError("This repository has no working tree.", "Run gitstate in a clone that has one.")
    if (broken := _git_above(start)) is not None:
        raise CorruptState(
            f"{broken} is there, and git cannot read it: {' '.join(done.err.split())}",
            f"Look at {os.path.join(broken, 'HEAD')} (it reads like `ref: refs/heads/main`) and at config beside it.",
        )
    raise UsageError("This is not a git repository.", "Run `git init` here, or change into a clone.")


def head_branch(repository: Repository, git: Git) -> Optional[str]:
    """The branch that HEAD names, whether there is such a ref or not; None if HEAD is detached."""
    # (HEAD may be a symbolic link to a ref, which need not be a file: git knows)
    path = os.path.join(repository.git_dir, "HEAD")
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        content = os.fsdecode(file.read()).strip()
        if content.startswith("ref: ") and not content.endswith("/.invalid"):  # (reftable's placeholder)
            return content[5:].strip()
    return git.text("symbolic-ref", "-q", "HEAD", check=False) or None


class OtherTree(NamedTuple):
    """Another working tree of this repository."""

    path: str
    way: str  # for people: how to work there, or to be rid of it


def other_tree(repository: Repository, git: Git, branch: str) -> Optional[OtherTree]:
    """The other working tree that has `branch` (full ref) checked out; None for none.

    One whose folder is not there counts: it may have been moved, or lie on a disk that is away, and its next commit
    would take back what was recorded meanwhile.
    """
    if not os.path.isdir(os.path.join(repository.common_dir, "worktrees")):
        return None  # (git keeps there what it knows of others)
    is_main = os.path.realpath(repository.git_dir) == os.path.realpath(repository.common_dir)
    listed = os.fsdecode(git.run("worktree", "list", "--porcelain", "-z").out)
    for number, block in enumerate(listed.split("\0\0")):
        fields = dict(line.partition(" ")[::2] for line in block.strip("\0").split("\0"))
        if fields.get("branch") != branch:
            continue
        # The main one comes first. Its path is a guess: of a submodule, say, git names the git directory.
        path = fields["worktree"]
        is_this = number == 0 if is_main else os.path.realpath(path) == os.path.realpath(repository.root)
        if not is_this:
            return OtherTree(path, _way_to(path))
    return None


def _way_to(path: str) -> str:
    if os.path.lexists(os.path.join(path, ".git")):
        import shlex  # for what is rarely said

        return f"Run it there (cd {shlex.quote(path)})"
    if os.path.isdir(path):
        return "Run it there"
    return "Bring that back (moved: git worktree repair, there; gone for good: git worktree prune)"


def _git_above(start: str) -> Optional[str]:
    """The `.git` of the folder `start` or of one above it."""
    folder = os.path.abspath(start)
    while not os.path.lexists(os.path.join(folder, ".git")):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return None
    return os.path.join(folder, ".git")
