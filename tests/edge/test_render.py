"""Sources and values to text: what is included, what is refused, and how it is said."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping

import pytest
from jinja2.nodes import Template

from gitstate.edge import sandbox
from gitstate.edge.render import Renderer, RenderError, includes, prepare_command, render_command
from gitstate.errors import ConfigError, CorruptState

CONTEXT = {
    "slug": "it's",
    "title": "A & B",
    "tags": ["a b", "c"],
    "nothing": None,
    "model": {"name": "m", "version": 2},
    "vars": {"items": "value", "keys": 1},
    "needs": {"outline": "work/x.md"},
}


def files(**sources: str) -> dict[str, bytes]:
    return {name.replace("_", "/") + ".md": text.encode() for name, text in sources.items()}


def text(source: str, context: Mapping[str, object] = CONTEXT) -> str:
    return Renderer(files(t=source).get).render("t.md", context)


def refused(source: str, **others: str) -> str:
    with pytest.raises(RenderError) as caught:
        Renderer(files(t=source, **others).get).render("t.md", CONTEXT)
    assert caught.value.exit_code == 2
    return str(caught.value)


# -- includes


def test_includes_are_found_through_every_kind_of_statement_and_transitively() -> None:
    sources = files(
        a="{% extends 'b.md' %}{% import 'p/c.md' as c %}{% from 'd.md' import x %}",
        b='{% if false %}{%- include "e.md" -%}{% endif %}{% block x %}{% endblock %}',
        d="{% include 'a.md' %}{% include 'b.md' %}",
        e="plain {{ x }}",
    ) | {"p/c.md": b"{# {% include 'not.md' %} #}{% raw %}{% include 'nor.md' %}{% endraw %}"}
    assert includes("a.md", sources.get) == ["b.md", "d.md", "e.md", "p/c.md"]
    assert includes("e.md", sources.get) == []


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("{% include name %}", "one file as a constant"),
        ("{% include 'p/' ~ name %}", "one file as a constant"),
        ("{% include ['b.md', 'c.md'] %}", "one file as a constant"),
        ("{% include 'b.md' if x else 'c.md' %}", "one file as a constant"),
        ("{% import name as n %}", "one file as a constant"),
        ("{% from name import n %}", "one file as a constant"),
        ("{% extends name %}", "one file as a constant"),
        ("{% include 'c.md' %}", "'c.md' is not there"),
        ("{% include 'c.md' ignore missing %}", "'c.md' is not there"),
        ("{% include '../b.md' %}", "'../b.md' is not a plain path"),
        ("{% include './b.md' %}", "not a plain path"),
        ("{% include 'x//b.md' %}", "not a plain path"),
        ("{% include '.git/config' %}", "not a plain path"),
        ("{% include '/etc/passwd' %}", "not a path inside"),
        ("{% include 'x\\\\b.md' %}", "not a path inside"),
        ("{% include '' %}", "not a path inside"),
        ("{% include 'b.md' ", "not a Jinja template"),
        ("{% include %}", "not a Jinja template"),
        ("{% if include %}", "not a Jinja template"),
    ],
)
def test_an_include_that_cannot_be_covered_is_an_error_with_its_line(statement: str, words: str) -> None:
    sources = files(a=f"one\ntwo {statement}\n", b="")
    with pytest.raises(ConfigError) as caught:
        includes("a.md", sources.get)
    assert words in caught.value.message
    assert caught.value.message.startswith(("a.md:2: ", "a.md:3: "))
    if "Jinja" not in words:  # rendering holds to the same rule
        assert words in refused(f"one\ntwo {statement}\n", b="")


def test_all_problems_of_all_included_files_are_shown_at_once() -> None:
    sources = files(a="{% include 'b.md' %}\n{% include 'x.md' %}", b="\n{% include y %}") | {
        "c.md": b"{% include 'd.md' %}\n\xff"
    }
    with pytest.raises(ConfigError) as caught:
        includes("a.md", sources.get)
    assert [str(problem.place) for problem in caught.value.problems] == ["a.md:2", "b.md:2"]
    with pytest.raises(ConfigError, match=r"c\.md:2: not UTF-8"):
        includes("c.md", sources.get)
    with pytest.raises(ConfigError, match=r"absent\.md: this file is not there"):
        includes("absent.md", sources.get)


def test_planning_executes_nothing_and_most_sources_need_no_parser() -> None:
    code = """if True:
        import sys
        from gitstate.edge.render import includes, render_command
        read = {"a": b"{{ x }} {% for y in z %}{% endfor %} include", "b": b"{{ 1/0 }}"}.get
        assert includes("b", read) == [] and render_command("echo a", {}) == "echo a"
        assert not {"jinja2", "gitstate.edge.sandbox"} & set(sys.modules)
        import gitstate.edge.sandbox
        from jinja2 import Environment
        Environment.compile = Environment._generate = None
        assert includes("a", read) == []
        bad = {"a": b"{% include 'b' %}{{ ''.__class__.__mro__ }}{{ 9**9**9**9 }}", "b": b"{% for i in x %}"}
        assert includes("a", bad.get) == ["b"]
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_deeply_nested_source_is_an_error_and_no_crash() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        includes("t.md", files(t="{% include 'b.md' %}{{ " + "(" * 5000 + " }}", b="").get)
    assert "nested too deeply" in refused("{{ " + "(" * 5000 + " }}")


# -- rendering


def test_text_is_rendered_without_escaping_and_with_its_last_newline() -> None:
    assert text(
        "# {{ title }}\n{% for tag in tags %}{{ loop.index }}/{{ loop.length }} {{ tag }}\n{% endfor %}"
    ) == ("# A & B\n1/2 a b\n2/2 c\n")
    assert (
        text("{{ model.name }}-{{ model['version'] }} {{ title ~ '!' }} {{ [1] + [2] }}\n\n")
        == "m-2 A & B! [1, 2]\n\n"
    )


def test_a_mapping_s_own_keys_come_before_python_s_methods() -> None:
    assert text("{{ vars.items }} {{ vars.keys }} {% for k, v in model.items() %}{{ k }}{% endfor %}") == (
        "value 1 nameversion"
    )


def test_included_files_macros_and_blocks_work() -> None:
    sources = files(
        t="{% extends 'b.md' %}{% block x %}{% import 'm.md' as m %}{{ m.twice(slug) }}{% endblock %}",
        b="<{% block x %}{% endblock %}>{% include 'i.md' %}",
        m="{% macro twice(s) %}{{ s }}{{ s }}{% endmacro %}",
        i="{{ title }}",
    )
    assert Renderer(sources.get).render("t.md", CONTEXT) == "<it'sit's>A & B"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("one\n{{ titel }}", "t.md:2: 'titel' is not defined; did you mean title?"),
        ("{{ completely_else }}", "known are model, needs, nothing, slug"),
        ("{{ model.nam }}", "t.md:1: there is no 'nam' in it; did you mean name?"),
        ("{{ needs['outlin'] }}", "did you mean outline?"),
        ("{{ titel.x }}", "'titel' is not defined"),
        ("{% for x in tagz %}{% endfor %}", "did you mean tags?"),
        ("{% if titel %}{% endif %}", "'titel' is not defined"),
        ("{{ titel ~ 'x' }}", "'titel' is not defined"),
        ("{{ titel or '' }}", "'titel' is not defined"),
        ("\n\n{{ nothing }}", "t.md:3: a value that is null is printed"),
        ("{{ none }}", "a value that is null is printed"),
        ("{{ title.upper }}", "add ()"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ '\\ud800' }}", "surrogates not allowed"),
        ("{{ 'x'.foo }}", "a str has no 'foo'"),
        ("{% for x in 5 %}{% endfor %}", "not iterable"),
        ("{% if %}", "t.md:1: Expected an expression"),
        ("{{ x | nofilter }}", "No filter named 'nofilter'"),
        ("{% include 't.md' %}", "without end"),
        ("a\n{{ x", "t.md:2: unexpected end of template"),
    ],
)
def test_errors_name_file_and_line_and_the_nearest_known_name(source: str, words: str) -> None:
    assert words in refused(source)


def test_an_error_in_an_included_file_names_that_file() -> None:
    assert refused("{% include 'b.md' %}", b="\n{{ titel }}").startswith("b.md:2: 'titel' is not defined")
    assert refused("{% include 'b.md' %}", b="\n\n{% endfor %}").startswith("b.md:3: ")


def test_p7_what_is_optional_must_be_said_to_be() -> None:
    assert (
        text("{{ nothing or '' }}|{{ absent | default('d') }}|{{ absent is defined }}|{{ false }}")
        == "|d|False|False"
    )


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ '' | attr('__class__') }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('touch pwned') }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ '{x.__class__}'.format_map({'x': ''}) }}",
        "{{ tags.append('x') }}",
        "{{ vars.update(a=1) }}",
        "{% set x = tags.clear() %}",
        "{{ lipsum() }}",
        "{{ tags | random }}",
    ],
)
def test_the_sandbox_lets_nothing_out_and_nothing_be_changed_or_random(source: str) -> None:
    before = repr(CONTEXT)
    refused(source)
    assert repr(CONTEXT) == before


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% set n = namespace(s='ab') %}{% for i in range(90) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{% set n = namespace(s='ab') %}{% for i in range(90) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s=[1]) %}{% for i in range(90) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{{ 'a' * 10**10 }}",
        "{{ 10**10 * [1] }}",
        "{{ 9 ** 999999999 }}",
        "{{ 'a'.center(10**10) }}",
        "{% for a in range(9999) %}{{ 'a' * 99999 }}{% endfor %}",
    ],
)
def test_a_template_that_would_take_for_ever_is_stopped(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_STEPS", 50_000)
    assert refused(source)


def test_a_source_is_compiled_once_and_anew_when_its_bytes_change(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = files(t="{% include 'b.md' %} {{ title }}", b="one")
    renderer = Renderer(sources.get)
    compiled: list[str | None] = []
    original = sandbox.Sandbox._prepare

    def counting(self: sandbox.Sandbox, tree: Template, name: str | None) -> None:
        compiled.append(name)
        original(self, tree, name)

    monkeypatch.setattr(sandbox.Sandbox, "_prepare", counting)
    assert {renderer.render("t.md", {"title": n}) for n in range(50)} == {f"one {n}" for n in range(50)}
    assert compiled == ["t.md", "b.md"]
    sources["b.md"] = b"two"
    assert renderer.render("t.md", {"title": 1}) == "two 1"
    assert compiled == ["t.md", "b.md", "b.md"]


def test_a_broken_prompt_is_known_before_it_is_rendered() -> None:
    renderer = Renderer(files(t="{{ x", u="{{ x }}").get)
    renderer.prepare("u.md")
    with pytest.raises(RenderError, match=r"t\.md:1"):
        renderer.prepare("t.md")
    with pytest.raises(RenderError, match=r"'absent\.md' is not there"):
        renderer.prepare("absent.md")
    with pytest.raises(RenderError, match="run: unexpected"):
        prepare_command("echo {{ x", "gitstate.yaml:7: run")
    prepare_command(("echo", "{{ x }}"))


def test_p6_trouble_in_reading_is_not_taken_for_a_broken_template() -> None:
    def read(path: str) -> bytes:
        raise CorruptState("object is damaged")

    for action in (lambda: Renderer(read).render("t.md", {}), lambda: Renderer(read).prepare("t.md")):
        with pytest.raises(CorruptState):
            action()


def test_many_threads_render_at_once_without_mixing_values() -> None:
    renderer = Renderer(files(t="{% for x in many %}{{ x }}{% endfor %}").get)
    wrong: list[object] = []

    def work(me: int) -> None:
        for _ in range(100):
            seen = renderer.render("t.md", {"many": [me] * 20})
            command = render_command("echo {{ a }} {{ b }}", {"a": me, "b": -me})
            if seen != str(me) * 20 or command != f"echo '{me}' '{-me}'":
                wrong.append((seen, command))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- commands


def test_a_shell_command_gets_its_values_quoted() -> None:
    assert render_command(
        "llm -m {{ model.name }} \"{{ title }}\" {{ slug }} {{ tags }} {{ 1.5 }} {{ 'x' }}", CONTEXT
    ) == ("llm -m 'm' \"\"'A & B'\"\" 'it'\"'\"'s' 'a b' 'c' '1.5' 'x'")
    assert render_command(
        "{% if slug %}a{% else %}b `{{ slug }}`{% endif %}{% for t in tags %} {{ t }}{% endfor %}", CONTEXT
    ) == ("a 'a b' 'c'")


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_hostile_values_are_data_to_a_real_shell() -> None:
    for value in ("$(echo pwned)", "';echo pwned;'", "a\nb", "\\", "-n", '"`echo pwned`"'):
        command = render_command("printf '%s|%s|%s' {{ v }} \"{{ v }}\" '{{ v }}'", {"v": value})
        assert isinstance(command, str)
        assert subprocess.run(
            ["sh", "-c", command], capture_output=True, check=True
        ).stdout.decode() == "|".join([value] * 3)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo `cat {{ slug }}`", "{{ slug }} stands in backticks"),
        ("echo {{ title }} $(( {{\n model.version }} ))", "{{ model.version }} stands in $((…))"),
        ("echo x{{ tags }}", "{{ tags }} stands next to other text"),
        ("echo {{ titel }}", "'titel' is not defined; did you mean title?"),
        ("echo {{ model }}", "a value is a mapping"),
        ("echo {{ nothing }}", "a value is null"),
        ("echo {{ [tags] }}", "a value is list"),
        ("echo {{ title.upper }}", "a value is builtin"),
        ("echo {{ '\\0' }}", "NUL"),
        ("echo {{ slug | word(0) }}", "NUL"),
        ("echo \0", "NUL"),
        ("echo a\necho {{ 1 / 0 }}", "run, line 2: ZeroDivisionError"),
        ("{% macro m() %}{{ slug }}{% endmacro %}{{ m() | upper }}", "macro is not allowed"),
        ("{% set x %}{{ slug }}{% endset %}{{ x }}", "assignblock is not allowed"),
        ("{% filter upper %}{{ slug }}{% endfilter %}", "filterblock is not allowed"),
        ("{% include 'x' %}", "include is not allowed"),
        ("{% for t in tags recursive %}{{ loop([]) }}{% endfor %}", "for is not allowed"),
        ("echo ${#x} {{ slug }}", "{% raw %}"),
    ],
)
def test_a_command_that_cannot_be_made_safe_is_refused_by_name(command: str, words: str) -> None:
    with pytest.raises(RenderError) as caught:
        render_command(command, CONTEXT, "gitstate.yaml:7: run")
    assert words in str(caught.value)
    assert str(caught.value).startswith("gitstate.yaml:7: run")


def test_a_list_command_is_rendered_element_by_element_without_quoting() -> None:
    assert render_command(
        ("cp", "{{ slug }}.md", "", "{{ title }} {{ model.version }}", "{%"[:1]), CONTEXT
    ) == (
        "cp",
        "it's.md",
        "",
        "A & B 2",
        "{",
    )
    with pytest.raises(RenderError, match="inside one argument"):
        render_command(("x", "{{ tags }}"), CONTEXT)
    with pytest.raises(RenderError, match="NUL"):
        render_command(("x", "{{ '\\0' }}"), CONTEXT)
