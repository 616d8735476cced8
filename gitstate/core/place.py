"""Placing a statement: from what a tool or a server says to a category, a kind and the wait that it states."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from gitstate.core import rules, unwrap, waits
from gitstate.core.rules import Rule
from gitstate.core.signal import Signal
from gitstate.core.unwrap import Statement
from gitstate.core.waits import Wait

_HOUR = 3600.0


class Finding(NamedTuple):
    """What decided: a category and kind, by which rule, on what statement."""

    category: str  # "" where the call went well
    kind: str = ""
    rule: str = ""
    statement: Statement = Statement()
    wait: Wait = Wait()


OK = Finding("", rule="ok")


def place(signal: Signal, statement: Statement, status: Optional[int]) -> Finding:
    """The category and kind of a statement; `status` is that of the reply, where there is one."""
    wait = waits.find(statement.fields, statement.message, signal.now, signal.zone, _bucket(statement))
    category, kind, rule = _category(signal, statement, status)
    if category == "quota":
        kind, rule = _quota(signal, statement, kind, rule, wait)
        if kind == "billing":
            wait = Wait()
    else:
        wait = Wait()
    return Finding(category, kind, rule, statement, wait)


def _bucket(statement: Statement) -> str:
    for name in ("tokens", "requests"):
        if name in statement.types or re.search(rf"(?i)\b{name} per\b|on {name}\b", statement.message):
            return name
    return ""


def _category(signal: Signal, statement: Statement, status: Optional[int]) -> tuple[str, str, str]:
    """Structure first, then the error's own message, then the status, then what a vague type means."""
    tokens = [*statement.codes, *statement.types]
    if rules.is_over(statement.message):
        return "validation", "too_large", "words.over-the-limit"
    found = [rule for token in tokens if (rule := rules.first(rules.TOKENS, token))]
    strong = next((rule for rule in found if not rule.weak), None)
    if strong is not None:
        return strong.category, strong.kind, strong.id
    family = next((rule for rule in found if rule.weak == "family"), None)
    vague = next((rule for rule in found if rule.weak == "vague"), None)
    said = _by_message(signal, statement, advice=family is None)
    # A word that providers use for every limit yields to what the message says.
    if (
        said is not None
        and said is not rules.QUOTA_WORD
        and said.category != "unknown"
        and not (family and said.category == "planning_error")
    ):
        return said.category, said.kind, said.id
    if vague is not None and 402 in (status, statement.status) and said in (None, rules.QUOTA_WORD):
        return "quota", "billing", "status.402"
    for rule in (family, vague):
        if rule is not None:
            return rule.category, rule.kind, rule.id
    if said is rules.QUOTA_WORD and 402 not in (status, statement.status):
        return said.category, said.kind, said.id
    inner = statement.status if statement.status not in (None, 500) else None
    for number in (inner, status, statement.status):
        if number in rules.STATUSES:
            return (*rules.STATUSES[number], f"status.{number}")
    generic = next((rule for rule in found if rule.weak == "generic"), None)
    if generic is not None and not (status or statement.status):
        return generic.category, generic.kind, generic.id
    if said is not None:
        return said.category, said.kind, said.id
    return "unknown", "", f"status.{status}" if status else "unplaced"


def _by_message(signal: Signal, statement: Statement, advice: bool) -> Optional[Rule]:
    """What the message says, without its offers. `advice`: whether a word on billing may be taken for the cause."""
    said = rules.cause(f"{statement.message}\n{statement.hints}")[: unwrap.TEXT]
    rule = rules.first(rules.MESSAGES, said)
    if rule is not None:
        return rule
    google = statement.google or re.search(r"gemini|google|vertex", signal.provider or _tool(signal))
    is_quota = rules.QUOTA_WORD.pattern.search(said)
    if advice and not google and is_quota and rules.BILLING_ADVICE.pattern.search(statement.message):
        return rules.BILLING_ADVICE
    return rules.first((rules.QUOTA_WORD, *rules.OTHERS, rules.CONNECTION), said)


def _tool(signal: Signal) -> str:
    return signal.cli.tool.lower() if signal.cli else ""


def _quota(signal: Signal, statement: Statement, kind: str, rule: str, wait: Wait) -> tuple[str, str]:
    """Which quota: of several limits that are named, the longest period decides."""
    said = rules.cause(f"{statement.message}\n{statement.hints}")
    tokens = " ".join((*statement.codes, *statement.types, unwrap.words(statement.hints)))
    if rules.ZERO.pattern.search(said):
        return "billing", rules.ZERO.id
    returns = wait.clock or (wait.until is not None and wait.source in ("resets-at", "text"))
    if kind == "billing":
        # A cap on spending that says when access returns is a window.
        if (returns or (wait and wait.source == "text")) and re.search(
            r"(?i)spend|budget|cap\b|limit|extra.usage", f"{said} {tokens}"
        ):
            return "window", "quota.cap-that-returns"
        return kind, rule
    if kind != "throttle":
        return kind, rule
    limits = waits.exhausted_names(statement.fields, signal.now)
    named = next(rule for rule in rules.TOKENS if rule.id == "token.window")
    if rules.WINDOW.pattern.search(said) or named.pattern.search(tokens) or rules.LONG_BUCKET.search(limits):
        return "window", "quota.named-period"
    if wait.length(signal.now) >= _HOUR:
        return "window", "quota.long-wait"
    if returns and wait.clock and not rules.SHORT_PERIOD.search(said):
        return "window", "quota.clock-time"
    return kind, rule
