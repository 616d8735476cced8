"""A world outside the repository that effects change, as files: what was asked for, and what was made of it.

The act and its evidence are scripts of the repository under test. One order at a time says how the next act goes.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.world import ARTICLE, Done, World

ACT = """#!/bin/sh
cd "$PROVIDER_HOME" || exit 9
order=$(cat next 2>/dev/null || cat always 2>/dev/null)
rm -f next
echo "$GITSTATE_SLUG $GITSTATE_ATTEMPT_ID $GITSTATE_IDEMPOTENCY_KEY $GITSTATE_PREVIOUS_EVIDENCE" >> acts
case $order in
fail) echo "boom" >&2; exit 1;;
throttle) echo "Error: 429 Too Many Requests" >&2; exit 1;;
kill-before) kill -9 $(cat pid); sleep 5;;
wait) while [ -e hold ]; do sleep 0.02; done;;
esac
if ! { [ -e by-key ] && grep -q " $GITSTATE_IDEMPOTENCY_KEY$" made 2>/dev/null; }; then
  echo "$GITSTATE_SLUG $GITSTATE_IDEMPOTENCY_KEY" >> made
fi
case $order in
kill-after) kill -9 $(cat pid); sleep 5;;
lose) echo "connection reset by peer" >&2; exit 1;;
hang) sleep 60;;
empty) exit 0;;
esac
echo "made for $GITSTATE_SLUG"
"""

EVIDENCE = """#!/bin/sh
cd "$PROVIDER_HOME" || exit 9
echo "$GITSTATE_SLUG $GITSTATE_ATTEMPT_ID $GITSTATE_IDEMPOTENCY_KEY" >> questions
[ -e down ] && { echo "the service is down" >&2; exit 7; }
[ -e mute ] && exit 0
[ -e blind ] && { rm blind; exit 1; }
grep -q "^$GITSTATE_SLUG " made 2>/dev/null && { echo "found $GITSTATE_SLUG"; exit 0; }
exit 1
"""

SCRIPTS = {"act.sh": ACT, "evidence.sh": EVIDENCE}
PUBLISH = {
    "needs": ["article"],
    "effect": True,
    "run": "sh act.sh",
    "evidence": "sh evidence.sh",
    "settle": 0,
    "output": "published/{slug}.txt",
    "policy": {name: {"base": 0.01} for name in ("unknown", "timeout", "quota/throttle")},
}
AFTER = {"needs": ["publish"], "run": "cat {{ needs.publish }}", "output": "after/{slug}.txt"}


def stages(without: tuple[str, ...] = (), **changes: Any) -> Mapping[str, Any]:
    """An article that is paid for, an effect that publishes it, and a stage that needs that."""
    publish = {name: value for name, value in {**PUBLISH, **changes}.items() if name not in without}
    return {"article": ARTICLE, "publish": publish, "after": AFTER}


class Outside:
    """What effects did, and what they meet, in one test world."""

    def __init__(self, world: World) -> None:
        self.home = world.home

    def next(self, order: str) -> None:
        """How the next act goes: fail, throttle, kill-before, kill-after, lose, hang, empty or wait."""
        (self.home / "next").write_text(order)

    def always(self, order: str) -> None:
        (self.home / "always").write_text(order)

    def set(self, name: str, on: bool = True) -> None:
        """down, mute, blind (evidence sees nothing, once), by-key (equal keys are one act), hold (see `wait`)."""
        (self.home / name).touch() if on else (self.home / name).unlink(missing_ok=True)

    def made(self) -> Counter[str]:
        """How often each slug's effect happened."""
        return Counter(line[0] for line in self._lines("made"))

    def acts(self) -> list[list[str]]:
        """Slug, attempt, key and previous evidence of every act that was begun."""
        return self._lines("acts")

    def questions(self) -> list[list[str]]:
        """Slug, attempt and key of every question to the evidence command."""
        return self._lines("questions")

    def _lines(self, name: str) -> list[list[str]]:
        try:
            return [line.split(" ", 3) for line in (self.home / name).read_text().splitlines()]
        except FileNotFoundError:
            return []


def world(folder: Path, *items: str, remote: bool = False, **changes: Any) -> tuple[World, Outside]:
    """A world with those stages, and what is outside of it."""
    made = World(folder, stages=stages(**changes), items=items or ("one",), files=SCRIPTS, remote=remote)
    return made, Outside(made)


def run_killed(made: World, outside: Outside, order: str, *arguments: str) -> Done:
    """A run that the act kills."""
    outside.next(order)
    running = made.a.start("run", *arguments)
    (made.home / "pid").write_text(str(running.process.pid))
    return running.wait(-signal.SIGKILL)
