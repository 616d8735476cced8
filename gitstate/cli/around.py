"""The commands around the works: they set a clone up, try what it can do, or ask about one thing."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gitstate.cli.options import Config, Json, NotAsked, Slugs, Stages, cli
from gitstate.errors import UsageError

hooks = typer.Typer(
    help="Install, remove or run gitstate's git hooks.", no_args_is_help=True, rich_markup_mode=None
)
cli.add_typer(hooks, name="hooks")


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
