"""What the pre-commit hook says of a staged file that must not be committed: which, why, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shlex import quote
from typing import NamedTuple, Optional

from gitstate.core.check import Failure
from gitstate.core.staged import Output
from gitstate.edge.staged import Change
from gitstate.show import number, safe


class Rejection(NamedTuple):
    """Why a staged file must not be committed, and what can be done."""

    path: str
    why: str
    todo: tuple[str, ...]


class Words:
    """Rejections in words. `born`: whether there is a commit to restore from."""

    def __init__(self, born: bool) -> None:
        self.unstage = "git restore --staged" if born else "git rm --cached"

    def temporary(self, change: Change) -> Rejection:
        """A temporary file of gitstate's."""
        why = "It is a temporary file of gitstate's, and may hold only a part of a response."
        todo = "Clear up after a run that died: gitstate recover"
        if change.before is None:
            return self._rejection(change, why, todo)
        drop = f"Take it out of the repository: git rm --cached {quote(change.path)}"
        return Rejection(change.path, why, (todo, drop))

    def link(self, change: Change) -> Rejection:
        """A symbolic link or a submodule in the place of an output."""
        return self._rejection(change, "It is a link, and an output is a file of its own.")

    def content(self, change: Change, output: Output, failure: Failure) -> Rejection:
        """An output whose content is not what it must be."""
        # What was a response when it arrived is a file here.
        why = failure.message.replace("he response", "he file", 1)
        return self._rejection(change, why, *_remedies(failure.kind, change, output))

    def no_receipt(self, change: Change) -> Rejection:
        """An output that nobody vouches for."""
        return self._rejection(
            change,
            "It has no receipt, so nothing says that it is complete.",
            f'If it is complete and shall stay as it is: gitstate accept {quote(change.path)} --why "…"',
            "If another machine made it, fetch its receipt: gitstate sync",
        )

    def _rejection(self, change: Change, why: str, *todo: str) -> Rejection:
        leave = f"Leave it out of this commit: {self.unstage} {quote(change.path)}"
        return Rejection(change.path, why, (*todo, leave))


def _remedies(kind: str, change: Change, output: Output) -> Sequence[str]:
    """What can be done about wrong content, apart from leaving it out."""
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
    return [
        f"Correct the file and stage it again: git add {path}",
        f"Or have it made again: gitstate run {work} --redo",
    ]


def show(found: Sequence[Rejection]) -> None:
    """Say all of it, on standard error: `git commit` shows it to whoever commits."""
    count = len({rejection.path for rejection in found})
    as_they_are = "as it is" if count == 1 else "as they are"
    lines = [f"gitstate: This commit is stopped: {number(count, 'staged file')} cannot go in {as_they_are}."]
    last: Optional[str] = None
    for path, why, todo in found:
        if path != last:
            lines += ["", f"  {safe(path)}"]
        lines += [f"    {safe(why)}", *(f"      {safe(line)}" for line in todo)]
        last = path
    print("\n".join(lines), file=sys.stderr)
