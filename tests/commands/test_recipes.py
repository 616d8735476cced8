"""The recipes for effects, as commands: each does it once, knows it again, and says when it cannot tell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import READING, Service, recipe_files
from tests.support.world import Clone, Done, World, until

TOKEN = "s3cret-0123456789abcdef"
CREATING = ("lost", "silent", "error_after", "garbled")  # it was done, and the client does not hear so
DOWN = ("lost", "silent", "unavailable", "throttled", "unauthorized", "garbled")


def world_of(name: str, path: Path, slug: str = "one", **more: Any) -> World:
    """A world with a remote, and what `gitstate init --example NAME` writes, and the output of its first stage."""
    files = recipe_files(name)
    files["draft.md"] = "# One\n"
    files["branch.json"] = json.dumps({"branch": f"draft/{slug}"})
    return World(path, files=files, remote=True, **more)


class Recipe:
    """One work's effect, run by hand as gitstate runs it. It ends in an exit code and what it printed."""

    def __init__(
        self, clone: Clone, act: list[str], find: list[str], slug: str = "one", key: str = "k1", **env: str
    ) -> None:
        self.clone = clone
        self.act_by, self.find_by = act, find
        self.scratch = clone.world.folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.env = {
            **clone.world.environment,
            "HTTP_TIMEOUT": "1",
            "GITSTATE_SLUG": slug,
            "GITSTATE_STAGE": "effect",
            "GITSTATE_WORK_ID": f"{slug}/effect@0123456789ab",
            "GITSTATE_ATTEMPT_ID": "a-1",
            "GITSTATE_IDEMPOTENCY_KEY": key,
            "GITSTATE_SCRATCH": str(self.scratch),
            **env,
        }

    def act(self, code: int | None = 0, **env: str) -> Done:
        return self._run(self.act_by, code, env)

    def find(self, code: int | None = 0, **env: str) -> Done:
        done = self._run(self.find_by, code, env)
        assert bool(done.out.strip()) == (done.code == 0)  # it prints what it found, and nothing else
        assert done.code < 2 or done.err.strip()  # who cannot tell says why
        return done

    def again(self, key: str, **env: str) -> Recipe:
        """The same for other content."""
        more = {**self.env, "GITSTATE_IDEMPOTENCY_KEY": key, **env}
        return Recipe(self.clone, self.act_by, self.find_by, more["GITSTATE_SLUG"], **{**more, "key": key})

    def _run(self, command: list[str], code: int | None, env: dict[str, str]) -> Done:
        for file in self.scratch.iterdir():
            file.unlink()
        ended = subprocess.run(
            (sys.executable, "-B", *command), cwd=self.clone.path, env={**self.env, **env},
            input="What it is.\n", capture_output=True, text=True, check=False,
        )  # fmt: skip
        done = Done(ended.returncode, ended.stdout, ended.stderr)
        assert "Traceback" not in done.err, done.err
        assert TOKEN not in done.out + done.err
        assert code is None or done.code == code, done
        return done

    def verdict(self, done: Done) -> tuple[str, float | None]:
        """What gitstate makes of a failure, by the template's own rules and its own: category/kind, stated wait."""
        (self.scratch / "out").write_text(done.out)
        (self.scratch / "err").write_text(done.err)
        paths = ("--stdout", str(self.scratch / "out"), "--stderr", str(self.scratch / "err"))
        said = self.clone.gitstate("classify", "--json", "--exit", str(done.code), *paths, code=0).out
        found = json.loads(said)
        return "/".join(filter(None, (found["category"], found["kind"]))), found["wait_seconds"]


# --- the branch -------------------------------------------------------------------------------------------------------


def branch_recipe(clone: Clone, slug: str = "one", **more: str) -> Recipe:
    where = ["bin/branch.py", "push", "origin", "main", "draft/"]
    return Recipe(
        clone, [*where, "draft.md", f"content/{slug}.md"], ["bin/branch.py", "find", *where[2:]], slug, **more
    )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of("branch", tmp_path)


@pytest.fixture
def branch(world: World) -> Recipe:
    return branch_recipe(world.a)


def branches(world: World) -> dict[str, str]:
    """The branches on the remote, beside main: name -> commit."""
    lines = world.git(
        world.remote, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads"
    )
    return {name: oid for name, oid in (line.split() for line in lines.splitlines()) if name != "main"}


def hook(world: World, name: str, script: str) -> Path:
    path = world.remote / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_branch_carries_the_result_and_nothing_here_has_moved(world: World, branch: Recipe) -> None:
    world.a.write("staged.md", "staged\n")
    world.a.git("add", "staged.md")
    world.a.write("plan.yaml", "- edited\n")
    seen = (world.a.status(), world.a.git("for-each-ref", "refs/heads"), world.a.git("ls-files", "--stage"))

    found = json.loads(branch.act().out)

    assert (
        world.a.status(),
        world.a.git("for-each-ref", "refs/heads"),
        world.a.git("ls-files", "--stage"),
    ) == seen
    assert not (world.a.path / ".git/FETCH_HEAD").exists()
    assert branches(world) == {"draft/one": found["commit"]}
    changed = world.git(world.remote, "diff", "--name-status", "main", "draft/one")
    assert changed == "A\tcontent/one.md"
    assert world.git(world.remote, "show", "draft/one:content/one.md") == "# One"


def test_the_same_work_is_the_same_commit_from_every_clone(world: World, branch: Recipe) -> None:
    first = json.loads(branch.act().out)
    world.git(world.remote, "branch", "-D", "draft/one")
    there = world.clone("b")
    assert json.loads(branch_recipe(there).act().out) == first


def test_p11_a_branch_that_is_there_is_not_pushed_again(world: World, branch: Recipe) -> None:
    branch.find(code=1)
    first = branch.act().out
    # (the base has moved, so a new commit would be another one)
    world.a.commit({"more.md": "more\n"})
    world.a.git("push", "-q")
    assert branch.act().out == first
    assert branch.find().out == first
    assert branch_recipe(world.clone("b")).find().out == first


def test_p11_a_push_whose_reply_is_lost_has_happened(world: World, branch: Recipe) -> None:
    hook(world, "post-receive", "kill -9 $PPID")
    done = branch.act()
    assert json.loads(done.out)["commit"] == branches(world)["draft/one"]
    assert branch.find().out == done.out


def test_a_push_that_is_turned_away_has_not_happened(world: World, branch: Recipe) -> None:
    refusing = hook(world, "pre-receive", "echo the disk is full >&2; exit 1")
    assert "the disk is full" in branch.act(code=1).err
    branch.find(code=1)
    refusing.unlink()
    branch.act()
    branch.find()


def test_p11_where_the_remote_is_away_nobody_can_tell(world: World, branch: Recipe) -> None:
    world.take_remote_away()
    branch.find(code=2)
    branch.act(code=1)


def test_somebody_elses_branch_is_left_alone(world: World, branch: Recipe) -> None:
    world.a.git("switch", "-q", "-c", "draft/one")
    own = world.a.commit({"mine.md": "mine\n"})
    world.a.git("push", "-q", "origin", "draft/one")
    world.a.git("switch", "-q", "main")
    done = branch.act(code=3)
    assert "draft/one is there already" in done.err
    assert branch.verdict(done) == ("planning_error", None)
    branch.find(code=2)
    assert branches(world) == {"draft/one": own}


def test_a_branch_that_somebody_makes_in_the_same_moment_is_left_alone(world: World, branch: Recipe) -> None:
    main = world.git(world.remote, "rev-parse", "main")
    hook(world, "pre-receive", f"unset GIT_QUARANTINE_PATH; git update-ref refs/heads/draft/one {main}")
    done = branch.act(code=3)
    assert "not of this work" in done.err
    assert branches(world) == {"draft/one": main}


def test_a_branch_is_known_below_what_others_put_on_top(world: World, branch: Recipe) -> None:
    first = branch.act().out
    world.a.git("fetch", "-q", "origin")
    world.a.git("switch", "-q", "draft/one")
    world.a.commit({"content/one.md": "# One, and better\n"})
    world.a.git("push", "-q", "origin", "draft/one")
    assert branch.find().out == first
    assert branch.act().out == first


@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_p11_a_branch_that_was_merged_and_deleted_has_happened(
    world: World, branch: Recipe, how: str
) -> None:
    first = json.loads(branch.act().out)
    world.a.git("fetch", "-q", "origin")
    world.a.git("merge", "-q", how, *(["-m", "Merge it"] if how == "--no-ff" else []), "origin/draft/one")
    if how == "--squash":
        message = world.a.git("log", "-1", "--format=%B", "origin/draft/one")
        world.a.git("commit", "-q", "-m", f"Add it (#1)\n\n* {message}")
    world.a.git("push", "-q")
    world.git(world.remote, "branch", "-D", "draft/one")
    found = json.loads(branch.find().out)
    assert found["branch"] == first["branch"]
    assert (found == first) == (how == "--no-ff")
    assert json.loads(branch.act().out) == found
    assert branches(world) == {}


@pytest.mark.parametrize("by_hand", [False, True])
def test_changed_content_replaces_what_was_pushed_last(world: World, branch: Recipe, by_hand: bool) -> None:
    first = branch.act().out
    if by_hand:  # what a person said to `gitstate resolve --happened`
        first = f"https://example.org/commit/{branches(world)['draft/one']}"
    world.a.write("draft.md", "# One, again\n")
    changed = branch.again("k2", GITSTATE_PREVIOUS_EVIDENCE=first)
    changed.find(code=1)
    second = changed.act().out
    assert changed.find().out == second != first
    assert world.git(world.remote, "show", "draft/one:content/one.md") == "# One, again"
    assert world.git(world.remote, "rev-list", "--count", "main..draft/one") == "1"


def test_changed_content_replaces_nothing_else(world: World, branch: Recipe) -> None:
    first = branch.act().out
    world.a.git("fetch", "-q", "origin")
    world.a.git("switch", "-q", "draft/one")
    top = world.a.commit({"content/one.md": "# One, and better\n"})
    world.a.git("push", "-q", "origin", "draft/one")
    world.a.git("switch", "-q", "main")
    world.a.write("draft.md", "# One, again\n")
    for evidence in (first, "", "pushed by hand"):
        done = branch.again("k2", GITSTATE_PREVIOUS_EVIDENCE=evidence).act(code=3)
        assert "not what was pushed last" in done.err
    assert branches(world) == {"draft/one": top}


def test_a_patch_is_pushed_as_what_it_changes(world: World, branch: Recipe) -> None:
    world.a.write("prompts/draft.md", "Another prompt.\n")
    world.a.write("draft.md", world.a.git("diff") + "\n")
    world.a.git("checkout", "-q", "prompts/draft.md")
    branch.act_by.pop()
    branch.act()
    changed = world.git(world.remote, "diff", "--name-status", "main", "draft/one")
    assert changed == "M\tprompts/draft.md"
    assert world.git(world.remote, "show", "draft/one:prompts/draft.md") == "Another prompt."


def test_a_patch_whose_lines_have_changed_in_the_base_is_a_refusal(world: World, branch: Recipe) -> None:
    patch = "--- a/plan.yaml\n+++ b/plan.yaml\n@@ -1,2 +1,2 @@\n-gone\n+changed\n gone, too\n"
    world.a.write("draft.md", patch)
    branch.act_by.pop()
    done = branch.act(code=3)
    assert "does not apply" in done.err
    assert branch.verdict(done) == ("planning_error", None)
    branch.find(code=1)


def test_a_result_that_the_base_has_already_is_no_branch(world: World, branch: Recipe) -> None:
    world.a.commit({"content/one.md": "# One\n"})
    world.a.git("push", "-q")
    assert "nothing to push" in branch.act(code=3).err
    assert branches(world) == {}


def test_every_slug_has_a_branch_of_its_own(world: World) -> None:
    slugs = [
        "a",
        "a/b",
        "a+b",
        "a%2Bb",
        "a%2Fb",
        "v1.2",
        "a..b",
        "x.lock",
        "two words",
        "über/ö",
        "~^@{1}",
        "[",
    ]
    for number, slug in enumerate(slugs):
        branch_recipe(world.a, slug, key=f"k{number}").act()
    assert len(branches(world)) == len(slugs)
    assert {"draft/a", "draft/a+b", "draft/v1%2E2", "draft/über+ö"} <= set(branches(world))
    for number, slug in enumerate(slugs):
        branch_recipe(world.a, slug, key=f"k{number}").find()


def test_a_branch_may_be_of_sha256_and_from_a_shallow_clone(tmp_path: Path) -> None:
    world = world_of("branch", tmp_path, format="sha256")
    world.a.commit({"more.md": "more\n"})
    world.a.git("push", "-q")
    recipe = branch_recipe(world.clone("b", "--depth=1"))
    world.a.commit({"yet-more.md": "more\n"})
    world.a.git("push", "-q")
    assert recipe.act().out == recipe.find().out


@pytest.mark.parametrize(
    "said",
    [
        "fatal: could not read Username for 'https://example.org': terminal prompts disabled",
        "git@example.org: Permission denied (publickey).\nfatal: Could not read from remote repository.",
        "fatal: Authentication failed for 'https://example.org/a.git/'",
    ],
)
def test_a_login_that_fails_is_named(branch: Recipe, said: str) -> None:
    assert branch.verdict(Done(1, "", said)) == ("phase_error/auth", None)


# --- articles and pull requests ---------------------------------------------------------------------------------------


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "service.sqlite", delay=0.5, retry_after=7) as service:
        yield service


def publish_recipe(path: Path, service: Service, slug: str = "one") -> Recipe:
    clone = world_of("publish", path / "world", slug).a
    env = {"PUBLISH_URL": service.url, "PUBLISH_TOKEN": TOKEN}
    return Recipe(
        clone, ["bin/publish.py", "put", "One", "draft.md"], ["bin/publish.py", "find"], slug, **env
    )


def pull_recipe(path: Path, service: Service, slug: str = "one") -> Recipe:
    clone = world_of("pull-request", path / "world", slug).a
    env = {"GITHUB_API_URL": f"{service.url}/", "GITHUB_TOKEN": f"{TOKEN}\n"}
    act = ["bin/pull_request.py", "open", "owner/name", "main", "branch.json", "One"]
    return Recipe(clone, act, ["bin/pull_request.py", "find", "owner/name", "branch.json"], slug, **env)


@pytest.fixture(params=["publish", "pull-request"])
def recipe(request: pytest.FixtureRequest, tmp_path: Path, service: Service) -> Recipe:
    make = {"publish": publish_recipe, "pull-request": pull_recipe}[request.param]
    return make(tmp_path, service)


@pytest.fixture
def publish(tmp_path: Path, service: Service) -> Recipe:
    return publish_recipe(tmp_path, service)


@pytest.fixture
def pull(tmp_path: Path, service: Service) -> Recipe:
    return pull_recipe(tmp_path, service)


def made(service: Service) -> int:
    return len(service.things("article") + service.things("pull"))


def test_p11_what_is_there_is_not_made_again(recipe: Recipe, service: Service) -> None:
    recipe.find(code=1)
    first = recipe.act().out
    assert recipe.find().out == first
    assert recipe.act().out == first
    assert made(service) == len(service.writes) == 1


@pytest.mark.parametrize("mode", CREATING)
def test_p11_a_lost_reply_is_a_failure_and_the_look_up_knows_better(
    recipe: Recipe, service: Service, mode: str
) -> None:
    service.next(mode)
    done = recipe.act(code=1)
    assert done.out == ""
    # Nothing that gitstate takes for "turned away": it has happened.
    assert recipe.verdict(done)[0] in ("unknown", "timeout/wall")
    found = recipe.find().out
    assert recipe.act().out == found
    assert made(service) == len(service.writes) == 1


@pytest.mark.parametrize("mode", ["dropped", "error"])
def test_p11_a_request_that_did_nothing_is_found_to_have_done_nothing(
    recipe: Recipe, service: Service, mode: str
) -> None:
    service.next(mode)
    recipe.act(code=1)
    recipe.find(code=1)
    recipe.act()
    assert made(service) == 1


def test_what_is_done_late_is_found_late(recipe: Recipe, service: Service) -> None:
    # Why a stage has `settle`: at first nothing is there, and it is the truth.
    service.next("late")
    recipe.act(code=1)
    recipe.find(code=1)
    until(lambda: made(service))
    recipe.find()


@pytest.mark.parametrize("mode", DOWN)
def test_p11_where_the_look_up_fails_nobody_can_tell(recipe: Recipe, service: Service, mode: str) -> None:
    service.next("lost")
    recipe.act(code=1)
    service.reading = mode
    recipe.find(code=2)
    recipe.act(code=1)
    service.reading = "normal"
    recipe.find()
    assert made(service) == len(service.writes) == 1


def test_p11_where_nothing_listens_nobody_can_tell(recipe: Recipe, service: Service) -> None:
    nowhere = {"PUBLISH_URL": "http://127.0.0.1:1", "GITHUB_API_URL": "http://127.0.0.1:1"}
    done = recipe.find(code=2, **nowhere)
    assert "ConnectionRefusedError" in done.err
    recipe.act(code=1, **nowhere)


def test_a_throttled_request_says_how_long_to_wait(recipe: Recipe, service: Service) -> None:
    service.next("throttled")
    assert recipe.verdict(recipe.act(code=1)) == ("quota/throttle", 7)
    recipe.act()
    assert made(service) == 1


def test_a_token_that_does_not_do_is_named(recipe: Recipe, service: Service) -> None:
    service.next("unauthorized")
    assert recipe.verdict(recipe.act(code=1)) == ("phase_error/auth", None)
    bad = {"PUBLISH_TOKEN": f"{TOKEN}\nmore", "GITHUB_TOKEN": f"{TOKEN}\nmore"}
    assert "malformed" in recipe.act(code=1, **bad).err
    assert made(service) == 0


def test_the_words_of_a_slug_are_no_cause_of_a_failure(tmp_path: Path, service: Service) -> None:
    recipe = publish_recipe(tmp_path, service, "429 rate limit exceeded unauthorized")
    service.mode = service.reading = "lost"
    assert recipe.verdict(recipe.act(code=1))[0] == "unknown"


def test_an_article_that_somebody_else_published_is_left_alone(publish: Recipe, service: Service) -> None:
    service.make("article", {"external_id": "one", "revision": "", "title": "Mine", "body": ""})
    done = publish.act(code=3)
    assert "https://example.org/1" in done.err
    assert publish.verdict(done) == ("planning_error", None)
    assert [one["title"] for one in service.created("one")] == ["Mine"]


def test_two_articles_for_one_slug_are_for_a_human(publish: Recipe, service: Service) -> None:
    for _ in range(2):
        service.make("article", {"external_id": "one", "revision": "k1", "title": "One", "body": ""})
    assert "2 articles" in publish.find(code=2).err
    publish.act(code=3)


@pytest.mark.parametrize("mode", ["normal", "lost", "dropped"])
def test_p11_changed_text_goes_over_the_article_that_is_there(
    publish: Recipe, service: Service, mode: str
) -> None:
    first = publish.act().out
    publish.clone.write("draft.md", "# One, again\n")
    changed = publish.again("k2", GITSTATE_PREVIOUS_EVIDENCE=first)
    changed.find(code=1)
    service.next(mode)
    changed.act(code=None)
    changed.find(code=1 if mode == "dropped" else 0)
    changed.act()
    assert [one["body"] for one in service.created("one")] == ["# One, again\n"]
    assert [one.method for one in service.writes] == ["POST", "PUT", *(["PUT"] if mode == "dropped" else [])]
    assert changed.find().out == first  # the same place


def test_changed_text_goes_over_what_a_person_said_was_published(publish: Recipe, service: Service) -> None:
    changed = publish.again("k2", GITSTATE_PREVIOUS_EVIDENCE="it stands on the front page")
    assert "not found any more" in changed.act(code=3).err
    publish.act()
    changed.act()
    assert [one.method for one in service.writes] == ["POST", "PUT"]


def test_a_service_that_honours_keys_makes_one_of_two_requests(publish: Recipe, service: Service) -> None:
    service.honours_keys = True
    service.next_reading("stale", "stale")
    first = publish.act().out
    assert publish.act().out == first
    assert len(service.writes) == 2
    assert made(service) == 1
    service.honours_keys = False
    service.next_reading("stale")
    publish.act()
    assert made(service) == 2


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("open", {}),
        ("closed", {"state": "closed"}),
        ("merged", {"state": "closed", "merged_at": "2026-08-07T12:00:00Z"}),
    ],
)
def test_p11_a_pull_request_is_there_in_whatever_state(
    pull: Recipe, service: Service, state: str, fields: dict[str, str]
) -> None:
    pull.act()
    service.change("pull", 1, **fields)
    assert json.loads(pull.find().out) == {"number": 1, "url": "https://example.org/pull/1", "state": state}
    assert pull.act().out == pull.find().out
    assert pull.again("k2").act().out == pull.find().out
    assert len(service.pulls("draft/one")) == 1


@pytest.mark.parametrize("filters", [True, False])
def test_p11_a_pull_request_is_found_on_a_later_page(pull: Recipe, service: Service, filters: bool) -> None:
    for number in range(70):
        other = "draft/one" if filters else f"other-{number}"
        service.make("pull", {"head": other, "body": "mine", "state": "closed"})
    service.page, service.filters = 30, filters
    pull.act()
    assert json.loads(pull.find().out)["number"] == 71
    assert pull.act().out == pull.find().out
    assert len(service.writes) == 1


def test_p11_what_another_machine_opened_in_the_same_moment_is_found(pull: Recipe, service: Service) -> None:
    first = pull.act().out
    service.next_reading("stale")
    assert pull.act().out == first
    assert [one.status for one in service.writes] == [201, 422]


def test_a_pull_request_that_somebody_else_opened_is_left_alone(pull: Recipe, service: Service) -> None:
    service.make("pull", {"head": "draft/one", "body": None})
    assert "https://example.org/pull/1" in pull.act(code=3).err
    pull.find(code=2)
    service.change("pull", 1, state="closed")
    pull.find(code=1)
    pull.act()
    assert len(service.pulls("draft/one")) == 2


def test_a_pull_request_says_what_it_is_and_hides_whose_it_is(tmp_path: Path, service: Service) -> None:
    pull = pull_recipe(tmp_path, service, "a--b")
    pull.act()
    (one,) = service.pulls("draft/a--b")
    assert (one["title"], one["base"]) == ("One", "main")
    assert one["body"] == "What it is.\n\n<!-- gitstate: a%2D%2Db/effect -->\n"


def test_a_pull_request_without_a_token_is_a_matter_of_credentials(pull: Recipe, service: Service) -> None:
    assert pull.verdict(pull.act(code=1, GITHUB_TOKEN="")) == ("phase_error/auth", None)
    assert service.asked == []


def test_a_request_that_can_not_be_made_as_planned_is_not_made_again(pull: Recipe, service: Service) -> None:
    service.make("pull", {"head": "draft/one", "body": None})
    service.next_reading("stale", "stale")
    done = pull.act(code=1)
    assert "already exists" in done.err
    assert pull.verdict(done) == ("planning_error", None)


def test_the_service_keeps_its_ledger_when_it_is_started_again(tmp_path: Path) -> None:
    path = tmp_path / "service.sqlite"
    with Service(path, mode="lost") as service:
        service.make("article", {"external_id": "one"})
    with Service(path) as again:
        assert again.mode == "lost"
        assert [one["id"] for one in again.created("one")] == [1]
    assert set(DOWN) <= set(READING)
