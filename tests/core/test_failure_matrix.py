"""The failure matrix: what is expected, what is judged to fail, and what a pass speaks for."""

from __future__ import annotations

from typing import Any

import pytest

from gitstate.core.drill import (
    CELLS,
    Judged,
    Kind,
    OtherWay,
    Seen,
    expect,
    is_full_pass,
    judge,
    kind_of,
    moved,
    shape,
)
from gitstate.core.identity import Sources
from gitstate.core.plan import Item, PlanSource
from gitstate.core.sabotage import Wrapping, encoded, narrowed, rewritten
from gitstate.core.workflow import workflow
from gitstate.edge.config import each_items
from gitstate.edge.yaml12 import parse
from gitstate.errors import Place

KINDS: tuple[Kind, ...] = ("plain", "evidence", "idempotent", "asks")
NAMES = [cell.name for cell in CELLS]


def good(kind: Kind, cell: str, **more: Any) -> Seen:
    """What is seen when all goes as it must."""
    must = expect(kind, cell)
    seen = Seen(
        struck=cell,
        first=-9 if cell.startswith("killed") else 75 if cell == "store" else 0,
        last=0,
        calls=must.calls,
        acts=must.acts or 0,
        asked=must.asked,
        second=0 if cell == "taken-over" else None,
    )
    return seen._replace(**more)


def judged(kind: Kind, cell: str, seen: Seen) -> Judged:
    return judge("one", "stage", kind, cell, seen, "2026-08-07T12:00:00Z")


@pytest.mark.parametrize("cell", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_must_be_passes(kind: Kind, cell: str) -> None:
    found = judged(kind, cell, good(kind, cell))
    assert (found.result, found.why) == ("pass", "")


@pytest.mark.parametrize("kind", ["evidence", "idempotent", "asks"])
@pytest.mark.parametrize("cell", NAMES)
def test_p11_an_effect_that_happened_twice_or_never_fails_in_every_cell(kind: Kind, cell: str) -> None:
    for acts in (0, 2):
        assert judged(kind, cell, good(kind, cell, acts=acts)).result == "fail"


@pytest.mark.parametrize("cell", NAMES)
def test_a_human_is_asked_only_about_what_nobody_can_tell(cell: str) -> None:
    assert [kind for kind in KINDS if expect(kind, cell).asked] == (
        [] if cell in ("killed-after", "store") else ["asks"]
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"calls": 3}, "3 calls instead of at most 2 calls."),
        ({"calls": 0}, "0 calls instead of"),
        ({"others": {"mail": 2}}, "mail: 2 acts in the world instead of 1."),
        ({"asked": True}, "A human was asked."),
        ({"second": 1}, "The clone that took over ended in 1."),
        ({"last": 75}, "The last run ended in 75."),
        ({"undone": ("stage failed new",)}, "Not done: stage failed new."),
        ({"torn": ("out/one.md",)}, "Not whole when it was killed: out/one.md."),
        ({"left": ("attempts/x.intent",)}, "Left over: attempts/x.intent."),
        ({"verified": 1}, "`verify` ended in 1."),
        ({"agrees": False}, "The second clone does not agree."),
    ],
)
def test_each_thing_that_does_not_hold_is_said(wrong: dict[str, Any], words: str) -> None:
    found = judged("plain", "taken-over", good("plain", "taken-over", words="Its last words.", **wrong))
    assert found.result == "fail"
    assert words in found.why
    assert found.why.endswith("(Its last words.)")


def test_p8_a_run_that_could_not_record_must_not_end_in_0() -> None:
    assert "ended in 0" in judged("plain", "store", good("plain", "store", first=0)).why


def test_p11_a_human_who_is_not_asked_fails_the_cell() -> None:
    seen = good("asks", "reply-lost", asked=False)
    assert judged("asks", "reply-lost", seen).why == "No human was asked."


def test_the_clone_that_takes_over_may_ask_where_only_a_human_can_tell() -> None:
    assert judged("asks", "taken-over", good("asks", "taken-over", second=3)).result == "pass"
    assert judged("idempotent", "taken-over", good("idempotent", "taken-over", second=3)).result == "fail"


def test_both_answers_of_a_human_settle_it() -> None:
    for other, result in (
        (OtherWay(True, 0, 0, ()), "pass"),
        (OtherWay(True, 0, 1, ()), "fail"),
        (OtherWay(False, 1, 2, ()), "pass"),
        (OtherWay(False, 1, 1, ()), "fail"),
        (OtherWay(False, 1, 2, ("stage failed new",)), "fail"),
    ):
        assert judged("asks", "timeout", good("asks", "timeout", other_way=other)).result == result


def test_what_was_not_tried_is_skipped_with_the_reason() -> None:
    for seen in (
        good("plain", "timeout", struck="", first=1),
        good("plain", "killed-before", first=0),
        good("evidence", "timeout", had_before=True),
    ):
        cell = seen.struck or "timeout"
        found = judged("plain", cell, seen)
        assert found.result == "skipped"
        assert found.why.startswith("It could not be tried:")
    assert judged("plain", "timeout", good("plain", "timeout", struck="")).seen == "-"


# --- what a pass speaks for ---------------------------------------------------------------------------------------

SOURCES = Sources(
    {"p.md": "sha1:1", "part.md": "sha1:2", "bin/x": "sha1:3", "s.json": "sha1:4"},
    {"p.md": ("part.md",)},
    {"bin/*": ("bin/x",)},
)
DATA: dict[str, Any] = {
    "gitstate": 1,
    "plan": "plan.yaml",
    "stages": {
        "draft": {
            "prompt": "p.md",
            "run": "x",
            "code": "bin/*",
            "output": "{slug}.md",
            "check": {"json_schema": "s.json"},
        },
        "publish": {"effect": True, "evidence": "y", "run": "x", "output": "p/{slug}.md", "needs": ["draft"]},
    },
}


def of(data: dict[str, Any], sources: Sources = SOURCES) -> dict[str, str]:
    return shape(workflow(data, {}, "gitstate.yaml"), sources)


def stage(name: str, **words: Any) -> dict[str, Any]:
    return {**DATA, "stages": {**DATA["stages"], name: {**DATA["stages"][name], **words}}}


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({**DATA, "plan": "plan.csv"}, "plan"),
        ({**DATA, "vars": {"a": 1}}, "vars"),
        ({**DATA, "rules": [{"id": "r", "when": {"exit": 3}, "category": "unknown"}]}, "rules"),
        (stage("draft", timeout="1m"), "stages.draft.timeout"),
        (stage("publish", settle="1m"), "stages.publish.effect"),
        (stage("publish", run="z"), "stages.publish.run"),
    ],
)
def test_a_change_of_the_configuration_is_named(data: dict[str, Any], name: str) -> None:
    assert moved(of(DATA), of(data)) == [name]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("p.md", "stages.draft.prompt"),
        ("part.md", "stages.draft.prompt"),
        ("bin/x", "stages.draft.code"),
        ("s.json", "stages.draft.check"),
    ],
)
def test_a_change_of_a_file_is_named(path: str, name: str) -> None:
    assert moved(of(DATA), of(DATA, SOURCES._replace(ids={**SOURCES.ids, path: "sha1:9"}))) == [name]


def test_another_plan_of_the_same_kind_changes_nothing() -> None:
    assert moved(of(DATA), of({**DATA, "plan": "more.yaml"})) == []


def test_a_full_pass_is_every_cell_of_every_stage() -> None:
    found = workflow(DATA, {}, "gitstate.yaml")
    cells = [
        judge(
            "one", stage.name, kind_of(stage), cell.name, good(kind_of(stage), cell.name), "2026-08-07T12:00:00Z"
        )
        for stage in found.stages
        for cell in CELLS
    ]  # fmt: skip
    assert is_full_pass(cells, found)
    assert not is_full_pass(cells[1:], found)
    assert not is_full_pass([cells[0]._replace(result="skipped"), *cells[1:]], found)
    assert not is_full_pass([], found)


# --- the configuration that is drilled ----------------------------------------------------------------------------


def rewrite(real: bool, **words: Any) -> dict[str, Any]:
    data = {**stage("publish", **words), "notify": "mail me", "budget": "1usd"}
    return rewritten(
        data, Wrapping(("python", "/a b/saboteur.py"), "reply", real), "p.jsonl", {"draft": 3.0}, "c"
    )


def test_nothing_of_the_users_runs_with_stand_ins() -> None:
    found = rewrite(False)
    assert "notify" not in found
    assert "budget" not in found
    assert found["stages"]["draft"]["run"] == ["python", "/a b/saboteur.py", "act"]
    assert found["stages"]["draft"]["timeout"] == 3.0
    assert "check" not in found["stages"]["draft"]
    assert found["stages"]["publish"]["evidence"] == ["python", "/a b/saboteur.py", "evidence"]
    assert found["stages"]["publish"]["settle"] == 0
    workflow(found, {}, "gitstate.yaml")


def test_real_commands_stand_between_the_saboteurs_halves() -> None:
    found = rewrite(True, run=["./x", "{{ slug }}"])
    assert "check" in found["stages"]["draft"]
    assert found["stages"]["draft"]["run"].startswith(
        "python '/a b/saboteur.py' before || exit $?\n(\nx\n) >"
    )
    assert found["stages"]["publish"]["run"] == ["python", "/a b/saboteur.py", "around", "./x", "{{ slug }}"]
    assert found["stages"]["publish"]["evidence"] == "y"
    assert found["vars"] == {"gitstate_drill": "c"}
    workflow(found, {}, "gitstate.yaml")


def test_the_written_configuration_is_yaml_with_the_same_values() -> None:
    data = {"a": 'é 🙂 \x7f " \\ud83d\\ude00 \t\n', "b": [1, 2.5, None, True, 1e-7]}
    document = parse(encoded(data).decode(), "x.yaml")
    assert document.root is not None
    assert document.value(document.root) == data
    assert not document.problems


@pytest.mark.parametrize("glob", ["docs/**/*.md", "**/*.md", "docs/*/*.md", "docs/a/!b[c].md"])
def test_a_plan_of_one_file_keeps_its_slug(glob: str) -> None:
    source = PlanSource("each", glob, Place("gitstate.yaml", 2))
    glob = glob.replace("!b[c]", "[!]b[[]c]")
    for file in ("docs/a/b.md", "docs/a/!b[c].md", "docs/a/?.md"):
        for item in each_items(source, [file]):
            plan, content = narrowed(source, item, "p.jsonl")
            assert content is None
            assert isinstance(plan, dict)
            others = [file, "docs/a/bb.md", "docs/b/b.md", "docs/x.md"]
            assert each_items(source._replace(path=plan["each"]), others) == [item]


def test_a_plan_of_one_item_keeps_its_fields() -> None:
    item = Item("one", {"slug": "one", "n": 1.5, "tags": ["é"]}, 3)
    assert narrowed(PlanSource("csv", "plan.csv", Place("x", 1)), item, "p.jsonl") == (
        "p.jsonl",
        b'{"slug": "one", "n": 1.5, "tags": ["\\u00e9"]}\n',
    )
