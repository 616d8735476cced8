"""The lines that go into the notes, from what happened; and writing them without touching a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from secrets import token_hex
from typing import Any

from gitstate.commands.clone import Clone, utc_now
from gitstate.commands.judging import Judged
from gitstate.commands.naming import secrets
from gitstate.core.identity import Manifest
from gitstate.core.receipt import LogLine, Receipt, Verdict
from gitstate.core.redact import redact
from gitstate.core.verdict import Failed
from gitstate.edge.attempts import Intent
from gitstate.edge.objects import Objects
from gitstate.edge.record import Record, Recorder
from gitstate.errors import UsageError


def new_attempt() -> str:
    """A fresh attempt id: when, and 40 random bits."""
    return f"{utc_now():%Y%m%dT%H%M%S}-{token_hex(5)}"


def stamp() -> str:
    """Now, as lines write it: UTC, to the second."""
    return f"{utc_now():%Y-%m-%dT%H:%M:%SZ}"


def who(clone: Clone) -> str:
    """Name and address of the user, as git knows them. Raises UsageError where it does not."""
    ident = clone.git.text("var", "GIT_COMMITTER_IDENT", check=False)
    if not ident:
        raise UsageError(
            "git does not know who you are, and what is written here says who.",
            'Tell it: git config user.name "Your Name" and git config user.email you@example.com',
        )
    return ident.rpartition(">")[0] + ">"


def receipt(judged: Judged, blobs: Sequence[str], ignored: Sequence[str]) -> Receipt:
    """The receipt of a response that passed; `ignored` are the components that its stage leaves out."""
    intent = judged.intent
    extra: dict[str, Any] = {"seconds": judged.seconds, **judged.facts, "checks": list(judged.checks)}
    by_human = "by" in extra
    if ignored:
        extra["ignored"] = list(ignored)
    return Receipt(
        work=intent.work,
        kind="accepted" if by_human else "done",
        slug=intent.slug,
        stage=intent.stage,
        attempt=intent.attempt,
        at=judged.at,
        components=intent.components,
        outputs=tuple(zip(intent.outputs, blobs)),
        scheme=intent.scheme,
        extra=extra,
    )


def verdict_line(judged: Judged, failed: Failed) -> LogLine:
    """The log's line on a response that did not pass. Others will read it, so it holds no secrets."""
    intent = judged.intent
    extra = {
        "category": failed.category,
        "failure": failed.kind or None,
        "rule": failed.rule,
        "state": failed.state,
        "evidence": redact(failed.evidence, secrets()),
        "seen": dict(failed.seen) or None,
        "seconds": judged.seconds,
        **judged.facts,
    }
    if failed.until is not None:
        extra["until"] = failed.until
    at = judged.at or stamp()
    return LogLine(intent.work, "verdict", intent.slug, intent.stage, intent.attempt, at, extra)


def reset_line(verdict: Verdict, by: str, why: str) -> LogLine:
    """The line that takes back what stands against a work."""
    extra = {"attempts": list(verdict.attempts), "by": by, "why": why or None}
    last = verdict.last
    return LogLine(last.work, "reset", last.slug, last.stage, new_attempt(), stamp(), extra)


def act_line(intent: Intent, kind: str, extra: Mapping[str, Any]) -> LogLine:
    """A line on an act, or on all acts that `extra` names under `attempts`: intent, withdrawn, evidence, resolved."""
    return LogLine(intent.work, kind, intent.slug, intent.stage, intent.attempt, stamp(), extra)


def lost_line(objects: Objects, intent: Intent) -> tuple[str, LogLine]:
    """The log's line on an attempt that ended without an answer, and the object that it goes on."""
    line = LogLine(intent.work, "lost", intent.slug, intent.stage, intent.attempt, intent.at)
    return manifest_blob(objects, intent), line


def duplicate_line(objects: Objects, receipt: Receipt) -> tuple[str, LogLine]:
    """The log's line on a result that was not published, because its lease had been lost, and the object that it goes
    on; with what it cost."""
    names = ("seconds", "usd", "tokens_in", "tokens_out")
    extra = {name: receipt.extra[name] for name in names if name in receipt.extra}
    blob = objects.oid("blob", Manifest(receipt.components, receipt.scheme).encoded)
    line = LogLine(receipt.work, "duplicate", receipt.slug, receipt.stage, receipt.attempt, receipt.at, extra)
    return blob, line


def manifest_blob(objects: Objects, intent: Intent) -> str:
    """The object that the log's lines on an attempt's work hang on."""
    return objects.oid("blob", Manifest(intent.components, intent.scheme).encoded)


def add_lines(
    clone: Clone,
    receipts: Mapping[str, Sequence[bytes]],
    log: Mapping[str, Sequence[bytes]],
    subject: str,
) -> None:
    """Add lines (object -> lines) to the receipts and the log, durably. To be called under the run lock."""
    with closing(Recorder(clone.git, clone.repository, clone.objects, None, False)) as recorder:
        recorder.record(Record({}, receipts, log, subject, []))
