"""Jinja with everything taken away that a prompt does not need.

Imported lazily by `edge/render.py`: importing jinja2 costs some 60 ms, which `plan` must not pay.

Bounded: iterations and calls (counted), the length of the text, of texts joined or repeated, and of powers.
Not bounded: filters that widen (`center`, `indent`, `format`), and filters that are slow on large texts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, TemplateNotFound, TemplateSyntaxError, nodes, pass_context
from jinja2.defaults import DEFAULT_NAMESPACE
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from gitstate.edge.shell import NUL, Words, mark

MAX_STEPS = 5_000_000  # iterations of loops and calls, in one rendering
MAX_LENGTH = 64 * 1024 * 1024  # characters of the text rendered, and of any text made on the way
MAX_LIST = 1_000_000  # elements of a list made on the way
MAX_BITS = 100_000  # of a power

_SIZED = (str, list, tuple)

Read = Callable[[str], "bytes | None"]


class Rendering(threading.local):
    """What the rendering in this thread has used up, what it was given, and a command's values so far."""

    def __init__(self) -> None:
        self.begin(())

    def begin(self, names: Iterable[str]) -> None:
        self.steps = 0
        self.names = tuple(names)
        self.values: list[Words] = []
        self.sources: list[int] = []  # for each value, which {{ }} of the source it came from


now = Rendering()


def step() -> None:
    """Count one iteration or call; stops a template that would go on for ever."""
    now.steps += 1
    if now.steps > MAX_STEPS:
        raise SecurityError(f"the template takes more than {MAX_STEPS} steps")


class Undefined(StrictUndefined):
    """An unknown name is an error wherever it is used, and the error knows the names that were meant."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        name, owner = self._undefined_name, self._undefined_obj
        if self._undefined_hint:
            return self._undefined_hint
        if owner is missing:
            return f"{name!r} is not defined{nearest(str(name), now.names)}"
        if isinstance(owner, Mapping):
            return f"there is no {name!r} in it{nearest(str(name), [str(key) for key in owner])}"
        return f"a {type(owner).__name__} has no {name!r}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that offers the known names nearest to `name`, or all if they are few."""
    names = sorted(known)
    close = get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; known are {', '.join(names[:20])}{', …' if len(names) > 20 else ''}" if names else ""


class Loader(BaseLoader):
    """Repository files by their paths, and nothing else."""

    def __init__(self, read: Read) -> None:
        self.read = read

    def get_source(self, environment: Any, template: str) -> tuple[str, str, Callable[[], bool]]:
        data = None if path_problem(template) else self.read(template)
        if data is None:
            raise TemplateNotFound(template)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise TemplateSyntaxError("not UTF-8", line, template, file_mark(template)) from error
        # A compiled template is used again for as long as its file's bytes are the same.
        return text, file_mark(template), lambda: self.read(template) == data


def file_mark(path: str) -> str:
    """The file name under which a template is compiled: a traceback then shows whose line it was."""
    return f"<template {path}>"


def path_problem(path: str) -> str | None:
    """Why `path` cannot be a repository path; None if it can."""
    if not path or NUL in path or "\\" in path or path.startswith("/"):
        return "is not a path inside the repository"
    if any(part in ("", ".", "..") or part.lower() == ".git" for part in path.split("/")):
        return "is not a plain path from the repository's root"
    return None


def references(tree: nodes.Template) -> Iterator[tuple[int, str, str]]:
    """What a parsed template includes, imports or extends: line, path, and what is wrong with it or ''."""
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        target = node.template  # type: ignore[attr-defined]
        name = target.value if isinstance(target, nodes.Const) else None
        if not isinstance(name, str):
            yield node.lineno, "", "an include, import or extends must name one file as a constant"
        else:
            problem = path_problem(name)
            yield node.lineno, name, f"{name!r} {problem}" if problem else ""


def names(tree: nodes.Template) -> dict[tuple[str, str], int]:
    """The names that a parsed template needs: (name, "") and, where one attribute is asked for, (name, attribute).

    With the line that needs them first. Left out are those that may be absent: under `default`, or asked whether
    they are defined.
    """
    undeclared = find_undeclared_variables(tree) - set(DEFAULT_NAMESPACE)
    may_be_absent: set[tuple[str, str]] = set()
    for asked in tree.find_all((nodes.Filter, nodes.Test)):
        if asked.name in ("default", "d", "defined", "undefined") and asked.node is not None:
            may_be_absent.update(_named(asked.node))
    found: dict[tuple[str, str], int] = {}
    for node in tree.find_all((nodes.Name, nodes.Getattr, nodes.Getitem)):
        for name, attribute in _named(node):
            if name in undeclared and not {(name, ""), (name, attribute)} & may_be_absent:
                found.setdefault((name, attribute), node.lineno)
    return found


def _named(node: nodes.Node) -> Iterator[tuple[str, str]]:
    """`x` as (x, ""); `x.y` and `x["y"]` as (x, y)."""
    if isinstance(node, nodes.Name):
        yield node.name, ""
    elif isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        yield node.node.name, node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.node, nodes.Name):
        key = node.arg.value if isinstance(node.arg, nodes.Const) else None
        if isinstance(key, str):
            yield node.node.name, key


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment for prompts and templates. Safe for many threads; keeps what it compiled."""

    intercepted_binops = frozenset({"+", "*", "**"})

    def __init__(self, read: Read) -> None:
        super().__init__(
            undefined=Undefined,
            keep_trailing_newline=True,
            autoescape=False,
            loader=Loader(read),
            finalize=finalize,
        )
        self.filters.update(counted=counted, joined=joined)
        # What is rendered is a function of its sources, or the identity would not cover it.
        del self.filters["random"], self.globals["lipsum"]

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A mapping's own key first: `vars.items` is the user's value, not Python's method."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        step()
        if isinstance(getattr(obj, "__self__", None), str):
            for value in args:  # 'x'.center(10**10), 'x'.zfill(10**10)
                _bound(value if isinstance(value, int) else 0)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            if left.bit_length() * abs(right) > MAX_BITS:
                raise SecurityError("the template makes a number too large")
        elif operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, _SIZED) and isinstance(other, int):
                    _bound(len(one) * other, None if isinstance(one, str) else MAX_LIST)
        elif operator == "+" and isinstance(left, _SIZED) and isinstance(right, _SIZED):
            _bound(len(left) + len(right), None if isinstance(left, str) else MAX_LIST)
        return super().call_binop(context, operator, left, right)

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        self._prepare(source, name)
        return super()._generate(source, name, filename, defer_init)

    def _prepare(self, tree: nodes.Template, name: str | None) -> None:
        """Hold the template to the rule for includes, and have its loops and joins counted."""
        for line, path, problem in references(tree):
            # Also under `ignore missing`: that a file comes into being is nothing an identity could cover.
            if not problem and isinstance(self.loader, Loader) and self.loader.read(path) is None:
                problem = f"{path!r} is not there"
            if problem:
                raise TemplateSyntaxError(problem, line, name)
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = self._filtered(loop.iter, "counted")
        for join in list(tree.find_all(nodes.Concat)):
            join.nodes = [self._filtered(part, "joined") for part in join.nodes]

    def _filtered(self, node: nodes.Node, name: str, *args: nodes.Expr) -> nodes.Filter:
        return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno, environment=self)


# Given a context, a filter is not evaluated while compiling.
@pass_context
def counted(context: Context, values: Iterable[Any]) -> Iterator[Any]:
    """A loop's values, each a step."""
    return _each(values)


@pass_context
def joined(context: Context, value: Any) -> Any:
    """A part of a text that is about to be joined with `~`, not too long."""
    step()
    if isinstance(value, str):
        _bound(len(value))
    return value


def _each(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        step()
        yield value


def _bound(length: int, most: int | None = None) -> None:
    most = MAX_LENGTH if most is None else most
    if length > most:
        raise SecurityError(f"the template makes a text or list longer than {most}")


def finalize(value: Any) -> Any:
    """What `{{ }}` may print. None and methods would print as words that nobody wrote."""
    if isinstance(value, StrictUndefined):
        return value
    if value is None:
        raise TemplateRuntimeError(
            "a value that is null is printed; write {{ name or '' }} where it may be null"
        )
    if callable(value) and not isinstance(value, str):
        raise TemplateRuntimeError("a function is printed, not its result; add ()")
    return value


_IN_COMMANDS = (nodes.Output, nodes.If, nodes.For, nodes.Assign)


class CommandSandbox(Sandbox):
    """The environment for commands: each value becomes a mark, and goes to `now.values`.

    Only values, conditions, loops and plain assignments: in what captures text (macros, blocks, filters over
    blocks) a value would pass through other hands before it is quoted.
    """

    def __init__(self) -> None:
        super().__init__(lambda path: None)
        self.filters["word"] = word

    def _prepare(self, tree: nodes.Template, name: str | None) -> None:
        for statement in tree.find_all(nodes.Stmt):
            if not isinstance(statement, _IN_COMMANDS) or getattr(statement, "recursive", False):
                kind = type(statement).__name__.lower()
                raise TemplateSyntaxError(f"{kind} is not allowed in a command", statement.lineno, name)
        super()._prepare(tree, name)
        number = 0
        for output in tree.find_all(nodes.Output):
            for at, child in enumerate(output.nodes):
                if not isinstance(child, nodes.TemplateData):
                    output.nodes[at] = self._filtered(child, "word", nodes.Const(number, lineno=child.lineno))
                    number += 1


@pass_context
def word(context: Context, value: Any, number: int) -> str:
    """Take a value of a command out of the text; `number` says which {{ }} of the source it came from."""
    words = [_word(one) for one in value] if isinstance(value, (list, tuple)) else _word(value)
    now.values.append(words)
    now.sources.append(number)
    return mark(len(now.values) - 1)


def _word(value: Any) -> str:
    if isinstance(value, StrictUndefined) or (isinstance(value, (str, int, float)) and NUL not in str(value)):
        return str(value)
    if isinstance(value, str):
        raise TemplateRuntimeError("a value holds a NUL character, which no command can be given")
    kind = "null" if value is None else "a mapping" if isinstance(value, Mapping) else type(value).__name__
    raise TemplateRuntimeError(f"a value is {kind}; a command takes text, numbers, and flat lists of them")
