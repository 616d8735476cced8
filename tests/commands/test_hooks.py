"""Installing and removing the hook, beside hooks of others, seen through real commits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitstate.commands import hooks
from gitstate.data import folder
from gitstate.errors import NeedsHuman, UsageError
from tests.support.hookrepo import ALPHA, HookRepo

Output = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: Patch) -> HookRepo:
    made = HookRepo(tmp_path / "clone")
    made.start()
    monkeypatch.chdir(made.path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return made


def guarded(repo: HookRepo) -> bool:
    """Whether a commit of an empty output is stopped by gitstate; nothing is staged afterwards."""
    repo.stage(ALPHA, "")
    done = repo.commit()
    if done.returncode == 0:
        repo.git("reset", "-q", "--soft", "HEAD~1")
    repo.git("rm", "-q", "-f", ALPHA)
    return done.returncode == 1 and "gitstate: This commit is stopped" in done.stderr


def foreign(repo: HookRepo, text: str = "echo ran >> ../ran") -> bytes:
    """Somebody else's hook, in place and executable."""
    repo.hook.parent.mkdir(parents=True, exist_ok=True)
    repo.hook.write_text(f"#!/bin/sh\n{text}\n")
    repo.hook.chmod(0o755)
    return repo.hook.read_bytes()


def runs(repo: HookRepo) -> int:
    """How often the hook of `foreign` has run."""
    log = repo.path.parent / "ran"
    return len(log.read_text().splitlines()) if log.exists() else 0


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def earlier(repo: HookRepo) -> Path:
    return repo.hook.with_name("pre-commit.before-gitstate")


# Installing


def test_an_installed_hook_guards_commits_and_a_removed_one_does_not(repo: HookRepo, capsys: Output) -> None:
    assert not guarded(repo)
    assert hooks.install() == 0
    assert str(repo.hook) in capsys.readouterr().out
    assert guarded(repo)
    assert hooks.remove() == 0
    assert not repo.hook.exists()
    assert not guarded(repo)


def test_installing_again_changes_nothing(repo: HookRepo, capsys: Output) -> None:
    foreign(repo)
    hooks.install()
    before = contents(repo.hook.parent)
    capsys.readouterr()
    assert hooks.install() == 0
    assert contents(repo.hook.parent) == before
    assert "In place already" in capsys.readouterr().out


def test_an_older_script_of_ours_is_replaced_by_todays(repo: HookRepo) -> None:
    hooks.install()
    today = repo.hook.read_bytes()
    repo.hook.write_bytes(today.replace(b"hooks run pre-commit\n", b"hooks run something-older\n"))
    hooks.install()
    assert repo.hook.read_bytes() == today
    assert not earlier(repo).exists()


def test_the_hook_runs_in_a_sha256_repository(tmp_path: Path, monkeypatch: Patch) -> None:
    repo = HookRepo(tmp_path / "clone", "sha256")
    repo.start()
    monkeypatch.chdir(repo.path)
    hooks.install()
    assert guarded(repo)


def test_paths_with_spaces_and_quotes_are_no_trouble(tmp_path: Path, monkeypatch: Patch) -> None:
    repo = HookRepo(tmp_path / 'it\'s a "clone" of $HOME é')
    repo.start()
    monkeypatch.chdir(repo.path)
    link = tmp_path / "py'th on"
    link.symlink_to(sys.prefix)
    monkeypatch.setattr(sys, "executable", str(link / "bin" / "python"))
    hooks.install()
    assert guarded(repo)


def test_where_no_program_is_installed_python_starts_gitstate_and_nothing_of_the_repository(
    repo: HookRepo, tmp_path: Path, monkeypatch: Patch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(sys, "argv", ["pytest"])
    hooks.install()
    assert b"python -c" in repo.hook.read_bytes()
    for module in ("yaml", "re", "blake3", "gitstate/__init__"):
        repo.write(f"{module}.py", f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    repo.env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    assert guarded(repo)
    assert not (tmp_path / "executed").exists()


def test_hooks_of_all_worktrees_are_one(repo: HookRepo, tmp_path: Path, monkeypatch: Patch) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    monkeypatch.chdir(tmp_path / "linked")
    hooks.install()
    assert guarded(repo)


def test_installing_from_a_folder_below_the_root_works(repo: HookRepo, monkeypatch: Patch) -> None:
    (repo.path / "below").mkdir()
    repo.git("config", "core.hooksPath", ".githooks")
    monkeypatch.chdir(repo.path / "below")
    hooks.install()
    assert (repo.path / ".githooks" / "pre-commit").exists()
    assert guarded(repo)


def test_outside_a_repository_nothing_is_installed(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        hooks.install()


# Beside others


def test_p5_a_hook_that_was_there_is_kept_and_runs_first(repo: HookRepo) -> None:
    before = foreign(repo)
    hooks.install()
    assert earlier(repo).read_bytes() == before
    assert guarded(repo)
    assert runs(repo) == 1


def test_a_failing_earlier_hook_stops_the_commit_with_its_own_words(repo: HookRepo) -> None:
    foreign(repo, "echo not today >&2; exit 7")
    hooks.install()
    repo.stage("other.txt", "x")
    done = repo.commit()
    assert done.returncode == 1
    assert done.stderr == "not today\n"


def test_p5_removing_puts_the_earlier_hook_back(repo: HookRepo) -> None:
    before = foreign(repo)
    hooks.install()
    hooks.remove()
    assert repo.hook.read_bytes() == before
    assert os.access(repo.hook, os.X_OK)
    assert not earlier(repo).exists()


def test_p5_a_second_foreign_hook_is_not_lost(repo: HookRepo) -> None:
    first = foreign(repo)
    hooks.install()
    second = foreign(repo, "echo another")
    with pytest.raises(NeedsHuman, match="Two earlier hooks"):
        hooks.install()
    assert (earlier(repo).read_bytes(), repo.hook.read_bytes()) == (first, second)


def test_p5_an_install_that_died_half_way_is_finished_by_the_next(repo: HookRepo) -> None:
    before = foreign(repo)
    os.link(repo.hook, earlier(repo))  # kept already, ours not yet written
    hooks.install()
    assert earlier(repo).read_bytes() == before
    assert guarded(repo)
    assert runs(repo) == 1


def test_removing_leaves_foreign_hooks_alone(repo: HookRepo, capsys: Output) -> None:
    before = foreign(repo)
    assert hooks.remove() == 0
    assert repo.hook.read_bytes() == before
    assert "There is no hook of gitstate's" in capsys.readouterr().out


def test_p5_a_hook_that_is_a_link_stays_a_link(repo: HookRepo) -> None:
    target = repo.path.parent / "shared-hook"
    foreign(repo)
    repo.hook.rename(target)
    repo.hook.symlink_to("../../../shared-hook")
    text = target.read_bytes()
    hooks.install()
    assert target.read_bytes() == text
    assert guarded(repo)
    assert runs(repo) == 1
    hooks.remove()
    assert os.readlink(repo.hook) == "../../../shared-hook"


def test_a_hook_that_calls_gitstate_itself_needs_no_other(repo: HookRepo, capsys: Output) -> None:
    before = foreign(repo, "gitstate hooks run pre-commit")
    hooks.install()
    assert repo.hook.read_bytes() == before
    assert "calls gitstate" in capsys.readouterr().out
    foreign(repo, "# gitstate hooks run pre-commit")
    hooks.install()
    assert earlier(repo).exists()


def test_a_framework_that_keeps_our_hook_under_its_own_name_is_left_so(repo: HookRepo) -> None:
    hooks.install()
    legacy = repo.hook.with_name("pre-commit.legacy")
    repo.hook.rename(legacy)
    framework = foreign(repo, '"${0%/*}/pre-commit.legacy" "$@" || exit; echo ran >> ../ran')
    hooks.install()  # kept as the earlier one, it would run us, and we it, without an end
    assert repo.hook.read_bytes() == framework
    assert guarded(repo)
    hooks.remove()
    assert not legacy.exists()
    assert repo.hook.read_bytes() == framework


# Where the folder is another


def test_a_hooks_folder_in_the_working_tree_is_spoken_of(repo: HookRepo, capsys: Output) -> None:
    repo.git("config", "core.hooksPath", ".githooks")
    hooks.install()
    assert "commit it, too" in capsys.readouterr().out
    assert guarded(repo)
    hooks.remove()
    assert list((repo.path / ".githooks").iterdir()) == []


def test_a_script_to_be_committed_names_no_path_where_the_name_will_do(
    repo: HookRepo, tmp_path: Path, monkeypatch: Patch
) -> None:
    program = tmp_path / "bin" / "gitstate"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gitstate "$@"\n')
    program.chmod(0o755)
    (program.parent / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(program.parent / "python"))
    hooks.install()
    assert str(program).encode() in repo.hook.read_bytes()
    hooks.remove()
    repo.git("config", "core.hooksPath", ".githooks")
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    repo.env["PATH"] = path
    hooks.install()
    assert str(tmp_path).encode() not in repo.hook.read_bytes()
    assert guarded(repo)


def test_a_hooks_folder_outside_is_spoken_of_and_harms_no_other_repository(
    repo: HookRepo, tmp_path: Path, capsys: Output
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    repo.git("config", "core.hooksPath", str(shared))
    hooks.install()
    assert "every one that uses it" in capsys.readouterr().out
    assert guarded(repo)
    other = HookRepo(tmp_path / "other")
    other.git("config", "core.hooksPath", str(shared))
    other.stage("empty.md", "")
    assert other.commit().returncode == 0


def test_a_hooks_folder_that_is_a_link_stays_one(repo: HookRepo, tmp_path: Path) -> None:
    folder = repo.path / ".git" / "hooks"
    real = tmp_path / "real"
    folder.rename(real)
    folder.symlink_to(real)
    hooks.install()
    assert folder.is_symlink()
    assert (real / "pre-commit").exists()
    assert guarded(repo)


def test_the_folder_is_made_where_there_is_none(repo: HookRepo) -> None:
    for path in repo.hook.parent.iterdir():
        path.unlink()
    repo.hook.parent.rmdir()
    hooks.install()
    assert guarded(repo)


def test_a_folder_that_cannot_be_written_is_explained(repo: HookRepo) -> None:
    repo.git("config", "core.hooksPath", os.devnull)
    with pytest.raises(NeedsHuman, match="cannot be changed"):
        hooks.install()


def test_huskys_own_folder_is_refused_and_its_users_folder_named(repo: HookRepo) -> None:
    (repo.path / ".husky" / "_").mkdir(parents=True)
    repo.git("config", "core.hooksPath", ".husky/_")
    before = foreign(repo)
    with pytest.raises(NeedsHuman) as caught:
        hooks.install()
    assert str(repo.path / ".husky" / "pre-commit") in caught.value.hint
    repo.write(".husky/pre-commit", "gitstate hooks run pre-commit\n")
    hooks.install()
    assert repo.hook.read_bytes() == before


# When the program is gone


def install_a_program_that_goes(repo: HookRepo, tmp_path: Path, monkeypatch: Patch) -> Path:
    program = tmp_path / "bin" / "gitstate"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program.parent / "python"))
    hooks.install()
    folders = os.environ["PATH"].split(os.pathsep)
    repo.env["PATH"] = os.pathsep.join(part for part in folders if not os.path.exists(f"{part}/gitstate"))
    return program


def test_a_program_that_is_gone_stops_the_commit_and_names_the_ways_on(
    repo: HookRepo, tmp_path: Path, monkeypatch: Patch
) -> None:
    program = install_a_program_that_goes(repo, tmp_path, monkeypatch)
    repo.stage("other.txt", "x")
    program.unlink()
    done = repo.commit()
    assert done.returncode == 1
    assert str(program) in done.stderr
    assert "gitstate hooks remove" in done.stderr
    assert "git commit --no-verify" in done.stderr
    assert repo.commit("--no-verify").returncode == 0


def test_a_program_whose_python_is_gone_is_explained_too(
    repo: HookRepo, tmp_path: Path, monkeypatch: Patch
) -> None:
    program = install_a_program_that_goes(repo, tmp_path, monkeypatch)
    repo.stage("other.txt", "x")
    program.write_text(f"#!{tmp_path}/gone/python\n")
    done = repo.commit()
    assert done.returncode == 1
    assert "git commit --no-verify" in done.stderr


def test_a_gitstate_on_the_path_stands_in_for_one_that_is_gone(
    repo: HookRepo, tmp_path: Path, monkeypatch: Patch
) -> None:
    program = install_a_program_that_goes(repo, tmp_path, monkeypatch)
    repo.stage("other.txt", "x")
    (tmp_path / "elsewhere").mkdir()
    program.rename(tmp_path / "elsewhere" / "gitstate")
    repo.env["PATH"] = f"{tmp_path / 'elsewhere'}{os.pathsep}{repo.env['PATH']}"
    assert repo.commit().returncode == 0


def test_a_python_without_gitstate_is_explained(repo: HookRepo, monkeypatch: Patch) -> None:
    program = [sys.executable, "-I", "-S", "-c", hooks._START.format(parent="/")]
    monkeypatch.setattr(hooks, "_program", lambda: program)
    hooks.install()
    repo.stage("other.txt", "x")
    done = repo.commit()
    assert done.returncode == 1
    assert "cannot be started" in done.stderr


# What is shipped


def test_the_shipped_script_is_plain_sh(tmp_path: Path) -> None:
    script = Path(folder("hooks")) / "pre-commit"
    subprocess.run(("sh", "-n", str(script)), check=True)
    assert script.read_bytes().startswith(b"#!/bin/sh\n")
    assert script.read_bytes().count(b"set -- gitstate ") == 1


def test_a_folder_that_the_installation_lacks_is_an_error_with_a_way_out() -> None:
    with pytest.raises(NeedsHuman, match="lacks its folder 'nothing'"):
        folder("nothing")
