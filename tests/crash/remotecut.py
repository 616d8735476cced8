"""The power of the remote's machine goes while it takes a push: what the clone makes of the disk that is left.

What a server forces out is its git's to choose, and git's default leaves loose objects and refs to chance. gitstate
cannot mend a remote that it does not own. It must end well, or with a clear word and an exit code of the design, and
keep what is finished here; and once a person has mended the remote, the next sync must bring it all there again.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Callable
from typing import NamedTuple

from tests.crash import invariants
from tests.crash.worlds import World

_REFS = ("refs/heads/main", invariants.RECEIPTS, invariants.LOG)
_TOLD = re.compile(r"To put it back: (git push \S+ \S+)\. Then")


class Delivered(NamedTuple):
    """What came of one disk of the remote's."""

    bad: list[str]
    note: str  # which of the outcomes that are right it was


def deliver(world: World, sync: Callable[[], int]) -> Delivered:
    """Sync with what is left of the remote, mend it as a person would, and sync again. `sync` runs `gitstate sync`."""
    ours, done = _refs(world, world.repo), invariants.ending(world)
    code, said, bad = sync(), world.said(), []
    if code == 0 and _refs(world, world.remote) != _refs(world, world.repo):
        bad.append("sync exits 0, and the remote has other refs")
    if code not in (0, 3, 75) or (code and "gitstate: " not in said):
        bad.append(f"sync exits {code}: {said[-400:]!r}")
    note = _note(world, code, said)
    # The person: first at the remote, with git; then as gitstate said.
    mend(world)
    code = sync()
    if told := _TOLD.search(world.said()):
        world.git(*told[1].split()[1:])
        code = sync()
    if code:
        bad.append(f"with the remote mended, sync exits {code}: {world.said()[-400:]!r}")
    if _refs(world, world.remote) != _refs(world, world.repo) or not _is_whole(world):
        bad.append(f"with the remote mended, it differs or is not whole: {_refs(world, world.remote)}")
    if any(not _has(world, ref, oid) for ref, oid in ours.items()) or invariants.ending(world) != done:
        bad.append("what was finished here is not what it was")
    bad += [f"the words {word!r} were printed" for word in invariants.WORDS if word in world.said()]
    bad += invariants.after_crash(world) + invariants.fsck(world)
    return Delivered(bad, note)


def mend(world: World) -> None:
    """What a person does at a remote that lost its power: locks, torn objects and the refs to them go."""
    for folder, _, names in os.walk(world.remote):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".lock") or "tmp_objdir" in folder or (_is_loose(path) and not _is_sound(path)):
                os.unlink(path)
    for folder, _, names in os.walk(os.path.join(world.remote, "refs")):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                value = file.read().decode("ascii", "replace").strip()
            if not re.fullmatch("[0-9a-f]{40}", value) or not _reaches(world, value):
                os.unlink(path)


def _note(world: World, code: int, said: str) -> str:
    if code == 0:
        return "" if _is_whole(world) else "whose remote is broken, which nothing tells the clone"
    if _TOLD.search(said):
        return "whose remote forgot a push that it had acknowledged: exit 3, put back as told"
    return f"whose remote is broken: exit {code}, nothing lost, and delivered once it is mended"


def _refs(world: World, repository: str) -> dict[str, str]:
    listed = world.git("for-each-ref", "--format=%(refname) %(objectname)", *_REFS, cwd=repository).decode()
    return dict(line.split() for line in listed.splitlines())  # type: ignore[misc]


def _has(world: World, ref: str, oid: str) -> bool:
    """Whether a ref of the clone's still contains a commit."""
    return world.git("rev-list", "--max-count=1", oid, f"^{ref}") == b""


def _is_whole(world: World) -> bool:
    return not world.git("fsck", "--no-dangling", "--no-progress", cwd=world.remote, check=False) and all(
        _reaches(world, oid) for oid in _refs(world, world.remote).values()
    )


def _reaches(world: World, oid: str) -> bool:
    try:
        names = world.git("rev-list", "--objects", "--no-object-names", oid, cwd=world.remote)
        world.git("cat-file", "--batch", "--buffer", cwd=world.remote, stdin=names)
    except RuntimeError:
        return False
    return True


def _is_loose(path: str) -> bool:
    return bool(re.search(r"/objects/[0-9a-f]{2}/[0-9a-f]{38}$", path))


def _is_sound(path: str) -> bool:
    with open(path, "rb") as file:
        try:
            return bool(zlib.decompress(file.read()))
        except zlib.error:
            return False


def put(world: World, repository: str) -> None:
    """Give a world whose remote is the rebuilt disk the clone as it was."""
    shutil.copytree(repository, world.repo, symlinks=True)
    world.git("remote", "set-url", "origin", f"file://{world.remote}")
