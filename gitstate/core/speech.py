"""Whose voice plain text is: a tool's or a server's notice, or what a model wrote.

What a model wrote is never evidence, whatever it quotes. So text counts only where it is short and opens like a
notice, ends a failed call, or comes from the stream that answers do not come from.
"""

from __future__ import annotations

import html
import json
import re
from typing import NamedTuple, Optional

from gitstate.core import offers, rules, words
from gitstate.core.sieve import fold, gate

HEAD, TAIL = 65_536, 16_384  # characters of a text that are looked at, from its start and its end
_STRONG, _SOFT = 1500, 400  # characters of the longest notice that opens like an error, and like a sentence

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|\x9b[0-?]*[@-~]"
)
_may_have_escapes = gate(_ESCAPES)
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u2060\ufeff]")
_THOUGHTS = re.compile(
    r"<(think|thinking|thought|reasoning|scratchpad)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE
)
_TALK = re.compile(
    r"(?im)^(?:loaded cached credentials\.?|data collection is disabled\.?|reading prompt from stdin\.*|loading\.*"
    r"|using (?:cached )?(?:model|credentials)\b.*|yolo mode is enabled.*)$"
)

_ERROR_OPENS = re.compile(
    r"""(?x) ^ [^\w\n#>*`|+~-]{0,4} (?:
      (?i: (?: api | fatal | http | network | server | internal | unexpected | runtime | stream | request | provider
         | gateway | upstream | model | llm | unknown | system | connection | execution | validation | client )? \s?
         error (?: \s code )? \s* (?: \( [^)\n]{1,40} \) )? \s* [:\[–—] \s* \S )
    | (?i: error (?: \s code )? :? \s [45]\d\d \b )
    | ERROR \s+ [\w:.]{2,60} : \s
    | (?i: (?: execution | internal | unknown | unexpected | (?: internal \s )? server
         | api | network | connection
         | fatal | runtime ) \s error \.? $ )
    | (?: [A-Za-z_]\w*\. )* [A-Z]\w+ (?: Error | Exception | Exhausted | Timeout ) \s? (?: : | $ )
    | (?: Timeout | Exception ) \s? :
    | (?i: (?: http \S* \s )? (?: status \s )? [45]\d\d \s? [:–-]? \s?
         (?: too \s many \s requests | service \s (?: temporarily \s )? unavailable | unauthorized | forbidden
         | not \s found | bad \s gateway | gateway \s time-?out | payment \s required | bad \s request
         | internal \s server \s error
         | request \s time-?out | (?: site \s is \s )? overloaded | payload \s too \s large | unprocessable ) )
    | (?i: fatal: | panic: | exception: | an \s (?: unexpected \s )? error \s (?: has \s )? occurred
         | request \s (?: failed | rejected )
         | failed \s to \s | error \s (?: when | while | from | calling | communicating | in ) \b | unable \s to \s )
    )"""
)
_STAMP = re.compile(r"^\W{0,2}\d{4}-\d\d-\d\d[T ]?[\d:.,]{0,20}(?:Z|[+-]\d\d:?\d\d)?\]?\s*")
# The next three are in lower case, see `sieve.fold`.
_PERSON = re.compile(
    r"\b(?:you|your|you're|you've|please|try again|resets?|upgrade|log ?in|sign in|retry|add \d+ credits)\b"
    r"|\|\d{10}"
)
_STATE = re.compile(
    r"\b(?:reached|exceeded|hit|exhausted|too low|too long|too large|too many requests|insufficient|invalid|expired"
    r"|overloaded"
    r"|unavailable"
    r"|busy|failed|required|denied|unauthorized|timed out|depleted|at capacity|over capacity|used up|not logged in"
    r"|no capacity|rejected|limited|out of credits|declined|suspended)\b"
)
_EXPLAINS = re.compile(
    r"""(?x) \? | \b(?:is|are|was|were) \s (?:the|a|an|what|how|why|when|one\ of) \b
    | \b(?:means?|refers?|describes?|explains?|explained|tells?|indicates?
      |signals?|stands\ for|happens|occurs|appears)\b
    | \bhow\b | \bwhy\b | \bwhat\b | \bwhen \s (?:a|an|the|you|it|your) \b
    | \b(?:guide|story|chapter|article|introduction|lessons?)\b
    | ^ \W* (?: a | an | when | if | how | what | why | in | some | many | most | every | on | as | while | living
      | understanding | dealing | handling | avoiding | once | because | although ) \b
    | ^ \s* (?: \# | ``` | > | \| | [-*+]\s | \d+[.)]\s )"""
)
# To be matched on the first 300 characters of a line.
_ASIDE = re.compile(
    r"(?i)^\W{0,6}(?:\d[\d:.,TZ+-]{3,40}\]?\s{0,3})?(?:\d[\d:.,TZ+-]{3,40}\]?\s{0,3})?\W{0,6}"
    r"(?:warn(?:ing)?|deprecat\w*|\w{0,40}DeprecationWarning|info|debug|notice|note|trace|hint)\b"
    r"|^\(node:\d+\)|^[ \t]+at\s"
)
_SIDE_SERVER = re.compile(
    r"(?i)\bmcp\b|\bplugins?\b|\bextensions?\b|\btelemetry\b|update available|new version"
)
_RETRY = re.compile(
    r"(?i)^\W{0,6}(?:\w{1,20}:\s)?(?:retry(?:ing)?\b.*\d|reconnecting|attempt \d|backing off|waiting \d)"
)
TRACE = "Traceback (most recent call last):"
_LAST = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?::|$)", re.MULTILINE)
_OTHER_TRACES = re.compile(
    r"(?m)^thread '[^\n']{0,100}' (?:\(\d+\) )?panicked at|^panic: |^goroutine \d+ \[|^Exception in thread \""
    r"|^[ \t]+at [^\n]{1,300}:\d+:\d+\)?$"
    r"|^[ \t]+at [\w.$]{1,200}\(\w{1,100}\.java:\d+\)$|^node:internal/"
)
_may_name_side_server, _may_have_trace = gate(_SIDE_SERVER), gate(_OTHER_TRACES)


def plain(text: str) -> str:
    """A text without colour codes and invisible signs."""
    text = text.replace("\r\n", "\n")
    if _may_have_escapes(text):
        text = _ESCAPES.sub("", text)
    return _INVISIBLE.sub("", text.replace("\r", "\n"))


def is_empty(text: str) -> bool:
    """Whether there is nothing but blanks, colour codes, reasoning and a tool's talk in a text, however long."""
    for start in range(0, len(text), HEAD):
        piece = plain(text[start : start + HEAD])
        if start == 0:
            head = _THOUGHTS.sub("", piece)
            if (
                "</" not in piece
                and re.match(r"\s*<(?:think|thinking|thought|reasoning)>", piece)
                and len(text) > HEAD
            ):
                head = text.lower().rpartition("</think")[2] if "</think" in text.lower() else ""
            piece = _TALK.sub("", head)
        if piece.strip():
            return False
    return True


def without_talk(text: str) -> str:
    """A text without what some tools print before their structure."""
    head = text[:HEAD]
    return text[len(head) - len(_TALK.sub("", head).lstrip()) :] if _TALK.match(head.lstrip()) else text


def answer(text: str) -> str:
    """The head of what a text says beside colour codes and reasoning."""
    return _THOUGHTS.sub("", plain(text[:HEAD])).strip()


def is_explained(sentence: str) -> bool:
    """Whether a sentence tells of something rather than announces it: a definition, a title, a question."""
    return bool(_EXPLAINS.search(fold(sentence[:300])))


def opens_as_error(line: str) -> bool:
    """Whether a line opens as errors do, whatever it says then; the time before it does not count."""
    match = _ERROR_OPENS.match(_STAMP.sub("", line[:400]))
    if match is None:
        return False
    # "Error 429 means that …" tells of one.
    return bool(re.search(r"[:(\[]", match[0])) or not is_explained(line)


def notice(text: str) -> Optional[str]:
    """`text`, if the whole of it is one short notice that opens like one; else None."""
    page = error_page(text)
    if page:
        return page
    if len(text) > _STRONG * 4:
        return None
    text = answer(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or len(lines) > 12:
        return None
    paragraphs = len(re.findall(r"\n[ \t]*\n", text)) + 1
    if opens_as_error(lines[0]):
        is_prose = paragraphs > (3 if len(text) < 600 or "Caused by" in text else 1) and "{" not in text
        return text if not is_prose and (len(text) <= _STRONG or "{" in text[:200]) else None
    if len(text) > _SOFT or len(lines) > 4 or not _announces(lines[0]):
        return None
    # Behind a notice may stand advice, and no beginning of an article.
    rest = [
        line
        for line in lines[1:]
        if not _PERSON.search(fold(line)) and (len(line) >= 60 or is_explained(line))
    ]
    return text if not rest else None


def only_words(text: str) -> Optional[str]:
    """All that a failed call printed, where that is a line or three to the one who made it."""
    text = answer(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(text) > _SOFT or not 0 < len(lines) <= 3 or is_explained(lines[0]):
        return None
    return text if _PERSON.search(fold(text)) or (len(lines) == 1 and len(text.split()) <= 9) else None


def _announces(line: str) -> bool:
    """Whether a line announces a limit or a lack, to the one who made the call or in a few words."""
    line = line.strip()
    if line[:2] in ('["', '{"', "[{", "[[") or line[:1] in "<`\"'(" or line.count(" | ") > 1:
        return False
    line = line.strip("[]")
    sentence = re.split(r"(?<=[.!])\s|\s[·∙•|]\s", line, maxsplit=1)[0]
    if " " not in line or len(sentence) > 220 or is_explained(sentence):
        return False
    said = offers.cause(fold(sentence))
    rule = rules.first(words.ANNOUNCED, said)
    if rule is None or rule.pattern.start(said) > 45:
        return False
    if _PERSON.search(fold(line)):
        return not re.search(r":\s+[a-z]\w*\s+\w+\s+\w+", sentence) or bool(
            re.search(r":\s+(?:please|try)", sentence)
        )
    states = [match.end() for match in _STATE.finditer(said)]
    # Few words, and few of them behind what is the matter: "Rate limit reached for x", and no tale.
    return (
        bool(states) and len(said.split()) <= 8 and len(said[states[-1] :].split()) <= 4 and ": " not in said
    )


def last_notice(text: str) -> Optional[str]:
    """The notice in which the output of a failed call ends: its last line, or the error that its last lines are."""
    text = plain(text[-TAIL:]).rstrip()
    paragraph = [line for line in re.split(r"\n[ \t]*\n", text)[-1].splitlines() if line.strip()]
    if not paragraph:
        return None
    last = paragraph[-1].strip()
    if opens_as_error(last) or (len(last) <= _SOFT and _announces(last)):
        return last
    return "\n".join(paragraph) if opens_as_error(paragraph[0]) and len(paragraph) <= 5 else None


class Spoken(NamedTuple):
    """What a tool said last on its error stream."""

    text: str
    traceback: bool = False  # the tool itself fell over, with this as its last words
    opened: bool = False  # it opens as an error


def last_words(stderr: str) -> Spoken:
    """The last statement on an error stream, without warnings of side servers and the tool's own retries."""
    text = plain(stderr[-TAIL:]).strip()
    if TRACE in text:
        return _python(text)
    whole = _object_at_end(text)
    if whole:
        return Spoken(whole, opened=True)
    lines = [line for line in text.splitlines() if line.strip() and not _RETRY.match(line[:300])]
    if _may_name_side_server(fold(text)):
        lines = [line for line in lines if not _SIDE_SERVER.search(line[:300])]
    trace = _may_have_trace(text) and bool(_OTHER_TRACES.search(text))
    told = [line for line in lines if not _ASIDE.match(line[:300])] or [
        line for line in lines if not line.startswith(" ")
    ]
    starts = [number for number, line in enumerate(told) if opens_as_error(line) or _announces(line)]
    # A chain of causes under an error belongs to it.
    start = starts[-1] if starts else max(len(told) - 20, 0)
    return Spoken("\n".join(told[start:]), trace, bool(starts))


def _object_at_end(text: str) -> str:
    """The error object that an error stream ends in, however many lines it has."""
    start = 0 if text.startswith("{") else text.rfind("\n{") + 1
    if not text.endswith("}") or not text.startswith("{", start):
        return ""
    try:
        return text[start:] if isinstance(json.loads(text[start:]), dict) else ""
    except (ValueError, RecursionError):
        return ""


def _python(text: str) -> Spoken:
    """The last words of a Python traceback: the name of what was raised, and what it says."""
    behind = text.rpartition(TRACE)[2]
    found = [match.start() for match in _LAST.finditer(behind)]
    said = behind[found[0] :] if found else behind
    return Spoken(said.strip(), True, True)


_BANNER = re.compile(
    r"(?i)^(?:aider v\d|(?:main |weak |editor )?model:|git repo:|repo-map:|use /help|added \S+ to the chat"
    r"|warning:|https?://"
    r"|read-only|vs code terminal|detected|note: in-chat|cost estimates|restored previous|-{3,}$|─+$|>\s*$"
    r"|open documentation)"
)
_TRANSCRIPT_ADVICE = re.compile(
    r"(?i)^(?:the api provider|check your|retrying in|please (?:wait|check|try)|you can|see https?:|try again"
    r"|for more)"
)
_TRANSCRIPT_ERROR = re.compile(r"(?m)^litellm\.(?:\w+\.)?\w+(?:Error|Exception|Timeout)\b")


class Transcript(NamedTuple):
    """What a record of a conversation ends in: a notice, or an answer (`notice` None), or neither (`blank`)."""

    notice: Optional[str]
    blank: bool = False


def transcript(text: str, tool: str) -> Optional[Transcript]:
    """How a transcript ends; None if `text` is none."""
    tail = plain(text[-TAIL:])
    is_one = tool == "aider" or plain(text[:200]).lstrip().startswith("Aider v")
    if not is_one and not _TRANSCRIPT_ERROR.search(tail):
        return None
    after: list[str] = []
    for line in reversed(tail.splitlines()):
        line = line.strip()
        if not line or _RETRY.match(line[:300]) or (is_one and _BANNER.match(line)):
            continue
        if _TRANSCRIPT_ADVICE.match(line):
            after.insert(0, line)
        elif opens_as_error(line):
            return Transcript("\n".join([line, *after]))
        else:
            return Transcript(None)
    return Transcript(None, blank=is_one)


_PAGE = re.compile(r"\s*(?:<!doctype html|<html|<head|<\?xml|<error)", re.IGNORECASE)
_TITLE = re.compile(r"<(title|h1|code|message)[^>]*>(.{0,300}?)</\1>", re.IGNORECASE | re.DOTALL)
_ERROR_TITLE = re.compile(
    r"(?i)\b[45]\d\d\b|error|unavailable|bad gateway|attention required|just a moment|access denied|forbidden"
    r"|not found"
    r"|too many requests|time-?d? ?out|blocked|captcha|maintenance|exception|throttl|unauthori[sz]ed"
)


def error_page(text: str) -> Optional[str]:
    """What the titles of an error page say; None if `text` is no such page."""
    head = text[:HEAD]
    if not _PAGE.match(head):
        return None
    titles = [
        html.unescape(re.sub(r"<[^>]*>", " ", match[2])).strip() for match in _TITLE.finditer(head[:8192])
    ]
    said = ". ".join(dict.fromkeys(title for title in titles if title))[:500]
    return said if _ERROR_TITLE.search(said) else None
