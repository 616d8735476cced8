"""Chaos over leases: `python -m tests.chaos --rounds N --seed S`, from the repository's root.

Real clones of a real remote, real processes, killed, stopped and cut off as a seed draws it. Prints each violation with
its seed, round and folder, and a table of what was played; exit code 1 if something happened that must not; with
--bugs if a planted bug was not found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.chaos.bugs import BUGS
from tests.chaos.play import Played, play

ROWS = (
    "rounds",
    "calm",
    "runs",
    "works",
    "kills",
    "stops",
    "cuts",
    "lost answers",
    "skewed",
    "takeovers",
    "calls",
    "extra",
    "duplicates",
)


def main() -> int:
    """Play what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, metavar="N", help="default: 300")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="default: a new one")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="this round of the seed only")
    parser.add_argument("--transport", choices=("file", "http"), help="default: drawn for each round")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="rounds at once (default: 2)")
    parser.add_argument("--keep", action="store_true", help="keep the folder of each round")
    parser.add_argument(
        "--bugs",
        nargs="*",
        choices=list(BUGS),
        metavar="BUG",
        help=f"play each planted bug for so many rounds at most, or these of {', '.join(BUGS)}",
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 10**9
    print(f"seed {seed}", flush=True)
    if options.bugs is not None:
        found = [_planted(bug, seed, options) for bug in options.bugs or BUGS]
        return 0 if all(found) else 1
    begun, total, violated = time.monotonic(), Counter[str](), 0
    try:
        for played in _play(seed, options, ""):
            total += played.counts
            violated += bool(played.bad)
            _tell(played)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    for name in _rows(total):
        print(f"{total[name]:>8,}  {name}")
    print(f"{violated:>8,}  rounds with violations; {time.monotonic() - begun:.0f} s")
    return 1 if violated or not total["rounds"] else 0


def _rows(total: Counter[str]) -> list[str]:
    return [*ROWS, *sorted(total.keys() - set(ROWS))]


def _play(seed: int, options: argparse.Namespace, bug: str) -> Iterator[Played]:
    rounds = options.only or range(options.rounds)
    with ProcessPoolExecutor(max(1, options.jobs)) as pool:
        asked = [
            pool.submit(play, seed, number, options.transport, bug=bug, keep=options.keep)
            for number in rounds
        ]
        try:
            for done in as_completed(asked):
                yield done.result()
        finally:
            for one in asked:
                one.cancel()


def _tell(played: Played) -> None:
    for bad in played.bad:
        print(f"VIOLATION: seed {played.round.seed} round {played.round.number}: {bad}", flush=True)
    if played.folder:
        print(f"  kept: {played.folder}", flush=True)


def _planted(bug: str, seed: int, options: argparse.Namespace) -> bool:
    rounds = 0
    for played in _play(seed, options, bug):
        rounds += 1
        if played.bad:
            print(
                f"{bug}: found in {rounds} rounds (round {played.round.number}): {played.bad[0]}", flush=True
            )
            return True
    print(f"{bug}: NOT FOUND in {rounds} rounds", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
