"""The configuration: plain data in, a valid Workflow out, or every mistake in it at once, with its place.

A stage's name is letters, digits, '_' and '-', and begins with a letter or '_'. A '-' is allowed, but then
templates must say `needs['my-stage']`, since `needs.my-stage` is a subtraction to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gitstate.core import ownpolicy, ownrules
from gitstate.core.budget import Budget
from gitstate.core.budget import parse as parse_budget
from gitstate.core.order import stage_order
from gitstate.core.plan import (
    COORDINATES,
    GUARDS,
    ON_STALE,
    SETTLE,
    WORKSPACES,
    Checks,
    Command,
    Effect,
    Guard,
    OnStale,
    PlanSource,
    Stage,
    Value,
    Workflow,
    Workspace,
)
from gitstate.core.problems import quoted, report
from gitstate.core.schema import At, Places, Reader, dotted
from gitstate.errors import Problem

_TOP = (
    "gitstate", "plan", "model", "vars", "group", "stages", "account", "budget", "notify", "policy", "probe",
    "coordinate", "guard", "lease", "on_stale", "rules", "workspace",
)  # fmt: skip
_STAGE = (
    "needs", "prompt", "template", "run", "output", "inputs", "code", "check", "ignore", "model", "ttl",
    "timeout", "silence", "account", "policy", "effect", "evidence", "guard", "idempotent", "on_stale",
    "settle", "workspace",
)  # fmt: skip
_CHECK = (
    "min_bytes", "max_bytes", "front_matter", "json", "json_schema", "regex", "command",
)  # fmt: skip
_COMPONENTS = ("plan", "prompt", "template", "model", "inputs", "run")
_KINDS = {".yaml": "yaml", ".yml": "yaml", ".jsonl": "jsonl", ".csv": "csv"}


class Examined(NamedTuple):
    """What could be made of a configuration: no workflow where there are problems, perhaps a plan source."""

    workflow: Workflow | None
    source: PlanSource | None
    problems: list[Problem]


def workflow(data: object, places: Places, path: str) -> Workflow:
    """The workflow in `data`, the plain content of the file `path`; `places` has the line of each value.

    Raises ConfigError with all problems.
    """
    examined = examine(data, places, path)
    if examined.workflow is None:
        raise report(examined.problems)
    return examined.workflow


def examine(data: object, places: Places, path: str) -> Examined:
    """Like `workflow`, but hands the problems back, so that those of the plan can join them."""
    reader = Reader(path, places)
    top = reader.mapping(data, ())
    if top is None:
        return Examined(None, None, reader.problems)
    reader.known(top, (), _TOP)
    _version(reader, top)
    source = reader.get(top, "plan", (), lambda value, at: _source(reader, value, at))
    if "plan" not in top:
        reader.wrong(
            (), "The key 'plan' is missing.", "Name the file of the items, such as `plan: plan.yaml`."
        )
    model = reader.get(top, "model", (), reader.values) or {}
    variables = reader.get(top, "vars", (), reader.values) or {}
    group = reader.get(top, "group", (), reader.text)
    account = reader.get(top, "account", (), reader.text)
    probe = reader.command(top["probe"], ("probe",)) if "probe" in top else None
    notify = reader.command(top["notify"], ("notify",)) if "notify" in top else None
    budget = reader.get(top, "budget", (), lambda value, at: _budget(reader, value, at))
    rules = reader.get(top, "rules", (), lambda value, at: ownrules.read(reader, value, at)) or ()
    coordinate = reader.choice(top, "coordinate", (), COORDINATES)
    length = reader.get(top, "lease", (), lambda value, at: _lease(reader, value, at))
    usual = _Usual(
        model,
        reader.choice(top, "on_stale", (), ON_STALE) or "ask",
        reader.choice(top, "workspace", (), WORKSPACES) or "root",
        reader.choice(top, "guard", (), GUARDS),
    )
    policy = reader.get(top, "policy", (), lambda value, at: ownpolicy.read(reader, value, at)) or {}
    stages = [stage._replace(policy={**policy, **stage.policy}) for stage in _stages(reader, top, usual)]
    order = stage_order(reader, stages)
    if reader.problems or source is None:
        return Examined(None, source, reader.problems)
    found = Workflow(
        path=path,
        source=source,
        stages=tuple(stages),
        order=order,
        vars=variables,
        model=model,
        group=group,
        account=account,
        probe=probe,
        notify=notify,
        budget=budget,
        rules=rules,
        coordinate=coordinate,
        lease=length,
    )
    return Examined(found, source, [])


def _version(reader: Reader, top: Mapping[str, object]) -> None:
    value = top.get("gitstate")
    if "gitstate" not in top:
        reader.wrong(
            (), "The key 'gitstate' is missing.", "Add the line `gitstate: 1`, the format's version."
        )
    elif type(value) is not int:
        reader.expected(("gitstate",), "the version of the format, the whole number 1", value)
    elif value != 1:
        reader.wrong(("gitstate",), f"The format {value} is not known to this version.", "It knows format 1.")


def _source(reader: Reader, value: object, at: At) -> PlanSource | None:
    if isinstance(value, dict):
        reader.known(value, at, ("each",))
        glob = reader.get(value, "each", at, reader.glob)
        if not value:
            reader.expected(at, "a path or {each: GLOB}", value)
        return PlanSource("each", glob, reader.place(at)) if glob else None
    if not isinstance(value, str):
        hint = "Put the items into a file of their own." if isinstance(value, list) else ""
        reader.expected(at, "a path or {each: GLOB}", value, hint)
        return None
    path = reader.path(value, at)
    kind = _KINDS.get(value[value.rfind(".") :])
    if path and kind is None:
        hint = "For one item a file, write {each: GLOB}." if "*" in value else ""
        reader.wrong(at, f"The plan {quoted(value)} does not end in .yaml, .yml, .jsonl or .csv.", hint)
    return PlanSource(kind, path, reader.place(at)) if path and kind else None


class _Usual(NamedTuple):
    """What holds for stages that say nothing else."""

    model: Mapping[str, Value]
    on_stale: OnStale
    workspace: Workspace
    guard: Guard | None


def _stages(reader: Reader, top: Mapping[str, object], usual: _Usual) -> list[Stage]:
    if "stages" not in top:
        reader.wrong((), "The key 'stages' is missing.", "Without a stage, no item promises an output.")
    stages = reader.get(top, "stages", (), reader.mapping)
    if stages is None:
        return []
    if not stages:
        reader.wrong(("stages",), "There is no stage.", "Without a stage, no item promises an output.")
    return [_stage(reader, name, stages, usual) for name in stages]


def _stage(reader: Reader, name: str, stages: Mapping[str, object], usual: _Usual) -> Stage:
    at: At = ("stages", name)
    reader.stage_name(name, at)
    stage = reader.get(stages, name, ("stages",), reader.mapping)
    if stage is None:
        return Stage(name, reader.place(at), "", ())
    reader.known(stage, at, _STAGE)
    for key, hint in (("run", "Give the command to run."), ("output", "Give the path of the file it makes.")):
        if key not in stage:
            reader.wrong(at, f"The stage {quoted(name)} has no '{key}'.", hint)
    run = reader.command(stage["run"], (*at, "run")) if "run" in stage else None
    prompt = reader.get(stage, "prompt", at, reader.path)
    model = reader.get(stage, "model", at, reader.values)
    if model is None and (prompt or _names_model(run or "")) and usual.model:
        model = usual.model
    workspace = reader.choice(stage, "workspace", at, WORKSPACES) or usual.workspace
    return Stage(
        name=name,
        place=reader.place(at),
        run=run or "",
        outputs=reader.get(stage, "output", at, reader.patterns) or (),
        needs=reader.get(stage, "needs", at, reader.names) or (),
        prompt=prompt,
        template=reader.get(stage, "template", at, reader.path),
        model=model,
        inputs=reader.get(stage, "inputs", at, reader.inputs) or (),
        code=reader.get(stage, "code", at, reader.globs) or (),
        check=reader.get(stage, "check", at, lambda value, here: _checks(reader, value, here)) or Checks(),
        ignore=reader.get(stage, "ignore", at, lambda value, here: reader.some_of(value, here, _COMPONENTS))
        or (),
        ttl=reader.get(stage, "ttl", at, reader.seconds),
        timeout=reader.get(stage, "timeout", at, reader.seconds),
        silence=reader.get(stage, "silence", at, reader.seconds),
        account=reader.get(stage, "account", at, reader.text),
        policy=reader.get(stage, "policy", at, lambda value, here: ownpolicy.read(reader, value, here)) or {},
        effect=_effect(reader, stage, at, usual.on_stale),
        workspace=workspace,
        # Where it runs in a place of its own, nobody looks unless told to.
        guard=reader.choice(stage, "guard", at, GUARDS)
        or usual.guard
        or ("warn" if workspace == "root" else "off"),
    )


def _budget(reader: Reader, value: object, at: At) -> Budget | None:
    """What one run may spend: an amount with its unit, or a bare number of dollars."""
    try:
        return parse_budget(str(value) if type(value) in (int, float) else str(reader.text(value, at) or ""))
    except ValueError as error:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            reader.wrong(at, f"{dotted(at)}: {error}.")
        return None


_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_MODEL = re.compile(r"""(?<![\w.'"])model(?![\w'"])""")


def _names_model(run: Command) -> bool:
    """Whether an expression in the command as written reads `model`; an attribute of that name is another."""
    parts = (run,) if isinstance(run, str) else run
    return any(_MODEL.search(found) for part in parts for found in _EXPRESSION.findall(part))


def _checks(reader: Reader, value: object, at: At) -> Checks | None:
    check = reader.mapping(value, at)
    if check is None:
        return None
    reader.known(check, at, _CHECK)
    least = reader.get(check, "min_bytes", at, reader.count)
    most = reader.get(check, "max_bytes", at, reader.count)
    if least is not None and most is not None and least > most:
        reader.wrong(
            (*at, "max_bytes"), f"max_bytes {most} is below min_bytes {least}.", "Nothing could pass."
        )
    command = reader.command(check["command"], (*at, "command")) if "command" in check else None
    return Checks(
        min_bytes=least,
        max_bytes=most,
        front_matter=reader.get(check, "front_matter", at, reader.names) or (),
        json=reader.get(check, "json", at, reader.flag) or False,
        json_schema=reader.get(check, "json_schema", at, reader.path),
        regex=reader.get(check, "regex", at, reader.regexes) or (),
        command=command,
    )


_OF_EFFECTS = ("evidence", "idempotent", "on_stale", "settle")


def _effect(reader: Reader, stage: Mapping[str, object], at: At, on_stale: OnStale) -> Effect | None:
    """How a stage is an effect; None if it is none. `on_stale`: where it does not say."""
    is_effect = reader.get(stage, "effect", at, reader.flag)
    evidence = reader.command(stage["evidence"], (*at, "evidence")) if "evidence" in stage else None
    idempotent = reader.get(stage, "idempotent", at, reader.flag)
    settle = reader.get(stage, "settle", at, lambda value, here: reader.seconds(value, here, none=True))
    own = reader.choice(stage, "on_stale", at, ON_STALE)
    if not is_effect:
        for key in _OF_EFFECTS:
            if key in stage:
                reader.wrong(
                    (*at, key), f"'{key}' says something about an effect.", "Such a stage has `effect: true`."
                )
        return None
    if isinstance(outputs := stage.get("output"), list) and len(outputs) > 1:
        reader.wrong(
            (*at, "output"),
            "What evidence, or a person, says of an effect becomes its output, and this stage has several.",
            "Let another stage, which needs this one, make the others.",
        )
    return Effect(evidence, bool(idempotent), own or on_stale, SETTLE if settle is None else settle)


def _lease(reader: Reader, value: object, at: At) -> int | None:
    """How long a claim lasts, in seconds."""
    from gitstate.core.lease import length  # 3 ms, for what few configurations say

    try:
        return length(value)
    except ValueError as error:
        reader.wrong(at, f"{error}, and not {quoted(str(value))}.")
        return None
