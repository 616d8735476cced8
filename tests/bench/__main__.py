"""The benchmark: `python -m tests.bench` or `python tests/bench`, with gitstate installed in that Python.

Prints medians of CPU time (user and system, descendants included; of recording, which waits for the disk, the wall
time), each against its floor measured in the same run; exit code 1 if a goal is missed. Needs git; ninja and DVC where
their rows are wanted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from repos import Shelf
from rows import APART, ROWS, Bench, Outcome

_HEADINGS = Outcome("what", "against", "gitstate", "floor", "figure", "goal")


def main() -> int:
    """Measure the chosen rows and print them as they come."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=ROWS,
        metavar="ROW",
        help=f"one of: {', '.join(ROWS)} (without it: all but {', '.join(APART)})",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes; goals are for the whole")
    parser.add_argument(
        "--repeat", type=int, default=5, metavar="N", help="runs that a median is of (default: 5)"
    )
    options = parser.parse_args()
    by = 10 if options.quick else 1
    missed = 0
    with tempfile.TemporaryDirectory(prefix="gitstate-bench-") as folder:
        bench = Bench(Shelf(folder), options.repeat, 1_000 // by, 10_000 // by, 100_000 // by, 1_000 // by)
        _print(_HEADINGS, "")
        for name in options.only or [name for name in ROWS if name not in APART]:
            for outcome in ROWS[name](bench):
                missed += outcome.met is False
                _print(outcome, outcome.note or ("ok" if outcome.met else "MISSED"))
    print(f"{missed} missed." if missed else "Every goal measured is met.")
    return 1 if missed else 0


def _print(line: Outcome, verdict: str) -> None:
    names = f"{line.what:<52} {line.against:<40}"
    print(names, f"{line.ours:>12} {line.floor:>12} {line.figure:>10} {line.goal:>10}  {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
