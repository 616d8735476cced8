"""Budgets: how they are written, and that no work begins that would pass one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core.budget import Budget, Purse, Spent, parse, spent


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("5", Budget(usd=5)),
        ("$5", Budget(usd=5)),
        ("2.50usd", Budget(usd=2.5)),
        ("1,000 USD", Budget(usd=1000)),
        ("200000 tokens", Budget(tokens=200_000)),
        ("200ktok", Budget(tokens=200_000)),
        ("1.5M tokens", Budget(tokens=1_500_000)),
    ],
)
def test_amounts_are_read_as_people_write_them(text: str, budget: Budget) -> None:
    assert parse(text) == budget


@pytest.mark.parametrize("text", ["", "much", "5 eur", "-3", "0", "$5usd", "1e9", "5 5", "nan", "inf"])
def test_anything_else_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"budget|unit"):
        parse(text)


def test_three_works_at_a_tenth_fit_into_three_tenths() -> None:
    purse = Purse(Budget(usd=0.3), {"a": Spent(0.1, None)})
    for number in range(3):
        assert purse.fits("a")
        purse.begin(number, "a")
        purse.end(number, "a", Spent(0.1, None))
    assert not purse.fits("a")


def test_what_nobody_knows_the_price_of_begins_alone() -> None:
    purse = Purse(Budget(usd=1))
    assert purse.fits("a")
    purse.begin(1, "a")
    assert not purse.fits("a")
    purse.end(1, "a", Spent(0.4, None))
    purse.begin(2, "a")
    assert not purse.fits("a")
    purse.end(2, "a", Spent(0.4, None))
    assert not purse.fits("a")


def test_a_stage_that_never_says_what_it_costs_cannot_be_kept_in_a_budget() -> None:
    purse = Purse(Budget(usd=1))
    purse.begin(1, "a")
    purse.end(1, "a", Spent(None, 500))
    assert purse.unpriced("a")
    assert not purse.unpriced("b")
    assert not Purse(Budget()).unpriced("a")


def test_without_a_budget_everything_fits() -> None:
    purse = Purse(Budget())
    for number in range(100):
        purse.begin(number, "a")
        assert purse.fits("a")


@given(
    limit=st.integers(1, 2000),
    prices=st.lists(st.integers(1, 300), min_size=1, max_size=40),
    jobs=st.integers(1, 8),
)
def test_at_equal_prices_a_run_never_passes_its_budget(limit: int, prices: list[int], jobs: int) -> None:
    price = prices[0]
    purse, paid, flying = Purse(Budget(tokens=limit), {"a": Spent(None, price)}), 0, list[int]()
    for number in range(len(prices)):
        while len(flying) >= jobs:
            purse.end(flying.pop(), "a", Spent(None, price))
            paid += price
        if purse.fits("a"):
            purse.begin(number, "a")
            flying.append(number)
    assert paid + price * len(flying) <= limit


def test_what_an_attempt_says_is_read() -> None:
    assert spent({"usd": 0.5, "tokens_in": 3, "tokens_out": 4}) == Spent(0.5, 7)
    assert spent({"model": "m"}) == Spent(None, None)
