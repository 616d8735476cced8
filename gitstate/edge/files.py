"""The one writer of files: a path shows the old content or the whole new one, whatever dies when (P1).

Temporary file in the same folder, content onto the disk, then its name, then the folder onto the disk.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Optional

from gitstate.edge.disk import FOLDER, Barrier, flush, flush_folder
from gitstate.errors import UsageError

_TEMP = re.compile(r"\.gitstate-.+-\d+\.tmp")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_AT = os.open in os.supports_dir_fd and os.link in os.supports_dir_fd and os.rename in os.supports_dir_fd
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)
_AT_ONCE = 8  # files that are flushed one by one, at a time: a disk does so nearly as fast as one
_TOGETHER = 64  # files that are flushed together: a descriptor each
_BUSY_TRIES = 8  # on Windows, while a scanner or a reader has the target open; about 2.5 s in all


class SymlinkInTheWay(UsageError):
    """A folder on the way to an output is a symlink, so the output might land outside the repository."""


def temp_name(attempt: str, n: int) -> str:
    """The name of an attempt's `n`-th temporary file; it stands in the folder of what it will become."""
    return f".gitstate-{attempt}-{n}.tmp"


def is_temp(name: str) -> bool:
    """Whether a file of this name (or path) is one of our temporary files."""
    return _TEMP.fullmatch(os.path.basename(name)) is not None


def load_json(path: str) -> Optional[dict[str, Any]]:
    """The JSON object in a small file that tells more than it decides; None where there is none to be read."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def write_whole(
    path: str, data: bytes, temp: str, *, replace: bool, mode: int = 0o666, within: Optional[str] = None
) -> None:
    """Write a file durably, through the temporary file called `temp` in the same folder; makes its folders.

    `replace=False` never replaces: FileExistsError if anything, a broken symlink too, stands there by then.
    `within` is a root below which no folder of `path` may be a symlink (SymlinkInTheWay). `mode` goes under
    the umask. An OSError before the new name is there leaves the old file and no temporary one; one after
    that (the folder could not be flushed) leaves the new file whole, and not to be relied on.
    """
    (named,) = _write([New(path, data, temp, replace, within, mode=mode)], None)
    if not named:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


class New(NamedTuple):
    """A file to be written by `write_all`; its fields are the arguments of `write_whole`."""

    path: str
    data: bytes
    temp: str
    replace: bool
    within: Optional[str] = None
    is_free: Callable[[], bool] = lambda: True  # asked right before it gets its name: whether it still may
    mode: int = 0o666


def write_all(news: Sequence[New], disk: Barrier) -> list[bool]:
    """`write_whole` for several files: where `disk` can flush all at once, first their contents and then their names.

    Returns for each file whether it has its name: it has not where it was not free, or another stands there that is
    not to be replaced. Raises as `write_whole`; what has its name by then is whole, and not to be relied on.
    """
    if disk.one_by_one and len(news) > 1:
        from concurrent.futures import ThreadPoolExecutor  # which reading commands need not load

        with ThreadPoolExecutor(min(_AT_ONCE, len(news))) as pool:
            return [named for (named,) in pool.map(lambda new: _write([new], None), news)]
    parts = [news[start : start + _TOGETHER] for start in range(0, len(news), _TOGETHER)]
    return [named for part in parts for named in _write(part, disk if len(part) > 1 else None)]


def _write(news: Sequence[New], disk: Optional[Barrier]) -> list[bool]:
    """`write_all`, through `disk` where that reaches; else each file and folder is flushed by itself."""
    nameless: list[tuple[_Folder, str]] = []
    with ExitStack() as stack:
        pairs = [(stack.enter_context(_folder_of(new)), new) for new in news]
        by = {folder: disk if disk is not None and disk.reaches(folder.path) else None for folder, _ in pairs}
        try:
            for folder, new in pairs:
                folder.remove(new.temp)  # a leftover of our own: nobody else uses this name
                nameless.append((folder, new.temp))
                folder.create(new.temp, new.data, new.mode, by[folder])
            if disk is not None:
                disk.flush()
            named = []
            for folder, new in pairs:
                named.append(_name(folder, new))
                del nameless[0]
                folder.flush(by[folder])
            if disk is not None:
                disk.flush()
        except BaseException:
            for folder, temp in nameless:
                with contextlib.suppress(OSError):
                    folder.remove(temp)
            raise
    return named


def _folder_of(new: New) -> _Folder:
    if os.path.basename(new.temp) != new.temp:
        raise ValueError(f"not a file name: {new.temp!r}")
    return _Folder(os.path.dirname(os.path.abspath(new.path)), new.within)


def _name(folder: _Folder, new: New) -> bool:
    """Give a file its name, where that is free. Whether it has it."""
    name = os.path.basename(new.path)
    with contextlib.suppress(FileExistsError):
        if new.is_free():
            (folder.replace if new.replace else folder.rename_new)(new.temp, name)
            return True
    folder.remove(new.temp)
    return False


class _Folder:
    """An open folder, made if it was not there. Where the system allows, all steps go through its descriptor,
    so that a folder exchanged for a symlink meanwhile leads nowhere."""

    def __init__(self, path: str, within: Optional[str]) -> None:
        self.path = path
        self.descriptor: Optional[int] = None
        if within is None:
            start, parts = _existing(path)
        else:
            start = os.path.abspath(within)
            inside = os.path.relpath(path, start)
            if inside == os.pardir or inside.startswith(os.pardir + os.sep) or os.path.isabs(inside):
                raise ValueError(f"{path!r} is not below {within!r}")
            parts = [part for part in inside.split(os.sep) if part != os.curdir]
        if _AT:
            self._walk(start, parts)
        else:
            self._walk_by_path(start, parts, within is not None)

    def _walk(self, start: str, parts: list[str]) -> None:
        here = os.open(start, FOLDER)
        try:
            for n, part in enumerate(parts):
                try:
                    os.mkdir(part, dir_fd=here)
                    flush_folder(here)
                except FileExistsError:
                    pass
                try:
                    below = os.open(part, FOLDER | _NOFOLLOW, dir_fd=here)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        raise _in_the_way(os.path.join(start, *parts[: n + 1]), error) from error
                    raise
                os.close(here)
                here = below
        except BaseException:
            os.close(here)
            raise
        self.descriptor = here

    def _walk_by_path(self, start: str, parts: list[str], guarded: bool) -> None:
        here = start
        for part in parts:
            above, here = here, os.path.join(here, part)
            try:
                os.mkdir(here)
                flush_folder(above)
            except FileExistsError:
                if guarded and (os.path.islink(here) or not os.path.isdir(here)):
                    raise _in_the_way(here, None) from None

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _name(self, name: str) -> str:
        return name if self.descriptor is not None else os.path.join(self.path, name)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name(name), dir_fd=self.descriptor)

    def create(self, name: str, data: bytes, mode: int, disk: Optional[Barrier]) -> None:
        """A new file with this content, on the disk, or to be flushed with what else `disk` covers. After a failure it
        is good for nothing but removal."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
        descriptor = os.open(self._name(name), flags, mode, dir_fd=self.descriptor)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if disk is None:
                flush(descriptor)
            else:
                disk.cover(os.path.join(self.path, name))
        finally:
            os.close(descriptor)

    def replace(self, temp: str, name: str) -> None:
        """Give the file its name, in place of what has it."""
        for n in range(_BUSY_TRIES):
            try:
                os.replace(
                    self._name(temp), self._name(name), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor
                )
                return
            except PermissionError:
                if sys.platform != "win32" or n == _BUSY_TRIES - 1:
                    raise
                time.sleep(0.01 * 2**n)

    def rename_new(self, temp: str, name: str) -> None:
        """Give the file its name unless something has it (FileExistsError)."""
        if sys.platform == "win32":
            os.rename(self._name(temp), self._name(name))  # which does not replace there
            return
        old, new, fd = self._name(temp), self._name(name), self.descriptor
        try:
            os.link(old, new, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _rename_without_links(old, new, fd)
        else:
            self.remove(temp)

    def flush(self, disk: Optional[Barrier]) -> None:
        """The folder's names onto the disk, or to be flushed with what else `disk` covers."""
        if disk is None:
            flush_folder(self.descriptor if self.descriptor is not None else self.path)
        else:
            disk.cover_folder(self.path)


def _rename_without_links(old: str, new: str, descriptor: Optional[int]) -> None:
    """Rename without replacing on a file system that has no hard links (FAT, some network ones)."""
    done = _renameat2(old, new, descriptor)
    if done == 0:
        return
    if done not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(done, os.strerror(done), new)
    # Neither links nor an exclusive rename: look and then rename, which is as close as one gets here.
    with contextlib.suppress(FileNotFoundError):
        os.stat(new, dir_fd=descriptor, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
    os.rename(old, new, src_dir_fd=descriptor, dst_dir_fd=descriptor)


def _renameat2(old: str, new: str, descriptor: Optional[int]) -> int:
    """Linux's rename with RENAME_NOREPLACE; 0 or an errno."""
    import ctypes  # rarely needed, and slow to import

    at = -100 if descriptor is None else descriptor  # AT_FDCWD
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return errno.ENOSYS
    return ctypes.get_errno() if call(at, os.fsencode(old), at, os.fsencode(new), 1) else 0


def _existing(path: str) -> tuple[str, list[str]]:
    """The deepest folder of a path that is there, and the names below it that are not."""
    missing: list[str] = []
    while not os.path.isdir(path):
        path, name = os.path.split(path)
        missing.insert(0, name)
    return path, missing


def _in_the_way(path: str, error: Optional[OSError]) -> OSError | SymlinkInTheWay:
    if os.path.islink(path):
        return SymlinkInTheWay(
            f"{path} is a symlink, and outputs are not written through one.",
            "Replace it with a folder, or name another place for the output.",
        )
    return error or NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
