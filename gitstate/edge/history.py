"""What one line of history has and others have not, whatever its commits are dated.

`git rev-list A ^B` goes through commits by their dates, and stops looking a few commits (SLOP in git's revision.c)
after the last one that it still wants. Where somebody whose clock is slow has put more than that on B, it lists commits
that B has. `git merge-base` looks until nothing is left to find, and tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from gitstate.edge.git import Git


def contains(git: Git, new: str, old: str) -> bool:
    """Whether the commit `new` is or follows `old`, as far as this clone's history tells."""
    return git.run("merge-base", "--is-ancestor", old, new, check=False).code == 0


def only_in(git: Git, tip: str, others: Sequence[str]) -> list[str]:
    """The commits that `tip` has and none of the commits `others` has, oldest first."""
    return above(git, tip, shared(git, tip, others))


def shared(git: Git, tip: str, others: Sequence[str]) -> list[str]:
    """The best commits that `tip` has in common with any of `others`; none where nothing is."""
    if not others:
        return []
    done = git.run("merge-base", "--all", tip, *others, check=False)
    found = done.out.decode("ascii").split()
    if not found and done.err and len(others) > 1:  # one of them has lost its past; the others have not
        found = [base for other in others for base in shared(git, tip, [other])]
    return found


def above(git: Git, tip: str, bases: Sequence[str]) -> list[str]:
    """The commits that `tip` has and none of its ancestors `bases` has, oldest first."""
    found = [line.split(" ") for line in _listed(git, "--parents", tip, *(f"^{base}" for base in bases))]
    if bases and any(len(parents) > 1 for _, *parents in found):
        # A merge may lead around a base to what that has, too.
        theirs = set(_listed(git, *bases))
        return [oid for oid, *_ in found if oid not in theirs]
    return [oid for oid, *_ in found]


def count(git: Git, tip: str, bases: Sequence[str]) -> int:
    """How many those are, for people: in no time, and some too many where both clocks and merges are out of order."""
    return int(git.text("rev-list", "--count", tip, *(f"^{base}" for base in bases)))


def _listed(git: Git, *arguments: str) -> list[str]:
    return git.text("rev-list", "--topo-order", "--reverse", *arguments).splitlines()
