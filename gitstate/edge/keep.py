"""Blobs that are paid for and that no branch holds yet: local refs keep git's clean-up from eating them."""

from __future__ import annotations

from collections.abc import Sequence

from gitstate.edge.git import DURABLE, Git
from gitstate.edge.repo import KEEP


def keep(git: Git, name: str, blobs: Sequence[str]) -> None:
    """Hold `blobs` by refs named after `name`. Repeating it changes nothing."""
    commands = "".join(f"update {KEEP}/{name}-{number} {blob}\n" for number, blob in enumerate(blobs, 1))
    git.run(*DURABLE, "update-ref", "--stdin", stdin=commands.encode())
