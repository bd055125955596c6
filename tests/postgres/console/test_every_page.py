"""Rules for each page that links and routes lead to: its policy, its forms, text that others wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from fastapi.routing import APIRoute

from backend import web
from backend.deciders import CLUSTER, USER
from backend.domain.access.user import LinkIdentity
from backend.domain.clusters.cluster import RecordOffline
from tests.browser.console.test_accessibility import PAGES
from tests.postgres.console.crawling import MOST_PAGES, POLICY, Page, crawl
from tests.support.api import http
from tests.support.api.rest_client import RestClient
from tests.support.console.consoles import Console, serve_here
from tests.support.console.filling import fill
from tests.support.console.visitors import API_PROD, FORMS, Visitor, clusters_and_tenants, head, record, said
from tests.support.database.postgres import Database, RunningPostgres, fresh_database

SCRIPT = "\"'><script>mark()</script>"
NAMES = {
    "tenant": "acme",
    "instance": "retail",
    "environment": "prod",
    "stream": "orders",
    "application": "billing",
    "cluster": "c1",
    "user": "ada",
    "token": "ci",
    "switch": "s1",
    "placement": "p1",
    "scenario": "log-divergence",
    "position": "3",
    "level": "1",
    "operation": "none",
    "webhook": "ops",
    "subject": "orders",
    "name": "none",
}
# Visitors without a login get these.
OPEN = ("/login", "/login/oidc", "/login/oidc/callback", "/static/{version}/{name:path}", "/static/{name:path}")


@pytest.fixture
def filled(acme: Console, database: Database) -> Console:
    fill(acme, database)
    return acme


def routes(method: str) -> list[str]:
    """Return paths of the console's routes that take this method."""

    def flat(found: Any) -> Iterator[APIRoute]:
        for route in found:
            if isinstance(route, APIRoute):
                yield route
            else:
                yield from flat(route.original_router.routes)

    return sorted({route.path for route in flat(web.routes()) if method in route.methods})


def filled_in(path: str, **names: str) -> str:
    return path.replace(":path}", "}").format(**{**NAMES, **names})


def is_page(answer: httpx2.Response) -> bool:
    return answer.headers.get("content-type", "").startswith("text/html")


def test_routes_are_found() -> None:
    assert len(routes("GET")) > 60
    assert len(routes("POST")) > 30
    assert set(FORMS) - set(map(filled_in, routes("POST"))) == set()


def test_no_form_is_taken_without_its_key(filled: Console) -> None:
    admin, other = Visitor(filled, "root", "admin"), Visitor(filled, "eve", "admin")
    before, keys = head(filled), (admin.key, other.key)
    for path in routes("POST"):
        address = filled_in(path)
        for key, headers in (("", {}), (keys[1], {}), (keys[0], {"Sec-Fetch-Site": "cross-site"})):
            answer = admin.client.post(address, data={"key": key, "step": "confirm"}, headers=headers)
            assert answer.status_code == 403, (address, answer.status_code)
    assert head(filled) == before
    assert admin.get("/account").status_code == 200


def test_without_a_session_no_page_shows_anything(filled: Console) -> None:
    for method in ("GET", "POST"):
        for path in routes(method):
            if path in OPEN:
                continue
            address = filled_in(path)
            for cookie in ("", "treeline_session=foreign"):
                answer = http.request(method, f"{filled.url}{address}", headers={"Cookie": cookie})
                assert answer.status_code in (401, 403, 303), (method, path, answer.status_code)
                if answer.status_code == 303:
                    assert answer.headers["location"].startswith(("/login", "/tree")), path
                assert "orders" not in said(answer), (method, path)


def test_anothers_tenant_is_unknown_by_the_same_words_on_every_page(filled: Console) -> None:
    member = Visitor(filled, "bob", globex="owner")
    asked = 0
    for method in ("GET", "POST"):
        for path in routes(method):
            if "{tenant}" not in path:
                continue
            answers = []
            for tenant in ("acme", "nobodys"):
                address = filled_in(path, tenant=tenant)
                answer = member.get(address) if method == "GET" else member.send(address, step="confirm")
                answers.append((answer.status_code, said(answer).replace(tenant, "TENANT")))
            assert answers[0] == answers[1], (method, path)
            assert answers[0][0] == 404, (method, path, answers)
            asked += 1
    assert asked > 20


def write_script(console: Console, database: Database) -> None:
    """Write a script into every text field."""
    rest = console.rest
    cluster = {"name": "c9", "bootstrap_servers": "127.0.0.1:9", "accept_offline": True}
    rest.ok("POST", "/clusters", {**cluster, "zone": "az1", "properties": {"client.id": SCRIPT}})
    for field in ("zone", "bootstrap_servers", "topic_format", "name"):
        assert rest("POST", "/clusters", {**cluster, "name": "c8", field: SCRIPT}).status_code < 500
    record(database, RecordOffline(reason=SCRIPT), CLUSTER, "cluster-c9")
    theirs = "globex/shop/prod/items"
    # Requested by a user who may not grant it, so that the request stays pending.
    member = RestClient(console.url, Visitor(console, "asker", acme="member").token)
    member.ok("POST", f"{API_PROD}/applications", {"name": "reader", "consumes": [theirs]})
    decision = {"application": "acme/retail/prod/reader", "stream": theirs, "operation": "consume"}
    rest.ok("POST", "/tenants/globex/grants", {**decision, "decision": "refuse", "reason": SCRIPT})
    record(database, LinkIdentity(issuer="https://provider.example", subject=SCRIPT), USER, "user-ada")
    where = "/discovery?tenant=acme&instance=retail&environment=prod"
    rest("GET", f"{where}&client_id={httpx2.QueryParams({'x': SCRIPT})['x']}")
    headers = {"Authorization": f"Bearer {console.token}", "User-Agent": SCRIPT}
    http.post(f"{console.url}/api/v1/tenants", json={"name": "initech"}, headers=headers)


@dataclass(frozen=True)
class Written:
    """A console with a script in every possible place, and all of its pages by address."""

    reader: httpx2.Client
    pages: dict[str, httpx2.Response]


@pytest.fixture(scope="module")
def written(postgres: RunningPostgres) -> Iterator[Written]:
    with fresh_database(postgres, clusters_and_tenants) as database, serve_here(database.url) as console:
        fill(console, database)
        write_script(console, database)
        admin = Visitor(console, "root", "admin")
        reader = http.client(
            base_url=console.url, headers={"User-Agent": SCRIPT}, cookies=dict(admin.client.cookies)
        )
        reader.get(Console(console.url, admin.token).login_link())
        reader.get(f"/login?code={SCRIPT}")
        named = [filled_in(path) for path in routes("GET") if "{" in path]
        yield Written(reader, crawl(reader, ("/", *PAGES, *named, "/clusters/c9", f"/find?q={SCRIPT}")))


def test_every_page_runs_nothing_but_our_files_and_says_so(written: Written) -> None:
    assert 100 < len(written.pages) < MOST_PAGES, "more than are read: links below the last were not followed"
    broken = [
        f"{address}: {each.status_code}" for address, each in written.pages.items() if each.status_code >= 500
    ]
    # No cluster of this test responds.
    assert [each for each in broken if ": 503" not in each] == []
    for address, answer in written.pages.items():
        if is_page(answer):
            page = Page(answer.text)
            assert answer.headers["content-security-policy"] == POLICY, address
            assert answer.headers["x-frame-options"] == "DENY", address
            assert answer.headers["cache-control"] == "no-store", address
            assert page.scripts == [], address
            for form in page.forms:
                assert form.method == "get" or len(form.fields["key"]) == 64, (address, form)
        assert answer.headers["x-content-type-options"] == "nosniff", address
        assert answer.headers["referrer-policy"] == "no-referrer", address


def test_a_script_is_text_wherever_it_was_written(written: Written) -> None:
    shown = [address for address, answer in written.pages.items() if "mark()" in answer.text]
    for part in ("/clusters/c9", "/account", "/audit", "/timeline", "/find"):
        assert any(address.startswith(part) for address in shown), (part, shown)
    for address, answer in written.pages.items():
        assert "<script>mark" not in answer.text or not is_page(answer), address


def test_a_script_in_any_field_of_any_form_comes_back_as_text(written: Written) -> None:
    tried, echoed = set(), 0
    for address, answer in written.pages.items():
        if not is_page(answer) or answer.status_code != 200:
            continue
        for form in Page(answer.text).forms:
            where = (form.method, form.action.partition("?")[0] or address, tuple(form.fields))
            if where in tried or "/logout" in form.action:
                continue
            tried.add(where)
            for name in form.texts:
                sent = {**form.fields, name: SCRIPT, "step": "preview"}
                target = form.action or address
                if form.method == "get":
                    back = written.reader.get(target, params=sent)
                else:
                    back = written.reader.post(target, data=sent)
                assert back.status_code < 500 or back.status_code == 503, (target, name, said(back))
                if is_page(back):
                    assert Page(back.text).scripts == [], (target, name)
                    echoed += "mark()" in back.text
    assert len(tried) > 25
    assert echoed > 25
