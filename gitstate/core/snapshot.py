"""What one clone shows at one moment, as plain data: the committed tree, the receipts, the verdicts."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from gitstate.core.receipt import Plain, Receipt, Verdict, extra_of, from_plain, to_plain

WorkKey = tuple[str, str]  # (slug, stage)
_KIND, _SLUG, _STAGE, _ATTEMPT, _OUTPUTS = 1, 2, 3, 4, 7  # places in plain values


class Act(NamedTuple):
    """One attempt to change the world of which nobody has noted whether it did (see `core/effect.py`)."""

    attempt: str
    work: str  # hash
    at: str
    key: str  # the idempotency key that it had
    components: Mapping[str, str]
    scheme: int
    before: Optional[
        str
    ]  # what evidence said before it, where it was to change what had happened; see `was_there`
    over: bool  # whether whoever began it knows that it is not under way any more


class Receipts:
    """All receipts that count, by the blob they hang on and by the work that they name.

    A receipt counts if it names the blob it hangs on as its first output and no void takes its attempt back.
    They are held as plain values; one becomes a Receipt when it is asked for.
    """

    def __init__(self, notes: Mapping[str, Sequence[Receipt]]) -> None:
        self._hold({blob: tuple(map(to_plain, lines)) for blob, lines in notes.items()})

    @classmethod
    def of_plain(cls, notes: Mapping[str, Sequence[Plain]]) -> Receipts:
        """The receipts that a cache kept. `notes` is copied when a receipt is added, and never changed."""
        receipts = cls.__new__(cls)
        receipts._hold(notes)
        return receipts

    def _hold(self, notes: Mapping[str, Sequence[Plain]]) -> None:
        self._notes = notes
        self._own: Optional[dict[str, Sequence[Plain]]] = None  # `_notes`, once they were copied
        self._voided = {line[_ATTEMPT] for lines in notes.values() for line in lines if line[_KIND] == "void"}
        self._works: Optional[dict[WorkKey, list[Plain]]] = None

    def on(self, blob: str, work: Optional[WorkKey] = None) -> list[Receipt]:
        """The receipts that hang on a blob; with `work`, those of that one."""
        return [
            from_plain(line)
            for line in self._notes.get(blob, ())
            if (work is None or (line[_SLUG], line[_STAGE]) == work) and self._counts(blob, line)
        ]

    def of(self, slug: str, stage: str) -> list[Receipt]:
        """The receipts of one work, whatever they hang on and whatever the hash."""
        if self._works is None:  # built on first need: a plan with everything done never needs it
            self._works = {}
            for blob, lines in self._notes.items():
                for line in lines:
                    if self._counts(blob, line):
                        self._works.setdefault((line[_SLUG], line[_STAGE]), []).append(line)
        return [from_plain(line) for line in self._works.get((slug, stage), ())]

    def completed(self, slug: str, stage: str, hash: str) -> int:
        """How often this very work was done: the idempotency key of its next attempt hangs on that."""
        return sum(line.work == hash for line in self.of(slug, stage))

    def add(self, blob: str, receipt: Receipt) -> None:
        """Learn a receipt that was just recorded on `blob`."""
        line = to_plain(receipt)
        if self._own is None:
            self._notes = self._own = dict(self._notes)
        self._own[blob] = (*self._own.get(blob, ()), line)
        if self._works is not None and self._counts(blob, line):
            self._works.setdefault((receipt.slug, receipt.stage), []).append(line)

    def attempts(self) -> set[str]:
        """The ids of the attempts that a receipt stands for."""
        return {
            line[_ATTEMPT]
            for blob, lines in self._notes.items()
            for line in lines
            if self._counts(blob, line)
        }

    def facts(self, but: Container[str] = ()) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """The stage and the `extra` of every receipt that counts, but for those of some attempts."""
        for blob, lines in self._notes.items():
            for line in lines:
                if self._counts(blob, line) and line[_ATTEMPT] not in but:
                    yield line[_STAGE], extra_of(line)

    def all(self) -> Iterable[Receipt]:
        """Every receipt that counts."""
        for blob in self._notes:
            yield from self.on(blob)

    def misplaced(self) -> Iterable[tuple[str, Receipt]]:
        """Receipts on a blob that is not their first output: they never count, and somebody should know."""
        for blob, lines in self._notes.items():
            for line in map(from_plain, lines):
                if line.kind != "void" and (not line.outputs or line.outputs[0][1] != blob):
                    yield blob, line

    def _counts(self, blob: str, line: Plain) -> bool:
        outputs = line[_OUTPUTS]
        if line[_KIND] == "void" or not outputs or outputs[0][1] != blob:
            return False
        return not self._voided or line[_ATTEMPT] not in self._voided


class Snapshot(NamedTuple):
    """Plain data that states are derived from. Blob ids are hex without a prefix."""

    head: Optional[str]
    format: str  # of object ids
    tree: Mapping[str, str]  # the committed regular files -> blob id
    empty: str  # the id of the empty blob
    receipts: Receipts
    verdicts: Mapping[tuple[str, str, str], Verdict] = {}
    running: frozenset[WorkKey] = frozenset()  # only while the run lock is held
    pauses: frozenset[str] = frozenset()  # accounts whose window is closed
    dirty: tuple[str, ...] = ()  # sources that are not committed as they stand, sorted
    acts: Mapping[WorkKey, tuple[Act, ...]] = {}  # of effects, those whose outcome is not known
