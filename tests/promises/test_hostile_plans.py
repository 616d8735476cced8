"""Hostile plans are refused before anything runs, or are harmless; all that is wrong is shown at once."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import ARTICLE, World, configuration

SLUGS = [
    "..", "../up", "a/../../up", "/etc/passwd", "a//b", "a/", ".", "./a", "a/./b",
    "new\nline", "tab\there", "nul\u0001", "\u0085", "a\u007f",
    ".git", ".git/hooks/post-commit", "a/.git/config", ".GIT/config", ".git./x", ".git /x", "git~1/x",
    ".g\u200cit/config", ".git::$INDEX_ALLOCATION/x",
    "dot.", "a./b", "space ", " space", "a /b", "-rf", "a/-rf",
    "CON", "con.txt", "a/NUL/b", "com1", "LPT9.md", "aux.tar.gz", "CONIN$",
    "back\\slash", "c:colon", "star*", "what?", 'quo"te', "less<", "more>", "pipe|", "x" * 201,
]  # fmt: skip


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def world(once: World, tmp_path: Path) -> World:
    return once.copy(tmp_path / "world")


def refused(world: World, *words: str, code: int = 2) -> str:
    """The run refuses, and nothing runs or is written. Returns what was said."""
    done = world.a.run(code=code)
    assert world.calls() == []
    assert not world.a.has("out")
    assert not world.a.git("log", "--grep=^Gitstate-Work")
    for word in words:
        assert word in done.err
    return done.err


def test_hostile_slugs_are_refused_each_with_its_line(world: World) -> None:
    world.a.configure({"article": ARTICLE}, [*SLUGS, "fine"])
    said = refused(world)
    assert world.a.gitstate("plan", code=2).err == said
    lines = {int(number) for number in re.findall(r"plan\.yaml:(\d+):", said)}
    assert lines == set(range(1, len(SLUGS) + 1))
    assert "fine" not in said
    assert "\x01" not in said  # what is printed must not drive the terminal


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_hostile_slugs_are_refused_in_every_kind_of_plan(world: World, kind: str) -> None:
    files = configuration({"article": ARTICLE}, [])
    files["gitstate.yaml"] = files["gitstate.yaml"].replace("plan.yaml", f"plan.{kind}")
    del files["plan.yaml"]
    files[f"plan.{kind}"] = {
        "jsonl": '{"slug": "fine"}\n{"slug": "../up"}\n{"slug": "a\\nb"}\n',
        "csv": 'slug\nfine\n../up\n"a\nb"\n',
    }[kind]
    world.a.commit(files)
    said = refused(world, f"plan.{kind}:2" if kind == "jsonl" else f"plan.{kind}:3")
    assert "'fine'" not in said


@pytest.mark.parametrize(
    ("slugs", "why"),
    [
        (["one", "one"], "twice"),
        (["One", "one"], "one"),
        (["stra\u00dfe", "strasse"], "strasse"),
        (["caf\u00e9", "cafe\u0301"], "caf"),
        (["a", "a.md/b"], "a.md"),
    ],
    ids=["equal", "in case", "in case folding", "in normal form", "a file that is a folder"],
)
def test_colliding_slugs_are_refused(world: World, slugs: list[str], why: str) -> None:
    world.a.configure({"article": ARTICLE}, slugs)
    refused(world, why, "plan.yaml:2")


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("../{slug}.md", ".."), ("/tmp/{slug}.md", "absolute"), (".git/{slug}.md", "git"),
        (".git/hooks/{slug}", "git"), ("out/{slug}/../x.md", ".."), ("out/one.md", "same output"),
        ("plan.yaml", "overwrite"), ("gitstate.yaml", "overwrite"), ("prompts/article.md", "overwrite"),
        ("prompts", "folder"), ("plan.yaml/{slug}", "overwrite"), ("out/{nobody}.md", "nobody"),
        ("out/{slug", "brace"), ("out/.gitstate-{slug}-1.tmp", "temporary"),
    ],
)  # fmt: skip
def test_hostile_output_patterns_are_refused(world: World, output: str, why: str) -> None:
    world.a.configure({"article": {**ARTICLE, "output": output}})
    refused(world, why)


@pytest.mark.parametrize(
    "value", ["..", "a/b", "../x", ".git", "", "a\nb", "con", "x.", "-x", None, ["a"], 1.5]
)
def test_a_field_in_an_output_path_obeys_the_rule_for_a_segment(world: World, value: Any) -> None:
    stages = {"article": {**ARTICLE, "output": "out/{topic}/{slug}.md"}}
    world.a.configure(stages, [{"slug": "one", "topic": value}])
    refused(world, "plan.yaml:1", "topic")


@pytest.mark.parametrize("where", ["the folder", "a folder above", "the file"])
def test_an_output_behind_a_symbolic_link_is_refused(world: World, tmp_path: Path, where: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = {"the folder": "deep/out", "a folder above": "deep", "the file": "deep/out/one.md"}[where]
    target = outside / "file" if where == "the file" else outside
    (world.a.path / path).parent.mkdir(parents=True, exist_ok=True)
    os.symlink(target, world.a.path / path)
    world.a.git("add", path)
    world.a.configure({"article": {**ARTICLE, "output": "deep/out/{slug}.md"}})
    refused(world, path, "symbolic link")
    assert list(outside.iterdir()) == []


def test_an_output_folder_that_becomes_a_link_while_the_command_runs_is_not_written_through(
    world: World, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    world.tell("one", before=f"rm -rf out && ln -s {outside} out", once=True)
    world.a.gitstate("run", "one")
    assert list(outside.iterdir()) == []
    (world.a.path / "out").unlink()
    world.a.run("one")
    assert world.paid() == {"one/article": 1}


@pytest.mark.parametrize("ignored", ["out/", "*.md", "/out/one.md", "**/out/**"])
def test_an_output_that_git_ignores_is_refused_with_the_place_of_the_pattern(
    world: World, ignored: str
) -> None:
    world.a.commit({".gitignore": f"# mine\n{ignored}\n!prompts/*.md\n"})
    refused(world, ".gitignore:2", "out/one.md")


# --- values that want to be programs ---------------------------------------------------------------------

ATTACKS = [
    "$(touch PWNED)", "`touch PWNED`", "'; touch PWNED; '", '"; touch PWNED; "', "\n touch PWNED \n",
    "| touch PWNED", "&& touch PWNED", "-o PWNED", "\\'; touch PWNED #", "${IFS}touch${IFS}PWNED", "> PWNED",
    "{{ cycler.__init__.__globals__.os.system('touch PWNED') }}", "a 'b' \"c\" $d `e` \\f *",
]  # fmt: skip


@pytest.mark.parametrize(
    "run",
    [
        "printf '%s' {{ topic }}",
        "printf '%s' \"{{ topic }}\"",
        "printf '%s' '{{ topic }}'",
        ["printf", "%s", "{{ topic }}"],
    ],
    ids=["bare", "in double quotes", "in single quotes", "without a shell"],
)
def test_a_field_reaches_the_command_as_it_is_and_executes_nothing(world: World, run: Any) -> None:
    items = [{"slug": f"item-{number}", "topic": attack} for number, attack in enumerate(ATTACKS)]
    stages = {"echo": {"run": run, "output": "out/{slug}.txt"}}
    world.a.configure(stages, items)
    world.a.run("-j", "2")
    assert [world.a.read(f"out/item-{n}.txt") for n in range(len(ATTACKS))] == ATTACKS
    assert not list(world.folder.rglob("PWNED"))


@pytest.mark.parametrize(
    "run", ["eval {{ topic }}", "sh -c {{ topic }}", 'bash -lc "{{ topic }}"', "echo `cat {{ topic }}`"]
)
def test_a_field_where_no_quoting_is_safe_is_refused_before_anything_runs(world: World, run: str) -> None:
    items = [{"slug": "one", "topic": "touch PWNED"}]
    world.a.configure({"echo": {"run": run, "output": "out/{slug}.txt"}}, items)
    done = world.a.gitstate("run")
    assert done.code in (1, 2)
    assert not world.a.has("out")
    assert not list(world.folder.rglob("PWNED"))


ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ slug.format.__globals__ }}",
    "{{ '{0.__class__}'.format(slug) }}",
    "{{ lipsum.__globals__['os'].popen('touch PWNED').read() }}",
    "{% for x in range(99999999999) %}x{% endfor %}",
    "{{ 'x' * 99999999999 }}",
    "{% include '/etc/passwd' %}",
    "{% include '../provider/secret' %}",
    "{% include '.git/config' %}",
    "{% set x = 'prompts/article.md' %}{% include x %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
]


@pytest.mark.parametrize("text", ESCAPES)
@pytest.mark.parametrize("key", ["prompt", "template"])
def test_a_template_reaches_neither_internals_nor_files_elsewhere(world: World, key: str, text: str) -> None:
    (world.home / "secret").write_text("secret\n")
    stages = {"article": {"run": "$PROVIDER", "output": "out/{slug}.md", key: "evil.md"}}
    world.a.commit({"evil.md": text + "\n", **configuration(stages, ["one"])})
    world.a.gitstate("plan")
    assert not list(world.folder.rglob("PWNED"))
    done = world.a.gitstate("run")
    assert done.code in (1, 2)
    assert "evil.md" in done.err
    assert not list(world.folder.rglob("PWNED"))
    assert not world.a.has("out")
    if key == "prompt":
        assert world.calls() == []


def test_reading_commands_execute_nothing_of_the_repository(world: World) -> None:
    touch = f"touch {world.folder}/PWNED"
    evil = f"import os\nos.system({touch!r})\n"
    stages = {"article": {**ARTICLE, "run": touch, "check": {"command": touch}}}
    files = dict.fromkeys(("yaml.py", "jinja2.py", "sitecustomize.py", "conftest.py"), evil)
    files["out/one.md"] = "to be verified\n"
    world.a.commit({**files, **configuration(stages, ["one"])})
    world.a.gitstate("accept", code=0)
    for command in (("plan",), ("plan", "--json"), ("status",), ("why", "one"), ("verify",)):
        world.a.gitstate(*command, code=0)
    assert not list(world.folder.rglob("PWNED"))


# --- all at once -----------------------------------------------------------------------------------------


def test_all_problems_are_shown_at_once_with_their_places(world: World) -> None:
    config = """\
gitstate: 1
plan: plan.yaml
modle: {name: tiny}
stages:
  outline:
    promt: prompts/outline.md
    run: [""]
    output: ../{slug}.md
  article:
    needs: [outlin]
    run: $PROVIDER
    output: out/{slug}.md
    timeout: soon
    check: {min_byte: 3, regex: "("}
"""
    world.a.commit({"gitstate.yaml": config})
    said = refused(world)
    places = {word.rstrip(":") for word in said.split() if word.startswith("gitstate.yaml:")}
    assert places >= {f"gitstate.yaml:{line}" for line in (3, 6, 7, 8, 10, 13, 14)}
    for word in ("'model'", "'prompt'", "'outline'", "min_bytes"):
        assert word in said


def test_problems_of_configuration_and_plan_are_shown_together(world: World) -> None:
    files = configuration({"article": {**ARTICLE, "promt": "x"}}, ["fine", "../up", "CON"])
    world.a.commit(files)
    refused(world, "'promt'", "gitstate.yaml:", "plan.yaml:2", "plan.yaml:3")


def test_problems_of_the_plan_are_all_shown_at_once(world: World) -> None:
    world.a.commit({"plan.yaml": "- slug: ../up\n- slug: fine\n- slug: CON\n- slug: fine\n- slug: 7\n"})
    said = refused(world)
    assert {f"plan.yaml:{n}" for n in (1, 3, 4, 5)} <= {word.rstrip(":") for word in said.split()}


def test_a_circle_and_a_plan_that_feeds_itself_are_refused(world: World) -> None:
    stages: dict[str, Any] = {
        "a": {"needs": ["b"], "run": "x", "output": "a/{slug}"},
        "b": {"needs": ["a"], "run": "x", "output": "b/{slug}"},
    }
    world.a.configure(stages)
    refused(world, "circle")
    stages = {"fr": {"run": "$PROVIDER", "output": "docs/{slug}.fr.md"}}
    world.a.commit({"docs/one.md": "x\n", **configuration(stages, [], each="docs/**/*.md")})
    refused(world, "docs")


def test_an_enormous_alias_is_refused_quickly(world: World) -> None:
    levels = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi"):
        levels.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    text = "\n".join(["gitstate: 1", "plan: plan.yaml", "vars:", *[f"  {line}" for line in levels]])
    stages = json.dumps({"article": ARTICLE})
    world.a.commit({"gitstate.yaml": f"{text}\nstages: {stages}\n"})
    refused(world, "gitstate.yaml")
