"""Evidence is shared with everybody who pulls; what opens doors is taken out of it first."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gitstate.core.sieve import Sieve, fold, gate

_GONE = "[redacted]"

# Shapes by which providers and tools mark what is secret; a name that says so, followed by a value.
_SHAPES = re.compile(
    r"""
    \b(?:sk|pk|rk|key)-[\w-]{12,}                  # OpenAI, Anthropic, Stripe and those who follow them
    | \bgh[pousr]_\w{20,} | \bgithub_pat_\w{20,}   # GitHub
    | \bglpat-[\w-]{16,}                           # GitLab
    | \bxox[abprs]-[\w-]{10,}                      # Slack
    | \bhf_\w{20,} | \bAIza[\w-]{30,}              # Hugging Face, Google
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                # AWS
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*            # JSON web tokens
    | (?<=://)[^\s/@:]+:[^\s/@]+(?=@)              # a password in a URL
    | (?<=[?&]key=)[^\s&"']{6,} | (?<=[?&]sig=)[^\s&"']{6,}  # a key or a signature in a URL
    """,
    re.VERBOSE,
)
_NAME = r"""(?:api[_-]?key|secret|token|passw(?:or)?d|authorization|credential)s?["']?\s*[:=]"""
_NAMED = re.compile(
    rf"""(?ix)
    \b([\w-]*{_NAME}\s*
    (?:(?:bearer|basic|token)\s+)?["']?)
    ([^\s"',;}}]{{6,}})
    """
)
_NAME_ALONE = Sieve(_NAME)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_may_have_shape, _may_bear = gate(_SHAPES), gate(_BEARER)
_LEAST = 7  # characters in which one of these can be found
_SHORTEST = 8  # characters of a value from the environment: shorter ones would redact half of any text


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without what looks like a key, token or password, and without any of `secrets`."""
    if len(text) < _LEAST:
        return text
    if secrets:
        secrets = {secret for secret in secrets if len(secret) >= _SHORTEST}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, _GONE)
    if _may_have_shape(text):
        text = _SHAPES.sub(_GONE, text)
    folded = fold(text)
    if _may_bear(folded):
        text = _BEARER.sub(rf"\1 {_GONE}", text)
    if _NAME_ALONE.search(folded):
        text = _NAMED.sub(rf"\1{_GONE}", text)
    return text


def is_secret_name(name: str) -> bool:
    """Whether an environment variable's name says that its value is secret."""
    return bool(re.search(r"(?i)key|token|secret|passw|credential|auth", name))
