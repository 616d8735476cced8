"""From an attempt's material to a job that can run anywhere, and from its response to the output's bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Optional

from blake3 import blake3

from gitstate.core.check import schema_problem
from gitstate.core.identity import work_id
from gitstate.core.material import Files, Material
from gitstate.core.plan import Command, Stage, Value, Workspace
from gitstate.core.values import canonical
from gitstate.edge.attempts import Intent
from gitstate.edge.objects import Objects
from gitstate.edge.process import Job
from gitstate.edge.render import (
    Known,
    Renderer,
    RenderError,
    names_of,
    names_of_command,
    prepare_command,
    render_command,
    unknown,
)
from gitstate.edge.repo import Repository
from gitstate.edge.sources import blob_id
from gitstate.edge.workspace import place
from gitstate.errors import ConfigError, Place, Problem

_KEPT = 64 * 1024 * 1024  # bytes of blobs remembered: prompts and shared inputs are read once, not per work


KEY = "GITSTATE_IDEMPOTENCY_KEY"
PREVIOUS = "GITSTATE_PREVIOUS_EVIDENCE"
_ROOM = 100_000  # bytes; Linux gives one variable 128 KiB
_PATIENCE = 300.0  # seconds for an evidence command whose stage sets no timeout

OWN_NAMES = ("item", "model", "vars", "slug", "needs", "inputs", "file")  # beside the item's fields


class Lazy(Mapping[str, object]):
    """Values that are made when a prompt or a command first asks for them."""

    def __init__(self, makers: Mapping[str, Callable[[], object]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> object:
        return self._makers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class Jobs:
    """Makes jobs, and outputs from responses. What it reads are blobs by id: never the checkout's content."""

    def __init__(self, repository: Repository, objects: Objects) -> None:
        self._repository, self._objects = repository, objects
        self._blobs: dict[str, bytes] = {}
        self._size = 0
        self._template_names: dict[
            str, set[str]
        ] = {}  # by the template's path: what it needs beside the response
        self._renderers: dict[tuple[tuple[str, str], ...], Renderer] = {}

    def job(
        self,
        intent: Intent,
        stage: Stage,
        completed: int,
        before: Optional[str] = None,
        base: Optional[str] = None,
    ) -> Job:
        """The job of one attempt. `completed` counts the receipts for this very work; `before` is the blob that says
        what an effect did the last time, `base` the commit at which a worktree of its own would stand.

        Raises RenderError for a prompt or command that this work cannot be rendered for, and UsageError for a worktree
        without a base.
        """
        material = intent.material
        for name in sorted(self._template_names.get(material.template or "", ())):
            if name not in material.item and name not in OWN_NAMES:
                # Rendered only when the response has been paid for, so it is looked at now.
                raise RenderError(f"{material.template}: {name!r} is no field of {intent.slug}.")
        prompt = b""
        if material.prompt is not None:
            prompt = (
                self._renderer(material.sources).render(material.prompt, self._contents(material)).encode()
            )
        where = place(self._repository, stage.workspace, intent.attempt, base)
        values = {**self._names(material), **self._paths(material, self._from(stage.workspace, base))}
        key = idempotency_key(intent.slug, intent.stage, intent.work, completed)
        return Job(
            command=render_command(stage.run, values, f"{stage.place}: run"),
            stdin=prompt,
            env={
                **self._env(intent, key, before),
                **where.env,
            },
            hidden=where.hidden,
            cwd=where.cwd,
            outputs=len(intent.outputs),
            timeout=stage.timeout,
            silence=stage.silence,
            scratch_parent=os.path.join(self._repository.state, "scratch"),
        )

    def question(self, intent: Intent, stage: Stage, key: str, before: Optional[str] = None) -> Job:
        """The job that asks whether an act has happened; `intent` and `key` are the act's, `before` as in `job`.

        Raises RenderError as `job` does.
        """
        if stage.effect is None or stage.effect.evidence is None:
            raise ValueError("the stage has no evidence")
        here = place(self._repository, "root", intent.attempt, None)
        return Job(
            command=self.command(stage.effect.evidence, intent.material, f"{stage.place}: evidence"),
            env={**self._env(intent, key, before), **here.env},
            cwd=here.cwd,
            timeout=_PATIENCE if stage.timeout is None else stage.timeout,
            scratch_parent=os.path.join(self._repository.state, "scratch"),
        )

    def _env(self, intent: Intent, key: str, before: Optional[str]) -> dict[str, str]:
        env = {
            "GITSTATE_SLUG": intent.slug,
            "GITSTATE_STAGE": intent.stage,
            "GITSTATE_WORK_ID": work_id(intent.slug, intent.stage, intent.work),
            "GITSTATE_ATTEMPT_ID": intent.attempt,
            KEY: key,
        }
        return env if before is None else {**env, PREVIOUS: self._previous(intent, before)}

    def _previous(self, intent: Intent, blob: str) -> str:
        """What an effect did the last time, as a command can be told it."""
        try:
            text = self.content(blob).decode().rstrip("\n")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text or len(text.encode()) > _ROOM:
            raise RenderError(
                f"{intent.outputs[0]}: what {intent.slug} did the last time is no text of at most {_ROOM:,} bytes, "
                f"so ${PREVIOUS} cannot hold it."
            )
        return text

    def prepare(self, stage: Stage, sources: Mapping[str, str], known: Known) -> None:
        """Compile all that a stage renders and look at the names that it needs, before anything is paid.

        `sources` are its files: path -> blob; `known` the names that prompts, templates and commands can have.
        Raises RenderError, and ConfigError for names that no work will have.
        """
        commands = [stage.run]
        if stage.effect is not None and stage.effect.evidence is not None:
            commands.append(stage.effect.evidence)
        problems = [
            problem
            for command in commands
            for problem in unknown(names_of_command(command, stage.place), known)
        ]
        if stage.check.command is not None:
            problems += unknown(names_of_command(stage.check.command, stage.place), {**known, "output": None})
        if stage.prompt is not None:
            problems += unknown(names_of(stage.prompt, self._reader(sources)), known)
        if stage.template is not None:
            needed = names_of(stage.template, self._reader(sources))
            problems += unknown(needed, {**known, "response": None})
            self._template_names[stage.template] = {name for name, _ in needed} - {"response"}
        if problems:
            raise ConfigError(problems)
        for what, command in zip(("run", "evidence"), commands):
            prepare_command(command, f"{stage.place}: {what}")
        if stage.check.command is not None:
            prepare_command(stage.check.command, f"{stage.place}: check.command")
        renderer = self._renderer(sources)
        for path in filter(None, (stage.prompt, stage.template)):
            renderer.prepare(path)

    def command(self, command: Command, material: Material, what: str, **more: object) -> Command:
        """A command at the root with the values of one work, `more` added. `what` names it in errors."""
        values = {**self._names(material), **self._paths(material, self._standing), **more}
        return render_command(command, values, what)

    def outputs(self, intent: Intent, response: Sequence[bytes]) -> list[bytes]:
        """The bytes of the outputs: the response, the first one through the template where there is one.

        Raises RenderError, and UnicodeDecodeError for a response that is not text where a template needs it.
        """
        material = intent.material
        if material.template is None:
            return list(response)
        context = {**self._contents(material), "response": response[0].decode()}
        first = self._renderer(material.sources).render(material.template, context).encode()
        return [first, *response[1:]]

    def content(self, blob: str) -> bytes:
        """A blob's content. Raises NeedsHuman where this clone does not have it."""
        if blob not in self._blobs:
            found = self._objects.read(blob)
            if found is None:
                raise self._objects.lacking(blob, "a file's content")
            if self._size + len(found[1]) > _KEPT:
                self._blobs.clear()
                self._size = 0
            self._blobs[blob] = found[1]
            self._size += len(found[1])
        return self._blobs[blob]

    def _text(self, blob: str) -> str:
        return self.content(blob).decode()

    def _renderer(self, sources: Mapping[str, str]) -> Renderer:
        key = tuple(sorted(sources.items()))
        if key not in self._renderers:
            self._renderers[key] = Renderer(self._reader(sources))
        return self._renderers[key]

    def _reader(self, sources: Mapping[str, str]) -> Callable[[str], Optional[bytes]]:
        return lambda path: self.content(sources[path]) if path in sources else None

    def _names(self, material: Material) -> dict[str, object]:
        """The names that prompts and commands share. An item's field never hides one of gitstate's own."""
        own: dict[str, Value] = {
            "item": dict(material.item),
            "model": dict(material.model),
            "vars": dict(material.vars),
            "slug": material.item["slug"],
        }
        return {**material.item, **own}

    def _contents(self, material: Material) -> dict[str, object]:
        """What prompts and templates see: other files by their content, as committed."""

        def several(files: Files) -> object:
            texts = [self._text(blob) for _, blob in files]
            return texts[0] if len(texts) == 1 else texts

        names = self._names(material)
        names["needs"] = Lazy({name: partial(several, files) for name, files in material.needs.items()})
        names["inputs"] = Lazy({path: partial(self._text, blob) for path, blob in material.inputs})
        if material.file is not None:
            names["file"] = self.content(material.file[1]).decode("utf-8", "replace")
        return names

    def _paths(self, material: Material, standing: Callable[[str, str], str]) -> dict[str, object]:
        """What commands see: other files by a path at which their committed content stands (see `_standing`)."""

        def several(files: Files) -> object:
            paths = [standing(path, blob) for path, blob in files]
            return paths[0] if len(paths) == 1 else paths

        needs = Lazy({name: partial(several, files) for name, files in material.needs.items()})
        paths: dict[str, object] = {"needs": needs}
        if material.inputs:
            paths["inputs"] = [standing(path, blob) for path, blob in material.inputs]
        if material.file is not None:
            paths["file"] = standing(*material.file)
        return paths

    def _from(self, workspace: Workspace, base: Optional[str]) -> Callable[[str, str], str]:
        """`_standing` for a command that runs in `workspace`, where that is not the root."""
        root = self._repository.root
        # In a sparse checkout, a worktree leaves out what this one does.
        sparse = os.path.exists(os.path.join(self._repository.git_dir, "info", "sparse-checkout"))

        def in_worktree(path: str, blob: str) -> str:
            is_there = not sparse or os.path.lexists(os.path.join(root, path))
            if is_there and "\n" not in path and self._objects.resolve(f"{base}:{path}") == blob:
                return path
            return self._copy(path, blob)

        if workspace == "worktree":
            return in_worktree
        if workspace == "scratch":
            return lambda path, blob: os.path.join(root, self._standing(path, blob))
        return self._standing

    def _standing(self, path: str, blob: str) -> str:
        """A path at which exactly this blob's content stands: in the working tree, or else in a copy."""
        full = os.path.join(self._repository.root, path)
        try:
            with open(full, "rb") as file:
                if blob_id(file.read(), self._repository.format) == blob:
                    return path
        except OSError:
            pass  # not checked out here; the copy will do
        return self._copy(path, blob)

    def _copy(self, path: str, blob: str) -> str:
        """A file of ours with this blob's content, and the name that `path` ends in."""
        folder = os.path.join(self._repository.state, "material", blob)
        copy = os.path.join(folder, os.path.basename(path))
        content = self.content(blob)
        os.makedirs(folder, exist_ok=True)
        with open(copy, "wb") as file:
            file.write(content)
        return copy


def idempotency_key(slug: str, stage: str, hash: str, completed: int) -> str:
    """A key that is equal over a work's attempts until one completes, and new for a wanted repetition."""
    value = canonical([slug, stage, hash, completed])
    return blake3(value, derive_key_context="gitstate idempotency v1").hexdigest(16)


def schema_of(text: Callable[[str], Optional[bytes]], path: str) -> Value:
    """The JSON Schema at `path`, where `text` reads a committed file. Raises ConfigError for one that is none."""
    try:
        schema: Value = json.loads(text(path) or b"")
        problem = schema_problem(schema)
    except (ValueError, RecursionError) as error:
        problem = f"It is not JSON: {error}."
    if problem:
        raise ConfigError([Problem(Place(path), problem, "It judges what is paid for: mend it first.")])
    return schema
