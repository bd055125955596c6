"""The estate's own client of the REST API: applies the estate file to the control plane.

Only what is missing is created, and addresses that moved are corrected. Whatever an operator changed since (the
tree, formats, streams) stays as it is: `up` resumes an estate, it does not reset it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from typing import Any

import httpx2

from backend.estate.document import Estate
from backend.estate.plan import Layout

# For a slow cluster the server itself waits, up to its own probe timeout.
REQUEST_SECONDS = 20.0
RETRY_SECONDS = 1.0
NOT_NOW = frozenset({502, 503, 504})
PROBES = 3
"""Probes of a running cluster before it is declared offline; the workers find it later."""


class Refused(RuntimeError):
    """The control plane refused or did not understand a request of the estate."""

    is_unreachable = False
    """True if the request was refused because its cluster did not respond."""


class ControlPlane:
    """Client of one control plane with an admin's token; use as a context manager.

    A request that gets no response, or a response that asks to retry, is sent up to `tries` times. All requests
    are idempotent: existing resources are not created twice.
    """

    def __init__(self, url: str, token: str, *, tries: int = 1) -> None:
        self._tries = tries
        self._client = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=REQUEST_SECONDS, trust_env=False
        )

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def cluster_states(self) -> dict[str, dict[str, Any]]:
        """Return every cluster as the API shows it, by name."""
        return {row["name"]: row for row in self._answer("GET", "/api/v1/clusters")["items"]}

    def tree(self) -> dict[str, Any] | None:
        answer = self._send("GET", "/api/v1/trees/main")
        return None if answer.status_code == 404 else self._checked(answer)

    def login_link(self) -> str:
        return str(self._answer("POST", "/api/v1/login-links")["url"])

    def create(self, path: str, body: dict[str, Any]) -> bool:
        """Send a POST; return False if the resource exists already."""
        answer = self._send("POST", path, json=body)
        if answer.status_code == 409 and answer.json().get("type") == "urn:treeline:already-exists":
            return False
        self._checked(answer)
        return True

    def replace_tree(self, root: dict[str, Any], primary: str) -> None:
        self._checked(self._send("PUT", "/api/v1/trees/main", params={"primary": primary}, json=root))

    def change_cluster(self, name: str, changes: dict[str, Any]) -> None:
        self._checked(self._send("PATCH", f"/api/v1/clusters/{name}", json=changes))

    def _answer(self, method: str, path: str) -> Any:
        return self._checked(self._send(method, path))

    def _send(self, method: str, path: str, **content: Any) -> httpx2.Response:
        for tries_left in reversed(range(self._tries)):
            try:
                answer = self._client.request(method, path, **content)
            except httpx2.TransportError:
                if not tries_left:
                    raise
            else:
                if answer.status_code not in NOT_NOW or not tries_left:
                    return answer
            time.sleep(RETRY_SECONDS)
        raise AssertionError("there is at least one try")

    @staticmethod
    def _checked(answer: httpx2.Response) -> Any:
        if answer.is_success:
            return answer.json()
        request = f"{answer.request.method} {answer.request.url.path}"
        try:
            problem = answer.json()
            places = "; ".join(f"{e['pointer']}: {e['detail']}" for e in problem.get("errors", []))
            detail = f"{problem['title']} {problem.get('detail') or ''} {places}".strip()
        except (ValueError, KeyError, TypeError):
            detail = answer.text[:200]
        refused = Refused(f"{request} answered {answer.status_code}: {detail}")
        refused.is_unreachable = "urn:treeline:cluster-unreachable" in answer.text
        raise refused


def apply_estate(api: ControlPlane, layout: Layout, down: Set[str], progress: Callable[[str], None]) -> list[str]:
    """Create what is missing and return what was changed; `down` names clusters whose brokers did not start."""
    estate, changed = layout.estate, []
    known = api.cluster_states()
    for cluster in estate.clusters:  # in the file's order, which gives cluster-1 the number 1
        wanted = {
            "bootstrap_servers": layout.bootstrap_servers(cluster.name),
            "properties": layout.properties(cluster),
        }
        if cluster.name not in known:
            described = {
                "name": cluster.name,
                "zone": cluster.zone,
                "topic_format": cluster.topic_format,
                "group_format": cluster.group_format,
                "subject_format": cluster.subject_format,
                **wanted,
            }
            _declare(api, described, is_down=cluster.name in down, progress=progress)
            changed.append(f"cluster {cluster.name}")
        elif known[cluster.name]["bootstrap_servers"] != wanted["bootstrap_servers"]:
            # It listens there now: that it does not respond yet is no reason to keep a wrong address.
            api.change_cluster(cluster.name, {**wanted, "accept_offline": True})
            changed.append(f"addresses of {cluster.name}")
    tree = api.tree()
    if tree is None:
        api.replace_tree(estate.tree, estate.primary)
        changed.append("tree main")
    elif tree["root"] != estate.tree:
        progress("the tree differs from the estate file; it is left as it is")
    changed += _apply_tenants(api, estate)
    return changed


def _declare(
    api: ControlPlane, cluster: dict[str, Any], *, is_down: bool, progress: Callable[[str], None]
) -> None:
    """Register a cluster; a slow one on a busy machine must not keep the others undeclared."""
    for _ in range(0 if is_down else PROBES):
        try:
            api.create("/api/v1/clusters", {**cluster, "accept_offline": False})
            return
        except Refused as error:
            if not error.is_unreachable:
                raise
            progress(f"{cluster['name']} does not respond yet")
    api.create("/api/v1/clusters", {**cluster, "accept_offline": True})


def _apply_tenants(api: ControlPlane, estate: Estate) -> list[str]:
    changed: list[str] = []
    # They come last: they may name streams of any tenant.
    applications: list[tuple[str, str, dict[str, Any]]] = []

    def create(path: str, what: str, body: dict[str, Any]) -> None:
        if api.create(path, body):
            changed.append(what)

    for tenant, tenant_section in estate.tenants.items():
        tenants = "/api/v1/tenants"
        create(tenants, f"tenant {tenant}", {"name": tenant})
        for instance, instance_section in tenant_section.instances.items():
            instances = f"{tenants}/{tenant}/instances"
            create(instances, f"instance {tenant}/{instance}", {"name": instance, "tree": "main"})
            for environment, section in instance_section.environments.items():
                environments = f"{instances}/{instance}/environments"
                body = {
                    "name": environment,
                    "margin_seconds": section.margin_seconds,
                    "offset_mode": section.offset_mode,
                    "record_name_subjects": section.record_name_subjects,
                }
                full = f"{tenant}/{instance}/{environment}"
                create(environments, f"environment {full}", body)
                for stream, options in section.streams.items():
                    stream_body = {"name": stream, **options.model_dump(exclude_unset=True)}
                    create(f"{environments}/{environment}/streams", f"stream {full}/{stream}", stream_body)
                for name, asked in section.applications.items():
                    body = {"name": name, **asked.model_dump(exclude_unset=True)}
                    path = f"{environments}/{environment}/applications"
                    applications.append((path, f"application {full}/{name}", body))
    for path, what, body in applications:
        create(path, what, body)
    return changed
