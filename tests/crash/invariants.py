"""What must hold in a crashed world, looked at with plain git: right after the crash, and after the next run."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.crash.worlds import DIRTY, STAGED, UNTRACKED, World

RECEIPTS, LOG = "refs/notes/gitstate", "refs/notes/gitstate-log"
_DONE_LINE = re.compile(r"^(?:✓|=) (\S+)@[0-9a-f]{12}  ", re.MULTILINE)
_RECOVERED = re.compile(
    r"^Recovered (\S+)@[0-9a-f]{12}: its answer had arrived; it is recorded", re.MULTILINE
)
_STATE_KEPT = {
    "lock",
    "lock-owner",
    "last-run.json",
}  # what a finished run leaves in its own folder, folders apart
_STATE_EMPTY = tuple(f".git/gitstate/{name}" for name in ("attempts", "scratch", "material", "worktrees"))
_STATE_EMPTY += (
    ".git/worktrees/2",
)  # git's entries of ours are named by attempts, and those begin with the year
_ENDS, _BEGINNINGS = (".lock", ".tmp"), ("tmp_", ".gitstate-", "gitstate-index")
_STAGES = {"work": "outline", "content": "article", "published": "publish", "after": "after"}  # by folder
WORDS = ("Traceback", "bug in gitstate", "Fatal Python error")


class Ending(NamedTuple):
    """What an undisturbed run ends in; every disturbed one must, after it ran again."""

    tree: dict[str, str]  # path -> blob, of HEAD
    receipts: Counter[str]  # those that count, without attempt and time


class Crashed(NamedTuple):
    """What is known of a world at the moment of a crash."""

    done: set[str]  # works
    spooled: set[str]  # works whose response is safe
    asked: set[str]  # works with an intent
    paid: Counter[str]


# --- right after the crash ----------------------------------------------------------------------------------------


def after_crash(world: World) -> list[str]:
    """Holds at once, before any recovery."""
    bad = []
    expected, former = world.managed(), world.former()
    for path, content in expected.items():
        found = _read(os.path.join(world.repo, path))
        if found not in (None, content, former.get(path)):
            assert found is not None
            bad.append(f"P1: {path} stands in the working tree with {len(found)} of {len(content)} bytes")
    tree, blobs, earlier = committed(world), _blobs(expected), _blobs(former)
    bad += _commits(world, blobs)
    bad += _users(world, strict=False)
    done = done_works(world, tree)
    replaced = {work_of(path) for path in expected if tree.get(path) != blobs[path]}
    for work in reported(world):
        if work not in done - replaced:
            bad.append(f"false done: {work} was reported done and is not")
    for path, blob in tree.items():
        if path in expected and blob not in (blobs[path], earlier.get(path)):
            bad.append(f"P1: {path} is committed with other content")
    return bad + _vouched(world, tree, done)


def _vouched(world: World, tree: dict[str, str], done: set[str]) -> list[str]:
    """Whatever stands at an output's path has a receipt, or a response in the spool that it came from."""
    spooled = look(world).spooled
    bad = []
    for path in world.managed():
        work = work_of(path)
        if path in tree and work not in done:
            bad.append(f"order: {path} is committed and has no receipt")
        if os.path.exists(os.path.join(world.repo, path)) and work not in done | spooled:
            bad.append(f"order: {path} stands there, and neither a receipt nor the spool knows of it")
    return bad


def work_of(path: str) -> str:
    """The work that an output's path belongs to, as SLUG/STAGE."""
    folder, _, name = path.partition("/")
    slug = name.rpartition(".")[0].removesuffix(".summary")
    return f"{slug}/{_STAGES[folder]}"


def look(world: World) -> Crashed:
    """What a crash left, as far as paying is concerned."""
    asked: set[str] = set()
    spooled: set[str] = set()
    folder = os.path.join(world.repo, ".git/gitstate/attempts")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        attempt, _, kind = name.partition(".")
        if kind == "intent":
            with open(os.path.join(folder, name), encoding="ascii") as file:
                fields = json.load(file)
            asked.add(f"{fields['slug']}/{fields['stage']}")
            if os.path.exists(os.path.join(folder, f"{attempt}.spooled")):
                spooled.add(f"{fields['slug']}/{fields['stage']}")
    return Crashed(done_works(world, committed(world)), spooled, asked, world.paid())


# --- after the next run -------------------------------------------------------------------------------------------


def after_rerun(world: World, ending: Ending, crashes: list[Crashed], code: int) -> list[str]:
    """Holds once gitstate ran again to its end: the same ending, little paid twice, nothing left behind."""
    bad = []
    said = world.said()
    if code:
        bad.append(f"the run after it exits {code}: {said.strip()[-300:]!r}")
    bad += [f"the words {word!r} were printed: {said.strip()[-600:]!r}" for word in WORDS if word in said]
    bad += after_crash(world)
    tree = committed(world)
    if tree != ending.tree:
        bad.append(f"the tree differs: {sorted(set(tree.items()) ^ set(ending.tree.items()))[:4]}")
    receipts = Counter(map(essence, receipts_of(world)))
    if receipts != ending.receipts:
        more, less = receipts - ending.receipts, ending.receipts - receipts
        bad.append(f"the receipts differ: {list(more)[:2]} more, {list(less)[:2]} less")
    bad += payments(world, crashes)
    bad += _users(world, strict=True)
    bad += leftovers(world)
    bad += fsck(world)
    return bad


def payments(world: World, crashes: list[Crashed]) -> list[str]:
    """A work is paid for once, and once more for each crash at which its call was under way and not spooled."""
    bad = []
    paid = world.paid()
    for work in world.works():
        allowed = 1 + sum(work in crash.asked and work not in crash.spooled | crash.done for crash in crashes)
        if not 1 <= paid[work] <= allowed:
            bad.append(f"P4: {work} was paid {paid[work]} times, {allowed} at most")
        for crash in crashes:
            if work in crash.spooled | crash.done and paid[work] > crash.paid[work]:
                bad.append(f"P4: {work} was paid again though its response had arrived")
    return bad


def leftovers(world: World) -> list[str]:
    """Locks, temporary files, journals, attempts that a finished run left."""
    left = []
    for folder, _, names in os.walk(world.repo):
        inside = os.path.relpath(folder, world.repo)
        for name in names:
            path = os.path.normpath(os.path.join(inside, name))
            if inside == ".git/gitstate":
                if name not in _STATE_KEPT:
                    left.append(path)
            elif inside.startswith(_STATE_EMPTY) or name.endswith(_ENDS) or name.startswith(_BEGINNINGS):
                left.append(path)
    state = os.path.join(world.repo, ".git/gitstate/scratch")
    left += [f".git/gitstate/scratch/{name}" for name in (os.listdir(state) if os.path.isdir(state) else ())]
    return [f"left behind: {sorted(set(left))}"] if left else []


def verified(run: Callable[..., int], world: World) -> list[str]:
    """`gitstate verify` finds nothing at all."""
    at = len(world.said())
    code = run("verify", "--json")
    found = world.said()[at:]
    if code or json.loads(found or "{}") != {"format": 1, "holds": True, "findings": []}:
        return [f"verify exits {code}: {found[-400:]}"]
    return []


def ending(world: World) -> Ending:
    """What this world has ended in."""
    return Ending(committed(world), Counter(map(essence, receipts_of(world))))


# --- looking ------------------------------------------------------------------------------------------------------


def committed(world: World, tip: str = "HEAD") -> dict[str, str]:
    """Path -> blob of a commit's tree."""
    found = {}
    for line in world.git("ls-tree", "-r", "-z", tip).decode().split("\0")[:-1]:
        head, _, path = line.partition("\t")
        found[path] = head.split()[2]
    return found


def blobs_of(world: World) -> dict[str, str]:
    """Path of each output -> the blob that it must become."""
    return _blobs(world.managed())


def _blobs(outputs: Mapping[str, bytes]) -> dict[str, str]:
    import hashlib

    return {
        path: hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        for path, data in outputs.items()
    }


def receipts_of(world: World, ref: str = RECEIPTS, repo: str = "") -> list[tuple[str, dict[str, Any]]]:
    """(annotated blob, receipt) of all notes under a ref, of the clone or of another repository."""
    names = world.git("ls-tree", "-r", ref, cwd=repo, check=False).decode().splitlines()
    pairs = [(line.partition("\t")[2].replace("/", ""), line.split()[2]) for line in names]
    asked = "".join(f"{note}\n" for _, note in pairs).encode()
    data = world.git("cat-file", "--batch", cwd=repo, stdin=asked) if pairs else b""
    found = []
    for blob, _ in pairs:
        head, _, data = data.partition(b"\n")
        size = int(head.split()[2])
        found += [(blob, json.loads(line)) for line in data[:size].splitlines()]
        data = data[size + 1 :]
    return found


def essence(receipt: tuple[str, dict[str, Any]]) -> str:
    """A receipt without what may differ from run to run."""
    blob, fields = receipt
    return json.dumps(
        [blob, {name: value for name, value in fields.items() if name not in ("attempt", "at")}],
        sort_keys=True,
    )


def done_works(world: World, tree: dict[str, str]) -> set[str]:
    """The works whose outputs are all committed, by a receipt that names just these blobs."""
    done = set()
    for blob, fields in receipts_of(world):
        outputs = [tuple(pair) for pair in fields["outputs"]]
        if outputs[0][1] == blob and all(tree.get(path) == oid for path, oid in outputs):
            done.add(f"{fields['slug']}/{fields['stage']}")
    return done


def reported(world: World) -> set[str]:
    """The works that gitstate said are done."""
    said = world.said()
    return set(_DONE_LINE.findall(said)) | set(_RECOVERED.findall(said))


def _commits(world: World, blobs: dict[str, str]) -> list[str]:
    """Each commit since the first holds nothing but whole outputs (P1, P9)."""
    bad = []
    for line in (
        world.git("log", "--raw", "--no-abbrev", "--no-renames", "--format=", "HEAD", "--not", ":/A plan")
        .decode()
        .splitlines()
    ):
        head, _, path = line.partition("\t")
        _, _, _, blob, kind = head.split()
        if blobs.get(path) != blob or kind not in ("A", "M"):
            bad.append(f"P9: a commit has {kind} {path} {blob[:12]}")
    return bad


def _users(world: World, strict: bool) -> list[str]:
    """The user's staged change, dirty file and untracked file are as they were."""
    bad = []
    for path, text in (
        (STAGED, b"staged by the user\n"),
        (DIRTY, b"changed by the user\n"),
        (UNTRACKED, b"not yet known to git\n"),
    ):
        if _read(os.path.join(world.repo, path)) != text:
            bad.append(f"P9: {path} was changed")
    if strict:
        status = world.git("status", "--porcelain", "-uall").decode().splitlines()
        if sorted(status) != sorted([f" M {DIRTY}", f"M  {STAGED}", f"?? {UNTRACKED}"]):
            bad.append(f"P9: git status says {status}")
    else:
        staged = world.git("diff", "--cached", "--name-only").decode().splitlines()
        if not {STAGED} <= set(staged) <= {STAGED, *world.managed()}:
            bad.append(f"P9: staged are {staged}")
    return bad


def fsck(world: World) -> list[str]:
    found = world.git("fsck", "--strict", "--no-dangling", "--no-progress", check=False).decode()
    code = world.git("rev-list", "--objects", "--all", "--quiet", check=False)
    return [f"fsck: {(found or code.decode())[:200]}"] if found else []


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
