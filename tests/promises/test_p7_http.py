"""Failures over real HTTP: a mock server of somebody else's that speaks the providers' dialects, and a client command.

The server judges its client, too: whether a stated wait was kept, and whether what cannot pass was asked again.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import PATIENCE, World

pytest.importorskip("llmock")
CLIENT = Path(__file__).parents[1] / "support" / "chat.py"
DIALECTS = ["openai", "anthropic"]


class Server:
    """The mock server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            (sys.executable, "-m", "llmock.cli", "serve", "--port", str(port)),
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("LLMOCK")},
        )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/_llmock/verdict"):
                    return
            except OSError:
                assert time.monotonic() < deadline
                assert self.process.poll() is None, "the mock server did not start"
                time.sleep(0.05)

    def misbehave(self, *behaviors: dict[str, Any]) -> None:
        """Forget what was, and do this from now on."""
        self._post("/_llmock/reset", {})
        self._post("/_llmock/scenario", {"behaviors": list(behaviors)})

    def _post(self, path: str, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request):
            pass

    def findings(self) -> set[str]:
        """What the server has to say against its client."""
        with urllib.request.urlopen(f"{self.url}/_llmock/verdict") as reply:
            verdict = json.load(reply)
        return {str(finding.get("code") or finding.get("kind")) for finding in verdict.get("findings", [])}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server"))
    yield started
    started.process.terminate()
    started.process.wait()


def world(folder: Path, server: Server, dialect: str, **top: Any) -> tuple[World, dict[str, str]]:
    stage = {"run": f"$CHAT {dialect} $BASE", "prompt": "prompts/article.md", "output": "out/{slug}.md"}
    made = World(folder, stages={"article": stage}, items=["one", "two", "three"], **top)
    base = server.url + ("/anthropic" if dialect == "anthropic" else "")
    return made, {"CHAT": f"{sys.executable} -I {CLIENT}", "BASE": base}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_p7_a_throttled_call_comes_again_after_the_stated_wait_and_not_before(
    tmp_path: Path, server: Server, dialect: str
) -> None:
    server.misbehave({"type": "fail", "status": 429, "retry_after": 1, "times": 2})
    made, env = world(tmp_path, server, dialect)
    said = made.a.run(**env).err
    assert "quota/throttle" in said
    assert set(made.a.states().values()) == {"done exact"}
    assert "retry_after_ignored" not in server.findings()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("status", "state"),
    [(401, "failed new phase_error"), (400, "failed new planning_error"), (404, "failed new phase_error")],
)
def test_p7_what_cannot_pass_is_not_asked_again(
    tmp_path: Path, server: Server, dialect: str, status: int, state: str
) -> None:
    server.misbehave({"type": "fail", "status": status, "times": None})
    made, env = world(tmp_path, server, dialect)
    made.a.run(code=1, **env)
    assert set(made.a.states().values()) == {state}
    assert "retried_non_retryable" not in server.findings()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [500, 502, 503, 529])
def test_p7_a_server_in_trouble_is_met_with_back_off(
    tmp_path: Path, server: Server, dialect: str, status: int
) -> None:
    server.misbehave({"type": "fail", "status": status, "times": 2})
    made, env = world(tmp_path, server, dialect)
    made.a.run(**env)
    assert set(made.a.states().values()) == {"done exact"}
    assert not server.findings() & {"retry_storm", "retried_non_retryable"}


def test_p7_a_server_that_is_not_there_pauses_and_fails_nobody(tmp_path: Path, server: Server) -> None:
    made, env = world(tmp_path, server, "openai", policy={"unknown": {"tries": 1}})
    with socket.socket() as nobody:  # bound and not listening: refused
        nobody.bind(("127.0.0.1", 0))
        made.a.run(
            "--breaker", "0", code=75, **{**env, "BASE": f"http://127.0.0.1:{nobody.getsockname()[1]}"}
        )
    assert all(state.startswith("paused new") for state in made.a.states().values())


def test_p7_no_key_gets_into_the_log(tmp_path: Path, server: Server) -> None:
    server.misbehave({"type": "fail", "status": 401, "times": None})
    made, env = world(tmp_path, server, "openai")
    made.a.run(code=1, **env)
    assert "0123456789abcdef" not in json.dumps(made.a.log())
