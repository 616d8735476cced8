"""What shapes an output, and the hash that stands for it.

`Identity.manifest` is the only function that knows: the hash of a work, the explanation of its staleness
and the components in its receipt all come from what it returns (design section 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple, Optional

from blake3 import blake3

from gitstate.core.glob import escape
from gitstate.core.plan import Item, Stage, Value, Workflow
from gitstate.core.values import canonical, normal

COMPONENTS = ("plan", "prompt", "template", "model", "inputs", "run")
_SORTED = tuple(sorted(COMPONENTS))
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

# Every scheme that receipts were ever made under stays here, and a receipt is compared under its own (P12).
# A change of what follows is a new number, never an edit.
SCHEME = 1
SCHEMES = {1: ("gitstate work v1", "gitstate component v1")}  # BLAKE3 derive-key contexts


class Manifest(NamedTuple):
    """The named component digests of one work (64 hex digits each), and the scheme that they were hashed under."""

    components: Mapping[str, str]
    scheme: int = SCHEME

    @property
    def encoded(self) -> bytes:
        """The canonical JSON that is hashed, and that the log's notes hang on as a blob."""
        # Hex digits need no escaping, so this equals canonical(); 100,000 of them are built at a time.
        found = self.components
        return (
            "{" + ",".join([f'"{name}":"{found[name]}"' for name in _SORTED if name in found]) + "}"
        ).encode()

    @property
    def hash(self) -> str:
        """The work's hash: 64 hex digits."""
        return _hash(SCHEMES[self.scheme][0], self.encoded)

    def moved(self, earlier: Mapping[str, str]) -> tuple[str, ...]:
        """The components that differ from `earlier`'s, those that one of both lacks included, in the table's order."""
        now = self.components
        return tuple([name for name in COMPONENTS if now.get(name) != earlier.get(name)])


@cache
def _hasher(context: str) -> blake3:
    # Measured: setting up a context takes 1.5 microseconds more than copying one, of 3.7 for a manifest.
    return blake3(derive_key_context=context)


def _hash(context: str, data: bytes) -> str:
    hasher = _hasher(context).copy()
    hasher.update(data)
    return hasher.hexdigest()


def plan_digests(workflow: Workflow, items: Iterable[Item], scheme: int = SCHEME) -> dict[str, str]:
    """The `plan` component by slug: the digest of each item's own fields and the configuration's `vars`."""
    shared = b',"vars":' + canonical(dict(workflow.vars)) + b"}"
    context = SCHEMES[scheme][1]
    return {item.slug: _hash(context, b'{"item":' + canonical(dict(item.fields)) + shared) for item in items}


class Sources(NamedTuple):
    """The files that identities stand on. A file's id reads `sha1:…` or `sha256:…`: its blob as committed."""

    ids: Mapping[str, str]  # path -> id
    includes: Mapping[str, tuple[str, ...]]  # a prompt's or template's path -> all that it includes
    globs: Mapping[str, tuple[str, ...]]  # a glob of `inputs` or `code` -> the paths that it matches, sorted


class Identity:
    """Builds the manifests of one workflow's works under one scheme."""

    def __init__(
        self,
        workflow: Workflow,
        sources: Sources,
        scheme: int = SCHEME,
        digests: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`digests` are the items' `plan_digests` under `scheme`, as far as the caller has them."""
        self.workflow = workflow
        self.sources = sources
        self.scheme = scheme
        self._others: dict[int, Identity] = {scheme: self}
        self._digests = digests
        self._shared = {stage.name: self._stage_components(stage) for stage in workflow.stages}

    def under(self, scheme: int) -> Optional[Identity]:
        """The same workflow's identity under another scheme; None for one that this version does not know."""
        if scheme not in self._others and scheme in SCHEMES:
            self._others[scheme] = Identity(self.workflow, self.sources, scheme)
        return self._others.get(scheme)

    def plan_digest(self, item: Item) -> str:
        """The digest of an item's own fields and the configuration's `vars`."""
        known = self._digests.get(item.slug)
        return known or plan_digests(self.workflow, [item], self.scheme)[item.slug]

    def manifest(self, item: Item, stage: Stage, needs: Sequence[Sequence[str]]) -> Manifest:
        """What shapes the output of `stage` for `item`.

        `needs` are the ids of the outputs of each stage that this one needs, in declared order.
        """
        found = dict(self._shared[stage.name])
        if "plan" not in stage.ignore:
            found["plan"] = self.plan_digest(item)
        if (stage.inputs or needs or item.file is not None) and "inputs" not in stage.ignore:
            found["inputs"] = self._digest(canonical(self._inputs(item, stage, needs)))
        return Manifest(found, self.scheme)

    def input_paths(self, item: Item, stage: Stage) -> list[str]:
        """The declared input files of a work, sorted by path."""
        paths: set[str] = set()
        for pattern in stage.inputs:
            paths.update(self.sources.globs[fill(pattern, item)])
        return sorted(paths)

    def _inputs(self, item: Item, stage: Stage, needs: Sequence[Sequence[str]]) -> dict[str, Value]:
        ids = self.sources.ids
        found: dict[str, Value] = {}
        if stage.inputs:
            found["files"] = [[path, ids[path]] for path in self.input_paths(item, stage)]
        if item.file is not None:
            found["item"] = ids[item.file]
        if stage.needs:
            found["needs"] = [list(blobs) for blobs in needs]
        return found

    def _stage_components(self, stage: Stage) -> dict[str, str]:
        """The components that all works of a stage share."""
        ids = self.sources.ids
        values: dict[str, Value] = {}
        for name, path in (("prompt", stage.prompt), ("template", stage.template)):
            if path is not None:
                included: list[Value] = [[other, ids[other]] for other in self.sources.includes.get(path, ())]
                values[name] = {"includes": included, "source": ids[path]}
        if stage.model is not None:
            values["model"] = dict(stage.model)
        code = sorted({path for pattern in stage.code for path in self.sources.globs[pattern]})
        values["run"] = {"code": [[path, ids[path]] for path in code], "command": normal(stage.run)}
        return {
            name: self._digest(canonical(value)) for name, value in values.items() if name not in stage.ignore
        }

    def _digest(self, value: bytes) -> str:
        """The digest of one component: BLAKE3 of its value's canonical JSON, 64 hex digits."""
        return _hash(SCHEMES[self.scheme][1], value)


def fill(pattern: str, item: Item) -> str:
    """A pattern of `inputs` with its `{field}` placeholders replaced by the item's own values."""
    return _PLACEHOLDER.sub(lambda found: escape(str(item.fields.get(found[1], found[0]))), pattern)


def work_id(slug: str, stage: str, hash: str) -> str:
    """A work id as people see it: `slug/stage@` and 12 hex digits."""
    return f"{slug}/{stage}@{hash[:12]}"
