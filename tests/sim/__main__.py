"""The simulator of leases: `python -m tests.sim --steps N --seed S`, from the repository's root.

Prints what was played; exit code 1, and the world's seed, if something happened that must not; with --bugs if a
planted bug was not found.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.sim.bugs import BUGS
from tests.sim.play import Found, play


def main() -> int:
    """Play what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000, metavar="N", help="default: two million")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="default: a new one")
    parser.add_argument("--bugs", action="store_true", help="play each planted bug for that long at most")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 10**9
    if options.bugs:
        found = [_planted(bug, options.steps, seed) for bug in BUGS]
        return 0 if found and all(found) else 1
    print(f"seed {seed}", flush=True)
    begun = time.monotonic()
    try:
        played = play(options.steps, seed)
    except Found as error:
        print(f"VIOLATION: {error}")
        return 1
    events = ", ".join(f"{name} {number:,}" for name, number in sorted(played.events.items()))
    print(
        f"{played.steps:,} steps, {played.worlds:,} worlds, {played.works:,} works published once each, "
        f"paid for {played.paid:,} times; {events}; 0 violations; {time.monotonic() - begun:.0f} s"
    )
    return 0 if played.steps else 1


def _planted(bug: type, steps: int, seed: int) -> bool:
    try:
        play(steps, seed, bug)
    except Found as error:
        print(f"{bug.__name__}: found after {error.step:,} steps: {error}")
        return True
    print(f"{bug.__name__}: NOT FOUND in {steps:,} steps")
    return False


if __name__ == "__main__":
    sys.exit(main())
