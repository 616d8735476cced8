"""A repository's own policy (`policy:` in gitstate.yaml): reading the rows that stand in the place of the table's."""

from __future__ import annotations

from collections.abc import Mapping

from gitstate.core.policy import CATEGORIES, THENS, Row
from gitstate.core.policy import row as row_of
from gitstate.core.problems import nearest, quoted
from gitstate.core.schema import At, Reader
from gitstate.core.verdict import CHECKS, STATES

_FAILURES = (
    *CATEGORIES,
    *(f"{category}/{kind}" for category, kinds in STATES.items() for kind in kinds if kind),
    *(f"validation/{kind}" for kind in CHECKS),
)


def read(reader: Reader, value: object, at: At) -> dict[str, Row] | None:
    """The rows by category or category/kind; None where they are no mapping. Mistakes are noted."""
    rows = reader.mapping(value, at)
    if rows is None:
        return None
    return {name: row for name in rows if (row := _row(reader, name, rows, at)) is not None}


def _row(reader: Reader, name: str, rows: Mapping[str, object], at: At) -> Row | None:
    here: At = (*at, name)
    category, _, kind = name.partition("/")
    if name not in _FAILURES:
        hint = nearest(name, _FAILURES) or "Write timeout, or quota/throttle."
        reader.wrong(here, f"{quoted(name)} is no category of failures, and no CATEGORY/KIND.", hint)
        return None
    fields = reader.get(rows, name, at, reader.mapping)
    if fields is None:
        return None
    reader.known(fields, here, Row._fields)
    usual = row_of({}, category, kind)
    tries = reader.get(fields, "tries", here, reader.count)
    if tries == 0:
        reader.wrong((*here, "tries"), "tries: 0 would never begin.", "The first attempt counts: write 1.")
    then = reader.choice(fields, "then", here, THENS)
    base = reader.get(fields, "base", here, reader.seconds)
    return Row(
        usual.tries if tries is None else tries,
        usual.base if base is None else base,
        then or usual.then,
    )
