"""Pauses on a shared remote: set, looked at, claimed and lifted by compare-and-swap, from several clones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from gitstate.commands.windows import Windows
from gitstate.core import pause
from gitstate.core.pause import Pause
from gitstate.edge import pauses, remote
from gitstate.edge.pauses import Pauses
from gitstate.edge.repo import PAUSE_HEADS, PAUSES
from gitstate.errors import CorruptState
from tests.support import hosts
from tests.support.clones import ENVIRONMENT, MAIN, Bare, Clone

NOW = datetime(2026, 8, 7, 23, 10, tzinfo=timezone.utc)
OPENS = NOW + timedelta(hours=5)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bare:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    bare = Bare(tmp_path / "remote.git")
    first = bare.clone("first")
    first.git("symbolic-ref", "HEAD", MAIN)
    first.commit(plan="a plan")
    first.git("push", "-q", "origin", "main")
    return bare


def of(clone: Clone, *, alone: bool = False) -> Pauses:
    there = remote.pick(clone.plumbing, MAIN)
    if there is not None and not alone:
        remote.fetch(clone.plumbing, there)
    return Pauses(clone.plumbing, clone.objects, None if alone else there)


def a_pause(account: str = "gpt-5", why: str = "limit reached") -> Pause:
    return pause.begin(account, "window", "rule", why, OPENS, NOW)


def test_a_pause_that_one_clone_sets_is_seen_by_another_and_lifted_for_both(bare: Bare) -> None:
    one, other = bare.clone("one"), bare.clone("other")
    assert of(one).set(a_pause())
    seen = of(other)
    assert {name: standing.pause for name, standing in seen.standing.items()} == {"gpt-5": a_pause()}
    assert seen.lift("gpt-5")
    assert of(one).standing == of(other).standing == {}
    assert not bare.ref(f"{PAUSES}/gpt-5")


def test_of_two_that_want_to_look_one_does(bare: Bare) -> None:
    one, other = bare.clone("one"), bare.clone("other")
    of(one).set(a_pause())
    first, second = of(one), of(other)
    assert first.set(pause.claim(first.standing["gpt-5"].pause, "first", OPENS))
    assert not second.set(pause.claim(second.standing["gpt-5"].pause, "second", OPENS))
    assert second.standing["gpt-5"].pause.holder == "first"
    assert not pause.is_over(second.standing["gpt-5"].pause, OPENS)


@pytest.mark.parametrize("late", [timedelta(), timedelta(seconds=30)], ids=["lost-the-claim", "came-later"])
def test_whoever_leaves_looking_to_another_soon_asks_what_that_one_found(bare: Bare, late: timedelta) -> None:
    one, other = bare.clone("one"), bare.clone("other")
    of(one).set(a_pause())
    looking, waiting = of(one), of(other)
    assert looking.set(pause.claim(looking.standing["gpt-5"].pause, "first", OPENS))
    now = OPENS + late
    windows = Windows(of(other) if late else waiting, None, lambda: now)
    windows.begin(["gpt-5"])
    assert not windows.lets("gpt-5")
    assert windows.next_look() == now + timedelta(seconds=60)
    assert looking.set(pause.again(looking.standing["gpt-5"].pause, "window", "rule", "still", None, now))
    windows = Windows(of(other), None, lambda: now)
    windows.begin(["gpt-5"])
    assert windows.next_look() == pause.when(windows.closed["gpt-5"].probe) > now + timedelta(seconds=60)
    assert looking.lift("gpt-5")
    windows = Windows(of(other), None, lambda: now)
    windows.begin(["gpt-5"])
    assert windows.lets("gpt-5")


def test_of_two_that_find_it_closed_at_once_the_first_one_stands(bare: Bare) -> None:
    first, second = of(bare.clone("one")), of(bare.clone("other"))
    assert first.set(a_pause(why="seen by the first"))
    assert not second.set(a_pause(why="seen by the second"))
    assert second.standing["gpt-5"].pause.why == "seen by the first"


def test_what_was_lifted_elsewhere_meanwhile_stays_lifted(bare: Bare) -> None:
    one, other = bare.clone("one"), bare.clone("other")
    of(one).set(a_pause())
    late = of(other)
    of(one).lift("gpt-5")
    assert late.lift("gpt-5")
    assert late.standing == of(one).standing == {}


def test_without_a_remote_it_holds_for_this_clone(tmp_path: Path, bare: Bare) -> None:
    one = bare.clone("one")
    assert of(one, alone=True).set(a_pause())
    assert of(one, alone=True).standing["gpt-5"].pause == a_pause()
    assert of(one, alone=True).lift("gpt-5")
    assert of(one, alone=True).standing == {}


def test_what_could_not_be_told_is_delivered_later(bare: Bare) -> None:
    one, other = bare.clone("one"), bare.clone("other")
    at_work = of(one)
    bare.path.rename(bare.path.with_suffix(".away"))
    assert at_work.set(a_pause())
    assert at_work.untold
    assert at_work.standing["gpt-5"].pause == a_pause()
    bare.path.with_suffix(".away").rename(bare.path)
    of(one).deliver()
    assert of(other).standing["gpt-5"].pause == a_pause()
    assert not one.tip(f"{PAUSES}/gpt-5"), "the remote's copy stands for it"


def test_a_remote_that_takes_no_such_refs_leaves_it_to_this_clone(bare: Bare) -> None:
    one = bare.clone("one")
    hook = bare.path / "hooks" / "update"
    hook.write_text(f'#!/bin/sh\ncase "$1" in {PAUSES}/*) echo no pauses here >&2; exit 1;; esac\n')
    hook.chmod(0o755)
    at_work = of(one)
    assert at_work.set(a_pause())
    assert PAUSES in at_work.untold
    assert of(one).standing["gpt-5"].pause == a_pause()


def test_accounts_with_strange_names_do_not_get_into_each_others_way(bare: Bare) -> None:
    at_work = of(bare.clone("one"))
    accounts = ["a", "a/b", "a b", "..", "a.lock", "notes", "ä"]
    for account in accounts:
        assert at_work.set(a_pause(account))
    assert sorted(of(bare.clone("other")).standing) == sorted(accounts)


@pytest.mark.parametrize("content", [b"", b"{}", b"not a pause", b'{"v":9,"account":"x"}'])
def test_a_pause_that_cannot_be_read_is_an_error_with_the_way_out(bare: Bare, content: bytes) -> None:
    one = bare.clone("one")
    one.git("update-ref", f"{PAUSES}/x", one.objects.write("blob", content))
    with pytest.raises(CorruptState, match=f"{PAUSES}/x") as caught:
        pauses.read(one.plumbing, one.objects)
    assert f"git update-ref -d {PAUSES}/x" in caught.value.hint


@pytest.mark.parametrize("refuse", [hosts.hidden, hosts.per_ref, hosts.keeping], ids=lambda f: f.__name__)
def test_on_a_host_that_takes_only_branches_a_pause_is_one(
    bare: Bare, refuse: Callable[[Path], None]
) -> None:
    refuse(bare.path)
    one, other = bare.clone("one"), bare.clone("other")
    for _ in range(2):
        assert of(one).set(a_pause())
        assert bare.ref(f"{PAUSE_HEADS}/gpt-5")
        first, second = of(one), of(other)
        assert first.set(pause.claim(first.standing["gpt-5"].pause, "first", OPENS))
        assert not second.set(pause.claim(second.standing["gpt-5"].pause, "second", OPENS))
        assert second.standing["gpt-5"].pause.holder == "first"
        assert of(other).lift("gpt-5")
        assert of(one).standing == of(other).standing == {}
        assert bool(bare.ref(f"{PAUSE_HEADS}/gpt-5")) == (refuse is hosts.keeping)


def test_a_pause_that_cannot_be_deleted_is_marked_as_lifted(bare: Bare) -> None:
    one, other = of(bare.clone("one")), bare.clone("other")
    assert one.set(a_pause())
    hosts.hook(bare.path, "update", '[ -n "$(printf %s $3 | tr -d 0)" ]')
    assert one.lift("gpt-5")
    assert of(other).standing == one.standing == {}
    assert of(other).set(a_pause(why="again"))
    one.look()
    assert bare.ref(f"{PAUSES}/gpt-5")


def test_a_pause_from_before_its_host_took_only_branches_is_outlived(bare: Bare) -> None:
    one, other = bare.clone("one"), bare.clone("other")
    assert of(one).set(a_pause())
    hosts.per_ref(bare.path)
    later = of(other)
    assert later.set(pause.claim(later.standing["gpt-5"].pause, "me", OPENS))
    assert of(one).standing["gpt-5"].pause.holder == "me"
