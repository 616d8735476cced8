"""Push sweeps: gitstate, or one process of a push, dies at each call that fetching and pushing make, on both sides.

A remote is a machine of its own, which does not stop with ours: only single processes die there. A server that
dies in the middle may leave a lock of git's that nobody but its owner may remove; the run after it then says so,
with git's words and exit code 3 or 75, and what is finished is safe.
"""

from __future__ import annotations

import os
from typing import Optional

from tests.crash import invariants, supervise
from tests.crash.pinned import Plant
from tests.crash.stage import Base, Outcome, Point, Stage

RUN = ("run", "--push", "end")


def points(base: Base, mode: str) -> list[Point]:
    """The calls before the first attempt and after the last one."""
    attempts = [call.seq for call in base.calls if "/attempts/" in call.path]
    return [
        Point(mode, (call.seq,))
        for call in base.calls
        if call.mutates and not attempts[0] <= call.seq <= attempts[-1]
    ]


def one(base: Base, point: Point, plant: Optional[Plant] = None) -> Outcome:
    """One death, and the next run."""
    verdict: supervise.Verdict = "kill-caller" if point.mode == "caller" else "kill-parent"
    with Stage(base, plant) as stage:
        world = stage.world
        result = stage.supervised(RUN, lambda call: verdict if call.seq == point.at[0] else None)
        if result.hit is None:
            return Outcome(point, "", [], reached=False)
        bad = [f"right after it: {line}" for line in invariants.after_crash(world)]
        # (a run that was not killed itself ends as well as it can: safe here and to be pushed later, or with a word
        # on the git command that was killed)
        told = "exit code -9" in world.said() or (locks(world.remote) and "remove the file" in world.said())
        if result.code not in (-9, 0, 75) and not (result.code == 3 and told):
            bad.append(f"exit {result.code}: {world.said()[-400:]!r}")
        crash, note = invariants.look(world), ""
        left = locks(world.remote)
        code = stage.plain(RUN, start=7)
        if code in (3, 75) and left:
            note = "a dead server left its lock"
            for path in left:
                os.unlink(path)
        elif code:
            bad.append(f"the run after it exits {code}: {world.said()[-400:]!r}")
        # git's locks on the refs that follow the remote: nothing proves whose they are, and pushing does not need them.
        for path in locks(os.path.join(world.repo, ".git/refs")):
            if "/refs/remotes/" in path or "/refs/gitstate-remote/" in path:
                note = "a dead push left the lock of a tracking ref"
                os.unlink(path)
        bad += stage.finish(RUN, [crash], start=8)
        for ref in ("refs/heads/main", invariants.RECEIPTS):
            here = world.git("rev-parse", ref)
            there = world.git("--git-dir", world.remote, "rev-parse", ref, cwd=world.folder, check=False)
            if here != there:
                bad.append(
                    f"{ref} is {there.decode().strip()[:12]} on the remote and {here.decode().strip()[:12]} here"
                )
        fsck = world.git(
            "--git-dir", world.remote, "fsck", "--strict", "--no-dangling", cwd=world.folder, check=False
        )
        bad += [f"the remote's fsck: {fsck.decode()[:200]}"] if fsck else []
        return Outcome(point, stage.words(result.hit), bad, note=note)


def locks(folder: str) -> list[str]:
    """git's lock files below a folder."""
    return [
        os.path.join(where, name)
        for where, _, names in os.walk(folder)
        for name in names
        if name.endswith(".lock")
    ]
