"""Worlds that many tests begin with, made once and copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import CHAIN, World


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("finished"), model={"name": "tiny", "temperature": 0})
    world.a.run()
    return world


@pytest.fixture
def finished(finished_once: World, tmp_path: Path) -> World:
    """Two items and one stage, all done; no remote."""
    return finished_once.copy(tmp_path)


@pytest.fixture(scope="session")
def shared_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("shared"), remote=True)
    world.a.run()
    return world


@pytest.fixture
def shared(shared_once: World, tmp_path: Path) -> World:
    """Two items and one stage, all done and pushed to a bare remote."""
    return shared_once.copy(tmp_path)


@pytest.fixture(scope="session")
def chained_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("chained"), stages=CHAIN)
    world.a.run()
    return world


@pytest.fixture
def chained(chained_once: World, tmp_path: Path) -> World:
    """Two items and two stages, the second of which needs the first, all done."""
    return chained_once.copy(tmp_path)
