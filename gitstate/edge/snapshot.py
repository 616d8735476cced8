"""Reading what a clone shows: the plan, its sources, the committed tree, receipts and log, as plain data.

A handful of git processes whatever the number of works; never the network. What is parsed is kept in caches
keyed by the content it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, Optional

from blake3 import blake3

from gitstate.core.effect import open_acts
from gitstate.core.identity import Identity
from gitstate.core.plan import Plan
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
from gitstate.edge.planning import Watch, read_plan, source_ids
from gitstate.edge.repo import LOG, RECEIPTS, Repository
from gitstate.edge.sources import Sources, Tree, blob_id, read_tree
from gitstate.edge.tips import Tips, tips
from gitstate.errors import CorruptState


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
    ids, watch = source_ids(git, plan, sources, tree, repository.format)
    receipts = read_notes(git, objects, cache, RECEIPTS, at.receipts, plain_receipt)
    log = read_notes(git, objects, cache, LOG, at.log, plain_log)
    files = tree.files
    if outputs_from is not None:
        files = {**files, **_outputs_of(plan, read_tree(git, outputs_from, len(repository.zero)))}
    lines = [LogLine(*line) for found in log.lines.values() for line in found]
    known = Receipts.of_plain(receipts.lines)
    snapshot = Snapshot(
        head=at.head,
        format=repository.format,
        tree=files,
        empty=blob_id(b"", repository.format),
        receipts=known,
        verdicts=verdicts(lines),
        acts=open_acts(lines, known),
        running=running,
        pauses=_paused(objects, at),
        dirty=tuple(sources.dirty()),
    )
    identity = Identity(plan.workflow, ids, digests=digests)
    return View(plan, identity, snapshot, sources, tree, at, receipts, log, watch)


def notes_at(git: Git, objects: Objects, cache: Cache, at: Tips) -> tuple[Receipts, list[LogLine]]:
    """The receipts and the log alone. Raises CorruptState, NeedsHuman as `read` does."""
    receipts = read_notes(git, objects, cache, RECEIPTS, at.receipts, plain_receipt)
    log = read_notes(git, objects, cache, LOG, at.log, plain_log)
    return Receipts.of_plain(receipts.lines), [
        LogLine(*line) for lines in log.lines.values() for line in lines
    ]


def _paused(objects: Objects, at: Tips) -> frozenset[str]:
    """The accounts that are paused. Raises CorruptState."""
    if not at.pauses:
        return frozenset()
    from gitstate.edge import pauses  # rarely so, and what it needs takes a while to load

    return frozenset(pauses.of(objects, at.pauses))


def receipts_digest(notes: Notes) -> str:
    """A digest over the sorted (object, note) pairs: the same whatever the notes tree looks like (P3)."""
    pairs = "".join(f"{blob} {note}\n" for blob, note in sorted(notes.pairs.items()))
    return blake3(pairs.encode()).hexdigest()


def _outputs_of(plan: Plan, tree: Tree) -> dict[str, str]:
    paths = {path for row in plan.outputs for stage in row for path in stage}
    return {path: blob for path, blob in tree.files.items() if path in paths}


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
    contents = zip(wanted, objects.read_many(wanted))
    for blob, blobs in fresh.items():
        found: list[Plain] = []
        not_known = 0
        for _ in blobs.split():
            note, content = next(contents)
            if content is None:
                raise objects.lacking(note, f"a note of {ref}")
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
