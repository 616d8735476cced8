"""Stop a program at the K-th mutating system call of its whole process tree.

A seccomp filter hands the calls that change files, of the program and of all its descendants, to this
process, which counts them in one global order and then lets each through, fails it with an errno, or kills.
Linux only; no root and no ptrace. The stopped process can be looked into before the call runs: `writes`.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Optional

# name: (x86-64's number, aarch64's number; None where the kernel has none there, what its arguments mean).
# Meaning: "fN": argument N is a descriptor; "aN": N is a folder's descriptor and N+1 a name below it; "pN": N is a
# name below the working folder. Two of them: from, to.
_CALLS: dict[str, tuple[Optional[int], Optional[int], tuple[str, ...]]] = {
    "write": (1, 64, ("f0",)),
    "writev": (20, 66, ("f0",)),
    "pwrite64": (18, 68, ("f0",)),
    "pwritev": (296, 70, ("f0",)),
    "pwritev2": (328, 287, ("f0",)),
    "sendfile": (40, 71, ("f0",)),
    "copy_file_range": (326, 285, ("f2",)),
    "splice": (275, 76, ("f2",)),
    "open": (2, None, ("p0",)),
    "creat": (85, None, ("p0",)),
    "openat": (257, 56, ("a0",)),
    "openat2": (437, 437, ("a0",)),
    "truncate": (76, 45, ("p0",)),
    "ftruncate": (77, 46, ("f0",)),
    "fallocate": (285, 47, ("f0",)),
    "rename": (82, None, ("p0", "p1")),
    "renameat": (264, 38, ("a0", "a2")),
    "renameat2": (316, 276, ("a0", "a2")),
    "link": (86, None, ("p0", "p1")),
    "linkat": (265, 37, ("a0", "a2")),
    "symlink": (88, None, ("p1",)),
    "symlinkat": (266, 36, ("a1",)),
    "unlink": (87, None, ("p0",)),
    "unlinkat": (263, 35, ("a0",)),
    "mkdir": (83, None, ("p0",)),
    "mkdirat": (258, 34, ("a0",)),
    "rmdir": (84, None, ("p0",)),
    "mknod": (133, None, ("p0",)),
    "mknodat": (259, 33, ("a0",)),
    "chmod": (90, None, ("p0",)),
    "fchmod": (91, 52, ("f0",)),
    "fchmodat": (268, 53, ("a0",)),
    "utime": (132, None, ("p0",)),
    "utimes": (235, None, ("p0",)),
    "utimensat": (280, 88, ("a0",)),
    "fsync": (74, 82, ("f0",)),
    "fdatasync": (75, 83, ("f0",)),
    "sync_file_range": (277, 84, ("f0",)),
    "syncfs": (306, 267, ("f0",)),
}
_OPENS = {"open": 1, "openat": 2}  # which argument holds the flags
_MACHINES = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}  # column, audit number, seccomp
_IO_URING_SETUP = 425  # refused: what goes through a ring is not seen here

_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_AT_FDCWD = 0xFFFFFF9C
_USER_NOTIF, _ALLOW, _ERRNO = 0x7FC00000, 0x7FFF0000, 0x00050000
_NEW_LISTENER, _WAIT_KILLABLE = 8, 32
_RECV, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_libc = ctypes.CDLL(None, use_errno=True)

Verdict = Optional[int | Literal["kill-tree", "kill-caller", "kill-parent"]]
Program = Sequence[str] | Callable[[], int]


class Call(NamedTuple):
    """One mutating call, stopped before it runs."""

    seq: int  # 1, 2, 3 ... over the whole tree
    pid: int  # of the calling thread
    name: str
    paths: tuple[str, ...]  # absolute; from and to for renames and links; one else
    args: tuple[int, ...]
    flags: int = 0  # of an open

    @property
    def path(self) -> str:
        """The file that is changed: the new name of a rename or link."""
        return self.paths[-1]

    @property
    def mutates(self) -> bool:
        """Whether it can change anything on the disk: not so an open that neither makes nor empties a file."""
        return self.name not in ("open", "openat", "openat2") or bool(self.flags & (os.O_CREAT | os.O_TRUNC))


class Result(NamedTuple):
    """A supervised run."""

    calls: list[Call]
    code: int  # the first process's exit code; negative: the signal that ended it
    hit: Optional[Call]  # the call at which a verdict other than None was given first


class Write(NamedTuple):
    """What a stopped write call is about to put where."""

    offset: Optional[int]  # None: to the end of the file (O_APPEND)
    data: bytes


class Stuck(TimeoutError):
    """The program did not end in time; everything of it was killed."""


def available() -> str:
    """'' where this works, else why not."""
    if sys.platform != "linux":
        return f"{sys.platform} has no seccomp"
    if platform.machine() not in _MACHINES:
        return f"no table of system calls for {platform.machine()}"
    try:
        with open("/proc/sys/kernel/seccomp/actions_avail", encoding="ascii") as file:
            return "" if "user_notif" in file.read() else "this kernel has no seccomp user notification"
    except OSError as error:
        return f"no seccomp here: {error}"


def run(
    program: Program,
    roots: str | Iterable[str],
    decide: Callable[[Call], Verdict] = lambda call: None,
    *,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[str] = None,
    output: Optional[str] = None,
    timeout: float = 120.0,
    while_held: Optional[Callable[[Call], None]] = None,
) -> Result:
    """Run a command, or a function in a forked child, and ask `decide` at every call on a file below `roots`.

    `decide` returns None (let it happen), an errno (fail it), "kill-tree" (the machine stops: every process of
    the tree dies before the call, those in sessions of their own too), "kill-caller" (the calling process dies),
    or "kill-parent" (the first process dies, the others go on). In the last case `while_held` is called, with
    the caller still stopped, before the caller goes on. Returns when the last process of the tree has ended.
    `output` is a file that gets standard output and error. Raises Stuck.
    """
    where = tuple(os.path.realpath(root) for root in ([roots] if isinstance(roots, str) else roots))
    _libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to us, wherever they moved to
    before = set(_children(os.getpid()))
    ours, theirs = socket.socketpair()
    first = os.fork()
    if first == 0:
        ours.close()
        _child(theirs, program, env, cwd, output)
    theirs.close()
    try:
        listener = socket.recv_fds(ours, 1, 1)[1][0]
    except (OSError, IndexError):
        os.waitpid(first, 0)
        raise RuntimeError("the supervised child died before it could start") from None
    finally:
        ours.close()
    tree = _Tree(first, before)
    try:
        calls, hit = _serve(listener, tree, where, decide, timeout, while_held)
    except BaseException:
        tree.kill()
        raise
    finally:
        os.close(listener)
    return Result(calls, tree.code(), hit)


def plain(
    program: Program,
    *,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[str] = None,
    output: Optional[str] = None,
) -> int:
    """The same without looking: run to the end of the first process; returns its exit code, or minus a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(start(program, env=env, cwd=cwd, output=output), 0)[1])


def start(
    program: Program,
    *,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[str] = None,
    output: Optional[str] = None,
) -> int:
    """Start it, in a session of its own, and return its pid."""
    pid = os.fork()
    if pid == 0:
        _child(None, program, env, cwd, output)
    return pid


def _serve(
    listener: int,
    tree: _Tree,
    roots: tuple[str, ...],
    decide: Callable[[Call], Verdict],
    timeout: float,
    while_held: Optional[Callable[[Call], None]],
) -> tuple[list[Call], Optional[Call]]:
    names = {number: name for name, number in _numbers().items()}
    calls: list[Call] = []
    hit: Optional[Call] = None
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    end = time.monotonic() + timeout
    while True:
        ready = poll.poll(100)
        if time.monotonic() > end:
            raise Stuck(f"still running after {timeout} s and {len(calls)} calls")
        if not ready:
            tree.reap()
            continue
        if not ready[0][1] & select.POLLIN:
            return calls, hit  # the last process with the filter has gone
        notice = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECV, notice)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue  # the caller died meanwhile
            raise
        ident, pid, _, number = struct.unpack_from("=QIIi", notice)
        call = _describe(len(calls) + 1, pid, names[number], struct.unpack_from("=6Q", notice, 32))
        verdict: Verdict = None
        if call is not None and any(_below(path, roots) for path in call.paths):
            calls.append(call)
            verdict = decide(call)
            hit = call if verdict is not None and hit is None else hit
        if verdict == "kill-tree":
            tree.kill()
            continue
        if verdict == "kill-caller":
            os.kill(pid, signal.SIGKILL)
            continue
        if verdict == "kill-parent":
            tree.kill_first()
            if call is not None and while_held is not None and not tree.is_first(pid):
                while_held(call)
            verdict = None
        assert verdict is None or isinstance(verdict, int)
        answer = (0, _CONTINUE) if verdict is None else (-verdict, 0)
        try:
            fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", ident, 0, *answer))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise


class _Tree:
    """The first process and all that descend from it. What loses its parent becomes a child of ours."""

    def __init__(self, first: int, before: set[int]) -> None:
        self._first, self._before = first, before
        self._status: Optional[int] = None

    def is_first(self, thread: int) -> bool:
        return _group_of(thread) in (self._first, 0)

    def kill_first(self) -> None:
        """Only the first process dies; returns when it has."""
        os.kill(self._first, signal.SIGKILL)
        if self._status is None:
            self._status = os.waitpid(self._first, 0)[1]

    def kill(self) -> None:
        """Everything dies. None of it can change a file meanwhile: nobody answers its calls any more."""
        while True:
            living = self._living()
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            if not living:
                return
            time.sleep(0.001)

    def _living(self) -> list[int]:
        parents = _parents()
        roots = {self._first} | {
            pid for pid, (up, _) in parents.items() if up == os.getpid() and pid not in self._before
        }
        found = set(roots)
        while True:
            more = {pid for pid, (up, _) in parents.items() if up in found} - found
            if not more:
                break
            found |= more
        return [pid for pid in found if pid in parents and parents[pid][1] not in "ZX"]

    def reap(self) -> None:
        """Take leave of the orphans that came to us and ended, and of the first process."""
        for pid in _children(os.getpid()):
            if pid in self._before:
                continue
            with contextlib.suppress(ChildProcessError):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done == self._first:
                    self._status = status

    def code(self) -> int:
        """How the first process ended. The others have ended too, and are reaped."""
        if self._status is None:
            self._status = os.waitpid(self._first, 0)[1]
        self.reap()
        return os.waitstatus_to_exitcode(self._status)


def _parents() -> dict[int, tuple[int, str]]:
    """Parent and state of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                found[int(name)] = (int(parent), state.decode())
    return found


def _children(pid: int) -> list[int]:
    return [child for child, (parent, _) in _parents().items() if parent == pid]


def _group_of(thread: int) -> int:
    """The process that a thread belongs to; 0 if it has gone."""
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("Tgid:"):
                return int(line.split()[1])
    return 0


def _below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)


# --- the child ----------------------------------------------------------------------------------------------------


def _child(
    sock: Optional[socket.socket],
    program: Program,
    env: Optional[Mapping[str, str]],
    cwd: Optional[str],
    output: Optional[str],
) -> None:
    code = 126
    try:
        os.setsid()
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        if cwd is not None:
            os.chdir(cwd)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        out = null if output is None else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if sock is not None:
            listener = _install()
            sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
            os.close(listener)
            sock.close()
        if callable(program):
            code = program()
            sys.stdout.flush()
            sys.stderr.flush()
        else:
            os.execvp(program[0], list(program))
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _install() -> int:
    """Put the filter on this process and all it starts; returns the descriptor that hears of their calls."""
    code = ctypes.create_string_buffer(_filter())
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(code))
    _libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    number = _MACHINES[platform.machine()][2]
    # A signal must not interrupt a call that waits for our answer: it would be made, and counted, twice.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = int(_libc.syscall(number, 1, flags, program))
        if listener >= 0:
            return listener
    raise OSError(ctypes.get_errno(), "seccomp")


def _numbers() -> dict[str, int]:
    column = _MACHINES[platform.machine()][0]
    found = {name: row[column] for name, row in _CALLS.items()}
    return {name: number for name, number in found.items() if number is not None}


def _filter() -> bytes:
    """In BPF: opens are of interest when they are for writing; the calls of the table always."""

    def op(code: int, yes: int, no: int, value: int) -> bytes:
        return struct.pack("HBBI", code, yes, no, value)

    load, equal, any_bit, answer = 0x20, 0x15, 0x45, 0x06
    ops = [
        op(load, 0, 0, 4),
        op(equal, 1, 0, _MACHINES[platform.machine()][1]),
        op(answer, 0, 0, _ALLOW),  # another machine's calls (32-bit) are not known here
        op(load, 0, 0, 0),
        op(equal, 0, 1, _IO_URING_SETUP),
        op(answer, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for name, number in _numbers().items():
        if name in _OPENS:
            ops += [
                op(equal, 0, 4, number),
                op(load, 0, 0, 16 + 8 * _OPENS[name]),
                op(any_bit, 0, 1, _FOR_WRITING),
            ]
            ops += [op(answer, 0, 0, _USER_NOTIF), op(answer, 0, 0, _ALLOW)]
        else:
            ops += [op(equal, 0, 1, number), op(answer, 0, 0, _USER_NOTIF)]
    return b"".join([*ops, op(answer, 0, 0, _ALLOW)])


# --- looking into the stopped process -----------------------------------------------------------------------------


def _describe(seq: int, pid: int, name: str, args: tuple[int, ...]) -> Optional[Call]:
    """The call in words; None where its files cannot be told (it would fail, or the caller died)."""
    try:
        paths = tuple(_path(pid, int(meaning[1]), meaning[0], args) for meaning in _CALLS[name][2])
        flags = 0
        if name in _OPENS:
            flags = args[_OPENS[name]]
        elif name == "creat":
            flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY
        elif name == "openat2":
            flags = struct.unpack("=Q", memory(pid, args[2], 8))[0]
            if not flags & _FOR_WRITING:
                return None
    except OSError:
        return None
    return Call(seq, pid, name, paths, args, flags)


def _path(pid: int, at: int, kind: str, args: tuple[int, ...]) -> str:
    if kind == "f":
        return _of_descriptor(pid, args[at])
    given = text(pid, args[at if kind == "p" else at + 1]) if args[at if kind == "p" else at + 1] else ""
    if given.startswith("/"):
        full = given
    elif kind == "p" or args[at] & 0xFFFFFFFF == _AT_FDCWD:
        full = os.path.join(os.readlink(f"/proc/{pid}/cwd"), given)
    else:
        full = os.path.join(_of_descriptor(pid, args[at]), given).rstrip("/")
    folder, last = os.path.split(os.path.normpath(full))
    return os.path.join(os.path.realpath(folder), last)


def _of_descriptor(pid: int, descriptor: int) -> str:
    return os.readlink(f"/proc/{pid}/fd/{descriptor & 0xFFFFFFFF}").removesuffix(" (deleted)")


def memory(pid: int, address: int, size: int) -> bytes:
    """`size` bytes of a stopped process, from `address`."""
    found = b""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        while len(found) < size and (more := file.read(size - len(found))):
            found += more
    return found


def text(pid: int, address: int) -> str:
    """The zero-ended string at an address of a stopped process."""
    found = b""
    while b"\0" not in found:
        # Never across the end of a page: the next one may not be there.
        more = memory(pid, address + len(found), 4096 - (address + len(found)) % 4096)
        if not more:
            raise OSError(errno.EFAULT, "no string there")
        found += more
    return os.fsdecode(found.partition(b"\0")[0])


def writes(call: Call) -> Optional[Write]:
    """What a stopped write call is about to write; None for any other call."""
    pid, name, a = call.pid, call.name, call.args
    if name in ("write", "pwrite64"):
        return Write(a[3] if name == "pwrite64" else _offset(pid, a[0]), memory(pid, a[1], a[2]))
    if name in ("writev", "pwritev", "pwritev2"):
        vector = memory(pid, a[1], 16 * a[2])
        parts = [memory(pid, *struct.unpack_from("=QQ", vector, 16 * n)) for n in range(a[2])]
        at = _offset(pid, a[0]) if name == "writev" or a[3] == 2**64 - 1 else a[3]
        return Write(at, b"".join(parts))
    if name == "sendfile":
        return Write(_offset(pid, a[0]), _source(pid, a[1], a[2], a[3]))
    if name == "copy_file_range":
        at = struct.unpack("=q", memory(pid, a[3], 8))[0] if a[3] else _offset(pid, a[2])
        return Write(at, _source(pid, a[0], a[1], a[4]))
    return None


def _offset(pid: int, descriptor: int) -> Optional[int]:
    info = _info(pid, descriptor)
    return None if int(info["flags"], 8) & os.O_APPEND else int(info["pos"])


def _source(pid: int, descriptor: int, pointer: int, size: int) -> bytes:
    at = struct.unpack("=q", memory(pid, pointer, 8))[0] if pointer else int(_info(pid, descriptor)["pos"])
    with open(f"/proc/{pid}/fd/{descriptor & 0xFFFFFFFF}", "rb") as file:
        file.seek(at)
        return file.read(size)


def _info(pid: int, descriptor: int) -> dict[str, Any]:
    with open(f"/proc/{pid}/fdinfo/{descriptor & 0xFFFFFFFF}", encoding="ascii") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def command_of(pid: int) -> list[str]:
    """The command line of a process, its program without the folder; [] if it has gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")[:-1]
    except OSError:
        return []
    return [os.path.basename(word) if n == 0 else word for n, word in enumerate(words)]
