"""Logins through a provider: admission, users, and grants of groups."""

from __future__ import annotations

from pathlib import Path

from tests.browser.access.test_users_page import new_user
from tests.support.console.consoles import Console
from tests.support.console.oidc import console_with, log_in, me, refused
from tests.support.console.openid_provider import Claims, Provider
from tests.support.database.postgres import Database


def test_who_is_disabled_here_stays_out(sso: Console) -> None:
    client, _ = log_in(sso)
    sso.rest.ok("PATCH", "/users/ada", {"disabled": True})
    assert client.get("/account").status_code == 401
    refused(log_in(sso)[1], "ada is disabled")


def test_a_name_gives_nobody_a_user_that_is_here_already(sso: Console, provider: Provider) -> None:
    new_user(sso, "bob", "admin")
    for name in ("admin", "bob", "Bob@evil.example", "worker:reconcile", "", None, "<b>", 7):
        provider.person = {"sub": "s-2", "preferred_username": name}
        refused(log_in(sso)[1], "your subject is s-2")
    assert [user["name"] for user in sso.rest.ok("GET", "/users")["items"]] == ["bob"]


def test_an_admin_links_a_user_to_who_the_provider_knows(sso: Console, provider: Provider) -> None:
    new_user(sso, "bob", "viewer")
    provider.person = {"sub": "s-2", "preferred_username": "bob"}
    refused(log_in(sso)[1], "your subject is s-2")
    linked = sso.rest.ok("PUT", "/users/bob/identity", {"subject": "s-2"})
    assert linked == {"issuer": provider.url, "subject": "s-2"}
    client, _ = log_in(sso)
    assert me(client)["name"] == "bob"
    assert sso.rest("PUT", "/users/ada/identity", {"subject": "s-3"}).status_code == 404
    new_user(sso, "eve")
    assert sso.rest("PUT", "/users/eve/identity", {"subject": "s-2"}).status_code == 409
    assert sso.rest("DELETE", "/users/bob/identity").status_code == 204
    assert client.get("/account").status_code == 401
    refused(log_in(sso)[1], "not linked to you")


def test_groups_rule_what_they_are_named_for_and_nothing_else(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    grants = {"sre": ["operator"], "staff": ["viewer", "acme/member"], "orders": ["acme/owner", "nobody/owner"]}
    with console_with(database, provider, tmp_path, oidc_grants=grants) as console:
        for tenant in ("acme", "globex"):
            console.rest.ok("POST", "/tenants", {"name": tenant})

        def seen(*groups: str) -> tuple[str, Claims]:
            provider.person["groups"] = list(groups)
            found = me(log_in(console)[0])
            return found["role"], found["tenants"]

        assert seen("staff") == ("viewer", {"acme": "member"})
        console.rest.ok("PATCH", "/users/ada", {"role": "admin", "tenants": {"globex": "owner"}})
        assert seen("staff", "orders", "sre") == ("operator", {"acme": "owner", "globex": "owner"})
        assert seen() == ("tenant", {"globex": "owner"})
        head = console.rest.ok("GET", "/events/head")
        assert seen() == ("tenant", {"globex": "owner"})
        assert console.rest.ok("GET", "/events/head") == head
        provider.person = {**provider.person, "groups": None, "_claim_names": {"groups": "src1"}}
        refused(log_in(console)[1], "did not send your groups")


PEOPLE = (
    ({"email": "ada@acme.example", "email_verified": True}, True),
    ({"email": "ada@ACME.example", "email_verified": True}, True),
    ({"email": "ada@acme.example", "email_verified": False}, False),
    ({"email": "ada@acme.example"}, False),
    ({"email": "ada@acme.example.evil.example", "email_verified": True}, False),
    ({"groups": ["staff"]}, True),
    ({"groups": "staff"}, True),
    ({"groups": ["others"]}, False),
    ({}, False),
)


def test_only_domains_and_groups_that_are_allowed_get_in(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    allowed = {"oidc_allowed_domains": ["acme.example"], "oidc_allowed_groups": ["staff"]}
    known = provider.person
    with console_with(database, provider, tmp_path, **allowed) as console:
        for person, enters in PEOPLE:
            provider.person = {**known, **person}
            answer = log_in(console)[1]
            if enters:
                assert answer.status_code == 303, person
            else:
                refused(answer, "are allowed here")


def test_who_is_let_in_no_longer_loses_what_groups_gave_and_its_sessions(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    """By an ID token of its own that says so: a session that is open, and tokens, may no more than that."""
    settings = {
        "oidc_allowed_domains": [],
        "oidc_allowed_groups": ["staff"],
        "oidc_grants": {"staff": ["admin", "acme/owner"], "others": ["operator"]},
    }
    with console_with(database, provider, tmp_path, **settings) as console:
        for tenant in ("acme", "globex"):
            console.rest.ok("POST", "/tenants", {"name": tenant})
        provider.person["groups"] = ["staff"]
        client, _ = log_in(console)
        assert me(client)["role"] == "admin"
        console.rest.ok("PATCH", "/users/ada", {"tenants": {"acme": "owner", "globex": "member"}})
        provider.person["groups"] = ["others"]
        refused(log_in(console)[1], "are allowed here")
        user = console.rest.ok("GET", "/users/ada")
        assert (user["role"], user["tenants"]) == ("tenant", {"globex": "member"})
        assert client.get("/account").status_code == 401
        head = console.rest.ok("GET", "/events/head")
        refused(log_in(console)[1], "are allowed here")
        provider.person["sub"] = "s-2"
        refused(log_in(console)[1], "are allowed here")
        assert console.rest.ok("GET", "/events/head") == head


def test_without_domains_and_groups_only_who_is_linked_gets_in(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    with console_with(database, provider, tmp_path, oidc_allowed_domains=[]) as console:
        refused(log_in(console)[1], "no user here is linked to you")
        new_user(console, "bob")
        console.rest.ok("PUT", "/users/bob/identity", {"subject": "s-1"})
        assert me(log_in(console)[0])["name"] == "bob"
