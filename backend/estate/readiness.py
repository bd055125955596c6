"""Readiness checks of started processes: one short probe each, standard library only.

Every probe is bounded to a fraction of a second, because the supervisor is single-threaded (see there).
"""

from __future__ import annotations

import http.client
import socket
import struct
from pathlib import Path

from backend.estate.processes import ProcessSpec, Ready

LOOK_SECONDS = 0.5


def is_ready(spec: ProcessSpec, log_start: int) -> bool:
    """Return whether the process that began to log at byte `log_start` is ready now."""
    ready = spec.ready
    try:
        match ready.kind:
            case "log_line":
                return _log_holds(Path(spec.log), ready.text, log_start)
            case "file":
                return any(Path(ready.path).parent.glob(Path(ready.path).name + "*"))
            case "http":
                return _http_answers(ready)
            case "tcp":
                return _tcp_answers(ready)
            case "redis":
                return _redis_answers(ready)
            case "postgres":
                return _postgres_answers(ready)
    except (OSError, http.client.HTTPException):
        return False
    return False


def _log_holds(log: Path, text: str, start: int) -> bool:
    with log.open("rb") as file:
        file.seek(start)
        return text.encode() in file.read()


def _http_answers(ready: Ready) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", ready.port, timeout=LOOK_SECONDS)
    try:
        connection.request("GET", ready.path)
        return connection.getresponse().status == 200
    finally:
        connection.close()


def _tcp_answers(ready: Ready) -> bool:
    with socket.create_connection(("127.0.0.1", ready.port), LOOK_SECONDS):
        return True


def _redis_answers(ready: Ready) -> bool:
    with socket.create_connection(("127.0.0.1", ready.port), LOOK_SECONDS) as connection:
        connection.sendall(f"AUTH {ready.password}\r\nPING\r\n".encode())
        answer = b""
        while answer.count(b"\r\n") < 2:
            part = connection.recv(256)
            if not part:
                return False
            answer += part
        return answer.startswith(b"+OK\r\n+PONG")


def _postgres_answers(ready: Ready) -> bool:
    """Return whether PostgreSQL asks for the password (R); one that starts or recovers accepts, but answers E."""
    parameters = b"user\0treeline\0database\0postgres\0\0"
    message = struct.pack(">ii", 8 + len(parameters), 3 << 16) + parameters
    with socket.create_connection(("127.0.0.1", ready.port), LOOK_SECONDS) as connection:
        connection.sendall(message)
        return connection.recv(1) == b"R"
