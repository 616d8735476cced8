"""Publishes one work's text as an article through a JSON API, and finds it again.

    publish.py put TITLE FILE    a new article; over the known one where gitstate says what was published before
    publish.py find              exit 0: it is there as it should be; 1: it is not; 2: cannot tell

$PUBLISH_URL is the API, $PUBLISH_TOKEN what it knows you by. The slug is the article's `external_id`, by which it is
found; its `revision` is the idempotency key, by which an update that went through differs from one that did not.
Your service has other names and ways for these: they are in `find`, `article` and `put` below.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Optional
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # in case $PYTHONSAFEPATH is set
from web import Trouble, ask

SLUG = os.environ["GITSTATE_SLUG"]
KEY = os.environ["GITSTATE_IDEMPOTENCY_KEY"]  # the same for all attempts at the same content


class Refused(Trouble):
    """It must not be done. gitstate.yaml has a rule for this exit code: trying again would not help."""


def call(method: str, path: str, body: Optional[dict[str, Any]] = None) -> Any:
    token = os.environ.get("PUBLISH_TOKEN", "").strip()
    headers = {"Idempotency-Key": KEY, **({"Authorization": f"Bearer {token}"} if token else {})}
    if "PUBLISH_URL" not in os.environ:
        raise Refused("$PUBLISH_URL is not set: the address of the API.")
    return ask(method, os.environ["PUBLISH_URL"].rstrip("/") + path, headers, body)


def find() -> Optional[dict[str, Any]]:
    """The article that has this slug, of whatever revision."""
    found = call("GET", f"/articles?external_id={quote(SLUG, safe='')}")
    if len(found) > 1:
        raise Refused(f"There are {len(found)} articles for {SLUG}. Delete all but one.")
    return found[0] if found else None


def put(title: str, file: str) -> dict[str, Any]:
    there = find()
    if there and there["revision"] == KEY:
        return there
    with open(file, encoding="utf-8") as text:
        article = {"external_id": SLUG, "revision": KEY, "title": title, "body": text.read()}
    before = os.environ.get(
        "GITSTATE_PREVIOUS_EVIDENCE"
    )  # with `on_stale: update`, what was printed last time
    if before:
        return call("PUT", f"/articles/{quote(place(before, there), safe='')}", article)
    if there:
        raise Refused(f"{SLUG} is published already, as {there['url']}, and not by this work.")
    return call("POST", "/articles", article)


def place(before: str, there: Optional[dict[str, Any]]) -> str:
    """The id of the article that was published before."""
    try:
        return str(json.loads(before)["id"])
    except (ValueError, TypeError, LookupError):  # a person's words, by `gitstate resolve --happened`
        if there is None:
            raise Refused(f"{SLUG} was published before ({before}), and is not found any more.") from None
        return str(there["id"])


def main(verb: str, *arguments: str) -> int:
    finding = verb == "find"
    try:
        article = find() if finding else put(*arguments)
        if article is None or (finding and article["revision"] != KEY):
            return 1
        print(json.dumps({name: article[name] for name in ("id", "url")}))
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 2 if finding else 3 if isinstance(trouble, Refused) else 1
    except (LookupError, TypeError) as error:
        print(f"The reply is not as expected: {type(error).__name__}: {error}", file=sys.stderr)
        return 2 if finding else 1
    return 0


sys.exit(main(*sys.argv[1:]))
