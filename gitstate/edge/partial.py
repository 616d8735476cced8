"""What a partial clone left out, fetched in batches: git itself fetches it one by one, a round trip each."""

from __future__ import annotations

from collections.abc import Iterable

from gitstate.edge.git import Git, failed
from gitstate.edge.remote import FETCH, Remote, quiet, refs


def missing(git: Git, oids: Iterable[str]) -> list[str]:
    """Those of `oids` (blobs) that a partial clone does not hold, in one process and without fetching any.

    Not `cat-file --batch-check`: at the first absent object it fetches, or where it may not, dies.
    """
    asked = list(dict.fromkeys(oids))
    if not asked:
        return []
    options = ("--objects", "--no-object-names", "--no-walk", "--missing=print", "--ignore-missing")
    done = git.run("rev-list", *options, "--stdin", stdin="".join(f"{oid}\n" for oid in asked).encode())
    here = set(done.out.decode().split())
    return [oid for oid in asked if oid not in here]


def fetch_missing(git: Git, oids: Iterable[str]) -> int:
    """Fetch the objects that a partial clone left out, in one batch; how many there were.

    git itself would fetch them one by one, a round trip each. In a clone that is not partial nothing can be
    left out, and 0 is returned. Raises ComeBackLater if the remote is away.
    """
    absent = missing(git, oids) if git.promisor else []
    if not absent:
        return 0
    wanted = "".join(f"{oid}\n" for oid in absent).encode()
    no_haggling = ("-c", "fetch.negotiationAlgorithm=noop")
    arguments = (*no_haggling, *FETCH, "--no-filter", "--stdin", "--", git.promisor)
    done = git.run(*arguments, stdin=wanted, env=quiet(), check=False, interruptible=True)
    if done.code:
        refs(git, Remote(git.promisor, ""))
        raise failed(("fetch", git.promisor), done)
    return len(absent)
