"""`gitstate doctor`: what this file system, git and remote can do, tried and not guessed."""

from __future__ import annotations

import time

from gitstate import show
from gitstate.commands.clone import Clone
from gitstate.core import lease
from gitstate.edge import hosting, lock, probe, remote
from gitstate.edge.leases import Leases
from gitstate.edge.probe import Found
from gitstate.edge.remote import Remote
from gitstate.edge.repo import head_branch
from gitstate.errors import CorruptState, GitstateError


def doctor(clone: Clone, *, as_json: bool = False, offline: bool = False) -> int:
    """Returns 0, or 1 where something that gitstate's promises stand on does not work here.

    `offline`: the remote is not asked.
    """
    repository = clone.repository
    found = [
        probe.git_version(clone.git),
        *probe.file_system(repository.state, repository.root),
        *([] if offline else _remote(clone)),
    ]
    if as_json:
        fields = {"format": 1, "found": [each._asdict() for each in found]}
        show.tell_json(fields)
    else:
        rows = [
            [{True: "ok", False: "NO", None: "-"}[each.works], each.name, show.safe(each.words)]
            for each in found
        ]
        for line in show.table(rows):
            show.tell(line)
        if lock.is_held(repository.state):
            show.tell("A run is going on here.")
    return 1 if any(probe.broken(found)) else 0


def _fetching(clone: Clone, there: Remote) -> list[Found]:
    """Whether plain `git fetch` here throws away what was not pushed."""
    return [
        Found(
            "git fetch",
            False,
            f"it puts the notes of {there.name} in the place of receipts that were not pushed. Remove that: "
            f"git config --fixed-value --unset-all remote.{there.name}.fetch '{spec}'",
        )
        for spec in remote.overwriting(clone.git, there)
    ]


def _remote(clone: Clone) -> list[Found]:
    """Whether the remote answers, whether it has receipts, and what it takes."""
    head = head_branch(clone.repository, clone.git)
    there = remote.pick(clone.git, head)
    if there is None:
        words = "there is none; results stay in this clone"
        if names := remote.names(clone.git):
            words = show.alone(head, names)
        return [Found("remote", None, words)]
    try:
        refs = remote.refs(clone.git, there)
    except GitstateError as error:
        return [Found("remote", None, f"{there.name}: {error.message.splitlines()[0]}")]
    notes = sorted(ref for ref in refs if ref != there.branch)
    words = f"has {', '.join(notes)}" if notes else "has no receipts yet"
    found = [Found("remote", True, f"{there.name} answers and {words}"), *_fetching(clone, there)]
    try:
        takes = hosting.look(clone.git, clone.objects, there)
    except GitstateError as error:
        return [*found, Found("pushing", None, error.message.splitlines()[0])]
    return [*found, *hosting.findings(takes, there.name), *_leases(clone, there)]


def _leases(clone: Clone, there: Remote) -> list[Found]:
    """What on the remote keeps runs from claiming: a lease that this version cannot read."""
    try:
        Leases(clone.git, clone.objects, there, clone.config, lease.DEFAULT, time.monotonic).look()
    except CorruptState as error:
        return [Found("claims", False, f"{error.message} {error.hint}")]
    except GitstateError as error:
        return [Found("claims", None, error.message.splitlines()[0])]
    return []
