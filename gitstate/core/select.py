"""Which works a command is about: the same words everywhere (slugs or globs, stage, state, reason, category)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gitstate.core.derive import Status
from gitstate.core.glob import is_glob, translate
from gitstate.core.lease import shard_of
from gitstate.core.plan import Workflow
from gitstate.core.policy import CATEGORIES
from gitstate.errors import UsageError

_VALUES = {
    "state": ("pending", "running", "done", "failed", "paused"),
    "reason": (
        "new",
        "stale",
        "missing",
        "edited",
        "expired",
        "upstream",
        "unverified",
        "exact",
        "accepted",
    ),
    "category": CATEGORIES,
}


class Selection(NamedTuple):
    """What was asked for; an empty part asks for everything."""

    slugs: tuple[str, ...] = ()  # slugs, paths of outputs, folders of outputs, or globs over slugs and paths
    stages: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    shard: tuple[int, int] = (1, 1)  # number, and how many there are; a part of any other selection

    def __bool__(self) -> bool:
        """Whether it names works: a shard alone does not, and may be empty."""
        return any(self[:-1])

    @property
    def is_whole(self) -> bool:
        """Whether it is about everything."""
        return not self and self.shard == (1, 1)

    def options(self) -> list[str]:
        """How it is typed."""
        words = [*self.slugs]
        for name, values in zip(("stage", "state", "reason", "category"), self[1:-1]):
            words += [word for value in values for word in (f"--{name}", value)]
        return words if self.shard == (1, 1) else [*words, "--shard", "{}/{}".format(*self.shard)]


def check(selection: Selection, workflow: Workflow) -> None:
    """Raise UsageError for a word that can never match: an unknown stage, state, reason or category."""
    known = {**_VALUES, "stage": tuple(stage.name for stage in workflow.stages)}
    asked = {
        "stage": selection.stages,
        "state": selection.states,
        "reason": selection.reasons,
        "category": selection.categories,
    }
    for name, words in asked.items():
        for word in words:
            if word not in known[name]:
                near = _nearest(word, known[name])
                other = [option for option, words in known.items() if word in words]
                raise UsageError(
                    f"--{name} {word}: there is no such {name}.",
                    f"Did you mean --{other[0]} {word}?"
                    if other
                    else f"Did you mean {near[0]}?"
                    if near
                    else f"Known: {', '.join(known[name])}.",
                )


def choose(selection: Selection, statuses: Sequence[Status]) -> list[Status]:
    """The statuses that a selection is about, in their order.

    Raises UsageError where a slug or glob, or the selection as a whole, matches nothing.
    """
    chosen = list(statuses)
    if selection.slugs:
        matched: set[int] = set()
        for word in selection.slugs:
            found = _matches(word, statuses)
            if not found:
                near = _nearest(word, {status.slug for status in statuses})
                raise UsageError(
                    f"Nothing in the plan is called {word!r}.",
                    f"Did you mean {near[0]}?" if near else "See: gitstate plan",
                )
            matched |= found
        chosen = [status for number, status in enumerate(statuses) if number in matched]
    chosen = [
        status
        for status in chosen
        if (not selection.stages or status.stage in selection.stages)
        and (not selection.states or status.state in selection.states)
        and (not selection.reasons or status.reason in selection.reasons)
        and (not selection.categories or status.category in selection.categories)
    ]
    if selection and not chosen:
        raise UsageError("The selection matches no work.", "See what there is: gitstate plan --all")
    return in_shard(selection, chosen)


def in_shard(selection: Selection, statuses: Iterable[Status]) -> list[Status]:
    """Those of some statuses that are in the shard of a selection."""
    number, count = selection.shard
    if count == 1:
        return list(statuses)
    return [status for status in statuses if shard_of(status.slug, count) == number]


def with_upstream(workflow: Workflow, chosen: Iterable[Status], statuses: Iterable[Status]) -> list[Status]:
    """The chosen works and those that they need, transitively, in the order of `statuses`."""
    needs = {stage.name: stage.needs for stage in workflow.stages}
    wanted: set[tuple[int, str]] = set()
    todo = [(status.item, status.stage) for status in chosen]
    while todo:
        work = todo.pop()
        if work not in wanted:
            wanted.add(work)
            todo += [(work[0], name) for name in needs[work[1]]]
    return [status for status in statuses if (status.item, status.stage) in wanted]


def along(workflow: Workflow, chosen: Sequence[Status], statuses: Iterable[Status]) -> list[Status]:
    """The works that chosen ones need, and that are neither chosen nor done: whoever does those does them, too."""
    known = {(status.item, status.stage) for status in chosen}
    return [
        status
        for status in with_upstream(workflow, chosen, statuses)
        if status.state != "done" and (status.item, status.stage) not in known
    ]


def _nearest(word: str, known: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # 3 ms, wanted where something was misspelt

    return get_close_matches(word, list(known), 1)


def _matches(word: str, statuses: Sequence[Status]) -> set[int]:
    """The works, by their places, that a word means. What is called just so comes before what its signs could mean."""
    named = {
        number for number, status in enumerate(statuses) if word == status.slug or word in status.outputs
    }
    if is_glob(word) and not named:
        pattern = translate(word)
        return {
            number
            for number, status in enumerate(statuses)
            if pattern.fullmatch(status.slug) or any(map(pattern.fullmatch, status.outputs))
        }
    folder = word.rstrip("/") + "/"
    return named | {
        number
        for number, status in enumerate(statuses)
        if any(path.startswith(folder) for path in status.outputs)
    }
