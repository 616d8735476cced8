"""The calls of a supervised program as operations on a disk, with their data and in one order.

What a power cut could leave is rebuilt from these (`powercut`), or cut out of a real disk at each of them
(`images`). Built on `supervise`, which holds each call while it is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Optional

from tests.crash import supervise
from tests.crash.supervise import Call, Program

_AT_REMOVEDIR = 0x200
_NOREPLACE = 1
_HARMLESS = ("chmod", "fchmod", "fchmodat", "utime", "utimes", "utimensat", "sync_file_range")


class Op(NamedTuple):
    """One operation. Whether it succeeds is for the model of the disk to decide: it is read before it runs."""

    kind: (
        str  # create trunc write link rename unlink rmdir mkdir sync syncfs; say: it was heard, see `record`
    )
    path: str  # relative to the root; "" is the root itself
    other: str = ""  # the new name of a link or rename
    offset: Optional[int] = 0  # None: the end of the file
    data: bytes = b""
    time: float = 0.0  # the clock's, as it goes into time stamps
    exclusive: bool = False  # it fails where the name is taken


class Recording(NamedTuple):
    """What a program did, its children included."""

    ops: list[Op]
    code: int


def record(
    program: Program,
    root: str,
    *,
    cwd: str,
    env: Mapping[str, str],
    output: str,
    listen: Iterable[str] = (),
    before: Optional[Callable[[Op], None]] = None,
    timeout: float = 180.0,
) -> Recording:
    """Run a program, and record what it does to the files below `root`.

    What is written to `output` (its stdout and stderr) and to the files of `listen`, which all lie elsewhere, is
    recorded as `say` with the file's name as `path`. `before` is called at each operation, with the caller held.
    """
    root = os.path.realpath(root)
    heard = {os.path.realpath(path): os.path.basename(path) for path in (output, *listen)}
    ops: list[Op] = []

    def decide(call: Call) -> None:
        now = time.time()
        for op in _read(call, root, heard):
            op = op._replace(time=now)
            ops.append(op)
            if before is not None:
                before(op)

    done = supervise.run(program, [root, *heard], decide, env=env, cwd=cwd, output=output, timeout=timeout)
    return Recording(ops, done.code)


def _read(call: Call, root: str, heard: Mapping[str, str]) -> list[Op]:
    name, flags = call.name, call.flags
    if call.path in heard:
        written = supervise.writes(call)
        return [Op("say", heard[call.path], data=written.data)] if written else []
    paths = [path[len(root) + 1 :] if _below(path, root) else None for path in call.paths]
    if name in _HARMLESS:
        return []
    if None in paths:
        raise NotImplementedError(f"{name} across the edge of the disk: {call.paths}")
    path, other = paths[0] or "", (paths[1] or "") if len(paths) > 1 else ""
    if name in ("open", "openat", "openat2", "creat"):
        ops = [Op("create", path, exclusive=bool(flags & os.O_EXCL))] if flags & os.O_CREAT else []
        return [*ops, Op("trunc", path)] if flags & os.O_TRUNC else ops
    if (written := supervise.writes(call)) is not None:
        return [Op("write", path, offset=written.offset, data=written.data)]
    if name in ("truncate", "ftruncate"):
        return [Op("trunc", path, offset=call.args[1])]
    if name in ("fsync", "fdatasync"):
        return [Op("sync", path)]
    if name in ("rename", "renameat", "renameat2"):
        exclusive = name == "renameat2" and bool(call.args[4] & _NOREPLACE)
        return [Op("rename", path, other, exclusive=exclusive)]
    if name in ("link", "linkat"):
        return [Op("link", path, other)]
    if name == "unlinkat":
        return [Op("rmdir" if call.args[2] & _AT_REMOVEDIR else "unlink", path)]
    if name in ("mkdir", "mkdirat"):
        return [Op("mkdir", path)]
    if name in ("unlink", "rmdir", "syncfs"):
        return [Op(name, path)]
    raise NotImplementedError(f"{name} {call.path}")


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
