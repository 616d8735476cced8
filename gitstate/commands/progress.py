"""What a person sees while `run` works: one living line on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from gitstate import show, story
from gitstate.commands.settling import Settled


class Progress:
    """Counts what this run does; writes to standard error."""

    def __init__(self, total: int, jobs: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.jobs, self.clock = total, jobs, clock
        self.began = clock()
        self.done = self.failed = self.paused = self.restored = self.left = 0
        self.asked = 0  # works that wait for a person's word
        self.elsewhere = 0  # works that others had done by the time that they were to begin
        self.unchanged = 0  # works that are as they should be, after what they need was made anew
        self.before = 0  # works that turned out to have failed, or to be paused, before this run
        # By category and kind: how many works failed so, the first of them, and its evidence.
        self.causes: dict[str, tuple[int, str, str]] = {}
        self.seconds = 0.0  # of commands, which -j runs side by side
        self.usd = 0.0
        self.unpriced = 0  # attempts that did not say what they cost
        self.running = 0
        self.live = sys.stderr.isatty()

    def settled(self, work: Settled, name: str) -> None:
        """One attempt has ended and is recorded."""
        usd = self._pay(work)
        if work.how == "done":
            self.done += 1
            self.seconds += work.seconds
            line = story.recalled_line if work.recalled else story.done_line
            if work.facts.get("adopted"):
                line = story.adopted_line
            self._say(line(name, work.intent.outputs, work.seconds, usd, self._counter()))
        elif work.how == "failed" and work.failed is not None:
            self.asked += work.failed.asks
            self.failed += work.failed.state == "failed" and not work.failed.asks
            self.paused += work.failed.state == "paused"
            count, first, words = self.causes.get(work.failed.name, (0, name, work.failed.evidence))
            self.causes[work.failed.name] = count + 1, first, words
            self._say(story.failed_line(name, work.failed))
        elif work.how == "kept":
            self._say(story.late_line(name) if work.late else story.kept_line(name, work.paths))
        else:
            self.left += 1
            self._say(story.in_the_way_line(name, work.paths))

    def again(self, work: Settled, name: str, after: float) -> None:
        """An attempt has failed, and its work comes again after some seconds."""
        self._pay(work)
        if work.failed is not None:
            self._say(story.again_line(name, work.failed, after))

    def unsure(self, work: Settled, name: str) -> None:
        """An act has failed, and evidence is to say whether it happened."""
        self._pay(work)
        if work.failed is not None:
            self._say(story.unsure_line(name, work.failed))

    def closed(self, work: Settled, name: str) -> None:
        """An attempt has found the window of its account closed; its work is innocent."""
        self._pay(work)
        if work.failed is not None:
            self._say(story.closed_line(name, work.failed))

    def _pay(self, work: Settled) -> object:
        usd = work.facts.get("usd")
        self.usd += usd if isinstance(usd, (int, float)) else 0.0
        self.unpriced += usd is None and not work.recalled and "adopted" not in work.facts
        return usd

    def restored_works(self, names: list[str]) -> None:
        """Works whose content was still in git."""
        self.restored += len(names)
        for name in names:
            self._say(f"= {show.safe(name)}  restored from git, nothing paid")

    def story(self, line: str) -> None:
        """Something else that is worth a line."""
        self._say(line)

    def tick(self) -> None:
        """Bring the living line up to date."""
        if self.live:
            show.story(f"\r\033[K{self._status()}", end="")

    def end(self) -> None:
        """Take the living line away."""
        if self.live:
            show.story("\r\033[K", end="")

    def _say(self, line: str) -> None:
        self.end()
        show.story(line)
        self.tick()

    def _counter(self) -> str:
        settled = (
            self.done
            + self.elsewhere
            + self.unchanged
            + self.failed
            + self.paused
            + self.left
            + self.asked
            + self.before
        )
        return f"{settled}/{self.total}"

    def _status(self) -> str:
        finished = self.done + self.failed
        elapsed = self.clock() - self.began
        parts = [f"{show.bar(finished + self.left, self.total)} {self._counter()}", f"{self.running} running"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.paused:
            parts.append(f"{self.paused} paused")
        if finished and elapsed > 0:
            # By this run's own work alone: what was restored or skipped says nothing about the rest.
            left = (self.total - finished - self.left) * elapsed / finished
            parts += [f"{60 * finished / elapsed:.1f} a minute", f"{show.duration(left)} left"]
        if self.usd:
            parts.append(f"{show.money(self.usd)} spent")
        return "  ".join(parts)
