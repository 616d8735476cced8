"""Leases on a shared remote, between real clones and real processes: a bucket has one holder, and only it publishes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gitstate.core import lease
from gitstate.core.lease import Claim, Standing
from gitstate.core.receipt import Receipt, encode
from gitstate.edge import notes, pushing, remote
from gitstate.edge.leases import LeaseLost, Leases
from gitstate.edge.pushing import Answer, Pushed, Swap
from gitstate.edge.remote import Remote
from gitstate.edge.renewing import Renewing
from gitstate.edge.repo import LEASE_HEADS, LEASES, RECEIPTS, TRACKED_LEASES
from gitstate.edge.unpublished import unpublished
from gitstate.errors import ComeBackLater, CorruptState
from tests.support.clones import ENVIRONMENT, MAIN, Bare, Clone
from tests.support.cuts import cut_the_answer
from tests.support.httpgit import serve
from tests.support.leaseworker import Worker

PLAN = lease.plan_of("gitstate.yaml")
SLUGS = [f"topic-{number}" for number in range(8)]
A, B, C = (Claim(slug, "s", "h") for slug in SLUGS[:3])
ROOT = Path(__file__).parents[2]


class Time:
    """A clock that a test winds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def elapsed(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    bare = Bare(tmp_path / "remote.git")
    first = bare.clone("first")
    first.git("symbolic-ref", "HEAD", MAIN)
    first.record("out/first.md", "first")
    first.git("push", "-q", "origin", "main", RECEIPTS)
    return bare


def of(clone: Clone, time: Time | None = None, me: str | None = None, length: int = 600) -> Leases:
    there = remote.pick(clone.plumbing, MAIN)
    assert there is not None
    elapsed = (time or Time()).elapsed
    return Leases(clone.plumbing, clone.objects, there, "gitstate.yaml", length, elapsed, me)


def by_bucket(*claims: Claim) -> dict[str, tuple[Claim, ...]]:
    found: dict[str, tuple[Claim, ...]] = {}
    for claim in claims:
        bucket = lease.bucket_of(claim.slug)
        found[bucket] = (*found.get(bucket, ()), claim)
    return found


def refs(bare: Bare, namespace: str = LEASES) -> dict[str, str]:
    """The leases that the remote has: the bucket, and the object."""
    done = subprocess.run(
        ("git", "for-each-ref", "--format=%(refname) %(objectname)", f"{namespace}/"),
        cwd=bare.path,
        capture_output=True,
        text=True,
        check=True,
    )
    pairs = (line.split() for line in done.stdout.splitlines())
    return {ref.removeprefix(f"{namespace}/{PLAN}/"): oid for ref, oid in pairs}


def refuse(bare: Bare, *patterns: str) -> None:
    """Make the remote refuse refs, each by itself."""
    hook = bare.path / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\ncase "$1" in {"|".join(patterns)}) exit 1;; esac\n')
    hook.chmod(0o755)


def test_several_works_are_claimed_in_one_push_and_seen_by_others(bare: Bare) -> None:
    one, other = of(bare.clone("one")), of(bare.clone("other"))
    works = by_bucket(A, B, C)
    assert set(one.claim(works)) == set(works) == set(one.mine) == set(refs(bare))
    other.look()
    assert {bucket: seen.lease.works for bucket, seen in other.seen.items()} == works
    assert {lease.standing(seen, other.me) for seen in other.seen.values()} == {Standing.OTHERS}
    assert lease.choose([A, B, C], other.seen, other.me, (), 9) == {}


def test_of_two_that_claim_at_once_one_wins_each_bucket_and_what_is_free_goes_through(bare: Bare) -> None:
    one, other = of(bare.clone("one")), of(bare.clone("other"))
    assert one.claim(by_bucket(A, B))
    assert other.claim(by_bucket(B, C)) == [lease.bucket_of(C.slug)]
    assert list(other.mine) == [lease.bucket_of(C.slug)]


def test_two_processes_of_one_machine_are_two_holders(bare: Bare) -> None:
    clone = bare.clone("one")
    one, other = of(clone), of(clone)
    assert one.claim(by_bucket(A))
    assert other.claim(by_bucket(A)) == []


def test_a_lease_is_renewed_when_a_third_of_it_has_passed(bare: Bare) -> None:
    time = Time()
    one = of(bare.clone("one"), time)
    one.claim(by_bucket(A))
    before = refs(bare)
    time.now += 199
    assert not one.renew()
    assert refs(bare) == before
    time.now += 1
    assert not one.renew()
    assert set(refs(bare)) == set(before)
    assert refs(bare) != before
    assert [seen.lease.generation for seen in one.mine.values()] == [1]


def test_a_lease_is_doubtful_once_others_may_have_found_it_over(bare: Bare) -> None:
    time = Time()
    one = of(bare.clone("one"), time)
    assert one.is_doubtful(A.slug)
    one.claim(by_bucket(A))
    assert not one.is_doubtful(A.slug)
    assert one.until_due(9999.0) == 200
    time.now += 600
    assert one.is_doubtful(A.slug)
    assert one.until_due(9999.0) == 0


def test_leases_are_renewed_in_the_background_also_after_the_remote_was_away(bare: Bare) -> None:
    one = Worker(bare.clone("one"), SLUGS, length=1).leases
    one.claim(by_bucket(A))
    first = refs(bare)
    with Renewing(one) as renewing:
        while refs(bare) == first:
            assert not renewing.failed
        bare.path.rename(bare.path.with_name("away"))
        while not renewing.failed:
            pass
        bare.path.with_name("away").rename(bare.path)
        second = refs(bare)
        while refs(bare) == second:
            pass
    last = refs(bare)
    assert set(last) == set(first)
    assert {seen.oid for seen in one.mine.values()} == set(last.values())


def test_a_lease_that_is_renewed_lives_and_one_that_is_not_is_taken_over(bare: Bare) -> None:
    early, late = Time(), Time()
    late.now += 36_000
    one, other = of(bare.clone("one"), early), of(bare.clone("other"), late)
    one.claim(by_bucket(A))
    other.look()
    for _ in range(4):
        early.now += 300
        late.now += 300
        one.renew()
        other.look()
        assert other.claim(by_bucket(A)) == []
    late.now += 600
    other.look()
    (bucket,) = other.claim(by_bucket(A))
    assert other.mine[bucket].lease.generation == 2
    early.now += 600
    one.renew()
    assert one.mine == {}


def test_a_lease_of_which_nothing_is_known_but_its_end_is_not_taken_over(bare: Bare) -> None:
    time = Time()
    one, other = of(bare.clone("one")), of(bare.clone("other"), time)
    one.claim(by_bucket(A))
    time.now += 99_999
    other.look()
    assert other.claim(by_bucket(A)) == []


def test_p10_a_worker_that_lost_its_lease_publishes_nothing_at_all(bare: Bare) -> None:
    slow, time = Worker(bare.clone("slow"), SLUGS[:2]), Time()
    slow.take(1)
    ((bucket, seen),) = slow.leases.mine.items()
    (claim,) = seen.lease.works
    slow.record(claim)
    taker = of(bare.clone("taker"), time)
    taker.look()
    time.now += 600
    taker.look()
    assert taker.claim({bucket: [claim]}) == [bucket]
    before = bare.ref(MAIN), bare.ref(RECEIPTS), refs(bare)
    updates = {RECEIPTS: slow.clone.tip(RECEIPTS), MAIN: slow.clone.tip(MAIN)}
    pushed = slow.leases.push(updates, [claim.slug], [])
    assert pushed.answer is Answer.REJECTED
    slow.leases.look()
    assert not slow.leases.holds(claim.slug)
    with pytest.raises(LeaseLost) as caught:
        slow.publish([])
    assert caught.value.buckets == {bucket}
    assert (bare.ref(MAIN), bare.ref(RECEIPTS), refs(bare)) == before


def test_p10_it_is_the_remote_that_turns_the_stale_worker_away(bare: Bare) -> None:
    # The lease is taken over after git has read what the remote has, and before it sends.
    slow = Worker(bare.clone("slow"), SLUGS[:1])
    works = slow.take(1)
    slow.record(works[0])
    ((bucket, seen),) = slow.leases.mine.items()
    other = bare.clone("other")
    thief = other.objects.write("commit", other.objects.read(other.tip())[1] + b"\n")  # type: ignore[index]
    hook = slow.clone.path / ".git" / "hooks" / "pre-push"
    ref = f"{LEASES}/{PLAN}/{bucket}"
    hook.write_text(f"#!/bin/sh\ncd {other.path} && git push -q -f origin {thief}:{ref}\n")
    hook.chmod(0o755)
    updates = {RECEIPTS: slow.clone.tip(RECEIPTS), MAIN: slow.clone.tip(MAIN)}
    swap = Swap(ref, None, seen.oid)
    before = bare.ref(MAIN), bare.ref(RECEIPTS)
    assert pushing.push(slow.clone.plumbing, slow.there, updates, fence=[swap]).answer is Answer.REJECTED
    assert (bare.ref(MAIN), bare.ref(RECEIPTS), refs(bare)) == (*before, {bucket: thief})
    hook.unlink()
    swap = Swap(ref, None, thief)
    assert pushing.push(slow.clone.plumbing, slow.there, updates, fence=[swap]).answer is Answer.APPLIED


def test_a_publish_gives_back_what_is_finished_and_renews_the_rest(bare: Bare) -> None:
    worker = Worker(bare.clone("one"), SLUGS)
    works = worker.take(3)
    before = refs(bare)
    worker.record(works[0])
    worker.publish(works[1:])
    kept = by_bucket(*works[1:])
    assert set(refs(bare)) == set(kept)
    assert all(oid != before[bucket] for bucket, oid in refs(bare).items())
    for claim in works[1:]:
        worker.record(claim)
    worker.publish([])
    assert refs(bare) == worker.leases.mine == {}
    assert {f"out/{claim.slug}.md" for claim in works} < set(bare.files())


def test_a_publish_that_others_overtook_goes_through_with_its_lease(bare: Bare) -> None:
    one, other = (Worker(bare.clone(name), SLUGS) for name in ("one", "other"))
    first, second = one.take(1), other.take(1)
    one.record(first[0])
    other.record(second[0])
    other.publish([])
    one.publish([])
    assert refs(bare) == {}
    assert {f"out/{claim.slug}.md" for claim in first + second} < set(bare.files())


def test_a_worker_that_lost_its_lease_publishes_once_it_has_claimed_again(bare: Bare) -> None:
    worker, time = Worker(bare.clone("one"), SLUGS[:1]), Time()
    works = worker.take(1)
    worker.record(works[0])
    taker = of(bare.clone("taker"), time)
    taker.look()
    time.now += 600
    taker.look()
    (bucket,) = taker.claim({lease.bucket_of(claim.slug): [claim] for claim in works})
    worker.leases.look()
    with pytest.raises(LeaseLost):
        worker.publish([])
    taker.release()
    worker.leases.look()
    assert worker.leases.claim({bucket: works}) == [bucket]
    worker.publish([])
    assert f"out/{works[0].slug}.md" in bare.files()
    assert refs(bare) == {}


def test_what_waits_to_be_published_is_told_by_its_receipts(bare: Bare) -> None:
    worker = Worker(bare.clone("one"), SLUGS[:1])
    clone, there = worker.clone, worker.there

    def receipt(kind: str, slug: str, blob: str) -> None:
        line = Receipt(
            "0" * 64,
            kind,
            slug,
            "s",
            f"of {slug}",
            "2026-08-07T23:10:00Z",
            {"run": "0" * 64},
            ((slug, blob),),
        )
        tip = clone.tip(RECEIPTS)
        tree = notes.add(clone.objects, clone.tip(RECEIPTS + "^{tree}"), {blob: [encode(line)]})
        clone.git("update-ref", RECEIPTS, clone.git("commit-tree", "-p", tip, "-m", "note", tree))

    def waiting() -> set[str]:
        found = unpublished(clone.plumbing, clone.objects, there, MAIN)
        return {one.receipt.slug for one in found}

    clone.commit(one="one", other="other", late="late")
    one, other, late = (clone.git("rev-parse", f"HEAD:{name}.txt") for name in ("one", "other", "late"))
    assert waiting() == set()
    receipt("done", "a", one)
    receipt("accepted", "b", other)
    receipt("done", "paid twice", clone.objects.write("blob", b"what others have otherwise"))
    assert waiting() == {"a"}
    clone.sync()
    assert waiting() == set()
    receipt("done", "c", late)
    assert waiting() == set()
    clone.git("update-ref", "-d", there.tracked(RECEIPTS))
    clone.git("update-ref", "-d", there.tracked(MAIN))
    assert waiting() == {"a", "c"}


def test_what_is_not_begun_is_given_back(bare: Bare) -> None:
    one = of(bare.clone("one"))
    one.claim(by_bucket(A, B))
    one.release()
    assert refs(bare) == one.mine == {}


def test_what_a_dead_worker_left_is_collected_where_nothing_is_due(bare: Bare) -> None:
    time = Time()
    of(bare.clone("dead")).claim(by_bucket(A, B))
    one = of(bare.clone("one"), time)
    one.look()
    one.collect([B])
    assert set(refs(bare)) == set(by_bucket(A, B))
    time.now += 600
    one.look()
    one.collect([B])
    assert set(refs(bare)) == set(by_bucket(B))


def test_a_claim_whose_answer_was_lost_is_won(bare: Bare, tmp_path: Path) -> None:
    clone = bare.clone("one")
    cut_the_answer(clone, tmp_path)
    one = of(clone)
    assert one.claim(by_bucket(A)) == list(by_bucket(A)) == list(refs(bare))
    assert one.mine[lease.bucket_of(A.slug)].oid == refs(bare)[lease.bucket_of(A.slug)]


def test_a_claim_that_comes_to_the_remote_late_is_known_by_its_holder(bare: Bare) -> None:
    one = of(bare.clone("one"))
    ghost = of(bare.clone("ghost"), me=one.me)
    ghost.claim(by_bucket(A))
    one.look()
    assert list(one.mine) == list(by_bucket(A))


def test_a_publish_whose_answer_was_lost_is_published(bare: Bare, tmp_path: Path) -> None:
    worker = Worker(bare.clone("one"), SLUGS[:1])
    works = worker.take(1)
    worker.record(works[0])
    cut_the_answer(worker.clone, tmp_path)
    worker.publish([])
    assert bare.ref(MAIN) == worker.clone.tip()
    assert refs(bare) == {}


def test_a_publish_that_a_line_delivered_twice_is_published(bare: Bare) -> None:
    worker = Worker(bare.clone("one"), SLUGS[:1])
    works = worker.take(1)
    worker.record(works[0])
    ((bucket, seen),) = worker.leases.mine.items()
    clone, swap, answers = worker.clone, Swap(f"{LEASES}/{PLAN}/{bucket}", None, seen.oid), list[Answer]()

    def twice(updates: Mapping[str, str], deletes: bool) -> Pushed:
        for _ in range(2):
            pushed = pushing.push(clone.plumbing, worker.there, updates, fence=[swap])
            answers.append(pushed.answer)
        return pushed

    worker.sync(twice)
    assert answers == [Answer.APPLIED, Answer.REJECTED]
    assert bare.ref(MAIN) == clone.tip()
    assert refs(bare) == {}


def test_a_remote_that_went_away_is_something_to_come_back_for(bare: Bare) -> None:
    one = of(bare.clone("one"))
    bare.path.rename(bare.path.with_name("gone"))
    for act in (one.look, lambda: one.claim(by_bucket(A))):
        with pytest.raises(ComeBackLater):
            act()


def test_a_host_that_takes_only_branches_has_leases_among_these(bare: Bare) -> None:
    refuse(bare, "refs/gitstate/*")
    one, other = of(bare.clone("one")), of(bare.clone("other"))
    assert one.claim(by_bucket(A, B))
    assert set(refs(bare, LEASE_HEADS)) == set(by_bucket(A, B))
    other.look()
    assert other.claim(by_bucket(B, C)) == [lease.bucket_of(C.slug)]
    one.release()
    assert set(refs(bare, LEASE_HEADS)) == set(by_bucket(C))


def test_a_host_that_takes_no_leases_at_all_says_so(bare: Bare) -> None:
    refuse(bare, "refs/gitstate/*", "refs/heads/gitstate/*")
    with pytest.raises(ComeBackLater, match="origin does not take leases"):
        of(bare.clone("one")).claim(by_bucket(A))


def test_of_two_leases_of_one_bucket_on_a_host_that_refuses_some_people_some_refs_neither_stays(
    bare: Bare,
) -> None:
    one, other = of(bare.clone("one")), of(bare.clone("other"))
    one.claim(by_bucket(A))
    other._home = LEASE_HEADS
    other.claim(by_bucket(A))
    other.look()
    (bucket,) = by_bucket(A)
    assert refs(bare, LEASE_HEADS) == other.mine == {}
    one.look()
    assert list(one.mine) == [bucket]


def test_p6_a_lease_that_cannot_be_read_is_an_error_that_names_the_way_out(bare: Bare) -> None:
    clone = bare.clone("one")
    ref = f"{LEASES}/{PLAN}/3a"
    clone.git("push", "-q", "origin", f"HEAD:{ref}")
    with pytest.raises(CorruptState) as caught:
        of(clone).look()
    assert caught.value.hint.endswith(f"git push origin :{ref}")
    clone.git("push", "-q", "origin", f":{ref}")
    of(clone).look()


def test_p6_a_tracked_lease_that_a_power_cut_took_is_fetched_again(bare: Bare) -> None:
    of(bare.clone("one")).claim(by_bucket(A))
    clone = bare.clone("other")
    other = of(clone)
    other.look()
    (seen,) = other.seen.values()
    packs = clone.path / ".git" / "objects" / "pack"
    (pack,) = (pack for pack in packs.glob("*.pack") if seen.oid in clone.git("verify-pack", "-v", str(pack)))
    for part in packs.glob(f"{pack.stem}.*"):
        part.unlink()
    again = of(clone)
    again.look()
    assert [known.oid for known in again.seen.values()] == [seen.oid]


def test_leases_come_with_every_fetch_and_go_when_they_are_given_back(bare: Bare) -> None:
    one, clone = of(bare.clone("one")), bare.clone("other")
    one.claim(by_bucket(A))
    there = Remote("origin", MAIN)
    listing = ("for-each-ref", "--format=%(refname)", TRACKED_LEASES)
    remote.fetch(clone.plumbing, there)
    assert clone.git(*listing) == f"{TRACKED_LEASES}/origin/own/{PLAN}/{lease.bucket_of(A.slug)}"
    one.release()
    remote.fetch(clone.plumbing, there)
    assert not clone.git(*listing)


def test_leases_work_with_sha256(tmp_path: Path) -> None:
    bare = Bare(tmp_path / "remote.git", "sha256")
    first = bare.clone("first")
    first.commit(plan="a plan")
    first.git("push", "-q", "origin", "HEAD:main")
    one = of(first)
    assert one.claim(by_bucket(A))
    other = of(bare.clone("other"))
    other.look()
    assert other.claim(by_bucket(A)) == []


@contextlib.contextmanager
def workers(clones: list[Clone], ledger: Path, length: int = 600) -> Iterator[list[subprocess.Popen[str]]]:
    """Real processes that begin at once."""
    env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "tests.support.leaseworker")
    started = [
        subprocess.Popen(
            (*command, str(clone.path), str(ledger), str(length), *SLUGS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            cwd=ROOT,
        )
        for clone in clones
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def paid(ledger: Path) -> list[str]:
    return sorted(line.split()[0] for line in ledger.read_text().splitlines())


@pytest.mark.parametrize("transport", ["file", "http"])
def test_four_processes_on_the_same_works_pay_for_each_once(
    bare: Bare, tmp_path: Path, transport: str
) -> None:
    clones = [bare.clone(f"machine-{number}") for number in range(4)]
    with contextlib.ExitStack() as stack:
        if transport == "http":
            subprocess.run(("git", "config", "http.receivepack", "true"), cwd=bare.path, check=True)
            url = stack.enter_context(serve(tmp_path))
            for clone in clones:
                clone.git("remote", "set-url", "origin", f"{url}/remote.git")
        started = stack.enter_context(workers(clones, tmp_path / "ledger"))
        assert [process.wait() for process in started] == [0, 0, 0, 0]
    assert paid(tmp_path / "ledger") == sorted(SLUGS)
    assert {f"out/{slug}.md" for slug in SLUGS} < set(bare.files())
    assert len(bare.receipts()) == len(SLUGS) + 1
    assert refs(bare) == {}
    subprocess.run(("git", "fsck", "--strict"), cwd=bare.path, check=True, capture_output=True)


def test_what_a_stopped_process_held_is_done_by_another_and_not_published_by_it(
    bare: Bare, tmp_path: Path
) -> None:
    clones = [bare.clone(f"machine-{number}") for number in range(2)]
    ledger = tmp_path / "ledger"
    ledger.touch()
    with workers(clones, ledger, length=2) as (stopped, other):
        while not ledger.read_text():
            assert stopped.poll() is other.poll() is None
        stopped.send_signal(signal.SIGSTOP)
        assert other.wait() == 0
        before = bare.ref(MAIN)
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait() == 0
        assert bare.ref(MAIN) == before
    assert {f"out/{slug}.md" for slug in SLUGS} < set(bare.files())
    assert refs(bare) == {}
