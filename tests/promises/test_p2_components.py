"""P2: stale names exactly the components that moved, and only of the works that they belong to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.world import ARTICLE, World, configuration

STAGES = {
    "article": {
        "prompt": "prompts/wide.md",
        "template": "templates/wide.md",
        "run": "$PROVIDER",
        "inputs": ["data/shared/*.txt", "data/{slug}.txt"],
        "code": ["bin/tool.sh", "lib/*.py"],
        "output": "out/{slug}.md",
    },
    "plain": {"run": "echo {{ slug }} {{ topic }}", "output": "plain/{slug}.txt"},
    "named": {"run": ["echo", "{{ model.name }}"], "output": "named/{slug}.txt"},
}
ITEMS = [{"slug": "one", "topic": "sea"}, {"slug": "two", "topic": "sky"}]
TOP = {"model": {"name": "tiny", "temperature": 0}, "vars": {"tone": "dry"}}
SOURCES = {
    "prompts/wide.md": '{% include "prompts/part.md" %}Write of {{ topic }} in {{ vars.tone }} words.\n',
    "prompts/part.md": "Be brief.\n",
    "templates/wide.md": '# {{ slug }}\n{% include "templates/foot.md" %}{{ response }}',
    "templates/foot.md": "----\n",
    "data/shared/facts.txt": "a fact\n",
    "data/one.txt": "of one\n",
    "data/two.txt": "of two\n",
    "bin/tool.sh": "true\n",
    "lib/helper.py": "pass\n",
    "lib/README": "not code\n",
}


def stages(**changes: object) -> dict[str, dict[str, object]]:
    return {**STAGES, "article": {**STAGES["article"], **changes}}


def config(items: object = ITEMS, changed: object = STAGES, **top: object) -> dict[str, str]:
    return configuration(changed, items, **{**TOP, **top})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def wide_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("wide"), stages=STAGES, items=ITEMS, files=SOURCES, **TOP)
    world.a.run("-j", "2")
    assert set(world.a.states().values()) == {"done exact"}
    return world


@pytest.fixture
def wide(wide_once: World, tmp_path: Path) -> World:
    return wide_once.copy(tmp_path)


ARTICLES = ("one/article", "two/article")
MODELS = (*ARTICLES, "one/named", "two/named")
EVERY = (*MODELS, "one/plain", "two/plain")

MOVES = {
    "a field of one item": (
        config([{**ITEMS[0], "topic": "land"}, ITEMS[1]]), "plan", ("one/article", "one/named", "one/plain")
    ),
    "a new field of one item": (
        config([ITEMS[0], {**ITEMS[1], "year": 2026}]), "plan", ("two/article", "two/named", "two/plain")
    ),
    "a variable": (config(vars={"tone": "warm"}), "plan", EVERY),
    "the prompt": ({"prompts/wide.md": SOURCES["prompts/wide.md"] + "\n"}, "prompt", ARTICLES),
    "what the prompt includes": ({"prompts/part.md": "Be long.\n"}, "prompt", ARTICLES),
    "the template": ({"templates/wide.md": "{{ response }}"}, "template", ARTICLES),
    "what the template includes": ({"templates/foot.md": "====\n"}, "template", ARTICLES),
    "the model's name": (config(model={"name": "huge", "temperature": 0}), "model", MODELS),
    "the model's version": (config(model={**TOP["model"], "version": "2026-08-07"}), "model", MODELS),
    "a parameter": (config(model={"name": "tiny", "temperature": 0.5}), "model", MODELS),
    "a shared input": ({"data/shared/facts.txt": "another fact\n"}, "inputs", ARTICLES),
    "one more shared input": ({"data/shared/more.txt": "more\n"}, "inputs", ARTICLES),
    "an input of one item": ({"data/two.txt": "of two, corrected\n"}, "inputs", ("two/article",)),
    "the command": (config(changed=stages(run="$PROVIDER --hard")), "run", ARTICLES),
    "a file of code": ({"bin/tool.sh": "false\n"}, "run", ARTICLES),
    "a file that a glob of code matches": ({"lib/more.py": "pass\n"}, "run", ARTICLES),
    "several at once": (
        {**config(model={"name": "huge"}, changed=stages(run="$PROVIDER -")), "templates/foot.md": "~\n"},
        "template,model,run",
        ARTICLES,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MOVES)
def test_p2_stale_names_what_moved_and_only_for_the_works_concerned(wide: World, what: str) -> None:
    files, components, works = MOVES[what]
    wide.a.commit(files, "Change it")
    states = wide.a.states()
    if what == "several at once":
        assert {name: states[name] for name in works} == dict.fromkeys(works, f"pending stale {components}")
        return
    assert states == {
        name: f"pending stale {components}" if name in works else "done exact" for name in EVERY
    }


def write_config_otherwise() -> dict[str, str]:
    """The same configuration and plan in block style, other key order, with comments and an anchor's worth."""
    lines = [
        "# a comment",
        "plan: plan.yaml",
        "vars: {tone: dry}",
        "model:",
        "  temperature: 0",
        "  name: tiny",
    ]
    lines += ["stages:"]
    for name, stage in STAGES.items():
        lines.append(f"  {name}:  # {name}")
        lines += [f"    {key}: {json.dumps(value)}" for key, value in reversed(list(stage.items()))]
    rows = [f"- topic: {item['topic']}\n  slug: '{item['slug']}'\n" for item in ITEMS]
    return {"gitstate.yaml": "\n".join([*lines, "gitstate: 1", ""]), "plan.yaml": "".join(rows)}


STILL = {
    "the way it is written": write_config_otherwise(),
    "limits and checks": config(
        changed=stages(timeout="10m", silence="1m", ttl="14d", check={"min_bytes": 1})
    ),
    "where outputs go": {},
    "a stage more": config(changed={**STAGES, "more": {"run": "echo hi", "output": "more/{slug}"}}),
    "the group": config(group="topic"),
    "files that no glob matches": {"lib/README": "changed\n", "data/other/facts.txt": "no\n"},
    "an item's place": config(list(reversed(ITEMS))),
}


@pytest.mark.parametrize("what", STILL)
def test_p2_what_shapes_no_output_makes_nothing_stale(wide: World, what: str) -> None:
    files = STILL[what]
    if what == "where outputs go":
        wide.a.git("mv", "out/one.md", "one-here.md")
        wide.a.git("mv", "out/two.md", "two-here.md")
        files = config(changed=stages(output="{slug}-here.md"))
    wide.a.commit(files, "Change it")
    states = wide.a.states()
    assert {name: states[name] for name in EVERY} == dict.fromkeys(EVERY, "done exact")


def test_p2_stale_is_measured_against_the_nearest_receipt_on_the_content(tmp_path: Path) -> None:
    world = World(tmp_path, items=["one"], model={"name": "tiny"})
    world.tell(answer="always the same\n")
    world.a.run()
    world.a.commit({"prompts/article.md": "Second version for {{ slug }}.\n"})
    world.a.run()
    assert world.paid() == {"one/article": 2}
    world.a.commit({"prompts/article.md": "Write about {{ slug }}.\n"}, "Back to the first")
    world.a.configure({"article": ARTICLE}, ["one"], model={"name": "huge"})
    assert world.a.states() == {"one/article": "pending stale model"}
    world.a.commit({"prompts/article.md": "Second version for {{ slug }}.\n"}, "Again the second")
    assert world.a.states() == {"one/article": "pending stale model"}


def test_p2_a_file_of_each_concerns_its_own_item_alone(tmp_path: Path) -> None:
    stages = {"fr": {"prompt": "p.md", "run": "$PROVIDER", "output": "fr/{slug}.{ext}"}}
    files = {"docs/b.md": "b\n", "docs/deep/a.md": "a\n", "p.md": "Translate:\n{{ file }}"}
    world = World(tmp_path, stages=stages, items=[], each="docs/**/*.md", files=files)
    world.a.run()
    assert world.a.states() == {"b/fr": "done exact", "deep/a/fr": "done exact"}
    assert world.a.has("fr/deep/a.md")
    world.a.commit({"docs/b.md": "b, changed\n", "docs/c.md": "c\n"})
    assert world.a.states() == {
        "b/fr": "pending stale inputs",
        "c/fr": "pending new",
        "deep/a/fr": "done exact",
    }
