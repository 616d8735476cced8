"""The one classifier: a captured signal in, a verdict out. Pure and total; `core/rules.py` holds what it knows.

The order is that of `docs/failures.md`: who ended the call, then structure (codes, types, the error's own message),
then the status, then headers, then plain text, where a tool or a server speaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Optional

from gitstate.core import reply, rules, speech, stream, unwrap, waits
from gitstate.core.ownrules import OwnRule, Seen, own
from gitstate.core.redact import redact
from gitstate.core.reply import Reading
from gitstate.core.rules import Rule
from gitstate.core.signal import STATES, Cli, Http, Signal, Verdict
from gitstate.core.unwrap import Statement
from gitstate.core.waits import Wait

_EXCERPT = 300  # characters of a message that are kept
_HOUR = 3600.0
_ROOM = 4000  # characters that are redacted before they are cut, so that no half of a secret is left


class Finding(NamedTuple):
    """What decided: a category and kind, by which rule, on what statement."""

    category: str  # "" where the call went well
    kind: str = ""
    rule: str = ""
    statement: Statement = Statement()
    wait: Wait = Wait()


_OK = Finding("", rule="ok")


def classify(signal: Signal, own_rules: Sequence[OwnRule] = (), secrets: Iterable[str] = ()) -> Verdict:
    """What `signal` means. `own_rules` are a repository's, asked first; `secrets` never stand in the evidence.

    Raises nothing, whatever the signal holds.
    """
    finding = _stopped(signal)
    if finding is None and own_rules:
        finding = _by_own(signal, own_rules)
    if finding is None:
        finding = (
            _of_http(signal, signal.http) if signal.http else _of_cli(signal, signal.cli or Cli(None, "", ""))
        )
    return _verdict(signal, finding, secrets)


def _stopped(signal: Signal) -> Optional[Finding]:
    """The runner itself ended the call, or could not begin it."""
    by = {
        "wall": ("timeout", "wall"),
        "silence": ("timeout", "silence"),
        "too_large": ("validation", "too_large"),
        "not_started": ("phase_error", "not_found"),
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


# HTTP


def _of_http(signal: Signal, http: Http) -> Finding:
    fields = {waits.name_of(name): value for name, value in http.headers.items()}
    types = [unwrap.words(http.headers[name]) for name in sorted(http.headers) if name.endswith("errortype")]
    beside = Statement(fields=fields, types=tuple(types))
    if http.status is not None and http.status >= 300:
        return _place(signal, beside + _refused(http.body), http.status)
    reading, text = _body(http)
    if http.status is None and reading is None:
        return Finding("unknown", "", "http.no-reply", Statement(message=text[-_ROOM:]))
    if reading is None:
        if text.lstrip()[:1] in ("{", "[") and "json" in http.headers.get("content-type", ""):
            return Finding("unknown", "", "http.broken-body", Statement(message=text[-_EXCERPT:]))
        return _of_content(signal, text)
    if reading.errors:
        reading.errors[-1] = beside + reading.errors[-1]
    found = _of_reading(signal, reading)
    if found.category == "quota" and not found.wait:  # the headers may say when
        found = _place(signal, beside + found.statement, None)
    return found


def _refused(body: object) -> Statement:
    """What the body of a reply says whose status is an error's."""
    if not isinstance(body, str):
        return Statement() if body is None else unwrap.of_object(body)
    parsed = stream.parse(body)
    if isinstance(parsed, (dict, list)):
        return unwrap.of_object(parsed)
    return unwrap.of_text(speech.error_page(body) or body)


def _body(http: Http) -> tuple[Optional[Reading], str]:
    """A body that should hold content, read; or its plain text."""
    body = http.body
    if isinstance(body, str):
        parsed = stream.parse(body)
        if isinstance(parsed, (dict, list)):
            body = parsed
        elif "event-stream" in http.headers.get("content-type", "") or stream.is_events(body):
            return stream.of_events(body), ""
        else:
            found = stream.lines(body) if body.lstrip().startswith("{") else None
            return (stream.of_lines(found), "") if found and len(found) > 1 else (None, body)
    if isinstance(body, list):
        return _pieces(body), ""
    if not isinstance(body, dict):
        return None, "" if body is None else str(body)
    return _object(body)


def _pieces(body: list[object]) -> Reading:
    """A list: the pieces of one reply."""
    reading = Reading()
    for each in body:
        if isinstance(each, dict):
            reply.read(each, reading)
        else:
            reading.other = True
    reading.ended = True
    return reading


def _object(body: Mapping[str, object]) -> tuple[Optional[Reading], str]:
    inner = _line(body)
    if inner is not None and inner.status is not None and inner.status >= 300:
        reading = Reading()
        reading.fail(Statement(status=inner.status) + _refused(inner.body))
        reading.ended = True
        return reading, ""
    if inner is not None:
        return _body(inner)
    reading = Reading()
    reply.read(body, reading)
    reading.ended = True
    if body and not reading.text and not reading.errors and not _has_envelope(body):
        reading.other = True  # an answer in a form of its own
    return reading, ""


def _has_envelope(body: Mapping[str, object]) -> bool:
    names = {waits.name_of(str(key)) for key in body}
    return bool(names & {*reply.CONTENT_NAMES, "prompt-feedback"})


def _line(body: Mapping[str, object]) -> Optional[Http]:
    """The reply inside a line of a batch's results."""
    response, result = body.get("response"), body.get("result")
    if isinstance(response, dict) and "status_code" in response:
        status = response.get("status_code")
        return Http(status if type(status) is int else None, {}, response.get("body"))
    if "custom_id" in body and isinstance(result, dict):
        kind = str(result.get("type"))
        if kind == "succeeded":
            return Http(200, {}, result.get("message"))
        return Http(200, {}, {"error": result.get("error") or {"code": f"batch_{kind}"}})
    return None


# What was read


def _of_reading(signal: Signal, reading: Reading, spoken: str = "") -> Finding:
    """The verdict on structured content; `spoken` is what the tool said beside it."""
    ending = next((token for token in reversed(reading.endings) if token), "")
    rule = rules.first(rules.ENDINGS, ending)
    if reading.errors and (rule is None or rule.category == "unknown"):
        return _place(signal, _joined(reading), None)
    if reading.refusal.strip():
        return Finding("validation", "refused", "ending.refusal", Statement(message=reading.refusal[:_ROOM]))
    if rule is not None and (rule.category != "unknown" or reading.errors):
        return Finding(rule.category, rule.kind, rule.id, _joined(reading) + Statement(codes=(ending,)))
    text = "".join(reading.text)
    if not reading.ended and not rule and not ending:
        return Finding("unknown", "", "stream.no-end", Statement(message=text[-_EXCERPT:]))
    if rule is not None:
        return Finding(rule.category, rule.kind, rule.id, Statement(codes=(ending,)))
    if reading.other and speech.is_empty(text):
        return _OK
    return _of_content(signal, text, reading.weak, spoken)


def _joined(reading: Reading) -> Statement:
    """The last error that stands, with what the limits before it told of themselves."""
    statement = reading.errors[-1] if reading.errors else Statement()
    for weak in reading.weak[-3:]:
        if weak.fields or weak.codes:  # a rejected limit, or a message of the tool that bears a code
            statement = Statement(weak.codes, weak.types, None, "", weak.hints, weak.fields) + statement
    return statement


def _of_content(signal: Signal, text: str, weak: Sequence[Statement] = (), spoken: str = "") -> Finding:
    """The verdict on what came as the answer of a call that ended well."""
    if speech.is_empty(text):
        return _better(signal, weak, spoken) or Finding("validation", "empty", "content.empty")
    notice = speech.notice(text)
    if notice is None:
        return _OK
    found = _place(signal, unwrap.of_text(notice), None)
    if found.category == "unknown":
        return Finding("validation", "error_shaped", "content.error-shaped", found.statement)
    return found


def _better(signal: Signal, weak: Sequence[Statement], spoken: str) -> Optional[Finding]:
    """A better cause for an empty answer, in the tool's own voice."""
    for statement in reversed(weak):
        found = _place(signal, statement, None)
        if found.category != "unknown":
            return found
    found = _from_words(signal, speech.last_words(spoken), None)
    return found if found and found.category != "unknown" else None


# Command lines


def _of_cli(signal: Signal, cli: Cli) -> Finding:
    if cli.missing and cli.exit == 0:
        spoken = _better(signal, (), cli.stderr)
        numbers = ", ".join(map(str, cli.missing[:20]))
        return spoken or Finding(
            "validation", "empty", "output.missing", Statement(message=f"output {numbers}")
        )
    stdout = cli.stdout
    reading = _structure(cli)
    if isinstance(reading, Http):
        return _of_http(signal._replace(http=reading, cli=None), reading)
    if reading is not None:
        found = _of_structure(signal, cli, reading)
        if found is not None:
            return found
    wrapped = _wrapper_ended(cli)
    if wrapped is not None:
        return wrapped
    if cli.exit == 0:
        return _ended_well(signal, cli)
    return _ended_badly(signal, cli, speech.is_empty(stdout) or reading is not None)


def _structure(cli: Cli) -> Optional[Reading | Http]:
    """What a command printed as its own structure; None if it printed plain text, or an answer that is JSON."""
    if cli.filed and cli.exit == 0:
        return None
    text = speech.without_talk(cli.stdout)
    start = text[:200].lstrip("\ufeff \t\r\n")
    if start.startswith("HTTP/"):
        return _raw_reply(text)
    if start.startswith(("{", "[")):
        value = stream.parse(text)
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            if any(reply.is_envelope(each) for each in value):
                return stream.of_lines(value)
        if isinstance(value, dict):
            return (
                _one(value) if reply.is_envelope(value) or (cli.exit != 0 and reply.is_bare(value)) else None
            )
        if value is not None:
            return None
    if start.startswith(("event:", "data:", ": ")) and stream.is_events(text):
        return stream.of_events(text)
    if "{" in text[: speech.HEAD]:
        found = stream.lines(text)
        if found and (len(found) > 1 or reply.is_envelope(found[0])):
            return stream.of_lines(found)
    return None


def _one(value: Mapping[str, object]) -> Reading:
    """A single object: the result of a run, or a provider's reply passed on as it came."""
    if isinstance(value.get("type"), str) and ("is_error" in value or value["type"] in ("result", "error")):
        return stream.of_lines([value])
    reading = Reading()
    statement = reply.failed(value)
    if statement is None and not reply.is_envelope(value):
        statement = unwrap.of_object(dict(value))  # a failed command's only words
    if statement is not None:
        reading.fail(statement)
        reading.success = False
    reply.read(value, reading)
    reading.ended = True
    return reading


def _raw_reply(text: str) -> Http:
    """An HTTP reply as `curl -i` prints it; of several heads the last counts."""
    status, headers = None, {}
    rest = text.replace("\r\n", "\n")
    while match := re.match(r"HTTP/[\d.]+ (\d{3})[^\n]*\n((?:[^\n]+\n)*)\n?", rest):
        status = int(match[1])
        pairs = (line.partition(":") for line in match[2].splitlines())
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        rest = rest[match.end() :]
    return Http(status, headers, rest.strip() or None)


def _of_structure(signal: Signal, cli: Cli, reading: Reading) -> Optional[Finding]:
    """The verdict by a structured result, which overrides the exit; None if the structure states none."""
    if not reading.errors and not reading.ended and cli.exit != 0:
        weak = _better(signal, reading.weak, cli.stderr)
        return weak or _wrapper_ended(cli) or _ended_badly(signal, cli, True)
    found = _of_reading(signal, reading, cli.stderr)
    if found.category == "unknown" and not found.statement.structured:
        return _wrapper_ended(cli) or (_better(signal, (), cli.stderr) if not reading.text else None) or found
    if found.category == "unknown" and not found.statement.message and not speech.is_empty(cli.stderr):
        return _better(signal, reading.weak, cli.stderr) or found
    return found


def _wrapper_ended(cli: Cli) -> Optional[Finding]:
    """124 is a timeout only where `timeout` stands before the command."""
    if cli.exit != 124:
        return None
    before = []
    for word in cli.argv[:20]:
        if cli.tool and re.split(r"[/\\]", word)[-1] == cli.tool:
            break
        before.append(word)
    names = [re.split(r"[/\\]", word)[-1] for word in before]
    shell = any(re.search(r"(?:^|[\s;&|(])g?timeout\s+(?:-|\d)", word) for word in cli.argv[:6])
    if "timeout" in names or "gtimeout" in names or shell:
        return Finding("timeout", "wall", "exit.timeout-wrapper")
    return None


def _ended_well(signal: Signal, cli: Cli) -> Finding:
    """Exit 0 without structure: the answer, a notice in its place, or a transcript."""
    if cli.filed:
        return _OK
    ends = speech.transcript(cli.stdout, cli.tool)
    if ends is not None and not speech.is_empty(cli.stdout):
        if ends.notice is not None:
            found = _place(signal, unwrap.of_text(ends.notice), None)
            if found.category == "unknown":
                return Finding("validation", "error_shaped", "content.error-shaped", found.statement)
            return found
        if ends.blank:
            return _better(signal, (), cli.stderr) or Finding("validation", "empty", "content.empty")
        return _OK
    return _of_content(signal, cli.stdout, (), cli.stderr)


def _ended_badly(signal: Signal, cli: Cli, no_content: bool) -> Finding:
    """A failing exit without a structured result."""
    found = None
    if not no_content:
        text = cli.stdout
        said = speech.notice(text) or speech.last_notice(text) or speech.only_words(text)
        found = _from_words(signal, speech.Spoken(said, False, True), cli) if said else None
        trace = (
            speech.last_words(text) if "Traceback (most recent call last):" in text[-speech.TAIL :] else None
        )
        if trace and trace.traceback:
            found = _from_words(signal, trace, cli)
        if found is None or found.category == "unknown":
            found = _beside_content(signal, cli) or found
    else:
        found = _from_words(signal, speech.last_words(cli.stderr), cli)
    exit_code = "?" if cli.exit is None else cli.exit
    return found or Finding("unknown", "", "exit.bare", Statement(message=f"exit {exit_code}"))


def _beside_content(signal: Signal, cli: Cli) -> Optional[Finding]:
    """What counts on the error stream of a failed call that gave some content: error objects, and a fall."""
    spoken = speech.last_words(cli.stderr)
    statement = unwrap.of_text(spoken.text)
    if statement.structured and spoken.opened:
        found = _place(signal, statement, None)
        if found.category != "unknown":
            return found
    if spoken.traceback or _by_signal(cli):
        return _from_words(signal, spoken, cli)
    return None


def _by_signal(cli: Cli) -> bool:
    return cli.exit is not None and (cli.exit < 0 or 128 < cli.exit < 160)


_BUILTIN = re.compile(
    r"^(?:builtins\.)?(?:\w*(?:FileNotFound|Permission|ModuleNotFound|Import|Key|Value|Type|Attribute|Index|Name|Assertion"
    r"|Memory|Recursion|ZeroDivision|Unicode\w*|OS|IO|Syntax|Indentation|NotImplemented|Lookup|Reference|Range|JSONDecode|Runtime"
    r"|System|Overflow|Arithmetic|EOF|IsADirectory|NotADirectory|FileExists)Error|KeyboardInterrupt|StopIteration|SystemExit)\b"
)


def _from_words(signal: Signal, spoken: speech.Spoken, cli: Optional[Cli]) -> Optional[Finding]:
    """The verdict on what a tool said; None where it said nothing."""
    text = spoken.text
    if not text.strip():
        return None
    statement = unwrap.of_text(text)
    if cli is not None and _by_signal(cli) and rules.CRASH.pattern.search(text):
        return Finding("phase_error", "crash", rules.CRASH.id, statement)
    if spoken.traceback and not _is_providers(statement, text):
        return Finding("phase_error", "crash", "words.traceback", statement)
    if (
        cli is not None
        and cli.exit in (126, 127)
        and re.search(r"(?i)not found|no such file|not recognized", text)
    ):
        return Finding("phase_error", "not_found", "exit.not-found", statement)
    found = _place(signal, statement, None)
    if (
        found.category == "unknown"
        and rules.CRASH.pattern.search(text)
        and not rules.CONNECTION.pattern.search(text)
    ):
        return Finding("phase_error", "crash", rules.CRASH.id, statement)
    return found


def _is_providers(statement: Statement, text: str) -> bool:
    """Whether the last words of a traceback are a provider's error, rather than a fault of the tool."""
    if statement.structured and (statement.codes or statement.status or statement.types):
        return True
    if statement.status is not None:
        return True
    if _BUILTIN.match(text.lstrip()):
        return False
    names = [name for name in statement.types if name]
    return any(rules.first(rules.TOKENS, name) for name in names) or bool(
        rules.CONNECTION.pattern.search(text.splitlines()[0])
    )


# Placing a statement


def _place(signal: Signal, statement: Statement, status: Optional[int]) -> Finding:
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
    if advice and not google and rules.QUOTA_WORD.pattern.search(said):
        if rules.BILLING_ADVICE.pattern.search(statement.message):
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


# The verdict


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
        "codes": ", ".join(dict.fromkeys([*statement.codes, *statement.types]))[:_ROOM],
        "wait": finding.wait.source,
        "said": statement.message[:_ROOM],
    }
    return {name: redact(text, secrets)[:_EXCERPT] for name, text in found.items() if text}
