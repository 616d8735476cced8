"""Planted bugs that only a power cut shows: what was not forced onto the disk, one each.

Each is a function that is called in the process that is to have the bug.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from gitstate.edge.disk import Barrier


def outputs_not_synced() -> None:
    """An output gets its name before its bytes are on the disk."""
    from gitstate.edge import files

    _without_flush(files.is_temp)


def records_not_synced() -> None:
    """Intents, responses and what follows them are written and not forced out."""
    from gitstate.edge import attempts, files

    _without_flush(lambda name: not files.is_temp(name))
    _replace("flush", lambda descriptor: None, attempts)


def groups_not_synced() -> None:
    """What is written in groups is not forced out."""
    from gitstate.edge import files

    write = files._write

    def careless(news: Sequence[files.New], disk: Optional[Barrier]) -> list[bool]:
        if disk is not None:
            disk.flush = lambda: None  # type: ignore[method-assign]
        return write(news, disk)

    _replace("_write", careless, files)


def no_folder_sync() -> None:
    """Files are forced out, their names are not."""
    from gitstate.edge import attempts, disk, files, record

    _replace("flush_folder", lambda folder: None, attempts, disk, files, record)


def no_barrier_before_refs() -> None:
    """Refs may name objects that are not on the disk."""
    from gitstate.edge.refs import Refs

    _without_barrier_after(Refs, "intend")


def no_barrier_after_refs() -> None:
    """Something is called done whose refs are not on the disk."""
    from gitstate.edge.refs import Refs

    _without_barrier_after(Refs, "move")


def refs_by_gits_default() -> None:
    """git is left to its own habits: it forces neither refs nor the index out."""
    from gitstate.edge import index, refs

    _replace("DURABLE", (), index, refs)


def acts_not_synced() -> None:
    """An act begins before it is on the disk that it does."""
    from gitstate.edge.attempts import Attempts

    def careless(self: Attempts, attempt: str) -> None:
        with open(os.path.join(self.folder, f"{attempt}.acting"), "w", encoding="ascii") as file:
            file.write("{}")

    Attempts.act = careless  # type: ignore[method-assign]


def _replace(name: str, value: object, *modules: ModuleType) -> None:
    for module in modules:
        assert hasattr(module, name)  # else the bug would not be planted
        setattr(module, name, value)


def _without_flush(concerned: Callable[[str], bool]) -> None:
    from gitstate.edge import files

    create = files._Folder.create

    def careless(self: files._Folder, name: str, data: bytes, mode: int, disk: Optional[Barrier]) -> None:
        if not concerned(name):
            return create(self, name, data, mode, disk)
        descriptor = os.open(
            self._name(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=self.descriptor
        )
        os.write(descriptor, data)
        os.close(descriptor)
        return None

    files._Folder.create = careless  # type: ignore[method-assign]


def _without_barrier_after(owner: type, name: str) -> None:
    """The next barrier after this method is left out."""
    from gitstate.edge.objects import Objects

    method, barrier = getattr(owner, name), Objects.barrier
    skip = []

    def noted(self: Any, *args: Any) -> Any:
        skip.append(True)
        return method(self, *args)

    def careless(self: Objects) -> None:
        if not skip:
            return barrier(self)
        skip.clear()
        return None

    setattr(owner, name, noted)
    Objects.barrier = careless  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    "outputs-not-synced": outputs_not_synced,
    "records-not-synced": records_not_synced,
    "groups-not-synced": groups_not_synced,
    "no-folder-sync": no_folder_sync,
    "no-barrier-before-refs": no_barrier_before_refs,
    "no-barrier-after-refs": no_barrier_after_refs,
    "refs-by-gits-default": refs_by_gits_default,
    "acts-not-synced": acts_not_synced,
}
SCENARIO_OF = {
    "acts-not-synced": "act",
    "groups-not-synced": "group",
}  # the run that has the bug; else one from nothing
