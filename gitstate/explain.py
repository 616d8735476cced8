"""One thing explained, as text: a work with all that is known of it, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gitstate.show import DUPLICATE, duration, money, number, paint, safe, table

if TYPE_CHECKING:
    from gitstate.core.signal import Verdict

_OF_ACTS = {  # kinds of log lines that are of acts, and what they say of them
    "intent": "to begin:",
    "withdrawn": "never begun:",
    "evidence": "asked about",
    "resolved": "settled:",
}


def why_lines(work: Mapping[str, Any]) -> list[str]:
    """One work, explained."""
    name = work["id"] or f"{work['slug']}/{work['stage']}"
    reason = f", {work['reason']}" if work["reason"] else ""
    category = f" ({work['category']})" if work["category"] else ""
    lines = [f"{safe(name)}  {work['state']}{reason}{category}"]
    for output in work["outputs"]:
        content = f"blob {output['blob'][:12]}" if output["blob"] else "not committed"
        lines.append(f"  output     {safe(output['path'])}  {content}")
    if work["components"]:
        rows = [["component", "then", "now", ""]]
        for part in work["components"]:
            moved = "moved" if part["moved"] and work["compared_with"] else ""
            rows.append([part["name"], (part["then"] or "-")[:12], (part["now"] or "-")[:12], moved])
        lines += [f"  {line}" for line in table(rows)]
        if work["compared_with"] is None:
            lines.append("  No receipt yet to compare with.")
    elif work["reason"] == "upstream":
        lines.append("  What it needs is not done yet, so its identity is not known.")
    for receipt in work["receipts"]:
        facts = [
            f"{receipt['kind']:<9}",
            receipt["at"],
            f"@{receipt['work'][:12]}",
            f"blob {receipt['outputs'][0][1][:12]}",
        ]
        facts += [f"{receipt[key]}" for key in ("model", "by", "why") if receipt.get(key)]
        if isinstance(receipt.get("seconds"), (int, float)):
            facts.append(duration(receipt["seconds"]))
        if isinstance(receipt.get("usd"), (int, float)):
            facts.append(money(receipt["usd"]))
        lines.append("  receipt    " + safe("  ".join(facts)))
    lines += [f"  log        {_entry(entry)}" for entry in work["log"]]
    spend = work["spend"]
    if any(spend[kind] for kind in ("accepted", "rejected", "duplicate", "unknown")):
        parts = [f"{number(spend['accepted'], 'attempt')} accepted", f"{spend['rejected']} failed"]
        if spend["duplicate"]:
            parts.append(f"{spend['duplicate']} {DUPLICATE}")
        if spend["unknown"]:
            parts.append(f"{spend['unknown']} with an unknown outcome")
        lines.append(f"  spend      {duration(spend['seconds'])}, {money(spend['usd'])}: {', '.join(parts)}")
    return lines


def _entry(entry: Mapping[str, Any]) -> str:
    """One line of the log."""
    facts = [f"{entry['kind']:<9}", entry["at"], f"@{entry['work'][:12]}"]
    if entry["kind"] in _OF_ACTS:
        attempts = entry.get("attempts", [entry["attempt"]])
        facts.append(f"{_OF_ACTS[entry['kind']]} {', '.join(map(str, attempts))}")
    words = ("category", "failure", "rule", "state", "until", "answer", "said", "evidence", "by", "why")
    facts += [str(entry[key]) for key in words if entry.get(key)]
    return safe("  ".join(facts))


_MEANINGS = {
    "throttle": "too much at once; it passes within seconds or minutes",
    "window": "a limit that is counted over hours or longer is used up",
    "billing": "money or credit is missing; a person must act, waiting does not help",
    "capacity": "the provider's servers are full",
    "wall": "its time was up",
    "silence": "nothing came for too long",
    "truncated": "the answer was cut off at a ceiling",
    "refused": "a filter or the model refused it",
    "too_large": "it is larger than what is allowed",
    "empty": "there was no answer",
    "error_shaped": "an error text stands where the answer should be",
    "auth": "the credentials do not do",
    "not_found": "something that was asked for is not there",
    "crash": "the tool itself fell over",
    "planning_error": "the request or command line, as planned, is malformed",
    "unknown": "it failed, and nothing says why",
}
_WHAT_NEXT = {
    "paused": "pause{}, and count no attempt",
    "retry": "back off, and try one again",
    "failed": "not try again by itself",
}


def verdict_lines(verdict: Verdict) -> list[str]:
    """What a verdict says, for people: what it is, what gitstate would do and until when, and by which rule."""
    if verdict.category is None or verdict.state is None:
        return [paint("ok", "32") + ": the call ended well."]
    name = verdict.category + (f"/{verdict.kind}" if verdict.kind else "")
    lines = [paint(name, "31") + f": {_MEANINGS[verdict.kind or verdict.category]}."]
    wait = ""
    if verdict.until is not None:
        wait = f" until {verdict.until.astimezone():%Y-%m-%d %H:%M:%S %Z}"
    if verdict.wait_seconds is not None:
        wait += f" ({duration(verdict.wait_seconds)})" if wait else f" for {duration(verdict.wait_seconds)}"
    if verdict.state == "paused" and not wait:
        wait = " until a person has acted" if verdict.kind == "billing" else " for a time that nobody stated"
    lines.append(f"  gitstate would {_WHAT_NEXT[verdict.state].format(wait)}.")
    said = " ".join(verdict.evidence.get("said", "").split())
    lines.append(f"  Rule {verdict.rule}" + (f": {safe(said[:200])}" if said else "."))
    return lines
