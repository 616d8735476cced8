"""Stages in a worktree of their own: what changes there becomes a patch, and the clone stays as it was."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import lives
from tests.support.world import Clone, World, until

FILES = {
    "code.txt": "one\ntwo\nthree\n",
    "gone.txt": "bye\n",
    "tool.sh": "#!/bin/sh\n",
    "notes/a.md": "# A\n",
    ".gitignore": "*.log\n",
}
# A fake agent: it commits some of its work, leaves the rest as it is, and talks.
AGENT = r"""
set -e
echo "Looking at $GITSTATE_SLUG ..."
echo "for $GITSTATE_SLUG" >> code.txt
rm gone.txt
printf 'bin\0\1\2\377' > data.bin
git add -A && git commit -q -m "Work of mine"
chmod +x tool.sh
mkdir -p "new folder"
echo new > "new folder/with space.txt"
printf 'no newline' > "ümlaut.txt"
ln -s code.txt link
echo talk > agent.log
echo "Done. I changed some files."
"""


def world(folder: Path, agent: str = AGENT, *, stages: dict[str, Any] | None = None, **more: Any) -> World:
    """A world whose stage `fix` runs an agent in a worktree of its own."""
    files = {**FILES, "agent.sh": agent, **more.pop("files", {})}
    return World(folder, stages=stages or {"fix": stage()}, files=files, **more)


def stage(**more: Any) -> dict[str, Any]:
    return {
        "run": 'sh "$GITSTATE_ROOT/agent.sh"',
        "output": "patches/{slug}.patch",
        "workspace": "worktree",
        "policy": {"unknown": {"tries": 1, "then": "fail"}, "timeout": {"tries": 1, "then": "fail"}},
        **more,
    }


def apply(a: Clone, patch: bytes, commit: str) -> Clone:
    """A clone at a commit to which a patch was applied."""
    there = Clone(a.world, a.world.folder / f"applied-{os.urandom(4).hex()}")
    a.git("clone", "-q", "--no-checkout", str(a.path), str(there.path))
    there.git("checkout", "-q", "--detach", commit)
    file = a.world.folder / "the.patch"
    file.write_bytes(patch)
    there.git("apply", "--index", "--whitespace=nowarn", str(file))
    return there


def base_of(a: Clone, slug: str) -> str:
    (base,) = {line["base"] for line in a.receipts() if line["slug"] == slug}
    return str(base)


def everything(a: Clone) -> dict[str, tuple[int, bytes]]:
    """The user's files and git's, byte for byte, but for objects and what is gitstate's own."""
    found = {}
    for folder, folders, names in os.walk(a.path):
        inside = os.path.relpath(folder, a.path)
        if inside == ".git":
            folders[:] = [name for name in folders if name not in ("objects", "gitstate")]
        if inside == ".git/refs" or inside == ".git/logs/refs":
            folders[:] = ["heads", "tags"]
        for name in names:
            path = Path(folder, name)
            found[str(path)] = (path.lstat().st_mode, path.read_bytes())
        found[folder + "/"] = (0, b"")
    return found


def nothing_left(a: Clone) -> bool:
    """Whether no worktree is left, neither of ours nor in git's book, and nothing else of a run."""
    listed = a.git("worktree", "list", "--porcelain").count("worktree ")
    entries = a.path / ".git" / "worktrees"
    ours = [*(a.state / "worktrees").glob("*"), *(a.state / "scratch").glob("*")]
    assert (listed, entries.exists(), ours, a.leftovers()) == (1, False, [], [])
    return True


# --- what becomes of the changes ----------------------------------------------------------------------------


def test_p9_what_a_command_changed_is_a_patch_that_applies_at_the_base(tmp_path: Path) -> None:
    a = world(tmp_path).a
    base = a.git("rev-parse", "HEAD")
    a.run("one")
    assert base_of(a, "one") == base
    there = apply(a, (a.path / "patches/one.patch").read_bytes(), base)
    assert there.read("code.txt") == FILES["code.txt"] + "for one\n"
    assert not there.has("gone.txt")
    assert (there.path / "data.bin").read_bytes() == b"bin\0\1\2\377"
    assert os.access(there.path / "tool.sh", os.X_OK)
    assert there.read("new folder/with space.txt") == "new\n"
    assert there.read("ümlaut.txt") == "no newline"
    assert os.readlink(there.path / "link") == "code.txt"
    assert not there.has("agent.log")
    assert nothing_left(a)
    assert a.states("one")["one/fix"] == "done exact"


def test_p9_the_clone_of_the_user_stays_as_it_was(tmp_path: Path) -> None:
    hook = '#!/bin/sh\ntouch "$(git rev-parse --git-common-dir)/hooked"\n'
    a = world(tmp_path, AGENT.replace("git commit", "git commit --no-verify") + "exit 1\n").a
    a.write("code.txt", "edited\n")
    a.write("mine.txt", "untracked\n")
    a.write("staged.txt", "staged\n")
    a.git("add", "staged.txt")
    for name in ("post-checkout", "post-index-change"):
        a.write(f".git/hooks/{name}", hook)
        os.chmod(a.path / f".git/hooks/{name}", 0o755)
    before = everything(a)
    a.run("one", code=1)
    after = everything(a)
    # The agent's own git runs hooks; those of ours must not, and nothing else has moved.
    hooked = str(a.path / ".git" / "hooked")
    assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} <= {hooked}
    assert nothing_left(a)


def test_p9_no_hook_runs_for_a_worktree(tmp_path: Path) -> None:
    a = world(tmp_path, "echo x > new.txt\n").a
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        a.write(f".git/hooks/{name}", f'#!/bin/sh\necho "$PWD" >> "{a.world.folder}/{name}"\n')
        os.chmod(a.path / f".git/hooks/{name}", 0o755)
    a.run("one")
    told = [path.read_text() for path in a.world.folder.glob("*-*") if path.is_file()]
    assert not [line for line in told if "worktrees" in line]
    assert not (a.world.folder / "post-checkout").exists()


def test_p9_a_command_in_a_worktree_knows_root_and_base(tmp_path: Path) -> None:
    agent = (
        'pwd > where; echo "$GITSTATE_ROOT" > root; echo "$GITSTATE_BASE" > base; git rev-parse HEAD > head\n'
    )
    a = world(tmp_path, agent + "git symbolic-ref -q HEAD > branch || true\n").a
    base = a.git("rev-parse", "HEAD")
    a.run("one")
    there = apply(a, (a.path / "patches/one.patch").read_bytes(), base)
    assert there.read("where").startswith(str(a.state / "worktrees"))
    assert there.read("root") == f"{a.path}\n"
    assert there.read("base") == there.read("head") == f"{base}\n"
    assert there.read("branch") == ""


def test_p9_the_base_is_what_has_been_recorded_by_then(tmp_path: Path) -> None:
    a = world(tmp_path, 'ls patches > seen.txt 2>/dev/null; echo "$GITSTATE_SLUG" >> code.txt\n').a
    a.run()
    assert base_of(a, "two") == a.git("log", "-1", "--format=%H", "--", "patches/one.patch")
    assert "+one.patch" in a.read("patches/two.patch")


def test_p9_an_ignored_file_counts_only_where_the_command_added_it(tmp_path: Path) -> None:
    a = world(tmp_path, "echo a > a.log; echo b > b.log; git add -f b.log\n").a
    a.run("one")
    assert "b.log" in a.read("patches/one.patch")
    assert "a.log" not in a.read("patches/one.patch")


def test_p9_the_next_stage_reads_the_patch_of_the_one_before(tmp_path: Path) -> None:
    follow = stage(
        needs=["fix"], output="review/{slug}.patch", run="git apply {{ needs.fix }} && echo more >> code.txt"
    )
    scratch = {
        "needs": ["fix"], "workspace": "scratch", "output": "count/{slug}.txt",
        "run": "ls -A > list; test ! -s list || test \"$(cat list)\" = list; grep -c '^diff' {{ needs.fix }}",
    }  # fmt: skip
    a = world(tmp_path, stages={"fix": stage(), "review": follow, "count": scratch}).a
    a.run("one")
    assert a.read("count/one.txt") == "7\n"
    there = apply(a, (a.path / "review/one.patch").read_bytes(), a.git("rev-parse", "HEAD"))
    assert there.read("code.txt") == FILES["code.txt"] + "for one\nmore\n"


def test_p9_paths_in_a_command_lead_to_the_committed_content_from_every_place(tmp_path: Path) -> None:
    stages = {
        name: stage(
            workspace=name, inputs=["code.txt", "notes/*.md"], output=name + "/{slug}.txt",
            run="(cat {{ file }} {{ inputs[0] }}; echo {{ file }} {{ inputs[1] }}) > \"$GITSTATE_OUTPUT\"",
        )
        for name in ("root", "worktree", "scratch")
    }  # fmt: skip
    a = world(tmp_path, stages=stages, each="notes/*.md").a
    text, paths = FILES["notes/a.md"] + FILES["code.txt"], "notes/a.md notes/a.md\n"
    a.run()
    assert a.read("root/a.txt") == a.read("worktree/a.txt") == text + paths
    assert a.read("scratch/a.txt") == text + f"{a.path}/notes/a.md {a.path}/notes/a.md\n"
    # What is not committed as it stands here is not in the worktree.
    a.write("notes/a.md", "edited\n")
    a.run("--redo", "a", "--allow-dirty")
    assert a.read("root/a.txt") == "edited\n" + FILES["code.txt"] + paths
    assert a.read("worktree/a.txt").startswith(f"edited\n{FILES['code.txt']}{a.state}/material/")
    assert a.read("scratch/a.txt").startswith(f"edited\n{FILES['code.txt']}{a.path}/notes/a.md ")


def test_p9_an_output_that_is_on_another_branch_is_given_as_a_copy(tmp_path: Path) -> None:
    follow = stage(
        needs=["fix"],
        output="review/{slug}.patch",
        run="git apply {{ needs.fix }} && echo {{ needs.fix }} > p",
    )
    a = world(tmp_path, stages={"fix": stage(), "review": follow}).a
    base, before = a.git("rev-parse", "HEAD"), everything(a)
    a.run("one", "--branch", "results")
    patch = a.git("cat-file", "blob", "results:review/one.patch").encode() + b"\n"
    assert apply(a, patch, base).read("p").startswith(str(a.state / "material"))
    changed = {path for path, content in everything(a).items() if before.get(path) != content}
    assert not [path for path in changed if "/.git/" not in path]
    assert everything(a)[str(a.path / ".git/index")] == before[str(a.path / ".git/index")]


# --- how it ended -------------------------------------------------------------------------------------------


def failed(a: Clone, slug: str = "one") -> str:
    return next(line for line in map(words_of, a.log()) if line.startswith(slug))


def words_of(line: dict[str, Any]) -> str:
    return f"{line['slug']} {line.get('category')}/{line.get('failure')}"


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("echo 'I looked, and there is nothing to do.'", "one validation/empty"),
        ("true", "one validation/empty"),
        ("echo x > agent.log", "one validation/empty"),
        ("echo more >> code.txt; exit 3", "one unknown/None"),
        ("echo more >> code.txt; echo 'Error: 429 rate limit exceeded' >&2; exit 1", "one quota/throttle"),
        ("echo \"You've hit your session limit · resets 3pm (UTC)\"", "one quota/window"),
        (
            "echo more >> code.txt; echo '"
            '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"API Error: 529 '
            '{\\"type\\":\\"error\\",\\"error\\":{\\"type\\":\\"overloaded_error\\",\\"message\\":\\"Overloaded\\"}}"}'
            "'",
            "one quota/capacity",
        ),
        ("rm -rf \"$PWD\"", "one validation/empty"),
        ("echo more >> code.txt; sleep 100", "one timeout/wall"),
    ],
)  # fmt: skip
def test_p7_the_end_of_a_command_in_a_worktree_is_judged(tmp_path: Path, agent: str, expected: str) -> None:
    policy = {name: {"tries": 1, "then": "fail"} for name in ("quota", "unknown", "timeout", "validation")}
    a = world(tmp_path, agent + "\n", stages={"fix": stage(timeout="4s", policy=policy)}).a
    a.gitstate("run", "one")
    assert failed(a) == expected
    assert not a.has("patches/one.patch")
    assert nothing_left(a)


def test_p7_talk_beside_a_patch_is_no_answer_and_no_failure(tmp_path: Path) -> None:
    a = world(
        tmp_path, 'echo "Error: I saw a 429 rate limit in the tests, and mended it."\necho more >> code.txt\n'
    ).a
    a.run("one")
    assert a.read("patches/one.patch").startswith("diff --git a/code.txt")


def test_p7_a_patch_that_speaks_of_failures_is_no_failure(tmp_path: Path) -> None:
    agent = """printf 'Error: 429 Too Many Requests\\n{"type":"error","error":{"type":"rate_limit_error"}}\\n' > e.txt
    printf 'I am sorry, but I cannot help with that.\\n' > code.txt\n"""
    a = world(tmp_path, agent).a
    a.run("one")
    assert "+Error: 429" in a.read("patches/one.patch")


def test_p9_what_is_filed_wins_over_the_changes(tmp_path: Path) -> None:
    a = world(tmp_path, 'echo more >> code.txt; echo "my report" > "$GITSTATE_OUTPUT"\n').a
    a.run("one")
    assert a.read("patches/one.patch") == "my report\n"
    assert base_of(a, "one")


def test_p9_the_patch_is_the_first_of_several_outputs(tmp_path: Path) -> None:
    agent = 'echo more >> code.txt; echo "and words" > "$GITSTATE_OUTPUT_2"\n'
    a = world(tmp_path, agent, stages={"fix": stage(output=["p/{slug}.patch", "p/{slug}.md"])}).a
    a.run("one")
    assert a.read("p/one.patch").startswith("diff --git")
    assert a.read("p/one.md") == "and words\n"


def test_p9_checks_look_at_the_patch_from_the_root(tmp_path: Path) -> None:
    check = {"command": "git apply --check {{ output }}", "regex": "^diff --git a/code.txt"}
    a = world(tmp_path, stages={"fix": stage(check=check)}).a
    a.run("one")
    assert a.states("one")["one/fix"] == "done exact"


# --- dying in the middle --------------------------------------------------------------------------------------

WAITING = 'echo $$ > "$PROVIDER_HOME/pid"; echo more >> code.txt; git add -A\n'
WAITING += 'touch "$PROVIDER_HOME/began"; while ! test -e "$PROVIDER_HOME/go"; do sleep 0.02; done\n'


def test_p4_a_run_that_is_killed_twice_leaves_no_worktree_and_one_receipt(tmp_path: Path) -> None:
    w = world(tmp_path, WAITING)
    a, before = w.a, everything(w.a)
    for _ in range(2):
        run = a.start("run", "one")
        assert until((w.home / "began").exists, run)
        pid = int((w.home / "pid").read_text())
        # A lock of git's that stays behind in the worktree, as of a git that was killed.
        (entry,) = (a.path / ".git" / "worktrees").iterdir()
        (entry / "index.lock").write_bytes(b"")
        run.kill()
        assert until(lambda pid=pid: not lives(pid))
        assert a.git("worktree", "list").count("\n") == 1
        (w.home / "began").unlink()
    assert everything(a).items() >= before.items()
    (w.home / "go").touch()
    a.run("one")
    assert nothing_left(a)
    assert len([line for line in a.receipts() if line["kind"] == "done"]) == 1


MOMENTS = {
    "its folder is made": ".git/gitstate/worktrees/*",
    "git makes its entry": ".git/worktrees/*",
    "git has not written all of it": ".git/worktrees/*/locked",
    "its files are written": ".git/worktrees/*/index.lock",
    "the command has it": ".git/gitstate/worktrees/*/mine",
    "the patch is taken": ".git/gitstate/scratch/worktree-*/patch-*/store",
    "the answer is spooled": ".git/gitstate/attempts/*.spooled",
}


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
def test_p4_killed_while_a_worktree_lives_the_next_run_ends_as_if_nothing_had_been(
    tmp_path: Path, moment: str, alone: bool
) -> None:
    items = [f"i{n}" for n in range(4)]
    w = world(tmp_path, "for n in 1 2 3 4 5; do echo $n > mine; git add -A; done\n", items=items)
    a = w.a
    run = a.start("run", "-j", "2")
    until(lambda: any(a.path.glob(MOMENTS[moment])), run)
    if alone:  # its git may go on, and holds the lock until it has ended
        run.process.kill()
        run.process.communicate()
    else:
        run.kill()
    a.run("--lock-timeout", "20s")
    assert nothing_left(a)
    assert sorted(line["slug"] for line in a.receipts() if line["kind"] == "done") == items


def test_p9_an_end_that_is_asked_for_removes_the_worktree(tmp_path: Path) -> None:
    w = world(tmp_path, WAITING)
    run = w.a.start("run", "one")
    assert until((w.home / "began").exists, run)
    run.signal(signal.SIGINT)
    run.wait(130)
    assert nothing_left(w.a)
    assert w.a.states("one")["one/fix"] == "pending new"


def test_p9_worktrees_of_others_are_left_alone(tmp_path: Path) -> None:
    """Also one that is away on a disk that is not mounted, which git itself would prune."""
    w = world(tmp_path, WAITING)
    a = w.a
    a.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    a.git("worktree", "add", "-q", "--detach", str(tmp_path / "away"))
    (tmp_path / "away").rename(tmp_path / "elsewhere")
    before = a.git("worktree", "list", "--porcelain")
    run = a.start("run", "one")
    assert until((w.home / "began").exists, run)
    run.kill()
    (w.home / "go").touch()
    a.run("one", "--lock-timeout", "20s")
    after = a.git("worktree", "list", "--porcelain")
    assert re.sub("HEAD .*", "", after) == re.sub("HEAD .*", "", before)
    assert {path.name for path in (a.path / ".git/worktrees").iterdir()} == {"side", "away"}


# --- several, and other clones --------------------------------------------------------------------------------


def test_p9_several_at_once_do_not_get_into_each_others_way(tmp_path: Path) -> None:
    items = [f"item-{n}" for n in range(16)]
    a = world(tmp_path, items=items).a
    a.run("-j", "4")
    for item in items[::5]:
        there = apply(a, (a.path / f"patches/{item}.patch").read_bytes(), base_of(a, item))
        assert there.read("code.txt").endswith(f"for {item}\n")
    assert {a.states()[f"{item}/fix"] for item in items} == {"done exact"}
    assert nothing_left(a)


def test_p9_a_linked_worktree_of_the_users_is_a_place_to_run_from(tmp_path: Path) -> None:
    a = world(tmp_path / "with space").a
    a.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side tree"))
    side = Clone(a.world, tmp_path / "side tree")
    base, main = side.commit({"only-here.txt": "side\n"}), a.git("rev-parse", "main")
    side.run("one")
    assert base_of(side, "one") == base
    assert apply(side, (side.path / "patches/one.patch").read_bytes(), base).has("only-here.txt")
    assert a.git("rev-parse", "main") == main
    assert a.git("worktree", "list", "--porcelain").count("worktree ") == 2


def test_p9_a_sha256_repository_has_patches_too(tmp_path: Path) -> None:
    a = world(tmp_path, format="sha256").a
    base = a.git("rev-parse", "HEAD")
    a.run("one")
    assert len(base_of(a, "one")) == 64
    assert apply(a, (a.path / "patches/one.patch").read_bytes(), base).has("data.bin")


@pytest.mark.parametrize("options", [("--depth=1",), ("--filter=blob:none",), ("--filter=tree:0",)])
def test_p9_a_clone_without_history_or_blobs_has_patches_too(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    w = world(tmp_path, remote=True)
    w.git(w.remote, "config", "uploadpack.allowFilter", "true")
    b = w.clone("b", *options)
    b.settle_down()
    base = b.git("rev-parse", "HEAD")
    b.run("one")
    assert (
        apply(w.a, (b.path / "patches/one.patch").read_bytes(), base).read("code.txt").endswith("for one\n")
    )
    assert nothing_left(b)


def test_p9_a_sparse_checkout_has_patches_too(tmp_path: Path) -> None:
    agent = "set -e\ntest ! -e far; echo more >> code.txt; mkdir far; echo n > far/new.txt\n"
    run = 'cat {{ inputs[0] }} > copied.txt; sh "$GITSTATE_ROOT/agent.sh"'
    a = world(
        tmp_path, agent, stages={"fix": stage(run=run, inputs=["far/f.txt"])}, files={"far/f.txt": "far\n"}
    ).a
    base = a.git("rev-parse", "HEAD")
    a.git("sparse-checkout", "set", "--cone", "prompts", "patches")
    assert not a.has("far")
    a.run("one", code=0)
    there = apply(a, (a.path / "patches/one.patch").read_bytes(), base)
    assert there.read("far/new.txt") == "n\n"
    assert there.read("far/f.txt") == there.read("copied.txt") == "far\n"


# --- hard cases -----------------------------------------------------------------------------------------------


def test_p9_a_command_that_ends_git_processes_costs_nothing(tmp_path: Path) -> None:
    killing = """
    until=$(($(date +%s) + 3))
    for n in $(seq 40); do
        test $(date +%s) -lt $until || break
        for process in /proc/[0-9]*; do
            read -r name 2>/dev/null < $process/comm && test "$name" = git || continue
            grep -qsz "^PROVIDER_HOME=$PROVIDER_HOME" $process/environ && kill -9 ${process#/proc/} 2>/dev/null
        done
        sleep 0.01
    done
    true
    """
    a = world(tmp_path, AGENT + killing, items=["one", "two", "three"]).a
    a.gitstate("run", "-j", "3")
    a.gitstate("run", "--retry-failed")
    assert nothing_left(a)
    assert {a.states()[f"{slug}/fix"] for slug in ("one", "two", "three")} == {"done exact"}


def test_p9_nothing_that_a_command_leaves_keeps_a_worktree_alive(tmp_path: Path) -> None:
    agent = """
    mkdir -p ro/deep && echo r > ro/deep/r && chmod 444 ro/deep/r && chmod 555 ro/deep ro
    git init -q nested && echo n > nested/n.txt && cd nested && git add . && git commit -q -m n && cd ..
    git init -q empty && echo e > empty/e.txt
    mkfifo pipe
    git worktree lock . 2>/dev/null; git branch mine
    """
    a = world(tmp_path, agent).a
    base = a.git("rev-parse", "HEAD")
    a.run("one")
    there = apply(a, (a.path / "patches/one.patch").read_bytes(), base)
    assert there.read("ro/deep/r") == "r\n"
    assert there.read("nested/n.txt") == "n\n"
    assert there.read("empty/e.txt") == "e\n"
    assert nothing_left(a)


@pytest.mark.parametrize(
    "agent",
    [
        "rm -f .git; git tag taken; git branch taken; echo more >> code.txt",
        'rm -rf "$(git rev-parse --git-dir)"; echo more >> code.txt',
        'git worktree remove --force --force "$PWD"; echo gone',
        'here=$PWD; cd /; rm -rf "$here"; ln -s "$GITSTATE_ROOT" "$here"',
        'here=$PWD; cd /; rm -rf "$here"; echo file > "$here"',
        'git worktree move "$PWD" "$PROVIDER_HOME/taken"',
        ': > "$(git rev-parse --git-dir)/index"; echo more >> code.txt',
    ],
)
def test_p9_a_command_may_ruin_its_own_worktree_and_no_more(tmp_path: Path, agent: str) -> None:
    a = world(tmp_path, agent + "\n", stages={"fix": stage(policy={"validation": {"tries": 1}})}).a
    before = everything(a)
    a.gitstate("run", "one")
    after = everything(a)
    touched = {path for path in before if before[path] != after.get(path)}
    assert not {path for path in touched if "/.git/" not in path}
    assert not {path for path in after if path.endswith("/taken")}
    assert a.git("fsck", "--connectivity-only") == ""
    if a.has("patches/one.patch"):
        assert a.read("patches/one.patch").count("diff --git") == 1
    assert nothing_left(a)


def test_p9_a_scratch_folder_is_empty_and_in_no_repository(tmp_path: Path) -> None:
    run = "ls -A; git tag taken; git rev-parse --git-dir; echo $PWD; git -C $GITSTATE_ROOT rev-parse HEAD"
    a = world(tmp_path, stages={"fix": stage(workspace="scratch", run=run, output="out/{slug}.txt")}).a
    base = a.git("rev-parse", "HEAD")
    a.run("one")
    where, head = a.read("out/one.txt").splitlines()
    assert where.startswith(str(a.state / "scratch"))
    assert head == base
    assert a.git("tag") == ""
    assert nothing_left(a)


def test_p9_many_files_are_one_patch(tmp_path: Path) -> None:
    a = world(tmp_path, "mkdir many; for n in $(seq 400); do echo $n > many/$n; done\n").a
    a.run("one")
    assert a.read("patches/one.patch").count("diff --git") == 400
    assert nothing_left(a)


def test_p9_a_variable_that_points_git_elsewhere_does_not_lead_out_of_the_worktree(tmp_path: Path) -> None:
    a = world(tmp_path).a
    base, listed = a.git("rev-parse", "HEAD"), a.git("ls-files", "-s", "--", *FILES)
    a.run("one", GIT_INDEX_FILE=str(a.path / ".git/index"), GIT_DIR=str(a.path / ".git"))
    assert a.git("ls-files", "-s", "--", *FILES) == listed
    assert apply(a, (a.path / "patches/one.patch").read_bytes(), base).has("data.bin")


def test_p6_where_no_worktree_can_be_made_the_run_says_why_and_nothing_has_begun(tmp_path: Path) -> None:
    a = world(tmp_path).a
    (a.path / ".git" / "worktrees").write_text("in the way\n")
    done = a.gitstate("run", "one", code=3)
    assert "No worktree can be made" in done.err
    assert a.log() == []
    assert a.states("one")["one/fix"] == "pending new"
    (a.path / ".git" / "worktrees").unlink()
    a.run("one")


def test_p6_without_a_commit_there_is_no_worktree(tmp_path: Path) -> None:
    a = world(tmp_path).a
    a.git("update-ref", "-d", "HEAD")
    done = a.gitstate("run", "one", "--allow-dirty", code=2)
    assert "no commit" in done.err
