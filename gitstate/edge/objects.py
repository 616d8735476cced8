"""git's object store: reading through one process that stays, writing without any.

What is written becomes durable at `barrier()`, and only then may a ref name it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Optional

from gitstate.edge.child import Child
from gitstate.edge.disk import Barrier, flush
from gitstate.edge.git import DURABLE, Done, Git, failed, stream
from gitstate.edge.repo import Repository
from gitstate.edge.tree import Cache
from gitstate.errors import CorruptState, GitFailed, GitstateError, NeedsHuman

# A partial clone would otherwise fetch what it lacks object by object.
_LETTER = b"tree %s\nauthor gitstate <gitstate> 0 +0000\ncommitter gitstate <gitstate> 0 +0000\n\n"
_NO_FETCH = {"GIT_NO_LAZY_FETCH": "1"}

_OURS = re.compile(r"tmp_obj_\d+_\d+")  # our temporary files, and none of git's

Found = Optional[tuple[str, bytes]]  # (type, content), or None: not there


class Objects:
    """The objects of one repository. Safe to use from several threads.

    `disk` holds what the next barrier makes durable; `trees` the parsed trees of `edge.tree`.
    """

    def __init__(self, git: Git, repository: Repository, *, disk: Optional[Barrier] = None) -> None:
        self.git = git
        self.format = repository.format
        self._digest = getattr(
            hashlib, repository.format
        )  # (`hashlib.new` takes as long as hashing a small object)
        self.width = 20 if repository.format == "sha1" else 32
        self.trees = Cache()
        self.folder = os.path.join(repository.common_dir, "objects")
        self.disk = disk if disk is not None else Barrier(self.folder, repository.root)
        self._written: set[str] = set()  # loose objects since the last barrier, to be thrown away if it fails
        self._shared: Optional[bool] = None
        self._child: Optional[Child] = None
        self._packs = 0
        self._count = 0
        self._lock = threading.RLock()

    # Reading

    def read(self, name: str) -> Found:
        """Type and content of what `name` (an id, `HEAD:path`, any revision) stands for; None if missing."""
        answer = self._ask(b"contents", name)
        return (answer[0][1].decode("ascii"), answer[1]) if answer is not None else None

    def resolve(self, name: str) -> Optional[str]:
        """The object id that `name` stands for; None if there is no such object here."""
        answer = self._ask(b"info", name)
        return answer[0][0].decode("ascii") if answer is not None else None

    def read_many(self, names: Iterable[str]) -> Iterator[Found]:
        """`read` for any number of names, in their order, streamed through one process of its own."""
        requests = [_request(name) + b"\n" for name in names]
        done = 0
        while done < len(requests):
            try:
                for found in self._stream(requests[done:]):
                    done += 1
                    yield found
            except GitFailed as error:
                if not _promised(error):
                    raise self._at(os.fsdecode(requests[done].rstrip()), error) from error
                done += 1  # git ends at an object that a partial clone left out; the rest is asked of another
                yield None

    def _stream(self, requests: Sequence[bytes]) -> Iterator[Found]:
        process = self.git.start("cat-file", "--batch", "--buffer", env=_NO_FETCH)
        words: list[bytes] = []
        # Writing, and draining the errors, beside reading: nobody waits for anybody with a full pipe.
        threads = [
            threading.Thread(target=_feed, args=(stream(process, "stdin"), b"".join(requests)), daemon=True),
            threading.Thread(target=lambda: words.append(stream(process, "stderr").read()), daemon=True),
        ]
        for thread in threads:
            thread.start()
        complete = False
        try:
            answer = io.BufferedReader(io.FileIO(stream(process, "stdout").fileno(), closefd=False), 1 << 18)
            for _ in requests:
                header = _header(answer.readline())
                size = int(header[2]) if header is not None else 0
                data = answer.read(size + 1) if header is not None else b"\n"
                if len(data) != size + 1:
                    raise EOFError
                yield (header[1].decode("ascii"), data[:-1]) if header is not None else None
            complete = True
        except EOFError:
            complete = True
            code = process.wait()
            threads[1].join()
            done = Done(code, b"", b"".join(words).decode("utf-8", "replace"))
            raise failed(("cat-file", "--batch"), done) from None
        finally:
            if not complete:
                process.terminate()
            for thread in threads:
                thread.join()
            process.wait()
            for name in ("stdin", "stdout", "stderr"):
                with contextlib.suppress(OSError):
                    stream(process, name).close()

    def lacking(self, oid: str, what: str) -> NeedsHuman:
        """The error for an object that reading did not bring: why, and the way to it. `what` says what it is of."""
        path = self._path(oid)
        if os.path.lexists(path):
            return CorruptState(
                f"{path}: {what} cannot be read back; the file is damaged.",
                "Move that file away, then get it anew: git fetch --refetch. See all that is damaged: git fsck",
            )
        if self.git.promisor:
            return NeedsHuman(
                f"{what[0].upper()}{what[1:]} ({oid}) is not in this partial clone.",
                "Fetch all that is missing in one go: gitstate sync",
            )
        return CorruptState(
            f"{what[0].upper()}{what[1:]} ({oid}) is not in this clone, where it should be.",
            "Look with `git fsck`. If a remote has it: git fetch --refetch",
        )

    def _at(self, name: str, error: GitFailed) -> GitstateError:
        """git's failure at an object, in words with a way out where the object's file is to blame."""
        is_loose = len(name) == 2 * self.width and os.path.lexists(self._path(name))
        if is_loose:
            return self.lacking(name, "an object")
        return GitFailed(f"{error.message} (looking for {name})", "See what is damaged: git fsck")

    def _ask(self, command: bytes, name: str) -> Optional[tuple[list[bytes], bytes]]:
        """Header and content of the answer; asked again if an interrupt ended the child."""
        request = b"%s %s\n" % (command, _request(name))
        with self._lock:
            while True:
                fresh = self._child is None or not self._child.alive
                if fresh:
                    self._start()
                assert self._child is not None
                try:
                    self._child.send(request)
                    header = _header(self._child.line() + b"\n")
                    if header is None:
                        return None
                    size = int(header[2]) + 1 if command == b"contents" else 0
                    return header, self._child.take(size)[:-1]
                except GitFailed as error:
                    self._child = None
                    if _promised(error):
                        return None
                    if fresh:
                        raise self._at(name, error) from error
                except BaseException:
                    self._stop()  # half an answer may be left in the pipe, and must not pass for the next one
                    raise

    def _start(self) -> None:
        self._packs = self._packs_seen()
        self._child = Child(self.git, "cat-file", "--batch-command", env=_NO_FETCH)

    def _stop(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _packs_seen(self) -> int:
        try:
            return os.stat(os.path.join(self.folder, "pack")).st_mtime_ns
        except FileNotFoundError:
            return 0

    # Writing

    def oid(self, kind: str, data: bytes) -> str:
        """The id that an object of this type and content has; nothing is written."""
        return self._hash(b"%s %d\0" % (kind.encode("ascii"), len(data)), data)

    def write(self, kind: str, data: bytes, *, new: bool = False) -> str:
        """See that the object is in the store and under the next barrier; returns its id. Raises OSError.

        `new`: it is hardly ever there already, so packs are not looked through for it. So are commits and trees.
        """
        head = b"%s %d\0" % (kind.encode("ascii"), len(data))
        oid = self._hash(head, data)
        with self._lock:
            self.disk.begin()
            if not self.rely(oid) and (new or kind != "blob" or not self._packed(oid)):
                if self._is_shared():
                    self._write_by_git(kind, data)
                else:
                    self._write_loose(oid, zlib.compress(head + data, 1))
        return oid

    def letter(self, text: bytes) -> str:
        """A commit on an empty tree that says `text` and nothing else, for a branch to hold: its id. Raises OSError."""
        tree = self.write("tree", b"")
        return self.write("commit", _LETTER % tree.encode() + text)

    def rely(self, oid: str) -> bool:
        """Whether a sound loose object stands under this id; if so the next barrier covers it.

        A run that a power cut ended may have left the name without the content: such a file is no object,
        is removed, and does not count. What stands is freshened, so that git's clean-up leaves it alone.
        """
        path = self._path(oid)
        with self._lock:
            try:
                with open(path, "rb") as file:
                    raw = zlib.decompress(file.read())
            except FileNotFoundError:
                return False
            except zlib.error:
                raw = b""
            if self._hash(raw) != oid:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                return False
            with contextlib.suppress(OSError):  # somebody else's file in a shared repository
                os.utime(path)
            self._cover(path)
            return True

    def _packed(self, oid: str) -> bool:
        # A process that stays still sees packs that were deleted since it started, and what only they held.
        if self._packs != self._packs_seen():
            self._stop()
        return self._ask(b"info", oid) is not None

    def _write_loose(self, oid: str, packed: bytes) -> None:
        path = self._path(oid)
        folder = os.path.dirname(path)
        descriptor, temp = self._temp(folder)
        try:
            try:
                view = memoryview(packed)
                while view:
                    view = view[os.write(descriptor, view) :]
                if self.disk.one_by_one:
                    flush(descriptor)
            finally:
                os.close(descriptor)
            with contextlib.suppress(FileExistsError):  # on Windows, where it does not replace: same content
                os.rename(temp, path)
                temp = ""
        finally:
            if temp:
                with contextlib.suppress(OSError):
                    os.unlink(temp)
        self._written.add(path)
        self._cover(path)

    def _temp(self, folder: str) -> tuple[int, str]:
        """A new file such as git itself makes there (0444, umask), and cleans up when it is left over."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        while True:
            self._count += 1
            temp = f"{folder}{os.sep}tmp_obj_{os.getpid()}_{self._count}"
            try:
                return os.open(temp, flags, 0o444), temp
            except FileExistsError:
                continue  # left by a dead process that had our number
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder)

    def _is_shared(self) -> bool:
        """Whether the repository has its own permissions (core.sharedRepository); then git writes for us."""
        if self._shared is None:
            value = self.git.text("config", "--get", "core.sharedRepository", check=False).lower()
            self._shared = value not in ("", "false", "no", "off", "0", "umask")
        return self._shared

    def _write_by_git(self, kind: str, data: bytes) -> None:
        done = self.git.run(*DURABLE, "hash-object", "-w", "--stdin", "-t", kind, stdin=data)
        if not self.rely(done.out.decode("ascii").strip()):
            raise CorruptState("git wrote an object that cannot be read back.", "Look with: git fsck.")

    def _path(self, oid: str) -> str:
        return f"{self.folder}{os.sep}{oid[:2]}{os.sep}{oid[2:]}"

    def _hash(self, *parts: bytes) -> str:
        digest = self._digest(usedforsecurity=False)
        for part in parts:
            digest.update(part)
        return str(digest.hexdigest())

    def _cover(self, path: str) -> None:
        self.disk.cover(path)
        self.disk.cover_folder(self.folder)  # the fan-out folder may be new

    # Durability

    def barrier(self) -> None:
        """All that was written or relied on so far is on the disk, names included, when this returns.

        Raises OSError if the disk refuses; what was written since the last barrier is then thrown away,
        because the kernel would show it from memory although it never reached the disk.
        """
        with self._lock:
            try:
                self.disk.flush()
            except OSError:
                for path in self._written:
                    with contextlib.suppress(OSError):
                        os.unlink(path)
                raise
            finally:
                self._written.clear()

    def sweep(self) -> None:
        """Remove the half-written objects that killed runs left; to be called only under the run lock."""
        for folder in os.scandir(self.folder):
            if len(folder.name) == 2:
                for entry in os.scandir(folder.path):
                    if _OURS.fullmatch(entry.name):
                        with contextlib.suppress(OSError):
                            os.unlink(entry.path)

    def close(self) -> None:
        """End the process and give the descriptors back."""
        with self._lock:
            self._stop()
            self.disk.close()


def _promised(error: GitFailed) -> bool:
    """Whether git ended at an object that a partial clone left out (we forbid it to fetch just that)."""
    return "promisor" in error.message


def _request(name: str) -> bytes:
    if "\n" in name:
        raise ValueError("a name with a newline cannot be asked for")
    return os.fsencode(name)


def _header(line: bytes) -> Optional[list[bytes]]:
    """`ID TYPE SIZE` of an answer; None where there is no such object. Raises EOFError without an answer."""
    if not line.endswith(b"\n"):
        raise EOFError
    fields = line[:-1].split(b" ")
    if line.endswith((b" missing\n", b" submodule\n")):
        return None
    if len(fields) == 3 and fields[2].isdigit():
        return fields
    raise CorruptState(f"git cannot tell what this is: {line.decode('utf-8', 'replace').strip()}")


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):
        pipe.write(data)
    with contextlib.suppress(OSError, ValueError):
        pipe.close()
