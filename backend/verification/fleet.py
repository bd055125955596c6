"""Facts about the fleet that a verification needs, read from the control plane's REST API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from backend.domain.tree import routes, tree_shape
from backend.domain.tree.tree import clusters_of

_REQUEST_SECONDS = 10.0


class FleetUnknown(Exception):
    """The control plane did not provide what a verification needs.

    `status` is that of its refusal; None if it did not refuse, but the request cannot be verified.
    """

    def __init__(self, sentence: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(sentence)


class FleetAway(FleetUnknown):
    """The control plane does not respond."""


@dataclass(frozen=True)
class Member:
    """One leaf: its connection, and the name of the stream's topic there."""

    name: str
    bootstrap_servers: str
    properties: Mapping[str, str]
    topic: str


@dataclass(frozen=True)
class Fleet:
    """The leaves of the tree, and the flags that the tree implies: `flags[origin][cluster]`."""

    members: tuple[Member, ...]
    flags: Mapping[str, Mapping[str, int]]
    partitions: int


class FleetReader:
    """Reads the fleet with a bearer token; `secret(cluster, key)` supplies secrets that the API masks.

    Raises FleetUnknown if `url` is not a valid URL.
    """

    def __init__(self, url: str, token: str, secret: Callable[[str, str], str]) -> None:
        self._secret = secret
        try:
            self._client = httpx2.Client(
                base_url=f"{url.rstrip('/')}/api/v1",
                headers={"Authorization": f"Bearer {token}"},
                timeout=_REQUEST_SECONDS,
            )
        except httpx2.InvalidURL as error:
            raise FleetUnknown(f"{url!r} is not a valid URL: {error}") from None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def read(self, stream: str | None, internal_topic: str, internal_partitions: int) -> Fleet:
        """Read the current fleet, for a tenant's STREAM or for the internal stream. Raises FleetUnknown."""
        tree = self._get("/trees/main")
        root = tree_shape.parse(tree["root"], clusters_of(tree["root"]))
        names = tree_shape.leaves(root)
        targets = {(row["cluster"], row["level"]): row["target"] for row in self.distributors()}
        topics, partitions = dict.fromkeys(names, internal_topic), internal_partitions
        if stream is not None:
            topics, partitions = self._stream(stream)
        clusters = {row["name"]: row for row in self._clusters()}
        members = tuple(
            Member(
                name,
                clusters[name]["bootstrap_servers"],
                self._properties(name, clusters[name].get("properties") or {}),
                topics[name],
            )
            for name in names
        )
        flags = {origin: routes.arrival_flags(root, targets, origin) for origin in names}
        return Fleet(members, flags, partitions)

    def distributors(self) -> list[dict[str, Any]]:
        """Return the rows of GET /trees/main/distributors. Raises FleetUnknown."""
        rows: list[dict[str, Any]] = self._get("/trees/main/distributors")
        return rows

    def offline(self) -> set[str]:
        """Return the names of the clusters that do not respond. Raises FleetUnknown."""
        return {row["name"] for row in self._clusters() if row["state"] == "offline"}

    def _clusters(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._get("/clusters?limit=1000")["items"]
        return rows

    def _stream(self, stream: str) -> tuple[dict[str, str], int]:
        try:
            tenant, instance, environment, name = stream.split("/")
        except ValueError:
            raise FleetUnknown(f"{stream!r} is not tenant/instance/environment/stream") from None
        path = f"/tenants/{tenant}/instances/{instance}/environments/{environment}/streams/{name}"
        row = self._get(path)
        if not row["distributed"]:
            raise FleetUnknown(f"{stream} is declared with distributed: false; there is nothing to verify")
        return row["technical_names"], row["partitions"]

    def _properties(self, cluster: str, shown: Mapping[str, str]) -> dict[str, str]:
        return {key: self._secret(cluster, key) if value == "***" else value for key, value in shown.items()}

    def _get(self, path: str) -> Any:
        try:
            answer = self._client.get(path)
        except httpx2.HTTPError as error:
            raise FleetAway(f"the control plane at {self._client.base_url} does not respond: {error}") from error
        if answer.status_code != 200:
            try:
                detail = answer.json()["detail"]
            except (ValueError, KeyError, TypeError):
                detail = answer.text[:200]
            raise FleetUnknown(f"GET {path} answered {answer.status_code}: {detail}", answer.status_code)
        try:
            return answer.json()
        except ValueError:
            raise FleetUnknown(
                f"GET {path} returned something other than Treeline's API does; check the URL"
            ) from None
