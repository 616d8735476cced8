"""A smart-HTTP git server on 127.0.0.1: `git http-backend` behind the standard library's HTTP server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple


class Answer(NamedTuple):
    """What git answers to a request."""

    status: int
    fields: list[list[str]]
    content: bytes


class Handler(BaseHTTPRequestHandler):
    """Hands each request to git, for the repositories below `root`."""

    protocol_version = "HTTP/1.1"
    root = ""

    def do_GET(self) -> None:
        self.serve(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.serve(body)

    def _chunk(self) -> bytes:
        data = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return data

    def serve(self, body: bytes) -> None:
        """Answer a request."""
        path, _, query = self.path.partition("?")
        self.answer(self.ask(path, query, body, os.environ, "writer"))

    def ask(self, path: str, query: str, body: bytes, environment: Mapping[str, str], user: str) -> Answer:
        """What git, in this environment, answers to a request of a user's."""
        env = {
            **environment,
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": user,
            "REMOTE_ADDR": self.client_address[0],
        }
        done = subprocess.run(("git", "http-backend"), input=body, capture_output=True, env=env, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if line]
        status = next((value for name, value in fields if name == "Status"), "200 OK")
        return Answer(int(status.split()[0]), [field for field in fields if field[0] != "Status"], content)

    def answer(self, answer: Answer) -> None:
        """Send an answer to whoever asked, if anybody waits for it still."""
        with contextlib.suppress(OSError):
            self.send_response(answer.status)
            for name, value in answer.fields:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def serve(root: Path) -> Iterator[str]:
    """Serve the repositories below `root`; yields the URL that stands for it."""
    handler = type("Rooted", (Handler,), {"root": str(root)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
