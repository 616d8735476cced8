"""The failure matrix as people and programs read it: lines for the terminal, Markdown, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gitstate import __version__, show
from gitstate.core.drill import CELLS, Judged

_SIGNS = {"pass": ("✓", "32"), "fail": ("✗", "31"), "skipped": ("-", "33")}


def lines(cells: Sequence[Judged]) -> list[str]:
    """The table for the terminal: a line for each cell, and below what is wrong with those that did not pass."""
    several = len({cell.slug for cell in cells}) > 1
    rows = [("stage", "failure", "expected", "seen", "result", "date")]
    rows += [
        (_row(cell, several), _title(cell), cell.expected, cell.seen, cell.result, cell.at[:10])
        for cell in cells
    ]
    found = show.table(rows)
    for number, cell in enumerate(cells, 1):
        found[number] = show.paint(found[number], "" if cell.result == "pass" else _SIGNS[cell.result][1])
    wrong = [cell for cell in cells if cell.why]
    if wrong:
        found.append("")
        found += [
            f"{cell.result}: {_row(cell, several)}, {_title(cell)}: {show.safe(cell.why)}" for cell in wrong
        ]
    return found


def summary(cells: Sequence[Judged]) -> str:
    """How many passed, in a sentence."""
    counts = {result: sum(cell.result == result for cell in cells) for result in _SIGNS}
    text = f"{counts['pass']} of {show.number(len(cells), 'cell')} passed"
    for result in ("fail", "skipped"):
        if counts[result]:
            text += f", {counts[result]} {'failed' if result == 'fail' else result}"
    return text + "."


def markdown(cells: Sequence[Judged], fields: Mapping[str, Any]) -> str:
    """The matrix, and a line for each cell."""
    several = len({cell.slug for cell in cells}) > 1
    used = [cell for cell in CELLS if any(found.cell == cell.name for found in cells)]
    commands = "the workflow's own commands" if fields["real"] else "recorded stand-ins"
    text = [
        "# Failure drill",
        "",
        f"{summary(cells)} With {commands}, by gitstate {fields['gitstate']}, {fields['at']}.",
        "",
        _line(["stage", *(cell.title for cell in used)]),
        _line(["---"] * (len(used) + 1)),
    ]
    for row in dict.fromkeys(cell.row for cell in cells):
        found = {cell.cell: cell for cell in cells if cell.row == row}
        name = _row(next(iter(found.values())), several)
        signs = [_SIGNS[found[cell.name].result][0] if cell.name in found else "" for cell in used]
        text.append(_line([name, *signs]))
    text += ["", _line(["stage", "failure", "expected", "seen", "result", "date"]), _line(["---"] * 6)]
    for cell in cells:
        result = f"{cell.result}: {cell.why}" if cell.why else cell.result
        text.append(
            _line([_row(cell, several), _title(cell), cell.expected, cell.seen, result, cell.at[:10]])
        )
    return "\n".join(text) + "\n"


def to_json(cells: Sequence[Judged], fields: Mapping[str, Any]) -> str:
    """The same for programs, and for `--check`."""
    return json.dumps({**fields, "cells": [cell._asdict() for cell in cells]}, indent=1) + "\n"


def heading(at: str, real: bool, full: bool, workflow: Mapping[str, str]) -> dict[str, Any]:
    """What the JSON says before its cells."""
    return {
        "format": 1,
        "gitstate": __version__,
        "at": at,
        "real": real,
        "full_pass": full,
        "workflow": workflow,
    }


def _row(cell: Judged, several: bool) -> str:
    return show.safe(f"{cell.slug}/{cell.stage}" if several else cell.stage)


def _title(cell: Judged) -> str:
    return next(known.title for known in CELLS if known.name == cell.cell)


def _line(words: Sequence[str]) -> str:
    return "| " + " | ".join(show.safe(word).replace("|", "\\|") for word in words) + " |"
