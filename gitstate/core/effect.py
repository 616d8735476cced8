"""Effects at most once (P11): what the log tells of the acts of an effect, and what may be done next. Pure.

An act is one attempt to change the world. Its line (`intent`) is in the log before it begins. Until a receipt or a
later line says how it ended, nobody knows whether it has happened, and it is open; that is never guessed. Open acts
stand against every further act for the same slug and stage, whatever the inputs are by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Optional

from blake3 import blake3

from gitstate.core.plan import Effect
from gitstate.core.receipt import LogLine, Receipt
from gitstate.core.snapshot import Act, Receipts, WorkKey
from gitstate.core.verdict import ASKING, Failed

# act: go on. ask: evidence first. human: only a person can tell what happened. leave: it has happened, and what it was
# made from has changed since.
Step = Literal["act", "ask", "human", "leave"]

Answer = Literal["exists", "absent", "unclear"]

_CLOSING = {"withdrawn", "evidence", "resolved"}
_ENDING = {"verdict", "lost"}  # lines that say that an act is at its end, if not which
_SETTLED = {
    "exists",
    "absent",
    "happened",
    "did-not-happen",
    None,
}  # answers that close; a withdrawal has none
# Turned away before anything was done. With these a later try is the first act.
_TURNED_AWAY = {
    ("quota", "throttle"),
    ("quota", "window"),
    ("quota", "billing"),
    ("phase_error", "auth"),
}
_NEVER_BEGAN = {"stopped.not_started", "stopped.too_long"}  # rules: there was no command
_SAYING_NOTHING = {"exit.bare", "unplaced"}  # rules: no words, or none that is known
_UNHURRIED = timedelta(hours=1)  # how long an act without a timeout may still be under way elsewhere


def open_acts(lines: Iterable[LogLine], receipts: Receipts) -> dict[WorkKey, tuple[Act, ...]]:
    """The acts whose outcome nobody has noted, oldest first."""
    begun: dict[str, LogLine] = {}
    closed: set[str] = set()
    over: set[str] = set()
    for line in lines:
        if line.kind == "intent":
            begun[line.attempt] = line
        elif is_end(line):
            over.add(line.attempt)
        closed |= closed_by(line)
    if not begun:
        return {}
    open_: dict[WorkKey, list[Act]] = {}
    for line in sorted(begun.values(), key=lambda line: (line.at, line.attempt)):
        if line.attempt not in closed:
            open_.setdefault((line.slug, line.stage), []).append(act_of(line, line.attempt in over))
    found = {}
    for (slug, stage), acts in open_.items():
        done = {receipt.attempt for receipt in receipts.of(slug, stage)}
        # What completed under a key completed every try under that key.
        keys = {begun[attempt].extra.get("key") for attempt in done if attempt in begun}
        left = tuple(act for act in acts if act.attempt not in done and act.key not in keys)
        if left:
            found[slug, stage] = left
    return found


def closed_by(line: LogLine) -> set[str]:
    """The acts whose outcome is known by a line of the log."""
    if line.kind in _CLOSING and line.extra.get("answer") in _SETTLED:
        return set(line.extra.get("attempts", ()))
    turned_away = line.kind == "verdict" and line.extra.get("happened") == "no"
    return {line.attempt} if turned_away else set()


def is_end(line: LogLine) -> bool:
    """Whether a line of the log says that its act is over: nobody is at it any more."""
    return line.kind in _ENDING


def act_of(line: LogLine, over: bool = False) -> Act:
    """The act that an `intent` line tells of."""
    extra = line.extra
    return Act(
        line.attempt,
        line.work,
        line.at,
        str(extra.get("key") or ""),
        {str(name): str(digest) for name, digest in _mapping(extra.get("components")).items()},
        scheme if type(scheme := extra.get("scheme")) is int else 0,
        before if isinstance(before := extra.get("before"), str) else None,
        over,
    )


def tells_of_act(receipt: Receipt) -> bool:
    """Whether a receipt is of an act, rather than of a person's keeping what an earlier one made."""
    return receipt.kind == "done" or "adopted" in receipt.extra


def dated(at: str, earlier: Iterable[Receipt]) -> str:
    """When an act counts as done: never before the acts that it followed, whatever the clocks say."""
    return max((at, *(receipt.at for receipt in earlier)))


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def intent_extra(
    key: str, components: Mapping[str, str], scheme: int, before: Optional[str] = None
) -> dict[str, Any]:
    """What an `intent` line says beside what every line does."""
    return {"key": key, "components": dict(sorted(components.items())), "scheme": scheme, "before": before}


def step(effect: Effect, work: str, happened: bool, acts: Sequence[Act], *, redo: bool = False) -> Step:
    """What may be done about an effect that is not done.

    `work`: today's hash. `happened`: whether it has a receipt, of whatever hash. `acts`: those that are open.
    `redo`: whether a repetition was asked for.
    """
    if acts and effect.evidence is not None:
        return "ask"
    if acts:
        # Under another hash the key is another one, too, so the service could not tell that it is the same act.
        return "act" if effect.idempotent and all(act.work == work for act in acts) else "human"
    if happened and not redo and effect.on_stale != "update":
        return "leave"
    return "act"


def has_not_happened(effect: Effect, failed: Failed) -> bool:
    """Whether a failed act is known not to have happened. Where evidence can be asked, it is asked rather than
    concluded from an error: a command of several steps may have been turned away at its second one."""
    if failed.rule in _NEVER_BEGAN:
        return True
    if failed.category == "planning_error" and failed.rule.startswith("own."):
        return True  # the repository's own word: such a command refuses before it does anything
    return effect.evidence is None and (failed.category, failed.kind) in _TURNED_AWAY


def unknown_outcome(failed: Failed) -> Failed:
    """The failure of an act of which only a person can say whether it has happened."""
    return Failed(
        "unknown",
        "",
        f"It may have happened. How the command ended ({failed.name}): {failed.evidence}",
        ASKING[0],
        seen=failed.seen,
    )


def unclear(said: str) -> Failed:
    """The failure of an act that evidence could not tell anything about."""
    return Failed("unknown", "", f"Evidence cannot tell whether it has happened: {said}", ASKING[1])


def unfit(failed: Failed) -> Failed:
    """The failure of an act that has happened, by a word that its template cannot take."""
    said = f"It has happened, but what was said of it cannot become the output: {failed.evidence}"
    return Failed("unknown", "", said, ASKING[1])


def answer_of(
    ended_by: str, code: Optional[int], printed: bytes, complaint: Optional[Failed] = None
) -> Answer:
    """What an evidence command's end says. Exit 0 with nothing printed says that it exists but not where: unclear.

    `complaint`: what its errors say by themselves. Many programs end in 1 whatever went wrong: a traceback, or a
    service out of reach, is no absence.
    """
    if ended_by == "exit" and code == 0 and printed.strip():
        return "exists"
    has_looked = complaint is None or complaint.rule in _SAYING_NOTHING or complaint.kind == "not_found"
    return "absent" if ended_by == "exit" and code == 1 and has_looked else "unclear"


def was_there(answer: Answer, printed: bytes) -> str:
    """What evidence says before an act that is to change, or repeat, what has happened already; for `tells_of`."""
    return blake3(printed).hexdigest(16) if answer == "exists" else answer


def tells_of(act: Act, printed: bytes) -> bool:
    """Whether what evidence found is of this act. What it printed before, too, may be of an earlier one."""
    return act.before in (None, "absent") or (
        act.before != "unclear" and act.before != was_there("exists", printed)
    )


def may_be_under_way(acts: Iterable[Act], timeout: Optional[float], now: datetime) -> Optional[datetime]:
    """Until when an act that another clone began, and has not told the end of, may still be going on; None: it is
    not. By that clone's clock: it only ever makes somebody wait."""
    limit = _UNHURRIED if timeout is None else timedelta(seconds=timeout)
    until = [_moment(act.at, now) + limit for act in acts if not act.over]
    latest = max(until, default=now)
    return latest if latest > now else None


def _moment(at: str, now: datetime) -> datetime:
    """A line's time; now where it cannot be read or lies ahead of us."""
    try:
        return min(datetime.fromisoformat(at.replace("Z", "+00:00")), now)
    except (ValueError, TypeError):
        return now
