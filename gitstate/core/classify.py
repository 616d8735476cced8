"""The one classifier: a captured signal in, a verdict out. Pure and total; `rules` and `words` hold what it knows.

The order is that of `docs/failures.md`: who ended the call, then structure (codes, types, the error's own message),
then the status, then headers, then plain text, where a tool or a server speaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Optional

from gitstate.core import speech, unwrap, waits
from gitstate.core.ended import of_cli
from gitstate.core.ownrules import OwnRule, Seen, own
from gitstate.core.place import Finding
from gitstate.core.redact import redact
from gitstate.core.replied import of_http
from gitstate.core.signal import Cli, Signal, Verdict
from gitstate.core.unwrap import Statement
from gitstate.core.verdict import STATES
from gitstate.core.waits import Wait

_EXCERPT = 300  # characters of a message that are kept
_ROOM = 4000  # characters that are redacted before they are cut, so that no half of a secret is left


def classify(signal: Signal, own_rules: Sequence[OwnRule] = (), secrets: Iterable[str] = ()) -> Verdict:
    """What `signal` means. `own_rules` are a repository's, asked first; `secrets` never stand in the evidence.

    Raises nothing, whatever the signal holds.
    """
    finding = _stopped(signal)
    if finding is None and own_rules:
        finding = _by_own(signal, own_rules)
    if finding is None:
        finding = (
            of_http(signal, signal.http) if signal.http else of_cli(signal, signal.cli or Cli(None, "", ""))
        )
    return _verdict(signal, finding, secrets)


def _stopped(signal: Signal) -> Optional[Finding]:
    """The runner itself ended the call, or could not begin it."""
    by = {
        "wall": ("timeout", "wall"),
        "silence": ("timeout", "silence"),
        "too_large": ("validation", "too_large"),
        "not_started": ("phase_error", "not_found"),
        "too_long": ("planning_error", ""),  # the command line, for the system
        "lost": ("unknown", ""),  # by the pool that ran it: whether it was charged nobody knows
    }
    if signal.stopped_by not in by:
        return None
    said = signal.cli.stderr if signal.cli else ""
    return Finding(
        *by[signal.stopped_by], f"stopped.{signal.stopped_by}", Statement(message=said[-_EXCERPT:])
    )


def _by_own(signal: Signal, own_rules: Sequence[OwnRule]) -> Optional[Finding]:
    http, cli = signal.http, signal.cli
    if http:
        body = http.body if isinstance(http.body, str) else None
        said = unwrap.of_text(body[: speech.HEAD]) if body is not None else unwrap.of_object(http.body)
    else:
        said = (
            unwrap.of_text(speech.plain((cli.stderr or cli.stdout)[-speech.TAIL :])) if cli else Statement()
        )
    seen = Seen(
        exit=cli.exit if cli else None,
        status=http.status if http else said.status,
        codes=said.codes,
        types=said.types,
        message=said.message,
        stdout=cli.stdout if cli else "",
        stderr=cli.stderr if cli else "",
        headers=http.headers if http else {},
        tool=cli.tool if cli else "",
    )
    rule = own(own_rules, seen)
    if rule is None:
        return None
    wait = Wait(rule.wait, source=f"rule {rule.id}") if rule.wait is not None else Wait()
    fields = {waits.name_of(name): value for name, value in seen.headers.items()}
    said = said._replace(fields={**said.fields, **fields})
    if not wait and rule.category == "quota" and rule.kind != "billing":
        wait = waits.find(said.fields, said.message, signal.now, signal.zone)
    return Finding(rule.category, rule.kind, f"own.{rule.id}", said, wait)


def _verdict(signal: Signal, finding: Finding, secrets: Iterable[str]) -> Verdict:
    evidence = _evidence(signal, finding, list(secrets))
    if not finding.category:
        return Verdict("ok", None, None, None, rule=finding.rule)
    state = STATES[finding.category][finding.kind]
    seconds, until = _both(finding.wait, signal.now)
    return Verdict(
        "fail", finding.category, finding.kind or None, state, seconds, until, finding.rule, evidence
    )


def _both(wait: Wait, now: Optional[datetime]) -> tuple[Optional[float], Optional[datetime]]:
    """A wait in both forms, where the time is known; else as it was stated."""
    seconds, until = wait.seconds, wait.until
    if now is not None and seconds is not None:
        until = waits.later(now, seconds)
    elif now is not None and until is not None:
        seconds = (until - now).total_seconds()
    return seconds, until


def _evidence(signal: Signal, finding: Finding, secrets: Sequence[str]) -> Mapping[str, str]:
    """What decided, without secrets: status, codes, the source of the wait, an excerpt."""
    statement = finding.statement
    status = signal.http.status if signal.http else statement.status
    found = {
        "status": str(status) if status is not None else "",
        "exit": str(signal.cli.exit) if signal.cli and signal.cli.exit is not None else "",
        "codes": ", ".join(filter(_is_name, dict.fromkeys([*statement.codes, *statement.types])))[:_ROOM],
        "wait": finding.wait.source,
        "said": statement.message[:_ROOM],
    }
    return {name: redact(text, secrets)[:_EXCERPT] for name, text in found.items() if text}


@lru_cache(4096)
def _is_name(token: str) -> bool:
    """Whether a code is words, rather than an id or a key that stood in its place."""
    return len(token) <= 80 and not any(
        len(part) > 24 or (len(part) > 9 and any(map(str.isdigit, part))) for part in token.split("_")
    )
