"""Prompts, templates and commands: Jinja sources and the values of one work to text.

Planning executes nothing of a repository: `includes` only parses. Everything else here is for `run`.
jinja2 is imported when the first source needs it, as that costs some 60 ms and most of `plan` does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gitstate.core.plan import Command
from gitstate.core.problems import nearest
from gitstate.edge import shell
from gitstate.errors import ConfigError, GitstateError, Place, Problem

if TYPE_CHECKING:
    from jinja2 import Template

Read = Callable[[str], "bytes | None"]  # the committed bytes of a repository path; None: no such file

# No source without both can include anything; a look at the bytes is much cheaper than a parser.
_STATEMENT = b"{%"
_REFERENCE = re.compile(rb"include|import|extends")
_JINJA = re.compile(r"\{[{%#]")
_FRAME = re.compile(r"<template (.*)>", re.DOTALL)
_CONSTANT_HINT = (
    'Write one constant path from the root of the repository, as in {% include "prompts/part.md" %}.'
)
_RAW_HINT = (
    "Jinja reads {{, {% and {#; where they mean something else, put {% raw %}…{% endraw %} round them."
)


class RenderError(GitstateError):
    """A prompt, template or command that cannot be rendered: names the place and the unknown name."""

    exit_code = 2


def includes(path: str, read: Read) -> list[str]:
    """The files that `path` includes, imports or extends, theirs too, sorted, without itself. Runs nothing.

    Raises ConfigError with every problem, by file and line: a name that is not one constant path, a file
    that is absent (under `ignore missing` too), a path that leaves the root, a source that cannot be read.
    """
    problems: list[Problem] = []
    source = read(path)
    if source is None:
        raise ConfigError(
            [Problem(Place(path), "this file is not there.", "Commit it, or correct its name.")]
        )
    found: set[str] = set()
    todo = [(path, source)]
    while todo:
        name, source = todo.pop()
        for line, target in _references(name, source, problems):
            content = read(target)
            if content is None:
                message = f"{target!r} is not there."
                problems.append(Problem(Place(name, line), message, "Commit it, or correct the path."))
            elif target not in found and target != path:
                found.add(target)
                todo.append((target, content))
    if problems:
        raise ConfigError(problems)
    return sorted(found)


def _references(path: str, source: bytes, problems: list[Problem]) -> list[tuple[int, str]]:
    """Line and path of each include in one source; what is wrong goes to `problems`."""
    if _STATEMENT not in source or not _REFERENCE.search(source):
        return []
    from jinja2 import Environment, TemplateSyntaxError  # lazily, see the module's docstring

    from gitstate.edge import sandbox

    good = []
    try:
        tree = Environment(autoescape=False).parse(source.decode("utf-8"))  # noqa: S701 - not HTML, and not run
        for line, target, problem in sandbox.references(tree):
            if problem:
                problems.append(Problem(Place(path, line), f"{problem}.", _CONSTANT_HINT))
            else:
                good.append((line, target))
    except TemplateSyntaxError as error:
        problems.append(Problem(Place(path, error.lineno), f"not a Jinja template: {error.message}"))
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        problems.append(Problem(Place(path, line), "not UTF-8.", "Save the file as UTF-8."))
    except RecursionError:
        problems.append(Problem(Place(path), "nested too deeply to be read."))
    return good


Known = Mapping[str, Collection[str] | None]  # name -> its attributes; None: any


def names_of(path: str, read: Read) -> dict[tuple[str, str], Place]:
    """What `path` and all that it includes need of their context (see `sandbox.names`), and where. Runs nothing."""
    found: dict[tuple[str, str], Place] = {}
    for each in (path, *includes(path, read)):
        for name, line in _names_in((read(each) or b"").decode("utf-8", "replace")).items():
            found.setdefault(name, Place(each, line))
    return found


def names_of_command(command: Command, place: Place) -> dict[tuple[str, str], Place]:
    """The same of a command."""
    source = command if isinstance(command, str) else "\n".join(command)
    return dict.fromkeys(_names_in(source), place)


def unknown(needed: Mapping[tuple[str, str], Place], known: Known) -> list[Problem]:
    """A problem for each needed name that is not known, with the known one nearest to it."""
    problems = []
    for (name, attribute), place in needed.items():
        attributes = known.get(name)
        if name not in known:
            problems.append(Problem(place, f"{name!r} is not defined.", nearest(name, known)))
        elif attribute and attributes is not None and attribute not in (*attributes, *dir(dict)):
            message = f"'{name}.{attribute}' is not defined."
            problems.append(Problem(place, message, nearest(attribute, attributes)))
    return problems


def _names_in(source: str) -> dict[tuple[str, str], int]:
    if not _JINJA.search(source):
        return {}
    from jinja2 import Environment, TemplateSyntaxError  # lazily, see the module's docstring

    from gitstate.edge import sandbox

    try:
        return sandbox.names(Environment(autoescape=False).parse(source))  # noqa: S701 - parsed, not rendered
    except (TemplateSyntaxError, RecursionError):
        return {}  # said, with its place, when it is compiled


class Renderer:
    """Renders repository files, in any thread. Keeps what it compiled while a file's bytes stay the same."""

    def __init__(self, read: Read) -> None:
        from gitstate.edge.sandbox import Sandbox  # lazily, see the module's docstring

        self._environment = Sandbox(read)

    def prepare(self, path: str) -> None:
        """Compile `path`, so that a broken prompt is known before anything is paid. Raises RenderError."""
        try:
            self._environment.get_template(path)
        except GitstateError:
            raise
        except Exception as error:
            raise _explained(error, path) from error

    def render(self, path: str, context: Mapping[str, object]) -> str:
        """The text of `path` with the values of `context`. Raises RenderError.

        `read` is asked for each file of a rendering again, and should answer from memory.
        """
        try:
            return _text(self._environment.get_template(path), context)
        except GitstateError:
            raise
        except Exception as error:
            raise _explained(error, path) from error


def prepare_command(command: Command, what: str = "the command") -> None:
    """Compile a command, so that a broken one is known before anything is paid. Raises RenderError."""
    for source in [command] if isinstance(command, str) else command:
        if _JINJA.search(source):
            _compiled(source, what)


def render_command(command: Command, context: Mapping[str, object], what: str = "the command") -> Command:
    """`command` with the values of `context`; `what` names it in errors, such as `gitstate.yaml:7: run`.

    A string is for the shell: each value is quoted for the place in which it stands, so that the shell sees
    exactly the value; a list becomes several words. A list is for no shell: element by element, nothing is
    quoted, and each stays one argument. Raises RenderError: unknown names, null, mappings, NUL, places in
    which no quoting is safe, lists inside an element.
    """
    if isinstance(command, str):
        return _rendered(command, context, what, _for_shell)
    return tuple(_rendered(part, context, what, _for_argument) for part in command)


Fill = Callable[[str, Sequence[shell.Words]], str]


def _rendered(source: str, context: Mapping[str, object], what: str, fill: Fill) -> str:
    if shell.NUL in source:
        raise RenderError(f"{what} holds a NUL character.")
    if not _JINJA.search(source):
        return source
    template, expressions = _compiled(source, what)
    from gitstate.edge import sandbox

    try:
        text = _text(template, context)
        return fill(text, sandbox.now.values)
    except shell.UnquotableError as error:
        expression = expressions[sandbox.now.sources[error.index]]
        raise RenderError(
            f"{what}: {expression} stands {error.where}.",
            f"Put {expression} elsewhere as a word of its own, or pass it by stdin or as $GITSTATE_SLUG.",
        ) from error
    except GitstateError:
        raise
    except Exception as error:
        raise _explained(error, what) from error


def _for_shell(text: str, values: Sequence[shell.Words]) -> str:
    return shell.fill(text, values)


def _for_argument(text: str, values: Sequence[shell.Words]) -> str:
    def plain(found: re.Match[str]) -> str:
        value = values[int(found[1])]
        if not isinstance(value, str):
            raise shell.UnquotableError(int(found[1]), "inside one argument, which a list cannot be")
        return value

    return re.sub("\0(\\d+)\0", plain, text)


@lru_cache(maxsize=1)
def _command_environment() -> Any:
    from gitstate.edge.sandbox import CommandSandbox  # lazily, see the module's docstring

    return CommandSandbox()


@lru_cache(maxsize=512)
def _compiled(source: str, what: str) -> tuple[Template, list[str]]:
    """A command's template, and its {{ }} as written, in order."""
    environment = _command_environment()
    try:
        template = environment.from_string(source)
        expressions: list[str] = []
        inside = False
        for _, kind, text in environment.lex(source):
            if kind == "variable_begin":
                expressions.append("")
                inside = True
            if inside:
                expressions[-1] += text
            inside = inside and kind != "variable_end"
    except Exception as error:
        raise _explained(error, what, _RAW_HINT) from error
    return template, [" ".join(text.split()) for text in expressions]


def _text(template: Template, context: Mapping[str, object]) -> str:
    from gitstate.edge import sandbox

    sandbox.now.begin(context)
    pieces: list[str] = []
    length = 0
    for piece in template.generate(context):
        length += len(piece)
        if length > sandbox.MAX_LENGTH:
            raise ValueError(f"it renders to more than {sandbox.MAX_LENGTH} characters")
        pieces.append(piece)
    text = "".join(pieces)
    text.encode()  # a lone surrogate, written as an escape, is no text that could be sent
    return text


def _explained(error: Exception, what: str, hint: str = "") -> RenderError:
    """A failed rendering in words: the innermost line of a template, and what was wrong there.

    `what` is the file or the command that was rendered.
    """
    from jinja2 import TemplateNotFound, TemplateSyntaxError, UndefinedError

    name, line = _innermost(error)
    if isinstance(error, TemplateNotFound):
        return RenderError(f"{what}: {error.name!r} is not there.", "Commit it, or correct the path.")
    if isinstance(error, TemplateSyntaxError):
        name, line = error.name, error.lineno
    place = Place(name, line) if name else f"{what}, line {line}" if line > 1 else what
    words = " ".join(str(error).split("\n")[0].split()) or type(error).__name__
    if isinstance(error, TemplateSyntaxError):
        words = error.message or words
    elif isinstance(error, RecursionError):
        words = "it is nested too deeply, or includes or calls itself without end"
    elif isinstance(error, UndefinedError):
        hint = "Where it may be absent, write {{ name | default('') }}."
    elif type(error).__module__ == "builtins":
        words = f"{type(error).__name__}: {words}"
    return RenderError(f"{place}: {words.rstrip('.')}{'' if words.endswith('?') else '.'}", hint)


def _innermost(error: BaseException) -> tuple[str | None, int]:
    """The file and line of the innermost template that the error passed through; no file for a command."""
    name: str | None = None
    line = 0
    trace = error.__traceback__
    while trace:
        found = _FRAME.fullmatch(trace.tb_frame.f_code.co_filename)
        if found:
            name, line = found[1], trace.tb_lineno
        elif trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return name, line
