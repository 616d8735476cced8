"""From a workflow and its items to a plan in which no two works can ever touch the same file.

Everything that the names of slugs and outputs can do wrong is found here, before anything runs. The way
through is one pass in fast built-ins; only where something is wrong does a slower one find out what.
"""

from __future__ import annotations

from collections.abc import Sequence

from gitstate.core.collisions import (
    Column,
    Input,
    Output,
    collisions,
    place_of,
    read_back,
    where,
)
from gitstate.core.paths import (
    MAX_SEGMENT,
    MAX_SLUG,
    fold,
    is_plain,
    path_problem,
    pattern_parts,
    segment_problem,
    slug_problem,
)
from gitstate.core.plan import Item, Plan, PlanSource, Workflow
from gitstate.core.problems import kind, nearest, quoted, report
from gitstate.core.values import text as in_nfc
from gitstate.core.workflow import workflow
from gitstate.errors import Place, Problem

__all__ = ["plan", "segment_problem", "slug_problem", "slugs", "workflow"]


def plan(workflow: Workflow, items: Sequence[Item]) -> Plan:
    """The works of `items`, with their output paths in NFC. No items is a plan too.

    Raises ConfigError with all problems: slugs, fields that paths need, paths that no file may have, and
    outputs that meet each other, a source, or a glob that would read them as input.
    """
    problems, bad = _judge_slugs(items, workflow.source)
    problems += _group(workflow, items)
    if bad:
        items = [item for row, item in enumerate(items) if row not in bad]
    outputs = [Output(stage, pattern) for stage in workflow.stages for pattern in stage.outputs]
    columns = [_column(workflow, output, items, problems) for output in outputs]
    problems += collisions(workflow, items, outputs, columns)
    inputs = [
        Input(stage, _format(workflow, Output(stage, pattern, "input"), items, problems))
        for stage in workflow.stages
        for pattern in stage.inputs
        if "{" in pattern
    ]
    problems += read_back(workflow, items, outputs, columns, inputs)
    if problems:
        raise report(problems)
    column = iter(columns)
    stages = [list(zip(*(next(column) for _ in stage.outputs))) for stage in workflow.stages]
    return Plan(workflow, tuple(items), tuple(zip(*stages)))


def slugs(items: Sequence[Item], source: PlanSource) -> list[Problem]:
    """What is wrong with the slugs of `items`, each for itself and as names of different things."""
    return _judge_slugs(items, source)[0]


def _judge_slugs(items: Sequence[Item], source: PlanSource) -> tuple[list[Problem], set[int]]:
    """The problems, and the rows of the items that have them."""
    if all(is_plain(item.slug, MAX_SLUG) for item in items):
        folded = [item.slug.lower() if item.slug.isascii() else fold(item.slug) for item in items]
        if len(set(folded)) == len(folded):
            return [], set()
    problems = []
    bad: set[int] = set()
    first: dict[str, Item] = {}
    for row, item in enumerate(items):
        wrong = slug_problem(item.slug)
        if wrong:
            problems.append(
                Problem(place_of(item, source), f"The slug {quoted(item.slug)} {wrong}.", "Change it.")
            )
            bad.add(row)
            continue
        other = first.setdefault(fold(item.slug), item)
        if other is not item:
            bad.add(row)
            same = (
                "twice"
                if other.slug == item.slug
                else f"beside {quoted(other.slug)}, the same to some systems"
            )
            message = f"The slug {quoted(item.slug)} is there {same}: {where(other, source)}"
            hint = "Narrow the glob." if source.kind == "each" else "Slugs are unique."
            problems.append(Problem(place_of(item, source), f"{message} and {where(item, source)}.", hint))
    return problems, bad


def _group(workflow: Workflow, items: Sequence[Item]) -> list[Problem]:
    group = workflow.group
    if group is None or not items or any(group in item.fields for item in items):
        return []
    hint = nearest(group, items[0].fields)
    return [Problem(Place(workflow.path), f"No item has the field {quoted(group)} that 'group' names.", hint)]


def _column(workflow: Workflow, output: Output, items: Sequence[Item], problems: list[Problem]) -> Column:
    """The output's path for each item; '' and a problem where it can have none."""
    literals, fields = pattern_parts(output.pattern)
    if fields == ("slug",):
        before, after = literals
        column = [before + item.slug + after for item in items]
    else:
        column = _format(workflow, output, items, problems)
    # pieces in NFC may join to what is not, so whatever is not ASCII is looked at again
    unsure = [row for row, path in enumerate(column) if not (path.isascii() and is_plain(path, MAX_SEGMENT))]
    for row in unsure:
        column[row] = path = in_nfc(column[row])
        problem = path_problem(path) if path else None
        if problem:
            column[row] = ""
            message = f"The output {quoted(path)} of the stage {quoted(output.stage.name)} {problem}."
            problems.append(
                Problem(place_of(items[row], workflow.source), message, f"It is {output.pattern!r}.")
            )
    return column


def _format(workflow: Workflow, output: Output, items: Sequence[Item], problems: list[Problem]) -> Column:
    """A pattern with each item's fields put in; '' and a problem where a field cannot stand in a path."""
    literals, fields = pattern_parts(output.pattern)
    template = "%s".join(literal.replace("%", "%%") for literal in literals)
    absent = [name for name in fields if items and not any(name in item.fields for item in items)]
    for name in absent:
        message = f"No item has the field {quoted(name)} of the {output.kind} {quoted(output.pattern)}."
        problems.append(Problem(output.stage.place, message, nearest(name, items[0].fields)))
    if absent:
        return [""] * len(items)
    fine: set[str] = set()  # values that were judged before; fields such as a topic repeat
    column = []
    for item in items:
        values = []
        for name in fields:
            value = item.fields.get(name)
            if name == "slug":
                values.append(item.slug)
            elif type(value) is str and (value in fine or segment_problem(value) is None):
                fine.add(value)
                values.append(value)
            elif type(value) is int:
                values.append(str(value))
            else:
                problems.append(_field_problem(workflow, output, item, name, len(problems) < 100))
                break
        else:
            column.append(template % tuple(values))
            continue
        column.append("")
    return column


def _field_problem(workflow: Workflow, output: Output, item: Item, name: str, hint: bool) -> Problem:
    place = place_of(item, workflow.source)
    about = (
        f"The {output.kind} {quoted(output.pattern)} needs the field {quoted(name)} of {quoted(item.slug)}"
    )
    if name not in item.fields:
        return Problem(place, f"{about}, which is not there.", nearest(name, item.fields) if hint else "")
    value = item.fields[name]
    if not isinstance(value, str):
        return Problem(
            place, f"{about}, which is {kind(value)}.", "In a path it must be text or a whole number."
        )
    return Problem(
        place, f"{about}, but {quoted(value)} {segment_problem(value)}.", "Only {slug} may hold '/'."
    )
