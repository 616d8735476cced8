"""Somebody else's bytes: in an output's place while gitstate works ("bystander"), and in its own records ("torn").

A user who writes where an output belongs keeps what was written, and it is never taken for the answer (P5). A
record that is not whole is an error that names the file, and never "nothing was begun" (P6).
"""

from __future__ import annotations

import os
import random
from typing import Optional

from tests.crash import invariants, supervise
from tests.crash.kills import SERIAL
from tests.crash.pinned import Plant
from tests.crash.stage import Base, Outcome, Point, Stage

_DAMAGES = ("emptied", "halved", "short of its end", "zeroed in part", "flipped", "removed")


def bystander_points(base: Base, seed: int) -> list[Point]:
    """At each call, an output's path, chosen by seed."""
    rng = random.Random(seed)
    paths = len(base.world.managed())
    return [Point("bystander", (call.seq, rng.randrange(paths))) for call in base.calls if call.mutates]


def bystander(base: Base, point: Point, plant: Optional[Plant] = None) -> Outcome:
    """At one call the user writes to one output's path."""
    with Stage(base, plant) as stage:
        world = stage.world
        path, content = list(world.managed().items())[point.at[1]]
        full = os.path.join(world.repo, path)
        theirs = content[: len(content) // 2] if point.at[0] % 2 else b"the user's own words\n"
        done = False

        def meddle(call: supervise.Call) -> supervise.Verdict:
            nonlocal done
            if call.seq == point.at[0]:
                done = True
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "wb") as file:
                    file.write(theirs)
            return None

        result = stage.supervised(SERIAL, meddle)
        if not done:
            return Outcome(point, "", [], reached=False)
        bad = []
        with open(full, "rb") as file:
            if file.read() != theirs:
                bad.append(f"P5: {path} was the user's, and was overwritten")
        tree, blobs = invariants.committed(world), invariants.blobs_of(world)
        bad += [
            f"P5: {name} is committed with the user's bytes"
            for name in blobs
            if tree.get(name, blobs[name]) != blobs[name]
        ]
        known = {blob for _, fields in invariants.receipts_of(world) for _, blob in fields["outputs"]}
        bad += ["P5: a receipt vouches for the user's bytes"] if not known <= set(blobs.values()) else []
        wanted = 0 if invariants.work_of(path) in invariants.done_works(world, tree) else 3
        if result.code != wanted:
            bad.append(f"exit {result.code} and not {wanted}: {world.said()[-300:]!r}")
        # The user gives way.
        if path in tree:
            world.git("checkout", "HEAD", "--", path)
        else:
            os.unlink(full)
        crash = invariants.look(world)
        bad += stage.finish(SERIAL, [crash._replace(spooled=set(world.answered()))], start=8)
        return Outcome(point, f"{point.at[0]} {path}", bad, note=f"exit {result.code}")


def torn_points(base: Base, seed: int) -> list[Point]:
    """Each damage to each file of an attempt that died when its response had been written."""
    del seed
    last = max(
        call.seq for call in base.calls if call.path.endswith(".written") and call.name.startswith("rename")
    )
    return [Point("torn", (last + 1, file, damage)) for file in range(5) for damage in range(len(_DAMAGES))]


def torn(base: Base, point: Point, plant: Optional[Plant] = None) -> Outcome:
    """Damage one file of a dead run's attempt in one way."""
    number, at, damage = point.at
    with Stage(base) as stage:
        stage.supervised(SERIAL, lambda call: "kill-tree" if call.seq == number else None)
        stage.plant = plant
        world = stage.world
        crash = invariants.look(world)
        folder = os.path.join(world.repo, ".git/gitstate/attempts")
        name = sorted(os.listdir(folder))[at]
        with open(os.path.join(folder, name), "rb") as file:
            whole = file.read()
        changed = _damaged(whole, damage, text=".response-" not in name)
        if changed is None and not name.partition(".")[2].startswith("response"):
            return Outcome(point, "", [], reached=False)  # without its record an attempt is not to be seen
        _put(os.path.join(folder, name), changed)
        before = invariants.committed(world), invariants.receipts_of(world), world.paid()
        code = stage.plain(SERIAL, start=4)
        said = world.said()
        bad = []
        if code != 3 or name not in said:
            bad.append(f"P6: {name} was {_DAMAGES[damage]}: exit {code}, {said[-300:]!r}")
        if (invariants.committed(world), invariants.receipts_of(world), world.paid()) != before:
            bad.append(f"P6: {name} was {_DAMAGES[damage]}, and something was recorded or paid")
        _put(os.path.join(folder, name), whole)
        bad += stage.finish(SERIAL, [crash], start=8)
        return Outcome(point, f"{name} {_DAMAGES[damage]}", bad)


def _damaged(whole: bytes, damage: int, text: bool) -> Optional[bytes]:
    half = len(whole) // 2
    return {
        0: b"",
        1: whole[:half],
        2: whole[:-2],
        3: whole[:half] + bytes(len(whole) - half),
        # (a flipped letter inside a record's text can be another valid record; responses have digests)
        4: whole[: half - 1] + b"\xff\xff" + whole[half + 1 :] if text else bytes([whole[0] ^ 1]) + whole[1:],
    }.get(damage)


def _put(path: str, content: Optional[bytes]) -> None:
    if content is None:
        os.unlink(path)
        return
    with open(path, "wb") as file:
        file.write(content)
