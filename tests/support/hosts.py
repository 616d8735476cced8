"""Hosts that take less than git does, as bare repositories with settings and hooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.clones import Bare, git


def hook(bare: Path, name: str, script: str) -> None:
    path = bare / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def hidden(bare: Bare) -> None:
    """Keeps everything but branches and tags to itself."""
    for refs in "refs/notes", "refs/gitstate":
        git(bare.path, "config", "--add", "transfer.hideRefs", refs)


def per_push(bare: Bare) -> None:
    """Refuses a push as a whole if it holds anything but branches and tags."""
    hook(
        bare.path,
        "pre-receive",
        "while read -r _ _ ref; do case $ref in refs/heads/*|refs/tags/*) ;; "
        "*) echo 'branches and tags only' >&2; exit 1 ;; esac; done",
    )


def per_ref(bare: Bare) -> None:
    """Refuses each ref that is no branch and no tag."""
    hook(bare.path, "update", "case $1 in refs/heads/*|refs/tags/*) ;; *) exit 1 ;; esac")


def in_parts(bare: Bare) -> None:
    """The same, and cannot push atomically."""
    per_ref(bare)
    git(bare.path, "config", "receive.advertiseAtomic", "false")


def few(bare: Bare) -> None:
    """The same as `per_push`, and takes no more than two refs a push."""
    per_push(bare)
    text = (bare.path / "hooks/pre-receive").read_text()
    count = (
        'n=0; cat >refs.$$; trap "rm -f refs.$$" EXIT; [ $(wc -l <refs.$$) -le 2 ] || exit 1; exec <refs.$$'
    )
    (bare.path / "hooks/pre-receive").write_text(text.replace("while", f"{count}\nwhile", 1))


def keeping(bare: Bare) -> None:
    """The same as `per_ref`, and lets nothing be deleted."""
    per_ref(bare)
    git(bare.path, "config", "receive.denyDeletes", "true")


def limited(bare: Bare, most: int) -> None:
    """Takes that many pushes, and then none any more until the count is removed."""
    hook(
        bare.path,
        "pre-receive",
        f"echo x >>pushes; [ $(wc -l <pushes) -le {most} ] || {{ echo 'too many pushes' >&2; exit 1; }}",
    )


BRANCHES_ONLY: tuple[Callable[[Bare], None], ...] = (hidden, per_push, per_ref, in_parts, few, keeping)
