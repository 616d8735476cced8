"""The command line: options in, one call, exit code out. The only module that knows the framework."""

from __future__ import annotations

import enum
import sys
from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from gitstate import __version__
from gitstate.core.select import Selection
from gitstate.errors import UsageError

cli = typer.Typer(
    name="gitstate",
    help="A git repository as the record of what a batch of slow or paid work has finished.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
hooks = typer.Typer(
    help="Install, remove or run gitstate's git hooks.", no_args_is_help=True, rich_markup_mode=None
)
cli.add_typer(hooks, name="hooks")

Slugs = Annotated[
    Optional[list[str]],
    typer.Argument(help="Slugs, outputs' paths or folders, or globs over both.", show_default=False),
]
Stages = Annotated[Optional[list[str]], typer.Option("--stage", help="Only this stage (repeatable).")]
States = Annotated[
    Optional[list[str]], typer.Option("--state", help="Only works in this state (repeatable).")
]
Reasons = Annotated[
    Optional[list[str]], typer.Option("--reason", help="Only works with this reason (repeatable).")
]
Categories = Annotated[
    Optional[list[str]], typer.Option("--category", help="Only failures of this category (repeatable).")
]
Config = Annotated[
    str, typer.Option("--config", help="The configuration, relative to the repository's root.")
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]
NotAsked = Annotated[bool, typer.Option("--offline", help="Do not ask the remote.")]
LockTimeout = Annotated[str, typer.Option("--lock-timeout", help="How long to wait for another run here.")]
Why = Annotated[str, typer.Option("--why", help="The reason, kept with who and when.")]


class Push(str, enum.Enum):
    """When `run` pushes."""

    group = "group"
    end = "end"
    never = "never"


def app(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code. GitstateErrors pass through."""
    try:
        result = typer.main.get_command(cli).main(
            list(arguments), prog_name="gitstate", standalone_mode=False
        )
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        # A usage error of the framework; which class that is depends on whether typer brings its own click.
        if not callable(tell := getattr(error, "show", None)):
            raise
        tell(file=sys.stderr)
        return UsageError.exit_code
    return result if isinstance(result, int) else 0


def _selection(
    slugs: Optional[list[str]],
    stages: Optional[list[str]],
    states: Optional[list[str]] = None,
    reasons: Optional[list[str]] = None,
    categories: Optional[list[str]] = None,
) -> Selection:
    return Selection(*(tuple(words or ()) for words in (slugs, stages, states, reasons, categories)))


@cli.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A git repository as the record of what a batch of slow or paid work has finished."""
    if version:
        print(f"gitstate {__version__}")
        raise typer.Exit


@cli.command()
def plan(
    slugs: Slugs = None,
    stage: Stages = None,
    state: States = None,
    reason: Reasons = None,
    category: Categories = None,
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
            selection=_selection(slugs, stage, state, reason, category),
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
    shard: Annotated[
        str, typer.Option("--shard", help="Do this part of the plan only: 2/4 is the second of four.")
    ] = "",
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
    push: Annotated[Push, typer.Option("--push", help="When to push.")] = Push.group,
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
        selection=_selection(slugs, stage, state, reason, category),
        jobs=jobs or 0,
        redo=redo,
        retry_failed=retry_failed,
        limit=limit,
        shard=shard,
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

    selection = _selection(slugs, stage, state, reason)
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

    return reset(config, _selection(slugs, stage, state, reason, category), why, lock_timeout)


@cli.command()
def recover(
    config: Config = "gitstate.yaml",
    lock_timeout: LockTimeout = "0",
) -> int:
    """Finish what a killed run left, without starting anything new."""
    from gitstate.commands.run import recover

    return recover(config, lock_timeout)


@cli.command()
def probe(
    account: Annotated[
        str, typer.Argument(help="The account to ask about; each by default.", show_default=False)
    ] = "",
    config: Config = "gitstate.yaml",
) -> int:
    """Whether the quota window is open, as the exit code: 0 open, 75 closed, 69 cannot tell."""
    from gitstate.commands.clone import Clone
    from gitstate.commands.probing import probe
    from gitstate.edge.clock import Clock

    with Clone(config=config) as clone:
        return probe(clone, account, Clock())


@cli.command()
def doctor(json: Json = False, offline: NotAsked = False) -> int:
    """Try what this file system, git and remote can do."""
    from gitstate.commands.clone import Clone
    from gitstate.commands.doctor import doctor

    with Clone() as clone:
        return doctor(clone, as_json=json, offline=offline)


@cli.command()
def drill(
    slugs: Slugs = None,
    items: Annotated[int, typer.Option("--items", min=1, help="Drill this many of the items.")] = 1,
    stage: Stages = None,
    cell: Annotated[
        Optional[list[str]],
        typer.Option("--cell", help="Only this failure, like killed-before (repeatable)."),
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Run your own commands instead of recorded stand-ins.")
    ] = False,
    out: Annotated[
        Optional[list[str]], typer.Option("--out", help="Write it to FILE.md or FILE.json (repeatable).")
    ] = None,
    check: Annotated[
        str, typer.Option("--check", help="Only say whether the workflow is as in this FILE.json; for CI.")
    ] = "",
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Cells to try at once.")] = 2,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the throw-away clones there.")] = False,
    config: Config = "gitstate.yaml",
) -> int:
    """Try every failure on your own workflow, in throw-away clones: what must come of it, and what did."""
    from gitstate.commands.drill import Options, drill

    words = (tuple(found or ()) for found in (slugs, stage, cell, out))
    chosen, stages, cells, paths = words
    return drill(config, Options(chosen, items, stages, cells, real, keep, jobs, paths, check))


@cli.command()
def classify(
    file: Annotated[
        str, typer.Argument(help="Signals as JSON; standard input by default.", show_default=False)
    ] = "",
    exit: Annotated[
        Optional[int], typer.Option("--exit", help="Classify a command that ended with this exit code.")
    ] = None,
    stdout: Annotated[str, typer.Option("--stdout", help="The file with what it printed.")] = "",
    stderr: Annotated[
        str, typer.Option("--stderr", help="The file with what it said on its error stream.")
    ] = "",
    tool: Annotated[str, typer.Option("--tool", help="The name of its program.")] = "",
    json: Json = False,
    config: Config = "gitstate.yaml",
) -> int:
    """Say what a failure means: which kind it is, whether waiting helps, and until when."""
    from gitstate.commands.classify import Command, classify

    if exit is None and (stdout or stderr or tool):
        raise UsageError("--stdout, --stderr and --tool belong to a command.", "Say how it ended: --exit N.")
    if exit is not None and file:
        raise UsageError("A file and --exit are two signals.", "Give one of them.")
    command = Command(exit, stdout, stderr, tool) if exit is not None else None
    return classify(file, command=command, as_json=json, config=config)


@cli.command()
def init(
    example: Annotated[str, typer.Option("--example", help="Write this example; `list` names them.")] = "",
    no_hooks: Annotated[bool, typer.Option("--no-hooks", help="Leave the git hooks as they are.")] = False,
    offline: NotAsked = False,
) -> int:
    """Write a starter, set up fetching of receipts, install the hooks. Safe to repeat."""
    from gitstate.commands.init import init

    return init(example, hooks=not no_hooks, offline=offline)


@cli.command()
def demo(
    folder: Annotated[
        str, typer.Argument(help="Where to make it; a new temporary folder by default.", show_default=False)
    ] = "",
) -> int:
    """The whole story on shipped material, without network, in under a minute; each claim is checked."""
    from gitstate.commands.demo import demo

    return demo(folder)


@hooks.command("install")
def hooks_install() -> int:
    """Put the hooks in place, beside those that are there."""
    from gitstate.commands.hooks import install

    return install()


@hooks.command("remove")
def hooks_remove() -> int:
    """Take the hooks away and put back what was there before."""
    from gitstate.commands.hooks import remove

    return remove()


@hooks.command("run", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def hooks_run(
    context: typer.Context, name: Annotated[str, typer.Argument(help="The hook's name, like pre-commit.")]
) -> int:
    """Run one hook by hand."""
    from gitstate.commands.hook import run_hook

    return run_hook([name, *context.args])
