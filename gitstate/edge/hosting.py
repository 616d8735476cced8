"""Trying what a remote takes, with refs of our own that are removed again.

The names are always the same, and so is what they hold: what a killed probe left behind the next one removes, and
two at once do not disturb each other.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple, Optional

from gitstate.edge import gitconfig
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.probe import Found
from gitstate.edge.pushing import put
from gitstate.edge.remote import Remote, address, ask, first_line, last, quiet, settings
from gitstate.edge.repo import RECEIPTS
from gitstate.errors import ComeBackLater, NeedsHuman

_NOTE, _OTHER, _BRANCH = "refs/notes/gitstate-probe", "refs/gitstate/probe", "refs/heads/gitstate/probe"
WITHOUT_LEASES = (
    "Without leases let one machine run at a time, or each its own part: gitstate run --shard 1/2"
)
_LETTER = b"gitstate: trying what this remote takes\n"
_AT_ONCE = 3  # refs that a sync pushes at once: branch, receipts and log


class Takes(NamedTuple):
    """What a remote takes from this clone; None where it gave no answer."""

    notes: Optional[bool] = None  # refs/notes/…
    others: Optional[bool] = None  # refs/gitstate/…
    branches: Optional[bool] = None  # refs/heads/gitstate/…
    at_once: Optional[bool] = None  # as many refs as a sync pushes, all or none
    deleting: Optional[bool] = None  # of such refs
    words: str = ""  # what it said last where it refused something; for people only

    @property
    def anything(self) -> bool:
        """Whether it takes any ref now."""
        return bool(self.notes or self.others or self.branches)


def look(git: Git, objects: Objects, there: Remote) -> Takes:
    """Try it. A remote that takes everything is asked in two pushes. Raises ComeBackLater if it cannot be reached."""
    probe = _Probe(git, objects, there)
    try:
        takes = probe.make()
    finally:
        deleting = probe.clean()
    return takes._replace(deleting=deleting, words=probe.words)


def findings(takes: Takes, name: str) -> list[Found]:
    """What follows from it, for people. A remote that takes less breaks no promise. `name`: of the remote."""
    said = ": " + takes.words.splitlines()[0] if takes.words else ""
    if not takes.anything:
        return [
            Found("pushing", None, f"{name} takes nothing from here now{said}; results stay in this clone")
        ]
    notes = (
        Found("notes", True, f"{name} takes them")
        if takes.notes
        else Found("notes", None, f"{name} refuses them{said}; receipts go to branches below gitstate/ there")
        if takes.branches
        else Found(
            "notes", None, f"{name} refuses them, and such branches{said}; receipts stay in this clone"
        )
    )
    at_once = (
        Found("all or nothing", True, f"{name} takes branch and notes in one push")
        if takes.at_once
        else Found("all or nothing", None, f"{name} does not; notes are pushed first, then the branch")
    )
    where = "" if takes.others else " as branches below gitstate/lease/"
    leases = (
        Found("leases", True, f"{name} takes them{where}: machines may run at once")
        if takes.at_once and (takes.others or takes.branches)
        else Found("leases", None, f"{name} takes none; {WITHOUT_LEASES}")
    )
    deleting = (
        Found("deleting refs", True, f"{name} lets them be deleted")
        if takes.deleting
        else Found(
            "deleting refs",
            None,
            f"{name} does not; gitstate/probe stays there, and so do pauses and leases, emptied",
        )
    )
    return [notes, at_once, leases, deleting]


def require_atomic(git: Git, remote: Remote) -> None:
    """Raise ComeBackLater unless the remote takes pushes that are all or nothing. Asked once; then it is known.

    Only such a push is fenced. Nothing is changed there.
    """
    key, known = f"gitstate.{remote.label}.atomic", settings(git)
    if last(known, key) == address(known, remote):
        return
    done = git.run(
        *(
            "push",
            "--quiet",
            "--dry-run",
            "--atomic",
            "--no-verify",
            "--",
            remote.name,
            f"+HEAD:{_OTHER}",  # (by force: where no ref can be deleted, an earlier probe's stands there)
        ),
        env=quiet(),
        check=False,
        interruptible=True,
    )
    if done.code:
        ask(git, remote, (RECEIPTS,))
        raise ComeBackLater(
            f"{remote.name} does not take pushes that are all or nothing (git push --atomic), so nothing could be "
            f"fenced: {first_line(done)}",
            WITHOUT_LEASES,
        )
    gitconfig.change(git, "--replace-all", key, address(known, remote))


def require_same(git: Git, objects: Objects, there: Remote) -> None:
    """Raise NeedsHuman where the remote's `pushurl` leads to another repository than its `url`, as to a fork: what goes
    there never comes back, and no lease is ever seen to be held. Asked once, and only where there is a `pushurl`.

    Where it takes nothing now, nothing is said: its next push tells why. Raises ComeBackLater if it cannot be reached.
    """
    known = settings(git)
    fetched, pushed = address(known, there), known.get(f"remote.{there.name}.pushurl", [])
    key, found = f"gitstate.{there.label}.pushes", " ".join((fetched, *pushed))
    if set(pushed) <= {fetched} or last(known, key) == found:
        return
    oid = objects.letter(_LETTER)
    for kind in (_OTHER, _BRANCH):
        ref = f"{kind}-{secrets.token_hex(4)}"  # one's own: that another is at it, too, must not mislead
        said, _ = put(git, there, {ref: oid})
        if not said.get(ref):
            continue
        came = ask(git, there, [ref])
        put(git, there, {ref: None})
        if not came:
            raise NeedsHuman(
                f"What is pushed to {there.name} does not come back from it: remote.{there.name}.pushurl is another "
                "repository than its url, so nobody could agree through it. Nothing was begun.",
                f"Push to where you fetch from: git config --unset-all remote.{there.name}.pushurl. Or make the other "
                "one a remote of its own, and your branch's upstream: git remote add fork URL; git push -u fork HEAD.",
            )
        gitconfig.change(git, "--replace-all", key, found)
        return


class _Probe:
    def __init__(self, git: Git, objects: Objects, there: Remote) -> None:
        self._git, self._there = git, there
        self._oid = objects.letter(_LETTER)
        self.words = ""
        self.clean()

    def make(self) -> Takes:
        if all(self._put(_NOTE, _OTHER, _BRANCH)):
            return Takes(True, True, True, True)
        (note,), (other,), (branch,) = self._put(_NOTE), self._put(_OTHER), self._put(_BRANCH)
        if branch and note is False:
            (note,) = self._put(
                _NOTE
            )  # a remote that takes no more pushes for a while may do so again by now
        if note and other and branch:
            return Takes(note, other, branch, False)  # each, but not all at once
        kind = _BRANCH if branch else _NOTE if note else ""
        several = self._put(*(f"{kind}-{number}" for number in range(_AT_ONCE))) if kind else [None]
        return Takes(note, other, branch, all(several) if kind else None)

    def _put(self, *names: str) -> list[Optional[bool]]:
        said, words = put(self._git, self._there, dict.fromkeys(names, self._oid), atomic=len(names) > 1)
        self.words = words or self.words
        return [said.get(name) for name in names]

    def clean(self) -> Optional[bool]:
        """Remove what stands there of this or an earlier probe; whether that can be done (None: nothing stood)."""
        names = [
            kind + number
            for kind in (_NOTE, _OTHER, _BRANCH)
            for number in ("", *(f"-{number}" for number in range(_AT_ONCE)))
        ]
        stood = self._standing(names)
        if not stood:
            return None
        put(self._git, self._there, dict.fromkeys(stood))
        left = self._standing(stood)
        for name in left:
            _, self.words = put(self._git, self._there, {name: None})
        return not (left and self._standing(left))

    def _standing(self, names: list[str]) -> list[str]:
        return list(ask(self._git, self._there, names))
