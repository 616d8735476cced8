"""Attempts in progress and their spool: what makes a crash cost nothing that was paid for (P4).

Each attempt has a few files in `gitstate/attempts/` of the git common directory, each written whole and durably
before the next step begins:

    ID.intent     before anything is spent: which work, from which material, which files it may make
    ID.acting     of an effect only: its command is about to start; until then it has changed nothing
    ID.response-N the response, as it arrived
    ID.spooled    the response is complete: sizes and digests of its files, and how the command ended
    ID.written    what the outputs will be, before any of them is put in its place

Removed when the receipt is durable: `spooled` first and durably, so that it never names a response that has gone,
the intent last. An intent without `spooled` is therefore either of an answer that never came, or a leftover of an
attempt that the notes know.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Optional

from blake3 import blake3

from gitstate.core.attempt import (
    NewerFormat,
    as_facts,
    as_number,
    as_text,
    as_texts,
    as_texts_or_none,
    decode,
    encode,
)
from gitstate.core.material import Material, from_json, to_json
from gitstate.edge.disk import Barrier, flush, flush_folder
from gitstate.edge.files import New, write_all, write_whole
from gitstate.errors import CorruptState


class Intent(NamedTuple):
    """What an attempt set out to do. Its identity is fixed here, whatever changes meanwhile."""

    attempt: str
    slug: str
    stage: str
    work: str  # hash
    scheme: int
    components: Mapping[str, str]
    outputs: tuple[str, ...]  # paths
    temporaries: tuple[str, ...]  # every temporary file that promoting may make, as repository paths
    at: str
    material: Material
    committed: tuple[
        Optional[str], ...
    ]  # the blobs at the outputs' paths on the branch; other ones are not ours
    before: tuple[Optional[str], ...]  # the blobs that stood at the outputs' paths, which may be replaced
    branch: str = ""  # what its outputs are to be recorded on, a full ref; "" in records that do not say
    root: str = ""  # the working tree that they go to; "" likewise


class Spooled(NamedTuple):
    """A response that arrived: how the command ended, and the files that it gave."""

    outputs: tuple[bytes, ...]
    seconds: float
    facts: Mapping[str, Any]  # code, signal, ended_by, stderr: what the judgement needs
    at: str  # when it arrived, in UTC: kept, so that whoever records it again writes the very same line


class Attempt(NamedTuple):
    """What is found of one attempt."""

    intent: Intent
    spooled: Optional[Spooled]
    written: Optional[tuple[str, ...]]  # BLAKE3 of each output's bytes


class Trace(NamedTuple):
    """How far an attempt on record has come, without its response."""

    intent: Intent
    step: Literal["intent", "acting", "spooled", "written"]


class Attempts:
    """The attempts of one clone: those in progress, or by another `name` those that were put aside."""

    def __init__(self, state: str, name: str = "attempts") -> None:
        self.folder = os.path.join(state, name)
        self._anchored = False

    def begin(self, intent: Intent) -> None:
        """Record, durably, that an attempt is about to spend."""
        self._anchor()
        fields = {**intent._asdict(), "material": to_json(intent.material)}
        self._write(intent.attempt, "intent", fields)

    def _anchor(self) -> None:
        """Once: the folders' own names onto the disk. Others make them too (the lock, the cache) and do not see to
        that; without it a power cut loses the folder, however durable the files in it are."""
        if not self._anchored:
            os.makedirs(self.folder, exist_ok=True)
            state = os.path.dirname(self.folder)
            flush_folder(state)
            flush_folder(os.path.dirname(state))
            self._anchored = True

    def spool(self, attempt: str, spooled: Spooled) -> None:
        """Put a complete response where no crash can lose it."""
        files = []
        for number, data in enumerate(spooled.outputs, 1):
            path = self.response(attempt, number)
            # A try that failed may have left one whose lost pages count as clean now.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            # Complete only once `spooled` names it, so it may grow in place; but it must be on the disk by then.
            with open(path, "xb") as file:
                file.write(data)
                file.flush()
                flush(file.fileno())
            files.append([len(data), blake3(data).hexdigest()])
        # Their names too, and before the one that says they are there: a power cut may keep either alone.
        flush_folder(self.folder)
        self._write(
            attempt,
            "spooled",
            {"files": files, "seconds": spooled.seconds, "facts": dict(spooled.facts), "at": spooled.at},
        )

    def written(self, outputs: Mapping[str, Sequence[bytes]], disk: Barrier) -> None:
        """Record what the outputs of some attempts will be, before the first of them is put in its place."""
        fields = {
            attempt: {"outputs": [blake3(data).hexdigest() for data in datas]}
            for attempt, datas in outputs.items()
        }
        write_all([self._new(attempt, "written", fields[attempt]) for attempt in fields], disk)

    def remove(self, attempts: Iterable[str]) -> None:
        """Remove attempts that left nothing to do, their intents after what they explain. May be killed anywhere."""
        gone = set(attempts)
        names = sorted(name for name in self._names() if name.split(".")[0] in gone)
        spooled = [name for name in names if name.endswith(".spooled")]
        for name in spooled:
            os.unlink(os.path.join(self.folder, name))
        if spooled:
            flush_folder(self.folder)
        rest = [name for name in names if not name.endswith(".spooled")]
        # An act's mark goes after its intent: an intent alone would say that the act never began.
        last = (".intent", ".acting")
        for name in sorted(
            rest, key=lambda name: last.index(end) if (end := os.path.splitext(name)[1]) in last else -1
        ):
            os.unlink(os.path.join(self.folder, name))

    def put_aside(self, attempt: str, store: Attempts) -> None:
        """Give the files of an attempt that was rejected a second name in `store`, durably. May be repeated.

        For a person to look at, and complete, so that the answer can pass another time (its intent comes last).
        """
        store._anchor()
        names = [
            name for name in self._names() if name.split(".")[0] == attempt and not name.endswith(".tmp")
        ]
        for intents in (False, True):
            for name in sorted(name for name in names if name.endswith(".intent") == intents):
                path, aside = os.path.join(self.folder, name), os.path.join(store.folder, name)
                try:
                    os.link(path, aside)
                except FileExistsError:
                    pass  # by a run that died right after
                except OSError:  # no hard links here
                    with open(path, "rb") as file:
                        write_whole(aside, file.read(), name + ".tmp", replace=True)
            flush_folder(store.folder)

    def act(self, attempt: str) -> None:
        """Record, durably, that an act is about to begin."""
        self._anchor()
        self._write(attempt, "acting", {})

    def has_acted(self, attempt: str) -> bool:
        """Whether an act may have begun."""
        return os.path.exists(os.path.join(self.folder, f"{attempt}.acting"))

    def is_begun(self, attempt: str) -> bool:
        """Whether an attempt is on record."""
        return os.path.exists(os.path.join(self.folder, f"{attempt}.intent"))

    def is_spooled(self, attempt: str) -> bool:
        """Whether an attempt's answer has arrived."""
        return os.path.exists(os.path.join(self.folder, f"{attempt}.spooled"))

    def has_answer(self, attempt: str) -> bool:
        """Whether an attempt brought anything, be it rejected."""
        return os.path.exists(self.response(attempt, 1))

    def response(self, attempt: str, number: int) -> str:
        """Where the N-th file of a response lies (from 1)."""
        return os.path.join(self.folder, f"{attempt}.response-{number}")

    def all(self) -> list[Attempt]:
        """Every attempt on record, oldest first.

        Raises CorruptState, naming the file, for a record that cannot be read; its response stays where it is.
        """
        return [self.read(name) for name in self._ids()]

    def read(self, attempt: str) -> Attempt:
        """One attempt, with its response. Raises CorruptState as `all` does."""
        return self._read(attempt, self._names())

    def intents(self) -> Iterator[Intent]:
        """The intents alone, oldest first: responses may be large. Raises CorruptState as `all` does."""
        for attempt in self._ids():
            yield self._read(attempt, set()).intent

    def _ids(self) -> list[str]:
        return sorted(name[: -len(".intent")] for name in self._names() if name.endswith(".intent"))

    def under_way(self) -> Iterator[tuple[str, str]]:
        """(slug, stage) of the attempts on record; for readers beside a running process, which may remove them."""
        for name in self._names():
            if name.endswith(".intent"):
                try:
                    with open(os.path.join(self.folder, name), "rb") as file:
                        fields = json.loads(file.read())
                    yield str(fields["slug"]), str(fields["stage"])
                except (OSError, ValueError, KeyError, TypeError, RecursionError):
                    continue  # `run`, which needs it, says what is wrong with it

    def number(self) -> tuple[int, int]:
        """How many attempts are on record, and how many of those are answered. By the names alone: nothing is read."""
        names = self._names()
        ids = [name[: -len(".intent")] for name in names if name.endswith(".intent")]
        return len(ids), sum(f"{attempt}.spooled" in names for attempt in ids)

    def traces(self) -> list[Trace]:
        """How far each attempt on record has come, oldest first; for readers beside a running process, which may
        remove them. Raises CorruptState as `all` does."""
        found = []
        for attempt in self._ids():
            names = self._names()
            try:
                intent = self._read(attempt, set()).intent
            except CorruptState:
                if self.is_begun(attempt):
                    raise
                continue
            for step in ("written", "spooled", "acting"):
                if f"{attempt}.{step}" in names:
                    found.append(Trace(intent, step))
                    break
            else:
                found.append(Trace(intent, "intent"))
        return found

    def strays(self) -> list[str]:
        """Files in the folder that belong to no intent: a record that was being written when its process died.

        Raises CorruptState for an answer whose intent is gone, which no crash leaves.
        """
        names = self._names()
        owners = {name[: -len(".intent")] for name in names if name.endswith(".intent")}
        for name in sorted(names):
            attempt = name.split(".")[0]
            if name == f"{attempt}.spooled" and attempt not in owners:
                raise CorruptState(
                    f"{self._path(attempt, 'intent')} is gone, so nobody can tell what this attempt's answer is of.",
                    f"{self._answer(attempt)} To go on without it, move the files {attempt}.* away.",
                )
        paths = [
            os.path.join(self.folder, name)
            for name in sorted(names)
            if name.split(".")[0] not in owners or name.endswith(".tmp")
        ]
        return [path for path in paths if not os.path.isdir(path)]  # (we make no folders here)

    def _names(self) -> set[str]:
        try:
            return set(os.listdir(self.folder))
        except FileNotFoundError:
            return set()

    def _write(self, attempt: str, step: str, fields: Mapping[str, Any]) -> None:
        new = self._new(attempt, step, fields)
        write_whole(new.path, new.data, new.temp, replace=new.replace)

    def _new(self, attempt: str, step: str, fields: Mapping[str, Any]) -> New:
        name = f"{attempt}.{step}"
        return New(os.path.join(self.folder, name), encode(fields), name + ".tmp", replace=True)

    def _load(self, attempt: str, step: str) -> dict[str, Any]:
        with open(os.path.join(self.folder, f"{attempt}.{step}"), "rb") as file:
            return decode(file.read(), step)

    def _read(self, attempt: str, names: set[str]) -> Attempt:
        step = "intent"
        try:
            intent = _intent(self._load(attempt, step))
            if intent.attempt != attempt:
                raise ValueError(f"it is the record of {intent.attempt}")
            spooled = written = None
            if f"{attempt}.spooled" in names:
                step = "spooled"
                spooled = self._spooled(intent)
            if f"{attempt}.written" in names:
                step = "written"
                written = as_texts(self._load(attempt, step)["outputs"])
        except NewerFormat as error:
            raise CorruptState(
                f"{self._path(attempt, step)}: a newer gitstate wrote this attempt's record ({error}).",
                f"Let that version finish it: gitstate recover. {self._answer(attempt)}",
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            words = error.strerror if isinstance(error, OSError) else error
            words = f"{error} is missing" if isinstance(error, KeyError) else words
            raise CorruptState(
                f"{self._path(attempt, step)}: this attempt's record cannot be read ({words}).",
                f"{self._answer(attempt)} To go on without it, move the files {attempt}.* away.",
            ) from error
        return Attempt(intent, spooled, written)

    def _path(self, attempt: str, step: str) -> str:
        return os.path.join(self.folder, f"{attempt}.{step}")

    def _answer(self, attempt: str) -> str:
        """Where an attempt's answer is, for people."""
        path = self.response(attempt, 1)
        return (
            f"Its answer is kept: {path}." if os.path.lexists(path) else "No answer of it has arrived here."
        )

    def _spooled(self, intent: Intent) -> Spooled:
        fields = self._load(intent.attempt, "spooled")
        outputs = []
        for number, (size, digest) in enumerate(fields["files"], 1):
            path = self.response(intent.attempt, number)
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError as error:
                raise CorruptState(
                    f"{path}: the spooled response cannot be read ({error.strerror}).",
                    f"Bring it back; or, to go on without it, move the files {intent.attempt}.* away.",
                ) from error
            if len(data) != size or blake3(data).hexdigest() != digest:
                raise CorruptState(
                    f"{path}: the spooled response is not what arrived.",
                    f"Move the files {intent.attempt}.* away to go on without it.",
                )
            outputs.append(data)
        if len(outputs) not in (0, len(intent.outputs)):
            raise ValueError("it does not name as many files as its stage has outputs")
        at = intent.at if fields["at"] is None else as_text(fields["at"])
        return Spooled(tuple(outputs), float(fields["seconds"]), as_facts(fields["facts"]), at)


def _intent(fields: Mapping[str, Any]) -> Intent:
    intent = Intent(
        attempt=as_text(fields["attempt"]),
        slug=as_text(fields["slug"]),
        stage=as_text(fields["stage"]),
        work=as_text(fields["work"]),
        scheme=as_number(fields["scheme"]),
        components={as_text(name): as_text(digest) for name, digest in fields["components"].items()},
        outputs=as_texts(fields["outputs"]),
        temporaries=as_texts(fields["temporaries"]),
        at=as_text(fields["at"]),
        material=from_json(fields["material"]),
        committed=as_texts_or_none(fields["committed"]),
        before=as_texts_or_none(fields["before"]),
        branch=as_text(fields["branch"]),
        root=as_text(fields["root"]),
    )
    if {len(intent.temporaries), len(intent.committed), len(intent.before)} != {len(intent.outputs) or None}:
        raise ValueError("it does not tell as much of each output")
    return intent
