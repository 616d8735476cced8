"""The command line: options in, one call, exit code out. The only package that knows the framework."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gitstate import __version__
from gitstate.cli import works

# isort: split
from gitstate.cli import around  # commands register themselves, and --help shows them in that order
from gitstate.cli.options import cli
from gitstate.errors import UsageError

__all__ = ["app", "around", "cli", "works"]


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


@cli.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A git repository as the record of what a batch of slow or paid work has finished."""
    if version:
        print(f"gitstate {__version__}")
        raise typer.Exit
