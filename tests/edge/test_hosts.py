"""Hosts that refuse notes, several refs at once, deletions or too many pushes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gitstate.edge import hosting, remote
from gitstate.edge.hosting import Takes
from gitstate.edge.remote import BRANCHES, NOTES
from gitstate.edge.repo import LOG, RECEIPTS
from gitstate.edge.sync import Amount
from gitstate.errors import ComeBackLater, NeedsHuman, UsageError
from tests.support import hosts
from tests.support.clones import ENVIRONMENT, MAIN, Bare, Clone
from tests.support.httpgit import serve


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "pause", lambda *_: None)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path / "remote.git")


def first(bare: Bare) -> Clone:
    clone = bare.clone("a")
    clone.commit(plan="plan")
    clone.record("out/0.md", "0")
    clone.log("said")
    return clone


def agree(*clones: Clone) -> None:
    for clone in clones:
        done = clone.sync()
        assert (done.came, done.went, done.pushes) == (Amount(), Amount(), 0)
        assert clone.tip() == clones[0].tip()
        assert clone.tip(RECEIPTS + "^{tree}") == clones[0].tip(RECEIPTS + "^{tree}")
        assert clone.tip(LOG + "^{tree}") == clones[0].tip(LOG + "^{tree}")


def notes_there(bare: Bare) -> dict[str, str]:
    return {ref: bare.ref(ref) for home in (NOTES, BRANCHES) for ref in home if bare.ref(ref)}


def probes_left(bare: Bare) -> list[str]:
    listed = subprocess.run(
        ("git", "for-each-ref"), cwd=bare.path, capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if "probe" in line]


# A sync


@pytest.mark.parametrize("refuse", hosts.BRANCHES_ONLY, ids=lambda f: f.__name__)
def test_p3_on_a_host_that_takes_only_branches_notes_travel_as_branches(
    bare: Bare, refuse: Callable[[Path], None]
) -> None:
    refuse(bare.path)
    a = first(bare)
    # (where refs are hidden, git lets the rest of an atomic push through)
    assert a.sync().went[1:] == (1, 1)
    assert bare.ref(MAIN) == a.tip()
    assert set(notes_there(bare)) == set(BRANCHES)
    b = bare.clone("b")
    assert b.sync().came == Amount(0, 1, 1)
    agree(a, b)
    b.record("out/1.md", "1")
    b.log("b")
    a.record("out/2.md", "2")
    a.sync()
    b.sync()
    a.sync()
    agree(a, b)
    assert len(a.receipts()) == 3
    assert set(notes_there(bare)) == set(BRANCHES)
    assert probes_left(bare) == [] or refuse is hosts.keeping


def test_p3_a_host_that_takes_only_branches_is_one_over_smart_http_too(bare: Bare, tmp_path: Path) -> None:
    subprocess.run(("git", "config", "http.receivepack", "true"), cwd=bare.path, check=True)
    hosts.hidden(bare.path)
    a = first(bare)
    with serve(tmp_path) as url:
        a.git("remote", "set-url", "origin", f"{url}/remote.git")
        a.sync()
        b = bare.clone("b")
        b.git("remote", "set-url", "origin", f"{url}/remote.git")
        b.sync()
        b.record("out/b.md", "b")
        b.sync()
        a.sync()
        agree(a, b)
    assert set(notes_there(bare)) == set(BRANCHES)


def test_on_such_a_host_later_pushes_are_one_each(bare: Bare) -> None:
    hosts.hidden(bare.path)
    a = first(bare)
    a.sync()
    a.record("out/1.md", "1")
    assert a.sync().pushes == 1
    b = bare.clone("b")
    b.record("out/2.md", "2")
    assert b.sync().pushes == 1


def test_p3_where_a_host_has_both_their_union_counts(bare: Bare) -> None:
    a = first(bare)
    a.sync()
    b = bare.clone("b")
    b.sync()
    hosts.hidden(bare.path)  # from now on
    b.record("out/b.md", "b")
    b.sync()
    a.sync()
    agree(a, b)
    subprocess.run(("git", "config", "--unset-all", "transfer.hideRefs"), cwd=bare.path, check=True)
    a.note(RECEIPTS, a.tip("HEAD:plan.txt"), slug="old")
    a.git("push", "-q", "origin", f"{RECEIPTS}:{RECEIPTS}")
    c = bare.clone("c")
    c.sync()
    b.sync()
    a.sync()
    agree(a, b, c)
    assert len(c.receipts()) == 3


def test_plain_pull_brings_the_notes_of_such_a_host(bare: Bare) -> None:
    hosts.hidden(bare.path)
    a = first(bare)
    a.sync()
    b = bare.clone("b")
    b.sync()
    a.record("out/1.md", "1")
    a.sync()
    b.git("pull", "-q")
    assert b.sync(offline=True).came == Amount(0, 1, 0)
    assert b.receipts() == a.receipts()


def test_a_branch_of_that_name_is_not_for_results(bare: Bare) -> None:
    clone = first(bare)
    with pytest.raises(UsageError, match="gitstate/"):
        remote.pick(clone.plumbing, "refs/heads/gitstate/notes")


def test_a_host_that_takes_notes_keeps_them_as_notes_when_it_refuses_the_branch(bare: Bare) -> None:
    hosts.hook(bare.path, "update", "[ $1 != refs/heads/main ]")
    clone = first(bare)
    with pytest.raises(NeedsHuman, match=r"refuses .*refs/heads/main") as caught:
        clone.sync()
    assert "--branch" in caught.value.hint
    assert notes_there(bare) == {}
    assert probes_left(bare) == []


def test_a_host_that_takes_notes_and_two_refs_a_push_gets_it_in_parts(bare: Bare) -> None:
    hosts.hook(bare.path, "pre-receive", "[ $(wc -l) -le 2 ]")
    a = first(bare)
    assert a.sync().went == Amount(2, 1, 1)
    assert set(notes_there(bare)) == set(NOTES)
    b = bare.clone("b")
    b.sync()
    agree(a, b)


@pytest.mark.parametrize("most", [0, 1, 2])
def test_too_many_pushes_are_something_to_come_back_for_and_make_no_branches(bare: Bare, most: int) -> None:
    a = first(bare)
    hosts.limited(bare.path, most)
    for n in range(most):
        a.record(f"out/{n + 1}.md", "x")
        a.sync()
    a.record("out/last.md", "last")
    with pytest.raises(ComeBackLater, match="too many pushes") as caught:
        a.sync()
    assert caught.value.exit_code == 75
    assert "safe here" in caught.value.hint
    assert len((bare.path / "pushes").read_text().split()) <= most + 12
    (bare.path / "pushes").unlink()
    hosts.limited(bare.path, 1)
    assert a.sync().went.receipts
    assert set(notes_there(bare)) == set(NOTES)


def test_a_pause_between_refused_pushes_grows(bare: Bare, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(remote, "pause", waited.append)
    a = first(bare)
    hosts.limited(bare.path, 0)
    with pytest.raises(ComeBackLater):
        a.sync()
    assert waited == [4, 8]


# Trying what a host takes


ALL = Takes(True, True, True, True, True)


@pytest.mark.parametrize(
    ("refuse", "takes"),
    [
        (lambda _: None, ALL),
        (hosts.hidden, Takes(False, False, True, True, True)),
        (hosts.per_push, Takes(False, False, True, True, True)),
        (hosts.per_ref, Takes(False, False, True, True, True)),
        (hosts.in_parts, Takes(False, False, True, False, True)),
        (hosts.few, Takes(False, False, True, False, True)),
        (hosts.keeping, Takes(False, False, True, True, False)),
        (lambda bare: hosts.limited(bare, 0), Takes(False, False, False, None, None)),
    ],
    ids=["all", *(f.__name__ for f in hosts.BRANCHES_ONLY), "none"],
)
def test_what_a_host_takes_is_tried(bare: Bare, refuse: Callable[[Path], None], takes: Takes) -> None:
    refuse(bare.path)
    clone = first(bare)
    there = remote.pick(clone.plumbing, MAIN)
    assert there is not None
    for _ in range(2):
        found = hosting.look(clone.plumbing, clone.objects, there)
        assert found._replace(words="") == takes
        assert bool(found.words) == (takes != ALL)
    assert probes_left(bare) == [] or refuse is hosts.keeping


def test_what_a_killed_probe_left_the_next_one_removes(bare: Bare) -> None:
    clone = first(bare)
    there = remote.pick(clone.plumbing, MAIN)
    assert there is not None
    oid = clone.objects.letter(b"gitstate: trying what this remote takes\n")
    for ref in "refs/notes/gitstate-probe", "refs/heads/gitstate/probe-2", "refs/gitstate/probe":
        clone.git("push", "-q", "origin", f"{oid}:{ref}")
    assert hosting.look(clone.plumbing, clone.objects, there) == ALL
    assert probes_left(bare) == []


def test_a_remote_that_nobody_may_write_to_gives_no_answer(bare: Bare) -> None:
    clone = first(bare)
    there = remote.pick(clone.plumbing, MAIN)
    assert there is not None
    clone.git("config", "remote.origin.receivepack", "false")
    assert hosting.look(clone.plumbing, clone.objects, there)._replace(words="") == Takes()
    bare.path.rename(bare.path.with_name("gone"))
    with pytest.raises(ComeBackLater):
        hosting.look(clone.plumbing, clone.objects, there)
