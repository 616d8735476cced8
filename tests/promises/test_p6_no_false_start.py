"""P6: corrupt or unreadable state is an error with a way out, and never read as "nothing done yet"."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.world import FAIL_AT_ONCE, LOG, RECEIPTS, Clone, Done, World, until

BOTH_DONE = {"one/article": "done exact", "two/article": "done exact"}


def rewrite_notes(clone: Clone, change: Callable[[str, str], str], ref: str = RECEIPTS) -> None:
    """Put other texts into the notes: `change` gets the annotated object and the text."""
    clone.set_notes(
        {path: change(path.replace("/", ""), text) for path, text in clone.notes(ref).items()}, ref
    )


def torn(_: str, text: str) -> str:
    return text[: len(text) // 2] + "\n"


def no_object(_: str, text: str) -> str:
    return text.replace('{"work":"', '{"work":"zz', 1)


def a_field_gone(_: str, text: str) -> str:
    fields = json.loads(text)
    del fields["outputs"]
    return json.dumps(fields, separators=(",", ":")) + "\n"


def a_field_of_another_type(_: str, text: str) -> str:
    fields = json.loads(text)
    fields["outputs"] = 7
    return json.dumps(fields, separators=(",", ":")) + "\n"


def reading(clone: Clone) -> list[Done]:
    """Everything that reads state must stop."""
    return [
        clone.gitstate(*command) for command in (("plan",), ("plan", "--json"), ("status",), ("why", "one"))
    ]


@pytest.mark.parametrize(
    "damage", [torn, no_object, a_field_gone, a_field_of_another_type], ids=lambda function: function.__name__
)
def test_p6_a_corrupt_receipt_stops_every_command_and_the_way_out_works(
    finished: World, damage: Callable[[str, str], str]
) -> None:
    a = finished.a
    blob = a.blob("out/one.md")
    rewrite_notes(a, lambda target, text: damage(target, text) if target == blob else text)
    assert [done.code for done in (*reading(a), a.gitstate("verify"))] == [3] * 5
    done = a.run(code=3)
    assert blob in done.err
    assert "verify --repair" in done.err
    assert len(finished.calls()) == 2
    a.gitstate("verify", "--repair")
    assert a.states() == {"one/article": "pending unverified", "two/article": "done exact"}
    a.run(code=3)
    assert len(finished.calls()) == 2


def test_p6_a_broken_line_among_whole_ones_is_set_aside_and_kept(finished: World) -> None:
    a = finished.a
    rewrite_notes(a, lambda _, text: text + '{"work":"torn\n')
    a.run(code=3)
    a.gitstate("verify", "--repair", code=0)
    assert a.states() == BOTH_DONE
    a.run()
    assert len(finished.calls()) == 2
    assert all('{"work":"torn\n' in text for text in a.notes().values())


def test_p6_somebody_elses_remarks_in_the_notes_are_kept_and_mean_nothing(finished: World) -> None:
    a = finished.a
    blob = a.blob("out/one.md")
    a.git("notes", "--ref=gitstate", "append", "-m", "a remark by hand", blob)
    assert a.states() == BOTH_DONE
    a.run("--redo", "one")
    a.gitstate("verify", code=0)
    assert "a remark by hand" in a.git("notes", "--ref=gitstate", "show", blob)


@pytest.mark.parametrize(
    "what", ["a blob", "a tree", "an object that is not there", "a tree with a folder only"]
)
def test_p6_a_notes_ref_that_points_at_garbage_stops_everything(finished: World, what: str) -> None:
    a = finished.a
    empty = a.git("mktree", stdin="")
    value = {
        "a blob": a.blob("out/one.md"),
        "a tree": a.git("rev-parse", "HEAD:out"),
        "an object that is not there": "1" * 40,
        "a tree with a folder only": a.git("commit-tree", "-m", "x", empty),
    }[what]
    (a.path / ".git" / RECEIPTS).write_text(value + "\n")
    a.forget_state()
    done = a.gitstate("run")
    assert len(finished.calls()) == 2, "it paid again"
    assert done.code == 3
    if what != "a tree with a folder only":  # (empty notes are readable: the files are unverified then)
        assert a.gitstate("plan").code == 3
        assert RECEIPTS in done.err


def test_p6_a_missing_note_blob_stops_everything(finished: World) -> None:
    a = finished.a
    entry = a.git("ls-tree", "-r", RECEIPTS).splitlines()[0].split()[2]
    (a.path / ".git/objects" / entry[:2] / entry[2:]).unlink()
    a.forget_state()
    assert a.gitstate("plan").code == 3
    assert a.run(code=3).err
    assert len(finished.calls()) == 2


def test_p6_a_corrupt_log_stops_the_run_and_the_way_out_works(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"], policy=FAIL_AT_ONCE)
    world.tell(answer="")
    world.a.run(code=1)
    rewrite_notes(world.a, torn, LOG)
    assert world.a.gitstate("plan").code == 3
    done = world.a.run(code=3)
    assert "verify --repair" in done.err
    assert len(world.calls()) == 1
    world.a.gitstate("verify", "--repair", code=0)
    world.forgive()
    world.a.run()
    assert world.a.states() == {"one/article": "done exact"}


# --- attempts on record ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def waiting_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world in whose spool a response waits."""
    world = World(tmp_path_factory.mktemp("waiting"), items=["one"])
    world.tell(before="mkdir -p out && echo mine > out/one.md", once=True)
    world.a.run(code=3)
    (world.a.path / "out/one.md").unlink()
    return world


@pytest.mark.parametrize(
    ("step", "damage"),
    [
        ("intent", "cut"),
        ("intent", "empty"),
        ("spooled", "cut"),
        ("spooled", "garbage"),
        ("response-1", "cut"),
    ],
)
def test_p6_a_corrupt_attempt_record_names_the_file_and_the_response_stays(
    waiting_once: World, tmp_path: Path, step: str, damage: str
) -> None:
    world = waiting_once.copy(tmp_path / "world")
    path = next((world.a.state / "attempts").glob(f"*.{step}"))
    response = path.with_suffix(".response-1")
    answer, data = response.read_text(), path.read_bytes()
    path.write_bytes({"cut": data[: len(data) // 2], "garbage": b"\xff\x00{]", "empty": b""}[damage])
    done = world.a.run(code=3)
    assert str(path) in done.err
    assert response.name in done.err
    assert len(world.calls()) == 1
    if step != "response-1":
        assert response.read_text() == answer
    for file in path.parent.glob(f"{path.stem}.*"):  # the way out that the message names
        file.rename(tmp_path / file.name)
    world.a.run()
    assert len(world.calls()) == 2


def test_p6_a_spooled_response_that_is_gone_is_an_error(waiting_once: World, tmp_path: Path) -> None:
    world = waiting_once.copy(tmp_path)
    response = next((world.a.state / "attempts").glob("*.response-1"))
    response.unlink()
    assert response.name in world.a.run(code=3).err
    assert len(world.calls()) == 1


# --- configuration and plan ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("gitstate.yaml", ""),
        ("gitstate.yaml", "gitstate: 1\nplan: plan.yaml\nstages: {article: {"),
        ("gitstate.yaml", "\x00\x01"),
        ("gitstate.yaml", "- a\n- b\n"),
        ("gitstate.yaml", "gitstate: 2\nplan: plan.yaml\nstages: {a: {run: x, output: y}}\n"),
        ("plan.yaml", ""),
        ("plan.yaml", "- {slug: one"),
        ("plan.yaml", "\x00"),
        ("plan.yaml", "slug: one\n"),
        ("plan.yaml", "<<<<<<< HEAD\n- one\n=======\n- two\n>>>>>>> other\n"),
    ],
)
def test_p6_a_corrupt_configuration_or_plan_is_named_and_nothing_runs(
    finished: World, path: str, text: str
) -> None:
    finished.a.commit({path: text})
    done = finished.a.run(code=2)
    assert path in done.err
    plan = finished.a.gitstate("plan")
    assert plan.code == (0 if (path, text) == ("plan.yaml", "") else 2)
    assert "Everything is done" not in plan.out
    assert len(finished.calls()) == 2


def test_p6_a_deleted_configuration_is_not_an_empty_one(finished: World) -> None:
    finished.a.git("rm", "-q", "gitstate.yaml")
    finished.a.git("commit", "-q", "-m", "Gone")
    assert finished.a.gitstate("plan").code == 2
    finished.a.run(code=2)


def test_p6_an_empty_plan_is_never_done(tmp_path: Path) -> None:
    world = World(tmp_path, items=[], files={"plan.yaml": "[]\n"})
    world.a.run(code=2)
    assert world.a.gitstate("plan", "--exit-code").code == 4


def test_p6_a_plan_file_that_was_deleted_in_the_working_tree_stops_the_run(finished: World) -> None:
    (finished.a.path / "plan.yaml").unlink()
    assert "plan.yaml" in finished.a.run(code=2).err
    assert len(finished.calls()) == 2


# --- receipts that are elsewhere -------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--offline",)], ids=["the remote is away", "--offline"])
def test_p6_receipts_that_were_never_fetched_and_cannot_be_stop_the_run(
    shared: World, flags: tuple[str, ...]
) -> None:
    other = shared.clone("b")
    other.commit({"plan.yaml": "- one\n- two\n- three\n", "prompts/article.md": "New for {{ slug }}.\n"})
    shared.take_remote_away()
    done = other.run(*flags, code=75)
    assert "receipts" in done.err.lower()
    assert len(shared.calls()) == 2
    assert "fetch" in other.gitstate("plan", code=0).out
    shared.bring_remote_back()
    other.run()
    assert len(shared.calls()) == 5


def fetched_and_cut(world: World, what: str) -> Clone:
    """A clone that has fetched receipts which nobody merged yet, and of which a power cut has taken something."""
    clone = world.clone("b")
    tracked = "refs/gitstate-remote/origin/notes"
    clone.git("-c", "fetch.unpackLimit=1000", "fetch", "-q", "origin", f"{RECEIPTS}:{tracked}")
    name = {"commit": tracked, "tree": tracked + "^{tree}"}.get(what)
    if name is None:
        (clone.path / ".git" / tracked).write_bytes(b"")
    else:
        oid = clone.git("rev-parse", name)
        (clone.path / ".git/objects" / oid[:2] / oid[2:]).unlink()
    return clone


@pytest.mark.parametrize("what", ["commit", "tree", "ref"])
def test_p6_fetched_receipts_that_a_power_cut_took_are_an_error_that_sync_mends(
    shared: World, what: str
) -> None:
    clone = fetched_and_cut(shared, what)
    for command in (["plan"], ["status"], ["why", "one"], ["run", "--offline"], ["verify"]):
        done = clone.gitstate(*command, code=3)
        assert "gitstate sync" in done.err + done.out
    done = clone.gitstate("sync", code=0)
    # (where only the commit is missing, git itself sees that it has to ask for it)
    assert ("forgotten, and fetched again" in done.err) == (what != "commit")
    assert clone.states() == BOTH_DONE
    assert len(shared.calls()) == 2


@pytest.mark.parametrize("what", ["commit", "tree", "ref"])
def test_p6_a_run_fetches_again_what_a_power_cut_took_and_pays_nothing(shared: World, what: str) -> None:
    clone = fetched_and_cut(shared, what)
    shared.take_remote_away()
    assert "gitstate sync" in clone.run(code=3).err
    shared.bring_remote_back()
    assert ("forgotten, and fetched again" in clone.run().err) == (what != "commit")
    assert clone.states() == BOTH_DONE
    assert len(shared.calls()) == 2


def test_p6_a_receipt_of_a_newer_format_is_kept_and_never_counts(finished: World) -> None:
    a = finished.a
    one = a.blob("out/one.md")

    def newer(target: str, text: str) -> str:
        return text.replace('"v":1}', '"v":2}') if target == one else text

    rewrite_notes(a, newer)
    assert a.states() == {"one/article": "pending unverified", "two/article": "done exact"}
    assert "newer gitstate" in a.gitstate("plan", code=0).out
    a.gitstate("verify", code=0)
    a.run(code=3)
    assert len(finished.calls()) == 2
    assert '"v":2}' in a.git("notes", "--ref=gitstate", "show", one)


def test_p6_a_receipt_of_an_unknown_scheme_is_kept_and_never_counts_as_today(finished: World) -> None:
    a = finished.a
    rewrite_notes(a, lambda _, text: text.replace('"scheme":1', '"scheme":99'))
    assert "done exact" not in a.states().values()
    before = a.git("rev-parse", f"{RECEIPTS}^{{tree}}")
    a.gitstate("verify")
    assert a.git("rev-parse", f"{RECEIPTS}^{{tree}}") == before


def test_p6_unknown_fields_of_a_receipt_mean_nothing(finished: World) -> None:
    rewrite_notes(finished.a, lambda _, text: text.replace('"v":1}', '"v":1,"zeal":{"of":["a","newer"]}}'))
    assert finished.a.states() == BOTH_DONE


def test_p6_a_receipt_on_the_wrong_blob_never_counts_and_verify_says_so(finished: World) -> None:
    a = finished.a
    note = a.git("notes", "--ref=gitstate", "show", a.blob("out/one.md"))
    a.commit({"out/one.md": "forged\n"})
    a.git("notes", "--ref=gitstate", "add", "-f", "-m", note, a.blob("out/one.md"))
    assert a.states()["one/article"] == "done edited"
    assert a.gitstate("verify").code == 1


def test_p6_a_process_that_reads_beside_a_run_sees_no_half_of_it(tmp_path: Path) -> None:
    world = World(tmp_path, items=[f"item-{number}" for number in range(8)])
    running = world.a.start("run", "-j", "2")
    seen = []
    while not running.ended():
        done = world.a.gitstate("plan", "--json", code=0)
        seen += [work["state"] for work in json.loads(done.out)["work"]]
    running.wait(0)
    assert set(seen) <= {"pending", "running", "done"}
    until(lambda: set(world.a.states().values()) == {"done exact"})


def test_p6_a_notes_ref_that_a_power_cut_took_in_the_middle_of_its_move_is_brought_back(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.a.run()
    tip = world.a.git("rev-parse", RECEIPTS)
    moves = [[RECEIPTS, tip, "f" * 40], ["refs/heads/main", world.a.git("rev-parse", "main"), "e" * 40]]
    journal = {"format": 1, "git_dir": str(world.a.path / ".git"), "moves": moves}
    (world.a.state / "recording.json").write_text(json.dumps(journal))
    (world.a.path / ".git" / RECEIPTS).unlink()
    assert "Nothing to do" in world.a.run().err
    assert world.a.git("rev-parse", RECEIPTS) == tip
    assert len(world.calls()) == 2


def test_p6_a_log_of_zeros_knows_of_no_ref_that_was_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = world.a.path / ".git/logs" / RECEIPTS
    log.parent.mkdir(parents=True)
    log.write_bytes(bytes(150))
    world.a.run()
    assert set(world.a.states().values()) == {"done exact"}
