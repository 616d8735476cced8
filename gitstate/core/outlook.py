"""What has been tried for one work, and what `run` would do about it next, from what a clone shows. Pure.

Decides nothing by itself: the state is derived, and what may be done about an act is `effect.step`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Optional

from gitstate.core.derive import PROTECTED, Status
from gitstate.core.effect import step
from gitstate.core.plan import Stage
from gitstate.core.receipt import LogLine, Receipt
from gitstate.core.snapshot import Act
from gitstate.core.verdict import ASKING

Next = Literal[
    "nothing",  # it is done
    "underway",  # a run here is at it
    "record",  # its answer has arrived and waits to be recorded
    "wait",  # for what it needs
    "restore",  # from git
    "left",  # edited or unverified: not without being told to
    "ask",  # evidence, about the acts that are open
    "repeat",  # the act, under the key that it had
    "person",  # only a person can tell what happened
    "unclear",  # evidence was asked and could not tell
    "changed",  # it has happened, and what it was made from has changed since
    "failed",  # a verdict stands against it
    "later",  # once its time has come
    "begin",
]


class Tried(NamedTuple):
    """One attempt, and what is on record of its end."""

    attempt: str
    work: str  # hash
    at: str
    end: Literal["recorded", "failed", "lost", "withdrawn", "absent", "resolved", "open"]
    words: str = ""  # of the end: who adopted it, which failure, who said so
    key: str = ""  # the idempotency key, where the log has it


class Heard(NamedTuple):
    """The last that evidence, or a person, said about whether an act has happened."""

    at: str
    answer: str  # exists, absent, unclear; happened, did-not-happen
    said: str
    by: str  # "evidence", or the person


def attempts_of(
    lines: Iterable[LogLine], receipts: Iterable[Receipt], acts: Iterable[Act]
) -> tuple[Tried, ...]:
    """The attempts at one work, whatever its hash, oldest first. Questions to evidence are none."""
    found: dict[str, Tried] = {}
    ends: dict[str, Tried] = {}
    for line in sorted(lines, key=in_time):
        if line.kind in ("intent", "verdict", "lost") and line.extra.get("rule") != ASKING[1]:
            key = str(line.extra.get("key") or "")
            end: Literal["failed", "lost"] = "lost" if line.kind != "verdict" else "failed"
            before = found.get(line.attempt)
            began, key = (before.at, before.key or key) if before else (line.at, key)
            found[line.attempt] = Tried(line.attempt, line.work, began, end, _failure(line), key)
        for attempt in _closed(line):
            ends[attempt] = Tried(attempt, line.work, line.at, *_end(line))
    for attempt, tried in ends.items():
        if attempt in found:
            found[attempt] = found[attempt]._replace(end=tried.end, words=tried.words)
    for act in acts:
        if act.attempt in found:
            found[act.attempt] = found[act.attempt]._replace(end="open")
    for receipt in receipts:
        words = str(receipt.extra.get("by") or receipt.extra.get("adopted") or "")
        key = found[receipt.attempt].key if receipt.attempt in found else ""
        found[receipt.attempt] = Tried(receipt.attempt, receipt.work, receipt.at, "recorded", words, key)
    return tuple(sorted(found.values(), key=lambda tried: (tried.at, tried.attempt)))


def in_time(line: LogLine) -> tuple[str, bool]:
    """Sorts lines of the log by their time, which is to the second; what begins an attempt first."""
    return line.at, line.kind != "intent"


def _failure(line: LogLine) -> str:
    parts = (line.extra.get("category"), line.extra.get("failure"))
    return "/".join(str(part) for part in parts if part)


def _closed(line: LogLine) -> Sequence[str]:
    return line.extra.get("attempts", ()) if line.kind in ("withdrawn", "evidence", "resolved") else ()


def _end(line: LogLine) -> tuple[Literal["withdrawn", "absent", "resolved"], str]:
    if line.kind == "withdrawn":
        return "withdrawn", ""
    if line.kind == "evidence":
        return "absent", str(line.extra.get("said") or "")
    return "resolved", f"{line.extra.get('answer')}, says {line.extra.get('by')}"


def last_answer(lines: Iterable[LogLine], receipts: Iterable[Receipt]) -> Optional[Heard]:
    """The last answer on record to whether an act of one work has happened."""
    heard = []
    for line in lines:
        extra = {name: str(value) for name, value in line.extra.items() if value is not None}
        if line.kind == "evidence":
            heard.append(Heard(line.at, extra.get("answer", ""), extra.get("said", ""), "evidence"))
        elif line.kind == "verdict" and extra.get("rule") == ASKING[1]:
            heard.append(Heard(line.at, "unclear", extra.get("evidence", ""), "evidence"))
        elif line.kind == "resolved":
            heard.append(
                Heard(line.at, extra.get("answer", ""), extra.get("evidence", ""), extra.get("by", ""))
            )
    for receipt in receipts:
        if receipt.extra.get("adopted") == "evidence":
            heard.append(Heard(receipt.at, "exists", "", "evidence"))
    return max(heard, key=lambda one: one.at, default=None)


def outlook(stage: Stage, status: Status, acts: Sequence[Act], happened: bool, answered: bool) -> Next:
    """What `run` would do about a work.

    `acts`: those that are open. `happened`: whether it has a receipt, of whatever hash. `answered`: whether an answer
    of it waits in this clone.
    """
    if status.state == "running":
        return "underway"
    if answered:
        return "record"
    if status.state == "done":
        return "nothing"
    if status.reason is not None and status.reason in _BY_REASON:
        return _BY_REASON[status.reason]
    if stage.effect is not None and status.hash is not None:
        may = step(stage.effect, status.hash, happened, acts)
        if may == "human":
            return "person"
        if may == "leave":
            return "changed"
        if may == "ask" and status.state == "failed":
            return "unclear"
        if acts and status.state == "pending":
            return "ask" if may == "ask" else "repeat"
    return {"failed": "failed", "paused": "later"}.get(status.state, "begin")  # type: ignore[return-value]


_BY_REASON: Mapping[str, Next] = {
    "upstream": "wait",
    "missing": "restore",
    **dict.fromkeys(PROTECTED, "left"),
}
