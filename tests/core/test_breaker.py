"""The breaker: what stops a run that fails again and again for one reason, and what does not."""

from __future__ import annotations

import random

from gitstate.core.breaker import Breaker, Cause

EMPTY, REFUSED = Cause("validation", "empty", "r1"), Cause("validation", "refused", "r2")


def test_three_equal_failures_in_a_row_stop_the_run() -> None:
    breaker = Breaker()
    assert not breaker.failed(EMPTY)
    assert not breaker.failed(EMPTY)
    assert "3 works in a row" in breaker.failed(EMPTY)


def test_a_success_or_another_cause_between_them_starts_the_count_anew() -> None:
    breaker = Breaker()
    for other in (breaker.done, lambda: breaker.failed(REFUSED)):
        breaker.failed(EMPTY)
        breaker.failed(EMPTY)
        other()
    assert not breaker.failed(EMPTY)
    other_rule = EMPTY._replace(rule="r9")
    assert not breaker.failed(other_rule)


def test_half_of_at_least_ten_works_that_fail_alike_stop_the_run() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.done()
        assert not breaker.failed(EMPTY)
    breaker.done()
    assert "5 of 10 works failed alike" in breaker.failed(EMPTY)


def test_fewer_than_half_never_stop_it() -> None:
    breaker, rng = Breaker(), random.Random(4)
    for _ in range(300):
        for _ in range(2):
            breaker.done()
        assert not breaker.failed(rng.choice([EMPTY, REFUSED]))


def test_it_can_be_turned_off_and_set() -> None:
    off = Breaker(0)
    assert not any(off.failed(EMPTY) for _ in range(100))
    patient = Breaker(20)
    assert [bool(patient.failed(EMPTY)) for _ in range(20)].index(True) == 19
