"""Jobs that carry along all that their command is told of: they run where there is no clone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Optional

from gitstate.core.material import Files
from gitstate.core.plan import Stage, Workspace
from gitstate.edge.attempts import Intent
from gitstate.edge.folder import File
from gitstate.edge.git import FOREIGN
from gitstate.edge.jobs import Jobs
from gitstate.edge.objects import Objects
from gitstate.edge.process import Job
from gitstate.edge.repo import Repository
from gitstate.edge.tree import find


class PackedJobs(Jobs):
    """Makes self-contained jobs. Questions and check commands stay at the clone."""

    def __init__(self, repository: Repository, objects: Objects, code: Callable[[Stage], Files]) -> None:
        """`code` gives the files that a stage lists as its code."""
        super().__init__(repository, objects)
        self._code = code
        self._executable: dict[tuple[str, str], bool] = {}
        self._tree: tuple[Optional[str], Optional[str]] = None, None  # a commit and its tree

    def job(
        self,
        intent: Intent,
        stage: Stage,
        completed: int,
        before: Optional[str] = None,
        base: Optional[str] = None,
    ) -> Job:
        """As `Jobs.job`, for a worker: its root holds the files of the work at their paths, as committed at `base`."""
        job = super().job(intent, stage, completed, before, base)
        material = intent.material
        told = [*material.inputs, *(pair for files in material.needs.values() for pair in files)]
        told += [material.file] if material.file is not None else []
        files = dict([*self._code(stage), *told])
        return job._replace(
            cwd="root" if stage.workspace == "root" else None,
            hidden=FOREIGN,
            scratch_parent=None,
            files=tuple(self._pack(files, base)),
        )

    def _pack(self, files: dict[str, str], base: Optional[str]) -> Iterator[File]:
        for path, blob in sorted(files.items()):
            if (path, blob) not in self._executable:
                self._executable[path, blob] = self._is_executable(path, blob, base)
            yield File(path, self.content(blob), self._executable[path, blob])

    def _is_executable(self, path: str, blob: str, base: Optional[str]) -> bool:
        if base is not None and self._tree[0] != base:
            self._tree = base, self._objects.resolve(f"{base}^{{tree}}")
        entry = find(self._objects, self._tree[1], path) if base is not None else None
        if entry is not None and entry[1] == blob:
            return entry[0] == "100755"
        return os.access(os.path.join(self._repository.root, path), os.X_OK)  # not committed yet

    def _from(self, workspace: Workspace, base: Optional[str]) -> Callable[[str, str], str]:
        return lambda path, blob: f"../root/{path}" if workspace == "scratch" else path
