"""`gitstate verify`: every promise that can be checked on this clone, checked; for CI and for doubters."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from gitstate import show
from gitstate.commands.clone import Clone, statuses_of, utc_now
from gitstate.commands.lines import add_lines, stamp, who
from gitstate.commands.locked import locked
from gitstate.core.check import check
from gitstate.core.derive import Status
from gitstate.core.paths import managed_folders
from gitstate.core.receipt import (
    Unreadable,
    aside,
    decode_log,
    decode_receipt,
    digest,
    is_adopted,
    set_aside,
)
from gitstate.edge import notes
from gitstate.edge.attempts import Attempts
from gitstate.edge.files import is_temp
from gitstate.edge.jobs import schema_of
from gitstate.edge.protect import ignored
from gitstate.edge.repo import LOG, RECEIPTS
from gitstate.edge.scan import scan
from gitstate.edge.snapshot import View
from gitstate.edge.sources import match
from gitstate.errors import CorruptState

_ALIKE = 10  # notes of the same words that are told one by one


class Finding(NamedTuple):
    """One thing that is not as it should be, or that somebody should know."""

    level: str  # "error": a promise does not hold; "note": worth knowing
    subject: str  # a path, a blob, a work
    message: str


def verify(clone: Clone, *, as_json: bool = False, repair: bool = False) -> int:
    """Returns 0 if all holds, 1 if not, 3 where state cannot be read."""
    if repair:
        _repair(clone.config)
    try:
        broken = [Finding("error", f"note on {found.blob}", found.message) for found in _broken_lines(clone)]
        found = broken or list(_findings(clone, clone.view()))
        code = 3 if broken else 1 if any(finding.level == "error" for finding in found) else 0
    except CorruptState as error:
        found, code = [Finding("error", "state", str(error))], 3
    if as_json:
        fields = {"format": 1, "holds": code == 0, "findings": [finding._asdict() for finding in found]}
        show.tell_json(fields)
        return code
    alike = Counter((finding.level, finding.message) for finding in found)
    told: Counter[tuple[str, str]] = Counter()
    for finding in found:
        kind = finding.level, finding.message
        told[kind] += 1
        if finding.level == "error" or told[kind] <= _ALIKE:
            show.tell(f"{finding.level}: {show.safe(finding.subject)}: {show.safe(finding.message)}")
        elif told[kind] == alike[kind]:
            show.tell(
                f"{finding.level}: and {alike[kind] - _ALIKE:,} more: {show.safe(finding.message)} (all: --json)"
            )
    errors = sum(finding.level == "error" for finding in found)
    show.tell(
        "Everything that can be checked here holds." if not errors else f"{show.number(errors, 'finding')}."
    )
    return code


def _findings(clone: Clone, view: View) -> Iterator[Finding]:
    statuses = statuses_of(view, utc_now())
    yield from _receipts(view)
    yield from _outputs(clone, view, statuses)
    yield from _open_acts(view)
    folders = managed_folders(path for stage in view.plan.workflow.stages for path in stage.outputs)
    standing = {*scan(clone.repository.root, within=folders).files}
    yield from _strays(clone, view, standing)
    orphans = list(_orphans(view))
    yield from orphans
    standing.update(path for path in view.tree.files if path.startswith(tuple(folders)))
    yield from _undeclared(clone, view, standing - {orphan.subject for orphan in orphans})


def _receipts(view: View) -> Iterator[Finding]:
    for blob, line in view.snapshot.receipts.misplaced():
        yield Finding(
            "error",
            f"note on {blob}",
            f"a receipt of {line.slug}/{line.stage} names another blob; it never counts",
        )
    if view.receipts.unknown:
        yield Finding(
            "note",
            "receipts",
            f"{view.receipts.unknown} lines come from a newer gitstate; they do not count here",
        )


def _outputs(clone: Clone, view: View, statuses: list[Status]) -> Iterator[Finding]:
    """P1 and P7 on what is committed: no output is empty, gone from the store, or fails its stage's checks."""
    stages = {stage.name: stage for stage in view.plan.workflow.stages}
    for status in statuses:
        for path in status.outputs:
            if view.tree.files.get(path) == view.snapshot.empty:
                yield Finding("error", path, "an empty file stands where an output belongs")
            elif status.reason == "unverified" and path in view.tree.files:
                message = "no receipt vouches for it here; fetch receipts (gitstate sync) or accept it"
                # (a newer gitstate's receipt on it is one that only this version cannot read)
                newer = (
                    view.receipts.unread.get(view.tree.files[status.outputs[0]])
                    if status.outputs[0] in view.tree.files
                    else 0
                )
                yield Finding("note" if newer else "error", path, message)
            elif path in view.tree.others:
                yield Finding("error", path, "is not a regular file, and outputs are")
    done = [status for status in statuses if status.state == "done"]
    contents = clone.objects.read_many([view.snapshot.tree[status.outputs[0]] for status in done])
    schemas = {
        name: schema_of(view.sources.text, stage.check.json_schema) if stage.check.json_schema else None
        for name, stage in stages.items()
    }
    missing = 0
    for status, content in zip(done, contents):
        if content is None:
            lacking = clone.objects.lacking(view.snapshot.tree[status.outputs[0]], "an output")
            if isinstance(lacking, CorruptState):
                yield Finding("error", status.outputs[0], str(lacking))
            else:
                missing += 1
            continue
        _, failure = check(content[1], stages[status.stage].check, schemas[status.stage])
        if failure is not None:
            # A human's edit is respected, and still nobody should be surprised by it. What was adopted is the word
            # of somebody on what happened, not an answer to judge.
            on_it = view.snapshot.receipts.on(
                view.snapshot.tree[status.outputs[0]], (status.slug, status.stage)
            )
            respected = status.reason in ("edited", "accepted") or any(map(is_adopted, on_it))
            level = "note" if respected else "error"
            yield Finding(level, status.outputs[0], f"fails the check {failure.kind}: {failure.message}")
    if missing:
        yield Finding(
            "note", "outputs", f"the content of {missing} outputs is not in this clone, and was not checked"
        )


def _open_acts(view: View) -> Iterator[Finding]:
    """P11: the acts of effects of which nobody has noted how they ended."""
    for (slug, stage), acts in sorted(view.snapshot.acts.items()):
        if (slug, stage) in view.snapshot.running:
            continue
        for act in acts:
            message = f"whether it has happened is not known (attempt {act.attempt}, begun {act.at})"
            yield Finding("note", f"{slug}/{stage}", message)


def _strays(clone: Clone, view: View, standing: Collection[str]) -> Iterator[Finding]:
    """Temporary files of ours that no attempt on record owns, in the tree, in the outputs' folders and among what
    is `standing` in managed ones."""
    attempts = Attempts(clone.repository.state)
    owned = {path for attempt in attempts.all() for path in attempt.intent.temporaries}
    for path in view.tree.files:
        if is_temp(path.rpartition("/")[2]):
            yield Finding("error", path, "a temporary file of gitstate's is committed; remove it: git rm")
    folders = {path.rpartition("/")[0] for row in view.plan.outputs for stage in row for path in stage}
    temporary = {path for path in standing if is_temp(path)}
    for folder in folders:
        with suppress(OSError):
            names = filter(is_temp, os.listdir(os.path.join(clone.repository.root, folder)))
            temporary.update(f"{folder}/{name}" if folder else name for name in names)
    for path in sorted(temporary.difference(owned, view.tree.files)):
        yield Finding("error", path, "a temporary file that no attempt on record owns; remove it")
    for attempt in attempts.all():
        words = "answer waits in the spool" if attempt.spooled else "attempt was begun"
        yield Finding(
            "note",
            f"{attempt.intent.slug}/{attempt.intent.stage}",
            f"an {words}; `gitstate recover` settles it",
        )
    for stray in attempts.strays():
        yield Finding("note", stray, "belongs to no attempt; `gitstate recover` removes it")


def _orphans(view: View) -> Iterator[Finding]:
    """Committed outputs of slugs that the plan no longer holds: listed, never touched."""
    slugs = {(item.slug, stage.name) for item in view.plan.items for stage in view.plan.workflow.stages}
    planned = {path for row in view.plan.outputs for stage in row for path in stage}
    at: dict[str, str] = {}
    for path, blob in view.tree.files.items():
        if path not in planned:
            at.setdefault(blob, path)
    for line in view.snapshot.receipts.all():
        if (line.slug, line.stage) not in slugs and (found := at.get(line.outputs[0][1])) is not None:
            message = f"an output of {line.slug}/{line.stage}, which the plan no longer holds"
            yield Finding("note", found, message)


_OF_GIT = (".gitignore", ".gitattributes", ".gitkeep")


def _undeclared(clone: Clone, view: View, paths: Iterable[str]) -> Iterator[Finding]:
    """Files in managed folders that nothing in the configuration speaks of: left by somebody, or by a former plan."""
    declared = {path for row in view.plan.outputs for stage in row for path in stage}
    declared.update(view.watch.paths)
    found = [
        path
        for path in paths
        if path not in declared and not is_temp(path) and os.path.basename(path) not in _OF_GIT
    ]
    # (what a glob of the configuration means counts as soon as it is committed)
    found_by_globs = {path for matched in match(view.watch.globs, found).values() for path in matched}
    found = [path for path in found if path not in found_by_globs]
    for path in sorted({*found} - ignored(clone.git, found)):
        yield Finding("note", path, "no stage makes it or reads it; the folder is that of a stage's outputs")


class _Broken(NamedTuple):
    ref: str
    blob: str  # that the note is on
    line: bytes  # empty: the whole note cannot be read
    message: str


def _broken_lines(clone: Clone) -> Iterator[_Broken]:
    """Every line of ours in the notes that is neither whole nor set aside."""
    for ref, decode in ((RECEIPTS, decode_receipt), (LOG, decode_log)):
        tree = clone.objects.resolve(f"{ref}^{{tree}}")
        if tree is None:
            continue
        pairs = notes.pairs(clone.git, tree)
        for (blob, note), content in zip(pairs, clone.objects.read_many([note for _, note in pairs])):
            if content is None:
                yield _Broken(ref, blob, b"", str(clone.objects.lacking(note, f"a note of {ref}")))
                continue
            lines = notes.lines(content[1])
            known = set_aside(lines)
            for line in lines:
                try:
                    decode(line)
                except Unreadable as error:
                    if digest(line) not in known:
                        yield _Broken(
                            ref, blob, line, f"a line in {ref} is not whole ({error}); set it aside: --repair"
                        )


def _repair(config: str) -> None:
    """Set every broken line aside by a line of its own: notes only ever grow, here and everywhere."""
    with locked(config) as clone:
        by, at = who(clone), stamp()
        added: dict[str, dict[str, list[bytes]]] = {RECEIPTS: {}, LOG: {}}
        for broken in _broken_lines(clone):
            if broken.line:
                added[broken.ref].setdefault(broken.blob, []).append(aside(broken.line, by, at))
        add_lines(clone, added[RECEIPTS], added[LOG], "gitstate: set broken lines aside")
    count = sum(len(lines) for notes_ in added.values() for lines in notes_.values())
    show.story(f"Set {show.number(count, 'broken line')} aside.")
