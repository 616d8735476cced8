"""What a message of a limit says beside its cause: offers to upgrade, advice, links. Most end with one."""

from __future__ import annotations

import re

# Offers, advice, links, and what a limit is said not to be.
_NOT_CAUSES = re.compile(
    r"""(?ix)
    https?://\S+
    | \(? \b not \s (?:your|a|an|the|due \s to \s your) [^.)\n]{0,40}? \b(?:limit|quota|billing|credits?) \w* \)?
    | \b(?:please\s)? (?: upgrade | purchase | buy | subscribe | switch \s to | visit | see | go \s to | head \s to
      | learn \s more | contact
      | request (?: \s an? )? (?: \s quota)? \s increase | submit \s an? \s quota | apply \s for
      | consider | add \s (?:\w+\s){0,2}? (?:credits?|funds|a\ payment\ method)
      | to \s (?:increase|raise|get|request|avoid|continue|keep) | for \s (?:more|higher) | if \s you
      | you \s can | increase \s your | manage | turn \s on
      | enable \s (?:extra\ usage|overage) | (?:need|want) \s more | reduce \s the \s prompt \s length ) \b
      [^.\n·∙•]* (?: \.(?=\d)[^.\n]* )*
    """
)
_ADVICE = re.compile(
    r"(?i)[,.;]?\s*(?:please )?\bcheck (?:your|the) (?:plan|quotas?|usage|account|limits|billing)\b[^.\n]*"
)
_RETURN = re.compile(r"(?i)\b(?:or\s)?(?:try again|retry|wait|resets?|come back)\b[^.\n]*(?:\.\d[^.\n]*)*")
_REQUESTED = re.compile(
    r"(?i)\blimit:?\s*(?:is\s)?([\d,]{1,20})\b[^\n]{0,60}?\brequest(?:ed)?:?\s*([\d,]{1,20})\b"
)


def cause(message: str) -> str:
    """A message without what does not name a cause: offers, advice and links. Times of return are kept."""
    kept = []
    for line in message.replace("’", "'").splitlines():
        offers = " ".join(match[0] for match in _NOT_CAUSES.finditer(line) if not match[0].startswith("http"))
        back = " ".join(match[0] for match in _RETURN.finditer(offers))
        kept.append(f"{_NOT_CAUSES.sub(' ', line)} {back}".strip())
    return _ADVICE.sub(" ", "\n".join(kept))


def is_over(message: str) -> bool:
    """Whether the message names a limit and a single request above it."""
    for match in _REQUESTED.finditer(message[:4000]):
        limit, wanted = (int(number.replace(",", "") or 0) for number in match.groups())
        if 0 < limit < wanted:
            return True
    return False
