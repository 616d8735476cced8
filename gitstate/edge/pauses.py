"""Where pauses are kept: a ref on the shared remote for each account, and a local one until it is there.

Every change is a compare-and-swap, here and on the remote: of several machines that find a window closed, or want to
look whether it is open, one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Optional

from gitstate.core import pause
from gitstate.core.pause import Pause
from gitstate.edge import pushing, remote
from gitstate.edge.git import DURABLE, Git
from gitstate.edge.objects import Objects
from gitstate.edge.remote import Remote
from gitstate.edge.repo import PAUSES, TRACKED_PAUSES
from gitstate.errors import ComeBackLater, CorruptState

_INSIST = 4  # tries of lifting a pause that others change meanwhile


class Standing(NamedTuple):
    """A pause, and the blobs that hold it: of our own ref and of what the remote was last seen to have."""

    pause: Pause
    own: Optional[str]
    tracked: Optional[str]


def read(git: Git, objects: Objects, there: Optional[Remote] = None) -> dict[str, Standing]:
    """The pauses that this clone knows of, by account: those of `there`, or of every remote, and its own.

    Raises CorruptState for one that cannot be read.
    """
    folder = f"{TRACKED_PAUSES}/{there.label}" if there is not None else TRACKED_PAUSES
    listed = git.text("for-each-ref", "--format=%(refname) %(objectname)", PAUSES, folder)
    return of(
        objects, [(ref, blob) for ref, _, blob in (line.partition(" ") for line in listed.splitlines())]
    )


def of(objects: Objects, refs: Iterable[tuple[str, str]]) -> dict[str, Standing]:
    """The pauses in some refs (ref, blob), by account. Raises CorruptState for one that cannot be read."""
    found: dict[str, Standing] = {}
    for ref, blob in refs:
        one = _load(objects, ref, blob)
        own = ref.startswith(PAUSES + "/")
        known = found.get(one.account, Standing(one, None, None))
        newest = one if one.probe >= known.pause.probe else known.pause
        found[one.account] = Standing(newest, blob if own else known.own, known.tracked if own else blob)
    return found


def _load(objects: Objects, ref: str, blob: str) -> Pause:
    read = objects.read(blob)
    try:
        if read is None:
            raise ValueError("its object is not here")
        return pause.decode(read[1])
    except (ValueError, RecursionError) as error:
        name, push = ref.rpartition("/")[2], ""
        if ref.startswith(f"{TRACKED_PAUSES}/"):
            push = f"git push {ref[len(TRACKED_PAUSES) + 1 : -len(name) - 1]} :{PAUSES}/{name}; "
        raise CorruptState(
            f"{ref} does not hold a pause that this version knows ({error}).",
            f"Remove it, which costs at most a call: {push}git update-ref -d {ref}",
        ) from error


class Pauses:
    """The pauses of one run: read at its begin, changed here and on the remote."""

    def __init__(self, git: Git, objects: Objects, there: Optional[Remote]) -> None:
        """`there`: the remote that others see; None: there is none, or it is not to be asked."""
        self._git, self._objects, self._there = git, objects, there
        self.untold: str = ""  # why the remote could not be told, if so
        self.standing: dict[str, Standing] = {}
        self.look()

    def look(self) -> Mapping[str, Standing]:
        """Read anew what this clone knows, after somebody may have fetched."""
        self.standing = read(self._git, self._objects, self._there)
        return self.standing

    def set(self, new: Pause) -> bool:
        """Put a pause in the place of what stands for its account.

        False: somebody else has changed it meanwhile, and theirs stands now. Where the remote cannot be told it holds
        for this clone, and the next run that can tells it (`untold` says why).
        """
        return self._change(new.account, new)

    def lift(self, account: str, insist: bool = False) -> bool:
        """Take the pause of an account away. False as for `set`; with `insist` whatever others have made of it."""
        return any(self._change(account, None) for _ in range(_INSIST if insist else 1))

    def deliver(self) -> None:
        """Tell the remote of what this clone alone knows."""
        for account, standing in list(self.standing.items()):
            if standing.own is not None and self._there is not None:
                self._change(account, standing.pause)

    def _change(self, account: str, new: Optional[Pause]) -> bool:
        name = pause.ref_name(account)
        blob = self._objects.write("blob", pause.encode(new)) if new is not None else None
        known = self.standing.get(account)
        if blob is not None:
            self._objects.barrier()
            self._git.run(*DURABLE, "update-ref", f"{PAUSES}/{name}", blob)
        elif known is not None and known.own is not None:
            self._git.run(*DURABLE, "update-ref", "-d", f"{PAUSES}/{name}", check=False)
        told = self._tell(name, blob, known.tracked if known is not None else None)
        if told is None and blob is None:
            self._forget(name)
        if told is not None:
            # The remote decides: our own copy has done its part.
            self._git.run("update-ref", "-d", f"{PAUSES}/{name}", check=False)
        if told is False:
            self._fetch()
        self.look()
        return told is not False

    def _tell(self, name: str, blob: Optional[str], expected: Optional[str]) -> Optional[bool]:
        """Whether the remote took it; None if it could not be told."""
        if self._there is None:
            return None
        ref, tracked = f"{PAUSES}/{name}", f"{TRACKED_PAUSES}/{self._there.label}/{name}"
        try:
            taken = pushing.swap(self._git, self._there, ref, blob, expected)
        except ComeBackLater as error:
            self.untold = error.message
            return None
        if taken:
            command = ("update-ref", tracked, blob) if blob else ("update-ref", "-d", tracked)
            self._git.run(*command, check=False)
        return taken

    def _forget(self, name: str) -> None:
        """Where the remote cannot be told, its pause counts here no more until it is seen there again."""
        listed = self._git.text("for-each-ref", "--format=%(refname)", f"{TRACKED_PAUSES}/*/{name}")
        for ref in listed.splitlines():
            self._git.run("update-ref", "-d", ref, check=False)

    def _fetch(self) -> None:
        assert self._there is not None
        try:
            remote.fetch(self._git, self._there)
        except ComeBackLater as error:
            self.untold = error.message
