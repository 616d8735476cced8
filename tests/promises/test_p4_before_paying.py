"""P4: what can be known before a call is known before it, and what was paid for is not bought again for a typo."""

from __future__ import annotations

from pathlib import Path

from tests.support.world import ARTICLE, CHAIN, World


def test_p4_unknown_names_are_all_said_with_their_places_before_anything_is_paid(tmp_path: Path) -> None:
    stages = {
        **CHAIN,
        "article": {
            **CHAIN["article"],
            "template": "templates/page.md",
            "run": "$PROVIDER {{ model.nam }}",
            "check": {"command": "grep -q answered {{ outptu }}"},
        },
    }
    files = {
        "prompts/chained.md": "Write {{ needs.outlines }} for {{ vars.audiance }}\n{{ slug }}\n",
        "templates/page.md": "---\ntitle: {{ titel }}\n---\n{% include 'templates/foot.md' %}{{ response }}",
        "templates/foot.md": "by {{ writer | default('nobody') }} {{ item.tpoic }}",
    }
    items = [{"slug": "one", "title": "One", "topic": "x"}]
    world = World(
        tmp_path, stages=stages, items=items, files=files, model={"name": "m"}, vars={"audience": "all"}
    )
    done = world.a.run(code=2)
    for wrong in ("needs.outlines", "vars.audiance", "titel", "model.nam", "outptu", "item.tpoic"):
        assert f"'{wrong}' is not defined" in done.err
    for place in ("prompts/chained.md:1", "templates/page.md:2", "templates/foot.md:1", "gitstate.yaml:"):
        assert place in done.err
    assert "writer" not in done.err
    assert world.calls() == []


def test_p4_a_field_that_only_this_item_lacks_in_the_template_is_known_before_its_call(
    tmp_path: Path,
) -> None:
    stages = {"article": {**ARTICLE, "template": "templates/page.md"}}
    items = [{"slug": "one", "title": "One"}, {"slug": "two"}]
    files = {"templates/page.md": "# {{ title }}\n\n{{ response }}"}
    world = World(tmp_path, stages=stages, items=items, files=files)
    done = world.a.run(code=1)
    assert "'title' is no field of two" in done.err
    assert world.paid() == {"one/article": 1}
    assert world.a.states() == {"one/article": "done exact", "two/article": "failed new planning_error"}


def test_p4_an_answer_that_a_mended_check_lets_pass_is_not_bought_again(tmp_path: Path) -> None:
    def checked(least: int) -> dict[str, object]:
        return {"article": {**ARTICLE, "check": {"min_bytes": least}}}

    world = World(tmp_path, stages=checked(100_000))
    world.a.run(code=1)
    world.a.configure(checked(1))
    world.a.run(code=1)
    assert world.paid() == {"one/article": 1, "two/article": 1}
    world.a.run("--retry-failed")
    assert world.paid() == {"one/article": 1, "two/article": 1}
    assert world.a.states() == {"one/article": "done exact", "two/article": "done exact"}
    assert world.a.leftovers() == []
    world.a.gitstate("verify", code=0)


def test_p4_an_answer_that_still_fails_is_asked_for_anew_when_that_is_wanted(tmp_path: Path) -> None:
    world = World(tmp_path, stages={"article": {**ARTICLE, "check": {"regex": "fine"}}}, items=["one"])
    world.a.run(code=1)
    world.tell(answer="fine now\n")
    world.a.run("--retry-failed")
    assert world.paid() == {"one/article": 2}
    assert world.a.states() == {"one/article": "done exact"}
