"""Forcing what was written onto the disk, and saying so only when it is there.

git fsyncs no folder and, by default, none of our objects; after a power cut a name may then be missing
or stand for an empty file. Everything that must survive one goes through here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable
from typing import Optional

Sync = Callable[[int], None]

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)  # how a folder is opened
_MOUNTS = "/proc/self/mountinfo"
# File systems of which the flush of the whole forces out all that was written. Others have a server that is told of the
# flush of a file and not of that (FUSE: fs/fuse/inode.c, `fuse_sync_fs`; with bindfs the call answers 0 and nothing
# happens), or have no word for it.
_WHOLE = {
    "bcachefs", "btrfs", "ceph", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "nfs", "nfs4", "nilfs2", "ntfs3",
    "overlay", "ramfs", "reiserfs", "tmpfs", "vfat", "xfs", "zfs",
}  # fmt: skip
_TELLS = (5, 8)  # the first Linux whose syncfs(2) tells of errors when writing
_ROOM = 65_536  # bytes; less than this is a full disk


def flush(descriptor: int) -> None:
    """Put an open file's content on the disk. Raises OSError; the caller must then throw the file away:
    the kernel counts the lost pages as clean, so a second fsync would "succeed"."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # a plain fsync leaves it in the drive's cache there
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    os.fsync(descriptor)


def flush_folder(folder: str | int) -> None:
    """Put a folder's names on the disk. EINVAL (network file systems) is tolerated; nothing else is."""
    if sys.platform == "win32":
        return  # a folder cannot be opened for that; NTFS journals its names
    descriptor = folder if isinstance(folder, int) else os.open(folder, FOLDER)
    try:
        flush(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        if descriptor is not folder:
            os.close(descriptor)


def has_no_room(folder: str) -> bool:
    """Whether the disk that holds a folder has hardly any room left (where the system tells)."""
    if not hasattr(os, "statvfs"):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize < _ROOM


def whole_filesystem() -> Optional[Sync]:
    """A function that flushes the file system of a descriptor (Linux's syncfs); None where there is none to rely on."""
    if sys.platform != "linux" or _version(os.uname().release) < _TELLS:
        return None
    import ctypes  # 4 ms that a reading command need not pay

    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None

    def sync(descriptor: int) -> None:
        while call(descriptor):
            code = ctypes.get_errno()
            if code != errno.EINTR:  # (nothing failed then; Python does the same for fsync)
                raise OSError(code, os.strerror(code))

    return sync


def _version(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


def _types() -> dict[int, str]:
    """The type of the file system of each device that is mounted, where the system tells; see proc_pid_mountinfo(5)."""
    found = {}
    with contextlib.suppress(OSError, ValueError, IndexError), open(_MOUNTS, "rb") as file:
        for line in file:
            mount, _, source = line.decode("ascii", "replace").partition(" - ")
            major, _, minor = mount.split(" ")[2].partition(":")
            found[os.makedev(int(major), int(minor))] = source.split(" ")[0]
    return found


class Barrier:
    """Collects what was written and flushes all of it at once.

    Where the kernel can flush a whole file system that is one call, and it covers what a killed earlier
    process wrote too; elsewhere each file and folder is flushed by itself. `sync` replaces the former
    (None: flush one by one).
    """

    def __init__(self, *roots: str, sync: Optional[Sync | bool] = True) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self._sync = sync
        self._roots = roots
        self._devices: dict[int, int] = {}  # device -> descriptor

    def begin(self) -> None:
        """To be called before the first write that is to be covered. The descriptors stay open from then on:
        the kernel reports an error of its background writeback to those that were open when it happened."""
        if self._sync is True:
            types = _types()
            kinds = {types.get(os.stat(root).st_dev) for root in self._roots}
            # (btrfs has devices that no mount names)
            self._sync = whole_filesystem() if kinds <= {*_WHOLE, None} else None
        if self._sync and not self._devices:
            for root in self._roots:
                device = os.stat(root).st_dev
                if device not in self._devices:
                    self._devices[device] = os.open(root, FOLDER)

    @property
    def one_by_one(self) -> bool:
        """Whether files have to be flushed singly; the writer then does so before it renames."""
        self.begin()
        return not self._sync

    def reaches(self, path: str) -> bool:
        """Whether a path is on a file system that is flushed as a whole: not where another is mounted below."""
        self.begin()
        return os.stat(path).st_dev in self._devices

    def cover(self, path: str) -> None:
        """A file that the next flush must make durable, its name included."""
        self.files.add(path)
        self.folders.add(os.path.dirname(path))

    def cover_folder(self, path: str) -> None:
        """A folder whose names the next flush must make durable."""
        self.folders.add(path)

    def flush(self) -> None:
        """Everything covered since the last flush is on the disk when this returns. Raises OSError, once:
        what was covered is then in doubt and must be written anew, never flushed again."""
        self.begin()
        files, folders = sorted(self.files), sorted(self.folders)
        self.files.clear()
        self.folders.clear()
        if callable(self._sync):
            try:
                for descriptor in self._devices.values():
                    self._sync(descriptor)
                return
            except OSError as error:
                if error.errno not in (errno.ENOSYS, errno.EPERM):
                    raise
                self._sync = None  # a sandbox forbids the call: nothing was tried yet
        for path in files:
            _flush_file(path)
        for folder in folders:
            flush_folder(folder)

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in self._devices.values():
            os.close(descriptor)
        self._devices.clear()


def _flush_file(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return  # gone by now (git packs loose objects and refs, and fsyncs what it packs)
    try:
        flush(descriptor)
    except OSError as error:
        if not (sys.platform == "win32" and error.errno == errno.EBADF):
            raise  # (on Windows it cannot be flushed when opened for reading; the writer did it)
    finally:
        os.close(descriptor)
