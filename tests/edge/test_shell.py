"""Every value reaches the shell as exactly itself, or is refused; judged by real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitstate.edge.shell import UnquotableError, fill, mark

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")

# As `sh`: that is how they are run, and bash then stops at a syntax error as the standard wants.
SHELLS = [shell for shell in ("/bin/sh", shutil.which("dash"), shutil.which("bash")) if shell]
V = mark(0)

# In each of them the command prints the value and nothing else.
CONTEXTS = [
    'x="$(printf %s V; echo .)"; printf %s "${x%.}"',
    'x="$(printf %s "V"; echo .)"; printf %s "${x%.}"',
    'x="$(printf %s \'V\'; echo .)"; printf %s "${x%.}"',
    "printf %s V",
    "printf '%s' 'V'",
    'printf "%s" "V"',
    'x=V; printf %s "$x"',
    'x="V" && printf %s "$x"',
    "(printf %s V)",
    "{ printf %s V; }",
    "if true; then printf %s V; fi",
    'for x in V; do printf %s "$x"; done',
    "case a in (b) ;; a) printf %s V ;; esac",
    "case x in x) printf %s V;; esac",
    '# don\'t mind "this" `one`\nprintf %s V',
    "true 'it' \"is\" it\\'s \\\"; printf %s V",
    "true ${HOME} ${HOME:-x} ${#HOME} $? $$ $1; printf %s V",
    'true $((1 + (2 * 3))) "$((1<2))"; printf %s V',
    "true `echo a`; printf %s \"`printf ''`V\"",
    'true "a $(echo "b $(echo \'c "\')") d"; printf %s "V"',
    "printf \\\n  %s \\\n  V",
    "printf %s V 2>&1 >&1",
    "true a#b; printf %s V # comment",
    "sh -c 'printf %s \"$1\"' sh V",
    'x= ; printf %s $x"V"$x',
]

HOSTILE = [
    "",
    "plain",
    "-n",
    "--help",
    "a b  c",
    "it's",
    '"',
    "'",
    "''",
    "\\",
    "\\\\'",
    "$HOME",
    "$(touch pwned)",
    "`touch pwned`",
    "';touch pwned;'",
    '";touch pwned;"',
    "\ntouch pwned\n",
    "a\n\nb",
    "*",
    "~",
    "#no comment",
    "!!",
    "a=b",
    "if",
    "2",
    "{a,b}",
    "ü 漢字 \U0001f600 \u202e",
    "\x01\x1b[31m\x7f\t",
    "%s%n",
    "x" * 5000,
]


def run(shell: str, command: str, folder: Path) -> bytes:
    done = subprocess.run(
        ["sh", "-c", command],
        executable=shell,
        cwd=folder,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_value_arrives_as_exactly_itself_in_every_context(shell: str, context: str, tmp_path: Path) -> None:
    """All hostile values in one script, a line of marks between them."""
    commands = [fill(context.replace("V", V), [value]) for value in HOSTILE]
    script = "\nprintf '<%s>' end\n".join(commands) + "\n"
    seen = run(shell, script, tmp_path)
    assert seen.split(b"<end>") == [value.encode() for value in HOSTILE]
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(CONTEXTS),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30)
    | st.text(alphabet="'\"\\$`()#;\n ax{}", max_size=30),
)
def test_any_value_arrives_as_exactly_itself(tmp_path: Path, context: str, value: str) -> None:
    assert run("/bin/sh", fill(context.replace("V", V), [value]), tmp_path) == value.encode()


_PIECES = [
    "'",
    '"',
    "\\",
    "$",
    "(",
    ")",
    "{",
    "}",
    "`",
    "#",
    " ",
    "\n",
    ";",
    "<",
    ">",
    "|",
    "&",
    "a",
    "=",
    "!",
]
_PIECES += [
    "case x in a) ",
    "esac",
    "$(",
    "${a:-",
    "$((",
    "<<E\n",
    "E\n",
    "\\\n",
    "'it'",
    '"q"',
    "$'",
    "[[ ",
    ">&",
]
_PIECES += ["if ", "then ", "fi", "f() ", "{ ", "; }", "((", "<(", "${#a}", "echo ", "1", "*", "~", V]
FRAGMENTS = st.lists(st.sampled_from(_PIECES), max_size=12)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    FRAGMENTS,
    st.sampled_from(["$(touch pwned)", "`touch pwned`", "';touch pwned;'", '"\n)}\'"\ntouch pwned\n']),
)
def test_whatever_the_command_nothing_of_a_value_is_executed(
    tmp_path: Path, fragments: list[str], value: str
) -> None:
    try:
        command = fill("".join(fragments) + V, [value])
    except UnquotableError:
        return
    for shell in SHELLS[1:]:
        run(shell, command, tmp_path)
        assert not (tmp_path / "pwned").exists(), command


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("echo `cat V`", "in backticks"),
        ('echo "`cat V`"', "in backticks"),
        ("cat <<EOF\nV\nEOF", "here-document"),
        ("cat <<'EOF' | sort V", "here-document"),
        ("echo $((V + 1))", "in $((…))"),
        ('echo "$((V + 1))"', "in $((…))"),
        ("echo $(( 'a' + V ))", "in $((…)) or after it"),
        ("echo $((a); echo V)", "in $((…)) or after it"),
        ("echo ${x:-V}", "in ${…}"),
        ('echo "${x:-V}"', "in ${…}"),
        ('echo "${x:-"a"}" V', "in ${…} or after it"),
        ("echo a # V", "in a comment"),
        ("echo \\V", "after a backslash"),
        ('echo "\\V"', "after a backslash"),
        ("echo $V", "after a $"),
        ('echo "$V"', "after a $"),
        ("echo $'a\\'b' V", "$'…'"),
        ("echo $[1] V", "read differently"),
        ("((x = V))", "after (("),
        ("(case a in a) echo V;; esac)", "after `case`"),
        ("x=$(case a in a) echo b;; esac) V", "after `case`"),
        ("cat <\\\n<E\nV", "continued in the middle"),
        ("sh -c 'echo V'", "second shell"),
        ("\\sh -c V", "second shell"),
        ('exec env A=1 /bin/bash -e -o pipefail -uc "echo V"', "second shell"),
        ("sh -c \\\n V", "second shell"),
        ("eval echo V", "second shell"),
        ("x=1 eval V", "second shell"),
        ("if eval 'V'; then :; fi", "second shell"),
        ("let x=V", "second shell"),
        ("a[V]=1", "subscript"),
        ("echo >&V", "behind >&"),
        ("echo 2>& x'V'", "behind >&"),
        ('echo <&"$(cat V)"', "behind >&"),
        ("[[ V -gt 5 ]]", "numbers"),
    ],
)
def test_a_place_in_which_no_quoting_is_safe_is_refused_by_name(command: str, where: str) -> None:
    with pytest.raises(UnquotableError) as caught:
        fill(f"echo {mark(0)}; {command.replace('V', mark(1))}", ["fine", "x"])
    assert caught.value.index == 1
    assert where in caught.value.where


@pytest.mark.parametrize(
    "command",
    [
        "echo V `date`",
        "./run.sh -c V",
        "inspect eval V",
        "sh -c 'x \"$1\"' - V",
        "[[ V == a ]]",
        "cat <<<V",
        "echo >&2 V",
        "echo >&2;V",
    ],
)
def test_what_only_looks_unsafe_is_not_refused(command: str) -> None:
    assert "'x'" in fill(command.replace("V", V), ["x"])


def test_a_value_is_always_in_quotes_so_that_it_is_never_syntax(tmp_path: Path) -> None:
    assert fill(f"echo {V}>f", ["2"]) == "echo '2'>f"
    assert fill(f"{V} x", ["a=b"]) == "'a=b' x"


def test_a_list_becomes_one_word_for_each_value(tmp_path: Path) -> None:
    command = fill(
        f"printf '<%s>' {V}; printf '<%s>' $(printf %s {mark(1)})", [["a b", "", "it's", "-x"], ["$y"]]
    )
    assert run("/bin/sh", command, tmp_path) == b"<a b><><it's><-x><$y>"
    assert fill(f"echo {V};", [[]]) == "echo ;"


@pytest.mark.parametrize("command", ["x=V", "V/a", "'V'", '"V"', "a\\ V", '""V', "V$x"])
def test_a_list_next_to_other_text_or_in_quotes_is_refused(command: str) -> None:
    with pytest.raises(UnquotableError, match="list"):
        fill(command.replace("V", V), [["a", "b"]])


def test_many_values_stand_in_one_command(tmp_path: Path) -> None:
    text = "printf '<%s>'" + "".join(f' {mark(n)} "{mark(n)}"' for n in range(50))
    values = [f"{n}'\"$" for n in range(50)]
    assert run("/bin/sh", fill(text, values), tmp_path) == "".join(f"<{v}><{v}>" for v in values).encode()
