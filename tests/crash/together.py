"""Several at once: two to four runs in one clone and in two worktrees of it, beside a user who keeps working.

Nothing is killed and nothing is supervised here: these are real races, of real processes, and a seed chooses who
does what. Nothing may be paid twice, nothing of anybody's may be lost, and every exit code must be true.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from typing import Optional

from tests.crash import invariants, pinned, supervise
from tests.crash.pinned import Plant
from tests.crash.stage import Base, Outcome, Point, Stage
from tests.crash.worlds import World

_PATIENCE = 120.0  # seconds for everybody to end
_MODES = ("clone", "worktrees", "user", "switching")


def points(base: Base, seed: int, count: int = 200) -> list[Point]:
    """Seeded rounds, in turn: one clone, two worktrees, beside a user, beside one who switches branches."""
    del base
    return [Point(_MODES[n % len(_MODES)], (seed * 1000 + n,)) for n in range(count)]


def one(base: Base, point: Point, plant: Optional[Plant] = None) -> Outcome:
    """One round."""
    rng = random.Random(point.at[0])
    with Stage(base, plant) as stage:
        world = stage.world
        # What was staged beforehand, the user commits now: whose index it is shall be plain to see.
        world.git("commit", "-q", "-m", "The user's first")
        folders = [world.repo]
        if point.mode == "worktrees":
            folders.append(os.path.join(world.folder, "second"))
            world.git("worktree", "add", "-q", "-b", "second", folders[1])
        runs = []
        user = _User(world, rng, switching=point.mode == "switching")
        began = time.monotonic()
        for number in range(rng.randrange(2, 5)):
            arguments = ["run", "--offline", "-j", str(rng.randrange(1, 4))]
            arguments += ["--lock-timeout", "60s"] if rng.random() < 0.6 else []
            runs.append(_start(stage, folders[number % len(folders)], arguments, number))
            time.sleep(rng.random() * 0.2)
        codes: dict[int, int] = {}
        while len(codes) < len(runs):
            if time.monotonic() - began > _PATIENCE:
                return Outcome(point, "", [f"still at work after {_PATIENCE} s"])
            if point.mode in ("user", "switching"):
                user.act()
            time.sleep(0.01)
            for pid in runs:
                if pid not in codes and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                    codes[pid] = os.waitstatus_to_exitcode(ended[1])
        bad = _judge(stage, point, folders, [codes[pid] for pid in runs], user)
        return Outcome(point, f"seed {point.at[0]}", bad, note=f"{point.mode}")


def _start(stage: Stage, folder: str, arguments: list[str], number: int) -> int:
    world = stage.world
    return supervise.start(
        pinned.gitstate(*arguments, start=number, serial=False, plant=stage.plant),
        env={**world.environment, "SLOW": "0.05"},
        cwd=folder,
        output=f"{world.output}.{number}",
    )


def _judge(stage: Stage, point: Point, folders: list[str], codes: list[int], user: _User) -> list[str]:
    world = stage.world
    bad = []
    said = [_read(f"{world.output}.{number}") for number in range(len(codes))]
    for code, words in zip(codes, said):
        bad += [
            f"the words {word!r} were printed: {words[-500:]!r}" for word in invariants.WORDS if word in words
        ]
        allowed = {
            0: True,
            75: "holds this clone" in words or "held by another" in words,
            3: point.mode == "switching",
        }
        if not allowed.get(code, False):
            bad.append(f"exit {code}: {words[-500:]!r}")
    if 0 not in codes and point.mode != "switching":
        bad.append(f"nobody finished: {codes}")
    user.go_home()
    for folder in folders:  # what is left to do, done; in the second worktree it is there for nothing
        code = supervise.plain(
            pinned.gitstate("run", "--offline", start=7),
            env=world.environment,
            cwd=folder,
            output=world.output,
        )
        if code:
            bad.append(f"a last run exits {code}: {world.said()[-400:]!r}")
    for work in world.works():
        if world.paid()[work] != 1:
            bad.append(f"P4: {work} was paid {world.paid()[work]} times")
    for folder in folders:
        tree = invariants.committed(world, "main" if folder == world.repo else "second")
        blobs = invariants.blobs_of(world)
        bad += [f"{path} is missing in {folder}" for path in blobs if tree.get(path) != blobs[path]]
    bad += user.lost()
    bad += invariants.leftovers(world)
    bad += invariants.fsck(world)
    return bad or stage.verified()


class _User:
    """Somebody at work in the main worktree, who never loses what was committed or staged."""

    def __init__(self, world: World, rng: random.Random, *, switching: bool) -> None:
        self.world, self.rng, self.switching = world, rng, switching
        self.committed: dict[str, list[str]] = {
            "main": [],
            "side": [],
        }  # files, by the branch they were committed on
        self.staged: list[str] = []
        self.branch = "main"
        self.count = 0
        self._idle_until = 0.0

    def act(self) -> None:
        """Something a user does."""
        choice = self.rng.random()
        if time.monotonic() < self._idle_until:
            return
        self.count += 1
        if choice < 0.35:
            self._commit()
        elif choice < 0.5:
            self._stage(f"user/staged-{self.count}.txt")
        elif choice < 0.7:
            self._git("gc", "-q")
        elif choice < 0.8:
            self._git("status")
        elif self.switching and choice < 0.9:
            self._switch("side" if self.branch == "main" else "main")

    def _commit(self) -> None:
        """With what is staged, as people do."""
        self._stage(f"user/{self.branch}-{self.count}.txt")
        if self.staged and self._git("commit", "-q", "-m", f"The user's {self.count}"):
            self.committed[self.branch] += self.staged
            self.staged = []

    def _stage(self, name: str) -> None:
        self._write(name)
        if self._git("add", name):
            self.staged.append(name)

    def _switch(self, branch: str) -> None:
        exists = self._git("rev-parse", "-q", "--verify", branch)
        if self._git("switch", "-q", *([] if exists else ["-c"]), branch):
            if not exists:
                self.committed[branch] = list(self.committed[self.branch])
            self.branch = branch

    def go_home(self) -> None:
        """Back on the first branch, for the last look."""
        if self.branch != "main":
            for _ in range(100):
                if self._git("switch", "-q", "main"):
                    self.branch = "main"
                    return
                time.sleep(0.02)

    def lost(self) -> list[str]:
        """What is not there any more, or not as it was."""
        bad = []
        for branch, files in self.committed.items():
            if files:
                tree = set(invariants.committed(self.world, branch))
                bad += [
                    f"the user's {name} is not on {branch} any more" for name in files if name not in tree
                ]
        names = self.world.git("diff", "--cached", "--name-only").decode().split()
        if sorted(names) != sorted(self.staged):
            bad.append(f"staged are {names}, and should be {self.staged}")
        for line in (
            self.world.git("log", "--all", "--format=%s", "--name-status", "--no-renames")
            .decode()
            .splitlines()
        ):
            if line.startswith("D\t"):
                bad.append(f"a commit deletes {line[2:]}")
        return bad

    def _write(self, name: str) -> None:
        full = os.path.join(self.world.repo, name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(f"the user's own, {self.count}\n")

    def _git(self, *arguments: str) -> bool:
        """Whether it worked: gitstate may have the index for a moment, and people then try again."""
        for _ in range(20):
            done = subprocess.run(
                ("git", *arguments),
                cwd=self.world.repo,
                env=self.world.environment,
                capture_output=True,
                check=False,
            )
            if not done.returncode:
                return True
            if b"index.lock" not in done.stderr:
                # Somebody else's commit came first. Nobody types it again within a moment: until then, and no longer,
                # the index may lack what the branch has.
                self._idle_until = time.monotonic() + 2.0
                return False
            time.sleep(0.02)
        return False


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
