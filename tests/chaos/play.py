"""One round from its seed to what was found; and what a planted bug needs to be found."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.chaos import processes
from tests.chaos.arena import Arena, make_template
from tests.chaos.judge import Judge
from tests.chaos.schedule import RATE, Round, draw
from tests.chaos.storm import Storm


class Played(NamedTuple):
    """What became of one round."""

    round: Round
    bad: list[str]
    counts: Counter[str]
    folder: str  # what is left of it; "": nothing
    seconds: float


def play(
    seed: int, number: int, transport: str | None = None, *, bug: str = "", keep: bool = False
) -> Played:
    """Play one round in a folder of its own, which is kept if something was found that was not planted."""
    begun, round = time.monotonic(), draw(seed, number, transport)
    folder = Path(tempfile.mkdtemp(prefix=f"gitstate-chaos-{seed}-{number}-"))
    make_template(folder / "template")
    with Arena(round, folder / "template", folder / "round", bug) as arena:
        try:
            storm = Storm(arena)
            storm.play()
            found = Judge(arena, storm).findings()
        finally:
            processes.end_all(arena.mark)
    counts = storm.events + Counter(
        rounds=1,
        works=found.works,
        calls=found.calls,
        extra=found.calls - found.works,
        duplicates=found.duplicates,
        takeovers=found.taken_over,
        runs=len(storm.runs),
        skewed=sum(bool(member.skew) or member.rate != RATE for member in round.members),
        calm=int(round.calm),
    )
    kept = keep or (bool(found.bad) and not bug)
    if kept:
        (folder / "round" / "found").write_text(
            "\n".join([repr(round), *map(repr, storm.runs), *found.bad, ""])
        )
    else:
        shutil.rmtree(folder)
    return Played(round, found.bad, counts, str(folder) if kept else "", time.monotonic() - begun)
