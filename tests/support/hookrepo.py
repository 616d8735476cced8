"""A repository with a plan, receipts made by git's plumbing, and commits that run the installed hook."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gitstate.core.identity import Manifest
from gitstate.core.receipt import Receipt, encode
from gitstate.edge import notes
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import RECEIPTS, find

CONFIG = """\
gitstate: 1
plan: plan.yaml
stages:
  article:
    run: ./make {{ slug }}
    output: content/{topic}/{slug}.md
    check:
      min_bytes: 10
  pair:
    run: ./make {{ slug }}
    output: ["data/{slug}.json", "data/{slug}.txt"]
    check:
      json: true
"""
PLAN = """\
- {slug: alpha, topic: sea}
- {slug: beta, topic: sea}
- {slug: gamma, topic: sky}
"""
ALPHA = "content/sea/alpha.md"
BETA = "content/sea/beta.md"
TEXT = "A whole article, long enough.\n"


class HookRepo:
    """One clone. `git` is the user's own git; its environment holds nothing of the machine's."""

    def __init__(self, path: Path, format: str = "sha1") -> None:
        self.path = path
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A Writer",
            "GIT_AUTHOR_EMAIL": "writer@example.org",
            "GIT_COMMITTER_NAME": "A Writer",
            "GIT_COMMITTER_EMAIL": "writer@example.org",
            "GIT_EDITOR": "true",
        }
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", f"--object-format={format}")

    def try_git(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run git, whatever comes of it."""
        return subprocess.run(
            ("git", *arguments),
            cwd=self.path,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    def git(self, *arguments: str, **env: str) -> str:
        """Run git, which must succeed; its output without the final newline."""
        done = self.try_git(*arguments, **env)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout.rstrip("\n")

    def write(self, path: str, text: str | bytes) -> str:
        """Write a file of the working tree; returns its path."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def stage(self, path: str, text: str | bytes) -> str:
        """Write a file and stage it, ignored or not; returns its blob."""
        self.git("add", "-f", "--", self.write(path, text))
        return self.git("rev-parse", f":{path}")

    def start(self, config: str = CONFIG, plan: str = PLAN) -> None:
        """Commit the configuration and the plan, without any hook."""
        self.stage("gitstate.yaml", config)
        self.stage("plan.yaml", plan)
        self.git("commit", "-q", "--no-verify", "-m", "plan")

    def commit(self, *options: str) -> subprocess.CompletedProcess[str]:
        """`git commit` as a user types it: it runs the hooks."""
        return self.try_git("commit", "-q", "-m", "change", *options)

    def finish(self, path: str, text: str | bytes, slug: str, stage: str = "article") -> str:
        """Commit a whole output with its receipt, without any hook; returns its blob."""
        blob = self.stage(path, text)
        self.receipt(slug, stage, [(path, blob)])
        self.git("commit", "-q", "--no-verify", "-m", f"{slug} is done")
        return blob

    def receipt(
        self,
        slug: str,
        stage: str,
        outputs: Sequence[tuple[str, str]],
        kind: str = "done",
        attempt: str = "",
    ) -> Receipt:
        """Record a receipt on the first output's blob."""
        receipt = Receipt(
            work=Manifest({"run": "a" * 64}).hash,
            kind=kind,
            slug=slug,
            stage=stage,
            attempt=attempt or f"{slug}-{stage}",
            at="2026-08-07T12:00:00Z",
            components={"run": "a" * 64},
            outputs=tuple(outputs),
        )
        self.note(outputs[0][1], [encode(receipt)])
        return receipt

    def note(self, blob: str, lines: Sequence[bytes]) -> None:
        """Add lines to the receipts' note on a blob."""
        git = Git(str(self.path))
        objects = Objects(git, find(str(self.path)))
        tree = notes.add(objects, objects.resolve(f"{RECEIPTS}^{{tree}}"), {blob: list(lines)})
        self.move_notes(tree)
        objects.close()

    def move_notes(self, tree: str) -> None:
        """Let the receipts' ref point to a commit of a notes tree."""
        self.git("update-ref", RECEIPTS, self.git("commit-tree", "-m", "receipts", tree))

    @property
    def hook(self) -> Path:
        """Where the pre-commit hook is, or would be."""
        return self.path / self.git("rev-parse", "--git-path", "hooks") / "pre-commit"
