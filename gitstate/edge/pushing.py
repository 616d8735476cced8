"""Telling the remote: pushes all or none, changes of single refs by compare-and-swap, and what became of them.

What happened is read from exit codes, refs and flags, never from the words of a message: those are for people.
After an unclear answer the remote is read again and decides.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from gitstate.edge.git import Done, Git
from gitstate.edge.remote import Remote, ask, first_line, quiet


class Answer(Enum):
    """What is known about a push after it ended."""

    APPLIED = "applied"
    REJECTED = "rejected"  # the remote turned refs away
    HOOK = "hook"  # this clone's own pre-push hook said no
    UNCLEAR = "unclear"  # no answer for any ref, and the remote does not have what was sent


class Pushed(NamedTuple):
    """The end of one push."""

    answer: Answer
    refused: tuple[str, ...] = ()  # the remote's refs that it turned away
    words: str = ""  # what git and the remote said; for people only


class Swap(NamedTuple):
    """A change of one ref by compare-and-swap: from `old` (None: it must not exist) to `new` (None: delete it)."""

    ref: str
    new: str | None
    old: str | None

    @property
    def arguments(self) -> tuple[str, str]:
        """What `git push` needs for it: what is expected, and what to push."""
        return f"--force-with-lease={self.ref}:{self.old or ''}", f"{self.new or ''}:{self.ref}"


class Swapped(NamedTuple):
    """What became of some swaps: the refs that hold what they should, and those that are still as they were."""

    taken: frozenset[str]
    refused: frozenset[str] = frozenset()  # the remote, or git for it, turned the change away
    unclear: frozenset[str] = frozenset()  # no word of it
    words: str = ""  # what git and the remote said; for people only


def push(
    git: Git, remote: Remote, updates: Mapping[str, str], *, atomic: bool = True, fence: Sequence[Swap] = ()
) -> Pushed:
    """Update the remote's refs (ref → object id, in that order), none of them by force.

    All or none, unless `atomic` is off: then the notes go first and the branch after them, because a receipt
    without its file is legal to find and a file that nothing vouches for is not. With a `fence` (changes of the
    leases under which this is published; each must change its ref) it is all or none in any case.
    The user's pre-push hook runs. After no answer the remote is read again and decides.
    Raises ComeBackLater if it then cannot be reached.
    """
    atomic = atomic or bool(fence)
    if not atomic and remote.branch in updates and len(updates) > 1:
        rest = {ref: oid for ref, oid in updates.items() if ref != remote.branch}
        first = push(git, remote, rest, atomic=False)
        if first.answer is not Answer.APPLIED:
            return first
        updates = {remote.branch: updates[remote.branch]}
    done, hook_refused = _push(git, remote, updates, atomic, fence)
    refused = tuple(ref for ref, flag in _flags(done.out).items() if flag == "!")
    words = "\n".join(filter(None, (_refusals(done.out), done.err.strip())))
    if done.code and refused:
        return Pushed(Answer.REJECTED, refused, words)
    if done.code and hook_refused:
        return Pushed(Answer.HOOK, (), words)
    if done.code:
        wanted = {**updates, **{swap.ref: swap.new for swap in fence}}
        there = ask(git, remote, [*wanted])
        if any(there.get(ref) != oid for ref, oid in wanted.items()):
            return Pushed(Answer.UNCLEAR, (), words)
    _track(git, remote, updates)
    return Pushed(Answer.APPLIED, (), words)


def swap_all(
    git: Git, remote: Remote, swaps: Sequence[Swap], look: Callable[[], Mapping[str, str]] | None = None
) -> Swapped:
    """Change refs of the remote in one push, each by itself.

    Not all or none: a ref that others have changed meanwhile is no reason to leave the rest as it is. Unless all
    went well the remote is read again (by `look`: all such refs that it has → object id) and decides.
    Raises ComeBackLater if it then cannot be reached.
    """
    if not swaps:
        return Swapped(frozenset())
    expected, specs = zip(*(swap.arguments for swap in swaps))
    done = git.run(
        *("push", "--porcelain", "--no-verify", "--no-follow-tags", *expected, "--", remote.name, *specs),
        env=quiet(),
        check=False,
        interruptible=True,
    )
    if not done.code:
        return Swapped(frozenset(swap.ref for swap in swaps))
    there, flags = look() if look else ask(git, remote, [swap.ref for swap in swaps]), _flags(done.out)
    still = {swap.ref for swap in swaps if there.get(swap.ref) == swap.old != swap.new}
    refused = frozenset(ref for ref in still if flags.get(ref) == "!")
    taken = frozenset(swap.ref for swap in swaps if there.get(swap.ref) == swap.new)
    return Swapped(taken, refused, frozenset(still - refused), _refusals(done.out) or first_line(done))


def put(
    git: Git, remote: Remote, updates: Mapping[str, str | None], *, atomic: bool = False
) -> tuple[dict[str, bool], str]:
    """Push refs (ref → object id, None: delete it) without asking any hook, and see which the remote took.

    One that it said nothing of, as where it does not take an atomic push at all, is missing in the answer. With what
    git and the remote said; for people only.
    """
    done = git.run(
        *("push", "--porcelain", "--no-verify", "--no-follow-tags", *(("--atomic",) if atomic else ())),
        *("--", remote.name, *(f"{oid or ''}:{ref}" for ref, oid in updates.items())),
        env=quiet(),
        check=False,
        interruptible=True,
    )
    said = {ref: flag != "!" for ref, flag in _flags(done.out).items() if ref in updates}
    return said, _refusals(done.out) or first_line(done) if done.code else ""


def _push(
    git: Git, remote: Remote, updates: Mapping[str, str], atomic: bool, fence: Sequence[Swap]
) -> tuple[Done, bool]:
    """Run one `git push`; its end, and whether the pre-push hook refused it, which only git's trace tells."""
    with tempfile.TemporaryDirectory(prefix="gitstate-") as folder:
        trace = os.path.join(folder, "trace")
        done = git.run(
            *(
                "push",
                "--porcelain",
                "--no-follow-tags",
                *(("--atomic",) if atomic else ()),
                *(swap.arguments[0] for swap in fence),
                "--",
                remote.name,
            ),
            *(f"{oid}:{ref}" for ref, oid in updates.items()),
            *(swap.arguments[1] for swap in fence),
            env={**quiet(), "GIT_TRACE2_EVENT": trace},
            check=False,
            interruptible=True,
        )
        return done, bool(done.code) and _hook_refused(trace)


def _hook_refused(trace: str) -> bool:
    """Whether git's trace shows a pre-push hook that ended in anything but 0."""
    hooks = set()
    try:
        with open(trace, encoding="utf-8", errors="replace") as lines:
            for event in map(json.loads, lines):
                child = (event.get("sid"), event.get("child_id"))
                if event.get("event") == "child_start" and event.get("hook_name") == "pre-push":
                    hooks.add(child)
                elif event.get("event") == "child_exit" and child in hooks and event.get("code"):
                    return True
    except (OSError, ValueError):
        pass  # no trace, or a torn line: then the remote decides, as for any other failure
    return False


def _flags(out: bytes) -> dict[str, str]:
    """The one-letter flag that `push --porcelain` gives each of the remote's refs."""
    rows = (line.split("\t") for line in os.fsdecode(out).splitlines())
    return {row[1].partition(":")[2]: row[0] for row in rows if len(row) == 3 and len(row[0]) == 1}


def _refusals(out: bytes) -> str:
    """What the remote said of refs that it refused: for people, so without those that only went along with others."""
    rows = (line.split("\t") for line in os.fsdecode(out).splitlines())
    said = [(row[1].partition(":")[2], row[2]) for row in rows if len(row) == 3 and row[0] == "!"]
    own = [(ref, words) for ref, words in said if "atomic" not in words]
    return "\n".join(f"{ref}: {words}" for ref, words in own or said)


def _track(git: Git, remote: Remote, updates: Mapping[str, str]) -> None:
    """Note what the remote now has. Losing this costs a needless fetch, so failing is not worth a word."""
    lines = "".join(f"update {remote.tracked(ref)} {oid}\n" for ref, oid in updates.items())
    git.run("update-ref", "--stdin", stdin=os.fsencode(lines), check=False)
