"""P6: records that an earlier version left are finished, ones of a later version are left alone and named.

`records/` holds what earlier versions wrote: an answer that had arrived when their run ended.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from gitstate.core.attempt import FORMAT, encode
from tests.support.world import World

RECORDS = Path(__file__).with_name("records")
STAGES = {
    "article": {
        "prompt": "prompts/article.md",
        "template": "templates/article.md",
        "run": "$PROVIDER",
        "output": "out/{slug}.md",
    }
}
TEMPLATE = {"templates/article.md": "---\ntitle: {{ title }}\n---\n{{ response }}"}
ANSWER = "---\ntitle: First\n---\n# one article\n\nanswered 1c68d7a649a9f157\n"


@pytest.fixture(params=sorted(path.name for path in RECORDS.iterdir()))
def older(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A clone in whose spool an earlier version left an answer."""
    world = World(
        tmp_path,
        stages=STAGES,
        items=[{"slug": "one", "title": "First"}],
        files=TEMPLATE,
        model={"name": "tiny", "temperature": 0},
    )
    shutil.copytree(RECORDS / request.param, world.a.state / "attempts")
    return world


def test_p6_an_older_record_is_finished_and_nothing_is_paid_again(older: World) -> None:
    attempt = older.a.spooled()[0].name.split(".")[0]
    arrived = json.loads((older.a.state / "attempts" / f"{attempt}.spooled").read_bytes()).get("at")
    done = older.a.run()
    assert "its answer had arrived; it is recorded now" in done.err
    assert older.a.show("out/one.md") == ANSWER
    assert older.a.states() == {"one/article": "done exact"}
    (line,) = older.a.receipts()
    assert line["attempt"] == attempt
    assert re.fullmatch(arrived or r"20\d\d-.*Z", line["at"])
    assert older.calls() == []
    assert older.a.leftovers() == []


def test_p6_an_older_record_does_not_know_what_it_may_replace_so_it_replaces_nothing(older: World) -> None:
    older.a.commit({"out/one.md": "by somebody\n"})
    done = older.a.run(code=3)
    assert "out/one.md" in done.err
    assert older.a.read("out/one.md") == "by somebody\n"
    assert len(older.a.spooled()) == 1
    assert older.calls() == []


@pytest.mark.parametrize("step", ["intent", "spooled"])
def test_p6_a_record_of_a_later_format_is_left_alone_and_its_answer_is_named(older: World, step: str) -> None:
    (record,) = (older.a.state / "attempts").glob(f"*.{step}")
    fields = json.loads(record.read_bytes())
    record.write_text(json.dumps({**fields, "v": FORMAT + 1, "more": True}))
    files = {path.name: path.read_bytes() for path in record.parent.iterdir()}
    for command in (("run",), ("recover",)):
        done = older.a.gitstate(*command, code=3)
        assert str(record) in done.err
        assert "newer gitstate" in done.err
        assert str(older.a.spooled()[0]) in done.err
    assert {path.name: path.read_bytes() for path in record.parent.iterdir()} == files
    assert older.calls() == []


def test_p6_an_answer_that_an_older_version_rejected_can_pass_today(older: World) -> None:
    (older.a.state / "attempts").rename(older.a.state / "rejected")
    older.a.run()
    assert older.calls() == []
    assert older.a.show("out/one.md") == ANSWER


def test_p6_a_rejected_answer_of_a_later_format_stops_the_run_before_it_pays(older: World) -> None:
    rejected = older.a.state / "rejected"
    (older.a.state / "attempts").rename(rejected)
    (record,) = rejected.glob("*.intent")
    record.write_bytes(encode({"attempt": record.stem}).replace(b'"v":%d' % FORMAT, b'"v":%d' % (FORMAT + 1)))
    done = older.a.run(code=3)
    assert str(record) in done.err
    assert older.calls() == []


def test_p6_an_answer_whose_intent_is_gone_is_an_error_and_not_removed(older: World) -> None:
    (record,) = (older.a.state / "attempts").glob("*.intent")
    record.unlink()
    done = older.a.run(code=3)
    assert str(record) in done.err
    assert str(older.a.spooled()[0]) in done.err
    assert older.calls() == []
