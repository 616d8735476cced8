"""All crash sweeps: `python -m tests.crash`, from the repository's root, with gitstate installed in that Python.

Prints one line a violation and one line a sweep; exit code 1 if anything was violated, a planted bug was not
found, or a sweep ran 0 points. See README.md here.
"""

from __future__ import annotations

import argparse
import sys

from tests.crash import sweeps


def main() -> int:
    """Run the sweeps that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="SWEEP", help=f"one of: {', '.join(sweeps.names())}"
    )
    parser.add_argument("--quick", action="store_true", help="the sample that CI runs")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="one in N points of each sweep over calls"
    )
    parser.add_argument(
        "--seed", type=int, default=20, metavar="N", help="chooses samples and pairs (default: 20)"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, metavar="N", help="processes at once (default: one a core)"
    )
    options = parser.parse_args()
    unknown = set(options.only or ()) - set(sweeps.names())
    if unknown:
        parser.error(f"no such sweep: {', '.join(sorted(unknown))}")
    return sweeps.main(
        options.only or sweeps.names(), options.quick, options.seed, options.jobs, options.every
    )


if __name__ == "__main__":
    sys.exit(main())
