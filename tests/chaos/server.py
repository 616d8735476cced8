"""The remote over smart HTTP, to which each clone comes by a way of its own that can be cut, or lose answers."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Server:
    """`git http-backend` behind addresses `/NAME/remote.git`, NAME being the clone that asks."""

    def __init__(self, folder: Path, environment: Callable[[str], dict[str, str]]) -> None:
        """`environment`: what git is to see that serves a clone, by the clone's name."""
        self.refusing: dict[str, str] = {}  # clone -> how it is kept off: gone, refused, dropped
        self.losing: set[str] = set()  # clones that do not get the answers to their pushes
        self.lost = 0  # answers that were lost
        self.folder, self.environment = folder, environment
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> str:
        """Serve, in threads; the address."""
        handler = type("Handler", (_Handler,), {"its": self})
        self._server = _Quiet(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that was killed


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    its: Server

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._serve(body)

    def _chunk(self) -> bytes:
        data = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return data

    def _serve(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        _, name, *rest = path.split("/")
        how = self.its.refusing.get(name)
        if how == "dropped":
            self._hang_up()
        elif how is not None:
            self._answer({"gone": 404, "refused": 503}[how], [], b"")
        else:
            status, fields, content = self._ask(name, "/" + "/".join(rest), query, body)
            if name in self.its.losing and rest[-1] == "git-receive-pack":
                self.its.lost += 1
                self._hang_up()
            else:
                self._answer(status, fields, content)

    def _ask(self, name: str, path: str, query: str, body: bytes) -> tuple[int, list[list[str]], bytes]:
        env = {
            **self.its.environment(name),
            "GIT_PROJECT_ROOT": str(self.its.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": name,
            "REMOTE_ADDR": self.client_address[0],
        }
        done = subprocess.run(("git", "http-backend"), input=body, capture_output=True, env=env, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if line]
        status = next((value for name, value in fields if name == "Status"), "200 OK")
        return int(status.split()[0]), [field for field in fields if field[0] != "Status"], content

    def _answer(self, status: int, fields: list[list[str]], content: bytes) -> None:
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in fields:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _hang_up(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass
