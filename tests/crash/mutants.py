"""Bugs planted on purpose, one at a time, in the child process only: each must turn its sweep red.

That none of the sweeps reports anything means something only because they report these.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gitstate.edge.files import New
from tests.crash.pinned import Plant
from tests.crash.supervise import Call


class Mutant(NamedTuple):
    """A bug, the sweep that must find it, and where: the calls that are worth a point."""

    plant: Plant
    sweep: str
    near: Callable[[Call], bool]
    then: str = ""  # where it dies for the second time: a part of that path


def _path(*parts: str) -> Callable[[Call], bool]:
    return lambda call: any(part in call.path for part in parts)


def no_lock_recovery() -> None:
    """git's own lock files of a killed run stay where they are."""
    from gitstate.commands import locked
    from gitstate.edge import index, record, refs

    locked.clear_stale_locks = lambda repository: refs.Cleared([], [])
    index.PATIENCE = record._PATIENCE = 0.1


def lock_not_inherited() -> None:
    """git's children do not keep the run lock held."""
    from gitstate.edge import git

    start = git.Git.__init__

    def alone(self: Any, root: str, **more: Any) -> None:
        start(self, root, **{**more, "inherit": ()})

    git.Git.__init__ = alone  # type: ignore[method-assign]


def in_place() -> None:
    """Outputs grow under their own names."""
    from gitstate.commands import restore, settling

    def write(path: str, data: bytes, temp: str, **_: Any) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb", buffering=0) as file:
            file.write(data[: len(data) // 2])
            file.write(data[len(data) // 2 :])

    def write_all(news: Sequence[New], disk: Any) -> list[bool]:
        for new in news:
            write(new.path, new.data, new.temp)
        return [True for _ in news]

    settling.write_all, restore.write_whole = write_all, write  # type: ignore[assignment]


def refs_before_objects() -> None:
    """The refs move first; the trees and blobs that they need follow."""
    from gitstate.edge import objects, refs

    late: list[tuple[str, bytes]] = []
    read, move = objects.Objects.read, refs.Refs.move
    known: dict[str, Any] = {}
    store: list[objects.Objects] = []
    write = objects.Objects.write

    def later(self: Any, kind: str, data: bytes, **_: Any) -> str:
        if kind == "commit":
            return write(self, kind, data)
        oid = self.oid(kind, data)
        known[oid] = (kind, data)
        store[:] = [self]
        late.append((kind, data))
        return oid

    def moved(self: Any, moves: Any) -> Any:
        done = move(self, moves)
        while late:
            write(store[0], *late.pop())
        return done

    objects.Objects.write = later  # type: ignore[method-assign]
    objects.Objects.read = lambda self, name: known.get(name) or read(self, name)  # type: ignore[method-assign]
    refs.Refs.move = moved  # type: ignore[method-assign]


def branch_before_index() -> None:
    """The index learns of the outputs when the branch has them already."""
    from gitstate.edge import record, refs

    teach, move = record.Recorder._teach, refs.Refs.move
    waiting: list[Any] = []

    def moved(self: Any, moves: Any) -> Any:
        done = move(self, moves)
        while waiting:
            teach(*waiting.pop())
        return done

    record.Recorder._teach = lambda self, step: waiting.append((self, step))  # type: ignore[method-assign]
    refs.Refs.move = moved  # type: ignore[method-assign]


def branch_before_notes() -> None:
    """The branch moves before the receipts do."""
    from gitstate.edge import refs

    move = refs.Refs.move
    refs.Refs.move = lambda self, moves: move(self, moves[::-1])  # type: ignore[method-assign]


def trust_working_tree() -> None:
    """What stands at an output's path is taken for the answer, and nothing vouches for it."""
    from gitstate.commands import session
    from gitstate.edge import protect
    from gitstate.edge.process import Result

    execute, look = session.execute, protect.look

    def adopt(job: Any, *rest: Any) -> Any:
        folder, tail = (
            ("content", ["md", "summary.txt"]) if job.env["GITSTATE_STAGE"] == "article" else ("work", ["md"])
        )
        paths = [f"{folder}/{job.env['GITSTATE_SLUG']}.{end}" for end in tail]
        if os.path.exists(paths[0]):
            found = tuple(protect.content(".", path) or b"" for path in paths)
            return Result("exit", 0, None, found, (), "", "", 1.0)
        return execute(job, *rest)

    session.execute = adopt
    protect.look = lambda *args: look(*args)._replace(foreign=())


def record_removed_early() -> None:
    """An attempt's record goes before the receipt has come."""
    from gitstate.commands import settling

    record = settling._record

    def early(session: Any, ready: Sequence[Any], *rest: Any) -> Any:
        session.attempts.remove([judged.intent.attempt for judged in ready])
        return record(session, ready, *rest)

    settling._record = early


def no_spool() -> None:
    """A response is judged and written without having been spooled."""
    from gitstate.edge.attempts import Attempts

    Attempts.spool = lambda *_: None  # type: ignore[method-assign]


def done_before_record() -> None:
    """Works are said to be done before they are recorded."""
    from gitstate import show, story
    from gitstate.commands import settling
    from gitstate.core.identity import work_id

    record = settling._record

    def eager(session: Any, ready: Sequence[Any], *rest: Any) -> Any:
        for judged in ready:
            intent = judged.intent
            name = work_id(intent.slug, intent.stage, intent.work)
            show.story(story.done_line(name, intent.outputs, 1.0, None, "1/1"))
        return record(session, ready, *rest)

    settling._record = eager


def no_digest_check() -> None:
    """A spooled response is believed whatever it looks like."""
    from gitstate.edge import attempts

    def believing(self: Any, intent: Any) -> Any:
        fields = self._load(intent.attempt, "spooled")
        outputs = []
        for number in range(1, len(fields["files"]) + 1):
            with open(self.response(intent.attempt, number), "rb") as file:
                outputs.append(file.read())
        return attempts.Spooled(tuple(outputs), 1.0, fields["facts"], fields["at"])

    attempts.Attempts._spooled = believing  # type: ignore[method-assign]


def no_sweep() -> None:
    """What killed attempts left of temporary files stays."""
    from gitstate.commands import recovery
    from gitstate.edge.objects import Objects

    recovery._sweep = lambda *_: None
    Objects.sweep = lambda self: None  # type: ignore[method-assign]


def flush_again() -> None:
    """A refused fsync is simply tried again."""
    from gitstate.edge import attempts, files

    flush = files.flush

    def stubborn(descriptor: int) -> None:
        try:
            flush(descriptor)
        except OSError:
            flush(descriptor)

    files.flush = attempts.flush = stubborn


def deaf_to_errors() -> None:
    """A disk that refuses the barrier is not believed."""
    from gitstate.edge.objects import Objects

    barrier = Objects.barrier

    def deaf(self: Any) -> None:
        with contextlib.suppress(OSError):
            barrier(self)

    Objects.barrier = deaf  # type: ignore[method-assign]


def replaces_anything() -> None:
    """An output replaces whatever stands there by then."""
    from gitstate.commands import settling
    from gitstate.edge import protect

    write = settling.write_all

    def over(news: Sequence[New], disk: Any) -> list[bool]:
        return write([new._replace(replace=True) for new in news], disk)

    settling.write_all = over
    protect.unchanged = lambda *_: True


def act_not_pushed() -> None:
    """An act begins although the remote was not told of it."""
    from gitstate.commands.syncing import Syncing

    Syncing.tell = lambda self: True  # type: ignore[method-assign]


def intent_after_act() -> None:
    """An act is told of, and written down, when it has ended."""
    from gitstate.commands.acts import Acts

    announce, ended = Acts.announce, Acts.ended
    waiting: dict[str, Any] = {}

    def later(self: Acts, group: Sequence[Any]) -> list[bool]:
        waiting.update((intent.attempt, (intent, job)) for intent, job in group)
        return [True for _ in group]

    def now(self: Acts, intent: Any) -> None:
        if intent.attempt in waiting:
            announce(self, [waiting.pop(intent.attempt)])
        ended(self, intent)

    Acts.announce, Acts.ended = later, now  # type: ignore[method-assign]


def absent_unasked() -> None:
    """An open act is taken for one that has not happened, and evidence is not asked."""
    from gitstate.core import effect

    step = effect.step

    def hasty(*args: Any, **more: Any) -> Any:
        found = step(*args, **more)
        return "act" if found == "ask" else found

    effect.step = hasty


def begun_withdrawn() -> None:
    """The recovery takes back an act that had begun."""
    from gitstate.edge.attempts import Attempts

    Attempts.has_acted = lambda *_: False  # type: ignore[method-assign]


def evidence_before_receipt() -> None:
    """That evidence has found an act is on record before its receipt is."""
    from gitstate.commands.acts import Acts

    adopt = Acts._adopt

    def early(self: Acts, asked: Any) -> Any:
        self._note(asked)
        return adopt(self, asked)

    Acts._adopt = early  # type: ignore[method-assign]


def answer_before_receipt() -> None:
    """That a person has seen an act is on record before its receipt is."""
    from gitstate.commands import resolve

    adopt = resolve._adopt

    def early(session: Any, key: Any, acts: Any, evidence: str, facts: Any) -> None:
        answer = resolve.Answer(evidence, False, "")
        session.note(resolve._blob(session, acts[-1]), resolve._line(key, acts, answer, facts["by"]))
        adopt(session, key, acts, evidence, facts)

    resolve._adopt = early


def key_per_run() -> None:
    """Each run has idempotency keys of its own."""
    from gitstate.commands import acts
    from gitstate.edge import jobs

    key, run = jobs.idempotency_key, os.urandom(4).hex()
    jobs.idempotency_key = acts.idempotency_key = lambda *work: run + key(*work)


MUTANTS: dict[str, Mutant] = {
    "no-lock-recovery": Mutant(no_lock_recovery, "kill-tree", _path("index.lock", ".git/refs")),
    "lock-not-inherited": Mutant(
        lock_not_inherited, "kill-beside", _path(".git/refs", "gitstate-index.lock")
    ),
    "in-place": Mutant(in_place, "kill-tree", _path("work/", "content/")),
    "refs-before-objects": Mutant(refs_before_objects, "kill-tree", _path(".git/objects")),
    "branch-before-index": Mutant(branch_before_index, "kill-tree", _path("index")),
    "branch-before-notes": Mutant(branch_before_notes, "kill-tree", _path(".git/refs")),
    "trust-working-tree": Mutant(trust_working_tree, "bystander", _path("work/", "content/")),
    "replaces-anything": Mutant(replaces_anything, "bystander", _path("work/", "content/")),
    "record-removed-early": Mutant(record_removed_early, "kill-tree", _path(".git/objects")),
    "no-spool": Mutant(no_spool, "kill-tree", _path(".git/objects")),
    "done-before-record": Mutant(done_before_record, "kill-tree", _path(".git/objects")),
    "no-digest-check": Mutant(no_digest_check, "torn", _path("")),
    "no-sweep": Mutant(no_sweep, "kill-tree", _path(".gitstate-", "tmp_obj")),
    "flush-again": Mutant(
        flush_again, "error-eio", lambda call: call.name == "fsync" and "intent" in call.path
    ),
    "deaf-to-errors": Mutant(deaf_to_errors, "error-eio", lambda call: call.name == "syncfs"),
    "act-not-pushed": Mutant(act_not_pushed, "acts-evidence", _path("/answered")),
    "intent-after-act": Mutant(intent_after_act, "acts-human", _path("/answered")),
    "absent-unasked": Mutant(absent_unasked, "acts-evidence", _path("/answered")),
    "begun-withdrawn": Mutant(begun_withdrawn, "acts-human", _path("/answered")),
    "evidence-before-receipt": Mutant(
        evidence_before_receipt, "acts-asking", _path("/answered"), then=".acting"
    ),
    "answer-before-receipt": Mutant(
        answer_before_receipt, "acts-resolve", _path("/answered"), then=".acting"
    ),
    "key-per-run": Mutant(key_per_run, "acts-keyed", _path("/answered")),
}
