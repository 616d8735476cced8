"""Placing a statement: from what a tool or a server says to a category, a kind and the wait that it states."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from gitstate.core import offers, rules, unwrap, waits, words
from gitstate.core.rules import Rule
from gitstate.core.sieve import fold
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
    message = fold(statement.message)
    said = offers.cause(f"{message}\n{fold(statement.hints)}" if statement.hints else message)
    category, kind, rule = _category(signal, statement, status, message, said)
    if category == "quota":
        wait = waits.find(
            statement.fields, statement.message, signal.now, signal.zone, _bucket(statement, message)
        )
        kind, rule = _quota(signal, statement, kind, rule, wait, said)
        wait = Wait() if kind == "billing" else wait
    elif category in ("unknown", "timeout"):
        wait = waits.find_retry(statement.fields, statement.message, signal.now, signal.zone)
    else:
        wait = Wait()
    return Finding(category, kind, rule, statement, wait)


_BUCKETS = {name: re.compile(rf"\b{name} per\b|on {name}\b") for name in ("tokens", "requests")}


def _bucket(statement: Statement, message: str) -> str:
    """Which of two limits was hit, by its type or by the `message` in lower case."""
    for name, said in _BUCKETS.items():
        if name in statement.types or (name in message and said.search(message)):
            return name
    return ""


def _category(
    signal: Signal, statement: Statement, status: Optional[int], message: str, cause: str
) -> tuple[str, str, str]:
    """Structure first, then what the message gives as the cause, then the status, then what a vague type means."""
    if offers.is_over(message):
        return "validation", "too_large", "words.over-the-limit"
    by_weakness: dict[str, Rule] = {}
    for token in (*statement.codes, *statement.types):
        rule = rules.of_token(token)
        if rule is not None:
            by_weakness.setdefault(rule.weak, rule)
    strong, family, vague, generic = map(by_weakness.get, _WEAK)
    if strong is not None:
        return _named(strong)
    by_status = _by_status(status, statement)
    said = _by_message(signal, statement, message, cause[: unwrap.TEXT], advice=family is None)
    if said is not None and _outweighs(said, family, by_status):
        return _named(said)
    if by_status and by_status[2] == "status.402" and not family and (vague or said is words.QUOTA_WORD):
        return by_status  # that a quota is exceeded is said of every limit; that payment is required is not
    for weak in (family, vague, said if said is words.QUOTA_WORD else None):
        if weak is not None:
            return _named(weak)
    if by_status:
        return by_status
    number = status or statement.status
    if generic is not None and not number:
        return _named(generic)
    return _named(said) if said is not None else ("unknown", "", f"status.{number}" if number else "unplaced")


_WEAK = ("", "family", "vague", "generic")


def _named(rule: Rule) -> tuple[str, str, str]:
    return rule.category, rule.kind, rule.id


def _outweighs(said: Rule, family: Optional[Rule], by_status: Optional[tuple[str, str, str]]) -> bool:
    """Whether what a message says decides, rather than a vague type or the status."""
    if said is words.QUOTA_WORD or said.category == "unknown":
        return False
    if by_status is not None and by_status[0] == "quota" and said in words.OTHERS:
        return False  # a page on a limit may also deny access, or tell what was not found
    if said.category != "planning_error":
        return True
    # "Invalid …" is said of keys, models and sizes, too.
    return family is None and (by_status is None or by_status[0] == "planning_error")


def _by_status(status: Optional[int], statement: Statement) -> Optional[tuple[str, str, str]]:
    """What the status means, the one that the error itself names first; a 500 around another says nothing."""
    inner = statement.status if statement.status != 500 else None
    for number in (inner, status, statement.status):
        if number in rules.STATUSES:
            return (*rules.STATUSES[number], f"status.{number}")
    return None


def _by_message(
    signal: Signal, statement: Statement, message: str, said: str, advice: bool
) -> Optional[Rule]:
    """What a message says without its offers. `advice`: whether a word on billing may be taken for the cause."""
    rule = rules.first(words.MESSAGES, said)
    if rule is not None:
        return rule
    if not words.QUOTA_WORD.pattern.search(said):
        return rules.first(_BEHIND, said)
    google = statement.google or re.search(r"gemini|google|vertex", signal.provider or _tool(signal))
    if advice and not google and words.BILLING_ADVICE.pattern.search(message):
        return words.BILLING_ADVICE
    return words.QUOTA_WORD


_BEHIND = (*words.OTHERS, words.CONNECTION)


_WINDOW_TOKEN = next(rule for rule in rules.TOKENS if rule.id == "token.window")


def _tool(signal: Signal) -> str:
    return signal.cli.tool.lower() if signal.cli else ""


def _quota(
    signal: Signal, statement: Statement, kind: str, rule: str, wait: Wait, said: str
) -> tuple[str, str]:
    """Which quota: of several limits that are named, the longest period decides."""
    tokens = " ".join((*statement.codes, *statement.types, unwrap.words(statement.hints)))
    if words.ZERO.pattern.search(said):
        return "billing", words.ZERO.id
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
    if words.LONG.search(said) or _WINDOW_TOKEN.pattern.search(tokens) or rules.LONG_BUCKET.search(limits):
        return "window", "quota.named-period"
    if wait.length(signal.now) >= _HOUR:
        return "window", "quota.long-wait"
    if returns and wait.clock and not words.SHORT_PERIOD.search(said):
        return "window", "quota.clock-time"
    return kind, rule
