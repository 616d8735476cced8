"""P2: what is kept between commands changes no answer, whatever happens to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clones import ENVIRONMENT

CONFIG = """\
gitstate: 1
plan: plan.jsonl
group: kind
stages:
  article:
    prompt: prompt.md
    run: cat
    output: out/{slug}.md
  digest:
    needs: [article]
    run: tr a-z A-Z < {{ needs.article }}
    output: digest/{slug}.txt
"""


class Place:
    """A repository in which some works are done, one is stale, one edited, one failed and one new."""

    def __init__(self, folder: Path, words: str) -> None:
        self.folder = folder
        self.cache = folder / ".git" / "gitstate" / "cache"
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write("gitstate.yaml", CONFIG)
        self.write("prompt.md", words + " {{ slug }} {{ kind }}\n")
        self.plan("a", "b", "c")
        self.commit()
        self.gitstate("run")
        self.write("out/b.md", "By hand.\n")
        self.plan("a", "b", "c", "d", old="c")
        self.commit()

    def git(self, *arguments: str) -> None:
        subprocess.run(("git", *arguments), cwd=self.folder, env={**os.environ, **ENVIRONMENT}, check=True)

    def gitstate(self, *arguments: str) -> str:
        done = subprocess.run(
            (sys.executable, "-m", "gitstate", *arguments),
            cwd=self.folder,
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_text(text)

    def plan(self, *slugs: str, old: str = "") -> None:
        items = [{"slug": slug, "kind": "new" if slug == old else "usual"} for slug in slugs]
        self.write("plan.jsonl", "".join(json.dumps(item) + "\n" for item in items))

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Sources")

    def answers(self) -> tuple[str, str, str]:
        return self.gitstate("plan"), self.gitstate("plan", "--json"), self.gitstate("status", "--json")

    def files(self) -> list[Path]:
        return sorted(self.cache.iterdir())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("one") / "clone", "Write about")


@pytest.fixture(scope="module")
def answers(place: Place) -> tuple[str, str, str]:
    shutil.rmtree(place.folder / ".git" / "gitstate")
    found = place.answers()
    reasons = {work["reason"] for work in json.loads(found[1])["work"]}
    assert reasons == {"exact", "edited", "stale", "upstream", "new"}
    return found


def test_p2_a_warm_cache_gives_the_same_answers(place: Place, answers: tuple[str, str, str]) -> None:
    assert {"answer", "gitstate", "plan"} <= {file.name for file in place.files()}
    assert place.answers() == answers


@pytest.mark.parametrize("gone", ["answer", "gitstate", "plan", "prices", ""])
def test_p2_a_deleted_cache_gives_the_same_answers(
    place: Place, answers: tuple[str, str, str], gone: str
) -> None:
    if gone:
        (place.cache / gone).unlink(missing_ok=True)
    else:
        shutil.rmtree(place.cache)
    assert place.answers() == answers


def _short(content: bytes) -> bytes:
    return content[:10]


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _last_byte_lost(content: bytes) -> bytes:
    return content[:-1]


def _empty(content: bytes) -> bytes:
    return b""


def _zeroed_end(content: bytes) -> bytes:  # what a power cut leaves of a file that was not flushed
    return content[: len(content) // 2] + bytes(len(content) - len(content) // 2)


def _flipped(at: float) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        place = int((len(content) - 1) * at)
        return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]

    return flip


def _old_version(content: bytes) -> bytes:
    head, _, rest = content.partition(b"\n")
    return head.replace(b"gitstate cache ", b"gitstate cache 0") + b"\n" + rest


def _more(content: bytes) -> bytes:
    return content + content


@pytest.mark.parametrize(
    "damage",
    [
        *(_empty, _short, _half, _last_byte_lost, _zeroed_end, _old_version, _more),
        *(_flipped(at) for at in (0.0, 0.1, 0.3, 0.5, 0.9, 1.0)),
    ],
)
def test_p2_a_damaged_cache_gives_the_same_answers(
    place: Place, answers: tuple[str, str, str], damage: Callable[[bytes], bytes]
) -> None:
    place.answers()
    for file in place.files():
        file.write_bytes(damage(file.read_bytes()))
    assert place.answers() == answers
    assert place.answers() == answers  # and what was kept in its place does too


def test_p2_the_cache_of_another_repository_gives_the_same_answers(
    place: Place, answers: tuple[str, str, str], tmp_path: Path
) -> None:
    other = Place(tmp_path / "other", "Forget about")
    others = other.answers()
    assert others != answers
    shutil.rmtree(place.cache)
    shutil.copytree(other.cache, place.cache)
    assert place.answers() == answers
    shutil.rmtree(other.cache)
    shutil.copytree(place.cache, other.cache)
    assert other.answers() == others


def test_p2_a_cache_that_cannot_be_written_gives_the_same_answers(
    place: Place, answers: tuple[str, str, str]
) -> None:
    shutil.rmtree(place.cache)
    place.cache.write_bytes(b"a file where the folder should be")
    try:
        assert place.answers() == answers
    finally:
        place.cache.unlink()


def test_p2_lines_of_a_newer_gitstate_are_counted_once_however_often_their_note_changes(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path / "clone", "Write about")
    blob = subprocess.run(
        ("git", "rev-parse", "HEAD:out/a.md"), cwd=place.folder, capture_output=True, text=True, check=True
    ).stdout.strip()
    line = '{"work":"' + "0" * 64 + '","v":99}'
    for number in range(3):  # read each time, so that the cache is brought up to date rather than built
        place.git(
            "notes", "--ref=gitstate", "append", "-m", line if not number else f"a remark {number}", blob
        )
        warm = place.answers()
    assert "1 line in the notes come" in warm[0]
    shutil.rmtree(place.cache)
    assert place.answers() == warm
