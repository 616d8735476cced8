"""Effects of unknown outcome, or that were adopted, as the reading commands, the hook and `accept` meet them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.outside import Outside, run_killed, world
from tests.support.world import World

NO_EVIDENCE = ("evidence", "settle")


def killed(folder: Path, **changes: Any) -> tuple[World, Outside]:
    """A world in which the run was killed in the middle of the act for one."""
    made, outside = world(folder, **changes)
    run_killed(made, outside, "kill-after")
    return made, outside


def out(made: World, *arguments: str) -> str:
    return made.a.gitstate(*arguments, code=0).out


def findings(made: World, code: int = 0) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(made.a.gitstate("verify", "--json", code=code).out)["findings"]
    return found


# --- plan and status --------------------------------------------------------------------------------------------


def test_plan_says_of_an_unknown_outcome_that_evidence_is_asked_first(tmp_path: Path) -> None:
    made, _ = killed(tmp_path)
    for _ in range(2):  # the second answer is a kept one
        text = out(made, "plan")
        assert "outcome unknown, evidence is asked first" in text
        assert "settle 1 effect of unknown outcome" in text
    assert "outcome unknown, evidence is asked first" in out(made, "plan", "one")
    assert "to be made)" not in text


def test_plan_says_how_to_answer_what_only_a_person_can_tell(tmp_path: Path) -> None:
    made, _ = killed(tmp_path, without=NO_EVIDENCE)
    text = out(made, "plan")
    assert "? unknown 1" in text
    assert "gitstate resolve SLUG --happened EVIDENCE" in text
    assert "gitstate run --retry-failed asks its evidence again" in text


def test_plan_tells_an_effect_that_failed_and_did_not_happen_from_one_of_unknown_outcome(
    tmp_path: Path,
) -> None:
    made, outside = world(tmp_path, policy={"unknown": {"tries": 1, "then": "fail"}})
    outside.next("fail")
    made.a.gitstate("run")
    assert made.a.states()["one/publish"] == "failed new unknown"
    text = out(made, "plan")
    assert "gitstate resolve" not in text
    assert "x failed 1" in text


def test_plan_says_what_may_follow_where_inputs_changed_after_the_act(tmp_path: Path) -> None:
    made, _ = world(tmp_path)
    made.a.run()
    made.a.commit({"prompts/article.md": "Another prompt for {{ slug }}.\n"})
    made.a.run(code=3)
    text = out(made, "plan")
    assert "~ changed 1  (changed after it happened" in text
    assert 'gitstate accept SLUG --stage STAGE --why "…"' in text
    assert "gitstate run --redo SLUG --stage STAGE" in text
    assert "gitstate status --resume one" in text
    assert "when the time has come" not in text


def test_status_counts_the_effects_of_unknown_outcome(tmp_path: Path) -> None:
    made, _ = killed(tmp_path)
    assert "1 effect is of unknown outcome" in out(made, "status")
    assert json.loads(out(made, "status", "--json"))["unknown"] == [{"slug": "one", "stage": "publish"}]
    made.a.run()
    assert "unknown outcome" not in out(made, "status")
    assert json.loads(out(made, "status", "--json"))["unknown"] == []


# --- verify, the hook, accept -------------------------------------------------------------------------------------


def test_verify_notes_the_acts_of_unknown_outcome(tmp_path: Path) -> None:
    made, outside = killed(tmp_path)
    (found,) = [one for one in findings(made) if "not known" in one["message"]]
    assert (found["level"], found["subject"]) == ("note", "one/publish")
    assert outside.acts()[0][1] in found["message"]
    made.a.run()
    assert findings(made) == []


def test_what_evidence_said_is_no_answer_that_a_check_could_turn_away(tmp_path: Path) -> None:
    made, _ = killed(tmp_path, check={"regex": "^made"})
    made.a.run()
    assert made.a.show("published/one.txt") == "found one\n"
    assert [one["level"] for one in findings(made)] == ["note"]


def test_the_word_of_a_person_is_no_answer_that_a_check_could_turn_away(tmp_path: Path) -> None:
    made, _ = killed(tmp_path, without=NO_EVIDENCE, check={"min_bytes": 40, "json": True})
    made.a.gitstate("resolve", "one", "--happened", "see the page", code=0)
    assert made.a.states()["one/publish"] == "done accepted"
    assert [one["level"] for one in findings(made)] == ["note"]


def test_the_hook_lets_adopted_outputs_pass(tmp_path: Path) -> None:
    made, _ = killed(tmp_path, check={"regex": "^made"})
    made.a.run()
    made.a.gitstate("hooks", "install", code=0)
    text = made.a.show("published/one.txt")
    made.a.git("rm", "-q", "published/one.txt")
    made.a.git("commit", "-qm", "Away")
    assert text is not None
    (made.a.path / "published").mkdir(exist_ok=True)
    (made.a.path / "published" / "one.txt").write_text(text)
    made.a.git("add", "published/one.txt")
    made.a.gitstate("hooks", "run", "pre-commit", code=0)
    made.a.git("commit", "-qm", "Back")
    (made.a.path / "published" / "one.txt").write_text("another word\n")
    made.a.git("add", "published/one.txt")
    made.a.gitstate("hooks", "run", "pre-commit", code=1)


def test_accept_keeps_an_effect_whose_inputs_changed(tmp_path: Path) -> None:
    made, outside = world(tmp_path)
    made.a.run()
    made.a.commit({"prompts/article.md": "Another prompt for {{ slug }}.\n"})
    made.a.run(code=3)
    assert "say why" in made.a.gitstate("accept", "one", code=2).err
    assert "Accepted 1 work" in made.a.gitstate("accept", "one", "--why", "a typo", code=0).out
    assert made.a.states()["one/publish"] == "done accepted"
    made.a.run()
    assert made.a.states()["one/after"] == "done exact"
    assert outside.made() == {"one": 1}
