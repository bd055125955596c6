"""Commands to the running estate's proxy; see `backend.estate.proxy` for the faults."""

from __future__ import annotations

import json
import socket
from typing import Any

from backend.estate.home import Home
from backend.estate.running import is_running, read_layout

ANSWER_SECONDS = 5.0


class FaultRefused(RuntimeError):
    """The proxy is not running, or refused the command."""


def order(home: Home, action: str, cluster: str | None = None, **details: Any) -> list[dict[str, Any]]:
    """Send one command to the proxy of the running estate; return the state of all links. Raises FaultRefused."""
    if not is_running(home):
        raise FaultRefused("No estate runs. Start one with `treeline up`.")
    port = read_layout(home)["proxy_control_port"]
    if port is None:
        raise FaultRefused("No cluster of this estate has `listeners_via_proxy: true`.")
    return order_at(port, home.secret("proxy-token"), action, cluster, **details)


def order_at(port: int, token: str, action: str, cluster: str | None, **details: Any) -> list[dict[str, Any]]:
    """Send one command to a proxy, addressed by control port and token; return the state of all links."""
    words = {"action": action, "cluster": cluster, "token": token, **details}
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as connection:
            connection.sendall(json.dumps(words).encode() + b"\n")
            with connection.makefile() as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
    except (OSError, ValueError) as error:
        raise FaultRefused(f"the proxy does not respond: {error}") from error
    if "error" in answer:
        raise FaultRefused(answer["error"])
    links: list[dict[str, Any]] = answer["links"]
    return links
