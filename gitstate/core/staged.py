"""What a staged output must be, judged from patterns, receipts and content: the pure half of the hook."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Any, NamedTuple, Optional

from gitstate.core.plan import Checks, Plan, Stage, Workflow
from gitstate.core.receipt import Receipt

_MARKERS = tuple(
    re.compile(line, re.MULTILINE) for line in (rb"^<<<<<<< ", rb"^=======(?: |\r?$)", rb"^>>>>>>> ")
)


class Rule(NamedTuple):
    """One output pattern of one stage, and what its content must pass."""

    stage: str
    position: int  # among the stage's outputs
    literals: tuple[str, ...]  # the pattern's pieces, one more than its fields
    fields: tuple[str, ...]
    checks: Checks  # of the stage for its first output, none for the others

    def pattern(self, slug: Optional[str] = None) -> re.Pattern[str]:
        """Accepts the paths that this output can have, of the item `slug` or of any."""
        parts = [re.escape(self.literals[0])]
        for field, literal in zip(self.fields, self.literals[1:], strict=True):
            if field == "slug":
                parts.append(".+" if slug is None else re.escape(slug))
            else:
                parts.append("[^/]+")
            parts.append(re.escape(literal))
        return re.compile("".join(parts))

    def fits(self, path: str, slug: Optional[str] = None) -> bool:
        """Whether `path` can be this output, of the item `slug` or of any; whether it is, the plan knows."""
        return self.pattern(slug).fullmatch(path) is not None

    def plain(self) -> tuple[Any, ...]:
        """Plain tuples, which is all that a cache keeps."""
        return (*self[:4], tuple(self.checks))


def from_plain(value: Sequence[Any]) -> Rule:
    """The reverse of `Rule.plain`."""
    rule = Rule._make(value)
    return rule._replace(checks=Checks._make(rule.checks))


def rules(workflow: Workflow) -> list[Rule]:
    """The rules of all outputs of a workflow."""
    from gitstate.core.paths import (
        pattern_parts,  # 5 ms with what it imports; a known configuration need not pay
    )

    return [
        Rule(stage.name, position, *pattern_parts(pattern), Checks() if position else stage.check)
        for stage in workflow.stages
        for position, pattern in enumerate(stage.outputs)
    ]


def vouched(blob: str, receipts: Sequence[Receipt], rule: Rule, path: str) -> list[Receipt]:
    """Those of the receipts on `blob` that are for the work whose output `rule` says `path` is.

    Only for a stage's first output: receipts hang on no other.
    """
    if rule.position:
        return []
    void = {receipt.attempt for receipt in receipts if receipt.kind == "void"}
    return [
        receipt
        for receipt in receipts
        if receipt.kind != "void"
        and receipt.attempt not in void
        and receipt.stage == rule.stage
        and receipt.outputs[:1]
        and receipt.outputs[0][1] == blob
        and rule.fits(path, receipt.slug)
    ]


def names(receipt: Receipt, position: int, blob: str) -> bool:
    """Whether a receipt says that `blob` is the result's output at `position`."""
    return position < len(receipt.outputs) and receipt.outputs[position][1] == blob


class Output(NamedTuple):
    """What the plan says of a path: which work's output it is, and which of its outputs."""

    slug: str
    stage: Stage
    position: int

    @property
    def checks(self) -> Checks:
        """What its content must pass."""
        return Checks() if self.position else self.stage.check


def outputs_at(plan: Plan, paths: Container[str]) -> dict[str, Output]:
    """Those of `paths` that are outputs of the plan."""
    return {
        path: Output(item.slug, stage, position)
        for item, row in zip(plan.items, plan.outputs, strict=True)
        for stage, outputs in zip(plan.workflow.stages, row, strict=True)
        for position, path in enumerate(outputs)
        if path in paths
    }


def conflict_line(data: bytes) -> int:
    """The line at which an unresolved merge conflict begins; 0 if there is none.

    A conflict is the three marks at the beginnings of lines, in their order. Linear in the size of `data`.
    """
    start = at = -1
    for marker in _MARKERS:
        found = marker.search(data, at + 1)
        if found is None:
            return 0
        at = found.start()
        start = at if start < 0 else start
    return data.count(b"\n", 0, start) + 1
