"""What a push would publish: the works that are finished in this clone and whose outputs the remote does not have."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from gitstate.core.receipt import Receipt, Unreadable, decode_receipt
from gitstate.edge import notes, remote, worktree
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.remote import Remote
from gitstate.edge.repo import RECEIPTS


class Unpublished(NamedTuple):
    """A work that a push would publish: its receipt, and the paths of what it made."""

    receipt: Receipt
    paths: tuple[str, ...]


def unpublished(git: Git, objects: Objects, there: Remote, branch: str) -> list[Unpublished]:
    """The works, of any plan, of which a push of `branch` (full ref) would publish outputs, once what was fetched is
    merged.

    A receipt alone publishes nothing: so goes what was paid for twice. What a person accepted is theirs to publish,
    whoever works on it.
    """
    ours = objects.resolve(RECEIPTS)
    theirs = objects.resolve(there.tracked(remote.home(git, there).receipts))
    if ours is None or ours == theirs:
        return []
    before = objects.resolve(there.tracked_branch) or objects.write("tree", b"")
    paths: dict[str, list[str]] = {}
    for change in worktree.changes(git, before, branch):
        paths.setdefault(change.new, []).append(change.path)
    found = []
    for line in notes.gained(git, objects, theirs, ours):
        with contextlib.suppress(Unreadable):  # it counts as no receipt anywhere
            receipt = decode_receipt(line)
            if receipt is not None and receipt.kind == "done":
                made = [path for _, oid in receipt.outputs for path in paths.get(oid, ())]
                if made:
                    found.append(Unpublished(receipt, tuple(made)))
    return found
