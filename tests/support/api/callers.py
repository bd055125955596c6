"""Users of the API, each with a token."""

from __future__ import annotations

from typing import Any

from httpx2 import Client, Response

from tests.support.api.rest import Rest


class As(Rest):
    """The API as one user asks it."""

    def __init__(self, client: Client, token: str) -> None:
        super().__init__(client)
        self.token = token

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        return super().__call__(method, path, body, **{"Authorization": f"Bearer {self.token}", **headers})


def new_user(rest: Rest, name: str, role: str = "tenant", **tenants: str) -> As:
    """Make a user with a token called `ci`."""
    body = {"name": name, "role": role, "tenants": {each.replace("_", "-"): as_ for each, as_ in tenants.items()}}
    assert (answer := rest("POST", "/users", body)).status_code == 201, answer.text
    return As(rest.client, new_token(rest, name))


def new_token(rest: Rest, user: str, name: str = "ci") -> str:
    """Issue a token and give it as it was shown."""
    answer = rest("POST", f"/users/{user}/tokens", {"name": name})
    assert answer.status_code == 201, answer.text
    secret: str = answer.json()["secret"]
    return secret
