"""The configuration: everything in it is understood, or refused with its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitstate.core import validate
from gitstate.core import workflow as workflow_module
from gitstate.core.budget import Budget
from gitstate.core.plan import Checks, Effect, Workflow, account_of
from gitstate.core.policy import TABLE
from gitstate.core.workflow import examine
from gitstate.errors import ConfigError, Place


def config(stage: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    one = {"run": "cat", "output": "out/{slug}", **(stage or {})}
    return {"gitstate": 1, "plan": "plan.yaml", "stages": {"s": one}, **top}


def read(data: object) -> Workflow:
    return validate.workflow(data, {}, "gitstate.yaml")


def problems(data: object) -> str:
    with pytest.raises(ConfigError) as caught:
        read(data)
    return str(caught.value)


def test_a_whole_configuration_is_read() -> None:
    found = read(
        {
            "gitstate": 1,
            "plan": {"each": "docs/**/*.md"},
            "model": {"name": "m"},
            "vars": {"e\u0301": "e\u0301"},
            "group": "topic",
            "workspace": "root",
            "stages": {
                "b": {
                    "needs": "a",
                    "prompt": "p.md",
                    "template": "t.md",
                    "run": ["cat", ""],
                    "output": ["x/{slug}", "y/{slug}.json"],
                    "inputs": "data/**",
                    "code": ["bin/x", "lib/*.py"],
                    "check": {
                        "min_bytes": 1,
                        "max_bytes": 2,
                        "front_matter": "title",
                        "json": True,
                        "json_schema": "s.json",
                        "regex": ["^a", "b"],
                        "command": "lint {{ output }}",
                    },
                    "ignore": ["model", "run"],
                    "model": {"name": "other"},
                    "ttl": "14d",
                    "timeout": 90,
                    "silence": "5m",
                    "effect": False,
                },
                "a": {"run": "cat", "output": "a/{slug}"},
            },
        }
    )
    b = found.stages[0]
    assert (found.source.kind, found.source.path, found.group) == ("each", "docs/**/*.md", "topic")
    assert found.vars == {"é": "é"}
    assert found.order == (1, 0)
    assert (b.needs, b.run, b.outputs) == (("a",), ("cat", ""), ("x/{slug}", "y/{slug}.json"))
    assert (b.inputs, b.code, b.ignore) == (("data/**",), ("bin/x", "lib/*.py"), ("model", "run"))
    assert b.check == Checks(1, 2, ("title",), True, "s.json", ("^a", "b"), "lint {{ output }}")
    assert (b.model, b.ttl, b.timeout, b.silence) == ({"name": "other"}, 14 * 86400, 90, 300)


@pytest.mark.parametrize(
    ("path", "kind"), [("p.yaml", "yaml"), ("d/p.yml", "yaml"), ("p.jsonl", "jsonl"), ("p.csv", "csv")]
)
def test_the_plans_kind_is_its_suffix(path: str, kind: str) -> None:
    assert read(config(plan=path)).source.kind == kind


@pytest.mark.parametrize(
    ("stage", "counts"),
    [
        ({}, False),
        ({"prompt": "p.md"}, True),
        ({"run": "llm -m {{ model.name }}"}, True),
        ({"run": ["llm", "{{model['name']}}"]}, True),
        ({"run": "{% if model %}x{% endif %}"}, True),
        ({"run": "llm model"}, False),
        ({"run": "echo {{ slug }} model {{ slug }}"}, False),
        ({"run": "echo {{ vars.model }} {{ x['model'] }} {{ models }}"}, False),
    ],
)
def test_the_model_counts_where_a_stage_uses_it(stage: dict[str, Any], counts: bool) -> None:
    found = read(config(stage, model={"name": "m"})).stages[0]
    assert found.model == ({"name": "m"} if counts else None)


def test_a_stages_own_model_counts_always() -> None:
    assert read(config({"model": {"name": "x"}}, model={"name": "m"})).stages[0].model == {"name": "x"}
    assert read(config({"prompt": "p.md"})).stages[0].model is None


def graph(**needs: list[str]) -> dict[str, Any]:
    stages = {name: {"run": "x", "output": f"{name}/{{slug}}", "needs": of} for name, of in needs.items()}
    return {"gitstate": 1, "plan": "plan.yaml", "stages": stages}


def test_order_puts_needs_first_and_else_keeps_what_was_declared() -> None:
    found = read(graph(d=["b"], c=[], b=["a"], a=[], e=[]))
    assert [found.stages[index].name for index in found.order] == ["c", "a", "b", "d", "e"]


def circle(error: ConfigError) -> None:
    assert "→" in str(error)


@given(st.lists(st.lists(st.integers(0, 7), max_size=3, unique=True), min_size=8, max_size=8))
def test_every_graph_is_ordered_or_has_a_named_circle(needs: list[list[int]]) -> None:
    data = graph(**{f"s{n}": [f"s{need}" for need in of if need != n] for n, of in enumerate(needs)})
    try:
        found = read(data)
    except ConfigError as error:
        circle(error)
        return
    place = {index: at for at, index in enumerate(found.order)}
    assert sorted(place) == list(range(8))
    assert all(place[need] < place[n] for n, of in enumerate(needs) for need in of if need != n)


def test_a_circle_is_named() -> None:
    said = problems(graph(a=["b"], b=["c"], c=["a"], d=["a"]))
    assert "a → b → c → a" in said
    assert said.count("circle") == 1


def test_needs_that_are_not_there_are_named_with_the_nearest() -> None:
    said = problems(graph(outline=[], article=["outlin", "article"]))
    assert "no stage 'outlin' for 'article' to need. Did you mean 'outline'?" in said
    assert "'article' needs itself" in said


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "The file must be a mapping, not nothing"),
        ([], "The file must be a mapping, not a list"),
        ({}, "'gitstate' is missing"),
        ({}, "'plan' is missing"),
        ({}, "'stages' is missing"),
        (config(gitstate=2), "format 2 is not known"),
        (config(gitstate=True), "the whole number 1, not true"),
        (config(gitstate=1.0), "the whole number 1, not the number 1.0"),
        (config(plan="plan.txt"), "does not end in"),
        (config(plan="docs/*.md"), "{each: GLOB}"),
        (config(plan="../plan.yaml"), "segment that is '..'"),
        (config(plan=[{"slug": "a"}]), "a file of their own"),
        (config(plan=5), "a path or {each: GLOB}"),
        (config(plan={}), "a path or {each: GLOB}"),
        (config(plan={"each": "a", "x": 1}), "'x' is not known in plan"),
        (config(plan={"each": "/a"}), "absolute"),
        (config(stages={}), "There is no stage"),
        (config(stages=[1]), "stages must be a mapping"),
        (config(stages={"s": None}), "stages.s must be a mapping, not nothing"),
        (config(stages={"s": {}}), "has no 'run'"),
        (config(stages={"s": {}}), "has no 'output'"),
        (config(stages={"1": {"run": "x", "output": "x"}}), "template"),
        (config(stages={"a/b": {"run": "x", "output": "x"}}), "holds '/'"),
        (config(stages={"": {"run": "x", "output": "x"}}), "is empty"),
        (config(stages={"con": {"run": "x", "output": "x"}}), "device"),
        (config(model="gpt"), "{name: gpt}"),
        (config(model={"t": float("nan")}), "model cannot be used: it is not a finite number"),
        (config(vars=[]), "vars must be a mapping, not a list"),
        (config(group=1), "group must be text, not the whole number 1. Put it in quotes."),
        (config(group=""), "group must be text"),
        (config(stag={}), "'stag' is not known. Did you mean 'stages'?"),
        (config(account=None), "account must be text"),
        (config(on_stale="redo"), "'ask' or 'update' or 'ignore'"),
        (config({"promt": "x"}), "'promt' is not known in stages.s. Did you mean 'prompt'?"),
        (config({"run": ""}), "stages.s.run must be text"),
        (config({"run": []}), "stages.s.run must be a command"),
        (config({"run": ["sleep", 5]}), "run[1] must be text, not the whole number 5. Put it in quotes."),
        (config({"run": ["sleep", None, []]}), "run[2] must be text, not a list"),
        (config({"run": [""]}), "run[0] must be text"),
        (config({"output": []}), "never done"),
        (config({"output": ["a/{slug}", "../x"]}), "output[1]: the path '../x'"),
        (config({"output": 7}), "stages.s.output must be text"),
        (config({"output": "./{slug}"}), "Write '{slug}'"),
        (config({"output": "{{ slug }}.md"}), "doubles its braces; a placeholder is written {slug}"),
        (config({"output": "out/"}), "empty segment"),
        (config({"output": "a\ud800"}), "cannot be used"),
        (config({"prompt": "/etc/passwd"}), "absolute"),
        (config({"prompt": "a\\b"}), "holds '\\'"),
        (config({"template": ".git/x"}), "git's own folder"),
        (config({"inputs": ["data/{slug"]}), "has a brace without its partner"),
        (config({"inputs": "../{slug}"}), "segment that is '..'"),
        (config({"code": ["bin/{slug}"]}), "Only output and inputs have"),
        (config({"inputs": "data/"}), "write 'data/**'"),
        (config({"code": ["a", "a"]}), "code[1] is there a second time"),
        (config({"timeout": "10 min"}), "A duration is written like"),
        (config({"timeout": 0}), "above 0"),
        (config({"silence": "long"}), "A duration is written like"),
        (config({"ttl": None}), "ttl must be a duration, not nothing"),
        (config({"ignore": ["promt"]}), "Did you mean 'prompt'?"),
        (config({"ignore": 5}), "stages.s.ignore must be"),
        (config({"check": "x"}), "stages.s.check must be a mapping"),
        (config({"check": {"min_byte": 1}}), "Did you mean 'min_bytes'?"),
        (config({"check": {"min_bytes": -1}}), "0 or more"),
        (config({"check": {"min_bytes": True}}), "not true"),
        (config({"check": {"min_bytes": 2, "max_bytes": 1}}), "max_bytes 1 is below min_bytes 2"),
        (config({"check": {"json": "yes"}}), "true or false"),
        (config({"check": {"regex": "("}}), "not a regular expression"),
        (config({"check": {"regex": "(?:" * 5000}}), "not a regular expression"),
        (config({"check": {"regex": [1]}}), "regex[0] must be text"),
        (config({"check": {"json_schema": "../x"}}), "segment"),
        (config({"check": {"command": {}}}), "command must be text, not a mapping"),
        (config({"budget": 5}), "'budget' is not known in stages.s"),
        (config(budget="much"), "budget: 'much' is no budget"),
        (config(budget={"usd": 5}), "budget must be text, not a mapping"),
        (config(account=7), "account must be text"),
        (config(probe={}), "probe must be text"),
        (config(policy=3), "policy must be a mapping"),
        (config(policy={"timeouts": {"tries": 1}}), "no category of failures"),
        (config(policy={"timeout/": {}}), "no category of failures"),
        (config(policy={"quota/throtle": {}}), "Did you mean 'quota/throttle'?"),
        (config(policy={"validation/jsonschema": {}}), "Did you mean 'validation/json_schema'?"),
        (config(policy={"unknown/crash": {}}), "no category of failures"),
        (config({"policy": {"timeout": {"tries": 0}}}), "tries: 0 would never begin"),
        (config({"policy": {"timeout": {"try": 1}}}), "'try' is not known in stages.s.policy.timeout"),
        (config({"policy": {"timeout": {"then": "stop"}}}), "'fail' or 'pause' or 'pause_run'"),
        (config({"evidence": "x"}), "effect: true"),
        (config({"idempotent": True}), "effect: true"),
        (config({"on_stale": "ask"}), "effect: true"),
        (config({"settle": 3}), "effect: true"),
        (config({"effect": True, "settle": -1}), "between 0 and"),
        (config({"effect": True, "output": ["a/{slug}", "b/{slug}"]}), "has several"),
        (config({"workspace": "tmp"}), "'root' or 'worktree' or 'scratch'"),
        (config({"guard": "no"}), "'off' or 'warn' or 'strict'"),
        (config({"coordinate": "leases"}), "'coordinate' is not known in stages.s"),
        (config(coordinate="locks"), "'leases'"),
        (config(lease="5s"), "A lease lasts between 10s and 1d"),
    ],
)
def test_mistakes_are_said(data: object, words: str) -> None:
    assert words in problems(data)


def test_machines_that_run_at_once_may_be_coordinated_by_leases() -> None:
    found = read(config(coordinate="leases", lease="10m"))
    assert (found.coordinate, found.lease) == ("leases", 600)
    assert (read(config()).coordinate, read(config()).lease) == (None, None)


def test_an_effect_is_read_with_what_keeps_it_from_happening_twice() -> None:
    (stage,) = read(
        config({"effect": True, "evidence": ["find", "{{ slug }}"], "settle": 0}, on_stale="update")
    ).stages
    assert stage.effect == Effect(("find", "{{ slug }}"), idempotent=False, on_stale="update", settle=0.0)
    (stage,) = read(config({"effect": True, "idempotent": True, "on_stale": "ignore", "settle": "1m"})).stages
    assert stage.effect == Effect(None, idempotent=True, on_stale="ignore", settle=60.0)
    (stage,) = read(config({"effect": False}, on_stale="update")).stages
    assert stage.effect is None


def test_where_a_stage_runs_and_what_guards_it_is_said_once_or_for_each() -> None:
    (stage,) = read(config()).stages
    assert (stage.workspace, stage.guard) == ("root", "warn")
    (stage,) = read(config(workspace="worktree")).stages
    assert (stage.workspace, stage.guard) == ("worktree", "off")
    (stage,) = read(config({"workspace": "scratch"}, guard="strict")).stages
    assert (stage.workspace, stage.guard) == ("scratch", "strict")
    (stage,) = read(config({"guard": "off"}, guard="strict")).stages
    assert stage.guard == "off"


def test_all_mistakes_are_shown_at_once_each_at_its_line() -> None:
    data = config({"promt": "x", "timeout": "x", "output": "/x"}, plann="x")
    places: dict[tuple[str | int, ...], int] = {
        ("stages",): 5, ("stages", "s"): 6, ("stages", "s", "promt"): 7, ("stages", "s", "timeout"): 8,
        ("plann",): 20,
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        validate.workflow(data, places, "gitstate.yaml")
    assert [problem.place.line for problem in caught.value.problems] == [6, 7, 8, 20]
    assert {problem.place.file for problem in caught.value.problems} == {"gitstate.yaml"}


def test_a_stage_knows_its_place() -> None:
    found = validate.workflow(config(), {("stages", "s"): 6, ("plan",): 2}, "gitstate.yaml")
    assert found.stages[0].place == Place("gitstate.yaml", 6)
    assert found.source.place == Place("gitstate.yaml", 2)


def test_the_plans_source_is_known_even_where_the_rest_is_wrong() -> None:
    examined = examine(config({"promt": "x"}), {}, "gitstate.yaml")
    assert examined.workflow is None
    assert examined.source is not None
    assert examined.source.path == "plan.yaml"


words = st.sampled_from(
    [*workflow_module._TOP, *workflow_module._STAGE, *workflow_module._CHECK, "each", "x"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from(["a/{slug}", "plan.yaml", "leases", "10m", "root", "s"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(words, anything, max_size=6), st.dictionaries(words, anything, max_size=6))
def test_any_plain_data_is_a_workflow_or_a_config_error(top: dict[str, Any], stage: dict[str, Any]) -> None:
    try:
        read({**config(stage), **top})
    except ConfigError as error:
        str(error).encode()


def test_a_stage_takes_the_rows_of_the_whole_and_sets_its_own_above_them() -> None:
    found = read(
        config(
            {"policy": {"timeout": {"then": "fail"}}, "account": "other"},
            policy={"timeout": {"tries": 5}, "quota/throttle": {"base": "2s"}},
            account="mine",
            budget="5usd",
        )
    )
    (stage,) = found.stages
    assert stage.policy == {
        "timeout": TABLE["timeout"]._replace(then="fail"),
        "quota/throttle": TABLE["quota/throttle"]._replace(base=2.0),
    }
    assert (account_of(found, stage), account_of(found, stage._replace(account=None))) == ("other", "mine")
    assert found.budget == Budget(usd=5.0)


@pytest.mark.parametrize(
    ("own", "top", "account"),
    [
        ({"model": {"name": "small"}}, {"model": {"name": "big"}}, "small"),
        ({}, {"model": {"name": "big"}}, "big"),
        ({}, {"model": {"version": "1"}}, "default"),
        ({}, {}, "default"),
    ],
)
def test_without_an_account_calls_count_on_the_models_name(own: Any, top: Any, account: str) -> None:
    found = read(config(own, **top))
    assert account_of(found, found.stages[0]) == account
