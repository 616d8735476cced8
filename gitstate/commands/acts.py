"""The acts of a run's effects (P11): told before they begin, asked about where nobody knows how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional

from gitstate import show
from gitstate.commands.attempting import intent_of, judge, previous
from gitstate.commands.clone import utc_now
from gitstate.commands.judging import Judged
from gitstate.commands.lines import act_line, manifest_blob, new_attempt, stamp
from gitstate.commands.naming import Ending, failure, secrets
from gitstate.commands.session import Session
from gitstate.commands.settling import Settled, settle
from gitstate.core import effect, pause
from gitstate.core.derive import PROTECTED, Status
from gitstate.core.effect import Answer, Step
from gitstate.core.plan import Effect
from gitstate.core.redact import redact
from gitstate.core.snapshot import Act, WorkKey
from gitstate.core.verdict import of_rendering
from gitstate.edge.attempts import Intent, Spooled
from gitstate.edge.clock import Clock
from gitstate.edge.jobs import KEY, idempotency_key
from gitstate.edge.process import Flag, Job, Result, execute
from gitstate.edge.render import RenderError

if TYPE_CHECKING:
    from gitstate.commands.syncing import Syncing

_WORDS = 4096  # bytes of what evidence printed that are looked at for what is said of it

Announced = tuple[Intent, Job]
Question = tuple[Intent, Job, tuple[Act, ...]]  # the acts that it is about; none: it is asked before one


class Asked(NamedTuple):
    """What an evidence command answered about the open acts of one work."""

    intent: Intent  # the act's, so far as it can be told from here
    acts: tuple[Act, ...]
    answer: Answer
    printed: bytes
    said: str  # in one line, for people and the log
    seconds: float
    began: float  # by the clock that never jumps


class Heeded(NamedTuple):
    """What followed from an answer. adopted, unclear: see `settled`. absent: it has not happened. later: to be asked
    again, `after` so many seconds. elsewhere: another clone may be at it, `until` when. looked: the act may begin."""

    what: Literal["adopted", "absent", "unclear", "later", "elsewhere", "looked"]
    settled: Optional[Settled] = None
    after: float = 0.0
    until: str = ""


def weighed(judged: Judged, found: Optional[Effect]) -> Judged:
    """A failed answer of an act as what it is: known not to have happened, to be asked about, or a person's matter."""
    failed = judged.failed
    if failed is None or found is None:
        return judged
    if effect.has_not_happened(found, failed):
        return judged._replace(facts={**judged.facts, "happened": "no"})
    if found.evidence is None and not found.idempotent:
        return judged._replace(failed=effect.unknown_outcome(failed))
    return judged


class Acts:
    """The acts of one run."""

    def __init__(self, session: Session, syncing: Syncing, clock: Clock) -> None:
        self.session, self.syncing, self.clock = session, syncing, clock
        self._found = clock.elapsed()  # acts of before were under way until then, for all that is known
        self._ended: dict[str, float] = {}  # those of this run: when their command ended
        self._before: dict[WorkKey, str] = {}  # what evidence said before acts that are repetitions
        self.untold = 0  # works whose act could not be told to the remote, so that it was not begun

    def step(self, status: Status, redo: bool) -> Step:
        """What may be done about an effect that is not done."""
        found = self.session.effect(status.stage)
        if found is None or status.hash is None:
            return "act"
        happened = bool(self.session.view.snapshot.receipts.of(status.slug, status.stage))
        return effect.step(found, status.hash, happened, self._of(status), redo=redo)

    def _of(self, status: Status) -> tuple[Act, ...]:
        return self.session.acts.get((status.slug, status.stage), ())

    # --- before an act ---------------------------------------------------------------------------------------------

    def announce(self, group: Sequence[Announced]) -> list[bool]:
        """Tell of acts before they begin: durably here, and to the remote. Returns of each whether it may begin.

        The others are withdrawn: the remote could not be told, or it told of somebody else's act first.
        """
        session = self.session
        lines = []
        for intent, job in group:
            session.attempts.begin(intent)
            before = self._before.pop((intent.slug, intent.stage), None)
            extra = effect.intent_extra(job.env[KEY], intent.components, intent.scheme, before)
            lines.append((manifest_blob(session.clone.objects, intent), act_line(intent, "intent", extra)))
        session.record({}, (), lines, [])
        for _, line in lines:
            key = (line.slug, line.stage)
            session.acts[key] = (*session.acts.get(key, ()), effect.act_of(line))
        told = self.syncing.tell()
        if not told:
            self.untold += len(group)
        free = [told and self._is_free(intent, job) for intent, job in group]
        session.withdraw([intent for (intent, _), may in zip(group, free) if not may])
        return free

    def _is_free(self, intent: Intent, job: Job) -> bool:
        """Whether an act may still begin, after all that came while the remote was told of it."""
        session = self.session
        status = session.statuses.get((intent.slug, intent.stage))
        found = session.effect(intent.stage)
        if found is None or status is None or status.hash != intent.work:
            return False
        if not session.holds(intent.slug):
            return False
        standing = tuple(session.tree.get(path) for path in intent.outputs)
        if status.state == "done" and standing != intent.committed:
            return False
        completed = session.view.snapshot.receipts.completed(intent.slug, intent.stage, intent.work)
        if job.env[KEY] != idempotency_key(intent.slug, intent.stage, intent.work, completed):
            return False  # it was done meanwhile, also where it is to be done again
        others = [act for act in self._of(status) if act.attempt != intent.attempt]
        return effect.step(found, intent.work, False, others) == "act"

    def ended(self, intent: Intent) -> None:
        """An attempt of this run has ended, be it an act or not."""
        self._ended[intent.attempt] = self.clock.elapsed()

    def must_ask(self, key: WorkKey) -> bool:
        """Whether an act of a work is open, and evidence can be asked."""
        found = self.session.effect(key[1])
        return found is not None and found.evidence is not None and bool(self.session.acts.get(key))

    def held_open(self, judged: Judged) -> Judged:
        """A failed answer; of an act that evidence is to be asked about, without any word on its work yet."""
        key, failed = (judged.intent.slug, judged.intent.stage), judged.failed
        if failed is None or "happened" in judged.facts or not self.must_ask(key):
            return judged
        return judged._replace(failed=failed._replace(state="pending", until=None))

    # --- asking ----------------------------------------------------------------------------------------------------

    def question(self, status: Status) -> Question | Settled:
        """What to ask about the open acts of a work, or before one; or why that cannot be asked."""
        session, acts = self.session, self._of(status)
        intent, key = intent_of(session, status, new_attempt())[0], ""
        if acts:
            intent, key = intent_of_act(session, status, acts[-1]), acts[-1].key
        try:
            stage, before = session.stages[status.stage], previous(session, status)
            return intent, session.jobs.question(intent, stage, key, before), acts
        except RenderError as error:
            return settle(session, [Judged(intent, 0.0, {}, failed=of_rendering(str(error)))])[0]

    def must_look(self, status: Status) -> bool:
        """Whether evidence is to be asked before an act, since it may find what an earlier one did: if the outcome of
        this one is lost, only what changed will tell."""
        found, key = self.session.effect(status.stage), (status.slug, status.stage)
        asking = found is not None and found.evidence is not None
        return asking and key not in self._before and previous(self.session, status) is not None

    def ask(self, intent: Intent, job: Job, acts: tuple[Act, ...], cancel: Flag) -> Optional[Asked]:
        """Ask the evidence command, in any thread. None if that was cancelled."""
        began = self.clock.elapsed()
        result = execute(job, cancel)
        if result.ended_by == "cancelled":
            return None
        answer, printed, said = answer_in(result)
        return Asked(intent, acts, answer, printed, said, result.seconds, began)

    def heed(self, asked: Asked) -> Heeded:
        """Do what an answer calls for, as far as the record goes."""
        if not asked.acts:
            key = (asked.intent.slug, asked.intent.stage)
            self._before[key] = effect.was_there(asked.answer, asked.printed)
            return Heeded("looked")
        answer, said = of_act(asked.acts[-1], asked.answer, asked.printed, asked.said)
        asked = asked._replace(answer=answer, said=said)
        if asked.answer == "exists":
            return Heeded("adopted", self._adopt(asked))
        found = self.session.effect(asked.intent.stage)
        if asked.answer == "unclear" or found is None:
            return Heeded("unclear", self._give_up(asked))
        timeout = self.session.stages[asked.intent.stage].timeout
        until = effect.may_be_under_way(asked.acts, timeout, self.clock.now())
        if until is not None:
            return Heeded("elsewhere", until=pause.stamp(until))
        # What was asked for may still be on its way: absence counts only once that would have arrived.
        alive = max(self._ended.get(act.attempt, self._found) for act in asked.acts)
        if asked.began < alive + found.settle:
            return Heeded("later", after=max(0.0, alive + found.settle - self.clock.elapsed()))
        self._note(asked)
        return Heeded("absent")

    def _note(self, asked: Asked) -> None:
        attempts = [act.attempt for act in asked.acts]
        extra = {"attempts": attempts, "answer": asked.answer, "said": asked.said}
        blob = manifest_blob(self.session.clone.objects, asked.intent)
        self.session.note(blob, act_line(asked.intent, "evidence", extra))

    def _adopt(self, asked: Asked) -> Settled:
        settled = adopt(self.session, asked.intent, asked.printed, asked.seconds, {"adopted": "evidence"})
        if len(asked.acts) > 1:  # the receipt closes its own only; and it comes first
            self._note(asked)
        return settled

    def _give_up(self, asked: Asked) -> Settled:
        """Evidence cannot tell: a verdict against the work as it is today, until a person has said."""
        session = self.session
        status = session.statuses[asked.intent.slug, asked.intent.stage]
        intent, _ = intent_of(session, status, new_attempt())
        failed = effect.unclear(asked.said)
        return settle(session, [Judged(intent, round(asked.seconds, 3), {}, failed=failed, at=stamp())])[0]


def answer_in(result: Result) -> tuple[Answer, bytes, str]:
    """What an evidence command answered: the answer, what it printed, and that in one line."""
    printed = result.outputs[0] if result.outputs else b""
    complaint = failure(Ending(result.ended_by, result.code, result.signal, "", result.stderr), (), utc_now())
    answer = effect.answer_of(result.ended_by, result.code, printed, complaint)
    words = printed.strip()[:_WORDS].decode("utf-8", "replace") if printed else result.stderr or result.stdout
    said = show.first_words(redact(words, secrets()))
    return answer, printed, said or _how(result.ended_by, result.code, result.signal)


def of_act(act: Act, answer: Answer, printed: bytes, said: str) -> tuple[Answer, str]:
    """What an answer tells of one act. What was found before it, too, may be of an earlier one: that is unclear."""
    if answer == "exists" and not effect.tells_of(act, printed):
        return "unclear", f"it finds what it found before this act: {said}"
    return answer, said


def intent_of_act(session: Session, status: Status, act: Act) -> Intent:
    """What an act set out to do, so far as can be told from here: with its own identity, and today's paths."""
    intent, standing = intent_of(session, status, act.attempt)
    # What nobody vouches for is not replaced by what is said of an act, either.
    by_hand = status.reason in PROTECTED
    theirs = [by_hand or path in {*standing.foreign, *standing.blocked} for path in intent.outputs]
    intent = intent._replace(
        committed=tuple(None if foreign else blob for foreign, blob in zip(theirs, intent.committed)),
        before=tuple(None if foreign else blob for foreign, blob in zip(theirs, intent.before)),
    )
    return as_act(intent, act)


def as_act(intent: Intent, act: Act) -> Intent:
    """An intent with the identity that an act had, where its line tells it whole."""
    if act.scheme and act.components:
        return intent._replace(work=act.work, components=act.components, scheme=act.scheme)
    return intent


def adopt(session: Session, intent: Intent, word: bytes, seconds: float, facts: dict[str, Any]) -> Settled:
    """Record that an act has happened, by the word of evidence or of a person, which becomes its output.

    `facts` go into the receipt. Raises what `Session.settle` does; the word is in the spool then.
    """
    # Before its intent: an intent alone would say that the act never began, and one without the other is swept.
    session.attempts.act(intent.attempt)
    session.attempts.begin(intent)
    ended = {"ended_by": "exit", "code": 0, "signal": None, "missing": [], "usage": {}, "filed": False}
    said = {"stdout": "", "stderr": "", "adopted": facts}
    spooled = Spooled((word,), round(seconds, 3), {**ended, **said}, stamp())
    session.attempts.spool(intent.attempt, spooled)
    judged = judge(session, intent, spooled)
    if judged.failed is not None:  # (asked again, it would say the same)
        judged = judged._replace(failed=effect.unfit(judged.failed))
    return settle(session, [judged])[0]


def _how(ended_by: str, code: Optional[int], signal: Optional[int]) -> str:
    """How an evidence command ended that printed nothing."""
    if ended_by != "exit":
        return {"wall": "it ran into its timeout"}.get(ended_by, ended_by.replace("_", " "))
    return f"it was ended by signal {signal}" if signal is not None else f"exit code {code}, and no words"
