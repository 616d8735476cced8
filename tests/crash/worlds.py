"""The small world that is crashed again and again: a repository, a plan, a user's own changes, a paid provider.

What a run must end in is known beforehand, because ids, dates and answers are pinned (`pinned.py`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

# (A command that fails is not called again in the same run, so that each second call is one too many.)
CONFIG = """\
gitstate: 1
plan: plan.yaml
policy: {unknown: {tries: 1, then: fail}}
stages:
  outline:
    prompt: prompts/outline.md
    run: sh "$PROVIDER"
    output: work/{slug}.md
  article:
    needs: [outline]
    prompt: prompts/article.md
    run: sh "$PROVIDER"
    output: ["content/{slug}.md", "content/{slug}.summary.txt"]
    check: {min_bytes: 2000}
"""
# One write to the end of the ledger is the payment; then the answer comes in several writes, so that half of it
# can be seen. The second output of a stage is asked for by its number.
PROVIDER = """\
set -e
echo "$GITSTATE_SLUG/$GITSTATE_STAGE $GITSTATE_ATTEMPT_ID" >> "$LEDGER"
[ -z "$SLOW" ] || sleep "$SLOW"
if [ "$GITSTATE_STAGE" = article ]; then
    sed "s|WORK|$GITSTATE_SLUG second|" "$ANSWER" > "$GITSTATE_OUTPUT_2"
    sed "s|WORK|$GITSTATE_SLUG article|" "$ANSWER" > "$GITSTATE_OUTPUT_1"
else
    sed "s|WORK|$GITSTATE_SLUG outline|" "$ANSWER"
fi
echo "$GITSTATE_SLUG/$GITSTATE_STAGE $GITSTATE_ATTEMPT_ID" >> "$LEDGER.answered"
"""
ANSWER = "# WORK\n\n" + "".join(f"WORK, line {n}\n" for n in range(900))
FORMER = ANSWER.replace("line", "an earlier line")
# A check that fails until somebody mends it.
REJECTING = CONFIG.replace("min_bytes: 2000", "min_bytes: 2000, command: 'test -e \"$HOME/mended\"'")
STAGED, DIRTY, UNTRACKED = "notes/staged.txt", "notes/dirty.txt", "notes/mine.txt"
GIT = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


class _Place(NamedTuple):
    folder: str
    items: tuple[str, ...]


class World(_Place):
    """One folder: `repo`, the remote if there is one, and beside them what outlives any crash."""

    BESIDE: ClassVar[Mapping[str, str]] = {"provider.sh": PROVIDER, "answer": ANSWER}

    @property
    def repo(self) -> str:
        """The user's clone."""
        return os.path.join(self.folder, "repo")

    @property
    def remote(self) -> str:
        """The bare remote; may not be there."""
        return os.path.join(self.folder, "remote.git")

    @property
    def output(self) -> str:
        """What the runs printed."""
        return os.path.join(self.folder, "output")

    @property
    def environment(self) -> dict[str, str]:
        """Of every process in this world."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": self.folder,
            "TMPDIR": self.folder,
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **{name: os.environ[name] for name in ("PYTHONPATH", "VIRTUAL_ENV") if name in os.environ},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A Writer",
            "GIT_AUTHOR_EMAIL": "writer@example.org",
            "GIT_COMMITTER_NAME": "A Writer",
            "GIT_COMMITTER_EMAIL": "writer@example.org",
            # Names of objects hang on these, and on them which folders are made.
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
            "PROVIDER": os.path.join(self.folder, "provider.sh"),
            "ANSWER": os.path.join(self.folder, "answer"),
            "LEDGER": os.path.join(self.folder, "ledger"),
            "SLOW": "",
        }

    def git(self, *args: str, cwd: str = "", stdin: bytes = b"", check: bool = True) -> bytes:
        """The user's own git; its standard output."""
        done = subprocess.run(
            ("git", *args),
            cwd=cwd or self.repo,
            env={**self.environment, **GIT},
            input=stdin,
            capture_output=True,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"git {args}: {done.stderr.decode()}")
        return done.stdout

    def paid(self) -> Counter[str]:
        """How often each work was paid for: SLUG/STAGE -> calls."""
        return _ledger(os.path.join(self.folder, "ledger"))

    def answered(self) -> Counter[str]:
        """How often each work was answered whole."""
        return _ledger(os.path.join(self.folder, "ledger.answered"))

    def said(self) -> str:
        """All that the runs printed so far."""
        try:
            with open(self.output, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def managed(self) -> dict[str, bytes]:
        """Each output's path, and what must be there in the end."""
        return self._outputs(ANSWER)

    def former(self) -> dict[str, bytes]:
        """The same for what stood there before, and may stand there until it is replaced; mostly nothing."""
        path = os.path.join(self.folder, "former")
        return self._outputs(FORMER) if os.path.exists(path) else {}

    def _outputs(self, answer: str) -> dict[str, bytes]:
        found = {}
        for slug in self.items:
            for path, word in (
                (f"work/{slug}.md", "outline"),
                (f"content/{slug}.md", "article"),
                (f"content/{slug}.summary.txt", "second"),
            ):
                # (sed without /g: the first of each line)
                found[path] = "".join(
                    line.replace("WORK", f"{slug} {word}", 1) for line in answer.splitlines(keepends=True)
                ).encode()
        return found

    def works(self) -> list[str]:
        """SLUG/STAGE of every work."""
        return [f"{slug}/{stage}" for slug in self.items for stage in ("outline", "article")]

    def copy(self, folder: str) -> World:
        """The same world again, somewhere else."""
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        there = type(self)(folder, self.items)
        if os.path.exists(there.remote):
            there.git("remote", "set-url", "origin", f"file://{there.remote}")
        return there


def make(
    folder: str,
    items: tuple[str, ...] = ("one", "deep/two"),
    *,
    remote: bool = False,
    config: str = CONFIG,
    kind: type[World] = World,
) -> World:
    """A new world in an existing folder, with nothing done yet."""
    world = kind(os.path.realpath(folder), items)
    for name, text in kind.BESIDE.items():
        _write(os.path.join(world.folder, name), text)
    os.mkdir(world.repo)
    world.git("init", "-q", "--template=", "-b", "main")
    for key, value in (("gc.auto", "0"), ("maintenance.auto", "false"), ("advice.detachedHead", "false")):
        world.git("config", key, value)
    files = {
        "gitstate.yaml": config,
        "plan.yaml": "".join(f"- slug: {slug}\n" for slug in items),
        "prompts/outline.md": "Outline {{ slug }}.\n",
        "prompts/article.md": "Write by this:\n{{ needs.outline }}",
        STAGED: "as committed\n",
        DIRTY: "as committed\n",
    }
    for path, text in files.items():
        _write(os.path.join(world.repo, path), text)
    world.git("add", ".")
    world.git("commit", "-q", "-m", "A plan")
    _write(os.path.join(world.repo, STAGED), "staged by the user\n")
    world.git("add", STAGED)
    _write(os.path.join(world.repo, DIRTY), "changed by the user\n")
    _write(os.path.join(world.repo, UNTRACKED), "not yet known to git\n")
    if remote:
        world.git("init", "-q", "--bare", "--template=", "-b", "main", world.remote, cwd=world.folder)
        world.git("--git-dir", world.remote, "config", "gc.auto", "0")
        world.git("remote", "add", "origin", f"file://{world.remote}")
        world.git("push", "-q", "-u", "origin", "main")
    return world


def scratch() -> str:
    """Where worlds are made: in memory where there is room, as thousands of them come and go."""
    return "/dev/shm" if sys.platform == "linux" and os.access("/dev/shm", os.W_OK) else ""


def _ledger(path: str) -> Counter[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return Counter(line.split()[0] for line in file)
    except FileNotFoundError:
        return Counter()


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
