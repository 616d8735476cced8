"""What a message of a limit says beside its cause: offers to upgrade, advice, links. Most end with one."""

from __future__ import annotations

import re

from gitstate.core.sieve import Sieve, gate

# Offers, advice, links, and what a limit is said not to be; all in lower case.
_LINK = r"https?://\S+"
_NOT = r"\(?\bnot\s(?:your|a|an|the|due\sto\syour)[^.)\n]{0,40}?\b(?:limit|quota|billing|credits?)\w*\)?"
_OFFERS = (
    r"upgrade", r"purchase", r"buy", r"subscribe", r"switch\sto", r"visit", r"see", r"go\sto", r"head\sto",
    r"learn\smore", r"contact", r"request(?:\san?)?(?:\squota)?\sincrease", r"submit\san?\squota",
    r"apply\sfor", r"consider", r"add\s(?:\w+\s){0,2}?(?:credits?|funds|a\ payment\ method)",
    r"to\s(?:increase|raise|get|request|avoid|continue|keep)", r"for\s(?:more|higher)", r"if\syou", r"you\scan",
    r"increase\syour", r"manage", r"turn\son", r"enable\s(?:extra\ usage|overage)", r"(?:need|want)\smore",
    r"reduce\sthe\sprompt\slength",
)  # fmt: skip
_NOT_CAUSES = re.compile(
    rf"{_LINK}|{_NOT}|\b(?:please\s)?(?:{'|'.join(_OFFERS)})\b[^.\n·∙•]*(?:\.(?=\d)[^.\n]*)*"
)
_WORTH_LOOKING = Sieve(_LINK, _NOT, *(rf"\b{offer}\b" for offer in _OFFERS))
_ADVICE = re.compile(
    r"[,.;]?\s*(?:please )?\bcheck (?:your|the) (?:plan|quotas?|usage|account|limits|billing)\b[^.\n]*"
)
_RETURN = re.compile(r"\b(?:or\s)?(?:try again|retry|wait|resets?|come back)\b[^.\n]*(?:\.\d[^.\n]*)*")
_REQUESTED = re.compile(
    r"\blimit:?\s*(?:is\s)?([\d,]{1,20})\b[^\n]{0,60}?\brequest(?:ed)?:?\s*([\d,]{1,20})\b"
)
_may_advise, _may_return = gate(_ADVICE), gate(_RETURN)


def cause(message: str) -> str:
    """A message of `sieve.fold` without what names no cause: offers, advice, links. Times of return are kept."""
    kept = []
    for line in message.replace("’", "'").splitlines():
        kept.append((_without_offers(line) if _WORTH_LOOKING.search(line) else line).strip())
    said = "\n".join(kept)
    return _ADVICE.sub(" ", said) if _may_advise(said) else said


def _without_offers(line: str) -> str:
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        found.append(match[0])
        return " "

    rest = _NOT_CAUSES.sub(take, line)
    offers = " ".join(offer for offer in found if not offer.startswith("http"))
    back = " ".join(match[0] for match in _RETURN.finditer(offers)) if _may_return(offers) else ""
    return f"{rest} {back}"


def is_over(message: str) -> bool:
    """Whether a message of `sieve.fold` names a limit and a single request above it."""
    if "limit" not in message or "request" not in message:
        return False
    for match in _REQUESTED.finditer(message[:4000]):
        limit, wanted = (int(number.replace(",", "") or 0) for number in match.groups())
        if 0 < limit < wanted:
            return True
    return False
