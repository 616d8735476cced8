"""The object store: what is written, what is read, what a barrier covers."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitstate.edge import disk
from gitstate.edge.disk import Barrier
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import find
from gitstate.errors import CorruptState


def make(folder: Path, object_format: str = "sha1", *config: str) -> Objects:
    subprocess.run(["git", "init", "-q", f"--object-format={object_format}", str(folder)], check=True)
    for setting in config:
        subprocess.run(["git", "-C", str(folder), "config", *setting.split("=")], check=True)
    return Objects(Git(str(folder)), find(str(folder)))


@pytest.fixture(params=["sha1", "sha256"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Objects]:
    made = make(tmp_path, request.param)
    yield made
    made.close()


def path_of(objects: Objects, oid: str) -> Path:
    return Path(objects.folder, oid[:2], oid[2:])


def temps(objects: Objects) -> list[Path]:
    return [path for path in Path(objects.folder).rglob("tmp_*") if path.is_file()]


def test_what_is_written_is_what_git_would_have_written(objects: Objects) -> None:
    for data in (b"", b"x", b"line\r\n\0\xff" * 9999):
        oid = objects.write("blob", data)
        assert oid == objects.oid("blob", data)
        assert objects.git.run("hash-object", "--stdin", stdin=data).out.decode().strip() == oid
        assert objects.git.run("cat-file", "blob", oid).out == data
        assert objects.read(oid) == ("blob", data)
    objects.git.run("fsck", "--strict")
    assert temps(objects) == []


def test_objects_are_read_only_files_under_the_umask(objects: Objects) -> None:
    before = os.umask(0o027)
    try:
        path = path_of(objects, objects.write("blob", b"x"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o440


def test_a_missing_object_is_none_and_any_revision_can_be_named(objects: Objects) -> None:
    oid = objects.write("blob", b"x")
    tree = objects.write("tree", b"100644 a b\0" + bytes.fromhex(oid))
    assert objects.read("1" * len(oid)) is None
    assert objects.read("HEAD:no such file") is None
    assert objects.resolve("refs/heads/none") is None
    assert objects.resolve("") is None
    assert objects.resolve(f"{tree}:a b") == oid
    assert objects.read(f"{tree}^{{tree}}") is not None
    with pytest.raises(ValueError, match="newline"):
        objects.resolve("a\nb")


def test_an_object_written_by_somebody_else_is_seen_at_once(objects: Objects) -> None:
    assert objects.resolve("refs/heads/x") is None
    oid = objects.git.run("hash-object", "-w", "--stdin", stdin=b"theirs").out.decode().strip()
    assert objects.read(oid) == ("blob", b"theirs")


def test_what_stands_loose_or_packed_or_in_an_alternate_is_not_written_again(tmp_path: Path) -> None:
    other = make(tmp_path / "other")
    borrowed = other.write("blob", b"borrowed")
    objects = make(tmp_path / "repo")
    Path(objects.folder, "info").mkdir(exist_ok=True)
    Path(objects.folder, "info", "alternates").write_text(other.folder + "\n")
    packed = objects.write("blob", b"packed")
    objects.git.run("pack-objects", "-q", os.path.join(objects.folder, "pack", "pack"), stdin=packed.encode())
    objects.git.run("prune-packed")
    assert not path_of(objects, packed).exists()
    assert objects.write("blob", b"packed") == packed
    assert objects.write("blob", b"borrowed") == borrowed
    assert not path_of(objects, packed).exists()
    assert not path_of(objects, borrowed).exists()
    other.close()
    objects.close()


def test_an_object_that_went_with_its_pack_is_written_again(objects: Objects) -> None:
    oid = objects.write("blob", b"packed")
    objects.git.run("pack-objects", "-q", os.path.join(objects.folder, "pack", "pack"), stdin=oid.encode())
    objects.git.run("prune-packed")
    assert objects.read(oid) is not None  # the process that stays has the pack open now
    time.sleep(0.02)
    for file in Path(objects.folder, "pack").iterdir():
        file.unlink()
    assert objects.write("blob", b"packed") == oid
    assert path_of(objects, oid).exists()


def test_a_loose_object_that_a_power_cut_emptied_or_tore_is_written_anew(objects: Objects) -> None:
    for damage in (b"", b"\x78\x01torn", None):
        oid = objects.write("blob", b"content")
        path = path_of(objects, oid)
        whole = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(whole[:-3] if damage is None else damage)
        assert objects.write("blob", b"content") == oid
        assert path.read_bytes() == whole


def test_what_a_killed_run_wrote_is_freshened_and_covered_by_the_barrier(objects: Objects) -> None:
    oid = objects.write("blob", b"from the killed run")
    path = path_of(objects, oid)
    objects.barrier()
    os.utime(path, (1, 1))
    assert objects.disk.files == set()
    objects.write("blob", b"from the killed run")
    assert objects.disk.files == {str(path)}
    assert path.stat().st_mtime > 1


def test_the_barrier_covers_each_object_its_folder_and_the_folder_above(objects: Objects) -> None:
    path = path_of(objects, objects.write("blob", b"one"))
    assert objects.disk.files == {str(path)}
    assert objects.disk.folders == {str(path.parent), objects.folder}
    objects.barrier()
    assert (objects.disk.files, objects.disk.folders) == (set(), set())


def test_where_a_whole_file_system_cannot_be_flushed_each_file_and_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path)
    made.close()
    objects = Objects(made.git, find(str(tmp_path)), disk=Barrier(sync=None))
    flushed: list[str] = []
    plain = os.fsync

    def watching(descriptor: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", watching)
    path = path_of(objects, objects.write("blob", b"one"))
    assert [os.path.basename(name)[:8] for name in flushed] == ["tmp_obj_"], "the content, before its name"
    flushed.clear()
    objects.barrier()
    assert flushed == [str(path), objects.folder, str(path.parent)]
    objects.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each file is flushed by itself anyway")
@pytest.mark.parametrize(
    ("kind", "alone"),
    [
        ("ext4", False),
        ("virtiofs", True),
        ("fuse.sshfs", True),
        ("fuseblk", True),
        ("9p", True),
        ("", False),
    ],
)
def test_p8_a_file_system_whose_server_hears_of_no_flush_of_the_whole_is_flushed_file_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, alone: bool
) -> None:
    device = tmp_path.stat().st_dev
    mount = f"36 35 {os.major(device)}:{os.minor(device)} / {tmp_path} rw shared:1 - {kind} source - rw\n"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"29 1 0:9999 / / rw - fuse.other source rw\n{mount if kind else 'nonsense'}")
    monkeypatch.setattr(disk, "_MOUNTS", str(mounts))
    for roots in ([str(tmp_path)], ["/", str(tmp_path)]):
        barrier = Barrier(*roots)
        assert barrier.one_by_one == alone
        barrier.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each file is flushed by itself anyway")
@pytest.mark.parametrize(
    ("release", "alone"),
    [("4.18.0-513.el8.x86_64", True), ("5.4.0-1", True), ("5.8", False), ("10.0-rc1", False)],
)
def test_p8_a_linux_that_tells_of_no_errors_when_all_is_flushed_flushes_file_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, alone: bool
) -> None:
    names = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*names[:2], release, *names[3:])))
    barrier = Barrier(str(tmp_path))
    assert barrier.one_by_one == alone
    barrier.close()


@pytest.mark.skipif(
    shutil.which("bindfs") is None or not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="needs bindfs, and root to mount",
)
def test_p8_a_real_server_of_files_is_asked_to_flush_each(tmp_path: Path) -> None:
    back, front = tmp_path / "back", tmp_path / "front"
    back.mkdir()
    front.mkdir()
    subprocess.run(("bindfs", back, front), check=True)
    try:
        barrier = Barrier(str(front))
        assert barrier.one_by_one
        assert not Barrier(str(back)).one_by_one
    finally:
        subprocess.run(("umount", front), check=True)


def test_the_barrier_flushes_every_device_once(tmp_path: Path) -> None:
    flushed: list[int] = []
    barrier = Barrier(str(tmp_path), str(tmp_path), sync=flushed.append)
    barrier.cover(str(tmp_path / "x"))
    barrier.flush()
    assert len(flushed) == 1
    barrier.close()


def test_after_a_failed_barrier_its_objects_are_thrown_away_and_written_anew(tmp_path: Path) -> None:
    made = make(tmp_path)
    made.close()
    answers = [errno.EIO, 0]

    def sync(descriptor: int) -> None:
        if code := answers.pop(0):
            raise OSError(code, os.strerror(code))

    objects = Objects(made.git, find(str(tmp_path)), disk=Barrier(str(tmp_path), sync=sync))
    kept = made.write("blob", b"somebody's")
    objects.write("blob", b"somebody's")
    path = path_of(objects, objects.write("blob", b"ours"))
    with pytest.raises(OSError):
        objects.barrier()
    assert not path.exists(), "the kernel counts its pages as clean: it must not pass for durable"
    assert path_of(objects, kept).exists()
    assert answers == [0], "the flush is not repeated"
    objects.write("blob", b"ours")
    assert path.exists()
    objects.barrier()
    objects.close()


@pytest.mark.parametrize("step", ["write", "rename"])
def test_a_write_that_fails_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    objects = make(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError):
        objects.write("blob", b"x")
    monkeypatch.undo()
    assert temps(objects) == []
    assert objects.read(objects.oid("blob", b"x")) is None
    objects.close()


def test_a_temporary_file_of_a_dead_process_is_not_in_the_way(objects: Objects) -> None:
    oid = objects.oid("blob", b"x")
    folder = path_of(objects, oid).parent
    folder.mkdir()
    (folder / f"tmp_obj_{os.getpid()}_1").write_bytes(b"half")
    assert objects.write("blob", b"x") == oid
    assert objects.read(oid) == ("blob", b"x")


def test_a_repository_shared_by_a_group_keeps_its_permissions(tmp_path: Path) -> None:
    objects = make(tmp_path, "sha1", "core.sharedRepository=group")
    before = os.umask(0o077)
    try:
        oid = objects.write("blob", b"x")
    finally:
        os.umask(before)
    assert path_of(objects, oid).stat().st_mode & 0o040, "the group can read it"
    assert str(path_of(objects, oid)) in objects.disk.files
    objects.close()


def test_many_objects_stream_in_order_without_filling_a_pipe(objects: Objects) -> None:
    few = [objects.write("blob", b"%d\n" % n * 2000) for n in range(20)]
    names = [*few, "1" * len(few[0])] * 600
    for n, found in enumerate(objects.read_many(iter(names))):
        at = n % 21
        assert found == (None if at == 20 else ("blob", b"%d\n" % at * 2000))
    assert n == len(names) - 1
    assert list(objects.read_many([])) == []


def test_reading_many_can_be_broken_off(objects: Objects) -> None:
    oid = objects.write("blob", b"x" * 100_000)
    before = threading.active_count()
    stream = objects.read_many([oid] * 5000)
    assert next(stream) == ("blob", b"x" * 100_000)
    stream.close()  # type: ignore[attr-defined]
    assert threading.active_count() <= before
    assert objects.read(oid) is not None


def test_p6_reading_many_does_not_end_early_without_an_error(objects: Objects) -> None:
    oid = objects.write("blob", os.urandom(100_000))
    path = path_of(objects, oid)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(CorruptState, match=str(path)):
        list(objects.read_many([oid]))


def test_a_child_that_was_killed_is_replaced(objects: Objects) -> None:
    oid = objects.write("blob", b"x")
    assert objects.read(oid) is not None
    child = objects._child
    assert child is not None
    child._process.kill()
    assert objects.read(oid) == ("blob", b"x")


def test_an_interrupt_in_the_middle_of_an_answer_does_not_mix_up_the_next(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = objects.write("blob", b"first" * 50_000), objects.write("blob", b"second")
    objects.resolve(first)
    child = objects._child
    assert child is not None

    def interrupted(size: int) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        objects.read(first)
    assert objects.read(second) == ("blob", b"second")


def test_several_threads_share_one_store(objects: Objects) -> None:
    oids = {objects.write("blob", b"%d" % n * 1000): b"%d" % n * 1000 for n in range(10)}
    wrong: list[str] = []

    def reader() -> None:
        for _ in range(20):
            wrong.extend(oid for oid, data in oids.items() if objects.read(oid) != ("blob", data))

    threads = [threading.Thread(target=reader) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_ambiguous_name_is_an_error(objects: Objects) -> None:
    prefix = ""
    seen: dict[str, int] = {}
    for n in range(5000):
        oid = objects.oid("blob", b"%d" % n)
        if oid[:4] in seen:
            prefix = oid[:4]
            objects.write("blob", b"%d" % n)
            objects.write("blob", b"%d" % seen[prefix])
            break
        seen[oid[:4]] = n
    with pytest.raises(CorruptState, match="ambiguous"):
        objects.resolve(prefix)
    assert objects.resolve("1" * 40) is None


def test_a_partial_clone_does_not_fetch_object_by_object(tmp_path: Path) -> None:
    server = make(tmp_path / "server")
    git = server.git
    git.run("config", "uploadpack.allowFilter", "true")
    tree = server.write("tree", b"100644 a\0" + bytes.fromhex(server.write("blob", b"far away")))
    commit = git.run("-c", "user.name=A", "-c", "user.email=a@b", "commit-tree", "-m", "x", tree)
    git.run("update-ref", "refs/heads/main", commit.out.decode().strip())
    url = f"file://{tmp_path}/server"
    args = ["clone", "-q", "--no-checkout", "--filter=blob:none", "-b", "main", url, str(tmp_path / "clone")]
    subprocess.run(["git", *args], check=True, stderr=subprocess.DEVNULL)
    objects = Objects(Git(str(tmp_path / "clone")), find(str(tmp_path / "clone")))
    assert objects.read("HEAD:a") is None
    here = objects.write("blob", b"here")
    assert list(objects.read_many([here, "HEAD:a", "HEAD:a", here, "HEAD:b"])) == [
        ("blob", b"here"),
        None,
        None,
        ("blob", b"here"),
        None,
    ]
    assert objects.write("blob", b"far away") == server.oid("blob", b"far away")
    assert objects.read("HEAD:a") == ("blob", b"far away")
    server.close()
    objects.close()
