"""CI's sample of the crash sweeps, planted bugs included. The whole: `python -m tests.crash`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash import mutants, supervise, sweeps
from tests.crash.sweeps import Templates

SEED = 20

pytestmark = pytest.mark.skipif(bool(supervise.available()), reason=f"crash sweeps: {supervise.available()}")


@pytest.fixture(scope="module")
def templates() -> Iterator[Templates]:
    with Templates() as found:
        yield found


@pytest.mark.parametrize("name", list(sweeps.PLANS))
def test_a_sample_of_the_sweep_finds_nothing(templates: Templates, name: str) -> None:
    summary = sweeps.sweep(templates, name, quick=True, seed=SEED)
    if summary.skipped:
        pytest.skip(summary.skipped)
    assert not summary.violations, "\n".join(f"{found.where}: {found.bad}" for found in summary.violations)
    assert summary.points, "a sweep that ran 0 points proves nothing"


# (Those of effects side by side: each of their points is two runs and more.)
ACTS = [name for name, mutant in mutants.MUTANTS.items() if mutant.sweep.startswith("acts-")]


@pytest.mark.parametrize(
    "names", [*([name] for name in mutants.MUTANTS if name not in ACTS), ACTS], ids="+".join
)
def test_a_planted_bug_turns_its_sweep_red(templates: Templates, names: list[str]) -> None:
    summary = sweeps.planted(templates, SEED, chosen=names)
    assert not summary.violations, [found.bad for found in summary.violations]
