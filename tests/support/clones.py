"""A bare remote and clones of it, in which outputs are recorded as gitstate records them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from gitstate.edge import notes, sync
from gitstate.edge.disk import Barrier
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import LOG, RECEIPTS, find
from gitstate.edge.sync import Outcome

MAIN = "refs/heads/main"
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A Writer",
    "GIT_AUTHOR_EMAIL": "writer@example.org",
    "GIT_COMMITTER_NAME": "A Writer",
    "GIT_COMMITTER_EMAIL": "writer@example.org",
    "GIT_PROTOCOL_FROM_USER": "1",
}


def git(folder: Path, *arguments: str, check: bool = True, **env: str) -> str:
    """Run the user's git in a folder; its output without the final newline."""
    done = subprocess.run(
        ("git", *arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )
    assert not check or not done.returncode, (arguments, done.stdout, done.stderr)
    return done.stdout.rstrip("\n")


class Bare:
    """A bare repository that clones push to."""

    def __init__(self, path: Path, format: str = "sha1") -> None:
        self.path = path
        self.format = format
        subprocess.run(
            ("git", "init", "-q", "--bare", "-b", "main", f"--object-format={format}", str(path)), check=True
        )
        git(path, "config", "uploadpack.allowFilter", "true")

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def clone(self, name: str, *options: str) -> Clone:
        """A clone beside the bare repository, made with plain `git clone`."""
        path = self.path.parent / name
        command = ("git", "clone", "-q", *options, self.url, str(path))
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        if self.format != git(path, "rev-parse", "--show-object-format"):
            # git takes the object format over from what it receives, so an empty remote has none to give.
            shutil.rmtree(path)
            command = ("git", "init", "-q", "-b", "main", f"--object-format={self.format}", str(path))
            subprocess.run(command, check=True)
            git(path, "remote", "add", "origin", self.url)
        return Clone(path)

    def ref(self, ref: str) -> str:
        return git(self.path, "rev-parse", "--verify", "--quiet", ref, check=False)

    def receipts(self) -> set[str]:
        """All receipt lines, as the remote has them."""
        return _note_lines(self.path, RECEIPTS)

    def files(self, ref: str = MAIN) -> dict[str, str]:
        return _files(self.path, ref)


_open: list[Clone] = []


def close_all() -> None:
    """End the git processes of every clone that was made so far; each holds one while somebody refers to it."""
    while _open:
        _open.pop().objects.close()


class Clone:
    """One person's clone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.repository = find(str(path))
        self.plumbing = Git(str(path))
        # No test here pulls the plug, and flushing a busy disk takes most of the time.
        self.objects = Objects(self.plumbing, self.repository, disk=Barrier(str(path), sync=lambda _: None))
        _open.append(self)

    def git(self, *arguments: str, check: bool = True) -> str:
        return git(self.path, *arguments, check=check)

    def commit(self, **files: str) -> str:
        """A user's own commit. Names: `__` stands for a slash."""
        for name, text in files.items():
            self.write(name.replace("__", "/") + ".txt", text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "by hand: " + ", ".join(files))
        return self.git("rev-parse", "HEAD")

    def write(self, path: str, text: str) -> None:
        full = self.path / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def record(self, path: str, text: str, *, commit: bool = True) -> str:
        """An output with its receipt, and the commit that gitstate would make of it. Returns the receipt."""
        self.write(path, text)
        self.git("add", path)
        blob = self.git("rev-parse", f":{path}")
        receipt = self.note(RECEIPTS, blob, outputs=[[path, blob]], slug=path)
        if commit:
            trailer = f"Gitstate-Work: {path}/stage@{hashlib.sha256(text.encode()).hexdigest()[:12]}"
            self.git("commit", "-q", "-m", f"Record {path}\n\n{trailer}")
        return receipt

    def note(self, ref: str, blob: str, **fields: object) -> str:
        work = hashlib.sha256(json.dumps(fields).encode()).hexdigest()
        line = json.dumps({"work": work, **fields}, separators=(",", ":"))
        old = self.objects.resolve(ref)
        tree = notes.add(self.objects, old and self.objects.resolve(ref + "^{tree}"), {blob: [line.encode()]})
        parents = ("-p", old) if old else ()
        self.git("update-ref", ref, self.git("commit-tree", *parents, "-m", "note", tree))
        return line

    def log(self, text: str) -> str:
        blob = self.objects.write("blob", text.encode())
        return self.note(LOG, blob, text=text)

    def sync(self, **options: object) -> Outcome:
        branch = self.git("symbolic-ref", "--quiet", "HEAD", check=False) or None
        return sync.sync(self.plumbing, self.repository, self.objects, branch, **options)  # type: ignore[arg-type]

    def receipts(self) -> set[str]:
        return _note_lines(self.path, RECEIPTS)

    def tip(self, ref: str = "HEAD") -> str:
        return self.git("rev-parse", "--verify", "--quiet", ref, check=False)

    def status(self) -> str:
        return self.git("status", "--porcelain")

    def files(self) -> dict[str, str]:
        """What is committed at HEAD."""
        return _files(self.path, "HEAD")

    def shown(self) -> dict[str, str]:
        """What stands in the working tree."""
        found = (path for path in self.path.rglob("*") if ".git" not in path.relative_to(self.path).parts)
        return {str(path.relative_to(self.path)): path.read_text() for path in found if path.is_file()}


def _note_lines(folder: Path, ref: str) -> set[str]:
    listed = git(folder, "ls-tree", "-r", "--format=%(objectname)", ref, check=False).split()
    return {line for blob in listed for line in git(folder, "cat-file", "blob", blob).splitlines()}


def _files(folder: Path, ref: str) -> dict[str, str]:
    listed = git(folder, "ls-tree", "-r", "--name-only", ref, check=False).splitlines()
    return {path: git(folder, "cat-file", "blob", f"{ref}:{path}") for path in listed}
