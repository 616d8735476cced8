"""Watching over a run's commands: what they write in the working tree where no output is declared is named.

Nothing is ever put back or deleted; with `guard: strict` the work fails instead.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Optional

from gitstate import show, story
from gitstate.commands.judging import Judged
from gitstate.core import verdict
from gitstate.core.guard import Scan, Seen, Span, Stray, attribute, compare
from gitstate.core.plan import Stage
from gitstate.edge.attempts import Intent
from gitstate.edge.clock import Clock
from gitstate.edge.files import is_temp
from gitstate.edge.git import Git
from gitstate.edge.protect import ignored
from gitstate.edge.repo import Repository
from gitstate.edge.scan import ahead, nobodys, scan, seen
from gitstate.errors import GitstateError

_SHARE = 0.02  # of the time of a run that looking may take, where no work fails by it
_TOLD = 10  # files that get a line of their own
_PATIENCE = 5.0  # seconds for a git command of somebody else's to finish what it writes

Work = Callable[[], Optional[Judged]]


class Guard:
    """One run's guard. Commands run in many threads; looking is done by one at a time."""

    def __init__(self, git: Git, repository: Repository, stages: Callable[[], Mapping[str, Stage]]) -> None:
        self._git, self._repository, self._stages = git, repository, stages
        self.clock = Clock()
        self.say: Callable[[str], None] = show.story
        self.strays: dict[str, Stray] = {}  # by path, as each was first found
        self._looking = threading.Lock()
        self._books = threading.Lock()  # over which commands run and have ended
        self._last: Optional[Scan] = None
        self._leave_out: set[str] = set()
        self._head = ""  # at the first look
        self._ahead = 0  # ns by which the clock of the files is ahead of ours
        self._began = self._cost = self._spent = 0.0  # seconds
        self._running: dict[str, Span] = {}  # by attempt
        self._ended: list[Span] = []  # since the last look
        self._against: dict[str, list[Stray]] = {}  # by attempt of a strict stage
        self._ours: dict[str, Optional[Seen]] = {}  # what gitstate itself wrote, and what that looks like

    def over(self, intent: Intent, work: Work) -> Optional[Judged]:
        """Do a work in its thread and say what its command wrote elsewhere. Under `strict` it has then failed."""
        levels = {name: stage.guard for name, stage in self._stages().items()}
        level = levels.get(intent.stage, "off")
        if level == "strict" and self._stages()[intent.stage].effect is not None:
            level = "warn"  # it has happened, and that must be recorded, whatever else it wrote
        if all(other == "off" for other in levels.values()):
            return work()
        if level != "off" and self._last is None:
            with self._looking:
                self._begin()
        if level == "strict":
            self._against[intent.attempt] = []
        name, begun = f"{intent.slug}/{intent.stage}", time.time_ns()
        span = Span(intent.attempt, name, intent.outputs, level != "off", begun)
        with self._books:
            self._running[intent.attempt] = span
        try:
            judged = work()
        finally:
            span = span._replace(ended=time.time_ns())
            with self._books:
                self._ended.append(span)
                del self._running[intent.attempt]
        if level != "strict" or judged is None:
            self._look_if_cheap()
            return judged
        with self._looking:
            if self._last is not None and self._last.began <= span.ended:
                self._tell(self._look())
            against = self._against.pop(intent.attempt)
        if judged.failed is not None or not against:
            return judged
        return judged._replace(failed=verdict.of_check("strayed", story.strayed(against)))

    @contextmanager
    def writing(self, paths: Collection[str]) -> Iterator[set[str]]:
        """While gitstate itself puts files at `paths`, which nobody is to be blamed for. To the set that it gives are
        added those that were somebody else's by then."""
        self._ours.update(dict.fromkeys(paths))
        others: set[str] = set()
        yield others
        for path in others.symmetric_difference(paths):
            self._ours[path] = seen(os.path.join(self._repository.root, path))

    @contextmanager
    def moving(self, paths: Iterable[str] = ()) -> Iterator[None]:
        """While gitstate brings the working tree to what came from elsewhere: nobody looks then. `paths`: of outputs
        that it takes away again; no commit explains that where they came and went since the first look."""
        with self._looking:
            self._ours.update(dict.fromkeys(paths))
            yield

    def end(self) -> None:
        """The last look, when no command runs any more."""
        with self._looking:
            if self._last is not None and self._ended:
                self._try_to_look()  # (what it finds is said by `lines`)

    def lines(self) -> list[str]:
        """What a run says at its end of all that was found."""
        return story.strayed_lines(list(self.strays.values()), _TOLD)

    def _begin(self) -> None:
        if self._last is None:
            self._began = self.clock.elapsed()
            self._head = self._git.text("rev-parse", "--verify", "-q", "HEAD", check=False)
            self._leave_out = nobodys(self._git, self._repository)
            self._ahead = ahead(self._repository.state)
            self._last = self._scan()
            self._spent = self.clock.elapsed() - self._began

    def _scan(self) -> Scan:
        began = self.clock.elapsed()
        found = scan(self._repository.root, self._leave_out)
        self._cost = self.clock.elapsed() - began
        self._spent += self._cost
        return found

    def _look_if_cheap(self) -> None:
        # (twice the cost: the look at the end is to be paid, too)
        if self._last is None or self._spent + 2 * self._cost > _SHARE * (self.clock.elapsed() - self._began):
            return
        if self._looking.acquire(blocking=False):
            try:
                self._tell(self._try_to_look())
            finally:
                self._looking.release()

    def _try_to_look(self) -> list[Stray]:
        try:
            return self._look()
        except (GitstateError, OSError) as error:  # no reason to end a run that nobody wants to fail by this
            self.say(f"What the commands wrote beside their outputs was not seen: {show.safe(str(error))}")
            return []

    def _look(self) -> list[Stray]:
        """Compare the working tree with the last look at it, and find whose command wrote what has changed. Returns
        the files that were not known before."""
        assert self._last is not None
        before, now = self._last, self._scan()
        with self._books:
            spans = [*self._ended, *self._running.values()]
        changes = [
            change
            for change in compare(before, now, self._ahead)
            if not is_temp(change.path) and not self._is_ours(change.path, now.files.get(change.path))
        ]
        strays = attribute(changes, spans) if changes else []
        if strays:
            strays = self._weigh(strays)  # (may fail, and then the next look sees to it)
        self._last = now
        with self._books:
            # One that ended while this look went on may have written behind it.
            self._ended = [span for span in self._ended if span.ended >= now.began]
        for stray in strays:
            for span in stray.suspects:
                if span.attempt in self._against:
                    self._against[span.attempt].append(stray)
        new = [stray for stray in strays if stray.path not in self.strays]
        self.strays.update((stray.path, stray) for stray in new)
        return new

    def _is_ours(self, path: str, now: Optional[Seen]) -> bool:
        """Whether a file is as gitstate itself wrote it, or is about to."""
        if path not in self._ours:
            return False
        ours = self._ours[path]
        return ours is None or (now is not None and ours[:4] == now[:4])

    def _weigh(self, strays: list[Stray]) -> list[Stray]:
        """Those that neither git ignores nor a commit explains: what was pulled, checked out or committed meanwhile."""
        nobody = ignored(self._git, [stray.path for stray in strays])
        strays = [stray for stray in strays if stray.path not in nobody]
        until = time.monotonic() + _PATIENCE
        while (
            os.path.exists(os.path.join(self._repository.git_dir, "index.lock")) and time.monotonic() < until
        ):
            time.sleep(0.02)  # somebody's checkout, which moves HEAD when it is through
        head = self._git.text("rev-parse", "--verify", "-q", "HEAD", check=False)
        if not strays or not self._head or head == self._head:
            return strays
        moved = self._names("diff-tree", "-r", "-z", "--name-only", "--no-renames", self._head, head)
        moved -= self._names("diff-index", "-z", "--name-only", "--no-renames", "HEAD")
        return [stray for stray in strays if stray.path not in moved]

    def _names(self, *arguments: str) -> set[str]:
        out = self._git.run(*arguments).out
        return {os.fsdecode(name) for name in out.split(b"\0") if name}

    def _tell(self, new: list[Stray]) -> None:
        """A line for each new file, as long as there are few."""
        room = max(0, _TOLD - (len(self.strays) - len(new)))
        for stray in new[:room]:
            self.say(f"! {story.stray_words(stray)}")
        if new[room:] and room:
            self.say(f"! and {len(new) - room:,} more, which are counted at the end")
