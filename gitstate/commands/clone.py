"""One clone, opened for a command: where it is, how to ask git, what it shows now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from types import TracebackType
from typing import NamedTuple, Optional

from gitstate import show
from gitstate.core.derive import Status, derive, each_status
from gitstate.core.select import Selection
from gitstate.core.snapshot import WorkKey
from gitstate.core.summary import Price, Spend, Summary, from_plain, prices, spend, summarise, to_plain
from gitstate.edge import lock, snapshot
from gitstate.edge.cache import Cache
from gitstate.edge.git import Git
from gitstate.edge.objects import Objects
from gitstate.edge.planning import Watch
from gitstate.edge.repo import Repository, find
from gitstate.edge.snapshot import View
from gitstate.edge.sources import fingerprint, uncommitted
from gitstate.edge.tips import Tips, tips
from gitstate.errors import UsageError

CONFIG = "gitstate.yaml"


class Answer(NamedTuple):
    """What `plan` and `status` show people."""

    tips: Tips
    dirty: tuple[str, ...]
    summary: Summary
    unknown: int  # lines that a newer gitstate wrote


class Clone:
    """A clone and the processes that serve it; a context manager that ends them."""

    def __init__(self, start: str = ".", config: str = CONFIG, inherit: Sequence[int] = ()) -> None:
        self.repository: Repository = find(start)
        self.git = Git(self.repository.root, inherit=inherit)
        self.objects = Objects(self.git, self.repository)
        self.cache = Cache(os.path.join(self.repository.state, "cache"))
        self.config = os.path.normpath(config).replace(os.sep, "/")
        if os.path.isabs(config) or self.config.split("/")[0] == "..":
            raise UsageError(
                f"--config {config} is not in this repository.", "Name it from the repository's root."
            )
        self.start = start

    def __enter__(self) -> Clone:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.objects.close()

    def words(self, selection: Selection) -> Selection:
        """A selection whose paths are the repository's, where they were typed in one of its folders."""
        prefix = os.path.relpath(os.path.realpath(self.start), os.path.realpath(self.repository.root))
        if prefix == ".":
            return selection
        here = tuple(
            os.path.normpath(os.path.join(prefix, word)).replace(os.sep, "/")
            if os.path.lexists(os.path.join(self.start, word))
            else word
            for word in selection.slugs
        )
        return selection._replace(slugs=here)

    def command(self, selection: Selection = Selection(), branch: str = "") -> str:
        """The `gitstate run` about the same works, as it is typed where this was started."""
        import shlex

        words = selection.options() + (["--branch", branch] if branch else [])
        words += ["--config", self.config] if self.config != CONFIG else []
        return " ".join(["gitstate run", *(shlex.quote(show.safe(word)) for word in words)])

    def view(self, outputs_from: Optional[str] = None, at: Optional[Tips] = None) -> View:
        """Everything that this clone shows now, or showed `at`."""
        running = self._running()
        return snapshot.read(self.repository, self.git, self.objects, self.config, running, at, outputs_from)

    def answer(self, now: datetime) -> Answer:
        """What people are shown; taken from the last answer where nothing that it stands on has changed."""
        at = tips(self.repository, self.git, self.objects, self.cache)
        key = (at[:4], self.config)  # (the rest changes no answer)
        kept = self.cache.load("answer")
        held = lock.is_held(self.repository.state)
        if kept is not None and not held and kept["key"] == key and self._still_holds(kept):
            return Answer(at, tuple(kept["dirty"]), from_plain(kept["summary"]), kept["unknown"])
        view = self.view(at=at)
        statuses = each_status(view.plan, view.identity, view.snapshot, now)
        summary = summarise(view.plan, statuses, {}, view.snapshot.acts)
        if summary.open:  # else nobody asks what it will cost
            summary = summary._replace(prices=self.prices(view))
        unknown = view.receipts.unknown + view.log.unknown
        if not held and not any(stage.ttl for stage in view.plan.workflow.stages):
            self._keep(key, view, summary, unknown)
        return Answer(at, view.snapshot.dirty, summary, unknown)

    def prices(self, view: View) -> dict[str, Price]:
        """What each stage's works took, by the receipts of `view`: summed up once for each state of them."""
        kept = self.cache.load("prices")
        if kept is not None and kept[0] == view.tips.receipts:
            return {stage: Price._make(price) for stage, price in kept[1].items()}
        found = prices(view.snapshot.receipts)
        self.cache.save(
            "prices", (view.tips.receipts, {stage: tuple(price) for stage, price in found.items()})
        )
        return found

    def spend(self, at: Tips) -> dict[str, Spend]:
        """What all attempts that anybody has noted `at` took: summed up once for each state of the notes."""
        key = (at.receipts, at.log)
        kept = self.cache.load("spend")
        if kept is not None and kept[0] == key:
            return {kind: Spend._make(sums) for kind, sums in kept[1].items()}
        receipts, log = snapshot.notes_at(self.git, self.objects, self.cache, at)
        found = spend(receipts, log)
        self.cache.save("spend", (key, {kind: tuple(sums) for kind, sums in found.items()}))
        return found

    def _keep(self, key: object, view: View, summary: Summary, unknown: int) -> None:
        self.cache.save(
            "answer",
            {
                "key": key,
                "watch": tuple(view.watch),
                "prints": fingerprint(self.git, self.repository, view.watch.paths, view.watch.globs),
                "loose": uncommitted(self.git, view.watch.loose),
                "dirty": view.snapshot.dirty,
                "summary": to_plain(summary),
                "unknown": unknown,
            },
        )

    def _still_holds(self, kept: dict[str, object]) -> bool:
        watch = Watch._make(kept["watch"])  # type: ignore[arg-type]
        return (
            fingerprint(self.git, self.repository, watch.paths, watch.globs) == kept["prints"]
            and uncommitted(self.git, watch.loose) == kept["loose"]
        )

    def _running(self) -> frozenset[WorkKey]:
        """The works under way, while somebody holds this clone's lock."""
        if not lock.is_held(self.repository.state):
            return frozenset()
        from gitstate.edge.attempts import Attempts  # 3 ms, for what is rarely so

        return frozenset(Attempts(self.repository.state).under_way())


def utc_now() -> datetime:
    """The time, for callers to pass on; nothing below them reads the clock."""
    return datetime.now(timezone.utc)


def statuses_of(view: View, now: datetime) -> list[Status]:
    """The status of every work of a view."""
    return derive(view.plan, view.identity, view.snapshot, now)
