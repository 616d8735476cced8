"""Repositories full of finished works, made fast and honestly: identities and receipts come from gitstate's own
core, commits and notes from `git fast-import`, and `gitstate plan` itself is asked whether all is done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import IO

from measure import environment

from gitstate.core.identity import Identity, Sources
from gitstate.core.plan import Item
from gitstate.core.receipt import Receipt, encode
from gitstate.edge.config import read_items, read_workflow

GITSTATE = (sys.executable, "-m", "gitstate")

CONFIG = """\
gitstate: 1
plan: plan.jsonl
model: {name: small, version: "2026-08-07", temperature: 0}
stages:
  article:
    prompt: prompts/article.md
    template: templates/article.md
    run: COMMAND
    output: out/{shard}/{slug}.md
"""
COMMAND = "cat"  # the trivial work: the rendered prompt is the response
PROMPT = "Write about {{ topic }} for {{ reader }}.\n"
TEMPLATE = "# {{ topic }}\n\n{{ response }}"
_SHARDS = 256
_WHO = "A Bench <bench@example.org> 1786000000 +0000"


def slugs(start: int, end: int) -> list[str]:
    """The slugs of the works from `start` up to `end`."""
    return [f"topic-{number:06}" for number in range(start, end)]


def item(slug: str) -> dict[str, str]:
    """The fields of one item of the plan; its shard spreads the outputs over folders."""
    shard = hashlib.blake2b(slug.encode(), digest_size=1).hexdigest()
    return {"slug": slug, "shard": shard, "topic": f"the {slug} of all things", "reader": "people in a hurry"}


def sources(count: int) -> dict[str, bytes]:
    """The committed files that a plan of `count` works stands on."""
    lines = "".join(json.dumps(item(slug)) + "\n" for slug in slugs(0, count))
    return {
        "gitstate.yaml": CONFIG.replace("COMMAND", COMMAND).encode(),
        "plan.jsonl": lines.encode(),
        "prompts/article.md": PROMPT.encode(),
        "templates/article.md": TEMPLATE.encode(),
    }


def output(slug: str) -> bytes:
    """What stands at a finished work's path."""
    fields = item(slug)
    return f"# {fields['topic']}\n\nWrite about {fields['topic']} for {fields['reader']}.\n".encode()


def git(folder: str, *arguments: str) -> str:
    """Run git in a folder; its standard output."""
    done = subprocess.run(
        ("git", *arguments), cwd=folder, env=environment(), check=True, capture_output=True, text=True
    )
    return done.stdout.rstrip("\n")


def build(folder: str, done: int, planned: int = 0) -> str:
    """Make a repository in which the first `done` of `planned` works (default: all) are finished; returns `folder`.

    The working tree is checked out, no cache is warm. Raises AssertionError if gitstate sees it otherwise.
    """
    planned = max(done, planned)
    os.makedirs(folder)
    git(folder, "init", "-q", "-b", "main")
    files = sources(planned)
    outputs = {f"out/{item(slug)['shard']}/{slug}.md": output(slug) for slug in slugs(0, done)}
    importer = subprocess.Popen(
        ("git", "fast-import", "--quiet", "--done"), cwd=folder, env=environment(), stdin=subprocess.PIPE
    )
    assert importer.stdin is not None
    with importer.stdin as stream:
        _commit(stream, "refs/heads/main", "Plan and outputs", {**files, **outputs}.items())
        _commit(stream, "refs/notes/gitstate", "Receipts", _receipts(files, done))
        stream.write(b"done\n")
    if importer.wait():
        raise RuntimeError("git fast-import failed")
    git(folder, "reset", "-q", "--hard")
    _check(folder, done, planned)
    return folder


def _commit(stream: IO[bytes], ref: str, message: str, files: Iterable[tuple[str, bytes]]) -> None:
    stream.write(f"commit {ref}\ncommitter {_WHO}\ndata {len(message)}\n{message}\n".encode())
    for path, data in files:
        stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data))


def _receipts(files: dict[str, bytes], done: int) -> Iterable[tuple[str, bytes]]:
    """(path in the notes tree, note) of the finished works."""
    workflow = read_workflow(files["gitstate.yaml"], "gitstate.yaml")
    items = read_items(workflow.source, files["plan.jsonl"])[:done]
    identity = Identity(
        workflow, Sources({path: f"sha1:{_blob(data)}" for path, data in files.items()}, {}, {})
    )
    for number, entry in enumerate(items):
        data = output(entry.slug)
        blob = _blob(data)
        yield f"{blob[:2]}/{blob[2:]}", encode(_receipt(identity, entry, blob, number)) + b"\n"


def _receipt(identity: Identity, entry: Item, blob: str, number: int) -> Receipt:
    stage = identity.workflow.stages[0]
    manifest = identity.manifest(entry, stage, [])
    return Receipt(
        work=manifest.hash,
        kind="done",
        slug=entry.slug,
        stage=stage.name,
        attempt=f"20260807T120000-{number:010x}",
        at=f"2026-08-07T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        components=manifest.components,
        outputs=((f"out/{entry.fields['shard']}/{entry.slug}.md", blob),),
        extra={
            "seconds": 3.25,
            "usd": 0.0012,
            "tokens_in": 812,
            "tokens_out": 240,
            "model": "small-2026-08-07",
            "checks": ["not_empty"],
        },
    )


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _check(folder: str, done: int, planned: int) -> None:
    found = subprocess.run(
        (*GITSTATE, "plan", "--json"), cwd=folder, env=environment(), check=True, capture_output=True
    )
    summary = json.loads(found.stdout)["summary"]
    assert (summary["total"], summary["done"]) == (planned, done), summary
    forget(folder)


def forget(folder: str) -> None:
    """Delete every local state file of gitstate's."""
    shutil.rmtree(os.path.join(folder, ".git", "gitstate"), ignore_errors=True)


def copy(origin: str, folder: str) -> str:
    """A copy of a repository, its index told that the new files are the same; returns `folder`."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    subprocess.run(("cp", "-R", origin, folder), check=True)
    git(folder, "update-index", "-q", "--refresh")
    return folder


class Shelf:
    """Repositories by their size, each built once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, done: int, planned: int = 0) -> str:
        """The repository with so many finished and planned works. Whoever changes it puts it back."""
        place = os.path.join(self.folder, f"done-{done}-of-{max(done, planned)}")
        if not os.path.isdir(place):
            build(place, done, planned)
        return place

    def scratch(self, name: str) -> str:
        """A path for what a row makes; whatever stood there is removed."""
        place = os.path.join(self.folder, name)
        shutil.rmtree(place, ignore_errors=True)
        return place
