"""Recording results: outputs on the branch, receipts and log lines in notes; durable, in the one safe order.

Objects, barrier, the index, notes, branch, barrier. The index learns the paths before the branch moves, else
a user's commit in between would delete them. The notes move before the branch, so that a crash leaves a
receipt that vouches for bytes and never a committed file that nothing vouches for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from gitstate.edge import index, notes
from gitstate.edge.author import Author
from gitstate.edge.backoff import Backoff
from gitstate.edge.disk import flush_folder, has_no_room
from gitstate.edge.filters import Filters
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.refs import Move, Refs
from gitstate.edge.repo import LOG, RECEIPTS, Repository, head_branch
from gitstate.edge.tree import Entry, find, splice
from gitstate.errors import ComeBackLater, CorruptState, GitFailed, NeedsHuman

_PATIENCE = 10.0  # seconds for which a lost race or a held lock is tried again


class Record(NamedTuple):
    """What one transaction adds."""

    outputs: Mapping[str, Entry]  # path -> (mode, blob) for the branch
    receipts: Mapping[str, Sequence[bytes]]  # annotated id -> lines
    log: Mapping[str, Sequence[bytes]]
    subject: str
    trailers: Sequence[str]  # e.g. "Gitstate-Work: slug/stage@0123456789ab"


class Moved(NeedsHuman):
    """Somebody else gave these paths other content on the branch since the recorder first looked (P5).

    Nothing was recorded; the caller keeps those responses and may record the rest.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"Changed on the branch by somebody else meanwhile: {', '.join(paths)}.",
            "They were left alone; the new responses are kept. Look with: git log -p -- PATH",
        )
        self.paths = tuple(paths)


class _Step(NamedTuple):
    moves: list[Move]
    commit: Optional[str]  # the branch's tip afterwards
    learn: Mapping[str, Entry]
    before: Mapping[str, Optional[Entry]]  # what the branch holds at these paths


class Recorder:
    """Records on one branch and in the notes. Only its owner's thread may use it, under the run lock.

    What the branch holds when it is made counts as known; see `Moved` and `look_again`.
    """

    def __init__(
        self, git: Git, repository: Repository, objects: Objects, branch: Optional[str], checked_out: bool
    ) -> None:
        """`branch`: the full ref that outputs are recorded on; None: notes only. `checked_out`: it is HEAD's
        here. Raises UsageError where git does not know the user's name."""
        self._git, self._repository, self._objects = git, repository, objects
        self._branch, self._checked_out = branch, checked_out
        config = _config(git)
        sign = config.get("commit.gpgsign", "false").lower() not in ("false", "no", "off", "0")
        self._author = Author(git, repository, objects, sign)
        self._filters = Filters(git, repository, objects, config)
        self._refs = Refs(git, repository)
        self._index = index.Teacher(git, repository)
        self._tree_of: dict[str, str] = {}  # of the newest commits
        self._known: Optional[str] = None  # the branch's tree when we first looked
        self._ours: dict[str, Entry] = {}  # what we recorded since
        self.look_again()

    def look_again(self) -> None:
        """What the branch holds now counts as known: nothing of it is a change by somebody else."""
        tip = self._tip(self._branch) if self._branch else None
        self._known = self._tree(tip) if tip else None
        self._ours.clear()
        self._index.look()

    def blobs(self, paths: Sequence[str]) -> list[str]:
        """The ids of working-tree files as git stores them, clean filters applied; writes the objects."""
        return self._filters.blobs(paths)

    def record(self, record: Record) -> Optional[str]:
        """Make all of it durable, or raise; returns the branch's tip then (None: there is no branch).

        Repeating a record changes nothing. Raises Moved, TreeConflict, ComeBackLater (a lock is held, or
        others keep moving the refs), NeedsHuman (hook, signature), GitFailed, OSError; results stay safe.
        """
        if record.outputs and self._branch is None:
            raise ValueError("outputs need a branch")
        message = self._author.message(record.subject, record.trailers) if record.outputs else b""
        deadline = time.monotonic() + _PATIENCE
        backoff = Backoff()
        self.mend()
        self._index.forget()
        try:
            while True:
                if record.outputs and self._is_head():
                    self._index.begin(record.outputs)
                step = self._prepare(record, message)
                if not step.moves:
                    break
                self._objects.disk.cover(self._refs.intend(step.moves))
                self._objects.barrier()
                self._teach(step)
                error = self._refs.move(step.moves)
                if error is None:
                    self._refs.recover()
                    break
                self._wait(step.moves, error, time.monotonic() > deadline)
                backoff.wait()
            self.mend()
            self._cover_refs()
            self._objects.barrier()
        except BaseException:
            self._refs.stop()  # so that no lock is left when the journal goes
            raise
        finally:
            self._index.give_up()
            self._refs.forget()
        self._ours.update(record.outputs)
        return step.commit

    def _prepare(self, record: Record, message: bytes) -> _Step:
        """Write all objects on top of what the refs are now; what is there already is left out."""
        moves = []
        note = f"{' '.join(record.subject.split())}\n".encode("utf-8", "replace")
        for ref, additions in ((RECEIPTS, record.receipts), (LOG, record.log)):
            if any(additions.values()):
                tip = self._tip(ref)
                old = self._tree(tip) if tip else None
                new = notes.add(self._objects, old, additions)
                if new != old:
                    moves.append(Move(ref, tip, self._commit(new, tip, note)))
        if self._branch is None:
            return _Step(moves, None, {}, {})
        tip = self._tip(self._branch)
        if not record.outputs:
            return _Step(moves, tip, {}, {})
        old = self._tree(tip) if tip else None
        before = {path: find(self._objects, old, path) if old else None for path in record.outputs}
        if old != self._known:
            self._look_for_others(before, record.outputs)
        new = splice(self._objects, old, record.outputs)
        if new == old:
            return _Step(moves, tip, {}, {})
        commit = self._author.commit_on_branch(new, tip, message)
        self._remember(commit, new)
        return _Step([*moves, Move(self._branch, tip, commit)], commit, record.outputs, before)

    def _look_for_others(self, there: Mapping[str, Optional[Entry]], outputs: Mapping[str, Entry]) -> None:
        """Raise Moved for outputs that the branch holds with content neither known, nor ours, nor new."""
        moved = []
        for path, now in there.items():
            known = find(self._objects, self._known, path) if self._known else None
            if now not in (None, outputs[path], self._ours.get(path), known):
                moved.append(path)
        if moved:
            raise Moved(moved)

    def _teach(self, step: _Step) -> None:
        """The index learns the outputs, if the branch that they go to is the one that HEAD names now."""
        if step.learn and self._is_head():
            self._index.learn(step.learn, step.before)
            # The index's new name before those of the refs: a power cut that kept the refs' and lost this one would
            # leave a branch whose outputs the index does not know, and the user's next commit would delete them.
            flush_folder(self._repository.git_dir)

    def mend(self) -> None:
        """What the index learned lately, it still knows. Not so important that it may stop anything."""
        with contextlib.suppress(ComeBackLater, GitFailed):
            if self._is_head():
                self._index.mend()

    def _is_head(self) -> bool:
        return self._checked_out and self.head() == self._branch

    def head(self) -> Optional[str]:
        """The branch that HEAD names; None if it is detached."""
        return head_branch(self._repository, self._git)

    def _wait(self, moves: Sequence[Move], error: GitFailed, enough: bool) -> None:
        """After git refused to move the refs: return if that may change, else raise. Judged by what stands
        there, never by git's words."""
        interrupted = self._refs.interrupted
        self._refs.recover()
        lost = [ref for ref, old, _ in moves if self._tip(ref) != old]
        held = self._refs.held(moves)
        if enough and (lost or held):
            what = (
                f"{held} is held by another git process" if held else f"{lost[0]} keeps being moved by others"
            )
            hint = f" If no git is running: rm '{held}'" if held else ""
            raise ComeBackLater(
                f"{what}; the results are safe and not recorded yet.", f"Run again.{hint}"
            ) from error
        if enough or not (lost or held or interrupted):
            if has_no_room(self._repository.common_dir):  # git says only that it could not write
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._repository.common_dir) from error
            raise error

    def _cover_refs(self) -> None:
        """The next barrier makes the refs durable, with every folder above them."""
        common = self._repository.common_dir
        disk = self._objects.disk
        for ref in (RECEIPTS, LOG, self._branch):
            if ref is not None:
                path = os.path.join(common, *ref.split("/"))
                disk.cover(path) if os.path.exists(path) else None
                while len(path) > len(common):
                    path = os.path.dirname(path)
                    disk.cover_folder(path) if os.path.exists(path) else None
        disk.cover_folder(self._repository.git_dir)

    def _tip(self, ref: str) -> Optional[str]:
        """The commit that a ref names; None if there is no such ref."""
        commit = self._objects.resolve(f"{ref}^{{commit}}")
        if commit is None and self._objects.resolve(ref) is not None:
            raise CorruptState(f"{ref} does not name a commit.", f"Look with: git cat-file -t {ref}")
        return commit

    def _tree(self, commit: str) -> str:
        tree = self._tree_of.get(commit) or self._objects.resolve(f"{commit}^{{tree}}")
        if tree is None:
            raise CorruptState(f"Commit {commit} has no tree here.", "Look with: git fsck.")
        self._remember(commit, tree)
        return tree

    def _remember(self, commit: str, tree: str) -> None:
        if len(self._tree_of) > 20:
            self._tree_of.clear()
        self._tree_of[commit] = tree

    def _commit(self, tree: str, parent: Optional[str], message: bytes) -> str:
        commit = self._author.commit(tree, [parent] if parent else [], message)
        self._remember(commit, tree)
        return commit

    def close(self) -> None:
        """End the processes that stay."""
        self.mend()
        self._refs.stop()
        self._filters.close()


def _config(git: Git) -> dict[str, str]:
    """The settings that matter here, by their lower-case names."""
    pattern = r"^(core\.(autocrlf|attributesfile)|commit\.gpgsign)$"
    done = git.run("config", "-z", "--get-regexp", pattern, check=False)
    found = {}
    for item in os.fsdecode(done.out).split("\0"):
        name, _, value = item.partition("\n")
        found[name] = value if "\n" in item else "true"
    return found
