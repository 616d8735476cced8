"""`gitstate classify` answers line by line, for scripts and for people, with and without a repository."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gitstate.core.signal import iso

SIGNALS = Path(__file__).parent.parent / "core" / "signals.jsonl"
THROTTLED = {"channel": "http", "http": {"status": 429, "headers": {"Retry-After": "7"}, "body": None}}
FINE = {"channel": "cli", "cli": {"exit": 0, "stdout": "An answer.\n", "stderr": ""}}
KEYS = ["outcome", "category", "kind", "wait_seconds", "until", "state"]


def classify(
    folder: Path, *arguments: str, given: str | bytes = "", **env: str
) -> subprocess.CompletedProcess[bytes]:
    import os

    data = given.encode() if isinstance(given, str) else given
    command = [sys.executable, "-m", "gitstate", "classify", *arguments]
    return subprocess.run(
        command, cwd=folder, input=data, capture_output=True, check=False, env={**os.environ, **env}
    )


def test_every_captured_signal_is_answered_in_order(tmp_path: Path) -> None:
    signals = [json.loads(line) for line in SIGNALS.read_text("utf-8").splitlines()]
    asked = [{key: each[key] for key in each if key not in ("expect", "why", "source")} for each in signals]
    done = classify(tmp_path, "--json", given="".join(json.dumps(each) + "\n" for each in asked))
    assert (done.returncode, done.stderr) == (0, b"")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(signals)
    for signal, answer in zip(signals, answers):
        expect = signal["expect"]
        assert list(answer)[:6] == KEYS
        assert {key: answer[key] for key in ("outcome", "category", "kind", "state")} == {
            key: expect[key] for key in ("outcome", "category", "kind", "state")
        }, signal["id"]
        wait = expect["wait"] or {}
        if "seconds" in wait:
            assert abs(answer["wait_seconds"] - wait["seconds"]) <= 1
        elif "until" in wait:
            until, expected = iso(answer["until"]), iso(wait["until"])
            assert until is not None
            assert expected is not None
            assert abs((until - expected).total_seconds()) <= 1
        else:
            assert (answer["wait_seconds"], answer["until"]) == (None, None)


def test_a_line_that_is_no_signal_is_named_and_the_others_are_answered(tmp_path: Path) -> None:
    lines = [json.dumps(THROTTLED), "{not json", "", "[1]", "[" * 100_000, json.dumps(FINE)]
    done = classify(tmp_path, "--json", given="\n".join(lines))
    assert done.returncode == 2
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["outcome"] for answer in answers] == ["fail", None, None, None, "ok"]
    assert all(list(answer)[:6] == KEYS for answer in answers)
    said = done.stderr.decode()
    for number in (2, 4, 5):
        assert f"line {number}:" in said
        assert any(answer.get("error", "").startswith(f"line {number}:") for answer in answers)
    assert "Traceback" not in said


def test_bytes_that_are_not_utf8_are_no_trouble(tmp_path: Path) -> None:
    said = b'"cli": {"exit": 1, "stdout": "Credit balance is too low \xb7", "stderr": ""}'
    given = b'\xef\xbb\xbf{"channel": "cli", ' + said + b"}\n"
    done = classify(tmp_path, "--json", given=given)
    assert json.loads(done.stdout)["kind"] == "billing"


def test_people_are_told_what_it_is_what_happens_and_by_which_rule(tmp_path: Path) -> None:
    (tmp_path / "err").write_text("Error: 429 Too Many Requests. Please try again in 20s.\n")
    done = classify(tmp_path, "--exit", "1", "--stderr", "err")
    first, second, third = done.stdout.decode().splitlines()
    assert first.startswith("quota/throttle: ")
    assert "pause until " in second
    assert "(20 s)" in second
    assert third.startswith("  Rule ")
    assert "429 Too Many Requests" in third
    assert done.returncode == 0


def test_a_clock_time_is_read_in_the_zone_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("You've hit your session limit · resets 2am\n", encoding="utf-8")
    ends = set()
    for zone in ("Asia/Tokyo", "America/New_York"):
        done = classify(tmp_path, "--exit", "1", "--stdout", "out", "--json", TZ=zone)
        ends.add(str(json.loads(done.stdout)["until"])[11:16])
    assert ends <= {"17:00", "06:00", "07:00", ""}
    assert len(ends) == 2


def test_one_signal_may_stand_in_a_file_laid_out_for_people(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(THROTTLED, indent=2))
    (tmp_path / "some.jsonl").write_text(f"{json.dumps(THROTTLED)}\n{json.dumps(FINE)}\n")
    assert len(classify(tmp_path, "one.json", "--json").stdout.splitlines()) == 1
    assert len(classify(tmp_path, "some.jsonl", "--json").stdout.splitlines()) == 2
    assert classify(tmp_path, "one.json").stdout.startswith(b"quota/throttle")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gone.json",), "gone.json cannot be read"),
        (("--stderr", "x"), "--exit"),
        (("--exit", "1", "x.json"), "two signals"),
        (("--exit", "1", "--stdout", "gone"), "gone cannot be read"),
    ],
)
def test_what_cannot_be_asked_is_said(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = classify(tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert done.stdout == b""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path / "r"], check=True)
    (tmp_path / "r" / "gitstate.yaml").write_text(
        'gitstate: 1\nplan: plan.yaml\nstages: {a: {run: cat, output: "o/{slug}"}}\nrules:\n'
        "- {id: full, when: {exit: 3, stderr: no*slots}, category: quota, kind: capacity, wait: 5m}\n"
    )
    (tmp_path / "r" / "deep").mkdir()
    return tmp_path / "r"


def test_the_rules_of_the_repository_are_used_in_all_of_its_folders(repository: Path) -> None:
    signal = json.dumps({"cli": {"exit": 3, "stderr": "ERROR No free slots\n"}})
    for folder, rule in (
        (repository, "own.full"),
        (repository / "deep", "own.full"),
        (repository.parent, "exit.bare"),
    ):
        answer = json.loads(classify(folder, "--json", given=signal).stdout)
        assert (answer["rule"] == rule) is (rule == "own.full")
        if rule == "own.full":
            assert (answer["kind"], answer["wait_seconds"]) == ("capacity", 300)


def test_rules_that_are_wrong_are_an_error_with_their_line(repository: Path) -> None:
    file = repository / "gitstate.yaml"
    file.write_text(file.read_text().replace("exit:", "exitt:"))
    done = classify(repository, "--json", given=json.dumps(FINE))
    assert done.returncode == 2
    assert "gitstate.yaml:5: The key 'exitt' is not known" in done.stderr.decode()


def test_secrets_of_the_environment_are_not_repeated(tmp_path: Path) -> None:
    signal = {"cli": {"exit": 1, "stderr": "Error: 401 for zebra-zebra-zebra\n"}}
    done = classify(tmp_path, "--json", given=json.dumps(signal), SOME_API_KEY="zebra-zebra-zebra")
    assert b"zebra" not in done.stdout
    assert json.loads(done.stdout)["kind"] == "auth"


def test_nobody_need_read_to_the_end(tmp_path: Path) -> None:
    lines = "".join(json.dumps(THROTTLED) + "\n" for _ in range(2000))
    command = f"{sys.executable} -m gitstate classify --json | head -1"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, input=lines.encode(), capture_output=True, check=False
    )
    assert len(done.stdout.splitlines()) == 1
    assert b"Traceback" not in done.stderr
