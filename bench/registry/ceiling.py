"""What this server can answer at most: an application that sends one constant, whatever it is asked."""

from __future__ import annotations

import os
from typing import Any

BODY = b"x" * int(os.environ["BODY_BYTES"])
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """ASGI."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY})
