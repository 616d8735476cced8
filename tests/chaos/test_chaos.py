"""CI's sample of the chaos over leases: one round of each kind. The whole: `python -m tests.chaos`.

With GITSTATE_LONG=1 in the environment, a round of every number up to 40, and each planted bug (minutes).
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.chaos.bugs import BUGS
from tests.chaos.play import play
from tests.chaos.schedule import draw

SEED = 7
# Drawn as: all calm over HTTP, with a plan that grows; a stop; a cut; answers lost; a kill of a machine, of gitstate.
SAMPLE = (42, 12, 75, 77, 38, 43)
LONG = bool(os.environ.get("GITSTATE_LONG"))
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are told by /proc")


@pytest.mark.parametrize("number", range(40) if LONG else SAMPLE)
def test_p10_clones_that_are_killed_stopped_and_cut_off_publish_each_work_once(number: int) -> None:
    played = play(SEED, number)
    assert not played.bad, (played.folder, played.bad)
    assert played.counts["calls"] >= played.counts["works"] > 0


@pytest.mark.skipif(not LONG, reason="minutes; GITSTATE_LONG=1 runs it")
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_by_chaos(bug: str) -> None:
    assert any(play(SEED, number, bug=bug).bad for number in range(12))


def test_a_seed_draws_the_same_again() -> None:
    assert [draw(3, number) for number in range(50)] == [draw(3, number) for number in range(50)]
    assert len({draw(3, number) for number in range(50)}) == 50
