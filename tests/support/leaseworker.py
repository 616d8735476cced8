"""A worker that shares a plan with others over leases: `python -m tests.support.leaseworker CLONE LEDGER LENGTH SLUG…`.

It makes `out/SLUG.md` of each slug, writes the slug to the ledger when it pays for it, and ends when nothing is left
that no live other holds.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from gitstate.core import lease
from gitstate.core.lease import Claim
from gitstate.edge import remote
from gitstate.edge.clock import Clock
from gitstate.edge.leases import LeaseLost, Leases
from gitstate.edge.sync import Send
from tests.support.clones import MAIN, Clone


class Worker:
    """One clone, working on some slugs."""

    def __init__(self, clone: Clone, slugs: list[str], length: int = 600, me: str | None = None) -> None:
        self.clone, self.slugs, self.begun = clone, slugs, set[str]()
        clone.sync(push=False)
        there = remote.pick(clone.plumbing, MAIN)
        assert there is not None
        self.there, self.clock = there, Clock()
        self.leases = Leases(
            clone.plumbing, clone.objects, there, "gitstate.yaml", length, self.clock.elapsed, me
        )

    def due(self) -> list[Claim]:
        """What the remote does not have yet, as far as was fetched."""
        done = self.clone.git("ls-tree", "-r", "--name-only", "origin/main").split("\n")
        return [Claim(slug, "s", "h") for slug in self.slugs if f"out/{slug}.md" not in done]

    def take(self, most: int) -> list[Claim]:
        """Claim some works; those that are to be done."""
        self.leases.look()
        choice = lease.choose(self.due(), self.leases.seen, self.leases.me, self.begun, most)
        won = self.leases.claim(choice)
        asked = self.clock.elapsed()
        remote.fetch(self.clone.plumbing, self.there)
        self.leases.read(asked)
        due = set(self.due())
        return [
            claim for bucket in won if bucket in self.leases.mine for claim in choice[bucket] if claim in due
        ]

    def may(self, claim: Claim) -> bool:
        """Whether a work is still this worker's to pay for."""
        if self.leases.is_doubtful(claim.slug):
            self.leases.look()
        return claim in self.due() and lease.bucket_of(claim.slug) in self.leases.mine

    def record(self, claim: Claim) -> None:
        """Make a work's output, here."""
        self.begun.add(claim.slug)
        self.clone.record(f"out/{claim.slug}.md", f"{claim.slug} by {self.leases.me}")

    def publish(self, left: list[Claim]) -> None:
        """Push what is finished here, and keep the leases of what is `left`."""
        self.sync(lambda updates, deletes: self.leases.push(updates, self.finished(), left, deletes))

    def sync(self, send: Send) -> None:
        """Sync, with `send` to push, and see what the leases are by what was fetched."""
        self.clone.sync(send=send, fetch=lambda: self.leases.fetch(lambda _: None))

    def finished(self) -> list[str]:
        """The slugs of what is made here and not on the remote."""
        made = self.clone.git("ls-tree", "-r", "--name-only", "HEAD").split("\n")
        return [claim.slug for claim in self.due() if f"out/{claim.slug}.md" in made]


def main(path: str, ledger: str, length: str, *slugs: str) -> None:
    """Work until nothing is left."""
    worker = Worker(Clone(Path(path)), list(slugs), int(length))
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        works = worker.take(3)
        for number, claim in enumerate(works):
            if worker.may(claim):
                with open(ledger, "a", encoding="utf-8") as file:
                    file.write(f"{claim.slug} {worker.leases.me}\n")
                worker.record(claim)
            with contextlib.suppress(LeaseLost):
                worker.publish([claim for claim in works[number + 1 :] if worker.may(claim)])
        if not works:
            worker.leases.release()
            if not worker.due():
                worker.leases.collect([])
                return
            time.sleep(0.1)


if __name__ == "__main__":
    os.environ.setdefault("GIT_TERMINAL_PROMPT", "0")
    main(*sys.argv[1:])
