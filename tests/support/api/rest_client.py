"""Client for the REST API of a running estate, independent of the product."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.api import http


class RestClient:
    """REST client with paths below /api/v1; `ok` raises on anything but success."""

    def __init__(self, url: str, token: str) -> None:
        self._client = http.client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"})

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.request(method, path, json=body, headers=sent)

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        answer = self(method, path, body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None
