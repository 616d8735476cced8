"""Where everything is read from: HEAD, and the receipts, log and pauses that this clone has, merged or only fetched.

A plain `git pull` brings the remote's notes into tracking refs; they count from then on, also before a `run` or
`sync` has merged them into the local ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

from gitstate.edge import notes
from gitstate.edge.cache import Cache
from gitstate.edge.git import Git
from gitstate.edge.history import contains
from gitstate.edge.objects import Objects
from gitstate.edge.repo import (
    LOG,
    PAUSES,
    RECEIPTS,
    TRACKED,
    TRACKED_LEASES,
    TRACKED_PAUSE_HEADS,
    TRACKED_PAUSES,
    TRACKING,
    Repository,
    head_branch,
)
from gitstate.edge.tracking import unreadable
from gitstate.errors import CorruptState


class Tips(NamedTuple):
    """The ids that everything is read from: HEAD's commit, the trees of the receipts and of the log, the pauses."""

    head: Optional[str]
    receipts: Optional[str]
    log: Optional[str]
    pauses: tuple[
        tuple[str, str], ...
    ] = ()  # (ref, object) of those that this clone knows, in the order of the refs
    # What is known of the remotes besides, which changes no answer:
    has_leases: bool = False  # some remote had leases when it was last asked
    delivered: bool = True  # some remote had all of our own receipts then, or there are none


def tips(repository: Repository, git: Git, objects: Objects, cache: Cache) -> Tips:
    """What this clone stands on now.

    Raises CorruptState for a ref that cannot be read, or was lost: never taken for "no receipts" (P6).
    """
    refs = _refs(git)
    trees = _own(repository, objects, refs)
    for path in _files(os.path.join(repository.common_dir, *TRACKING.split("/"))):
        name = os.path.relpath(path, repository.common_dir).replace(os.sep, "/")
        if name not in refs and not name.endswith(".lock"):
            raise unreadable(name, None)
    for ref, name in ((RECEIPTS, "/notes"), (LOG, "/notes-log")):
        for tracked, commit in _fetched(refs, name).items():
            trees[ref] = _union(git, objects, cache, trees[ref], refs.get(ref), tracked, commit)
    folders = tuple(f"{folder}/" for folder in (PAUSES, TRACKED_PAUSES, TRACKED_PAUSE_HEADS))
    pauses = tuple((ref, refs[ref]) for ref in sorted(refs) if ref.startswith(folders))
    return Tips(
        _head(repository, git, objects),
        trees[RECEIPTS],
        trees[LOG],
        pauses,
        any(ref.startswith(TRACKED_LEASES + "/") for ref in refs),
        RECEIPTS not in refs or refs[RECEIPTS] in _fetched(refs, "/notes").values(),
    )


def own(repository: Repository, git: Git, objects: Objects) -> None:
    """Raises CorruptState where one of our own notes refs is there and cannot be read."""
    _own(repository, objects, _refs(git))


def _own(repository: Repository, objects: Objects, refs: Mapping[str, str]) -> dict[str, Optional[str]]:
    """The trees of our own notes."""
    trees: dict[str, Optional[str]] = {}
    for ref in (RECEIPTS, LOG):
        commit = refs.get(ref)
        if commit is None:
            _require_none(repository, ref)
        trees[ref] = objects.resolve(f"{commit}^{{commit}}^{{tree}}") if commit else None
        if commit and trees[ref] is None:
            raise CorruptState(
                f"{ref} names {commit}, which cannot be read here.",
                "Look with `git fsck`. To go on with what the remote has: "
                f"git update-ref -d {ref}, then gitstate sync.",
            )
    return trees


def _head(repository: Repository, git: Git, objects: Objects) -> Optional[str]:
    """HEAD's commit; None on a branch that has none yet."""
    commit = objects.resolve("HEAD^{commit}")
    if commit is None:
        branch = head_branch(repository, git)
        if branch is None or git.text("for-each-ref", branch):
            raise CorruptState(
                f"What HEAD names ({branch or 'detached'}) cannot be read as a commit here.",
                "Look with `git fsck`. If a remote has it: git fetch --refetch",
            )
        _require_none(repository, branch)
    return commit


def _require_none(repository: Repository, ref: str) -> None:
    """Raise CorruptState unless a ref that git does not know was never there, or was taken away by git itself."""
    path = os.path.join(repository.common_dir, *ref.split("/"))
    log = os.path.join(repository.common_dir, "logs", *ref.split("/"))
    set_again = f"set the ref to the last id that {log} names: git update-ref {ref} ID"
    if os.path.exists(path) and not _only_folders(path):
        # (git's own commands that delete or update a ref refuse such a file)
        raise CorruptState(f"{path} does not hold the id of a commit.", f"Remove it and {set_again}")
    if _existed(log):
        raise CorruptState(
            f"{ref} is gone, and its log is not: {log}",
            f"To bring it back, {set_again}. If it is meant to be gone, remove that log.",
        )


def _existed(log: str) -> bool:
    """Whether a ref's log knows of a move from one commit to the next. Whatever deletes a ref through git deletes its
    log too; but git writes the log first, so that after a kill there may be one of a ref that never came to be."""
    try:
        with open(log, "rb") as file:
            lines = file.read().strip(b"\0").splitlines()  # (zeros: a line whose content a power cut took)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return False
    return bool(lines) and bool(lines[-1].split(b" ")[0].strip(b"0"))


def _only_folders(path: str) -> bool:
    """Whether there is no file at or below `path`: git leaves empty folders behind."""
    return os.path.isdir(path) and next(_files(path), None) is None


def _files(folder: str) -> Iterator[str]:
    for above, _, names in os.walk(folder):
        yield from (os.path.join(above, name) for name in names)


def _refs(git: Git) -> dict[str, str]:
    """The refs for notes and pauses of this clone, its own and the fetched ones, and the fetched leases -> object."""
    wanted = (RECEIPTS, LOG, PAUSES, *TRACKED)
    listed = git.text("for-each-ref", "--format=%(objectname) %(refname)", *wanted)
    return {ref: oid for oid, _, ref in (line.partition(" ") for line in listed.splitlines())}


def _fetched(refs: Mapping[str, str], name: str) -> dict[str, str]:
    """Of `refs` those that were fetched whose names end so -> object, in order."""
    return {ref: refs[ref] for ref in sorted(refs) if ref.startswith(TRACKING + "/") and ref.endswith(name)}


def _union(
    git: Git,
    objects: Objects,
    cache: Cache,
    tree: Optional[str],
    own: Optional[str],
    tracked: str,
    commit: str,
) -> Optional[str]:
    """The tree with the lines of `tree` and of the fetched notes. Writes objects where both have some."""
    known = cache.load("unions") or {}
    theirs = objects.resolve(f"{commit}^{{tree}}")
    if theirs is None:
        raise unreadable(tracked, commit)
    if theirs == tree:
        return tree
    merged: Optional[str] = known.get((tree, theirs))
    if merged is None or objects.resolve(merged) is None:
        merged_before = own and contains(git, own, commit)
        merged = tree if merged_before else notes.union(git, objects, tree, theirs)
        cache.save(
            "unions", {**known, (tree, theirs): merged} if len(known) < 8 else {(tree, theirs): merged}
        )
    return merged
