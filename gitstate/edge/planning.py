"""Reading the plan, and finding every file that the identities of its works stand on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional, cast

from blake3 import blake3

from gitstate.core.budget import Budget
from gitstate.core.identity import SCHEME, fill, plan_digests
from gitstate.core.identity import Sources as SourceIds
from gitstate.core.ownrules import OwnRule
from gitstate.core.plan import Checks, Effect, Item, Plan, PlanSource, Stage, Value, Workflow
from gitstate.core.policy import Row
from gitstate.edge.cache import Cache
from gitstate.edge.git import Git
from gitstate.edge.sources import Sources, Tree, match, uncommitted
from gitstate.errors import ConfigError, Place, Problem, UsageError


class Watch(NamedTuple):
    """What to look at again to know that a view still holds while HEAD and the notes stay where they are."""

    paths: tuple[str, ...]  # the sources
    globs: tuple[str, ...]  # the same in few words, for git
    loose: tuple[str, ...]  # globs that a file which is not committed yet could match


def read_plan(sources: Sources, cache: Cache, tree: Tree, config: str) -> tuple[Plan, dict[str, str]]:
    """The parsed plan, and the digests of its items; both are kept for as long as the bytes are the same."""
    text = sources.text(config)
    if text is None:
        raise UsageError(
            f"There is no {config} here.", "Write a starter with `gitstate init`, or name one with --config."
        )
    key = (config, blake3(text).digest(), SCHEME)
    kept = cache.load("plan")
    if kept is not None and kept["config"] == key:
        workflow = _workflow_from(kept["workflow"])
        if kept["items_key"] == _items_key(workflow.source, sources, tree):
            return Plan(workflow, tuple(map(Item._make, kept["items"])), kept["outputs"]), kept["digests"]
    # A known plan need not pay for these: 25 ms for PyYAML, 10 ms for the rules.
    from gitstate.edge.config import each_items, load, read_items

    def items_of(source: PlanSource) -> list[Item]:
        if source.kind == "each":
            items = each_items(source, match([source.path], tree.files)[source.path])
        else:
            found = sources.text(source.path)
            if found is None:
                raise ConfigError([Problem(source.place, f"plan: there is no file {source.path}.")])
            items = read_items(source, found)
        _share_texts(items)
        return items

    plan = load(text, config, items_of)
    digests = plan_digests(plan.workflow, plan.items)
    cache.save(
        "plan",
        {
            "config": key,
            "workflow": _plain(plan.workflow),
            "items_key": _items_key(plan.workflow.source, sources, tree),
            "items": list(map(tuple, plan.items)),
            "outputs": plan.outputs,
            "digests": digests,
        },
    )
    return plan, digests


def _items_key(source: PlanSource, sources: Sources, tree: Tree) -> Optional[bytes]:
    """What the items are made of, in short; None where that is not there."""
    if source.kind == "each":
        listing = match([source.path], tree.files)[source.path]
        return blake3("\0".join(listing).encode("utf-8", "surrogateescape")).digest()
    text = sources.text(source.path)
    return blake3(text).digest() if text is not None else None


def _share_texts(items: list[Item]) -> None:
    """Have one object in memory for equal texts: fields are often the same few words over and over."""
    known: dict[str, str] = {}
    for item in items:
        fields = cast("dict[str, Value]", item.fields)  # just parsed, and nobody else's yet
        for name, value in fields.items():
            if type(value) is str:
                fields[name] = known.setdefault(value, value)


def _plain(value: Any) -> Any:
    """NamedTuples as plain tuples, which is all that a cache keeps."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return value


def _workflow_from(plain: Any) -> Workflow:
    workflow = Workflow._make(plain)
    stages = []
    for fields in workflow.stages:
        stage = Stage._make(fields)
        policy = {name: Row._make(row) for name, row in stage.policy.items()}
        place, check = Place._make(stage.place), Checks._make(stage.check)
        effect = None if stage.effect is None else Effect._make(stage.effect)
        stages.append(stage._replace(place=place, check=check, policy=policy, effect=effect))
    source = PlanSource._make(workflow.source)
    source = source._replace(place=Place._make(source.place))
    budget = Budget._make(workflow.budget) if workflow.budget else None
    rules = tuple(map(OwnRule._make, workflow.rules))
    return workflow._replace(stages=tuple(stages), source=source, budget=budget, rules=rules)


def source_ids(git: Git, plan: Plan, sources: Sources, tree: Tree, format: str) -> tuple[SourceIds, Watch]:
    """The ids of every file that the plan's identities stand on, and what to watch to know that they still hold.

    Raises ConfigError for files that are not there, all of them at once.
    """
    problems: list[Problem] = []
    wanted = _wanted(plan)
    globs = match(wanted, [*tree.files, *uncommitted(git, list(wanted))])
    for glob, (place, key) in wanted.items():
        if not globs[glob]:
            message = f"{key}: no file matches {glob!r}."
            problems.append(Problem(place, message, "Commit it, or correct the path."))
    includes = _includes(plan.workflow, sources, problems)
    if problems:
        raise ConfigError(problems)
    source = plan.workflow.source
    literal = {plan.workflow.path, *_literals(plan.workflow)}
    literal.update(path for found in includes.values() for path in found)
    if source.kind != "each":
        literal.add(source.path)
    paths = literal.union(path for found in globs.values() for path in found)
    paths.update(item.file for item in plan.items if item.file is not None)
    _require_names(paths)
    patterns = [*sorted(literal), *wanted, *([source.path] if source.kind == "each" else [])]
    found = sources.look(sorted(paths), patterns)
    gone = [path for path, each in found.items() if each is None]
    if gone:
        message = "is committed and not in the working tree."
        raise ConfigError(
            [Problem(Place(path), message, f"Bring it back: git restore {path}") for path in gone]
        )
    ids = {path: f"{format}:{each.blob}" for path, each in found.items() if each}
    return SourceIds(ids, includes, globs), Watch(tuple(found), tuple(patterns), tuple(wanted))


def _wanted(plan: Plan) -> dict[str, tuple[Place, str]]:
    """The globs and paths of `inputs` and `code`: where each is asked for, and as what."""
    wanted: dict[str, tuple[Place, str]] = {}
    for stage in plan.workflow.stages:
        for pattern in stage.code:
            wanted.setdefault(pattern, (stage.place, f"stages.{stage.name}.code"))
        for pattern in stage.inputs:
            for item in plan.items if "{" in pattern else plan.items[:1]:
                wanted.setdefault(fill(pattern, item), (stage.place, f"stages.{stage.name}.inputs"))
    return wanted


def _literals(workflow: Workflow) -> list[str]:
    """The files that the stages name one by one."""
    return [
        path
        for stage in workflow.stages
        for path in (stage.prompt, stage.template, stage.check.json_schema)
        if path
    ]


def _includes(workflow: Workflow, sources: Sources, problems: list[Problem]) -> dict[str, tuple[str, ...]]:
    """What prompts and templates include, by their path; what is wrong goes to `problems`."""
    found: dict[str, tuple[str, ...]] = {}
    for stage in workflow.stages:
        named = {
            "prompt": stage.prompt,
            "template": stage.template,
            "check.json_schema": stage.check.json_schema,
        }
        for name, path in named.items():
            if path is None:
                continue
            text = sources.text(path)
            if text is None:
                problems.append(Problem(stage.place, f"stages.{stage.name}.{name}: there is no file {path}."))
            elif name != "check.json_schema" and b"{%" in text:
                from gitstate.edge.render import (
                    includes,  # Jinja costs 60 ms, and most sources need none of it
                )

                try:
                    found[path] = tuple(includes(path, sources.text))
                except ConfigError as error:
                    problems += error.problems
    return found


def _require_names(paths: Iterable[str]) -> None:
    """Raise ConfigError for names that are not UTF-8: an identity is text."""
    bad = [
        path for path in paths if not path.isascii() and any("\ud800" <= char <= "\udfff" for char in path)
    ]
    if bad:
        raise ConfigError(
            [
                Problem(
                    Place(path.encode("utf-8", "backslashreplace").decode()),
                    "its name is not UTF-8.",
                    "Rename it.",
                )
                for path in bad
            ]
        )
