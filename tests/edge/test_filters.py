"""Blob ids after clean filters: always git's own, mostly without asking git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitstate.edge.filters import Filters
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import find
from gitstate.errors import GitFailed, UsageError

CONTENTS = {
    "lf": b"one\ntwo\n",
    "crlf": b"one\r\ntwo\r\n",
    "mixed": b"one\r\ntwo\n$Id: something $\n",
    "binary": b"\0\1\r\n\xff",
    "utf16": "größe\r\n".encode("utf-16"),
    "empty": b"",
}
ATTRIBUTES = [
    "",
    "* text",
    "* -text",
    "* text=auto",
    "* text=input",
    "* crlf",
    "* -crlf",
    "* crlf=input",
    "* eol=lf",
    "* eol=crlf",
    "* -text eol=lf",
    "* binary",
    "* ident",
    "* -ident -filter",
    "* filter=upper",
    "* filter=unknown",
    "*.utf16 working-tree-encoding=UTF-16\n*.utf16 text",
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    folder = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    Git(str(folder)).run("config", "filter.upper.clean", "tr a-z A-Z")
    return folder


class Asked(Git):
    """A git that counts what it is asked."""

    commands: list[str]

    def start(self, *args: str, **kwargs: object) -> subprocess.Popen[bytes]:
        self.commands = [*getattr(self, "commands", []), *(word for word in args if word in COMMANDS)]
        return super().start(*args, **kwargs)  # type: ignore[arg-type]


COMMANDS = ("check-attr", "hash-object")


def filters(root: Path, **config: str) -> tuple[Filters, Objects, Asked]:
    git = Asked(str(root))
    objects = Objects(git, find(str(root)))
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return Filters(git, find(str(root)), objects, settings), objects, git


def write(root: Path, path: str, data: bytes) -> str:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(data)
    return path


def by_git(root: Path, path: str) -> str:
    return Git(str(root)).run("hash-object", "--", path).out.decode().strip()


@pytest.mark.parametrize("autocrlf", ["false", "true", "input"])
@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_ids_are_those_of_git_under_every_conversion(root: Path, attributes: str, autocrlf: str) -> None:
    Git(str(root)).run("config", "core.autocrlf", autocrlf)
    write(root, ".gitattributes", attributes.encode())
    paths = [write(root, f"out/file.{name}", data) for name, data in CONTENTS.items() if name != "utf16"]
    if "UTF-16" in attributes or "filter" in attributes:
        paths.append(write(root, "out/file.utf16", CONTENTS["utf16"]))
    made, objects, _ = filters(root, core_autocrlf=autocrlf)
    ids = made.blobs(paths)
    assert ids == [by_git(root, path) for path in paths]
    assert all(objects.read(oid) is not None for oid in ids)
    made.close()
    objects.close()


def test_what_git_would_not_change_is_not_given_to_it(root: Path) -> None:
    write(root, ".gitattributes", b"*.bin -text\n")
    Git(str(root)).run("config", "core.autocrlf", "true")
    made, objects, git = filters(root, core_autocrlf="true")
    paths = [write(root, "a/lf.txt", b"one\n"), write(root, "a/crlf.bin", b"one\r\n")]
    for _ in range(3):
        made.blobs(paths)
    assert git.commands == ["check-attr"], "one process, which stays"
    made.blobs([write(root, "b/crlf.txt", b"one\r\n"), write(root, "c/crlf.txt", b"one\r\n"), *paths])
    assert git.commands == ["check-attr", "hash-object"]
    made.close()
    objects.close()


@pytest.mark.parametrize("where", [".gitattributes", "out/.gitattributes", ".git/info/attributes", "global"])
def test_changed_attributes_are_noticed(root: Path, where: str) -> None:
    made, objects, _ = filters(root)
    path = write(root, "out/file", b"abc\n")
    file = root.parent / "home/.config/git/attributes" if where == "global" else root / where
    file.parent.mkdir(parents=True, exist_ok=True)
    for content in ("* filter=upper\n", "* filter=\n", "* filter=upper\n"):
        file.write_text(content)
        assert made.blobs([path]) == [by_git(root, path)]
        assert made.blobs([path]) == [objects.oid("blob", b"ABC\n" if "upper" in content else b"abc\n")]
    file.unlink()
    assert made.blobs([path]) == [objects.oid("blob", b"abc\n")]
    made.close()
    objects.close()


def test_odd_names_work_or_are_refused(root: Path) -> None:
    write(root, ".gitattributes", b"filtered/** filter=upper\n")
    made, objects, _ = filters(root)
    names = ["a b", '"quoted"', 'in"side', "back\\slash", "größe", ": attr: x", "tab\t", "-dash", "'single'"]
    paths = [write(root, folder + name, b"abc\n") for folder in ("", "plain/", "filtered/") for name in names]
    assert made.blobs(paths) == [by_git(root, path) for path in paths]
    write(root, "line\nbreak", b"x")
    with pytest.raises(UsageError, match="line break"):
        made.blobs(["line\nbreak"])
    assert made.blobs(paths[:2]) == [by_git(root, path) for path in paths[:2]]
    made.close()
    objects.close()


def test_many_paths_are_asked_about_without_filling_a_pipe(root: Path) -> None:
    made, objects, _ = filters(root)
    paths = [
        write(root, f"a-rather-long-folder-name-{n % 7}/{'x' * 150}-{n}", b"%d\n" % n) for n in range(1500)
    ]
    assert made.blobs(paths) == [objects.oid("blob", b"%d\n" % n) for n in range(1500)]
    assert made.blobs([]) == []
    made.close()
    objects.close()


def test_a_file_that_is_not_there_or_is_a_symlink_has_no_id(root: Path) -> None:
    made, objects, _ = filters(root)
    with pytest.raises(FileNotFoundError):
        made.blobs(["none"])
    (root / "link").symlink_to("target")
    write(root, "target", b"x")
    with pytest.raises(OSError):
        made.blobs(["link"])
    made.close()
    objects.close()


def test_a_filter_that_fails_is_an_error(root: Path) -> None:
    git = Git(str(root))
    git.run("config", "filter.broken.clean", "false")
    git.run("config", "filter.broken.required", "true")
    write(root, ".gitattributes", b"* filter=broken\n")
    made, objects, _ = filters(root)
    with pytest.raises(GitFailed, match="broken"):
        made.blobs([write(root, "file", b"x")])
    made.close()
    objects.close()


def test_a_torn_object_under_a_filtered_files_id_is_written_anew(root: Path) -> None:
    write(root, ".gitattributes", b"* filter=upper\n")
    path = write(root, "file", b"abc\n")
    made, objects, _ = filters(root)
    (oid,) = made.blobs([path])
    loose = Path(objects.folder, oid[:2], oid[2:])
    assert str(loose) in objects.disk.files
    loose.chmod(0o644)
    loose.write_bytes(b"")
    assert made.blobs([path]) == [oid]
    assert objects.read(oid) == ("blob", b"ABC\n")
    made.close()
    objects.close()


def test_safecrlf_does_not_stop_an_output(root: Path) -> None:
    git = Git(str(root))
    git.run("config", "core.autocrlf", "true")
    git.run("config", "core.safecrlf", "true")
    made, objects, _ = filters(root, core_autocrlf="true")
    mixed = write(root, "mixed", b"one\r\ntwo\n")
    assert made.blobs([mixed]) == [objects.oid("blob", b"one\ntwo\n")]
    made.close()
    objects.close()
