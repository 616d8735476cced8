"""When a run meets its remote: before it looks, after what it records, at the end. And what if it is away."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Optional

from gitstate import show
from gitstate.commands.clone import Clone, statuses_of, utc_now
from gitstate.commands.lines import add_lines, duplicate_line
from gitstate.commands.target import Target
from gitstate.core.derive import Status
from gitstate.core.receipt import encode
from gitstate.core.snapshot import Receipts
from gitstate.edge import hosting, remote, sync
from gitstate.edge.git import DURABLE
from gitstate.edge.keep import keep
from gitstate.edge.leases import LeaseLost
from gitstate.edge.remote import Fetched, Remote
from gitstate.edge.reparent import Lost
from gitstate.edge.sources import read_tree
from gitstate.edge.sync import Outcome
from gitstate.errors import ComeBackLater, UsageError

if TYPE_CHECKING:
    from gitstate.commands.claiming import Claiming
    from gitstate.commands.progress import Progress
    from gitstate.commands.session import Session

_REGAINS = 3  # times that leases are claimed anew, which were lost before a push
PAUSE = 10.0  # seconds between pushes: hosts limit them to a few a minute
_PUT_OFF = (
    2  # times in a row that results may wait here because others push: a machine that dies takes them along
)


class Syncing:
    """The meetings of one run with its remote. `away` says that results wait here for a remote out of reach."""

    def __init__(self, clone: Clone, aim: Target, push: str, offline: bool) -> None:
        self.clone, self.aim, self.push, self.offline = clone, aim, push, offline
        self.away = False
        self.why_away = ""  # why the run could not begin with it
        self.session: Optional[Session] = None
        self.progress: Optional[Progress] = None
        self.claiming: Optional[Claiming] = None
        self.shares = False  # whether works are claimed: then nothing is published but by `claiming`
        self._there = remote.pick(clone.git, aim.branch)
        self._pushed: Optional[float] = None
        # By what the remote has (its tip): receipts, and by path what today's identity is.
        self._judged: Optional[tuple[Optional[str], Receipts, dict[str, Status]]] = None
        self._looked: set[str] = (
            set()
        )  # states of the branch with outputs without receipts, which were looked at again
        self._unpushed = not offline  # what an earlier run may have left here
        self._told = False  # whether it was said that results wait here
        self._put_off = 0  # times in a row that others were faster, and nothing was sent
        self._covered = 0  # records of the session that were pushed
        # Whether something may have come that the session has not seen. Kept over failed and repeated syncs: an act
        # that begins by what was known before them may be the second one.
        self._came = False

    @property
    def there(self) -> Optional[Remote]:
        """The remote; None: there is none, so there is nobody to agree with."""
        return self._there

    @property
    def reachable(self) -> Optional[Remote]:
        """The remote, unless it is away or not to be asked."""
        return None if self.offline or self.away or self.push == "never" else self._there

    def begin(self) -> None:
        """Fetch and merge before anything is looked at.

        Raises ComeBackLater where that cannot be and outputs stand here whose receipts were never fetched: going
        on could pay for them again.
        """
        if self._there is not None and self.offline:
            self._require_receipts(self._there, "it was not to be asked (--offline)")
            self._sync(push=False)
        elif self._there is not None:
            try:
                self._sync(push=False)
                self._there = remote.pick(self.clone.git, self.aim.branch) or self._there  # (set up by now)
                if self.push != "never":
                    hosting.require_same(self.clone.git, self.clone.objects, self._there)
            except ComeBackLater as error:
                self.away = True
                self._require_receipts(self._there, error.message)
                self.why_away = error.message.splitlines()[0]
                self.say(f"{self.why_away.rstrip('.')}. Results stay safe in this clone.")
        if self.clone.objects.resolve(self.aim.branch) is None and not self.aim.checked_out:
            self._begin_branch()
        self._came = False  # (there is no session yet)

    def _begin_branch(self) -> None:
        """Make the branch that results are to be recorded on, where HEAD is. Raises UsageError where git cannot."""
        zero = self.clone.repository.zero
        made = self.clone.git.run(*DURABLE, "update-ref", self.aim.branch, "HEAD", zero, check=False)
        if made.code:
            raise UsageError(
                f"git cannot make {self.aim.branch}: {remote.first_line(made)}",
                "Name another branch: --branch NAME.",
            )

    def _require_receipts(self, there: Remote, why: str) -> None:
        if not remote.fetched_before(self.clone.git, there) and self._outputs_stand():
            raise ComeBackLater(
                f"The receipts of {there.name} were never fetched here: {why}",
                "Outputs stand here, so going on could pay for them again. Run again when it can be asked.",
            )

    def recorded(self) -> bool:
        """A group was recorded: push it, if it is time. Returns whether something came from the remote."""
        self._unpushed = True
        if not (self.each or self._is_time()):
            return False
        return self._delivered(insist=self.each or self._put_off >= _PUT_OFF)

    @property
    def each(self) -> bool:
        """Whether what is finished is pushed before anything else begins."""
        return self.push == "work" and self._there is not None and not self.offline

    @property
    def is_stuck(self) -> bool:
        """Whether nothing may begin, because something else was finished and could not be pushed."""
        return self.each and self.away and self.owes

    def catch_up(self) -> bool:
        """Push what should have been by now; what could not be, again when it is time. Returns whether something came
        from the remote."""
        too_soon = self.away and self._pushed is not None and time.monotonic() - self._pushed < PAUSE
        return self.each and self.owes and not too_soon and self._delivered()

    def _delivered(self, insist: bool = True) -> bool:
        """Push; whether something came by that."""
        self._deliver(insist)
        came, self._came = self._came, False
        return came

    def _is_time(self) -> bool:
        """Whether to push what was recorded now, and not together with more."""
        if self.push != "group":
            return False
        now, pause = time.monotonic(), PAUSE
        if self.claiming is not None:
            # Of many who push to one branch at once, most are refused and fetch again: seldom, and not in step.
            pause *= max(1.0, self.claiming.crowd / 2)
            if self._pushed is None:
                self._pushed = now - pause * random.random()  # noqa: S311 (no secret)
        return self._pushed is None or now - self._pushed >= pause

    @property
    def can_tell(self) -> bool:
        """Whether others can be told of something before it happens, or there is nobody to tell."""
        return self._there is None or self.reachable is not None

    def tell(self) -> bool:
        """Bring to the remote what must be known there before it happens, and here what was known there.

        Returns whether it is; it is, too, where there is no remote. False says that the remote is out of reach.
        """
        if self._there is None:
            return True
        if not self.can_tell:
            return False
        self._deliver()
        if self._came and self.session is not None:
            self.session.refresh()
            self._came = False
        return not self.away

    def end(self) -> None:
        """Push what was not pushed yet, and look anew if something came by that."""
        if self.owes and self.push != "never":
            self._deliver()
        if self._came and self.session is not None:
            self.session.refresh()
            self._came = False

    def look_again(self) -> bool:
        """Fetch and merge once more, for outputs stand here without receipts; whether something came.

        A remote moves the refs of a push one after the other, and who asks meanwhile may see the branch before the
        notes. Once for each state of the branch.
        """
        tip = self.clone.objects.resolve(self.aim.branch) or ""
        if self._there is None or self.offline or self.away or tip in self._looked:
            return False
        self._looked.add(tip)
        try:
            self.merge()
        except ComeBackLater:
            return False
        came, self._came = self._came, False
        if came and self.session is not None:
            self.session.refresh()
        return came

    def deliver(self) -> bool:
        """Push what is finished here, also of an earlier run, if anything is; whether so the remote was met."""
        if not self.owes:
            return False
        self._deliver()
        return not self.away

    @property
    def owes(self) -> bool:
        """Whether something may be here that the remote does not have."""
        return self._unpushed or (self._records > self._covered and not self.offline)

    @property
    def _records(self) -> int:
        return self.session.records if self.session is not None else 0

    def _deliver(self, insist: bool = True) -> None:
        """Push. Without `insist`: unless others are faster, for then there will be another time."""
        if self._there is None:
            return
        if self.offline or (self.shares and self.claiming is None):
            # (the remote was away when this run began, and may be back: what it says of leases is not known)
            self.away = True
            return
        records = self._records
        try:
            outcome = self._publish(insist)
        except ComeBackLater as error:
            said = error.message.splitlines()[0].rstrip(".")
            if not self._told:
                more = " Nothing else begins before they are pushed (--push work)." if self.each else ""
                self.say(f"Not pushed yet: {said}. Results are safe here.{more}")
            self.away = self._told = True
            return
        finally:
            self._pushed = time.monotonic()
        self.away = False
        if outcome.put_off:
            self._put_off += 1
            return
        if self._told:
            self.say(f"{self._there.name} is back: what waited here is pushed.")
            self._told = False
        self._put_off, self._unpushed, self._covered = 0, False, records
        if outcome.users_commits:
            self.say(
                f"Pushed {show.number(outcome.users_commits, 'commit')} of your own along with the results."
            )

    def _publish(self, insist: bool) -> Outcome:
        """Push; of works that are leased, only what is ours to publish."""
        for _ in range(_REGAINS):
            try:
                if not (outcome := self._sync(push=True, insist=insist)).lost:
                    return outcome  # (else there is a line of the log to push)
            except LeaseLost:
                if self.claiming is None:
                    raise
                self.claiming.regain()
        return self._sync(push=True)

    def merge(self, fetched: Optional[Fetched] = None) -> None:
        """Fetch, unless that has been done just now, and merge; push nothing. Raises ComeBackLater if the remote
        cannot be reached."""
        self._sync(push=False, fetched=fetched)

    def _sync(self, push: bool, insist: bool = True, fetched: Optional[Fetched] = None) -> Outcome:
        clone, branch, before = self.clone, self.aim.branch, self._came
        fetch = self.claiming.fetch if self.claiming is not None else None
        self._came = True  # (also where it raises: what was fetched by then is merged)
        self._judged = None
        with self.session.guard.moving() if self.session is not None else nullcontext():
            outcome = sync.sync(
                clone.git,
                clone.repository,
                clone.objects,
                branch,
                push=push,
                insist=insist,
                offline=self.offline,
                choose=self._choose,
                say=self.say,
                send=self.claiming.send if self.claiming is not None else None,
                fetch=(lambda: fetched) if fetched is not None else fetch,
            )
        self.away = self.away and self.offline
        self._came = before or any(outcome.came) or bool(outcome.replaced)
        for lost in outcome.lost:
            keep(clone.git, f"lost-{lost.oid[:12]}", [lost.oid])
            self.say(
                f"{show.safe(lost.path)} was made here and elsewhere: what the remote has stays, this one is kept "
                f"in this clone (git show {lost.oid[:12]})."
            )
        if outcome.lost:
            self._log(outcome.lost)
        return outcome

    def _log(self, lost: Sequence[Lost]) -> None:
        """Note what was made twice, so that its cost shows."""
        receipts = self.clone.view().snapshot.receipts
        lines = [
            duplicate_line(self.clone.objects, line)
            for one in lost
            for line in receipts.on(one.oid)
            if line.kind == "done"
        ]
        found: dict[str, list[bytes]] = {}
        for blob, line in lines:
            found.setdefault(blob, []).append(encode(line))
        if found:
            add_lines(self.clone, {}, found, f"gitstate: {show.number(len(lines), 'duplicate')}")

    def _choose(self, path: str, ours: str, theirs: Optional[str]) -> Optional[str]:
        """Of two contents of one output, the one receipted for today's identity; the remote's where both are, and
        wherever nobody vouches for that as this work's result: a human wrote it, or edited what stood there."""
        assert self._there is not None
        tip = self.clone.objects.resolve(self._there.tracked_branch)
        if self._judged is None or self._judged[0] != tip:
            self._judged = (tip, *self._judge(self._there.tracked_branch))
        _, receipts, statuses = self._judged
        if (status := statuses.get(path)) is None:
            return theirs
        # By position: all outputs of a work that stay are of one result.
        place, lines = status.outputs.index(path), receipts.of(status.slug, status.stage)

        def identities(blob: str) -> set[str]:
            return {
                line.work for line in lines if [one for _, one in line.outputs[place : place + 1]] == [blob]
            }

        if status.hash not in identities(ours):
            return theirs
        known = identities(theirs) if theirs is not None else set()
        return ours if theirs is None or (known and status.hash not in known) else theirs

    def _judge(self, theirs: str) -> tuple[Receipts, dict[str, Status]]:
        """The receipts, and by output today's identity, with what the remote has at `theirs`: what was made here of
        something that does not stay is not today's. None where sources have changed there, which are not here yet."""
        view = self.clone.view(theirs)
        receipts = view.snapshot.receipts
        if self.aim.checked_out:
            files = read_tree(self.clone.git, theirs, len(self.clone.repository.zero)).files
            if any(files.get(path) != view.tree.files.get(path) for path in view.watch.paths):
                return receipts, {}
        now = statuses_of(view, utc_now())
        return receipts, {path: status for status in now for path in status.outputs}

    def _outputs_stand(self) -> bool:
        """Whether any output of the plan is committed here."""
        view = self.clone.view()
        return any(path in view.tree.files for row in view.plan.outputs for stage in row for path in stage)

    def say(self, line: str) -> None:
        """One line of the story."""
        if self.progress is not None:
            self.progress.story(line)
        else:
            show.story(line)
