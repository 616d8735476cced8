"""Where a round takes place: a bare remote that writes down what it does, clones, a ledger outside of gitstate.

Everything is real: repositories, processes, the way to the remote. Only the clocks are the harness's (`start/`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.chaos.schedule import Member, Round
from tests.chaos.server import Server
from tests.support.cuts import CUT

START = Path(__file__).with_name("start")
OUTPUT = {"draft": "draft/{slug}.md", "article": "out/{slug}.md"}

# One write a call, to the end of the file: whole, whoever else writes. It is bought before it is answered.
WORK = """#!/bin/sh
said="$GITSTATE_SLUG $GITSTATE_STAGE $CHAOS_RUN $GITSTATE_ATTEMPT_ID"
printf '%s\\n' "$said" >> "$CHAOS_LEDGER"
sleep "$1"
printf '%s\\n' "$said"
"""

# Called by git around every change of refs. Seconds since boot: those of the world, whatever else is faked.
HOOK = """#!/bin/sh
case $1 in prepared|committed) ;; *) exit 0;; esac
read now rest < /proc/uptime
printf '%s %s %s\\n%s\\n\\n' "$1" "$now" "${CHAOS_RUN:--}" "$(cat)" >> "$GIT_DIR/transactions"
"""

CUT_WHILE = """#!/bin/sh
[ -e "{flag}" ] || exec git-receive-pack "$@"
exec {python} -I -S "{cut}" "$@"
"""


@cache
def _faketime() -> Path | None:
    """What sets the time of day for a process; None where it is not installed: then nobody's is skewed."""
    return next(Path("/usr/lib").rglob("libfaketime.so.1"), None)


class Call(NamedTuple):
    """One line of the ledger: a work that was bought."""

    slug: str
    stage: str
    run: str
    attempt: str


class Arena:
    """The folder of one round, and all that is in it. A context; whatever is alive at its end is ended."""

    def __init__(self, round: Round, template: Path, folder: Path, bug: str = "") -> None:
        self.round, self.folder, self.bug = round, folder, bug
        self.remote = folder / "remote.git"
        self.ledger = folder / "ledger"
        self.ways = (
            folder / "ways"
        )  # to the remote, one for each clone: where it is cut, a clone cannot reach it
        self.mark = f"{os.getpid()}.{folder.name}"
        self.origin = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.runs: dict[str, str] = {}  # clone -> the name of its latest run
        self.server = Server(folder, self._environment_of_server)
        shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
        for name in ("ways", "lost", "home", "said"):
            (folder / name).mkdir()
        (folder / "work").write_text(WORK)
        (folder / "cut").write_text(CUT.format(python=sys.executable))

    def __enter__(self) -> Arena:
        self.address = self.server.start() if self.round.transport == "http" else ""
        with open(self.folder / "user" / ".git" / "config", "a", encoding="utf-8") as config:
            config.write(f'[remote "origin"]\n\turl = {self.way("user")}\n')
        self.open_way("user")
        self.configure([slug for slug, _ in self.round.items])
        self.git("user", "push", "-q", "-u", "origin", "main")
        for member in self.round.members:
            self._make_clone(member.name)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def _make_clone(self, name: str) -> None:
        path = self.folder / name
        shutil.copytree(self.folder / "user", path, symlinks=True)
        self.open_way(name)
        config = (path / ".git" / "config").read_text().replace(self.way("user"), self.way(name))
        if self.round.transport == "file":
            cut = self.folder / f"cut.{name}"
            cut.write_text(
                CUT_WHILE.format(
                    flag=self.folder / "lost" / name, python=sys.executable, cut=self.folder / "cut"
                )
            )
            cut.chmod(0o755)
            config = config.replace('[remote "origin"]', f'[remote "origin"]\n\treceivepack = {cut}', 1)
        (path / ".git" / "config").write_text(config)

    def add_clone(self, name: str) -> None:
        """A fresh clone, as of now, by plain git."""
        self.open_way(name)
        done = subprocess.run(
            ("git", "clone", "-q", self.way(name), str(self.folder / name)),
            env=self.environment(name),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    # --- the way to the remote -------------------------------------------------------------------------------------

    def way(self, name: str) -> str:
        """The address of the remote, as a clone knows it."""
        return f"{self.address}/{name}/remote.git" if self.address else f"file://{self.ways}/{name}.git"

    def open_way(self, name: str) -> None:
        """Let a clone reach the remote."""
        self.server.refusing.pop(name, None)
        with contextlib.suppress(FileExistsError):
            (self.ways / f"{name}.git").symlink_to(self.remote)

    def cut_way(self, name: str, how: str) -> None:
        """Keep a clone from the remote."""
        self.server.refusing[name] = how
        (self.ways / f"{name}.git").unlink(missing_ok=True)

    def lose_answers(self, name: str, lose: bool) -> None:
        """From now on a clone does not learn what became of its pushes; or it does again."""
        flag = self.folder / "lost" / name
        flag.touch() if lose else flag.unlink(missing_ok=True)
        (self.server.losing.add if lose else self.server.losing.discard)(name)

    # --- processes -------------------------------------------------------------------------------------------------

    def environment(self, name: str, run: str = "") -> dict[str, str]:
        """What every process for a clone sees: nothing of the user's."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "home"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "NO_COLOR": "1",
            "PYTHONSAFEPATH": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": f"{name}@example.org",
            "GIT_COMMITTER_NAME": name,
            "GIT_COMMITTER_EMAIL": f"{name}@example.org",
            "CHAOS": self.mark,
            "CHAOS_LEDGER": str(self.ledger),
            "CHAOS_RUN": run or f"{name}.0",
            "WORK": f"sh {self.folder}/work",
        }

    def clock(self, member: Member) -> dict[str, str]:
        """What gives a process the clock of a member."""
        clock = {"CHAOS_RATE": str(member.rate), "CHAOS_ORIGIN": str(self.origin)}
        if member.skew and (library := _faketime()) is not None:
            clock |= {"LD_PRELOAD": str(library), "FAKETIME": member.skew, "NO_FAKE_STAT": "1"}
            clock |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        return clock

    def _environment_of_server(self, name: str) -> dict[str, str]:
        return self.environment("server", self.runs.get(name, f"{name}.0"))

    def start(self, member: Member, number: int, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a gitstate in a clone, with its clock, in a session of its own."""
        run = f"{member.name}.{number}"
        self.runs[member.name] = run
        path = os.pathsep.join(filter(None, (str(START), os.environ.get("PYTHONPATH"))))
        env = {**self.environment(member.name, run), **self.clock(member), "PYTHONPATH": path}
        if self.bug:
            env["CHAOS_BUG"] = self.bug
        with open(self.said(run), "ab") as said, open(self.said(run, "out"), "wb") as out:
            return subprocess.Popen(
                (sys.executable, "-m", "gitstate", *arguments),
                cwd=self.folder / member.name,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=said,
                start_new_session=True,
            )

    def said(self, run: str, stream: str = "err") -> Path:
        """The file with what a run printed."""
        return self.folder / "said" / f"{run}.{stream}"

    def git(self, name: str, *arguments: str, check: bool = True) -> str:
        """Plain git in a clone, or in the remote; its output without the final newline."""
        done = subprocess.run(
            ("git", *arguments),
            cwd=self.folder / name,
            env=self.environment(name),
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or not done.returncode, (arguments, done.stdout, done.stderr)
        return done.stdout.rstrip("\n")

    # --- the user --------------------------------------------------------------------------------------------------

    def configure(self, slugs: list[str]) -> None:
        """Commit the configuration, in the user's clone, with these items."""
        took = dict(self.round.items)
        stages: dict[str, dict[str, object]] = {}
        for stage in ("draft", "article")[2 - self.round.stages :]:
            stages[stage] = {"run": "$WORK {{ took }}", "output": OUTPUT[stage]}
        if self.round.stages > 1:
            stages["article"]["needs"] = ["draft"]
        top = {"gitstate": 1, "plan": "plan.yaml", "coordinate": "leases", "lease": f"{self.round.lease}s"}
        rows = [json.dumps({"slug": slug, "took": took.get(slug, 0.05)}) for slug in slugs]
        user = self.folder / "user"
        (user / "gitstate.yaml").write_text(json.dumps({**top, "stages": stages}) + "\n")
        (user / "plan.yaml").write_text("".join(f"- {row}\n" for row in rows))
        self.git("user", "add", "gitstate.yaml", "plan.yaml")
        self.git("user", "commit", "-q", "-m", "Change the plan")

    def deliver(self) -> bool:
        """The user pushes what they have, on top of what is there by now, as people do; whether it went."""
        for _ in range(20):
            self.git("user", "pull", "-q", "--rebase", check=False)
            self.git("user", "push", "-q", check=False)
            if self.git("user", "rev-list", "--count", "origin/main..main") == "0":
                return True
        return False

    def agrees(self, name: str) -> bool:
        """Whether a clone has what the remote has."""
        asked = ("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/main", "refs/notes")
        return self.git(name, *asked) == self.git("remote.git", *asked)

    # --- what is to be seen from outside ---------------------------------------------------------------------------

    def calls(self) -> list[Call]:
        """All that was bought so far, in order."""
        try:
            return [Call(*line.split(" ")) for line in self.ledger.read_text().splitlines()]
        except FileNotFoundError:
            return []


def make_template(folder: Path) -> None:
    """What every round begins with: a remote that notes its transactions, and the user's clone, without a commit."""
    remote, user = folder / "remote.git", folder / "user"
    for path, *options in ((remote, "--bare"), (user,)):
        subprocess.run(("git", "init", "-q", "-b", "main", *options, str(path)), check=True)
        for setting in ("gc.auto", "receive.autogc", "maintenance.auto"):
            subprocess.run(("git", "-C", str(path), "config", setting, "0"), check=True)
    for setting, value in (
        ("core.logAllRefUpdates", "always"),
        ("http.receivepack", "true"),
        ("receive.denyNonFastForwards", "true"),
    ):
        subprocess.run(("git", "-C", str(remote), "config", setting, value), check=True)
    shutil.rmtree(remote / "hooks")
    shutil.rmtree(user / ".git" / "hooks")
    (remote / "hooks").mkdir()
    hook = remote / "hooks" / "reference-transaction"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    subprocess.run(
        ("git", "-C", str(user), "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        check=True,
    )
