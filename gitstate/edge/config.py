"""Configuration and plan files: bytes in, checked nouns out; whatever the bytes are, nothing but ConfigError.

Files come as bytes, since what counts is what is committed. Line endings and a byte order mark mean nothing.
"""

from __future__ import annotations

import csv
import gc
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NoReturn, cast

from gitstate.core import validate, values
from gitstate.core.glob import constant_folder, translate
from gitstate.core.plan import Item, Plan, PlanSource, Value, Workflow
from gitstate.core.problems import kind, nearest, quoted, report
from gitstate.core.workflow import Examined, examine
from gitstate.edge.yaml12 import parse
from gitstate.errors import ConfigError, Place, Problem


def read_workflow(text: bytes, path: str) -> Workflow:
    """The workflow in the bytes of gitstate.yaml, whose repository path is `path`.

    Raises ConfigError with all problems at once.
    """
    examined = _examine(text, path)
    if examined.workflow is None:
        raise report(examined.problems)
    return examined.workflow


def load(text: bytes, path: str, read: Callable[[PlanSource], list[Item]]) -> Plan:
    """Configuration and items as one plan, so that the mistakes of both are shown at once.

    `read` brings the items, by `read_items` or `each_items`. Raises ConfigError, and what `read` raises.
    """
    examined = _examine(text, path)
    problems, items = list(examined.problems), None
    if examined.source:
        try:
            items = read(examined.source)
        except ConfigError as error:
            problems += error.problems
    if examined.source and items is not None:
        if examined.workflow:
            return validate.plan(examined.workflow, items)
        problems += validate.slugs(items, examined.source)
    raise report(problems)


def _examine(text: bytes, path: str) -> Examined:
    document = parse(_decoded(text, path), path)
    places: dict[tuple[object, ...], int] = {}
    if document.root is None:
        document.problems.append(
            Problem(Place(path), "The file is empty.", "`gitstate init` writes a first one.")
        )
        raise report(document.problems)
    data = document.value(document.root, (), places)
    examined = examine(data, cast("Mapping[tuple[str | int, ...], int]", places), path)
    if document.problems:
        return Examined(None, examined.source, document.problems + examined.problems)
    return examined


def _decoded(text: bytes, path: str) -> str:
    """The text of a file. Raises ConfigError where it is not UTF-8, or holds a NUL."""
    try:
        decoded = text.decode("utf-8-sig")
        at, wrong = decoded.find("\0"), "It holds a NUL character."
        before = decoded[: max(at, 0)].encode()
    except UnicodeDecodeError as error:
        at, wrong = (
            error.start,
            f"It is not UTF-8: the byte 0x{error.object[error.start]:02x} cannot stand here.",
        )
        before = error.object[: error.start]
    if at < 0:
        return decoded
    line = before.count(b"\n") + 1
    raise ConfigError([Problem(Place(path, line), wrong, "Save the file as UTF-8 text.")])


# Items


def read_items(source: PlanSource, text: bytes) -> list[Item]:
    """The items of a plan file, in its order, each with the line where it begins.

    Slugs are text but not judged yet: `validate.plan` does that. Raises ConfigError with all problems.
    """
    readers = {"yaml": _yaml_items, "jsonl": _jsonl_items, "csv": _csv_items}
    problems: list[Problem] = []
    with _no_collection():
        items = readers[source.kind](source.path, _decoded(text, source.path), problems)
    if problems:
        raise report(problems + validate.slugs(items, source))
    return items


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: going through the growing items again and again took half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _item(fields: dict[str, Value], place: Place, problems: list[Problem]) -> Item | None:
    slug = fields.get("slug")
    if type(slug) is str and "" not in fields:
        return Item(slug, fields, place.line)
    if "slug" not in fields:
        problems.append(Problem(place, "The item has no slug.", _no_slug_hint(fields)))
    elif not isinstance(slug, str):
        hint = "" if isinstance(slug, (list, dict)) else "Put it in quotes."
        problems.append(Problem(place, f"A slug must be text, not {kind(slug)}.", hint))
    if "" in fields:
        problems.append(Problem(place, "A field has an empty name.", "Name it."))
    return None


def _no_slug_hint(names: Iterable[str]) -> str:
    hint = nearest("slug", names)
    return hint if hint.startswith("Did") else "Each item needs one; it names the item."


def _yaml_items(path: str, text: str, problems: list[Problem]) -> list[Item]:
    document = parse(text, path)
    root = document.root
    entries = document.entries(root) if root is not None else []
    if entries is None and root is not None:
        keys = document.keys(root) or {}
        if "items" in keys:
            for key in keys:
                if key != "items":
                    place = Place(path, keys[key].start_mark.line + 1)
                    problems.append(
                        Problem(place, f"The key {quoted(key)} is not known here.", "Only 'items' is.")
                    )
            entries = [] if document.is_null(keys["items"]) else document.entries(keys["items"])
    if entries is None:
        message = "A plan must be a list of items, or a mapping with the key 'items' that holds one."
        problems.append(Problem(Place(path, 1), message, "Write each item as `- slug: NAME`."))
    items = []
    for node in entries or ():
        fields = document.value(node)
        if type(fields) is dict:
            item = _item(fields, Place(path, node.start_mark.line + 1), problems)
            if item:
                items.append(item)
        elif type(fields) is str:
            items.append(Item(fields, {"slug": fields}, node.start_mark.line + 1))
        else:
            place = Place(path, node.start_mark.line + 1)
            hint = "Put it in quotes." if not isinstance(fields, list) else "Write `- slug: NAME`."
            problems.append(Problem(place, f"An item must be a mapping or a slug, not {kind(fields)}.", hint))
    problems += document.problems
    return items


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {quoted(twice)} is there twice")
    return found


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number that a plan can hold")


_decode = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse).decode


def _jsonl_items(path: str, text: str, problems: list[Problem]) -> list[Item]:
    items = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if not line:
            continue
        try:
            fields = values.normal(_decode(line))
        except json.JSONDecodeError as error:
            message = f"This is not JSON: {error.msg.lower()} at column {error.colno}."
            problems.append(Problem(Place(path, number), message, "Write one JSON object on each line."))
        except RecursionError:
            problems.append(Problem(Place(path, number), "It is nested too deeply."))
        except ValueError as error:  # also numbers of thousands of digits
            problems.append(Problem(Place(path, number), f"The item cannot be used: {error}."))
        else:
            if type(fields) is dict:
                item = _item(fields, Place(path, number), problems)
                if item:
                    items.append(item)
            else:
                message = f"A line must be a JSON object, not {kind(fields)}."
                problems.append(Problem(Place(path, number), message, 'Write {"slug": "NAME"}.'))
    return items


_LONGEST = 2**31 - 1  # characters of one value; the module's own limit of 131,072 is less than a long article


def _csv_items(path: str, text: str, problems: list[Problem]) -> list[Item]:
    csv.field_size_limit(_LONGEST)
    # a checkout with CRLF must give the same values as one without, also inside quotes
    rows = csv.reader(io.StringIO(text.replace("\r\n", "\n"), newline=""), strict=True)
    names: list[str] | None = None
    items = []
    line = 1
    try:
        for row in rows:
            place, line = Place(path, line), rows.line_num + 1
            if not row:
                continue
            if names is None:
                names = _csv_header(row, place, problems)
                if problems:
                    break
            elif len(row) != len(names):
                message = f"The row has {len(row)} values, but there are {len(names)} columns."
                problems.append(Problem(place, message, "Put values that hold a comma in quotes."))
            else:
                fields = {name: values.text(value) for name, value in zip(names, row)}
                items.append(Item(fields["slug"], cast("dict[str, Value]", fields), place.line))
    except csv.Error as error:
        message = f"This is not CSV: {error}."
        problems.append(Problem(Place(path, line), message, "Quotes inside of quotes are doubled."))
    return items


def _csv_header(row: list[str], place: Place, problems: list[Problem]) -> list[str]:
    names = [values.text(name) for name in row]
    if "" in names:
        problems.append(Problem(place, "A column has an empty name.", "Name it in the first row."))
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(Problem(place, f"There are two columns {quoted(name)}.", "Rename or remove one."))
    if "slug" not in names:
        hint = _no_slug_hint(names)
        if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
            hint = "Separate columns by commas."
        problems.append(Problem(place, "There is no column 'slug' in the first row.", hint))
    return names


def each_items(source: PlanSource, paths: Iterable[str]) -> list[Item]:
    """One item for each of the committed `paths` that the glob of `source` means, by the bytes of the path.

    The slug is the path without the glob's constant folders and without its last suffix; the fields are
    `slug` and `ext`, the suffix without its dot.
    """
    glob = source.path
    folder = constant_folder(glob)
    match = translate(glob).match
    items = []
    for path in sorted(paths, key=lambda path: path.encode("utf-8", "surrogateescape")):
        if not path.startswith(folder) or not match(path):
            continue
        slug, ext = _without_suffix(path[len(folder) :])
        with suppress(ValueError):  # not UTF-8: the rule for slugs says so, with all other problems
            slug, ext = values.text(slug), values.text(ext)
        items.append(Item(slug, {"slug": slug, "ext": ext}, 0, path))
    return items


def _without_suffix(path: str) -> tuple[str, str]:
    """A path and its last suffix; a name that is all dot and suffix (.env) has none."""
    name = path.rpartition("/")[2]
    stem, dot, ext = name.rpartition(".")
    if not dot or not stem.strip("."):
        return path, ""
    return path[: len(path) - len(ext) - 1], ext
