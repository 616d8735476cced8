"""Speaking to git: one place that starts its processes, with a clean and pinned environment.

Nothing here decides anything; callers get bytes and exit codes. Plumbing only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import IO, NamedTuple, Optional

from gitstate.errors import GitFailed, UsageError

# Set by git inside hooks and by tests; each would point us at another repository or switch durability off.
FOREIGN = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_TEST_FSYNC",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NOTES_REF",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_FLUSH",
)

# git's default fsyncs neither loose objects nor refs; it needs 2.36 for this.
DURABLE = ("-c", "core.fsync=committed,reference,index", "-c", "core.fsyncMethod=fsync")


class Done(NamedTuple):
    """A finished git process: exit code, standard output, standard error as text."""

    code: int
    out: bytes
    err: str


# What git sets for its hooks to see the commit in the making, and the repository that it is made in.
_HOOK = (
    "GIT_INDEX_FILE",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)


def environment(keep_index: bool = False) -> dict[str, str]:
    """The environment of our git children: this process's own without what points elsewhere.

    `keep_index` keeps GIT_INDEX_FILE and its like, which a hook must honour to see what is being committed.
    """
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    if keep_index:
        env.update({name: os.environ[name] for name in _HOOK if name in os.environ})
    env["GIT_OPTIONAL_LOCKS"] = "0"
    env["GIT_NO_REPLACE_OBJECTS"] = (
        "1"  # replacements are one clone's private view, and ids must mean content
    )
    env["LC_ALL"] = "C"
    return env


_network: set[subprocess.Popen[bytes]] = set()  # processes that may wait for the network
_allowed = True
_LOOK = 1.0  # seconds between looks whether one of them has ended
_LONGEST = 900.0  # seconds that one of them may take: a line that is dead says nothing


def end_network(for_good: bool = False) -> None:
    """End the git processes that may be waiting for the network, and with `for_good` all that are started until
    `allow_network`; whoever started them finds the remote away. May be called from a signal handler."""
    global _allowed
    _allowed = _allowed and not for_good
    for process in list(_network):
        with contextlib.suppress(OSError):
            process.terminate()


def allow_network() -> None:
    """Let git ask the network again."""
    global _allowed
    _allowed = True


@contextlib.contextmanager
def _at_work(process: subprocess.Popen[bytes]) -> Iterator[None]:
    _network.add(process)
    timer = threading.Timer(_LONGEST, process.terminate)
    timer.daemon = True
    timer.start()
    if not _allowed:
        process.terminate()
    try:
        yield
    finally:
        timer.cancel()
        _network.discard(process)


def _heard(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What a process writes until it has ended, though what it had started lives on and holds its streams: the other
    side of a push that was ended, say, which works off a hook.

    For processes that are given nothing: after a time-out `communicate` of Python 3.11 gives the rest no more.
    """
    while True:
        has_ended = process.poll() is not None
        try:
            return process.communicate(timeout=_LOOK)
        except subprocess.TimeoutExpired as late:
            if has_ended:
                return late.output or b"", late.stderr or b""


class Git:
    """git in one directory. `inherit` are descriptors (the run lock's) that children keep open."""

    def __init__(self, root: str, *, keep_index: bool = False, inherit: Sequence[int] = ()) -> None:
        self.root = root
        self.env = environment(keep_index)
        self.inherit = tuple(inherit)

    @cached_property
    def common_dir(self) -> str:
        """The folder of the repository that all its working trees share; its absolute path."""
        return self.text("rev-parse", "--path-format=absolute", "--git-common-dir")

    @cached_property
    def promisor(self) -> str:
        """The remote that holds what this clone left out, being a partial one; "" for a clone that is whole."""
        settings = ("--type=bool", "--get-regexp", r"^remote\..*\.promisor$")
        listed = self.text("config", *settings, check=False).splitlines()
        names = [line[len("remote.") : -len(".promisor true")] for line in listed if line.endswith(" true")]
        return names[0] if names else ""

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Optional[Mapping[str, str]] = None,
        check: bool = True,
        interruptible: bool = False,
    ) -> Done:
        """Run `git ARGS` to its end. Raises GitFailed on a non-zero exit unless `check` is off.

        Under the lock, what ends gitstate in order does not end its git children, which it needs for that, unless
        they are `interruptible`.
        """
        process = self.start(*args, env=env, interruptible=interruptible)
        with _at_work(process) if interruptible else contextlib.nullcontext():
            out, err = _heard(process) if interruptible and not stdin else process.communicate(stdin)
        done = Done(process.returncode, out, err.decode("utf-8", "replace"))
        if check and done.code:
            raise failed(args, done)
        return done

    def start(
        self, *args: str, env: Optional[Mapping[str, str]] = None, interruptible: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start `git ARGS` with pipes on all three streams; the caller ends it. See `run`."""
        try:
            with contextlib.nullcontext() if interruptible or not self.inherit else shielded():
                return subprocess.Popen(
                    ("git", *args),
                    cwd=self.root,
                    env={**self.env, **env} if env else self.env,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=self.inherit,
                )
        except FileNotFoundError as error:
            if os.path.isdir(self.root):
                raise UsageError("git is not on PATH.", "Install git 2.36 or later.") from error
            raise

    def text(self, *args: str, check: bool = True) -> str:
        """`git ARGS`'s standard output as text without its final newline; '' if it failed unchecked."""
        done = self.run(*args, check=check)
        return os.fsdecode(done.out).rstrip("\n") if not done.code else ""


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """What is started meanwhile, by this thread, is not ended by a Ctrl-C, a closed terminal or SIGTERM, from its
    first instant on: a mask is inherited, and is this thread's alone."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def failed(args: Iterable[str], done: Done) -> GitFailed:
    """The error for a git command that should have worked, in git's own words."""
    words = done.err.strip() or f"exit code {done.code}"
    return GitFailed(f"git {' '.join(args)}: {words}")


def stream(process: subprocess.Popen[bytes], name: str) -> IO[bytes]:
    """One of a started process's pipes, for the type checker's peace."""
    pipe: Optional[IO[bytes]] = getattr(process, name)
    assert pipe is not None
    return pipe
