"""Leases as values: what is written, what an observer may conclude, and what a worker takes next."""

from __future__ import annotations

import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core import lease
from gitstate.core.lease import Claim, Lease, Seen, Standing, Step

names = st.text("0123456789abcdef", min_size=1, max_size=32)
claims = st.builds(Claim, st.text(max_size=9), st.text(max_size=9), names, names | st.just(""))
leases = st.builds(
    Lease,
    names,
    names,
    st.integers(1, 2**53),
    st.integers(1, lease.MOST),
    st.lists(claims, max_size=4).map(lambda works: tuple(sorted(works))),
)
ONE = Lease("me", "n", 1, 600, (Claim("a", "s", "h"),))


def seen(holder: str = "other", *, since: float = 0.0, last: float = 0.0, generation: int = 1) -> Seen:
    return Seen("oid", ONE._replace(holder=holder, generation=generation), since, last)


def work(slug: str) -> Claim:
    return Claim(slug, "s", "h")


def in_bucket(bucket: str, number: int = 0) -> str:
    """A slug that belongs to a bucket."""
    return [slug for slug in map(str, range(4000)) if lease.bucket_of(slug) == bucket][number]


@given(leases)
def test_a_lease_is_read_as_it_was_written(one: Lease) -> None:
    assert lease.decode(lease.encode(one)) == one


def test_the_bytes_of_a_lease_stay_as_they_are() -> None:
    assert lease.encode(ONE) == (
        b'{"generation":1,"holder":"me","length":600,"nonce":"n","v":1,"works":[["a","s","h",""]]}\n'
    )


def test_a_field_of_a_later_version_is_ignored() -> None:
    assert lease.decode(json.dumps({**json.loads(lease.encode(ONE)), "more": 1}).encode()) == ONE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"v": 2}, "its format is 2, this version knows 1"),
        ({"v": True}, "it is no lease"),
        ({"holder": ""}, "its holder is not a name"),
        ({"holder": None}, "its holder is not a name"),
        ({"nonce": "a b"}, "its nonce is not a name"),
        ({"generation": 0}, "its generation is not a whole number"),
        ({"generation": True}, "its generation is not a whole number"),
        ({"length": 86_401}, "its length is not a whole number from 1 to 86400"),
        ({"length": 1.5}, "its length is not a whole number"),
        ({"works": {}}, "its works are not a list"),
        ({"works": [["a", "s", "h"]]}, "its works are not a list"),
        ({"works": [["a", "s", "h", None]]}, "its works are not a list"),
    ],
)
def test_p6_anything_else_is_no_lease(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lease.decode(json.dumps({**json.loads(lease.encode(ONE)), **changes}).encode())


@given(st.binary(max_size=60) | leases.map(lease.encode).map(lambda data: data[:-9]))
def test_p6_bytes_that_are_no_lease_are_an_error_and_nothing_else(data: bytes) -> None:
    with pytest.raises(ValueError):
        lease.decode(data)


def test_where_a_slug_and_a_plan_belong_stays_as_it_is() -> None:
    # Machines of different versions share these refs.
    assert [lease.bucket_of(slug) for slug in ("a", "guide/start", "été")] == ["cd", "e8", "66"]
    assert [lease.shard_of(slug, 4) for slug in ("a", "guide/start", "été")] == [2, 1, 1]
    assert lease.plan_of("gitstate.yaml") == "65ce40f7d2fb"


def test_slugs_spread_over_all_buckets_and_shards() -> None:
    slugs = [f"guide/{number}" for number in range(4000)]
    assert len({lease.bucket_of(slug) for slug in slugs}) == lease.BUCKETS
    sizes = [sum(lease.shard_of(slug, 4) == number for slug in slugs) for number in (1, 2, 3, 4)]
    assert sum(sizes) == 4000
    assert min(sizes) > 900


@pytest.mark.parametrize(("text", "found"), [("1/1", (1, 1)), ("2/4", (2, 4)), ("4/4", (4, 4))])
def test_a_shard_is_read(text: str, found: tuple[int, int]) -> None:
    assert lease.shard(text) == found


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "1", "1/4/4", "-1/4", "1 /4", "", "٢/٤"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="A shard is written like 1/4"):
        lease.shard(text)


@pytest.mark.parametrize(
    ("seconds", "length"),
    [
        ([], 600),
        ([1.0, 2.0], 120),
        ([100.0] * 9 + [1000.0], 400),
        ([100.0] * 8 + [1000.0] * 2, 4000),
        ([99_999.0], 7200),
        ([float("nan"), float("inf"), -1.0], 600),
    ],
)
def test_a_lease_lasts_some_times_as_long_as_the_slow_works_take(seconds: list[float], length: int) -> None:
    assert lease.default_length(seconds) == length


@pytest.mark.parametrize(("value", "seconds"), [("10m", 600), ("10s", 10), (90.2, 91), ("1d", 86_400)])
def test_how_long_a_lease_lasts_may_be_said(value: object, seconds: int) -> None:
    assert lease.length(value) == seconds


@pytest.mark.parametrize("value", ["9s", "2d", "soon", None])
def test_what_is_said_must_be_a_duration_that_a_lease_can_have(value: object) -> None:
    with pytest.raises(ValueError, match=r"A lease lasts between 10s and 1d|A duration is written like"):
        lease.length(value)


def test_time_counts_from_the_first_answer_to_the_last_question() -> None:
    first = lease.observe({}, {"3a": ("x", ONE)}, 10.0, 20.0)
    assert first == {"3a": Seen("x", ONE, 20.0, 20.0)}
    later = lease.observe(first, {"3a": ("x", ONE)}, 619.0, 700.0)
    assert not later["3a"].is_over
    assert lease.observe(later, {"3a": ("x", ONE)}, 620.0, 700.0)["3a"].is_over


def test_a_renewed_lease_begins_anew_and_one_that_is_gone_is_forgotten() -> None:
    first = lease.observe({}, {"3a": ("x", ONE), "3b": ("z", ONE)}, 0.0, 1.0)
    renewed = lease.observe(first, {"3a": ("y", ONE)}, 900.0, 901.0)
    assert renewed == {"3a": Seen("y", ONE, 901.0, 901.0)}


def test_a_machine_that_slept_concludes_nothing_before_it_has_looked() -> None:
    slept = seen(last=10.0)
    assert lease.decide(slept, "me", False, 99_999.0) is Step.WAIT


@pytest.mark.parametrize(
    ("known", "held", "now", "step"),
    [
        (None, False, 0.0, Step.TAKE),
        (None, True, 0.0, Step.LOST),
        (seen(last=599.0), False, 0.0, Step.WAIT),
        (seen(last=600.0), False, 0.0, Step.TAKE),
        (seen(last=600.0), True, 0.0, Step.LOST),
        (seen(), True, 0.0, Step.LOST),
        (seen("me"), True, 199.0, Step.WAIT),
        (seen("me"), True, 200.0, Step.RENEW),
        (seen("me"), False, 200.0, Step.RENEW),
    ],
)
def test_what_is_done_about_a_bucket(known: Seen | None, held: bool, now: float, step: Step) -> None:
    assert lease.decide(known, "me", held, now) is step


def test_ones_own_lease_is_never_over_only_doubtful() -> None:
    mine = seen("me", last=9999.0)
    assert lease.standing(mine, "me") is Standing.MINE
    assert not lease.is_doubtful(mine, 599.0)
    assert lease.is_doubtful(mine, 600.0)


def test_a_take_over_has_a_higher_generation_and_a_renewal_the_same() -> None:
    works = [work("b"), work("a")]
    assert lease.written(None, "me", "n", 600, works) == Lease("me", "n", 1, 600, (work("a"), work("b")))
    assert lease.written(seen(generation=4), "me", "n", 600, works).generation == 5
    assert lease.written(seen("me", generation=4), "me", "n", 600, works).generation == 4


def test_p10_a_publish_changes_every_lease_of_its_holder_and_no_other() -> None:
    left = work(in_bucket("01"))
    known = {"01": seen("me", generation=3), "02": seen("me"), "03": seen(), "04": seen(last=9999.0)}
    nonces = map(str, count())
    changed = lease.fence(known, "me", [left], lambda: next(nonces), 600)
    assert changed == {"01": Lease("me", "0", 3, 600, (left,)), "02": None}
    assert changed["01"] != known["01"].lease


def test_a_worker_goes_on_where_it_is_then_with_its_chains_then_with_what_is_free_then_with_what_was_left() -> (
    None
):
    mine, begun, free, over, others = (work(in_bucket(bucket)) for bucket in ("05", "06", "07", "08", "09"))
    known = {"05": seen("me"), "08": seen(last=600.0), "09": seen()}
    due = [others, over, free, begun, mine]
    order = [
        [claim for works in lease.choose(due, known, "me", {begun.slug}, most).values() for claim in works]
        for most in range(6)
    ]
    assert order[5] == [mine, begun, free, over]
    assert [len(chosen) for chosen in order] == [0, 1, 2, 3, 4, 4]
    assert all(chosen == order[5][:most] for most, chosen in enumerate(order))


def test_works_of_one_bucket_are_claimed_together_in_the_order_of_the_plan() -> None:
    due = [work(in_bucket("05", number)) for number in (2, 0, 1)]
    assert lease.choose(due, {}, "me", (), 9) == {"05": tuple(due)}


def test_workers_that_begin_at_once_seldom_want_the_same_bucket() -> None:
    due = [work(str(number)) for number in range(400)]
    first = [next(iter(lease.choose(due, {}, f"worker {number}", (), 1))) for number in range(8)]
    assert len(set(first)) > 5
    assert first == [next(iter(lease.choose(due, {}, f"worker {number}", (), 1))) for number in range(8)]


def test_nothing_is_left_where_live_others_hold_all_that_is_due() -> None:
    assert lease.choose([work(in_bucket("05"))], {"05": seen()}, "me", (), 9) == {}


def test_a_lease_left_behind_is_collected_where_nobody_will_take_it_over() -> None:
    known = {"05": seen(last=600.0), "06": seen(last=600.0), "07": seen(), "08": seen("me", last=600.0)}
    assert lease.abandoned(known, "me", [work(in_bucket("06"))]) == ["05"]
