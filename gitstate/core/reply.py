"""Reading a structured reply: what the model wrote, why it ended, and what the server itself says went wrong.

One reader for all envelopes: they differ in where they put things, and agree on what these are called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

from gitstate.core.unwrap import Statement, names, of_object, words
from gitstate.core.waits import name_of

_PIECES = 20_000  # of content that are kept; whether there is any is known long before
_DEEP = 8

_FAILED = names("error errored failed failure fatal")
_ENDED_OK = names("success succeeded completed complete ok done finished")
CONTENT_NAMES = (
    "choices", "candidates", "content", "message", "output", "outputs", "output-text", "response", "result", "results",
    "generated-text", "generation", "generations", "completion", "text", "answer", "delta", "output-value", "part",
)  # fmt: skip
_ENDS = re.compile(r"(?:incomplete|expired|timeout_exceeded|cancell?ed)$")  # of a status or state
_THOUGHT = re.compile(r"think|reason|thought|redacted")
_ENDING = names("finish-reason stop-reason done-reason completion-reason stop-type block-reason")
_ENVELOPE = names(
    "error errors type status code message msg request-id id session-id user-id status-code detail details ok success"
    " timestamp trace-id path object param title instance metadata is-error subtype provider model raw-status-code"
    " hint reason stats usage name event retry-after error-code error-type data thread-id uuid"
)
_ENVELOPES = names("choices candidates promptfeedback prompt-feedback base-resp is-error")


class Reading:
    """What a reply or a stream holds, as far as it was read."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.other = False  # content that is no text: a call of a tool, an image
        self.endings: list[str] = []  # why it ended, as `unwrap.words` has it
        self.refusal = ""
        self.errors: list[Statement] = []  # that stand
        self.weak: list[Statement] = []  # that count only where nothing better is there
        self.ended = False
        self.success: Optional[bool] = None  # what a structured result says

    def add(self, text: str) -> None:
        if text and len(self.text) < _PIECES:
            self.text.append(text)
        if text.strip():
            self.overtaken()

    def overtaken(self) -> None:
        """What failed before does not count any more: something followed."""
        self.weak += self.errors
        self.errors = []

    def fail(self, statement: Statement) -> None:
        self.errors.append(statement)


def is_envelope(data: Mapping[str, object]) -> bool:
    """Whether an object that a command printed is its own structure, rather than JSON that a model wrote."""
    fields = {name_of(str(key)): value for key, value in data.items()}
    if _ENVELOPES & set(fields):
        return True
    kind = fields.get("type")
    if kind in ("result", "error") or fields.get("object") in (
        "error",
        "response",
        "chat.completion",
        "batch",
    ):
        return True
    if isinstance(fields.get("response"), str) and (
        "stats" in fields or "session-id" in fields or "done" in fields
    ):
        return True
    if fields.get("status") in _FAILED and ({"error", "message", "detail"} & set(fields)):
        return True
    return bool(fields.get("error") or fields.get("errors")) and set(fields) <= _ENVELOPE


def is_bare(data: Mapping[str, object]) -> bool:
    """Whether an object holds nothing but what replies hold around an answer."""
    return {name_of(str(key)) for key in data} <= _ENVELOPE


def read(data: Mapping[str, object], reading: Reading) -> None:
    """Add what one object says: a whole reply, or one event of a stream."""
    fields = {name_of(str(key)): data[key] for key in sorted(data, key=str)}
    _endings(fields, reading, 0)
    here = Reading()
    _failures(data, fields, here)
    if not here.errors or fields.get("choices") or fields.get("candidates"):
        for name in CONTENT_NAMES:
            if name in fields and not (name == "message" and isinstance(fields[name], str)):
                _content(fields[name], reading, 0)
    reading.errors += here.errors  # behind the content: an error beside it outweighs it


def failed(data: Mapping[str, object]) -> Optional[Statement]:
    """The failure that an object states of itself, if it does."""
    reading = Reading()
    _failures(data, {name_of(str(key)): value for key, value in data.items()}, reading)
    return reading.errors[0] if reading.errors else None


def _failures(data: Mapping[str, object], fields: Mapping[str, object], reading: Reading) -> None:
    error = fields.get("error")
    if isinstance(error, dict) and not any(error.values()):
        error = None  # an object of nulls is the shape of success, too
    if isinstance(error, (dict, list)) and error:
        reading.fail(of_object(dict(data) if isinstance(error, dict) else error))
    elif (isinstance(error, str) and error.strip()) or _states_failure(fields):
        reading.fail(of_object(dict(data)))


def _states_failure(fields: Mapping[str, object]) -> bool:
    if fields.get("is-error") is True or fields.get("error") is True:
        return True
    if fields.get("success") is False or fields.get("ok") is False:
        return True
    kind = fields.get("type")
    if kind == "error" or fields.get("object") == "error":
        return True
    errors = fields.get("errors")
    if isinstance(errors, dict):
        errors = errors.get("data")
    if isinstance(errors, list) and errors and not fields.get("result"):
        return True
    status = fields.get("status")
    if isinstance(status, str) and words(status) in _FAILED:
        return True
    base = fields.get("base-resp")
    if isinstance(base, dict) and base.get("status_code") not in (0, None):
        return True
    return any(key.endswith("-exception") and isinstance(value, dict) for key, value in fields.items())


def _endings(fields: Mapping[str, object], reading: Reading, depth: int) -> None:
    """Why it ended, wherever that stands; what a model wrote is not looked into."""
    for name in ("status", "state"):
        status = fields.get(name)
        if isinstance(status, str) and _ENDS.search(words(status)):
            reading.endings.append(words(status))
    counts = fields.get("request-counts")
    if isinstance(counts, dict) and counts.get("expired") not in (0, None):
        reading.endings.append("expired")
    if fields.get("truncated") is True and "stop-type" in fields:
        reading.endings.append("truncated")
    for name, value in fields.items():
        if name in _ENDING and isinstance(value, str) and value:
            token = words(value)
            # "unspecified" and a null in between say nothing
            reading.endings.append("" if "unspecified" in token else token)
        elif name == "incomplete-details" and isinstance(value, dict) and value.get("reason"):
            reading.endings.append(f"incomplete_{words(str(value['reason']))}")
        elif (
            depth < _DEEP and name not in ("content", "message", "usage", "parts", "error")
        ) or name == "message-stop":
            _inner_endings(value, reading, depth + 1)
        elif name == "message" and isinstance(value, dict):
            inner = {name_of(str(key)): each for key, each in value.items() if key != "content"}
            _endings(inner, reading, depth + 1)


def _inner_endings(value: object, reading: Reading, depth: int) -> None:
    for entry in value[:50] if isinstance(value, list) else [value]:
        if isinstance(entry, dict):
            _endings({name_of(str(key)): entry[key] for key in sorted(entry, key=str)}, reading, depth)


def _content(value: object, reading: Reading, depth: int) -> None:
    """The text in a value, whatever it is wrapped in; thoughts are none."""
    if depth > _DEEP:
        return
    if isinstance(value, str):
        reading.add(value)
    elif isinstance(value, list):
        for entry in value[:_PIECES]:
            _content(entry, reading, depth + 1)
    elif isinstance(value, dict):
        _part(value, reading, depth + 1)


def _part(part: Mapping[str, object], reading: Reading, depth: int) -> None:
    kind = part.get("type")
    if part.get("thought") is True or (isinstance(kind, str) and _THOUGHT.search(kind)):
        return
    fields = {name_of(str(key)): value for key, value in part.items()}
    refusal = fields.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        reading.refusal += refusal
    found = False
    for name in ("parts", "token", *CONTENT_NAMES):
        if name in fields and not (name == "message" and isinstance(fields[name], str)):
            found = True
            _content(fields[name], reading, depth)
    for name in (
        "tool-calls",
        "function-call",
        "tool-use",
        "inline-data",
        "audio",
        "embedding",
        "b64-json",
        "image",
    ):
        reading.other = reading.other or bool(fields.get(name))
    if isinstance(fields.get("error"), dict) and fields["error"]:  # behind its content, which it outweighs
        reading.fail(of_object({"error": fields["error"]}))
    if not found and isinstance(kind, str) and re.search(r"call|tool|image|audio|file|document", kind):
        reading.other = True
