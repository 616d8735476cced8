"""The commands about a plan's works: what stands, what is to be done, and what a person says of it."""

from __future__ import annotations

import enum
from typing import Annotated, Optional

import typer

from gitstate.cli.options import (
    Categories,
    Config,
    Json,
    LockTimeout,
    Reasons,
    Shard,
    Slugs,
    Stages,
    States,
    Why,
    cli,
    selection_of,
)
from gitstate.errors import UsageError


class Push(str, enum.Enum):
    """When `run` pushes: each work before the next begins, what is finished now and then, or all at the end."""

    work = "work"
    group = "group"
    end = "end"
    never = "never"


@cli.command()
def plan(
    slugs: Slugs = None,
    stage: Stages = None,
    state: States = None,
    reason: Reasons = None,
    category: Categories = None,
    shard: Shard = "",
    branch: Annotated[
        str, typer.Option("--branch", help="By what is recorded on this branch, as with `run --branch`.")
    ] = "",
    config: Config = "gitstate.yaml",
    json: Json = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 4 if work is due.")] = False,
    all: Annotated[bool, typer.Option("--all", help="Name every open work, however many.")] = False,
    out: Annotated[str, typer.Option("--out", help="Save the plan to this file, for `run --plan`.")] = "",
) -> int:
    """Show what is done, what is not and why; what `run` would do, and its price. Never touches the network."""
    from gitstate.commands.clone import Clone
    from gitstate.commands.plan import plan

    with Clone(config=config) as clone:
        return plan(
            clone,
            selection=selection_of(slugs, stage, state, reason, category, shard),
            branch=branch,
            as_json=json,
            exit_code=exit_code,
            all=all,
            out=out,
        )


@cli.command()
def run(
    slugs: Slugs = None,
    stage: Stages = None,
    state: States = None,
    reason: Reasons = None,
    category: Categories = None,
    config: Config = "gitstate.yaml",
    jobs: Annotated[
        Optional[int], typer.Option("-j", "--jobs", min=1, help="Works to do at once.  [default: 1]")
    ] = None,
    redo: Annotated[
        bool, typer.Option("--redo", help="Do the selected works again, whatever stands there.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Take up failed works again.")] = False,
    limit: Annotated[
        Optional[int], typer.Option("--limit", min=1, help="Stop after this many works.")
    ] = None,
    shard: Shard = "",
    budget: Annotated[
        str, typer.Option("--budget", help="Stop before the next work would pass it: 5usd, 200000tokens.")
    ] = "",
    breaker: Annotated[
        int, typer.Option("--breaker", min=0, help="Stop after this many equal failures in a row; 0: never.")
    ] = 3,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for closed quota windows, and for what others hold.")
    ] = False,
    claim: Annotated[
        bool, typer.Option("--claim", help="Claim works on the remote, so that others may run at once.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Neither fetch nor push.")] = False,
    push: Annotated[
        Push,
        typer.Option(
            "--push", help="When to push: each work before the next begins, every 10 s or so, at the end."
        ),
    ] = Push.group,
    branch: Annotated[
        str, typer.Option("--branch", help="Record on this branch instead of the one checked out.")
    ] = "",
    plan: Annotated[str, typer.Option("--plan", help="Run exactly this saved plan, or refuse.")] = "",
    lock_timeout: LockTimeout = "0",
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Use sources that are not committed.")
    ] = False,
    executor: Annotated[
        str,
        typer.Option(
            "--executor", help="Run commands on a pool: dask:ADDRESS, or MODULE:FACTORY for another."
        ),
    ] = "",
) -> int:
    """Recover, sync, do what is due, record, sync. Resuming is the default."""
    from gitstate.commands.run import Options, run

    options = Options(
        selection=selection_of(slugs, stage, state, reason, category, shard),
        jobs=jobs or 0,
        redo=redo,
        retry_failed=retry_failed,
        limit=limit,
        budget=budget,
        breaker=breaker,
        wait=wait,
        claim=claim,
        offline=offline,
        push=push.value,
        branch=branch,
        plan=plan,
        lock_timeout=lock_timeout,
        allow_dirty=allow_dirty,
        executor=executor,
    )
    return run(config, options)


@cli.command()
def status(
    resume: Annotated[
        str,
        typer.Option("--resume", help="All that is known of one slug, and what the next run does about it."),
    ] = "",
    stage: Stages = None,
    ask: Annotated[
        bool,
        typer.Option("--ask", help="With --resume: run the evidence command now. Nothing of it is recorded."),
    ] = False,
    config: Config = "gitstate.yaml",
    json: Json = False,
) -> int:
    """One screen: counts by group and stage, what is going on, and the last run."""
    from gitstate.commands.clone import Clone

    if not resume and (stage or ask):
        raise UsageError(
            "--stage and --ask belong to --resume.", "Name a slug: gitstate status --resume SLUG"
        )
    with Clone(config=config) as clone:
        if resume:
            from gitstate.commands.resume import resume as resume_

            return resume_(clone, resume, tuple(stage or ()), ask=ask, as_json=json)
        from gitstate.commands.status import status

        return status(clone, as_json=json)


@cli.command()
def why(
    what: Annotated[str, typer.Argument(help="A slug, or the path of an output.", show_default=False)],
    stage: Stages = None,
    config: Config = "gitstate.yaml",
    json: Json = False,
) -> int:
    """Everything about one slug or path: components then and now, receipts, attempts, spend."""
    from gitstate.commands.clone import Clone
    from gitstate.commands.why import why

    with Clone(config=config) as clone:
        return why(clone, what, tuple(stage or ()), as_json=json)


@cli.command()
def verify(
    config: Config = "gitstate.yaml",
    json: Json = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Set aside lines of notes that are not whole.")
    ] = False,
) -> int:
    """Check every promise that can be checked on this clone; for CI."""
    from gitstate.commands.clone import Clone
    from gitstate.commands.verify import verify

    with Clone(config=config) as clone:
        return verify(clone, as_json=json, repair=repair)


@cli.command()
def sync(
    config: Config = "gitstate.yaml",
    branch: Annotated[
        str, typer.Option("--branch", help="Sync this branch instead of the one checked out.")
    ] = "",
    lock_timeout: LockTimeout = "0",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would come and go. Fetches, and changes nothing else.")
    ] = False,
) -> int:
    """Fetch, merge and push: branch and notes."""
    from gitstate.commands.sync import sync

    return sync(config, branch=branch, lock_timeout=lock_timeout, dry_run=dry_run)


@cli.command()
def resolve(
    slug: Annotated[str, typer.Argument(help="The item whose effect this is about.", show_default=False)],
    happened: Annotated[
        Optional[str],
        typer.Option("--happened", help="It has happened: where that can be seen (a URL, a commit, an id)."),
    ] = None,
    did_not_happen: Annotated[
        bool, typer.Option("--did-not-happen", help="It has not, so it is to be done.")
    ] = False,
    stage: Stages = None,
    why: Why = "",
    config: Config = "gitstate.yaml",
    lock_timeout: LockTimeout = "0",
) -> int:
    """Say what became of an effect where nobody else can tell. Kept with who said it and when."""
    from gitstate.commands.resolve import Answer, resolve

    answer = Answer(happened, did_not_happen, why)
    return resolve(config, slug, tuple(stage or ()), answer, lock_timeout)


@cli.command()
def accept(
    slugs: Slugs = None,
    stage: Stages = None,
    state: States = None,
    reason: Reasons = None,
    component: Annotated[
        Optional[list[str]],
        typer.Option("--component", help="Only works of which just these components moved."),
    ] = None,
    why: Why = "",
    config: Config = "gitstate.yaml",
    lock_timeout: LockTimeout = "0",
) -> int:
    """Bind existing outputs to today's identity, with a receipt that says who and why. Pays nothing."""
    from gitstate.commands.accept import accept

    selection = selection_of(slugs, stage, state, reason)
    return accept(config, selection, tuple(component or ()), why, lock_timeout)


@cli.command()
def reset(
    slugs: Slugs = None,
    stage: Stages = None,
    state: States = None,
    reason: Reasons = None,
    category: Categories = None,
    why: Why = "",
    config: Config = "gitstate.yaml",
    lock_timeout: LockTimeout = "0",
) -> int:
    """Forget the verdicts against the selected works, so that `run` takes them up again."""
    from gitstate.commands.reset import reset

    return reset(config, selection_of(slugs, stage, state, reason, category), why, lock_timeout)


@cli.command()
def recover(
    config: Config = "gitstate.yaml",
    lock_timeout: LockTimeout = "0",
) -> int:
    """Finish what a killed run left, without starting anything new."""
    from gitstate.commands.recovery import recover_all

    return recover_all(config, lock_timeout)
