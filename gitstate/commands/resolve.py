"""`gitstate resolve`: a person's answer to what nobody else can tell, whether an act has happened (P11)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from shlex import quote

from gitstate import show
from gitstate.commands.acts import adopt, intent_of_act
from gitstate.commands.clone import utc_now
from gitstate.commands.lines import reset_line, stamp, who
from gitstate.commands.locked import locked
from gitstate.commands.recovery import recover as recover_attempts
from gitstate.commands.session import Session
from gitstate.commands.target import target
from gitstate.core.effect import may_be_under_way
from gitstate.core.identity import Manifest, work_id
from gitstate.core.problems import nearest, quoted
from gitstate.core.receipt import LogLine
from gitstate.core.schedule import asks_human
from gitstate.core.snapshot import Act, WorkKey
from gitstate.errors import ComeBackLater, NeedsHuman, UsageError


class Answer:
    """What a person says: that it happened, with the evidence, or that it did not."""

    def __init__(self, happened: str | None, did_not_happen: bool, why: str) -> None:
        """Raises UsageError unless it is one of the two."""
        if (happened is None) != did_not_happen:
            raise UsageError(
                "resolve wants to know which of the two it is.",
                "Say --happened EVIDENCE (where it can be seen: a URL, a commit, an id) or --did-not-happen.",
            )
        if happened is not None and not happened.strip():
            raise UsageError(
                "--happened wants the evidence: a URL, a commit or an id, which becomes the output."
            )
        self.evidence, self.why = happened, why
        self.word = "happened" if happened is not None else "did-not-happen"


def resolve(config: str, slug: str, stages: Sequence[str], answer: Answer, lock_timeout: str) -> int:
    """Record the answer, with who gave it and when; the next push brings it to the others. Returns 0."""
    with locked(config, lock_timeout) as clone:
        by = who(clone)
        aim = target(clone, "")
        with closing(Session(clone, aim.branch, aim.checked_out)) as session:
            recover_attempts(session)
            key = _asked(session, slug, stages)
            acts = session.acts[key]
            if answer.evidence is None:
                _refuse_while_under_way(session, key, acts)
            else:
                _adopt(session, key, acts, answer.evidence, {"by": by, "why": answer.why or None})
            lines = [_line(key, acts, answer, by)]
            if (verdict := session.verdicts.get((*key, session.statuses[key].hash or ""))) is not None:
                lines.append(reset_line(verdict, by, answer.why))
            session.note(_blob(session, acts[-1]), *lines)
    name = show.safe(f"{key[0]}/{key[1]}")
    if answer.evidence is not None:
        show.tell(f"{name} has happened, by your word: {show.safe(answer.evidence)}")
    else:
        show.tell(f"{name} has not happened, by your word. `gitstate run` does it.")
    return 0


def _asked(session: Session, slug: str, stages: Sequence[str]) -> WorkKey:
    """The one work that the answer is about. Raises UsageError where there is none, or more than one."""
    found = [key for key in session.acts if key[0] == slug and (not stages or key[1] in stages)]
    known = [key for key in found if key in session.statuses]
    if len(known) == 1:
        return known[0]
    if known:
        names = ", ".join(sorted(stage for _, stage in known))
        raise UsageError(
            f"Of {quoted(slug)} more than one outcome is unknown: {names}.", "Name one with --stage."
        )
    if found and any(name == slug for name, _ in session.statuses):
        stage = found[0][1]
        raise UsageError(
            f"What {quoted(slug)} did is of the stage {quoted(stage)}, which is not configured any more.",
            f"Name the stage {stage} again to settle it. Under another name it counts as another effect.",
        )
    if found:
        raise UsageError(
            f"{quoted(slug)} is not in the plan any more, so nothing waits for this answer.",
            "Put it back into the plan to settle what it did.",
        )
    mine = [status for status in session.statuses.values() if status.slug == slug]
    left = [status for status in mine if asks_human(session.stages[status.stage], status, unknown=False)]
    if left:
        name = f"{quote(slug)} --stage {left[0].stage}"
        raise UsageError(
            f"{quoted(slug)}: what it did is known; its inputs have changed since.",
            f'Keep it: gitstate accept {name} --why "…". Repeat it: gitstate run --redo {name}',
        )
    hint = nearest(slug, {key[0] for key in session.acts}) or "gitstate plan names the works that wait."
    raise UsageError(f"Of {quoted(slug)} no outcome is unknown.", hint)


def _refuse_while_under_way(session: Session, key: WorkKey, acts: Sequence[Act]) -> None:
    """What may still be under way in another clone has not failed to happen yet."""
    until = may_be_under_way(acts, session.stages[key[1]].timeout, utc_now())
    if until is not None:
        raise ComeBackLater(
            f"{key[0]}/{key[1]} may still be under way in another clone, until {show.clock_time(until)}.",
            "Say it after that, or once a run there has told how it ended.",
        )


def _adopt(
    session: Session, key: WorkKey, acts: Sequence[Act], evidence: str, facts: dict[str, str | None]
) -> None:
    status = session.statuses[key]
    name = work_id(*key, acts[-1].work)
    if status.hash is None:
        raise UsageError(
            f"What {name} needs is not done, so its answer cannot be recorded yet.",
            f"Do that first: gitstate run {key[0]}. Then say it again.",
        )
    word = evidence if evidence.endswith("\n") else evidence + "\n"
    said = {name: value for name, value in facts.items() if value is not None}
    settled = adopt(
        session, intent_of_act(session, status, acts[-1]), word.encode(), 0.0, {"adopted": "human", **said}
    )
    if settled.how == "in_the_way":
        raise NeedsHuman(
            f"{', '.join(settled.paths)} holds content that nobody vouches for, so the answer waits in the spool.",
            "Move that away; the next run records the answer.",
        )
    if settled.failed is not None:
        raise NeedsHuman(settled.failed.evidence, "Mend the template, and say it again.")


def _line(key: WorkKey, acts: Sequence[Act], answer: Answer, by: str) -> LogLine:
    extra = {
        "attempts": [act.attempt for act in acts],
        "answer": answer.word,
        "evidence": answer.evidence,
        "by": by,
        "why": answer.why or None,
    }
    return LogLine(acts[-1].work, "resolved", *key, acts[-1].attempt, stamp(), extra)


def _blob(session: Session, act: Act) -> str:
    """The object that the lines on an act hang on."""
    return session.clone.objects.oid("blob", Manifest(act.components, act.scheme).encoded)
