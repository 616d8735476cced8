"""What shapes an output, and nothing else, moves its identity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitstate.core import identity as module
from gitstate.core.identity import COMPONENTS, Identity, Manifest, Sources, fill, work_id
from gitstate.core.plan import Item, PlanSource, Stage, Workflow
from gitstate.errors import Place

VECTORS = json.loads((Path(__file__).parent / "identity_vectors.json").read_text(encoding="utf-8"))
PLACE = Place("gitstate.yaml", 1)
BLOB = "sha1:" + "a" * 40
OTHER = "sha1:" + "b" * 40

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), values, max_size=4
)


def stage(**changes: object) -> Stage:
    """A stage that has every component."""
    full = Stage(
        name="article",
        place=PLACE,
        run="llm -m {{ model.name }}",
        outputs=("content/{slug}.md",),
        needs=("outline",),
        prompt="p.md",
        template="t.md",
        model={"name": "gpt-5-mini", "temperature": 0},
        inputs=("data/x.csv",),
        code=("bin/tool",),
    )
    return full._replace(**changes)


def workflow(one: Stage, vars: dict[str, object] | None = None) -> Workflow:
    outline = Stage("outline", PLACE, "cat", ("work/{slug}.md",))
    source = PlanSource("yaml", "plan.yaml", PLACE)
    return Workflow(
        "gitstate.yaml", source, (outline, one), (0, 1), {"tone": "plain"} if vars is None else vars, {}
    )


def sources(**changes: object) -> Sources:
    ids = {
        "p.md": BLOB,
        "t.md": BLOB,
        "data/x.csv": BLOB,
        "bin/tool": BLOB,
        "part.md": BLOB,
        "docs/a.md": BLOB,
    }
    globs = {"data/x.csv": ("data/x.csv",), "bin/tool": ("bin/tool",)}
    return Sources(ids, {"p.md": ("part.md",)}, globs)._replace(**changes)


def item(**changes: object) -> Item:
    return Item("alpha", {"slug": "alpha", "title": "A"}, 1)._replace(**changes)


def manifest(
    an_item: Item | None = None,
    a_stage: Stage | None = None,
    some: Sources | None = None,
    needs: tuple[tuple[str, ...], ...] = ((BLOB,),),
    vars: dict[str, object] | None = None,
) -> Manifest:
    chosen = a_stage or stage()
    return Identity(workflow(chosen, vars), some or sources()).manifest(an_item or item(), chosen, needs)


def with_id(path: str) -> Sources:
    return sources(ids={**sources().ids, path: OTHER})


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_golden_vectors_hold(vector: dict) -> None:
    """Another implementation can be checked against these: input, canonical bytes, digests, hash."""
    given_stage = Stage(**{**vector["stage"], "place": PLACE, "outputs": tuple(vector["stage"]["outputs"])})
    given_stage = given_stage._replace(
        run=tuple(given_stage.run) if isinstance(given_stage.run, list) else given_stage.run,
        **{name: tuple(getattr(given_stage, name)) for name in ("needs", "inputs", "code", "ignore")},
    )
    given_item = Item(vector["item"]["slug"], vector["item"], 1, vector["file"])
    given_sources = Sources(
        vector["ids"],
        {path: tuple(paths) for path, paths in vector["includes"].items()},
        {glob: tuple(paths) for glob, paths in vector["globs"].items()},
    )
    found = Identity(workflow(given_stage, vector["vars"]), given_sources).manifest(
        given_item, given_stage, vector["needs"]
    )
    assert found.components == vector["components"]
    assert found.encoded.decode() == vector["encoded"]
    assert found.hash == vector["hash"]
    assert work_id(given_item.slug, given_stage.name, found.hash) == vector["id"]


@pytest.mark.parametrize(
    ("component", "changed"),
    [
        ("plan", manifest(item(fields={"slug": "alpha", "title": "B"}))),
        ("plan", manifest(vars={"tone": "formal"})),
        ("prompt", manifest(some=with_id("p.md"))),
        ("prompt", manifest(some=with_id("part.md"))),
        ("prompt", manifest(some=sources(includes={}))),
        ("template", manifest(some=with_id("t.md"))),
        ("model", manifest(a_stage=stage(model={"name": "gpt-5-mini", "temperature": 1}))),
        ("model", manifest(a_stage=stage(model={"name": "gpt-5-mini", "temperature": 0.0}))),
        ("inputs", manifest(some=with_id("data/x.csv"))),
        ("inputs", manifest(needs=((OTHER,),))),
        ("inputs", manifest(needs=((BLOB, BLOB),))),
        ("run", manifest(a_stage=stage(run="llm -m {{ model.name }} "))),
        ("run", manifest(a_stage=stage(run=("llm", "-m", "{{ model.name }}")))),
        ("run", manifest(some=with_id("bin/tool"))),
    ],
)
def test_a_change_moves_its_own_component_and_no_other(component: str, changed: Manifest) -> None:
    assert changed.moved(manifest().components) == (component,)
    assert changed.hash != manifest().hash


@pytest.mark.parametrize(
    "same",
    [
        manifest(
            a_stage=stage(timeout=5.0, silence=2.0, ttl=3.0, outputs=("elsewhere/{slug}.md",), name="article")
        ),
        manifest(item(line=99)),
        manifest(a_stage=stage(place=Place("other.yaml", 7))),
        manifest(some=sources(ids={**sources().ids, "unrelated": OTHER})),
        manifest(a_stage=stage(model={"temperature": 0, "name": "gpt-5-mini"})),
        manifest(item(fields={"title": "A", "slug": "alpha"})),
    ],
)
def test_p12_what_does_not_shape_the_output_does_not_move_it(same: Manifest) -> None:
    assert same == manifest()


def test_a_renamed_prompt_with_the_same_source_stays() -> None:
    renamed = sources(ids={**sources().ids, "q.md": BLOB}, includes={"q.md": ("part.md",)})
    assert manifest(a_stage=stage(prompt="q.md"), some=renamed) == manifest()


def test_the_item_s_own_file_counts_by_content() -> None:
    one = manifest(item(file="docs/a.md"))
    assert one.moved(manifest().components) == ("inputs",)
    assert manifest(item(file="docs/a.md"), some=with_id("docs/a.md")).moved(one.components) == ("inputs",)


def test_p2_the_command_counts_in_normal_form() -> None:
    assert manifest(a_stage=stage(run="echo e\u0301")) == manifest(a_stage=stage(run="echo \u00e9"))


@pytest.mark.parametrize(
    ("pattern", "filled"),
    [
        ("data/{slug}/*.csv", "data/{title}/*.csv"),
        ("data/{title}", "data/a[*]b"),
        ("data/{unknown}", "data/{unknown}"),
        ("data/x", "data/x"),
    ],
)
def test_a_field_s_value_in_a_pattern_means_itself(pattern: str, filled: str) -> None:
    assert fill(pattern, item(fields={"slug": "{title}", "title": "a*b"})) == filled


def test_what_a_work_does_not_have_is_no_component() -> None:
    bare = Stage("bare", PLACE, "date", ("x/{slug}",))
    found = Identity(workflow(bare), sources()).manifest(item(), bare, ())
    assert set(found.components) == {"plan", "run"}


def test_components_to_ignore_are_left_out() -> None:
    for name in COMPONENTS:
        assert set(manifest().components) - set(manifest(a_stage=stage(ignore=(name,))).components) == {name}


def test_moved_names_components_in_the_table_s_order() -> None:
    assert manifest().moved({}) == COMPONENTS


@given(fields, fields)
def test_p2_equal_fields_have_equal_identities_and_different_ones_have_not(one: dict, other: dict) -> None:
    first = manifest(item(fields={**one, "slug": "alpha"}))
    second = manifest(item(fields={**other, "slug": "alpha"}))
    as_text = [json.dumps({**each, "slug": "alpha"}, sort_keys=True) for each in (one, other)]
    assert (first.hash == second.hash) == (as_text[0] == as_text[1])


@given(fields)
@settings(max_examples=50)
def test_p2_the_order_of_keys_does_not_count(one: dict) -> None:
    full = {**one, "slug": "alpha"}
    turned = dict(reversed(list(full.items())))
    assert manifest(item(fields=full)) == manifest(item(fields=turned))


@given(fields)
def test_p2_the_manifest_that_is_hashed_is_canonical_json(one: dict) -> None:
    found = manifest(item(fields={**one, "slug": "alpha"}))
    again = json.dumps(json.loads(found.encoded), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert again.encode() == found.encoded


def test_p12_an_older_scheme_is_kept_and_compared_under_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a newer gitstate does: a scheme 2 beside the first, which goes on giving the hashes it gave."""
    before = manifest().hash
    monkeypatch.setitem(module.SCHEMES, 2, ("gitstate work v2", "gitstate component v2"))
    newer = Identity(workflow(stage()), sources(), scheme=2)
    older = newer.under(1)
    assert older is not None
    assert older.manifest(item(), stage(), ((BLOB,),)).hash == before
    assert newer.manifest(item(), stage(), ((BLOB,),)).hash != before
    assert newer.under(99) is None
