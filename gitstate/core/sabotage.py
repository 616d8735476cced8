"""The user's configuration as `gitstate drill` runs it: the same stages, with the saboteur around what they run.

Pure: plain data in, plain data out. It goes into throw-away clones only.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from gitstate.core.glob import constant_folder, escape
from gitstate.core.plan import Item, PlanSource

# What would act, wait or stop beside the failure that is tried.
_TOP_OFF = ("notify", "probe", "budget", "rules", "coordinate", "lease", "account")
_STAGE_OFF = ("policy", "ttl", "silence", "account")
_RECORDED_OFF = ("template", "check")  # what is replayed has passed them
_POLICY = {"unknown": {"base": 0.1}, "timeout": {"base": 0.1}}  # nobody waits for a service that is none


class Wrapping(NamedTuple):
    """How commands are wrapped."""

    saboteur: tuple[str, ...]  # the command that runs it
    reply: str  # the file in the scratch folder where a real command's standard output waits
    real: bool  # whether the user's own commands run


def rewritten(
    data: Mapping[str, Any],
    wrapping: Wrapping,
    plan: object,
    timeouts: Mapping[str, float],
    cell: str,
) -> dict[str, Any]:
    """The configuration `data` for one cell.

    `plan` is where its items come from, `timeouts` the seconds that some stages get. With real commands `cell` goes
    into every identity, so that their keys are new to the world.
    """
    found = {name: value for name, value in data.items() if name not in _TOP_OFF}
    found.update(plan=plan, policy=_POLICY)
    if wrapping.real:
        found["vars"] = {**data.get("vars", {}), "gitstate_drill": cell}
    found["stages"] = {
        name: _stage(stage, wrapping, timeouts.get(name)) for name, stage in data["stages"].items()
    }
    return found


def _stage(stage: Mapping[str, Any], wrapping: Wrapping, timeout: Optional[float]) -> dict[str, Any]:
    off = _STAGE_OFF if wrapping.real else (*_STAGE_OFF, *_RECORDED_OFF)
    found = {name: value for name, value in stage.items() if name not in off}
    if timeout is not None:
        found["timeout"] = timeout
    saboteur = list(wrapping.saboteur)
    if wrapping.real:
        found["run"] = _around(stage["run"], wrapping)
        return found
    found["run"] = [*saboteur, "act"]
    if "evidence" in stage:
        found["evidence"] = [*saboteur, "evidence"]
    if stage.get("effect"):
        found["settle"] = 0  # the pretended world shows an act at once
    return found


def _around(run: Any, wrapping: Wrapping) -> Any:
    """A real command between the saboteur's two halves. One for the shell stays as written, in a shell of its own: it
    may `exit`, and its values stay quoted for where they stand."""
    if not isinstance(run, str):
        return [*wrapping.saboteur, "around", *run]
    words = shlex.join(wrapping.saboteur)
    return f'{words} before || exit $?\n(\n{run}\n) >"$GITSTATE_SCRATCH/{wrapping.reply}"\n{words} after $?'


def narrowed(source: PlanSource, item: Item, beside: str) -> tuple[object, Optional[bytes]]:
    """A plan of this item alone: what the configuration says of it, and what the file `beside` then holds, where it
    needs one."""
    if item.file is None:
        fields = json.dumps(dict(item.fields), ensure_ascii=True)
        return beside, fields.encode() + b"\n"
    # The slug depends on the glob's constant folder, so that has to stay.
    folder = constant_folder(source.path)
    rest = item.file[len(folder) :]
    at = next((n for n, char in enumerate(rest) if char not in "!^]["), 0)
    return {"each": f"{escape(folder)}{escape(rest[:at])}[{rest[at]}]{escape(rest[at + 1 :])}"}, None


def encoded(data: object) -> bytes:
    """The configuration as JSON that is YAML, too: in ASCII, with one escape for each other character."""
    text = json.dumps(data, ensure_ascii=False, indent=1)
    return re.sub(r"[^\n -~]", lambda found: f"\\U{ord(found[0]):08x}", text).encode() + b"\n"


def timeout_of(seconds: float) -> float:
    """Seconds of time that a stage gets whose command took `seconds` undisturbed: enough for that on a busy machine."""
    return round(max(3.0, 4 * seconds + 1), 1)
