"""Bringing the local branch forward to what was fetched, without rewriting anybody's work but gitstate's own.

Index and working tree move first and the branch after them, by compare-and-swap: in the other order a user's
`git commit` in between would delete what came. A move that a kill interrupted is finished by the next one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Sequence
from enum import Enum
from typing import NamedTuple

from gitstate.edge import worktree
from gitstate.edge.git import Git
from gitstate.edge.history import above, count, only_in, shared
from gitstate.edge.objects import Objects
from gitstate.edge.refs import Move, Refs
from gitstate.edge.remote import HEADS, Fetched, Remote
from gitstate.edge.reparent import Choose, Lost, Unvouched, content, is_ours, reparent, theirs_stays
from gitstate.edge.repo import Repository, head_branch, other_tree
from gitstate.errors import ComeBackLater, GitFailed, NeedsHuman

_BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer")
_TRIES = 3
_SHOWN = 5  # commits named in one message
_REMEMBERED = (
    200  # reflog entries of the tracking ref that are looked at for commits that were published before
)


class Way(Enum):
    """How local branch and remote branch stood to each other, and so what was done."""

    ABSENT = "absent"  # the remote has no such branch
    EQUAL = "equal"
    AHEAD = "ahead"
    FORWARDED = "forwarded"
    REPARENTED = "reparented"  # our own commits were put on the remote's tip, as one


class Forward(NamedTuple):
    """What bringing a branch forward did."""

    way: Way
    old: str | None
    new: str | None  # the branch's tip now; None: it does not exist
    came: int = 0  # commits of the remote's
    replaced: tuple[str, ...] = ()  # commits of ours that became one, oldest first
    lost: tuple[Lost, ...] = ()


def users_commits(
    git: Git, objects: Objects, tip: str, remote: Remote, bases: Sequence[str]
) -> tuple[int, int]:
    """How many commits a push of `tip` would publish, and how many of them gitstate did not make.

    `bases`: what `tip` shares with the remote's branch; where that has none, what else is known to be on that remote
    counts as published.
    """
    others = ["--not", f"--remotes={remote.label}"]
    listed = above(git, tip, bases) if bases else git.text("rev-list", tip, *others).split()
    return len(listed), sum(not is_ours(content(objects, oid)) for oid in listed)


def compare_and_swap(
    git: Git, repository: Repository, objects: Objects, ref: str, new: str, old: str | None, why: str
) -> bool:
    """Move a ref from `old` (None: it must not exist) to `new`, whose objects are made durable before.
    False: somebody else moved it. Everything is durable when it returns.

    Raises ComeBackLater while another process holds the ref, GitFailed for what waiting will not cure.
    """
    refs, moves = Refs(git, repository, why), [Move(ref, old, new)]
    try:
        objects.disk.cover_folder(os.path.join(objects.folder, "pack"))  # what was fetched
        objects.disk.cover(refs.intend(moves))
        objects.barrier()
        error = refs.move(moves)
        now = objects.resolve(ref)
        if now == new:
            objects.disk.cover(os.path.join(repository.common_dir, *ref.split("/")))
            objects.barrier()  # the journal goes after the locks that it vouches for, on the disk too
    finally:
        refs.stop()
        refs.forget()
    if error is not None and now == old:
        held = refs.held(moves)
        if held is None:
            raise error
        raise ComeBackLater(
            f"{held} is held by another git process.",
            f"Let it finish and run `gitstate sync` again. If no git is running: rm '{held}'",
        ) from error
    return now == new


def bring_forward(
    git: Git,
    repository: Repository,
    objects: Objects,
    branch: str,
    remote: Remote,
    fetched: Fetched,
    choose: Choose = theirs_stays,
) -> Forward:
    """Make `branch` (full ref) contain what `fetched` found on the remote; index and files follow if it is
    checked out here.

    Behind: fast-forward. Diverged by gitstate's own commits alone: their outputs are put on the remote's tip
    as one new commit; where the remote changed the same path, `choose` says which blob stays.
    Raises NeedsHuman, with nothing moved, where a user's commits diverged, the remote's history was
    rewritten, the histories share nothing, a merge or rebase is under way, or local edits are in the way.
    """
    mover = Mover(git, repository, objects, branch)
    mover.finish_interrupted()
    for _ in range(_TRIES):
        ours, theirs = objects.resolve(branch), fetched.branch
        if theirs is None or ours == theirs:
            return Forward(Way.ABSENT if theirs is None else Way.EQUAL, ours, ours)
        bases = shared(git, ours, [theirs]) if ours else []
        if ours and not bases:
            raise _unrelated(repository, remote, branch)
        came = count(git, theirs, bases)
        if ours is None or bases == [ours]:
            if mover.move(ours, theirs, "gitstate sync: fast-forward"):
                return Forward(Way.FORWARDED, ours, theirs, came)
            continue
        chain = _local_only(git, objects, remote, branch, ours, theirs, bases)
        if bases == [theirs]:
            return Forward(Way.AHEAD, ours, ours)
        users = [oid for oid in chain if not is_ours(content(objects, oid))]
        if users:
            raise _diverged(git, remote, branch, users)
        try:
            new, lost = reparent(git, repository, objects, chain, theirs, choose)
        except Unvouched as error:
            raise _diverged(git, remote, branch, chain, error.path) from error
        if mover.move(ours, new, "gitstate sync: own commits put on what was fetched"):
            return Forward(Way.REPARENTED, ours, new, came, tuple(chain), lost)
    raise ComeBackLater(
        f"{branch} is being moved by somebody else, again and again.", "Run `gitstate sync` again."
    )


def withhold(
    git: Git, repository: Repository, objects: Objects, branch: str, remote: Remote, paths: Container[str]
) -> tuple[Lost, ...]:
    """Take outputs of ours that are not published yet off `branch` again, from index and files too; they are kept by
    nothing then but their objects. To be called once what was fetched is merged.

    Empty, and nothing moved, where commits of the user's or no branch on the remote lie below, so that the branch
    stays as it is. Raises what `bring_forward` does.
    """
    ours, theirs = objects.resolve(branch), objects.resolve(remote.tracked_branch)
    bases = shared(git, ours, [theirs]) if ours and theirs else []
    if ours is None or theirs is None or bases != [theirs]:
        return ()
    chain = _local_only(git, objects, remote, branch, ours, theirs, bases)
    if not chain or not all(is_ours(content(objects, oid)) for oid in chain):
        return ()
    try:
        new, lost = reparent(git, repository, objects, chain, theirs, without=paths)
    except Unvouched:
        return ()
    if not Mover(git, repository, objects, branch).move(
        ours, new, "gitstate run: without what is leased to others"
    ):
        return ()
    return lost


# Moving


class Mover:
    """Moves one branch, with index and working tree where it is checked out here."""

    def __init__(self, git: Git, repository: Repository, objects: Objects, branch: str) -> None:
        self.git = git
        self.repository = repository
        self.objects = objects
        self.branch = branch
        self.here = head_branch(repository, git) == branch
        # What this working tree is being moved to, so that a run after a kill can finish it.
        self.journal = os.path.join(repository.git_dir, "gitstate", "forward")

    def move(self, old: str | None, new: str, why: str) -> bool:
        """Move the branch from `old` to `new`; False, and nothing moved, if it is no longer at `old`.

        Raises NeedsHuman or ComeBackLater with nothing moved.
        """
        self._require_quiet()
        if self.here:
            self._begin(old, new)
            # The index may not name what was fetched before it is on the disk: git forces no pack's name out.
            self.objects.disk.cover_folder(os.path.join(self.objects.folder, "pack"))
            self.objects.barrier()
            try:
                self._files(old, new)
            except (NeedsHuman, ComeBackLater):
                os.unlink(self.journal)
                raise
        seen = worktree.stamp(self.repository)
        try:
            moved = compare_and_swap(self.git, self.repository, self.objects, self.branch, new, old, why)
        except (ComeBackLater, GitFailed):
            self._retreat(new)
            raise
        if not moved:
            self._retreat(new)
            return False
        if self.here:
            # A `git commit` that had read the index before we held it may have written its own over ours; its
            # commit then fails, but the next one would take back what came.
            if worktree.stamp(self.repository) != seen:
                with contextlib.suppress(NeedsHuman, ComeBackLater):
                    self._files(old, new)
                self.objects.barrier()
            os.unlink(self.journal)
        return True

    def finish_interrupted(self) -> None:
        """Finish what a killed run began in this working tree, if the branch is still where it was."""
        try:
            with open(self.journal, encoding="utf-8") as file:
                words = file.read().split()
        except FileNotFoundError:
            return
        known = len(words) == 4 and words[3] == "." and self.objects.resolve(words[2]) is not None
        if known and words[0] != self.branch:
            return  # of another branch; it waits until that one is checked out again
        now = self.objects.resolve(self.branch)
        if known and now != words[2] and now == (words[1] if words[1].strip("0") else None) and self.here:
            self.move(now, words[2], "gitstate sync: finish what was interrupted")
        else:
            os.unlink(self.journal)

    @property
    def _short(self) -> str:
        return self.branch[len(HEADS) :]

    def _files(self, old: str | None, new: str) -> None:
        start = old or self.objects.write("tree", b"")
        worktree.move(self.git, self.repository, self.objects, start, new)

    def _retreat(self, new: str) -> None:
        """The branch could not follow: take index and files to where it really is."""
        if self.here:
            self._files(new, self.objects.resolve(self.branch) or self.objects.write("tree", b""))
            os.unlink(self.journal)

    def _begin(self, old: str | None, new: str) -> None:
        os.makedirs(os.path.dirname(self.journal), exist_ok=True)
        temp = self.journal + ".tmp"
        with open(temp, "w", encoding="utf-8") as file:
            file.write(f"{self.branch} {old or self.repository.zero} {new} .\n")
        os.replace(temp, self.journal)
        self.objects.disk.cover(self.journal)  # durable before any file is placed

    def _require_quiet(self) -> None:
        """Raise NeedsHuman if moving the branch would pull the ground from under the user's own doings."""
        busy = [name for name in _BUSY if os.path.exists(os.path.join(self.repository.git_dir, name))]
        if busy and (self.here or self._is_being_rebased()):
            raise NeedsHuman(
                f"A merge, rebase or cherry-pick is under way here ({busy[0]}): {self._short} cannot move.",
                "Finish it or abort it (git status says how), then run `gitstate sync`.",
            )
        if elsewhere := other_tree(self.repository, self.git, self.branch):
            raise NeedsHuman(
                f"{self._short} is checked out in another working tree, {elsewhere.path}.",
                f"{elsewhere.way}.",
            )

    def _is_being_rebased(self) -> bool:
        for folder in ("rebase-merge", "rebase-apply"):
            try:
                with open(
                    os.path.join(self.repository.git_dir, folder, "head-name"), encoding="utf-8"
                ) as file:
                    return file.read().strip() == self.branch
            except FileNotFoundError:
                continue
        return False


# What is where


def _local_only(
    git: Git, objects: Objects, remote: Remote, branch: str, ours: str, theirs: str, bases: Sequence[str]
) -> list[str]:
    """The commits that only `ours` has, oldest first. Raises NeedsHuman if some were on the remote once:
    then its history was rewritten, and sending them back would undo that."""
    chain = above(git, ours, bases)
    ref = remote.tracked_branch
    seen = git.text("log", "-g", f"--max-count={_REMEMBERED}", "--format=%H", ref, "--", check=False).split()
    # The value before the oldest entry, where git keeps it: that of the clone.
    first = (
        git.text("rev-parse", "--quiet", "--verify", f"{ref}@{{{len(seen)}}}", check=False) if seen else ""
    )
    published = [oid for oid in dict.fromkeys([*seen, first]) if oid not in (theirs, "")]
    if not chain or not published:
        return chain
    # (git may have collected some)
    unseen = set(only_in(git, ours, [theirs, *(oid for oid in published if objects.resolve(oid))]))
    gone = [oid for oid in chain if oid not in unseen]
    if gone:
        short = f"{remote.label}/{remote.branch[len(HEADS) :]}"
        raise NeedsHuman(
            f"The history of {short} was rewritten: it no longer has {_named(git, gone)}.",
            f"{_on(git, branch)}To go along: git rebase --onto {short} {gone[-1][:12]} (your commits after it are "
            f"kept). To put it back: git push --force-with-lease={remote.branch}:{short} {remote.name} "
            f"HEAD:{remote.branch}. Then `gitstate sync`.",
        )
    return chain


def _diverged(git: Git, remote: Remote, branch: str, commits: Sequence[str], path: str = "") -> NeedsHuman:
    short = branch[len(HEADS) :]
    more = f" {path}, for one, is nothing that a receipt vouches for." if path else ""
    return NeedsHuman(
        f"{short} and {remote.name} have diverged, and these commits are yours, not gitstate's: "
        f"{_named(git, commits)}.{more}",
        f"{_on(git, branch)}Bring them together: git pull --rebase {remote.name} {remote.branch[len(HEADS) :]} "
        "(or --no-rebase), then `gitstate sync`.",
    )


def _on(git: Git, branch: str) -> str:
    """What a person does first who is to mend `branch`: git mends the one that is checked out."""
    if git.text("symbolic-ref", "--quiet", "HEAD", check=False) == branch:
        return ""
    return f"Go to that branch: git switch {branch[len(HEADS) :]}. "


def _unrelated(repository: Repository, remote: Remote, branch: str) -> NeedsHuman:
    short, there = branch[len(HEADS) :], f"{remote.label}/{remote.branch[len(HEADS) :]}"
    if os.path.exists(os.path.join(repository.common_dir, "shallow")):
        return NeedsHuman(
            f"This clone is too shallow to tell how {short} and {there} belong together.",
            f"Fetch the rest: git fetch --unshallow {remote.name}, then `gitstate sync`.",
        )
    return NeedsHuman(
        f"{short} and {there} have no commit in common.",
        f"Join them (git pull --no-rebase --allow-unrelated-histories {remote.name} "
        f"{remote.branch[len(HEADS) :]}), or record on another branch (gitstate run --branch NAME).",
    )


def _named(git: Git, commits: Sequence[str]) -> str:
    shown = git.text("log", "--no-walk=unsorted", "--format=%h %s", *commits[:_SHOWN]).splitlines()
    return "; ".join(shown) + (f"; and {len(commits) - _SHOWN} more" if len(commits) > _SHOWN else "")
