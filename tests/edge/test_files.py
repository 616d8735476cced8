"""The one writer: complete or absent, whoever looks and whatever fails."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitstate.edge import files
from gitstate.edge.disk import Barrier, flush
from gitstate.edge.files import New, SymlinkInTheWay, is_temp, temp_name, write_all, write_whole

TEMP = temp_name("0123abcd", 1)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_temporary_files_are_told_by_their_names() -> None:
    assert TEMP == ".gitstate-0123abcd-1.tmp"
    assert is_temp(TEMP)
    assert is_temp("a/b/" + TEMP)
    for name in ("x.tmp", ".gitstate-x.tmp", "gitstate-0123-1.tmp", TEMP + "~", ".gitstate-1-1.tmp/x"):
        assert not is_temp(name)


def test_a_new_file_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "out.md"
    write_whole(str(path), b"content", TEMP, replace=False, within=str(tmp_path))
    assert path.read_bytes() == b"content"
    assert names(tmp_path) == ["a/b/out.md"]
    write_whole(str(tmp_path / "c" / "d"), b"", TEMP, replace=True)
    assert (tmp_path / "c" / "d").read_bytes() == b""


def test_a_path_relative_to_the_current_folder_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_whole("x/y", b"content", TEMP, replace=False)
    write_whole("z", b"content", TEMP, replace=False, within=".")
    assert names(tmp_path) == ["x/y", "z"]


def test_the_mode_goes_under_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(str(tmp_path / "a"), b"x", TEMP, replace=True)
        write_whole(str(tmp_path / "b"), b"x", TEMP, replace=True, mode=0o777)
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o640, 0o750]


def test_replacing_replaces_and_otherwise_nothing_is_ever_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    write_whole(str(path), b"new", TEMP, replace=True)
    assert path.read_bytes() == b"new"
    with pytest.raises(FileExistsError):
        write_whole(str(path), b"newer", TEMP, replace=False)
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["out"]


def test_p5_a_broken_symlink_at_the_path_counts_as_something_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        write_whole(str(tmp_path / "out"), b"x", TEMP, replace=False)
    assert not (tmp_path / "nowhere").exists()
    write_whole(str(tmp_path / "out"), b"x", TEMP, replace=True)
    assert not (tmp_path / "out").is_symlink(), "the link is replaced, not what it points to"


def test_p5_a_file_that_appears_after_the_look_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = flush

    def somebody_saves(descriptor: int) -> None:
        plain(descriptor)
        (tmp_path / "out").write_bytes(b"a human's")

    monkeypatch.setattr(files, "flush", somebody_saves)
    with pytest.raises(FileExistsError):
        write_whole(str(tmp_path / "out"), b"ours", TEMP, replace=False)
    assert (tmp_path / "out").read_bytes() == b"a human's"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("without", [["link"], ["link", "_renameat2"]])
def test_p5_also_without_hard_links_nothing_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: list[str]
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuses)
    if "_renameat2" in without:
        monkeypatch.setattr(files, "_renameat2", lambda *_: errno.ENOSYS)
    write_whole(str(tmp_path / "out"), b"first", TEMP, replace=False)
    with pytest.raises(FileExistsError):
        write_whole(str(tmp_path / "out"), b"second", TEMP, replace=False)
    assert (tmp_path / "out").read_bytes() == b"first"
    assert names(tmp_path) == ["out"]


def test_a_leftover_of_the_same_name_is_removed_first(tmp_path: Path) -> None:
    (tmp_path / TEMP).write_bytes(b"half")
    write_whole(str(tmp_path / "out"), b"whole", TEMP, replace=False)
    assert names(tmp_path) == ["out"]
    (tmp_path / TEMP).symlink_to(tmp_path / "elsewhere")
    write_whole(str(tmp_path / "out2"), b"whole", TEMP, replace=False)
    assert names(tmp_path) == ["out", "out2"]


def test_what_is_no_file_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a file name"):
        write_whole(str(tmp_path / "out"), b"x", "../x.tmp", replace=True)
    with pytest.raises(ValueError, match="not below"):
        write_whole(str(tmp_path / "out"), b"x", TEMP, replace=True, within=str(tmp_path / "inner"))


@pytest.mark.parametrize("target", ["elsewhere", "dangling", "inside"])
@pytest.mark.parametrize("link", ["out", "out/deep"])
def test_a_symlinked_folder_on_the_way_is_refused(tmp_path: Path, target: str, link: str) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    goal = {"elsewhere": tmp_path / "elsewhere", "dangling": tmp_path / "no", "inside": root / "real"}[target]
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(goal)
    before = names(tmp_path)
    with pytest.raises(SymlinkInTheWay, match=link):
        write_whole(str(root / "out/deep/er/file"), b"x", TEMP, replace=False, within=str(root))
    assert names(tmp_path) == before
    assert not (tmp_path / "no").exists()


def test_a_root_that_is_itself_reached_through_a_symlink_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(str(tmp_path / "link/a/b"), b"x", TEMP, replace=False, within=str(tmp_path / "link"))
    assert names(tmp_path / "real") == ["a/b"]


def test_a_file_where_a_folder_is_needed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    with pytest.raises(NotADirectoryError):
        write_whole(str(tmp_path / "a/b"), b"x", TEMP, replace=False, within=str(tmp_path))
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole(str(tmp_path / "folder"), b"x", TEMP, replace=True)
    assert names(tmp_path) == ["a"]


def test_the_ways_of_systems_without_descriptors_of_folders_do_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_AT", False)
    write_whole(str(tmp_path / "a/b/c"), b"x", TEMP, replace=False, within=str(tmp_path))
    with pytest.raises(FileExistsError):
        write_whole(str(tmp_path / "a/b/c"), b"y", TEMP, replace=False, within=str(tmp_path))
    write_whole(str(tmp_path / "a/b/c"), b"z", TEMP, replace=True, within=str(tmp_path))
    (tmp_path / "a/link").symlink_to(tmp_path / "a/b")
    with pytest.raises(SymlinkInTheWay):
        write_whole(str(tmp_path / "a/link/d"), b"x", TEMP, replace=False, within=str(tmp_path))
    with pytest.raises(NotADirectoryError):
        write_whole(str(tmp_path / "a/b/c/d"), b"x", TEMP, replace=False, within=str(tmp_path))
    assert (tmp_path / "a/b/c").read_bytes() == b"z"
    assert names(tmp_path) == ["a/b/c"]


def failing(call: Callable[..., object], code: int, at: int) -> tuple[Callable[..., object], list[int]]:
    """`call`, which fails with `code` at its `at`-th time; and how often it was called."""
    count: list[int] = []

    def wrapped(*args: object, **kwargs: object) -> object:
        count.append(1)
        if len(count) == at:
            raise OSError(code, os.strerror(code))
        return call(*args, **kwargs)

    return wrapped, count


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("step", ["mkdir", "open", "write", "fsync", "link", "replace", "unlink"])
def test_p1_every_failing_step_leaves_old_or_new_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, replace: bool
) -> None:
    points = 0
    for at in range(1, 20):
        root = tmp_path / f"{at}"
        root.mkdir()
        path = root / "new" / "out"
        if replace:
            path.parent.mkdir()
            path.write_bytes(b"old")
        wrapped, count = failing(getattr(os, step), code, at)
        with monkeypatch.context() as patch:
            patch.setattr(os, step, wrapped)
            failed = False
            try:
                write_whole(str(path), b"new" * 1000, TEMP, replace=replace, within=str(root))
            except OSError as error:
                failed = error.errno == code
        content = path.read_bytes() if path.exists() else None
        assert content in ((b"old" if replace else None), b"new" * 1000)
        assert failed or content == b"new" * 1000
        assert set(names(root)) <= {"new/out"}
        if len(count) < at:
            break
        points += 1
    else:
        pytest.fail("it never ran through untouched")
    unused = {"mkdir": False, "link": replace, "replace": not replace}
    assert points > 0 or unused.get(step, False)


def test_a_failed_flush_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped, count = failing(os.fsync, errno.EIO, 1)
    monkeypatch.setattr(os, "fsync", wrapped)
    with pytest.raises(OSError):
        write_whole(str(tmp_path / "out"), b"x", TEMP, replace=False)
    assert len(count) == 1


def test_a_folder_that_cannot_be_flushed_is_tolerated_only_with_einval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code, tolerated in ((errno.EINVAL, True), (errno.EIO, False), (errno.EBADF, False)):
        wrapped, _ = failing(os.fsync, code, 2)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", wrapped)
            if tolerated:
                write_whole(str(tmp_path / "out"), b"x", TEMP, replace=True)
            else:
                with pytest.raises(OSError):
                    write_whole(str(tmp_path / "out"), b"x", TEMP, replace=True)


def test_content_then_name_then_folder_reach_the_disk_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def watch(step: str) -> None:
        plain = getattr(os, step)

        def wrapped(*args: object, **kwargs: object) -> object:
            what = os.readlink(f"/proc/self/fd/{args[0]}") if step == "fsync" else str(args[0])
            seen.append(f"{step} {os.path.relpath(what, tmp_path) if os.path.isabs(what) else what}")
            return plain(*args, **kwargs)

        monkeypatch.setattr(os, step, wrapped)

    for step in ("mkdir", "fsync", "link", "replace"):
        watch(step)
    write_whole(str(tmp_path / "a/b/out"), b"x", TEMP, replace=False, within=str(tmp_path))
    link = f"link {TEMP}"
    assert seen == ["mkdir a", "fsync .", "mkdir b", "fsync a", f"fsync a/b/{TEMP}", link, "fsync a/b"]
    seen.clear()
    write_whole(str(tmp_path / "a/b/out"), b"y", TEMP, replace=True)
    assert seen == [f"fsync a/b/{TEMP}", f"replace {TEMP}", "fsync a/b"]


def test_p1_a_reader_never_sees_partial_content(tmp_path: Path) -> None:
    path = tmp_path / "out"
    versions = [bytes([48 + n]) * 200_000 for n in range(10)]
    write_whole(str(path), versions[0], TEMP, replace=False)
    wrong: list[int] = []
    reads: list[int] = []
    stop = threading.Event()

    def reader() -> None:
        while not stop.is_set():
            data = path.read_bytes()
            reads.append(1)
            if len(data) != 200_000 or len(set(data)) != 1:
                wrong.append(len(data))

    threads = [threading.Thread(target=reader) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        for version in versions:
            write_whole(str(path), version, TEMP, replace=True)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(reads) > 10
    assert wrong == []


def test_p5_of_many_writers_who_do_not_replace_one_wins(tmp_path: Path) -> None:
    won: list[int] = []

    def writer(n: int) -> None:
        try:
            write_whole(str(tmp_path / "d/out"), b"%d" % n, temp_name("x", n), replace=False)
            won.append(n)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert (tmp_path / "d/out").read_bytes() == b"%d" % won[0]
    assert names(tmp_path) == ["d/out"]


# --- several at once --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, None], ids=["together", "one-by-one"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Barrier]:
    barrier = Barrier(str(tmp_path), sync=request.param)
    yield barrier
    barrier.close()


def new(folder: Path, name: str, data: bytes = b"ours", *, replace: bool = False, n: int = 1) -> New:
    return New(str(folder / name), data, temp_name("0123abcd", n), replace, str(folder))


def test_p5_of_several_files_those_are_written_whose_places_are_free(tmp_path: Path, disk: Barrier) -> None:
    for name in ("theirs", "old", "edited"):
        (tmp_path / name).write_bytes(b"before")
    news = [
        new(tmp_path, "a/one"),
        new(tmp_path, "theirs", n=2),
        new(tmp_path, "old", replace=True, n=3),
        new(tmp_path, "edited", replace=True, n=4)._replace(is_free=lambda: False),
        new(tmp_path, "a/two", n=5),
    ]
    assert write_all(news, disk) == [True, False, True, False, True]
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == {
        "a/one": b"ours", "a/two": b"ours", "edited": b"before", "old": b"ours", "theirs": b"before",
    }  # fmt: skip


def test_p5_a_place_is_looked_at_when_all_contents_are_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"before")
    flushed = []

    def sync(descriptor: int) -> None:
        flushed.append(names(tmp_path))

    def is_free() -> bool:
        assert len(flushed) == 1
        return True

    news = [new(tmp_path, "out", replace=True)._replace(is_free=is_free), new(tmp_path, "other", n=2)]
    assert write_all(news, Barrier(str(tmp_path), sync=sync)) == [True, True]
    temporary = [temp_name("0123abcd", n) for n in (1, 2)]
    assert flushed == [sorted(["out", *temporary]), ["other", "out"]]


def test_more_files_than_are_open_at_a_time_are_written(tmp_path: Path, disk: Barrier) -> None:
    count = files._TOGETHER + 3
    news = [new(tmp_path, f"{n % 7}/{n}", b"%d" % n, n=n) for n in range(count)]
    assert write_all(news, disk) == [True] * count
    assert all((tmp_path / f"{n % 7}/{n}").read_bytes() == b"%d" % n for n in range(count))
    assert len(names(tmp_path)) == count
    assert write_all([], disk) == []


def test_where_one_of_several_cannot_be_written_no_temporary_file_stays(
    tmp_path: Path, disk: Barrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if bytes(data) == b"too much":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        write_all(
            [new(tmp_path, "one"), new(tmp_path, "two", b"too much", n=2), new(tmp_path, "three", n=3)], disk
        )
    assert set(names(tmp_path)) <= {"one", "three"}


def test_what_a_failed_flush_left_in_doubt_gets_no_name(tmp_path: Path) -> None:
    def sync(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        write_all([new(tmp_path, "one"), new(tmp_path, "two", n=2)], Barrier(str(tmp_path), sync=sync))
    assert names(tmp_path) == []


def test_what_lies_on_another_file_system_is_flushed_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []

    def counted(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        flush(descriptor)

    monkeypatch.setattr(files, "flush", counted)
    monkeypatch.setattr(files, "flush_folder", counted)
    monkeypatch.setattr(Barrier, "reaches", lambda self, path: not path.endswith("mounted"))
    folder = tmp_path / "mounted"
    folder.mkdir()
    assert write_all([new(tmp_path, "here"), new(tmp_path, "mounted/there", n=2)], Barrier(str(tmp_path)))
    assert flushed == [(folder / "there").stat().st_ino, folder.stat().st_ino]


def test_no_folder_of_several_files_is_reached_through_a_symlink(tmp_path: Path, disk: Barrier) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(SymlinkInTheWay):
        write_all([new(tmp_path, "one"), new(tmp_path, "link/two", n=2)], disk)
    assert names(tmp_path / "real") == []


def test_what_only_writers_need_is_imported_when_they_do() -> None:
    code = "import sys, gitstate.edge.files, gitstate.edge.attempts; sys.exit('concurrent.futures' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
