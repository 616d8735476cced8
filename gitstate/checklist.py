"""The words of `status --resume`, and of what is to be typed next: facts in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Optional

from gitstate import show
from gitstate.core.outlook import Next

_WIDTH = 9  # of a label


def following(
    slug: str,
    stage: str,
    do: Next,
    *,
    attempts: Sequence[str] = (),
    needs: Sequence[str] = (),
    same_key: bool = True,
    looks: bool = False,
) -> dict[str, Any]:
    """What the next run does about a work, in words, and the commands to type.

    `attempts` are those that wait or whose outcome is unknown; `same_key`: whether a new act would have their key;
    `looks`: whether evidence is asked what is there before an act that repeats or changes what has happened.
    """
    name, whose = quote(slug), _several(attempts)
    run, only = f"gitstate run {name}", f"{name} --stage {quote(stage)}"
    accept, redo = f'gitstate accept {only} --why "…"', f"gitstate run --redo {only}"
    reset = f"gitstate reset --state paused {only}"
    say = [f"gitstate resolve {only} --happened EVIDENCE", f"gitstate resolve {only} --did-not-happen"]
    key = "the same key" if same_key else "another key, because what it is made from has changed"
    found: dict[Next, tuple[str, list[str]]] = {
        "nothing": ("", []),
        "underway": ("a run is at it now; let it end", []),
        "record": (f"the run records the answer of {whose}; it is not done again", [run]),
        "wait": (f"after {', '.join(needs)}", []),
        "restore": ("the run brings its file back from git where that still holds it", [run]),
        "left": ("a run leaves it alone: keep it, or make it anew", [accept, redo]),
        "ask": (f"the run asks evidence about {whose}: adopted if it exists, else done with {key}", [run]),
        "repeat": (f"the run does it again with {key}; its service takes that for the same act", [run]),
        "person": (f"only you can tell: look whether {whose} has happened, then say it", say),
        "unclear": (
            "evidence could not tell: have it asked again, or say it",
            [f"{run} --retry-failed", *say],
        ),
        "changed": ("it has happened, and its inputs changed: keep it, or repeat it", [accept, redo]),
        "failed": ("a run leaves it alone until an input changes; or try again", [f"{run} --retry-failed"]),
        "later": (
            "a run takes it up when its time has come; or at once",
            [run, reset],
        ),
        "begin": ("the run asks evidence what is there, then does it" if looks else "the run does it", [run]),
    }
    words, commands = found[do]
    return {"do": do, "say": words, "commands": commands}


def _several(attempts: Sequence[str]) -> str:
    if len(attempts) < 2:
        return f"attempt {attempts[0]}" if attempts else "it"
    return f"{len(attempts)} attempts, the last of them {attempts[-1]},"


def lines(facts: Mapping[str, Any], *, asked: bool) -> list[str]:
    """The checklist of one slug. `asked`: whether evidence was to be asked."""
    last, after = facts["last_recorded"], facts["next_stage"]
    was = f"{last['stage']} was recorded last, {last['at']}" if last else "nothing is recorded yet"
    found = [
        show.safe(f"{facts['slug']}: {was}; {f'{after} is next' if after else 'nothing is left to do'}.")
    ]
    found += [_line("lock", _lock(facts)), _line("lease", _lease(facts["lease"]))]
    for work in facts["work"]:
        found += ["", *work_lines(work, held=facts["held"], asked=asked)]
    return found


def _lease(held: Optional[Mapping[str, Any]]) -> str:
    if held is None:
        return "none: nobody has a claim on it, as the remote was last asked"
    who = "a run of this clone" if held["own"] else "another machine"
    until = (
        f"; ends in {show.duration(held['left'])} unless it is renewed" if held["left"] is not None else ""
    )
    return f"held by {held['holder'][:8]} ({who}), generation {held['generation']}{until}"


def _lock(facts: Mapping[str, Any]) -> str:
    if not facts["held"]:
        return "free: no run goes on in this clone"
    running = facts["running"]
    return "held: a run goes on here" + (f", {show.holder(running)}" if running else "")


def work_lines(work: Mapping[str, Any], *, held: bool, asked: bool) -> list[str]:
    """What is known of one work, a fact a line."""
    moved = f" ({', '.join(work['components'])} moved)" if work["components"] else ""
    reason = f", {work['reason']}{moved}" if work["reason"] else ""
    category = f", {work['category']}" if work["category"] else ""
    if work["open"] and work["category"] == "unknown":
        category = ", outcome unknown"
    label = f"{work['stage']:<{_WIDTH}}"
    found = [show.safe(f"{label}   {work['state']}{reason}{category}")]
    rows = [("recorded", _recorded(work))]
    if work["state"] != "done" and work["reason"] != "upstream":
        rows += [("previous", _previous(work)), *_effect(work), ("here", _here(work, held))]
        rows += [("pause", _pause(work)), ("new", _new(work))]
    if asked and work["open"]:
        rows.append(("asked now", _asked(work)))
    if work["next"]["do"] != "nothing":
        rows += [
            ("next", work["next"]["say"]),
            *(("", f"$ {command}") for command in work["next"]["commands"]),
        ]
    return [*found, *(_line(name, text) for name, text in rows if text)]


def open_lines(acts: Sequence[Mapping[str, Any]], following: Mapping[str, Any]) -> list[str]:
    """The acts of unknown outcome, and what is to be typed about a work."""
    rows = [
        f"  open       attempt {act['attempt']}, begun {act['at']}: whether it has happened is not known"
        for act in acts
    ]
    if following["do"] in ("nothing", "wait"):
        return rows
    rows.append(f"  next       {following['say']}")
    return [show.safe(row) for row in (*rows, *(f"             $ {one}" for one in following["commands"]))]


def _line(label: str, text: str) -> str:
    return show.safe(f"  {label:<{_WIDTH}} {text}")


def _recorded(work: Mapping[str, Any]) -> str:
    receipt = work["recorded"]
    if receipt is None:
        return "" if work["reason"] == "upstream" else "never"
    words = f"{receipt['at']}, attempt {receipt['attempt']}{_whose(receipt)}"
    if not receipt["today"]:
        words += ", before its inputs changed"
    missing = [one["path"] for one in work["outputs"] if not one["stands"]]
    if missing:
        return f"{words}; not in this working tree: {', '.join(missing)}"
    return f"{words}: {work['outputs'][0]['path']}"


def _whose(receipt: Mapping[str, Any]) -> str:
    if receipt["adopted"] == "evidence":
        return ", as evidence said"
    if receipt["by"]:
        return f", {'by the word of' if receipt['adopted'] else 'accepted by'} {receipt['by']}"
    return ""


_ENDS = {
    "recorded": "it is recorded",
    "failed": "it failed",
    "lost": "it ended without an answer",
    "withdrawn": "it was never begun",
    "absent": "it has not happened, says evidence",
    "resolved": "it was settled",
    "open": "whether it has happened, nobody has noted",
}


def _previous(work: Mapping[str, Any]) -> str:
    tried = work["previous"]
    if tried is None:
        return "none: this will be the first attempt"
    words = f" ({tried['words']})" if tried["words"] else ""
    if words and tried["end"] == "open":
        words = f"; its command failed{words}"
    return f"attempt {tried['attempt']}, {tried['at']}: {_ENDS[tried['end']]}{words}"


def _effect(work: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which effect should exist, whether it does, and what evidence said of it."""
    effect = work["effect"]
    if effect is None:
        return []
    command = effect["evidence"]
    command = " ".join(map(quote, command)) if isinstance(command, list) else command
    asked = f"evidence: {command}" if command else "no evidence can be asked"
    if effect["idempotent"]:
        asked += "; the same key twice is one act"
    happened = {"yes": "yes, as recorded", "no": "no: no act is on record that may have happened"}
    exists = happened.get(effect["happened"], "not known")
    if effect["happened"] == "unknown":
        exists += f": {show.number(len(work['open']), 'act')} without a known outcome"
        if not all(act["today"] for act in work["open"]):
            exists += ", of what it was made from before"
        if work["elsewhere_until"]:
            exists += f"; another clone may be at it until {work['elsewhere_until']}"
    heard = work["evidence"]
    rows = [("effect", f"{work['outputs'][0]['path']} is to say where it is; {asked}"), ("exists", exists)]
    if heard and (effect["happened"] != "yes" or heard["answer"] in ("exists", "happened")):
        said = f" ({show.first_words(heard['said'])})" if heard["said"] else ""
        rows.append(("said", f"{heard['answer']}, {heard['at']}, by {heard['by']}{said}"))
    return rows


_STEPS = {
    "acting": "its command was started, no answer is here",
    "spooled": "its answer has arrived, and is not recorded yet",
    "written": "its answer is being put in its place, and is not recorded yet",
}


def _here(work: Mapping[str, Any], held: bool) -> str:
    """What of it lies about in this clone."""
    parts = []
    for one in work["here"]:
        begun = "it was told of and never begun" if work["effect"] and not held else "no answer is here"
        partial = f"; unfinished: {', '.join(one['partial'])}" if one["partial"] else ""
        parts.append(f"attempt {one['attempt']}: {_STEPS.get(one['step'], begun)}{partial}")
    return "; ".join(parts) or "no attempt on record in this clone, nothing unfinished"


def _pause(work: Mapping[str, Any]) -> str:
    if work["pause"]:
        pause = work["pause"]
        return f"account {pause['account']}, quota/{pause['kind']} since {pause['at']}, next look {pause['probe']}"
    return f"until {work['until']}" if work["until"] and work["state"] == "paused" else ""


def _new(work: Mapping[str, Any]) -> str:
    if work["new"] is None or work["next"]["do"] in ("record", "underway", "left", "restore"):
        return ""
    key = work["new"]["key"]
    if work["new"]["same_key"] is None:
        return f"key {key}"
    if work["new"]["same_key"]:
        return f"a new attempt id; the key stays {key}"
    return f"a new attempt id, and a new key: {key}"


def _asked(work: Mapping[str, Any]) -> str:
    found = work["asked_now"]
    if found is None:
        return "there is no evidence command to ask, or what it needs is not done"
    return f"{found['answer']} ({show.first_words(found['said'])}); nothing of it is recorded"
