"""How much is claimed at once, and when somebody looks again."""

from __future__ import annotations

from typing import Optional

import pytest

from gitstate.core import portion


@pytest.mark.parametrize(
    ("due", "others", "jobs", "mean", "size"),
    [
        (400, 7, 1, 0.5, 25),  # half of an equal share
        (400, 7, 1, 0.05, 25),
        (8, 7, 1, 0.05, 20),  # what is done in a second, though the share is smaller
        (400, 0, 1, 5.0, 4),  # what is done in twenty seconds, though the share is larger
        (400, 0, 3, 5.0, 12),
        (400, 0, 1, 3600.0, 1),
        (400, 0, 2, None, 4),  # nobody knows how long they take
        (1, 7, 2, None, 2),
        (10_000, 0, 8, 0.0, 128),
    ],
)
def test_it_is_half_of_an_equal_share_unless_that_takes_too_long_or_is_soon_done(
    due: int, others: int, jobs: int, mean: Optional[float], size: int
) -> None:
    assert portion.size(due, others, jobs, mean) == size


@pytest.mark.parametrize(
    ("held", "others", "mean", "length", "seconds"),
    [
        (16, 2, 2.0, 600, 4.0),  # a quarter of what the others take for what they hold
        (1, 1, 0.05, 600, 2.0),
        (900, 1, 60.0, 600, 15.0),
        (4, 1, None, 600, 15.0),
        (900, 1, 60.0, 12, 4.0),  # a lease may have ended by then
        (0, 0, 1.0, 600, 2.0),
    ],
)
def test_the_next_look_is_in_a_part_of_what_the_others_take(
    held: int, others: int, mean: Optional[float], length: int, seconds: float
) -> None:
    assert portion.look(held, others, mean, length, 1.0) == seconds
    assert portion.look(held, others, mean, length, 0.0) == seconds / 2
    assert portion.look_late(1.0) == 15.0
