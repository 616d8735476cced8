"""`run --executor`: commands on the workers of a pool that exists already. All that is recorded is recorded here."""

from __future__ import annotations

from collections.abc import Iterable

from gitstate import show, story
from gitstate.commands.guarding import Guard
from gitstate.commands.session import Session
from gitstate.core.derive import Status
from gitstate.core.material import Files
from gitstate.core.plan import Stage
from gitstate.edge.packed import PackedJobs
from gitstate.edge.pool import LARGE, Pool
from gitstate.edge.process import Flag, Job, Result
from gitstate.errors import UsageError


class Pooling(Pool):
    """A pool that says what its jobs carry, where that is much."""

    def __init__(self, name: str, state: str) -> None:
        super().__init__(name, state)
        self._told: set[str] = set()

    def execute(self, job: Job, cancel: Flag, hurry: Flag | None = None) -> Result:
        stage, size = job.env["GITSTATE_STAGE"], sum(len(file.content) for file in job.files or ())
        if size > LARGE and stage not in self._told:
            self._told.add(stage)
            show.story(story.large_job_line(stage, size))
        return super().execute(job, cancel, hurry)


def pack(session: Session) -> None:
    """Let a session's jobs be self-contained. The guard does not look then: what workers write is not written here."""

    def code(stage: Stage) -> Files:
        sources = session.view.identity.sources
        paths = {path for pattern in stage.code for path in sources.globs[pattern]}
        return tuple((path, sources.ids[path].partition(":")[2]) for path in sorted(paths))

    clone = session.clone
    session.jobs = session.judging.jobs = PackedJobs(clone.repository, clone.objects, code)
    session.guard = Guard(clone.git, clone.repository, dict)


def open_pool(session: Session, name: str, works: Iterable[Status]) -> None:
    """Let a session's commands run on the pool called `name`, until the session is closed.

    Raises UsageError for a work that needs a clone, and what opening a pool raises.
    """
    for stage in sorted({status.stage for status in works}):
        if session.stages[stage].workspace == "worktree":
            raise UsageError(
                f"{session.stages[stage].place}: {stage} works in a worktree of its own, and workers have no clone.",
                "Run it without --executor; the other stages can be named: --stage.",
            )
    session.pool = Pooling(name, session.scratch)
