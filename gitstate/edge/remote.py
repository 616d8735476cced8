"""Asking the remote: which one it is, what it has, and what is fetched of it.

What happened is read from exit codes and refs, never from the words of a message: those are for people.
Nothing here moves a local branch or local notes.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gitstate.edge import gitconfig, tracking
from gitstate.edge.git import DURABLE, Done, Git, failed
from gitstate.edge.repo import (
    LEASE_HEADS,
    LEASES,
    LOG,
    NOTE_HEADS,
    PAUSE_HEADS,
    PAUSES,
    RECEIPTS,
    TRACKED,
    TRACKED_LEASES,
    TRACKED_PAUSE_HEADS,
    TRACKED_PAUSES,
    TRACKING,
)
from gitstate.edge.tracking import Broken
from gitstate.errors import Away, CorruptState, UsageError

HEADS = "refs/heads/"
_RESERVED = HEADS + "gitstate/"

# A fetch that asks only for what we named. `--refmap=` ignores the configured refspecs: one like
# `+refs/notes/*:refs/notes/*` would otherwise overwrite unpushed receipts in passing. One pack, not loose
# objects, because git fsyncs packs whatever its settings.
FETCH = (
    *DURABLE,
    *("-c", "fetch.unpackLimit=1", "-c", "gc.auto=0", "-c", "maintenance.auto=false"),
    *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
    *("--no-auto-maintenance", "--refmap="),
)
_FETCH_TRIES = 3
_LONGEST = 5.0  # seconds between two tries to push
_MENDINGS = 2  # how often tracking refs are forgotten because what they name is not here
_REF_NAME = re.compile(r"(?!.*(?:\.\.|//|\.lock(?:/|$)|/\.))[A-Za-z0-9_][A-Za-z0-9._/-]*(?<![./])")

Settings = Mapping[str, Sequence[str]]


class Home(NamedTuple):
    """The refs in which a remote keeps what is noted."""

    receipts: str
    log: str


NOTES = Home(RECEIPTS, LOG)
BRANCHES = Home(NOTE_HEADS, NOTE_HEADS + "-log")  # on a host that takes nothing but branches and tags
HOMES = (NOTES, BRANCHES)


class Remote(NamedTuple):
    """Where this clone fetches from and pushes to."""

    name: str  # as configured; a URL where the branch's upstream is one
    branch: str  # the remote's ref for our branch, refs/heads/…; "" for no branch (detached HEAD): notes only
    elsewhere: str = ""  # the remote that plain `git push` is configured to use, where it is another
    seen: bool = False  # a fetch of ours from this address has succeeded before
    set_up: bool = False  # plain `git fetch` brings the notes

    @property
    def label(self) -> str:
        """The name as a part of ref names; a URL has a digest of itself there."""
        if _REF_NAME.fullmatch(self.name):
            return self.name
        return "url-" + hashlib.blake2s(os.fsencode(self.name), digest_size=6).hexdigest()

    @property
    def tracked_branch(self) -> str:
        """The local ref that holds what the remote's branch was when last fetched or pushed; "" for none."""
        return f"refs/remotes/{self.label}/{self.branch[len(HEADS) :]}" if self.branch else ""

    def tracked(self, ref: str) -> str:
        """The local ref that holds what `ref` (branch; receipts, log of either home) is on the remote."""
        if ref == self.branch:
            return self.tracked_branch
        if ref in BRANCHES:
            return f"{TRACKING}/{self.label}/heads/notes{ref[len(NOTE_HEADS) :]}"
        return f"{TRACKING}/{self.label}/notes{ref[len(RECEIPTS) :]}"


class Fetched(NamedTuple):
    """What the remote has; None for a ref that it does not have.

    Its home for notes is the branches as soon as there are any, for somebody had to make them: so the remote itself
    remembers what it refused, for every clone, and nothing that could grow old is kept here.
    """

    branch: str | None
    receipts: str | None
    log: str | None
    home: Home = NOTES  # the one that `receipts` and `log` are of; what the other one has is fetched, too


def settings(git: Git) -> dict[str, list[str]]:
    """Every `branch.*`, `remote.*` and `gitstate.*` setting, in one process; key → values, last one wins."""
    done = git.run("config", "-z", "--get-regexp", r"^(branch|remote|gitstate)\.", check=False)
    found: dict[str, list[str]] = {}
    for entry in os.fsdecode(done.out).split("\0")[:-1]:
        key, _, value = entry.partition("\n")
        found.setdefault(key, []).append(value)
    return found


def pick(git: Git, branch: str | None) -> Remote | None:
    """The remote that `branch` (full ref, or None on a detached HEAD) is synced with; None: there is none.

    That of the branch's upstream, else the only one that there is or `origin`, as git itself chooses, under the
    branch's own name. An upstream inside this repository ("." in git's words) counts as no upstream.
    Raises UsageError where the upstream is not a branch.
    """
    known = settings(git)
    short = branch[len(HEADS) :] if branch else ""
    name = last(known, f"branch.{short}.remote")
    merge = last(known, f"branch.{short}.merge") or branch or ""
    if not name or name == ".":
        there = _names(known)
        name, merge = there[0] if len(there) == 1 else "origin", branch or ""
        if name not in there:
            return None
    if merge and not merge.startswith(HEADS):
        raise UsageError(
            f"The upstream of {short} is {merge} of {name}, no branch, so nothing can be pushed to it.",
            f"Give it one: git branch --set-upstream-to=REMOTE/BRANCH {short}",
        )
    if merge.startswith(_RESERVED):
        raise UsageError(
            f"Branches of {name} that begin with gitstate/ are for gitstate's own notes, leases and pauses; "
            f"{merge[len(HEADS) :]} cannot hold results.",
            "Record on another one: gitstate run --branch NAME",
        )
    pushes_to = last(known, f"branch.{short}.pushremote") or last(known, "remote.pushdefault")
    remote = Remote(name, merge, pushes_to if pushes_to != name else "")
    return remote._replace(
        seen=last(known, f"gitstate.{remote.label}.fetched") == address(known, remote),
        set_up=set(_notes_refspecs(remote)) <= set(known.get(f"remote.{name}.fetch", [])),
    )


def names(git: Git) -> list[str]:
    """The remotes that are configured."""
    return _names(settings(git))


def _names(known: Mapping[str, list[str]]) -> list[str]:
    urls = (key for key in known if key.startswith("remote.") and key.endswith(".url") and last(known, key))
    return sorted(key[len("remote.") : -len(".url")] for key in urls)


def setup_fetch(git: Git, remote: Remote) -> bool:
    """Make plain `git fetch` and `git pull` bring the notes into their tracking refs. True if that was news.

    Globs, because any other refspec breaks `git pull` while the remote has no such notes yet. A remote without
    any refspec is left alone: those for notes would be its only ones.
    """
    if remote.set_up:
        return False
    specs = settings(git).get(f"remote.{remote.name}.fetch", [])
    lacking = [spec for spec in _notes_refspecs(remote) if spec not in specs] if specs else []
    for spec in lacking:
        gitconfig.change(git, "--add", f"remote.{remote.name}.fetch", spec)
    return bool(lacking)


def overwriting(git: Git, remote: Remote) -> list[str]:
    """The refspecs of the remote by which plain `git fetch` puts its notes in the place of this clone's, by force: what
    was not pushed yet is then in no ref any more."""
    found = []
    for spec in settings(git).get(f"remote.{remote.name}.fetch", []):
        target = spec.partition(":")[2]
        stem, star, _ = target.partition("*")
        hit = any(note.startswith(stem) if star else note == target for note in NOTES)
        if spec.startswith("+") and target and hit:
            found.append(spec)
    return found


def fetched_before(git: Git, remote: Remote) -> bool:
    """Whether this clone has ever seen this remote's receipts, or seen that it had none.

    Tracking refs show it (whoever fetched them), and so does the mark that `fetch` leaves in the
    configuration together with the remote's address: another one was never seen. `remote` as `pick` gave it.
    """
    tracked = [remote.tracked(home.receipts) for home in HOMES]
    return remote.seen or bool(git.run("for-each-ref", "--format=%(refname)", *tracked).out)


def home(git: Git, remote: Remote) -> Home:
    """The remote's home for notes, as of the last fetch; see `Fetched`."""
    return BRANCHES if git.run("for-each-ref", *map(remote.tracked, BRANCHES)).out else NOTES


def fetch(git: Git, remote: Remote, say: Callable[[str], None] = lambda _: None) -> Fetched:
    """Bring branch and notes into their tracking refs, which then say what the remote has and no more.

    Neither deepens a shallow clone nor leaves blobs of notes out in a partial one. The remote's having
    no such branch, no notes or nothing at all is an answer, not a failure. Tracking refs whose objects a power cut
    has lost are forgotten and fetched again, of which `say` is told.
    Raises ComeBackLater if the remote cannot be reached, GitFailed if it can and fetching still fails,
    CorruptState where what it sends is not whole.
    """
    names = {ref: remote.tracked(ref) for ref in _ours(remote)}
    specs = [*_notes_refspecs(remote), *_pauses_refspecs(remote), *_lease_refspecs(remote)]
    with_branch = bool(remote.branch)
    if with_branch:
        specs.append(f"+{remote.branch}:{remote.tracked_branch}")
    tries = mended = 0
    while True:
        # Where asking as usual did not bring it, nothing that is here is offered as known.
        how = "--refetch" if mended == _MENDINGS else "--no-filter"
        done = git.run(
            *FETCH, how, "--prune", "--", remote.name, *specs, env=quiet(), check=False, interruptible=True
        )
        held, lost = tracking.look(git, [*names.values()], remote.branch)
        if not done.code and not lost:
            _mark_fetched(git, remote)
            tips = {ref: held.get(name) for ref, name in names.items()}
            where = BRANCHES if any(tips[ref] for ref in BRANCHES) else NOTES
            branch = tips[remote.branch] if with_branch else None
            return Fetched(branch, tips[where.receipts], tips[where.log], where)
        there = refs(git, remote) if done.code else {}
        if lost and mended < _MENDINGS:
            mended += 1
            _forget(git, lost, say)
        elif not done.code:
            raise _not_whole(remote, lost)
        elif with_branch and remote.branch not in there:
            with_branch = False
            specs.pop()  # asking for one absent ref by name fails the whole fetch
        elif tries == _FETCH_TRIES - 1:
            raise failed(("fetch", remote.name, *specs), done)
        else:
            tries += 1
            if not tracking.clear_locks(git.common_dir, [*names.values()], _folders(remote)):
                pause(tries - 1)  # another fetch in this clone was at work, or the line broke


def fetch_pauses(git: Git, remote: Remote) -> None:
    """Bring the pauses alone. Raises ComeBackLater if the remote cannot be reached."""
    _fetch_alone(git, remote, _pauses_refspecs(remote))


def fetch_leases(git: Git, remote: Remote) -> None:
    """Bring the leases alone. Raises ComeBackLater if the remote cannot be reached."""
    _fetch_alone(git, remote, _lease_refspecs(remote))


def _fetch_alone(git: Git, remote: Remote, specs: Sequence[str]) -> None:
    for attempt in range(_FETCH_TRIES):
        done = git.run(
            *FETCH, "--prune", "--", remote.name, *specs, env=quiet(), check=False, interruptible=True
        )
        if not done.code:
            return
        ask(git, remote, (RECEIPTS,))
        if not tracking.clear_locks(git.common_dir, (), _folders(remote)):
            pause(attempt)  # what was listed may be gone when it is asked for
    raise failed(("fetch", remote.name), done)


def refs(git: Git, remote: Remote) -> dict[str, str]:
    """What the remote has right now, of branch, receipts and log: ref → object id. Raises ComeBackLater."""
    return ask(git, remote, _ours(remote))


def _ours(remote: Remote) -> list[str]:
    return [ref for ref in (remote.branch, *NOTES, *BRANCHES) if ref]


def ask(git: Git, remote: Remote, wanted: Sequence[str]) -> dict[str, str]:
    """What the remote has right now of the refs `wanted` (full names): ref → object id. Raises ComeBackLater."""
    done = git.run(
        "ls-remote", "--quiet", "--", remote.name, *wanted, env=quiet(), check=False, interruptible=True
    )
    if done.code:
        raise Away(
            f"The remote {remote.name} is out of reach: {first_line(done)}",
            "What is finished here is safe; `gitstate sync` delivers it once the remote answers.",
        )
    pairs = (line.split("\t", 1) for line in os.fsdecode(done.out).splitlines())
    return {ref: oid for oid, ref in pairs if ref in wanted}


def pause(attempt: int, longest: float = 5.0) -> None:
    """Wait a random while that grows with the number of attempts, so that two who collided do not again."""
    time.sleep(random.random() * min(longest, 0.05 * 2**attempt))  # noqa: S311 (no secret)


def give_way(races: int, took: float) -> None:
    """Wait a random while after `races` in a row were lost, the last of which `took` so many seconds.

    Of many who push at once one comes through in that time, so it is the measure, and more of them take longer. It
    grows slowly: who waits much longer than those who come later loses to them again and again.
    """
    time.sleep(random.random() * min(_LONGEST, took * (races + 1) / 2))  # noqa: S311 (no secret)


def _notes_refspecs(remote: Remote) -> list[str]:
    return [f"+{home.receipts}*:{remote.tracked(home.receipts)}*" for home in HOMES]


def _pauses_refspecs(remote: Remote) -> list[str]:
    return [
        f"+{PAUSES}/*:{TRACKED_PAUSES}/{remote.label}/*",
        f"+{PAUSE_HEADS}/*:{TRACKED_PAUSE_HEADS}/{remote.label}/*",
    ]


def _lease_refspecs(remote: Remote) -> list[str]:
    folder = f"{TRACKED_LEASES}/{remote.label}"
    return [f"+{LEASES}/*:{folder}/own/*", f"+{LEASE_HEADS}/*:{folder}/heads/*"]


def _folders(remote: Remote) -> list[str]:
    """Below which all the tracking refs of a remote are but that of its branch."""
    return [f"{top}/{remote.label}" for top in TRACKED]


def _forget(git: Git, lost: Sequence[Broken], say: Callable[[str], None]) -> None:
    tracking.clear_locks(git.common_dir, [ref for ref, _ in lost])
    if gone := tracking.forget(git, lost):
        say(
            f"What {' and '.join(gone)} named is not whole here, as after a power cut: "
            "forgotten, and fetched again."
        )


def _not_whole(remote: Remote, lost: Sequence[Broken]) -> CorruptState:
    return CorruptState(
        f"{remote.name} gives {' and '.join(ref for ref, _ in lost)}, and not all that belongs to it.",
        "Look with `git fsck`, here and on the remote.",
    )


def _mark_fetched(git: Git, remote: Remote) -> None:
    if not remote.seen:
        key = f"gitstate.{remote.label}.fetched"
        gitconfig.change(git, "--replace-all", key, address(settings(git), remote))


def address(known: Settings, remote: Remote) -> str:
    """The URL that a remote has in these settings: what was found out about it holds for that alone."""
    return last(known, f"remote.{remote.name}.url") or remote.name


def last(known: Settings, key: str) -> str:
    """The setting that counts; "" for none."""
    return known[key][-1] if known.get(key) else ""


def quiet() -> dict[str, str]:
    """No questions for a password where nobody sits in front of it."""
    try:
        asked = sys.stdin is not None and sys.stdin.isatty()
    except ValueError:
        asked = False
    return {} if asked else {"GIT_TERMINAL_PROMPT": "0"}


def first_line(done: Done) -> str:
    """What git said first, for people."""
    lines = [line for line in done.err.splitlines() if line.strip()]
    return lines[0].strip() if lines else f"exit code {done.code}"
