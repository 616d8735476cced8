"""The budget of one run: what may be spent in it, and whether the next work would still fit. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_AMOUNT = re.compile(r"\s*(\$?)\s*([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([a-zA-Z$ ]*)")
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6}
_ROUNDING = 1e-9  # dollars; three times 0.1 is more than 0.3 to a float


class Budget(NamedTuple):
    """Upper limits of what one run spends; None: no limit."""

    usd: float | None = None
    tokens: int | None = None

    def __str__(self) -> str:
        parts = [f"${self.usd:,.2f}"] if self.usd is not None else []
        parts += [f"{self.tokens:,} tokens"] if self.tokens is not None else []
        return " and ".join(parts)


class Spent(NamedTuple):
    """What something cost; None where nobody said."""

    usd: float | None
    tokens: int | None


def parse(text: str) -> Budget:
    """A limit as people write it: "5", "$5", "2.50usd", "200000 tokens", "200ktok", "1M tokens".

    Raises ValueError with a sentence for anything else.
    """
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no budget; write an amount like 5usd or 200000tokens")
    number = float(found[2].replace(",", "").replace("_", ""))
    unit = found[3].lower().replace(" ", "")
    if found[1] or unit in ("", "$", "usd", "dollar", "dollars"):
        if found[1] and unit:
            raise ValueError(f"{text!r} names two units; write $5 or 5usd")
        budget = Budget(usd=number)
    else:
        size = re.fullmatch(r"([km]?)(?:t|tok|token|tokens)", unit)
        if size is None:
            raise ValueError(f"{found[3]!r} is no unit of a budget; it is usd or tokens")
        budget = Budget(tokens=int(number * _UNITS[size[1]]))
    if not number:
        raise ValueError("a budget of nothing would do nothing")
    return budget


def spent(facts: Mapping[str, Any]) -> Spent:
    """What an attempt says that it cost."""
    usd = facts.get("usd")
    tokens = [facts[name] for name in ("tokens_in", "tokens_out") if isinstance(facts.get(name), int)]
    return Spent(float(usd) if isinstance(usd, (int, float)) else None, sum(tokens) if tokens else None)


class Purse:
    """Keeps one run within its budget, by what the works of each stage have cost so far."""

    def __init__(self, budget: Budget, prices: Mapping[str, Spent] | None = None) -> None:
        """`prices`: what one work of a stage has cost on average before, where that is known."""
        self.budget = budget
        self._before = dict(prices or {})
        self._usd = self._tokens = 0.0
        self._sums: dict[
            str, list[float]
        ] = {}  # stage -> [attempts with usd, usd, attempts with tokens, tokens]
        self._reserved: dict[object, tuple[Spent, str]] = {}  # what is under way, at its expected price
        self._silent: set[str] = set()  # stages that ended an attempt without a word about its cost

    def fits(self, stage: str) -> bool:
        """Whether one more work of a stage stays within the budget, together with what is under way.

        What nobody knows the price of is begun alone, and judged by what it says at its end.
        """
        price = self._price(stage)
        for limit, paid, index in ((self.budget.usd, self._usd, 0), (self.budget.tokens, self._tokens, 1)):
            if limit is None:
                continue
            mine = price[index]
            under_way = [spent[index] for spent, _ in self._reserved.values()]
            if mine is None and under_way:
                return False
            if paid + sum(each or 0.0 for each in under_way) + (mine or 0.0) > limit + _ROUNDING:
                return False
            if mine is None and paid >= limit:
                return False
        return True

    def begin(self, attempt: object, stage: str) -> None:
        """An attempt is under way."""
        self._reserved[attempt] = (self._price(stage), stage)

    def end(self, attempt: object, stage: str, cost: Spent | None, expected: bool = False) -> None:
        """An attempt has ended, whatever it brought, and says what it cost. None: nothing, as it was not begun or was
        turned away; or with `expected` what works of its stage cost on average, as it may have been charged."""
        price, _ = self._reserved.pop(attempt, (Spent(None, None), stage))
        if cost is None:
            self._usd += (price.usd or 0.0) if expected else 0.0
            self._tokens += (price.tokens or 0) if expected else 0
            return
        sums = self._sums.setdefault(stage, [0, 0.0, 0, 0.0])
        if cost.usd is not None:
            self._usd += cost.usd
            sums[0] += 1
            sums[1] += cost.usd
        if cost.tokens is not None:
            self._tokens += cost.tokens
            sums[2] += 1
            sums[3] += cost.tokens
        index = 0 if self.budget.usd is not None else 1
        if cost[index] is None:
            self._silent.add(stage)

    def unpriced(self, stage: str) -> bool:
        """Whether a budget cannot be kept for a stage: its attempts end without saying what they cost."""
        return stage in self._silent and None in [
            price
            for price, limit in zip(self._price(stage), (self.budget.usd, self.budget.tokens))
            if limit is not None
        ]

    def _price(self, stage: str) -> Spent:
        sums = self._sums.get(stage, [0, 0.0, 0, 0.0])
        before = self._before.get(stage, Spent(None, None))
        usd = sums[1] / sums[0] if sums[0] else before.usd
        tokens = sums[3] / sums[2] if sums[2] else before.tokens
        return Spent(usd, None if tokens is None else round(tokens))
