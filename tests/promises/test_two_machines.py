"""Two machines, one after another: a pull is all they need in order to agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.world import CHAIN, FILES, LOG, RECEIPTS, Clone, World

BOTH_DONE = {"one/article": "done exact", "two/article": "done exact"}


def on_remote(world: World, ref: str) -> str:
    return world.git(world.remote, "rev-parse", ref)


def agree(world: World, *clones: Clone) -> None:
    """All clones and the remote hold the same."""
    for ref in ("refs/heads/main", RECEIPTS):
        assert {clone.git("rev-parse", ref) for clone in clones} == {on_remote(world, ref)}
    assert len({clone.plan_text() for clone in clones}) == 1
    assert [clone.status() for clone in clones] == [""] * len(clones)


def test_a_fresh_clone_without_any_set_up_fetches_and_pays_nothing(shared: World) -> None:
    other = shared.clone("b")
    other.run()
    assert len(shared.calls()) == 2
    agree(shared, shared.a, other)
    assert other.git("fetch", "-q") == ""
    assert other.git("pull", "-q") == ""
    assert other.git("pull", "-q", "--rebase", "--prune") == ""
    assert other.states() == BOTH_DONE


def test_a_plain_pull_brings_what_another_clone_made_after_that(shared: World) -> None:
    other = shared.clone("b")
    other.run()
    shared.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    shared.a.run()
    other.git("pull", "-q")
    other.run()
    assert len(shared.calls()) == 3
    agree(shared, shared.a, other)


def test_clones_that_take_turns_pay_for_each_work_once(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three", "four"], remote=True)
    other = world.clone("b")
    for turn, clone in enumerate([world.a, other, world.a, other]):
        clone.run("--limit", "1")
        assert len(world.calls()) == turn + 1
    world.a.run()
    other.run()
    assert set(world.paid().values()) == {1}
    agree(world, world.a, other)


def test_a_run_on_a_clone_that_lies_behind_brings_it_forward_first(shared: World) -> None:
    other = shared.clone("b")
    shared.a.commit({"prompts/article.md": "Write anew about {{ slug }}.\n"})
    shared.a.run()
    other.run()
    assert len(shared.calls()) == 4
    agree(shared, shared.a, other)
    assert other.read("prompts/article.md") == "Write anew about {{ slug }}.\n"


def test_a_push_that_is_rejected_because_somebody_was_faster_is_tried_again(shared: World) -> None:
    other = shared.clone("b")
    shared.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    faster = f"cd {other.path} && git pull -q && echo hello > hello.txt && git add hello.txt"
    shared.tell("three", before=f"{faster} && git commit -q -m Hello && git push -q")
    shared.a.git("push", "-q")
    shared.a.run()
    assert shared.paid()["three/article"] == 1
    other.run()
    agree(shared, shared.a, other)
    assert {"hello.txt", "out/three.md"} <= other.files()
    assert shared.a.has("hello.txt")


def test_two_clones_that_worked_apart_are_united(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"], remote=True)
    other = world.clone("b")
    world.a.run("one", "--push", "never")
    other.run("two")
    world.a.run("three")
    other.run()
    assert world.paid() == {"one/article": 1, "two/article": 1, "three/article": 1}
    agree(world, world.a, other)


def test_the_same_work_done_on_both_sides_keeps_the_one_that_the_remote_has(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"], remote=True)
    other = world.clone("b")
    world.tell("one", answer="by a\n")
    world.a.run("--push", "never")
    world.tell("one", answer="by b\n")
    other.run()
    world.a.gitstate("sync", code=0)
    other.gitstate("sync", code=0)
    agree(world, world.a, other)
    assert world.a.show("out/one.md") == "by b\n"
    assert world.a.states() == {"one/article": "done exact"}
    assert len({line["attempt"] for line in world.a.receipts()}) == 2
    world.a.run()
    assert len(world.calls()) == 2


def changes(world: World, path: str) -> list[str]:
    """What befell a file on the remote, from the first: A, M or D."""
    log = ("log", "--reverse", "--format=", "--name-status", "main", "--", path)
    return [line[0] for line in world.git(world.remote, *log).splitlines() if line]


def test_what_was_made_of_a_result_that_lost_does_not_replace_what_the_remote_has(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True, stages=CHAIN, items=["one"])
    b = world.clone("b")
    world.tell("one", "outline", answer="late\n", once=True)
    world.a.run("--push", "never")
    b.run()
    world.a.run()
    b.gitstate("sync", code=0)
    assert changes(world, "work/one.md") == changes(world, "out/one.md") == ["A"]
    agree(world, world.a, b)
    assert world.a.states() == {"one/outline": "done exact", "one/article": "done exact"}


def test_what_was_made_by_an_old_prompt_does_not_replace_what_the_remote_has_by_the_new_one(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, remote=True, items=["one"])
    b = world.clone("b")
    world.a.run("--push", "never")
    b.commit({"prompts/article.md": FILES["prompts/article.md"] + "Be short.\n"})
    b.run()
    world.a.run()
    b.gitstate("sync", code=0)
    assert changes(world, "out/one.md") == ["A"]
    agree(world, world.a, b)
    assert world.a.states() == {"one/article": "done exact"}


def test_the_users_own_unpushed_commits_go_along_and_the_run_says_so(shared: World) -> None:
    shared.a.commit({"notes.txt": "mine\n"}, "My own")
    shared.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    done = shared.a.run()
    assert "of your own" in done.err
    assert shared.git(shared.remote, "show", "main:notes.txt") == "mine"


def test_a_users_commits_that_diverged_are_never_rewritten(shared: World) -> None:
    other = shared.clone("b")
    other.commit({"theirs.txt": "x\n"})
    other.git("push", "-q")
    mine = shared.a.commit({"plan.yaml": "- one\n- two\n- three\n"}, "Mine")
    done = shared.a.run(code=3)
    assert "diverged" in done.err
    assert shared.a.git("rev-parse", "HEAD") == mine
    assert len(shared.calls()) == 2
    shared.a.git("pull", "-q", "--rebase")
    shared.a.run()
    assert len(shared.calls()) == 3
    other.run()
    agree(shared, shared.a, other)


def test_receipts_arrive_even_where_the_users_commits_diverged(shared: World) -> None:
    other = shared.clone("b")
    other.commit({"plan.yaml": "- one\n- two\n- three\n"})
    other.run()
    shared.a.commit({"mine.txt": "x\n"})
    shared.a.gitstate("sync", code=3)
    assert len(shared.a.receipts()) == 3


# --- away ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--offline",)], ids=["the remote is away", "--offline"])
def test_offline_the_run_works_keeps_its_results_safe_and_a_later_sync_delivers(
    shared: World, flags: tuple[str, ...]
) -> None:
    shared.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    before = on_remote(shared, "main")
    shared.take_remote_away()
    shared.a.run(*flags, code=75)
    assert shared.a.states()["three/article"] == "done exact"
    shared.a.gitstate("sync", code=75)
    shared.bring_remote_back()
    assert on_remote(shared, "main") == before
    shared.a.gitstate("sync", code=0)
    other = shared.clone("b")
    other.run()
    assert len(shared.calls()) == 3
    agree(shared, shared.a, other)


def test_a_first_run_where_nothing_stands_yet_works_while_the_remote_is_away(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True)
    other = world.clone("b")
    world.take_remote_away()
    other.run(code=75)
    assert set(other.states().values()) == {"done exact"}
    world.bring_remote_back()
    other.gitstate("sync", code=0)
    agree(world, other)


def test_a_remote_that_goes_away_in_the_middle_costs_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True)
    away = world.remote.with_suffix(".away")
    world.tell("two", before=f"mv {world.remote} {away}", once=True)
    world.a.run("--push", "end", code=75)
    assert set(world.a.states().values()) == {"done exact"}
    world.bring_remote_back()
    world.a.run()
    assert set(world.paid().values()) == {1}
    agree(world, world.a)


def test_push_never_pushes_nothing(shared: World) -> None:
    before = {ref: on_remote(shared, ref) for ref in ("main", RECEIPTS)}
    shared.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    shared.a.run("--push", "never")
    assert {ref: on_remote(shared, ref) for ref in ("main", RECEIPTS)} == before


def test_branch_and_notes_are_pushed_together_or_not_at_all(shared: World) -> None:
    hook = shared.remote / "hooks/update"
    hook.write_text('#!/bin/sh\ntest "$1" != refs/heads/main\n')
    hook.chmod(0o755)
    before = on_remote(shared, RECEIPTS)
    shared.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    done = shared.a.gitstate("run")
    assert done.code == 3
    assert on_remote(shared, RECEIPTS) == before
    hook.unlink()
    shared.a.run()
    assert len(shared.calls()) == 3
    agree(shared, shared.a)


def test_without_a_remote_sync_does_nothing(finished: World) -> None:
    assert "no remote" in finished.a.gitstate("sync", code=0).out


def test_a_clone_that_fetches_notes_by_hand_is_not_clobbered(shared: World) -> None:
    shared.a.git("config", "--add", "remote.origin.fetch", "+refs/notes/*:refs/notes/*")
    shared.a.commit({"plan.yaml": "- one\n- two\n- three\n"})
    shared.a.run("--push", "never")
    other = shared.clone("b")
    other.commit({"four.txt": "x\n"})
    other.git("push", "-q")
    shared.a.gitstate("sync")
    assert len(shared.a.receipts()) == 3


@pytest.mark.parametrize("when", ["during a run", "between two"])
def test_p8_receipts_that_a_fetch_by_hand_overwrote_come_back(shared: World, when: str) -> None:
    shared.a.git("config", "--add", "remote.origin.fetch", "+refs/notes/*:refs/notes/*")
    shared.a.commit({"plan.yaml": "- one\n- two\n- three\n- four\n"})
    if when == "during a run":
        shared.tell("four", before="git fetch -q")
        shared.a.run("--push", "end")
    else:
        shared.a.run("--push", "never")
        shared.a.git("fetch", "-q")
        assert shared.a.states()["three/article"] == "pending unverified"
        shared.a.run()
    assert set(shared.a.states().values()) == {"done exact"}
    other = shared.clone("b")
    other.run()
    assert set(shared.paid().values()) == {1}
    agree(shared, shared.a, other)


@pytest.mark.parametrize("claim", [(), ("--claim",)])
def test_a_remote_that_pushes_go_past_is_named_before_anything_is_paid(
    tmp_path: Path, claim: tuple[str, ...]
) -> None:
    world = World(tmp_path, remote=True)
    fork = tmp_path / "fork.git"
    world.a.git("clone", "-q", "--bare", world.url, str(fork))
    world.a.git("remote", "set-url", "--push", "origin", str(fork))
    assert "remote.origin.pushurl" in world.a.run(*claim, code=3).err
    assert "remote.origin.pushurl" in world.a.gitstate("sync", code=3).err
    assert world.calls() == []
    assert "gitstate" not in world.git(fork, "for-each-ref")
    # Another way to the same place is fine.
    world.a.git("remote", "set-url", "--push", "origin", str(world.remote))
    world.a.run(*claim)
    assert "probe" not in world.git(world.remote, "for-each-ref")
    agree(world, world.a)


def test_accept_and_reset_reach_the_other_clone(tmp_path: Path) -> None:
    world = World(tmp_path, files={"out/one.md": "from before\n"}, remote=True)
    world.tell("two", answer="")
    world.a.run(code=1)
    world.a.gitstate("accept", code=0)
    world.a.gitstate("reset", "two", code=0)
    world.a.gitstate("sync", code=0)
    other = world.clone("b")
    other.gitstate("sync", code=0)
    assert other.states() == {"one/article": "done accepted", "two/article": "pending new"}
    assert other.git("rev-parse", LOG) == world.a.git("rev-parse", LOG)


# --- saved plans -----------------------------------------------------------------------------------------


def save(clone: Clone, *selection: str) -> str:
    path = str(clone.world.folder / "saved.json")
    clone.gitstate("plan", *selection, "--out", path, code=0)
    return path


def test_of_a_work_with_several_outputs_all_that_stay_are_of_one_result(tmp_path: Path) -> None:
    line = 'echo 1 {{ word }} "$GITSTATE_ATTEMPT_ID" >"$GITSTATE_OUTPUT_1"'
    both = f"{line}; {line.replace('1', '2')}"
    stage = {"run": both, "output": ["out/{slug}.1", "out/{slug}.2"]}
    world = World(tmp_path, stages={"article": stage}, items=[{"slug": "one", "word": "old"}], remote=True)
    world.a.run()
    other = world.clone("b")
    other.run()
    other.commit({"plan.yaml": "- {slug: one, word: new}\n"})
    other.git("push", "-q")
    other.run("--push", "never")
    world.a.run("--redo", "one", "--offline", code=75)  # by the plan of before
    world.a.gitstate("sync", code=0)
    other.run()
    assert other.states() == {"one/article": "done exact"}
    assert [other.read(f"out/one.{n}").split()[:2] for n in (1, 2)] == [["1", "new"], ["2", "new"]]


def test_a_saved_plan_runs_exactly_what_it_holds(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one", "two", "three"])
    path = save(world.a, "two")
    assert [work["slug"] for work in json.loads(Path(path).read_text())["work"]] == ["two"]
    world.a.run("--plan", path)
    assert world.paid() == {"two/article": 1}


def test_a_saved_plan_runs_on_another_clone_of_the_same_commit(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True)
    path = save(world.a, "two")
    other = world.clone("b")
    other.run("--plan", path)
    assert world.paid() == {"two/article": 1}


@pytest.mark.parametrize("what", ["a commit", "a receipt", "an edit that is not committed"])
def test_a_saved_plan_is_refused_when_the_world_has_moved(tmp_path: Path, what: str) -> None:
    world = World(tmp_path)
    path = save(world.a)
    if what == "a commit":
        world.a.commit({"prompts/article.md": "Otherwise about {{ slug }}.\n"})
    elif what == "a receipt":
        world.a.run("one")
    else:
        world.a.write("prompts/article.md", "Otherwise about {{ slug }}.\n")
    before = world.calls()
    done = world.a.gitstate("run", "--plan", path)
    assert done.code in (2, 3)
    assert world.calls() == before


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"work": [{"slug": 1}]}'])
def test_what_is_no_saved_plan_is_refused(finished: World, tmp_path: Path, text: str) -> None:
    (tmp_path / "saved.json").write_text(text)
    done = finished.a.gitstate("run", "--plan", str(tmp_path / "saved.json"))
    assert done.code in (2, 3)
    assert len(finished.calls()) == 2


def test_a_run_whose_every_push_is_overtaken_works_on_and_delivers_in_the_end(tmp_path: Path) -> None:
    world = World(tmp_path, remote=True, items=["one", "two", "three"])
    rival, count = world.clone("rival"), tmp_path / "count"
    hook = world.a.path / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"#!/bin/sh\nn=$(($(cat '{count}' 2>/dev/null)+1)); echo $n >'{count}'; [ $n -lt 12 ] || exit 0\n"
        f"unset $(git rev-parse --local-env-vars); cd '{rival.path}'; git pull -q; "
        "printf x >rival$n; git add rival$n; git commit -q -m rival; git push -q --no-verify\n"
    )
    hook.chmod(0o755)
    world.tell("one", sleep=0.3)
    world.a.run()
    assert count.read_text() == "12\n"  # two for the first group, which gives way, and those of the end
    assert set(world.paid().values()) == {1}
    assert world.git(world.remote, "ls-tree", "-r", "--name-only", "main", "out").split() == [
        "out/one.md",
        "out/three.md",
        "out/two.md",
    ]


def test_p3_a_branch_that_was_seen_before_its_notes_is_looked_at_again(shared: World, tmp_path: Path) -> None:
    # A server moves the refs of one push one after the other; who asks meanwhile sees some of them only.
    b, seen = shared.clone("b"), tmp_path / "seen"
    server = tmp_path / "server"
    server.write_text(
        f"#!/bin/sh\n[ -e '{seen}' ] && exec git upload-pack \"$@\"\n: >'{seen}'\n"
        'exec git -c transfer.hideRefs=refs/notes upload-pack "$@"\n'
    )
    server.chmod(0o755)
    b.git("config", "remote.origin.uploadpack", str(server))
    paid = shared.paid()
    assert "Nothing to do" in b.run().err
    assert shared.paid() == paid
    assert seen.exists()
