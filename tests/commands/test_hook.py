"""The pre-commit hook, run by real `git commit` in real repositories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gitstate.__main__ import main
from gitstate.commands.hook import run_hook
from gitstate.commands.hooks import install
from gitstate.core.receipt import encode
from gitstate.edge.repo import RECEIPTS
from gitstate.errors import CorruptState, UsageError
from tests.support.hookrepo import ALPHA, BETA, CONFIG, PLAN, TEXT, HookRepo

Output = pytest.CaptureFixture[str]
CONFLICT = f"{TEXT}<<<<<<< HEAD\nmine\n=======\nyours\n>>>>>>> other\n"


@pytest.fixture(params=["sha1"])
def repo(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HookRepo:
    made = HookRepo(tmp_path / "clone", request.param)
    made.start()
    monkeypatch.chdir(made.path)
    assert install() == 0
    return made


both_formats = pytest.mark.parametrize("repo", ["sha1", "sha256"], indirect=True)


def stopped(done: subprocess.CompletedProcess[str], *words: str) -> bool:
    assert done.returncode == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    return True


def went_in(done: subprocess.CompletedProcess[str]) -> bool:
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return True


# What goes in


@both_formats
def test_an_output_with_its_receipt_goes_in(repo: HookRepo) -> None:
    blob = repo.stage(ALPHA, TEXT)
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    assert went_in(repo.commit())


def test_a_file_that_is_no_output_goes_in_whatever_it_holds(repo: HookRepo) -> None:
    repo.stage("notes/empty.md", "")
    repo.stage("notes/conflict.md", CONFLICT)
    repo.stage("content/sea/of-no-item.md", "x")  # fits the pattern, but the plan has no such item
    repo.stage("content/sky/alpha.md", "x")  # the item is there, its topic is another
    assert went_in(repo.commit())


def test_p5_a_human_edit_of_an_output_that_had_a_receipt_goes_in(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage(ALPHA, TEXT + "A better ending.\n")
    assert went_in(repo.commit())
    repo.stage(ALPHA, TEXT + "An even better ending.\n")  # now HEAD's blob has no receipt either
    assert went_in(repo.commit())


def test_an_edit_goes_in_when_its_receipt_hangs_on_content_that_no_path_holds(repo: HookRepo) -> None:
    blob = repo.stage(ALPHA, "Earlier content of the same work.\n")
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    repo.stage(ALPHA, TEXT)
    assert went_in(repo.commit())


def test_deleting_an_output_goes_in(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.git("rm", "-q", ALPHA)
    assert went_in(repo.commit())


def test_a_file_that_is_only_intended_to_be_added_is_not_taken_for_empty(repo: HookRepo) -> None:
    repo.write(ALPHA, TEXT)
    repo.git("add", "-N", ALPHA)
    repo.stage("other.txt", "x")
    assert went_in(repo.commit())


def test_all_outputs_of_a_work_go_in_by_its_one_receipt(repo: HookRepo) -> None:
    first, second = repo.stage("data/alpha.json", "{}\n"), repo.stage("data/alpha.txt", "plain\n")
    repo.receipt("alpha", "pair", [("data/alpha.json", first), ("data/alpha.txt", second)])
    assert went_in(repo.commit())


def test_more_outputs_than_are_looked_up_one_by_one_go_in(repo: HookRepo) -> None:
    slugs = [f"item{number}" for number in range(100)]
    repo.start(plan="".join(f"- {{slug: {slug}, topic: sea}}\n" for slug in slugs))
    for slug in slugs:
        repo.write(f"content/sea/{slug}.md", f"{TEXT}{slug}\n")
    repo.git("add", "content")
    for slug in slugs[1:]:
        path = f"content/sea/{slug}.md"
        repo.receipt(slug, "article", [(path, repo.git("rev-parse", f":{path}"))])
    done = repo.commit()
    assert stopped(done, "1 staged file", "content/sea/item0.md")
    assert "item1.md" not in done.stderr


def test_p9_the_hook_leaves_index_and_working_tree_as_they_are(repo: HookRepo) -> None:
    repo.stage(ALPHA, "")
    repo.write(BETA, "not staged")
    before = repo.git("ls-files", "-s"), repo.git("status", "--porcelain")
    assert stopped(repo.commit())
    assert (repo.git("ls-files", "-s"), repo.git("status", "--porcelain")) == before


# What does not


@both_formats
def test_p5_an_output_without_any_receipt_is_rejected(repo: HookRepo) -> None:
    repo.stage(ALPHA, TEXT)
    done = repo.commit()
    assert stopped(done, ALPHA, "no receipt", "git restore --staged")
    assert stopped(done, f"gitstate accept {ALPHA} --why", "gitstate sync")


@both_formats
def test_p7_an_empty_output_is_rejected(repo: HookRepo) -> None:
    repo.stage(ALPHA, "")
    done = repo.commit()
    assert stopped(done, ALPHA, "The file is empty.", "gitstate run alpha --stage article")
    assert "receipt" not in done.stderr


def test_p7_an_emptied_output_is_rejected_though_it_had_a_receipt(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage(ALPHA, "")
    assert stopped(repo.commit(), ALPHA, "empty", f"git restore --staged --worktree {ALPHA}")


def test_p7_an_output_that_fails_a_check_of_its_stage_is_rejected(repo: HookRepo) -> None:
    blob = repo.stage(ALPHA, "short\n")
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    assert stopped(repo.commit(), ALPHA, "The file has 6 bytes; min_bytes is 10.", f"git add {ALPHA}")


def test_p7_a_human_edit_must_pass_the_checks_too(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage(ALPHA, "short\n")
    assert stopped(repo.commit(), "min_bytes is 10")


def test_the_checks_are_those_of_the_configuration_as_it_is_staged(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage(ALPHA, "short\n")
    repo.write("gitstate.yaml", CONFIG.replace("min_bytes: 10", "min_bytes: 1"))
    assert stopped(repo.commit())
    repo.git("add", "gitstate.yaml")
    assert went_in(repo.commit())
    repo.stage("gitstate.yaml", CONFIG.replace("min_bytes: 10", "min_bytes: 1000"))
    repo.stage(ALPHA, TEXT)
    assert stopped(repo.commit(), "min_bytes is 1000")


def test_checks_apply_to_the_first_output_and_emptiness_to_all(repo: HookRepo) -> None:
    first, second = repo.stage("data/alpha.json", "{}\n"), repo.stage("data/alpha.txt", "no JSON\n")
    repo.receipt("alpha", "pair", [("data/alpha.json", first), ("data/alpha.txt", second)])
    repo.stage("data/alpha.txt", "")
    repo.stage("data/beta.json", "no JSON\n")
    done = repo.commit()
    assert stopped(done, "2 staged files", "data/alpha.txt", "empty", "data/beta.json", "Not JSON at line 1")


def test_a_json_schema_is_read_as_it_is_staged(repo: HookRepo) -> None:
    repo.start(CONFIG.replace("json: true", "json_schema: schema.json"))
    repo.stage("schema.json", '{"required": ["title"]}')
    repo.write("schema.json", "{}")
    blob = repo.stage("data/alpha.json", "{}")
    repo.receipt("alpha", "pair", [("data/alpha.json", blob), ("data/alpha.txt", blob)])
    assert stopped(repo.commit(), "'title' is a required property")
    repo.stage("schema.json", "{")
    done = repo.commit()
    assert done.returncode == 0
    assert "schema.json cannot be read" in done.stderr


def test_conflict_markers_are_rejected(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage(ALPHA, CONFLICT)
    assert stopped(repo.commit(), ALPHA, "Line 2 begins a merge conflict", "--no-verify")


def test_lines_that_are_no_whole_conflict_go_in(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage(ALPHA, f"{TEXT}Heading\n=======\n\n>>>>>>> quoted\n<<<<<<< and more\n =======\n")
    assert went_in(repo.commit())


def test_conflict_markers_that_the_recorded_result_itself_holds_go_in(repo: HookRepo) -> None:
    blob = repo.stage(ALPHA, CONFLICT)
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    assert went_in(repo.commit())


def test_p1_a_temporary_file_is_rejected_wherever_it_lies(repo: HookRepo) -> None:
    for path in (".gitstate-x-1.tmp", "elsewhere/deep/.gitstate-alpha-2026-1.tmp"):
        repo.stage(path, TEXT)
    done = repo.commit()
    assert stopped(done, "2 staged files", ".gitstate-x-1.tmp", "elsewhere/deep/", "gitstate recover")


def test_a_link_in_the_place_of_an_output_is_rejected(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    (repo.path / ALPHA).unlink()
    (repo.path / ALPHA).symlink_to("../../plan.yaml")
    repo.git("add", ALPHA)
    assert stopped(repo.commit(), ALPHA, "It is a link")


def test_everything_that_is_wrong_is_said_at_once(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage(ALPHA, CONFLICT)
    repo.stage(BETA, "short")
    repo.stage("data/gamma.json", "")
    repo.stage(".gitstate-x-1.tmp", "x")
    done = repo.commit()
    assert stopped(done, "4 staged files", ALPHA, BETA, "data/gamma.json", ".gitstate-x-1.tmp")
    assert stopped(done, "conflict", "min_bytes", "no receipt", "empty")


def test_a_receipt_counts_only_for_the_work_that_it_names(repo: HookRepo) -> None:
    blob = repo.finish(ALPHA, TEXT, "alpha")
    assert repo.stage(BETA, TEXT) == blob
    assert stopped(repo.commit(), BETA, "no receipt")


def test_a_receipt_on_content_that_it_does_not_name_does_not_count(repo: HookRepo) -> None:
    blob = repo.stage(ALPHA, TEXT)
    other = repo.stage("other", "something else")
    line = repo.receipt("alpha", "article", [(ALPHA, other)])
    repo.git("update-ref", "-d", RECEIPTS)
    repo.note(blob, [encode(line)])
    assert stopped(repo.commit(), "no receipt")


def test_a_receipt_that_was_taken_back_does_not_count(repo: HookRepo) -> None:
    blob = repo.stage(ALPHA, TEXT)
    repo.receipt("alpha", "article", [(ALPHA, blob)], attempt="one")
    repo.receipt("alpha", "article", [(ALPHA, blob)], attempt="one", kind="void")
    assert stopped(repo.commit(), "no receipt")


def test_what_is_staged_counts_and_not_the_working_tree(repo: HookRepo) -> None:
    repo.stage(ALPHA, "")
    repo.write(ALPHA, TEXT)
    assert stopped(repo.commit(), "empty")
    blob = repo.stage(ALPHA, TEXT)
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    repo.write(ALPHA, "")
    assert went_in(repo.commit())


# Where the index or the repository is another


@both_formats
def test_the_first_commit_of_a_repository_is_judged(repo: HookRepo) -> None:
    repo.git("update-ref", "-d", "HEAD")
    repo.stage(ALPHA, "")
    assert stopped(repo.commit(), "empty", f"git rm --cached {ALPHA}")
    blob = repo.stage(ALPHA, TEXT)
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    assert went_in(repo.commit())


def test_a_commit_of_some_paths_is_judged_by_the_index_that_git_makes_for_it(repo: HookRepo) -> None:
    repo.stage(ALPHA, "")
    repo.stage("other.txt", "x")
    assert went_in(repo.commit("--", "other.txt"))
    assert stopped(repo.commit("--", ALPHA), "empty")


def test_commit_all_is_judged_by_what_it_adds(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.write(ALPHA, "")
    assert stopped(repo.commit("-a"), "empty")


def test_a_commit_from_a_folder_below_is_judged(repo: HookRepo) -> None:
    repo.stage(ALPHA, "")
    assert stopped(repo.try_git("-C", "content", "commit", "-m", "x"), ALPHA, "empty")


def test_a_linked_worktree_is_judged_by_its_own_index(repo: HookRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    repo.path = tmp_path / "linked"
    repo.stage(ALPHA, "")
    assert stopped(repo.commit(), "empty")


def test_a_repository_that_is_named_by_its_git_dir_is_judged(repo: HookRepo, tmp_path: Path) -> None:
    os.rename(repo.path / ".git", tmp_path / "apart")
    repo.env.update(GIT_DIR=str(tmp_path / "apart"), GIT_WORK_TREE=str(repo.path))
    repo.stage(ALPHA, "")
    assert stopped(repo.commit(), "empty")


def diverge(repo: HookRepo) -> None:
    """A branch `other` that changed README and made an output without receipt; main changed README too."""
    repo.git("switch", "-q", "-c", "other")
    repo.stage("README", "theirs\n")
    repo.stage(ALPHA, TEXT)
    repo.git("commit", "-q", "--no-verify", "-m", "theirs")
    repo.git("switch", "-q", "main")
    repo.stage("README", "ours\n")
    repo.git("commit", "-q", "--no-verify", "-m", "ours")


def test_a_merge_goes_in_with_what_the_other_side_committed(repo: HookRepo) -> None:
    diverge(repo)
    assert repo.try_git("merge", "other").returncode == 1
    repo.stage("README", "both\n")
    assert went_in(repo.commit())
    assert repo.git("rev-list", "--count", "--merges", "HEAD") == "1"


def test_a_merge_does_not_bring_in_new_outputs_of_its_own(repo: HookRepo) -> None:
    diverge(repo)
    assert repo.try_git("merge", "other").returncode == 1
    repo.stage("README", "both\n")
    repo.stage(BETA, TEXT)
    done = repo.commit()
    assert stopped(done, "1 staged file", BETA)


def test_a_rebase_with_a_conflict_goes_on(repo: HookRepo) -> None:
    diverge(repo)
    assert repo.try_git("rebase", "main", "other").returncode == 1
    repo.stage("README", "both\n")
    blob = repo.git("rev-parse", f":{ALPHA}")
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    assert repo.try_git("rebase", "--continue").returncode == 0
    assert repo.git("log", "-1", "--format=%s") == "theirs"


def test_amending_is_judged_by_what_it_changes(repo: HookRepo) -> None:
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage("other.txt", "x")
    assert went_in(repo.commit("--amend"))
    repo.stage(ALPHA, "")
    assert stopped(repo.commit("--amend"), "empty")


# Configurations


def test_without_a_configuration_there_is_nothing_to_guard(repo: HookRepo) -> None:
    repo.git("rm", "-q", "gitstate.yaml")
    repo.stage(ALPHA, "")
    assert went_in(repo.commit())


@pytest.mark.parametrize("broken", ["gitstate: [", "gitstate: 1\n", "", "\0", "stages: 7"])
def test_a_broken_configuration_can_be_committed_and_is_spoken_of(repo: HookRepo, broken: str) -> None:
    repo.stage("gitstate.yaml", broken)
    repo.stage(ALPHA, "")
    done = repo.commit()
    assert done.returncode == 0
    assert done.stderr.startswith("gitstate: gitstate.yaml cannot be read as staged")
    assert len(done.stderr.splitlines()) == 1


def test_p1_a_temporary_file_is_rejected_though_the_configuration_is_broken(repo: HookRepo) -> None:
    repo.stage("gitstate.yaml", "gitstate: [")
    repo.stage(".gitstate-x-1.tmp", TEXT)
    assert stopped(repo.commit(), "cannot be read", ".gitstate-x-1.tmp")


def test_a_broken_plan_can_be_committed_and_is_spoken_of(repo: HookRepo) -> None:
    repo.stage("plan.yaml", "- {slug: ..}\n")
    repo.stage(ALPHA, "")
    done = repo.commit()
    assert done.returncode == 0
    assert "The plan cannot be read as staged, so 1 staged file is not checked. plan.yaml:1" in done.stderr


def test_the_plan_is_read_as_it_is_staged(repo: HookRepo) -> None:
    repo.write("plan.yaml", PLAN + "- {slug: delta, topic: sea}\n")
    repo.stage("content/sea/delta.md", TEXT)
    assert went_in(repo.commit())
    repo.git("add", "plan.yaml")
    repo.stage("content/sea/delta.md", TEXT + "\n")
    assert stopped(repo.commit(), "content/sea/delta.md")


def test_outputs_of_a_plan_of_files_are_judged(repo: HookRepo) -> None:
    repo.start(
        'gitstate: 1\nplan: {each: "docs/**/*.md"}\nstages:\n  de: {run: x, output: "de/{slug}.{ext}"}\n'
    )
    repo.stage("docs/a/b.md", "source")
    repo.stage("de/a/b.md", TEXT)
    repo.stage("de/a/c.md", TEXT)
    done = repo.commit()
    assert stopped(done, "1 staged file", "de/a/b.md")
    repo.receipt("a/b", "de", [("de/a/b.md", repo.git("rev-parse", ":de/a/b.md"))])
    assert went_in(repo.commit())


def test_a_configuration_of_another_name_is_named_by_an_option(repo: HookRepo, capsys: Output) -> None:
    repo.git("mv", "gitstate.yaml", "batch.yaml")
    repo.stage(ALPHA, "")
    assert main(["hooks", "run", "pre-commit"]) == 0
    assert main(["hooks", "run", "pre-commit", "--config", "batch.yaml"]) == 1
    assert main(["hooks", "run", "pre-commit", "--config=./batch.yaml"]) == 1
    capsys.readouterr()
    assert main(["hooks", "run", "pre-commit", "--config", "absent.yaml"]) == 0
    assert "There is no absent.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["post-commit"], ["pre-commit", "x"], ["pre-commit", "--config"]])
def test_other_arguments_are_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        run_hook(arguments)


def test_help_says_how_the_hook_is_run(capsys: Output) -> None:
    assert main(["hooks", "run", "--help"]) == 0
    assert "pre-commit [--config PATH]" in capsys.readouterr().out


# Hostile and corrupt repositories


def test_nothing_of_the_repository_is_executed(repo: HookRepo, tmp_path: Path) -> None:
    witness = tmp_path / "executed"
    command = f"touch {witness}"
    config = CONFIG.replace("min_bytes: 10", f'min_bytes: 1\n      command: "{command}"\n').replace(
        "run: ./make {{ slug }}", f'prompt: "p.md"\n    run: "{command} {{{{ 1/0 }}}}"'
    )
    repo.start(config)
    repo.stage("p.md", "{{ ''.__class__.__mro__ }}{% include 'absent' %}")
    for module in ("yaml", "re", "blake3", "subprocess", "gitstate/__init__"):
        repo.stage(f"{module}.py", f"open({str(witness)!r}, 'w')\n")
    repo.finish(ALPHA, TEXT, "alpha")
    repo.stage(ALPHA, TEXT + "edited\n")
    assert went_in(repo.commit())
    repo.stage(BETA, TEXT)
    assert stopped(repo.commit(), BETA)
    assert not witness.exists()


def test_p6_a_torn_receipt_stops_the_commit_and_names_the_way_out(repo: HookRepo) -> None:
    blob = repo.stage(ALPHA, TEXT)
    repo.note(blob, [b'{"work":"' + b"a" * 64 + b'","v":1,"sl'])
    with pytest.raises(CorruptState):
        run_hook(["pre-commit"])
    done = repo.try_git("commit", "-m", "x")
    assert done.returncode == 1
    assert blob in done.stderr
    assert "gitstate verify --repair" in done.stderr


def test_p2_caches_that_are_cut_or_gone_change_no_answer(repo: HookRepo) -> None:
    blob = repo.finish(ALPHA, TEXT, "alpha")
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    repo.stage(ALPHA, "")
    cache = repo.path / ".git" / "gitstate" / "cache"
    first = repo.commit()
    assert stopped(first, ALPHA, "empty")
    for harm in ("cut", "scramble", "delete"):
        for file in cache.iterdir():
            data = file.read_bytes()
            if harm == "delete":
                file.unlink()
            else:
                file.write_bytes(data[:-7] if harm == "cut" else data[:50] + data[:9])
        assert repo.commit().stderr == first.stderr


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_receipt_is_found_by_name_at_every_fan_out_of_the_notes(
    repo: HookRepo, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    blob = repo.stage(ALPHA, TEXT)
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    note = repo.git("notes", f"--ref={RECEIPTS}", "list", blob)
    parts = [blob[2 * level : 2 * level + 2] for level in range(depth)] + [blob[2 * depth :]]
    kind, name, oid = "blob", parts.pop(), note
    while True:
        entry = f"{'100644' if kind == 'blob' else '040000'} {kind} {oid}\t{name}\n"
        made = subprocess.check_output(("git", "mktree"), input=entry, cwd=repo.path, text=True)
        kind, oid = "tree", made.strip()
        if not parts:
            break
        name = parts.pop()
    repo.move_notes(oid)
    monkeypatch.delattr("gitstate.edge.staged.Index.receipts")
    assert run_hook(["pre-commit"]) == 0


@pytest.mark.parametrize("edited", [False, True])
def test_what_is_in_order_needs_no_plan(
    repo: HookRepo, monkeypatch: pytest.MonkeyPatch, edited: bool
) -> None:
    blob = repo.stage(ALPHA, TEXT)
    repo.receipt("alpha", "article", [(ALPHA, blob)])
    if edited:
        repo.git("commit", "-q", "--no-verify", "-m", "alpha")
        repo.stage(ALPHA, TEXT + "edited\n")
    monkeypatch.delattr("gitstate.edge.staged.Index.plan")
    monkeypatch.delattr("gitstate.edge.staged.Index.receipts")
    assert run_hook(["pre-commit"]) == 0


def test_odd_names_are_shown_without_driving_the_terminal(repo: HookRepo) -> None:
    repo.stage("\033[2J\n/.gitstate-x-1.tmp", TEXT)
    done = repo.commit()
    assert stopped(done, "\\x1b[2J\\n")
    assert "\033" not in done.stderr


# The pre-commit framework


def test_the_hook_offered_to_the_pre_commit_framework_runs(repo: HookRepo) -> None:
    hooks = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == ["gitstate"]
    hook = hooks[0]
    assert (hook["language"], hook["pass_filenames"], hook["always_run"]) == ("python", False, True)
    assert hook["stages"] == ["pre-commit"]
    program, *arguments = hook["entry"].split()
    assert program == "gitstate"
    repo.stage(ALPHA, "")
    done = subprocess.run(
        (sys.executable, "-m", "gitstate", *arguments),
        cwd=repo.path,
        env={**repo.env, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert stopped(done, ALPHA, "empty")
