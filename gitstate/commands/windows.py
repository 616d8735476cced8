"""The windows of one run's accounts: which are closed, who looks whether one has opened, and telling the others."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Literal, Optional

from gitstate import show
from gitstate.commands.judging import Judged
from gitstate.core import pause
from gitstate.core.pause import Pause
from gitstate.core.verdict import Failed
from gitstate.edge.pauses import Pauses

_SOON = timedelta(seconds=60)  # until what another machine has found is asked for
Look = Callable[[str], tuple[Literal["open", "closed", "unknown"], Optional[Failed]]]


class Windows:
    """Gates before the calls of each account. Every change is told to the remote at once."""

    def __init__(self, pauses: Pauses, look: Optional[Look], now: Callable[[], datetime]) -> None:
        """`look`: asks the configured probe about an account; None: there is no such probe."""
        self._pauses, self._look, self._now = pauses, look, now
        self._flying: dict[str, int] = {}  # calls under way, by account
        self.closed: dict[str, Pause] = {}  # nothing is begun of these
        self._probing: set[str] = set()  # of these, one call at a time
        self._resting: set[str] = set()  # of those being probed, the ones whose call is to be tried again
        self._awaited: set[str] = set()  # of the closed ones, those that somebody else is about to look at
        self.found = False  # whether this run itself found a window closed: then nothing at all is begun
        self.changes = 0  # goes up whenever a gate may let through what it did not before

    def begin(self, accounts: Iterable[str]) -> None:
        """Meet the pauses that stand for the accounts of the works that are due."""
        for account in sorted(set(accounts)):
            standing = self._pauses.standing.get(account)
            if standing is None:
                continue
            if not pause.is_over(standing.pause, self._now()):
                self._leave_to(standing.pause)
                continue
            claimed = pause.claim(standing.pause, secrets.token_hex(8), self._now())
            if not self._pauses.set(claimed):
                # Another machine looks in this round.
                theirs = self._pauses.standing.get(account)
                if theirs is not None:
                    self._leave_to(theirs.pause)
                continue
            self._probe(claimed)

    def _leave_to(self, theirs: Pause) -> None:
        """Nothing is begun of an account; what whoever is about to look finds is worth asking for soon."""
        if theirs.holder:
            self._awaited.add(theirs.account)
        self._close(theirs)

    def _probe(self, claimed: Pause) -> None:
        """Look by the configured probe; without one the next call is the probe."""
        account = claimed.account
        if self._look is None:
            self._probing.add(account)
            return
        answer, failed = self._look(account)
        if answer == "open":
            self._lift(account)
        elif failed is not None and answer == "closed":
            self._again(claimed, failed)
        else:
            self._close(claimed)

    def lets(self, account: str, again: bool = False) -> bool:
        """Whether a call of an account may begin now. `again`: it is a further try."""
        if self.found or account in self.closed:
            return False
        if account not in self._probing:
            return True
        return not self._flying.get(account) and (again or account not in self._resting)

    def began(self, account: str) -> None:
        """A call is under way."""
        self._flying[account] = self._flying.get(account, 0) + 1
        self._resting.discard(account)

    def ended(self, account: str, judged: Optional[Judged], closes: bool) -> None:
        """A call has ended: `judged` is None where it brought no answer; `closes`: the run pauses for it."""
        self._flying[account] = max(0, self._flying.get(account, 0) - 1)
        self.changes += account in self._probing
        if judged is None or account not in self._probing:
            return
        # Only an answer shows that the window is open, be it rejected; a command that is not there, say, does not.
        if not closes and (judged.failed is None or judged.failed.category == "validation"):
            self._probing.discard(account)
            self._lift(account)

    def shut(self, account: str, failed: Failed) -> None:
        """A call found the window closed, or was throttled until its tries were used up."""
        self.found = True
        standing = self._pauses.standing.get(account)
        if account in self.closed:
            return
        self._probing.discard(account)
        if standing is not None:
            self._again(standing.pause, failed)
        else:
            now = self._now()
            self._set(pause.begin(account, _kind(failed), failed.rule, _why(failed), failed.opens, now))

    def rest(self, account: str) -> None:
        """The call that was to probe was throttled: nothing but its next try is begun."""
        if account in self._probing:
            self._resting.add(account)

    def unclear(self, account: str) -> None:
        """The call that was to probe did not say whether the window is open: the next round may tell."""
        standing = self._pauses.standing.get(account)
        if account in self._probing and standing is not None:
            self._probing.discard(account)
            self._close(standing.pause)

    def next_look(self) -> Optional[datetime]:
        """When looking again makes sense; None where nothing is closed."""
        soon = self._now() + _SOON
        looks = (
            min(pause.when(one.probe), soon) if account in self._awaited else pause.when(one.probe)
            for account, one in self.closed.items()
        )
        return min(looks, default=None)

    def is_due(self) -> bool:
        """Whether the time has come to look again at a window that was closed."""
        look = self.next_look()
        return look is not None and look <= self._now()

    def _again(self, standing: Pause, failed: Failed) -> None:
        now = self._now()
        self._set(pause.again(standing, _kind(failed), failed.rule, _why(failed), failed.opens, now))

    def _set(self, new: Pause) -> None:
        if not self._pauses.set(new):
            theirs = self._pauses.standing.get(new.account)
            if theirs is None:  # lifted by somebody who saw it open; we have just seen it closed
                self._pauses.set(new)
        self._close(self._pauses.standing[new.account].pause if new.account in self._pauses.standing else new)
        if self._pauses.untold:
            show.story(f"Other machines do not know of this pause: {show.safe(self._pauses.untold)}")
            self._pauses.untold = ""

    def _close(self, one: Pause) -> None:
        self.closed[one.account] = one

    def _lift(self, account: str) -> None:
        with contextlib.suppress(KeyError):
            del self.closed[account]
        if self._pauses.lift(account):
            show.story(f"The window of {show.safe(account)} is open again.")


def _kind(failed: Failed) -> str:
    """The kind of a pause: of quota usually; a policy may pause the run for any other failure too."""
    return failed.kind if failed.category == "quota" else failed.name


def _why(failed: Failed) -> str:
    return " ".join(failed.evidence.split())[:300]
