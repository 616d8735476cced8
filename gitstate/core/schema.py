"""Reading plain data by expectation: each value is what it should be, or a problem with its place is noted.

Every method returns None where it noted a problem; nothing here stops at the first.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gitstate.core import paths, values
from gitstate.core.plan import Command, Value
from gitstate.core.problems import kind, nearest, quoted
from gitstate.errors import Place, Problem

At = tuple[str | int, ...]  # the keys and positions that lead to a value
Places = Mapping[At, int]  # its line
T = TypeVar("T")
W = TypeVar("W", bound=str)

_STAGE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Reader:
    """One file being read; `problems` grows."""

    def __init__(self, file: str, places: Places) -> None:
        self.file = file
        self.places = places
        self.problems: list[Problem] = []

    def place(self, at: At) -> Place:
        """Where the value at `at` stands, or the nearest thing around it that has a line."""
        while at and at not in self.places:
            at = at[:-1]
        return Place(self.file, self.places.get(at, 0))

    def wrong(self, at: At, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self.place(at), message, hint))

    def expected(self, at: At, what: str, value: object, hint: str = "") -> None:
        self.wrong(at, f"{dotted(at)} must be {what}, not {kind(value)}.", hint)

    def get(
        self, mapping: Mapping[str, object], key: str, at: At, parse: Callable[[object, At], T | None]
    ) -> T | None:
        """The value of `key` as `parse` reads it; None if the key is absent."""
        return parse(mapping[key], (*at, key)) if key in mapping else None

    def known(self, mapping: Mapping[str, object], at: At, keys: Sequence[str]) -> None:
        """Note the keys of `mapping` that nobody would read."""
        where = f" in {dotted(at)}" if at else ""
        for key in mapping:
            if key not in keys:
                self.wrong((*at, key), f"The key {quoted(key)} is not known{where}.", nearest(key, keys))

    def mapping(self, value: object, at: At) -> dict[str, object] | None:
        if isinstance(value, dict):
            return value
        hint = f"Write {{name: {value}}}." if at[-1:] == ("model",) and isinstance(value, str) else ""
        self.expected(at, "a mapping", value, hint)
        return None

    def values(self, value: object, at: At) -> Mapping[str, Value] | None:
        """A mapping that enters identity, in normal form."""
        if self.mapping(value, at) is None:
            return None
        try:
            result = values.normal(value)
        except ValueError as error:
            self.wrong(at, f"{dotted(at)} cannot be used: {error}.")
            return None
        return result if isinstance(result, dict) else None

    def sequence(self, value: object, at: At) -> Sequence[object] | None:
        if isinstance(value, list):
            return value
        self.expected(at, "a list", value)
        return None

    def text(self, value: object, at: At) -> str | None:
        if isinstance(value, str) and value.strip():
            return value
        quote = isinstance(value, (int, float)) or value is None
        self.expected(at, "text", value, "Put it in quotes." if quote else "")
        return None

    def flag(self, value: object, at: At) -> bool | None:
        if isinstance(value, bool):
            return value
        self.expected(at, "true or false", value)
        return None

    def count(self, value: object, at: At) -> int | None:
        if type(value) is int and value >= 0:
            return value
        self.expected(at, "a whole number, 0 or more", value)
        return None

    def seconds(self, value: object, at: At, *, none: bool = False) -> float | None:
        """A duration above 0; with `none`, 0 too."""
        try:
            result = values.duration(value)
        except ValueError as error:
            self.expected(at, "a duration", value, f"{error}.")
            return None
        if result > 0 or (none and result == 0):
            return result
        self.expected(at, "a duration above 0", value)
        return None

    def one_of(self, value: object, at: At, choices: Sequence[W]) -> W | None:
        for choice in choices:
            if value == choice:
                return choice
        hint = nearest(value, choices) if isinstance(value, str) else ""
        self.expected(at, " or ".join(map(quoted, choices)), value, hint)
        return None

    def choice(self, mapping: Mapping[str, object], key: str, at: At, choices: Sequence[W]) -> W | None:
        """The value of a key that has one of these words; None where it is not there or wrong."""
        return self.get(mapping, key, at, lambda value, here: self.one_of(value, here, choices))

    def some_of(self, value: object, at: At, choices: Sequence[W]) -> tuple[W, ...] | None:
        return self.several(value, at, lambda entry, here: self.one_of(entry, here, choices))

    def several(self, value: object, at: At, parse: Callable[[object, At], T | None]) -> tuple[T, ...] | None:
        """A list, or one that stands for a list of one."""
        if not isinstance(value, list):
            one = parse(value, at)
            return None if one is None else (one,)
        read = [parse(entry, (*at, number)) for number, entry in enumerate(value)]
        seen: set[object] = set()
        for number, entry in enumerate(read):
            if entry is not None and entry in seen:
                self.wrong((*at, number), f"{dotted((*at, number))} is there a second time.", "Remove it.")
            seen.add(entry)
        return tuple(entry for entry in read if entry is not None)

    def names(self, value: object, at: At) -> tuple[str, ...] | None:
        return self.several(value, at, self.text)

    def stage_name(self, name: str, at: At) -> None:
        """Note a name that could not be a segment, or could not be said in a template."""
        problem = paths.segment_problem(name)
        if problem:
            self.wrong(at, f"The stage name {quoted(name)} {problem}.", "Choose another.")
        elif not _STAGE_NAME.fullmatch(name):
            hint = "Use letters, digits, '_' and '-', and begin with a letter or '_'."
            self.wrong(at, f"The stage name {quoted(name)} could not be used in a template.", hint)

    def command(self, value: object, at: At) -> Command | None:
        """A string for the shell, or a list of strings without one."""
        if not isinstance(value, list):
            return self.text(value, at)
        if not value:
            self.expected(at, "a command", value)
            return None
        read = [self.argument(part, (*at, number)) for number, part in enumerate(value)]
        return None if None in read else tuple(part for part in read if part is not None)

    def argument(self, value: object, at: At) -> str | None:
        if isinstance(value, str) and (value or at[-1] != 0):
            return value
        self.expected(at, "text", value, "Put it in quotes." if isinstance(value, (int, float)) else "")
        return None

    def path(self, value: object, at: At) -> str | None:
        """The path of a committed file, from the repository's root."""
        text = self.text(value, at)
        problem = paths.source_problem(text) if text else None
        if problem:
            self.wrong(at, f"{dotted(at)}: the path {quoted(text or '')} {problem}.", _path_hint(text or ""))
            return None
        return text

    def glob(self, value: object, at: At) -> str | None:
        path = self.path(value, at)
        if path and "{" in path:
            self.wrong(at, f"{dotted(at)}: {quoted(path)} has a placeholder.", "Only output and inputs have.")
            return None
        return path

    def inputs(self, value: object, at: At) -> tuple[str, ...] | None:
        return self.several(value, at, self.input)

    def input(self, value: object, at: At) -> str | None:
        """A glob, or a path, over committed files, with {field} placeholders."""
        text = self.path(value, at)
        if text is None:
            return None
        try:
            paths.pattern_parts(text)
        except ValueError as error:
            self.wrong(at, f"{dotted(at)}: the path {quoted(text)} {error}.", "Or write ? for a brace.")
            return None
        return text

    def globs(self, value: object, at: At) -> tuple[str, ...] | None:
        return self.several(value, at, self.glob)

    def pattern(self, value: object, at: At) -> str | None:
        """An output path with {field} placeholders, in NFC."""
        text = self.text(value, at)
        if text is None:
            return None
        try:
            text = values.text(text)
            problem = paths.pattern_problem(text)
        except ValueError as error:
            problem = f"cannot be used: {error}"
        if problem:
            self.wrong(at, f"{dotted(at)}: the path {quoted(text)} {problem}.", _path_hint(text))
            return None
        return text

    def patterns(self, value: object, at: At) -> tuple[str, ...] | None:
        if value == []:
            self.expected(at, "a path or some", value, "An item that promises no output is never done.")
        return self.several(value, at, self.pattern)

    def regex(self, value: object, at: At) -> str | None:
        text = self.text(value, at)
        if text is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(text, re.MULTILINE)
        except (re.error, RecursionError, OverflowError) as error:
            self.wrong(at, f"{dotted(at)} is not a regular expression: {error}.")
            return None
        return text

    def regexes(self, value: object, at: At) -> tuple[str, ...] | None:
        return self.several(value, at, self.regex)


def dotted(at: At) -> str:
    """The way to a value as a person writes it: stages.article.needs[0]."""
    said = ""
    for part in at:
        if isinstance(part, int):
            said += f"[{part}]"
        else:
            plain = part.isidentifier() or _STAGE_NAME.fullmatch(part)
            said += ("." if said else "") + (part if plain else quoted(part))
    return said or "The file"


def _path_hint(path: str) -> str:
    if path.startswith("./"):
        return f"Write {quoted(path[2:])}: paths begin at the repository's root."
    if path.endswith("/"):
        return f"For everything in a folder, write {quoted(path + '**')}."
    return "Paths go from the repository's root, with '/' between the parts."
