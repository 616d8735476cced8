"""Our commits: in whose name, with which message, signed and shown to the commit-msg hook where wanted."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Optional

from gitstate.edge.git import DURABLE, Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import Repository
from gitstate.errors import NeedsHuman, UsageError

# The zone is whatever git makes of it: from 2100 on it prints one that no clock shows.
_IDENT = re.compile(rb"(.*>) -?\d+ [+-]?[-\d]+", re.DOTALL)
_DATES = {"GIT_AUTHOR_IDENT": "GIT_AUTHOR_DATE", "GIT_COMMITTER_IDENT": "GIT_COMMITTER_DATE"}


class Author:
    """Makes commit objects. UsageError where git does not know the user."""

    def __init__(self, git: Git, repository: Repository, objects: Objects, sign: bool) -> None:
        self._git, self._objects, self._sign = git, objects, sign
        self._author = _ident(git, "GIT_AUTHOR_IDENT")
        self._committer = _ident(git, "GIT_COMMITTER_IDENT")
        self._fixed = ("GIT_AUTHOR_DATE" in git.env, "GIT_COMMITTER_DATE" in git.env)  # else: when it is made
        self._root = repository.root
        self._message = os.path.join(repository.state, "commit-message")

    @cached_property
    def _hook(self) -> str:
        hooks = self._git.text("rev-parse", "--git-path", "hooks")
        return os.path.join(self._root, hooks, "commit-msg")

    def message(self, subject: str, trailers: Sequence[str]) -> bytes:
        """The message of a commit on the user's branch. NeedsHuman if the commit-msg hook refuses it."""
        text = "".join(f"{' '.join(line.split())}\n" for line in (subject, *trailers))
        head, _, rest = text.partition("\n")
        message = f"{head}\n\n{rest}" if rest else text
        data = message.encode("utf-8", "replace")
        return self._asked(data) if os.access(self._hook, os.X_OK) else data

    def _asked(self, message: bytes) -> bytes:
        """The message as the commit-msg hook leaves it."""
        os.makedirs(os.path.dirname(self._message), exist_ok=True)
        with open(self._message, "wb") as file:
            file.write(message)
        try:
            # (what a hook finds where git itself commits without an editor)
            done = self._git.run(
                "hook", "run", "commit-msg", "--", self._message, env={"GIT_EDITOR": ":"}, check=False
            )
            if done.code:
                raise NeedsHuman(
                    f"The commit-msg hook refused gitstate's commit: {_words(done.err, done.code)}",
                    f"The results are safe. Let {self._hook} accept messages like the one of this try.",
                )
            with open(self._message, "rb") as file:
                lines = [line.rstrip() for line in file.read().strip().split(b"\n")]
        finally:
            os.unlink(self._message)
        if not any(lines):
            raise NeedsHuman(
                "The commit-msg hook left an empty message.", "The results are safe. Mend the hook."
            )
        return b"\n".join(lines) + b"\n"

    def commit(self, tree: str, parents: Sequence[str], message: bytes) -> str:
        """Write a commit without a signature (notes never have one, git's own neither); returns its id."""
        head = "".join([f"tree {tree}\n", *(f"parent {parent}\n" for parent in parents)]).encode("ascii")
        now = b" %d %s" % (int(time.time()), time.strftime("%z").encode("ascii"))
        author = self._author[0] + (self._author[1] if self._fixed[0] else now)
        committer = self._committer[0] + (self._committer[1] if self._fixed[1] else now)
        return self._objects.write(
            "commit", b"%sauthor %s\ncommitter %s\n\n%s" % (head, author, committer, message)
        )

    def commit_on_branch(self, tree: str, parent: Optional[str], message: bytes) -> str:
        """Write a commit for the user's branch, signed where commit.gpgsign says so; returns its id.
        Raises NeedsHuman if it cannot be signed."""
        parents = [parent] if parent else []
        if not self._sign:
            return self.commit(tree, parents, message)
        args = [word for one in parents for word in ("-p", one)]
        done = self._git.run(
            *DURABLE, "-c", "i18n.commitEncoding=UTF-8", "commit-tree", "-S", *args, "-F", "-", tree,
            stdin=message, check=False,
        )  # fmt: skip
        if done.code:
            raise NeedsHuman(
                f"git could not sign the commit: {_words(done.err, done.code)}",
                "The results are safe. Unlock the key and run again, or unset commit.gpgsign.",
            )
        oid = done.out.decode("ascii").strip()
        self._objects.rely(oid)
        return oid


def _ident(git: Git, name: str) -> tuple[bytes, bytes]:
    """`Name <email>` and ` DATE ZONE` as git knows them."""
    done = git.run("var", name, check=False)
    found = _IDENT.fullmatch(done.out.strip())
    if done.code and "invalid date" in done.err and (date := git.env.get(_DATES[name])):
        raise UsageError(
            f"git does not take {_DATES[name]}={date} for a date: {_words(done.err, done.code)}",
            f"Unset it, or write it as seconds since 1970: {_DATES[name]}='@SECONDS +0000'",
        )
    if done.code or not found:
        raise UsageError(
            f"git does not know in whose name to commit: {_words(done.err, done.code)}",
            'Tell it: git config user.name "Your Name" && git config user.email you@example.com',
        )
    return found[1], done.out.strip()[len(found[1]) :]


def _words(text: str, code: int) -> str:
    """What a command said, as one line."""
    return " / ".join(line.strip() for line in text.splitlines() if line.strip()) or f"exit code {code}"
