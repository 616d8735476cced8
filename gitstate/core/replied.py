"""What came as a reply: content that is whole, cut off, refused or empty, or an error in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from gitstate.core import reply, rules, speech, stream, unwrap, waits
from gitstate.core.place import OK, Finding, place
from gitstate.core.reply import Reading
from gitstate.core.signal import Http, Signal
from gitstate.core.spoken import better
from gitstate.core.unwrap import Statement

_SHOWN = 4000  # characters of a message that are kept until secrets are taken out of it


def of_http(signal: Signal, http: Http) -> Finding:
    fields = {waits.name_of(name): value for name, value in http.headers.items()}
    types = [unwrap.words(http.headers[name]) for name in sorted(http.headers) if name.endswith("errortype")]
    beside = Statement(fields=fields, types=tuple(types))
    if http.status is not None and http.status >= 300:
        return place(signal, beside + _refused(http.body), http.status)
    reading, text = _body(http)
    if http.status is None and reading is None:
        return Finding("unknown", "", "http.no-reply", Statement(message=text[-_SHOWN:]))
    if reading is None:
        if text.lstrip()[:1] in ("{", "[") and "json" in http.headers.get("content-type", ""):
            return Finding("unknown", "", "http.broken-body", Statement(message=text[-_SHOWN:]))
        return of_content(signal, text)
    if reading.errors:
        reading.errors[-1] = beside + reading.errors[-1]
    found = of_reading(signal, reading)
    if found.category == "quota" and not found.wait:  # the headers may say when
        found = place(signal, beside + found.statement, None)
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
    nothing = not reading.text and not reading.errors and not reading.endings
    said = body.get("message") or body.get("detail")
    if nothing and isinstance(said, str) and reply.is_bare(body):
        return None, said  # perhaps a gateway's notice
    if body and nothing and not _has_envelope(body):
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


def of_reading(signal: Signal, reading: Reading, spoken: str = "") -> Finding:
    """The verdict on structured content; `spoken` is what the tool said beside it."""
    ending = next((token for token in reversed(reading.endings) if token), "")
    rule = rules.first(rules.ENDINGS, ending)
    if reading.errors and (rule is None or rule.category == "unknown"):
        return place(signal, _joined(reading), None)
    if reading.refusal.strip():
        return Finding("validation", "refused", "ending.refusal", Statement(message=reading.refusal[:_SHOWN]))
    if rule is not None and (rule.category != "unknown" or reading.errors):
        return Finding(rule.category, rule.kind, rule.id, _joined(reading) + Statement(codes=(ending,)))
    text = "".join(reading.text)
    if not reading.ended and not rule and not ending:
        return Finding("unknown", "", "stream.no-end", Statement(message=text[-_SHOWN:]))
    if rule is not None:
        return Finding(rule.category, rule.kind, rule.id, Statement(codes=(ending,)))
    if reading.other and speech.is_empty(text):
        return OK
    return of_content(signal, text, reading.weak, spoken)


def _joined(reading: Reading) -> Statement:
    """The last error that stands, with what the limits before it told of themselves."""
    statement = reading.errors[-1] if reading.errors else Statement()
    for weak in reading.weak[-3:]:
        if weak.fields or weak.codes:  # a rejected limit, or a message of the tool that bears a code
            statement = Statement(weak.codes, weak.types, None, "", weak.hints, weak.fields) + statement
    return statement


def of_content(signal: Signal, text: str, weak: Sequence[Statement] = (), spoken: str = "") -> Finding:
    """The verdict on what came as the answer of a call that ended well."""
    if speech.is_empty(text):
        return better(signal, weak, spoken) or Finding("validation", "empty", "content.empty")
    notice = speech.notice(text)
    if notice is None:
        return OK
    found = place(signal, unwrap.of_text(notice), None)
    if found.category == "unknown":
        return Finding("validation", "error_shaped", "content.error-shaped", found.statement)
    return found
