"""A round as it happens: runs that are started again and again, what befalls them, and the calm afterwards."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from typing import NamedTuple

from tests.chaos import processes
from tests.chaos.arena import Arena
from tests.chaos.schedule import TRIES, Blow, Member

LONGEST = 12.0  # seconds of storm at most
PATIENCE = 120.0  # seconds; only a round that would fail anyway takes that long
LAST = 8  # runs after the storm


class Run(NamedTuple):
    """One run of gitstate that has ended."""

    name: str  # CLONE.NUMBER
    code: int
    killed: bool


class Storm:
    """One round, up to the moment at which everything is to be well."""

    def __init__(self, arena: Arena) -> None:
        self.arena, self.round = arena, arena.round
        self.runs: list[Run] = []
        self.events: Counter[str] = Counter()
        self.added: list[str] = []  # slugs that the user added
        self.files: list[str] = []  # what the user committed beside
        self.troubles: list[str] = []
        self._began = time.monotonic()
        self._players = [_Player(self, member) for member in self.round.members]
        self._waiting = [(blow, float("inf")) for blow in self.round.blows]
        self._healing: list[tuple[float, Blow]] = []

    def play(self) -> None:
        """From the first run to the end of the storm."""
        while not self._is_over():
            self._strike()
            for player in self._players:
                player.step()
            time.sleep(0.01)
        for _, blow in self._healing:
            self._heal(blow)
        self._end()

    @property
    def now(self) -> float:
        """Seconds since the storm began."""
        return time.monotonic() - self._began

    def _is_over(self) -> bool:
        if self.now > LONGEST:
            return True
        return not self._waiting and not self._healing and all(player.is_done for player in self._players)

    # --- what befalls them -----------------------------------------------------------------------------------------

    def _strike(self) -> None:
        bought = len(self.arena.calls())
        idle = all(player.is_done for player in self._players)
        waiting = []
        for blow, at in self._waiting:
            if at == float("inf") and (bought >= blow.bought or idle):
                at = self.now + blow.later
            if at <= self.now:
                self._hit(blow)
            else:
                waiting.append((blow, at))
        self._waiting = waiting
        for at, blow in [entry for entry in self._healing if entry[0] <= self.now]:
            self._healing.remove((at, blow))
            self._heal(blow)

    def _hit(self, blow: Blow) -> None:
        if blow.kind in ("commit", "edit"):
            self._user_does(blow)
            return
        struck = [player for player in self._players if blow.who in ("", player.member.name)]
        for player in struck:
            if blow.kind == "kill":
                player.kill(blow.how)
            elif blow.kind == "stop":
                player.stop(blow.how)
            elif blow.kind == "cut":
                self.arena.cut_way(player.member.name, blow.how)
                self.events["cuts"] += 1
            else:
                self.arena.lose_answers(player.member.name, True)
                self.events["lost answers"] += 1
        if blow.lasts:
            self._healing.append((self.now + blow.lasts, blow))

    def _heal(self, blow: Blow) -> None:
        for player in self._players:
            if blow.who in ("", player.member.name):
                if blow.kind == "stop":
                    player.go_on()
                elif blow.kind == "cut":
                    self.arena.open_way(player.member.name)
                elif blow.kind == "lost":
                    self.arena.lose_answers(player.member.name, False)

    def _user_does(self, blow: Blow) -> None:
        number = len(self.added) + len(self.files)
        if blow.kind == "edit":
            self.added.append(f"added-{number}")
            self.arena.configure([slug for slug, _ in self.round.items] + self.added)
        else:
            name = f"notes-{number}.txt"
            (self.arena.folder / "user" / name).write_text("By hand.\n")
            self.arena.git("user", "add", name)
            self.arena.git("user", "commit", "-q", "-m", "By hand")
            self.files.append(name)
        self.events[f"users {blow.kind}s"] += 1
        self.arena.deliver()

    # --- afterwards ------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """All is well again: everybody comes to an end, and one clone does what is left."""
        for player in self._players:
            player.finish(PATIENCE)
        # What runs that were killed left of processes ends before the clones are looked at.
        if not self.arena.deliver():
            self.troubles.append("the user's own commits could not be pushed")
        member = random.Random(f"{self.round.seed}/{self.round.number}/last").choice(self.round.members)
        for _ in range(LAST):
            if self._run(member, "run", "--claim", "--wait", "--lock-timeout", "4m") != 75:
                break
        if self.runs[-1].code:
            self.troubles.append(f"the last run, {self.runs[-1].name}, ends with {self.runs[-1].code}")
        self._sync(self._players)
        # Whoever synced first does not know what others delivered after that.
        self._sync([player for player in self._players if not self.arena.agrees(player.member.name)])

    def _sync(self, players: list[_Player]) -> None:
        """All at once."""
        for player in players:
            player.start("sync")
        for player in players:
            player.finish(PATIENCE)
            if code := self.runs[-1].code:
                self.troubles.append(f"sync in {player.member.name}, {player.run}, ends with {code}")

    def _run(self, member: Member, *arguments: str) -> int:
        player = next(player for player in self._players if player.member == member)
        player.start(*arguments)
        player.finish(PATIENCE)
        return self.runs[-1].code


class _Player:
    """One clone and its runs."""

    def __init__(self, storm: Storm, member: Member) -> None:
        self.storm, self.member = storm, member
        self.number = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._stopped = ""  # the run that is
        self._next: float | None = member.begins
        self._rng = random.Random(f"{storm.round.seed}/{storm.round.number}/{member.name}")

    @property
    def is_done(self) -> bool:
        return self._process is None and self._next is None

    @property
    def run(self) -> str:
        """The name of its latest run."""
        return f"{self.member.name}.{self.number}"

    def step(self) -> None:
        """See whether a run has ended, and start the next one when it is time."""
        if self._process is not None:
            if self._process.poll() is not None:
                self._note()
        elif self._next is not None and self._next <= self.storm.now:
            wait = ("--wait",) if self.member.waits else ()
            push = ("--push", "work") if self.member.each else ()
            self.start("run", "--claim", "-j", str(self.member.jobs), *wait, *push)

    def start(self, *arguments: str) -> None:
        self.number += 1
        self._killed = False
        self._process = self.storm.arena.start(self.member, self.number, *arguments)

    def _note(self) -> None:
        assert self._process is not None
        code = self._process.returncode
        self._process = None
        self.storm.runs.append(Run(self.run, code, self._killed))
        again = code != 0 and self.number < TRIES
        self._next = self.storm.now + self._rng.uniform(0.0, 0.7) if again else None

    def kill(self, how: str) -> None:
        """SIGKILL: gitstate alone; its machine; or that and the server's processes that serve it."""
        if self._process is None or self._process.poll() is not None:
            return
        arena = self.storm.arena
        self._killed = True
        self.storm.events["kills"] += 1
        if how == "gitstate":
            self._process.kill()
        else:
            processes.kill(self.run, arena.mark, servers=how == "server")
        self._process.wait()
        if how == "server":
            self.storm.events["locks of a killed server"] += processes.clear_locks(arena.remote, arena.mark)
        self._note()

    def stop(self, how: str) -> None:
        """SIGSTOP: gitstate alone, or all that is on its machine."""
        if self._process is None or self._process.poll() is not None:
            return
        self._stopped = self.run
        self.storm.events["stops"] += 1
        if how == "gitstate":
            self._process.send_signal(signal.SIGSTOP)
        else:
            processes.send(self.run, signal.SIGSTOP, self.storm.arena.mark, servers=False)

    def go_on(self) -> None:
        """SIGCONT to all that was stopped: also to what a killed gitstate left behind, which holds its lock."""
        if self._stopped:
            processes.send(self._stopped, signal.SIGCONT, self.storm.arena.mark, servers=True)
            self._stopped = ""

    def finish(self, seconds: float) -> None:
        """Wait for the end of its run, if it has one."""
        self._next = None
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.storm.troubles.append(f"{self.run} is still at work after {seconds:.0f} s")
            processes.kill(self.run, self.storm.arena.mark, servers=True)
            self._process.wait()
        self._note()
        self._next = None
