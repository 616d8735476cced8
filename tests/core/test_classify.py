"""The classifier agrees with every captured signal, with their kin, and answers whatever it is given."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitstate.core.classify import classify
from gitstate.core.ownrules import OwnRule
from gitstate.core.signal import Signal, SignalError, Verdict, iso, of_command, parse, to_plain
from gitstate.core.verdict import STATES

HERE = Path(__file__).parent
CAPTURED = [json.loads(line) for line in (HERE / "signals.jsonl").read_text("utf-8").splitlines()]
# Other providers, wordings and shapes than those, by the same rules; each with its reason.
KIN = [json.loads(line) for line in (HERE / "more_signals.jsonl").read_text("utf-8").splitlines()]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def verdict(data: dict[str, Any]) -> Verdict:
    return classify(parse({key: data[key] for key in data if key not in ("expect", "why", "source")}))


def waits(found: Verdict, seconds: float | None, until: str | None) -> bool:
    if until is not None:
        moment = iso(until)
        assert moment is not None
        return found.until is not None and abs(found.until - moment) <= timedelta(seconds=1)
    if seconds is not None:
        return found.wait_seconds is not None and abs(found.wait_seconds - seconds) <= 1
    return found.wait_seconds is None and found.until is None


@pytest.mark.parametrize("signal", [*CAPTURED, *KIN], ids=lambda signal: str(signal["id"]))
def test_p7_every_signal_gets_its_verdict(signal: dict[str, Any]) -> None:
    found, expect = verdict(signal), signal["expect"]
    said = (found.outcome, found.category, found.kind, found.state)
    meant = (expect["outcome"], expect["category"], expect["kind"], expect["state"])
    assert said == meant, f"{signal['why']}: by {found.rule}, {dict(found.evidence)}"
    wait = expect["wait"] or {}
    assert waits(found, wait.get("seconds"), wait.get("until")), found


def test_each_signal_has_a_name_and_a_reason_of_its_own() -> None:
    names = [signal["id"] for signal in (*CAPTURED, *KIN)]
    assert sorted(names) == sorted(set(names))
    assert all(signal["why"] for signal in KIN)


@pytest.mark.parametrize("signal", [*CAPTURED, *KIN], ids=lambda signal: str(signal["id"]))
def test_header_names_and_the_order_of_keys_change_nothing(signal: dict[str, Any]) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(list(value))}
        return [turned(entry) for entry in value] if isinstance(value, list) else value

    other = turned(signal)
    if "http" in other:
        headers = other["http"]["headers"]
        other["http"]["headers"] = {name.swapcase(): headers[name] for name in headers}
    found = verdict(signal)
    assert verdict(other)[:6] == found[:6]
    assert verdict({**signal, "id": "another", "extra": [1]}) == found


def wrapped(status: int, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The same error as tools and gateways pass it on."""

    def cli(stdout: str, stderr: str = "") -> dict[str, Any]:
        return {"channel": "cli", "cli": {"exit": 1, "stdout": stdout, "stderr": stderr}}

    text = json.dumps(body)
    fall = f'Traceback (most recent call last):\n  File "x"\nopenai.APIStatusError: Error code: {status} - {body!r}\n'
    end = {"type": "result", "is_error": True, "subtype": "success", "result": f"API Error: {status} {text}"}
    raw = {"error": {"message": "Provider returned error", "code": status, "metadata": {"raw": text}}}
    return {
        "as text": {"channel": "http", "http": {"status": status, "headers": {}, "body": text}},
        "a literal": cli("", f"Error: Error code: {status} - {body!r}\n"),
        "a traceback": cli("", fall),
        "a notice": cli(f"API Error: {status} {text}\n"),
        "a result": cli(json.dumps(end)),
        "metadata": {"channel": "http", "http": {"status": 200, "headers": {}, "body": raw}},
    }


@pytest.mark.parametrize(
    "signal",
    [
        signal
        for signal in (*CAPTURED, *KIN)
        if signal["channel"] == "http"
        and isinstance(signal["http"]["body"], dict)
        and (signal["http"]["status"] or 0) >= 400
        and set(map(str.lower, signal["http"]["headers"])) <= {"content-type"}
    ],
    ids=lambda signal: str(signal["id"]),
)
def test_an_error_means_the_same_whatever_it_is_wrapped_in(signal: dict[str, Any]) -> None:
    meant = verdict(signal)
    rest = {key: signal[key] for key in ("now", "tz", "provider") if key in signal}
    for how, other in wrapped(signal["http"]["status"], signal["http"]["body"]).items():
        assert verdict({**rest, **other})[:6] == meant[:6], how


@pytest.mark.parametrize("text", (HERE / "answers.txt").read_text("utf-8").splitlines())
def test_p7_what_a_model_wrote_is_an_answer_however_it_sounds(text: str) -> None:
    assert classify(of_command("exit", 0, None, f"{text}\n", "")).outcome == "ok"
    reply = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    assert verdict({"http": {"status": 200, "headers": {}, "body": reply}}).outcome == "ok"


TRACEBACK = "Traceback (most recent call last):\n"
WORDS = ["error", "Error code: 429 - {'a': ", "{", "429", "resets 3pm", "data: {}", "\x1b[0m", TRACEBACK]
NAMES = (
    "error", "message", "type", "code", "status", "choices", "content", "metadata", "raw", "details", "retry_after",
    "resets_at", "result", "is_error", "candidates", "response", "finish_reason", "item", "part", "delta", "errors",
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=25,
)
TEXT = st.text(max_size=200) | JSON.map(json.dumps) | st.sampled_from(WORDS)
HEADERS = st.sampled_from(["Retry-After", "x-ratelimit-reset", "x-ratelimit-remaining", "content-type"])
HTTP = {
    "status": st.none() | st.integers(-1, 700),
    "headers": st.dictionaries(HEADERS | st.text(max_size=9), JSON, max_size=4),
    "body": JSON | TEXT,
}
CLI = {
    "exit": st.none() | st.integers(-20, 260),
    "stdout": TEXT,
    "stderr": TEXT,
    "tool": st.sampled_from(["", "aider", "gemini"]),
    "argv": st.lists(st.text(max_size=9), max_size=3),
}
TIMES = ["2026-03-10T09:15:00+00:00", "1970-01-01T00:00:00+14:00", "8999-12-31T23:59:59-12:00"]
SIGNALS = st.fixed_dictionaries(
    {},
    optional={
        "channel": st.sampled_from(["http", "stream", "cli"]),
        "now": st.sampled_from(TIMES),
        "tz": st.sampled_from(["Europe/Berlin", "Mars/Olympus", ""]),
        "stopped_by": st.sampled_from([None, "wall", "silence"]),
        "http": st.fixed_dictionaries(HTTP),
        "cli": st.fixed_dictionaries(CLI),
    },
)


def signal_in(data: object) -> Signal | None:
    """The signal in `data`; None where it says that there is none."""
    try:
        return parse(data)
    except SignalError as error:
        if not error.message:
            raise
        return None


@given(SIGNALS)
def test_whatever_a_signal_holds_there_is_a_verdict(data: dict[str, Any]) -> None:
    signal = signal_in(data)
    if signal is None:
        return
    found = classify(signal)
    if found.outcome == "ok":
        assert found[1:6] == (None, None, None, None, None)
    else:
        assert found.state == STATES[str(found.category)][found.kind or ""]
        assert found.rule
    if found.kind == "billing" or found.state == "failed":
        assert (found.wait_seconds, found.until) == (None, None)
    assert found.wait_seconds is None or found.wait_seconds > 0
    json.dumps(to_plain(found))


@given(JSON)
@example({"http": []})
@example({"cli": {"exit": True}})
@example({"cli": {"stdout_b64": "x"}})
def test_what_is_no_signal_is_said_to_be_none(data: object) -> None:
    assert signal_in(data) is None or isinstance(data, dict)


@given(st.binary(max_size=300), st.integers(0, 255))
def test_any_bytes_are_judged(data: bytes, exit: int) -> None:
    text = data.decode("utf-8", "replace")
    assert classify(of_command("exit", exit, None, text, "")).outcome in ("ok", "fail")
    assert classify(of_command("exit", exit, None, "", text)).outcome in ("ok", "fail")


HUGE = [
    ("x", 10_000_000), ("{", 10_000_000), ("[", 10_000_000), (" ", 10_000_000), ("\x1b[0m", 2_500_000),
    ("{'a':", 2_000_000), ("resets at 1 ", 500_000), ("limit ", 1_000_000), ('{"type":"x"}\n', 500_000),
    ('data: {"a": 1}\n\n', 500_000), ("\\'", 2_000_000), ("<think>", 1_000_000), ("HTTP/1.1 200 OK\n", 400_000),
    ("a_", 3_000_000),
]  # fmt: skip


@pytest.mark.parametrize(("piece", "times"), HUGE, ids=range(len(HUGE)))
def test_huge_and_hostile_output_is_looked_at_from_its_ends(piece: str, times: int) -> None:
    text = ("Error: {'" if piece == "\\'" else "") + piece * times
    for exit in (0, 1):
        assert classify(of_command("exit", exit, None, text, text)).outcome in ("ok", "fail")


def test_a_result_behind_a_huge_answer_is_found() -> None:
    big = json.dumps({"type": "assistant", "message": {"role": "assistant", "content": "x" * 6_000_000}})
    end = json.dumps({"type": "result", "is_error": True, "result": "Credit balance is too low"})
    assert classify(of_command("exit", 1, None, f"{big}\n{end}\n", "")).kind == "billing"


def test_deeply_nested_json_is_no_trouble() -> None:
    body: Any = {"message": "Rate limit"}
    for _ in range(600):
        body = {"error": body}
    assert verdict({"http": {"status": 429, "headers": {}, "body": body}}).kind == "throttle"


@pytest.mark.parametrize(
    "when", ["in 10\u017f", "at \u017fep 3, 4pm", "on fr\u0131 at 3pm", "on mon\u017fday"]
)
def test_letters_that_only_count_as_others_are_no_trouble(when: str) -> None:
    said = f"Error: Rate limit reached. Try again {when}"
    data = {"cli": {"exit": 1, "stderr": said}, "now": "2026-03-10T09:15:00+00:00"}
    assert verdict(data).category == "quota"
    assert verdict({"http": {"status": 429, "headers": {"retry-after": when[3:]}}}).category == "quota"


SECRETS = [
    "sk-" + "ant-" + LETTERS,
    "gh" + "p_" + LETTERS,
    "AI" + "za" + LETTERS,
    "ey" + "J" + LETTERS + "." + LETTERS + "." + LETTERS,
]
PLACES = ["body", "code", "stderr", "stdout", "header", "url", "nested"]


def leaking(place: str, secret: str, before: str) -> dict[str, Any]:
    """A signal that holds `secret`."""

    def reply(status: int, body: Any, **headers: str) -> dict[str, Any]:
        return {"http": {"status": status, "headers": headers, "body": body}}

    said = f"{before}Incorrect API key provided: {secret}. Bearer {secret}"
    url = f"https://u:{secret}@host/x?key={secret}&a=1"
    signals = {
        "body": reply(401, {"error": {"message": said}}),
        "code": reply(401, {"error": {"code": secret, "type": f"x_{secret}"}}),
        "stderr": {"cli": {"exit": 1, "stdout": "", "stderr": f"Error: {said}"}},
        "stdout": {"cli": {"exit": 1, "stdout": f"Invalid API key: {secret}\n", "stderr": ""}},
        "header": reply(429, None, errortype=secret, authorization=secret),
        "url": {"cli": {"exit": 1, "stdout": "", "stderr": f"Error: 404 for {url}"}},
        "nested": reply(500, {"error": {"message": json.dumps({"error": {"message": said}})}}),
    }
    return signals[place]


@pytest.mark.parametrize("secret", SECRETS)
@given(where=st.integers(0, 1000), place=st.sampled_from(PLACES))
def test_evidence_opens_no_doors(secret: str, where: int, place: str) -> None:
    found = json.dumps(to_plain(verdict(leaking(place, secret, "word " * where)))).lower()
    for form in (secret, secret[:20], secret.replace("-", "_"), secret[-20:]):
        assert form.lower() not in found


def test_secrets_of_the_environment_are_kept_out() -> None:
    signal = of_command("exit", 1, None, "", "Error: 401 for zebra-zebra-zebra")
    found = classify(signal, (), ["zebra-zebra-zebra"])
    assert "zebra" not in str(found.evidence)
    assert "401" in found.evidence["said"]


def test_evidence_names_what_decided() -> None:
    body = {"error": {"code": "slow_down", "message": "Too quick"}}
    found = verdict({"http": {"status": 429, "headers": {"retry-after": "7"}, "body": body}})
    assert found.rule == "token.slow-down"
    assert found.evidence == {
        "status": "429",
        "codes": "slow_down",
        "wait": "retry-after",
        "said": "Too quick",
    }


@pytest.mark.parametrize(
    ("ended_by", "code", "signal", "missing", "what"),
    [
        ("wall", None, 15, (), ("timeout", "wall")),
        ("silence", None, 15, (), ("timeout", "silence")),
        ("too_large", 0, None, (), ("validation", "too_large")),
        ("not_started", None, None, (), ("phase_error", "not_found")),
        ("too_long", None, None, (), ("planning_error", None)),
        ("exit", 0, None, (2,), ("validation", "empty")),
        ("exit", None, 11, (), ("unknown", None)),
        ("exit", 3, None, (), ("unknown", None)),
    ],
)
def test_p7_every_way_in_which_a_command_ends_has_a_verdict(
    ended_by: str,
    code: int | None,
    signal: int | None,
    missing: tuple[int, ...],
    what: tuple[str, str | None],
) -> None:
    found = classify(of_command(ended_by, code, signal, "", "", missing))
    assert (found.category, found.kind) == what


def test_an_answer_that_came_as_a_file_needs_no_output() -> None:
    assert classify(of_command("exit", 0, None, "", "", filed=True)).outcome == "ok"
    assert classify(of_command("exit", 0, None, "Error: nothing\n", "", filed=True)).outcome == "ok"
    assert classify(of_command("exit", 1, None, "", "Error: 529 Overloaded", filed=True)).kind == "capacity"


def test_both_forms_of_a_wait_are_given_where_the_time_is_known() -> None:
    data = {
        "http": {"status": 429, "headers": {"retry-after": "60"}, "body": None},
        "now": "2026-03-10T09:15:00+02:00",
    }
    found = to_plain(verdict(data))
    assert (found["wait_seconds"], found["until"]) == (60, "2026-03-10T07:16:00+00:00")
    assert list(found)[:6] == ["outcome", "category", "kind", "wait_seconds", "until", "state"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a list"),
        ({}, "'http'"),
        ({"channel": "htp", "http": {}}, "'htp'"),
        ({"channel": "cli", "http": {}}, "'cli'"),
        ({"cli": {"exit": "one"}}, "cli.exit"),
        ({"cli": {"stdout": 3}}, "stdout"),
        ({"http": {"headers": []}, "channel": "http"}, "http"),
        ({"http": {"headers": [1]}}, "http.headers"),
        ({"http": {}, "now": "noon"}, "now"),
        ({"http": {}, "now": "9999-12-31T23:59:59-12:00"}, "now"),
        ({"http": {}, "stopped_by": "me"}, "stopped_by"),
    ],
)
def test_a_signal_that_is_none_says_what_is_wrong(data: object, message: str) -> None:
    if message == "http":
        assert parse(data).http is not None  # no headers at all are fine
        return
    with pytest.raises(SignalError) as caught:
        parse(data)
    assert message in caught.value.message


def test_own_rules_come_first_and_keep_their_id() -> None:
    rules = (
        OwnRule("slots", (("exit", (3,)), ("stderr", ("no slots*left",))), "quota", "throttle", 300.0),
        OwnRule("teapot", (("status", (418, 419)),), "planning_error"),
        OwnRule("ours", (("code", ("house_*",)), ("header.x-house", ("full",))), "quota", "capacity"),
        OwnRule("tier", (("type", ("RateLimitError",)), ("message", ("tier two",))), "quota", "window"),
    )
    signal = of_command("exit", 3, None, "", "trace\nNo slots are left.\n")
    assert classify(signal, rules)[1:5] == ("quota", "throttle", "paused", 300.0)
    assert classify(signal, rules).rule == "own.slots"
    assert classify(signal._replace(cli=signal.cli._replace(exit=4)), rules).rule != "own.slots"  # type: ignore[union-attr]

    def http(status: int, body: Any, **headers: str) -> Verdict:
        return classify(parse({"http": {"status": status, "headers": headers, "body": body}}), rules)

    assert http(418, None).category == "planning_error"
    assert http(500, {"error": {"code": "HouseRule7"}}, **{"X-House": "Full up"}).kind == "capacity"
    assert http(500, {"error": {"code": "HouseRule7"}}).category == "unknown"
    found = http(
        429, {"error": {"type": "rate_limit_error", "message": "of tier two"}}, **{"retry-after": "9"}
    )
    assert (found.kind, found.wait_seconds) == ("window", 9)


def test_the_runner_is_believed_before_any_rule() -> None:
    rules = (OwnRule("all", (("exit", (143,)),), "quota", "billing"),)
    assert classify(of_command("wall", 143, None, "", ""), rules).kind == "wall"


def test_the_zone_of_the_machine_counts_where_none_is_named() -> None:
    now = iso("2026-03-10T09:15:00+00:00")
    text = "You've hit your session limit · resets 2am\n"
    found = classify(of_command("exit", 1, None, text, "", now=now, zone=timezone(timedelta(hours=9))))
    assert found.until == iso("2026-03-11T02:00:00+09:00")
    assert classify(of_command("exit", 1, None, text, "", now=now)).until is None
