"""`gitstate demo`: the whole story on shipped material, without network; each claim is checked as it is made.

A dozen public-domain passages, a slow "paid" step in plain Python, a remote and two clones. A is killed for real.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import Any

from gitstate import show
from gitstate.commands.demo_world import FalseClaim, World, make_folder
from gitstate.data import folder as data_folder

_FINISHED = 5  # answers that have come when A is killed
_FOOTER = "From a text in the public domain."  # what the edit of the template adds


def demo(folder: str) -> int:
    """Tell the story in `folder` (empty or absent; "" for a new temporary one), which is left for inspection.

    Returns 0, or 1 where a claim turned out to be false. UsageError where the folder cannot be used.
    """
    world = World(make_folder(folder))
    try:
        return _tell(world)
    finally:
        world.close()


def _tell(world: World) -> int:
    try:
        total = _set_up(world)
        standing = _kill(world)
        _resume(world, total, standing)
        _second_machine(world)
        _edit_template(world, total)
        _edit_passage(world)
        _verify(world)
    except FalseClaim as error:
        world.say()
        world.say(f"This claim does not hold: {error}", "31")
        world.say(f"Everything is left as it is. Look into {world.folder}: A and B are the clones,")
        world.say(
            "transcript.txt is what was typed and seen, ledger.txt is every call to the pretended provider."
        )
        return 1
    _farewell(world)
    return 0


def _set_up(world: World) -> int:
    """The remote and the two clones; returns how many passages there are."""
    world.chapter(
        "1. A remote and two clones",
        f"In {world.folder}",
        "A dozen passages in the public domain; for each one a digest, by a program that is slow and stands for a",
        "paid model ($0.02 a call), and then a page. Every call leaves a line in ledger.txt: that is the bill.",
    )
    world.run("", "git", "init", "-q", "--bare", "-b", "main", "remote.git")
    _clone(world, "A")
    shutil.copytree(
        os.path.join(data_folder("templates"), "demo"), os.path.join(world.folder, "A"), dirs_exist_ok=True
    )
    world.say("      (a configuration, a prompt, a template, a program and passages/*.txt come in)", "2")
    world.run("A", "git add . && git commit -q -m 'A plan and its texts' && git push -q -u origin HEAD")
    _clone(world, "B")
    world.run("A", "gitstate", "plan")
    plan = _plan(world, "A")
    total = len(os.listdir(os.path.join(world.folder, "A", "passages")))
    world.claim(
        f"The plan knows {2 * total} works, none is done, and asking has cost nothing.",
        plan["summary"]["total"] == 2 * total and not plan["summary"]["done"] and not world.calls(),
        plan["summary"],
    )
    return total


def _clone(world: World, name: str) -> None:
    # An empty remote does not tell every git which branch it means, so the clone is told.
    world.run("", "git", "-c", "init.defaultBranch=main", "clone", "-q", "remote.git", name, quiet=True)
    # Whatever the user's own settings are, they would act here as soon as somebody looks around by hand.
    for key, value in (
        ("user.name", f"The demo's {name}"),
        ("user.email", f"{name.lower()}@example.org"),
        ("commit.gpgsign", "false"),
        ("core.hooksPath", ".git/hooks"),
        ("core.autocrlf", "false"),
        ("pull.rebase", "false"),
    ):
        world.ask(name, "git", "config", key, value)


def _kill(world: World) -> dict[str, bytes]:
    """Run on A until some answers are there, and kill it; returns what then stands in the outputs' folders."""
    world.chapter("2. A runs, and is killed in the middle of a call", "SIGKILL, to the whole process group.")
    running = world.start("A", "gitstate", "run")
    caught, deadline = None, time.monotonic() + 60
    while caught is None:
        if running.ended() or time.monotonic() > deadline:
            raise FalseClaim("The run should still be under way when it is killed.")
        time.sleep(0.02)
        if len(world.calls("answered")) >= _FINISHED:
            caught = world.freeze()
    code = running.kill()
    world.kill(caught)
    world.say("    Killed.", "31")
    world.say(f"      (kill -9; {caught.slug} was waiting for its answer)", "2")
    world.say()
    finished = {call.slug for call in world.calls("answered")}
    world.claim("It died of the signal.", code == -9, code)
    world.run("A", "gitstate", "plan")
    done = {work["slug"] for work in _plan(world, "A")["work"] if work["state"] == "done"}
    world.claim(
        f"{len(finished)} answers had come, and the plan calls nothing done that is not.",
        bool(done) and done <= finished,
        sorted(done - finished),
    )
    return _outputs(world, "A")


def _resume(world: World, total: int, standing: dict[str, bytes]) -> None:
    world.chapter("3. The same command again: that is resuming")
    finished = {call.slug for call in world.calls("answered")}
    cut_off = {call.slug for call in world.under_way()}
    world.run("A", "gitstate", "run", shown=5)
    plan = _plan(world, "A")
    world.claim(
        f"All {2 * total} works are done.",
        plan["summary"]["done"] == plan["summary"]["total"],
        plan["summary"],
    )
    calls = [call.slug for call in world.calls()]
    again = sorted(slug for slug in finished if calls.count(slug) != 1)
    world.claim(
        f"None of the {len(finished)} digests that were finished was paid for again.", not again, again
    )
    world.claim(
        f"{len(calls)} calls for {total} digests: beyond one each, only what the kill cut off ({', '.join(cut_off)}).",
        len(calls) == total + len(cut_off) and set(calls) == {call.slug for call in world.calls("answered")},
        calls,
    )
    now = _outputs(world, "A")
    torn = sorted(path for path, content in standing.items() if now.get(path) != content)
    world.claim(
        f"Each of the {len(standing)} files that the kill left was whole.", bool(standing) and not torn, torn
    )


def _second_machine(world: World) -> None:
    world.chapter(
        "4. B, another machine: nothing to do", "B was cloned before anything was made, and was never set up."
    )
    before = len(world.calls())
    world.run("B", "git", "pull", "-q")
    world.run("B", "gitstate", "run", shown=5)
    world.claim("B paid for nothing.", len(world.calls()) == before, len(world.calls()) - before)
    _agree(world)


def _agree(world: World) -> None:
    plans = [world.ask(name, "gitstate", "plan", "--json") for name in ("A", "B")]
    world.claim(
        f"`gitstate plan --json` is the same on A and B, byte for byte ({len(plans[0]):,} bytes).",
        plans[0] == plans[1],
        f"{len(plans[0]):,} and {len(plans[1]):,} bytes",
    )
    summary = json.loads(plans[0])["summary"]
    world.claim("Everything is done there.", summary["done"] == summary["total"], summary)


def _edit_template(world: World, total: int) -> None:
    world.chapter("5. On A, the pages' template is edited", "What is stale now, and why?")
    world.run(
        "A", f"echo '{_FOOTER}' >> templates/page.md && git commit -q -a -m 'Say where texts come from'"
    )
    world.run("A", "gitstate", "plan")
    work = _plan(world, "A")["work"]
    stale = [entry for entry in work if entry["reason"] == "stale"]
    world.claim(
        f"The {total} pages are stale because the template moved; the digests are not.",
        len(stale) == total and all((w["stage"], w["components"]) == ("page", ["template"]) for w in stale),
        stale[:1],
    )
    world.run("A", "gitstate", "why", "austen", "--stage", "page")
    before = len(world.calls())
    world.run("A", "gitstate", "run", shown=3)
    pages = [content for path, content in _outputs(world, "A").items() if path.startswith("pages/")]
    world.claim(
        "Every page was made again, and no digest was paid for.",
        len(pages) == total
        and all(_FOOTER.encode() in page for page in pages)
        and len(world.calls()) == before,
        f"{len(world.calls()) - before} calls",
    )


def _edit_passage(world: World) -> None:
    world.chapter("6. On B, one passage is mended")
    before = len(world.calls())
    world.run("B", "gitstate", "sync")
    world.run(
        "B",
        "sed s/battle-field/battlefield/ passages/lincoln.txt > tmp && mv tmp passages/lincoln.txt"
        " && git commit -q -a -m 'One word'",
    )
    world.run("B", "gitstate", "plan")
    world.run("B", "gitstate", "run")
    paid = [call.slug for call in world.calls()[before:]]
    world.claim("One call was paid for: lincoln.", paid == ["lincoln"], paid)
    world.run("A", "gitstate", "sync")
    _agree(world)


def _verify(world: World) -> None:
    world.chapter("7. Every promise that can be checked on a clone, checked")
    for name in ("A", "B"):
        world.run(name, "gitstate", "verify")
    dirty = world.ask("A", "git", "status", "--porcelain") + world.ask("B", "git", "status", "--porcelain")
    world.claim("Both working trees are clean.", not dirty, dirty)


def _farewell(world: World) -> None:
    world.say()
    world.say(f"{world.claims} claims, all of them checked, in {show.duration(world.seconds())}.", "1")
    world.say("Look around, everything is left as it is:")
    world.say()
    for line in (
        f"cd {os.path.join(world.folder, 'A')}",
        "git log --stat          # what gitstate commits",
        "gitstate why melville   # everything about one passage",
        "git notes --ref=gitstate show HEAD:pages/melville.md   # a receipt, as it is kept",
        f"cat {world.ledger}",
    ):
        world.say(f"  $ {line}", "36")


def _plan(world: World, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.ask(name, "gitstate", "plan", "--json"))
    return found


def _outputs(world: World, name: str) -> dict[str, bytes]:
    """What stands at the outputs' paths; gitstate's temporary files begin with a dot and are none."""
    found = {}
    for place in ("digests", "pages"):
        top = os.path.join(world.folder, name, place)
        for file in sorted(os.listdir(top)) if os.path.isdir(top) else ():
            if not file.startswith("."):
                with open(os.path.join(top, file), "rb") as stream:
                    found[f"{place}/{file}"] = stream.read()
    return found
