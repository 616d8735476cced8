"""Judging a response: how its command ended, what it holds, and the checks of its stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

from gitstate.commands.naming import Ending, failure
from gitstate.core import check, verdict
from gitstate.core.ownrules import OwnRule
from gitstate.core.pause import when
from gitstate.core.plan import Checks, Stage
from gitstate.core.verdict import Failed
from gitstate.edge.attempts import Intent, Spooled
from gitstate.edge.jobs import Jobs, schema_of
from gitstate.edge.process import Flag, Job, execute
from gitstate.edge.render import RenderError
from gitstate.errors import UsageError


class Judged(NamedTuple):
    """A response, judged: either the outputs' bytes with the checks passed, or what was wrong."""

    intent: Intent
    seconds: float
    facts: dict[str, Any]  # what goes into the receipt or the log: usd, tokens, model
    outputs: tuple[bytes, ...] = ()
    checks: tuple[str, ...] = ()
    failed: Optional[Failed] = None
    at: str = ""  # when it arrived


def _ending(spooled: Spooled) -> Ending:
    """How the command ended that a spooled response is of."""
    facts = spooled.facts
    filed = facts["filed"]
    printed = any(spooled.outputs[:1]) and not filed
    return Ending(
        ended_by=facts["ended_by"],
        code=facts["code"],
        signal=facts["signal"],
        stdout=spooled.outputs[0].decode("utf-8", "replace") if printed else facts["stdout"],
        stderr=facts["stderr"],
        missing=tuple(facts["missing"]),
        filed=filed,
    )


class CancelledError(Exception):
    """An end was asked for in the middle of a check; the response stays in the spool, not judged."""


class Judge:
    """Holds responses against the checks of their stages. Changes nothing but scratch files; for many threads."""

    def __init__(self, jobs: Jobs, root: str, scratch: str) -> None:
        self.jobs, self._root, self._scratch = jobs, root, scratch

    def judge(
        self,
        intent: Intent,
        spooled: Spooled,
        stage: Optional[Stage],
        text: Callable[[str], Optional[bytes]],
        rules: Sequence[OwnRule] = (),
        cancel: Optional[Flag] = None,
    ) -> Judged:
        """Judge one response. `stage` is None for one that is no longer configured; `text` reads a committed file;
        `rules` are the repository's own rules of failure.

        Raises CancelledError, and where the check itself cannot be made UsageError (its command) or ConfigError
        (its schema): that is no fault of the response, which has been paid for and stays in the spool.
        """
        facts = spooled.facts
        judged = Judged(intent, spooled.seconds, dict(facts["usage"]), at=spooled.at)
        if facts.get("adopted"):
            # The word of evidence, or of a person, on what has happened: nothing that a check could turn away.
            judged.facts.update(facts["adopted"])
            return self._shaped(judged, spooled.outputs)
        ending, at = _ending(spooled), when(spooled.at)
        failed = failure(ending, rules, at)
        if (
            failed is None and ending.filed
        ):  # then what it printed was talk, and the answer itself is still to be seen
            content = spooled.outputs[0].decode("utf-8", "replace")
            failed = failure(Ending("exit", 0, None, content, ""), rules, at)
        for data in spooled.outputs:  # before the template, which would hide that nothing came
            _, found = check.check(data, Checks())
            failed = failed or (verdict.of_check(*found) if found else None)
        if failed is not None:
            return judged._replace(failed=failed)
        judged = self._shaped(judged, spooled.outputs)
        if judged.failed is not None or stage is None:
            return judged
        passed, failed = self._check(intent, stage, judged.outputs, text, cancel)
        return judged._replace(checks=tuple(passed), failed=failed)

    def _shaped(self, judged: Judged, response: Sequence[bytes]) -> Judged:
        """A response in the shape of its outputs."""
        try:
            return judged._replace(outputs=tuple(self.jobs.outputs(judged.intent, response)))
        except UnicodeDecodeError as error:
            words = f"The answer is not UTF-8, which its template needs: {error}"
            return judged._replace(failed=verdict.of_check("encoding", words))
        except RenderError as error:
            return judged._replace(failed=verdict.of_rendering(str(error)))

    def _check(
        self,
        intent: Intent,
        stage: Stage,
        outputs: Sequence[bytes],
        text: Callable[[str], Optional[bytes]],
        cancel: Optional[Flag],
    ) -> tuple[list[str], Optional[Failed]]:
        path = stage.check.json_schema
        schema = schema_of(text, path) if path else None
        passed, found = check.check(outputs[0], stage.check, schema)
        if found is not None:
            return passed, verdict.of_check(*found)
        if stage.check.command is None:
            return passed, None
        failed = self._by_command(intent, stage, outputs[0], cancel)
        return (passed, failed) if failed else ([*passed, "command"], None)

    def _by_command(
        self, intent: Intent, stage: Stage, output: bytes, cancel: Optional[Flag]
    ) -> Optional[Failed]:
        """What the stage's own command says of the output, in a temporary file with the output's name."""
        assert stage.check.command is not None
        what = f"{stage.place}: check.command"
        folder = os.path.join(self._scratch, f"check-{intent.attempt}")
        file = os.path.join(folder, os.path.basename(intent.outputs[0]))
        os.makedirs(folder, exist_ok=True)
        try:
            with open(file, "wb") as handle:
                handle.write(output)
            command = self.jobs.command(stage.check.command, intent.material, what, output=file)
            env = {"GITSTATE_SLUG": intent.slug, "GITSTATE_STAGE": intent.stage}
            job = Job(
                command,
                env=env,
                cwd=self._root,
                outputs=0,
                timeout=stage.timeout,
                scratch_parent=self._scratch,
            )
            result = execute(job, cancel)
        finally:
            if os.path.exists(file):
                os.unlink(file)
            os.rmdir(folder)
        if result.ended_by == "cancelled":
            raise CancelledError
        said = (result.stderr or result.stdout).strip()[-2000:] or f"exit code {result.code}"
        # POSIX: 126 is not executable, 127 not found. A signal (out of memory, say) is no judgement either.
        if (
            result.ended_by in ("not_started", "too_long")
            or result.code in (126, 127)
            or result.signal is not None
        ):
            raise UsageError(
                f"{what} cannot be run: {said}",
                "The answers that it should have judged are kept. Mend it, and run again: nothing is paid twice.",
            )
        if result.ended_by == "exit" and result.code == 0:
            return None
        return verdict.of_check("command", f"The check command did not pass: {said}")
