"""The failure matrix: its cells, what each must come to for each kind of stage, and the judgement of what was seen.

Pure. What a kind of stage promises under a failure stands in `expect` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Optional

from blake3 import blake3

from gitstate.core.identity import Sources
from gitstate.core.plan import Stage, Workflow
from gitstate.core.values import canonical, normal

Kind = Literal["plain", "evidence", "idempotent", "asks"]
Outcome = Literal["pass", "fail", "skipped"]


class Cell(NamedTuple):
    """One way in which a stage is made to fail."""

    name: str
    title: str


CELLS = (
    Cell("killed-before", "killed before the act"),
    Cell("killed-middle", "killed in the middle of it"),
    Cell("killed-after", "killed after it, before the record"),
    Cell("reply-lost", "the reply was lost"),
    Cell("timeout", "a timeout of unknown outcome"),
    Cell("taken-over", "taken over by another clone while slow"),
    Cell("store", "the record store not writable"),
)
KILLS = ("killed-before", "killed-middle", "killed-after")
# Where no answer is to be had: whoever may not guess must ask, and whoever may act again does.
_LOST = ("killed-middle", "reply-lost", "timeout", "taken-over")


class Expected(NamedTuple):
    """What a cell must come to. Besides, always: all is done in the end, no output was ever half there, `verify` holds,
    and the second clone agrees."""

    calls: int  # of the stage's command, at most
    acts: Optional[int]  # in the world, by key where the stage is idempotent; None: it is no effect
    asked: bool  # whether a human is


def kind_of(stage: Stage) -> Kind:
    """How a stage is kept from acting twice. Where it has evidence, that is asked first."""
    if stage.effect is None:
        return "plain"
    if stage.effect.evidence is not None:
        return "evidence"
    return "idempotent" if stage.effect.idempotent else "asks"


def expect(kind: Kind, cell: str) -> Expected:
    """What must come of a failure, by the kind of the stage.

    | kind       | calls                         | acts in the world | a human is asked                       |
    |------------|-------------------------------|-------------------|----------------------------------------|
    | plain      | one more where no answer came | (none)            | never                                  |
    | evidence   | one                           | exactly one       | never                                  |
    | idempotent | one more where no answer came | one, by its key   | never                                  |
    | asks       | one                           | exactly one       | where nobody can tell if it has happened |

    What was killed before its act is like the others to gitstate, which only knows that the command was begun; its
    call was never made, so the next one is the first.
    """
    again = cell in _LOST and kind in ("plain", "idempotent")
    asked = kind == "asks" and (cell in _LOST or cell == "killed-before")
    return Expected(2 if again else 1, None if kind == "plain" else 1, asked)


class OtherWay(NamedTuple):
    """What came of the answer that is not true, given in a copy of the same world."""

    happened: bool  # what was answered
    before: int  # acts in the world until then
    acts: int  # in the end
    undone: tuple[str, ...]


class Seen(NamedTuple):
    """What one cell came to."""

    struck: str  # what the saboteur did; "" where it never came to it
    first: int  # exit code of the run that was sabotaged; negative: the signal
    last: int  # exit code of the last run
    calls: int = 0  # of the sabotaged stage's command
    acts: int = 0  # of it in the world
    others: Mapping[str, int] = {}  # acts in the world of the other effects of the chain
    second: Optional[int] = None  # exit code of the other clone's run, where it took over
    asked: bool = False  # whether a run ended in "needs a human" over it
    undone: tuple[str, ...] = ()  # the works that are not done in the end, with their states
    torn: tuple[str, ...] = ()  # outputs that did not stand as they were recorded in the end
    left: tuple[str, ...] = ()  # what lies about in the end
    verified: int = 0  # exit code of `verify`
    agrees: bool = True  # whether the second clone's `plan --json` is the same
    other_way: Optional[OtherWay] = None
    had_before: bool = False  # whether evidence found an act that this world never saw
    words: str = ""  # the last words of the run that ended worst


class Judged(NamedTuple):
    """One cell, tried: as it stands in the table, in the Markdown and in the JSON."""

    slug: str
    stage: str
    kind: Kind
    cell: str
    expected: str
    seen: str
    result: Outcome
    why: str  # what does not hold, or why it could not be tried
    at: str  # UTC

    @property
    def row(self) -> tuple[str, str]:
        """What makes a row of the matrix."""
        return self.slug, self.stage


def judge(slug: str, stage: str, kind: Kind, cell: str, seen: Seen, at: str) -> Judged:
    """Hold what was seen against what must be."""
    expected = expect(kind, cell)
    skipped = _skipped(cell, seen)
    wrong = [] if skipped else _wrong(expected, cell, seen)
    result: Outcome = "skipped" if skipped else "fail" if wrong else "pass"
    why = skipped or " ".join(wrong)
    if why and seen.words:
        why += f" ({seen.words})"
    return Judged(slug, stage, kind, cell, _expected(expected), _seen(seen, expected), result, why, at)


def _skipped(cell: str, seen: Seen) -> str:
    """Why a cell could not be tried; '' where it was."""
    if not seen.struck:
        return f"It could not be tried: the stage's command never came to it (exit {seen.first})."
    if cell in KILLS and seen.first != -9:
        return f"It could not be tried: the run was not killed and ended in {seen.first}."
    if seen.had_before:
        return "It could not be tried: the world had this act already when the cell began."
    return ""


def _wrong(expected: Expected, cell: str, seen: Seen) -> list[str]:
    """What does not hold, a sentence each."""
    return [*_counted(expected, seen), *_ended(expected, cell, seen), *_standing(seen)]


def _counted(expected: Expected, seen: Seen) -> list[str]:
    wrong = []
    if not 1 <= seen.calls <= expected.calls:
        wrong.append(f"{_count(seen.calls, 'call')} instead of {_most(expected.calls)}.")
    if expected.acts is not None and seen.acts != expected.acts:
        wrong.append(f"{_count(seen.acts, 'act')} in the world instead of {expected.acts}.")
    for name, acts in seen.others.items():
        if acts != 1:
            wrong.append(f"{name}: {_count(acts, 'act')} in the world instead of 1.")
    if seen.other_way is not None:
        happened, before, acts, undone = seen.other_way
        answer, must = ("--happened", before) if happened else ("--did-not-happen", before + 1)
        if acts != must or undone:
            wrong.append(f"Resolved by {answer}, it came to {_count(acts, 'act')} instead of {must}.")
    return wrong


def _ended(expected: Expected, cell: str, seen: Seen) -> list[str]:
    wrong = []
    if cell == "store" and seen.first == 0:
        wrong.append("The run that could not record ended in 0.")
    if expected.asked and not seen.asked:
        wrong.append("No human was asked.")
    if seen.asked and not expected.asked:
        wrong.append("A human was asked.")
    if seen.second not in (None, 0) and not (expected.asked and seen.second == 3):
        wrong.append(f"The clone that took over ended in {seen.second}.")
    if seen.last != 0:
        wrong.append(f"The last run ended in {seen.last}.")
    return wrong


def _standing(seen: Seen) -> list[str]:
    wrong = []
    if seen.undone:
        wrong.append(f"Not done: {', '.join(seen.undone)}.")
    if seen.torn:
        wrong.append(f"Not whole when it was killed: {', '.join(seen.torn)}.")
    if seen.left:
        wrong.append(f"Left over: {', '.join(seen.left)}.")
    if seen.verified != 0:
        wrong.append(f"`verify` ended in {seen.verified}.")
    if not seen.agrees:
        wrong.append("The second clone does not agree.")
    return wrong


def _expected(expected: Expected) -> str:
    parts = [_most(expected.calls)]
    if expected.acts is not None:
        parts.append(_count(expected.acts, "act"))
    return ", ".join([*parts, *(["a human is asked"] if expected.asked else []), "done"])


def _seen(seen: Seen, expected: Expected) -> str:
    if not seen.struck:
        return "-"
    parts = [_count(seen.calls, "call")]
    if expected.acts is not None:
        parts.append(_count(seen.acts, "act"))
    return ", ".join(
        [*parts, *(["a human was asked"] if seen.asked else []), "not done" if seen.undone else "done"]
    )


def _count(count: int, word: str) -> str:
    return f"{count} {word if count == 1 else word + 's'}"


def _most(calls: int) -> str:
    return _count(calls, "call") if calls == 1 else f"at most {_count(calls, 'call')}"


# --- what a pass stands for ---------------------------------------------------------------------------------------


def shape(workflow: Workflow, sources: Sources) -> dict[str, str]:
    """What shapes the stages, by name: a short digest of each. The items are not part of it.

    What stands at its default has no entry, so that a word that a later version learns changes nothing.
    """
    found: dict[str, Any] = {"plan": workflow.source.kind}
    defaults = Workflow._field_defaults
    for name in set(Workflow._fields) - {"path", "source", "stages", "order"}:
        if (value := getattr(workflow, name)) != defaults.get(name, {}):
            found[name] = value
    for stage in workflow.stages:
        for name in set(Stage._fields) - {"name", "place"}:
            if (value := getattr(stage, name)) != Stage._field_defaults.get(name):
                found[f"stages.{stage.name}.{name}"] = [value, _files(stage, name, sources)]
    return {name: blake3(canonical(_plain(value))).hexdigest(6) for name, value in sorted(found.items())}


def _files(stage: Stage, name: str, sources: Sources) -> list[list[str]]:
    """The files behind one word of a stage, with their content."""
    paths: list[str] = []
    if name in ("prompt", "template"):
        path = getattr(stage, name)
        paths = [path, *sources.includes.get(path, ())]
    elif name == "code":
        paths = sorted({path for pattern in stage.code for path in sources.globs[pattern]})
    elif name == "check" and stage.check.json_schema is not None:
        paths = [stage.check.json_schema]
    return [[path, sources.ids[path]] for path in paths]


def _plain(value: Any) -> Any:
    """NamedTuples as lists of those of their fields that are not at their defaults, by name."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        defaults = getattr(type(value), "_field_defaults", {})
        fields = value._asdict()
        return {name: _plain(each) for name, each in fields.items() if each != defaults.get(name)}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return normal(value)


def moved(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of what has changed, came or went, sorted."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def is_full_pass(cells: Sequence[Judged], workflow: Workflow) -> bool:
    """Whether every stage went through every cell, for each of the items, and all of them passed."""
    tried = {(cell.slug, cell.stage, cell.cell) for cell in cells if cell.result == "pass"}
    slugs = {cell.slug for cell in cells}
    wanted = {(slug, stage.name, cell.name) for slug in slugs for stage in workflow.stages for cell in CELLS}
    return bool(cells) and tried == wanted
