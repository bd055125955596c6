"""Viewers of tenants' pages and forms, and the answers that all others get."""

from __future__ import annotations

import pytest

from tests.nightly import some_now
from tests.support.api import http
from tests.support.console.consoles import Console
from tests.support.console.visitors import (
    ALLOWED,
    FORMS,
    PROD,
    Visitor,
    head,
    rows,
    said,
    visitor,
)


def test_pages_say_what_there_is_and_lead_from_one_to_the_next(acme: Console) -> None:
    operator = visitor(acme, "operator")
    assert set(rows(operator.get("/tenants"), "data-tenant")) == {"acme", "globex"}
    assert rows(operator.get("/tenants"), "data-tenant")["acme"] == "acme 1 1 –"
    tenant = operator.get("/tenants/acme")
    assert "on the tree main" in said(tenant)
    assert rows(tenant, "data-environment") == {"prod": "prod 1 margin 60 s c1 1"}
    assert operator.get("/tenants/acme/retail").headers["location"] == "/tenants/acme#retail"
    environment = operator.get(PROD)
    assert rows(environment, "data-stream")["orders"].startswith("orders 4 pending Applied on 0 of 3 clusters")
    stream = operator.get(f"{PROD}/orders")
    assert rows(stream, "data-cluster") == {
        "c1": "c1 acme-retail-prod-orders acme-retail-prod-orders -… pending –",
        "c2": "c2 acme-retail-prod-orders acme-retail-prod-orders -… pending –",
        "c3": "c3 acme-prod-orders acme-prod-orders -… pending –",
    }
    assert "Retention 7 d" in said(operator.get(f"{PROD}/orders/-settings"))
    for page, links in ((tenant, ["/tenants", PROD]), (environment, [f"{PROD}/orders", f"{PROD}/-new"])):
        assert all(f'href="{link}"' in page.text for link in links)


def test_a_member_sees_its_own_tenant_only(acme: Console) -> None:
    member = visitor(acme, "member")
    assert set(rows(member.get("/tenants"), "data-tenant")) == {"acme"}
    assert "Your tenant Streams 1" in said(member.get("/")) and "globex" not in said(member.get("/"))
    assert "globex" not in member.get("/tenants").text


@some_now("path", ["", "/retail", "/retail/prod", "/retail/prod/orders", "/retail/prod/orders/-applied"], now=(3,))
def test_anothers_tenant_is_unknown_by_the_same_words(acme: Console, path: str) -> None:
    stranger, operator = visitor(acme, "stranger"), visitor(acme, "operator")
    theirs, nobodys = stranger.get(f"/tenants/acme{path}"), operator.get(f"/tenants/nobody{path}")
    assert (theirs.status_code, nobodys.status_code) == (404, 404)
    assert said(theirs).replace("acme", "nobody") == said(nobodys)


@some_now("path", FORMS, now=(1,))
def test_forms_of_anothers_tenant_are_unknown_too(acme: Console, path: str) -> None:
    stranger, before = visitor(acme, "stranger"), head(acme)
    expected = 403 if path == "/tenants/-new" else 404
    assert stranger.get(path).status_code == expected
    answer = stranger.send(path, step="confirm", once="x" * 20, **FORMS[path])
    assert answer.status_code == expected
    assert "orders" not in said(answer)
    assert head(acme) == before


@pytest.mark.parametrize("path", ["/tenants/A", "/tenants/acme/%00", "/tenants/acme/retail/prod/no%20name"])
def test_what_nothing_can_be_called_is_unknown(acme: Console, path: str) -> None:
    assert visitor(acme, "operator").get(path).status_code == 404
    assert visitor(acme, "stranger").get(path).status_code == 404


def test_what_there_is_not_is_said(owner: Visitor) -> None:
    for path, words in (
        ("/tenants/acme/nothing/prod", "acme has no instance 'nothing'"),
        ("/tenants/acme/retail/nothing", "acme/retail has no environment 'nothing'"),
        (f"{PROD}/nothing", "there is no stream acme/retail/prod/nothing"),
        (f"{PROD}/nothing/-change", "there is no stream acme/retail/prod/nothing"),
        ("/tenants/acme/nothing/-new", "acme has no instance 'nothing'"),
    ):
        answer = owner.get(path)
        assert answer.status_code == 404
        assert words in said(answer)


@some_now("path", ["/tenants", PROD, f"{PROD}/orders", *FORMS], now=(1,))
def test_without_a_session_pages_ask_for_one(acme: Console, path: str) -> None:
    answer = http.get(f"{acme.url}{path}")
    assert answer.status_code == 401
    assert "Log in" in answer.text
    assert "orders" not in said(answer)


@some_now("kind", ["viewer", "member", "owner", "operator"], now=(1, 2))
def test_what_one_may_not_do_is_greyed_with_the_reason_and_refused(acme: Console, kind: str) -> None:
    user, before = visitor(acme, kind), head(acme)
    places = {"/tenants/-new": "/tenants", "/tenants/acme/-new": "/tenants/acme"}
    for path, fields in FORMS.items():
        may = kind in ALLOWED[path]
        assert user.get(path).status_code == (200 if may else 403), path
        answer = user.send(path, step="preview" if may else "confirm", once="x" * 20, **fields)
        assert answer.status_code == (200 if may else 403), (path, said(answer))
        page = user.get(places.get(path, path.rpartition("/")[0]))
        if page.status_code == 200:
            assert (f'href="{path}"' in page.text) == may, path
    if kind == "member":
        assert "manage-tenant" in said(user.get(f"{PROD}/orders"))
        assert 'aria-disabled="true"' in user.get(f"{PROD}/orders").text
    assert head(acme) == before


@pytest.mark.parametrize("spoilt", ["no key", "another site"])
@some_now("path", FORMS, now=(1,))
def test_a_form_that_no_page_of_ours_sent_changes_nothing(acme: Console, path: str, spoilt: str) -> None:
    operator, before = visitor(acme, "operator"), head(acme)
    key = operator.key if spoilt == "another site" else ""
    headers = {"Sec-Fetch-Site": "cross-site"} if spoilt == "another site" else {}
    for step in ("check", "preview", "confirm"):
        data = {"key": key, "step": step, "once": "x" * 20, **FORMS[path]}
        assert operator.client.post(path, data=data, headers=headers).status_code == 403
    assert head(acme) == before
