"""What one line of history has and others have not, also where clocks were wrong when its commits were made."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitstate.edge.git import Git
from gitstate.edge.history import contains, only_in
from tests.support.clones import git

Graph = list[tuple[list[int], int]]  # of each commit: its parents, by number, and its date


def make(folder: Path, graph: Graph) -> list[str]:
    """A repository with these commits, on a branch each; their ids."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    stream = ""
    for number, (parents, date) in enumerate(graph):
        stream += f"commit refs/heads/c{number}\nmark :{number + 1}\n"
        stream += f"committer A <a@example.org> {date} +0000\ndata 1\n{number % 10}\n"
        stream += "".join(
            f"{'merge' if nth else 'from'} :{parent + 1}\n" for nth, parent in enumerate(parents)
        )
        stream += f"M 100644 inline {number}\ndata 0\n\n"
    subprocess.run(
        ["git", "-C", str(folder), "fast-import", "--quiet", "--force"], input=stream.encode(), check=True
    )
    names = [f"refs/heads/c{number}" for number in range(len(graph))]
    return git(folder, "rev-parse", *names).split()


def reach(graph: Graph, start: int) -> set[int]:
    found, todo = set(), [start]
    while todo:
        if (number := todo.pop()) not in found:
            found.add(number)
            todo += graph[number][0]
    return found


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Long lines that part and merge, with dates from clocks that say anything."""
    graph: Graph = []
    for number in range(draw(st.integers(8, 30))):
        near = st.integers(max(0, number - 3), max(0, number - 1))
        parents = draw(st.lists(near, min_size=1, max_size=2, unique=True)) if number else []
        graph.append((parents, draw(st.sampled_from([1_000, 2_000, 3_000])) + number))
    return graph


@settings(max_examples=60, deadline=None)
@given(graphs(), st.data())
def test_p3_whatever_commits_are_dated_what_only_one_line_has_is_told(
    graph: Graph, data: st.DataObject
) -> None:
    numbers = st.integers(0, len(graph) - 1)
    tip, others = data.draw(numbers), data.draw(st.lists(numbers, max_size=3))
    with tempfile.TemporaryDirectory() as folder:
        ids = make(Path(folder), graph)
        found = only_in(Git(folder), ids[tip], [ids[other] for other in others])
        wanted = reach(graph, tip).difference(*(reach(graph, other) for other in others))
        assert set(found) == {ids[number] for number in wanted}
        place = {oid: n for n, oid in enumerate(found)}
        for number in wanted:
            assert all(place.get(ids[parent], -1) < place[ids[number]] for parent in graph[number][0])
        for other in others:
            assert contains(Git(folder), ids[tip], ids[other]) == (other in reach(graph, tip))


def line(start: int, count: int, date: int) -> Graph:
    return [([number - 1] if number else [], date) for number in range(start, start + count)]


def test_p3_many_commits_by_a_slow_clock_hide_nothing_that_they_stand_on(tmp_path: Path) -> None:
    graph = line(0, 3, 5_000) + line(3, 8, 1_000) + [([2], 6_000)]
    ids = make(tmp_path, graph)
    assert only_in(Git(str(tmp_path)), ids[-1], [ids[-2]]) == [ids[-1]]


def test_a_line_that_goes_around_the_base_by_a_merge_is_told_too(tmp_path: Path) -> None:
    # 0 - 1 … 9 - 10 (base)   12: a merge of the base and of 11, which stands on 0
    graph = line(0, 1, 9_000) + line(1, 10, 1_000) + [([0], 9_500), ([10, 11], 9_900), ([10], 9_800)]
    ids = make(tmp_path, graph)
    assert only_in(Git(str(tmp_path)), ids[12], [ids[13]]) == [ids[11], ids[12]]


def test_histories_with_nothing_in_common_are_each_their_own(tmp_path: Path) -> None:
    ids = make(tmp_path, [([], 1), ([0], 2), ([], 3)])
    assert only_in(Git(str(tmp_path)), ids[1], [ids[2]]) == ids[:2]
    assert only_in(Git(str(tmp_path)), ids[1], []) == ids[:2]


@pytest.mark.parametrize("missing", [0, 1])
def test_one_that_has_lost_its_past_hides_nothing_of_the_others(tmp_path: Path, missing: int) -> None:
    ids = make(tmp_path, [([], 1), ([0], 2), ([1], 3), ([], 4), ([3], 5)])
    (tmp_path / ".git/objects" / ids[3][:2] / ids[3][2:]).unlink()
    others = [ids[4], ids[1]] if missing else [ids[1], ids[4]]
    assert only_in(Git(str(tmp_path)), ids[2], others) == [ids[2]]
