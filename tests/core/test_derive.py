"""The predicate, row by row of the design's table: plain data in, states with reasons out."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from gitstate.core.derive import Status, derive, manifest_of
from gitstate.core.identity import Identity, Sources
from gitstate.core.plan import Item, Plan, PlanSource, Stage, Workflow
from gitstate.core.receipt import LogLine, Receipt, Verdict
from gitstate.core.snapshot import Receipts, Snapshot
from gitstate.errors import Place

NOW = datetime(2026, 8, 7, 12, tzinfo=timezone.utc)
PLACE = Place("gitstate.yaml", 1)
EMPTY = "e" * 40


class Desk:
    """One plan of one item, and a clone's state to try things on."""

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages or (Stage("text", PLACE, "cat", ("out/{slug}",)),)
        self.tree: dict[str, str] = {}
        self.notes: dict[str, list[Receipt]] = {}
        self.verdicts: dict[tuple[str, str, str], Verdict] = {}
        self.running: frozenset[tuple[str, str]] = frozenset()
        self.title = "A"

    @property
    def plan(self) -> Plan:
        source = PlanSource("yaml", "plan.yaml", PLACE)
        order = tuple(range(len(self.stages)))
        workflow = Workflow("gitstate.yaml", source, self.stages, order, {}, {})
        paths = tuple(
            tuple(pattern.replace("{slug}", "one") for pattern in stage.outputs) for stage in self.stages
        )
        return Plan(workflow, (Item("one", {"slug": "one", "title": self.title}, 1),), (paths,))

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(None, "sha1", self.tree, EMPTY, Receipts(self.notes), self.verdicts, self.running)

    def judge(self, stage: str = "text", now: datetime = NOW) -> Status:
        identity = Identity(self.plan.workflow, Sources({}, {}, {}))
        return {status.stage: status for status in derive(self.plan, identity, self.snapshot, now)}[stage]

    def state(self, stage: str = "text", now: datetime = NOW) -> str:
        status = self.judge(stage, now)
        return f"{status.state} {status.reason}" + (
            f" {'+'.join(status.components)}" if status.components else ""
        )

    def receipt(self, *blobs: str, stage: str = "text", **changes: object) -> Receipt:
        """A receipt for today's identity, noted on the first blob."""
        status = self.judge(stage)
        identity = Identity(self.plan.workflow, Sources({}, {}, {}))
        manifest = manifest_of(self.plan, identity, self.snapshot, status)
        outputs = tuple(zip(status.outputs, blobs))
        made = Receipt(
            manifest.hash, "done", "one", stage, "a1", "2026-08-01T00:00:00Z", manifest.components, outputs
        )
        made = made._replace(**changes)
        self.notes.setdefault(blobs[0], []).append(made)
        return made

    def commit(self, *blobs: str, stage: str = "text") -> None:
        self.tree.update(zip(self.judge(stage).outputs, blobs))


A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)


def test_p2_nothing_is_new() -> None:
    assert Desk().state() == "pending new"


def test_p2_a_receipt_on_the_committed_content_is_done() -> None:
    desk = Desk()
    desk.commit(A)
    desk.receipt(A)
    assert desk.state() == "done exact"


def test_p2_an_accepted_one_says_so_unless_there_is_an_exact_one_too() -> None:
    desk = Desk()
    desk.commit(A)
    desk.receipt(A, kind="accepted")
    assert desk.state() == "done accepted"
    desk.receipt(A, attempt="a2")
    assert desk.state() == "done exact"


@pytest.mark.parametrize("there", [None, EMPTY])
def test_p2_a_receipt_without_its_file_is_missing_and_an_empty_file_is_none(there: str | None) -> None:
    desk = Desk()
    desk.receipt(A)
    if there:
        desk.commit(there)
    assert desk.state() == "pending missing"


def test_p2_a_receipt_for_another_identity_only_does_not_make_a_gone_file_missing() -> None:
    desk = Desk()
    desk.receipt(A)
    desk.title = "B"
    assert desk.state() == "pending new"


def test_p2_another_identity_s_receipt_on_the_content_is_stale_and_names_what_moved() -> None:
    desk = Desk()
    desk.commit(A)
    desk.receipt(A)
    desk.title = "B"
    assert desk.state() == "pending stale plan"


def test_p2_stale_is_told_against_the_nearest_receipt() -> None:
    desk = Desk()
    desk.commit(A)
    desk.receipt(
        A, components={"plan": "x", "run": "y", "model": "z"}, work="1" * 64, at="2026-08-05T00:00:00Z"
    )
    desk.receipt(A, attempt="a2")
    desk.title = "B"
    assert desk.state() == "pending stale plan"


def test_p5_content_without_receipt_where_the_work_has_one_elsewhere_is_a_human_s_edit() -> None:
    desk = Desk()
    desk.receipt(A)
    desk.commit(B)
    assert desk.state() == "done edited"
    desk.title = "B"
    assert desk.state() == "pending edited plan"


def test_p5_content_without_any_receipt_is_unverified() -> None:
    desk = Desk()
    desk.commit(A)
    assert desk.state() == "pending unverified"


@pytest.mark.parametrize("change", [{"slug": "two"}, {"stage": "other"}, {"kind": "void"}])
def test_p2_a_receipt_counts_only_for_the_work_that_it_names(change: dict[str, str]) -> None:
    desk = Desk()
    desk.commit(A)
    desk.notes[A] = [desk.receipt(A)._replace(**change)]
    assert desk.state() == "pending unverified"


def test_p2_a_receipt_on_a_blob_that_is_not_its_output_never_counts() -> None:
    desk = Desk()
    desk.commit(A)
    desk.notes[A] = [desk.receipt(B)]
    assert desk.state() == "done edited"
    assert [blob for blob, _ in desk.snapshot.receipts.misplaced()] == [A]


def test_p2_a_void_takes_back_the_attempt_that_it_names() -> None:
    desk = Desk()
    desk.commit(A)
    receipt = desk.receipt(A)
    desk.notes[A].append(receipt._replace(kind="void", at="2026-08-02T00:00:00Z"))
    assert desk.state() == "pending unverified"
    desk.receipt(A, attempt="a2")
    assert desk.state() == "done exact"


def test_p12_finished_work_stays_done_under_a_new_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    from gitstate.core import identity as module

    desk = Desk()
    desk.commit(A)
    desk.receipt(A)
    monkeypatch.setitem(module.SCHEMES, 2, ("gitstate work v2", "gitstate component v2"))
    newer = Identity(desk.plan.workflow, Sources({}, {}, {}), scheme=2)
    (status,) = derive(desk.plan, newer, desk.snapshot, NOW)
    assert (status.state, status.reason) == ("done", "exact")
    desk.title = "B"
    newer = Identity(desk.plan.workflow, Sources({}, {}, {}), scheme=2)
    (status,) = derive(desk.plan, newer, desk.snapshot, NOW)
    assert (status.state, status.reason, status.components) == ("pending", "stale", ("plan",))


TWO = Stage("text", PLACE, "cat", ("out/{slug}.a", "out/{slug}.b"))


@pytest.mark.parametrize(
    ("second", "state"),
    [(B, "done exact"), (C, "done edited"), (EMPTY, "pending missing"), (None, "pending missing")],
)
def test_p2_the_other_outputs_count_by_position(second: str | None, state: str) -> None:
    desk = Desk(TWO)
    desk.receipt(A, B)
    desk.commit(*filter(None, (A, second)))
    assert desk.state() == state


def test_p5_a_human_s_edit_of_a_second_output_is_not_paid_over_when_the_first_is_stale() -> None:
    desk = Desk(TWO)
    desk.receipt(A, B)
    desk.commit(A, C)
    desk.title = "B"
    assert desk.state() == "pending edited plan"


CHAIN = (
    Stage("base", PLACE, "cat", ("base/{slug}",)),
    Stage("text", PLACE, "cat", ("out/{slug}",), needs=("base",)),
)


def test_p2_a_work_waits_for_its_upstream_and_its_own_identity_is_not_known_till_then() -> None:
    desk = Desk(*CHAIN)
    status = desk.judge()
    assert (status.state, status.reason, status.hash) == ("pending", "upstream", None)


def test_p2_an_upstream_that_yields_the_same_bytes_stops_there() -> None:
    desk = Desk(*CHAIN)
    desk.commit(A, stage="base")
    desk.receipt(A, stage="base")
    desk.commit(B)
    desk.receipt(B)
    desk.title = "B"
    assert desk.state("base") == "pending stale plan"
    desk.receipt(A, stage="base", attempt="a9")
    assert desk.state("base") == "done exact"
    assert desk.state() == "pending stale plan"  # its own plan moved, its inputs did not


def test_p2_an_edited_upstream_counts_with_what_it_holds() -> None:
    desk = Desk(*CHAIN)
    desk.commit(A, stage="base")
    desk.receipt(A, stage="base")
    desk.commit(B)
    desk.receipt(B)
    desk.commit(C, stage="base")
    assert desk.state("base") == "done edited"
    assert desk.state() == "pending stale inputs"


@pytest.mark.parametrize(
    ("at", "state"),
    [
        ("2026-08-07T11:00:01Z", "done exact"),
        ("2026-08-07T11:00:00Z", "pending expired"),
        ("2026-08-07T11:00:01", "done exact"),
        ("no time at all", "done exact"),
    ],
)
def test_p2_the_clock_counts_only_where_a_stage_sets_ttl(at: str, state: str) -> None:
    desk = Desk(Stage("text", PLACE, "cat", ("out/{slug}",), ttl=3600.0))
    desk.commit(A)
    desk.receipt(A, at=at)
    assert desk.state() == state
    lasting = Desk()
    lasting.commit(A)
    lasting.receipt(A, at=at)
    assert lasting.state(now=NOW + timedelta(days=9999)) == "done exact"


def test_a_verdict_on_today_s_identity_fails_a_due_work_and_no_other() -> None:
    desk = Desk()
    line = LogLine(desk.judge().hash or "", "verdict", "one", "text", "a1", "2026-08-01T00:00:00Z")
    desk.verdicts[("one", "text", line.work)] = Verdict("timeout", ("a1",), line)
    status = desk.judge()
    assert (status.state, status.reason, status.category) == ("failed", "new", "timeout")
    desk.title = "B"
    assert desk.state() == "pending new"
    desk.title = "A"
    desk.commit(A)
    assert desk.state() == "pending unverified"
    desk.receipt(A)
    assert desk.state() == "done exact"


def test_a_verdict_that_was_overcome_does_not_come_back_with_its_identity() -> None:
    desk = Desk()
    line = LogLine(desk.judge().hash or "", "verdict", "one", "text", "a1", "2026-08-01T00:00:00Z")
    desk.verdicts[("one", "text", line.work)] = Verdict("validation", ("a1",), line)
    desk.receipt(A, attempt="a2")
    desk.title = "B"
    desk.commit(B)
    desk.receipt(B, attempt="a3")
    desk.title = "A"
    assert desk.state() == "pending stale plan"


def test_running_is_said_of_what_is_under_way() -> None:
    desk = Desk()
    desk.running = frozenset({("one", "text")})
    assert desk.state() == "running new"
    desk.commit(A)
    desk.receipt(A)
    assert desk.state() == "done exact"
