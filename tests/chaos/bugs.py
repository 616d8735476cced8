"""Bugs planted on purpose, one at a time, in the gitstate processes of a round only: the rounds must find each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def no_fence() -> None:
    """Results are pushed without the leases that they were made under."""
    from gitstate.edge import pushing
    from gitstate.edge.leases import Leases

    def push(self: Any, updates: Mapping[str, str], slugs: Iterable[str], left: Iterable[Any]) -> Any:
        return pushing.push(self._git, self._there, updates)

    Leases.push = push  # type: ignore[method-assign]


def no_look_after_claim() -> None:
    """What was done by the moment of a claim is not looked at: what was known before it counts."""
    from gitstate.commands.claiming import Claiming
    from gitstate.edge.leases import Leases

    claim, fetch = Leases.claim, Claiming._fetch
    claimed: list[bool] = []

    def claims(self: Any, works: Any) -> Any:
        won = claim(self, works)
        claimed.append(True)
        return won

    def fetches(self: Any) -> None:
        if claimed:
            claimed.clear()
        else:
            fetch(self)

    Leases.claim, Claiming._fetch = claims, fetches  # type: ignore[method-assign]


def impatient() -> None:
    """The leases of others are taken for over at once."""
    from gitstate.core.lease import Seen

    Seen.is_over = property(lambda self: True)  # type: ignore[assignment,method-assign]


def unasked_whose() -> None:
    """What is published is not asked for its holder: whatever is finished here goes along."""
    from gitstate.edge.leases import Leases

    push = Leases.push
    Leases.push = lambda self, updates, slugs, left: push(self, updates, (), left)  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "no-fence": no_fence,
    "no-look-after-claim": no_look_after_claim,
    "impatient": impatient,
    "unasked-whose": unasked_whose,
}
