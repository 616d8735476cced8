"""The recipes for effects under `gitstate run`: each effect is there once, whatever fails, or a human is asked.

A sample of the ways in which a service can fail; with GITSTATE_LONG=1 in the environment, all of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import Service, recipe_files
from tests.support.world import Clone, Done, World, until

PLAN = '- {slug: one, title: "One", text: "The first."}\n'
# How a write goes. These do what they were asked for, and the client does not hear so:
MADE: tuple[str, ...] = ("lost", "late", "error_after", "silent", "garbled")
# These do not:
NOT_MADE: tuple[str, ...] = ("dropped", "error")
# How a look-up fails:
DOWN: tuple[str, ...] = ("silent", "unavailable", "lost", "throttled", "unauthorized", "garbled")
if not os.environ.get("GITSTATE_LONG"):  # (the rest is much the same, and takes minutes)
    MADE, NOT_MADE, DOWN = MADE[:3], NOT_MADE[:1], DOWN[:2]
EVIDENCE = "    evidence: python3 -B bin/publish.py find\n"


class Setting:
    """Clones with a recipe and a remote, and the service, in a hurry."""

    def __init__(
        self, name: str, path: Path, service: Service, changes: dict[str, str] | None = None
    ) -> None:
        self.service, self.stage = service, name
        files = {**recipe_files(name), "plan.yaml": PLAN}
        for old, new in {
            "settle: 30s": "settle: 1s",
            "timeout: 2m": "timeout: 8s",
            **(changes or {}),
        }.items():
            files["gitstate.yaml"] = files["gitstate.yaml"].replace(old, new)
        self.world = World(path / "world", files=files, remote=True)
        self.a = self.world.a
        urls = {"PUBLISH_URL": service.url, "GITHUB_API_URL": service.url}
        self.env = {"HTTP_TIMEOUT": "1", "GITHUB_TOKEN": "a-token", **urls}

    def run(self, *arguments: str, code: int | None = 0, clone: Clone | None = None) -> Done:
        return (clone or self.a).gitstate("run", *arguments, code=code, **self.env)

    def die_in_the_act(self) -> None:
        """A run that is killed while its act waits for a reply that never comes."""
        self.service.next("silent")
        running = self.a.start("run", **{**self.env, "HTTP_TIMEOUT": "60"})
        assert until(lambda: self.service.writes, running)
        assert running.kill()

    @property
    def made(self) -> int:
        return len(self.service.things("article") + self.service.things("pull"))

    @property
    def state(self) -> str:
        return self.a.states()[f"one/{self.stage}"]

    def rewrite(self) -> None:
        """Change the text, so that all is stale."""
        self.a.commit({"plan.yaml": PLAN.replace("The first.", "The first, again.")})


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "service.sqlite", delay=0.4) as service:
        yield service


@pytest.fixture(params=["publish", "pull-request"])
def setting(request: pytest.FixtureRequest, tmp_path: Path, service: Service) -> Setting:
    return Setting(request.param, tmp_path, service)


@pytest.fixture
def publishing(tmp_path: Path, service: Service) -> Setting:
    return Setting("publish", tmp_path, service)


@pytest.fixture
def pulling(tmp_path: Path, service: Service) -> Setting:
    return Setting("pull-request", tmp_path, service)


@pytest.mark.parametrize("mode", [*MADE, *NOT_MADE])
def test_p11_an_effect_is_there_once_however_the_reply_is_lost(setting: Setting, mode: str) -> None:
    setting.service.next(mode)
    setting.run()
    setting.run()
    assert setting.made == 1
    assert setting.state == "done exact"
    assert len(setting.service.writes) == (1 if mode in MADE else 2)


@pytest.mark.parametrize("mode", DOWN)
def test_p11_where_evidence_fails_nothing_is_repeated(setting: Setting, mode: str) -> None:
    setting.service.next("lost")
    setting.service.next_reading("normal")  # the act's own look before it begins
    setting.service.reading = mode
    setting.run(code=3)
    assert setting.state == "failed new unknown"
    setting.run(code=3)
    assert len(setting.service.writes) == setting.made == 1

    setting.service.reading = "normal"
    setting.run("--retry-failed")
    assert len(setting.service.writes) == setting.made == 1
    assert setting.state == "done exact"


@pytest.mark.parametrize("word", [("--happened", '{"id": 1}'), ("--did-not-happen",)])
def test_p11_where_evidence_fails_a_human_is_believed(setting: Setting, word: tuple[str, ...]) -> None:
    setting.service.next("lost")
    setting.service.next_reading("normal")
    setting.service.reading = "unavailable"
    setting.run(code=3)
    setting.a.gitstate("resolve", "one", *word, code=0)
    setting.service.reading = "normal"
    setting.run()
    assert setting.state == ("done accepted" if "--happened" in word else "done exact")
    # A human may be wrong. The recipe looks before it acts, so even then there is one.
    assert len(setting.service.writes) == setting.made == 1


def test_p11_an_act_that_was_killed_with_its_run_is_there_once(setting: Setting) -> None:
    setting.die_in_the_act()
    setting.run()
    assert len(setting.service.writes) == setting.made == 1
    assert setting.state == "done exact"


def test_p11_another_machine_finds_what_a_killed_one_did(setting: Setting) -> None:
    setting.die_in_the_act()
    setting.a.git("pull", "-q", "--ff-only")
    there = setting.world.clone("b")
    # Until its time is up, the act may still be under way for all that the other machine knows.
    assert until(lambda: setting.run(code=None, clone=there).code == 0)
    assert len(setting.service.writes) == setting.made == 1
    setting.run()
    assert len(setting.service.writes) == setting.made == 1
    assert setting.state == "done exact"


@pytest.mark.parametrize("mode", ["normal", *MADE, *NOT_MADE])
def test_p11_an_update_is_there_once_however_the_reply_is_lost(publishing: Setting, mode: str) -> None:
    publishing.run()
    publishing.rewrite()
    publishing.service.next(mode)
    publishing.run()
    (article,) = publishing.service.created("one")
    assert article["body"].endswith("The first, again.\n")
    puts = [one.method for one in publishing.service.writes[1:]]
    assert puts == ["PUT"] * (2 if mode in NOT_MADE else 1)
    assert publishing.state == "done exact"


def test_p11_text_that_changes_while_nobody_knows_is_published_once(publishing: Setting) -> None:
    publishing.die_in_the_act()
    publishing.rewrite()
    publishing.run()
    (article,) = publishing.service.created("one")
    assert article["body"].endswith("The first, again.\n")
    assert [one.method for one in publishing.service.writes] == ["POST", "PUT"]
    assert publishing.state == "done exact"


@pytest.mark.parametrize("mode", MADE)
def test_p11_a_service_that_honours_keys_is_simply_asked_again(
    tmp_path: Path, service: Service, mode: str
) -> None:
    idempotent = {EVIDENCE: "", "    settle: 2s": "    # settle: 2s", "    # idempotent": "    idempotent"}
    setting = Setting("publish", tmp_path, service, idempotent)
    service.honours_keys = True
    service.reading = "stale"  # so the look before the act helps nobody
    service.next(mode)
    setting.run()
    assert setting.made == 1
    assert len(service.writes) == 2
    assert len({one.key for one in service.writes}) == 1
    assert setting.state == "done exact"


@pytest.mark.parametrize("mode", [*MADE, *NOT_MADE])
def test_p11_without_evidence_a_human_is_asked(tmp_path: Path, service: Service, mode: str) -> None:
    setting = Setting("publish", tmp_path, service, {EVIDENCE: "", "    settle: 2s": "    # settle: 2s"})
    service.next(mode)
    setting.run(code=3)
    setting.run(code=3)
    assert len(service.writes) == 1
    assert setting.state == "failed new unknown"
    until(lambda: setting.made or mode in NOT_MADE)
    word = ("--happened", "https://example.org/1") if mode in MADE else ("--did-not-happen",)
    setting.a.gitstate("resolve", "one", *word, code=0)
    setting.run()
    assert setting.made == 1
    assert setting.state == ("done accepted" if mode in MADE else "done exact")


@pytest.mark.parametrize(
    "fields", [{"state": "closed"}, {"state": "closed", "merged_at": "2026-08-07T12:00:00Z"}]
)
def test_p11_a_pull_request_that_is_over_is_not_opened_again(
    pulling: Setting, fields: dict[str, str]
) -> None:
    pulling.run()
    pulling.service.change("pull", 1, **fields)
    pulling.run()
    pulling.run("--redo", "one", "--stage", "pull-request")
    pulling.rewrite()
    pulling.run()
    assert pulling.made == len(pulling.service.writes) == 1


def test_changed_text_goes_to_the_branch_and_not_to_another_pull_request(pulling: Setting) -> None:
    pulling.run()
    before = json.loads(pulling.a.read("branches/one.json"))
    pulling.rewrite()
    pulling.run()
    after = json.loads(pulling.a.read("branches/one.json"))
    assert after["branch"] == before["branch"]
    assert after["commit"] != before["commit"]
    assert pulling.world.git(pulling.world.remote, "rev-parse", "draft/one") == after["commit"]
    assert pulling.world.git(pulling.world.remote, "rev-list", "--count", "draft/one", "--not", "main") == "1"
    assert pulling.made == 1
    assert pulling.state.startswith("done stale")


def test_p11_a_branch_is_there_once_however_the_push_ends(tmp_path: Path, service: Service) -> None:
    setting = Setting("branch", tmp_path, service)
    hook = setting.world.remote / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nwhile read old new ref; do case $ref in */draft/*) kill -9 $PPID; esac; done\n"
    )
    hook.chmod(0o755)
    setting.run()
    found = json.loads(setting.a.read("branches/one.json"))
    assert setting.world.git(setting.world.remote, "rev-parse", "draft/one") == found["commit"]
    assert setting.state == "done exact"


def test_a_patch_from_a_worktree_goes_out_as_a_branch(tmp_path: Path, service: Service) -> None:
    to_patch = {
        "    prompt: prompts/draft.md\n    run: cat\n": "    workspace: worktree\n    run: echo better >> plan.md\n",
        "drafts/{slug}.md": "patches/{slug}.patch",
        " content/{{ slug }}.md": "",
    }
    setting = Setting("branch", tmp_path, service, to_patch)
    setting.a.commit({"plan.md": "good\n"})
    setting.run()
    assert setting.state == "done exact"
    remote = setting.world.remote
    assert setting.world.git(remote, "diff", "--name-status", "main...draft/one") == "M\tplan.md"
    assert setting.world.git(remote, "show", "draft/one:plan.md") == "good\nbetter"


def test_p11_somebody_elses_branch_is_left_alone_and_nothing_is_asked_about_it(
    tmp_path: Path, service: Service
) -> None:
    setting = Setting("branch", tmp_path, service)
    setting.a.git("push", "-q", "origin", "main:draft/one")
    main = setting.world.git(setting.world.remote, "rev-parse", "draft/one")
    done = setting.run(code=1)
    assert "draft/one is there already" in done.err
    assert setting.state == "failed new planning_error"
    assert setting.world.git(setting.world.remote, "rev-parse", "draft/one") == main
