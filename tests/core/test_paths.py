"""Names that no system may be given: the rule for slugs, output paths and named files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core import paths

HOSTILE = [
    "", "..", ".", "a/../b", "./a", "/etc", "/etc/passwd", "a//b", "a/", "/", "a\nb", "a\0b", "a\x7f",
    "a\u0085b", ".git", "a/.git/hooks", ".GIT", ".Git/config", "git~1", "GIT~1/x", ".g\u200cit",
    ".git\ufeff", "\u200e.git/x", "a.", "a./b", "a ", " a", "a /b", "a/ b", "-rf", "a/-x", "con", "CON",
    "nul.txt", "a/aux.md", "COM1", "com¹.x", "lpt9", "prn . x", "conin$", "CONOUT$.log", "a\\b", "a:b",
    "a*", "a?", 'a"b', "a<b", "a>b", "a|b", "\ud800",
]  # fmt: skip
FINE = [
    "a", "a/b", "a/b.c", "topic-1/item_2", "état", "日本語/記事", "हिन्दी", "console", "com", "com10", "conx",
    "a.con", ".hidden", "..a", "...a", ".gitignore", "git", "a b", "x~1", "a'b", "a{b", "a%20b", "a,b",
    "(a)", "ſ", "🙂", "auxiliary", "nulls/x",
]  # fmt: skip


@pytest.mark.parametrize("slug", HOSTILE)
def test_p5_hostile_slugs_are_refused(slug: str) -> None:
    assert paths.slug_problem(slug)
    assert paths.path_problem(slug)


@pytest.mark.parametrize("slug", FINE)
def test_odd_but_harmless_slugs_are_fine(slug: str) -> None:
    assert paths.slug_problem(slug) is None
    assert paths.path_problem(slug) is None


@given(st.text(st.sampled_from("aCcOoNn.gitGIT~1 -/:é\u200c\u0301¹"), max_size=12))
def test_the_quick_look_never_passes_what_the_rule_refuses(text: str) -> None:
    if paths.is_plain(text, 1000):
        assert paths._segments_problem(text) is None


@given(st.text(max_size=20))
def test_any_text_gets_an_answer(text: str) -> None:
    for judge in (paths.slug_problem, paths.segment_problem, paths.path_problem, paths.source_problem):
        assert judge(text) is None or judge(text)


def test_a_segment_is_not_two() -> None:
    assert paths.segment_problem("a/b") == "holds '/'"
    assert paths.segment_problem("a") is None


@pytest.mark.parametrize(
    ("slug", "fine"), [("a" * 200, True), ("a" * 201, False), ("é" * 100, True), ("é" * 101, False)]
)
def test_a_slug_has_200_bytes_at_most(slug: str, fine: bool) -> None:
    assert (paths.slug_problem(slug) is None) is fine


def test_an_output_path_fits_into_file_systems() -> None:
    assert paths.path_problem("a" * 255) is None
    assert "255" in (paths.path_problem("a" * 256) or "")
    assert "255" in (paths.path_problem("é" * 128) or "")
    assert paths.path_problem("/".join(["a" * 100] * 10)) is None
    assert "1024" in (paths.path_problem("/".join(["a" * 100] * 11)) or "")


def test_an_output_is_not_named_like_a_temporary_file_of_ours() -> None:
    assert "temporary" in (paths.path_problem("a/.gitstate-0123-1.tmp") or "")


@pytest.mark.parametrize("path", ["", "/a", "a\\b", "a//b", "a/", "../a", "./a", ".git/config", "a\n"])
def test_named_files_stay_in_the_repository(path: str) -> None:
    assert paths.source_problem(path)


@pytest.mark.parametrize("path", ["a", "-a", "what?.md", "a b ", "con", "docs/**/*.md", "[a]", "a:b"])
def test_named_files_may_have_the_names_that_git_allows(path: str) -> None:
    assert paths.source_problem(path) is None


def test_pattern_parts_join_to_the_pattern() -> None:
    assert paths.pattern_parts("a/{b}/{slug}.md") == (("a/", "/", ".md"), ("b", "slug"))
    assert paths.pattern_parts("a") == (("a",), ())


@pytest.mark.parametrize("pattern", [
    "{", "}", "a{b", "a}b", "{{slug}}", "{}", "{ }", "{ slug }", "{a{b}}", "../{slug}", "{slug}/",
    "a/./{slug}", ".git/{slug}",
])  # fmt: skip
def test_bad_patterns_are_refused(pattern: str) -> None:
    assert paths.pattern_problem(pattern)


@pytest.mark.parametrize(
    ("one", "other"), [("A", "a"), ("É", "é"), ("E\u0301", "é"), ("STRASSE", "straße"), ("ǅ", "ǆ")]
)
def test_names_collide_whatever_their_case_and_form(one: str, other: str) -> None:
    assert paths.fold(one) == paths.fold(other)


@pytest.mark.parametrize(
    ("patterns", "folders"),
    [
        (["content/{topic}/{slug}.md"], ["content/"]),
        (["{slug}.md", "{topic}/x.md", "README.md"], []),
        (["a/b/c-{slug}.md", "a/fixed.md"], ["a/"]),
        (["a/{slug}.md", "ab/{slug}.md", "a/b/{slug}.md"], ["a/", "ab/"]),
    ],
)
def test_the_folders_of_outputs_are_those_that_their_patterns_begin_with(
    patterns: list[str], folders: list[str]
) -> None:
    assert paths.managed_folders(patterns) == folders
