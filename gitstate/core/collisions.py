"""What outputs may not meet: each other, the files that they are made from, and globs that would read them.

The usual way through is a few sets; only where something met does a slower pass say who, with both places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from gitstate.core.glob import is_glob, translate
from gitstate.core.paths import fold
from gitstate.core.plan import Item, PlanSource, Stage, Workflow
from gitstate.core.problems import quoted
from gitstate.errors import Place, Problem

_SHOWN = 20  # examples of one kind of mistake

Column = list[str]  # one output pattern's path for each item; '' where there is a problem already


class Output(NamedTuple):
    """One output of one stage: where its paths come from."""

    stage: Stage
    pattern: str
    kind: str = "output"  # "input" where a pattern of `inputs` is formatted in the same way


class Input(NamedTuple):
    """A pattern of `inputs` with placeholders: the path or glob that it is for each item."""

    stage: Stage
    globs: Column


def place_of(item: Item, source: PlanSource) -> Place:
    """Where to mend an item: its line of the plan; under {each}, where the glob is."""
    return source.place if source.kind == "each" else Place(source.path, item.line)


def where(item: Item, source: PlanSource) -> str:
    return f"file {quoted(item.file or '')}" if source.kind == "each" else str(Place(source.path, item.line))


def named(item: Item, source: PlanSource) -> str:
    return f"{quoted(item.slug)} ({where(item, source)})"


def _sources(workflow: Workflow, items: Iterable[Item]) -> Iterator[tuple[str, str]]:
    """Files that works are made from, as named in the configuration, each with what it is."""
    yield workflow.path, "the configuration"
    if workflow.source.kind == "each":
        for item in items:
            yield item.file or "", f"the file of the item {quoted(item.slug)}"
    else:
        yield workflow.source.path, "the plan"
    for stage in workflow.stages:
        of = f"of the stage {quoted(stage.name)}"
        for path, what in ((stage.prompt, "prompt"), (stage.template, "template")):
            if path:
                yield path, f"the {what} {of}"
        if stage.check.json_schema:
            yield stage.check.json_schema, f"the JSON Schema {of}"
        for path in stage.code:
            yield path, f"code {of}"


def _folders(paths: Iterable[str]) -> set[str]:
    """All folders above `paths`."""
    found: set[str] = set()
    for path in {path.rpartition("/")[0] for path in paths}:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found


def collisions(
    workflow: Workflow, items: Sequence[Item], outputs: Sequence[Output], columns: Sequence[Column]
) -> list[Problem]:
    """Outputs that are the same file as another or as a source, or the folder of one."""
    folded = [[path.lower() if path.isascii() else fold(path) for path in column] for column in columns]
    files = set(chain.from_iterable(folded))
    folders = _folders(files)
    sources: dict[str, str] = {}
    for path, what in _sources(workflow, items):
        sources.setdefault(fold(path), what)
    touched = not files.isdisjoint(sources) or not folders.isdisjoint(sources)
    clean = len(files) == sum(map(len, folded)) and files.isdisjoint(folders) and not touched
    if clean and files.isdisjoint(_folders(sources)):
        return []
    return _explain(workflow, items, outputs, columns, folded, folders, sources)


class _Owner(NamedTuple):
    row: int
    column: int


def _explain(
    workflow: Workflow,
    items: Sequence[Item],
    outputs: Sequence[Output],
    columns: Sequence[Column],
    folded: Sequence[Column],
    folders: set[str],
    sources: Mapping[str, str],
) -> list[Problem]:
    """Name who meets whom, and a few examples of each kind."""
    source = workflow.source
    seen: dict[str, _Owner] = {}
    met: dict[tuple[int, int], list[Problem]] = {}
    below = _below(folded, sources, folders)

    def add(kind: tuple[int, int], place: Place, message: str, hint: str) -> None:
        met.setdefault(kind, []).append(Problem(place, message, hint))

    for column, paths in enumerate(folded):
        stage, pattern, _ = outputs[column]
        for row, path in enumerate(paths):
            if not path:
                continue
            shown = quoted(columns[column][row])
            what = _source_at(path, sources)
            if what:
                message = f"The output {shown} of {named(items[row], source)} would overwrite {what}."
                add((-1, column), stage.place, message, "Let outputs have a folder of their own.")
            other = seen.setdefault(path, _Owner(row, column))
            if other != (row, column):
                there = outputs[other.column]
                both = f"{named(items[other.row], source)} and {named(items[row], source)}"
                message = f"{both} have the same output {shown}"
                if there.stage is not stage:
                    message += f", in the stages {quoted(there.stage.name)} and {quoted(stage.name)}"
                hint = _apart(pattern, there.pattern, other.column == column)
                add((other.column, column), place_of(items[row], source), f"{message}.", hint)
            elif path in below:
                message = (
                    f"The output {shown} of {named(items[row], source)} is a file, but it is also a folder"
                )
                inside = below[path]
                if isinstance(inside, _Owner):
                    owner = named(items[inside.row], source)
                    message += f": of {quoted(columns[inside.column][inside.row])}, an output of {owner}."
                else:
                    message += f": of {quoted(inside)}."
                add((-2, column), place_of(items[row], source), message, "Give one of them another name.")
    return [problem for found in met.values() for problem in _some(found)]


def _apart(pattern: str, other: str, same: bool) -> str:
    """How two paths that meet could be told apart; `same`: they come from one pattern."""
    if not same:
        return f"Change one of the patterns {quoted(other)} and {quoted(pattern)}."
    if "{slug}" not in pattern:
        return f"Put {{slug}} into the pattern {quoted(pattern)}."
    return "Change one of the slugs."


def _some(found: Sequence[Problem]) -> list[Problem]:
    """The first few, the last of which says how many more there are."""
    if len(found) <= _SHOWN:
        return list(found)
    last = found[_SHOWN - 1]
    return [
        *found[: _SHOWN - 1],
        last._replace(hint=f"{last.hint} And {len(found) - _SHOWN} more like this."),
    ]


def _source_at(path: str, sources: Mapping[str, str]) -> str | None:
    """The source that is at `path`, or is a file where the path needs a folder."""
    while path:
        if path in sources:
            return sources[path]
        path = path.rpartition("/")[0]
    return None


def _below(
    folded: Sequence[Column], sources: Mapping[str, str], folders: set[str]
) -> dict[str, _Owner | str]:
    """For each output that is also a folder: the output (as _Owner) or the source inside of it."""
    files = set(chain.from_iterable(folded))
    wanted = files & (folders | _folders(sources))
    found: dict[str, _Owner | str] = {}
    if not wanted:
        return found
    owners = (
        (path, _Owner(row, column)) for column, paths in enumerate(folded) for row, path in enumerate(paths)
    )
    everything: Iterable[tuple[str, _Owner | str]] = chain(owners, ((path, path) for path in sources))
    for path, owner in everything:
        for folder in _folders([path]) & wanted:
            found.setdefault(folder, owner)
    return found


def read_back(
    workflow: Workflow,
    items: Sequence[Item],
    outputs: Sequence[Output],
    columns: Sequence[Column],
    inputs: Sequence[Input],
) -> list[Problem]:
    """Outputs that a glob takes for input although no `needs` says so: each run would change the next one.

    Without this, `{each: "docs/**/*.md"}` with the output `docs/{slug}.fr.md` makes an item of each output,
    and of each output of those, paid for every time.
    """
    problems = []
    above = _above(workflow)

    def add(output: Output, row: int, path: str, name: str) -> None:
        message = (
            f"The output {quoted(path)} of {named(items[row], workflow.source)} would be read as {name}."
        )
        hint = "Let outputs go where the glob does not look."
        problems.append(Problem(output.stage.place, message, hint))

    for name, globs, allowed in _globs(workflow, above):
        matches = [translate(glob).match for glob in globs]
        for output, column in zip(outputs, columns):
            if output.stage.name in allowed:
                continue
            found = next(
                (row for row, path in enumerate(column) if any(match(path) for match in matches)), None
            )
            if found is not None:
                add(output, found, column[found], name)
    for given in inputs:
        name = f"one of the inputs of the stage {quoted(given.stage.name)}"
        paths = set(given.globs)
        for output, column in zip(outputs, columns):
            if output.stage.name in above[given.stage.name]:
                continue
            found = next((row for row, path in enumerate(column) if path and path in paths), None)
            if found is None:
                # a glob with placeholders is another one for each item: a few of them must do
                few = enumerate(zip(column[:_SHOWN], given.globs))
                found = next((row for row, (path, glob) in few if path and translate(glob).match(path)), None)
            if found is not None:
                add(output, found, column[found], name)
    return problems


def _above(workflow: Workflow) -> dict[str, set[str]]:
    """For each stage the names of those that it needs, and that these need."""
    above: dict[str, set[str]] = {}
    for index in workflow.order:
        stage = workflow.stages[index]
        above[stage.name] = set(stage.needs).union(*(above[need] for need in stage.needs))
    return above


def _globs(
    workflow: Workflow, above: Mapping[str, set[str]]
) -> Iterator[tuple[str, Sequence[str], set[str]]]:
    """What is read by globs: a name, the globs, and the stages whose outputs may be among it."""
    if workflow.source.kind == "each":
        yield f"a new item by {{each: {quoted(workflow.source.path)}}}", (workflow.source.path,), set()
    for stage in workflow.stages:
        inputs = [glob for glob in stage.inputs if "{" not in glob]
        if inputs:
            yield f"one of the inputs of the stage {quoted(stage.name)}", inputs, above[stage.name]
        code = [path for path in stage.code if is_glob(path)]  # a literal path is among the sources
        if code:
            yield f"code of the stage {quoted(stage.name)}", code, set()
