"""Throw-away clones with a throw-away remote, outside of the user's repository, which is only read.

What is copied is the commit at HEAD and the receipts. The user's remotes, hooks and local settings stay behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional

from gitstate.edge import itself
from gitstate.edge.git import Git
from gitstate.edge.git import environment as git_environment
from gitstate.edge.repo import RECEIPTS, Repository
from gitstate.errors import UsageError

_BRANCH = "drill"
_PATIENCE = 300.0  # seconds that a gitstate process gets
_GRACE = 10.0  # from TERM to KILL
# Whatever the user's own settings are: none may act here, or wait for a password.
_SETTINGS = (
    ("user.name", "gitstate drill"),
    ("user.email", "drill@example.org"),
    ("commit.gpgsign", "false"),
    ("core.hooksPath", ".git/hooks"),
    ("core.autocrlf", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.file.allow", "always"),
)


class Ended(NamedTuple):
    """A gitstate process that has ended: exit code (negative: the signal), standard output and the story."""

    code: int
    out: str
    err: str


class Running:
    """A gitstate process under way."""

    def __init__(self, process: subprocess.Popen[str], living: set[subprocess.Popen[str]]) -> None:
        self._process, self._living = process, living

    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def wait(self, patience: float = _PATIENCE) -> Ended:
        """Wait for its end; KILL after `patience` seconds, which counts as that signal."""
        try:
            out, err = self._process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, err = self._process.communicate()
        self._living.discard(self._process)
        return Ended(self._process.returncode, out, err)


class World(NamedTuple):
    """One cell's folder: a remote, the clones A and B, the order, the ledger and the pretended world."""

    folder: str

    def of(self, *names: str) -> str:
        """A path in it."""
        return os.path.join(self.folder, *names)

    def state(self, clone: str) -> str:
        """A clone's state folder."""
        return self.of(clone, ".git", "gitstate")

    def ledger(self) -> list[dict[str, Any]]:
        """What the saboteur noted, oldest first; a line that is not whole is none."""
        try:
            with open(self.of("ledger"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def write(self, name: str, fields: Mapping[str, Any]) -> None:
        """A file of plain data, whole or not there."""
        with open(self.of(f"{name}.tmp"), "w", encoding="utf-8") as file:
            json.dump(fields, file)
        os.replace(self.of(f"{name}.tmp"), self.of(name))


class Throwaway:
    """The folder that holds all of it; a context manager that ends what runs there and removes it, unless kept."""

    def __init__(self, repository: Repository, real: bool, keep: bool) -> None:
        """Raises UsageError where the system's place for temporary files lies in the user's repository."""
        self._user, self._real, self._kept = repository, real, keep
        place = os.path.realpath(tempfile.gettempdir())
        for inside in (repository.root, repository.common_dir):
            if os.path.commonpath([place, os.path.realpath(inside)]) == os.path.realpath(inside):
                raise UsageError(
                    f"The folder for temporary files, {place}, lies in this repository.",
                    "Name another one in TMPDIR.",
                )
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="gitstate-drill-"))
        self.seed = os.path.join(self.folder, "seed")
        self._living: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Throwaway:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        if not self._kept:
            for _ in range(3):  # again, for a file that came late
                shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """End every gitstate that runs here, with what it started; nothing begins any more."""
        with self._lock:
            self._closed = True
            living = list(self._living)
        for process in living:
            process.terminate()
        for process in living:
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # --- making it ------------------------------------------------------------------------------------------------

    def take(self) -> None:
        """Copy the commit at HEAD and the receipts. Raises UsageError where there is no commit."""
        user = Git(self._user.root)
        if not user.text("rev-parse", "--verify", "-q", "HEAD^{commit}", check=False):
            raise UsageError("There is no commit here yet.", "Commit the configuration and the plan first.")
        os.mkdir(self.seed)
        git = self._git("seed")
        git("init", "-q", "--template=", f"--object-format={self._user.format}", "-b", _BRANCH)
        refs = ["+HEAD:refs/heads/taken"]
        if user.text("rev-parse", "--verify", "-q", RECEIPTS, check=False):
            refs.append(f"+{RECEIPTS}:{RECEIPTS}")
        # With the user's own settings, which may have to say that the repository is to be trusted; and without
        # fetching into it what a partial clone lacks.
        Git(self.seed).run(
            "-c", "protocol.file.allow=always", "fetch", "-q", "--no-tags", "--depth", "1",
            f"file://{self._user.root}", *refs,
            env={"GIT_NO_LAZY_FETCH": "1"},
        )  # fmt: skip
        git("reset", "-q", "--hard", "refs/heads/taken")

    def keep(self, name: str, content: bytes) -> str:
        """A file beside the worlds; returns its path."""
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def plant(self, remote: str, files: Mapping[str, bytes], gone: Iterable[str]) -> None:
        """Make the one commit that some worlds begin with, in a bare repository of this name: what was taken, with
        these files and without those."""
        git = self._git("seed")
        self._commit("seed", files, gone, ("commit-tree", "-m", "The workflow"))
        git(
            "clone",
            "-q",
            "--bare",
            "--single-branch",
            "--template=",
            "-b",
            _BRANCH,
            self.seed,
            f"../{remote}",
        )
        git("reset", "-q", "--hard", "refs/heads/taken")

    def _commit(
        self, where: str, files: Mapping[str, bytes], gone: Iterable[str], make: tuple[str, ...]
    ) -> None:
        git = self._git(where)
        for path, content in files.items():
            full = os.path.join(self.folder, where, path)
            with open(full, "wb") as file:
                file.write(content)
            git("add", "-f", "--", path)
        for path in gone:
            git("rm", "-q", "--ignore-unmatch", "--", f":(literal){path}")
        tree = git("write-tree")
        commit = git(*make, tree)
        git("reset", "-q", "--hard", commit)

    def world(self, name: str, planted: str, files: Mapping[str, bytes], setup: Mapping[str, Any]) -> World:
        """A new world, from what was planted, in which A has committed and pushed `files`, and B is another clone of
        the same remote."""
        world = World(os.path.join(self.folder, name))
        os.mkdir(world.folder)
        world.write("setup.json", setup)
        here = self._git(name)
        here("clone", "-q", "--bare", "--template=", f"../{planted}", "remote.git")
        self._clone(name, "A")
        git = self._git(f"{name}/A")
        head = git("rev-parse", "HEAD")
        self._commit(f"{name}/A", files, (), ("commit-tree", "-m", "The drill", "-p", head))
        git("push", "-q", "origin", f"HEAD:{_BRANCH}")
        self._clone(name, "B")
        return world

    def copy(self, world: World, name: str) -> World:
        """The same world once more."""
        other = World(os.path.join(self.folder, name))
        shutil.copytree(world.folder, other.folder, symlinks=True)
        for clone in ("A", "B"):
            self._git(f"{name}/{clone}")("remote", "set-url", "origin", f"file://{other.of('remote.git')}")
        return other

    def _clone(self, name: str, clone: str) -> None:
        remote = f"file://{os.path.join(self.folder, name, 'remote.git')}"
        settings = [part for key, value in _SETTINGS for part in ("-c", f"{key}={value}")]
        self._git(name)("clone", "-q", "--template=", "-b", _BRANCH, *settings, remote, clone)

    def _git(self, where: str) -> _Ask:
        return _Ask(Git(os.path.join(self.folder, where)))

    # --- working in it --------------------------------------------------------------------------------------------

    def git(self, world: World, clone: str, *arguments: str) -> str:
        """What a git command prints in one of the clones; '' where it fails."""
        done = Git(world.of(clone)).run(*arguments, env=itself.NO_SETTINGS, check=False)
        return os.fsdecode(done.out).rstrip("\n") if not done.code else ""

    def start(self, world: World, clone: str, *arguments: str) -> Running:
        """Start gitstate in one of the clones, in a session of its own. Raises KeyboardInterrupt after `end`."""
        if self._real:  # the user's commands need all that they are used to
            env = {name: os.environ[name] for name in git_environment() if name in os.environ}
        else:
            env = itself.environment(GIT_LFS_SKIP_SMUDGE="1")
        env = {name: value for name, value in env.items() if not name.startswith("GITSTATE_")}
        env.update(GITSTATE_DRILL=world.folder, GITSTATE_DRILL_STATE=world.state(clone), NO_COLOR="1")
        with self._lock:
            if self._closed:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                (*itself.COMMAND, *arguments),
                cwd=world.of(clone),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._living.add(process)
        return Running(process, self._living)

    def run(self, world: World, clone: str, *arguments: str) -> Ended:
        """Run gitstate in one of the clones to its end."""
        return self.start(world, clone, *arguments).wait()

    def mend(self, world: World, clone: str) -> None:
        """Give the record store back."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(world.of(clone, ".git", *RECEIPTS.split("/")) + ".lock")


class _Ask:
    """git without anybody's settings, as a function of its arguments. Raises GitFailed."""

    def __init__(self, git: Git) -> None:
        self._git = git

    def __call__(self, *arguments: str, stdin: Optional[bytes] = None) -> str:
        settings = [part for key, value in _SETTINGS[:2] for part in ("-c", f"{key}={value}")]
        done = self._git.run(*settings, *arguments, env=itself.NO_SETTINGS, stdin=stdin or b"")
        return os.fsdecode(done.out).rstrip("\n")
