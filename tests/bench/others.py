"""The same plan as other tools would be given it, everything up to date: what they take to see that is a floor."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess

from measure import environment
from repos import COMMAND, PROMPT, TEMPLATE, item, output, slugs


def _write(folder: str, path: str, data: bytes) -> None:
    full = os.path.join(folder, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as file:
        file.write(data)


def _sources(folder: str, count: int) -> None:
    """Prompt, template, and the plan: one file an item, as these tools have to have it to see which one changed."""
    _write(folder, "prompts/article.md", PROMPT.encode())
    _write(folder, "templates/article.md", TEMPLATE.encode())
    for slug in slugs(0, count):
        _write(folder, _item(slug), json.dumps(item(slug)).encode() + b"\n")


def _item(slug: str) -> str:
    return f"items/{item(slug)['shard']}/{slug}.json"


def _output(slug: str) -> str:
    return f"out/{item(slug)['shard']}/{slug}.md"


def ninja(folder: str, count: int) -> None:
    """A folder with the plan for ninja, built: its log is warm. Raises RuntimeError if anything is left to do."""
    _sources(folder, count)
    edges = [
        f"build {_output(slug)}: make {_item(slug)} | prompts/article.md templates/article.md\n"
        for slug in slugs(0, count)
    ]
    rule = f"rule make\n  command = {COMMAND} $in > $out\n"
    _write(folder, "build.ninja", (rule + "".join(edges)).encode())
    subprocess.run(("ninja",), cwd=folder, env=environment(), check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(
        ("ninja", "-n"), cwd=folder, env=environment(), check=True, capture_output=True, text=True
    )
    if "no work to do" not in done.stdout:
        raise RuntimeError(f"ninja still has something to do: {done.stdout[-500:]}")


def dvc(folder: str, count: int) -> None:
    """A folder with the plan for DVC, all outputs there and locked. Raises RuntimeError if it sees anything to do."""
    _sources(folder, count)
    for arguments in (
        ("git", "init", "-q"),
        ("dvc", "init", "-q"),
        ("dvc", "config", "core.analytics", "false"),
    ):
        subprocess.run(arguments, cwd=folder, env=environment(), check=True, stdout=subprocess.DEVNULL)
    stages, locked = [], []
    for slug in slugs(0, count):
        _write(folder, _output(slug), output(slug))
        paths = [_item(slug), "prompts/article.md", "templates/article.md"]
        command = f"{COMMAND} {paths[0]} > {_output(slug)}"
        stages.append(
            f"  {slug}:\n    cmd: {command}\n    deps:\n{''.join(f'    - {path}{chr(10)}' for path in paths)}"
            f"    outs:\n    - {_output(slug)}:\n        cache: false\n"
        )
        deps = "".join(_locked(folder, path) for path in sorted(paths))
        locked.append(
            f"  {slug}:\n    cmd: {command}\n    deps:\n{deps}    outs:\n{_locked(folder, _output(slug))}"
        )
    _write(folder, "dvc.yaml", ("stages:\n" + "".join(stages)).encode())
    _write(folder, "dvc.lock", ("schema: '2.0'\nstages:\n" + "".join(locked)).encode())
    done = subprocess.run(
        ("dvc", "status"), cwd=folder, env=environment(), check=True, capture_output=True, text=True
    )
    if "up to date" not in done.stdout:
        raise RuntimeError(f"DVC still has something to do: {done.stdout[:500]}")


def _locked(folder: str, path: str) -> str:
    with open(os.path.join(folder, path), "rb") as file:
        data = file.read()
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return f"    - path: {path}\n      hash: md5\n      md5: {digest}\n      size: {len(data)}\n"


def is_there(tool: str) -> bool:
    """Whether a tool is installed here."""
    return shutil.which(tool) is not None
