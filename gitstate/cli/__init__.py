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


# Options of which an empty value is none: taken as one that was not given, `--branch "$RESULTS"` would record on the
# branch that is checked out where that variable is unset.
_VALUED = frozenset(
    """--branch --budget --check --config --example --executor --lock-timeout --out --plan --push --resume --shard
    --stderr --stdout --tool""".split()  # noqa: SIM905 (two lines instead of fifteen)
)


def app(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code. GitstateErrors pass through."""
    _require_values(arguments)
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


def _require_values(arguments: Sequence[str]) -> None:
    for word, following in zip(arguments, [*arguments[1:], None]):
        if word == "--":
            return
        name, is_joined, value = word.partition("=")
        if name in _VALUED and (value if is_joined else following) == "":
            raise UsageError(
                f"{name} was given an empty value.",
                "Is a variable unset? Leave the option out, or say which.",
            )


@cli.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A git repository as the record of what a batch of slow or paid work has finished."""
    if version:
        print(f"gitstate {__version__}")
        raise typer.Exit
