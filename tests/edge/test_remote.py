"""Talking to real bare remotes: which one, what it has, and what became of a push."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitstate.edge import partial, pushing, remote, tracking
from gitstate.edge.git import Git
from gitstate.edge.pushing import Answer
from gitstate.edge.remote import Fetched, Remote
from gitstate.edge.repo import LOG, RECEIPTS
from gitstate.errors import ComeBackLater, GitFailed, UsageError
from tests.support.clones import ENVIRONMENT, MAIN, Bare, Clone
from tests.support.cuts import cut_the_answer
from tests.support.httpgit import serve

ORIGIN = Remote("origin", MAIN)
GLOB = "+refs/notes/gitstate*:refs/gitstate-remote/origin/notes*"
BRANCH_GLOB = "+refs/heads/gitstate/notes*:refs/gitstate-remote/origin/heads/notes*"


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path / "remote.git")


@pytest.fixture
def clone(bare: Bare) -> Clone:
    """A clone with one commit of its own, one receipt and one line of log, nothing pushed."""
    made = bare.clone("clone")
    made.commit(plan="one")
    made.record("out/a.md", "a")
    made.log("a")
    return made


@pytest.fixture
def shared(bare: Bare, clone: Clone) -> Clone:
    """The same, pushed."""
    assert pushing.push(clone.plumbing, ORIGIN, updates(clone)).answer is Answer.APPLIED
    return clone


def updates(clone: Clone) -> dict[str, str]:
    return {ref: clone.tip(ref) for ref in (RECEIPTS, LOG, MAIN)}


def pick(clone: Clone, branch: str | None = MAIN) -> Remote | None:
    picked = remote.pick(clone.plumbing, branch)
    return picked and picked._replace(seen=False, set_up=False)


# pick


def test_a_branch_goes_where_its_upstream_is(clone: Clone) -> None:
    clone.git("config", "branch.main.remote", "fork")
    clone.git("config", "branch.main.merge", "refs/heads/trunk")
    assert pick(clone) == Remote("fork", "refs/heads/trunk")


def test_a_branch_without_upstream_goes_to_origin_under_its_own_name(clone: Clone) -> None:
    assert pick(clone, "refs/heads/wip/x.y") == Remote("origin", "refs/heads/wip/x.y")


def test_a_detached_head_has_origin_for_its_notes(clone: Clone) -> None:
    assert pick(clone, None) == Remote("origin", "")


def test_an_upstream_inside_the_repository_counts_as_none(clone: Clone) -> None:
    clone.git("switch", "-q", "-c", "topic", "--track", "main")
    assert clone.git("config", "branch.topic.remote") == "."
    assert pick(clone, "refs/heads/topic") == Remote("origin", "refs/heads/topic")


def test_without_upstream_the_only_remote_is_the_one_and_of_several_origin(clone: Clone) -> None:
    clone.git("remote", "rename", "origin", "elsewhere")
    clone.git("config", "--unset", "branch.main.remote")
    clone.git("config", "remote.half.fetch", "+refs/heads/*:refs/remotes/half/*")  # it has no address
    assert pick(clone) == Remote("elsewhere", "refs/heads/main")
    clone.git("remote", "add", "another", "../other.git")
    assert pick(clone) is None
    clone.git("remote", "remove", "elsewhere")
    clone.git("remote", "remove", "another")
    assert pick(clone) is None


def test_another_push_remote_is_told(clone: Clone) -> None:
    clone.git("config", "remote.pushDefault", "fork")
    assert pick(clone) == ORIGIN._replace(elsewhere="fork")
    clone.git("config", "branch.main.pushRemote", "origin")
    assert pick(clone) == ORIGIN


def test_an_upstream_that_is_no_branch_is_refused(clone: Clone) -> None:
    clone.git("config", "branch.main.merge", "refs/pull/7/head")
    with pytest.raises(UsageError, match=r"refs/pull/7/head of origin"):
        pick(clone)


@pytest.mark.parametrize("name", ["https://example.org/x.git", "../other", "a:b", "x.lock", "-x"])
def test_a_remote_that_is_a_url_has_a_label_fit_for_refs(clone: Clone, name: str) -> None:
    label = Remote(name, MAIN).label
    assert label.startswith("url-")
    clone.git("check-ref-format", Remote(name, MAIN).tracked_branch)
    assert Remote("team/up-1", MAIN).tracked(LOG) == "refs/gitstate-remote/team/up-1/notes-log"


# fetch


def test_an_empty_remote_is_an_answer(clone: Clone) -> None:
    assert remote.fetch(clone.plumbing, ORIGIN) == Fetched(None, None, None)


def test_fetch_tells_what_the_remote_has(bare: Bare, shared: Clone) -> None:
    other = bare.clone("other")
    fetched = remote.fetch(other.plumbing, ORIGIN)
    assert fetched == Fetched(shared.tip(MAIN), shared.tip(RECEIPTS), shared.tip(LOG))
    assert other.tip(RECEIPTS) == ""  # local notes are not touched
    assert not (other.path / ".git" / "FETCH_HEAD").exists()


def test_a_remote_without_the_branch_still_gives_its_notes(bare: Bare, shared: Clone) -> None:
    other = bare.clone("other")
    fetched = remote.fetch(other.plumbing, Remote("origin", "refs/heads/mine"))
    assert fetched == Fetched(None, shared.tip(RECEIPTS), shared.tip(LOG))


def test_notes_deleted_on_the_remote_do_not_linger_in_the_tracking_refs(bare: Bare, shared: Clone) -> None:
    remote.fetch(shared.plumbing, ORIGIN)
    bare.path.joinpath("refs/notes/gitstate").unlink()
    assert remote.fetch(shared.plumbing, ORIGIN) == Fetched(shared.tip(MAIN), None, shared.tip(LOG))
    assert shared.tip(ORIGIN.tracked(RECEIPTS)) == ""
    assert shared.tip(RECEIPTS) != ""


def test_p5_fetch_overwrites_no_local_notes_whatever_is_configured(bare: Bare, shared: Clone) -> None:
    other = bare.clone("other")
    mine = other.note(RECEIPTS, other.tip("HEAD:plan.txt"), slug="mine")
    other.git("config", "--add", "remote.origin.fetch", "+refs/notes/*:refs/notes/*")
    remote.fetch(other.plumbing, ORIGIN)
    assert other.receipts() == {mine}


def test_a_remote_out_of_reach_is_something_to_come_back_for(bare: Bare, shared: Clone) -> None:
    bare.path.rename(bare.path.with_name("gone"))
    with pytest.raises(ComeBackLater, match="out of reach") as caught:
        remote.fetch(shared.plumbing, ORIGIN)
    assert len(caught.value.message.splitlines()) == 1
    with pytest.raises(ComeBackLater):
        remote.refs(shared.plumbing, ORIGIN)


def test_locks_that_a_killed_fetch_left_on_the_tracking_refs_are_cleared(
    bare: Bare, shared: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "_SETTLED", 0.05)
    other = bare.clone("other")
    for ref in (MAIN, RECEIPTS, LOG):
        lock = other.path / ".git" / (ORIGIN.tracked(ref) + ".lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    shared.commit(more="x")
    shared.git("push", "-q", "origin", "main")
    assert remote.fetch(other.plumbing, ORIGIN).branch == shared.tip()


# fetch, after a power cut


class Cut:
    """A clone in which everything of `shared` was fetched; then something of it is lost, as by a power cut."""

    def __init__(self, bare: Bare, shared: Clone) -> None:
        self.clone = bare.clone("cut")
        self.before = self.packs()
        shared.record("out/b.md", "b")
        shared.log("b")
        pushing.push(shared.plumbing, ORIGIN, updates(shared))
        remote.fetch(self.clone.plumbing, ORIGIN)
        self.local = {ref: self.clone.tip(ref) for ref in (MAIN, RECEIPTS, LOG)}
        self.there = Fetched(shared.tip(MAIN), shared.tip(RECEIPTS), shared.tip(LOG))
        self.said: list[str] = []

    def packs(self) -> set[Path]:
        return set(self.clone.path.glob(".git/objects/pack/*"))

    def lose_pack(self, *suffixes: str) -> None:
        for path in self.packs() - self.before:
            if not suffixes or path.suffix in suffixes:
                path.unlink()

    def loose(self) -> None:
        """The same objects as files of their own, as a plain `git fetch` leaves them."""
        for path in self.packs():
            packed = path.read_bytes() if path.suffix == ".pack" else b""
            path.unlink()
            if packed:
                command = ("git", "unpack-objects", "-q")
                subprocess.run(command, cwd=self.clone.path, input=packed, check=True)

    def object(self, name: str) -> Path:
        oid = self.clone.git("rev-parse", name)
        return self.clone.path / ".git/objects" / oid[:2] / oid[2:]

    def fetch(self) -> Fetched:
        return remote.fetch(self.clone.plumbing, ORIGIN, self.said.append)

    def healed(self, by_git: bool = False) -> None:
        """One fetch brings everything back, touches nothing of our own, and the next has nothing to mend."""
        assert self.fetch() == self.there
        assert len(self.said) == (0 if by_git else 1)
        whole = self.clone.git("rev-list", "--objects", *filter(None, self.there[:3]))
        assert whole
        assert {ref: self.clone.tip(ref) for ref in self.local} == self.local
        before = [*self.said]
        assert self.fetch() == self.there
        assert self.said == before


@pytest.fixture
def cut(bare: Bare, shared: Clone) -> Cut:
    return Cut(bare, shared)


TRACKED = [ORIGIN.tracked(ref) for ref in (MAIN, RECEIPTS, LOG)]


@pytest.mark.parametrize("suffixes", [(), (".pack",), (".idx",)], ids=["pack", "its data", "its index"])
def test_p6_tracking_refs_that_outlived_their_pack_are_forgotten_and_fetched_again(
    cut: Cut, suffixes: tuple[str, ...]
) -> None:
    cut.clone.git("update-ref", "-d", TRACKED[0])
    cut.lose_pack(*suffixes)
    cut.healed()


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage\n", bytes(41), b"1" * 40 + b"\n"],
    ids=["empty", "garbage", "zeros", "of nothing"],
)
@pytest.mark.parametrize("ref", TRACKED)
def test_p6_a_tracking_ref_that_holds_no_id_of_ours_is_forgotten_and_fetched_again(
    cut: Cut, ref: str, content: bytes
) -> None:
    cut.clone.git("pack-refs", "--all")
    cut.clone.path.joinpath(".git", ref).parent.mkdir(parents=True, exist_ok=True)
    cut.clone.path.joinpath(".git", ref).write_bytes(content)
    cut.healed()


@pytest.mark.parametrize("torn", [None, b"", bytes(60)], ids=["missing", "empty", "zeros"])
@pytest.mark.parametrize("what", ["^{commit}", "^{tree}", ":out"])
def test_p6_a_tracking_ref_that_names_half_a_history_is_forgotten_and_fetched_again(
    cut: Cut, what: str, torn: bytes | None
) -> None:
    cut.loose()
    path = cut.object(TRACKED[0] + what)
    path.chmod(0o644)
    path.write_bytes(torn) if torn is not None else path.unlink()
    cut.healed(by_git=what == "^{commit}" and torn is None)


def test_p6_what_a_users_own_ref_claims_to_have_is_asked_for_all_the_same(
    bare: Bare, shared: Clone, cut: Cut
) -> None:
    cut.loose()
    cut.clone.git("tag", "seen", TRACKED[1])
    for path in cut.object(TRACKED[1] + "^{tree}"), cut.object(TRACKED[0] + "^{tree}"):
        path.unlink()
    assert cut.fetch() == cut.there
    assert cut.said
    cut.clone.git("rev-list", "--objects", "--all")


def test_p6_a_lock_beside_a_lost_ref_does_not_keep_it(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "_SETTLED", 0.05)
    cut.lose_pack()
    for ref in TRACKED:
        path = cut.clone.path / ".git" / ref
        path.write_bytes(b"")
        path.with_name(path.name + ".lock").touch()
    cut.healed()


def test_what_a_partial_or_shallow_clone_lacks_by_right_is_not_lost(bare: Bare, shared: Clone) -> None:
    for n, options in enumerate((["--filter=blob:none"], ["--depth", "1"])):
        clone = bare.clone(f"part{n}", "--no-checkout", *options)
        shared.record(f"out/{n}.md", str(n))
        pushing.push(shared.plumbing, ORIGIN, updates(shared))
        said: list[str] = []
        assert remote.fetch(clone.plumbing, ORIGIN, said.append).branch == shared.tip()
        assert said == []
        if "--depth" not in options:
            assert partial.missing(clone.plumbing, [shared.tip("HEAD:plan.txt")])


def test_p6_a_partial_clone_gets_a_lost_pack_again(bare: Bare, shared: Clone) -> None:
    clone = bare.clone("part", "--filter=blob:none")
    old = set(clone.path.glob(".git/objects/pack/*"))
    shared.record("out/b.md", "b")
    pushing.push(shared.plumbing, ORIGIN, updates(shared))
    remote.fetch(clone.plumbing, ORIGIN)
    for path in set(clone.path.glob(".git/objects/pack/*")) - old:
        path.unlink()
    said: list[str] = []
    fetched = remote.fetch(clone.plumbing, ORIGIN, said.append)
    assert fetched == Fetched(shared.tip(MAIN), shared.tip(RECEIPTS), shared.tip(LOG))
    clone.git("rev-list", "--objects", "--missing=allow-promisor", TRACKED[0])


def test_a_fetch_that_fails_although_the_remote_answers_is_git_s_to_explain(
    bare: Bare, shared: Clone
) -> None:
    shared.git("update-ref", "-d", "refs/remotes/origin/main")
    shared.git("update-ref", "refs/remotes/origin/main/below", "HEAD")  # in the tracking ref's way
    with pytest.raises(GitFailed, match="main/below"):
        remote.fetch(shared.plumbing, ORIGIN)


def test_a_shallow_clone_stays_as_shallow_as_it_was(bare: Bare, shared: Clone) -> None:
    for n in range(3):
        shared.record(f"out/{n}.md", str(n))
    pushing.push(shared.plumbing, ORIGIN, updates(shared))
    shallow = bare.clone("shallow", "--depth", "1")
    shared.record("out/later.md", "later")
    pushing.push(shared.plumbing, ORIGIN, updates(shared))
    fetched = remote.fetch(shallow.plumbing, ORIGIN)
    assert fetched.branch == shared.tip()
    assert shallow.git("rev-list", "--count", "refs/remotes/origin/main") == "2"
    assert shallow.git("rev-parse", "--is-shallow-repository") == "true"


def test_a_blobless_clone_gets_every_note_with_the_one_fetch(bare: Bare, shared: Clone) -> None:
    blobless = bare.clone("blobless", "--filter=blob:none")
    fetched = remote.fetch(blobless.plumbing, ORIGIN)
    assert fetched.receipts is not None
    listed = blobless.git("ls-tree", "-r", "--format=%(objectname)", fetched.receipts).split()
    assert listed
    assert partial.missing(blobless.plumbing, listed) == []


def test_blobs_that_a_filter_left_out_come_in_one_batch(bare: Bare, shared: Clone, tmp_path: Path) -> None:
    for n in range(20):
        shared.record(f"out/{n}.md", str(n))
    pushing.push(shared.plumbing, ORIGIN, updates(shared))
    blobless = bare.clone("blobless", "--filter=blob:none")
    blobless.git("config", "--add", "remote.origin.fetch", GLOB)
    blobless.git("fetch", "-q")
    listed = blobless.git("ls-tree", "-r", "--format=%(objectname)", ORIGIN.tracked(RECEIPTS)).split()
    assert len(partial.missing(blobless.plumbing, listed)) == 21
    trace = tmp_path / "trace"
    blobless.plumbing.env["GIT_TRACE"] = str(trace)
    assert partial.fetch_missing(blobless.plumbing, listed) == 21
    assert trace.read_text().count("built-in: git fetch") == 1
    assert partial.fetch_missing(blobless.plumbing, listed) == 0


def test_a_whole_clone_is_not_asked_for_missing_blobs(shared: Clone) -> None:
    assert partial.fetch_missing(shared.plumbing, iter(["0" * 40])) == 0


def test_missing_blobs_and_no_remote_is_something_to_come_back_for(bare: Bare, shared: Clone) -> None:
    blobless = bare.clone("blobless", "--filter=blob:none", "--no-checkout")
    oid = shared.tip("HEAD:plan.txt")
    bare.path.rename(bare.path.with_name("gone"))
    with pytest.raises(ComeBackLater):
        partial.fetch_missing(blobless.plumbing, [oid])


# set-up


def test_setting_up_makes_plain_pull_bring_the_notes_and_may_be_repeated(bare: Bare, shared: Clone) -> None:
    other = bare.clone("other")
    assert remote.setup_fetch(other.plumbing, ORIGIN)
    assert not remote.setup_fetch(other.plumbing, ORIGIN)
    picked = remote.pick(other.plumbing, MAIN)
    assert picked is not None
    assert picked.set_up
    assert not remote.setup_fetch(other.plumbing, picked)
    other.git("pull", "-q")
    assert other.git("config", "--get-all", "remote.origin.fetch").splitlines()[1:] == [GLOB, BRANCH_GLOB]
    assert other.tip(ORIGIN.tracked(RECEIPTS)) == shared.tip(RECEIPTS)


def test_a_remote_without_any_refspec_is_left_alone(clone: Clone) -> None:
    clone.git("config", "--unset-all", "remote.origin.fetch")
    assert not remote.setup_fetch(clone.plumbing, ORIGIN)


def fetched_before(clone: Clone) -> bool:
    picked = remote.pick(clone.plumbing, MAIN)
    assert picked is not None
    return remote.fetched_before(clone.plumbing, picked)


def test_a_clone_remembers_that_it_saw_a_remote_without_receipts(clone: Clone) -> None:
    assert not fetched_before(clone)
    remote.fetch(clone.plumbing, ORIGIN)
    assert fetched_before(clone)
    clone.git("remote", "set-url", "origin", "file:///another.git")
    assert not fetched_before(clone)


def test_receipts_that_plain_pull_brought_count_as_fetched(bare: Bare, shared: Clone) -> None:
    other = bare.clone("other", "-c", f"remote.origin.fetch={GLOB}")
    assert fetched_before(other)


# push


def test_one_push_carries_branch_receipts_and_log(bare: Bare, clone: Clone) -> None:
    pushed = pushing.push(clone.plumbing, ORIGIN, updates(clone))
    assert pushed.answer is Answer.APPLIED
    for ref in (MAIN, RECEIPTS, LOG):
        assert bare.ref(ref) == clone.tip(ref) == clone.tip(ORIGIN.tracked(ref))


def test_a_push_that_would_lose_something_is_rejected_as_a_whole(bare: Bare, shared: Clone) -> None:
    other = bare.clone("other")
    other.commit(theirs="x")
    other.git("push", "-q", "origin", "main")
    shared.record("out/b.md", "b")
    before = {ref: bare.ref(ref) for ref in (MAIN, RECEIPTS, LOG)}
    pushed = pushing.push(shared.plumbing, ORIGIN, updates(shared))
    assert pushed.answer is Answer.REJECTED
    assert MAIN in pushed.refused
    assert RECEIPTS in pushed.refused
    assert {ref: bare.ref(ref) for ref in before} == before


def test_notes_are_never_pushed_by_force(bare: Bare, shared: Clone) -> None:
    shared.git("update-ref", "-d", RECEIPTS)
    shared.note(RECEIPTS, shared.tip("HEAD:plan.txt"), slug="new")
    pushed = pushing.push(shared.plumbing, ORIGIN, {RECEIPTS: shared.tip(RECEIPTS)})
    assert pushed.answer is Answer.REJECTED
    assert pushed.refused == (RECEIPTS,)


def hook(clone: Clone, name: str, script: str) -> None:
    path = clone.path / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_pre_push_hook_that_refuses_is_told_apart(bare: Bare, clone: Clone) -> None:
    hook(clone, "pre-push", "echo 'not on a Friday' >&2; exit 1")
    pushed = pushing.push(clone.plumbing, ORIGIN, updates(clone))
    assert pushed.answer is Answer.HOOK
    assert "not on a Friday" in pushed.words
    assert bare.ref(MAIN) == ""


def test_a_remote_that_cannot_push_atomically_gives_no_answer_and_then_takes_it_in_parts(
    bare: Bare, clone: Clone
) -> None:
    Git(str(bare.path)).run("config", "receive.advertiseAtomic", "false")
    assert pushing.push(clone.plumbing, ORIGIN, updates(clone)).answer is Answer.UNCLEAR
    order = bare.path / "order"
    update = bare.path / "hooks" / "update"
    update.write_text(f"#!/bin/sh\necho $1 >>'{order}'\n")
    update.chmod(0o755)
    assert pushing.push(clone.plumbing, ORIGIN, updates(clone), atomic=False).answer is Answer.APPLIED
    assert order.read_text().split() == [RECEIPTS, LOG, MAIN]


def test_in_parts_the_branch_is_not_sent_when_the_notes_were_rejected(bare: Bare, shared: Clone) -> None:
    shared.git("update-ref", "-d", RECEIPTS)
    shared.record("out/b.md", "b")
    old = bare.ref(MAIN)
    pushed = pushing.push(shared.plumbing, ORIGIN, updates(shared), atomic=False)
    assert pushed.answer is Answer.REJECTED
    assert pushed.refused == (RECEIPTS,)
    assert bare.ref(MAIN) == old


def test_a_push_whose_answer_was_lost_is_settled_by_reading_the_remote(
    bare: Bare, clone: Clone, tmp_path: Path
) -> None:
    cut_the_answer(clone, tmp_path)
    assert pushing.push(clone.plumbing, ORIGIN, updates(clone)).answer is Answer.APPLIED
    assert bare.ref(MAIN) == clone.tip(MAIN)


def test_a_server_that_applies_and_then_ends_in_an_error_has_applied_it(
    bare: Bare, clone: Clone, tmp_path: Path
) -> None:
    script = tmp_path / "late"
    script.write_text('#!/bin/sh\ngit-receive-pack "$@"\nexit 3\n')
    script.chmod(0o755)
    clone.git("config", "remote.origin.receivepack", str(script))
    assert pushing.push(clone.plumbing, ORIGIN, updates(clone)).answer is Answer.APPLIED
    assert clone.tip(ORIGIN.tracked(RECEIPTS)) == bare.ref(RECEIPTS) != ""


def test_a_push_that_nobody_received_is_unclear_while_the_remote_can_be_read(
    bare: Bare, clone: Clone
) -> None:
    clone.git("config", "remote.origin.receivepack", "false")
    assert pushing.push(clone.plumbing, ORIGIN, updates(clone)).answer is Answer.UNCLEAR


def test_an_unclear_push_to_a_remote_that_went_away_says_so(bare: Bare, clone: Clone) -> None:
    bare.path.rename(bare.path.with_name("gone"))
    with pytest.raises(ComeBackLater):
        pushing.push(clone.plumbing, ORIGIN, updates(clone))


def test_nobody_is_asked_for_a_password_in_a_script(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert remote.quiet() == {"GIT_TERMINAL_PROMPT": "0"}
    monkeypatch.setattr(sys, "stdin", None)
    assert remote.quiet() == {"GIT_TERMINAL_PROMPT": "0"}


def test_fetch_and_push_over_smart_http(bare: Bare, clone: Clone, tmp_path: Path) -> None:
    subprocess.run(("git", "config", "http.receivepack", "true"), cwd=bare.path, check=True)
    with serve(tmp_path) as url:
        clone.git("remote", "set-url", "origin", f"{url}/remote.git")
        assert pushing.push(clone.plumbing, ORIGIN, updates(clone)).answer is Answer.APPLIED
        other = bare.clone("other")
        other.git("remote", "set-url", "origin", f"{url}/remote.git")
        assert remote.fetch(other.plumbing, ORIGIN) == Fetched(
            clone.tip(MAIN), clone.tip(RECEIPTS), clone.tip(LOG)
        )
        other.commit(theirs="x")
        other.git("push", "-q", "origin", "main")
        clone.record("out/b.md", "b")
        assert pushing.push(clone.plumbing, ORIGIN, updates(clone)).answer is Answer.REJECTED
    with pytest.raises(ComeBackLater):
        remote.fetch(clone.plumbing, ORIGIN)


def test_everything_works_with_sha256(tmp_path: Path) -> None:
    bare = Bare(tmp_path / "remote.git", "sha256")
    clone = bare.clone("clone")
    clone.record("out/a.md", "a")
    assert pushing.push(clone.plumbing, ORIGIN, {RECEIPTS: clone.tip(RECEIPTS)}).answer is Answer.APPLIED
    assert remote.fetch(clone.plumbing, ORIGIN) == Fetched(None, clone.tip(RECEIPTS), None)
