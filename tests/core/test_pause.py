"""Pauses: what one holds, when to look again, and that any bytes are read or refused."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core import pause
from gitstate.core.pause import Pause

NOW = datetime(2026, 8, 7, 23, 10, tzinfo=timezone.utc)
OPENS = datetime(2026, 8, 8, 4, 0, tzinfo=timezone.utc)


def test_a_stated_time_is_when_to_look() -> None:
    found = pause.begin("acc", "window", "rule", "why", OPENS, NOW)
    assert found.probe == found.until == "2026-08-08T04:00:00Z"
    assert not pause.is_over(found, OPENS - timedelta(seconds=1))
    assert pause.is_over(found, OPENS)


def test_without_one_the_looks_become_rarer_up_to_an_hour() -> None:
    found, now, gaps = pause.begin("acc", "billing", "rule", "why", None, NOW), NOW, []
    for _ in range(8):
        gaps.append((pause.when(found.probe) - now).total_seconds() / 60)
        now = pause.when(found.probe)
        claimed = pause.claim(found, "me", now)
        assert not pause.is_over(claimed, now)
        found = pause.again(claimed, "billing", "rule", "why", None, now)
    assert gaps == [5, 10, 20, 40, 60, 60, 60, 60]
    assert found.at == pause.stamp(NOW)


def test_a_time_that_has_passed_already_is_no_reason_to_look_at_once() -> None:
    found = pause.begin("acc", "window", "rule", "why", NOW - timedelta(hours=1), NOW)
    assert not pause.is_over(found, NOW)


@given(
    st.builds(
        Pause,
        *[st.text(max_size=20)] * 2,
        *[st.just("2026-08-07T23:10:00Z")] * 3,
        st.integers(0, 99),
        st.text(max_size=50),
        st.text(max_size=9),
        st.text(max_size=9),
    )
)
def test_what_is_written_is_read(one: Pause) -> None:
    assert pause.decode(pause.encode(one)) == one


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        pause.decode(data)


@pytest.mark.parametrize(
    "change", [{"v": 2}, {"probe": "soon"}, {"account": None}, {"until": "tomorrow"}, {"at": 5}]
)
def test_a_pause_of_another_kind_is_refused(change: dict[str, object]) -> None:
    fields = json.loads(pause.encode(pause.begin("acc", "window", "rule", "why", OPENS, NOW)))
    with pytest.raises(ValueError, match=r".+"):
        pause.decode(json.dumps({**fields, **change}).encode())


@pytest.mark.parametrize(
    "account", ["gpt-5", "team/a", "a b", "..", ".", "x.lock", "ä", "a..b", "@{", "-x", "", "a~1"]
)
def test_every_account_has_a_ref_name_of_its_own_that_git_takes(account: str) -> None:
    import subprocess

    name = pause.ref_name(account)
    assert (
        subprocess.run(["git", "check-ref-format", f"refs/gitstate/pause/{name}"], check=False).returncode
        == 0
    )
    others = ["gpt-5", "team-a", "a-b", "account", "x", "a.b", "a-1"]
    assert name not in {pause.ref_name(other) for other in others if other != account}
