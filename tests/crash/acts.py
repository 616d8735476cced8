"""Effect sweeps (P11): gitstate dies at each call of a run whose stage changes a world outside, and is run again.

That world is `tests/support/service.py`, a real HTTP service in a process of its own, which no crash here reaches. It
counts what it was asked for and what it made, and that is the truth that everything is held against. The act asks it
once and looks at nothing before: that it happens only once is gitstate's doing, not its own.

Scenarios: "evidence" (the service can be asked), "human" (only a person can tell; who says what the service knows),
"keyed" (the service makes equal keys one). What dies: see `kills`; "beside" is at calls of the act's own. Besides,
"elsewhere" (everything dies, and another clone takes over before this one comes back) and "again" (everything dies in
the act, and again in what comes then).
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Optional

from tests.crash import invariants, pinned, supervise, worlds
from tests.crash.invariants import LOG, Ending
from tests.crash.pinned import Plant
from tests.crash.pushes import locks
from tests.crash.stage import Base, Outcome, Point, Stage
from tests.crash.supervise import Call
from tests.crash.worlds import World
from tests.support.service import CLIENT, Asked, Service

RUN = ("run", "--push", "end")
SCENARIOS = {
    "evidence": f"""evidence: {sys.executable} -I -S -B "$HOME/client.py" find, settle: 0""",
    "human": "on_stale: ask",
    "keyed": "idempotent: true",
}
_CONFIG = f"""\
gitstate: 1
plan: plan.yaml
stages:
  publish:
    effect: true
    run: {sys.executable} -I -S -B "$HOME/client.py" put
    output: published/{{slug}}.json
    policy: {{unknown: {{base: 0.01}}}}
    WORDS
  after:
    needs: [publish]
    run: sh "$HOME/after.sh" {{{{ needs.publish }}}}
    output: after/{{slug}}.txt
"""
_AFTER = """\
blob=$(git rev-parse "HEAD:$1") && git notes --ref=gitstate show "$blob" 2>/dev/null | grep -q '"stage":"publish"' ||
    echo "$GITSTATE_SLUG" >> "$HOME/early"
echo "after it"
"""


class Published(World):
    """A world whose works are one act each, and something that comes after it."""

    BESIDE: ClassVar = {"client.py": CLIENT, "after.sh": _AFTER}

    def managed(self) -> dict[str, bytes]:
        """Each output's path, and what must be there in the end."""
        found = {}
        for number, slug in enumerate(self.items, 1):
            found[f"published/{slug}.json"] = f"{_word(number)}\n".encode()
            found[f"after/{slug}.txt"] = b"after it\n"
        return found

    def former(self) -> dict[str, bytes]:
        """Nothing stood there before."""
        return {}

    def works(self) -> list[str]:
        """SLUG/STAGE of every work."""
        return [f"{slug}/{stage}" for slug in self.items for stage in ("publish", "after")]

    @property
    def outside(self) -> Service:
        """The service's books."""
        return Service(Path(self.folder, "service.sqlite"))


def _word(number: int) -> str:
    return json.dumps({"url": f"https://example.org/{number}"})


class Outside:
    """The service of one world, in a process of its own; a context manager that ends it."""

    def __init__(self, world: Published) -> None:
        self._world = world

    def __enter__(self) -> Service:
        ready, tell = os.pipe()
        alive, hold = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(hold)
                with self._world.outside as service:
                    os.write(tell, service.url.rpartition(":")[2].encode())
                    os.read(alive, 1)  # until it is ended, or the harness has died
            finally:
                os._exit(0)
        os.close(tell)
        os.close(alive)
        self._hold = hold
        with open(os.path.join(self._world.folder, "port"), "wb") as file:
            file.write(os.read(ready, 16))
        os.close(ready)
        return self._world.outside

    def __exit__(self, *_: object) -> None:
        os.close(self._hold)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def make(folder: str, scenario: str, items: tuple[str, ...] = ("one",), *, remote: bool = True) -> Published:
    """A world with nothing done yet, in an existing folder."""
    config = _CONFIG.replace("WORDS", SCENARIOS[scenario].replace(", ", "\n    "))
    world = worlds.make(folder, items, remote=remote, config=config, kind=Published)
    assert isinstance(world, Published)
    world.outside.honours_keys = scenario == "keyed"
    return world


def put_beside(world: Published, asked: int) -> None:
    """What is no part of a clone: the commands, and a service that was asked so many times."""
    for name, text in world.BESIDE.items():
        Path(world.folder, name).write_text(text, encoding="utf-8")
    for _ in range(asked):
        world.outside.write("POST", "/articles", {"external_id": world.items[0]}, "")
        world.outside.note(Asked("POST", "/articles", "", "normal", 201, 0.0))


def prepare(folder: str, scenario: str, plant: Optional[Plant] = None) -> Base:
    """Make a template and run it once undisturbed, watched, as `stage.prepare` does."""
    template = os.path.join(folder, "template")
    os.makedirs(template)
    base = Base(make(template, scenario), [], Ending({}, invariants.Counter()))
    with Play(base, Point(scenario, ()), plant) as play:
        result = play.supervised(RUN, lambda call: None)
        assert result.code == 0 or plant, play.world.said()
        calls = [play.relative(call) for call in result.calls]
        found = base._replace(calls=calls, ending=ending(play.world), plant=plant)
        if plant is None:
            play.base = found
            bad = play.judged()
            assert not bad, bad
    return found


def ending(world: World) -> Ending:
    """What a world ended in; of the receipts what is the same whoever vouches."""
    receipts = {
        json.dumps([blob, *(fields[name] for name in ("work", "slug", "stage", "outputs"))])
        for blob, fields in invariants.receipts_of(world)
    }
    return Ending(invariants.committed(world), invariants.Counter(receipts))


# --- points -------------------------------------------------------------------------------------------------------


def points(base: Base, seed: int, scenario: str) -> list[Point]:
    """Every call, dying in each way; and seeded pairs."""
    numbers = [call.seq for call in base.calls if call.mutates]
    rng = random.Random(seed)
    pairs = [(rng.choice(numbers), int(rng.paretovariate(0.6)) + 8) for _ in range(len(numbers) // 4)]
    modes = ("tree", "caller", "parent", *(("elsewhere",) if scenario != "keyed" else ()))
    return [
        *(Point(mode, (number,)) for mode in modes for number in numbers),
        *(Point("double", pair) for pair in pairs),
        *(Point("beside", (call.seq,)) for call in base.calls if call.mutates and "/scratch/" in call.path),
    ]


def points_after(base: Base, seed: int) -> list[Point]:
    """For a death just before the service hears of an act, and one just after, every call of what comes then: the run
    that asks evidence, or the `resolve` of who has looked at the service."""
    found = []
    for mark in ("asking", "answered"):
        number = next(call.seq for call in base.calls if call.path.endswith(f"/{mark}"))
        with Play(base, Point("again", (number,)), base.plant) as play:
            play.supervised(RUN, _at(number, "kill-tree"))
            calls = play.supervised(play.what_follows(), lambda call: None, start=1).calls
            found += [
                Point("again", (number, call.seq), path=play.relative(call).path)
                for call in calls
                if call.mutates
            ]
    return found


def _at(number: int, verdict: supervise.Verdict) -> Any:
    return lambda call: verdict if call.seq == number else None


# --- one death ----------------------------------------------------------------------------------------------------


class Play(Stage):
    """A copy of the template with its service, and what was seen of it."""

    world: Published

    def __init__(
        self, base: Base, point: Point, plant: Optional[Plant] = None, *, in_place: bool = False
    ) -> None:
        """`in_place`: not in a copy."""
        super().__init__(base, plant)
        self.point, self._in_place = point, in_place
        self.has_acted = False  # whether a command of an act may have begun
        self.was_asked = False  # whether a person was asked
        self.note = ""

    def __enter__(self) -> Play:
        if self._in_place:
            assert isinstance(self.base.world, Published)
            self.world = self.base.world
        else:
            super().__enter__()
        self._outside = Outside(self.world)
        self.service = self._outside.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._outside.__exit__()
        if not self._in_place:
            super().__exit__()

    def supervised(self, *arguments: Any, **more: Any) -> supervise.Result:
        """As `Stage.supervised`; it sees whether an act began."""
        result = super().supervised(*arguments, **more)
        dead = result.hit is not None and result.code == -signal.SIGKILL
        calls = [call for call in result.calls if not (dead and call is result.hit)]
        self.has_acted |= any(call.path.endswith(".acting") for call in calls)
        return result

    def answer(self) -> Sequence[str]:
        """What a person would say who has looked at the service."""
        (slug,) = self.world.items
        made = self.service.created(slug)
        if made:
            return ("resolve", slug, "--happened", json.dumps({"url": made[0]["url"]}))
        return ("resolve", slug, "--did-not-happen")

    def what_follows(self) -> Sequence[str]:
        """What is done next after a death in the act."""
        with open(os.path.join(self.world.repo, "gitstate.yaml"), encoding="utf-8") as file:
            return self.answer() if SCENARIOS["human"] in file.read() else RUN

    def resume(self, start: int, world: Optional[Published] = None) -> list[str]:
        """Run again, and do what a person is told to do, until nothing is left to do."""
        world = world or self.world
        arguments: Sequence[str] = RUN
        for turn in range(start, start + 12, 2):
            before = len(world.said())
            code = self.in_(world, arguments, turn)
            said = world.said()[before:]
            found = [] if code == 0 else locks(world.remote)
            # Those on refs that follow the remote: nothing proves whose they are, and pushing does not need them.
            ours = locks(os.path.join(world.repo, ".git/refs"))
            found += [path for path in ours if "/refs/remotes/" in path or "/refs/gitstate-remote/" in path]
            if found:
                self.note = "a dead process left a lock of git's"
                for path in found:
                    os.unlink(path)
            if code == 0:
                return []
            if found:
                continue
            if code == 3 and "gitstate resolve" in said:
                self.was_asked = True
                code = self.in_(world, self.answer(), turn + 1)
                if code:
                    return [f"resolve exits {code}: {world.said()[before:][-500:]!r}"]
            elif code == 1:
                arguments = (*RUN, "--retry-failed")
            else:
                return [f"the run after it exits {code}: {said[-500:]!r}"]
        return [f"it does not come to an end: {world.said()[-700:]!r}"]

    def in_(self, world: World, arguments: Sequence[str], start: int) -> int:
        """gitstate in one of the clones, not looked at; its exit code."""
        program = pinned.gitstate(*arguments, start=start, plant=self.plant)
        return supervise.plain(program, env=world.environment, cwd=world.repo, output=world.output)

    def clone(self, name: str) -> Published:
        """Another machine's clone, of what the remote has by now. (Its remote is a link to the same one.)"""
        folder = os.path.join(self.world.folder, name)
        os.mkdir(folder)
        other = Published(folder, self.world.items)
        for file in (*other.BESIDE, "port"):
            os.link(os.path.join(self.world.folder, file), os.path.join(folder, file))
        os.symlink(self.world.remote, other.remote)
        self.world.git("clone", "-q", f"file://{self.world.remote}", other.repo, cwd=folder)
        return other

    # --- what must hold ---

    def at_once(self) -> list[str]:
        """Holds right after a death: what the service was asked for, others can know of."""
        bad = invariants.after_crash(self.world)
        known = {line["attempt"] for line in _log(self.world, there=os.path.exists(self.world.remote))}
        if self.service.writes and not known:
            bad.append("P11: the service was asked, and no intent is on record where others look")
        return bad

    def judged(self, others: Iterable[Published] = ()) -> list[str]:
        """Holds in the end."""
        world, bad = self.world, list[str]()
        for slug in world.items:
            made, asked = len(self.service.created(slug)), len(self.service.writes)
            if made != 1:
                bad.append(f"P11: {slug} was made {made} times, asked for by {_words(self.service.writes)}")
            if asked != 1 and self.point.mode != "keyed" and not self.service.honours_keys:
                bad.append(f"P11: the service was asked for {slug} {asked} times")
        if self.was_asked and not self.has_acted:
            bad.append("P11: a person was asked about an act that had not begun")
        if len(self.service.asked) > len(self.service.writes) and not self.has_acted:
            bad.append("P11: evidence was asked about an act that had not begun")
        for one in (world, *others):
            if os.path.exists(os.path.join(one.folder, "early")):
                bad.append("P11: a later stage began before the effect's receipt was recorded")
            bad += [
                f"{word!r} was printed: {one.said()[-600:]!r}"
                for word in invariants.WORDS
                if word in one.said()
            ]
        found = ending(world)
        if found.tree != self.base.ending.tree:
            bad.append(
                f"the tree differs: {sorted(set(found.tree.items()) ^ set(self.base.ending.tree.items()))[:4]}"
            )
        if found.receipts != self.base.ending.receipts:
            bad.append(f"the receipts differ: {found.receipts} instead of {self.base.ending.receipts}")
        bad += invariants.after_crash(world) + invariants._users(world, strict=True)
        bad += invariants.leftovers(world) + invariants.fsck(world)
        return bad or [*self._agree(), *self.verified()]

    def _agree(self) -> list[str]:
        """Everything is done, and a fresh clone prints the same plan, byte for byte."""
        bad = []
        ours = self._plan(self.world)
        if {work["state"] for work in json.loads(ours)["work"]} != {"done"}:
            bad.append(f"not everything is done: {ours[-500:]}")
        if os.path.exists(self.world.remote):
            other = self.clone("fresh")
            other.git("fetch", "-q", "origin", "refs/notes/*:refs/notes/*")
            if self._plan(other) != ours:
                bad.append(f"P3: a fresh clone prints another plan: {other.said()[-500:]!r}")
        return bad

    def _plan(self, world: World) -> str:
        before = len(world.said())
        self.in_(world, ("plan", "--json"), 22)
        return world.said()[before:]


def _log(world: World, there: bool) -> list[dict[str, Any]]:
    """The log's lines on acts that may have begun; `there`: those that the remote knows."""
    return [
        line
        for _, line in invariants.receipts_of(world, LOG, world.remote if there else "")
        if line["kind"] == "intent"
    ]


def _words(asked: Iterable[Asked]) -> str:
    return ", ".join(f"{one.key[:6]} (answer {one.status})" for one in asked)


def one(base: Base, point: Point, plant: Optional[Plant] = None) -> Outcome:
    """One death, or two, and what came of it."""
    verdict: supervise.Verdict = "kill-tree"
    if point.mode in ("caller", "parent", "beside"):
        verdict = "kill-caller" if point.mode == "caller" else "kill-parent"
    where, bad, others = [], list[str](), list[Published]()
    with Play(base, point, plant) as play:
        arguments: Sequence[str] = RUN

        def held(call: Call) -> None:
            # gitstate is dead, and the act that made this call lives and stands still.
            play.has_acted = True
            bad.extend(f"beside it: {line}" for line in play.resume(64))

        for start, number in enumerate(point.at):
            beside = held if point.mode == "beside" else None
            result = play.supervised(arguments, _at(number, verdict), start=start, while_held=beside)
            if result.hit is None:
                break
            where.append(play.words(result.hit))
            try:
                bad += [f"right after it: {line}" for line in play.at_once()]
            except RuntimeError as error:  # what git itself cannot read is found, whatever comes after it
                return Outcome(point, " then ".join(where), [*bad, f"right after it: {error}"], True)
            if point.mode == "again":
                arguments = play.what_follows()
        if not where:
            return Outcome(point, "", [], reached=False)
        if point.mode == "again" and arguments != RUN and point.at[-1] % 2:
            # The answer is typed again; where it had come through, that is said.
            code = play.plain(arguments, start=3)
            bad += [f"resolve exits {code}: {play.world.said()[-400:]!r}"] if code not in (0, 2) else []
        if point.mode == "elsewhere":
            others.append(play.clone("other"))
            bad += [f"elsewhere: {line}" for line in play.resume(4, others[0])]
        bad += play.resume(32) or play.judged(others)
        return Outcome(point, " then ".join(where), bad, True, _note(play))


def _note(play: Play) -> str:
    return play.note or ("a person was asked" if play.was_asked else "")
