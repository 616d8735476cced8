"""`hooks run pre-commit`: a commit must not take in an output that is not what it promises (P5, P7).

Looks at the staged blobs, never at the working tree, and runs nothing of the repository's. Whatever is in
order passes by names and patterns alone; only what is not needs the plan and all receipts.
"""

from __future__ import annotations

import json
import os
import posixpath
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Optional

from gitstate.core.check import Failure, check
from gitstate.core.plan import Checks, Value
from gitstate.core.receipt import Receipt, Unreadable, decode_receipt, is_adopted
from gitstate.core.staged import Output, Rule, conflict_line, from_plain, names, outputs_at, rules, vouched
from gitstate.edge.cache import Cache
from gitstate.edge.files import is_temp
from gitstate.edge.git import Git
from gitstate.edge.repo import find
from gitstate.edge.staged import Change, Index
from gitstate.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from gitstate.commands.rejection import Rejection, Words

CONFIG = "gitstate.yaml"
_USAGE = "gitstate hooks run pre-commit [--config PATH]"
_FEW = 64  # candidates to look up by name; for more, reading all receipts at once is cheaper
_CACHE = "hook"


def run_hook(arguments: Sequence[str]) -> int:
    """Run one hook: `pre-commit [--config PATH]`. Returns the exit code; 1 stops the commit.

    Raises UsageError for other arguments, CorruptState if receipts that are needed cannot be read.
    """
    config = _parse(arguments)
    if config is None:
        print(f"Usage: {_USAGE}")
        return 0
    git = Git(os.getcwd(), keep_index=True)
    repository = find(git.root, git)
    git.root = repository.root
    index = Index(repository, git)
    try:
        found = _Hook(index, Cache(os.path.join(repository.state, "cache")), config).rejections()
    finally:
        index.close()
    if not found:
        return 0
    from gitstate.commands.rejection import show

    show(found)
    return 1


def _parse(arguments: Sequence[str]) -> Optional[str]:
    """The path of the configuration; None where help is asked for."""
    if "-h" in arguments or "--help" in arguments:
        return None
    if not arguments or arguments[0] != "pre-commit":
        said = f"There is no hook {arguments[0]!r}" if arguments else "No hook is named"
        raise UsageError(f"{said}.", f"Type: {_USAGE}")
    words = list(arguments[1:])
    if len(words) == 1 and words[0].startswith("--config="):
        words = words[0].split("=", 1)
    if words and (len(words) != 2 or words[0] != "--config"):
        raise UsageError(f"The hook does not know {' '.join(words)!r}.", f"Type: {_USAGE}")
    return posixpath.normpath(words[1]) if words else CONFIG


class _Hook:
    """One look at one commit in the making."""

    def __init__(self, index: Index, cache: Cache, config: str) -> None:
        self.index, self.cache, self.config = index, cache, config
        self.schemas: dict[str, Value] = {}

    def rejections(self) -> list[Rejection]:
        """All that must not be committed as it is staged."""
        changes, born = self.index.staged()
        rules = self._rules() if changes else []
        temporary = [change for change in changes if is_temp(change.path)]
        patterns = [rule.pattern() for rule in rules]
        candidates = [
            change for change in changes if any(pattern.fullmatch(change.path) for pattern in patterns)
        ]
        if len(candidates) <= _FEW:
            candidates = [change for change in candidates if not self._in_order(change, rules)]
        if not temporary and not candidates:
            return []
        from gitstate.commands.rejection import Words

        words = Words(born)
        return [*map(words.temporary, temporary), *self._judge(candidates, words)]

    # By names and patterns

    def _rules(self) -> list[Rule]:
        """The patterns and checks of the configuration as it is staged; none where it is absent or broken."""
        blob = self.index.id(self.config)
        if blob is None:
            if self.config != CONFIG:
                _tell(f"There is no {self.config} in the index, so outputs are not checked.")
            return []
        kept = self.cache.load(_CACHE)
        if kept is not None and kept[0] == blob:
            return [from_plain(rule) for rule in kept[1]]
        # PyYAML costs 25 ms, which a known configuration need not pay.
        from gitstate.edge.config import read_workflow

        try:
            found = rules(read_workflow(self.index.text(self.config) or b"", self.config))
        except ConfigError as error:
            # A broken configuration must not keep anybody from committing, least of all its correction.
            _tell(f"{self.config} cannot be read as staged, so outputs are not checked. {error.problems[0]}")
            return []
        self.cache.save(_CACHE, (blob, [rule.plain() for rule in found]))
        return found

    def _in_order(self, change: Change, rules: Sequence[Rule]) -> bool:
        """Whether receipts by name and the content show that nothing is wrong; False may mean anything."""
        fitting = [rule for rule in rules if rule.fits(change.path)]
        mine = self._vouched(change.blob, fitting, change.path)
        known = mine or (self._vouched(change.before, fitting, change.path) if change.before else [])
        if not known or not change.mode.startswith("100"):
            return False
        data = next(self.index.contents([change.blob]))
        receipts = [receipt for _, receipt in mine]
        return data is not None and not any(self._failure(data, rule.checks, receipts) for rule, _ in known)

    def _vouched(self, blob: str, fitting: Sequence[Rule], path: str) -> list[tuple[Rule, Receipt]]:
        try:
            lines = [line for line in map(decode_receipt, self.index.note_lines(blob)) if line is not None]
        except Unreadable:
            return []  # the reader of all notes says what is wrong with this one
        return [(rule, receipt) for rule in fitting for receipt in vouched(blob, lines, rule, path)]

    # By the plan and all receipts

    def _judge(self, candidates: Sequence[Change], words: Words) -> Iterator[Rejection]:
        changes, outputs = self._outputs(candidates)
        if not changes:
            return
        receipts, merged = self.index.receipts(self.cache), self.index.merged()
        contents = self.index.contents([change.blob for change in changes])
        for change, data in zip(changes, contents, strict=True):
            output = outputs[change.path]
            if data is None or not change.mode.startswith("100"):
                yield words.link(change)
                continue
            every = receipts.of(output.slug, output.stage.name)
            mine = [receipt for receipt in every if names(receipt, output.position, change.blob)]
            failure = self._failure(data, output.checks, mine)
            if failure is not None:
                yield words.content(change, output, failure)
            empty = failure is not None and failure.kind == "empty"
            if not (every or empty or self.index.came_with(merged, change)):
                yield words.no_receipt(change)

    def _outputs(self, candidates: Sequence[Change]) -> tuple[list[Change], dict[str, Output]]:
        """Those changes that are of outputs, and what the plan says of them; none where it is broken."""
        if not candidates:
            return [], {}
        try:
            plan = self.index.plan(self.cache, self.config)
        except ConfigError as error:
            files = "1 staged file is" if len(candidates) == 1 else f"{len(candidates)} staged files are"
            _tell(f"The plan cannot be read as staged, so {files} not checked. {error.problems[0]}")
            return [], {}
        outputs = outputs_at(plan, {change.path for change in candidates})
        return [change for change in candidates if change.path in outputs], outputs

    # Both

    def _failure(self, data: bytes, checks: Checks, mine: Sequence[Receipt]) -> Optional[Failure]:
        """What is wrong with an output's content, given its own receipts; None if nothing is."""
        schema: Value = None
        adopted = any(map(is_adopted, mine))
        if adopted:
            checks = Checks()
        if checks.json_schema is not None:
            schema = self._schema(checks.json_schema)
            if schema is None:
                checks = checks._replace(json=True, json_schema=None)
        failure = check(data, checks, schema)[1]
        if failure is not None:
            return failure
        line = conflict_line(data)
        # What gitstate itself recorded with such lines (an article on git, say) is meant to hold them.
        if line and not (adopted or any(receipt.kind == "done" for receipt in mine)):
            return Failure("conflict", f"Line {line} begins a merge conflict that is not resolved.")
        return None

    def _schema(self, path: str) -> Value:
        """The JSON Schema at `path` as it is staged; None, said once, where it cannot be read."""
        if path not in self.schemas:
            self.schemas[path] = None
            try:
                self.schemas[path] = json.loads(self.index.text(path) or b"")
            except (ValueError, RecursionError):
                _tell(f"{path} cannot be read as staged, so outputs are not compared with that schema.")
        return self.schemas[path]


def _tell(line: str) -> None:
    print(f"gitstate: {line}", file=sys.stderr)
