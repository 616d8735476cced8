"""Agreeing with the remote: fetch, merge, push, and again until both have the same.

Notes are merged by the union of their lines, which never conflicts and loses nothing; the branch is brought
forward (`edge.branch`). Every step may be the last one of this process: the next sync goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gitstate.edge import hosting, notes, pushing, remote, tracking
from gitstate.edge.author import Author
from gitstate.edge.branch import Way, bring_forward, compare_and_swap, users_commits
from gitstate.edge.git import Git
from gitstate.edge.history import contains, count, shared
from gitstate.edge.objects import Objects
from gitstate.edge.partial import fetch_missing
from gitstate.edge.pushing import Answer, Pushed
from gitstate.edge.remote import BRANCHES, HOMES, NOTES, Fetched, Remote
from gitstate.edge.reparent import Choose, Lost, theirs_stays
from gitstate.edge.repo import LOG, RECEIPTS, Repository
from gitstate.errors import ComeBackLater, NeedsHuman

_RACES = 40  # lost in one sync: of so many who push at once all come through
_PUT_OFF = 2  # lost races after which who need not insist does not
_FUTILE = 8  # other pushes that failed in one sync
_SWAPS = 8  # tries to move a ref of this clone
_STUBBORN = 3  # rejections in a row, with nothing moved on the remote, that are no race any more
_PATIENCE = 3  # steps by which the pause is longer after each: the remote may take no more for a moment


# Pushes the updates (ref → object id) and tells how that ended. With whether the remote lets refs be deleted.
Send = Callable[[Mapping[str, str], bool], Pushed]


class Amount(NamedTuple):
    """How much went one way: commits, and objects whose notes changed."""

    commits: int = 0
    receipts: int = 0
    log: int = 0


class Outcome(NamedTuple):
    """What a sync did."""

    remote: Remote | None = None  # None: there is none, nothing was done
    offline: bool = False  # only what an earlier fetch had brought was merged
    way: Way | None = None  # how the branch stood at first; None: no branch was synced
    came: Amount = Amount()
    went: Amount = Amount()
    users_commits: int = 0  # of the commits that went, those that gitstate did not make
    made_branch: bool = False  # the remote did not have the branch before
    replaced: tuple[str, ...] = ()  # commits of ours that became one on the remote's tip
    lost: tuple[Lost, ...] = ()  # outputs of ours that did not stay; for the caller to keep and log
    pushes: int = 0  # how many it took
    put_off: bool = False  # others were faster, and it was not to insist: what is finished here was not sent


def sync(
    git: Git,
    repository: Repository,
    objects: Objects,
    branch: str | None,
    *,
    push: bool = True,
    offline: bool = False,
    insist: bool = True,
    choose: Choose = theirs_stays,
    say: Callable[[str], None] = lambda _: None,
    send: Send | None = None,
    fetch: Callable[[], Fetched] | None = None,
) -> Outcome:
    """Bring `branch` (full ref; None: notes only) and notes of this clone and its remote together.

    Without a remote it does nothing. `offline` merges what was fetched before and touches no network.
    Without `insist` it gives up for now where others are faster several times in a row.
    `say` is told, in a sentence, of what had to be mended on the way. `send` pushes the updates in place of
    `pushing.push`: `Leases.push` with what fences them; `fetch` fetches in place of `remote.fetch`: `Leases.fetch`.
    Raises ComeBackLater if the remote is away or too busy (all results are safe here), NeedsHuman where a
    person must decide; notes that came are then merged already.
    """
    there = remote.pick(git, branch)
    if there is None:
        return Outcome()
    if offline:
        tracked = [there.tracked(ref) for home in HOMES for ref in home]
        for broken in tracking.look(git, tracked, "").broken:
            raise tracking.unreadable(*broken)  # (what a fetch brings it has looked at itself)
        return Outcome(there, True, came=merge_notes(git, repository, objects, there))
    outcome, tries, manner = Outcome(there), Tries(), Manner()
    while True:
        tries.begin()
        fetched = manner.home_of(fetch() if fetch else remote.fetch(git, there, say))
        remote.setup_fetch(git, there)
        tries.weigh(fetched)
        if tries.refused >= (1 if manner.tried else _STUBBORN):
            manner = _otherwise(git, objects, there, fetched, tries.pushed, manner, fenced=send is not None)
            fetched, tries.refused = manner.home_of(fetched), 0
        outcome = _merge(git, repository, objects, branch, fetched, choose, outcome)
        updates = _due(objects, there, branch, fetched)
        if not push or not updates:
            return outcome
        if tries.lost >= _PUT_OFF and not insist:
            return outcome._replace(put_off=True)
        tries.require_more(there)
        users, went = _weigh(git, objects, there, fetched, updates)
        if send is not None:
            pushed = send(updates, manner.deletes)
        else:
            pushed = pushing.push(git, there, updates, atomic=manner.atomic)
        outcome = outcome._replace(pushes=outcome.pushes + 1)
        if pushed.answer is Answer.APPLIED:
            made = there.branch in updates and fetched.branch is None
            return outcome._replace(went=went, users_commits=users, made_branch=made)
        if pushed.answer is Answer.HOOK:
            raise NeedsHuman(
                f"This clone's pre-push hook refused, so nothing was sent.\n{pushed.words}".rstrip(),
                "Settle what it asks for, then run `gitstate sync`. What is finished is safe here.",
            )
        if pushed.answer is Answer.UNCLEAR:
            # A remote that cannot do it atomically gives no answer for any ref.
            manner = manner._replace(atomic=False)
        tries.failed(pushed, fetched)


class Tries:
    """The pushes of one sync that failed, by why they did."""

    def __init__(self) -> None:
        self.lost = 0  # because others were faster
        self.futile = 0  # otherwise
        self.refused = 0  # turned away, in a row, although nobody else had pushed
        self.pushed = Pushed(Answer.APPLIED)  # how the last one ended
        self._before: Fetched | None = None  # what the remote had before it
        self._began = 0.0

    def begin(self) -> None:
        """Another try begins."""
        self._began = time.monotonic()

    def failed(self, pushed: Pushed, before: Fetched) -> None:
        """A push has failed, before which the remote had `before`: wait a while."""
        self.pushed, self._before = pushed, before
        if self.futile:
            remote.pause(self.futile + _PATIENCE * self.refused)
        else:
            remote.give_way(self.lost, time.monotonic() - self._began)

    def weigh(self, fetched: Fetched) -> None:
        """What the remote has now tells why the last push failed."""
        if self._before is None:
            return
        rejected = self.pushed.answer is Answer.REJECTED
        if rejected and fetched != self._before:
            self.lost, self.refused = self.lost + 1, 0
        else:
            self.futile, self.refused = self.futile + 1, self.refused + 1 if rejected else 0

    def require_more(self, there: Remote) -> None:
        """Raise ComeBackLater after so many that another one makes no sense now."""
        if self.lost >= _RACES or self.futile >= _FUTILE:
            raise ComeBackLater(
                f"{there.name} did not take what is finished here in {self.lost + self.futile} tries.\n"
                f"{self.pushed.words}".rstrip(),
                "It is safe here; `gitstate sync` delivers it.",
            )


class Manner(NamedTuple):
    """How one sync pushes."""

    atomic: bool = True  # all or none
    deletes: bool = True  # refs of leases go when they are given back
    branches: bool = False  # notes go to branches although there are none yet
    tried: bool = False  # what the remote takes has been tried

    def home_of(self, fetched: Fetched) -> Fetched:
        """What was fetched, as seen from where notes are to go."""
        if self.branches and fetched.home is not BRANCHES:
            return Fetched(fetched.branch, None, None, BRANCHES)
        return fetched


def _otherwise(
    git: Git,
    objects: Objects,
    there: Remote,
    fetched: Fetched,
    pushed: Pushed,
    manner: Manner,
    fenced: bool,
) -> Manner:
    """How to push what a remote refuses, although nothing moved there: as it takes it, which is tried.

    Nothing of this is remembered: a remote that notes had to go to as branches shows it by having them, and what it
    refuses today it may take tomorrow. Raises ComeBackLater if it takes nothing at all now, as where it limits how
    often somebody pushes; NeedsHuman if it refuses these refs, not the manner.
    """
    takes = hosting.look(git, objects, there)
    if not takes.anything:
        raise ComeBackLater(
            f"{there.name} takes nothing from this clone at the moment{_said(pushed.words or takes.words)}.",
            "What is finished is safe here; `gitstate sync` delivers it. If that stays so, look at your rights there.",
        )
    if fenced and takes.at_once is False:
        raise NeedsHuman(
            f"{there.name} does not take what fences a publish: several refs at once.\n{pushed.words}".rstrip(),
            "If a server that was killed has left locks there (*.lock), remove them. If it never takes it: "
            f"{hosting.WITHOUT_LEASES[0].lower()}{hosting.WITHOUT_LEASES[1:]}, and take `coordinate` out of the "
            "configuration. What is finished is safe here; `gitstate sync` delivers it then.",
        )
    if manner.tried:
        raise _refusal(there, pushed)
    if fenced and manner.deletes and takes.deleting is False:
        return manner._replace(deletes=False)
    if takes.notes is False and takes.branches and fetched.home is not BRANCHES:
        return manner._replace(
            branches=True, tried=True, atomic=manner.atomic and (fenced or bool(takes.at_once))
        )
    if manner.atomic and takes.at_once is False and not fenced:
        return manner._replace(atomic=False, tried=True)
    raise _refusal(there, pushed)


def _said(words: str) -> str:
    """What the remote itself said first, as the end of a sentence for people."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    own = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    return f" ({first.rstrip('.')})" if (first := next(filter(None, own + lines), "")) else ""


def preview(
    git: Git, objects: Objects, branch: str | None, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """What `sync` would bring and send. Fetches into the tracking refs, and changes nothing else, here or there.

    Raises what `remote.fetch` does.
    """
    there = remote.pick(git, branch)
    if there is None:
        return Outcome()
    fetched = remote.fetch(git, there, say)
    came, went = [], []
    for ref, theirs in ((RECEIPTS, fetched.receipts), (LOG, fetched.log)):
        ours = objects.resolve(ref)
        merged = notes.union(git, objects, ours, theirs)
        came.append(0 if merged is None else _changed(git, ours, merged))
        went.append(0 if merged is None else _changed(git, theirs, merged))
    ours = objects.resolve(branch) if branch else None
    bases = shared(git, ours, [fetched.branch]) if ours and fetched.branch else []
    bring = count(git, fetched.branch, bases) if fetched.branch else 0
    send, users = users_commits(git, objects, ours, there, bases) if ours else (0, 0)
    return Outcome(there, came=Amount(bring, *came), went=Amount(send, *went), users_commits=users)


def merge_notes(git: Git, repository: Repository, objects: Objects, there: Remote) -> Amount:
    """Merge the notes in the tracking refs into the local ones, by union and compare-and-swap.

    Nothing that is noted here is ever lost by it, even where the remote has lost it; and what a fetch of the user's
    has overwritten comes back.
    Raises CorruptState if notes cannot be read.
    """
    receipts, log = (
        sum(
            _merge_ref(git, repository, objects, ref, theirs)
            for theirs in (*map(there.tracked, found), *notes.overwritten(git, objects, ref))
        )
        for ref, *found in zip(NOTES, *HOMES)
    )
    return Amount(0, receipts, log)


def _merge(
    git: Git,
    repository: Repository,
    objects: Objects,
    branch: str | None,
    fetched: Fetched,
    choose: Choose,
    outcome: Outcome,
) -> Outcome:
    """Take in what was fetched and add to `outcome` what it did."""
    assert outcome.remote is not None
    came = _sum(outcome.came, merge_notes(git, repository, objects, outcome.remote))
    if branch is None:
        return outcome._replace(came=came)
    forward = bring_forward(git, repository, objects, branch, outcome.remote, fetched, choose)
    return outcome._replace(
        way=outcome.way or forward.way,
        came=_sum(came, Amount(forward.came)),
        replaced=outcome.replaced + forward.replaced,
        lost=outcome.lost + forward.lost,
    )


def _sum(one: Amount, other: Amount) -> Amount:
    return Amount(one.commits + other.commits, one.receipts + other.receipts, one.log + other.log)


def _merge_ref(git: Git, repository: Repository, objects: Objects, ref: str, tracking: str) -> int:
    """Merge one notes ref; how many objects' notes it changed here."""
    for attempt in range(_SWAPS):
        ours, theirs = objects.resolve(ref), objects.resolve(tracking)
        if theirs is None or ours == theirs or (ours and contains(git, ours, theirs)):
            return 0
        fetch_missing(git, _blobs(git, theirs))
        new = _union(git, repository, objects, ours, theirs)
        if compare_and_swap(git, repository, objects, ref, new, ours, "gitstate sync: union with what came"):
            return _changed(git, ours, new)
        remote.pause(attempt)
    raise ComeBackLater(
        f"{ref} is being written by somebody else, again and again.", "Run `gitstate sync` again."
    )


def _union(git: Git, repository: Repository, objects: Objects, ours: str | None, theirs: str) -> str:
    """The commit that holds all lines of both, and of which a push is no more than an update for the remote.

    Theirs itself, whatever the histories say, if we have nothing that it lacks. Otherwise even a descendant
    of ours is not taken as it is: somebody may have pruned notes there.
    """
    if ours is None:
        return theirs
    merged = notes.union(git, objects, ours, theirs)
    assert merged is not None
    if merged == objects.resolve(f"{theirs}^{{tree}}"):
        return theirs
    parents = [theirs] if contains(git, theirs, ours) else [ours, theirs]
    return Author(git, repository, objects, sign=False).commit(merged, parents, b"gitstate: union of notes\n")


def _blobs(git: Git, notes_commit: str) -> Iterator[str]:
    """The blobs of all notes; listed only if somebody asks."""
    yield from (blob for _, blob in notes.pairs(git, notes_commit))


def _changed(git: Git, old: str | None, new: str) -> int:
    """How many objects' notes differ between two notes commits."""
    if old is None:
        return len(notes.entries(git, new))
    out = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new).out
    return len({path.replace(b"/", b"") for path in out.split(b"\0")} - {b""})


def _due(objects: Objects, there: Remote, branch: str | None, fetched: Fetched) -> dict[str, str]:
    """What the remote does not have yet: its refs and the ids they should get, notes first."""
    home = fetched.home
    wanted = [(RECEIPTS, home.receipts, fetched.receipts), (LOG, home.log, fetched.log)]
    if branch is not None:
        wanted.append((branch, there.branch, fetched.branch))
    due = {}
    for ours, theirs, value in wanted:
        local = objects.resolve(ours)
        if local is not None and local != value:
            due[theirs] = local
    return due


def _weigh(
    git: Git, objects: Objects, there: Remote, fetched: Fetched, updates: Mapping[str, str]
) -> tuple[int, Amount]:
    """How many of the commits in a push are the user's, and how much it carries in all."""
    receipts, log = (
        _changed(git, before, updates[ref]) if ref in updates else 0
        for ref, before in zip(fetched.home, (fetched.receipts, fetched.log))
    )
    if there.branch not in updates:
        return 0, Amount(0, receipts, log)
    bases = [fetched.branch] if fetched.branch else []  # (it was brought in)
    commits, users = users_commits(git, objects, updates[there.branch], there, bases)
    return users, Amount(commits, receipts, log)


def _refusal(there: Remote, pushed: Pushed) -> NeedsHuman:
    refused = ", ".join(pushed.refused)
    return NeedsHuman(
        f"{there.name} refuses {refused}, although nobody pushed there meanwhile.\n{pushed.words}".rstrip(),
        "If the branch is protected, record on one of your own: gitstate run --branch NAME. If the remote is damaged, "
        "mend it there (git fsck), then run `gitstate sync`. `gitstate doctor` tries what it takes. "
        "What is finished is safe here.",
    )
