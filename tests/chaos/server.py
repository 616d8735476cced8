"""The remote over smart HTTP, to which each clone comes by a way of its own that can be cut, or lose answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.httpgit import Answer, Handler


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
        handler = type("Rooted", (_Handler,), {"its": self, "root": str(self.folder)})
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


class _Handler(Handler):
    its: Server

    def serve(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        _, name, *rest = path.split("/")
        how = self.its.refusing.get(name)
        if how == "dropped":
            self._hang_up()
        elif how is not None:
            self.answer(Answer({"gone": 404, "refused": 503}[how], [], b""))
        else:
            answer = self.ask("/" + "/".join(rest), query, body, self.its.environment(name), name)
            if name in self.its.losing and rest[-1] == "git-receive-pack":
                self.its.lost += 1
                self._hang_up()
            else:
                self.answer(answer)

    def _hang_up(self) -> None:
        self.close_connection = True
