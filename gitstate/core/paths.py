"""What slugs, outputs and named files may be called: nothing that leaves the repository, enters git's own
folder, or is another file on another system.

The rules are those of git's `verify_path` with its protections for Windows and macOS always on, so that a
plan means the same wherever it is read. Functions return what is wrong as the rest of a sentence, or None.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from gitstate.core.problems import quoted
from gitstate.core.values import text as in_nfc

MAX_SLUG = 200  # bytes
MAX_PATH = 1024
MAX_SEGMENT = 255  # what the usual file systems hold

_FORBIDDEN = re.compile(r'[\\:*?"<>|]')
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(?:\..*)?", re.DOTALL)
# Characters that HFS+ ignores in names, so that ".g\u200cit" would open .git there; the list is git's.
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

# The common case in one match: segments of letters and digits of any script that need no second look.
_PLAIN_SEGMENT = (
    r"(?![CPANLcpanl](?:[Oo][Nn]|[Rr][Nn]|[Uu][Xx]|[Uu][Ll]|[Oo][Mm][0-9¹²³]|[Pp][Tt][0-9¹²³])(?:[./]|\Z))"
    r"\w(?:[\w.-]*[\w-])?"
)
_plain = re.compile(f"{_PLAIN_SEGMENT}(?:/{_PLAIN_SEGMENT})*\\Z").match


def is_plain(text: str, limit: int) -> bool:
    """Whether a quick look shows that `text`, of at most `limit` bytes, is a fine slug or output path."""
    return _plain(text) is not None and (len(text) * 4 <= limit or len(text.encode()) <= limit)


def fold(text: str) -> str:
    """The form in which names collide: case-folded, in NFC."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def segment_problem(text: str) -> str | None:
    """What keeps `text` from being one segment of a slug or an output path."""
    character = _CONTROL.search(text)
    if not text:
        return "is empty"
    if character:
        return f"holds the control character U+{ord(character[0]):04X}"
    if "/" in text:
        return "holds '/'"
    found = _FORBIDDEN.search(text)
    if found:
        return f"holds {found[0]}, which not every system can have in a name"
    if text[0] in "- ":
        return "begins with '-'" if text[0] == "-" else "begins with a space"
    return _reserved(text) or ("ends with a dot" if text[-1] == "." else None) or _last(text)


def _last(text: str) -> str | None:
    if text[-1] == " ":
        return "ends with a space"
    if _DEVICE.fullmatch(text.casefold()):
        return "is the name of a device on Windows"
    return None


def _reserved(segment: str) -> str | None:
    """Whether a segment climbs, stays, or is git's own folder on some system."""
    if segment in (".", ".."):
        return f"is '{segment}'"
    name = _IGNORED_BY_HFS.sub("", segment).casefold().split(":")[0].rstrip(". ")
    if name in (".git", "git~1"):
        return "is git's own folder"
    return None


def slug_problem(slug: str) -> str | None:
    """What keeps `slug` from being one: segments joined by '/', 200 bytes of UTF-8 in all."""
    if is_plain(slug, MAX_SLUG):
        return None
    return _segments_problem(slug) or _length_problem(slug, MAX_SLUG)


def path_problem(path: str) -> str | None:
    """What keeps `path` from being an output: the rule for slugs, and lengths that file systems hold."""
    if is_plain(path, MAX_SEGMENT):
        return None
    problem = _segments_problem(path) or _length_problem(path, MAX_PATH)
    if problem:
        return problem
    if any(len(segment.encode()) > MAX_SEGMENT for segment in path.split("/")):
        return f"has a segment of more than {MAX_SEGMENT} bytes"
    if path.rpartition("/")[2].startswith(".gitstate-"):
        return "is named like one of gitstate's own temporary files"
    return None


def _length_problem(path: str, limit: int) -> str | None:
    length = len(path.encode())
    return f"has {length} bytes, more than {limit}" if length > limit else None


def _segments_problem(path: str) -> str | None:
    try:
        in_nfc(path)
    except ValueError:
        return "is not UTF-8"
    if not path:
        return "is empty"
    if path[0] == "/":
        return "is an absolute path"
    for segment in path.split("/"):
        problem = segment_problem(segment)
        if problem == "is empty":
            return "holds an empty segment: '/' at its end, or two in a row"
        if problem and problem.startswith("is '"):
            return f"has a segment that {problem}"
        if problem:
            return problem if segment == path else f"has the segment {quoted(segment)}, which {problem}"
    return None


def source_problem(path: str) -> str | None:
    """What keeps `path` (or a glob) from naming committed files. It may hold odd characters; git has them."""
    if not path:
        return "is empty"
    if path[0] == "/":
        return "is an absolute path"
    if "\\" in path:
        return "holds '\\'"
    if _CONTROL.search(path):
        return "holds a control character"
    for segment in path.split("/"):
        problem = _reserved(segment) if segment else "is empty"
        if problem:
            return f"has a segment that {problem}"
    return None


_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def pattern_parts(pattern: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The literal pieces of an output pattern, one more than its fields, and the names of the fields.

    Raises ValueError with the rest of a sentence if braces are not balanced or hold no name.
    """
    pieces = _PLACEHOLDER.split(pattern)
    literals, fields = tuple(pieces[::2]), tuple(pieces[1::2])
    if "{{" in pattern or "}}" in pattern:
        raise ValueError("doubles its braces; a placeholder is written {slug}")
    if any("{" in literal or "}" in literal for literal in literals):
        raise ValueError("has a brace without its partner")
    for field in fields:
        if not field or field != field.strip():
            raise ValueError(
                "has a placeholder without a name" if not field.strip() else "has spaces in braces"
            )
    return literals, fields


def managed_folders(patterns: Iterable[str]) -> list[str]:
    """The folders, each with a final '/', that output patterns have to themselves: the constant ones that they begin
    with. A pattern without one manages nothing; none of those returned lies in another."""
    folders = {
        pattern[: pattern.rfind("/", 0, pattern.find("{") if "{" in pattern else None) + 1]
        for pattern in patterns
    }
    found: list[str] = []
    for folder in sorted(folders - {""}):
        if not found or not folder.startswith(found[-1]):
            found.append(folder)
    return found


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with an output pattern whatever the items are."""
    try:
        literals, _ = pattern_parts(pattern)
    except ValueError as error:
        return str(error)
    return path_problem("x".join(literals))
