"""P11 with a service that goes wrong in every way: whole runs against real HTTP, and once more.

The act looks at nothing before it asks, so a service that is asked twice makes two. What the recipes do with such a
service by themselves is in tests/commands/test_recipes.py; dying on the way, in tests/crash/acts.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import CLIENT, Service
from tests.support.world import World, until

MADE = ("lost", "silent", "error_after", "garbled")  # and the act does not hear of it
NOT_MADE = ("dropped", "error", "throttled", "unauthorized")
CLIENT_IS = f"{sys.executable} -I -S -B client.py"
HOW: dict[str, dict[str, Any]] = {
    "evidence": {"evidence": f"{CLIENT_IS} find", "settle": "1.5s"},
    "human": {},
    "keyed": {"idempotent": True},
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "service.sqlite", delay=0.4, retry_after=1) as service:
        yield service


def world_of(path: Path, service: Service, how: str) -> World:
    publish = {
        "effect": True,
        "run": f"{CLIENT_IS} put",
        "output": "published/{slug}.json",
        "timeout": "4s",
        "policy": {name: {"base": 0.01, "tries": 2} for name in ("unknown", "timeout", "quota/throttle")},
        **HOW[how],
    }
    made = World(path / "world", stages={"publish": publish}, items=["one"], files={"client.py": CLIENT})
    (made.home / "port").write_text(service.url.rpartition(":")[2])
    service.honours_keys = how == "keyed"
    return made


def answer(made: World, service: Service) -> None:
    """What a person says who has looked."""
    found = service.created("one")
    word = ("--happened", found[0]["url"]) if found else ("--did-not-happen",)
    made.a.gitstate("resolve", "one", *word, code=0)


@pytest.mark.parametrize(
    ("mode", "how"),
    [
        *((mode, "evidence") for mode in (*MADE, *NOT_MADE, "late")),
        *((mode, "human") for mode in ("lost", "dropped", "throttled", "late")),
        *((mode, "keyed") for mode in ("lost", "dropped", "late")),
    ],
)
def test_p11_whatever_a_service_does_an_article_is_made_once(
    tmp_path: Path, service: Service, mode: str, how: str
) -> None:
    made = world_of(tmp_path, service, how)
    service.next(mode)
    code = made.a.gitstate("run").code
    if how == "human" and mode not in ("throttled", "unauthorized"):  # these were turned away, and say so
        assert code == 3
        assert len(service.writes) == 1
        assert mode != "late" or until(lambda: service.created("one"))  # who looks too early is wrong
        answer(made, service)
        code = made.a.gitstate("run").code
    if mode == "unauthorized":  # (a matter of credentials is not tried again by itself)
        assert code == 1
        code = made.a.gitstate("run", "--retry-failed").code
    assert code == 0
    asked = len(service.asked)
    made.a.run()
    assert len(service.asked) == asked
    assert len(service.created("one")) == 1
    assert set(made.a.states().values()) == {"done exact"} or how == "human"
    if how != "keyed":
        assert len(service.writes) == (2 if mode in NOT_MADE else 1)
    assert len({one.key for one in service.writes}) == 1


@pytest.mark.parametrize("mode", ["silent", "unavailable", "garbled"])
def test_p11_a_service_that_is_down_when_it_is_asked_is_asked_for_nothing_more(
    tmp_path: Path, service: Service, mode: str
) -> None:
    made = world_of(tmp_path, service, "evidence")
    service.next("lost")
    service.reading = mode
    made.a.run(code=3)
    made.a.run("--retry-failed", code=3)
    assert len(service.writes) == 1
    service.reading = "normal"
    made.a.run("--retry-failed")
    assert json.loads(made.a.show("published/one.json")) == {"url": "https://example.org/1"}
    assert (len(service.writes), len(service.created("one"))) == (1, 1)
