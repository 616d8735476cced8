"""Where pauses are kept: a ref on the shared remote for each account, and a local one until it is there.

On a host that takes nothing but branches that ref is one: a commit on an empty tree, whose message is the pause.

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
from gitstate.edge.pushing import Swap
from gitstate.edge.remote import BRANCHES, HEADS, Remote
from gitstate.edge.repo import PAUSE_HEADS, PAUSES, TRACKED_PAUSE_HEADS, TRACKED_PAUSES
from gitstate.errors import ComeBackLater, CorruptState

_THERE = {TRACKED_PAUSES: PAUSES, TRACKED_PAUSE_HEADS: PAUSE_HEADS}  # here -> on the remote
_INSIST = 4  # tries of lifting a pause that others change meanwhile


class Standing(NamedTuple):
    """A pause, and the blob of our own ref that holds it, if one does."""

    pause: Pause
    own: Optional[str]


def read(git: Git, objects: Objects, there: Optional[Remote] = None) -> dict[str, Standing]:
    """The pauses that this clone knows of, by account: those of `there`, or of every remote, and its own.

    Raises CorruptState for one that cannot be read.
    """
    return of(objects, _listed(git, there))


def of(objects: Objects, refs: Iterable[tuple[str, str]]) -> dict[str, Standing]:
    """The pauses in some refs (ref, object), by account. Raises CorruptState for one that cannot be read."""
    found: dict[str, Standing] = {}
    for ref, oid in refs:
        one = _load(objects, ref, oid)
        if one is None:
            continue
        known = found.get(one.account, Standing(one, None))
        newest = one if one.probe >= known.pause.probe else known.pause
        found[one.account] = Standing(newest, oid if ref.startswith(PAUSES + "/") else known.own)
    return found


def _listed(git: Git, there: Optional[Remote]) -> list[tuple[str, str]]:
    label = f"/{there.label}" if there is not None else ""
    folders = [folder + label for folder in _THERE]
    listed = git.text("for-each-ref", "--format=%(refname) %(objectname)", PAUSES, *folders)
    return [(ref, oid) for ref, _, oid in (line.partition(" ") for line in listed.splitlines())]


def _load(objects: Objects, ref: str, oid: str) -> Optional[Pause]:
    """The pause that a ref holds: in a blob or, in a branch, in a commit's message. None: it is lifted."""
    read = objects.read(oid)
    try:
        if read is None:
            raise ValueError("its object is not here")
        data = read[1].partition(b"\n\n")[2] if read[0] == "commit" else read[1]
        return pause.decode(data) if data != pause.LIFTED else None
    except (ValueError, RecursionError) as error:
        folder, push = next((f for f in _THERE if ref.startswith(f"{f}/")), None), ""
        if folder is not None:
            label, _, name = ref[len(folder) + 1 :].rpartition("/")
            push = f"git push {label} :{_THERE[folder]}/{name}; "
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
        self._seen: dict[str, str] = {}  # the remote's refs for pauses, as last asked -> object
        self.look()

    def look(self) -> Mapping[str, Standing]:
        """Read anew what this clone knows, after somebody may have fetched."""
        listed = _listed(self._git, self._there)
        self.standing = of(self._objects, listed)
        self._seen = {}
        if self._there is not None:
            for folder, home in _THERE.items():
                begin = f"{folder}/{self._there.label}/"
                self._seen.update({f"{home}/{r[len(begin) :]}": o for r, o in listed if r.startswith(begin)})
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
        told = self._tell(name, pause.encode(new) if new is not None else None)
        if told is None and blob is None:
            self._forget(name)
        if told is not None:
            # The remote decides: our own copy has done its part.
            self._git.run("update-ref", "-d", f"{PAUSES}/{name}", check=False)
        if told is False:
            self._fetch()
        self.look()
        return told is not False

    def _tell(self, name: str, data: Optional[bytes]) -> Optional[bool]:
        """Whether the remote took it; None if it could not be told."""
        if self._there is None:
            return None
        own, branch = f"{PAUSES}/{name}", f"{PAUSE_HEADS}/{name}"
        refs = [ref for ref in (own, branch) if ref in self._seen]
        if branch not in refs and remote.home(self._git, self._there) is BRANCHES:
            refs.append(branch)
        try:
            if data is None:
                told = [self._swap(ref, None) for ref in refs or [own]]
                return None if None in told else all(told)
            # (a branch once any clone had to make one, else the others would not look there first)
            taken = self._swap(refs[-1] if refs else own, data)
            return self._swap(branch, data) if taken is None and branch not in refs else taken
        except ComeBackLater as error:
            self.untold = error.message
            return None

    def _swap(self, ref: str, data: Optional[bytes]) -> Optional[bool]:
        """Change one ref of the remote, from what it was last seen to hold. False: it holds something else by now;
        None: it is not taken. A host that lets nothing be deleted is told that it is lifted."""
        assert self._there is not None
        new = self._object(ref, data) if data is not None else None
        found = pushing.swap_all(self._git, self._there, [Swap(ref, new, self._seen.get(ref))])
        if found.refused and data is None and ref in self._seen:
            return self._swap(ref, pause.LIFTED)
        if found.refused or found.unclear:
            self.untold = f"{self._there.name} does not take {ref}: {found.words}"
            return None
        if found.taken:
            folder = next(folder for folder, home in _THERE.items() if ref.startswith(f"{home}/"))
            tracked = f"{folder}/{self._there.label}/{ref.rpartition('/')[2]}"
            self._git.run("update-ref", *((tracked, new) if new else ("-d", tracked)), check=False)
        return bool(found.taken)

    def _object(self, ref: str, data: bytes) -> str:
        return self._objects.letter(data) if ref.startswith(HEADS) else self._objects.write("blob", data)

    def _forget(self, name: str) -> None:
        """Where the remote cannot be told, its pause counts here no more until it is seen there again."""
        listed = self._git.text("for-each-ref", "--format=%(refname)", *(f"{f}/**/{name}" for f in _THERE))
        for ref in listed.splitlines():
            self._git.run("update-ref", "-d", ref, check=False)

    def _fetch(self) -> None:
        assert self._there is not None
        try:
            remote.fetch(self._git, self._there)
        except ComeBackLater as error:
            self.untold = error.message
