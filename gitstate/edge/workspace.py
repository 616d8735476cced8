"""Where a stage's command runs: at the root, in a scratch folder, or in a linked worktree whose changes are its answer.

A worktree is a folder of gitstate's own, `worktrees/ATTEMPT`, and git's entry of the same name. They are made under the
run lock only, so what its next holder finds is of a run that died. The folder is made first and removed last: it
vouches for the entry. The user's working tree, index, branches, hooks and configuration are not touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

from gitstate.core.plan import Workspace
from gitstate.edge.disk import has_no_room
from gitstate.edge.folder import remove
from gitstate.edge.git import FOREIGN, Git, failed
from gitstate.edge.process import Flag, Job, Result
from gitstate.edge.repo import Repository
from gitstate.errors import GitFailed, UsageError

_TRIES = (
    3  # of what git does here: a command may end other people's git processes, and git may be in its own way
)
_DEEPEST = 32  # repositories in repositories
_BASE = "GITSTATE_BASE"  # the commit that a worktree stands at, for its command

# What could run something of the repository's, change shared settings, or make git overlook a change.
_PLAIN = tuple(
    word
    for setting in (
        f"core.hooksPath={os.devnull}",
        "core.fsmonitor=false",
        "core.untrackedCache=false",
        "core.splitIndex=false",
        "core.ignoreStat=false",
        "core.trustctime=true",
        "core.checkStat=default",
        "core.safecrlf=false",
        "worktree.useRelativePaths=false",
    )
    for word in ("-c", setting)
)
# The patch is the same whatever is configured here.
_NO_SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_DIFF_OPTS": "",
}
_DIFF = ("-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")


class Interrupted(Exception):
    """An end was asked for while a worktree was being made."""


class Place(NamedTuple):
    """Where a command runs and what it is told of that."""

    cwd: Optional[str]  # None: its scratch folder
    env: Mapping[str, str]
    hidden: tuple[str, ...] = ()  # variables that it must not see


def place(repository: Repository, workspace: Workspace, attempt: str, base: Optional[str]) -> Place:
    """The place of one attempt; a worktree is still to be made, at the commit `base`.

    Raises UsageError for a worktree where there is no commit yet.
    """
    env = {"GITSTATE_ROOT": repository.root}
    if workspace == "root":
        return Place(repository.root, env)
    # These places lie in the git folder: a git that does not find a repository there must not take that one.
    above = os.environ.get("GIT_CEILING_DIRECTORIES")
    env["GIT_CEILING_DIRECTORIES"] = os.pathsep.join(filter(None, (repository.state, above)))
    if workspace == "scratch":
        return Place(None, env, FOREIGN)
    if base is None:
        raise UsageError(
            "There is no commit yet that a worktree could be made of.",
            "Commit what is there, or take `workspace: worktree` out.",
        )
    return Place(os.path.join(_folder(repository), attempt), {**env, _BASE: base}, FOREIGN)


def _folder(repository: Repository) -> str:
    return os.path.join(repository.state, "worktrees")


class Worktrees:
    """The worktrees of one clone; to be used under its run lock, by many threads."""

    def __init__(self, git: Git, repository: Repository) -> None:
        self._git, self._repository = git, repository
        self._folder = _folder(repository)
        self._entries = os.path.join(repository.common_dir, "worktrees")  # git's
        self._one = threading.Lock()  # git makes and removes that folder with its first and last entry

    @contextlib.contextmanager
    def of(self, job: Job, cancel: Flag) -> Iterator[Optional[Worktree]]:
        """The worktree that a job is to run in, made now and gone afterwards; None where its place is another one.

        Raises Interrupted, GitFailed where none can be made, and OSError where the disk is full.
        """
        base = job.env.get(_BASE)
        if base is None or job.cwd is None:
            yield None
            return
        kept = tempfile.mkdtemp(prefix="worktree-", dir=job.scratch_parent)
        try:
            self._make(job.cwd, base, kept, cancel)
            yield Worktree(self._git, self._repository, job.cwd, base, kept, job.max_bytes)
        finally:
            self._remove(os.path.basename(job.cwd))
            remove(kept)

    def clear(self) -> None:
        """Remove what runs that died have left. Changes nothing of other worktrees; may be killed anywhere."""
        ours = os.path.realpath(self._folder)
        # (the state folder may have been deleted by hand)
        inside = [name for name in _names(self._entries) if os.path.realpath(self._leads_to(name)) == ours]
        for name in sorted({*_names(self._folder), *inside}):
            self._remove(name)

    def _leads_to(self, name: str) -> str:
        """The folder that the worktree of one of git's entries lies in; '' where it does not say."""
        entry = os.path.join(self._entries, name)
        try:
            with open(os.path.join(entry, "gitdir"), "rb") as file:
                found = os.fsdecode(file.read().strip(b"\0\n"))
        except OSError:
            return ""
        return os.path.dirname(os.path.dirname(os.path.join(entry, found))) if found else ""

    def _make(self, path: str, base: str, kept: str, cancel: Flag) -> None:
        tries = 0
        while True:
            tries += 1
            try:
                self._add(path, base)
                # What a later look compares with; the command may do to its index what it likes.
                shutil.copy2(os.path.join(self._entry(path), "index"), os.path.join(kept, "index"))
                return
            except (GitFailed, FileNotFoundError) as error:
                if cancel.is_set():
                    raise Interrupted from error
                _require_room(self._repository.state, error)
                self._remove(os.path.basename(path))
                if tries >= _TRIES:
                    raise GitFailed(
                        f"No worktree can be made at {base}: {error}",
                        "Mend that and run again; or let the stage run elsewhere (`workspace`).",
                    ) from error

    def _add(self, path: str, base: str) -> None:
        os.makedirs(path)
        with self._one:
            _run(self._git, {}, "worktree", "add", "-q", "--detach", "--no-checkout", path, base)
        there = {"GIT_DIR": self._entry(path), "GIT_WORK_TREE": path}
        git = Git(path, inherit=self._git.inherit)
        # (it may be large, or fetch what a partial clone lacks; then an end that is asked for must not wait)
        _run(git, there, "reset", "-q", "--hard", "--no-recurse-submodules", base, interruptible=True)

    def _entry(self, path: str) -> str:
        """git's own folder for a worktree, which it names like the worktree's while no other has that name."""
        return os.path.join(self._entries, os.path.basename(path))

    def _remove(self, name: str) -> None:
        """Remove a worktree of ours, whatever its command did to it: git's entry, locks and all, then the folder."""
        remove(os.path.join(self._entries, name))
        remove(os.path.join(self._folder, name))
        with self._one, contextlib.suppress(OSError):  # as git does with the last one
            os.rmdir(self._entries)


class Worktree:
    """One worktree of ours, and what has changed there since it was made."""

    def __init__(self, git: Git, repository: Repository, path: str, base: str, kept: str, most: int) -> None:
        self.path, self.base = path, base
        self._repository, self._kept, self._most = repository, kept, most
        self._inherit = git.inherit

    def answer(self, result: Result) -> Result:
        """The result with what the command changed as its first output, a patch, unless that came as a file.

        Where nothing has changed that output is empty, and what was printed is all that there is to judge. Raises
        OSError where the disk has no room for the patch.
        """
        if result.ended_by != "exit" or result.code != 0 or result.filed or 1 in result.missing:
            return result
        try:
            patch = self._patch()
        except GitFailed as error:
            words = f"gitstate: what it changed cannot be taken: {error}\n"
            missing = (1, *result.missing)
            return result._replace(
                outputs=(b"", *result.outputs[1:]), missing=missing, stderr=result.stderr + words
            )
        if patch is None:
            return result._replace(ended_by="too_large", outputs=())
        return result._replace(outputs=(patch, *result.outputs[1:]), filed=bool(patch))

    def _patch(self) -> Optional[bytes]:
        """From the commit that it was made at to what stands there now; None where that is too large. Raises
        GitFailed."""
        tries = 0
        while True:
            tries += 1
            work = tempfile.mkdtemp(prefix="patch-", dir=self._kept)
            try:
                return self._taken(work)
            except GitFailed as error:
                _require_room(self._repository.state, error)
                if tries >= _TRIES:
                    raise
            finally:
                remove(work)

    def _taken(self, work: str) -> Optional[bytes]:
        if os.path.islink(self.path) or not os.path.isdir(self.path):
            return b""  # the command has removed it: there is nothing that it could mean
        store, index, file = (os.path.join(work, name) for name in ("store", "index", "patch"))
        # A repository without settings, whose objects go with it: the user's is left without them.
        kind = f"--object-format={self._repository.format}"
        outside = Git(work, inherit=self._inherit)
        _run(outside, _NO_SETTINGS, "init", "-q", "--bare", "--template=", kind, store)
        with open(os.path.join(store, "objects", "info", "alternates"), "wb") as alternates:
            alternates.write(os.fsencode(os.path.join(self._repository.common_dir, "objects")) + b"\n")
        shutil.copy2(os.path.join(self._kept, "index"), index)  # (its time, too: git goes by it)
        tree = self._tree({"GIT_INDEX_FILE": index, "GIT_OBJECT_DIRECTORY": os.path.join(store, "objects")})
        there = {**_NO_SETTINGS, "GIT_DIR": store}
        _run(outside, there, "diff-tree", *_DIFF, f"--output={file}", f"{self.base}^{{tree}}", tree)
        if os.path.getsize(file) > self._most:
            return None
        with open(file, "rb") as patch:
            return patch.read()

    def _tree(self, private: Mapping[str, str]) -> str:
        """The tree of what stands there: all that is tracked, and what is new and not ignored."""
        entry = os.path.join(self._repository.common_dir, "worktrees", os.path.basename(self.path))
        here = {
            "GIT_DIR": entry if os.path.isdir(entry) else self._repository.common_dir,
            "GIT_WORK_TREE": self.path,
        }
        git = Git(self.path, inherit=self._inherit)
        paths = [*self._changed(git, {**here, **private}), *self._wanted(git, here)]
        take = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        _run(git, {**here, **private}, *take, stdin=b"".join(path + b"\0" for path in paths))
        return _run(git, {**here, **private}, "write-tree").decode("ascii").strip()

    def _changed(self, git: Git, env: Mapping[str, str]) -> list[bytes]:
        """The paths that may have changed, new ones last: one may need the place of another. The files of a
        repository that the command has made are files like others."""
        listing = ("ls-files", "-z", "-m", "-d", "-o", "--exclude-standard")
        for _ in range(_DEEPEST):
            paths = _run(git, env, *listing).split(b"\0")[:-1]
            nested = [path for path in paths if path.endswith(b"/")]
            if not nested:
                break
            for path in nested:
                remove(os.path.join(self.path, os.fsdecode(path), ".git"))
        return [path for path in reversed(paths) if not path.endswith(b"/")]  # (git lists the new ones first)

    def _wanted(self, git: Git, env: Mapping[str, str]) -> list[bytes]:
        """The files that are ignored and tracked by now, because the command wanted it so."""
        done = git.run(*_PLAIN, "ls-files", "-z", "-c", "-i", "--exclude-standard", env=env, check=False)
        paths = done.out.split(b"\0")[:-1] if not done.code else []
        root = os.fsencode(self.path)
        return [path for path in paths if not stat.S_ISDIR(_mode(os.path.join(root, path)))]


def _run(
    git: Git, env: Mapping[str, str], *args: str, stdin: bytes = b"", interruptible: bool = False
) -> bytes:
    done = git.run(*_PLAIN, *args, stdin=stdin, env=env, check=False, interruptible=interruptible)
    if done.code:
        raise failed(args, done)
    return done.out


def _mode(path: bytes) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _require_room(folder: str, error: Exception) -> None:
    """Raise OSError where it was for want of room that git failed: it says only that it could not write."""
    if has_no_room(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder) from error
