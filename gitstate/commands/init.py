"""`gitstate init`: a starter where no file stands, receipts that plain `git fetch` brings, and the hooks.

Never overwrites, never commits, leaves nothing on the remote; safe to repeat.
"""

from __future__ import annotations

import os
import secrets
from typing import NamedTuple

from gitstate import show
from gitstate.commands import hooks as git_hooks
from gitstate.commands.clone import CONFIG, Clone, statuses_of, utc_now
from gitstate.core.problems import nearest
from gitstate.data import folder
from gitstate.edge import hosting, probe, remote
from gitstate.edge.files import write_whole
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import Repository, find, head_branch
from gitstate.errors import ComeBackLater, ConfigError, GitstateError, UsageError

STARTER = "starter"


def init(example: str, *, hooks: bool, offline: bool = False) -> int:
    """Set up the repository that the current folder lies in; `example` is one of the examples, or "list".

    The remote is asked what it has and takes, unless `offline`.

    Returns 0, for files that are written are of use whatever the file system can do: that is said, and `run`
    refuses by itself where it must. UsageError outside a repository and for an example that there is not.
    """
    if example == "list":
        for line in show.table([(name, _title(name)) for name in _examples()]):
            show.tell(line)
        return 0
    if example and example not in _examples():
        raise UsageError(
            f"There is no example {example!r}.",
            nearest(example, _examples()) or "List them: gitstate init --example list",
        )
    repository = find(".")
    git = Git(repository.root)
    if os.path.realpath(".") != os.path.realpath(repository.root):
        show.tell(f"At the root of the repository, {show.safe(repository.root)}:")
    facts = _facts(repository)
    written = _write(repository.root, example or STARTER)
    changed = _set_up_fetching(repository, git, facts, offline)
    if hooks:
        git_hooks.install()
    if written or changed:
        show.tell(_about_commits(facts))
    _try_file_system(repository)
    _advise(written)
    return 0


# --- the files --------------------------------------------------------------------------------------------------------


def _examples() -> list[str]:
    top = folder("templates")
    return sorted(
        name for name in os.listdir(top) if name != STARTER and os.path.isdir(os.path.join(top, name))
    )


def _title(example: str) -> str:
    """What an example is for: the first line of its configuration, a comment."""
    with open(os.path.join(folder("templates"), example, CONFIG), encoding="utf-8") as file:
        return file.readline().lstrip("# ").rstrip()


def _files(example: str) -> list[str]:
    """The paths of an example's files, relative to it, the configuration first."""
    top = os.path.join(folder("templates"), example)
    found = []
    for place, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [os.path.relpath(os.path.join(place, name), top).replace(os.sep, "/") for name in names]
    return sorted(found, key=lambda path: (path != CONFIG, path))


def _write(root: str, example: str) -> list[str]:
    """Write the files of a template that are not there yet; returns their paths.

    Beside a configuration of the user's own nothing is written: that would be half of a template.
    """
    there = _content(os.path.join(root, CONFIG))
    if there is not None and there != _content(os.path.join(folder("templates"), example, CONFIG)):
        if example != STARTER:
            raise UsageError(
                f"{CONFIG} is there already, and is another one, so the example would be half of one.",
                f"Try it apart: git init try-it && cd try-it && gitstate init --example {example}",
            )
        show.tell(f"{CONFIG} is there; left as it is.")
        return []
    written, left = [], []
    for path in _files(example):
        content = _content(os.path.join(folder("templates"), example, path)) or b""
        temporary = f".gitstate-init{secrets.token_hex(5)}-1.tmp"
        try:
            write_whole(os.path.join(root, path), content, temporary, replace=False, within=root)
        except FileExistsError:
            left.append(path)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error.strerror or error}.",
                "Make room for it, and type the same again: what was written stays.",
            ) from error
        else:
            written.append(path)
    for path in written:
        show.tell(f"Wrote {path}")
    for path in left if written else ():
        show.tell(f"Left {path} as it is: a file stands there already.")
    if not written:
        show.tell(f"All files are there, and left as they are: {', '.join(left)}.")
    return written


def _content(path: str) -> bytes | None:
    """A file's bytes; None where no file can be read. A link that leads nowhere is somebody's, and empty."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b"" if os.path.lexists(path) else None


# --- the repository ---------------------------------------------------------------------------------------------------


class _Facts(NamedTuple):
    """What the repository's own settings say."""

    branch: str | None  # full ref; None on a detached HEAD
    remotes: tuple[str, ...]
    signs: bool
    commit_msg: bool  # there is such a hook


def _facts(repository: Repository) -> _Facts:
    """Branch, remotes and settings. Read with GitPython, which writes nothing here, and asks no remote."""
    # Imported here, since it costs 0.15 s and no other command needs it.
    import git

    plumbing = Git(repository.root)
    hook = plumbing.text("rev-parse", "--path-format=absolute", "--git-path", "hooks/commit-msg")
    try:
        # (by its path: without one, GitPython would follow a stray GIT_DIR)
        with git.Repo(repository.root, search_parent_directories=False) as repo:
            branch = None if repo.head.is_detached else str(repo.head.reference.path)
            remotes = tuple(str(one.name) for one in repo.remotes)
    except Exception:
        # It stumbles over what it does not know (formats of refs, odd lines of configuration); git does not.
        branch = head_branch(repository, plumbing)
        remotes = tuple(plumbing.text("remote").split())
    # (not with GitPython: it reads another global configuration than git where GIT_CONFIG_GLOBAL names one)
    signs = plumbing.text("config", "--type=bool", "commit.gpgsign", check=False) == "true"
    return _Facts(branch, remotes, signs, os.access(hook, os.X_OK))


def _set_up_fetching(repository: Repository, git: Git, facts: _Facts, offline: bool) -> bool:
    """Let plain `git fetch` bring the receipts, and say what the remote has of them, and takes. True if it changed
    anything."""
    if not facts.remotes:
        show.tell(
            "No remote yet. Once there is one, `gitstate run` and `gitstate sync` set it up by themselves."
        )
        return False
    try:
        there = remote.pick(git, facts.branch)
    except UsageError as error:
        show.tell(str(error))
        return False
    if there is None:
        show.tell(show.alone(facts.branch, facts.remotes))
        return False
    changed = remote.setup_fetch(git, there)
    name = show.safe(there.name)
    if changed:
        show.tell(f"`git fetch` now brings receipts from {name}, too.")
    for spec in remote.overwriting(git, there):
        show.tell(
            f"`git fetch` here throws away receipts that were not pushed, by {show.safe(spec)}: `gitstate doctor` says "
            "how to remove that."
        )
    if offline:
        show.tell(f"{name} was not asked (--offline). Later: gitstate doctor")
        return changed
    try:
        refs = remote.refs(git, there)
        if any(home.receipts in refs for home in remote.HOMES):
            show.tell(f"{name} has receipts already: `gitstate sync` fetches them.")
        else:
            show.tell(f"{name} answers, and has no receipts yet.")
        takes = hosting.look(git, Objects(git, repository), there)
    except ComeBackLater as error:
        show.tell(f"{show.safe(error.message.rstrip('.'))}. Nothing else depends on that now.")
        return changed
    less = [each for each in hosting.findings(takes, there.name) if not each.works]
    if not less:
        show.tell(f"{name} takes all that gitstate pushes (notes, leases, all at once, deleting): tried.")
    for each in less:
        show.tell(f"What {name} takes less: {each.name}: {show.safe(each.words)}.")
    return changed


def _about_commits(facts: _Facts) -> str:
    here = [
        *(["commits are signed"] if facts.signs else []),
        *(["there is a commit-msg hook"] if facts.commit_msg else []),
    ]
    return (
        "gitstate's own commits are signed where commit.gpgsign says so, and are shown to a commit-msg hook"
        f"{' (here ' + ' and '.join(here) + ')' if here else ''}.\n"
        "Pre-commit hooks do not run on them: each output has passed its stage's checks by then."
    )


def _try_file_system(repository: Repository) -> None:
    """Say whether the file system does what the promises stand on: one line if so, else one for each that is not."""
    found = probe.file_system(repository.state, repository.root)
    less = [each for each in found if not each.works]
    if not less:
        show.tell("This file system keeps what gitstate promises (rename, locks, fsync): tried.")
    for each in less:
        can = "cannot do this" if each.works is False else "does less here"
        show.tell(f"This file system {can}: {each.name}: {show.safe(each.words)}.")
    if any(probe.broken(found)):
        show.tell("Move the clone to a local disk before you run anything. To try again: gitstate doctor")


# --- what next --------------------------------------------------------------------------------------------------------


def _advise(written: list[str]) -> None:
    show.tell("")
    if _take_in():
        return
    tops = sorted({path.split("/")[0] + ("/" if "/" in path else "") for path in written})
    show.tell("Next:")
    if written:
        show.tell(f"  make them yours: {', '.join(tops)}")
    show.tell("  gitstate plan")
    if written:
        show.tell(f"  git add {' '.join(tops)} && git commit -m 'Plan the work'")
    show.tell("  gitstate run")


def _take_in() -> bool:
    """Say it where outputs stand that nobody vouches for, or where there are mistakes. True if it said anything."""
    try:
        with Clone() as clone:
            unverified = [s for s in statuses_of(clone.view(), utc_now()) if s.reason == "unverified"]
    except ConfigError as error:
        show.tell("Next: mend this, as `gitstate plan` shows it.")
        for line in str(error).splitlines():
            show.tell(f"  {line}")
        return True
    except GitstateError as error:
        show.tell(str(error))
        return True
    if not unverified:
        return False
    show.tell(f"There are files already for {show.number(len(unverified), 'work')}, without receipts. Next:")
    show.tell("  gitstate sync     # if another clone made them, it has their receipts")
    show.tell("  gitstate accept   # otherwise: take them all in as they are, which pays nothing")
    return True
