"""`gitstate init`: it writes where nothing stands, says what it did, and does no harm when repeated."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
from pathlib import Path

import pytest

from gitstate.commands.init import init
from gitstate.errors import UsageError

Output = pytest.CaptureFixture[str]
GLOB = "+refs/notes/gitstate*:refs/gitstate-remote/origin/notes*"


def git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def shown(root: Path) -> dict[str, bytes]:
    """Every file of the working tree."""
    files = (
        path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts
    )
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def state(root: Path) -> dict[str, bytes]:
    """Everything in the repository, git's own files included."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A Newcomer")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "newcomer@example.org")
    path = tmp_path / "repo"
    git("init", "-q", "-b", "main", str(path))
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def remote(repo: Path) -> Path:
    path = repo.parent / "remote.git"
    git("init", "-q", "--bare", "-b", "main", str(path))
    git("remote", "add", "origin", str(path))
    return path


def test_it_writes_the_starter_and_names_each_file(repo: Path, capsys: Output) -> None:
    assert init("", hooks=True) == 0
    out = capsys.readouterr().out
    assert set(shown(repo)) == {"gitstate.yaml", "plan.yaml", "prompts/page.md", "templates/page.md"}
    assert all(f"Wrote {path}" in out for path in shown(repo))
    assert (repo / ".git/hooks/pre-commit").exists()
    assert "gitstate plan" in out.partition("Next:")[2]


def test_a_second_time_changes_nothing(repo: Path, remote: Path, capsys: Output) -> None:
    init("", hooks=True)
    before = state(repo)
    capsys.readouterr()
    assert init("", hooks=True) == 0
    assert state(repo) == before
    out = capsys.readouterr().out
    assert "Wrote" not in out
    assert "own commits" not in out


def test_p5_it_never_overwrites(repo: Path, capsys: Output) -> None:
    (repo / "plan.yaml").write_text("- slug: mine\n")
    (repo / "prompts").mkdir()
    (repo / "prompts/page.md").symlink_to("nowhere")
    init("", hooks=False)
    assert (repo / "plan.yaml").read_text() == "- slug: mine\n"
    assert os.readlink(repo / "prompts/page.md") == "nowhere"
    out = capsys.readouterr().out
    assert "Left plan.yaml as it is" in out
    assert "Left prompts/page.md as it is" in out


def test_p5_it_does_not_write_through_a_link_that_leads_out(repo: Path) -> None:
    outside = repo.parent / "outside"
    outside.mkdir()
    (repo / "prompts").symlink_to(outside)
    with pytest.raises(UsageError):
        init("", hooks=False)
    assert not list(outside.iterdir())


def test_a_configuration_of_ones_own_gets_no_starter_beside_it(repo: Path) -> None:
    (repo / "gitstate.yaml").write_text("gitstate: 1\n")
    init("", hooks=False)
    assert set(shown(repo)) == {"gitstate.yaml"}


def test_half_an_example_is_refused(repo: Path) -> None:
    init("", hooks=False)
    before = shown(repo)
    with pytest.raises(UsageError, match="half of one"):
        init("articles", hooks=False)
    assert shown(repo) == before


def test_the_list_has_a_line_for_each_example(repo: Path, capsys: Output) -> None:
    assert init("list", hooks=True) == 0
    lines = capsys.readouterr().out.splitlines()
    names = ["articles", "branch", "demo", "extract", "publish", "pull-request", "translate"]
    assert [line.split()[0] for line in lines] == names
    assert not shown(repo)


def test_the_list_needs_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert init("list", hooks=True) == 0


def test_an_unknown_example_names_the_nearest(repo: Path) -> None:
    with pytest.raises(UsageError) as caught:
        init("articels", hooks=True)
    assert caught.value.hint == "Did you mean 'articles'?"
    assert not shown(repo)


def test_outside_of_a_repository_it_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        init("", hooks=True)
    assert "git init" in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_plain_fetch_then_brings_receipts(repo: Path, remote: Path, capsys: Output) -> None:
    init("", hooks=False)
    assert GLOB in git("config", "--get-all", "remote.origin.fetch").splitlines()
    out = capsys.readouterr().out
    assert "`git fetch` now brings receipts from origin" in out
    assert "has no receipts yet" in out
    git("fetch", "-q")


def test_a_file_system_that_keeps_its_word_gets_one_line(repo: Path, capsys: Output) -> None:
    init("", hooks=True)
    lines = [line for line in capsys.readouterr().out.splitlines() if "file system" in line]
    assert lines == ["This file system keeps what gitstate promises (rename, locks, fsync): tried."]
    assert not list(repo.glob(".gitstate*"))
    assert not list(repo.glob(".git/gitstate/probe-*"))


def test_what_the_file_system_cannot_do_is_said_and_the_files_are_written_all_the_same(
    repo: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert init("", hooks=True) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "file system" in line]
    assert line.startswith("This file system cannot do this: lock between processes")
    assert "could not be told apart" in line
    assert "Move the clone to a local disk" in out
    assert (repo / "gitstate.yaml").exists()


def test_a_promise_that_is_kept_less_well_is_said_with_what_follows(
    repo: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.fsync

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    assert init("", hooks=True) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "file system" in line]
    assert line.startswith("This file system does less here: fsync of a folder")
    assert "power cut" in line
    assert "local disk" not in out


def test_what_the_remote_takes_is_tried_and_nothing_is_left_there(
    repo: Path, remote: Path, capsys: Output
) -> None:
    init("", hooks=True)
    assert git("ls-remote", str(remote)) == ""
    assert "origin takes all that gitstate pushes" in capsys.readouterr().out


def test_what_the_remote_does_not_take_is_said_in_a_line_each(
    repo: Path, remote: Path, capsys: Output
) -> None:
    git("-C", str(remote), "config", "transfer.hideRefs", "refs/notes")
    git("-C", str(remote), "config", "receive.denyDeletes", "true")
    assert init("", hooks=True) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "takes less" in line]
    assert [line.split(": ")[1] for line in lines] == ["notes", "deleting refs"]


def test_offline_the_remote_is_not_asked(repo: Path, capsys: Output) -> None:
    git("remote", "add", "origin", str(repo.parent / "gone.git"))
    assert init("", hooks=True, offline=True) == 0
    out = capsys.readouterr().out
    assert "origin was not asked" in out
    assert "out of reach" not in out


def test_a_remote_that_is_away_stops_nothing(repo: Path, capsys: Output) -> None:
    git("remote", "add", "origin", str(repo.parent / "gone.git"))
    assert init("", hooks=True) == 0
    assert "out of reach" in capsys.readouterr().out


def test_without_origin_or_upstream_it_says_how_to_get_one(repo: Path, capsys: Output) -> None:
    for name in ("elsewhere", "nowhere"):
        git("remote", "add", name, str(repo.parent / "gone.git"))
    assert init("", hooks=True) == 0
    assert "none of the remotes elsewhere, nowhere is `origin`" in (out := capsys.readouterr().out)
    assert "git push -u REMOTE main" in out


def test_it_says_once_which_hooks_its_own_commits_run(repo: Path, capsys: Output) -> None:
    hook = repo / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    git("config", "commit.gpgsign", "yes")
    init("", hooks=True)
    out = capsys.readouterr().out
    assert "(here commits are signed and there is a commit-msg hook)" in out
    assert "Pre-commit hooks do not run on them" in out


def test_files_without_receipts_can_be_accepted_and_it_says_how(repo: Path, capsys: Output) -> None:
    init("", hooks=False)
    (repo / "pages").mkdir()
    (repo / "pages/first-page.md").write_text(
        "# The first page\n\nWritten long ago, by hand and with care.\n"
    )
    git("add", "-A")
    git("commit", "-q", "-m", "by hand")
    capsys.readouterr()
    init("", hooks=False)
    assert "gitstate accept" in capsys.readouterr().out


def test_mistakes_in_the_configuration_are_shown(repo: Path, capsys: Output) -> None:
    init("", hooks=False)
    (repo / "gitstate.yaml").write_text("gitstate: 1\nplan: plan.yaml\nstage: {}\n")
    capsys.readouterr()
    assert init("", hooks=False) == 0
    assert "gitstate.yaml:3: The key 'stage' is not known. Did you mean 'stages'?" in capsys.readouterr().out


def test_in_a_folder_of_the_repository_it_works_at_the_root(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    (repo / "deep").mkdir()
    monkeypatch.chdir(repo / "deep")
    init("", hooks=False)
    assert (repo / "gitstate.yaml").exists()
    assert "At the root of the repository" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["sha256", "worktree", "detached"])
def test_unusual_repositories_are_no_obstacle(repo: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = repo.parent / kind
    if kind == "sha256":
        git("init", "-q", "--object-format=sha256", str(place))
    else:
        git("commit", "-q", "--allow-empty", "-m", "first")
        git("worktree", "add", "-q", "--detach", str(place))
        if kind == "worktree":
            git("-C", str(place), "switch", "-q", "-c", "other")
    git("-C", str(place), "remote", "add", "origin", str(repo))
    monkeypatch.chdir(place)
    assert init("extract", hooks=True) == 0
    assert GLOB in git("config", "--get-all", "remote.origin.fetch")
