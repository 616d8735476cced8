"""Unattended nights: a window that closes at 23:10 and opens at 04:00, two machines on one account, a fast clock.

Real processes, a real remote, a provider that writes down each call.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support import night
from tests.support.world import PATIENCE, Clone, World

CLOSES = datetime(2026, 8, 7, 23, 10, tzinfo=timezone.utc)
OPENS = datetime(2026, 8, 8, 4, 0, tzinfo=timezone.utc)
SPEED = 1200  # seconds of the night in one
PROVIDER = f"{sys.executable} -I {Path(night.__file__).with_name('nightly.py')}"


def stage(*arguments: str) -> dict[str, Any]:
    # (through the environment, so that no path of this machine gets into the configuration)
    return {"run": " ".join(("$NIGHTLY", *arguments)), "output": "out/{slug}.md"}


class Night:
    """Two clones of one world, and the calls of their runs."""

    def __init__(self, folder: Path, *arguments: str, **top: Any) -> None:
        items = [f"{machine}{number}" for machine in "ab" for number in range(20)]
        self.world = World(
            folder,
            stages={"article": stage(*arguments)},
            items=items,
            remote=True,
            model={"name": "m"},
            **top,
        )
        self.env = {"NIGHT": f"{time.time()} {SPEED}", "NIGHTLY": PROVIDER}
        self.a, self.b = self.world.a, self.world.clone("b")
        self.b.settle_down()

    def start(self, clone: Clone, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            (sys.executable, night.__file__, "run", "--wait", *arguments),
            cwd=clone.path, env={**self.world.environment, **self.env}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def calls(self) -> list[dict[str, Any]]:
        lines = (self.world.home / "night").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def closed(self) -> list[datetime]:
        return sorted(datetime.fromisoformat(call["at"]) for call in self.calls() if call["closed"])


def ended(process: subprocess.Popen[str]) -> str:
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("says", ["when it opens", "nothing of when it opens"])
def test_two_machines_through_a_night_buy_nothing_twice_and_one_of_them_looks_in_each_round(
    tmp_path: Path, says: str
) -> None:
    silent = says != "when it opens"
    dark = Night(tmp_path, *(["silent"] if silent else []))
    both = [dark.start(dark.a, "-j", "2", "a*"), dark.start(dark.b, "-j", "2", "b*")]
    said = [ended(process) for process in both]
    assert all("Waiting until" in text for text in said)

    answered = [call["slug"] for call in dark.calls() if not call["closed"]]
    assert sorted(answered) == sorted(set(answered)), "nothing is bought twice"
    dark.a.git("pull", "-q")
    dark.b.git("pull", "-q")
    assert set(dark.a.states().values()) == {"done exact"}
    assert dark.a.plan_text() == dark.b.plan_text()
    assert not [line for line in dark.a.log() if line["state"] != "pending"], (
        "no attempt counts against a work"
    )
    assert not dark.world.git(dark.world.remote, "for-each-ref", "refs/gitstate"), (
        "the pause is lifted for all"
    )

    # Calls that were under way when it closed find it closed (2 a machine), and then one looks in each round.
    rounds, look, length = 0, CLOSES, timedelta(minutes=5)
    while silent and (look := look + length) < OPENS:
        rounds += 1
        length = min(length * 2, timedelta(hours=1))
    assert len(dark.closed()) <= 4 + rounds, dark.closed()


def test_a_machine_that_comes_in_the_dark_honours_the_pause_of_another_and_pays_nothing(
    tmp_path: Path,
) -> None:
    dark = Night(tmp_path)
    dark.env["NIGHT"] = f"{time.time() - 3600 / SPEED} {SPEED}"  # it is ten to twelve
    first = subprocess.run(
        (sys.executable, night.__file__, "run", "a*"), cwd=dark.a.path, capture_output=True, text=True,
        env={**dark.world.environment, **dark.env}, check=False,
    )  # fmt: skip
    assert first.returncode == 75, first.stderr
    assert "Paused: m, quota/window" in first.stderr
    assert "04:00:00" in first.stderr
    second = subprocess.run(
        (sys.executable, night.__file__, "run", "b*"), cwd=dark.b.path, capture_output=True, text=True,
        env={**dark.world.environment, **dark.env}, check=False,
    )  # fmt: skip
    assert second.returncode == 75, second.stderr
    assert len(dark.calls()) == 1
    assert set(dark.b.states().values()) == {"paused new quota"}


def test_a_configured_probe_looks_and_no_work_is_tried_before_it_says_open(tmp_path: Path) -> None:
    dark = Night(tmp_path, "silent", probe="GITSTATE_SLUG=probe $NIGHTLY silent")
    said = ended(dark.start(dark.a, "-j", "2"))
    assert "is open again" in said
    calls = dark.calls()
    tried = [call["slug"] for call in calls if call["closed"] and call["slug"] != "probe"]
    assert len(tried) <= 2, "those that were under way when it closed"
    assert [call["slug"] for call in calls].count("probe") >= 2
    assert set(dark.a.states().values()) == {"done exact"}
