"""`gitstate run`: recover, sync, do what is due, record, sync. Resuming is the default; there is no flag for it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple, Optional

from gitstate import show
from gitstate.commands.acts import Acts
from gitstate.commands.claiming import Claiming
from gitstate.commands.clone import Clone, utc_now
from gitstate.commands.ending import Ended, conclude
from gitstate.commands.locked import locked
from gitstate.commands.loop import Loop
from gitstate.commands.notifying import notify
from gitstate.commands.plan import to_json
from gitstate.commands.pooling import open_pool, pack
from gitstate.commands.probing import Answer, ask
from gitstate.commands.progress import Progress
from gitstate.commands.reacting import Reactions, first_reaction
from gitstate.commands.recovery import meet
from gitstate.commands.recovery import recover as recover_attempts
from gitstate.commands.restore import restore
from gitstate.commands.session import Session
from gitstate.commands.settling import Settled
from gitstate.commands.stopping import Stop
from gitstate.commands.syncing import Syncing
from gitstate.commands.target import Target, require_sources, target
from gitstate.commands.waiting import wait_until
from gitstate.commands.windows import Look, Windows
from gitstate.core import budget, schedule, select
from gitstate.core.breaker import IN_A_ROW, Breaker
from gitstate.core.budget import Budget, Purse, Spent
from gitstate.core.derive import Status
from gitstate.core.material import stage_sources
from gitstate.core.pause import stamp
from gitstate.core.plan import account_of
from gitstate.core.schedule import Agenda
from gitstate.core.select import Selection
from gitstate.core.snapshot import WorkKey
from gitstate.core.summary import Price
from gitstate.core.verdict import Failed
from gitstate.edge.clock import Clock
from gitstate.edge.git import Git
from gitstate.edge.jobs import OWN_NAMES, schema_of
from gitstate.edge.pauses import Pauses
from gitstate.edge.protect import check_outputs
from gitstate.edge.remote import names
from gitstate.errors import ComeBackLater, ConfigError, GitstateError, NeedsHuman, UsageError


class Options(NamedTuple):
    """What `run` was asked to do."""

    selection: Selection = Selection()
    jobs: int = 0  # 0: one, or as many as the executor has cores
    redo: bool = False
    retry_failed: bool = False
    limit: Optional[int] = None
    budget: str = ""
    breaker: int = IN_A_ROW
    wait: bool = False
    claim: bool = False
    offline: bool = False
    push: str = "group"  # work, group, end or never
    branch: str = ""
    plan: str = ""
    lock_timeout: str = "0"
    allow_dirty: bool = False
    executor: str = ""  # dask:ADDRESS or MODULE:FACTORY; without one commands run here


def run(config: str, options: Options, clock: Optional[Clock] = None) -> int:
    """Do what is due, and with `wait` again whenever a closed window may have opened.

    Returns the exit code: 0, 1 (works failed), 3 (works left for a human), 75 (paused, or the remote is away) or 130.
    """
    if options.redo and not options.selection and not options.plan:
        raise UsageError("--redo wants a selection.", "Name the slugs, or a --stage, to do again.")
    if options.plan and options.selection:
        words = show.safe(shlex.join([*options.selection.options(), "--out", options.plan]))
        raise UsageError(
            "--plan runs exactly the works of that plan, and takes no selection of others.",
            f"Save what you want to run: gitstate plan {words}",
        )
    clock = clock or Clock()
    spending = Spending(_budget(options.budget))
    patience = options.lock_timeout
    while True:
        with locked(config, patience) as clone:
            stop = Stop()
            with stop, _telling(clone):
                ended = _run(clone, options, target(clone, options.branch), stop, spending, clock)
            repository = clone.repository
        # Many small objects are what a run leaves. Without the lock: git's clean-up may go on behind our back.
        Git(repository.root).run("gc", "--auto", "--quiet", check=False)
        with Stop() as stop:
            if ended.notify is not None:
                notify(ended.notify, ended.fields, ended.message, repository.root, repository.state)
            if stop.is_set():
                return 130
            if not options.wait or ended.look is None or ended.fields["code"] != 75:
                return int(ended.fields["code"])
            if not wait_until(ended.look, ended.message, stop.cancel, clock):
                return 130
        patience = _NIGHT  # somebody who works here just then is no reason to give up the night


_NIGHT = "12h"


@contextmanager
def _telling(clone: Clone) -> Iterator[None]:
    """Tells somebody of a run that ends in an error, too, where a command for that can be read."""
    try:
        yield
    except (GitstateError, OSError) as error:
        command = None
        with suppress(GitstateError, OSError):
            command = clone.view().plan.workflow.notify
            if command is not None:
                code = error.exit_code if isinstance(error, GitstateError) else NeedsHuman.exit_code
                fields, root = {"at": stamp(utc_now()), "code": code}, clone.repository.root
                notify(command, fields, show.first_words(str(error)), root, clone.repository.state)
        raise


def _budget(text: str) -> Optional[Budget]:
    try:
        return budget.parse(text) if text else None
    except ValueError as error:
        raise UsageError(f"--budget: {error}.") from error


class Spending:
    """What one run has spent and begun, over all its rounds."""

    def __init__(self, budget: Optional[Budget]) -> None:
        self.budget = budget
        self.purse: Optional[Purse] = None
        self.begun: set[WorkKey] = set()

    def open(self, session: Session) -> Purse:
        """The purse, made in the first round: with what the command line allows, else the configuration."""
        if self.purse is None:
            limit = self.budget or session.view.plan.workflow.budget or Budget()
            known = session.clone.prices(session.view) if limit != Budget() else {}
            self.purse = Purse(limit, {stage: _mean(price) for stage, price in known.items()})
        return self.purse


def _mean(price: Price) -> Spent:
    usd = price.usd / price.priced if price.priced else None
    return Spent(usd, round(price.tokens / price.works) if price.tokens and price.works else None)


def _run(clone: Clone, options: Options, aim: Target, stop: Stop, spending: Spending, clock: Clock) -> Ended:
    syncing = Syncing(clone, aim, options.push, options.offline)
    _, recovered = meet(clone, aim, syncing.begin)
    with closing(Session(clone, aim.branch, aim.checked_out)) as session:
        syncing.session = session
        if session.tip is not None and not aim.checked_out:
            require_sources(clone, session.view, session.tip)
        recovered += recover_attempts(session)
        shares = options.claim or session.view.plan.workflow.coordinate is not None
        syncing.shares = shares
        there = syncing.reachable if shares else None
        if there is None:
            refusal = _cannot_claim(clone, syncing, options) if shares else None
            return _work(session, syncing, options, stop, spending, clock, recovered, refusal)
        syncing.claiming = Claiming(session, syncing, there, clock)
        with syncing.claiming:
            return _work(session, syncing, options, stop, spending, clock, recovered)


def _work(
    session: Session,
    syncing: Syncing,
    options: Options,
    stop: Stop,
    spending: Spending,
    clock: Clock,
    recovered: Sequence[Settled],
    refusal: Optional[GitstateError] = None,
) -> Ended:
    """`refusal`: why works cannot be claimed that should be; raised where any is to be done."""
    claiming = syncing.claiming
    waiting = {(work.intent.slug, work.intent.stage) for work in recovered if work.how == "in_the_way"}
    acts = Acts(session, syncing, clock)
    if options.executor:
        pack(session)
    if any(status.reason == "unverified" for status in session.statuses.values()):
        syncing.look_again()
    agenda, redo, again = _agenda(session, acts, options, clock)
    if claiming is not None:
        agenda = _left_to_others(agenda, claiming)
    works = [s for s in (*agenda.due, *agenda.waiting) if (s.slug, s.stage) not in waiting]
    if works and refusal is not None:
        raise refusal
    if options.executor and works:
        open_pool(session, options.executor, works)
    options = options._replace(jobs=options.jobs or (session.pool.cores if session.pool else 0) or 1)
    progress = Progress(len(works), options.jobs)
    syncing.progress = progress
    session.guard.clock, session.guard.say = clock, progress.story
    reactions = Reactions(lambda: session.stages, Breaker(options.breaker), clock.now, clock.elapsed)
    windows = _windows(session, syncing, stop, clock)
    for work in recovered:
        if (
            work.failed is not None
            and first_reaction(work.failed, work.intent.stage, session.stages).do == "pause_run"
        ):
            windows.shut(
                account_of(session.view.plan.workflow, session.stages[work.intent.stage]), work.failed
            )
    loop = Loop(
        session,
        syncing,
        progress,
        options,
        redo,
        again,
        stop,
        reactions,
        windows,
        spending.open(session),
        acts,
        claiming,
    )
    loop.begun = spending.begun
    try:
        # (what is shared is restored once it is claimed, one by one)
        free = [s for s in agenda.due if (s.slug, s.stage) not in redo and claiming is None]
        restored = restore(session, free, progress)
        due = [s for s in works if (s.slug, s.stage) not in restored]
        workflow = session.view.plan.workflow
        windows.begin(account_of(workflow, session.stages[name]) for name in {status.stage for status in due})
        loop.go(due)
    finally:
        session.guard.end()
        progress.end()
    if claiming is not None:
        claiming.open = tuple
    syncing.end()
    return conclude(session, agenda, progress, loop, syncing, len(waiting), stop)


def _left_to_others(agenda: Agenda, claiming: Claiming) -> Agenda:
    """The same, without calling nobody's what another machine is at work on: it waits for what that one brings."""
    theirs = tuple(s for s in agenda.protected if s.reason == "unverified" and claiming.is_others(s.slug))
    rest = tuple(status for status in agenda.protected if status not in theirs)
    return agenda._replace(protected=rest, waiting=(*agenda.waiting, *theirs))


def _cannot_claim(clone: Clone, syncing: Syncing, options: Options) -> Optional[GitstateError]:
    """Why nothing can be claimed on a remote that is not to be asked, or is none; None where nobody else can be at work
    and nobody asked for it here."""
    there, why_away = syncing.there, syncing.why_away
    if there is None:
        remotes = names(clone.git)
        if not remotes and not options.claim:
            return None
        why = show.alone(syncing.aim.branch, remotes)
        return UsageError(
            f"Works are claimed on a remote before they begin, and nothing was begun: {why}",
            ""
            if remotes
            else "Add one: git remote add origin URL; or leave --claim out, where nobody else is at work.",
        )
    why = "nothing is to be pushed (--push never)"
    if options.offline:
        why = "it is not to be asked (--offline)"
    elif why_away:
        why = "that cannot be now"
    return ComeBackLater(
        f"Works are claimed on {there.name} before they begin, and {why}: nothing was begun.\n{why_away}".rstrip(),
        "Run again when that is over; what is finished here is safe.",
    )


def _windows(session: Session, syncing: Syncing, stop: Stop, clock: Clock) -> Windows:
    """The gates of this run, and how to look behind them."""
    clone, workflow = session.clone, session.view.plan.workflow
    look: Optional[Look] = None
    if workflow.probe is not None:

        def look(account: str) -> tuple[Answer, Optional[Failed]]:
            return ask(workflow, account, session.root, session.scratch, clock.now(), stop.cancel)

    pauses = Pauses(clone.git, clone.objects, syncing.reachable)
    pauses.deliver()  # what an earlier run could not tell the others
    return Windows(pauses, look, clock.now)


def _agenda(
    session: Session, acts: Acts, options: Options, clock: Clock
) -> tuple[Agenda, frozenset[WorkKey], frozenset[WorkKey]]:
    """The selected works by what is to be done about them, once nothing stands in the way of doing it.

    With them those that are to be done again whatever stands there, and those to take up although they failed.
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
        select.in_shard(options.selection, _saved(options.plan, session, statuses))
        if options.plan
        else _chosen(session, options.selection, statuses)
    )
    redo = frozenset((s.slug, s.stage) for s in chosen) if options.redo else frozenset()
    if options.selection:
        chosen = select.with_upstream(workflow, chosen, statuses)
    again = schedule.taken_up(statuses, session.verdicts, stamp(clock.now()))
    if (
        options.retry_failed
        or {"failed", "paused"} & {*options.selection.states}
        or options.selection.categories
    ):
        again |= {(s.slug, s.stage) for s in chosen if s.state in ("failed", "paused")}
    # What only a person can say is not to be had by trying again.
    again = frozenset(
        key for key in again if acts.step(session.statuses[key], key in redo) not in ("human", "leave")
    )
    agenda = schedule.agenda(workflow, chosen, redo=redo, again=again, acts=session.acts.keys())
    check_outputs(session.clone.repository, session.clone.git, [*agenda.due, *agenda.waiting])
    return agenda, redo, again


def _chosen(session: Session, selection: Selection, statuses: list[Status]) -> list[Status]:
    """The selected works. To the words of a selection what waits for a closed window is paused, as `plan` shows it."""
    workflow = session.view.plan.workflow
    closed = {stage.name for stage in workflow.stages if account_of(workflow, stage) in session.paused}
    shown = [
        s._replace(state="paused", category="quota") if schedule.is_due(s) and s.stage in closed else s
        for s in statuses
    ]
    chosen = {(s.slug, s.stage) for s in select.choose(session.clone.words(selection), shown)}
    return [s for s in statuses if (s.slug, s.stage) in chosen]


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
