"""The rules by which a failure is recognised, as data: each has an id, which a verdict keeps.

Here those for what programs are to read: tokens (codes, types, reasons, endings), in the form of `unwrap.words`, and
statuses. Those for what people are to read are in `core/words.py`. The first rule that matches decides, so what is
more specific stands first. Nothing else in gitstate recognises an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Optional

from gitstate.core.sieve import Sieve


class Rule(NamedTuple):
    """If `pattern` is found, it is this.

    `weak` rules are for words that providers use for everything: a `family` leaves the kind to the message, a
    `vague` one also yields to words on billing, a `generic` one yields to the message and to any status.
    """

    id: str
    pattern: Sieve
    category: str
    kind: str = ""
    weak: str = ""


def _token(id: str, category: str, kind: str, *patterns: str, weak: str = "") -> Rule:
    return Rule(f"token.{id}", Sieve(*patterns), category, kind, weak)


TOKENS: tuple[Rule, ...] = (
    _token("in-flight", "quota", "throttle", r"in_flight", r"reserved_by", r"budget_reserved"),
    _token(
        "too-large", "validation", "too_large",
        r"context_(?:length|window|size)", r"max_context", r"too_(?:large|long|big)", r"entity_too_large",
        r"exceeds_(?:context|budget)", r"(?:string|array|length)_above_max", r"content_length_exceeded",
        r"(?:input|prompt)_tokens_exceeded",
    ),
    _token(
        "refused", "validation", "refused",
        r"content_(?:filter|policy|moderation|blocked)", r"policy_violation", r"responsible_ai", r"usage_policy",
        r"cyber_policy", r"moderation", r"flagged", r"prohibited_content", r"(?:^|_)safety(?:_|$)", r"blocklist",
        r"guardrail", r"data_inspection", r"(?<!connection_)(?<!connect_)refus(?:al|ed)(?:_|$)",  # (no connection)
        r"(?:^|_)recitation", r"(?:^|_)spii",
        r"sensitive_(?:content|words)", r"^sensitive$", r"unsafe_content", r"toxic",
    ),
    _token(
        "billing", "quota", "billing",
        r"insufficient_(?:\w+_)?(?:quota|balance|credits?|funds?)", r"billing", r"payment", r"credit_balance",
        r"credits?_(?:\w+_)?(?:exhaust|deplet|insufficient|limit|too_low|required|reached)", r"out_of_credits?",
        r"no_credits", r"(?:spend|spending|cost|budget|usd)_(?:\w+_)?(?:limit|cap|exceed|exhaust|reach|quota)",
        r"max_budget", r"(?:exceed|over)\w*_(?:\w+_)?(?:budget|spend)", r"arrear", r"overdue", r"past_due",
        r"usage_not_included", r"exceeded_current_quota", r"balance_(?:insufficient|too_low|exhaust)",
    ),
    _token(
        "capacity", "quota", "capacity",
        r"overload", r"capacity", r"not_ready", r"(?:server|system|engine|model|queue)_(?:is_)?(?:busy|full|loading)",
        r"insufficient_system_resource", r"resource_unavailable", r"no_available", r"unavailable_error$",
        r"high_demand",
    ),
    _token(
        "window", "quota", "window",
        r"usage_limit", r"quota_exhausted", r"(?:five|5)_hour", r"(?:seven|7)_day",
        r"(?:per|by)_(?:hour|day|week|month)",
        r"(?:session|hour|hourly|day|week|month|year|yearly|5h|7d|24h)_(?:\w+_)?(?:limit|quota|cap|rate)",
        r"(?:^|_)(?:rpd|tpd|rph|tph)(?:_|$)", r"daily", r"weekly", r"monthly",
    ),
    _token("slow-down", "quota", "throttle", r"slow_down", r"too_quickly", r"concurrency",
    r"concurrent_(?:limit|request)"),
    _token(
        "rate", "quota", "throttle",
        r"rate_?limit_(?:exceeded|reached)", r"rate_?limited", r"rate_exceeded", r"throttl", r"request_limit",
        r"retryable_quota", r"token_limit_exceeded", r"tokens_limit_reached", r"enqueued", r"(?:^|_)rate_?quota",
        r"limit_exceeded_exception", r"service_quota_exceeded",
        weak="family",
    ),
    _token(
        "rate-word", "quota", "throttle",
        r"rate_?limit", r"too_many_requests", r"resource_?exhausted", r"quota", r"(?:^|_)limit_(?:exceeded|reached)",
        r"limit_exceeded$", r"^tokens$", r"^requests$", r"^rejected$",
        weak="vague",
    ),
    _token(
        "timeout", "timeout", "wall",
        r"time_?d?_?out(?!_ms)", r"deadline_exceeded", r"batch_expired", r"(?:job|batch)_state_expired",
    ),
    _token(
        "not-found", "phase_error", "not_found",
        r"not_found", r"does_not_exist", r"no_such_(?:model|deployment|key|file)", r"unknown_model", r"nonexistent",
        r"model_(?:decommissioned|not_available|removed|deprecated)",
    ),
    _token(
        "auth", "phase_error", "auth",
        r"api_key", r"authenticat", r"authoriz", r"(?:^|_)auth(?:_|$)", r"credential", r"oauth", r"login_required",
        r"not_logged_in", r"expired_token", r"token_(?:expired|revoked|invalid|reused)", r"unrecognized_client",
        r"invalid_(?:token|signature|grant)", r"signature_does_not", r"account_(?:deactivated|disabled|suspended)",
        r"unsupported_country", r"service_disabled", r"restricted",
    ),
    _token(
        "permission", "phase_error", "auth", r"permission", r"forbidden", r"not_allowed", r"access_denied",
        weak="family",
    ),
    _token("turns", "validation", "truncated", r"max_turns", r"turn_limit", r"max_iterations"),
    _token("unavailable", "quota", "capacity", r"unavailable", weak="family"),
    _token(
        "planning", "planning_error", "",
        r"unsupported_(?:parameter|value|model|media|file|content|field)", r"missing_(?:required|parameter)",
        r"unknown_(?:parameter|field|option|argument)", r"config_error", r"fatal_(?:config|input)", r"input_error",
        r"invalid_(?:type|value|json|parameter|schema|function|image|tool|url|base64)", r"usage_error", r"malformed",
        r"parse_error", r"param_error",
    ),
    _token("connection", "unknown", "", r"(?:^|_)connect(?:ion)?_(?:error|reset|refused|closed|aborted)"),
    _token(
        "request", "planning_error", "",
        r"invalid_request", r"invalid_argument", r"failed_precondition", r"bad_request", r"unprocessable",
        r"validation(?:_error|_exception)?$", r"out_of_range", r"input_validation",
        weak="generic",
    ),
    _token(
        "server", "unknown", "",
        r"api_error", r"server_error", r"internal", r"unknown", r"bad_gateway", r"upstream",
        r"model_(?:stream_)?error",
        r"service_error",
        weak="generic",
    ),
)  # fmt: skip


def _ending(id: str, category: str, kind: str, *patterns: str) -> Rule:
    return Rule(f"ending.{id}", Sieve(*patterns), category, kind)


# Why a provider says that it ended; anything else is a stop.
ENDINGS: tuple[Rule, ...] = (
    _ending("capacity", "quota", "capacity", r"insufficient_system_resource", r"overload"),
    _ending(
        "refused", "validation", "refused",
        r"filter", r"safety", r"refus", r"block", r"prohibit", r"recitation", r"spii", r"guardrail", r"moderat",
        r"sensitive", r"toxic", r"policy", r"flagged", r"^language$",
    ),
    _ending(
        "truncated", "validation", "truncated",
        r"length", r"max_(?:\w+_)?tokens?", r"token_limit", r"incomplete", r"max_turns", r"max_steps", r"max_output",
        r"context_window", r"(?:^|_)limit$", r"truncat",
    ),
    _ending("expired", "timeout", "wall", r"expired", r"timeout_exceeded", r"timed_out"),
    _ending(
        "failed", "unknown", "", r"(?:^|_)error", r"abort", r"malformed", r"cancel", r"unexpected", r"fail"
    ),
)  # fmt: skip


# Left with nothing better than a status.
STATUSES: dict[int, tuple[str, str]] = {
    400: ("planning_error", ""), 401: ("phase_error", "auth"), 402: ("quota", "billing"), 403: ("phase_error", "auth"),
    404: ("phase_error", "not_found"), 405: ("planning_error", ""), 406: ("planning_error", ""),
    407: ("phase_error", "auth"), 408: ("timeout", "wall"), 410: ("phase_error", "not_found"),
    411: ("planning_error", ""), 413: ("validation", "too_large"), 414: ("validation", "too_large"),
    415: ("planning_error", ""), 417: ("planning_error", ""), 422: ("planning_error", ""), 429: ("quota", "throttle"),
    431: ("validation", "too_large"), 498: ("quota", "capacity"), 503: ("quota", "capacity"),
    504: ("timeout", "wall"), 524: ("timeout", "wall"), 529: ("quota", "capacity"),
}  # fmt: skip

# Names of limits in headers that are counted over hours or longer.
LONG_BUCKET = re.compile(
    r"(?i)(?:^|[-_ ])(?:hour|day|daily|week|weekly|month|monthly|5h|7d|24h|1d|(?:five|5)[_-]hour|(?:seven|7)[_-]day)"
    r"(?:$|[-_ s])"
)


@lru_cache(1024)
def of_token(token: str) -> Optional[Rule]:
    """The rule of TOKENS for a code, type or reason in the form of `unwrap.words`."""
    return first(TOKENS, token)


def first(rules: Iterable[Rule], text: str) -> Optional[Rule]:
    """The first of `rules` whose pattern is found in `text`, which is in lower case (see `sieve.fold`)."""
    for rule in rules:
        if rule.pattern.search(text):
            return rule
    return None
