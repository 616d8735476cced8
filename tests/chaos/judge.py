"""What must hold after a round, whatever befell it, seen from outside: by the ledger, and the remote's own records."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitstate.core import lease
from tests.chaos.arena import OUTPUT, Arena, Call
from tests.chaos.schedule import Member
from tests.chaos.storm import PATIENCE, Storm

MAIN, NOTES, LOG = "refs/heads/main", "refs/notes/gitstate", "refs/notes/gitstate-log"
_LEASES = re.compile(r"refs/(?:heads/)?gitstate/lease/[0-9a-f]+/([0-9a-f]{2})")
_CODES = {0, 75}  # of a run that nobody killed
_SLACK = 0.02  # seconds to which /proc/uptime is exact, twice


class Change(NamedTuple):
    """How a transaction of the remote's moves one ref; "" stands for none."""

    old: str
    new: str


class Transaction(NamedTuple):
    """What the remote did at once."""

    kind: str  # prepared, committed
    at: float  # seconds since boot
    run: str  # whose push it was
    refs: dict[str, Change]

    def leases(self) -> dict[str, Change]:
        """The leases that it changes, by bucket."""
        found = ((_LEASES.fullmatch(ref), change) for ref, change in self.refs.items())
        return {match[1]: change for match, change in found if match}


class Findings(NamedTuple):
    """What was wrong, and what is worth counting."""

    bad: list[str]
    calls: int
    works: int
    duplicates: int
    taken_over: int


class Judge:
    """One round's."""

    def __init__(self, arena: Arena, storm: Storm) -> None:
        self.arena, self.storm, self.round = arena, storm, arena.round
        self.calls = arena.calls()
        stages = ("draft", "article")[2 - self.round.stages :]
        slugs = [slug for slug, _ in self.round.items] + storm.added
        self.works = [(slug, stage) for slug in slugs for stage in stages]
        self.paths = {OUTPUT[stage].format(slug=slug): (slug, stage) for slug, stage in self.works}
        self.transactions = list(_transactions(arena))
        self._leases: dict[str, lease.Lease] = {}
        self._lines: dict[str, list[str]] = {}  # of notes, by their blobs
        # What is found besides: the runs that lost a bucket to another run, which somebody may have to pay for.
        self.losers: set[tuple[str, str]] = set()  # run, bucket
        self.taken_over = 0

    def findings(self) -> Findings:
        """All checks."""
        bad = list(self.storm.troubles)
        for check in (self._ended, self._histories, self._held, self._published, self._agreed, self._bought):
            bad += check()
        return Findings(bad, len(self.calls), len(self.works), self._duplicates(), self.taken_over)

    # --- runs ------------------------------------------------------------------------------------------------------

    def _ended(self) -> Iterator[str]:
        """Every run ends as it may."""
        allowed = _CODES | ({3} if self.storm.events["locks of a killed server"] else set())
        for run in self.storm.runs:
            said = self.arena.said(run.name).read_text(errors="replace")
            if "Traceback" in said or (not run.killed and run.code not in allowed):
                yield f"run {run.name} ends with {run.code}: {said[-600:]!r}"

    # --- the remote's history --------------------------------------------------------------------------------------

    def _histories(self) -> Iterator[str]:
        """Each output came to the branch once, whole, with its receipt, and stayed as it was."""
        came: dict[str, str] = {}
        for status, path, blob in self._branch():
            if path not in self.paths:
                continue
            if path in came:
                yield f"{path} was {came[path][:12]} on the remote, then {status} {blob[:12]}"
            came[path] = blob
        for path in self.paths.keys() - came.keys():
            yield f"{path} never came to the remote"
        bought = {f"{' '.join(call)}\n" for call in self.calls}
        receipts = self._receipts(NOTES)
        for path, blob in came.items():
            content = self.arena.git("remote.git", "cat-file", "blob", blob) + "\n"
            if content not in bought:
                yield f"{path} holds {content!r}, which was never answered"
            if (blob, *self.paths[path]) not in receipts:
                yield f"{path} has no receipt on the remote"
        for name in self.storm.files:
            if not self.arena.git("remote.git", "ls-tree", "main", name):
                yield f"the user's {name} is not on the remote"
        if left := self.arena.git("remote.git", "for-each-ref", "--format=%(refname)", "refs").split():
            for ref in set(left) - {MAIN, NOTES, LOG}:
                if _LEASES.fullmatch(ref) and self._lease(ref).holder == lease.NOBODY:
                    continue  # given back, as far as refs could be deleted just then
                yield f"{ref} was left on the remote"

    def _branch(self) -> Iterator[tuple[str, str, str]]:
        """All changes of files that the branch ever saw, in order: A, M or D; path; blob."""
        options = ("--reverse", "-m", "--raw", "--no-renames", "--no-abbrev", "--format=")
        for line in self.arena.git("remote.git", "log", *options, "main").splitlines():
            if line:
                modes, _, path = line.partition("\t")
                *_, blob, status = modes.split()
                yield status, path, blob

    def _receipts(self, notes: str) -> set[tuple[str, str, str]]:
        """Blob, slug and stage of each receipt that a commit of notes holds."""
        found = set()
        for blob, line in self._notes(notes):
            fields = json.loads(line)
            found.add((blob, fields["slug"], fields["stage"]))
        return found

    def _notes(self, notes: str) -> Iterator[tuple[str, str]]:
        """Blob and line of each line that a commit of notes holds."""
        for entry in self.arena.git("remote.git", "ls-tree", "-r", notes, check=False).splitlines():
            kind, path = entry.split("\t")
            note = kind.split()[2]
            if note not in self._lines:
                self._lines[note] = self.arena.git("remote.git", "cat-file", "blob", note).splitlines()
            yield from ((path.replace("/", ""), line) for line in self._lines[note])

    # --- leases ----------------------------------------------------------------------------------------------------

    def _held(self) -> Iterator[str]:
        """Nobody takes a lease over before its time is over, by the clock of whoever does it."""
        # A lease's object -> when it was written at the earliest, and by which run.
        made: dict[str, tuple[float, str]] = {}
        for one in self.transactions:
            for change in one.leases().values():
                if one.kind == "prepared" and change.new:
                    made.setdefault(change.new, (one.at, one.run))
        for one in self.transactions:
            for bucket, change in one.leases().items():
                before = made.get(change.old)
                given_back = change.old and self._lease(change.old).holder == lease.NOBODY
                if before is None or before[1] == one.run or given_back:
                    continue
                self.losers.add((before[1], bucket))
                ours, theirs = one.run.partition(".")[0], before[1].partition(".")[0]
                if one.kind == "prepared" or ours == theirs:
                    continue
                self.taken_over += 1
                lasted = (one.at - before[0] + _SLACK) * self.round.member(ours).rate
                if lasted < self._lease(change.old).length:
                    yield f"{one.run} took bucket {bucket} over from {before[1]} after {lasted:.1f} s of its clock"

    def _published(self) -> Iterator[str]:
        """Whatever brings outputs changes the leases of all their buckets, which were the pusher's own, and all others
        of the pusher, and brings their receipts at the latest."""
        notes = ""
        held: dict[str, str] = {}  # bucket -> its holder, for sure
        owed: dict[str, set[str]] = {}  # what the branch is to become -> the buckets of whoever pushes that
        for one in self.transactions:
            leases = one.leases()
            holders = {self._lease(oid).holder for change in leases.values() for oid in change if oid}
            holders.discard(lease.NOBODY)
            if one.kind == "prepared":
                if MAIN in one.refs:
                    owed[one.refs[MAIN].new] = {bucket for bucket in held if held[bucket] in holders}
                for bucket in leases:
                    held.pop(bucket, None)
                continue
            held.update({b: self._lease(change.new).holder for b, change in leases.items() if change.new})
            notes = one.refs[NOTES].new if NOTES in one.refs else notes
            paths = self._brought(one.refs[MAIN]) if MAIN in one.refs else {}
            if not paths:
                continue
            # (Who was cut off may have got one without learning of it.)
            left = owed.get(one.refs[MAIN].new, set()) - leases.keys()
            if left and not self._was_cut_off(one.run):
                yield f"{one.run} published {sorted(paths)}, and left its leases {sorted(left)} as they were"
            receipts = self._receipts(notes) if notes else set()
            for path, blob in paths.items():
                slug, stage = self.paths[path]
                bucket = lease.bucket_of(slug)
                if bucket not in leases or not leases[bucket].old:
                    yield f"{one.run} published {path}, and did not change a lease of its bucket {bucket}"
                if (blob, slug, stage) not in receipts:
                    yield f"{one.run} published {path} before its receipt"
            if len(holders) > 1:
                yield f"{one.run} published {sorted(paths)} under leases of {len(holders)} holders"

    def _was_cut_off(self, run: str) -> bool:
        names = ("", run.partition(".")[0])
        return any(blow.kind in ("cut", "lost") and blow.who in names for blow in self.round.blows)

    def _brought(self, change: Change) -> dict[str, str]:
        """The outputs that a move of the branch adds or changes."""
        if not change.new or not change.old:
            return {}
        found = {}
        options = ("-r", "--no-renames", change.old, change.new)
        for line in self.arena.git("remote.git", "diff-tree", *options).splitlines():
            modes, _, path = line.partition("\t")
            if path in self.paths:
                found[path] = modes.split()[3]
        return found

    def _lease(self, oid: str) -> lease.Lease:
        if oid not in self._leases:
            message = self.arena.git("remote.git", "cat-file", "commit", oid).partition("\n\n")[2]
            self._leases[oid] = lease.decode(message.encode())
        return self._leases[oid]

    # --- the ledger ------------------------------------------------------------------------------------------------

    def _bought(self) -> Iterator[str]:
        """Every work was bought; one call of it needs no excuse, and in a calm round no other is made.

        An excuse: the run that made the call was killed, of which as many calls as it has jobs may be lost; or it
        lost the bucket to another run, by then or later. For a run that pushes each work that is as many calls as it
        has jobs, too, for each time that something befell it: all that it had finished before is published.
        """
        made: dict[tuple[str, str], list[Call]] = defaultdict(list)
        for call in self.calls:
            made[call.slug, call.stage].append(call)
        killed = {run.name: self._jobs(run.name) for run in self.storm.runs if run.killed}
        each = {run.name for run in self.storm.runs if self._member(run.name).each}
        killed.update({run: self._jobs(run) * self._blows(run) for run in each})
        for work in self.works:
            calls = made.pop(work, [])
            if not calls:
                yield f"{'/'.join(work)} was never bought"
            needed = len(calls) - 1
            for call in calls:
                lost = (call.run, lease.bucket_of(call.slug)) in self.losers
                if needed > 0 and lost and call.run not in each:
                    needed -= 1
                elif needed > 0 and killed.get(call.run, 0):
                    needed -= 1
                    killed[call.run] -= 1
            if needed > 0 or (self.round.calm and len(calls) > 1):
                yield f"{'/'.join(work)} was bought by {', '.join(call.run for call in calls)}, for no reason"
        for work in made:
            yield f"{'/'.join(work)} was bought, and is not in the plan"

    def _blows(self, run: str) -> int:
        """How often a run may have been disturbed, and once more: where the machine is slow its leases end, too."""
        kinds, name = ("kill", "stop", "cut", "lost"), self._member(run).name
        return 1 + sum(blow.who in ("", name) for blow in self.round.blows if blow.kind in kinds)

    def _member(self, run: str) -> Member:
        return self.round.member(run.partition(".")[0])

    def _jobs(self, run: str) -> int:
        return self._member(run).jobs

    def _duplicates(self) -> int:
        """How many answers the shared log calls a duplicate. (One that never came is none.)"""
        return sum(json.loads(line).get("kind") == "duplicate" for _, line in self._notes(LOG))

    # --- all clones ------------------------------------------------------------------------------------------------

    def _agreed(self) -> Iterator[str]:
        """All clones, a fresh one too, say the same, byte for byte; all works are done; `verify` finds nothing."""
        self.arena.add_clone("fresh")
        fresh = self.round.members[0]._replace(name="fresh", skew="")
        for number, command in enumerate(("sync", "verify"), 1):
            process = self.arena.start(fresh, number, command)
            if code := process.wait(PATIENCE):
                said = self.arena.said(f"fresh.{number}").read_text() + self._out(f"fresh.{number}")
                yield f"{command} in a fresh clone ends with {code}: {said[-600:]!r}"
        members = [*self.round.members, fresh]
        asked = [(member.name, self.arena.start(member, 1000, "plan", "--json")) for member in members]
        for name, process in asked:
            if code := process.wait(PATIENCE):
                yield f"plan in {name} ends with {code}: {self.arena.said(f'{name}.1000').read_text()[-600:]!r}"
        said_by = {name: self._out(f"{name}.1000") for name, _ in asked}
        yield from _differing(said_by)
        plan = json.loads(said_by["fresh"] or "{}")
        yield from (
            f"{work['slug']}/{work['stage']} is {work['state']} {work['reason']} in the end"
            for work in plan.get("work", [])
            if work["state"] != "done"
        )
        if plan.get("summary", {}).get("total") != len(self.works):
            yield f"the plan has {plan.get('summary')}, and not {len(self.works)} works"

    def _out(self, run: str) -> str:
        return self.arena.said(run, "out").read_text()


def _differing(said: dict[str, str]) -> Iterable[str]:
    first = next(iter(said.values()))
    return [f"{name} says something else than the others" for name, text in said.items() if text != first]


def _transactions(arena: Arena) -> Iterator[Transaction]:
    """What the remote wrote down of itself. (A server that is killed in a transaction may not come to that.)"""
    for block in (arena.remote / "transactions").read_text().split("\n\n"):
        head, *lines = block.strip().splitlines() or [""]
        if not head:
            continue
        kind, at, run = head.split()
        refs = {}
        for line in filter(None, lines):
            old, new, ref = line.split(" ", 2)
            refs[ref] = Change(old.strip("0") and old, new.strip("0") and new)
        yield Transaction(kind, float(at), run, refs)
