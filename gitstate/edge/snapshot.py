"""Reading what a clone shows: the plan, its sources, the committed tree, receipts and log, as plain data.

A handful of git processes whatever the number of works; never the network. What is parsed is kept in caches
keyed by the content it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, Optional, cast

from blake3 import blake3

from gitstate.core.identity import SCHEME, Identity, fill, plan_digests
from gitstate.core.identity import Sources as SourceIds
from gitstate.core.plan import Checks, Item, Plan, PlanSource, Stage, Value, Workflow
from gitstate.core.receipt import (
    PREFIX,
    LogLine,
    Plain,
    Unreadable,
    digest,
    plain_log,
    plain_receipt,
    set_aside,
    verdicts,
)
from gitstate.core.snapshot import Receipts, Snapshot, WorkKey
from gitstate.edge import notes
from gitstate.edge.cache import Cache
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.repo import LOG, RECEIPTS, Repository
from gitstate.edge.sources import Sources, Tree, blob_id, match, read_tree, uncommitted
from gitstate.edge.tips import Tips, tips
from gitstate.errors import (
    ConfigError,
    CorruptState,
    NeedsHuman,
    Place,
    Problem,
    UsageError,
)


class Notes(NamedTuple):
    """One notes ref, read: the lines by the object that they hang on."""

    lines: dict[str, tuple[Plain, ...]]
    pairs: dict[str, str]  # object -> note blobs, for the digest
    unread: Mapping[
        str, int
    ]  # object -> how many lines of ours are in a format that this version does not know

    @property
    def unknown(self) -> int:
        """How many lines of ours are in a format that this version does not know."""
        return sum(self.unread.values())


class Watch(NamedTuple):
    """What to look at again to know that a view still holds while HEAD and the notes stay where they are."""

    paths: tuple[str, ...]  # the sources
    globs: tuple[str, ...]  # the same in few words, for git
    loose: tuple[str, ...]  # globs that a file which is not committed yet could match


class View(NamedTuple):
    """All that a command needs to answer."""

    plan: Plan
    identity: Identity
    snapshot: Snapshot
    sources: Sources
    tree: Tree
    tips: Tips
    receipts: Notes
    log: Notes
    watch: Watch


def read(
    repository: Repository,
    git: Git,
    objects: Objects,
    config: str,
    running: frozenset[WorkKey] = frozenset(),
    at: Optional[Tips] = None,
    outputs_from: Optional[str] = None,
) -> View:
    """The whole view of this clone, or of `at`.

    `config` is the configuration's path; `running` the works under way while the run lock is held;
    `outputs_from` a branch whose files stand in for those that HEAD does not have.
    Raises ConfigError, UsageError (no configuration), CorruptState, NeedsHuman (contents not in this clone).
    """
    cache = Cache(f"{repository.state}/cache")
    at = at or tips(repository, git, objects, cache)
    tree = read_tree(git, at.head, len(repository.zero))
    sources = Sources(git, repository, objects, tree)
    plan, digests = read_plan(sources, cache, tree, config)
    ids, watch = _source_ids(git, plan, sources, tree, repository.format)
    receipts = read_notes(git, objects, cache, RECEIPTS, at.receipts, plain_receipt)
    log = read_notes(git, objects, cache, LOG, at.log, plain_log)
    files = tree.files
    if outputs_from is not None:
        files = {**files, **_outputs_of(plan, read_tree(git, outputs_from, len(repository.zero)))}
    snapshot = Snapshot(
        head=at.head,
        format=repository.format,
        tree=files,
        empty=blob_id(b"", repository.format),
        receipts=Receipts.of_plain(receipts.lines),
        verdicts=verdicts(LogLine(*line) for lines in log.lines.values() for line in lines),
        running=running,
        dirty=tuple(sources.dirty()),
    )
    identity = Identity(plan.workflow, ids, digests=digests)
    return View(plan, identity, snapshot, sources, tree, at, receipts, log, watch)


def receipts_digest(notes: Notes) -> str:
    """A digest over the sorted (object, note) pairs: the same whatever the notes tree looks like (P3)."""
    pairs = "".join(f"{blob} {note}\n" for blob, note in sorted(notes.pairs.items()))
    return blake3(pairs.encode()).hexdigest()


def _outputs_of(plan: Plan, tree: Tree) -> dict[str, str]:
    paths = {path for row in plan.outputs for stage in row for path in stage}
    return {path: blob for path, blob in tree.files.items() if path in paths}


# --- the plan ---------------------------------------------------------------------------------------------------


def source_paths(workflow: Workflow) -> tuple[list[str], list[str]]:
    """The files that a workflow names itself, and the globs of files that it may name."""
    paths = [workflow.path] if workflow.source.kind == "each" else [workflow.path, workflow.source.path]
    globs = [workflow.source.path] if workflow.source.kind == "each" else []
    for stage in workflow.stages:
        paths += [path for path in (stage.prompt, stage.template, stage.check.json_schema) if path]
        globs += stage.code
    return paths, globs


def read_plan(sources: Sources, cache: Cache, tree: Tree, config: str) -> tuple[Plan, dict[str, str]]:
    """The parsed plan, and the digests of its items; both are kept for as long as the bytes are the same."""
    text = sources.text(config)
    if text is None:
        raise UsageError(
            f"There is no {config} here.", "Write a starter with `gitstate init`, or name one with --config."
        )
    key = (config, blake3(text).digest(), SCHEME)
    kept = cache.load("plan")
    if kept is not None and kept["config"] == key:
        workflow = _workflow_from(kept["workflow"])
        if kept["items_key"] == _items_key(workflow.source, sources, tree):
            return Plan(workflow, tuple(map(Item._make, kept["items"])), kept["outputs"]), kept["digests"]
    # A known plan need not pay for these: 25 ms for PyYAML, 10 ms for the rules.
    from gitstate.edge.config import each_items, load, read_items

    def items_of(source: PlanSource) -> list[Item]:
        if source.kind == "each":
            items = each_items(source, match([source.path], tree.files)[source.path])
        else:
            found = sources.text(source.path)
            if found is None:
                raise ConfigError([Problem(source.place, f"plan: there is no file {source.path}.")])
            items = read_items(source, found)
        _share_texts(items)
        return items

    plan = load(text, config, items_of)
    digests = plan_digests(plan.workflow, plan.items)
    cache.save(
        "plan",
        {
            "config": key,
            "workflow": _plain(plan.workflow),
            "items_key": _items_key(plan.workflow.source, sources, tree),
            "items": list(map(tuple, plan.items)),
            "outputs": plan.outputs,
            "digests": digests,
        },
    )
    return plan, digests


def _items_key(source: PlanSource, sources: Sources, tree: Tree) -> Optional[bytes]:
    """What the items are made of, in short; None where that is not there."""
    if source.kind == "each":
        listing = match([source.path], tree.files)[source.path]
        return blake3("\0".join(listing).encode("utf-8", "surrogateescape")).digest()
    text = sources.text(source.path)
    return blake3(text).digest() if text is not None else None


def _share_texts(items: list[Item]) -> None:
    """Have one object in memory for equal texts: fields are often the same few words over and over."""
    known: dict[str, str] = {}
    for item in items:
        fields = cast("dict[str, Value]", item.fields)  # just parsed, and nobody else's yet
        for name, value in fields.items():
            if type(value) is str:
                fields[name] = known.setdefault(value, value)


def _plain(value: Any) -> Any:
    """NamedTuples as plain tuples, which is all that a cache keeps."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return value


def _workflow_from(plain: Any) -> Workflow:
    workflow = Workflow._make(plain)
    stages = []
    for fields in workflow.stages:
        stage = Stage._make(fields)
        stages.append(stage._replace(place=Place._make(stage.place), check=Checks._make(stage.check)))
    source = PlanSource._make(workflow.source)
    source = source._replace(place=Place._make(source.place))
    return workflow._replace(stages=tuple(stages), source=source)


def _source_ids(git: Git, plan: Plan, sources: Sources, tree: Tree, format: str) -> tuple[SourceIds, Watch]:
    """The ids of every file that the plan's identities stand on. Raises ConfigError for those that are not there."""
    workflow, problems = plan.workflow, []
    paths, code = source_paths(workflow)
    wanted: dict[str, tuple[Place, str]] = {}  # glob or path -> where it is asked for, and as what
    for stage in workflow.stages:
        for pattern in stage.code:
            wanted.setdefault(pattern, (stage.place, f"stages.{stage.name}.code"))
        for pattern in stage.inputs:
            for item in plan.items if "{" in pattern else plan.items[:1]:
                wanted.setdefault(fill(pattern, item), (stage.place, f"stages.{stage.name}.inputs"))
    loose = uncommitted(git, list(wanted))
    globs = match(wanted, [*tree.files, *loose])
    for glob, (place, key) in wanted.items():
        if not globs[glob]:
            problems.append(
                Problem(place, f"{key}: no file matches {glob!r}.", "Commit it, or correct the path.")
            )
    includes = {}
    for stage in workflow.stages:
        for name in ("prompt", "template", "check.json_schema"):
            path = stage.check.json_schema if name == "check.json_schema" else getattr(stage, name)
            if path is None:
                continue
            if sources.look([path])[path] is None:
                problems.append(Problem(stage.place, f"stages.{stage.name}.{name}: there is no file {path}."))
            elif name != "check.json_schema" and b"{%" in (sources.text(path) or b""):
                from gitstate.edge.render import (
                    includes as find_includes,  # Jinja costs 60 ms; most sources need none
                )

                try:
                    includes[path] = tuple(sorted(find_includes(path, sources.text)))
                except ConfigError as error:
                    problems += error.problems
    if problems:
        raise ConfigError(problems)
    every = {*paths, *(path for found in globs.values() for path in found)}
    every.update(path for found in includes.values() for path in found)
    every.update(item.file for item in plan.items if item.file is not None)
    problems = [
        Problem(
            Place(path.encode("utf-8", "backslashreplace").decode()),
            "its name is not UTF-8.",
            "Rename the file.",
        )
        for path in every
        if not path.isprintable() and any("\ud800" <= char <= "\udfff" for char in path)
    ]
    if problems:
        raise ConfigError(problems)
    patterns = [*paths, *wanted, *(path for found in includes.values() for path in found)]
    if workflow.source.kind == "each":
        patterns.append(workflow.source.path)
    found = sources.look(sorted(every), patterns)
    gone = [path for path, source in found.items() if source is None]
    if gone:
        raise ConfigError(
            [
                Problem(
                    Place(path),
                    "is committed and not in the working tree.",
                    f"Bring it back: git restore {path}",
                )
                for path in gone
            ]
        )
    ids = {path: f"{format}:{source.blob}" for path, source in found.items() if source}
    return SourceIds(ids, includes, globs), Watch(tuple(found), tuple(patterns), tuple(wanted))


# --- notes ------------------------------------------------------------------------------------------------------


def read_notes(
    git: Git,
    objects: Objects,
    cache: Cache,
    ref: str,
    tree: Optional[str],
    decode: Callable[[bytes, str], Optional[Plain]],
) -> Notes:
    """All lines of one notes ref, read in one batch; only what changed since the last reading is read again.

    Raises CorruptState for a line that is not whole, NeedsHuman for notes whose content this clone lacks.
    """
    if tree is None:
        return Notes({}, {}, {})
    name = ref.rpartition("/")[2]
    before, kept = _kept_notes(cache, name)
    if before == tree:
        return kept
    pairs = _changed_pairs(git, before, tree, kept.pairs) if before else None
    if pairs is None:
        kept = Notes({}, {}, {})
        pairs = _all_pairs(git, tree)
    fresh = {blob: note for blob, note in pairs.items() if kept.pairs.get(blob) != note}
    lines = {blob: found for blob, found in kept.lines.items() if blob in pairs and blob not in fresh}
    unread = {blob: count for blob, count in kept.unread.items() if blob in lines}
    wanted = [note for blobs in fresh.values() for note in blobs.split()]
    contents = iter(objects.read_many(wanted))
    for blob, blobs in fresh.items():
        found: list[Plain] = []
        not_known = 0
        for _ in blobs.split():
            content = next(contents)
            if content is None:
                raise NeedsHuman(
                    f"The content of {len(wanted)} notes of {ref} is not in this partial clone.",
                    "Fetch them in one go: gitstate sync",
                )
            not_known += _decode_note(content[1], blob, ref, decode, found)
        lines[blob] = tuple(found)
        if not_known:
            unread[blob] = not_known
    notes = Notes(lines, pairs, unread)
    _keep_notes(cache, name, tree, notes)
    return notes


_PART = 4096  # notes written at a time: all of 100,000 at once would be 50 MB more at the worst moment


def _kept_notes(cache: Cache, name: str) -> tuple[Optional[str], Notes]:
    """The notes last read, and the tree that they were read from (None: there are none)."""
    head, *parts = cache.load_parts(name) or [(None, {})]
    notes = Notes({}, {}, head[1])
    for lines, pairs in parts:
        notes.lines.update(lines)
        notes.pairs.update(pairs)
    return head[0], notes


def _keep_notes(cache: Cache, name: str, tree: str, read: Notes) -> None:
    def parts() -> Iterator[Any]:
        yield tree, read.unread
        blobs = iter(read.pairs)
        while some := list(islice(blobs, _PART)):
            yield {blob: read.lines[blob] for blob in some}, {blob: read.pairs[blob] for blob in some}

    cache.save_parts(name, parts())


def _decode_note(
    content: bytes,
    blob: str,
    ref: str,
    decode: Callable[[bytes, str], Optional[Plain]],
    found: list[Plain],
) -> int:
    """Add a note's lines to `found` as plain tuples; the number of lines of ours that this version cannot know."""
    unknown = 0
    for line in content.split(b"\n"):
        try:
            decoded = decode(line, blob)
        except Unreadable as error:
            if digest(line) in set_aside(content.split(b"\n")):
                continue
            short = ref.rpartition("/")[2]
            raise CorruptState(
                f"A line of the note on blob {blob} in {ref} is not whole ({error}).",
                f"See it: git notes --ref={short} show {blob}. Set it aside: gitstate verify --repair",
            ) from error
        if decoded is not None:
            if decoded not in found:
                found.append(decoded)
        elif line.startswith(PREFIX):
            unknown += 1
    return unknown


def _all_pairs(git: Git, tree: str) -> dict[str, str]:
    """Object -> note blob. Two notes on one object (at two fan-outs) are both kept, separated by a space."""
    found: dict[str, str] = {}
    for blob, note in notes.pairs(git, tree):
        found[blob] = f"{found[blob]} {note}" if blob in found else note
    return found


def _changed_pairs(git: Git, old: str, new: str, pairs: Mapping[str, str]) -> Optional[dict[str, str]]:
    """The pairs of `new`, from those of `old` and the difference; None where it must be read whole."""
    done = git.run("diff-tree", "-r", "-z", "--no-renames", old, new, check=False)
    if done.code:
        return None  # the old tree is gone
    found = dict(pairs)
    fields = done.out.decode("utf-8", "surrogateescape").split("\0")
    for change, path in zip(fields[::2], fields[1::2]):
        _, mode, before, after, _ = change.split(" ")
        blob = path.replace("/", "")
        if before.strip("0") and found.get(blob) != before:
            return None  # an object with two notes: too rare to be clever about
        found.pop(blob, None)
        if after.strip("0") and mode.startswith("100"):
            if blob in found or len(blob) != len(after) or blob.strip("0123456789abcdef"):
                return None
            found[blob] = after
    return found
