"""Two looks at a working tree, and who may have written what lies between them."""

from __future__ import annotations

from collections.abc import Mapping

from gitstate.core.guard import GRAIN, RUNNING, Change, Scan, Seen, Span, attribute, compare

SECOND = 1_000_000_000
FILE: Seen = (5 * SECOND, 3, 7, 0o100644, 5 * SECOND)


def look(files: Mapping[str, Seen], at: int, *blind: str) -> Scan:
    return Scan(files, frozenset(blind), at * SECOND, at * SECOND)


def ran(name: str, begun: float, ended: float | None, *outputs: str, guarded: bool = True) -> Span:
    end = RUNNING if ended is None else int(ended * SECOND)
    return Span(name, name, outputs, guarded, int(begun * SECOND), end)


def laid_to(change: Change, *spans: Span) -> list[list[str]]:
    return [[span.name for span in stray.suspects] for stray in attribute([change], spans)]


def changed_at(seconds: float) -> Change:
    return Change("x", "changed", int(seconds * SECOND))


def test_what_came_went_and_changed_is_found() -> None:
    other = (6 * SECOND, 3, 7, 0o100644, 6 * SECOND)
    before = look({"same": FILE, "gone": FILE, "other": FILE}, 4)
    after = look({"same": FILE, "other": other, "new": other}, 9)
    assert compare(before, after) == [
        Change("gone", "deleted", None),
        Change("new", "created", 6 * SECOND),
        Change("other", "changed", 6 * SECOND),
    ]


def test_a_change_of_rights_alone_counts_and_one_of_owners_or_links_does_not() -> None:
    run = (*FILE[:3], 0o100755, 6 * SECOND)
    linked = (*FILE[:4], 6 * SECOND)
    assert compare(look({"x": FILE}, 4), look({"x": run}, 9)) == [Change("x", "changed", 6 * SECOND)]
    assert compare(look({"x": FILE}, 4), look({"x": linked}, 9)) == []


def test_what_one_look_could_not_see_has_not_changed() -> None:
    files = {"dark/x": FILE, "dark/deep/y": FILE, "odd": FILE}
    assert compare(look(files, 4), look({}, 9, "dark/", "odd")) == []
    assert compare(look({}, 4, "dark/"), look({"dark/x": FILE, "dark/deep/y": FILE}, 9)) == []
    assert [c.path for c in compare(look({}, 4, "dark/"), look({"darker/x": FILE}, 9))] == ["darker/x"]


def test_a_time_that_is_not_of_these_days_tells_nothing() -> None:
    assert compare(look({}, 7), look({"x": FILE}, 9)) == [Change("x", "created", None)]
    assert compare(look({}, 1), look({"x": FILE}, 3)) == [Change("x", "created", None)]


def test_times_of_a_clock_that_is_ahead_are_put_back() -> None:
    before, after = look({}, 1), look({"x": FILE}, 3)
    assert compare(before, after, 3 * SECOND) == [Change("x", "created", 2 * SECOND)]


def test_a_change_is_laid_to_those_that_ran_then() -> None:
    a, b, c = ran("a", 1, 4), ran("b", 3, 9), ran("c", 5, None)
    assert laid_to(changed_at(2), a, b, c) == [["a"]]
    assert laid_to(changed_at(3.5), a, b, c) == [["a", "b"]]
    assert laid_to(changed_at(20), a, b, c) == [["c"]]
    assert laid_to(Change("x", "deleted", None), a, b, c) == [["a", "b", "c"]]


def test_a_change_when_nothing_ran_is_nobodys() -> None:
    assert laid_to(changed_at(4.5), ran("a", 1, 4), ran("b", 5, 6)) == []
    assert laid_to(Change("x", "deleted", None)) == []


def test_a_file_may_bear_the_time_of_the_tick_before_its_command_began() -> None:
    assert attribute([Change("x", "created", 5 * SECOND - GRAIN)], [ran("a", 5, 6)])
    assert not attribute([Change("x", "created", 5 * SECOND - GRAIN - 1)], [ran("a", 5, 6)])


def test_what_one_that_ran_then_declares_is_no_stray() -> None:
    assert laid_to(changed_at(2), ran("a", 1, 4, "x"), ran("b", 1, 4)) == []
    assert laid_to(changed_at(2), ran("a", 3, 4, "x"), ran("b", 1, 4)) == [["b"]]


def test_where_nobody_guarded_ran_nothing_is_said() -> None:
    off = ran("a", 1, 4, guarded=False)
    assert laid_to(changed_at(2), off) == []
    assert laid_to(changed_at(2), off, ran("b", 1, 4)) == [["a", "b"]]


def test_ten_thousand_works_that_all_stray_are_told_apart() -> None:
    spans = [ran(str(n), n, n + 0.9) for n in range(10_000)]
    changes = [Change(f"{n:05}", "created", int((n + 0.5) * SECOND)) for n in range(10_000)]
    strays = attribute(changes, spans)
    assert [(int(stray.path), len(stray.suspects)) for stray in strays] == [(n, 1) for n in range(10_000)]
    assert all(int(stray.path) == int(stray.suspects[0].name) for stray in strays)
