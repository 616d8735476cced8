"""The rules by which a failure is recognised, as data: each has an id, which a verdict keeps.

Tokens (codes, types, reasons, reasons of ending) are matched in the form of `unwrap.words`; messages in plain
words, after offers and advice were taken out of them. The first rule that matches decides; so what is more
specific stands first. Nothing else in gitstate recognises an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Optional


class Rule(NamedTuple):
    """If `pattern` is found, it is this. `weak` rules are for words that providers use for everything:
    `family` ones name the category and leave the kind to the message, `generic` ones yield to any status."""

    id: str
    pattern: re.Pattern[str]
    category: str
    kind: str = ""
    weak: str = ""  # "", family, generic


def _token(id: str, pattern: str, category: str, kind: str = "", weak: str = "") -> Rule:
    return Rule(f"token.{id}", re.compile(pattern), category, kind, weak)


TOKENS: tuple[Rule, ...] = (
    _token("in-flight", r"in_flight|reserved_by|budget_reserved", "quota", "throttle"),
    _token(
        "too-large",
        r"context_(?:length|window|size)(?!_\w*ok)|too_(?:large|long|big)|exceeds_(?:context|budget|limit_alone)"
        r"|(?:string|array|length)_above_max|max_context|content_length_exceeded|entity_too_large"
        r"|input_tokens_exceeded|prompt_tokens_exceeded",
        "validation",
        "too_large",
    ),
    _token(
        "refused",
        r"content_(?:filter|policy|moderation)|policy_violation|responsible_ai|usage_policy|cyber_policy|moderation"
        r"|flagged|prohibited_content|(?:^|_)safety(?:_|$)|blocklist|guardrail|data_inspection|refus(?:al|ed)(?:_|$)"
        r"|(?:^|_)recitation|(?:^|_)spii|sensitive_(?:content|words)|^sensitive$|content_blocked|unsafe_content"
        r"|block_reason|toxic",
        "validation",
        "refused",
    ),
    _token(
        "billing",
        r"insufficient_(?:\w+_)?(?:quota|balance|credits?|funds?)|billing|payment|credits?_(?:\w+_)?"
        r"(?:exhaust|deplet|insufficient|limit|too_low|required|reached)|credit_balance|out_of_credits?|no_credits"
        r"|(?:spend|spending|cost|budget|usd)_(?:\w+_)?(?:limit|cap|exceed|exhaust|reach|quota)|max_budget"
        r"|(?:exceed|over)\w*_(?:\w+_)?(?:budget|spend)|arrear|overdue|past_due|usage_not_included"
        r"|exceeded_current_quota|account_(?:balance|suspended_billing)|balance_(?:insufficient|too_low|exhaust)",
        "quota",
        "billing",
    ),
    _token(
        "capacity",
        r"overload|capacity(?!_limit_per)|not_ready|(?:server|system|engine|model|queue)_(?:is_)?(?:busy|full|loading)"
        r"|insufficient_system_resource|resource_unavailable|no_available|unavailable_error$|model_loading|high_demand",
        "quota",
        "capacity",
    ),
    _token(
        "window",
        r"usage_limit|quota_exhausted|(?:session|hour|hourly|day|daily|week|weekly|month|monthly|year|yearly|5h|7d|24h)"
        r"_(?:\w+_)?(?:limit|quota|cap|rate)|(?:five|5)_hour|(?:seven|7)_day|(?:per|by)_(?:hour|day|week|month)"
        r"|(?:^|_)(?:rpd|tpd|rph|tph)(?:_|$)|daily|weekly|monthly",
        "quota",
        "window",
    ),
    _token("slow-down", r"slow_down|too_quickly|concurren\w*_(?:limit|request)|concurrency", "quota", "throttle"),
    _token(
        "rate",
        r"rate_?limit_(?:exceeded|reached)|throttl|request_limit|rate_?limited|rate_exceeded|retryable_quota"
        r"|token_limit_exceeded|tokens_limit_reached|enqueued|(?:^|_)rate_?quota|limit_exceeded_exception"
        r"|service_quota_exceeded",
        "quota",
        "throttle",
        "family",
    ),
    _token(
        "rate-word",
        r"rate_?limit|too_many_requests|resource_?exhausted|quota|(?:^|_)limit_(?:exceeded|reached)|limit_exceeded$"
        r"|^tokens$|^requests$|^rejected$",
        "quota",
        "throttle",
        "weak-family",
    ),
    _token(
        "timeout",
        r"time_?d?_?out(?!_ms)|deadline_exceeded|batch_expired|timeout_exceeded|job_state_expired|batch_state_expired",
        "timeout",
        "wall",
    ),
    _token(
        "not-found",
        r"not_found|does_not_exist|no_such_(?:model|deployment|key|file)|unknown_model|model_decommissioned"
        r"|model_(?:not_supported_by_account|not_available|removed|deprecated)|deployment_not|nonexistent",
        "phase_error",
        "not_found",
    ),
    _token(
        "auth",
        r"api_key|authenticat|authoriz|(?:^|_)auth(?:_|$)|credential|expired_token|token_expired"
        r"|token_(?:revoked|invalid|reused)|invalid_(?:token|signature|grant)|unrecognized_client|signature_does_not"
        r"|oauth|login_required|account_(?:deactivated|disabled|suspended)|unsupported_country|service_disabled"
        r"|not_logged_in|subscription_not_found",
        "phase_error",
        "auth",
    ),
    _token("permission", r"permission|forbidden|not_allowed|access_denied", "phase_error", "auth", "family"),
    _token("turns", r"max_turns|turn_limit|max_iterations|turn_limited", "validation", "truncated"),
    _token(
        "unavailable", r"unavailable|^service_unavailable", "quota", "capacity", "family"
    ),
    _token(
        "planning",
        r"unsupported_(?:parameter|value|model|media|file|content|field)|unknown_(?:parameter|field|option|argument)"
        r"|missing_(?:required|parameter)|invalid_(?:type|value|json|parameter|schema|function|image|tool|url|base64)"
        r"|config_error|fatal_(?:config|input)|input_error|usage_error|malformed|parse_error|param_error"
        r"|invalid_parameter|unprocessable",
        "planning_error",
    ),
    _token("connection", r"connect(?:ion)?_(?:error|reset|refused|closed|aborted)|(?:^|_)connection", "unknown"),
    _token(
        "request",
        r"invalid_request|invalid_argument|failed_precondition|bad_request|validation(?:_error|_exception)?$"
        r"|unprocessable_entity|out_of_range|input_validation",
        "planning_error",
        "",
        "generic",
    ),
    _token(
        "server",
        r"api_error|server_error|internal|unknown|bad_gateway|upstream|model_error|model_stream_error|server_exception"
        r"|service_error",
        "unknown",
        "",
        "generic",
    ),
)  # fmt: skip

# Why a provider says that it ended; anything else is a stop.
ENDINGS: tuple[Rule, ...] = (
    Rule("ending.capacity", re.compile(r"insufficient_system_resource|overload"), "quota", "capacity"),
    Rule(
        "ending.refused",
        re.compile(
            r"filter|safety|refus|block|prohibit|recitation|spii|guardrail|moderat|sensitive|toxic|policy|flagged"
            r"|language$"
        ),
        "validation",
        "refused",
    ),
    Rule(
        "ending.truncated",
        re.compile(
            r"length|max_(?:\w+_)?tokens?|token_limit|incomplete|max_turns|context_window|(?:^|_)limit$|max_output"
            r"|max_steps|error_limit|truncat"
        ),
        "validation",
        "truncated",
    ),
    Rule("ending.expired", re.compile(r"expired|timeout_exceeded|timed_out"), "timeout", "wall"),
    Rule("ending.failed", re.compile(r"(?:^|_)error|abort|malformed|cancel|unexpected|fail"), "unknown"),
)


def _said(id: str, pattern: str, category: str, kind: str = "") -> Rule:
    return Rule(f"words.{id}", re.compile(pattern, re.IGNORECASE), category, kind)


_LIMIT = r"(?:limits?|quotas?|cap|allowance|allocation)"
_GONE = r"(?:reached|exceeded|hit|exhausted|used up|depleted|met|maxed|full|over)"

MESSAGES: tuple[Rule, ...] = (
    _said(
        "too-large",
        r"context (?:length|window|size|limit)|maximum (?:context|prompt|input|number of (?:input )?tokens)"
        r"|(?:request|prompt|input|message|payload|body|entity|content|file)s?\b[^.\n]{0,30}? (?:is |are |was |were )?too (?:large|long|big)"
        r"|too large for (?:this |the )?model|exceeds? the (?:model|maximum|max|available context|context|token limit of)"
        r"|reduce (?:the length|your (?:message|prompt|input|request)|the (?:size|number))|input or output tokens must be reduced"
        r"|total number of tokens in the prompt|weight exceeds|request exceeds the available context"
        r"|inputs?`? tokens? \+ `?max_new_tokens|exceeds? (?:the )?(?:size|upload) limit|max(?:imum)? (?:request )?size",
        "validation",
        "too_large",
    ),
    _said(
        "refused",
        r"content (?:management |filter(?:ing)? |moderation |usage |safety )?polic|(?:prompt|response|content|input|output|request|image)s? "
        r"(?:was|were|has been|have been|is|got) (?:\w+ )?(?:filtered|blocked|flagged|refused|moderated|rejected by (?:the |our )?(?:safety|moderation|content))"
        r"|(?:flagged|blocked) (?:as|by|for|due to|because)|violat\w* (?:\w+ ){0,3}(?:polic|terms|guideline)|safety (?:system|filter|reasons|settings)"
        r"|usage polic|content filter|unsafe content|inappropriate content",
        "validation",
        "refused",
    ),
    _said("zero", r"\blimit['\"`]?\s*[:=]?\s*[\"']?0\b(?![.,]?\d)|quota (?:is|of) (?:zero|0)\b", "quota", "billing"),
    _said(
        "in-flight", r"requests? in flight|reserved by|(?:some|other|running) (?:requests|batches) have (?:finished|been completed)", "quota", "throttle"
    ),
    _said(
        "billing",
        r"insufficient (?:\w+ ){0,2}(?:credits?|balance|funds?|quota)|(?:credits?|balance|funds?|wallet)\b[^.\n]{0,25}? (?:is |are |has |have )?"
        r"(?:too low|insufficient|exhausted|depleted|run out|used up|empty|negative|expired|not enough|below)"
        r"|(?:out of|no(?: more)?|not enough|used (?:up )?all(?: available| of)?(?: your| its| the)?|any) "
        r"(?:remaining |available |prepaid |api |extra )?(?:credits?|balance|funds|money|extra usage)"
        r"|0 credits (?:remaining|left)|(?:requires?|need|must|exceeds? your) (?:\w+ ){0,2}(?:more )?credits"
        r"|payment (?:is )?(?:required|failed|declined|method|overdue|past due|due)|valid payment|invoice"
        r"|billing (?:hard |soft )?(?:limit|cap)|(?:enable|set ?up|activate|add|requires?|update|check|verify) (?:your )?billing(?! (?:details )?\w* ?page)"
        r"(?! details)|billing (?:is |has |account |address )?(?:\w+ )?(?:not |dis|inactive)(?:enabled|abled|active|configured|set)?"
        r"|account is not active|account (?:\w+ ){0,3}suspended|suspended[^.\n]{0,40}billing"
        r"|(?:spend(?:ing)?|cost|budget|dollar|usd|\$)\b[^.\n]{0,40}?\b(?:limit|cap|quota|exceed|reach|exhaust|used up|spent)"
        r"|(?:limit|cap|quota|exceed\w*|reach\w*|exhaust\w*|over)\b[^.\n]{0,30}?\b(?:spend(?:ing)?|budget)\b"
        r"|extra usage (?:is )?required|no active subscription|subscription (?:has )?(?:expired|lapsed|ended|required|inactive)|余额不足|欠费|arrears"
        r"|\bprepaid\b|top[- ]?up required|not included in your plan|plan does not include",
        "quota",
        "billing",
    ),
    _said(
        "window",
        rf"usage[ -](?:limits?|cap|quota)|session (?:usage )?{_LIMIT}|plan(?:'s)? {_LIMIT}"
        r"|\b(?:hourly|daily|weekly|monthly|yearly|annual)\b|\b(?:rpd|tpd|rph|tph|rpw|tpw)\b"
        r"|(?:\bper|/|\beach|\bevery|\bthis|\bfor the|\bby)[ _-]?(?:\d+[ -]?)?(?:h|hr|hours?|days?|weeks?|months?|year)\b"
        r"|\b(?:\d+|five|seven|one|twenty-four)[ -]?(?:h|hr|hour|d|day|week|month)s?[ _-](?:\w+ )?(?:limit|quota|window|cap|rolling)"
        r"|\bfor today|today's|last (?:24 hours|\d+ hours|day|week|month)|per \d{4,}\s?s(?:ec|econds)?\b|per(?:day|hour|week|month)"
        rf"|premium requests?\b[^.\n]{{0,30}}(?:{_LIMIT}|{_GONE})|you(?:'ve|’ve| have) (?:hit|reached|exceeded) your {_LIMIT}\b"
        r"|quota will be replenished|individual quota",
        "quota",
        "window",
    ),
    _said(
        "capacity",
        r"overload|(?:at|over|of|no|lacks?|insufficient|exceed\w*|out of|full|available|limited|tier) (?:\w+ )?capacity|capacity (?:is |temporarily |has been |was )*"
        r"(?:exceeded|reached|exhausted|full|unavailable|limit|constraint|available)|server(?:s)?(?: is| are)? (?:\w+ )?busy|\bbusy\b|high (?:demand|load|traffic|volume)"
        r"|not ready|(?:is |currently |model )?(?:still )?(?:loading|warming up|starting up|cold start)|maximum pending requests|queue is full|all (?:\w+ )?(?:slots|workers) (?:are )?(?:busy|in use)"
        r"|no (?:available )?(?:slots?|workers?|instances?|gpus?|machines?)\b|service (?:is )?(?:temporarily |currently )?unavailable|temporarily unavailable|heavy load",
        "quota",
        "capacity",
    ),
    _said(
        "rate",
        r"rate[- _]?limit|too many (?:concurrent |parallel )?(?:requests|tokens|connections|calls)|throttl|slow(?:ing)? down|too quickly|too fast|too frequent"
        r"|(?:requests|tokens|calls|queries|images)(?:\s*/\s*|[ -]per[ -]|-)(?:second|sec|minute|min)|\b(?:rpm|tpm|rps|qps)\b|per[- ]minute|concurren\w+ (?:limit|requests?)|limiting requests"
        r"|limit of \d+ (?:\w+ )?(?:requests|calls|tokens)|request limit|token limit reached|enqueued token|requests? (?:was |were )?(?:limited|rejected)[^.\n]{0,20}429",
        "quota",
        "throttle",
    ),
)  # fmt: skip

# After "check your plan and billing details", which outside of Google means an empty account, and there nothing.
QUOTA_WORD = _said(
    "quota", rf"quota|resource (?:has been )?exhausted|{_LIMIT}\b[^.\n]{{0,20}}\b{_GONE}|{_GONE} (?:\w+ ){{0,3}}{_LIMIT}\b", "quota", "throttle"
)  # fmt: skip
BILLING_ADVICE = _said(
    "billing-advice", r"plan (?:and|&) billing|billing (?:details|page|settings|section)|\bbilling\b", "quota", "billing"
)

OTHERS: tuple[Rule, ...] = (
    _said(
        "auth",
        r"(?:invalid|incorrect|missing|no|wrong|expired|bad|revoked|unknown|provide an?|set (?:the|your)|not a valid|required) (?:\w+ ){0,3}(?:api[ _-]?key|access token|auth\w* token|token\b(?! count)|credentials?\b|bearer)"
        r"|api[ _-]?key (?:is |was |has |not )?(?:\w+ )?(?:invalid|missing|expired|not (?:valid|found|set|provided)|required|incorrect|revoked|environment)"
        r"|unauthori[sz]ed|unauthenticated|authenticat\w* (?:failed|failure|error|required|is required)|failed to authenticate|could not (?:be )?authenticate|not authenticated"
        r"|(?:please )?(?:run|use|try) [^.\n]{0,20}?/?log ?in\b|not logged in|log ?in (?:again|required|first|to continue)|please (?:sign|log) ?in|sign in (?:again|to)|session (?:has )?expired|token (?:has |is )?(?:been )?(?:expired|revoked|invalid)"
        r"|permission|access denied|forbidden|(?:do not|don't|does not|doesn't|no) have access|not (?:allowed|permitted|entitled)|account (?:has been |is )?(?:deactivated|disabled|banned)"
        r"|_API_KEY\b|credentials (?:not|could not)|unable to locate credentials|organization has been disabled",
        "phase_error",
        "auth",
    ),
    _said(
        "usage",
        r"(?:unknown|unrecogni[sz]ed|unexpected|invalid|no such|ambiguous|unsupported|missing|conflicting) (?:\w+ )?(?:options?|arguments?|flags?|commands?|subcommand|switch|parameters?|choice|keyword argument)\b"
        r"|(?:requires|expected|takes|missing)\b[^.\n]{0,30}\b(?:arguments?|option|operand)|flag provided but not defined|arguments are required|invalid value for|the argument [^\n]{0,60}cannot be used|^usage:|try ['`\"]?[\w -]+--help|cannot be used with|must be (?:a|an|one of)\b"
        r"|invalid (?:settings|config\w*|json|schema|request|type)|(?:config\w*|settings)\b[^.\n]{0,40}(?:invalid|malformed|error|could not be (?:parsed|read))|is not supported (?:with|by|for|when|in)\b|unsupported (?:parameter|value)|malformed|bad request|option [^\n]{0,40} not recogni[sz]ed|illegal option",
        "planning_error",
    ),
    _said(
        "not-found",
        r"not found|no such file|does(?: not|n't) exist|unknown model|(?:not|isn't) a (?:known|valid) model|could(?: not|n't) (?:be )?f(?:ind|ound)|no (?:such )?model|cannot find|unable to find|is not available in your|has been (?:decommissioned|removed|retired)"
        r"|model [^\n]{0,60}(?:is not available|not available|unavailable for)|try pulling it",
        "phase_error",
        "not_found",
    ),
    _said("turns", r"(?:max(?:imum)?(?: number of)?|limit of \d+) (?:\w+ )?(?:turns|steps|iterations)|turn limit|(?:output|response|completion) (?:\w+ ){0,3}(?:truncated|cut off|exceeded the \d+ output token|output token (?:limit|maximum))|output token maximum|output limit", "validation", "truncated"),
    _said("timeout", r"(?:request|operation|read|call|response|deadline|gateway|session|model|command|idle|stream|api)\b[^.\n]{0,25}?(?:timed[ -]?out|time-?out|exceeded)|^(?:\w+: )?timed? ?out|deadline exceeded|completion window expired|timed out (?:after|waiting)|before (?:the )?(?:completion )?window expired", "timeout", "wall"),
)  # fmt: skip
CONNECTION = _said(
    "connection",
    r"connection (?:error|reset|refused|closed|aborted|terminated|lost|failed|timed out)|could not (?:resolve|connect)|couldn't connect|failed to (?:connect|fetch|open)|network (?:error|is unreachable)|econn\w+|enotfound|etimedout|eai_again|socket hang up|name resolution|getaddrinfo|dns|tls handshake|ssl|stream disconnected|broken pipe|fetch failed|upstream connect error",
    "unknown",
)  # fmt: skip
CRASH = _said(
    "crash",
    r"segmentation fault|core dumped|\baborted\b|\bkilled\b|bus error|illegal instruction|floating point exception|trace/breakpoint|\bterminated\b"
    r"|terminate called|stack smashing|heap out of memory|out of memory|\boom\b|panicked at|^panic:|fatal runtime error|fatal error:|^sig[a-z]{3,5}\b|stack overflow|assertion (?:`[^\n]*' )?failed|double free|double-free|corrupted",
    "phase_error",
    "crash",
)  # fmt: skip

# Left with nothing better than a status.
STATUSES: dict[int, tuple[str, str]] = {
    400: ("planning_error", ""), 401: ("phase_error", "auth"), 402: ("quota", "billing"), 403: ("phase_error", "auth"),
    404: ("phase_error", "not_found"), 405: ("planning_error", ""), 406: ("planning_error", ""), 407: ("phase_error", "auth"),
    408: ("timeout", "wall"), 410: ("phase_error", "not_found"), 411: ("planning_error", ""), 413: ("validation", "too_large"),
    414: ("validation", "too_large"), 415: ("planning_error", ""), 417: ("planning_error", ""), 422: ("planning_error", ""),
    429: ("quota", "throttle"), 431: ("validation", "too_large"), 498: ("quota", "capacity"), 503: ("quota", "capacity"),
    504: ("timeout", "wall"), 524: ("timeout", "wall"), 529: ("quota", "capacity"),
}  # fmt: skip

# What most limit messages end with, and what is no cause: offers, advice, links, and what a limit is said not to be.
_NOT_CAUSES = re.compile(
    r"""(?ix)
    https?://\S+
    | \(? \b(?:this\ is\ )? not \s (?:your|a|an|the|due \s to \s your) [^.)\n]{0,40}? \b(?:limit|quota|billing|credits?) \w* \)?
    | \b(?:please\s)? (?: upgrade | purchase | buy | subscribe | switch \s to | visit | see | go \s to | head \s to | learn \s more
      | contact | request (?: \s an? )? (?: \s quota)? \s increase | apply \s for | consider | add \s (?:\w+\s){0,2}? (?:credits?|funds|a\ payment\ method)
      | to \s (?:increase|raise|get|request|avoid|continue|keep) | for \s (?:more|higher) | if \s you | you \s can | increase \s your | manage
      | turn \s on | enable \s (?:extra\ usage|overage) | need \s more | want \s more ) \b [^.\n·∙•]* (?: \.(?=\d)[^.\n]* )*
    """
)
_ADVICE = re.compile(r"(?i)[,.;]?\s*(?:please )?\bcheck (?:your|the) (?:plan|quotas?|usage|account|limits)\b[^.\n]*")
_RETURN = re.compile(r"(?i)\b(?:or\s)?(?:try again|retry|wait|resets?|come back)\b[^.\n]*(?:\.\d[^.\n]*)*")
_REQUESTED = re.compile(r"(?i)\blimit:?\s*(?:is\s)?([\d,]+)\b[^\n]{0,60}?\brequest(?:ed)?:?\s*([\d,]+)\b")


def cause(message: str) -> str:
    """A message without what does not name a cause: offers, advice and links. Times of return are kept."""
    kept = []
    for line in message.splitlines():
        line = line.replace("’", "'")
        times = " ".join(match[0] for match in _NOT_CAUSES.finditer(line) if not match[0].startswith("http"))
        back = " ".join(match[0] for match in _RETURN.finditer(times))
        kept.append(f"{_NOT_CAUSES.sub(' ', line)} {back}".strip())
    return _ADVICE.sub(" ", "\n".join(kept))


def is_over(message: str) -> bool:
    """Whether the message names a limit and a single request above it."""
    for match in _REQUESTED.finditer(message[:4000]):
        limit, wanted = (int(number.replace(",", "") or 0) for number in match.groups())
        if 0 < limit < wanted:
            return True
    return False


def first(rules: Iterable[Rule], text: str) -> Optional[Rule]:
    """The first of `rules` whose pattern is found in `text`."""
    return next((rule for rule in rules if rule.pattern.search(text)), None)

# What a tool says in a sentence of its own, without calling it an error.
ANNOUNCED: tuple[Rule, ...] = (*MESSAGES, QUOTA_WORD, *OTHERS)

# Names of limits in headers that are counted over hours or longer; periods in words that are shorter.
LONG_BUCKET = re.compile(
    r"(?i)(?:^|[-_ ])(?:hour|day|daily|week|weekly|month|monthly|5h|7d|24h|1d|(?:five|5)[_-]hour|(?:seven|7)[_-]day)(?:$|[-_ s])"
)
SHORT_PERIOD = re.compile(r"(?i)(?:per|/|each|every|this)[ -]?(?:second|sec|minute|min)\b|\b[rt]pm\b|per[- ]?minute")
