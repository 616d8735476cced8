"""All that one attempt is made of: values and blob ids, no content. Fixed when the attempt begins.

From it the prompt and the command are rendered, and later, perhaps by another process after a crash, the
template. It is plain data that fits into the attempt's record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from gitstate.core.identity import Identity
from gitstate.core.plan import Plan, Stage, Value

Files = tuple[tuple[str, str], ...]  # (path, blob id in hex)


class Material(NamedTuple):
    """What a work's prompt, command and output are rendered from."""

    item: Mapping[str, Value]
    vars: Mapping[str, Value]
    model: Mapping[str, Value]
    needs: Mapping[str, Files]  # the outputs of each stage that this one needs
    inputs: Files
    file: Optional[tuple[str, str]]  # the item's own file, under {each}
    prompt: Optional[str]
    template: Optional[str]
    sources: Mapping[str, str]  # prompt, template and all that they include: path -> blob id


def gather(plan: Plan, identity: Identity, tree: Mapping[str, str], index: int, stage: Stage) -> Material:
    """The material of one work whose upstream is done. `tree` maps the committed files to their blobs."""
    item, workflow, ids = plan.items[index], plan.workflow, identity.sources.ids
    positions = {other.name: number for number, other in enumerate(workflow.stages)}

    def blob(path: str) -> tuple[str, str]:
        return path, ids[path].partition(":")[2]

    return Material(
        item=item.fields,
        vars=workflow.vars,
        model=stage.model if stage.model is not None else workflow.model,
        needs={
            name: tuple((path, tree[path]) for path in plan.outputs[index][positions[name]])
            for name in stage.needs
        },
        inputs=tuple(map(blob, identity.input_paths(item, stage))),
        file=blob(item.file) if item.file is not None else None,
        prompt=stage.prompt,
        template=stage.template,
        sources=stage_sources(identity, stage),
    )


def stage_sources(identity: Identity, stage: Stage) -> dict[str, str]:
    """The files that a stage renders, with all that they include: path -> blob id."""
    found = {}
    for path in filter(None, (stage.prompt, stage.template)):
        for each in (path, *identity.sources.includes.get(path, ())):
            found[each] = identity.sources.ids[each].partition(":")[2]
    return found


def to_json(material: Material) -> dict[str, Any]:
    """The material as an attempt's record keeps it."""
    return material._asdict()


def from_json(fields: Mapping[str, Any]) -> Material:
    """The material out of a record. Raises TypeError, KeyError or ValueError where it is not whole."""
    item = dict(fields["item"])
    if "slug" not in item:
        raise KeyError("slug")
    return Material(
        item=item,
        vars=dict(fields["vars"]),
        model=dict(fields["model"]),
        needs={name: _files(files) for name, files in fields["needs"].items()},
        inputs=_files(fields["inputs"]),
        file=_files([fields["file"]])[0] if fields["file"] is not None else None,
        prompt=_path(fields["prompt"]),
        template=_path(fields["template"]),
        sources={str(path): str(blob) for path, blob in fields["sources"].items()},
    )


def _path(value: Any) -> Optional[str]:
    if not (value is None or isinstance(value, str)):
        raise TypeError(f"{value!r:.40} is no path")
    return value


def _files(pairs: Any) -> Files:
    return tuple((str(path), str(blob)) for path, blob in pairs)
