"""What an error says, whatever it is wrapped in: objects, JSON inside of strings, Python literals, plain words.

An error object becomes a Statement: its codes, types, statuses, message, and the fields that may state a wait.
Walks are bounded in depth and size, so that nothing that a server sends can make them long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, Optional

from gitstate.core import waits
from gitstate.core.sieve import fold, gate


def names(text: str) -> frozenset[str]:
    """The words of a text, as a set to look names up in."""
    return frozenset(text.split())


_DEEP, _NODES = 12, 2000
TEXT = 16_384  # characters of a message that are looked at
_OBJECT = 65_536  # characters of an object inside of a text

_MESSAGE = names(
    "message msg detail details title error-description description status-msg raw body response-body error-message"
    " errormessage err error errors cause summary failure-reason exception stderr"
)
_CODE = names(
    "code reason error-code errorcode error-type error-types subtype error-subtype kind rate-limit-type limit-type"
    " representative-claim incident-type reason-code error error-kind block-reason rejected-reason"
)
_TYPE = names("type name -type status state amzn-errortype error-name class")
_STATUS = names(
    "code status status-code statuscode http-status http-code error-status api-error-status raw-status-code"
    " http-status-code error-code errorcode upstream-status"
)
_HINT = names("quota-id quota-limit quota-limit-value quota-value quota-unit limit-name limit-source")
# What a model wrote, or what was asked of it, is no part of an error.
_NOT_VOICE = names(
    "choices candidates content output outputs messages input inputs prompt request usage stats tools parts"
    " instructions stack traceback"
)
_SLUG = re.compile(r"[A-Za-z_][\w.:/#-]{0,160}")
_EXCEPTION = re.compile(r"[A-Za-z]\w*(?:Exception|Error)")


class Statement(NamedTuple):
    """What a tool or a server says went wrong."""

    codes: tuple[str, ...] = ()  # specific: codes and reasons, as `words` has them
    types: tuple[str, ...] = ()  # types, names of exceptions, words of a status
    status: Optional[int] = None  # the innermost HTTP status that it names
    message: str = ""
    hints: str = ""  # names and values of quotas
    fields: Mapping[str, object] = {}  # by waits.name_of
    google: bool = False
    structured: bool = False  # there was an error object, not only words

    def __add__(self, other: object) -> Statement:
        """Both as one; the other one stands further inside."""
        assert isinstance(other, Statement)
        parts = [part for part in (self.message, other.message) if part]
        return Statement(
            codes=(*self.codes, *other.codes),
            types=(*self.types, *other.types),
            status=other.status or self.status,
            message="\n".join(dict.fromkeys(parts)),
            hints=f"{self.hints} {other.hints}".strip(),
            fields={**self.fields, **other.fields},
            google=self.google or other.google,
            structured=self.structured or other.structured,
        )


def words(token: str) -> str:
    """A code or a name in the one form that rules match: lower case, words joined by '_'."""
    return _words((token.partition("#")[2] or token)[:200])


@lru_cache(4096)  # names come again and again
def _words(token: str) -> str:
    token = re.sub(r":https?:.*", "", token)
    token = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", token)
    return re.sub(r"[^A-Za-z0-9]+", "_", token).strip("_").lower()


def of_object(value: object) -> Statement:
    """What an error object says."""
    walk = _Walk()
    walk.into(value, "error", 0)
    return walk.statement()


def of_text(text: str) -> Statement:
    """What words of a tool or a server say, with the error objects that stand in them."""
    text = text.strip()[:TEXT]
    spans = _spans(text)
    inner = [of_object(value) for value, _, _ in spans]
    said = Statement(
        codes=tuple(words(match[1]) for match in _islice(_CODED, text)),
        types=tuple(words(match[0].split(" ")[0]) for match in _islice(_CLASSES, text))
        if _may_have_class(text)
        else (),
        status=status_in(text),
        message=text,
        google=bool(re.search(r"googleapis|ai\.google\.dev|google\.rpc|RESOURCE_EXHAUSTED", text)),
    )
    if not inner:
        half = _half(text)
        return said + half if half else said
    for statement in inner:
        said += statement
    # The objects' own messages say it better than their raw text.
    outer = text
    for _, start, end in reversed(spans):
        outer = f"{outer[:start]}\n{outer[end:]}"
    lines = [line.strip() for line in outer.splitlines() if re.search(r"\w", line)]
    messages = [part for part in [*lines, *(statement.message for statement in inner)] if part]
    return said._replace(message="\n".join(dict.fromkeys(messages)), structured=True)


class _Walk:
    """Collects a Statement from plain data."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.types: list[str] = []
        self.statuses: list[tuple[int, int]] = []  # depth, status
        self.messages: list[tuple[int, str]] = []
        self.hints: list[str] = []
        self.fields: dict[str, object] = {}
        self.google = False
        self.nodes = 0
        self.inner: list[Statement] = []

    def statement(self) -> Statement:
        status = max(self.statuses)[1] if self.statuses else None
        result = Statement(
            tuple(dict.fromkeys(self.codes)),
            tuple(dict.fromkeys(self.types)),
            status,
            "\n".join(dict.fromkeys(text for _, text in sorted(self.messages, key=lambda said: said[0]))),
            " ".join(self.hints),
            self.fields,
            self.google,
            True,
        )
        for inner in self.inner:
            result += inner
        return result

    def into(self, value: object, name: str, depth: int) -> None:
        self.nodes += 1
        if depth > _DEEP or self.nodes > _NODES:
            return
        if isinstance(value, dict):
            # Sorted: the order of keys says nothing, and must change nothing.
            for key in sorted(value, key=str):
                self.field(waits.name_of(str(key)), str(key), value[key], depth + 1)
        elif isinstance(value, list):
            for entry in value[:100]:
                self.into(entry, name, depth + 1)
        elif isinstance(value, str):
            self.words(value, name, depth)

    def field(self, name: str, key: str, value: object, depth: int) -> None:
        if name in _NOT_VOICE and not (name in _MESSAGE and isinstance(value, str)):
            return
        if "googleapis.com" in key or (isinstance(value, str) and "type.googleapis.com" in value[:200]):
            self.google = True
            if key == "@type":
                return
        if waits.is_wait(name):
            self.wait(name, value)
        if _EXCEPTION.fullmatch(key) and isinstance(value, (dict, str)):
            self.types.append(words(key))
        if name in _HINT and isinstance(value, (str, int)):
            said = "limit: " if name.endswith("value") else ""
            self.hints.append(f"{said}{value}"[:200])
        status = _http_status(value) if name in _STATUS else None
        if status is not None:
            self.statuses.append((depth, status))
        elif isinstance(value, str) and (name in _CODE or name in _TYPE):
            self.token(value, name, depth)
        else:
            self.into(value, name, depth)

    def wait(self, name: str, value: object) -> None:
        scalar = isinstance(value, (str, int, float)) or (isinstance(value, dict) and "seconds" in value)
        if scalar and name not in self.fields:
            self.fields[name] = value

    def token(self, value: str, name: str, depth: int) -> None:
        if not _SLUG.fullmatch(value) or value.startswith("http"):
            self.words(value, name if name in _MESSAGE else "message", depth)
        elif name in _CODE:
            self.codes.append(words(value))
        else:
            self.types.append(words(value))

    def words(self, value: str, name: str, depth: int) -> None:
        if name not in _MESSAGE or not value.strip():
            return
        text = value[:TEXT]
        if "{" in text or "Error code:" in text:
            self.inner.append(of_text(text) if depth < _DEEP - 4 else Statement(message=text))
            return
        if "_" in text and _SLUG.fullmatch(text):
            self.codes.append(words(text))
        said = status_in(text)
        if said is not None:
            self.statuses.append((-1, said))  # a status in words counts less than one in a field
        self.messages.append((depth, text))


def _http_status(value: object) -> Optional[int]:
    if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
        value = int(value)
    return value if type(value) is int and 400 <= value <= 599 else None


_PHRASES = (
    r"too many requests|service (?:temporarily )?unavailable|unauthorized|forbidden|not found|bad gateway"
    r"|gateway time-?out|payment required|bad request|internal server error|request time-?out|overloaded"
    r"|payload too large|request entity too large|unprocessable|client error|server error|site is overloaded"
)
_ERROR_STATUS = re.compile(r"[45]\d\d")
_STATUS_SAID = re.compile(  # in lower case, see `sieve.fold`
    rf"""(?x)
    \b(?: error \s code | status (?: [ _-]? code )? | http (?: / \d (?: \.\d )? )? | api \s error | error | code
    | returned \s error | failed \s with ) ["']? [\s:=(\[#-]{{0,4}} (?: http \s )? ({_ERROR_STATUS.pattern}) \b
      (?! [.,]?\d | \s?(?:tokens?|characters|ms|s)\b )
    | \( ({_ERROR_STATUS.pattern}) \)
    | \b ({_ERROR_STATUS.pattern}) [\s:,-]{{1,3}} (?: {_PHRASES} )
    | (?: ^ | :\s ) \s* ({_ERROR_STATUS.pattern}) \s (?= [a-z][a-z_]{{3,}} \b )
    """,
    re.MULTILINE,
)
_CODED = re.compile(
    r"""(?:\b(?:code|type|reason|error|errorType|error_type)["']?\s*[:=]\s*["']?|[(\[]\s*)"""
    r"""([A-Za-z][a-z0-9]*(?:_[A-Za-z0-9]+)+|[A-Z][A-Z_]{5,})(?=["'\s,;:.)\]}]|$)"""
)
_CLASSES = re.compile(
    r"""(?:(?<=[\s(\[:])|^)(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exhausted|Timeout"""
    r"""|Unavailable|Denied)(?=\s?[:)\]]|$)"""
    r"""|\b(?:RESOURCE_EXHAUSTED|UNAVAILABLE|DEADLINE_EXCEEDED|PERMISSION_DENIED|UNAUTHENTICATED)\b""",
    re.MULTILINE,
)
_may_have_class = gate(_CLASSES)


def status_in(text: str) -> Optional[int]:
    """The HTTP status that words name as one; the last, where there are several."""
    found = None
    text = text[:TEXT]
    if not _ERROR_STATUS.search(text):
        return None
    for match in _islice(_STATUS_SAID, fold(text)):
        found = int(next(group for group in match.groups() if group))
    return found


def _islice(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for number, match in enumerate(pattern.finditer(text)):
        if number == 50:
            return
        yield match


_decoder = json.JSONDecoder()


def objects(text: str) -> list[object]:
    """The objects, in JSON or as Python prints them, that stand in a text; outermost ones, a few at most."""
    return [value for value, _, _ in _spans(text)]


def _spans(text: str) -> list[tuple[object, int, int]]:
    """The same with where each begins and ends."""
    found: list[tuple[object, int, int]] = []
    at, tries = 0, 0
    while tries < 8 and (at := text.find("{", at)) >= 0:
        tries += 1
        piece = text[at : at + _OBJECT]
        try:
            value, end = _decoder.raw_decode(piece)
        except (ValueError, RecursionError):
            value, end = _literal(piece)
        if isinstance(value, dict) and value:
            found.append((value, at, at + end))
        at += max(end, 1)
    return found


_TOKEN = re.compile(
    r"""(?P<text>[bru]?'(?:[^'\\]|\\.)*'|[bru]?"(?:[^"\\]|\\.)*")|(?P<open>[{\[(])|(?P<close>[}\])])"""
    r"""|(?P<word>\w+)|.""",
    re.DOTALL,
)
_WORDS = {"None": "null", "True": "true", "False": "false"}


def _literal(text: str) -> tuple[object, int]:
    """The value of a Python literal at the start of `text` and where it ends; (None, 1) if it is none.

    Translated into JSON rather than evaluated, which would put hostile text into the interpreter's parser.
    """
    parts: list[str] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        if match["text"]:
            parts.append(_string(match["text"]))
        elif match["open"]:
            depth += 1
            parts.append("[" if match["open"] == "(" else match["open"])
        elif match["close"]:
            depth -= 1
            if parts[-1] == ",":  # a trailing comma
                parts.pop()
            parts.append("]" if match["close"] == ")" else match["close"])
        elif match["word"]:
            parts.append(_WORDS.get(match["word"], match["word"]))
        elif match[0] in "'\"":  # a text without an end
            return None, 1
        elif not match[0].isspace():
            parts.append(match[0])
        if depth == 0:
            try:
                return json.loads("".join(parts)), match.end()
            except (ValueError, RecursionError):
                return None, 1
        if depth > 50:
            return None, 1
    return None, 1


_ESCAPE = re.compile(
    r"""\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U00(0[0-9a-fA-F]{5}|10[0-9a-fA-F]{4})|(.))""", re.DOTALL
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _string(literal: str) -> str:
    """A Python string literal as JSON."""
    body = literal.lstrip("bru")[1:-1]

    def plain(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        return chr(int(code, 16)) if code else _ESCAPES.get(match[4], match[4])

    return json.dumps(_ESCAPE.sub(plain, body))


_PAIR = re.compile(
    r"""["']?\b([A-Za-z_]\w{1,30})["']?\s*:\s*(?:["']((?:[^"'\\]|\\.){1,300})["']?|(\d{1,15})\b)"""
)


def _half(text: str) -> Optional[Statement]:
    """What can be read of an object that was cut off, or that was printed in a form of its own."""
    start = text.find("{")
    if start < 0:
        return None
    pairs: dict[str, object] = {}
    for match in _islice(_PAIR, text[start:]):
        pairs.setdefault(match[1], match[2] if match[2] is not None else int(match[3]))
    walk = _Walk()
    walk.into(
        {key: value for key, value in pairs.items() if not (isinstance(value, str) and "{" in value)},
        "error",
        0,
    )
    return walk.statement() if walk.codes or walk.types or walk.statuses else None
