"""Requests to a cluster's schema registry: `/registries/{cluster}` of the control plane, with the same token.

A registry refuses in the form of Confluent's API, `{"error_code": 40401, "message": "..."}`; this module adds what
to do about it on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from backend.commands.shell.exit_codes import Code, code_of
from backend.commands.shell.output import Form, Shown
from backend.commands.shell.rest import ASKS_ONLY, ControlPlaneAway, answer, fail
from backend.commands.shell.watch import present

if TYPE_CHECKING:
    import httpx2

NOT_THERE, NO_LEVEL_OF_ITS_OWN, NO_MODE_OF_ITS_OWN = 40401, 40408, 40409
_NOT_THE_PRIMARY = 40301

_REMEDIES: Mapping[int, str] = {
    404: "`treeline get clusters` lists clusters.",
    409: "`treeline schemas level` shows and sets the compatibility level.",
    NOT_THERE: "`treeline schemas subjects` lists subjects; --deleted includes soft-deleted ones.",
    40402: "`treeline schemas versions SUBJECT` lists versions; --deleted includes soft-deleted ones.",
    40403: "`treeline schemas list` lists schemas with their ids.",
    40404: "--permanent does.",
    40405: "Delete it without --permanent first.",
    40406: "--permanent does.",
    40407: "Delete it without --permanent first.",
    42205: "`treeline schemas mode` shows and sets modes.",
    42206: "`treeline schemas referring SUBJECT VERSION` lists the schemas that reference it; delete them first.",
}
"""Remedies by error code, where the registry's own message is not enough on the command line."""

_NO_TREE: Mapping[int, str] = {
    403: "Give --cluster: your user may not read the tree (read-estate), so the primary cluster is "
    "unknown. `treeline discovery show TENANT/INSTANCE/ENVIRONMENT` names a cluster; one that is not "
    "the primary names it when it refuses a write.",
    404: "Give --cluster: there is no tree yet, and so no primary.",
}
"""Reasons why the primary is unknown, and what to do, by status of the tree's answer."""


@dataclass(frozen=True)
class Registry:
    """Schema registry of one cluster."""

    client: httpx2.Client
    cluster: str

    def get(self, *path: str, **params: Any) -> Any:
        """Return the answer to a GET; a refusal ends the program. Raises ControlPlaneAway."""
        return self.answer(self.send("GET", *path, **params))

    def ask(self, *path: str, body: Any, **params: Any) -> Any:
        """Return the answer to a request that takes a schema and changes nothing."""
        sent = self.client.post(self._url(path), params=_told(params), json=body, extensions=ASKS_ONLY)
        return self.answer(sent)

    def change(self, method: str, *path: str, body: Any = None, **params: Any) -> Any:
        """Return the answer to a write."""
        return self.answer(self.send(method, *path, body=body, **params))

    def send(self, method: str, *path: str, body: Any = None, **params: Any) -> httpx2.Response:
        """Send a request and return the response, whatever its status."""
        return self.client.request(method, self._url(path), params=_told(params), json=body)

    def answer(self, response: httpx2.Response) -> Any:
        """Return the JSON of a success; a refusal ends the program with the error and its remedy.

        Raises ControlPlaneAway.
        """
        code = None if response.is_success else error_code(response)
        if code is None:
            return answer(response)
        sentence = _sentence(response.json(), code, self.cluster)
        # The user may do it, but on another cluster.
        ends_with = Code.CONFLICT if code == _NOT_THE_PRIMARY else code_of(response.status_code)
        if ends_with is Code.AWAY:
            raise ControlPlaneAway(sentence)
        return fail(sentence, ends_with)

    def _url(self, path: tuple[str, ...]) -> str:
        root = str(self.client.base_url).rstrip("/").removesuffix("/api/v1")
        return "/".join([root, "registries", *map(_quoted, (self.cluster, *path))])


def registry_of(client: httpx2.Client, cluster: str | None) -> Registry:
    """Return the registry of a cluster, or of the primary if the user may read the tree.

    Raises ControlPlaneAway.
    """
    if cluster is not None:
        return Registry(client, cluster)
    tree = client.get("/trees/main")
    if tree.status_code in _NO_TREE:
        fail(_NO_TREE[tree.status_code], Code.BAD_INPUT)
    return Registry(client, str(answer(tree)["primary_cluster"]))


def present_registry(
    look: Callable[[Registry], Shown], cluster: str | None, form: Form, every: float | None
) -> None:
    """Show the result of a request to a registry; with `every`, again whenever it changes."""
    present(partial(_looked, look, cluster), form, every)


def _looked(look: Callable[[Registry], Shown], cluster: str | None, client: httpx2.Client) -> Shown:
    return look(registry_of(client, cluster))


def error_code(response: httpx2.Response) -> int | None:
    """Return the error code of a registry's refusal; None if the response is not one."""
    try:
        refusal = response.json()
        return int(refusal["error_code"]) if "message" in refusal else None
    except (ValueError, KeyError, TypeError):
        return None


def _sentence(refusal: Mapping[str, Any], code: int, cluster: str) -> str:
    remedy = _REMEDIES.get(code, "")
    if code == _NOT_THE_PRIMARY:
        remedy = f"Leave --cluster out, or give --cluster {refusal.get('primary_cluster')}."
    message = f"{str(refusal['message']).rstrip('.')}. {remedy}".rstrip()
    return f"{message} (The registry of {cluster}, code {code}.)"


def _told(params: Mapping[str, Any]) -> dict[str, str]:
    """Return query parameters without those that are off."""
    return {
        name: "true" if value is True else str(value)
        for name, value in params.items()
        if value not in (None, False)
    }


def _quoted(part: str) -> str:
    quoted = quote(part, safe="")
    # In a path the client would resolve "." and "..", and so request something else.
    return quoted.replace(".", "%2E") if part in (".", "..") else quoted
