"""The simulator, as far as a test run has time for it: no violation by fixed seeds, and every planted bug found."""

from __future__ import annotations

import pytest

from tests.sim.bugs import BUGS
from tests.sim.play import Found, play
from tests.sim.world import Machine


@pytest.mark.parametrize("seed", [1, 2])
def test_p10_machines_that_crash_stop_and_lose_messages_publish_each_work_once(seed: int) -> None:
    played = play(200_000, seed)
    assert played.steps >= 200_000
    assert set(played.events) == {"answer lost", "crash", "goes on", "late", "lost", "stop", "twice"}
    assert played.works > 1000


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: type[Machine]) -> None:
    with pytest.raises(Found):
        play(1_000_000, 1, bug)


def test_a_seed_plays_the_same_again() -> None:
    assert play(20_000, 3) == play(20_000, 3)
