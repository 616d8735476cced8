"""Plans: output paths, and everything in which two works could meet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core import paths, validate
from gitstate.core.plan import Item, Plan, Value
from gitstate.errors import ConfigError


def item(slug: str, line: int = 1, file: Any = None, **fields: Value) -> Item:
    return Item(slug, {"slug": slug, **fields}, line, file)


def items(*slugs: str) -> list[Item]:
    return [item(slug, line) for line, slug in enumerate(slugs, 1)]


def plan(of: list[Item], *outputs: str | list[str], each: str = "", group: str = "", **keys: Any) -> Plan:
    """A plan with one stage for each of `outputs`, called a, b, ...; `keys` go to the first."""
    stages = {name: {"run": "cat", "output": output} for name, output in zip("abcdef", outputs)}
    stages["a"].update(keys)
    data: dict[str, Any] = {"gitstate": 1, "plan": {"each": each} if each else "plan.yaml", "stages": stages}
    if group:
        data["group"] = group
    return validate.plan(validate.workflow(data, {("stages", "a"): 7}, "gitstate.yaml"), of)


def problems(of: list[Item], *outputs: str | list[str], **keys: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(of, *outputs, **keys)
    return str(caught.value)


def test_outputs_are_formatted_for_each_item_and_stage() -> None:
    found = plan(
        [item("a/b", topic="t", n=7), item("c", topic="é", n=-1)],
        ["x/{slug}.md", "{topic}/n{n}%s.json"],
        "y/{slug}/{topic}/{slug}",
    )
    assert found.outputs == (
        (("x/a/b.md", "t/n7%s.json"), ("y/a/b/t/a/b",)),
        (("x/c.md", "é/n-1%s.json"), ("y/c/é/c",)),
    )
    assert [entry.slug for entry in found.items] == ["a/b", "c"]


def test_an_empty_plan_is_valid_and_has_no_works() -> None:
    assert plan([], "{slug}.md", group="topic").outputs == ()


def test_one_item_may_have_an_output_without_placeholder() -> None:
    assert plan(items("a"), "README.md").outputs == ((("README.md",),),)


def test_paths_are_in_nfc_even_where_their_pieces_join() -> None:
    assert plan([item("a", x="\u0301b")], "e{x}/{slug}").outputs == ((("éb/a",),),)


@pytest.mark.parametrize("slug", ["..", "/etc", "a\nb", ".git/hooks", "a.", "nul", "-rf", "a//b", "a\\b"])
def test_p5_hostile_slugs_stop_the_plan_with_their_line(slug: str) -> None:
    said = problems([item("fine", 1), item(slug, 2)], "{slug}.md")
    assert "plan.yaml:2: The slug" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("first", "second"), [("a", "a"), ("A", "a"), ("é", "É"), ("straße", "STRASSE"), ("x/Y", "X/y")]
)
def test_p5_slugs_that_are_one_to_some_systems_are_named_with_both_lines(first: str, second: str) -> None:
    said = problems([item(first, 3), item("other", 4), item(second, 9)], "{slug}.md")
    assert "plan.yaml:3 and plan.yaml:9" in said
    assert said.count("\n") == 0


def test_p5_outputs_that_collide_are_named_with_both_lines() -> None:
    said = problems([item("a", 3, t="X"), item("b", 5, t="x")], "out/{t}.md")
    assert "'a' (plan.yaml:3) and 'b' (plan.yaml:5) have the same output 'out/x.md'" in said
    assert "Put {slug} into the pattern 'out/{t}.md'" in said


def test_an_output_without_placeholder_for_several_items_suggests_the_slug() -> None:
    said = problems(items(*map(str, range(100))), "out.md")
    assert "Put {slug} into the pattern 'out.md'" in said
    assert "And 79 more like this" in said
    assert said.count("\n") == 19


def test_p5_a_file_cannot_be_the_folder_of_another() -> None:
    said = problems(items("a", "a/b"), "out/{slug}")
    assert "plan.yaml:1" in said
    assert "is also a folder: of 'out/a/b', an output of 'a/b' (plan.yaml:2)" in said
    assert plan(items("a", "a/b"), "out/{slug}.md")


def test_p5_two_stages_cannot_write_the_same_path() -> None:
    said = problems(items("x"), "out/{slug}", "OUT/{slug}")
    assert "in the stages 'a' and 'b'" in said
    assert "Change one of the patterns 'out/{slug}' and 'OUT/{slug}'" in said


def test_paths_of_one_pattern_that_join_to_the_same_ask_for_another_slug() -> None:
    said = problems([item("a", 1, t="b-c"), item("a-b", 2, t="c")], "{slug}-{t}")
    assert "Change one of the slugs" in said


@pytest.mark.parametrize(
    ("output", "keys", "what"),
    [
        ("gitstate.yaml", {}, "the configuration"),
        ("GitState.yaml/{slug}", {}, "the configuration"),
        ("plan.yaml", {}, "the plan"),
        ("prompts/{slug}", {"prompt": "prompts/x"}, "the prompt of the stage 'a'"),
        ("{slug}", {"template": "x/y"}, "is also a folder: of 'x/y'"),
        ("t.md/{slug}", {"template": "t.md"}, "the template of the stage 'a'"),
        ("s/{slug}", {"check": {"json_schema": "s"}}, "the JSON Schema of the stage 'a'"),
        ("bin/{slug}", {"code": ["bin"]}, "code of the stage 'a'"),
        ("bin/{slug}", {"code": ["bin/*"]}, "would be read as code of the stage 'a'"),
        ("data/{slug}.csv", {"inputs": "data/*.csv"}, "would be read as one of the inputs"),
        (
            "data/{slug}.csv",
            {"inputs": "data/{slug}.csv"},
            "would be read as one of the inputs",
        ),
        (
            "data/{slug}/y",
            {"inputs": ["d", "data/{slug}/*"]},
            "would be read as one of the inputs",
        ),
    ],
)
def test_p5_an_output_never_meets_a_source(output: str, keys: dict[str, Any], what: str) -> None:
    assert what in problems(items("x"), output, **keys)


def test_inputs_may_hold_the_outputs_of_stages_that_are_needed() -> None:
    said = problems(items("x"), "out/{slug}", "in/{slug}", inputs="in/**")
    assert "inputs of the stage 'a'" in said
    data: dict[str, Any] = {
        "gitstate": 1,
        "plan": "plan.yaml",
        "stages": {
            "c": {
                "run": "x",
                "output": "c/{slug}",
                "needs": "b",
                "inputs": ["a/**", "b/{slug}", "src/{slug}/*"],
            },
            "b": {"run": "x", "output": "b/{slug}", "needs": "a"},
            "a": {"run": "x", "output": "a/{slug}"},
        },
    }
    assert validate.plan(validate.workflow(data, {}, "gitstate.yaml"), items("x")).outputs


def test_inputs_with_placeholders_need_fields_that_can_stand_in_a_path() -> None:
    of = [item("a", 1, t="x"), item("b", 2, t=["x"])]
    assert "plan.yaml:2: The input 'src/{t}.txt' needs the field 't'" in problems(
        of, "{slug}", inputs="src/{t}.txt"
    )
    assert "No item has the field 'u' of the input 'src/{u}'" in problems(of, "{slug}", inputs="src/{u}")
    assert plan(of, "{slug}", inputs=["src/{slug}.txt", "src/{slug}/**"])


def test_p5_outputs_are_never_items_of_the_next_run() -> None:
    of = [item("a", 0, "docs/a.md", ext="md"), item("b", 0, "docs/b.md", ext="md")]
    said = problems(of, "docs/{slug}.fr.md", each="docs/**/*.md")
    assert "would be read as a new item by {each: 'docs/**/*.md'}" in said
    assert "file of the item 'a'" in problems(of, "docs/{slug}.MD", each="docs/*.md")
    assert plan(of, "fr/{slug}.{ext}", each="docs/**/*.md").outputs[0] == (("fr/a.md",),)


def test_files_with_one_slug_are_named() -> None:
    said = problems([item("a", 0, "d/a.md"), item("a", 0, "d/a.txt")], "out/{slug}", each="d/*")
    assert "file 'd/a.md' and file 'd/a.txt'. Narrow the glob." in said


def test_a_field_that_no_item_has_is_one_mistake_of_the_stage() -> None:
    said = problems([item("a", 1, topic="x"), item("b", 2, topic="x")], "{topc}/{slug}")
    assert said.startswith("gitstate.yaml:7: No item has the field 'topc' of the output '{topc}/{slug}'.")
    assert said.endswith("Did you mean 'topic'?")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, "nothing (null)"),
        (True, "true"),
        (1.5, "the number 1.5"),
        (["x"], "a list"),
        ("a/b", "holds '/'"),
        ("..", "is '..'"),
        ("", "is empty"),
        ("a:b", "holds :"),
    ],
)
def test_a_field_in_a_path_is_one_segment(value: Value, what: str) -> None:
    said = problems([item("a", 4, t=value), item("b", 5, t="x")], "{t}/{slug}")
    assert said.startswith("plan.yaml:4: ")
    assert what in said


def test_one_is_not_true_after_it_was_judged_as_a_number() -> None:
    assert "is true" in problems([item("a", 1, t=1), item("b", 2, t=True)], "{t}/{slug}")


def test_a_missing_field_is_named_with_the_nearest() -> None:
    said = problems([item("a", 1, topic="x"), item("b", 2, topik="x")], "{topic}/{slug}")
    assert "plan.yaml:2" in said
    assert "Did you mean 'topik'?" in said


@pytest.mark.parametrize(
    ("output", "fields"),
    [
        (".{t}/{slug}", {"t": "git"}),
        ("{t}n/{slug}", {"t": "co"}),
        ("x/{slug}.{t}", {"t": "-"}),
        ("-{slug}", {}),
    ],
)
def test_p5_a_path_is_judged_as_a_whole(output: str, fields: dict[str, Value]) -> None:
    assert problems([item("a", 3, **fields)], output)


def test_a_path_that_is_git_only_when_joined_is_refused() -> None:
    said = problems([item("a", 3, t="git")], ".{t}/{slug}")
    assert said.startswith("plan.yaml:3: The output '.git/a' of the stage 'a'")


def test_the_group_is_a_field_that_some_item_has() -> None:
    of = [item("a", 1, topic="x"), item("b", 2)]
    assert plan(of, "{slug}", group="topic").workflow.group == "topic"
    assert "No item has the field 'topik'" in problems(of, "{slug}", group="topik")


def test_all_mistakes_are_shown_at_once() -> None:
    of = [
        item("a", 1, t="x"),
        item("A", 2, t="x"),
        item("..", 3, t="x"),
        item("b", 4, t=[]),
        item("c", 5, t="x"),
    ]
    said = problems(of, "{t}", "{slug}/{u}", group="g").split("\n")
    assert [line.split(": ")[0] for line in said] == [
        "gitstate.yaml", "gitstate.yaml", "plan.yaml:2", "plan.yaml:3", "plan.yaml:4", "plan.yaml:5",
    ]  # fmt: skip


def test_a_report_ends_somewhere() -> None:
    said = problems([item("..", line) for line in range(1, 500)], "{slug}").split("\n")
    assert len(said) == 101
    assert "399 more mistakes" in said[-1]


slugs = st.lists(
    st.text("aAb/.é\u0301", min_size=1, max_size=5).map(lambda text: text.strip("./") or "x"), max_size=6
)
patterns = st.lists(st.sampled_from([
    "{slug}", "o/{slug}", "{slug}/i", "a/{slug}.md", "a", "{t}/{slug}", "{slug}-{t}",
]),
                    min_size=1, max_size=3, unique=True)  # fmt: skip


@given(slugs, patterns, st.lists(st.sampled_from(["t", "T", "u"]), min_size=6, max_size=6))
def test_no_plan_has_two_works_that_meet(names: list[str], outputs: list[str], topics: list[str]) -> None:
    of = [item(name, line, t=topic) for line, (name, topic) in enumerate(zip(names, topics), 1)]
    try:
        found = plan(of, *outputs)
    except ConfigError:
        return
    every = [paths.fold(path) for row in found.outputs for stage in row for path in stage]
    assert len(set(every)) == len(every) == len(of) * len(outputs)
    assert not any(one.startswith(other + "/") for one in every for other in every)
