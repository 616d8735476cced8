"""A job's private folder: its input, streams and outputs as files, and what is taken from them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

TAIL = 262_144  # bytes of stdout and stderr that a result shows: an error's structure begins at its head
_USAGE_BYTES = 65_536
_MOST = 2.0**63


class File(NamedTuple):
    """A committed file that a job brings along: its repository path, content, and whether it can be executed."""

    path: str
    content: bytes
    executable: bool = False


class Folder(NamedTuple):
    """A job's private folder and the descriptors of its streams, which the job cannot exchange."""

    path: str
    stdout: int
    stderr: int

    def of(self, name: str) -> str:
        return os.path.join(self.path, name)

    @property
    def mark(self) -> str:
        """What nothing but this job has in its environment. See `edge/group.py`."""
        return os.path.basename(self.path)

    def written(self, outputs: int) -> list[tuple[int, int]]:
        """Size and time of change of what the job writes: standard output and error, and the outputs there are."""
        found = [os.fstat(self.stdout), os.fstat(self.stderr)]
        for number in range(1, outputs + 1):
            with contextlib.suppress(OSError):
                found.append(os.lstat(self.of(f"out-{number}")))
        return [(entry.st_size, entry.st_mtime_ns) for entry in found]


@contextlib.contextmanager
def private(stdin: bytes, parent: str | None) -> Iterator[Folder]:
    """A new folder in `parent` (None: the system's place) with `stdin` in a file, and gone afterwards.

    Raises OSError where there is no room for it.
    """
    # What fails here is this machine's trouble and not the job's, so it is raised: a full disk must not be
    # written down as a failure of the work. Absolute, as the job runs elsewhere.
    path = os.path.abspath(tempfile.mkdtemp(prefix="gitstate-", dir=parent))
    streams: list[int] = []
    try:
        os.mkdir(os.path.join(path, "scratch"), 0o700)
        with open(os.path.join(path, "prompt"), "xb") as file:
            file.write(stdin)
        # Appending, so that a job that opens /dev/stderr anew does not write over itself.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        for name in ("stdout", "stderr"):
            streams.append(os.open(os.path.join(path, name), flags, 0o600))
        yield Folder(path, streams[0], streams[1])
    finally:
        for stream in streams:
            os.close(stream)
        remove(path)


def lay_out(folder: Folder, files: Sequence[File]) -> None:
    """Write files at their paths below the folder `root`, which is made. Raises OSError."""
    root = folder.of("root")
    os.mkdir(root, 0o700)
    for path, content, executable in files:
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(full, flags, 0o777 if executable else 0o666), "wb") as file:
            file.write(content)


def remove(path: str) -> None:
    """Remove a folder whatever the job did to it; what cannot be removed is left, and nothing is raised."""
    if os.path.islink(path) or os.path.isfile(path):  # (put there in its stead)
        with contextlib.suppress(OSError):
            os.unlink(path)
        return
    for _ in range(3):  # again, for a file that came late
        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
            if not os.path.lexists(path):
                return
            _open_up(path)
    with contextlib.suppress(OSError):  # nested too deeply for Python
        subprocess.run(("rm", "-rf", "--", path), stderr=subprocess.DEVNULL, check=False)


def _open_up(path: str) -> None:
    """Make every folder below `path`, and itself, writable again; a folder is opened before it is entered."""
    with contextlib.suppress(OSError):
        os.chmod(path, 0o700)
    for top, folders, _ in os.walk(path):
        for inner in (os.path.join(top, name) for name in folders):
            with contextlib.suppress(OSError):
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)


def collect(folder: Folder, count: int) -> tuple[tuple[bytes, ...], dict[int, str]]:
    """Each output's bytes, and for each that did not come the words."""
    outputs: list[bytes] = []
    missing: dict[int, str] = {}
    for number in range(1, count + 1):
        name = f"$GITSTATE_OUTPUT_{number}" if count > 1 else "$GITSTATE_OUTPUT"
        data = b""
        try:
            data = _regular(folder.of(f"out-{number}"))
        except FileNotFoundError:
            pass
        except OSError as error:
            missing[number] = f"gitstate: {name} cannot be taken: {error.strerror or error}.\n"
        if number == 1 and not data and not missing:
            # Standard output may stand for the first output. Whether it is enough, the checks say.
            data = _read(folder.stdout, 0)
        elif not data and number not in missing:
            missing[number] = f"gitstate: {name} was not written.\n"
        outputs.append(data)
    return tuple(outputs), missing


def is_filed(folder: Folder) -> bool:
    """Whether the first output came as a file of its own, and not on standard output."""
    with contextlib.suppress(OSError):
        return os.lstat(folder.of("out-1")).st_size > 0
    return False


def room(folder: Folder) -> int:
    """The bytes of room on the disk that holds the folder, whatever the job did to its name."""
    if hasattr(os, "fstatvfs"):
        found = os.fstatvfs(folder.stdout)
        return found.f_bavail * found.f_frsize
    return shutil.disk_usage(os.path.dirname(folder.path)).free


def usage(path: str) -> dict[str, int | float | str]:
    """What a command left in $GITSTATE_USAGE, a JSON object; whatever is not of the kind expected is left out."""
    try:
        fields = json.loads(_regular(path)[:_USAGE_BYTES])
    except (OSError, ValueError, RecursionError):
        return {}
    found: dict[str, int | float | str] = {}
    for name, value in fields.items() if isinstance(fields, dict) else ():
        numbers = {"usd": (int, float), "tokens_in": (int,), "tokens_out": (int,)}.get(name, ())
        if type(value) in numbers and 0 <= value < _MOST:
            found[name] = value
        elif name == "model" and isinstance(value, str):
            found[name] = value[:200]
    return found


def _regular(path: str) -> bytes:
    """A file's bytes, if it is a plain file itself: no link is followed, no device or FIFO is read."""
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    if os.path.islink(path):
        raise OSError("it is a symbolic link")
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        return _read(descriptor, 0)
    finally:
        os.close(descriptor)


def tail(descriptor: int) -> str:
    """The end of a stream as text."""
    start = max(0, os.fstat(descriptor).st_size - TAIL)
    return _read(descriptor, start).decode("utf-8", "replace")


def _read(descriptor: int, start: int) -> bytes:
    os.lseek(descriptor, start, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()
