"""Hosts that take less than git does, as bare repositories with settings and hooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.clones import git


def hook(bare: Path, name: str, script: str) -> None:
    path = bare / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def hidden(bare: Path) -> None:
    """Keeps everything but branches and tags to itself."""
    for refs in "refs/notes", "refs/gitstate":
        git(bare, "config", "--add", "transfer.hideRefs", refs)


def per_push(bare: Path) -> None:
    """Refuses a push as a whole if it holds anything but branches and tags."""
    hook(
        bare,
        "pre-receive",
        "while read -r _ _ ref; do case $ref in refs/heads/*|refs/tags/*) ;; "
        "*) echo 'branches and tags only' >&2; exit 1 ;; esac; done",
    )


def per_ref(bare: Path) -> None:
    """Refuses each ref that is no branch and no tag."""
    hook(bare, "update", "case $1 in refs/heads/*|refs/tags/*) ;; *) exit 1 ;; esac")


def in_parts(bare: Path) -> None:
    """The same, and cannot push atomically."""
    per_ref(bare)
    git(bare, "config", "receive.advertiseAtomic", "false")


def few(bare: Path) -> None:
    """The same as `per_push`, and takes no more than two refs a push."""
    per_push(bare)
    text = (bare / "hooks/pre-receive").read_text()
    count = (
        'n=0; cat >refs.$$; trap "rm -f refs.$$" EXIT; [ $(wc -l <refs.$$) -le 2 ] || exit 1; exec <refs.$$'
    )
    (bare / "hooks/pre-receive").write_text(text.replace("while", f"{count}\nwhile", 1))


def undeleting(bare: Path) -> None:
    """Lets nothing be deleted, whatever it is."""
    hook(bare, "update", "case $3 in *[!0]*) ;; *) echo 'nothing goes' >&2; exit 1 ;; esac")


def keeping(bare: Path) -> None:
    """The same as `per_ref`, and lets nothing be deleted."""
    per_ref(bare)
    git(bare, "config", "receive.denyDeletes", "true")


def limited(bare: Path, most: int) -> None:
    """Takes that many pushes, and then none any more until the count is removed."""
    hook(
        bare,
        "pre-receive",
        f"echo x >>pushes; [ $(wc -l <pushes) -le {most} ] || {{ echo 'too many pushes' >&2; exit 1; }}",
    )


def protected(bare: Path) -> None:
    """Takes nothing for `main`, unless the file `merging` stands there: as where only merged requests go in."""
    hook(
        bare,
        "update",
        "[ $1 != refs/heads/main ] || [ -e merging ] || { echo 'main is protected' >&2; exit 1; }",
    )


BRANCHES_ONLY: tuple[Callable[[Path], None], ...] = (hidden, per_push, per_ref, in_parts, few, keeping)
