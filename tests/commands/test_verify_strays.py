"""`gitstate verify` names what lies in the outputs' folders and belongs to nobody. It changes and runs nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support.world import ARTICLE, CHAIN, Clone, World, until

NOBODYS = "no stage makes it or reads it; the folder is that of a stage's outputs"


def findings(clone: Clone, code: int = 0) -> list[tuple[str, str]]:
    done = clone.gitstate("verify", "--json", code=code)
    return [(found["level"], found["subject"]) for found in json.loads(done.out)["findings"]]


def finished(folder: Path, **more: Any) -> World:
    world = World(folder, **more)
    world.a.run()
    assert findings(world.a) == []
    return world


def test_a_file_in_a_managed_folder_that_no_stage_declares_is_a_notice(tmp_path: Path) -> None:
    a = finished(tmp_path).a
    a.write("out/draft.md", "x")
    a.write("out/deep/er/notes.txt", "x")
    a.write("elsewhere.md", "x")
    a.commit({"out/tracked.md": "x", "out/gone.md": "x", "out/.gitignore": "*.log\n"})
    a.write("out/run.log", "x")
    (a.path / "out/gone.md").unlink()
    names = ["out/deep/er/notes.txt", "out/draft.md", "out/gone.md", "out/tracked.md"]
    assert findings(a) == [("note", name) for name in names]
    text = a.gitstate("verify", code=0).out
    assert f"note: out/draft.md: {NOBODYS}\n" in text
    assert "Everything that can be checked here holds." in text


def test_what_stages_read_is_declared_wherever_it_stands(tmp_path: Path) -> None:
    stage = {
        "run": "$PROVIDER",
        "prompt": "out/prompt.md",
        "template": "out/template.md",
        "output": "out/{slug}.md",
        "inputs": ["out/in/*.txt"],
        "code": ["out/tool.py"],
        "check": {"json_schema": "out/schema.json"},
    }
    files = {
        "out/prompt.md": '{% include "out/part.md" %}',
        "out/part.md": "Write.\n",
        "out/template.md": "{{ response }}",
        "out/in/a.txt": "x",
        "out/tool.py": "",
        "out/schema.json": "{}",
    }
    world = World(tmp_path, stages={"article": stage}, files=files)
    assert findings(world.a) == []
    world.a.write("out/in/soon.txt", "x")
    assert findings(world.a) == []


def test_a_stage_whose_outputs_stand_among_others_manages_no_folder(tmp_path: Path) -> None:
    a = finished(tmp_path, stages={"article": {**ARTICLE, "output": "{slug}/page.md"}}).a
    a.write("one/notes.txt", "x")
    a.write("notes.txt", "x")
    assert findings(a) == []


def test_an_output_of_a_former_slug_is_listed_once(tmp_path: Path) -> None:
    a = finished(tmp_path).a
    a.configure({"article": ARTICLE}, ["two"])
    assert findings(a) == [("note", "out/one.md")]


def test_stray_temporaries_are_found_at_any_depth_even_where_git_ignores_them(tmp_path: Path) -> None:
    a = finished(tmp_path, stages=CHAIN).a
    a.commit({".gitignore": "*.tmp\n"})
    a.write("work/deep/er/.gitstate-0123-1.tmp", "x")
    a.write("out/.gitstate-0123-2.tmp", "x")
    a.write("out/other.tmp", "x")
    expected = [("error", "out/.gitstate-0123-2.tmp"), ("error", "work/deep/er/.gitstate-0123-1.tmp")]
    assert findings(a, code=1) == expected


def test_what_an_attempt_on_record_owns_is_no_stray(tmp_path: Path) -> None:
    world = World(tmp_path, items=("one",))
    world.tell("one", wait=str(world.home / "gate"))
    running = world.a.start("run")
    assert until(lambda: world.calls(), running)
    (intent,) = (world.a.state / "attempts").glob("*.intent")
    (temporary,) = json.loads(intent.read_bytes())["temporaries"]
    world.a.write(temporary, "half")
    assert findings(world.a) == [("note", "one/article")]
    (world.home / "gate").touch()
    running.wait(0)


def test_odd_names_links_and_nested_repositories_are_no_trouble(tmp_path: Path) -> None:
    a = finished(tmp_path).a
    (a.path / "out" / "line\nbreak").write_text("x")
    (a.path / "out" / os.fsdecode(b"\xff")).write_text("x")
    (a.path / "out" / "link").symlink_to("/nonexistent")
    a.git("init", "-q", "out/nested")
    a.write("out/nested/file", "x")
    assert {subject for _, subject in findings(a)} == {
        "out/line\nbreak",
        os.fsdecode(b"out/\xff"),
        "out/link",
    }
    assert r"out/line\nbreak" in a.gitstate("verify", code=0).out


def test_a_managed_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").write_text("x")
    (world.a.path / "out").symlink_to(tmp_path / "else")
    assert ("note", "out/file") not in findings(world.a)


def test_many_alike_are_counted_in_words_and_all_listed_in_json(tmp_path: Path) -> None:
    a = finished(tmp_path).a
    for n in range(35):
        a.write(f"out/stray-{n:02}", "x")
    text = a.gitstate("verify", code=0).out
    assert text.count("note: out/stray-") == 10
    assert f"note: and 25 more: {NOBODYS} (all: --json)" in text
    assert len(findings(a)) == 35
