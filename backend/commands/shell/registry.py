"""Asking the schema registry of a cluster from the shell: at `/registries/{cluster}` of the same control plane, by
the same token as everything else.

A registry refuses in the form of Confluent's API, `{"error_code": 40401, "message": "..."}`; what to do then is
said here, in words of the shell.
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
    409: "`treeline schemas level` shows and sets what has to fit.",
    NOT_THERE: "`treeline schemas subjects` lists what there is; --deleted also those that are softly deleted.",
    40402: "`treeline schemas versions SUBJECT` lists what there is; --deleted also what is softly deleted.",
    40403: "`treeline schemas list` lists schemas with their ids.",
    40404: "--permanent does.",
    40405: "Delete it without --permanent first.",
    40406: "--permanent does.",
    40407: "Delete it without --permanent first.",
    42205: "`treeline schemas mode` shows and sets modes.",
    42206: "`treeline schemas referring SUBJECT VERSION` lists what refers to it; that goes first.",
}
"""By error code: what to do about it, where the registry's own words are not enough in a shell."""

_NO_TREE: Mapping[int, str] = {
    403: "Give --cluster: your user is not shown the tree (read-estate), and so not which cluster is its primary. "
    "`treeline discovery show TENANT/INSTANCE/ENVIRONMENT` names a cluster; one that is not the primary names it "
    "when it refuses a write.",
    404: "Give --cluster: there is no tree yet, and so no primary.",
}
"""By status of the tree's answer: why the primary is not known, and what to do."""


@dataclass(frozen=True)
class Registry:
    """One cluster's registry."""

    client: httpx2.Client
    cluster: str

    def get(self, *path: str, **params: Any) -> Any:
        """The answer to a look; a refusal ends the program. Raises ControlPlaneAway."""
        return self.answer(self.send("GET", *path, **params))

    def ask(self, *path: str, body: Any, **params: Any) -> Any:
        """The answer to a question that takes a schema, and changes nothing."""
        sent = self.client.post(self._url(path), params=_told(params), json=body, extensions=ASKS_ONLY)
        return self.answer(sent)

    def change(self, method: str, *path: str, body: Any = None, **params: Any) -> Any:
        """The answer to a write."""
        return self.answer(self.send(method, *path, body=body, **params))

    def send(self, method: str, *path: str, body: Any = None, **params: Any) -> httpx2.Response:
        """The same, whatever it answers."""
        return self.client.request(method, self._url(path), params=_told(params), json=body)

    def answer(self, response: httpx2.Response) -> Any:
        """The JSON of a success; a refusal ends the program with what is wrong, where, and what to do about it.

        Raises ControlPlaneAway.
        """
        code = None if response.is_success else error_code(response)
        if code is None:
            return answer(response)
        sentence = _sentence(response.json(), code, self.cluster)
        # Who asks there may do it, but elsewhere.
        ends_with = Code.CONFLICT if code == _NOT_THE_PRIMARY else code_of(response.status_code)
        if ends_with is Code.AWAY:
            raise ControlPlaneAway(sentence)
        return fail(sentence, ends_with)

    def _url(self, path: tuple[str, ...]) -> str:
        root = str(self.client.base_url).rstrip("/").removesuffix("/api/v1")
        return "/".join([root, "registries", *map(_quoted, (self.cluster, *path))])


def registry_of(client: httpx2.Client, cluster: str | None) -> Registry:
    """Of a cluster, or of the primary, if the user is shown the tree. Raises ControlPlaneAway."""
    if cluster is not None:
        return Registry(client, cluster)
    tree = client.get("/trees/main")
    if tree.status_code in _NO_TREE:
        fail(_NO_TREE[tree.status_code], Code.BAD_INPUT)
    return Registry(client, str(answer(tree)["primary_cluster"]))


def present_registry(
    look: Callable[[Registry], Shown], cluster: str | None, form: Form, every: float | None
) -> None:
    """Show what a look at a registry gives; with `every`, again whenever it changes."""
    present(partial(_looked, look, cluster), form, every)


def _looked(look: Callable[[Registry], Shown], cluster: str | None, client: httpx2.Client) -> Shown:
    return look(registry_of(client, cluster))


def error_code(response: httpx2.Response) -> int | None:
    """By which a registry refuses; None of what is no registry's refusal."""
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
    """Parameters of a query; what is off is not sent."""
    return {
        name: "true" if value is True else str(value)
        for name, value in params.items()
        if value not in (None, False)
    }


def _quoted(part: str) -> str:
    quoted = quote(part, safe="")
    # Of a path the client would take "." and ".." out, and so ask for something else.
    return quoted.replace(".", "%2E") if part in (".", "..") else quoted
