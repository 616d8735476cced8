"""Putting gitstate's own commits on another tip, as one commit with the same outputs.

Works because outputs are paths that nobody else writes; where somebody did, the caller chooses.
Writes objects only, moves nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from gitstate.edge import notes, tree, worktree
from gitstate.edge.author import Author
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import RECEIPTS, Repository
from gitstate.edge.worktree import Change
from gitstate.errors import CorruptState

_OURS = re.compile(rb"^(?:Gitstate-Work: \S|Gitstate-Record: 1$)", re.MULTILINE)
_TRAILER = re.compile(rb"^Gitstate-[A-Za-z-]+: .+$", re.MULTILINE)

# (path, our blob, theirs or None where they deleted it) -> the one that stays on the branch
Choose = Callable[[str, str, "str | None"], "str | None"]


class Lost(NamedTuple):
    """An output of ours that did not stay on the branch because the remote had changed the same path."""

    path: str
    mode: str
    oid: str  # ours
    stays: str | None  # None: the remote deleted the path


class Unvouched(Exception):
    """A commit of ours holds what no receipt vouches for: somebody else put it in. `path` is one of them."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def theirs_stays(path: str, ours: str, theirs: str | None) -> str | None:
    """The default choice: what is on the remote already stays."""
    return theirs


def is_ours(commit: bytes) -> bool:
    """Whether a commit (its object's content) is one that gitstate made: one parent, and our trailer."""
    return commit.split(b"\n\n", 1)[0].count(b"\nparent ") == 1 and bool(_OURS.search(commit))


def reparent(
    git: Git,
    repository: Repository,
    objects: Objects,
    chain: Sequence[str],
    theirs: str,
    choose: Choose = theirs_stays,
    without: Container[str] = (),
) -> tuple[str, tuple[Lost, ...]]:
    """The new commit with the outputs of `chain` (oldest first, all ours) on top of `theirs`, and what lost: also
    what stands at the paths `without`, which are left as they are there.

    `theirs` itself if nothing is left to add. Raises Unvouched, and TreeConflict where paths cannot coexist.
    """
    base = _parents(content(objects, chain[0]))[0]
    ours = worktree.changes(git, base, chain[-1])
    _require_outputs(git, objects, ours)
    base_tree, their_tree = (objects.resolve(f"{commit}^{{tree}}") for commit in (base, theirs))
    splices: dict[str, tree.Entry | None] = {}
    lost = []
    for change in ours:
        mine = (change.new_mode, change.new)
        there = tree.find(objects, their_tree, change.path)
        if change.path in without:
            lost.append(Lost(change.path, *mine, there[1] if there else None))
            continue
        if there in (mine, tree.find(objects, base_tree, change.path)):
            splices[change.path] = mine
            continue
        stays = choose(change.path, change.new, there[1] if there else None)
        if stays == change.new:
            splices[change.path] = mine
        else:
            lost.append(Lost(change.path, *mine, stays))
            if stays is not None and (there is None or stays != there[1]):
                splices[change.path] = (change.new_mode, stays)
    new_tree = tree.splice(objects, their_tree, splices)
    if new_tree == their_tree:
        return theirs, tuple(lost)
    sign = git.text("config", "--type=bool", "commit.gpgSign", check=False) == "true"
    author = Author(git, repository, objects, sign)
    return author.commit_on_branch(new_tree, theirs, _message(author, objects, chain)), tuple(lost)


def _require_outputs(git: Git, objects: Objects, ours: Sequence[Change]) -> None:
    """Raise Unvouched unless every path is a regular file that a receipt vouches for.

    A user may have amended a commit of ours, trailer and all; what they put in is theirs.
    """
    vouched = _vouched(git, objects, [change.new for change in ours])
    for change in ours:
        if change.new_mode not in worktree.REGULAR or change.new not in vouched:
            raise Unvouched(change.path)


def _vouched(git: Git, objects: Objects, blobs: Sequence[str]) -> set[str]:
    """Those blobs that a receipt here names, by hanging on them or as another output of the same work."""
    noted = notes.entries(git, RECEIPTS) if objects.resolve(RECEIPTS) else {}
    found = set(noted).intersection(blobs)
    for note in objects.read_many([noted[blob] for blob in found]):
        for line in notes.lines(note[1]) if note else ():
            try:
                outputs = json.loads(line)["outputs"]
                found.update(str(blob).rpartition(":")[2] for _, blob in outputs)
            except (ValueError, TypeError, KeyError):
                continue  # not a receipt that we know: it vouches for the blob that it hangs on, no more
    return found


def _message(author: Author, objects: Objects, chain: Sequence[str]) -> bytes:
    """The message of the commit that stands for all of `chain`, with every trailer; of one, its own."""
    messages = [content(objects, oid).split(b"\n\n", 1)[1] for oid in chain]
    if len(messages) == 1:
        return messages[0]
    trailers = dict.fromkeys(os.fsdecode(line) for text in messages for line in _TRAILER.findall(text))
    works = sum(line.startswith("Gitstate-Work: ") for line in trailers)
    return author.message(f"gitstate: {works} works", list(trailers))


def content(objects: Objects, oid: str) -> bytes:
    """A commit's content. Raises CorruptState if it is not here."""
    found = objects.read(oid)
    if found is None:
        raise CorruptState(f"Commit {oid} is not in this clone.", "Look with: git fsck.")
    return found[1]


def _parents(commit: bytes) -> list[str]:
    lines = commit.split(b"\n\n", 1)[0].split(b"\n")
    return [line[7:].decode() for line in lines if line.startswith(b"parent ")]
