"""What a tool's own words say of a failure: its last statement, a fall of the tool itself, a better cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional

from gitstate.core import rules, speech, unwrap, words
from gitstate.core.place import Finding, place
from gitstate.core.sieve import fold
from gitstate.core.signal import Cli, Signal
from gitstate.core.unwrap import Statement


def better(signal: Signal, weak: Sequence[Statement], spoken: str) -> Optional[Finding]:
    """A better cause for an empty answer, in the tool's own voice."""
    for statement in reversed(weak):
        found = place(signal, statement, None)
        if found.category != "unknown":
            return found
    said = from_words(signal, speech.last_words(spoken), None)
    return said if said and said.category != "unknown" else None


def by_signal(cli: Cli) -> bool:
    return cli.exit is not None and (cli.exit < 0 or 128 < cli.exit < 160)


_BUILTIN = re.compile(
    r"^(?:builtins\.)?(?:\w*(?:FileNotFound|Permission|ModuleNotFound|Import|Key|Value|Type|Attribute|Index|Name|Assertion"
    r"|Memory|Recursion|ZeroDivision|Unicode\w*|OS|IO|Syntax|Indentation|NotImplemented|Lookup|Reference|Range|JSONDecode|Runtime"
    r"|System|Overflow|Arithmetic|EOF|IsADirectory|NotADirectory|FileExists)Error|KeyboardInterrupt|StopIteration|SystemExit)\b"
)


def from_words(signal: Signal, spoken: speech.Spoken, cli: Optional[Cli]) -> Optional[Finding]:
    """The verdict on what a tool said; None where it said nothing."""
    text = spoken.text
    if not text.strip():
        return None
    statement = unwrap.of_text(text)
    if cli is not None and by_signal(cli) and words.CRASH.pattern.search(fold(text)):
        return Finding("phase_error", "crash", words.CRASH.id, statement)
    if spoken.traceback and not _is_providers(statement, text):
        return Finding("phase_error", "crash", "words.traceback", statement)
    if (
        cli is not None
        and cli.exit in (126, 127)
        and re.search(r"(?i)not found|no such file|not recognized", text)
    ):
        return Finding("phase_error", "not_found", "exit.not-found", statement)
    found = place(signal, statement, None)
    if (
        found.category == "unknown"
        and not statement.structured
        and words.CRASH.pattern.search(fold(text))
        and not words.CONNECTION.pattern.search(fold(text))
    ):
        return Finding("phase_error", "crash", words.CRASH.id, statement)
    return found


def _is_providers(statement: Statement, text: str) -> bool:
    """Whether the last words of a traceback are a provider's error, rather than a fault of the tool."""
    if statement.structured and (statement.codes or statement.status or statement.types):
        return True
    if statement.status is not None:
        return True
    if _BUILTIN.match(text.lstrip()):
        return False
    names = [name for name in statement.types if name]
    return any(rules.of_token(name) for name in names) or bool(
        words.CONNECTION.pattern.search(fold(text.splitlines()[0]))
    )
