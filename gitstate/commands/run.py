"""`gitstate run`: recover, sync, do what is due, record, sync. Resuming is the default; there is no flag for it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Collection
from contextlib import closing
from typing import NamedTuple, Optional

from gitstate import show
from gitstate.commands.clone import Clone
from gitstate.commands.lines import stamp
from gitstate.commands.locked import locked
from gitstate.commands.loop import Loop
from gitstate.commands.plan import to_json
from gitstate.commands.progress import Progress
from gitstate.commands.recovery import recover as recover_attempts
from gitstate.commands.restore import restore
from gitstate.commands.session import Session, Settled
from gitstate.commands.status import LAST_RUN
from gitstate.commands.syncing import Syncing
from gitstate.commands.target import Target, target
from gitstate.core import schedule, select
from gitstate.core.derive import Status
from gitstate.core.material import stage_sources
from gitstate.core.schedule import Agenda
from gitstate.core.select import Selection
from gitstate.core.snapshot import WorkKey
from gitstate.edge.attempts import Attempts
from gitstate.edge.git import Git
from gitstate.edge.jobs import OWN_NAMES, schema_of
from gitstate.edge.protect import check_outputs
from gitstate.errors import ConfigError, NeedsHuman, UsageError


class Options(NamedTuple):
    """What `run` was asked to do."""

    selection: Selection = Selection()
    jobs: int = 1
    redo: bool = False
    retry_failed: bool = False
    limit: Optional[int] = None
    offline: bool = False
    push: str = "group"  # group, end or never
    branch: str = ""
    plan: str = ""
    lock_timeout: str = "0"
    allow_dirty: bool = False


def run(config: str, options: Options) -> int:
    """Do what is due. Returns the exit code: 0, 1 (works failed), 3 (works left for a human), 75 or 130."""
    if options.redo and not options.selection and not options.plan:
        raise UsageError("--redo wants a selection.", "Name the slugs, or a --stage, to do again.")
    with locked(config, options.lock_timeout) as clone:
        stop = Stop()
        with stop:
            code = _run(clone, options, target(clone, options.branch), stop)
        root = clone.repository.root
    # Many small objects are what a run leaves. Without the lock: git's clean-up may go on behind our back.
    Git(root).run("gc", "--auto", "--quiet", check=False)
    return code


def recover(config: str, lock_timeout: str) -> int:
    """Finish what killed runs left, each on the branch that it was for. Returns 0, or 3 where something waits for a
    human."""
    found: list[Settled] = []
    waits = False
    with locked(config, lock_timeout) as clone:
        here = target(clone, "")
        begun = {intent.branch for intent in Attempts(clone.repository.state).intents()}
        for branch in sorted({here.branch, *begun} - {""}):
            try:
                # (one that is gone by now: on the branch here)
                aim = target(clone, branch) if clone.objects.resolve(branch) else here
            except UsageError as error:  # checked out in another working tree
                show.story(f"What was begun for {show.safe(branch)} waits: {error.message}")
                waits = True
                continue
            with closing(Session(clone, aim.branch, aim.checked_out)) as session:
                found += recover_attempts(session, branch)
    if not found and not waits:
        show.story("Nothing to recover.")
    return 3 if waits or any(work.how == "in_the_way" for work in found) else 0


def _run(clone: Clone, options: Options, aim: Target, stop: Stop) -> int:
    syncing = Syncing(clone, aim, options.push, options.offline)
    syncing.begin()
    with closing(Session(clone, aim.branch, aim.checked_out)) as session:
        syncing.session = session
        return _work(session, syncing, options, stop)


def _work(session: Session, syncing: Syncing, options: Options, stop: Stop) -> int:
    waiting = {
        (work.intent.slug, work.intent.stage)
        for work in recover_attempts(session)
        if work.how == "in_the_way"
    }
    agenda, redo = _agenda(session, options)
    works = [s for s in (*agenda.due, *agenda.waiting) if (s.slug, s.stage) not in waiting]
    progress = Progress(len(works), options.jobs)
    syncing.progress = progress
    loop = Loop(session, syncing, progress, options, redo, stop)
    try:
        restored = restore(session, [s for s in agenda.due if (s.slug, s.stage) not in redo], progress)
        loop.go([s for s in works if (s.slug, s.stage) not in restored])
    finally:
        progress.end()
    syncing.end()
    return _conclude(session, agenda, progress, loop, syncing, len(waiting), stop)


def _agenda(session: Session, options: Options) -> tuple[Agenda, frozenset[WorkKey]]:
    """The selected works by what is to be done about them, once nothing stands in the way of doing it.

    With them those that are to be done again whatever stands there.
    """
    view = session.view
    workflow = view.plan.workflow
    select.check(options.selection, workflow)
    if not view.plan.items:
        raise UsageError(
            "The plan has no items, so there is nothing to do.", f"Add items to {workflow.source.path}."
        )
    if view.snapshot.dirty and not options.allow_dirty:
        names = ", ".join(view.snapshot.dirty[:10]) + (" …" if len(view.snapshot.dirty) > 10 else "")
        raise UsageError(
            f"Not committed as it stands: {names}.",
            "Commit it, so that others can know what shaped the outputs; or use --allow-dirty.",
        )
    if view.snapshot.dirty:
        view.sources.store(view.snapshot.dirty)
    _prepare(session)
    statuses = list(session.statuses.values())
    chosen = (
        _saved(options.plan, session, statuses)
        if options.plan
        else select.choose(session.clone.words(options.selection), statuses)
    )
    redo = frozenset((s.slug, s.stage) for s in chosen) if options.redo else frozenset()
    if options.selection:
        chosen = select.with_upstream(workflow, chosen, statuses)
    agenda = schedule.agenda(workflow, chosen, redo=redo, retry_failed=options.retry_failed)
    check_outputs(session.clone.repository, session.clone.git, [*agenda.due, *agenda.waiting])
    return agenda, redo


def _prepare(session: Session) -> None:
    """Compile and parse all that the stages use, so that what is broken is known before anything is paid."""
    view, problems = session.view, []
    fields = {name for item in view.plan.items for name in item.fields}
    for stage in view.plan.workflow.stages:
        known: dict[str, Collection[str] | None] = dict.fromkeys((*fields, *OWN_NAMES))
        model = stage.model if stage.model is not None else view.plan.workflow.model
        known.update(item=fields, vars=view.plan.workflow.vars, model=model, needs=stage.needs)
        try:
            session.jobs.prepare(stage, stage_sources(view.identity, stage), known)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    for stage in view.plan.workflow.stages:
        if path := stage.check.json_schema:
            schema_of(view.sources.text, path)


def _saved(path: str, session: Session, statuses: list[Status]) -> list[Status]:
    """The works of a saved plan, if the world is still as it was when it was saved."""
    try:
        with open(path, encoding="ascii") as file:
            saved = json.load(file)
        works = [(work["slug"], work["stage"]) for work in saved["work"]]
        now = {(status.slug, status.stage): status for status in statuses}
        chosen = [now[work] for work in works if work in now]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a saved plan ({error}).", f"Save one: gitstate plan --out {path}"
        ) from error
    if json.loads(to_json(session.view, chosen)) != saved:
        raise NeedsHuman(
            "The world has moved since this plan was saved, so it is not run.",
            f"Look again: gitstate plan --out {path}",
        )
    return chosen


def _conclude(
    session: Session,
    agenda: Agenda,
    progress: Progress,
    loop: Loop,
    syncing: Syncing,
    waiting: int,
    stop: Stop,
) -> int:
    """Say what this run did, keep it for `status`, and find the exit code."""
    failed = progress.failed + len(agenda.failed)
    left = len(agenda.protected) + progress.left + waiting
    code = (
        130 if stop.is_set() else 1 if failed else 3 if left or loop.disturbed else 75 if syncing.away else 0
    )
    fields = {
        "at": stamp(),
        "done": progress.done,
        "restored": progress.restored,
        "failed": progress.failed,
        "left": left,
        "unfinished": loop.unfinished,
        "dropped": loop.dropped,
        "seconds": round(progress.clock() - progress.began, 1),
        "usd": round(progress.usd, 6),
        "code": code,
    }
    for line in show.run_end(fields, agenda, len(agenda.done), syncing.away):
        show.story(line)
    try:
        with open(os.path.join(session.clone.repository.state, LAST_RUN), "w", encoding="utf-8") as file:
            json.dump(fields, file)
    except OSError:
        pass  # a convenience for `status`; the record of what is done stands elsewhere
    return code


class Stop:
    """An orderly end on SIGINT, SIGTERM and SIGHUP: nothing new starts, commands are ended, what has come is recorded.

    A second signal hurries: the commands are killed at once. A context manager that puts the handlers back.
    """

    def __init__(self) -> None:
        self.cancel = threading.Event()
        self.hurry = threading.Event()
        self._before: dict[int, object] = {}

    def is_set(self) -> bool:
        """Whether an end was asked for."""
        return self.cancel.is_set()

    def __enter__(self) -> Stop:
        numbers = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # else: nohup
            numbers.append(signal.SIGHUP)
        for number in numbers:
            self._before[number] = signal.signal(number, self._asked)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _asked(self, number: int, frame: object) -> None:
        if self.cancel.is_set():
            self.hurry.set()
        self.cancel.set()
