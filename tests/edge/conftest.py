"""What tests of the edge share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.clones import close_all


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    yield
    close_all()
