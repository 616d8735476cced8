"""What a response must be before it may become an output; pure, on bytes.

The same function judges a response after it was paid for and a staged blob in the hooks, so both agree.
It takes any bytes: hostile, huge or binary content is a failure with words, never an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from gitstate.core.plan import Checks, Value

if TYPE_CHECKING:
    import yaml

FRONT_MATTER_LIMIT = 65_536  # bytes; a parser meant for people's headers never sees more
_DEPTH = 30  # of front matter
_SHOWN = 300  # characters of someone else's words in a message

# NUL counts as blank: a file of zeros is what some file systems leave after a power cut.
_NOT_BLANK = re.compile(rb"[^\s\x00]")
_OPENING = re.compile(rb"---[ \t]*\r?$", re.MULTILINE)
_CLOSING = re.compile(rb"^---[ \t]*\r?$", re.MULTILINE)
_BOM = b"\xef\xbb\xbf"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Failure(NamedTuple):
    """The first check that did not hold.

    `kind` is one of empty, too_small, too_large, front_matter, json, json_schema, regex, command;
    `message` is a sentence that says what was seen and where.
    """

    kind: str
    message: str


Judge = Callable[[], "Failure | None"]


def check(data: bytes, checks: Checks, schema: Value = None) -> tuple[list[str], Failure | None]:
    """Judge `data`: the names of the checks passed, in order, and the first failure, or None.

    `schema` is the parsed content of the file that `checks.json_schema` names. `checks.command` is not run.
    """
    passed: list[str] = []
    for name, judge in _wanted(data, checks, schema):
        failure = judge()
        if failure:
            return passed, failure
        passed.append(name)
    return passed, None


def _wanted(data: bytes, checks: Checks, schema: Value) -> Iterator[tuple[str, Judge]]:
    text = _Text(data)
    yield "not_empty", lambda: _empty(data)
    if checks.min_bytes is not None:
        yield "min_bytes", partial(_too_small, data, checks.min_bytes)
    if checks.max_bytes is not None:
        yield "max_bytes", partial(_too_large, data, checks.max_bytes)
    if checks.front_matter:
        yield "front_matter", lambda: _front_matter(data, checks.front_matter)
    if checks.json or checks.json_schema is not None:
        yield "json", text.parse
    if checks.json_schema is not None:
        yield "json_schema", lambda: _against(text.value, schema)
    if checks.regex:
        yield "regex", lambda: _regexes(text.decoded(), checks.regex)


def schema_problem(schema: Value) -> str | None:
    """What is wrong with a JSON Schema itself, as a sentence; None if it can be used."""
    try:
        _validator(json.dumps(schema, sort_keys=True))
    except ImportError as error:
        return f"A JSON Schema cannot be used here: {_short(error)}."
    except Exception as error:
        return f"The schema is not valid: {_short(error)}."
    return None


def _empty(data: bytes) -> Failure | None:
    found = _NOT_BLANK.search(data)
    if not data:
        return Failure("empty", "The response is empty.")
    # White space beyond ASCII (a byte order mark, no-break spaces) is worth a look in what is short only.
    blank_text = len(data) <= 256 and not data.decode("utf-8", "replace").strip("\x00\ufeff\u200b").strip()
    if not found or blank_text:
        return Failure("empty", f"The response is {len(data)} bytes of white space.")
    return None


def _too_small(data: bytes, least: int) -> Failure | None:
    if len(data) < least:
        return Failure("too_small", f"The response has {len(data)} bytes; min_bytes is {least}.")
    return None


def _too_large(data: bytes, most: int) -> Failure | None:
    if len(data) > most:
        return Failure("too_large", f"The response has {len(data)} bytes; max_bytes is {most}.")
    return None


def _front_matter(data: bytes, keys: tuple[str, ...]) -> Failure | None:
    start = len(_BOM) if data.startswith(_BOM) else 0
    opening = _OPENING.match(data, start)
    if not opening:
        return _bad_front_matter("The first line is not ---; front matter is missing.")
    closing = _CLOSING.search(data, opening.end() + 1, opening.end() + FRONT_MATTER_LIMIT)
    if not closing:
        return _bad_front_matter(
            f"No closing --- within the first {FRONT_MATTER_LIMIT} bytes; the front matter has no end."
        )
    head = data[opening.end() + 1 : closing.start()]
    try:
        fields = _yaml_fields(head.decode("utf-8"))
    except UnicodeDecodeError as error:
        return _bad_front_matter(f"Line {2 + head.count(10, 0, error.start)} is not UTF-8.")
    except _UnreadableError as error:
        return _bad_front_matter(str(error))
    for key in keys:
        if key not in fields:
            return _bad_front_matter(f"The front matter has no key {key!r}.")
        line = fields[key]
        if line is not None:
            return _bad_front_matter(f"Line {line}: the front matter's {key!r} is empty.")
    return None


def _bad_front_matter(message: str) -> Failure:
    return Failure("front_matter", message)


class _UnreadableError(Exception):
    """Front matter that is no plain YAML mapping; its text is a sentence."""


def _yaml_fields(text: str) -> dict[str, int | None]:
    """The keys of a YAML mapping: None for a key with a value, its line in the file for an empty one.

    The nodes are looked at and no value is built, so tags, dates and merge keys mean nothing here.
    """
    import yaml  # lazily: costs 20 ms at start-up, and most stages check no front matter

    try:
        _refuse_bombs(text)
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"Line {mark.line + 2}, column {mark.column + 1}: " if mark else ""
        raise _UnreadableError(f"{where}not YAML: {error.problem or error.context}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _UnreadableError(f"The front matter is not YAML: {_short(error)}.") from error
    if not isinstance(node, yaml.MappingNode):
        raise _UnreadableError("The front matter is not a mapping of keys to values.")
    return {
        key.value: _line(value) if _is_empty(value) else None
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode)
    }


def _refuse_bombs(text: str) -> None:
    """Refuse aliases (ten lines can blow up to gigabytes) and depth (YAML's reader is quadratic in it)."""
    import yaml

    depth = 0
    flow = (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
    block = (yaml.BlockSequenceStartToken, yaml.BlockMappingStartToken)
    closing = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)
    for token in yaml.scan(text, Loader=yaml.BaseLoader):
        if isinstance(token, yaml.AliasToken):
            raise _UnreadableError(f"Line {_line(token)}: an alias (*name) is not allowed in front matter.")
        depth += isinstance(token, flow + block) - isinstance(token, closing)
        if depth > _DEPTH:
            raise _UnreadableError(
                f"Line {_line(token)}: the front matter is nested more than {_DEPTH} deep."
            )


def _line(piece: yaml.Node | yaml.Token) -> int:
    """The line in the file: the fence is line 1, and marks count from 0."""
    return int(piece.start_mark.line) + 2


def _is_empty(node: yaml.Node) -> bool:
    if isinstance(node.value, str):
        plain = getattr(node, "style", None) is None
        return not node.value.strip() or (plain and node.value in _NULLS)
    return not node.value


class _Text:
    """The response's text and JSON value, worked out at most once each."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._decoded: str | None = None
        self.value: Any = None

    def decoded(self) -> str:
        if self._decoded is None:
            self._decoded = self._data.decode("utf-8", "replace")
        return self._decoded

    def parse(self) -> Failure | None:
        try:
            self.value = json.loads(self._data.decode("utf-8-sig"), parse_constant=_no_constant)
        except UnicodeDecodeError as error:
            line = self._data.count(b"\n", 0, error.start) + 1
            return Failure("json", f"Not JSON: line {line} is not UTF-8 (byte {error.start}).")
        except json.JSONDecodeError as error:
            seen = error.doc[error.pos : error.pos + 20]
            tail = f", at {seen!r}" if seen else ", at the end"
            return Failure(
                "json", f"Not JSON at line {error.lineno}, column {error.colno}: {error.msg}{tail}."
            )
        except RecursionError:
            return Failure("json", "Not JSON that can be read: it is nested too deeply.")
        except ValueError as error:  # a number of more digits than Python converts; NaN
            return Failure("json", f"Not JSON: {_short(error)}.")
        return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _against(value: Any, schema: Value) -> Failure | None:
    problem = schema_problem(schema)
    if problem:
        return Failure("json_schema", problem)
    best_match = import_module("jsonschema.exceptions").best_match
    try:
        # A bounded look: an array of a million wrong elements has a million errors.
        error = best_match(islice(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value), 32))
    except RecursionError:
        return Failure("json_schema", "The value or the schema is nested too deeply to be compared.")
    except Exception as error:
        return Failure("json_schema", f"The schema cannot be applied: {_short(error)}.")
    if error is None:
        return None
    return Failure(
        "json_schema", f"At {error.json_path}: {_short(error.message)} (schema: {error.validator})."
    )


@lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    """A validator for a schema given as JSON text; raises whatever the library finds wrong with it."""
    validators = import_module("jsonschema.validators")  # lazily: costs 100 ms at start-up
    # The library's own registry would fetch a $ref to http://; this one knows the drafts and nothing else.
    known = import_module("jsonschema_specifications").REGISTRY
    parsed = json.loads(schema)
    if not isinstance(parsed, (dict, bool)):
        raise TypeError("a JSON Schema is an object")
    kind = validators.validator_for(parsed, default=validators.Draft202012Validator)
    kind.check_schema(parsed)
    return kind(parsed, registry=known)


def _regexes(text: str, patterns: tuple[str, ...]) -> Failure | None:
    for pattern in patterns:
        try:
            found = re.search(pattern, text, re.MULTILINE)
        except (re.error, RecursionError, OverflowError) as error:
            return Failure("regex", f"{pattern!r} is not a regular expression: {_short(error)}.")
        if not found:
            return Failure("regex", f"Nothing in the response matches {_short(repr(pattern))}.")
    return None


def _short(words: object) -> str:
    """Someone else's words on one line, of bounded length, without a full stop."""
    text = " ".join(str(words)[: 4 * _SHOWN].split()).rstrip(".")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
