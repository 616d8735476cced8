"""`gitstate drill`: the user's own workflow through every failure, in throw-away clones, with a verdict on each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional, TypeVar

from gitstate import show
from gitstate.commands import drill_table
from gitstate.commands.clone import CONFIG, Clone, statuses_of, utc_now
from gitstate.commands.lines import stamp
from gitstate.commands.stopping import Stop
from gitstate.commands.trial import Chain, try_cell, undisturbed
from gitstate.core import select
from gitstate.core.derive import Status
from gitstate.core.drill import CELLS, Judged, is_full_pass, moved, shape
from gitstate.core.plan import Item, Stage
from gitstate.core.sabotage import narrowed
from gitstate.core.select import Selection
from gitstate.edge.git import Git
from gitstate.edge.repo import Repository, find
from gitstate.edge.snapshot import View
from gitstate.edge.throwaway import Throwaway
from gitstate.edge.yaml12 import parse
from gitstate.errors import GitstateError, UsageError

_PLAN = "gitstate-drill.jsonl"  # the one item, in the throw-away clones
_WAKE = 0.2  # seconds between looks for an interrupt
T = TypeVar("T")


class Options(NamedTuple):
    """What `drill` was asked to do."""

    slugs: tuple[str, ...] = ()
    items: int = 1
    stages: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    real: bool = False
    keep: bool = False
    jobs: int = 2
    out: tuple[str, ...] = ()
    check: str = ""


def drill(config: str = CONFIG, options: Options = Options()) -> int:
    """Try the matrix, print it and write it where asked. Returns 0, or 1 where a cell failed.

    With `check` nothing is tried: 0 if the workflow is as it was in that full pass, 1 if not.
    """
    _look(options)
    repository = find(".")
    with Stop() as stop, _interruptible(stop), Throwaway(repository, options.real, options.keep) as place:
        try:
            place.take()
            _require(place, config)
            with Clone(place.seed, config) as clone:
                view = clone.view()
                workflow = view.plan.workflow
                now = shape(workflow, view.identity.sources)
                if options.check:
                    return _check(options, now)
                _tell_dirty(repository)
                chains = _chains(clone, view, place, options)
            cells = _Pool(place, stop, 1 if options.real else options.jobs).matrix(chains, options)
        finally:
            if options.keep:
                show.story(f"The clones are kept: {place.folder}")
    heading = drill_table.heading(stamp(), options.real, is_full_pass(cells, workflow), now)
    for line in drill_table.lines(cells):
        show.tell(line)
    show.tell(drill_table.summary(cells))
    _write(options.out, cells, heading)
    return 1 if any(cell.result == "fail" for cell in cells) else 0


@contextmanager
def _interruptible(stop: Stop) -> Iterator[None]:
    """What a git that was interrupted, too, complains of is no error."""
    try:
        yield
    except (GitstateError, OSError):
        if stop.is_set():
            raise KeyboardInterrupt from None
        raise


def _look(options: Options) -> None:
    """Raise UsageError for words that mean nothing, before anything is done."""
    for path in options.out:
        if os.path.splitext(path)[1] not in (".md", ".json"):
            raise UsageError(f"--out {path}: nobody can tell in which form.", "End it in .md or .json.")
    known = [cell.name for cell in CELLS]
    for name in options.cells:
        if name not in known:
            raise UsageError(f"--cell {name}: there is no such cell.", f"Known: {', '.join(known)}.")


def _require(place: Throwaway, config: str) -> None:
    if not os.path.isfile(os.path.join(place.seed, config)):
        raise UsageError(f"{config} is not committed.", "The drill goes by what is committed: commit it.")


def _tell_dirty(repository: Repository) -> None:
    status = Git(repository.root).text("status", "--porcelain", "--untracked-files=no", check=False)
    if status:
        show.story("Drilled is what is committed; changes that are not committed are left out.")


# --- what is drilled ----------------------------------------------------------------------------------------------


def _chains(clone: Clone, view: View, place: Throwaway, options: Options) -> list[Chain]:
    """The items that go through the matrix, each with the one commit that its worlds begin with."""
    workflow = view.plan.workflow
    select.check(Selection(stages=options.stages), workflow)
    if not view.plan.items:
        raise UsageError("The plan has no items, so there is nothing to drill.", "Add one.")
    statuses = statuses_of(view, utc_now())
    text = view.sources.text(workflow.path) or b""
    document = parse(text.decode("utf-8-sig"), workflow.path)
    assert document.root is not None
    data: Any = document.value(document.root)
    chains = []
    for number, index in enumerate(_items(statuses, options), 1):
        item, name = view.plan.items[index], f"item-{number}"
        own = [status for status in statuses if status.item == index]
        outputs = tuple(path for status in own for path in status.outputs)
        plan, content = narrowed(workflow.source, item, _PLAN)
        place.plant(f"{name}.git", {} if content is None else {_PLAN: content}, outputs)
        material = {
            stage.name: _material(clone, view, place, statuses, item, stage, number)
            for stage in workflow.stages
        }
        chains.append(
            Chain(
                place, name, workflow.path, data, plan, item.slug, workflow.stages, outputs, material,
                options.real,
            )
        )  # fmt: skip
    return chains


def _items(statuses: Sequence[Status], options: Options) -> list[int]:
    """The items to drill: of the chosen ones those first of which most is done, so that there is most to replay."""
    chosen = select.choose(Selection(slugs=options.slugs), statuses)
    done = dict.fromkeys([status.item for status in chosen], 0)
    for status in statuses:
        if status.item in done:
            done[status.item] += status.state == "done"
    return sorted(sorted(done, key=lambda item: -done[item])[: options.items])


def _material(
    clone: Clone,
    view: View,
    place: Throwaway,
    statuses: Sequence[Status],
    item: Item,
    stage: Stage,
    number: int,
) -> list[str]:
    """Files with what a stage's stand-in answers: this work's outputs as recorded, else those of another item's, else
    a line of text."""
    done = [s for s in statuses if s.stage == stage.name and s.state == "done"]
    done.sort(key=lambda status: status.slug != item.slug)
    contents = [f"A stand-in for the {stage.name} of {item.slug}.\n".encode() for _ in stage.outputs]
    for status in done[:1]:
        found = clone.objects.read_many([view.snapshot.tree[path] for path in status.outputs])
        contents = [new[1] if new is not None else old for old, new in zip(contents, found)]
    return [
        place.keep(f"item-{number}-{stage.name}-{n}.material", each) for n, each in enumerate(contents, 1)
    ]


# --- trying it ----------------------------------------------------------------------------------------------------


class _Pool:
    """Threads that try cells, and an eye on whoever wants it to end."""

    def __init__(self, place: Throwaway, stop: Stop, jobs: int) -> None:
        self._place, self._stop, self._jobs = place, stop, jobs

    def matrix(self, chains: Sequence[Chain], options: Options) -> list[Judged]:
        """All cells that were asked for, in the order of the table. Raises KeyboardInterrupt."""
        with ThreadPoolExecutor(self._jobs) as pool:
            show.story("Letting everything go well once …")
            ready = self._all([pool.submit(undisturbed, chain) for chain in chains])
            futures = [
                pool.submit(try_cell, chain, stage, cell.name)
                for chain in ready
                for stage in chain.stages
                if not options.stages or stage.name in options.stages
                for cell in CELLS
                if not options.cells or cell.name in options.cells
            ]
            return self._all(futures, self._tell)

    def _tell(self, number: int, total: int, cell: Judged) -> None:
        show.story(f"{number}/{total} {show.safe(cell.slug)}/{cell.stage} {cell.cell}: {cell.result}")

    def _all(self, futures: Sequence[Future[T]], tell: Optional[Any] = None) -> list[T]:
        waiting = set(futures)
        try:
            while waiting:
                ended, waiting = wait(waiting, _WAKE, FIRST_COMPLETED)
                if self._stop.is_set():
                    raise KeyboardInterrupt
                for number, future in enumerate(ended, 1):
                    found = future.result()
                    if tell is not None:
                        tell(len(futures) - len(waiting) - len(ended) + number, len(futures), found)
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            self._place.end()
            raise


# --- what is left of it -------------------------------------------------------------------------------------------


def _write(paths: Sequence[str], cells: Sequence[Judged], heading: Mapping[str, Any]) -> None:
    for path in paths:
        form = drill_table.to_json if path.endswith(".json") else drill_table.markdown
        try:
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(form(cells, heading))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}.", "Name a file that can be written.") from error


def _check(options: Options, now: Mapping[str, str]) -> int:
    """Whether a drill that was written down still speaks for the workflow."""
    path = options.check
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
        before = {str(name): str(digest) for name, digest in fields["workflow"].items()}
        real, full, at = bool(fields["real"]), bool(fields["full_pass"]), str(fields["at"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a drill that was written down ({error}).",
            f"Write one: gitstate drill --out {path}",
        ) from error
    found = []
    if not full:
        found.append("It was no full pass.")
    if real != options.real:
        found.append(f"It was tried {'with' if real else 'without'} --real.")
    if names := moved(before, now):
        found.append(f"Changed since: {', '.join(names)}.")
    for line in found:
        show.tell(line)
    if found:
        show.tell(f"Drill again: gitstate drill{' --real' if options.real else ''} --out {path}")
        return 1
    show.tell(f"The workflow is as it was drilled, {at}.")
    return 0
