"""Quoting of interpolated values for a POSIX shell, wherever in a command they stand.

A command arrives with a mark in place of each value. One scanner reads it as a shell would, so that at each
mark it knows whether it stands bare, in double quotes or in single quotes, and puts the value there so that
the shell sees exactly that value and executes nothing of it. Where that cannot be promised it refuses.
Pure: text in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# NUL can stand in no shell command and in no value, so a mark built of it cannot be forged by either.
NUL = "\0"

Words = str | Sequence[str]  # one value, or several that become a word each

_MARK = re.compile("\0(\\d+)\0")
_BARE = re.compile(r"[^\\'\"`$;&|()<>\0 \t\n]+")
_IN_DOUBLE = re.compile(r"[^\\\"`$\0]+")
_BACKTICKS = re.compile(r"`(?:[^`\\]|\\.)*`?", re.DOTALL)
_COMMENT = re.compile(r"[^\n]*")
_CASE = re.compile(r"case(?=[ \t\n\\])")
_PARAMETER = re.compile(r"\$(?:[@*#?$!0-9-]|[A-Za-z_][A-Za-z_0-9]*)?")
# Readers for whom the shell's quoting is no protection, as they read the word again as a program.
_SHELL_PROGRAM = re.compile(
    r"(?:^|[\s/\\])(?:ba|da|a|k|mk|z)?sh\s+(?:[-+]o\s+\S+\s+|[-+]\S+\s+)*-[A-Za-z]*c\s+$"
)
_EVAL = re.compile(
    r"\s*(?:(?:then|do|else|if|elif|while|until|!|\{|command|builtin)\s+|\w+=\S*\s+)*(?:eval|let)\s"
)
_TEST = re.compile(r"(?:^|\s)\[\[\s")
_NUMBERS = re.compile(r"\s-(?:eq|ne|lt|le|gt|ge|v)\s")
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[[^\]]*$")
_AROUND_LIST = " \t\n;&|()<>"


class UnquotableError(Exception):
    """A value stands where no quoting is safe: the number in its mark, and what the place is."""

    def __init__(self, index: int, where: str) -> None:
        super().__init__(f"value {index} stands {where}")
        self.index = index
        self.where = where


def mark(index: int) -> str:
    """The text that stands for value number `index` until it is quoted."""
    return f"{NUL}{index}{NUL}"


def fill(text: str, values: Sequence[Words]) -> str:
    """`text` with each mark replaced by its value, quoted for the place in which it stands.

    `text` holds NUL in marks only, and no value holds NUL. Raises UnquotableError.
    """
    return _Scanner(text, values).run()


class _Level:
    """One nesting of the shell's grammar: a command (the outermost, or in parentheses), or double quotes."""

    __slots__ = ("duplicating", "quoted", "start", "word")

    def __init__(self, quoted: bool, start: int) -> None:
        self.quoted = quoted
        self.start = start  # where the simple command began
        self.word = -1  # where the word being read began; -1 between words
        self.duplicating = False  # what comes is the target of >& or <&


class _Scanner:
    def __init__(self, text: str, values: Sequence[Words]) -> None:
        self.text = text
        self.values = values
        self.at = 0
        self.out: list[str] = []
        self.levels = [_Level(False, 0)]

    def run(self) -> str:
        while self.at < len(self.text):
            if self.text[self.at] == NUL:
                self._value()
            elif self.levels[-1].quoted:
                self._in_double()
            else:
                self._in_command()
        return "".join(self.out)

    # -- one step in each context

    def _in_double(self) -> None:
        char = self.text[self.at]
        if char == '"':
            self.levels.pop()
            self._copy(1)
        else:
            self._in_either(char, _IN_DOUBLE)

    def _in_command(self) -> None:
        char, level = self.text[self.at], self.levels[-1]
        if char in " \t":
            level.duplicating = level.duplicating and level.word < 0
            level.word = -1
            self._copy(1)
        elif char in "\n;&|":
            self._copy(1)
            self._new_command()
        elif char == "#" and level.word < 0:
            self._closed(_COMMENT, "in a comment")
        elif char == "(":
            self._parenthesis()
        elif char == ")":
            # With nothing open it is a case pattern's, or the user's mistake; the shell will say which.
            if len(self.levels) > 1:
                self.levels.pop()
            else:
                level.word = -1
            self._copy(1)
        elif char in "<>":
            self._redirection()
        else:
            self._in_word(char, level)

    def _in_word(self, char: str, level: _Level) -> None:
        if level.word < 0 and not self.text.startswith("\\\n", self.at):
            level.word = self.at
            if len(self.levels) > 1 and _CASE.match(self.text, self.at):
                # Its patterns close parentheses that nobody opened.
                self._lost("after `case` inside parentheses")
                return
        if char == "'":
            self._single()
        elif char == '"':
            self.levels.append(_Level(True, self.at))
            self._copy(1)
        else:
            self._in_either(char, _BARE)

    def _in_either(self, char: str, plain: re.Pattern[str]) -> None:
        """What means the same in a word and between double quotes; `plain`: what is itself there."""
        if char == "\\":
            self._escaped()
        elif char == "$":
            self._dollar()
        elif char == "`":
            self._closed(_BACKTICKS, "in backticks")
        else:
            self._copy_match(plain)

    # -- pieces of the grammar

    def _single(self) -> None:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        inside = _MARK.sub(lambda found: self._quoted(int(found[1]), "'", "'"), self.text[self.at : end])
        self.out.append(inside)
        self.at = end
        self._copy(1)

    def _escaped(self) -> None:
        after = self.text[self.at + 1 : self.at + 2]
        if after == NUL:
            raise UnquotableError(self._index(self.at + 1), "straight after a backslash")
        if after == "\n" and not self.levels[-1].quoted and self._joins_tokens():
            self._lost("after a line that is continued in the middle of a word")
        else:
            self._copy(2)

    def _joins_tokens(self) -> bool:
        """Whether the line continuation here could make one token of what stands around it."""
        before, after = self.text[self.at - 1 : self.at], self.text[self.at + 2 : self.at + 3]
        return before not in " \t\n" and after not in " \t\n"

    def _dollar(self) -> None:
        after = self.text[self.at + 1 : self.at + 3]
        if after[:1] == NUL:
            raise UnquotableError(self._index(self.at + 1), "straight after a $")
        if after == "((":
            self._arithmetic()
        elif after[:1] == "(":
            self._copy(2)
            self.levels.append(_Level(False, self.at))
        elif after[:1] == "{":
            self._brace()
        elif after[:1] == "'" and not self.levels[-1].quoted:
            self._lost("after $'…', which shells read differently")
        elif after[:1] == "[" or after == "\\\n":
            self._lost("after a $ that shells read differently")
        else:
            self._copy_match(_PARAMETER)

    def _arithmetic(self) -> None:
        """`$((…))`, or a substitution that begins with a subshell: they end alike only where it is plain."""
        depth, end = 2, self.at + 3
        while depth and end < len(self.text):
            char = self.text[end]
            if char in "'\"\\`#" or (char == "$" and self.text[end + 1 : end + 2] in "{([" + NUL):
                break
            depth += (char == "(") - (char == ")")
            end += 1
        inside = self.text[self.at : end]
        if depth or not inside.endswith("))") or "case" in inside:
            self._lost("in $((…)) or after it")
        else:
            self._inert(end, "in $((…))")

    def _brace(self) -> None:
        """`${…}`; where quotes or substitutions stand in it, shells disagree about its end."""
        depth, end = 1, self.at + 2
        while depth and end < len(self.text):
            char = self.text[end]
            if char in "'\"\\`()\n{":
                break
            if self.text.startswith("${", end):
                depth += 1
                end += 1
            depth -= char == "}"
            end += 1
        if depth:
            self._lost("in ${…} or after it")
        else:
            self._inert(end, "in ${…}")

    def _parenthesis(self) -> None:
        if self.text.startswith("((", self.at):
            self._lost("after ((, which shells read differently")
        else:
            self._copy(1)
            self.levels.append(_Level(False, self.at))

    def _redirection(self) -> None:
        level, after = self.levels[-1], self.text[self.at + 1 : self.at + 2]
        level.duplicating = False
        if self.text.startswith("<<<", self.at):
            self._copy(3)
        elif self.text.startswith("<<", self.at):
            self._lost("in a here-document or after its beginning")
        elif after == "&":
            level.duplicating = True
            self._copy(2)
        else:
            self._copy(1)
        level.word = -1

    def _new_command(self) -> None:
        level = self.levels[-1]
        level.word, level.start, level.duplicating = -1, self.at, False

    # -- values

    def _value(self) -> None:
        index = self._index(self.at)
        found = _MARK.match(self.text, self.at)
        assert found
        level = self.levels[-1]
        if level.quoted:
            piece = self._quoted(index, '"', '"')
        elif isinstance(self.values[index], str):
            level.word = self.at if level.word < 0 else level.word
            piece = self._quoted(index, "", "")
        else:
            piece = self._several(index, found.end())
            level.word = self.at
        self.out.append(piece)
        self.at = found.end()

    def _quoted(self, index: int, close: str, reopen: str) -> str:
        """A value in its own single quotes. Always: bare, a `2` before `>`, `a=b` or `if` means something."""
        value = self.values[index]
        if not isinstance(value, str):
            raise UnquotableError(index, "in quotes, where a list cannot become several words")
        self._refuse_second_reader(index)
        return close + "'" + value.replace("'", "'\"'\"'") + "'" + reopen

    def _several(self, index: int, end: int) -> str:
        """A list: a word for each value; next to other text only one of them would be joined to it."""
        if self.levels[-1].word >= 0 or self.text[end : end + 1] not in _AROUND_LIST:
            raise UnquotableError(index, "next to other text, where a list cannot become several words")
        self._refuse_second_reader(index)
        return " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in self.values[index])

    def _refuse_second_reader(self, index: int) -> None:
        level = next(level for level in reversed(self.levels) if not level.quoted)
        if any(
            outer.duplicating for outer in self.levels
        ):  # bash expands even a quoted one again: >&'$(date)' runs date
            raise UnquotableError(index, "behind >& or <&, where some shells evaluate it")
        word = self.at if level.word < 0 else level.word
        before = self.text[level.start : word].replace("\\\n", " ")
        if _SHELL_PROGRAM.search(before) or _EVAL.match(before):
            raise UnquotableError(
                index, "in a program for a second shell (sh -c, eval), which would read it again"
            )
        if _SUBSCRIPT.match(self.text[word : self.at]):
            raise UnquotableError(index, "in the subscript of an array, which shells evaluate")
        if _TEST.search(before) and _NUMBERS.search(self.text[level.start :].partition("]]")[0]):
            raise UnquotableError(index, "in a comparison of numbers in [[ ]], which shells evaluate")

    def _index(self, at: int) -> int:
        found = _MARK.search(self.text, at)
        assert found
        return int(found[1])

    # -- moving on

    def _copy(self, count: int) -> None:
        self.out.append(self.text[self.at : self.at + count])
        self.at += count

    def _copy_match(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        self._copy(len(found[0]) if found else 1)

    def _closed(self, pattern: re.Pattern[str], where: str) -> None:
        found = pattern.match(self.text, self.at)
        assert found
        self._inert(found.end(), where)

    def _inert(self, end: int, where: str) -> None:
        """Copy up to `end`, a stretch in which no value may stand."""
        found = _MARK.search(self.text, self.at, end)
        if found:
            raise UnquotableError(int(found[1]), where)
        self._copy(end - self.at)

    def _lost(self, where: str) -> None:
        """From here on the context cannot be known: copy the rest, in which no value may stand."""
        self._inert(len(self.text), where)
