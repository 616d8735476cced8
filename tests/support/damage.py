"""Files made bad in every way that disks, kills and people have: cut, flipped, emptied, exchanged, forbidden."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from gitstate.__main__ import main
from tests.support.world import Clone, Done

SMALL = 400  # bytes of a file that is cut everywhere in the long version


class Damage(NamedTuple):
    """One way to make a file bad. `data` are its new bytes, unless it becomes a folder, unreadable, or nothing."""

    name: str
    data: bytes | None = None

    def do(self, path: Path) -> None:
        if self.name == "unreadable":
            path.chmod(0)
            return
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)  # git's objects are read-only
        path.unlink()
        if self.name == "folder":
            path.mkdir()
        elif self.data is not None:
            path.write_bytes(self.data)


@cache
def _can_forbid() -> bool:
    """Whether a file can be made unreadable to us: not to root."""
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0)
        return not os.access(file.name, os.R_OK)


def damages(data: bytes, everything: bool) -> Iterator[Damage]:
    """Ways to make a file with this content bad; all that there are, or a handful."""
    chance = random.Random(len(data))
    size = len(data)
    cuts = range(size) if everything and size < SMALL else {0, 1, size // 3, size // 2, size - 2, size - 1}
    more = chance.sample(range(size), min(size, 60)) if everything else []
    for length in sorted({*cuts, *more}):
        if 0 <= length < size:
            yield Damage(f"cut at {length}", data[:length])
    for at in chance.sample(range(size), min(size, 60 if everything else 3)):
        bit = 1 << chance.randrange(8)
        yield Damage(f"bit {bit} of {at} flipped", data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
    yield Damage("random", chance.randbytes(200))
    yield Damage("zeros", bytes(max(size, 1)))
    yield Damage("doubled", data + data)
    yield Damage("folder")
    if _can_forbid():
        yield Damage("unreadable")


@contextlib.contextmanager
def damaged(path: Path, damage: Damage) -> Iterator[None]:
    """A file made bad, and put back as it was."""
    data, mode = path.read_bytes(), path.stat().st_mode
    damage.do(path)
    try:
        yield
    finally:
        if path.is_dir():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.chmod(stat.S_IRUSR | stat.S_IWUSR)
            path.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(stat.S_IMODE(mode))


def here(clone: Clone, *arguments: str) -> Done:
    """A gitstate command in this very process: for what is asked hundreds of times."""
    out, err = io.StringIO(), io.StringIO()
    before = os.getcwd()
    try:
        os.chdir(clone.path)
        with (
            mock.patch.dict(os.environ, clone.world.environment, clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main(arguments)
    finally:
        os.chdir(before)
        gc.enable()
    done = Done(code, out.getvalue(), err.getvalue())
    assert code in (0, 1, 2, 3, 75), done
    assert "Traceback" not in done.err, done
    return done
