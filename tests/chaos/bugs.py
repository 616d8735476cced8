"""Bugs planted on purpose, one at a time, in the gitstate processes of a round only: the rounds must find each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def no_fence() -> None:
    """Results are pushed without the leases that they were made under."""
    from gitstate.edge import pushing
    from gitstate.edge.leases import Leases

    def push(self: Any, updates: Mapping[str, str], *_: Any) -> Any:
        return pushing.push(self._git, self._there, updates)

    Leases.push = push  # type: ignore[method-assign]


def only_given_back() -> None:
    """What is renewed in a publish stays as it is: the remote compares nothing of it."""
    from gitstate.core import lease

    fence = lease.fence
    lease.fence = lambda *args: {bucket: one for bucket, one in fence(*args).items() if one is None}


def no_look_after_claim() -> None:
    """What was done by the moment of a claim is not looked at: what was known before it counts."""
    from gitstate.commands.session import Session
    from gitstate.edge.leases import Leases

    claim, refresh = Leases.claim, Session.refresh
    claimed: list[bool] = []

    def claims(self: Any, *args: Any) -> Any:
        won = claim(self, *args)
        claimed.append(True)
        return won

    def refreshes(self: Any) -> None:
        if not claimed:
            refresh(self)
        claimed.clear()

    Leases.claim, Session.refresh = claims, refreshes  # type: ignore[method-assign]


def impatient() -> None:
    """The leases of others are taken for over at once."""
    from gitstate.core.lease import Seen

    Seen.is_over = property(lambda self: True)  # type: ignore[assignment,method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "no-fence": no_fence,
    "only-given-back": only_given_back,
    "no-look-after-claim": no_look_after_claim,
    "impatient": impatient,
}
