"""Event streams: the events that a provider sends, and the lines of JSON that a tool prints, read to their end.

The last word wins: an error, a reconnect or a tool's own retry counts only if nothing follows that overtakes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Optional

from gitstate.core import reply
from gitstate.core.reply import Reading
from gitstate.core.unwrap import Statement, names, of_object, of_text, words
from gitstate.core.waits import name_of

_FIRST, _LAST = 3000, 9000  # lines of a stream that are read

# Events of a run that are not its outcome: what tools did, what was asked, how far it is.
_ASIDE = names(
    "system user init tool tool_use tool_result tool_call tool_output function_call ping thread_started turn_started"
    " step_start step_started progress log debug info warning warn notice hook stats status retry api_retry reconnect"
    " thinking reasoning session session_start thread_resumed item_started item_updated"
)
_DONE = re.compile(
    r"(?:^|_)(?:done|completed?|result|message_stop|message_end|stream_end|end_of_stream|finish(?:ed)?|end|succeeded)$"
)
_DELTA_DONE = re.compile(
    r"output_text|content_part|content_block|output_item|_delta|item_|reasoning|text_|arguments"
)
_FAILED = re.compile(r"(?:^|_)(?:error|failed|failure|exception|expired)$")


def is_events(text: str) -> bool:
    """Whether a text is an event stream as servers send it."""
    return bool(re.match(r"\s*(?::[^\n]*\n\s*)*(?:event|data|id|retry):", text[:4000]))


def of_events(text: str) -> Reading:
    """The reading of an event stream in raw text."""
    reading = Reading()
    for name, data in _events(text):
        if data.strip() == "[DONE]":
            reading.ended = True
            continue
        value = parse(data)
        if isinstance(value, dict):
            event(value, name, reading)
        elif isinstance(value, list):
            for entry in value:
                if isinstance(entry, dict):
                    event(entry, name, reading)
        elif _FAILED.search(words(name)):
            reading.fail(of_text(data)._replace(structured=True))
        elif words(name) in ("done", "end", "close"):
            reading.ended = True
        elif isinstance(value, str) or value is None:
            reading.add(value or data)
    return reading


def of_lines(objects: Iterable[Mapping[str, object]]) -> Reading:
    """The reading of the objects that a tool printed one after another."""
    reading = Reading()
    for each in objects:
        event(each, "", reading)
    return reading


def lines(text: str) -> Optional[list[Mapping[str, object]]]:
    """The objects of a text that is lines of JSON; None if it is something else.

    Other lines between them are a tool's talk, and passed over; a text that a model wrote begins otherwise.
    """
    found: list[Mapping[str, object]] = []
    other = 0
    for line in _ends(text):
        line = line.strip()
        if not line:
            continue
        value = parse(line) if line.startswith("{") else None
        if isinstance(value, dict) and _is_event(value):
            found.append(value)
        else:
            other += 1
            if other > 20 and other > len(found):
                return None
    return found if found and other <= len(found) else None


def _is_event(value: Mapping[str, object]) -> bool:
    marks = ("type", "event", "event_type", "done", "error", "choices", "candidates", "response")
    return any(mark in value for mark in marks)


def parse(text: str) -> object:
    """The value of a JSON text; None if it is none, or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _ends(text: str) -> list[str]:
    """The first and the last lines of a text. What lies between is pieces of an answer: the last word wins."""
    found = text.splitlines()
    return found if len(found) <= _FIRST + _LAST else [*found[:_FIRST], "", *found[-_LAST:]]


def _events(text: str) -> Iterator[tuple[str, str]]:
    """Name and data of each event; the last one counts also where the stream broke off behind it."""
    name = ""
    data: list[str] = []
    for line in _ends(text):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line.strip():
            if data:
                yield name, "\n".join(data)
            name, data = "", []
        elif field == "event":
            name = value.strip()
        elif field == "data":
            data.append(value)
        elif line.startswith("{"):  # an error object behind the events, without any frame
            data.append(line)
    if data:
        yield name, "\n".join(data)


def event(data: Mapping[str, object], name: str, reading: Reading) -> None:
    """Add one event. `name` is what the stream calls it, where it does."""
    fields = {name_of(str(key)): value for key, value in data.items()}
    kind = words(_kind_of(fields) or name)
    if kind == "rate_limit_event" or "rate-limit-info" in fields:
        _limit(fields, reading)
    elif kind.startswith("item_") or (kind == "item" and "item" in fields):
        _item(fields.get("item"), reading)
    elif kind in _ASIDE or fields.get("severity") in ("warning", "info"):
        return
    elif kind == "assistant" or (kind == "message" and fields.get("role") == "assistant"):
        _assistant(data, fields, reading)
    elif kind == "message" and fields.get("role") in ("user", "system", "tool"):
        return
    elif _FAILED.search(kind):
        reading.fail(
            of_object({"error": fields["error"]} if isinstance(fields.get("error"), dict) else dict(data))
        )
        _expired(kind, reading)
    elif kind == "response_incomplete":
        reply.read(_inner(fields), reading)
        reading.ended = True
    else:
        _other(data, fields, kind, reading)


def _kind_of(fields: Mapping[str, object]) -> str:
    for key in ("type", "event-type", "event"):
        value = fields.get(key)
        if isinstance(value, str):
            return value
    return ""


def _expired(kind: str, reading: Reading) -> None:
    if kind.endswith("expired"):
        reading.endings.append("expired")


def _limit(fields: Mapping[str, object], reading: Reading) -> None:
    """News of a limit: only a rejection is one of a failure, and only if no answer follows."""
    info = fields.get("rate-limit-info", fields)
    if isinstance(info, dict) and words(str(info.get("status"))) in ("rejected", "blocked", "exceeded"):
        kept = {key: value for key, value in info.items() if not str(key).lower().startswith("overage")}
        reading.weak.append(of_object(kept))


def _item(item: object, reading: Reading) -> None:
    """A step of a turn; the calls of tools among them may fail without failing the turn."""
    if not isinstance(item, dict):
        return
    kind = words(str(item.get("type") or item.get("item_type") or ""))
    if kind in ("agent_message", "assistant_message", "message"):
        text = item.get("text")
        reply.read({"content": text if isinstance(text, str) else item.get("content")}, reading)
    elif kind == "error":
        reading.weak.append(of_object(dict(item)))


def _assistant(data: Mapping[str, object], fields: Mapping[str, object], reading: Reading) -> None:
    """A message of the model, or of the tool in its place, which then says so."""
    message = fields.get("message")
    spoken = fields.get("error")
    synthetic = isinstance(message, dict) and message.get("model") == "<synthetic>"
    if spoken or synthetic or fields.get("is-api-error-message") is True:
        said = Reading()
        reply.read({"content": message if isinstance(message, dict) else fields.get("content")}, said)
        statement = of_text("\n".join(said.text))
        if isinstance(spoken, (str, dict)):
            statement = of_object({"error": spoken}) + statement
        reading.weak.append(statement)
        return
    inner = message if isinstance(message, dict) else data
    reply.read({"content": inner.get("content")}, reading)
    # Why this message ended is not why the run did: most end in a call of a tool.


def _inner(fields: Mapping[str, object]) -> Mapping[str, object]:
    for key in ("response", "result", "message"):
        value = fields.get(key)
        if isinstance(value, dict):
            return value
    return fields


def _other(data: Mapping[str, object], fields: Mapping[str, object], kind: str, reading: Reading) -> None:
    whole = _inner(fields) if kind.startswith("response_") else data
    is_end = bool(_DONE.search(kind)) and not _DELTA_DONE.search(kind) and "step_" not in kind
    is_end = (
        is_end or fields.get("done") is True or "message-stop" in fields or fields.get("is-finished") is True
    )
    statement = reply.failed(whole)
    if statement is not None:
        _fail_with(statement, fields, reading)
        if is_end:
            reading.ended, reading.success = True, False
            reading.endings += _own_endings(whole)
        return
    if is_end:
        # A result overtakes what failed before it; a mere end of the stream does not.
        if kind in ("result", "turn_completed", "response_completed") or "completed" in kind:
            reading.success = True
            reading.overtaken()
        reading.ended = True
    if reading.text and is_end and kind in ("result", "response_completed"):
        reading.endings += _own_endings(whole)  # its text is what came before, once more
        final = Reading()
        reply.read(whole, final)
        reading.refusal += final.refusal
        reading.text = final.text or (reading.text if "result" not in fields else final.text)
    elif not (_DELTA_DONE.search(kind) and _DONE.search(kind)):
        _add(whole, kind, reading)


def _add(whole: Mapping[str, object], kind: str, reading: Reading) -> None:
    if re.search(r"reasoning|thinking|summary|annotation|input_json|arguments", kind):
        return
    part = whole.get("part")
    if isinstance(part, dict):  # a step's own end is no end of the run
        whole = {"content": part.get("text"), "stop_reason": part.get("reason")}
    refused = re.search(r"refusal", kind)
    if refused and isinstance(whole.get("delta", whole.get("refusal")), str):
        reading.refusal += str(whole.get("delta", whole.get("refusal")))
        return
    reply.read(whole, reading)


def _own_endings(whole: Mapping[str, object]) -> list[str]:
    final = Reading()
    reply.read(whole, final)
    subtype = whole.get("subtype")
    return final.endings + ([words(subtype)] if isinstance(subtype, str) and subtype != "success" else [])


def _fail_with(statement: Statement, fields: Mapping[str, object], reading: Reading) -> None:
    """An error, with what a result that states one says in its own words."""
    text = fields.get("result")
    if isinstance(text, str) and text.strip():
        statement += of_text(text)
    reading.fail(statement)
