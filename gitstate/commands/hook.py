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
from shlex import quote
from typing import NamedTuple, Optional

from gitstate.core.check import Failure, check
from gitstate.core.plan import Checks, Value
from gitstate.core.receipt import Receipt, Unreadable, decode_receipt
from gitstate.core.staged import Output, Rule, conflict_line, from_plain, names, outputs_at, rules, vouched
from gitstate.edge.cache import Cache
from gitstate.edge.files import is_temp
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import Repository, find
from gitstate.edge.staged import Change, Index, note_lines
from gitstate.errors import ConfigError, UsageError

CONFIG = "gitstate.yaml"
_USAGE = "gitstate hooks run pre-commit [--config PATH]"
_FEW = 64  # candidates to look up by name; for more, reading all receipts at once is cheaper
_CACHE = "hook"


class Rejection(NamedTuple):
    """Why a staged file must not be committed, and what can be done."""

    path: str
    why: str
    todo: tuple[str, ...]


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
    objects = Objects(git, repository)
    try:
        found = _Hook(repository, git, objects, config).rejections()
    finally:
        objects.close()
    if found:
        _show(found)
    return 1 if found else 0


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

    def __init__(self, repository: Repository, git: Git, objects: Objects, config: str) -> None:
        self.objects, self.config = objects, config
        self.index = Index(repository, git, objects)
        self.cache = Cache(os.path.join(repository.state, "cache"))
        self.schemas: dict[str, Value] = {}
        self.born = True  # whether there is a commit already

    def rejections(self) -> list[Rejection]:
        """All that must not be committed as it is staged."""
        changes, self.born = self.index.staged()
        found, candidates = [], []
        rules = self._rules() if changes else []
        for change in changes:
            if is_temp(change.path):
                found.append(self._temporary(change))
            elif any(rule.fits(change.path) for rule in rules):
                candidates.append(change)
        if len(candidates) <= _FEW:
            candidates = [change for change in candidates if not self._in_order(change, rules)]
        return [*found, *self._judge(candidates)] if candidates else found

    def _temporary(self, change: Change) -> Rejection:
        why = "It is a temporary file of gitstate's, and may hold only a part of a response."
        todo = "Clear up after a run that died: gitstate recover"
        if change.before is None:
            return self._reject(change, why, todo)
        drop = f"Take it out of the repository: git rm --cached {quote(change.path)}"
        return Rejection(change.path, why, (todo, drop))

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
        return data is not None and not any(self._wrong(data, rule.checks, receipts) for rule, _ in known)

    def _vouched(self, blob: str, fitting: Sequence[Rule], path: str) -> list[tuple[Rule, Receipt]]:
        try:
            lines = [line for line in map(decode_receipt, note_lines(self.objects, blob)) if line is not None]
        except Unreadable:
            return []  # the reader of all notes says what is wrong with this one
        return [(rule, receipt) for rule in fitting for receipt in vouched(blob, lines, rule, path)]

    # By the plan and all receipts

    def _judge(self, candidates: Sequence[Change]) -> Iterator[Rejection]:
        try:
            plan = self.index.plan(self.cache, self.config)
        except ConfigError as error:
            files = "1 staged file is" if len(candidates) == 1 else f"{len(candidates)} staged files are"
            _tell(f"The plan cannot be read as staged, so {files} not checked. {error.problems[0]}")
            return
        outputs = outputs_at(plan, {change.path for change in candidates})
        changes = [change for change in candidates if change.path in outputs]
        if not changes:
            return
        receipts, merged = self.index.receipts(self.cache), self.index.merged()
        contents = self.index.contents([change.blob for change in changes])
        for change, data in zip(changes, contents, strict=True):
            output = outputs[change.path]
            if data is None or not change.mode.startswith("100"):
                yield self._reject(change, "It is a link, and an output is a file of its own.")
                continue
            every = receipts.of(output.slug, output.stage.name)
            mine = [receipt for receipt in every if names(receipt, output.position, change.blob)]
            wrong = self._wrong(data, output.checks, mine)
            if wrong is not None:
                yield self._reject(change, wrong.message, *_remedies(wrong.kind, change, output))
            empty = wrong is not None and wrong.kind == "empty"
            if not (every or empty or self.index.came_with(merged, change)):
                why = "It has no receipt, so nothing says that it is complete."
                yield self._reject(change, why, *_remedies("no_receipt", change, output))

    # Both

    def _wrong(self, data: bytes, checks: Checks, mine: Sequence[Receipt]) -> Optional[Failure]:
        """What is wrong with an output's content, given its own receipts; None if nothing is."""
        schema: Value = None
        if checks.json_schema is not None:
            schema = self._schema(checks.json_schema)
            if schema is None:
                checks = checks._replace(json=True, json_schema=None)
        failure = check(data, checks, schema)[1]
        if failure is not None:
            # What was a response when it arrived is a file here.
            return failure._replace(message=failure.message.replace("he response", "he file", 1))
        line = conflict_line(data)
        # What gitstate itself recorded with such lines (an article on git, say) is meant to hold them.
        if line and not any(receipt.kind == "done" for receipt in mine):
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

    def _reject(self, change: Change, why: str, *todo: str) -> Rejection:
        command = "git restore --staged" if self.born else "git rm --cached"
        leave = f"Leave it out of this commit: {command} {quote(change.path)}"
        return Rejection(change.path, why, (*todo, leave))


def _remedies(kind: str, change: Change, output: Output) -> list[str]:
    """What can be done about a rejected output, apart from leaving it out."""
    path, work = quote(change.path), f"{quote(output.slug)} --stage {output.stage.name}"
    if kind == "empty" and change.before is not None:
        return [f"Bring back what is committed: git restore --staged --worktree {path}"]
    if kind == "empty":
        return [f"Have it made, once it is left out: gitstate run {work}"]
    if kind == "conflict":
        return [
            f"Resolve it and stage the file again: git add {path}",
            "If these lines are meant to be there: git commit --no-verify",
        ]
    if kind == "no_receipt":
        return [
            f'If it is complete and shall stay as it is: gitstate accept {path} --why "…"',
            "If another machine made it, fetch its receipt: gitstate sync",
        ]
    return [
        f"Correct the file and stage it again: git add {path}",
        f"Or have it made again: gitstate run {work} --redo",
    ]


def _show(found: Sequence[Rejection]) -> None:
    from gitstate.show import number, safe  # 10 ms, paid only for a rejection

    count = len({rejection.path for rejection in found})
    as_they_are = "as it is" if count == 1 else "as they are"
    _tell(f"This commit is stopped: {number(count, 'staged file')} cannot go in {as_they_are}.")
    for path, why, todo in found:
        print(f"\n  {safe(path)}\n    {safe(why)}", file=sys.stderr)
        for line in todo:
            print(f"      {safe(line)}", file=sys.stderr)


def _tell(line: str) -> None:
    print(f"gitstate: {line}", file=sys.stderr)
