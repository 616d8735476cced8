"""What one clone shows at one moment, as plain data: the committed tree, the receipts, the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Optional

from gitstate.core.receipt import Receipt, Verdict

WorkKey = tuple[str, str]  # (slug, stage)


class Receipts:
    """All receipts that count, by the blob they hang on and by the work that they name.

    A receipt counts if it names the blob it hangs on as its first output and no void takes its attempt back.
    """

    def __init__(self, notes: dict[str, list[Receipt]]) -> None:
        self._notes = notes
        self._voided = {line.attempt for lines in notes.values() for line in lines if line.kind == "void"}
        self._works: Optional[dict[WorkKey, list[Receipt]]] = None

    def on(self, blob: str) -> list[Receipt]:
        """The receipts that hang on a blob."""
        found = self._notes.get(blob)
        return [line for line in found if self._counts(blob, line)] if found else []

    def of(self, slug: str, stage: str) -> list[Receipt]:
        """The receipts of one work, whatever they hang on and whatever the hash."""
        if self._works is None:  # built on first need: a plan with everything done never needs it
            self._works = {}
            for blob, lines in self._notes.items():
                for line in lines:
                    if self._counts(blob, line):
                        self._works.setdefault((line.slug, line.stage), []).append(line)
        return self._works.get((slug, stage), [])

    def add(self, blob: str, receipt: Receipt) -> None:
        """Learn a receipt that was just recorded on `blob`."""
        self._notes.setdefault(blob, []).append(receipt)
        if self._works is not None and self._counts(blob, receipt):
            self._works.setdefault((receipt.slug, receipt.stage), []).append(receipt)

    def all(self) -> Iterable[Receipt]:
        """Every receipt that counts."""
        for blob in self._notes:
            yield from self.on(blob)

    def misplaced(self) -> Iterable[tuple[str, Receipt]]:
        """Receipts on a blob that is not their first output: they never count, and somebody should know."""
        for blob, lines in self._notes.items():
            for line in lines:
                if line.kind != "void" and (not line.outputs or line.outputs[0][1] != blob):
                    yield blob, line

    def _counts(self, blob: str, line: Receipt) -> bool:
        if line.kind == "void" or not line.outputs or line.outputs[0][1] != blob:
            return False
        return not self._voided or line.attempt not in self._voided


class Snapshot(NamedTuple):
    """Plain data that states are derived from. Blob ids are hex without a prefix."""

    head: Optional[str]
    format: str  # of object ids
    tree: Mapping[str, str]  # the committed regular files -> blob id
    empty: str  # the id of the empty blob
    receipts: Receipts
    verdicts: Mapping[tuple[str, str, str], Verdict] = {}
    running: frozenset[WorkKey] = frozenset()  # only while the run lock is held
    dirty: tuple[str, ...] = ()  # sources that are not committed as they stand, sorted
