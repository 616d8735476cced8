"""Opens one work's pull request by GitHub's REST API, and finds it again, open, closed or merged.

    pull_request.py open REPOSITORY BASE BRANCH_FILE TITLE    the description on standard input
    pull_request.py find REPOSITORY BRANCH_FILE               exit 0: it is there; 1: it is not; 2: cannot tell

REPOSITORY is OWNER/NAME; BRANCH_FILE holds {"branch": …}, as branch.py prints it. $GITHUB_TOKEN is what GitHub knows
you by, $GITHUB_API_URL another server's API. A hidden line in the description makes the pull request this work's: one
that was closed or merged is there, too, and no second one is opened.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, Optional
from urllib.parse import urlencode

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # in case $PYTHONSAFEPATH is set
from web import Trouble, ask

API = os.environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
# (coded: "--" would end the comment)
WORK = f"{os.environ['GITSTATE_SLUG']}/{os.environ['GITSTATE_STAGE']}".replace("%", "%25").replace("-", "%2D")
MARK = f"<!-- gitstate: {WORK} -->"


class Refused(Trouble):
    """It must not be done. gitstate.yaml has a rule for this exit code: trying again would not help."""


def call(method: str, path: str, body: Optional[dict[str, Any]] = None) -> Any:
    token = os.environ.get("GITHUB_TOKEN", "").strip()
    if not token:
        raise Trouble("Unauthorized: $GITHUB_TOKEN is not set.")
    headers = {"Accept": "application/vnd.github+json", "Authorization": f"Bearer {token}"}
    return ask(method, API + path, {**headers, "X-GitHub-Api-Version": "2022-11-28"}, body)


def pages(path: str, **query: str) -> Iterator[dict[str, Any]]:
    """All entries of a list, until a page is empty: how many a page holds is the server's to say."""
    page = 1
    while entries := call("GET", f"{path}?{urlencode({**query, 'per_page': '100', 'page': str(page)})}"):
        yield from entries
        page += 1


def find(repository: str, branch: str) -> Optional[dict[str, Any]]:
    """This work's pull request, in whatever state. Raises Refused where another one is open for the branch."""
    owner = repository.partition("/")[0]
    found = pages(f"/repos/{repository}/pulls", state="all", head=f"{owner}:{branch}")
    of_branch = [one for one in found if one["head"]["ref"] == branch]
    for one in of_branch:
        if MARK in (one["body"] or ""):
            return one
    for one in of_branch:
        if one["state"] == "open":
            raise Refused(f"{one['html_url']} is open for {branch} already, and not by this work.")
    return None


def create(repository: str, base: str, branch: str, title: str) -> dict[str, Any]:
    there = find(repository, branch)
    if there:
        return there
    body = f"{sys.stdin.read().rstrip()}\n\n{MARK}\n"
    try:
        asked = {"title": title, "head": branch, "base": base, "body": body}
        return call("POST", f"/repos/{repository}/pulls", asked)
    except Trouble as trouble:
        there = (
            find(repository, branch) if trouble.status == 422 else None
        )  # "already exists": by another machine?
        if there is None:
            raise
        return there


def branch_in(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return str(json.load(file)["branch"])


def main(verb: str, repository: str, *more: str) -> int:
    finding = verb == "find"
    try:
        if finding:
            one = find(repository, branch_in(*more))
        else:
            base, path, title = more
            one = create(repository, base, branch_in(path), title)
        if one is None:
            return 1
        state = "merged" if one.get("merged_at") else one["state"]
        print(json.dumps({"number": one["number"], "url": one["html_url"], "state": state}))
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 2 if finding else 3 if isinstance(trouble, Refused) else 1
    except (LookupError, TypeError) as error:
        print(f"The reply is not as expected: {type(error).__name__}: {error}", file=sys.stderr)
        return 2 if finding else 1
    return 0


sys.exit(main(*sys.argv[1:]))
