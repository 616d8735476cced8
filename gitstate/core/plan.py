"""The nouns of a plan: items, stages and works, as plain immutable values.

What makes them valid is in `core/validate.py`; how they are read from files is in `edge/config.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Optional, Union

from gitstate.core.budget import Budget
from gitstate.core.ownrules import OwnRule
from gitstate.core.policy import Row
from gitstate.errors import Place

# JSON's values, with text in NFC and floats finite (design section 4).
Value = Union[str, int, float, bool, None, list["Value"], dict[str, "Value"]]

Command = Union[str, tuple[str, ...]]  # a string runs through the shell, a list runs without one


class Item(NamedTuple):
    """One entry of the plan. `fields` holds every field, `slug` included, values in NFC."""

    slug: str
    fields: Mapping[str, Value]
    line: int  # in the plan file; 0 under {each}
    file: Optional[str] = None  # the committed file that this item stands for, under {each}


class Checks(NamedTuple):
    """What a response must pass before it may become an output."""

    min_bytes: Optional[int] = None
    max_bytes: Optional[int] = None
    front_matter: tuple[str, ...] = ()  # keys that the YAML front matter must have, non-empty
    json: bool = False
    json_schema: Optional[str] = None  # path of a committed JSON Schema; implies json
    regex: tuple[str, ...] = ()  # each must be found (re.search, MULTILINE) in the text
    command: Optional[Command] = None


OnStale = Literal["ask", "update", "ignore"]
Coordinate = Literal["leases"]
Workspace = Literal["root", "worktree", "scratch"]
Guard = Literal["off", "warn", "strict"]
ON_STALE: tuple[OnStale, ...] = ("ask", "update", "ignore")
COORDINATES: tuple[Coordinate, ...] = ("leases",)
WORKSPACES: tuple[Workspace, ...] = ("root", "worktree", "scratch")
GUARDS: tuple[Guard, ...] = ("off", "warn", "strict")
SETTLE = 10.0  # seconds


class Effect(NamedTuple):
    """How a stage that changes the world is kept from doing so twice."""

    evidence: Optional[Command] = (
        None  # asks the world whether it has happened: 0 yes, 1 no, else cannot tell
    )
    idempotent: bool = False  # whether doing it twice with the same key is doing it once
    on_stale: OnStale = "ask"  # what is done once its inputs have changed after it happened
    settle: float = SETTLE  # seconds that an act may still take to show after its outcome was lost


class Stage(NamedTuple):
    """One step that every item passes through, as configured."""

    name: str
    place: Place
    run: Command
    outputs: tuple[str, ...]  # patterns with {field} placeholders, first one first
    needs: tuple[str, ...] = ()
    prompt: Optional[str] = None
    template: Optional[str] = None
    model: Optional[Mapping[str, Value]] = None  # what identity covers; None: no model component
    inputs: tuple[str, ...] = ()  # globs over committed files
    code: tuple[str, ...] = ()  # paths or globs over committed files
    check: Checks = Checks()
    ignore: tuple[str, ...] = ()  # components left out of the identity
    ttl: Optional[float] = None  # seconds
    timeout: Optional[float] = None  # seconds
    silence: Optional[float] = None  # seconds without a new byte from the command
    account: Optional[str] = None  # whose quota its calls use
    policy: Mapping[str, Row] = {}  # what is done about its failures, where that is not what the table says
    effect: Optional[Effect] = None  # what makes it an effect: it changes the world outside the repository
    workspace: Workspace = "root"  # where its command runs
    guard: Guard = "warn"  # what is done about files that its command writes where it should not


class PlanSource(NamedTuple):
    """Where items come from: a file (`kind` yaml, jsonl or csv) or a glob (`kind` each)."""

    kind: str
    path: str  # the file's path, or the glob
    place: Place


class Workflow(NamedTuple):
    """The configuration: what to do with each item of the plan."""

    path: str  # of the configuration file, relative to the root
    source: PlanSource
    stages: tuple[Stage, ...]  # as declared
    order: tuple[int, ...]  # indexes into `stages`, needs before needers
    vars: Mapping[str, Value]
    model: Mapping[str, Value]  # the top-level mapping; the render context of every stage
    group: Optional[str] = None  # the field by which output is summed
    account: Optional[str] = None  # whose quota the calls use
    probe: Optional[Command] = None  # asks for nothing that costs, whether the window is open
    notify: Optional[Command] = None  # is run when a run pauses, fails or ends
    budget: Optional[Budget] = None  # what one run may spend
    rules: tuple[OwnRule, ...] = ()  # own rules of failure, asked in this order
    coordinate: Optional[Coordinate] = None  # how machines that run at once share the works
    lease: Optional[int] = None  # seconds that a claim lasts; None: by how long works take


class Plan(NamedTuple):
    """A workflow with its items: everything that is to be produced."""

    workflow: Workflow
    items: tuple[Item, ...]  # in plan order
    outputs: tuple[tuple[tuple[str, ...], ...], ...]  # [item][stage as declared] -> paths


def account_of(workflow: Workflow, stage: Stage) -> str:
    """The account that a stage's calls are counted on: as configured, else the name of its model. What an effect
    calls is a service of its own: where nothing is said, it counts for itself."""
    if stage.effect is not None and not stage.account and stage.model is None:
        return stage.name
    for name in (stage.account, workflow.account, _model_name(stage.model), _model_name(workflow.model)):
        if name:
            return name
    return "default"


def _model_name(model: Optional[Mapping[str, Value]]) -> str:
    return str(model["name"]) if model and isinstance(model.get("name"), str) else ""
