"""How a command ended: what its exit, its structure and its words say, and whose words they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

from gitstate.core import reply, speech, stream, unwrap
from gitstate.core.place import OK, Finding, place
from gitstate.core.replied import of_content, of_http, of_reading
from gitstate.core.reply import Reading
from gitstate.core.signal import Cli, Http, Signal
from gitstate.core.speech import TRACE
from gitstate.core.spoken import better, by_signal, from_words
from gitstate.core.unwrap import Statement

_WORDS = 2000  # characters for people, of what decides nothing


def of_cli(signal: Signal, cli: Cli) -> Finding:
    if cli.missing and cli.exit == 0:
        spoken = better(signal, (), cli.stderr)
        numbers = ", ".join(map(str, cli.missing[:20]))
        # The runner's own words on each stand last: that it was not written, or why it could not be taken.
        words = "\n".join(cli.stderr.rstrip().splitlines()[-len(cli.missing) :])[-_WORDS:]
        statement = Statement(message=words or f"output {numbers}")
        return spoken or Finding("validation", "empty", "output.missing", statement)
    stdout = cli.stdout
    reading = _structure(cli)
    if isinstance(reading, Http):
        replied = of_http(signal._replace(http=reading, cli=None), reading)
        if replied.category or not cli.filed:
            return replied
        reading = None
    if reading is not None:
        found = _of_structure(signal, cli, reading)
        if found is not None and (found.category or not cli.filed):
            return found
    wrapped = _wrapper_ended(cli)
    if wrapped is not None:
        return wrapped
    if cli.exit == 0:
        return _ended_well(signal, cli)
    return _ended_badly(signal, cli, speech.is_empty(stdout) or reading is not None)


def _structure(cli: Cli) -> Optional[Reading | Http]:
    """What a command printed as its own structure; None if it printed plain text, or an answer that is JSON."""
    if speech.is_empty(cli.stdout) and cli.stderr[:200].lstrip().startswith("HTTP/"):
        return _raw_reply(cli.stderr)
    text = cli.stdout if "\x1b" not in cli.stdout[:200] else speech.plain(cli.stdout)
    text = speech.without_talk(text)
    start = text[:200].lstrip("\ufeff \t\r\n")
    if start.startswith("HTTP/"):
        return _raw_reply(text)
    if start.startswith(("{", "[")):
        value = stream.parse(text)
        objects = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
        if any(map(reply.is_envelope, objects)):
            return stream.of_lines(objects)
        if isinstance(value, dict):
            return (
                _one(value) if reply.is_envelope(value) or (cli.exit != 0 and reply.is_bare(value)) else None
            )
        if value is not None:
            return None
    if start.startswith(("event:", "data:", ": ")) and stream.is_events(text):
        return stream.of_events(text)
    if "{" in text[: speech.HEAD]:
        found = stream.lines(text)
        if found and (len(found) > 1 or reply.is_envelope(found[0])):
            return stream.of_lines(found)
    return None


def _one(value: Mapping[str, object]) -> Reading:
    """A single object: the result of a run, or a provider's reply passed on as it came."""
    if isinstance(value.get("type"), str) and ("is_error" in value or value["type"] in ("result", "error")):
        return stream.of_lines([value])
    reading = Reading()
    statement = reply.failed(value)
    if statement is None and not reply.is_envelope(value):
        statement = unwrap.of_object(dict(value))  # a failed command's only words
    if statement is not None:
        reading.fail(statement)
        reading.success = False
    reply.read(value, reading)
    reading.ended = True
    return reading


def _raw_reply(text: str) -> Http:
    """An HTTP reply as `curl -i` prints it; of several heads the last counts."""
    status, headers = None, {}
    rest = text.replace("\r\n", "\n") + "\n"
    while match := re.match(r"HTTP/[\d.]+ (\d{3})[^\n]*\n((?:[^\n]+\n)*)\n?", rest):
        status = int(match[1])
        pairs = (line.partition(":") for line in match[2].splitlines())
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        rest = rest[match.end() :]
    return Http(status, headers, rest.strip() or None)


def _of_structure(signal: Signal, cli: Cli, reading: Reading) -> Optional[Finding]:
    """The verdict by a structured result, which overrides the exit; None if the structure states none."""
    if not reading.errors and not reading.ended and cli.exit != 0:
        weak = better(signal, reading.weak, cli.stderr)
        return weak or _wrapper_ended(cli) or _ended_badly(signal, cli, True)
    found = of_reading(signal, reading, cli.stderr)
    if found.category == "unknown" and not found.statement.structured:
        return _wrapper_ended(cli) or (better(signal, (), cli.stderr) if not reading.text else None) or found
    if found.category == "unknown" and not found.statement.message and not speech.is_empty(cli.stderr):
        return better(signal, reading.weak, cli.stderr) or found
    return found


def _wrapper_ended(cli: Cli) -> Optional[Finding]:
    """124 is a timeout only where `timeout` stands before the command."""
    if cli.exit != 124:
        return None
    before = []
    for word in cli.argv[:20]:
        if cli.tool and re.split(r"[/\\]", word)[-1] == cli.tool:
            break
        before.append(word)
    names = [re.split(r"[/\\]", word)[-1] for word in before]
    shell = any(re.search(r"(?:^|[\s;&|(])g?timeout\s+(?:-|\d)", word) for word in cli.argv[:6])
    if "timeout" in names or "gtimeout" in names or shell:
        return Finding("timeout", "wall", "exit.timeout-wrapper")
    return None


def _ended_well(signal: Signal, cli: Cli) -> Finding:
    """Exit 0 without structure: the answer, a notice in its place, or a transcript."""
    if cli.filed:
        return OK
    ends = speech.transcript(cli.stdout, cli.tool)
    if ends is not None and not speech.is_empty(cli.stdout):
        if ends.notice is not None:
            found = place(signal, unwrap.of_text(ends.notice), None)
            if found.category == "unknown":
                return Finding("validation", "error_shaped", "content.error-shaped", found.statement)
            return found
        if ends.blank:
            return better(signal, (), cli.stderr) or Finding("validation", "empty", "content.empty")
        return OK
    return of_content(signal, cli.stdout, (), cli.stderr)


def _ended_badly(signal: Signal, cli: Cli, no_content: bool) -> Finding:
    """A failing exit without a structured result."""
    found = None
    if not no_content:
        text = cli.stdout
        ends = speech.transcript(text, cli.tool)
        said = ends.notice if ends else None
        said = said or speech.notice(text) or speech.last_notice(text) or speech.only_words(text)
        found = from_words(signal, speech.Spoken(said, False, True), cli) if said else None
        trace = speech.last_words(text) if TRACE in text[-speech.TAIL :] else None
        if trace and trace.traceback:
            found = from_words(signal, trace, cli)
        if found is None or found.category == "unknown":
            found = _beside_content(signal, cli) or found
    else:
        found = from_words(signal, speech.last_words(cli.stderr), cli)
    if found is not None:
        return found
    # Beside an answer, standard error decides nothing, but people may know what it means.
    words = speech.last_words(cli.stderr).text.strip()[-_WORDS:]
    exit_code = "?" if cli.exit is None else cli.exit
    return Finding("unknown", "", "exit.bare", Statement(message=words or f"exit {exit_code}"))


def _beside_content(signal: Signal, cli: Cli) -> Optional[Finding]:
    """What counts on the error stream of a failed call that gave some content: error objects, and a fall."""
    spoken = speech.last_words(cli.stderr)
    statement = unwrap.of_text(spoken.text)
    if statement.structured and spoken.opened:
        found = place(signal, statement, None)
        if found.category != "unknown":
            return found
    if spoken.traceback or by_signal(cli):
        return from_words(signal, spoken, cli)
    return None
