"""The most that this server can answer: an application that sends one constant to every request."""

from __future__ import annotations

import os
from typing import Any

BODY = b"x" * int(os.environ["BODY_BYTES"])
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer an ASGI request with a constant."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY})
