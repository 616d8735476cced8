"""Cut the power at every call of a real run: rebuild each disk that could be left, start gitstate on it, judge.

    python -m tests.crash --only power-cut               the whole, about half an hour on two cores
    python -m tests.crash --only power-cut --quick       a part of it, for every submission
    python -m tests.crash --only power-mutants           planted bugs, each of which must be found
    python -m tests.crash.powercut --scenario fresh --model any --draws 10
    python -m tests.crash.powercut --disk fresh:any:371:2 --keep /tmp/disk        one disk again, left to look at
    python -m tests.crash.powercut --mutant no-barrier-after-refs                 must find something

A kill keeps the page cache, so no kill sweep can see a missing fsync; this can. The models are those of `disks`.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Optional

from tests.crash import acts, disks, invariants, pinned, remotecut, stage, supervise, trace
from tests.crash.disks import MODELS, Base, Files, Model, Replay
from tests.crash.invariants import Crashed, Ending
from tests.crash.powermutants import MUTANTS, SCENARIO_OF
from tests.crash.stage import Outcome, Point
from tests.crash.worlds import ANSWER, FORMER, PROVIDER, REJECTING, World, make, scratch

_MARK = re.compile(r"^(asked|spooled) (\S+)$", re.MULTILINE)
_WITH_PATHS = (".git/gitstate/recording.json", ".git/config", ".git/FETCH_HEAD")
_SCRATCH = ".git/gitstate/scratch/"  # thrown away unread at every start, so disks that differ in it are one
_PATIENCE = 90  # seconds for one command on a rebuilt disk


class Traced(NamedTuple):
    """One recorded program, and what is needed to judge what it left."""

    scenario: str
    items: tuple[str, ...]
    folder: str  # where the world stood
    replay: Replay
    ending: Ending
    known: Crashed  # what held when the recording began
    again: tuple[str, ...]  # the command that is to be run on a rebuilt disk
    asked: tuple[
        int, ...
    ] = ()  # how often a world outside had been asked for something when each call was made


class Cut(NamedTuple):
    """One distinct disk."""

    calls: int  # that were made when the power went; the last such count that leaves this disk
    made_at: int  # the first one
    model: Model
    draw: int

    def seed(self, traced: Traced) -> str:
        """What the random choices of model `any` come from."""
        return f"{traced.scenario}:{self.made_at}:{self.draw}"


# --- recording ----------------------------------------------------------------------------------------------------


def trace_run(
    scenario: str,
    world: World,
    plant: Optional[Callable[[], None]] = None,
    *,
    before: Optional[Callable[[trace.Op], None]] = None,
    timeout: float = 180.0,
) -> Traced:
    """`gitstate run` in a world; `before` is called at each operation."""
    program = pinned.gitstate("run", start=1, plant=_marking(plant))
    return _trace(scenario, world, program, before=before, timeout=timeout)


def trace_fresh(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """A run from nothing: two stages, one of them with two outputs, two items."""
    return trace_run("fresh", make(folder), plant)


def trace_group(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """Three items at once, so that groups are recorded together and next to running commands."""
    world = make(folder, ("one", "deep/two", "three"))
    return _trace(
        "group", world, pinned.gitstate("run", "-j", "3", start=1, serial=False, plant=_marking(plant))
    )


def trace_resume(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """A run that finds a half-done plan: some recorded, one response spooled and put into its place."""
    first = trace_fresh(_made(folder, "first"))
    ops = first.replay.ops
    # Of the first article, one of the two outputs has its name when the machine goes.
    place = next(
        n for n, op in enumerate(ops) if op.kind in ("link", "rename") and op.other == "content/one.md"
    )
    world = _world(_made(folder, "second"), first, first.replay.cut(place + 1, "kept"), place + 1)
    known = _known(first, place + 1)
    return _trace("resume", world, pinned.gitstate("run", start=2, plant=_marking(plant)), known)


def trace_accept(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """Taking in outputs that the user has committed."""
    world = make(folder)
    for path, content in world.managed().items():
        full = os.path.join(world.repo, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content)
    world.git("stash", "-q", "--keep-index")
    world.git("stash", "pop", "-q", check=False)
    world.git("add", *world.managed())
    world.git("commit", "-q", "-m", "A plan, and what was made by hand", "--", *world.managed())
    return _trace(
        "accept", world, pinned.gitstate("accept", start=1, plant=_marking(plant)), again=("accept",)
    )


def trace_pull(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """A run that gets everything from the remote, where another clone has done it."""
    world = make(folder, remote=True)
    other = World(_made(folder, "other"), world.items)
    for name in ("provider.sh", "answer"):
        shutil.copy(os.path.join(folder, name), other.folder)
    world.git("clone", "-q", world.remote, other.repo, cwd=folder)
    code = _run(other, pinned.gitstate("run", start=1))
    if code:
        raise AssertionError(f"pull: the other clone's run exits {code}: {other.said()[-2000:]}")
    shutil.rmtree(other.folder)
    # Paid for, and not here: nothing may be paid for again.
    known = Crashed(set(), set(world.works()), set(), Counter(world.works()))
    return _trace("pull", world, pinned.gitstate("run", start=2, plant=_marking(plant)), known)


def trace_rejected(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """A run whose second stage fails its check, so that its answers are put aside. Afterwards the check is mended,
    and what was put aside must pass: not an answer is bought again."""
    world = make(folder, config=REJECTING)
    again = ("run", "--retry-failed")

    def finish() -> None:
        _touch(world, "mended")
        if _run(world, pinned.gitstate(*again, start=7)):
            raise AssertionError(f"rejected: {world.said()[-2000:]}")

    program = pinned.gitstate("run", start=1, plant=_marking(plant))
    return _trace("rejected", world, program, again=again, code=1, finish=finish)


def trace_renew(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """A run that replaces outputs which a changed prompt made stale."""
    world = make(folder)
    _write(world, "answer", FORMER)
    if _run(world, pinned.gitstate("run", start=1)):
        raise AssertionError(f"renew: {world.said()[-2000:]}")
    for name in ("outline", "article"):
        _write(world, f"repo/prompts/{name}.md", f"Better: {name} of {{{{ slug }}}}.\n")
    world.git("commit", "-q", "-m", "A plan, changed", "--", "prompts")
    for name in ("ledger", "ledger.answered"):
        os.unlink(os.path.join(world.folder, name))
    _write(world, "answer", ANSWER)
    _touch(world, "former")
    return _trace("renew", world, pinned.gitstate("run", start=2, plant=_marking(plant)))


def trace_push(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """A sync that pushes, and the machine that it pushes to stops: the disk is the remote's."""
    world = make(folder, remote=True)
    for arguments, code in ((("run", "--limit", "1"), 0), (("run", "--offline"), 75)):
        if _run(world, pinned.gitstate(*arguments, start=code)) != code:
            raise AssertionError(f"push: {world.said()[-2000:]}")
    shutil.copytree(world.repo, os.path.join(world.folder, _BEFORE), symlinks=True)
    return _trace("push", world, pinned.gitstate("sync", start=2, plant=_marking(plant)), again=("sync",))


_BEFORE = "before"  # the clone as it was before the push


def trace_act(folder: str, plant: Optional[Callable[[], None]] = None) -> Traced:
    """An effect of which only a person can tell whether it has happened. The world that it changes is on no disk here,
    and loses nothing."""
    world = acts.make(folder, "human", remote=False)
    asked: list[int] = []
    with acts.Outside(world) as service:
        program = pinned.gitstate("run", start=1, plant=_marking(plant))
        traced = _trace("act", world, program, before=lambda _: asked.append(len(service.writes)))
        return traced._replace(asked=(*asked, len(service.writes)), ending=acts.ending(world))


SCENARIOS: dict[str, Callable[..., Traced]] = {
    "fresh": trace_fresh,
    "resume": trace_resume,
    "accept": trace_accept,
    "group": trace_group,
    "pull": trace_pull,
    "rejected": trace_rejected,
    "renew": trace_renew,
    "push": trace_push,
    "act": trace_act,
}


def _trace(
    scenario: str,
    world: World,
    program: Callable[[], int],
    known: Crashed = Crashed(set(), set(), set(), Counter()),
    again: tuple[str, ...] = ("run",),
    before: Optional[Callable[[trace.Op], None]] = None,
    timeout: float = 180.0,
    code: int = 0,
    finish: Callable[[], None] = lambda: None,
) -> Traced:
    """Record a program that exits `code`; `finish` brings what it left to its end."""
    disk = _disk(scenario, world)
    base = Base(disk)
    os.truncate(world.output, 0) if os.path.exists(world.output) else None
    done = trace.record(
        program, disk, cwd=world.repo, env=world.environment, output=world.output,
        listen=[os.path.join(world.folder, name) for name in ("ledger", "marks")], before=before, timeout=timeout,
    )  # fmt: skip
    if done.code != code:
        raise AssertionError(f"{scenario}: the recorded program exits {done.code}: {world.said()[-2000:]}")
    replay = Replay(base, done.ops)
    _compare(replay.end, disks.read_in(disk))
    finish()
    return Traced(scenario, world.items, world.folder, replay, invariants.ending(world), known, again)


def _disk(scenario: str, world: World) -> str:
    """What the disk is whose power is cut: the clone's, or the remote's."""
    return world.remote if scenario == "push" else world.repo


def _compare(rebuilt: Files, real: Files) -> None:
    """The replay must end in what is really there, else the recorder missed something."""
    for path in sorted({*rebuilt, *real}):
        ours, theirs = rebuilt.get(path), real.get(path)
        if ours is None or theirs is None or ours.content != theirs.content:
            raise AssertionError(f"the recorder does not understand what happened to {path}")


def _marking(plant: Optional[Callable[[], None]]) -> Callable[[], None]:
    """Leave word, in the order of all calls, of what the program may rely on from here on."""

    def planted() -> None:
        from gitstate.edge.attempts import Attempts, Intent, Spooled

        if plant is not None:
            plant()
        begin, spool = Attempts.begin, Attempts.spool
        names: dict[str, str] = {}
        file = os.open(
            os.path.join(os.environ["HOME"], "marks"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666
        )

        def marked_begin(self: Attempts, intent: Intent) -> None:
            begin(self, intent)
            names[intent.attempt] = f"{intent.slug}/{intent.stage}"
            os.write(file, f"asked {names[intent.attempt]}\n".encode())

        def marked_spool(self: Attempts, attempt: str, spooled: Spooled) -> None:
            spool(self, attempt, spooled)
            os.write(file, f"spooled {names[attempt]}\n".encode())

        Attempts.begin, Attempts.spool = marked_begin, marked_spool  # type: ignore[method-assign]

    return planted


# --- choosing disks -----------------------------------------------------------------------------------------------


def cuts(traced: Traced, model: Model, draws: int, stride: int = 1, offset: int = 0) -> list[Cut]:
    """The distinct disks that cuts at every `stride`-th call leave under a model; the end always among them.

    Each is judged by what had been promised at the last call that may leave it.
    """
    found: dict[bytes, Cut] = {}
    total = len(traced.replay.ops)
    points = [count for count in range(total + 1) if count % stride == offset % stride or count == total]
    for count in points:
        for draw in range(draws if model == "any" else 1):
            cut = Cut(count, count, model, draw)
            key = disks.digest(traced.replay.cut(count, model, cut.seed(traced)), _SCRATCH)
            found[key] = found[key]._replace(calls=count) if key in found else cut
    return list(found.values())


def files_of(traced: Traced, cut: Cut) -> Files:
    """The rebuilt disk."""
    return traced.replay.cut(cut.made_at, cut.model, cut.seed(traced))


# --- judging ------------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """What came of one disk."""

    bad: list[str]  # all that is wrong
    note: str = ""  # how it ended well, where that is not the plain way


def judge(traced: Traced, cut: Cut, folder: str) -> Judged:
    """Put the disk together in `folder`, start gitstate on it, and say all that is wrong."""
    if traced.scenario == "push":
        return _judge_remote(traced, cut, folder)
    if traced.scenario == "act":
        return _judge_act(traced, cut, folder)
    world = _world(folder, traced, files_of(traced, cut), cut.calls)
    return judge_world(world, traced, cut.calls, cut.model == "any")


def _judge_remote(traced: Traced, cut: Cut, folder: str) -> Judged:
    world = World(os.path.realpath(folder), traced.items)
    disks.write_out(files_of(traced, cut), world.remote)
    # The clone has heard of nothing, until the very end.
    heard = cut.calls == len(traced.replay.ops)
    remotecut.put(world, os.path.join(traced.folder, "repo" if heard else _BEFORE))
    return Judged(*remotecut.deliver(world, lambda: _run(world, pinned.gitstate("sync", start=8))))


def _judge_act(traced: Traced, cut: Cut, folder: str) -> Judged:
    """Whatever the service had heard while the disk could look so, it must not be asked again."""
    bad, note = [], ""
    for asked in sorted({traced.asked[cut.made_at], traced.asked[cut.calls]}):
        place = _made(folder, str(asked))
        world = acts.Published(os.path.realpath(place), traced.items)
        _world(place, traced, files_of(traced, cut), cut.calls)
        acts.put_beside(world, asked)
        base = stage.Base(world, [], traced.ending)
        with acts.Play(base, Point("act", ()), in_place=True) as play:
            play.has_acted = any(
                (op.other or op.path).endswith(".acting") for op in traced.replay.ops[: cut.calls]
            )
            found = play.resume(8)
            if found and cut.model == "any" and _removed(play.world):
                note, found = _LOCK, play.resume(40)
            bad += [what for what in found or play.judged() if _counts(traced, play.world, what)]
    return Judged(bad, note)


_LOCK = "with a lock to be removed as told"


def judge_world(world: World, traced: Traced, count: int, loose: bool = False) -> Judged:
    """The same for a world whose disk is there, left by a cut after `count` calls. `loose`: calls
    that were not forced out may have reached the disk in any order."""
    known = _known(traced, count)
    try:
        bad = [
            f"at once: {what}"
            for what in invariants.after_crash(world)
            if _counts(traced, world, what, loose)
        ]
    except Exception as error:  # git cannot even read it
        bad = [f"at once: {type(error).__name__}: {str(error)[:300]}"]
    if traced.again == ("accept",) and "Accepted" in world.said() and not bad:
        lost = set(world.works()) - invariants.done_works(world, invariants.committed(world))
        bad += [f"at once: accepted and lost: {sorted(lost)}"] if lost else []
    said = len(world.said())
    code = _run(world, pinned.gitstate(*traced.again, start=8))
    told = loose and code == 75 and _removed(world)
    if told:
        code = _run(world, pinned.gitstate(*traced.again, start=9))
    try:
        found = invariants.after_rerun(world, traced.ending, [known], code)
        bad += [what for what in found if _counts(traced, world, what)]
        if count % 3 == 0 or bad:  # (as dear as the run itself, and most of it was looked at just now)
            bad += invariants.verified(
                lambda *command: _run(world, pinned.gitstate(*command, start=10)), world
            )
    except Exception as error:
        bad.append(f"{type(error).__name__}: {str(error)[:300]} (said: {world.said()[said:][-300:]!r})")
    return Judged(bad, _LOCK if told else "")


def _removed(world: World) -> bool:
    """Do what gitstate said about a lock of git's that it cannot tell to be its own. A disk that kept such a lock and
    lost what proves whose it is exists under the model `any` only; that it is explained is all one can ask."""
    told = [
        path
        for path in re.findall(r"not provably ours\..* rm '([^']+)'", world.said())
        if os.path.exists(path)
    ]
    for path in told:
        os.unlink(path)
    return bool(told)


def _counts(traced: Traced, world: World, what: str, loose: bool = False) -> bool:
    """Whether a finding is one after a power cut. `loose`: refs may have reached the disk in another order."""
    if traced.scenario == "accept" and "order: " in what:
        return False  # what was made by hand stands there, and waits to be vouched for
    if loose and what.endswith("is committed and has no receipt"):
        # Notes move first; where a cut keeps only the branch, the spool must know, and the next run completes it.
        return invariants.work_of(what.split()[1]) not in invariants.look(world).spooled
    if what.startswith("P4") and traced.again == ("accept",):
        return bool(world.paid())
    if traced.scenario == "pull" and "stands there, and neither a receipt nor" in what:
        # Receipts came first; the branch follows, and counts as committed only then.
        path = what.split("order: ")[1].split(" stands")[0]
        return path not in {path for _, line in invariants.receipts_of(world) for path, _ in line["outputs"]}
    if what.startswith("fsck:"):
        return not _sound(world)
    if what.startswith("left behind:"):
        # git's clean-up knows the former by their names, and leaves such itself when it dies; what tells gitstate to
        # look for them (that the lock was not given back) may be lost. The latter go with the next `run`.
        harmless = r"^\.git/objects/(../tmp_obj|pack/tmp_(pack|idx|rev))_"
        if traced.again != ("run",):
            harmless += r"|^\.git/gitstate/(cache/)?[^/]*\.tmp$"
        return not all(re.search(harmless, name) for name in re.findall(r"'([^']*)'", what))
    return True


def _sound(world: World) -> bool:
    """Whether everything that refs, reflogs and the index reach can be read and is what it claims to be."""
    import hashlib
    import zlib

    names = world.git("rev-list", "--objects", "--all", "--indexed-objects", "--reflog", "HEAD").decode()
    for line in names.splitlines():
        oid = line.split()[0]
        with open(os.path.join(world.repo, ".git/objects", oid[:2], oid[2:]), "rb") as file:
            try:
                data = zlib.decompress(file.read())
            except zlib.error:
                return False
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() != oid:
            return False
    return True


def _known(traced: Traced, count: int) -> Crashed:
    """What could be relied on when `count` calls had been made."""
    done, spooled, asked = set(traced.known.done), set(traced.known.spooled), set(traced.known.asked)
    heard = _heard(traced, count)
    for kind, work in _MARK.findall(heard["marks"]):
        (asked if kind == "asked" else spooled).add(work)
    paid = Counter(traced.known.paid)
    paid.update(line.split()[0] for line in heard["ledger"].splitlines())
    return Crashed(done | _reported(heard["output"]), spooled, asked, paid)


def _reported(said: str) -> set[str]:
    """The works that gitstate said are done."""
    return set(invariants._DONE_LINE.findall(said)) | set(invariants._RECOVERED.findall(said))


def _heard(traced: Traced, count: int) -> dict[str, str]:
    found = {"output": b"", "ledger": b"", "marks": b""}
    for op in traced.replay.ops[:count]:
        if op.kind == "say":
            found[op.path] += op.data
    return {name: data.decode() for name, data in found.items()}


def _world(folder: str, traced: Traced, files: Files, count: int) -> World:
    """A world whose repository is the rebuilt disk; printed and paid was what was before the cut."""
    world = World(os.path.realpath(folder), traced.items)
    moved = {
        # These name the repository, or the remote, by its path, and the disk stands elsewhere now.
        path: file._replace(content=file.content.replace(traced.folder.encode(), world.folder.encode()))
        if path.startswith(_WITH_PATHS) and file.content is not None
        else file
        for path, file in files.items()
    }
    disks.write_out(moved, world.repo)
    put_beside(world, traced, count)
    return world


def put_beside(world: World, traced: Traced, count: int) -> None:
    """What outlives the cut: the provider, its books, the remote, and what people had read by then."""
    remote = World(traced.folder, traced.items).remote
    if os.path.exists(remote) and traced.folder != world.folder:
        shutil.copytree(remote, world.remote)
    heard = _heard(traced, count)
    ledger = "".join(f"{work}\n" for work in traced.known.paid.elements()) + heard["ledger"]
    for name, text in (
        ("provider.sh", PROVIDER), ("answer", ANSWER), ("ledger", ledger), ("output", heard["output"]),
    ):  # fmt: skip
        _write(world, name, text)
    for name in ("former", "mended"):
        if os.path.exists(os.path.join(traced.folder, name)):
            _touch(world, name)


def _touch(world: World, name: str) -> None:
    _write(world, name, "")


def _write(world: World, name: str, text: str) -> None:
    with open(os.path.join(world.folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def _run(world: World, program: Callable[[], int]) -> int:
    """Run a function in a child of its own, in this world; its exit code."""

    def bounded() -> int:
        signal.alarm(_PATIENCE)
        return program()

    return supervise.plain(bounded, env=world.environment, cwd=world.repo, output=world.output)


# --- the sweep ----------------------------------------------------------------------------------------------------


class Swept(NamedTuple):
    """What came of one scenario under one model."""

    scenario: str
    model: str
    calls: int
    disks: int
    violations: list[tuple[Cut, list[str]]]
    notes: Counter[str]  # how disks ended well, where that is not the plain way
    seconds: float


_traced: Optional[Traced] = None  # for the workers, which are forked and so have it already


def _work(task: tuple[int, Cut]) -> tuple[Cut, Judged]:
    assert _traced is not None
    number, cut = task
    folder = tempfile.mkdtemp(prefix=f"cut{number:06d}-", dir=_traced.folder)
    try:
        return cut, judge(_traced, cut, folder)
    except Exception as error:  # the harness's own failure must not pass for a sound disk
        return cut, Judged([f"the harness failed: {type(error).__name__}: {error}"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(traced: Traced, chosen: Sequence[Cut], jobs: int) -> Iterator[tuple[Cut, Judged]]:
    """Judge disks, in whatever order they are ready."""
    global _traced
    _traced = traced
    pinned.preload()
    sys.stdout.flush()
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(_work, enumerate(chosen))


def swept(traced: Traced, part: Part, jobs: int) -> Swept:
    """One scenario under one model."""
    began = time.monotonic()
    chosen = cuts(traced, part.model, part.draws, part.stride, part.stride // 2)
    bad, notes = [], Counter[str]()
    for cut, found in sweep(traced, chosen, jobs):
        notes.update([found.note] if found.note else [])
        if found.bad:
            bad.append((cut, found.bad))
    return Swept(
        part.scenario, part.model, len(traced.replay.ops), len(chosen), bad, notes, time.monotonic() - began
    )


def mutant_found(name: str, folder: str, jobs: int) -> Optional[tuple[Cut, list[str]]]:
    """Plant a bug, record a run with it, and look for a disk that shows it; None if none does."""
    traced = SCENARIOS[SCENARIO_OF.get(name, "fresh")](folder, MUTANTS[name])
    seen: set[bytes] = set()
    chosen = []
    for model in ("ordered", "strict", "any"):
        for cut in cuts(traced, model, draws=1):
            key = disks.digest(files_of(traced, cut), _SCRATCH)
            if key not in seen or model == "strict":
                seen.add(key)
                chosen.append(cut)
    random.Random(name).shuffle(chosen)
    for cut, found in sweep(traced, chosen, jobs):
        if found.bad:
            return cut, found.bad
    return None


class Part(NamedTuple):
    """What is judged: a scenario under a model, so many draws, at every `stride`-th call."""

    scenario: str
    model: Model
    draws: int = 1
    stride: int = 1


# A killed process leaves the disks of `kept`: of one scenario they are judged here, the others are the kill sweeps'.
WHOLE = (
    Part("fresh", "kept"), Part("fresh", "ordered"), Part("fresh", "strict"), Part("fresh", "any", 4),
    Part("resume", "ordered"), Part("resume", "strict"), Part("resume", "any", 2),
    Part("accept", "kept"), Part("accept", "ordered"), Part("accept", "strict"), Part("accept", "any", 4),
    Part("pull", "ordered"), Part("pull", "strict"), Part("pull", "any", 3),
    Part("push", "kept"), Part("push", "ordered"), Part("push", "strict"), Part("push", "any", 6),
    Part("rejected", "ordered"), Part("rejected", "strict"), Part("rejected", "any", 2),
    Part("renew", "ordered"), Part("renew", "strict"), Part("renew", "any", 2),
    Part("group", "ordered"), Part("group", "strict"), Part("group", "any"),
    Part("act", "ordered"), Part("act", "strict"), Part("act", "any", 2),
)  # fmt: skip
SAMPLE = (
    Part("fresh", "ordered", 1, 6), Part("fresh", "strict"), Part("fresh", "any", 1, 8),
    Part("resume", "any", 1, 16), Part("accept", "any", 1, 8), Part("group", "strict", 1, 2),
    Part("pull", "any", 1, 40), Part("push", "any", 1, 36),
    Part("rejected", "any", 1, 80), Part("renew", "any", 1, 80), Part("act", "any", 1, 80),
)  # fmt: skip


@contextlib.contextmanager
def workplace() -> Iterator[str]:
    """A folder for worlds, gone afterwards."""
    with tempfile.TemporaryDirectory(
        prefix="powercut-", dir=scratch() or None, ignore_cleanup_errors=True
    ) as folder:
        yield folder


def _made(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    os.mkdir(path)
    return path


def run(parts: Sequence[Part], jobs: int, say: Callable[[str], None] = print) -> Iterator[Swept]:
    """Sweep one part after the other, telling what comes."""
    recorded: dict[str, Traced] = {}
    with workplace() as folder:
        for part in parts:
            name = part.scenario
            if name not in recorded:
                recorded[name] = SCENARIOS[name](_made(folder, name))
            result = swept(recorded[name], part, jobs)
            say(_line(result))
            kinds: Counter[str] = Counter()
            for cut, what in sorted(result.violations):
                kind = re.sub(r"[0-9a-f]{6,}|\d+", "N", what[0])[:60]
                kinds[kind] += 1
                if kinds[kind] <= 3:
                    place = recorded[name].replay.ops[cut.made_at - 1] if cut.made_at else None
                    say(f"  VIOLATION {name}:{cut.model}:{cut.made_at}:{cut.draw} after {_place(place)}:")
                    for line in what[:4]:
                        say(f"    {line[:600]}")
            for kind, count in kinds.items():
                say(f"  {count} times: {kind}")
            yield result


# Points, violations, seconds, notes, why it was skipped: the summary of a sweep.
Outcomes = tuple[int, list[Outcome], float, dict[str, int], str]


def all_parts(quick: bool, jobs: int) -> Outcomes:
    """The sweep "power-cut" of `python -m tests.crash`."""
    began = time.monotonic()
    bad, notes, points = [], dict[str, int](), 0
    for found in run(
        SAMPLE if quick else WHOLE, jobs or len(os.sched_getaffinity(0)), lambda line: _tell("  " + line)
    ):
        points += found.disks
        notes[f"by {found.model}"] = notes.get(f"by {found.model}", 0) + found.disks
        for note, count in found.notes.items():
            notes[note] = notes.get(note, 0) + count
        for cut, what in found.violations:
            bad.append(Outcome(Point(f"{found.scenario}:{cut.model}", (cut.made_at, cut.draw)), "", what))
    return points, bad, time.monotonic() - began, notes, ""


def all_mutants(quick: bool, jobs: int) -> Outcomes:
    """The sweep "power-mutants": each planted bug must show on some disk."""
    began = time.monotonic()
    bad = []
    for number, name in enumerate(MUTANTS):
        with workplace() as folder:
            found = mutant_found(name, folder, jobs or len(os.sched_getaffinity(0)))
        if found is None:
            bad.append(Outcome(Point("power-mutant", (number,)), name, [f"no power cut shows {name}"]))
        else:
            _tell(f"  {name}: found by {found[0].model} after call {found[0].made_at}: {found[1][0][:120]}")
    return len(MUTANTS), bad, time.monotonic() - began, {}, ""


def _place(op: Optional[trace.Op]) -> str:
    return f"{op.kind} {op.path} {op.other}".strip() if op is not None else "nothing"


def _line(found: Swept) -> str:
    return (
        f"{found.scenario:8} {found.model:8} {found.calls:5} calls {found.disks:5} distinct disks "
        f"{len(found.violations):4} violations {found.seconds:7.1f} s"
        + "".join(f"; {count} {note}" for note, count in sorted(found.notes.items()))
    )


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command line. Returns 1 where a disk is not sound, a planted bug is not found or nothing was judged."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.powercut", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--disk", help="SCENARIO:MODEL:CALL:DRAW")
    parser.add_argument("--keep", help="where to leave the disk of --disk")
    parser.add_argument("--mutant", choices=[*MUTANTS, "all"], help="plant a bug; finding it is success")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    if why := supervise.available():
        print(f"power-cut: skipped, {why}")
        return 0
    if options.mutant:
        return _mutants(list(MUTANTS) if options.mutant == "all" else [options.mutant], options.jobs)
    if options.disk:
        return _one(options.disk, options.keep)
    parts = [
        part._replace(draws=options.draws or part.draws, stride=options.stride or part.stride)
        for part in (SAMPLE if options.sample else WHOLE)
        if part.scenario in (options.scenario or SCENARIOS) and part.model in (options.model or MODELS)
    ]
    found = list(run(parts, options.jobs, _tell))
    total, bad = sum(one.disks for one in found), sum(len(one.violations) for one in found)
    _tell(f"power-cut: {total} disks, {bad} violations")
    return 1 if bad or not total else 0


def _tell(line: str) -> None:
    print(line, flush=True)


def _mutants(names: Sequence[str], jobs: int) -> int:
    missed = 0
    for name in names:
        with workplace() as folder:
            found = mutant_found(name, folder, jobs)
        missed += found is None
        how = (
            f"found by {found[0].model} after call {found[0].made_at}: {found[1][0][:200]}"
            if found
            else "NOT FOUND"
        )
        _tell(f"planted {name}: {how}")
    return 1 if missed else 0


def _one(name: str, keep: Optional[str]) -> int:
    scenario, model, count, draw = name.split(":")
    with workplace() as folder:
        traced = SCENARIOS[scenario](_made(folder, "recorded"))
        cut = Cut(int(count), int(count), model, int(draw))  # type: ignore[arg-type]
        if keep:
            os.mkdir(keep)
            disks.write_out(files_of(traced, cut), os.path.join(keep, "left"))
        bad = judge(traced, cut, keep or _made(folder, "judged")).bad
        for op in traced.replay.ops[max(0, cut.calls - 12) : cut.calls]:
            print(
                f"  {op.kind} {op.path} {op.other} {op.data[:60]!r}"
                if op.kind == "say"
                else f"  {_place(op)}"
            )
    print("\n".join(bad) or "sound")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
