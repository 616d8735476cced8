"""The policy table: which failure comes again, which fails, which pauses what."""

from __future__ import annotations

import pytest

from gitstate.core.policy import TABLE, Reaction, Row, react, row


@pytest.mark.parametrize(
    ("category", "kind", "reactions"),
    [
        ("quota", "throttle", ["again", "again", "pause_run"]),
        ("quota", "capacity", ["again", "again", "pause_run"]),
        ("quota", "window", ["pause_run"]),
        ("quota", "billing", ["pause_run"]),
        ("quota", "of a kind nobody knows", ["pause_run"]),
        ("timeout", "wall", ["again", "again", "pause"]),
        ("timeout", "silence", ["again", "again", "pause"]),
        ("unknown", None, ["again", "again", "pause"]),
        ("validation", "empty", ["again", "again", "fail"]),
        ("validation", "error_shaped", ["again", "again", "fail"]),
        ("validation", "truncated", ["fail"]),
        ("validation", "refused", ["fail"]),
        ("validation", "front_matter", ["fail"]),
        ("phase_error", "auth", ["fail"]),
        ("phase_error", "crash", ["fail"]),
        ("planning_error", None, ["fail"]),
    ],
)
def test_each_failure_gets_its_tries_and_then_its_end(
    category: str, kind: str | None, reactions: list[str]
) -> None:
    seen = [react({}, category, kind, number, None, 0.5).do for number in range(1, len(reactions) + 1)]
    assert seen == reactions


def test_the_pause_before_the_next_try_begins_at_a_second_and_doubles() -> None:
    long = {"timeout": Row(9, 1.0, "fail")}
    assert [react(long, "timeout", "wall", n, None, 1.0).after for n in range(1, 6)] == [1, 2, 4, 8, 16]
    assert [react(long, "timeout", "wall", n, None, 0.0).after for n in range(1, 4)] == [0.5, 1, 2]


@pytest.mark.parametrize("wait", [0.0, 7.5, 86_400.0 * 3])
@pytest.mark.parametrize("chance", [0.0, 0.7, 1.0])
def test_a_stated_wait_is_kept_in_full_and_hardly_more(wait: float, chance: float) -> None:
    assert wait <= react({}, "quota", "throttle", 1, wait, chance).after <= wait + 1


def test_a_stage_may_set_rows_of_its_own_and_its_kind_counts_before_its_category() -> None:
    own = {"timeout": Row(1, 1.0, "fail"), "validation/empty": Row(5, 2.0, "pause")}
    assert react(own, "timeout", "wall", 1, None, 0.5) == Reaction("fail")
    assert react(own, "validation", "empty", 4, None, 1.0) == Reaction("again", 16.0)
    assert react(own, "validation", "empty", 5, None, 1.0).do == "pause"
    assert row(own, "validation", "refused") == TABLE["validation"]
    assert row({"validation": Row(2, 1.0, "pause")}, "validation", "empty") == Row(2, 1.0, "pause")


@pytest.mark.parametrize(
    ("do", "state"), [("again", "pending"), ("pause_run", "pending"), ("pause", "paused"), ("fail", "failed")]
)
def test_where_the_run_pauses_the_work_is_innocent(do: str, state: str) -> None:
    assert Reaction(do).state == state  # type: ignore[arg-type]
