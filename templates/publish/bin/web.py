"""One request to a JSON API. What goes wrong goes to standard error as it came, where gitstate reads what it means."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Optional

TIMEOUT = float(os.environ.get("HTTP_TIMEOUT", "30"))  # seconds without a byte


class Trouble(Exception):
    """It did not go well. After anything but a refusal nobody knows whether the request was carried out."""

    def __init__(self, words: str, status: int = 0) -> None:
        super().__init__(words)
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and the token would follow it to any host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def ask(method: str, url: str, headers: Mapping[str, str], body: Optional[Mapping[str, Any]] = None) -> Any:
    """The JSON that a 2xx reply holds. Raises Trouble for any other reply, and where none came."""
    where = f"{method} to {urllib.parse.urlsplit(url).netloc}"  # no more: words of a path could be taken for a cause
    data = None if body is None else json.dumps(body).encode()
    known = {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": "gitstate-recipe",
    }
    try:
        request = urllib.request.Request(url, data, {**known, **headers}, method=method)  # noqa: S310 (your own URL)
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError as error:
        raise Trouble(_shown(error), error.code) from None
    except urllib.error.URLError as error:
        cause = error.reason
        raise Trouble(f"{type(cause).__name__}: {cause} ({where})") from None
    except (
        OSError,
        http.client.HTTPException,
        json.JSONDecodeError,
    ) as error:  # a reply broke off, or is no JSON
        raise Trouble(f"{type(error).__name__}: {error} ({where})") from None
    except ValueError:  # its own words would show the token
        raise Trouble(f"The address or a header is malformed ({where}).") from None


def _shown(error: urllib.error.HTTPError) -> str:
    """The reply as it came: gitstate finds the status, a stated wait and the message in it by itself."""
    heads = [f"{name}: {value}" for name, value in error.headers.items() if name.lower() != "set-cookie"]
    try:
        text = error.read(65536).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        text = ""
    return "\n".join([f"HTTP/1.1 {error.code} {error.reason}", *heads, "", text])
