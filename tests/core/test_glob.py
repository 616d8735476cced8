"""Globs mean the same whole paths as a slow and obvious matcher says."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitstate.core import glob


def obvious(pattern: str, path: str) -> bool:
    """The meaning of a glob without character classes, by trying everything."""
    return folders(pattern.split("/"), path.split("/"))


def folders(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)
        return any(folders(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    return bool(path) and segment(pattern[0], path[0]) and folders(pattern[1:], path[1:])


def segment(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(segment(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and segment(pattern[1:], name[1:])


patterns = st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "*a", "*a*", "?b", "*a*b*", "a?*", "***"]),
                    min_size=1, max_size=5).map("/".join)  # fmt: skip
paths = st.lists(st.text("ab.", min_size=1, max_size=5), min_size=1, max_size=6).map("/".join)


@given(patterns, paths)
@example("**/a/**/b", "a/a/x/b/a/b")
@example("a/**", "a")
def test_a_glob_means_what_trying_everything_says(pattern: str, path: str) -> None:
    assert bool(glob.translate(pattern).fullmatch(path)) == obvious(pattern, path)
    assert bool(glob.translate(pattern).match(path)) == obvious(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("docs/**/*.md", "docs/a.md", True),
        ("docs/**/*.md", "docs/a/b/c.md", True),
        ("docs/*.md", "docs/a/b.md", False),
        ("docs/**", "docs/.hidden", True),
        ("*", ".hidden", True),
        ("a", "a\n", False),
        ("*", "a\nb", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a]x", "bx", True),
        ("[!a]b", "/b", False),
        ("[!a]", "\n", True),
        ("a[!x]b", "a/b", False),
        ("[]a]", "]", True),
        ("[!]a]", "b", True),
        ("[!]a]", "]", False),
        ("[a", "[a", True),
        ("[a-]", "-", True),
        ("[c-a]", "b", False),
        ("[!c-a]", "b", True),
        ("[!c-a]", "/", False),
        ("[\\d]", "1", False),
        ("[[|&]", "&", True),
        ("a/[x/]", "a/[x/]", True),
        ("A", "a", False),
        ("a.b", "axb", False),
        ("é*", "état", True),
    ],
)
def test_single_cases(pattern: str, path: str, matches: bool) -> None:
    assert bool(glob.translate(pattern).fullmatch(path)) is matches


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/" * 40 + "*x", "a/" * 400 + "b"), ("*a" * 60 + "b", "a" * 255),
        ("**/*a*/" * 30 + "x", "aaa/" * 200 + "y"),
    ],
)  # fmt: skip
def test_a_hostile_glob_comes_to_an_end(pattern: str, path: str) -> None:
    assert glob.translate(pattern).fullmatch(path) is None


@given(st.text("a*?[]!^-/\\.{", max_size=12), st.text("a-]/", max_size=6))
def test_any_text_is_a_glob(pattern: str, path: str) -> None:
    glob.translate(pattern).fullmatch(path)


def test_a_path_is_no_glob() -> None:
    assert not glob.is_glob("a/b.md")
    assert all(map(glob.is_glob, ("*", "a?", "[a]")))


@pytest.mark.parametrize(
    ("pattern", "folder"),
    [("docs/**/*.md", "docs/"), ("*.md", ""), ("a/b/c.md", "a/b/"), ("a/b*/c.md", "a/"), ("a.md", "")],
)
def test_the_constant_folder_ends_before_the_first_pattern(pattern: str, folder: str) -> None:
    assert glob.constant_folder(pattern) == folder
