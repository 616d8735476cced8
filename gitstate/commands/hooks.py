"""`hooks install` and `hooks remove`: our hook beside those that are there, and never instead of one.

At no moment is an earlier hook gone: it has its new name before ours takes its place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from shlex import quote

from gitstate.data import folder
from gitstate.edge.git import Git
from gitstate.edge.repo import Repository, find
from gitstate.errors import NeedsHuman
from gitstate.show import safe, tell

NAME = "pre-commit"
EARLIER = "pre-commit.before-gitstate"
_LEGACY = "pre-commit.legacy"  # the pre-commit framework's name for the hook that it found
_OURS = b"# gitstate's pre-commit hook"
_CALLS_US = b"gitstate hooks run pre-commit"
_PROGRAM = b"set -- gitstate "  # the line in the script that names what to start

# Started as `python -m`, Python would import from the current folder first, and so from the repository.
_START = (
    'import sys; sys.path[:1] == [""] and sys.path.pop(0); sys.path.append({parent!r}); '
    'from importlib.util import find_spec; find_spec("gitstate") or sys.exit(127); '
    "from gitstate.__main__ import main; sys.exit(main())"
)


def install() -> int:
    """Put the pre-commit hook where git looks for it; safe to repeat. Returns the exit code.

    Raises NeedsHuman where an earlier hook could be lost, or another tool owns the folder.
    """
    repository = find(".")
    place = _folder(repository)
    with _explained(place):
        return _install(repository, place)


def _install(repository: Repository, place: str) -> int:
    path, earlier = os.path.join(place, NAME), os.path.join(place, EARLIER)
    if _husky_runs_us(place):
        return 0
    there = _read(path)
    if there is not None and _OURS not in there and _is_ours(os.path.join(place, _LEGACY)):
        tell(f"In place already: the hook {safe(path)} runs gitstate's first, as {_LEGACY}.")
        return 0
    inside = _is_inside(place, repository.common_dir)
    in_tree = not inside and _is_inside(place, repository.root)
    script = _script(_program(), in_tree)
    if there is not None and _OURS not in there:
        if _calls_us(there):
            tell(f"In place already: the hook {safe(path)} calls gitstate.")
            return 0
        _keep(path, earlier)
        tell(f"Kept the hook that was there; it runs first, as {safe(earlier)}")
    if there == script and os.access(path, os.X_OK):
        tell(f"In place already: {safe(path)}")
    else:
        _write(path, script)
        tell(f"Installed: {safe(path)}")
    if in_tree:
        tell("  That folder lies in the working tree: the script is part of the repository; commit it, too.")
    elif not inside:
        tell("  That folder lies outside this repository, and the hook acts in every one that uses it.")
        tell("  Without a gitstate.yaml it lets everything pass but gitstate's own temporary files.")
    return 0


def remove() -> int:
    """Take our hook away and put back the one that was there before. Returns the exit code."""
    place = _folder(find("."))
    with _explained(place):
        return _remove(place)


def _remove(place: str) -> int:
    earlier = os.path.join(place, EARLIER)
    found = False
    for name in (NAME, _LEGACY):
        path = os.path.join(place, name)
        if not _is_ours(path):
            continue
        found = True
        if os.path.lexists(earlier):
            os.replace(earlier, path)
            tell(f"Removed gitstate's hook; the one before it is back: {safe(path)}")
        else:
            os.unlink(path)
            tell(f"Removed: {safe(path)}")
    if not found:
        tell(f"There is no hook of gitstate's in {safe(place)}")
        if os.path.lexists(earlier):
            tell(f"  The hook that gitstate once found is still kept there as {EARLIER}.")
    return 0


def _folder(repository: Repository) -> str:
    """Where git looks for hooks: core.hooksPath, else the common directory's own folder."""
    # Asked of git itself: GitPython takes a linked worktree's own folder for it, and costs 0.15 s.
    return Git(repository.root).text("rev-parse", "--path-format=absolute", "--git-path", "hooks")


def _is_inside(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path == folder or path.startswith(os.path.join(folder, ""))


@contextlib.contextmanager
def _explained(place: str) -> Iterator[None]:
    """A folder that cannot be written is no bug of ours."""
    try:
        yield
    except OSError as error:
        raise NeedsHuman(
            f"The hooks folder {safe(place)} cannot be changed: {error.strerror}.",
            "See who sets it: git config --show-origin core.hooksPath",
        ) from error


def _husky_runs_us(place: str) -> bool:
    """Whether Husky owns this folder and its user's script calls us.

    Husky writes the folder anew with each install, and finds the user's scripts by the name of the hook that
    was started. Raises NeedsHuman where it owns the folder and nothing calls us.
    """
    above = os.path.dirname(place)
    if os.path.basename(place) != "_" or os.path.basename(above) != ".husky":
        return False
    script = os.path.join(above, NAME)
    if not _calls_us(_read(script) or b""):
        raise NeedsHuman(
            f"Husky owns the hooks folder {safe(place)} and would overwrite or lose what is put there.",
            f"Add this line to {safe(script)} instead: gitstate hooks run pre-commit",
        )
    tell(f"In place already: Husky's {safe(script)} calls gitstate.")
    return True


def _read(path: str) -> bytes | None:
    """A hook's content; None where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b"" if os.path.islink(path) else None  # a link that leads nowhere is somebody's, too


def _calls_us(script: bytes) -> bool:
    return any(_CALLS_US in line and not line.lstrip().startswith(b"#") for line in script.splitlines())


def _is_ours(path: str) -> bool:
    return _OURS in (_read(path) or b"")


def _keep(path: str, earlier: str) -> None:
    """Give a foreign hook its second name. The first stays until ours replaces it."""
    if os.path.lexists(earlier):
        if _read(earlier) == _read(path):
            return  # an install that was cut short here
        raise NeedsHuman(
            f"Two earlier hooks stand in gitstate's way: {safe(path)} and, kept before, {safe(earlier)}.",
            f"Make one script of them, as {NAME}, remove {EARLIER}, and install again.",
        )
    try:
        os.link(path, earlier, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system without hard links
        os.replace(path, earlier)


def _program() -> list[str]:
    """The words that start this gitstate from anywhere."""
    name = "gitstate.exe" if os.name == "nt" else "gitstate"
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), name)
    for path in (beside, os.path.abspath(sys.argv[0])):
        if os.path.basename(path) == name and os.access(path, os.X_OK) and os.path.isfile(path):
            return [path]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [os.path.abspath(sys.executable), "-c", _START.format(parent=os.path.dirname(package))]


def _script(program: list[str], in_tree: bool) -> bytes:
    """The hook's script, with what to start filled in."""
    with open(os.path.join(folder("hooks"), NAME), "rb") as file:
        script = file.read().replace(b"\r\n", b"\n")
    on_path = shutil.which("gitstate")
    if in_tree and on_path is not None and os.path.realpath(on_path) == os.path.realpath(program[0]):
        return script  # others will run it too: a name that everybody has rather than this machine's path
    words = " ".join(quote(word.replace("\\", "/") if os.name == "nt" else word) for word in program)
    head, found, tail = script.partition(_PROGRAM)
    assert found, "hooks/pre-commit has no line to fill in"
    return head + b"set -- " + os.fsencode(words) + b" " + tail


def _write(path: str, script: bytes) -> None:
    """Put a script in place whole and executable, through any link that the folder may be."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(script)
        # Windows, and file systems without modes: git runs it all the same.
        with contextlib.suppress(OSError):
            os.chmod(temporary, 0o755)  # noqa: S103 - git runs only what is executable
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
