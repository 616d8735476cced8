"""Configuration and plan files: values by each format's rules, exact lines, nothing but ConfigError."""

from __future__ import annotations

import gc
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitstate.core.plan import Item, PlanSource
from gitstate.edge import config
from gitstate.errors import ConfigError, Place

WHOLE = b"""gitstate: 1
plan: plan.yaml
model: {name: m}
stages:
  a:
    prompt: prompts/a.md
    run: llm -m {{ model.name }}
    output: out/{slug}.md
"""


def source(kind: str) -> PlanSource:
    return PlanSource(kind, f"plan.{kind}", Place("gitstate.yaml", 2))


def items(kind: str, text: str | bytes) -> list[Item]:
    return config.read_items(source(kind), text.encode() if isinstance(text, str) else text)


def problems(kind: str, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        items(kind, text)
    return str(caught.value)


def wrong(text: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        config.read_workflow(text, "gitstate.yaml")
    return str(caught.value)


def test_the_configuration_is_read_with_its_places() -> None:
    found = config.read_workflow(WHOLE, "sub/gitstate.yaml")
    assert found.path == "sub/gitstate.yaml"
    assert found.source == PlanSource("yaml", "plan.yaml", Place("sub/gitstate.yaml", 2))
    assert found.stages[0].place == Place("sub/gitstate.yaml", 5)
    assert found.stages[0].model == {"name": "m"}


@pytest.mark.parametrize(
    "change", [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n")]
)
def test_p3_line_endings_and_a_byte_order_mark_change_nothing(change: object) -> None:
    assert callable(change)
    assert config.read_workflow(change(WHOLE), "gitstate.yaml") == config.read_workflow(
        WHOLE, "gitstate.yaml"
    )
    plans = {
        "yaml": b'- slug: a\n  t: |\n    x\n    y\n- slug: b\n  t: "x\n\n    y"\n',
        "jsonl": b'{"slug": "a"}\n\n{"slug": "b"}\n',
        "csv": b'slug,t\na,"x\ny"\nb,z\n',
    }
    for kind, text in plans.items():
        assert items(kind, change(text)) == items(kind, text)


def test_all_mistakes_of_a_configuration_are_shown_at_once_at_their_lines() -> None:
    text = (
        WHOLE.replace(b"plan:", b"plann:").replace(b"prompt:", b"promt:")
        + b"    output: x\n    timeout: 5x\n"
    )
    said = wrong(text).split("\n")
    assert [line.split(": ")[0] for line in said] == [
        "gitstate.yaml", "gitstate.yaml:2", "gitstate.yaml:6", "gitstate.yaml:9", "gitstate.yaml:10",
    ]  # fmt: skip


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n", b"\xef\xbb\xbf"])
def test_p6_an_empty_configuration_is_a_mistake(text: bytes) -> None:
    assert "gitstate.yaml" in wrong(text)


def test_p6_bytes_that_are_no_text_are_a_mistake_with_its_line() -> None:
    assert wrong(b"a: 1\nb: \xff\n").startswith("gitstate.yaml:2: It is not UTF-8: the byte 0xff")
    assert wrong(b"a: 1\n\nb: \0\n").startswith("gitstate.yaml:3: It holds a NUL")
    assert problems("csv", "slug\na\nb\0\n").startswith("plan.csv:3: It holds a NUL")


def test_yaml_items_are_mappings_or_slugs() -> None:
    found = items("yaml", "# plan\n- a\n- slug: b\n  n: 1\n\n-\n  n: null\n  slug: c\n")
    assert found == [
        Item("a", {"slug": "a"}, 2),
        Item("b", {"slug": "b", "n": 1}, 3),
        Item("c", {"n": None, "slug": "c"}, 7),
    ]


@pytest.mark.parametrize("text", ["", "[]", "items:\n", "items: []", "# none"])
def test_an_empty_yaml_plan_has_no_items(text: str) -> None:
    assert items("yaml", text) == []


def test_items_may_stand_under_a_key() -> None:
    assert [item.line for item in items("yaml", "items:\n  - a\n  - b\n")] == [2, 3]
    assert "plan.yaml:2: The key 'more' is not known here" in problems("yaml", "items: [a]\nmore: 1\n")


@pytest.mark.parametrize(
    "text", ["a", "1", "slug: a", "items: 5", "{}", "!!set {a}", "[[a]]", "items: {a: 1}"]
)
def test_a_yaml_plan_is_a_list(text: str) -> None:
    assert "must be" in problems("yaml", text) or "tag" in problems("yaml", text)


@pytest.mark.parametrize(
    ("slug", "found"), [("1", "the whole number 1"), ("true", "true"), ("~", "nothing"), ("1.5", "1.5")]
)
def test_a_slug_that_yaml_does_not_read_as_text_is_to_be_quoted(slug: str, found: str) -> None:
    for text in (f"- slug: {slug}\n", f"- {slug}\n"):
        said = problems("yaml", text)
        assert found in said
        assert "Put it in quotes." in said
    assert items("yaml", f"- slug: '{slug}'\n")[0].slug == slug


def test_no_and_dates_are_slugs() -> None:
    assert [item.slug for item in items("yaml", "- no\n- 2026-08-07\n- slug: on\n")] == [
        "no",
        "2026-08-07",
        "on",
    ]


def test_mistakes_of_items_are_shown_at_once_with_those_of_slugs() -> None:
    said = problems(
        "yaml", "- a\n- a\n- slug: [x]\n- title: x\n- slg: b\n- '': 1\n  slug: c\n- null\n"
    ).split("\n")
    assert [line.split(": ")[0] for line in said] == [f"plan.yaml:{line}" for line in (2, 3, 4, 5, 6, 8)]
    assert "Did you mean 'slg'?" in said[3]


def test_json_lines_have_exact_lines() -> None:
    found = items("jsonl", '\n{"slug": "a", "n": [1.5, true, null]}\n  \n{"slug": "e\\u0301"}')
    assert found == [Item("a", {"slug": "a", "n": [1.5, True, None]}, 2), Item("é", {"slug": "é"}, 4)]
    assert items("jsonl", "") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"slug": "b"', "not JSON"),
        ('{"slug": "b"} x', "not JSON"),
        ("[1]", "must be a JSON object, not a list"),
        ('"b"', "must be a JSON object"),
        ('{"slug": "b", "slug": "c"}', "the key 'slug' is there twice"),
        ('{"slug": "b", "x": {"y": 1, "y": 2}}', "'y' is there twice"),
        ('{"slug": "b", "x": NaN}', "NaN is not a number"),
        ('{"slug": "b", "x": -Infinity}', "-Infinity is not a number"),
        ('{"slug": "b", "x": 1e999}', "not a finite number"),
        ('{"slug": "b", "x": "\\ud800"}', "surrogate"),
        ('{"slug": "b", "\\u00e9": 1, "e\\u0301": 2}', "the same"),
        ('{"slug": "b", "x": ' + "9" * 5000 + "}", "cannot be used"),
        ('{"slug": "b", "x": ' + "[" * 200 + "]" * 200 + "}", "nested"),
        ('{"slug": "b", "x": ' + "[" * 200_000 + "]" * 200_000 + "}", "nested"),
        ('{"slug": 5}', "A slug must be text, not the whole number 5"),
        ('{"title": "b"}', "no slug"),
        ('{"Slug": "b"}', "Did you mean 'Slug'?"),
        ('{"slug": "b", "": 1}', "empty name"),
    ],
)
def test_json_lines_that_are_no_item_are_named(line: str, words: str) -> None:
    said = problems("jsonl", '{"slug": "a"}\n' + line + "\n")
    assert said.startswith("plan.jsonl:2: ")
    assert words in said


def test_csv_values_are_text_and_lines_are_exact() -> None:
    found = items("csv", '\nslug,title,n\na,"x, ""y""\nz",007\n\ne\u0301,,true\n')
    assert found == [
        Item("a", {"slug": "a", "title": 'x, "y"\nz', "n": "007"}, 3),
        Item("é", {"slug": "é", "title": "", "n": "true"}, 6),
    ]
    assert items("csv", "") == items("csv", "slug,x\n") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slug,t\na\n", "plan.csv:2: The row has 1 values, but there are 2 columns."),
        ('slug,t\n"a\nb",x\na,b,c\n', "plan.csv:4: The row has 3 values"),
        ('slug,t\na,"x\n', "plan.csv:2: This is not CSV"),
        ('slug,t\na,b\nc,"x"y\n', "plan.csv:3: This is not CSV"),
        ("slug\na\rb,c\n", "plan.csv:3: The row has 2 values"),
        ("title,t\na,b\n", "plan.csv:1: There is no column 'slug'"),
        ("slg,t\na,b\n", "Did you mean 'slg'?"),
        ("slug;t\na;b\n", "Separate columns by commas"),
        ("slug,t,t\n", "two columns 't'"),
        ("slug,\u00e9,e\u0301\n", "two columns 'é'"),
        ("slug,\n", "empty name"),
    ],
)
def test_mistakes_in_csv_are_named(text: str, words: str) -> None:
    assert words in problems("csv", text)


def each(glob: str, *paths: str) -> list[Item]:
    return config.each_items(PlanSource("each", glob, Place("gitstate.yaml", 2)), paths)


def test_each_file_is_an_item_in_the_order_of_its_bytes() -> None:
    found = each(
        "docs/**/*.*", "docs/z.md", "docs/é.md", "docs/Z.md", "docs/a/b.tar.gz", "other/x.md", "docs/none"
    )
    assert found == [
        Item("Z", {"slug": "Z", "ext": "md"}, 0, "docs/Z.md"),
        Item("a/b.tar", {"slug": "a/b.tar", "ext": "gz"}, 0, "docs/a/b.tar.gz"),
        Item("z", {"slug": "z", "ext": "md"}, 0, "docs/z.md"),
        Item("é", {"slug": "é", "ext": "md"}, 0, "docs/é.md"),
    ]


@pytest.mark.parametrize(
    ("path", "slug", "ext"),
    [
        (".env", ".env", ""),
        ("a.d/b", "a.d/b", ""),
        ("a.", "a", ""),
        ("..x", "..x", ""),
        ("a.b.c", "a.b", "c"),
    ],
)
def test_the_slug_is_the_path_without_its_last_suffix(path: str, slug: str, ext: str) -> None:
    assert [(item.slug, item.fields["ext"]) for item in each("**", path)] == [(slug, ext)]


def test_each_keeps_the_files_own_name_and_gives_the_slug_in_nfc() -> None:
    assert each("*.md", "e\u0301.md") == [Item("é", {"slug": "é", "ext": "md"}, 0, "e\u0301.md")]


def test_p5_a_file_name_that_is_no_utf8_is_refused_by_the_plan() -> None:
    text = b"gitstate: 1\nplan: {each: '*.md'}\nstages: {a: {run: x, output: 'out/{slug}'}}\n"
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        config.load(text, "gitstate.yaml", lambda plan: config.each_items(plan, ["a\udcff.md", "b.md"]))
    str(caught.value).encode()


def test_load_makes_a_plan_of_both_files() -> None:
    found = config.load(WHOLE, "gitstate.yaml", lambda plan: config.read_items(plan, b"- x\n"))
    assert found.outputs == ((("out/x.md",),),)


def test_load_shows_the_mistakes_of_both_files_at_once() -> None:
    broken = WHOLE.replace(b"prompt:", b"promt:")
    for text, plan_text, lines in (
        (broken, b"- x\n- X\n- slug: 1\n", ["gitstate.yaml:6", "plan.yaml:2", "plan.yaml:3"]),
        (broken, b"- x\n- X\n", ["gitstate.yaml:6", "plan.yaml:2"]),
        (
            broken.replace(b"plan: plan.yaml", b"x: 1"),
            b"",
            ["gitstate.yaml", "gitstate.yaml:2", "gitstate.yaml:6"],
        ),
        (WHOLE, b"- x\n- slug: 1\n", ["plan.yaml:2"]),
    ):
        with pytest.raises(ConfigError) as caught:
            config.load(text, "gitstate.yaml", lambda plan, text=plan_text: config.read_items(plan, text))  # type: ignore[misc]
        assert [str(problem.place) for problem in caught.value.problems] == lines


def test_reading_leaves_the_garbage_collector_as_it_was() -> None:
    assert gc.isenabled()
    items("yaml", "- a")
    assert gc.isenabled()
    gc.disable()
    try:
        problems("yaml", "1")
        assert not gc.isenabled()
    finally:
        gc.enable()


pieces = st.lists(
    st.sampled_from([
        b"gitstate: 1\n", b"plan: plan.yaml\n", b"stages:\n", b"  a:\n", b"    run: x\n", b"    output: ",
        b"{slug}", b"- ", b"slug: ", b"a", b"\n", b": ", b"{", b"}", b"[", b"]", b"&a ", b"*a", b"<<",
        b"!!int ", b"!x ", b"!!str ", b"'", b'"', b"\\u", b"d800", b"|", b">", b"\t", b"\0", b"\xff",
        b"\xef\xbb\xbf", b"\r", b"#", b"%YAML 1.2\n", b"---\n", b"...\n", b"1e999", b".inf", b"0x", b"? ",
        b",", b"slug,t\n", b'{"slug": ', b"NaN", b"9" * 5000, b"\xc2\x85", b"\xe2\x80\xa8",
    ]), max_size=25,
).map(b"".join)  # fmt: skip


def told(error: ConfigError) -> None:
    """An error that can be printed and says something."""
    assert error.problems
    assert str(error).encode()


@given(st.binary(max_size=60) | pieces)
@example(b"&a [*a]")
@example(b'"\\U99999999"')
def test_p6_any_bytes_are_read_or_refused_by_config_error(text: bytes) -> None:
    for kind in ("yaml", "jsonl", "csv"):
        try:
            found = items(kind, text)
        except ConfigError as error:
            told(error)
        else:
            json.dumps([dict(item.fields) for item in found], allow_nan=False).encode()
    try:
        config.read_workflow(text, "gitstate.yaml")
    except ConfigError as error:
        told(error)
