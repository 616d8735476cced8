"""The rules for messages in plain words, as data; see `core/rules.py`.

They are matched after offers and advice were taken out of a message. The first that matches decides.
"""

from __future__ import annotations

import re

from gitstate.core.rules import Rule
from gitstate.core.sieve import Sieve


def _said(id: str, category: str, kind: str, *patterns: str | tuple[str, ...]) -> Rule:
    return Rule(f"words.{id}", Sieve(*patterns), category, kind)


_LIMIT = r"(?:limits?|quotas?|cap|allowance|allocation)"
_GONE = r"(?:reached|exceeded|hit|exhausted|used up|depleted|met|maxed|full|over)"
_THING = r"(?:prompt|response|content|input|output|request|image|message)s?"
_LONG = r"(?:h|hr|hours?|days?|weeks?|months?|year)(?![a-z])"

# Periods of an hour or longer, and limits that are always counted over one.
_PERIODS = (
    r"\b(?:hourly|daily|weekly|monthly|yearly|annual)\b", r"\b(?:rpd|tpd|rph|tph|rpw|tpw)\b", r"\btoday\b",
    *(
        rf"{before}[ _-]?(?:\d+[ -]?)?{_LONG}"
        for before in (r"\bper", r"_per", r"/", r"\beach", r"\bevery", r"\bthis", r"\bfor the", r"\bby")
    ),
    r"per(?:day|hour|week|month)", r"billing (?:cycle|period)", r"per \d{4,}\s?s(?:ec|econds)?\b",
    r"last (?:24 hours|\d+ hours|day|week|month)",
    r"\b(?:\d+|five|seven|one|twenty-four)[ -]?(?:h|hr|hour|d|day|week|month)s?[ _-](?:\w+ )?"
    r"(?:limit|quota|window|cap)",
)  # fmt: skip
_LIMITED = r"limit|quota|exceed|reach|exhaust|allow|allocat|\bused\b|too many|throttl|remaining|\bhit\b|\bcap\b|out of"
_USAGE = (
    r"usage[ -](?:limits?|cap|quota)", rf"session (?:usage )?{_LIMIT}", rf"plan(?:'s)? {_LIMIT}",
    rf"premium requests?\b[^.\n]{{0,30}}(?:{_LIMIT}|{_GONE})",
    rf"you(?:'ve| have) (?:hit|reached|exceeded) your {_LIMIT}\b",
)  # fmt: skip
LONG = Sieve(*_USAGE, *_PERIODS)
WINDOW = _said(
    "window", "quota", "window",
    *_USAGE,
    *((period, _LIMITED) for period in _PERIODS),  # a period, where a limit is spoken of
)  # fmt: skip
ZERO = _said(
    "zero", "quota", "billing",
    r"\blimit['\"`]?\s*[:=]?\s*[\"']?0\b(?![.,]?\d)", r"quota (?:is|of) (?:zero|0)\b(?![.,]?\d)",
)  # fmt: skip

MESSAGES: tuple[Rule, ...] = (
    _said(
        "too-large", "validation", "too_large",
        r"context (?:length|window|size|limit)", r"maximum (?:context|prompt|input|number of (?:input )?tokens)",
        rf"(?:{_THING}|payload|body|entity|file)\b[^.\n]{{0,30}}? (?:is |are |was |were )?too (?:large|long|big)",
        r"too large for (?:this |the )?model",
        r"exceeds? the (?:model|maximum|max\b|available context|context|token limit of)",
        r"reduce (?:the length|your (?:message|prompt|input|request)|the (?:size|number))",
        r"input or output tokens must be reduced", r"total number of tokens in the prompt", r"weight exceeds",
        r"inputs?`? tokens? \+ `?max_new_tokens", r"exceeds? (?:the )?(?:size|upload) limit",
        r"max(?:imum)? (?:request )?size",
    ),
    _said(
        "refused", "validation", "refused",
        r"content (?:management |filter(?:ing)? |moderation |usage |safety )?polic", r"usage polic",
        r"content filter",
        rf"{_THING} (?:was|were|has been|have been|is|got) (?:\w+ )?(?:filtered|blocked|flagged|refused|moderated)",
        rf"{_THING} (?:was|were|has been) rejected (?:by|as a result of) (?:the |our )?(?:safety|moderation|content)",
        r"(?:flagged|blocked) (?:as|by|for|due to|because)", r"violat\w* (?:\w+ ){0,3}(?:polic|terms|guideline)",
        r"safety (?:system|filter|reasons|settings)", r"unsafe content", r"inappropriate content",
    ),
    ZERO,
    _said(
        "in-flight", "quota", "throttle",
        r"requests? in flight", r"reserved by", r"(?:requests|batches) have (?:finished|been completed)",
    ),
    _said(
        "billing", "quota", "billing",
        r"insufficient (?:\w+ ){0,2}(?:credits?|balance|funds?|quota)",
        r"(?:credits?|balance|funds?|wallet)\b[^.\n]{0,25}? (?:too low|insufficient|exhausted|depleted|run out"
        r"|used up|empty"
        r"|negative|expired|not enough|below)",
        r"(?:out of|no(?: more)?|not enough|used (?:up )?all(?: available| of)?(?: your| its| the)?|any) "
        r"(?:remaining |available |prepaid |api |extra )?(?:credits?|balance|funds|money|extra usage)",
        r"0 credits (?:remaining|left)", r"(?:requires?|need|must|exceed\w* (?:your|the|all)) (?:\w+ ){0,3}credits",
        r"can only afford", r"credit card", r"card (?:was |has been )?declined",
        r"(?:plan|trial) (?:has )?(?:expired|ended)", r"credits? limit (?:exceeded|reached)",
        r"key limit exceeded(?! \((?:daily|weekly|monthly))",
        r"payment (?:is )?(?:required|failed|declined|method|overdue|past due|due)", r"valid payment", r"invoice",
        r"billing (?:hard |soft )?(?:limit|cap)",
        r"billing (?:is |has |account )?(?:\w+ )?(?:not |dis|in)(?:enabled|abled|active)",
        r"(?:enable|set ?up|activate|add|requires?|update|verify) (?:your )?billing(?! (?:details|page))",
        r"account is not active", r"account (?:\S+ ){0,3}suspended", r"suspended[^.\n]{0,40}billing",
        r"(?:spend(?:ing)?|cost|budget|dollar|usd|\$)\b[^.\n]{0,40}?\b(?:limit|cap|quota|exceed|reach|exhaust"
        r"|used up|spent)",
        r"(?:limit|cap|quota|exceed\w*|reach\w*|exhaust\w*|over)\b[^.\n]{0,30}?\b(?:spend(?:ing)?|budget)\b",
        r"extra usage (?:is )?required", r"subscription (?:has )?(?:expired|lapsed|ended|required|inactive)",
        r"no active subscription", r"not included in your plan", r"plan does not include", r"top[- ]?up required",
        r"\bprepaid\b", r"arrears", r"余额不足", r"欠费",
    ),
    WINDOW,
    _said(
        "capacity", "quota", "capacity",
        r"overload", r"(?:at|over|of|no|lacks?|insufficient|exceed\w*|out of|full|available|limited"
        r"|tier) (?:\w+ )?(?<!your )capacity",
        r"(?<!your )capacity (?:is |temporarily |has been |was )*(?:exceeded|reached|exhausted|full|unavailable"
        r"|limit|constraint)",
        r"servers?(?: is| are)? (?:\w+ )?busy", r"\bbusy\b",
        r"high(?:er)?(?: than usual)? (?:demand|load|traffic|volume)",
        r"not ready", r"(?:is|currently|model|still|^) ?(?:loading|warming up|starting up)\b(?! config)",
        r"heavy load",
        r"maximum pending requests", r"queue is full", r"(?:slots|workers) (?:are )?(?:busy|in use)",
        r"no (?:available )?(?:slots?|workers?|instances?|gpus?|machines?)\b", r"temporarily unavailable",
        r"service (?:is )?(?:temporarily |currently )?unavailable",
    ),
    _said(
        "rate", "quota", "throttle",
        r"rate[- _]?limit", r"too many (?:\w+ )?(?:requests|tokens|connections|calls|messages|prompts)", r"throttl",
        r"slow(?:ing)? down", r"too quickly", r"too fast", r"too frequent", r"per[-_ ]minute", r"limiting requests",
        r"(?:requests|tokens|calls|queries|images)(?:\s*/\s*|[ -]per[ -]|-)(?:second|sec|minute|min)",
        r"\b(?:rpm|tpm|rps|qps)\b", r"concurren\w+ (?:limit|requests?|reached)", r"token limit reached",
        r"request limit",
        r"(?:out of|no remaining|maximum number of) (?:\w+ )?(?:requests|messages|prompts|calls)",
        r"no (?:\w+ )?(?:requests|messages|prompts|calls) (?:left|remaining)",
        r"exceed\w* (?:your|the) (?:\w+ ){0,3}usage",
        r"limit of \d+ (?:\w+ )?(?:requests|calls|tokens)", r"enqueued token", r"\brate exceeded",
    ),
)  # fmt: skip

# "Check your plan and billing details" means an empty account, unless Google says it: there it ends every limit.
# The word quota itself proves nothing.
QUOTA_WORD = _said(
    "quota", "quota", "throttle",
    r"quota", r"resource (?:has been )?exhausted", rf"{_LIMIT}\b[^.\n]{{0,20}}\b{_GONE}",
    rf"{_GONE} (?:\w+ ){{0,3}}{_LIMIT}\b", r"exhausted your capacity",
)  # fmt: skip
BILLING_ADVICE = _said("billing-advice", "quota", "billing", r"\bbilling\b")

_KEY = r"(?:(?:x-)?api[ _-]?key|access token|auth\w* token|token\b(?! count)|credentials?\b|bearer|key found)"

OTHERS: tuple[Rule, ...] = (
    _said(
        "auth", "phase_error", "auth",
        rf"(?:invalid|incorrect|missing|no|wrong|expired|bad|revoked|unknown|provide an?|set (?:the|your)"
        rf"|not a valid|required)"
        rf" (?:\w+ ){{0,3}}{_KEY}",
        r"api[ _-]?key (?:is |was |has |not )?(?:\w+ )?(?:invalid|missing|expired|not (?:valid|found|set"
        r"|provided)|required"
        r"|incorrect|revoked|environment)",
        r"unauthori[sz]ed", r"unauthenticated", r"authenticat\w* (?:failed|failure|error|(?:is )?required)",
        r"_api_key\b",
        r"failed to authenticate", r"could not (?:be )?authenticate", r"not authenticated", r"not logged in",
        r"(?:please )?(?:run|use|try) [^.\n]{0,20}?/?log ?in\b", r"log ?in (?:again|required|first|to continue)",
        r"please (?:sign|log) ?in", r"sign in (?:again|to)", r"session (?:has )?expired", r"unregistered callers",
        r"token (?:[\w ]{0,30} )?(?:expired|revoked|invalid)",
        r"account (?:has been |is )?(?:deactivated|disabled|banned)",
        r"organization has been (?:disabled|restricted)",
        r"credentials (?:not|could not)", r"unable to locate credentials",
    ),
    _said(
        "usage", "planning_error", "",
        r"(?:unknown|unrecogni[sz]ed|unexpected|invalid|no such|ambiguous|unsupported|missing|conflicting) (?:\w+ )?"
        r"(?:options?|arguments?|flags?|commands?|subcommand|switch|parameters?|choice|variant|field"
        r")\b",
        r"(?:requires|expected|takes|missing)\b[^.\n]{0,30}\b(?:arguments?|option|operand)",
        r"arguments are required", r"required (?:argument|option|parameter)",
        r"flag provided but not defined", r"invalid value for", r"cannot be used with", r"^usage:",
        r"try ['`\"]?[\w -]+--help", r"must be (?:a|an|one of)\b", r"option [^\n]{0,40} not recogni[sz]ed",
        r"illegal option",
        r"invalid (?:settings|config\w*|json|schema|request|type)", r"expected one of",
        r"(?:config\w*|settings)\b[^.\n]{0,40}(?:invalid|malformed|error|could not be (?:parsed|read))",
        r"is not supported (?:with|by|for|when|in)\b", r"unsupported (?:parameter|value)", r"malformed",
        r"bad request",
    ),
    _said(
        "not-found", "phase_error", "not_found",
        r"not found", r"no such file", r"(?:do|does|may|might)(?: not|n't) exist", r"unknown model",
        r"no (?:such )?model",
        r"(?:not|isn't) a (?:known|valid) model", r"could(?: not|n't) (?:be )?f(?:ind|ound)", r"cannot find",
        r"unable to find", r"is not recognized as", r"has been (?:decommissioned|removed|retired)", r"try pulling it",
        r"model [^\n]{0,60}(?:is not available|not available|unavailable for)",
    ),
    _said(
        "access", "phase_error", "auth",
        r"permission", r"access denied", r"forbidden", r"(?:do not|don't|does not|doesn't|no) have access",
        r"not (?:allowed|permitted|entitled)",
    ),
    _said(
        "turns", "validation", "truncated",
        r"(?:max(?:imum)?(?: number of)?|limit of \d+) (?:\w+ )?(?:turns|steps|iterations)", r"turn limit",
        r"output limit",
        r"(?:output|response|completion) (?:\w+ ){0,3}(?:truncated|cut off|exceeded the \d+ output token)",
        r"output token (?:limit|maximum)",
    ),
    _said(
        "timeout", "timeout", "wall",
        r"(?:request|operation|read|call|response|deadline|gateway|session|model|command|idle|stream"
        r"|api)\b[^.\n]{0,25}?"
        r"(?:timed[ -]?out|time-?out)", r"deadline e?x(?:ceeded|pired)", r"deadline expired", r"window expired",
        r"^(?:\w+: )?timed? ?out", r"timed out (?:after|waiting)",
    ),
)  # fmt: skip
CONNECTION = _said(
    "connection", "unknown", "",
    r"connection (?:error|reset|refused|closed|aborted|terminated|lost|failed|timed out)",
    r"could not (?:resolve|connect)",
    r"couldn't connect", r"failed to (?:connect|fetch)", r"network (?:error|is unreachable)",
    r"\be(?:conn\w+|notfound|timedout)",
    r"eai_again", r"socket hang up", r"name resolution", r"getaddrinfo", r"tls handshake", r"\bssl\b",
    r"fetch failed",
    r"stream disconnected", r"broken pipe", r"upstream connect error",
)  # fmt: skip
CRASH = _said(
    "crash", "phase_error", "crash",
    r"segmentation fault", r"core dumped", r"\baborted\b", r"\bkilled\b", r"bus error", r"illegal instruction",
    r"floating point exception", r"trace/breakpoint", r"\bterminated\b", r"terminate called", r"stack smashing",
    r"out of memory", r"\boom\b", r"panicked at", r"^panic:", r"fatal (?:runtime )?error:",
    r"\bsig(?:segv|abrt|kill|bus|ill|fpe)\b",
    r"stack overflow", r"assertion (?:`[^\n]*' )?failed", r"double free",
)  # fmt: skip

# What a tool says in a sentence of its own, without calling it an error.
ANNOUNCED: tuple[Rule, ...] = (*MESSAGES, QUOTA_WORD, *OTHERS)

# Periods that are shorter than what LONG finds.
SHORT_PERIOD = re.compile(
    r"(?i)(?:per|/|each|every|this)[ -]?(?:second|sec|minute|min)\b|\b[rt]pm\b|per[- ]?minute"
)
