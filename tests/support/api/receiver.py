"""A webhook's receiver on loopback, which takes what comes or behaves as badly as it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A webhook receiver whose answers can be changed while it runs."""

    url: str = ""
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    hangs: threading.Event = field(default_factory=threading.Event)
    """Set: it takes requests and does not answer, until `freed`."""
    freed: threading.Event = field(default_factory=threading.Event)
    got: list[Got] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        """Return the ids of the events received, in their order."""
        return [each.headers["Treeline-Event"] for each in self.got]


@contextmanager
def receiving(**behaviour: Any) -> Iterator[Receiver]:
    """Yield a running receiver."""
    receiver = Receiver(**behaviour)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(Got(self.path, dict(self.headers), body))
            if receiver.hangs.is_set():
                receiver.freed.wait()
                return
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield receiver
    finally:
        receiver.freed.set()
        server.shutdown()
        server.server_close()
        thread.join()
