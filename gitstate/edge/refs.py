"""Moving refs: one transaction by compare-and-swap, a journal before it, and locks that a kill left behind.

git's files name no owner, and it holds no descriptor on a prepared lock. So before the transaction the
journal says what each ref is to become: a lock that holds exactly that is ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from typing import NamedTuple, Optional

from gitstate.edge import gitconfig, index, tracking
from gitstate.edge.child import Child
from gitstate.edge.git import DURABLE, Git
from gitstate.edge.repo import KEEP, LOG, PAUSES, RECEIPTS, TRACKED, Repository
from gitstate.errors import GitFailed

_JOURNAL = "recording.json"
_PRIVATE = (KEEP, PAUSES, *TRACKED)  # where nobody but us writes
_SETTLED = 1.0  # seconds that a lock must stand unchanged; a living git writes into one within microseconds


class Move(NamedTuple):
    """One ref to be moved: from what (None: it must not exist) to what."""

    ref: str
    old: Optional[str]
    new: str


class Cleared(NamedTuple):
    """What `clear_stale_locks` found: paths removed, and sentences about locks that are not provably ours."""

    removed: list[str]
    left: list[str]


class Refs:
    """The one place that moves refs. The process that does it stays; it is started again when it died."""

    def __init__(self, git: Git, repository: Repository, why: str = "gitstate: record") -> None:
        self._git = git
        self._why = why  # for the reflog
        self._repository = repository
        self._journal = os.path.join(repository.state, _JOURNAL)
        self._child: Optional[Child] = None
        self.interrupted = (
            False  # whether the last move may have left locks: a signal ended it, or one stands there
        )

    def intend(self, moves: Sequence[Move]) -> str:
        """Write the journal; returns its path. The caller's barrier makes it durable, with the objects."""
        os.makedirs(self._repository.state, exist_ok=True)
        journal = {"format": 1, "git_dir": self._repository.git_dir, "moves": moves}
        temp = self._journal + ".tmp"
        with open(temp, "wb") as file:
            file.write(json.dumps(journal).encode("ascii"))
        os.replace(temp, self._journal)
        return self._journal

    def forget(self) -> None:
        """Remove the journal: no git process of ours is at work, and the moves are done or given up.
        It stays if git was killed in the middle, to vouch for the locks."""
        if self.interrupted:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._journal)

    def move(self, moves: Sequence[Move]) -> Optional[GitFailed]:
        """Move the refs in this order, all or (unless killed in the middle) none.

        Returns git's complaint if it did not; the caller reads the refs to see what holds.
        """
        zero = self._repository.zero
        lines = "".join(f"update {ref} {new} {old or zero}\n" for ref, old, new in moves)
        try:
            child = self._started()
            child.send(os.fsencode(f"start\n{lines}prepare\ncommit\n"))
            for step in (b"start", b"prepare", b"commit"):
                answer = child.line()
                if answer != step + b": ok":
                    raise GitFailed(f"git update-ref: {answer.decode('utf-8', 'replace')}")
        except GitFailed as error:
            self.interrupted = self.stop() < 0
            return error
        except BaseException:
            self.interrupted = self.stop() < 0  # end of input: git gives its locks back, unless it was killed
            raise
        # git only warns when a disk that errs keeps it from removing HEAD.lock, and all after it would stop there
        self.interrupted = self.held(moves) is not None
        return None

    def _started(self) -> Child:
        if self._child is None or not self._child.alive:
            self._child = Child(
                self._git, *DURABLE, "-c", "core.filesRefLockTimeout=1000",
                "update-ref", "--create-reflog", "-m", self._why, "--stdin",
            )  # fmt: skip
        return self._child

    def stop(self) -> int:
        """End the process; returns its exit code (negative: the signal that ended it; 0: there was none)."""
        code = 0
        if self._child is not None:
            code = self._child.close()
            self._child = None
        return code

    def recover(self) -> None:
        """Clear the locks that our own process left in its last move; we hold the run lock."""
        if self.interrupted:
            clear_stale_locks(self._repository)
            self.interrupted = False

    def held(self, moves: Sequence[Move]) -> Optional[str]:
        """A lock file that is in the way of these moves now, or None."""
        for path in (
            *(_lock(self._repository, ref) for ref, _, _ in moves),
            *_common_locks(self._repository),
        ):
            if os.path.lexists(path):
                return path
        return None


def _lock(repository: Repository, ref: str) -> str:
    return os.path.join(repository.common_dir, *ref.split("/")) + ".lock"


def _common_locks(repository: Repository) -> tuple[str, str]:
    return (
        os.path.join(repository.git_dir, "HEAD.lock"),
        os.path.join(repository.common_dir, "packed-refs.lock"),
    )


def clear_stale_locks(repository: Repository) -> Cleared:
    """Remove the git locks that a killed run of ours left behind; to be called only under the run lock.

    The run lock is inherited by our git children, so whoever holds it knows that none of them lives. A lock
    is ours if it says so (the index's), if it stands where nobody but us writes, if it holds what our journal was
    about to write, or if it is empty as git leaves it for an instant (HEAD's: alone for an instant), stands where our
    journal was at work and is younger than the journal.
    Ages are compared between files of one file system only, never with a clock. Others are left, and named.
    """
    journal_path = os.path.join(repository.state, _JOURNAL)
    moves, git_dir, since = _read_journal(journal_path)
    there = repository._replace(git_dir=git_dir) if git_dir else repository
    removed = index.clear(there.git_dir)
    if there.git_dir != repository.git_dir:
        removed += index.clear(repository.git_dir)
    removed += gitconfig.clear(repository.common_dir)
    removed += tracking.clear_locks(repository.common_dir, (), _PRIVATE)
    ours = _provably_ours(there, moves, since)
    if ours:
        before = {path: _stamp(path) for path in ours}
        time.sleep(_SETTLED)  # nothing living leaves a lock unchanged that long in this state
        for path in ours:
            if before[path] is not None and _stamp(path) == before[path]:
                os.unlink(path)
                removed.append(path)
    _bring_back(repository, moves)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(journal_path)
    watched = [
        _lock(repository, ref) for ref in dict.fromkeys([RECEIPTS, LOG, *(move.ref for move in moves)])
    ]
    watched += [index.lock_path(repository.git_dir), gitconfig.lock_path(repository.common_dir)]
    watched += _common_locks(repository)
    left = [
        f"{path} is there and not provably ours. If no git is running in this clone: rm '{path}'"
        for path in dict.fromkeys(watched)
        if os.path.lexists(path)
    ]
    return Cleared(removed, left)


def _bring_back(repository: Repository, moves: Sequence[Move]) -> None:
    """A ref that a power cut in the middle of our move has taken altogether goes back to where it was before: that was
    on the disk already. What it was to become is recorded anew."""
    git = Git(repository.root)
    for ref, old, _ in moves:
        if old is not None and git.run("show-ref", "--verify", "--quiet", ref, check=False).code:
            git.run(*DURABLE, "update-ref", "-m", "gitstate: recover", ref, old, repository.zero, check=False)


def _read_journal(path: str) -> tuple[list[Move], Optional[str], int]:
    """Moves, git folder and time stamp of the journal. One that cannot be read proves nothing: its barrier,
    which comes before every lock, was never passed, so no lock is ours by it."""
    try:
        with open(path, "rb") as file:
            journal = json.loads(file.read())
            since = os.fstat(file.fileno()).st_mtime_ns
        if journal["format"] != 1:
            return [], None, 0
        moves = [Move(str(ref), old, str(new)) for ref, old, new in journal["moves"]]
        return moves, str(journal["git_dir"]), since
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return [], None, 0


def _provably_ours(repository: Repository, moves: Sequence[Move], since: int) -> list[str]:
    """The ref locks, HEAD's included, of the journal's transaction."""
    found = []
    for ref, _, new in moves:
        path = _lock(repository, ref)
        content, stamp = _content(path)
        if content is not None and stamp >= since and new.startswith(content):
            found.append(path)
    # With the branch that HEAD names git locks HEAD, by an empty file, and never holds that one alone for longer than
    # an instant: it is ours unless somebody else's lock on the branch stands beside it. (A power cut may have taken
    # the branch's and left HEAD's.)
    head = os.path.join(repository.git_dir, "HEAD")
    branch = (_content(head)[0] or "").removeprefix("ref: ")
    content, stamp = _content(head + ".lock")
    beside = _lock(repository, branch)
    if content == "" and stamp >= since and branch in {move.ref for move in moves}:
        found += [head + ".lock"] if beside in found or not os.path.lexists(beside) else []
    return found


def _content(path: str) -> tuple[Optional[str], int]:
    """A small file's text and modification time; (None, 0) where there is none. Zeros are no text."""
    try:
        with open(path, "rb") as file:
            return file.read(200).decode("ascii", "replace").strip("\0\n "), os.fstat(
                file.fileno()
            ).st_mtime_ns
    except OSError:
        return None, 0


def _stamp(path: str) -> Optional[tuple[int, int, int]]:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
