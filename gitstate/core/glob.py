"""Globs over repository paths, as in `inputs`, `code` and `{each}`; matching takes no exponential time."""

from __future__ import annotations

import re

_MAGIC = re.compile(r"[*?[]")


def is_glob(text: str) -> bool:
    """Whether `text` is a pattern rather than the path of one file."""
    return _MAGIC.search(text) is not None


def escape(text: str) -> str:
    """`text` as a glob that means itself."""
    return _MAGIC.sub(lambda found: f"[{found[0]}]", text)


def constant_folder(glob: str) -> str:
    """The leading folders of `glob` that hold no pattern, with a final '/'; '' if there are none."""
    match = _MAGIC.search(glob)
    return glob[: glob.rfind("/", 0, match.start() if match else len(glob)) + 1]


def translate(glob: str) -> re.Pattern[str]:
    """A compiled pattern whose `fullmatch` (or `match`) accepts the whole paths that `glob` means.

    A segment `**` stands for any number of folders, also none; at the end for everything below. `*` and `?`
    stay inside a segment, `[a-z]` and `[!a-z]` are one character, and none of them leaves out hidden files.
    Two stars beside other text in a segment mean one star, as in git. Case counts.
    """
    return _Translation().whole(glob)


class _Translation:
    """One glob on its way to a regular expression; counts the groups that it has named.

    A piece between two stars is taken where it first fits, and not tried again: `(?=(?P<g>...))(?P=g)` is
    Python 3.10's way to write an atomic group. That first fit is as good as any later one, because whatever
    follows has a star before it, so a hostile glob costs no more than a plain one.
    """

    def __init__(self) -> None:
        self.groups = 0

    def whole(self, glob: str) -> re.Pattern[str]:
        runs: list[list[str]] = [[]]
        for segment in glob.split("/"):
            if segment == "**":
                runs.append([])
            else:
                runs[-1].append(self.segment(segment))
        first, last = runs[0], runs[-1]
        if len(runs) == 1:
            return re.compile("/".join(first) + r"\Z", re.DOTALL)
        pattern = "".join(run + "/" for run in first)
        for run in runs[1:-1]:
            if run:
                pattern += self.atomic("(?:[^/]+/)*?" + "".join(part + "/" for part in run))
        pattern += "(?:[^/]+/)*" + "/".join(last) if last else ".+"
        return re.compile(pattern + r"\Z", re.DOTALL)

    def atomic(self, pattern: str) -> str:
        self.groups += 1
        return f"(?=(?P<g{self.groups}>{pattern}))(?P=g{self.groups})"

    def segment(self, segment: str) -> str:
        pieces = [""]
        at = 0
        while at < len(segment):
            character = segment[at]
            at += 1
            if character == "*":
                pieces.append("")
            elif character == "?":
                pieces[-1] += "[^/]"
            elif character == "[" and (end := segment.find("]", at + 1 + (segment[at : at + 1] in "!^"))) > 0:
                pieces[-1] += _one_of(segment[at:end])
                at = end + 1
            else:
                pieces[-1] += re.escape(character)
        if len(pieces) == 1:
            return pieces[0]
        middle = "".join(self.atomic("[^/]*?" + piece) for piece in pieces[1:-1] if piece)
        return f"{pieces[0]}{middle}[^/]*{pieces[-1]}(?=/|\\Z)"


def _one_of(text: str) -> str:
    """The character class between two brackets; ranges that run backwards hold nothing."""
    negated = text[:1] in ("!", "^")
    text = text[1:] if negated else text
    members = ""
    at = 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            if text[at] <= text[at + 2]:
                members += f"{re.escape(text[at])}-{re.escape(text[at + 2])}"
            at += 3
        else:
            members += re.escape(text[at])
            at += 1
    if negated:
        return f"(?!/)[^{members}]" if members else "[^/]"
    return f"(?!/)[{members}]" if members else "(?!)"
