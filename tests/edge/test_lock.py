"""The run lock: one holder, its git children counted in, and who it is."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gitstate.edge.lock import Lock, Locked, is_held
from gitstate.errors import UsageError

HOLD = """
import sys
from gitstate.edge.lock import Lock
with Lock.acquire(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
# A parent that dies at once and leaves a git child that waits for input from somebody else.
ORPHAN = """
import os, subprocess, sys
from gitstate.edge.git import Git
from gitstate.edge.lock import Lock
lock = Lock.acquire(sys.argv[1])
git = Git(sys.argv[1], inherit=(lock.descriptor,))
keep = os.dup(0)
child = subprocess.Popen(["git", "hash-object", "--stdin"], stdin=0, stdout=2, pass_fds=git.inherit)
print("held", child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
ASK = """
import sys, time
from gitstate.edge.lock import is_held
print("on", flush=True)
end = time.monotonic() + 1
while time.monotonic() < end:
    is_held(sys.argv[1])
"""
COUNT = """
import sys, time
from gitstate.edge.lock import Lock
for _ in range(15):
    with Lock.acquire(sys.argv[1], timeout=60):
        with open(sys.argv[1] + "/count") as file:
            n = int(file.read())
        time.sleep(0.001)
        with open(sys.argv[1] + "/count", "w") as file:
            file.write(str(n + 1))
"""


def python(code: str, state: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def said(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def eventually(check: Callable[[], bool]) -> bool:
    for _ in range(500):
        if check():
            return True
        time.sleep(0.01)
    return False


def test_it_is_taken_and_given_back(tmp_path: Path) -> None:
    state = str(tmp_path / "git" / "gitstate")
    assert not is_held(state)
    assert not os.path.exists(state), "asking makes nothing"
    with Lock.acquire(state) as lock:
        assert is_held(state)
        assert os.fstat(lock.descriptor)
        with open(os.path.join(state, "lock.json")) as file:
            assert json.load(file)["pid"] == os.getpid()
    assert not is_held(state)
    assert os.listdir(state) == ["lock"]
    lock.release()  # a second time does nothing


def test_a_second_one_is_told_who_holds_it_since_when_and_what_to_do(tmp_path: Path) -> None:
    holder = python(HOLD, tmp_path)
    assert said(holder) == ["held"]
    with pytest.raises(Locked) as caught:
        Lock.acquire(str(tmp_path))
    assert caught.value.exit_code == 75
    assert f"pid {holder.pid} on " in caught.value.message
    assert time.strftime("since %Y-") in caught.value.message
    assert "--lock-timeout" in caught.value.hint
    assert f"kill {holder.pid}" in caught.value.hint
    holder.communicate("")
    Lock.acquire(str(tmp_path)).release()


@pytest.mark.parametrize("word", [None, "", "{", "[]", '{"pid": "x"}', '{"host": 1, "boot": 2, "pid": 3}'])
def test_what_stands_about_the_holder_decides_nothing(tmp_path: Path, word: str | None) -> None:
    with Lock.acquire(str(tmp_path)):
        if word is None:
            (tmp_path / "lock.json").unlink()
        else:
            (tmp_path / "lock.json").write_text(word)
        with pytest.raises(Locked, match="Another gitstate run"):
            Lock.acquire(str(tmp_path))


def test_one_who_waits_gets_it_when_it_is_free(tmp_path: Path) -> None:
    holder = python(HOLD, tmp_path)
    said(holder)
    with pytest.raises(Locked):
        Lock.acquire(str(tmp_path), timeout=0.05)
    waiter = python("from gitstate.edge.lock import Lock; import sys\n"
                    "Lock.acquire(sys.argv[1], timeout=60); print('got')", tmp_path)  # fmt: skip
    holder.communicate("")
    assert waiter.communicate("")[0] == "got\n"


def test_a_killed_holder_gives_it_back(tmp_path: Path) -> None:
    holder = python(HOLD, tmp_path)
    said(holder)
    holder.kill()
    holder.wait()
    Lock.acquire(str(tmp_path)).release()


def test_a_git_child_of_a_killed_parent_keeps_it_held(tmp_path: Path) -> None:
    parent = python(ORPHAN, tmp_path)
    child = int(said(parent)[1])
    parent.wait()
    assert is_held(str(tmp_path))
    with pytest.raises(Locked, match="a git process that it started is still at work"):
        Lock.acquire(str(tmp_path))
    os.kill(child, signal.SIGTERM)
    with Lock.acquire(str(tmp_path), timeout=30):
        pass
    assert parent.stdin is not None
    parent.stdin.close()


def test_giving_it_back_does_not_take_it_from_a_child_that_still_has_it(tmp_path: Path) -> None:
    lock = Lock.acquire(str(tmp_path))
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(lock.descriptor,))
    lock.release()
    assert is_held(str(tmp_path))
    child.communicate(b"")
    assert not is_held(str(tmp_path))


def test_several_processes_never_hold_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    racers = [python(COUNT, tmp_path) for _ in range(4)]
    asked = 0
    while any(racer.poll() is None for racer in racers):
        is_held(str(tmp_path))
        asked += 1
    assert [racer.wait() for racer in racers] == [0] * 4
    assert (tmp_path / "count").read_text() == "60"
    assert asked > 0


def test_asking_does_not_make_one_fail_who_takes_it(tmp_path: Path) -> None:
    asker = python(ASK, tmp_path)
    said(asker)
    Lock.acquire(str(tmp_path)).release()
    while asker.poll() is None:
        Lock.acquire(str(tmp_path), timeout=5).release()


def test_a_lock_file_that_was_deleted_and_made_anew_does_not_let_two_in(tmp_path: Path) -> None:
    first = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    plain = fcntl.flock
    with pytest.MonkeyPatch.context() as patch:

        def deleted_meanwhile(descriptor: int, how: int) -> None:
            plain(descriptor, how)
            patch.undo()
            (tmp_path / "lock").unlink()

        patch.setattr(fcntl, "flock", deleted_meanwhile)
        with Lock.acquire(str(tmp_path)) as lock:
            assert os.path.samestat(os.fstat(lock.descriptor), os.stat(tmp_path / "lock"))
    os.close(first)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks_is_noticed_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuses)
    with pytest.raises(UsageError, match="Locks do not work") as caught:
        Lock.acquire(str(tmp_path))
    assert "local disk" in caught.value.hint
    assert not is_held(str(tmp_path)), "what only reads can still answer"
    assert not (tmp_path / "lock.json").exists()


def test_locks_that_hold_nobody_off_are_noticed_by_whoever_takes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(UsageError, match=r"Locks do not work .* given a second time"):
        Lock.acquire(str(tmp_path))
    assert not (tmp_path / "lock.json").exists()


def test_a_lock_file_that_is_replaced_while_the_lock_is_tried_is_not_taken_for_a_bad_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, seen = fcntl.flock, []

    def replaced_meanwhile(descriptor: int, how: int) -> None:
        if how & fcntl.LOCK_SH and not seen:
            seen.append(descriptor)
            (tmp_path / "lock").unlink()
            (tmp_path / "lock").touch()
            return
        plain(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", replaced_meanwhile)
    with Lock.acquire(str(tmp_path)) as lock:
        assert os.path.samestat(os.fstat(lock.descriptor), os.stat(tmp_path / "lock"))


def test_who_waits_gives_up_when_the_time_is_over_and_never_goes_on(tmp_path: Path) -> None:
    holder = python(HOLD, tmp_path)
    said(holder)
    for timeout in (0.0, 0.3):
        began = time.monotonic()
        with pytest.raises(Locked, match=f"pid {holder.pid}"):
            Lock.acquire(str(tmp_path), timeout=timeout)
        assert time.monotonic() - began >= timeout
    holder.communicate("")
