"""Signals of other providers, wordings and shapes than those of signals.jsonl, with what each means and why.

A case is (id, signal, verdict, reason). A verdict is `category/kind` with what was stated to wait: `30` seconds, or
`@` and the moment; `ok` for success.
"""

from __future__ import annotations

import json
from typing import Any

Case = tuple[str, dict[str, Any], str, str]

CASES: list[Case] = []
ARTICLE = (
    "# The lock at Vennside\n\nThe lock was rebuilt twice, and each time the keeper's house moved a little further from"
    " the water. The first house stood so close that the kitchen flooded with every spring tide.\n\nThe second was built"
    " on a mound of spoil from the new chamber, and leaned. Old photographs show it propped with two beams, which the"
    " keeper's children used as a slide.\n"
)


def http(
    id: str,
    status: int | None,
    body: Any,
    expect: str,
    why: str,
    headers: dict[str, str] | None = None,
    **rest: Any,
) -> None:
    signal = {"channel": "http", "http": {"status": status, "headers": headers or {}, "body": body}, **rest}
    CASES.append((id, signal, expect, why))


def sse(id: str, events: list[Any], expect: str, why: str, **rest: Any) -> None:
    """`events`: (name, data) pairs, or data alone; text stands as it is."""
    lines = []
    for event in events:
        name, data = event if isinstance(event, tuple) else ("", event)
        lines.append(f"event: {name}\n" if name else "")
        lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
    reply = {"status": 200, "headers": {"Content-Type": "text/event-stream"}, "body": "".join(lines)}
    CASES.append((id, {"channel": "stream", "http": reply, **rest}, expect, why))


def cli(
    id: str, exit: int | None, stdout: Any, stderr: str, expect: str, why: str, tool: str = "tool",
    argv: list[str] | None = None, **rest: Any,
) -> None:  # fmt: skip
    """`stdout`: text, or a list of objects that become lines of JSON."""
    if isinstance(stdout, list):
        stdout = "".join(json.dumps(each) + "\n" for each in stdout)
    part = {"tool": tool, "argv": argv or [tool], "exit": exit, "stdout": stdout, "stderr": stderr}
    CASES.append((id, {"channel": "cli", "cli": part, **rest}, expect, why))


def error(**fields: Any) -> dict[str, Any]:
    return {"error": fields}


def google(message: str, status: str, code: int = 429, *details: dict[str, Any]) -> dict[str, Any]:
    found = [
        {"@type": f"type.googleapis.com/google.rpc.{detail.pop('@')}", **detail}
        for detail in map(dict, details)
    ]
    return error(code=code, message=message, status=status, details=found)


def chat(content: Any, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    return {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": finish,
            }
        ]
    }


def chunk(content: str = "", finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]}


# --- billing: money in other words, and offers that are no cause -----------------------------------------------

http(
    "deepseek-balance",
    402,
    error(message="Insufficient Balance", type="unknown_error", code="invalid_request_error"),
    "quota/billing",
    "type and code say nothing; the message does",
)
http(
    "xai-no-credits",
    403,
    {
        "code": "The caller does not have permission to execute the specified operation",
        "error": "Your newly created team doesn't have any credits yet. You can purchase credits on https://console.x.ai",
    },
    "quota/billing",
    "a 403 that is about money",
)
http(
    "xai-spent",
    429,
    {
        "code": "Some resource has been exhausted",
        "error": "Your team has either used all available credits or reached its monthly spending limit.",
    },
    "quota/billing",
    "a 429 that is about money, although it names a month",
)
http(
    "moonshot-suspended",
    429,
    error(
        type="exceeded_current_quota_error",
        message="Your account org-x is suspended, please check your plan and billing details",
    ),
    "quota/billing",
    "type in its own words",
)
http(
    "litellm-budget",
    400,
    error(
        message="Budget has been exceeded! Current cost: 10.2, Max budget: 10.0",
        type="budget_exceeded",
        param=None,
        code="400",
    ),
    "quota/billing",
    "a gateway's budget, as a 400",
)
http(
    "google-billing-off",
    403,
    google(
        "Lightning dunning decision is deny",
        "PERMISSION_DENIED",
        403,
        {"@": "ErrorInfo", "reason": "BILLING_DISABLED", "domain": "googleapis.com"},
    ),
    "quota/billing",
    "the reason is more specific than the status",
)
http(
    "google-free-tier-country",
    400,
    google(
        "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.",
        "FAILED_PRECONDITION",
        400,
    ),
    "quota/billing",
    "payment must be set up",
)
http(
    "google-zero-value",
    429,
    google(
        "Quota exceeded for quota metric",
        "RESOURCE_EXHAUSTED",
        429,
        {
            "@": "ErrorInfo",
            "reason": "RATE_LIMIT_EXCEEDED",
            "metadata": {"quota_limit": "RequestsPerMinute", "quota_limit_value": "0"},
        },
    ),
    "quota/billing",
    "a quota of zero, in the metadata only",
)
http(
    "anthropic-billing-type",
    402,
    {"type": "error", "error": {"type": "billing_error", "message": "Your account has a billing issue."}},
    "quota/billing",
    "type",
)
http(
    "billing-has-no-wait",
    429,
    error(message="You exceeded your current quota.", type="insufficient_quota", code="insufficient_quota"),
    "quota/billing",
    "a sent wait is ignored",
    headers={"retry-after": "20"},
)
http(
    "plain-advice-elsewhere",
    429,
    error(message="You exceeded your current quota, please check your plan and billing details."),
    "quota/billing",
    "outside of Google the sentence means an empty account",
    provider="some-proxy",
)
http(
    "replicate-credit",
    402,
    {
        "title": "Insufficient credit",
        "detail": "You have insufficient credit to run this model. Go to https://replicate.com/account/billing to purchase credit.",
        "status": 402,
    },
    "quota/billing",
    "RFC 7807",
)
http(
    "together-credit-limit",
    402,
    error(
        message="Credit limit exceeded, please navigate to settings to add credit.",
        type="credit_limit",
        param=None,
        code=None,
    ),
    "quota/billing",
    "type",
)
http(
    "bedrock-payment",
    403,
    {
        "message": "Model access is denied due to INVALID_PAYMENT_INSTRUMENT: A valid payment instrument must be provided."
    },
    "quota/billing",
    "status and first words say access, the reason says payment",
    headers={"X-Amzn-ErrorType": "AccessDeniedException"},
)
http(
    "zhipu-balance",
    429,
    error(code="1113", message="您的账户余额不足，请充值后重试"),
    "quota/billing",
    "another language",
)
http(
    "minimax-balance",
    200,
    {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}, "choices": None},
    "quota/billing",
    "a 200 with a status inside",
)
http(
    "oneapi-quota",
    403,
    error(message="user quota is not enough", type="new_api_error", code="insufficient_user_quota"),
    "quota/billing",
    "code of a gateway",
)
http(
    "elevenlabs-zero",
    401,
    {
        "detail": {
            "status": "quota_exceeded",
            "message": "This request exceeds your quota of 10000. You have 0 credits remaining, while 25 credits are required for this request.",
        }
    },
    "quota/billing",
    "a 401 about credits",
)
cli(
    "codex-not-included",
    1,
    [
        {"type": "thread.started"},
        {"type": "turn.started"},
        {
            "type": "turn.failed",
            "error": {
                "message": '{"error":{"type":"usage_not_included","message":"To use Codex with your ChatGPT plan, upgrade to Plus"}}'
            },
        },
    ],
    "",
    "quota/billing",
    "an error object inside of a message; a person must act",
)
cli(
    "claude-budget-flag",
    1,
    json.dumps({"type": "result", "subtype": "error_max_budget_usd", "is_error": True, "num_turns": 3}),
    "",
    "quota/billing",
    "a budget that was set is exhausted",
)

# --- spend caps that return ---------------------------------------------------------------------------------

http(
    "spend-cap-returns",
    429,
    {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "You have reached your workspace spend limit. You will regain access on 2026-08-01 at 00:00 UTC.",
            "details": {"error_code": "workspace_spend_limit_reached"},
        },
    },
    "quota/window @2026-08-01T00:00:00+00:00",
    "a cap that states when access returns",
    now="2026-07-20T10:00:00+00:00",
)
cli(
    "spending-cap-resets",
    1,
    "Spending cap reached resets 2am\n",
    "",
    "quota/window @2026-01-21T02:00:00+09:00",
    "the same as a notice",
    now="2026-01-20T13:30:00+00:00",
    tz="Asia/Tokyo",
)
cli(
    "extra-usage-resets",
    1,
    "You're out of extra usage · resets 3pm (UTC)\n",
    "",
    "quota/window @2026-03-10T15:00:00+00:00",
    "likewise",
    now="2026-03-10T09:15:00+00:00",
)

# --- windows: periods in codes, words, headers, numbers --------------------------------------------------------

http(
    "github-models-by-day",
    429,
    error(
        code="RateLimitReached",
        message="Rate limit of 150 per 86400s exceeded for UserByModelByDay. Please wait 41826 seconds before retrying.",
        details="…",
    ),
    "quota/window 41826",
    "a day in seconds, and a wait of hours",
)
http(
    "cohere-month",
    429,
    {
        "message": "You are using a Trial key, which is limited to 1000 API calls / month. You can continue to use the Trial key for free or upgrade to a Production key with higher rate limits."
    },
    "quota/window",
    "a month behind a slash; the offer is no cause",
)
http(
    "cohere-minute",
    429,
    {
        "message": "You are using a Trial key, which is limited to 40 API calls / minute. You can continue to use the Trial key for free or upgrade to a Production key with higher rate limits."
    },
    "quota/throttle",
    "the same with a minute",
)
http(
    "bedrock-tokens-day",
    429,
    {"message": "Too many tokens per day, please wait before trying again."},
    "quota/window",
    "a day in the message of a throttle",
    headers={"x-amzn-errortype": "ThrottlingException"},
)
http(
    "copilot-weekly",
    429,
    error(code="user_weekly_rate_limited", message="Sorry, you have been rate-limited."),
    "quota/window 200000",
    "the period is in the code",
    headers={"Retry-After": "200000"},
)
http(
    "legacy-google-daily",
    403,
    {
        "error": {
            "errors": [
                {"domain": "usageLimits", "reason": "dailyLimitExceeded", "message": "Daily Limit Exceeded"}
            ],
            "code": 403,
            "message": "Daily Limit Exceeded",
        }
    },
    "quota/window",
    "the reason in a list of errors",
)
http(
    "legacy-google-user-rate",
    403,
    {
        "error": {
            "errors": [
                {
                    "domain": "usageLimits",
                    "reason": "userRateLimitExceeded",
                    "message": "User Rate Limit Exceeded",
                }
            ],
            "code": 403,
            "message": "User Rate Limit Exceeded",
        }
    },
    "quota/throttle",
    "a 403 that is a throttle",
)
http(
    "cloudflare-daily",
    429,
    {
        "success": False,
        "errors": [
            {
                "code": 4006,
                "message": "you have used up your daily free allocation of 10,000 neurons, please upgrade to Cloudflare's Workers Paid plan if you would like to continue usage.",
            }
        ],
        "result": None,
    },
    "quota/window",
    "a list of errors",
)
http(
    "cerebras-day-bucket",
    429,
    error(
        message="Requests rate limit exceeded", type="too_many_requests_error", code="request_quota_exceeded"
    ),
    "quota/window 33011.38",
    "the exhausted limit of several headers is the day's",
    headers={
        "x-ratelimit-remaining-requests-day": "0",
        "x-ratelimit-reset-requests-day": "33011.38",
        "x-ratelimit-remaining-tokens-minute": "5000",
        "x-ratelimit-reset-tokens-minute": "11.3",
    },
)
http(
    "codex-headers",
    429,
    error(type="rate_limit_error", message="Limit reached"),
    "quota/window 12000",
    "used 100 % of one of two windows",
    headers={
        "x-codex-primary-used-percent": "100",
        "x-codex-primary-reset-after-seconds": "12000",
        "x-codex-primary-window-minutes": "300",
        "x-codex-secondary-used-percent": "37",
        "x-codex-secondary-reset-after-seconds": "412345",
    },
)
http(
    "anthropic-unified-reset",
    429,
    {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "This request would exceed your account's rate limit.",
        },
    },
    "quota/window @2026-05-12T06:00:00+00:00",
    "the claim names five hours, its reset is an epoch",
    headers={
        "Anthropic-Ratelimit-Unified-Status": "rejected",
        "Anthropic-Ratelimit-Unified-Representative-Claim": "five_hour",
        "anthropic-ratelimit-unified-5h-utilization": "1.0",
        "anthropic-ratelimit-unified-5h-reset": "1778565600",
        "anthropic-ratelimit-unified-7d-utilization": "0.4",
        "anthropic-ratelimit-unified-7d-reset": "1778860800",
    },
    now="2026-05-12T03:04:05+00:00",
)
http(
    "gemini-several-limits",
    429,
    google(
        "You exceeded your current quota, please check your plan and billing details.",
        "RESOURCE_EXHAUSTED",
        429,
        {
            "@": "QuotaFailure",
            "violations": [
                {"quotaId": "GenerateContentInputTokensPerModelPerMinute-FreeTier", "quotaValue": "250000"},
                {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20"},
            ],
        },
        {"@": "RetryInfo", "retryDelay": "12s"},
    ),
    "quota/window 12",
    "of a minute and a day the day decides",
)
http(
    "gemini-reset-delay",
    429,
    google(
        "You have exhausted your capacity on this model. Your quota will reset after 3h25m10s.",
        "RESOURCE_EXHAUSTED",
        429,
        {"@": "ErrorInfo", "reason": "QUOTA_EXHAUSTED", "metadata": {"quotaResetDelay": "3h25m10.5s"}},
    ),
    "quota/window 12310.5",
    "your capacity is not theirs",
)
http(
    "gemini-your-capacity-short",
    429,
    google(
        "You have exhausted your capacity on this model. Your quota will reset after 21s.",
        "RESOURCE_EXHAUSTED",
        429,
        {"@": "ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED"},
    ),
    "quota/throttle 21",
    "the same words for seconds",
)
http(
    "ollama-weekly",
    429,
    {
        "error": "you (x) have reached your weekly usage limit, upgrade for higher limits: https://ollama.com/upgrade"
    },
    "quota/window",
    "week",
)
http(
    "long-retry-after",
    429,
    error(message="Too many requests", type="rate_limit_error"),
    "quota/window 3600",
    "an hour is a window",
    headers={"retry-after": "3600"},
)
http(
    "nearly-an-hour",
    429,
    error(message="Too many requests", type="rate_limit_error"),
    "quota/throttle 3599",
    "less is not",
    headers={"retry-after": "3599"},
)
http(
    "long-reset-date",
    429,
    error(message="Too many requests"),
    "quota/window @2026-01-21T12:28:00+00:00",
    "a date hours away",
    headers={"retry-after": "Wed, 21 Jan 2026 12:28:00 GMT"},
    now="2026-01-21T07:26:45+00:00",
)
cli(
    "hourly-ollama",
    1,
    "",
    "Error: 429 Too Many Requests: you've reached your hourly usage limit, please upgrade to continue\n",
    "quota/window",
    "hour, on stderr",
)
cli(
    "five-hour-limit",
    1,
    "5-hour limit reached ∙ resets 3pm\n",
    "",
    "quota/window @2026-03-10T15:00:00+00:00",
    "older wording",
    now="2026-03-10T09:15:00+00:00",
)
cli(
    "opus-weekly",
    1,
    "You've reached your Opus weekly limit · resets Oct 7 at 10am (America/New_York)\n",
    "",
    "quota/window @2026-10-07T10:00:00-04:00",
    "a model's week",
    now="2026-10-02T10:00:00+00:00",
)
cli(
    "limit-unreadable-time",
    1,
    "You've hit your limit · resets someday (Mars/Olympus)\n",
    "",
    "quota/window",
    "a limit whose time cannot be read is still one",
    now="2026-03-10T09:15:00+00:00",
)
cli(
    "limit-unknown-zone",
    1,
    "You've hit your session limit · resets 4pm (Mars/Olympus)\n",
    "",
    "quota/window",
    "a zone that nobody knows is not replaced by another",
    now="2026-03-10T09:15:00+00:00",
)
cli(
    "ratelimit-clock",
    1,
    "",
    "Error: Rate limit exceeded. Limit resets at 2026-03-10 12:00:21 UTC\n",
    "quota/window @2026-03-10T12:00:21+00:00",
    "a clock time",
    now="2026-03-10T09:15:00+00:00",
)

# --- clock times --------------------------------------------------------------------------------------------

for _id, _said, _now, _zone, _until, _why in (
    ("midnight-pacific", "at midnight Pacific time", "2026-03-10T09:15:00+00:00", None, "@2026-03-11T00:00:00-07:00", "a region by name, in summer time"),
    ("midnight-pt-winter", "at midnight PT", "2026-01-10T09:15:00+00:00", None, "@2026-01-11T00:00:00-08:00", "the same in winter"),
    ("noon", "at noon (Europe/Berlin)", "2026-03-10T09:15:00+00:00", None, "@2026-03-10T12:00:00+01:00", "a word for a time"),
    ("weekday", "Thursday at 10:00 AM (Europe/Berlin)", "2026-03-10T09:15:00+00:00", None, "@2026-03-12T10:00:00+01:00", "a weekday"),
    ("weekday-today-passed", "Tue 8am (UTC)", "2026-03-10T09:15:00+00:00", None, "@2026-03-17T08:00:00+00:00", "today's has passed: next week's"),
    ("tomorrow", "tomorrow at 9:30", "2026-03-10T23:15:00+00:00", "Asia/Tokyo", "@2026-03-12T09:30:00+09:00", "tomorrow where the machine is"),
    ("clock-24h", "18:05", "2026-03-10T09:15:00+00:00", "Europe/Paris", "@2026-03-10T18:05:00+01:00", "24 hours"),
    ("offset", "at 18:05 UTC+2", "2026-03-10T09:15:00+00:00", None, "@2026-03-10T16:05:00+00:00", "a written offset"),
    ("autumn", "9am (America/New_York)", "2026-11-01T00:30:00-04:00", None, "@2026-11-01T09:00:00-05:00", "clocks go back in between"),
    ("gap", "2:30am (America/New_York)", "2026-03-08T00:30:00-05:00", None, "@2026-03-08T03:30:00-04:00", "an hour that does not exist"),
    ("southern", "7am (Australia/Sydney)", "2026-10-03T12:00:00+00:00", None, "@2026-10-04T07:00:00+11:00", "the south begins summer in October"),
    ("just-passed-midnight", "11:50pm (UTC)", "2026-03-10T00:20:00+00:00", None, "", "half an hour ago, yesterday: probe"),
    ("exactly-an-hour", "8:15am (UTC)", "2026-03-10T09:15:00+00:00", None, "@2026-03-11T08:15:00+00:00", "an hour ago is not within the last hour"),
    ("new-year", "Jan 2 at 9am (UTC)", "2026-12-30T09:15:00+00:00", None, "@2027-01-02T09:00:00+00:00", "a date without a year is the next such"),
    ("day-first", "on 15 March 2026, 14:00 CET", "2026-03-10T09:15:00+00:00", None, "@2026-03-15T13:00:00+00:00", "day before month"),
    ("date-only", "on 2026-04-01", "2026-03-10T09:15:00+00:00", None, "@2026-04-01T00:00:00+00:00", "a day begins at midnight"),
    ("stamp", "at 2026-03-10T17:00:21.5Z", "2026-03-10T09:15:00+00:00", None, "@2026-03-10T17:00:21+00:00", "ISO 8601"),
    ("dated-past", "at Mar 1, 2026 7:00 AM", "2026-03-10T09:15:00+00:00", None, "", "past, with its year"),
    ("time-then-day", "9:00 AM on Friday (UTC)", "2026-03-10T09:15:00+00:00", None, "@2026-03-13T09:00:00+00:00", "time before day"),
    ("half-hour-zone", "3:30pm (Asia/Kolkata)", "2026-04-08T08:00:00+00:00", None, "@2026-04-08T15:30:00+05:30", "a zone off by half an hour"),
    ("both", "3pm (UTC) (in 5h 45m)", "2026-03-10T09:15:00+00:00", None, "@2026-03-10T15:00:00+00:00", "said twice"),
):  # fmt: skip
    _rest = {"now": _now, **({"tz": _zone} if _zone else {})}
    cli(
        f"clock-{_id}",
        1,
        f"You've hit your usage limit · resets {_said}\n",
        "",
        f"quota/window {_until}".strip(),
        _why,
        **_rest,
    )

# --- waits ------------------------------------------------------------------------------------------------

for _id, _headers, _message, _expect, _why in (
    ("ms-first", {"Retry-After-Ms": "1500", "Retry-After": "9"}, "", "quota/throttle 1.5", "milliseconds are finest"),
    ("ms-unusable", {"retry-after-ms": "0", "retry-after": "9"}, "", "quota/throttle 9", "zero is as good as absent"),
    ("decimal", {"retry-after": "2.5"}, "", "quota/throttle 2.5", "a decimal"),
    ("unreadable", {"retry-after": "soon"}, "Please try again in 20s.", "quota/throttle 20", "unreadable: the next source"),
    ("reset-duration", {"x-ratelimit-reset": "6m0s", "x-ratelimit-remaining": "0"}, "", "quota/throttle 360", "6m0s"),
    ("reset-two-exhausted", {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "50s"},
     "", "quota/throttle 50", "both exhausted: the later"),
    ("ietf", {"RateLimit-Remaining": "0", "RateLimit-Reset": "45", "RateLimit-Limit": "10"}, "", "quota/throttle 45", "the draft's names"),
    ("mistral-bysize", {"ratelimitbysize-remaining": "0", "ratelimitbysize-reset": "22"}, "", "quota/throttle 22", "another provider's names"),
    ("minutes-words", {}, "Please try again in 5 minutes.", "quota/throttle 300", "words"),
    ("hours-words", {}, "Try again in 2 hours and 5 minutes.", "quota/window 7500", "hours make a window"),
    ("millis-words", {}, "Please try again in 900ms.", "quota/throttle 0.9", "900ms is not 900 minutes"),
    ("approx", {}, "Request was throttled. Your rate limit resets in ~30s.", "quota/throttle 30", "about"),
    ("wait-verb", {}, "Please wait 27 seconds and retry.", "quota/throttle 27", "wait N"),
    ("hms", {}, "Retry in 00:00:44", "quota/throttle 44", "hh:mm:ss"),
    ("later", {}, "Please try again later.", "quota/throttle", "later is no number"),
    ("minute-singular", {}, "Try again in a minute.", "quota/throttle 60", "a minute"),
    ("days", {}, "Your limit resets in 3 days", "quota/window 259200", "days"),
):  # fmt: skip
    http(
        f"wait-{_id}",
        429,
        error(message=f"Rate limit reached. {_message}", type="rate_limit_error"),
        _expect,
        _why,
        headers=_headers,
    )
http(
    "wait-body-field",
    429,
    {"error": "Too Many Requests", "retry_after": 17},
    "quota/throttle 17",
    "the name inside of the body",
)
http(
    "wait-body-camel",
    429,
    error(message="Too many requests", retryAfterMs=2500),
    "quota/throttle 2.5",
    "another spelling",
)
http(
    "wait-metadata-headers",
    429,
    error(
        code=429, message="Provider returned error", metadata={"headers": {"Retry-After": "11"}, "raw": "{}"}
    ),
    "quota/throttle 11",
    "headers kept in the metadata",
)
http(
    "wait-resets-in",
    429,
    error(type="rate_limit_error", message="slow", resets_in_seconds=90),
    "quota/throttle 90",
    "resets_in_seconds",
)
http(
    "wait-resets-at-past",
    429,
    error(type="rate_limit_error", message="slow", resets_at=1700000000, resets_in_seconds=90),
    "quota/throttle 90",
    "a past moment is as good as absent",
    now="2026-05-04T19:24:56+00:00",
)
http(
    "wait-epoch-ms",
    429,
    error(type="usage_limit_reached", message="The usage limit has been reached", resetsAt=1777936568000),
    "quota/window @2026-05-04T23:16:08+00:00",
    "milliseconds by size",
    now="2026-05-04T19:24:56+00:00",
)
http(
    "wait-retryinfo-object",
    429,
    google(
        "Resource exhausted", "RESOURCE_EXHAUSTED", 429, {"@": "RetryInfo", "retryDelay": {"seconds": "8"}}
    ),
    "quota/throttle 8",
    "a duration as an object",
)
http(
    "wait-reset-not-exhausted",
    429,
    error(message="Rate limit reached for requests", type="requests", code="rate_limit_exceeded"),
    "quota/throttle 3",
    "nothing at zero: the limit that the error names",
    headers={
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "3s",
        "x-ratelimit-remaining-tokens": "100",
        "x-ratelimit-reset-tokens": "2m",
    },
)
http(
    "openrouter-epoch-no-now",
    429,
    error(
        code=429,
        message="Rate limit exceeded: limit_rpm/model",
        metadata={"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1780272000000"}},
    ),
    "quota/throttle @2026-06-01T00:00:00+00:00",
    "an epoch without a clock stays a moment",
)

# --- throttles and capacity -------------------------------------------------------------------------------------

http(
    "azure-apim",
    429,
    {"statusCode": 429, "message": "Rate limit is exceeded. Try again in 27 seconds."},
    "quota/throttle 27",
    "a gateway's shape",
)
http(
    "azure-nocapacity",
    429,
    error(
        code="NoCapacity",
        message="The system is currently experiencing high demand and cannot process your request.",
    ),
    "quota/capacity",
    "429 for their load",
)
http(
    "alibaba-throttling",
    429,
    {
        "code": "Throttling.RateQuota",
        "message": "Requests rate limit exceeded, please try again later.",
        "request_id": "x",
    },
    "quota/throttle",
    "a dotted code",
)
http(
    "alibaba-arrears",
    400,
    {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."},
    "quota/billing",
    "code",
)
http(
    "bedrock-aws-type",
    400,
    {"__type": "com.amazon.coral.service#ThrottlingException", "message": "Rate exceeded"},
    "quota/throttle",
    "a type in the body, as a 400",
)
http(
    "hf-loading",
    503,
    {"error": "Model mistralai/Mistral-7B is currently loading", "estimated_time": 20.0},
    "quota/capacity",
    "not ready",
)
http(
    "tgi-overloaded",
    429,
    {"error": "Model is overloaded", "error_type": "overloaded"},
    "quota/capacity",
    "429 for their load",
)
http(
    "llamacpp-loading",
    503,
    error(code=503, message="Loading model", type="unavailable_error"),
    "quota/capacity",
    "not ready",
)
http(
    "gemini-overloaded",
    503,
    google("The model is overloaded. Please try again later.", "UNAVAILABLE", 503),
    "quota/capacity",
    "status word",
)
http(
    "moonshot-engine",
    429,
    error(
        type="engine_overloaded_error", message="The engine is currently overloaded, please try again later"
    ),
    "quota/capacity",
    "type",
)
http(
    "cloudflare-ai-capacity",
    429,
    {
        "success": False,
        "errors": [{"code": 3040, "message": "Capacity temporarily exceeded, please try again."}],
    },
    "quota/capacity",
    "message",
)
http(
    "together-503",
    503,
    error(message="The server is overloaded", type="service_unavailable", code=None),
    "quota/capacity",
    "status",
)
http(
    "plain-503",
    503,
    "upstream connect error or disconnect/reset before headers",
    "quota/capacity",
    "left with the status",
)
http("plain-429", 429, None, "quota/throttle", "left with the status")
http("plain-529", 529, "", "quota/capacity", "left with the status")
http(
    "anthropic-per-minute",
    429,
    {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "This request would exceed the rate limit for your organization (x) of 40,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later. You may also contact sales to discuss your options for a rate limit increase.",
        },
    },
    "quota/throttle 33",
    "a throttle that advises shorter prompts is not a request above the ceiling",
    headers={"retry-after": "33"},
)
http(
    "concurrency",
    429,
    error(
        message="Maximum organization concurrency reached, max organization concurrency: 3, please try again after 1 seconds",
        type="rate_limit_reached_error",
    ),
    "quota/throttle 1",
    "concurrency",
)
http(
    "reservation-403",
    403,
    error(code="requests_in_flight", message="Other requests hold the budget"),
    "quota/throttle",
    "held by others",
)
http(
    "gateway-cooldown",
    429,
    error(
        message="No deployments available for selected model, Try again in 60 seconds. Passed model=x.",
        type="None",
        code="429",
    ),
    "quota/throttle 60",
    "status",
)
http(
    "inner-429-in-502",
    502,
    error(
        code=502,
        message="Provider returned error",
        metadata={"raw": '{"error":{"code":429,"message":"Too many requests"}}'},
    ),
    "quota/throttle",
    "the error inside of the error",
)
http(
    "inner-overloaded-in-400",
    400,
    error(
        message='{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        type="invalid_request_error",
    ),
    "quota/capacity",
    "JSON in a message",
)
http("error-in-200", 200, error(code=502, message="Upstream gave up"), "unknown", "an inner code of 502")
http(
    "error-in-200-402",
    200,
    error(code=402, message="This request requires more credits, or fewer max_tokens."),
    "quota/billing",
    "credits",
)
http(
    "error-type-case",
    429,
    {"message": "Rate exceeded"},
    "quota/throttle",
    "the header's name in another case",
    headers={"X-AMZN-ERRORTYPE": "ThrottlingException"},
)

# --- too large, refused, planning, auth, not found -----------------------------------------------------------------

http(
    "openai-above-tpm",
    429,
    error(
        message="Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 38220. The input or output tokens must be reduced in order to run successfully.",
        type="tokens",
        code="rate_limit_exceeded",
    ),
    "validation/too_large",
    "one request above the ceiling",
)
http(
    "numbers-above",
    429,
    error(
        message="Tokens per minute exceeded: limit 6,000, requested 8,192",
        type="tokens",
        code="rate_limit_exceeded",
    ),
    "validation/too_large",
    "by the numbers",
)
http(
    "numbers-below",
    429,
    error(
        message="Tokens per minute exceeded: Limit 6000, Used 5000, Requested 2192",
        type="tokens",
        code="rate_limit_exceeded",
    ),
    "quota/throttle",
    "by the numbers",
)
http(
    "anthropic-too-long",
    400,
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 210000 tokens > 200000 maximum",
        },
    },
    "validation/too_large",
    "message",
)
http(
    "anthropic-context",
    400,
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
        },
    },
    "validation/too_large",
    "message",
)
http(
    "gemini-too-long",
    400,
    google(
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "INVALID_ARGUMENT",
        400,
    ),
    "validation/too_large",
    "message",
)
http(
    "bedrock-too-long",
    400,
    {"message": "Input is too long for requested model."},
    "validation/too_large",
    "message",
    headers={"x-amzn-errortype": "ValidationException"},
)
http(
    "vllm-too-long",
    400,
    {
        "object": "error",
        "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    },
    "validation/too_large",
    "message",
)
http(
    "llamacpp-too-long",
    400,
    error(
        code=400,
        message="the request exceeds the available context size",
        type="exceed_context_size_error",
        n_prompt_tokens=9000,
        n_ctx=4096,
    ),
    "validation/too_large",
    "type",
)
http(
    "github-models-413",
    413,
    error(
        code="tokens_limit_reached", message="Request body too large for gpt-4o model. Max size: 8000 tokens."
    ),
    "validation/too_large",
    "message",
)
http(
    "nginx-413",
    413,
    "<html><head><title>413 Request Entity Too Large</title></head></html>",
    "validation/too_large",
    "status and page",
)
http(
    "gemini-blocked",
    200,
    {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}},
    "validation/refused",
    "a prompt that was blocked",
)
http(
    "gemini-safety",
    200,
    {"candidates": [{"content": {"parts": [{"text": "The"}]}, "finishReason": "SAFETY"}]},
    "validation/refused",
    "filtered",
)
http(
    "openai-refusal-field",
    200,
    chat(None, refusal="I can't help with that."),
    "validation/refused",
    "a filled refusal",
)
http(
    "responses-refusal",
    200,
    {
        "object": "response",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "I can't"}]}],
    },
    "validation/refused",
    "as a part",
)
http("refusal-null", 200, chat(ARTICLE, refusal=None), "ok", "a refusal that is null")
http("azure-filtered-out", 200, chat("The", "content_filter"), "validation/refused", "cut by a filter")
http(
    "bedrock-guardrail",
    200,
    {
        "output": {"message": {"role": "assistant", "content": [{"text": "Sorry"}]}},
        "stopReason": "guardrail_intervened",
    },
    "validation/refused",
    "guardrail",
)
http(
    "alibaba-inspection",
    400,
    {"code": "DataInspectionFailed", "message": "Input data may contain inappropriate content."},
    "validation/refused",
    "code",
)
http(
    "openai-flagged",
    400,
    error(
        message="Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
        type="invalid_request_error",
        code="invalid_prompt",
    ),
    "validation/refused",
    "message",
)
http(
    "openai-policy",
    400,
    error(
        message="Your request was rejected as a result of our safety system.",
        type="image_generation_user_error",
        code="moderation_blocked",
    ),
    "validation/refused",
    "code",
)
http(
    "google-bad-key",
    400,
    google(
        "API key not valid. Please pass a valid API key.",
        "INVALID_ARGUMENT",
        400,
        {"@": "ErrorInfo", "reason": "API_KEY_INVALID"},
    ),
    "phase_error/auth",
    "a 400 about the key",
)
http(
    "anthropic-auth",
    401,
    {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
    "phase_error/auth",
    "type",
)
http(
    "bedrock-expired",
    403,
    {"message": "The security token included in the request is expired"},
    "phase_error/auth",
    "type",
    headers={"x-amzn-errortype": "ExpiredTokenException"},
)
http(
    "region",
    403,
    error(
        code="unsupported_country_region_territory",
        message="Country, region, or territory not supported",
        type="request_forbidden",
    ),
    "phase_error/auth",
    "code",
)
http("plain-401", 401, "Unauthorized", "phase_error/auth", "status")
http(
    "openai-model",
    404,
    error(
        message="The model `gpt-9` does not exist or you do not have access to it.",
        type="invalid_request_error",
        code="model_not_found",
    ),
    "phase_error/not_found",
    "code",
)
http("ollama-model", 404, {"error": "model 'x' not found"}, "phase_error/not_found", "message")
http(
    "azure-deployment",
    404,
    error(code="DeploymentNotFound", message="The API deployment for this resource does not exist."),
    "phase_error/not_found",
    "code",
)
http(
    "generic-404",
    404,
    error(
        type="invalid_request_error",
        message="Unknown request URL: POST /v1/chat. Please check the URL for typos",
    ),
    "phase_error/not_found",
    "status",
)
http(
    "generic-422",
    422,
    {"detail": [{"loc": ["body", "messages"], "msg": "field required", "type": "value_error.missing"}]},
    "planning_error",
    "status",
)
http(
    "google-argument",
    400,
    google("Invalid value at 'generation_config.temperature'", "INVALID_ARGUMENT", 400),
    "planning_error",
    "status word",
)
http(
    "mistral-invalid",
    422,
    {
        "object": "error",
        "message": {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required"}]},
        "type": "invalid_request_error",
    },
    "planning_error",
    "a message that is an object",
)
http(
    "anthropic-bad-request",
    400,
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-3-5",
        },
    },
    "planning_error",
    "a parameter out of range",
)
http("plain-400", 400, "", "planning_error", "status")
http(
    "gateway-timeout",
    504,
    "<html><head><title>504 Gateway Time-out</title></head></html>",
    "timeout/wall",
    "status",
)
http("cloudflare-524", 524, "error code: 524", "timeout/wall", "status")
http(
    "google-deadline",
    504,
    google("Deadline expired before operation could complete.", "DEADLINE_EXCEEDED", 504),
    "timeout/wall",
    "status word",
)
http(
    "bedrock-timeout",
    408,
    {"message": "Model has timed out in processing the request."},
    "timeout/wall",
    "type",
    headers={"x-amzn-errortype": "ModelTimeoutException"},
)
http("no-reply", None, None, "unknown", "no reply came")
http("no-reply-words", None, "connect ECONNREFUSED 127.0.0.1:11434", "unknown", "a connection error")
http("bad-gateway", 502, "<html><head><title>502 Bad Gateway</title></head></html>", "unknown", "status")
http(
    "openai-server-error",
    500,
    error(
        message="The server had an error while processing your request. Sorry about that!",
        type="server_error",
        code=None,
    ),
    "unknown",
    "says nothing",
)
http(
    "gemini-internal",
    500,
    google("An internal error has occurred.", "INTERNAL", 500),
    "unknown",
    "says nothing",
)
http("cloudflare-520", 520, "error code: 520", "unknown", "no row for it")

# --- content ---------------------------------------------------------------------------------------------------

http("chat-length", 200, chat(ARTICLE, "length"), "validation/truncated", "cut off, however good")
http(
    "gemini-ok",
    200,
    {
        "candidates": [
            {
                "content": {"parts": [{"text": "pondering", "thought": True}, {"text": ARTICLE}]},
                "finishReason": "STOP",
            }
        ]
    },
    "ok",
    "thoughts beside an answer",
)
http(
    "gemini-thoughts-only",
    200,
    {
        "candidates": [
            {"content": {"parts": [{"text": "pondering", "thought": True}]}, "finishReason": "STOP"}
        ]
    },
    "validation/empty",
    "thoughts alone",
)
http(
    "anthropic-thinking-only",
    200,
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}],
        "stop_reason": "end_turn",
    },
    "validation/empty",
    "thoughts alone",
)
http(
    "think-tags-only",
    200,
    chat("<think>what shall I say</think>\n\n"),
    "validation/empty",
    "thoughts in tags",
)
http(
    "think-tags-answer",
    200,
    chat("<think>what shall I say</think>\n\nForty-two."),
    "ok",
    "an answer behind them",
)
http(
    "reasoning-content-only",
    200,
    chat("", reasoning_content="hm"),
    "validation/empty",
    "thoughts in a field of their own",
)
http("chat-null", 200, chat(None), "validation/empty", "null")
http("chat-blanks", 200, chat(" \n\u200b\x1b[0m\t"), "validation/empty", "blanks and colours")
http(
    "empty-list",
    200,
    {"type": "message", "content": [], "stop_reason": "end_turn"},
    "validation/empty",
    "no parts",
)
http("empty-candidates", 200, {"candidates": [], "usageMetadata": {}}, "validation/empty", "no candidate")
http("empty-body", 200, "", "validation/empty", "nothing")
http(
    "ollama-ok",
    200,
    {"model": "x", "message": {"role": "assistant", "content": ARTICLE}, "done": True, "done_reason": "stop"},
    "ok",
    "another envelope",
)
http(
    "ollama-length",
    200,
    {"model": "x", "response": ARTICLE, "done": True, "done_reason": "length"},
    "validation/truncated",
    "another name",
)
http(
    "bedrock-converse",
    200,
    {
        "output": {"message": {"role": "assistant", "content": [{"text": ARTICLE}]}},
        "stopReason": "end_turn",
        "usage": {},
    },
    "ok",
    "another envelope",
)
http(
    "bedrock-titan",
    200,
    {"results": [{"outputText": ARTICLE, "completionReason": "LENGTH"}]},
    "validation/truncated",
    "another name",
)
http(
    "cohere-ok",
    200,
    {
        "id": "x",
        "message": {"role": "assistant", "content": [{"type": "text", "text": ARTICLE}]},
        "finish_reason": "COMPLETE",
    },
    "ok",
    "another envelope",
)
http(
    "cohere-max",
    200,
    {
        "id": "x",
        "message": {"role": "assistant", "content": [{"type": "text", "text": ARTICLE}]},
        "finish_reason": "MAX_TOKENS",
    },
    "validation/truncated",
    "another name",
)
http("cohere-toxic", 200, {"text": "x", "finish_reason": "ERROR_TOXIC"}, "validation/refused", "another name")
http("hf-generated", 200, [{"generated_text": ARTICLE}], "ok", "a list")
http(
    "replicate-failed",
    200,
    {"id": "x", "status": "failed", "error": "Prediction failed: E8765 CUDA error", "output": None},
    "unknown",
    "a failed job",
)
http(
    "replicate-ok",
    200,
    {"id": "x", "status": "succeeded", "error": None, "output": ["The lock ", "was rebuilt."]},
    "ok",
    "a list of pieces",
)
http(
    "deepseek-resource",
    200,
    chat("The lock", "insufficient_system_resource"),
    "quota/capacity",
    "cut off for their load",
)
http(
    "anthropic-context-stop",
    200,
    {
        "type": "message",
        "content": [{"type": "text", "text": ARTICLE}],
        "stop_reason": "model_context_window_exceeded",
    },
    "validation/truncated",
    "cut by the window",
)
http("mistral-model-length", 200, chat(ARTICLE, "model_length"), "validation/truncated", "another name")
http(
    "responses-incomplete-filter",
    200,
    {
        "object": "response",
        "status": "incomplete",
        "incomplete_details": {"reason": "content_filter"},
        "output": [],
    },
    "validation/refused",
    "incomplete, by a filter",
)
http(
    "tool-call",
    200,
    chat(None, "tool_calls", tool_calls=[{"id": "x", "function": {"name": "f", "arguments": "{}"}}]),
    "ok",
    "a call of a tool is content",
)
http(
    "content-error-json",
    200,
    chat('{"error": {"type": "rate_limit_error", "message": "x"}}\n\nis what it looks like.'),
    "ok",
    "a quotation",
)
http(
    "content-notice",
    200,
    chat("Error: 429 Too Many Requests"),
    "quota/throttle",
    "a gateway's notice that can be placed",
)
http(
    "content-page",
    200,
    chat("<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body></body></html>"),
    "validation/error_shaped",
    "an error page as content",
)
http(
    "page-200",
    200,
    "<html><head><title>Just a moment...</title></head><body></body></html>",
    "validation/error_shaped",
    "a challenge as a success",
)
http(
    "html-article",
    200,
    chat(
        "<!DOCTYPE html><html><head><title>The lock at Vennside</title></head><body><p>It was rebuilt twice.</p></body></html>"
    ),
    "ok",
    "an article in HTML",
)
http(
    "content-apology",
    200,
    chat("I'm sorry, but I can't help with that."),
    "ok",
    "what a model wrote is not judged by its words",
)
http("content-number", 200, chat("503"), "ok", "a number")
http("content-slug", 200, chat("rate-limit-exceeded"), "ok", "a slug")
http("content-title", 200, chat("Too Many Requests: a short history of the post office"), "ok", "a title")
http(
    "content-json",
    200,
    chat(json.dumps({"title": "When quotas end", "error": "insufficient_quota", "body": "…"})),
    "ok",
    "JSON that a model wrote",
)
http(
    "body-json-text",
    429,
    '{"error":{"message":"Rate limit exceeded","type":"rate_limit_error"}}',
    "quota/throttle",
    "a body that was not parsed",
)
http("other-form", 200, {"data": [{"embedding": [0.1, 0.2]}]}, "ok", "an answer in a form of its own")
http(
    "stop-mid-sentence",
    200,
    {"type": "message", "content": [{"type": "text", "text": "And then the"}], "stop_reason": "end_turn"},
    "ok",
    "the provider says that it ended",
)
http(
    "xml-error",
    503,
    "<?xml version='1.0'?><ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>",
    "quota/throttle",
    "a code in XML",
)

# --- batches ------------------------------------------------------------------------------------------------------

http(
    "batch-line-expired",
    200,
    {
        "id": "b",
        "custom_id": "a",
        "response": None,
        "error": {
            "code": "batch_expired",
            "message": "This request could not be executed before the completion window expired.",
        },
    },
    "timeout/wall",
    "a line that expired",
)
http(
    "batch-line-429",
    200,
    {
        "id": "b",
        "custom_id": "a",
        "response": {
            "status_code": 429,
            "body": error(message="Rate limit", type="tokens", code="rate_limit_exceeded"),
        },
        "error": None,
    },
    "quota/throttle",
    "a reply inside of a line",
)
http(
    "batch-line-ok",
    200,
    {"id": "b", "custom_id": "a", "response": {"status_code": 200, "body": chat(ARTICLE)}, "error": None},
    "ok",
    "a reply inside of a line",
)
http(
    "anthropic-line-expired",
    200,
    {"custom_id": "a", "result": {"type": "expired"}},
    "timeout/wall",
    "another provider's line",
)
http(
    "anthropic-line-error",
    200,
    {
        "custom_id": "a",
        "result": {
            "type": "errored",
            "error": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        },
    },
    "quota/capacity",
    "an error in a line",
)
http(
    "anthropic-line-ok",
    200,
    {
        "custom_id": "a",
        "result": {
            "type": "succeeded",
            "message": {
                "type": "message",
                "content": [{"type": "text", "text": ARTICLE}],
                "stop_reason": "end_turn",
            },
        },
    },
    "ok",
    "success in a line",
)
http(
    "anthropic-line-cut",
    200,
    {
        "custom_id": "a",
        "result": {
            "type": "succeeded",
            "message": {
                "type": "message",
                "content": [{"type": "text", "text": ARTICLE}],
                "stop_reason": "max_tokens",
            },
        },
    },
    "validation/truncated",
    "cut in a line",
)
http(
    "gemini-batch-expired",
    200,
    {"name": "batches/x", "state": "JOB_STATE_EXPIRED"},
    "timeout/wall",
    "another provider's batch",
)
http(
    "batch-running",
    200,
    {"id": "b", "object": "batch", "status": "in_progress", "errors": None},
    "ok",
    "the call went well",
)
http(
    "batch-done",
    200,
    {
        "id": "b",
        "object": "batch",
        "status": "completed",
        "errors": None,
        "request_counts": {"total": 3, "completed": 3, "failed": 0},
    },
    "ok",
    "done",
)
http(
    "batch-bad-lines",
    200,
    {
        "id": "b",
        "object": "batch",
        "status": "failed",
        "errors": {
            "object": "list",
            "data": [
                {
                    "code": "invalid_json_line",
                    "message": "This line is not parseable as valid JSON.",
                    "line": 3,
                }
            ],
        },
    },
    "planning_error",
    "the file, as planned, is malformed",
)

# --- streams -----------------------------------------------------------------------------------------------------

sse("chat-ok", [chunk("The lock"), chunk(" was rebuilt."), chunk("", "stop"), "[DONE]"], "ok", "an end")
sse("chat-cut", [chunk("The lock"), chunk(" was")], "unknown", "no end and no error")
sse(
    "chat-length",
    [chunk("The lock"), chunk("", "length"), "[DONE]"],
    "validation/truncated",
    "an end by a ceiling",
)
sse(
    "chat-filter",
    [chunk("The"), chunk("", "content_filter"), "[DONE]"],
    "validation/refused",
    "an end by a filter",
)
sse("chat-empty", [chunk(""), chunk("", "stop"), "[DONE]"], "validation/empty", "an end without content")
sse(
    "openrouter-mid-error",
    [
        ": OPENROUTER PROCESSING",
        chunk("The lock"),
        {
            "id": "x",
            "error": {"code": 429, "message": "Rate limit exceeded"},
            "choices": [{"delta": {"content": ""}, "finish_reason": "error"}],
        },
        "[DONE]",
    ],
    "quota/throttle",
    "an error beside an empty piece, then a mere end",
)
sse(
    "error-then-done",
    [chunk("The lock"), error(message="Overloaded", type="overloaded_error"), "[DONE]"],
    "quota/capacity",
    "a mere end overtakes nothing",
)
sse(
    "anthropic-ok",
    [
        ("message_start", {"type": "message_start", "message": {"content": [], "stop_reason": None}}),
        ("ping", {"type": "ping"}),
        (
            "content_block_delta",
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "The lock was rebuilt."}},
        ),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        ("message_stop", {"type": "message_stop"}),
    ],
    "ok",
    "an end",
)
sse(
    "anthropic-max",
    [
        ("message_start", {"type": "message_start", "message": {"content": [], "stop_reason": None}}),
        (
            "content_block_delta",
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "The lock"}},
        ),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
        ("message_stop", {"type": "message_stop"}),
    ],
    "validation/truncated",
    "cut",
)
sse(
    "anthropic-thinking",
    [
        (
            "content_block_delta",
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        ),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        ("message_stop", {"type": "message_stop"}),
    ],
    "validation/empty",
    "thoughts alone",
)
sse(
    "anthropic-refusal",
    [
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "refusal"}}),
        ("message_stop", {"type": "message_stop"}),
    ],
    "validation/refused",
    "refusal",
)
sse(
    "anthropic-rate",
    [
        (
            "error",
            {
                "type": "error",
                "error": {
                    "type": "rate_limit_error",
                    "message": "This request would exceed your rate limit of 50 requests per minute",
                },
            },
        )
    ],
    "quota/throttle",
    "an error event",
)
sse(
    "anthropic-api-error",
    [("error", {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}})],
    "unknown",
    "an error that says nothing",
)
sse(
    "responses-ok",
    [
        ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "The lock"}),
        ("response.output_text.done", {"type": "response.output_text.done", "text": "The lock"}),
        (
            "response.completed",
            {
                "type": "response.completed",
                "response": {
                    "status": "completed",
                    "error": None,
                    "output": [{"type": "message", "content": [{"type": "output_text", "text": "The lock"}]}],
                },
            },
        ),
    ],
    "ok",
    "an end",
)
sse(
    "responses-no-end",
    [
        ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "The lock"}),
        ("response.output_text.done", {"type": "response.output_text.done", "text": "The lock"}),
    ],
    "unknown",
    "the end of a part is not the end",
)
sse(
    "responses-incomplete",
    [
        ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "The lock"}),
        (
            "response.incomplete",
            {
                "type": "response.incomplete",
                "response": {
                    "status": "incomplete",
                    "incomplete_details": {"reason": "max_output_tokens"},
                    "output": [],
                },
            },
        ),
    ],
    "validation/truncated",
    "cut",
)
sse(
    "responses-error",
    [
        (
            "error",
            {
                "type": "error",
                "code": "insufficient_quota",
                "message": "You exceeded your current quota",
                "param": None,
            },
        )
    ],
    "quota/billing",
    "a flat error event",
)
sse(
    "responses-reasoning",
    [
        (
            "response.reasoning_summary_text.delta",
            {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
        ),
        (
            "response.completed",
            {
                "type": "response.completed",
                "response": {
                    "status": "completed",
                    "output": [{"type": "reasoning", "summary": [{"text": "hm"}]}],
                },
            },
        ),
    ],
    "validation/empty",
    "thoughts alone",
)
sse(
    "gemini-ok",
    [
        {"candidates": [{"content": {"parts": [{"text": "The lock"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "."}]}, "finishReason": "STOP"}]},
    ],
    "ok",
    "its end is a reason",
)
sse(
    "gemini-cut",
    [{"candidates": [{"content": {"parts": [{"text": "The lock"}]}}]}],
    "unknown",
    "no reason to end",
)
sse(
    "gemini-error",
    [
        {"candidates": [{"content": {"parts": [{"text": "The lock"}]}}]},
        google("The model is overloaded.", "UNAVAILABLE", 503),
    ],
    "quota/capacity",
    "an error as data",
)
sse(
    "bedrock-stream-error",
    [
        {"contentBlockDelta": {"delta": {"text": "The"}}},
        {"throttlingException": {"message": "Too many requests"}},
    ],
    "quota/throttle",
    "the type is the key",
)
sse(
    "cohere-end",
    [
        {"type": "content-delta", "delta": {"message": {"content": {"text": "The lock"}}}},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
    ],
    "ok",
    "an end",
)
sse(
    "cohere-end-max",
    [
        {"type": "content-delta", "delta": {"message": {"content": {"text": "The lock"}}}},
        {"type": "message-end", "delta": {"finish_reason": "MAX_TOKENS"}},
    ],
    "validation/truncated",
    "cut",
)
sse(
    "article-in-pieces",
    [
        chunk('data: {"error": {"type": "overloaded_error"}}'),
        chunk(" is how it looks."),
        chunk("", "stop"),
        "[DONE]",
    ],
    "ok",
    "a quotation in a piece",
)
http(
    "ndjson-ok",
    200,
    '{"model":"x","response":"The lock","done":false}\n{"model":"x","response":".","done":true,"done_reason":"stop"}\n',
    "ok",
    "lines of JSON",
)
http(
    "ndjson-cut",
    200,
    '{"model":"x","response":"The lock","done":false}\n{"model":"x","response":" was","done":false}\n',
    "unknown",
    "lines without an end",
)
http(
    "ndjson-error",
    200,
    '{"model":"x","response":"The lock","done":false}\n{"error":"an error was encountered while running the model: CUDA out of memory"}\n',
    "unknown",
    "an error as the last line",
)
http(
    "json-array-stream",
    200,
    [
        {"candidates": [{"content": {"parts": [{"text": "The"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": " lock"}]}, "finishReason": "MAX_TOKENS"}]},
    ],
    "validation/truncated",
    "an array of pieces",
)
http(
    "json-array-error",
    429,
    [google("Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED")],
    "quota/throttle",
    "an array of one error",
)

# --- command-line tools ------------------------------------------------------------------------------------------

INIT = {"type": "system", "subtype": "init", "model": "m"}
RETRY = {
    "type": "system",
    "subtype": "api_retry",
    "attempt": 1,
    "retry_delay_ms": 2000,
    "error_status": 429,
    "error": "rate_limit",
}


def result(**fields: Any) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "",
        "stop_reason": "end_turn",
        **fields,
    }


def said(text: str) -> dict[str, Any]:
    return {
        "type": "assistant",
        "message": {"role": "assistant", "content": [{"type": "text", "text": text}], "stop_reason": None},
    }


cli(
    "claude-ok",
    0,
    [INIT, RETRY, said(ARTICLE), result(result=ARTICLE)],
    "",
    "ok",
    "an own retry, then a result",
)
cli(
    "claude-overloaded",
    1,
    [
        INIT,
        RETRY,
        result(
            is_error=True,
            api_error_status=529,
            result='API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        ),
    ],
    "",
    "quota/capacity",
    "JSON behind API Error",
)
cli(
    "claude-auth",
    1,
    [
        INIT,
        result(
            is_error=True,
            api_error_status=401,
            result='Failed to authenticate. API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"OAuth token has expired."}}',
        ),
    ],
    "",
    "phase_error/auth",
    "likewise",
)
cli(
    "claude-limit-event",
    1,
    [
        INIT,
        {
            "type": "rate_limit_event",
            "rate_limit_info": {"status": "rejected", "rateLimitType": "seven_day", "resetsAt": 1778860800},
        },
        result(is_error=True, result="You've hit your limit"),
    ],
    "",
    "quota/window @2026-05-15T16:00:00+00:00",
    "the event knows when",
    now="2026-05-12T03:04:05+00:00",
)
cli(
    "claude-limit-text",
    0,
    json.dumps(result(is_error=True, result="You've hit your limit · resets 1pm (Europe/Lisbon)")),
    "",
    "quota/window @2026-03-10T13:00:00+00:00",
    "is_error and words",
    now="2026-03-10T09:15:00+00:00",
)
cli(
    "claude-limit-no-flag",
    0,
    json.dumps(result(result="You've hit your limit · resets 1pm (Europe/Lisbon)")),
    "",
    "quota/window @2026-03-10T13:00:00+00:00",
    "a notice where the answer should be",
    now="2026-03-10T09:15:00+00:00",
)
cli(
    "claude-too-long",
    1,
    json.dumps(result(is_error=True, result="Prompt is too long")),
    "",
    "validation/too_large",
    "words of the result",
)
cli(
    "claude-policy",
    1,
    json.dumps(
        result(
            is_error=True,
            result="API Error: Claude Code is unable to respond to this request, which appears to violate our Usage Policy (https://www.anthropic.com/legal/aup).",
        )
    ),
    "",
    "validation/refused",
    "words of the result",
)
cli(
    "claude-max-output",
    1,
    json.dumps(
        result(is_error=True, result="API Error: Claude's response exceeded the 32000 output token maximum.")
    ),
    "",
    "validation/truncated",
    "words of the result",
)
cli(
    "claude-refusal",
    0,
    json.dumps(result(result="", stop_reason="refusal")),
    "",
    "validation/refused",
    "why it ended",
)
cli(
    "claude-cut",
    0,
    json.dumps(result(result=ARTICLE, stop_reason="max_tokens")),
    "",
    "validation/truncated",
    "why it ended",
)
cli(
    "claude-during",
    1,
    json.dumps(
        {
            "type": "result",
            "subtype": "error_during_execution",
            "is_error": True,
            "errors": ["Error: read ECONNRESET"],
        }
    ),
    "",
    "unknown",
    "a connection error",
)
cli(
    "claude-array",
    0,
    json.dumps([INIT, said(ARTICLE), result(result=ARTICLE)]),
    "",
    "ok",
    "the events as an array",
)
cli("claude-no-result", 1, [INIT, said("I will")], "", "unknown", "the stream of the tool has no end")
cli(
    "claude-empty-stderr",
    0,
    json.dumps(result(result="")),
    "Error: Credit balance is too low\n",
    "quota/billing",
    "empty, and the tool's own voice says why",
)
cli(
    "claude-empty-warning",
    0,
    json.dumps(result(result="")),
    'Warning: MCP server "search" rate limit exceeded\n',
    "validation/empty",
    "a side server is no better cause",
)
cli(
    "claude-tool-error",
    0,
    [
        INIT,
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "is_error": True, "content": "429 Too Many Requests"}],
            },
        },
        said(ARTICLE),
        result(result=ARTICLE),
    ],
    "",
    "ok",
    "a failed call of a tool",
)
cli(
    "codex-ok-after-tool-failure",
    0,
    [
        {"type": "turn.started"},
        {
            "type": "item.completed",
            "item": {
                "type": "command_execution",
                "exit_code": 1,
                "status": "failed",
                "aggregated_output": "403 Forbidden",
            },
        },
        {"type": "item.completed", "item": {"type": "agent_message", "text": ARTICLE}},
        {"type": "turn.completed", "usage": {}},
    ],
    "",
    "ok",
    "a failed call of a tool",
)
cli(
    "codex-exit-1-ok",
    1,
    [
        {"type": "item.completed", "item": {"type": "agent_message", "text": ARTICLE}},
        {"type": "turn.completed", "usage": {}},
    ],
    "",
    "ok",
    "a turn that completed overrides the exit",
)
cli(
    "codex-disconnected",
    1,
    [
        {"type": "turn.started"},
        {"type": "error", "message": "Reconnecting... 5/5"},
        {
            "type": "turn.failed",
            "error": {"message": "stream disconnected before completion: error sending request"},
        },
    ],
    "",
    "unknown",
    "a connection error",
)
cli(
    "codex-window",
    1,
    [
        {
            "type": "turn.failed",
            "error": {
                "message": '{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":13872}}'
            },
        }
    ],
    "",
    "quota/window 13872",
    "an object inside of a message",
)
cli(
    "codex-model",
    1,
    [
        {
            "type": "turn.failed",
            "error": {
                "message": '{"detail":"The \'gpt-9\' model is not supported when using Codex with a ChatGPT account."}'
            },
        }
    ],
    "",
    "planning_error",
    "a model that this account cannot have asked for",
)
cli(
    "gemini-json-ok",
    0,
    json.dumps({"session_id": "x", "response": ARTICLE, "stats": {}}, indent=2),
    "",
    "ok",
    "its own structure",
)
cli(
    "gemini-json-empty",
    0,
    json.dumps({"session_id": "x", "response": "", "stats": {}}, indent=2),
    "",
    "validation/empty",
    "its own structure",
)
cli(
    "gemini-turns",
    53,
    "",
    json.dumps(
        {
            "session_id": "x",
            "error": {
                "type": "FatalTurnLimitedError",
                "message": "Reached max session turns for this session.",
                "code": 53,
            },
        },
        indent=2,
    ),
    "validation/truncated",
    "a ceiling of turns",
)
cli(
    "gemini-auth",
    41,
    "",
    json.dumps(
        {
            "session_id": "x",
            "error": {
                "type": "FatalAuthenticationError",
                "message": "Please set an Auth method in your settings.json",
                "code": 41,
            },
        },
        indent=2,
    ),
    "phase_error/auth",
    "type",
)
cli(
    "gemini-input",
    42,
    "",
    json.dumps(
        {
            "session_id": "x",
            "error": {"type": "FatalInputError", "message": "No input provided via stdin.", "code": 42},
        },
        indent=2,
    ),
    "planning_error",
    "type",
)
cli(
    "gemini-stream-error",
    1,
    [
        {"type": "init", "model": "m"},
        {"type": "message", "role": "user", "content": "write"},
        {
            "type": "result",
            "status": "error",
            "error": {
                "type": "TerminalQuotaError",
                "message": "You have exhausted your daily quota on this model.",
            },
        },
    ],
    "",
    "quota/window",
    "a result that is an error",
)
cli(
    "gemini-stream-ok",
    0,
    [
        {"type": "init", "model": "m"},
        {"type": "message", "role": "user", "content": "write"},
        {"type": "message", "role": "assistant", "content": "The lock", "delta": True},
        {"type": "error", "severity": "warning", "message": "Loop detected"},
        {"type": "result", "status": "success", "stats": {}},
    ],
    "",
    "ok",
    "a warning is no failure",
)
cli(
    "gemini-text",
    1,
    "",
    "Loaded cached credentials.\n[API Error: You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 50, model: gemini-2.5-pro\nPlease retry in 18.5s.]\n",
    "quota/throttle 18.5",
    "Google's boilerplate in words",
    tool="gemini",
)
cli(
    "gemini-nested",
    1,
    "",
    'Error when talking to Gemini API Full report available at: /tmp/x.json ApiError: {"error":{"message":"{\\n  \\"error\\": {\\n    \\"code\\": 503,\\n    \\"message\\": \\"The model is overloaded. Please try again later.\\",\\n    \\"status\\": \\"UNAVAILABLE\\"\\n  }\\n}\\n","code":503,"status":"Service Unavailable"}}\n    at throwErrorIfNotOK (file:///usr/lib/node_modules/x.js:12:30)\n',
    "quota/capacity",
    "JSON in JSON, with a stack",
)
cli(
    "opencode-error",
    1,
    [
        {"type": "step_start"},
        {
            "type": "error",
            "error": {
                "name": "APIError",
                "data": {
                    "message": "Rate limit",
                    "statusCode": 429,
                    "isRetryable": True,
                    "responseHeaders": {"retry-after": "14"},
                    "responseBody": "{}",
                },
            },
        },
    ],
    "",
    "quota/throttle 14",
    "another tool's event",
)
cli(
    "opencode-ok",
    0,
    [
        {"type": "step_start", "part": {"type": "step-start"}},
        {"type": "text", "part": {"type": "text", "text": ARTICLE}},
        {"type": "step_finish", "part": {"type": "step-finish", "reason": "stop"}},
    ],
    "",
    "ok",
    "another tool's answer",
)
cli(
    "llm-python",
    1,
    "",
    "Error: Error code: 400 - {'type': 'error', 'error': {'type': 'invalid_request_error', 'message': \"Your credit balance is too low to access the Anthropic API.\"}}\n",
    "quota/billing",
    "a Python literal with both quotes",
)
cli(
    "llm-model", 1, "", "Error: 'gpt-99' is not a known model\n", "phase_error/not_found", "words", tool="llm"
)
cli(
    "llm-key",
    1,
    "",
    "Error: No key found - add one using 'llm keys set openai' or set the OPENAI_API_KEY environment variable\n",
    "phase_error/auth",
    "words",
    tool="llm",
)
cli(
    "llm-usage",
    2,
    "",
    "Usage: llm prompt [OPTIONS] [PROMPT]\nTry 'llm prompt --help' for help.\n\nError: No such option: --modle (Possible options: --model)\n",
    "planning_error",
    "a usage error",
    tool="llm",
)
cli(
    "argparse",
    2,
    "",
    "usage: gen [-h] --topic TOPIC\ngen: error: the following arguments are required: --topic\n",
    "planning_error",
    "a usage error",
)
cli(
    "clap",
    2,
    "",
    "error: unexpected argument '--josn' found\n\n  tip: a similar argument exists: '--json'\n\nUsage: codex exec [OPTIONS] [PROMPT]\n",
    "planning_error",
    "found is not not found",
)
cli(
    "go-flag",
    2,
    "",
    "flag provided but not defined: -modle\nUsage of gen:\n",
    "planning_error",
    "a usage error",
)
cli(
    "sdk-traceback",
    1,
    "",
    "Traceback (most recent call last):\n  File \"gen.py\", line 3, in <module>\n    main()\nopenai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit reached. Please try again in 2.5s.', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}\n",
    "quota/throttle 2.5",
    "a provider's error is no crash",
)
cli(
    "sdk-google-traceback",
    1,
    "",
    "Traceback (most recent call last):\n  File \"gen.py\", line 3, in <module>\ngoogle.genai.errors.ClientError: 429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'You exceeded your current quota, please check your plan and billing details.', 'status': 'RESOURCE_EXHAUSTED', 'details': [{'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '7s'}]}}\n",
    "quota/throttle 7",
    "likewise",
)
cli(
    "boto-traceback",
    1,
    "",
    'Traceback (most recent call last):\n  File "gen.py", line 3, in <module>\nbotocore.errorfactory.ThrottlingException: An error occurred (ThrottlingException) when calling the InvokeModel operation (reached max retries: 4): Too many requests, please wait before trying again.\n',
    "quota/throttle",
    "the name of what was raised",
)
cli(
    "requests-traceback",
    1,
    "",
    'Traceback (most recent call last):\n  File "gen.py", line 3, in <module>\nrequests.exceptions.HTTPError: 402 Client Error: Payment Required for url: https://api.example.com/v1\n',
    "quota/billing",
    "a status in words",
)
cli(
    "connect-traceback",
    1,
    "",
    'Traceback (most recent call last):\n  File "gen.py", line 3, in <module>\nopenai.APIConnectionError: Connection error.\n',
    "unknown",
    "a connection error is no crash",
)
cli(
    "timeout-traceback",
    1,
    "",
    'Traceback (most recent call last):\n  File "gen.py", line 3, in <module>\nopenai.APITimeoutError: Request timed out.\n',
    "timeout/wall",
    "a timeout is no crash",
)
cli(
    "own-traceback",
    1,
    "",
    "Traceback (most recent call last):\n  File \"gen.py\", line 3, in <module>\n    print(reply['choices'])\nKeyError: 'choices'\n",
    "phase_error/crash",
    "the tool itself fell over",
)
cli(
    "own-file-traceback",
    1,
    "",
    "Traceback (most recent call last):\n  File \"gen.py\", line 3, in <module>\nFileNotFoundError: [Errno 2] No such file or directory: 'prompt.md'\n",
    "phase_error/crash",
    "the tool itself fell over",
)
cli(
    "own-import-traceback",
    1,
    "",
    "Traceback (most recent call last):\n  File \"gen.py\", line 3, in <module>\nModuleNotFoundError: No module named 'openai'\n",
    "phase_error/crash",
    "the tool itself fell over",
)
cli(
    "chained-traceback",
    1,
    "",
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nhttpx.HTTPStatusError: Client error \'429 Too Many Requests\'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "a.py", line 9, in <module>\nTypeError: unsupported operand type(s)\n',
    "phase_error/crash",
    "the last word wins",
)
cli(
    "node-crash",
    1,
    "",
    "node:internal/modules/cjs/loader:1148\n  throw err;\n  ^\n\nError: Cannot find module '/app/gen.js'\n    at Module._resolveFilename (node:internal/modules/cjs/loader:1145:15)\n    at Module._load (node:internal/modules/cjs/loader:986:27)\n",
    "phase_error/crash",
    "a trace of the tool itself",
)
cli(
    "rust-panic",
    101,
    "",
    "thread 'main' panicked at src/main.rs:12:5:\nindex out of bounds: the len is 0\nnote: run with `RUST_BACKTRACE=1`\n",
    "phase_error/crash",
    "a panic",
)
cli("oom-signal", 137, "", "Killed\n", "phase_error/crash", "a signal with a statement")
cli(
    "abort-heap",
    134,
    "",
    "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\nAborted (core dumped)\n",
    "phase_error/crash",
    "an abort with a statement",
)
cli("negative-exit", -11, "", "Segmentation fault\n", "phase_error/crash", "a signal as a negative number")
cli("bare-134", 134, "", "", "unknown", "an exit alone is a hint")
cli("bare-130", 130, "", "", "unknown", "an exit alone is a hint")
cli("exit-null", None, "", "", "unknown", "nobody knows")
cli("not-found", 127, "", "sh: 1: claud: not found\n", "phase_error/not_found", "no such command")
cli(
    "not-found-env",
    127,
    "",
    "env: 'claude': No such file or directory\n",
    "phase_error/not_found",
    "no such command",
)
cli("bare-127", 127, "", "", "unknown", "127 needs its words")
cli(
    "timeout-wrapper-k",
    124,
    ARTICLE[:80],
    "",
    "timeout/wall",
    "a wrapper with options, and a partial answer",
    argv=["timeout", "-k", "5", "10m", "tool"],
)
cli(
    "timeout-wrapper-path",
    124,
    "",
    "",
    "timeout/wall",
    "a wrapper by its path, behind another",
    argv=["env", "LANG=C", "/usr/bin/timeout", "60", "tool"],
)
cli(
    "timeout-wrapper-shell",
    124,
    "",
    "",
    "timeout/wall",
    "in a shell's words",
    argv=["sh", "-c", "timeout 900 tool -p"],
)
cli(
    "timeout-in-prompt",
    124,
    "",
    "",
    "unknown",
    "a word of the prompt is no wrapper",
    argv=["tool", "-p", "explain", "timeout"],
)
cli(
    "curl-headers",
    0,
    'HTTP/2 429 \r\nretry-after: 21\r\ncontent-type: application/json\r\n\r\n{"error":{"message":"slow","type":"rate_limit_error"}}',
    "",
    "quota/throttle 21",
    "a whole reply on stdout",
    tool="curl",
)
cli(
    "curl-body",
    0,
    json.dumps(
        error(
            message="Incorrect API key provided: sk-x", type="invalid_request_error", code="invalid_api_key"
        )
    ),
    "",
    "phase_error/auth",
    "a reply passed on as it came",
    tool="curl",
)
cli("curl-ok", 0, json.dumps(chat(ARTICLE)), "", "ok", "a reply passed on as it came", tool="curl")
cli(
    "curl-length",
    0,
    json.dumps(chat(ARTICLE, "length")),
    "",
    "validation/truncated",
    "a reply passed on as it came",
    tool="curl",
)
cli(
    "curl-f",
    22,
    "",
    "curl: (22) The requested URL returned error: 503\n",
    "quota/capacity",
    "a status in words",
    tool="curl",
)
cli(
    "curl-refused",
    7,
    "",
    "curl: (7) Failed to connect to api.example.com port 443 after 0 ms: Couldn't connect to server\n",
    "unknown",
    "a connection error",
    tool="curl",
)
cli(
    "curl-dns",
    6,
    "",
    "curl: (6) Could not resolve host: api.example.com\n",
    "unknown",
    "a connection error",
    tool="curl",
)
cli(
    "curl-timeout",
    28,
    "",
    "curl: (28) Operation timed out after 30001 milliseconds with 0 bytes received\n",
    "timeout/wall",
    "an operation that timed out",
    tool="curl",
)
cli(
    "curl-sse",
    0,
    'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "",
    "quota/capacity",
    "a raw stream on stdout",
    tool="curl",
)
cli("ollama-model", 1, "", "Error: model 'x' not found\n", "phase_error/not_found", "words", tool="ollama")
cli(
    "ollama-down",
    1,
    "",
    "Error: could not connect to ollama server, run 'ollama serve' to start it\n",
    "unknown",
    "a connection error",
    tool="ollama",
)
cli(
    "retries-then-cause",
    1,
    "",
    "WARN retrying request attempt 1/5: 429 Too Many Requests\nWARN retrying request attempt 2/5: 429 Too Many Requests\nError: invalid_api_key: Incorrect API key provided\n",
    "phase_error/auth",
    "the last word wins",
)
cli(
    "anyhow",
    1,
    "",
    "Error: request failed\n\nCaused by:\n    0: HTTP status client error (429 Too Many Requests) for url (https://api.example.com/v1)\n",
    "quota/throttle",
    "a chain of causes",
)
cli(
    "partial-then-notice",
    1,
    ARTICLE
    + '\nAPI Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n',
    "",
    "quota/capacity",
    "a failed call that ends in a notice",
)
cli(
    "partial-then-object",
    1,
    ARTICLE[:90],
    "Error: Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}\n",
    "quota/capacity",
    "an error object counts beside content",
)
cli(
    "partial-then-warning",
    1,
    ARTICLE,
    'Warning: MCP server "search" rate limit exceeded\n',
    "unknown",
    "stderr beside content is no evidence",
)
cli("partial-mid", 1, ARTICLE[:90], "", "unknown", "cause not stated")
cli(
    "quote-at-end",
    1,
    ARTICLE + "\n```\nYou've hit your usage limit.\n```\n",
    "",
    "unknown",
    "a quotation that ends in its fence",
)
cli(
    "explained-at-end",
    1,
    ARTICLE + "\nHTTP 429 is the status a server sends when a client asks too often.\n",
    "",
    "unknown",
    "a sentence about a status",
)
cli(
    "article-exit-0-notice-inside",
    0,
    ARTICLE + "\nYou've hit your usage limit. Try again at 3:40 PM.\n",
    "",
    "ok",
    "at exit 0 only the whole output is a notice",
)
cli(
    "notice-exit-0",
    0,
    "Session limit reached ∙ resets 2am\n",
    "",
    "quota/window @2026-01-21T02:00:00+09:00",
    "the whole output is a notice",
    now="2026-01-20T13:30:00+00:00",
    tz="Asia/Tokyo",
)
cli("notice-exit-0-login", 0, "Invalid API key · Please run /login\n", "", "phase_error/auth", "likewise")
cli("notice-exit-0-credit", 0, "Credit balance is too low\n", "", "quota/billing", "likewise")
cli(
    "notice-colours",
    0,
    "\x1b[31mAPI Error: Rate limit reached\x1b[0m\n",
    "",
    "quota/throttle",
    "colours hide nothing",
)
cli(
    "notice-unplaced",
    0,
    "API Error: something odd happened\n",
    "",
    "validation/error_shaped",
    "an error text that no rule can place",
)
cli(
    "notice-unplaced-failing",
    1,
    "API Error: something odd happened\n",
    "",
    "unknown",
    "the same with a failing exit",
)
cli(
    "short-answer",
    0,
    "A rate limit protects a server from too many requests.\n",
    "",
    "ok",
    "an honest sentence",
)
cli(
    "short-answer-limit",
    0,
    "The daily limit of the fishery was reached in March, long before the spawning ended.\n",
    "",
    "ok",
    "an honest sentence",
)
cli("short-question", 0, 'What does "quota exceeded" mean?\n', "", "ok", "a question")
cli("short-title", 0, "You've hit your limit: what to do next\n", "", "ok", "a title")
cli("short-heading", 0, "# Error: the art of being wrong\n", "", "ok", "a heading")
cli("short-number", 0, "529\n", "", "ok", "a number")
cli(
    "json-answer",
    0,
    json.dumps({"title": "Errors", "error": "rate_limit_exceeded", "steps": ["wait", "retry"], "body": "…"}),
    "",
    "ok",
    "an answer that is JSON with an error in it",
)
cli(
    "json-lines-answer",
    0,
    '{"q": "What is 429?", "a": "Too many requests"}\n{"q": "And 529?", "a": "Overloaded"}\n',
    "",
    "ok",
    "an answer that is lines of JSON",
)
cli("json-array-answer", 0, '["rate limit", "quota exceeded"]', "", "ok", "an answer that is a list")
cli("json-null-error", 0, '{"slug": "x", "error": null}', "", "ok", "null is no error")
cli("blank-colours", 0, "\x1b[0m\x1b[?25h \r\n", "", "validation/empty", "blanks and colour codes")
cli("blank-reasoning", 0, "<think>\nhm\n</think>\n", "", "validation/empty", "reasoning alone")
cli(
    "blank-with-cause",
    0,
    "",
    "Error: 402 Payment Required\n",
    "quota/billing",
    "the tool's voice names a better cause",
)
cli(
    "aider-model-error",
    0,
    "Aider v0.86.1\nModel: x\n\nlitellm.AuthenticationError: AuthenticationError: OpenAIException - Incorrect API key provided.\nThe API provider is not able to authenticate you. Check your API key.\n",
    "",
    "phase_error/auth",
    "ends in a notice",
    tool="aider",
)
cli(
    "aider-context",
    0,
    "Aider v0.86.1\n\nlitellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - This model's maximum context length is 8192 tokens.\n",
    "",
    "validation/too_large",
    "ends in a notice",
    tool="aider",
)
cli(
    "aider-answer-only",
    0,
    "Aider v0.86.1\nModel: x\n\nThe lock was rebuilt twice.\n\nTokens: 4.1k sent, 902 received. Cost: $0.02 message.\n",
    "",
    "ok",
    "an answer without an edit",
    tool="aider",
)
cli(
    "aider-nothing",
    0,
    "Aider v0.86.1\nModel: gpt-4o with diff edit format\nGit repo: .git with 214 files\nRepo-map: using 4096 tokens, auto refresh\n",
    "",
    "validation/empty",
    "a banner is no answer",
    tool="aider",
)
cli(
    "stopped-silence",
    143,
    ARTICLE[:40],
    "Error: rate limit\n",
    "timeout/silence",
    "who ended it comes first",
    stopped_by="silence",
)
cli(
    "stopped-wall-result",
    143,
    [INIT, result(result=ARTICLE)],
    "",
    "timeout/wall",
    "who ended it comes first",
    stopped_by="wall",
)

# --- and more of the same kinds ------------------------------------------------------------------------------------

http(
    "openai-rpm-payment-offer",
    429,
    error(
        message="Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s. Visit https://platform.openai.com/account/rate-limits to learn more. You can increase your rate limit by adding a payment method to your account at https://platform.openai.com/account/billing.",
        type="requests",
        code="rate_limit_exceeded",
    ),
    "quota/throttle 20",
    "an offer to add a payment method is no cause",
)
http(
    "openai-hard-limit",
    400,
    error(
        message="Billing hard limit has been reached",
        type="invalid_request_error",
        code="billing_hard_limit_reached",
    ),
    "quota/billing",
    "code",
)
http(
    "openai-inactive",
    429,
    error(
        message="Your account is not active, please check your billing details on our website.",
        type="billing_not_active",
        code="billing_not_active",
    ),
    "quota/billing",
    "code",
)
http(
    "anthropic-daily",
    429,
    {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "Number of request tokens has exceeded your daily rate limit",
        },
    },
    "quota/window",
    "day",
)
http(
    "anthropic-minute-words",
    429,
    {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": "Number of request tokens has exceeded your per-minute rate limit (https://docs.anthropic.com/en/api/rate-limits); see the response headers for current usage. Please reduce the prompt length or the maximum tokens requested, or try again later.",
        },
    },
    "quota/throttle",
    "minute",
)
http(
    "anthropic-disabled",
    400,
    {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "This organization has been disabled."},
    },
    "phase_error/auth",
    "a 400 about the account",
)
http(
    "azure-free-day",
    429,
    error(
        code="429",
        message="Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded token rate limit of your current OpenAI F0 pricing tier. Please retry after 86400 seconds. Please go here: https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit.",
    ),
    "quota/window 86400",
    "a stated day",
)
http(
    "hf-monthly-credits",
    402,
    {
        "error": "You have exceeded your monthly included credits for Inference Providers. Subscribe to PRO to get 20x more monthly included credits."
    },
    "quota/billing",
    "credits are exhausted",
)
http(
    "copilot-quota",
    402,
    error(message="You have no quota left", code="quota_exceeded"),
    "quota/billing",
    "a vague code, a clear status",
)
http(
    "vercel-card",
    403,
    error(
        message="AI Gateway requires a valid credit card on file to service requests.",
        type="customer_verification_required",
    ),
    "quota/billing",
    "payment must be set up",
)
http(
    "openrouter-flagged",
    403,
    error(
        code=403,
        message='Your chosen model requires moderation and your input was flagged for "violence".',
        metadata={"reasons": ["violence"], "flagged_input": "x"},
    ),
    "validation/refused",
    "a 403 by moderation",
)
http(
    "openrouter-down",
    502,
    error(code=502, message="Your chosen model is down or we received an invalid response from it"),
    "unknown",
    "status",
)
http(
    "groq-over-capacity",
    503,
    error(
        message="llama-4 is currently over capacity. Please try again and back off exponentially. Visit https://groqstatus.com to see if there is an active incident.",
        type="internal_server_error",
    ),
    "quota/capacity",
    "status and words",
)
http(
    "groq-restricted",
    400,
    error(
        message="Organization has been restricted. Please reach out to support.",
        type="invalid_request_error",
        code="organization_restricted",
    ),
    "phase_error/auth",
    "code",
)
http("mistral-401", 401, {"detail": "Unauthorized"}, "phase_error/auth", "another shape")
http(
    "mistral-503",
    503,
    {
        "object": "error",
        "message": "Service unavailable.",
        "type": "internal_server_error",
        "param": None,
        "code": "1000",
    },
    "quota/capacity",
    "status",
)
http(
    "mistral-tokens-day",
    429,
    {"object": "error", "message": "Daily token limit exceeded", "type": "rate_limited", "code": "1300"},
    "quota/window",
    "day",
)
http(
    "anthropic-413",
    413,
    {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
    "validation/too_large",
    "type",
)
http(
    "anthropic-404",
    404,
    {"type": "error", "error": {"type": "not_found_error", "message": "model: claude-9"}},
    "phase_error/not_found",
    "type",
)
http(
    "anthropic-403",
    403,
    {
        "type": "error",
        "error": {
            "type": "permission_error",
            "message": "Your API key does not have permission to use the specified resource.",
        },
    },
    "phase_error/auth",
    "type",
)
http(
    "anthropic-timeout",
    504,
    {"type": "error", "error": {"type": "timeout_error", "message": "Request timed out"}},
    "timeout/wall",
    "type",
)
http(
    "vertex-429",
    429,
    google(
        "Resource exhausted. Please try again later. Please refer to https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details.",
        "RESOURCE_EXHAUSTED",
    ),
    "quota/throttle",
    "no detail",
    provider="vertex",
)
http(
    "vertex-day-metric",
    429,
    google(
        "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_day_per_project with base model: gemini.",
        "RESOURCE_EXHAUSTED",
    ),
    "quota/window",
    "a day in a metric's name",
)
http(
    "vertex-minute-metric",
    429,
    google(
        "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model with base model: gemini. Please submit a quota increase request.",
        "RESOURCE_EXHAUSTED",
    ),
    "quota/throttle",
    "a minute in a metric's name",
)
http(
    "gemini-403",
    403,
    google(
        "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
        "PERMISSION_DENIED",
        403,
    ),
    "phase_error/auth",
    "status word",
)
http(
    "gemini-404",
    404,
    google(
        "models/gemini-9 is not found for API version v1beta, or is not supported for generateContent.",
        "NOT_FOUND",
        404,
    ),
    "phase_error/not_found",
    "status word",
)
http(
    "service-disabled",
    403,
    google(
        "Generative Language API has not been used in project 1 before or it is disabled.",
        "PERMISSION_DENIED",
        403,
        {"@": "ErrorInfo", "reason": "SERVICE_DISABLED"},
    ),
    "phase_error/auth",
    "reason",
)
http(
    "bedrock-access",
    403,
    {"message": "You don't have access to the model with the specified model ID."},
    "phase_error/auth",
    "type",
    headers={"x-amzn-ErrorType": "AccessDeniedException"},
)
http(
    "bedrock-404",
    404,
    {"message": "Could not resolve the foundation model from the provided model identifier."},
    "phase_error/not_found",
    "type",
    headers={"x-amzn-ErrorType": "ResourceNotFoundException"},
)
http(
    "bedrock-validation",
    400,
    {
        "message": "Malformed input request: #: required key [messages] not found, please reformat your input and try again."
    },
    "planning_error",
    "type",
    headers={"x-amzn-ErrorType": "ValidationException"},
)
http(
    "bedrock-unavailable",
    503,
    {"message": "Bedrock is unable to process your request."},
    "quota/capacity",
    "type",
    headers={"x-amzn-ErrorType": "ServiceUnavailableException"},
)
http(
    "bedrock-internal",
    500,
    {"message": "The system encountered an unexpected error during processing. Try your request again."},
    "unknown",
    "type",
    headers={"x-amzn-ErrorType": "InternalServerException"},
)
http(
    "ollama-429-hour",
    429,
    {"error": "you (x) have reached your hourly usage limit, upgrade for higher limits"},
    "quota/window",
    "hour",
)
http(
    "ollama-500",
    500,
    {"error": "llama runner process has terminated: signal: killed"},
    "unknown",
    "their crash is not ours",
)
http(
    "ietf-new",
    429,
    "",
    "quota/throttle 30",
    "one header for all",
    headers={"RateLimit": '"default";r=0;t=30', "RateLimit-Policy": '"default";q=100;w=60'},
)
http(
    "stream-429",
    429,
    '{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}',
    "quota/throttle",
    "an error reply to a request for a stream",
    headers={"content-type": "text/event-stream"},
)
http(
    "stream-json-200",
    200,
    json.dumps(error(message="Overloaded", type="overloaded_error"), indent=1),
    "quota/capacity",
    "JSON where a stream was announced",
    headers={"content-type": "text/event-stream"},
)
http(
    "broken-json",
    200,
    '{"choices":[{"message":{"role":"assistant","content":"The lo',
    "unknown",
    "a body that was cut off",
    headers={"content-type": "application/json"},
)
http(
    "error-of-nulls",
    200,
    {**chat(ARTICLE), "error": {"code": None, "message": None}},
    "ok",
    "nulls are no error",
)
http(
    "cloudflare-ai-ok",
    200,
    {"success": True, "errors": [], "messages": [], "result": {"response": ARTICLE}},
    "ok",
    "another envelope",
)
http(
    "dashscope-length",
    200,
    {
        "output": {
            "choices": [{"message": {"role": "assistant", "content": ARTICLE}, "finish_reason": "length"}]
        },
        "usage": {},
        "request_id": "x",
    },
    "validation/truncated",
    "another envelope",
)
http(
    "dashscope-text",
    200,
    {"output": {"text": ARTICLE, "finish_reason": "stop"}, "usage": {}, "request_id": "x"},
    "ok",
    "another envelope",
)
http("content-parts", 200, chat([{"type": "text", "text": ARTICLE}]), "ok", "parts")
http("finish-null", 200, chat(ARTICLE, None), "ok", "no reason at all")
http(
    "short-article",
    200,
    chat(
        "You've hit your limit\n\nThat is what the screen says when the allowance of the day is gone, and nothing else happens for hours."
    ),
    "ok",
    "an article that opens with the phrase",
)
http(
    "error-essay",
    200,
    chat("Error: a word that engineers fear.\n\n" + ARTICLE),
    "ok",
    "an article that opens with the word",
)
http(
    "error-means",
    200,
    chat("Error 429 means that you sent too many requests in a given time."),
    "ok",
    "a sentence about an error",
)
http(
    "phrase-tells",
    200,
    chat("429 Too Many Requests tells a client to slow down."),
    "ok",
    "a sentence about an error",
)
http(
    "gateway-limit-content",
    200,
    chat("You have exceeded your daily request limit. Please try again tomorrow."),
    "quota/window",
    "a notice as content",
)
cli(
    "codex-credits-or-time",
    1,
    [
        {
            "type": "turn.failed",
            "error": {
                "message": "You've hit your usage limit. Visit https://chatgpt.com/codex/settings/usage to purchase more credits or try again at 3:15 PM."
            },
        }
    ],
    "",
    "quota/window @2026-02-03T15:15:00+01:00",
    "an offer of credits, and a time",
    now="2026-02-03T08:40:00+00:00",
    tz="Europe/Madrid",
)
cli(
    "codex-days",
    1,
    [
        {
            "type": "turn.failed",
            "error": {
                "message": "You've hit your usage limit. Upgrade to Plus to continue using Codex (https://openai.com/chatgpt/pricing), or try again in 5 days 3 hours."
            },
        }
    ],
    "",
    "quota/window 442800",
    "days and hours",
)
cli(
    "codex-workspace-credits",
    1,
    [
        {
            "type": "turn.failed",
            "error": {"message": "Your workspace is out of credits. Add credits to continue."},
        }
    ],
    "",
    "quota/billing",
    "credits",
)
cli(
    "codex-demand",
    1,
    [
        {
            "type": "turn.failed",
            "error": {
                "message": "We're currently experiencing high demand, which may cause temporary errors."
            },
        }
    ],
    "",
    "quota/capacity",
    "demand",
)
cli(
    "codex-401",
    1,
    [
        {
            "type": "turn.failed",
            "error": {
                "message": "unexpected status 401 Unauthorized: Missing bearer or basic authentication in header"
            },
        }
    ],
    "",
    "phase_error/auth",
    "the status it names",
)
cli(
    "codex-400-context",
    1,
    [
        {
            "type": "turn.failed",
            "error": {
                "message": "Codex ran out of room in the model's context window. Start a new conversation or clear earlier history before retrying."
            },
        }
    ],
    "",
    "validation/too_large",
    "the window",
)
cli(
    "codex-empty-turn",
    0,
    [{"type": "turn.started"}, {"type": "turn.completed", "usage": {"output_tokens": 0}}],
    "",
    "validation/empty",
    "a turn that said nothing",
)
cli(
    "aider-overloaded",
    0,
    'Aider v0.86.1\n\nlitellm.InternalServerError: AnthropicException - {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\nThe API provider\'s servers are down or overloaded.\nRetrying in 32.0 seconds...\nlitellm.InternalServerError: AnthropicException - {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\nThe API provider\'s servers are down or overloaded.\n',
    "",
    "quota/capacity",
    "JSON in a notice",
    tool="aider",
)
cli(
    "aider-credit",
    0,
    'Aider v0.86.1\n\nlitellm.BadRequestError: AnthropicException - b\'{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}\'\n',
    "",
    "quota/billing",
    "bytes printed as such",
    tool="aider",
)
cli(
    "json-content-failing",
    1,
    json.dumps({"slug": "quota-exceeded", "title": "When a quota is exceeded", "status": 429, "body": "…"}),
    "",
    "unknown",
    "JSON that a model wrote, and a cause not stated",
)
cli(
    "json-bare-failing",
    1,
    json.dumps({"message": "Rate limit exceeded", "code": "rate_limited"}),
    "",
    "quota/throttle",
    "an error object on stdout",
)
cli(
    "talk-then-json",
    0,
    "Loaded cached credentials.\n"
    + json.dumps({"session_id": "x", "response": ARTICLE, "stats": {}}, indent=2),
    "",
    "ok",
    "talk before the structure",
)
cli(
    "talk-then-fail",
    1,
    "Loaded cached credentials.\n",
    "Error: 503 Service Unavailable\n",
    "quota/capacity",
    "talk is no content",
)
cli("exit-173-empty", 173, "", "", "unknown", "a status in an exit alone is a hint")
cli(
    "exit-145",
    145,
    "",
    json.dumps(
        {
            "error": {
                "type": "ApiError",
                "message": "API key not valid. Please pass a valid API key.",
                "code": 401,
            }
        }
    ),
    "phase_error/auth",
    "a status modulo 256, with its object",
)
cli(
    "latin1",
    0,
    "Caf\ufffd au lait, and the keeper's boat.\n",
    "",
    "ok",
    "bytes that cannot be decoded are no failure",
)
cli(
    "login-expired",
    1,
    "Your session has expired. Please run /login to sign in again.\n",
    "",
    "phase_error/auth",
    "session here is no limit",
)
cli("claude-not-logged-in", 1, "Not logged in · Please run /login\n", "", "phase_error/auth", "credentials")
cli("claude-offline", 1, "API Error: Connection error.\n", "", "unknown", "a connection error")
cli("claude-timeout", 1, "API Error: Request timed out.\n", "", "timeout/wall", "a request that timed out")
cli(
    "claude-model-missing",
    1,
    "There's an issue with the selected model (claude-9). It may not exist or you may not have access to it. Run /model to pick a different model.\n",
    "",
    "phase_error/not_found",
    "a model that does not exist",
)
cli(
    "usage-limit-no-time",
    1,
    "Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).\n",
    "",
    "quota/window @2026-03-10T15:00:00-03:00",
    "older wording",
    now="2026-03-10T09:15:00+00:00",
)
cli(
    "rate-notice-exit-0",
    0,
    "Rate limit exceeded. Please wait 30 seconds and try again.\n",
    "",
    "quota/throttle 30",
    "the whole output is a notice",
)
cli("slug-exit-0", 0, "you-have-hit-your-limit\n", "", "ok", "a slug")
cli(
    "stderr-only-warnings",
    1,
    "",
    "Warning: rate limit exceeded, giving up\n",
    "quota/throttle",
    "a warning is all that was said",
)
cli(
    "config-toml",
    1,
    "",
    "Error loading config.toml: unknown variant `hgih`, expected one of `low`, `medium`, `high`\n",
    "planning_error",
    "a broken configuration",
)
