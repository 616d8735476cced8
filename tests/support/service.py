"""A service on 127.0.0.1 that publishes articles and opens pull requests, and can fail in every way that hurts.

    with Service(tmp_path / "service.sqlite") as service:
        service.mode = "lost"  # for every write from now on; service.next("lost", "throttled") orders single ones
        … service.url …
        assert len(service.created("one")) == 1

What it was asked for and what it made is in the file, so another Service on the same file goes on where the first one
ended. API: POST /articles, PUT /articles/ID, GET /articles[?external_id=…]; GitHub's POST and GET /repos/O/R/pulls.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from gitstate.data import folder

WRITING = (
    "normal",
    "lost",  # does it, then closes the connection without a word
    "silent",  # does it, then never answers
    "error_after",  # does it, then answers 500
    "late",  # closes the connection, and does it only `delay` seconds later
    "dropped",  # closes the connection, and never does it
    "error",  # answers 500, and never does it
    "throttled",  # 429 with `retry-after`
    "unauthorized",  # 401
    "garbled",  # does it, then answers 201 with what is no JSON
)
READING = (
    "normal",
    "lost",
    "silent",
    "unavailable",
    "throttled",
    "unauthorized",
    "garbled",
    "stale",
)  # stale: finds nothing

TABLES = """
create table if not exists asked (method text, path text, key text, mode text, status integer, at real);
create table if not exists things (kind text, id integer, key text, content text, primary key (kind, id));
create table if not exists orders (number integer primary key, setting text, mode text);
create table if not exists settings (name text primary key, value text);
"""
SETTINGS = {
    "mode": "normal",  # of writes: one of WRITING
    "reading": "normal",  # of look-ups: one of READING
    "honours_keys": False,  # a key that was seen before gets the reply that it had; else twice asked is twice made
    "filters": True,  # look-ups heed `head`; False: as some GitHub look-alikes, they give everything
    "page": 100,  # how many entries of a list one reply holds at most
    "delay": 1.0,  # seconds that "late" is late
    "retry_after": 1,  # seconds that "throttled" states
}


def recipe_files(name: str) -> dict[str, str]:
    """What `gitstate init --example NAME` writes: path -> text."""
    top = Path(folder("templates")) / name
    return {
        str(path.relative_to(top)): path.read_text("utf-8") for path in top.rglob("*.*") if path.is_file()
    }


# `put` asks for an article, and looks at nothing before; `find` looks for it. $HOME/port says where the service is. The
# marks are calls that a crash can fall on, before and after the service has heard of it.
CLIENT = """\
import json, os, socket, sys

slug, key = os.environ["GITSTATE_SLUG"], os.environ["GITSTATE_IDEMPOTENCY_KEY"]

def call(method, path, body):
    with open(os.environ["HOME"] + "/port") as file:
        port = int(file.read())
    head = f"Idempotency-Key: {key}\\r\\nConnection: close\\r\\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(f"{method} {path} HTTP/1.1\\r\\n{head}\\r\\n\\r\\n{body}".encode())
        reply = b"".join(iter(lambda: line.recv(65536), b""))
    head, _, text = reply.decode().partition("\\r\\n\\r\\n")
    if head.split()[1:2] not in (["200"], ["201"]):
        fail(head or "the connection was closed without a reply")
    try:
        return json.loads(text)
    except ValueError:
        fail(f"this is no JSON: {text}")

def fail(words):
    print(words, file=sys.stderr)
    sys.exit(2 if sys.argv[1] == "find" else 1)

def mark(name):
    open(os.path.join(os.environ["GITSTATE_SCRATCH"], name), "w").close()

if sys.argv[1] == "put":
    mark("asking")
    found = [call("POST", "/articles", json.dumps({"external_id": slug}))]
    mark("answered")
else:
    found = call("GET", "/articles?external_id=" + slug, "")
if not found:
    sys.exit(1)
print(json.dumps({"url": found[0]["url"]}))
"""


class Asked(NamedTuple):
    """One request, as it came."""

    method: str
    path: str
    key: str
    mode: str
    status: int  # 0: no reply was given
    at: float  # when it came


class Service:
    """The service and its ledger. Its settings may be read and set at any time, also from another process."""

    mode: str
    reading: str
    honours_keys: bool
    filters: bool
    page: int
    delay: float
    retry_after: float

    def __init__(self, path: Path, **settings: Any) -> None:
        self.__dict__.update(path=path, ended=threading.Event(), lock=threading.Lock())
        self.path: Path
        self.ended: threading.Event
        self.lock: threading.Lock  # one write at a time, as behind a transaction
        with self._ledger() as ledger:
            ledger.executescript(TABLES)
        for name, value in settings.items():
            setattr(self, name, value)

    def __enter__(self) -> Service:
        handler = type("Handler", (_Handler,), {"service": self})
        self.__dict__["server"] = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server: ThreadingHTTPServer
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    # --- what it was told ----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name not in SETTINGS:
            raise AttributeError(name)
        found = self._rows("select value from settings where name = ?", name)
        return json.loads(found[0][0]) if found else SETTINGS[name]

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in SETTINGS, name
        assert name != "mode" or value in WRITING, value
        assert name != "reading" or value in READING, value
        self._rows("insert or replace into settings values (?, ?)", name, json.dumps(value))

    def next(self, *modes: str) -> None:
        """How the next writes go, one after another; then `mode` holds again."""
        for mode in modes:
            assert mode in WRITING, mode
            self._rows("insert into orders (setting, mode) values ('mode', ?)", mode)

    def next_reading(self, *modes: str) -> None:
        """The same for look-ups, and `reading`."""
        for mode in modes:
            assert mode in READING, mode
            self._rows("insert into orders (setting, mode) values ('reading', ?)", mode)

    # --- what it saw and made ------------------------------------------------------------------------

    @property
    def asked(self) -> list[Asked]:
        """Every request so far."""
        return [Asked(*row) for row in self._rows("select * from asked order by rowid")]

    @property
    def writes(self) -> list[Asked]:
        """Those that wanted something made or changed."""
        return [one for one in self.asked if one.method != "GET"]

    def created(self, slug: str) -> list[dict[str, Any]]:
        """The articles that it made for an external id."""
        return [one for one in self.things("article") if one["external_id"] == slug]

    def pulls(self, branch: str) -> list[dict[str, Any]]:
        """The pull requests that it made for a branch."""
        return [one for one in self.things("pull") if one["head"]["ref"] == branch]

    def things(self, kind: str) -> list[dict[str, Any]]:
        """All articles, or all pull requests (kind "pull"), in the order of their ids."""
        return [
            json.loads(row[0])
            for row in self._rows("select content from things where kind = ? order by id", kind)
        ]

    def make(self, kind: str, content: dict[str, Any], key: str = "") -> dict[str, Any]:
        """Make an article or a pull request, as somebody else might by hand. Returns it."""
        number = len(self.things(kind)) + 1
        if kind == "article":
            made = {**content, "id": number, "url": f"https://example.org/{number}"}
        else:
            url = f"https://example.org/pull/{number}"
            own = {"number": number, "html_url": url, "state": "open", "merged_at": None}
            made = {**own, **content, "head": {"ref": content["head"]}}
        self._keep(kind, number, made, key)
        return made

    def change(self, kind: str, number: int, **fields: Any) -> dict[str, Any]:
        """Change some fields, for example `state="closed", merged_at="2026-08-07T12:00:00Z"`."""
        made = {
            **next(one for one in self.things(kind) if number in (one.get("id"), one.get("number"))),
            **fields,
        }
        self._keep(kind, number, made)
        return made

    # --- its ledger ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _ledger(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._ledger() as ledger:
            return ledger.execute(sql, values).fetchall()

    def _keep(self, kind: str, number: int, content: dict[str, Any], key: str = "") -> None:
        values = (kind, number, key, json.dumps(content))
        self._rows("insert or replace into things values (?, ?, ?, ?)", *values)

    def note(self, asked: Asked) -> None:
        self._rows("insert into asked values (?, ?, ?, ?, ?, ?)", *asked)

    def ordered(self, setting: str) -> str:
        """The mode of the write, or the look-up, that has just come."""
        with self.lock:
            found = self._rows(
                "select number, mode from orders where setting = ? order by number limit 1", setting
            )
            if not found:
                return str(getattr(self, setting))
            self._rows("delete from orders where number = ?", found[0][0])
            return str(found[0][1])

    def write(self, method: str, path: str, body: dict[str, Any], key: str) -> tuple[int, Any]:
        """Do what a write asks for. Returns status and reply."""
        with self.lock:
            kind = "article" if path.startswith("/articles") else "pull"
            known = self._rows(
                "select content from things where kind = ? and key = ? and key != ''", kind, key
            )
            if known and self.honours_keys:
                return 200, json.loads(known[0][0])
            if method == "PUT":
                number = int(path.rpartition("/")[2])
                if not any(one["id"] == number for one in self.things(kind)):
                    return 404, {"message": "Not Found"}
                return 200, self.change(kind, number, **body)
            if kind == "pull" and any(one["state"] == "open" for one in self.pulls(body["head"])):
                reason = {"message": f"A pull request already exists for owner:{body['head']}."}
                return 422, {"message": "Validation Failed", "errors": [reason]}
            return 201, self.make(kind, body, key)

    def read(self, path: str, query: dict[str, str]) -> list[dict[str, Any]]:
        """What a look-up finds."""
        if path == "/articles":
            wanted = query.get("external_id")
            return [one for one in self.things("article") if wanted in (None, one["external_id"])]
        found = [one for one in self.things("pull") if query.get("state", "open") in ("all", one["state"])]
        if "head" in query and self.filters:
            found = [one for one in found if one["head"]["ref"] == query["head"].partition(":")[2]]
        size = min(int(query.get("per_page", 30)), self.page)
        start = (int(query.get("page", 1)) - 1) * size
        return found[start : start + size]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: Service

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        self._went(self.service.ordered("reading"), lambda: (200, self.service.read(url.path, query)))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        mode = self.service.ordered("mode")
        act = self.command, self.path, body, self.headers.get("Idempotency-Key", "")
        if mode == "late":
            timer = threading.Timer(self.service.delay, self.service.write, act)
            timer.daemon = True
            timer.start()
        self._went(mode, lambda: self.service.write(*act))

    def do_PUT(self) -> None:
        self.do_POST()

    def _went(self, mode: str, work: Any) -> None:
        """Let the request go as the mode says."""
        status, reply, more = 0, None, {}
        if mode in ("normal", "lost", "silent", "error_after", "garbled"):
            status, reply = work()
        elif mode == "stale":
            status, reply = 200, []
        if mode in ("error_after", "error"):
            status, reply = 500, {"message": "Something broke."}
        elif mode == "unavailable":
            status, reply = 503, {"message": "Closed for repairs."}
        elif mode == "throttled":
            status, reply, more = (
                429,
                {"message": "Slow down."},
                {"Retry-After": str(self.service.retry_after)},
            )
        elif mode == "unauthorized":
            status, reply = 401, {"message": "Bad credentials"}
        answers = mode not in ("lost", "silent", "late", "dropped")
        key = self.headers.get("Idempotency-Key", "")
        self.service.note(Asked(self.command, self.path, key, mode, status if answers else 0, time.time()))
        if mode == "silent":
            self.service.ended.wait()
        if not answers:
            self.close_connection = True
            return
        text = b"<html>" if mode == "garbled" else json.dumps(reply).encode()
        self.send_response(status)
        for name, value in {**more, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass
