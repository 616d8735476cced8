"""YAML by the core rules of version 1.2, with the place of every mistake: `no` and dates stay text.

The C parser makes nodes (the pure one where it is absent); the values are made here, which is faster than
PyYAML's own loader and refuses what that one lets pass: keys given twice, merge keys, foreign tags, endless
aliases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gitstate.core import values
from gitstate.core.plan import Value
from gitstate.core.problems import quoted
from gitstate.errors import ConfigError, Place, Problem

_MAX_ALIASED = 10_000_000  # characters that aliases may add to a file; the "billion laughs" want more
_TAG = "tag:yaml.org,2002:"
_STR, _SEQ, _MAP = _TAG + "str", _TAG + "seq", _TAG + "map"
_PLAIN = "?"  # a scalar without quotes and tag, whose text decides what it is

_MAYBE = frozenset("-+.0123456789~nNtTfF") | {""}  # how a plain scalar begins that may be something but text
_WORDS: Mapping[str, Value] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o([0-7]+)|0x([0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_BARE_PLACEHOLDER = re.compile(r"(?:[\[,]|[:-] )[^\"']*\{\w+\}")

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """PyYAML's parser and composer; tags say only "plain" or what was written."""

    depth = 0

    def resolve(self, kind: type[Node], value: str | None, implicit: tuple[bool, bool]) -> str:
        if kind is ScalarNode:
            return _PLAIN if implicit[0] and (value or "")[:1] in _MAYBE else _STR
        return _SEQ if kind is SequenceNode else _MAP

    def descend_resolver(self, parent: Node | None, index: object) -> None:
        self.depth += 1
        if self.depth > values.MAX_DEPTH:
            message = f"it is nested deeper than {values.MAX_DEPTH} levels"
            raise yaml.MarkedYAMLError(None, None, message, parent.start_mark if parent else None)

    def ascend_resolver(self) -> None:
        self.depth -= 1


class Document:
    """The one document of a file. `problems` grows as values are made of its nodes."""

    def __init__(self, file: str, root: Node | None, text: str) -> None:
        self.file = file
        self.root = root
        self.problems: list[Problem] = []
        aliases = "*" in text and "&" in text
        self._made: dict[int, Value] | None = {} if aliases else None
        if aliases and root is not None:
            self._refuse_endless(root, 2 * len(text) + _MAX_ALIASED)

    def wrong(self, node: Node, message: str, hint: str = "") -> None:
        self.problems.append(Problem(Place(self.file, node.start_mark.line + 1), message, hint))

    def value(
        self,
        node: Node,
        at: tuple[object, ...] = (),
        places: dict[tuple[object, ...], int] | None = None,
    ) -> Value:
        """What a node means, null where that is a problem. `places` learns the line of everything in it."""
        if type(node) is ScalarNode:
            return self._scalar(node)
        if self._made is not None and id(node) in self._made:
            return self._made[id(node)]
        made: Value
        if type(node) is SequenceNode:
            if node.tag != _SEQ:
                self._refuse_tag(node)
            made = []
            for number, child in enumerate(node.value):
                if places is None:
                    made.append(self.value(child))
                else:
                    here = (*at, number)
                    places[here] = child.start_mark.line + 1
                    made.append(self.value(child, here, places))
        else:
            made = self._mapping(node, at, places)
        if self._made is not None:
            self._made[id(node)] = made
        return made

    def _mapping(
        self, node: Node, at: tuple[object, ...], places: dict[tuple[object, ...], int] | None
    ) -> dict[str, Value]:
        if node.tag != _MAP:
            self._refuse_tag(node)
        made: dict[str, Value] = {}
        for key_node, child in node.value:
            key = key_node.value
            if key_node.tag != _STR or not key.isascii() or key == "<<":
                key = self._key(key_node)
                if key is None:
                    continue
            if key in made:
                self.wrong(key_node, f"The key {quoted(key)} is there twice.", "Keep one of them.")
                continue
            if places is not None:
                here = (*at, key)
                places[here] = key_node.start_mark.line + 1
                made[key] = self.value(child, here, places)
            elif child.tag == _STR and type(child) is ScalarNode and child.value.isascii():
                made[key] = child.value
            else:
                made[key] = self.value(child)
        return made

    def _key(self, node: Node) -> str | None:
        if type(node) is not ScalarNode:
            self.wrong(node, "A key must be text, not a list or a mapping.")
            return None
        if node.value == "<<" and not node.style:
            self.wrong(node, "Merge keys (<<) are not part of YAML 1.2.", "Write out what they stand for.")
            return None
        key = self._scalar(node)
        if isinstance(key, str):
            return key
        self.wrong(node, f"The key {quoted(node.value)} is not text.", "Put it in quotes.")
        return None

    def _scalar(self, node: ScalarNode) -> Value:
        text: str = node.value
        tag: str = node.tag
        try:
            if tag == _STR:
                return values.text(text)
            plain = _plain(text)
        except ValueError as error:
            self.wrong(node, f"The value {quoted(text)} cannot be used: {error}.")
            return None
        if tag == _PLAIN or tag == _TAG + _kind(plain):
            return plain
        if tag == _TAG + "float" and type(plain) is int:
            return float(plain)
        if tag in (_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null"):
            self.wrong(node, f"The value {quoted(text)} is not what its tag !!{tag[len(_TAG) :]} says.")
        else:
            self._refuse_tag(node)
        return None

    def _refuse_tag(self, node: Node) -> None:
        tag = "!!" + node.tag[len(_TAG) :] if node.tag.startswith(_TAG) else node.tag
        self.wrong(node, f"The tag {quoted(tag)} is not one that is read here.", "Remove it.")

    def entries(self, node: Node) -> list[Node] | None:
        """The nodes of a list; None if it is none."""
        return node.value if type(node) is SequenceNode and node.tag == _SEQ else None

    def keys(self, node: Node) -> dict[str, Node] | None:
        """The nodes of a mapping by the text of their keys; None if it is none."""
        if type(node) is not MappingNode:
            return None
        return {key.value: child for key, child in node.value if type(key) is ScalarNode}

    def is_null(self, node: Node) -> bool:
        return type(node) is ScalarNode and node.tag == _PLAIN and _WORDS.get(node.value, 0) is None

    def _refuse_endless(self, root: Node, limit: int) -> None:
        """Raise ConfigError where an alias stands for what it is inside of, or for more than is sane."""
        sizes: dict[int, int] = {}
        inside: set[int] = set()

        def size(node: Node) -> int:
            if type(node) is ScalarNode:
                return len(node.value) + 1
            known = sizes.get(id(node))
            if known is not None:
                return known
            if id(node) in inside:
                raise self._endless(node, "An alias stands for something that it is a part of.")
            inside.add(id(node))
            parts = (
                node.value if type(node) is SequenceNode else [part for pair in node.value for part in pair]
            )
            total = 1 + sum(map(size, parts))
            inside.discard(id(node))
            if total > limit:
                raise self._endless(node, f"Aliases make more than {limit:,} characters of this.")
            sizes[id(node)] = total
            return total

        size(root)

    def _endless(self, node: Node, message: str) -> ConfigError:
        return ConfigError([Problem(Place(self.file, node.start_mark.line + 1), message, "Write it out.")])


def _kind(value: Value) -> str:
    if value is None:
        return "null"
    return type(value).__name__


def _plain(text: str) -> Value:
    """A scalar without quotes by the core rules. Raises ValueError for numbers that cannot be used."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        if len(text) > 400:
            raise ValueError("it is a number of more than 300 digits")
        return values.whole(int(text))
    if _FLOAT.fullmatch(text):
        return values.decimal(float(text))
    based = _BASED.fullmatch(text)
    if based:
        return values.whole(int(based[1] or based[2], 8 if based[1] else 16))
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("it is not a finite number")
    return values.text(text)


def parse(text: str, file: str) -> Document:
    """The document in `text`, with `root` None if there is none. Raises ConfigError where it is not YAML."""
    try:
        loader = _Loader(text.encode())  # bytes, which the C parser would make of text again
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError:
        found = _UNPRINTABLE.search(text)
        line = text.count("\n", 0, found.start()) + 1 if found else 0
        what = f"the character U+{ord(found[0]):04X}" if found else "a character"
        raise _not_yaml(file, line, f"it holds {what}, which cannot stand here", "Remove it.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line, text.rstrip().count("\n")) + 1 if mark else 0
        words = ", ".join(part for part in (error.context, error.problem) if part)
        hint = _hint(text.split("\n")[mark.line :][:1], mark.column, words) if mark else ""
        raise _not_yaml(file, line, words, hint) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the pure parser on \U99999999
        raise _not_yaml(file, 0, str(error)) from None
    return Document(file, root, text)


def _not_yaml(file: str, line: int, words: str, hint: str = "") -> ConfigError:
    return ConfigError([Problem(Place(file, line), f"This is not YAML: {words}.", hint)])


def _hint(lines: list[str], column: int, words: str) -> str:
    """What to do about the usual mistakes, from the line (if there is one) and what the parser said."""
    if "another document" in words:
        return "Keep one document in the file."
    written = lines[0][:500] if lines else ""
    here = written[column : column + 1]
    if here == "\t" or "\t" in written[: len(written) - len(written.lstrip())]:
        return "Indent with spaces: YAML does not take tabs."
    if here and here in "@`%*":
        return "Put the value in quotes."
    if _BARE_PLACEHOLDER.search(written):  # braces mean a mapping at the start of a value and inside of [ ]
        return "Put paths with {placeholders} in quotes here."
    return ""
