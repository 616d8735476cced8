"""A small world for whole-program tests: a remote, clones, a plan, and a provider that is paid by the call.

Everything is real: processes, repositories, kills. Nothing reads the user's own git configuration.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

PROVIDER = Path(__file__).with_name("provider.py")
PATIENCE = 120.0  # seconds; only a test that would fail anyway waits that long
RECEIPTS = "refs/notes/gitstate"
LOG = "refs/notes/gitstate-log"

# `$PROVIDER` is the whole command, so that no path of this machine gets into the configuration.
ARTICLE = {"prompt": "prompts/article.md", "run": "$PROVIDER", "output": "out/{slug}.md"}
OUTLINE = {"prompt": "prompts/outline.md", "run": "$PROVIDER", "output": "work/{slug}.md"}
CHAIN = {"outline": OUTLINE, "article": {**ARTICLE, "needs": ["outline"], "prompt": "prompts/chained.md"}}
# A policy for tests that are not about reactions: what fails, fails at once and stays failed.
FAIL_AT_ONCE = {
    "unknown": {"tries": 1, "then": "fail"},
    "timeout": {"tries": 1, "then": "fail"},
    "validation": {"tries": 1},
}
FILES = {
    "prompts/article.md": "Write about {{ slug }}.\n",
    "prompts/outline.md": "Outline {{ slug }}.\n",
    "prompts/chained.md": "Write by this outline:\n{{ needs.outline }}",
}


class Done(NamedTuple):
    """A finished gitstate process."""

    code: int
    out: str
    err: str


class Call(NamedTuple):
    """One line of the provider's ledger."""

    event: str  # asked, answered
    slug: str
    stage: str
    attempt: str
    key: str
    time: float
    arguments: tuple[str, ...]


class World:
    """One folder with everything in it. `World(folder)` has a clone `a` with a committed plan, and no remote
    unless asked for one."""

    def __init__(
        self,
        folder: Path,
        *,
        stages: Mapping[str, Any] | None = None,
        items: Iterable[Any] = ("one", "two"),
        files: Mapping[str, str] | None = None,
        remote: bool = False,
        format: str = "sha1",
        **top: Any,
    ) -> None:
        self._make_paths(folder)
        (self.home / "orders").mkdir(parents=True)
        self.a = Clone(self, folder / "a")
        git_init(self.a.path, format)
        self.a.settle_down()
        self.a.commit(
            {**FILES, **configuration(stages or {"article": ARTICLE}, items, **top), **(files or {})}
        )
        if remote:
            git_init(self.remote, format, "--bare")
            self.a.git("remote", "add", "origin", self.url)
            self.a.git("push", "-q", "-u", "origin", "main")

    def _make_paths(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "provider"  # ledger and orders
        self.remote = folder / "remote.git"

    def copy(self, folder: Path) -> World:
        """The same world again in another folder."""
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        world = World.__new__(World)
        world._make_paths(folder)
        world.a = Clone(world, folder / "a")
        if world.remote.exists():
            world.a.git("remote", "set-url", "origin", world.url)
        return world

    @property
    def url(self) -> str:
        return f"file://{self.remote}"

    @property
    def environment(self) -> dict[str, str]:
        """What every process in this world sees: nothing of the user's, and where the provider is."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "NO_COLOR": "1",
            "PYTHONSAFEPATH": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **{name: os.environ[name] for name in ("PYTHONPATH", "VIRTUAL_ENV") if name in os.environ},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "A Writer",
            "GIT_AUTHOR_EMAIL": "writer@example.org",
            "GIT_COMMITTER_NAME": "A Writer",
            "GIT_COMMITTER_EMAIL": "writer@example.org",
            "PROVIDER": f"{sys.executable} -I -S {PROVIDER}",
            "PROVIDER_HOME": str(self.home),
        }

    def clone(self, name: str, *options: str) -> Clone:
        """A plain `git clone` of the remote, without any set-up of gitstate's."""
        clone = Clone(self, self.folder / name)
        self.git(self.folder, "clone", "-q", *options, self.url, str(clone.path))
        return clone

    def git(self, folder: Path, *arguments: str) -> str:
        """git in any folder, the bare remote's for example; its output without the final newline."""
        done = subprocess.run(
            ("git", *arguments), cwd=folder, check=True, env=self.environment, capture_output=True, text=True
        )
        return done.stdout.rstrip("\n")

    # --- the provider ------------------------------------------------------------------------------

    def tell(self, slug: str = "", stage: str = "", **order: Any) -> None:
        """Order what the provider does for a work, a slug, a stage or everything, in provider.py's words.

        `once` makes it an order for one call only.
        """
        name = f"{slug.replace('/', '%')}@{stage}"
        new = self.home / "order"
        new.write_text(json.dumps(order), encoding="utf-8")
        new.replace(self.home / "orders" / name)  # (a call that begins now sees the old one or this)

    def forgive(self) -> None:
        """Take all orders back."""
        for path in (self.home / "orders").iterdir():
            path.unlink(missing_ok=True)

    def calls(self, event: str = "asked") -> list[Call]:
        """The calls that were made (and paid) so far, in their order; or those that were answered."""
        try:
            lines = (self.home / "ledger").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        found = (Call(*json.loads(line).values()) for line in lines)
        return [call._replace(arguments=tuple(call.arguments)) for call in found if call.event == event]

    def paid(self) -> Counter[str]:
        """How often each work was paid for: SLUG/STAGE -> calls."""
        return Counter(f"{call.slug}/{call.stage}" for call in self.calls())

    # --- the remote --------------------------------------------------------------------------------

    def take_remote_away(self) -> None:
        """The remote cannot be reached any more."""
        self.remote.rename(self.remote.with_suffix(".away"))

    def bring_remote_back(self) -> None:
        self.remote.with_suffix(".away").rename(self.remote)


class Clone:
    """One person's clone, or another working tree of it."""

    def __init__(self, world: World, path: Path) -> None:
        self.world = world
        self.path = path

    # --- git and files -----------------------------------------------------------------------------

    def settle_down(self) -> None:
        """No surprise work by git in the background."""
        self.git("config", "gc.auto", "0")
        self.git("config", "maintenance.auto", "false")

    def git(self, *arguments: str, check: bool = True, stdin: str | None = None, **env: str) -> str:
        """The user's own git; its output without the final newline."""
        done = subprocess.run(
            ("git", *arguments), cwd=self.path, capture_output=True, text=True, check=False, input=stdin,
            env={**self.world.environment, **env},
        )  # fmt: skip
        assert not check or not done.returncode, (arguments, done.stdout, done.stderr)
        return done.stdout.rstrip("\n")

    def write(self, path: str, text: str) -> None:
        """A file in the working tree, its line endings as given."""
        full = self.path / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text.encode())

    def read(self, path: str) -> str:
        return (self.path / path).read_bytes().decode()

    def has(self, path: str) -> bool:
        return os.path.lexists(self.path / path)

    def commit(self, files: Mapping[str, str], message: str = "By hand") -> str:
        """Commit some files, as a user would. Returns the commit."""
        for path, text in files.items():
            self.write(path, text)
        self.git("add", "--", *files)
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def configure(self, stages: Mapping[str, Any], items: Iterable[Any] = ("one", "two"), **top: Any) -> None:
        """Commit another configuration and plan."""
        self.commit(configuration(stages, items, **top), "Change the plan")

    def blob(self, path: str, commit: str = "HEAD") -> str:
        """The id of a committed file; '' if there is none."""
        return self.git("rev-parse", "--verify", "-q", f"{commit}:{path}", check=False)

    def show(self, path: str, commit: str = "HEAD") -> str | None:
        """A committed file's content; None if there is none."""
        listed = self.git("ls-tree", commit, "--", path)
        return self.git("cat-file", "blob", f"{commit}:{path}") + "\n" if listed else None

    def files(self, commit: str = "HEAD") -> set[str]:
        """What is committed."""
        return set(self.git("ls-tree", "-r", "--name-only", commit).splitlines())

    def status(self) -> str:
        return self.git("status", "--porcelain", "--untracked-files=all")

    def receipts(self) -> list[dict[str, Any]]:
        """Every receipt line of this clone."""
        return self._lines(RECEIPTS)

    def log(self) -> list[dict[str, Any]]:
        """Every line of the shared log, as this clone has it."""
        return self._lines(LOG)

    def _lines(self, ref: str) -> list[dict[str, Any]]:
        known = self.git("rev-parse", "--verify", "-q", ref, check=False)
        texts = self.notes(ref).values() if known else ()
        return [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")]

    def set_notes(self, notes: Mapping[str, str], ref: str = RECEIPTS) -> None:
        """Make a notes ref hold exactly these texts, by their paths in the notes tree."""
        index = {"GIT_INDEX_FILE": str(self.path / ".git" / "index-of-notes")}
        lines = "".join(
            f"100644 {self.git('hash-object', '-w', '--stdin', stdin=text)}\t{path}\n"
            for path, text in notes.items()
        )
        self.git("read-tree", "--empty", **index)
        self.git("update-index", "--add", "--index-info", stdin=lines, **index)
        tree = self.git("write-tree", **index)
        self.git("update-ref", ref, self.git("commit-tree", "-m", "Changed by hand", "-p", ref, tree))

    def notes(self, ref: str = RECEIPTS) -> dict[str, str]:
        """The texts that a notes ref holds, by their paths in the notes tree."""
        entries = (line.split() for line in self.git("ls-tree", "-r", ref).splitlines())
        return {path: self.git("cat-file", "blob", blob) + "\n" for _, _, blob, path in entries}

    @property
    def state(self) -> Path:
        """gitstate's own folder."""
        return Path(self.git("rev-parse", "--path-format=absolute", "--git-common-dir")) / "gitstate"

    def forget_state(self) -> None:
        """Delete every local state file of gitstate's."""
        shutil.rmtree(self.state, ignore_errors=True)

    def spooled(self) -> list[Path]:
        """Responses that are kept because they could not be put in their place."""
        return sorted((self.state / "attempts").glob("*.response-*"))

    def leftovers(self) -> list[str]:
        """Temporary files, attempts on record and git's locks: what a finished run leaves none of."""
        temporary = [str(path) for path in self.path.rglob(".gitstate-*")]
        attempts = [str(path) for path in (self.state / "attempts").glob("*")]
        locks = [str(path) for path in self.state.parent.rglob("*.lock") if path.name != "lock"]
        return temporary + attempts + locks

    # --- gitstate ----------------------------------------------------------------------------------

    def gitstate(self, *arguments: str, code: int | None = None, **env: str) -> Done:
        """Run a gitstate command to its end; `code` is the exit code that it must have."""
        return self.start(*arguments, **env).wait(code)

    def run(self, *arguments: str, code: int = 0, **env: str) -> Done:
        """`gitstate run`, which must end with `code`."""
        return self.gitstate("run", *arguments, code=code, **env)

    def start(self, *arguments: str, prepare: Callable[[], None] | None = None, **env: str) -> Running:
        """Start a gitstate command in a process group of its own."""
        process = subprocess.Popen(
            (sys.executable, "-m", "gitstate", *arguments),
            cwd=self.path, env={**self.world.environment, **env}, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=prepare,
        )  # fmt: skip
        return Running(arguments, process)

    def plan_text(self, *arguments: str, **env: str) -> str:
        """What `plan --json` prints, byte for byte."""
        return self.gitstate("plan", "--json", *arguments, code=0, **env).out

    def plan(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.plan_text(*arguments))
        return found

    def states(self, *arguments: str) -> dict[str, str]:
        """SLUG/STAGE -> "done exact", "pending stale prompt,model", "failed new timeout", …"""
        return {f"{work['slug']}/{work['stage']}": words(work) for work in self.plan(*arguments)["work"]}

    def why(self, slug: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.gitstate("why", "--json", slug, code=0).out)["work"]
        return found


class Running:
    """A gitstate process that may be killed."""

    def __init__(self, arguments: tuple[str, ...], process: subprocess.Popen[str]) -> None:
        self.arguments = arguments
        self.process = process

    def wait(self, code: int | None = None) -> Done:
        """Wait for its end. Whatever happens, no traceback and no bug of gitstate's own is allowed."""
        out, err = self.process.communicate(timeout=PATIENCE)
        done = Done(self.process.returncode, out, err)
        assert not re.search("^Traceback", err, re.MULTILINE), err
        assert done.code != 70, err
        assert code is None or done.code == code, (self.arguments, done)
        return done

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> bool:
        """SIGKILL the whole process group. False if it had ended before."""
        alive = self.process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)
        return alive

    def ended(self) -> bool:
        return self.process.poll() is not None


def words(work: Mapping[str, Any]) -> str:
    """A work of `plan --json` in a few words."""
    parts = [work["state"], work["reason"], ",".join(work["components"]), work["category"]]
    return " ".join(part for part in parts if part)


def configuration(stages: Mapping[str, Any], items: Iterable[Any], **top: Any) -> dict[str, str]:
    """The files of a configuration and its plan; `each` instead of items makes an item of every file."""
    plan: Any = {"each": top.pop("each")} if "each" in top else "plan.yaml"
    rows = [{"slug": item} if isinstance(item, str) else item for item in items]
    # JSON is YAML.
    return {
        "gitstate.yaml": json.dumps({"gitstate": 1, "plan": plan, **top, "stages": stages}, indent=1) + "\n",
        "plan.yaml": "".join(f"- {json.dumps(row)}\n" for row in rows),
    }


def git_init(path: Path, format: str = "sha1", *options: str) -> None:
    """An empty repository."""
    arguments = ("git", "init", "-q", "-b", "main", f"--object-format={format}", *options, str(path))
    subprocess.run(arguments, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})


def patiently(command: str) -> str:
    """A shell command that is tried again while gitstate holds git's locks, as a person would."""
    return f"for try in $(seq 100); do ({command}) && exit 0; sleep 0.05; done; exit 1"


def until(condition: Callable[[], object], running: Running | None = None) -> bool:
    """Wait for a condition by looking at it again and again. False where `running` ended before it held."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if running is not None and running.ended():
            return bool(condition())
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)
    return True
