"""The program for the framework, and the options that several commands share."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gitstate.core import lease
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
Shard = Annotated[str, typer.Option("--shard", help="This part of the plan only: 2/4 is the second of four.")]
LockTimeout = Annotated[str, typer.Option("--lock-timeout", help="How long to wait for another run here.")]
Why = Annotated[str, typer.Option("--why", help="The reason, kept with who and when.")]


def selection_of(
    slugs: Optional[list[str]],
    stages: Optional[list[str]],
    states: Optional[list[str]] = None,
    reasons: Optional[list[str]] = None,
    categories: Optional[list[str]] = None,
    shard: str = "",
) -> Selection:
    try:
        part = lease.shard(shard) if shard else (1, 1)
    except ValueError as error:
        raise UsageError(f"--shard {shard}: {error}.") from error
    words = [tuple(given or ()) for given in (slugs, stages, states, reasons, categories)]
    return Selection(words[0], words[1], words[2], words[3], words[4], part)
