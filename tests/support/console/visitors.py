"""Users who visit pages without a browser, and send their forms."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx2

from backend.deciders import TENANT
from tests.support.api import http, worker_records
from tests.support.console.consoles import Console, serve_here
from tests.support.database.postgres import Database

TREE = {
    "level": 2,
    "children": [{"cluster": "c1"}, {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c3"}]}],
}
SHORT = "{tenant}-{environment}-{topic}"
PROD = "/tenants/acme/retail/prod"
API_PROD = "/tenants/acme/instances/retail/environments/prod"


STREAM = {
    "partitions": "4",
    "replication_factor": "1",
    "min_insync_replicas": "1",
    "retention_ms": "7 d",
    "cleanup_policy": "delete",
    "max_message_bytes": "1 MiB",
    "distributed": "yes",
}
FORMS = {
    "/tenants/-new": {"name": "initech"},
    "/tenants/acme/-new": {"name": "wholesale", "tree": "main"},
    "/tenants/acme/retail/-new": {
        "name": "test",
        "margin_seconds": "60",
        "record_name_subjects": "refused",
        "offset_mode": "margin",
    },
    f"{PROD}/-change": {
        "margin_seconds": "90",
        "record_name_subjects": "refused",
        "offset_mode": "exact",
        "version": "3",
    },
    f"{PROD}/-new": {"name": "payments", **STREAM},
    f"{PROD}/orders/-change": {**STREAM, "partitions": "8", "version": "4"},
    f"{PROD}/orders/-delete": {"version": "4"},
}
OPERATORS, OWNERS, MEMBERS = ("operator",), ("operator", "owner"), ("operator", "owner", "member")
ALLOWED = dict(zip(FORMS, (OPERATORS, OWNERS, OWNERS, OWNERS, MEMBERS, MEMBERS, OWNERS), strict=True))


def add_clusters(console: Console) -> None:
    """Add three clusters that are down, the last one with shorter names, in a tree."""
    for name, formats in (("c1", {}), ("c2", {}), ("c3", {"topic_format": SHORT, "subject_format": SHORT})):
        body = {"name": name, "bootstrap_servers": "127.0.0.1:9", "accept_offline": True, **formats}
        console.rest.ok("POST", "/clusters", body)
    console.rest.ok("PUT", "/trees/main", TREE)


def add_tenants(console: Console) -> None:
    """Add acme/retail/prod with the stream orders, and globex/shop/prod with items."""
    for tenant, instance, stream in (("acme", "retail", "orders"), ("globex", "shop", "items")):
        console.rest.ok("POST", "/tenants", {"name": tenant})
        console.rest.ok("POST", f"/tenants/{tenant}/instances", {"name": instance})
        below = f"/tenants/{tenant}/instances/{instance}/environments"
        console.rest.ok("POST", below, {"name": "prod"})
        console.rest.ok("POST", f"{below}/prod/streams", {"name": stream, "partitions": 4})


def clusters_and_tenants(database_url: str) -> None:
    """Fill a database with both."""
    with serve_here(database_url) as console:
        add_clusters(console)
        add_tenants(console)


class Visitor:
    """A logged-in user with this role and these memberships."""

    def __init__(self, console: Console, name: str, role: str = "tenant", **tenants: str) -> None:
        console.rest.ok("POST", "/users", {"name": name, "role": role, "tenants": tenants})
        self.token = console.rest.ok("POST", f"/users/{name}/tokens", {"name": "t"})["secret"]
        self.client = http.client(base_url=console.url)
        assert self.client.get(Console(console.url, self.token).login_link()).status_code == 303

    def get(self, path: str) -> httpx2.Response:
        return self.client.get(path)

    @property
    def key(self) -> str:
        """Return the key that the user's forms carry."""
        found = re.search('name="key" value="([0-9a-f]{64})"', self.client.get("/account").text)
        assert found is not None
        return found[1]

    def send(self, path: str, **fields: str) -> httpx2.Response:
        """Send a form of a page."""
        return self.client.post(path, data={"key": self.key, **fields})

    def preview(self, path: str, **fields: str) -> httpx2.Response:
        """Submit a form for its preview."""
        answer = self.send(path, step="preview", **fields)
        assert answer.status_code == 200, said(answer)
        return answer

    def confirm(self, path: str, **fields: str) -> httpx2.Response:
        """Submit the preview's own form, and so confirm the change."""
        sent = hidden(self.preview(path, **fields))
        assert fields.items() <= sent.items()
        return self.client.post(path, data={**sent, "step": "confirm"})


def visitor(console: Console, kind: str) -> Visitor:
    """Log in as a member or owner of acme, an owner of globex ("stranger"), or a user with this role."""
    if kind in ("owner", "member"):
        return Visitor(console, kind, acme=kind)
    if kind == "stranger":
        return Visitor(console, kind, globex="owner")
    return Visitor(console, kind, kind)


def head(console: Console) -> Any:
    """Return the newest event's position and hash."""
    return console.rest.ok("GET", "/events/head")


def record(database: Database, command: Any, decider: Any = TENANT, stream: str = "tenant-acme") -> None:
    """Record what a worker finds on a cluster, of acme's streams or of those of `stream`."""
    worker_records.record(database.engine, command, decider, stream)


def hidden(page: httpx2.Response) -> dict[str, str]:
    """Return the hidden fields of the last form of a page."""
    form = page.text.rpartition("<form")[2]
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return {name: html.unescape(value) for name, value in found}


def values(page: httpx2.Response) -> dict[str, str]:
    """Return the values of the text fields of a page."""
    return {
        name: html.unescape(value)
        for name, value in re.findall(r'<input id="field-[^"]*" name="([^"]*)" value="([^"]*)"', page.text)
    }


def said(page: httpx2.Response) -> str:
    """Return the text of a page's content, in one line."""
    content = page.text.partition("<main>")[2] or page.text
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", content)).split())


def code(page: httpx2.Response, part: str) -> str:
    """Return the text of one of the blocks with the same change by other means."""
    found = re.search(rf'<pre[^>]*id="{part}"><code>(.*?)</code>', page.text, re.DOTALL)
    assert found is not None, part
    return html.unescape(found[1])


def rows(page: httpx2.Response, attribute: str) -> dict[str, str]:
    """Return the texts of a table's rows by their data attribute."""
    found: dict[str, Any] = dict(
        re.findall(rf'<tr [^>]*{attribute}="([^"]*)"[^>]*>(.*?)</tr>', page.text, re.DOTALL)
    )
    return {
        html.unescape(name): " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())
        for name, text in found.items()
    }
