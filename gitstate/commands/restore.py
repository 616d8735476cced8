"""Outputs that need not be made: their content is receipted for today's identity and still in git."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gitstate.commands.lines import new_attempt
from gitstate.commands.progress import Progress
from gitstate.commands.session import Session
from gitstate.core.derive import Status
from gitstate.core.identity import work_id
from gitstate.core.receipt import Receipt
from gitstate.edge import protect
from gitstate.edge.files import temp_name, write_whole
from gitstate.edge.partial import fetch_missing

_GROUP = 200  # works recorded together


def restore(session: Session, due: Sequence[Status], progress: Progress) -> set[tuple[str, str]]:
    """Restore what can be restored of the due works. Returns the works (slug, stage) that are done by it."""
    wanted = _candidates(session, due)
    _bring_here(session, wanted)
    here = {
        blob for _, receipt in wanted for _, blob in receipt.outputs if session.clone.objects.resolve(blob)
    }
    chosen = [
        (status, receipt) for status, receipt in wanted if all(blob in here for _, blob in receipt.outputs)
    ]
    restored: set[tuple[str, str]] = set()
    for start in range(0, len(chosen), _GROUP):
        group = [pair for pair in chosen[start : start + _GROUP] if _put(session, *pair)]
        if not group:
            continue
        outputs = {
            path: ("100644", blob)
            for status, receipt in group
            for path, (_, blob) in zip(status.outputs, receipt.outputs)
        }
        names = [work_id(status.slug, status.stage, status.hash or "") for status, _ in group]
        session.record(outputs, (), (), names)
        session.tree.update({path: blob for path, (_, blob) in outputs.items()})
        session.judge_again(status.item for status, _ in group)
        restored.update((status.slug, status.stage) for status, _ in group)
        progress.restored_works(names)
    return restored


def _candidates(session: Session, due: Sequence[Status]) -> list[tuple[Status, Receipt]]:
    """Due works with a receipt for today's hash: where the file is gone, or holds what another identity made."""
    found = []
    for status in due:
        # (an effect that is stale has done something else since)
        if status.reason == "missing" or (status.reason == "stale" and session.effect(status.stage) is None):
            receipts = [
                line
                for line in session.view.snapshot.receipts.of(status.slug, status.stage)
                if line.work == status.hash and len(line.outputs) == len(status.outputs)
            ]
            if receipts:
                found.append((status, max(receipts, key=lambda line: line.at)))
    return found


def _bring_here(session: Session, wanted: Sequence[tuple[Status, Receipt]]) -> None:
    """In a partial clone, fetch what is missing in one batch."""
    clone = session.clone
    blobs = [blob for _, receipt in wanted for _, blob in receipt.outputs if not clone.objects.resolve(blob)]
    fetch_missing(clone.git, blobs)


def _put(session: Session, status: Status, receipt: Receipt) -> bool:
    """Put a work's content back in its places in the working tree; False where something is in the way."""
    standing = protect.look(
        session.clone.repository, session.clone.git, session.view.snapshot, status, session.staged
    )
    if standing.foreign:
        return False
    if not session.checked_out:
        return True
    attempt = new_attempt()
    for number, (path, (_, blob), before) in enumerate(
        zip(status.outputs, receipt.outputs, standing.before), 1
    ):
        if session.tree.get(path) == blob and before is not None:
            continue
        # With the filters that a checkout would apply, so that the working tree is clean afterwards.
        data = session.clone.git.run("cat-file", "--filters", f"--path={path}", blob).out
        full = os.path.join(session.root, path)
        replace = before is not None or os.path.exists(full)
        with session.guard.writing([path]):
            write_whole(full, data, temp_name(attempt, number), replace=replace, within=session.root)
    return True
