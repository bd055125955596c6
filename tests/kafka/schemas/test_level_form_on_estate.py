"""The form that sets a subject's compatibility level, on a real cluster's registry."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from tests.postgres.schemas.test_level_form import FORM, by_rest
from tests.postgres.schemas.test_schemas_pages import avro
from tests.support.api import http
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, hidden, rows, said
from tests.support.estate.running import RunningEstate


@dataclass(frozen=True)
class Levelled:
    """A member of a tenant, whose stream has a subject with the level FULL."""

    member: Visitor
    subject: str
    short: str
    """Name of the subject on cluster-4."""

    def config(self, method: str, body: Any = None) -> httpx2.Response:
        """The registry's own answer to the member."""
        return by_rest(self.member, method, self.subject, body, cluster="cluster-1")


@pytest.fixture
def levelled(estate: RunningEstate) -> Levelled:
    console, tenant = Console(estate.url, estate.token), f"t{secrets.token_hex(4)}"
    for path, body in (
        ("/tenants", {"name": tenant}),
        (f"/tenants/{tenant}/instances", {"name": "i"}),
        (f"/tenants/{tenant}/instances/i/environments", {"name": "e"}),
        (f"/tenants/{tenant}/instances/i/environments/e/streams", {"name": "orders"}),
    ):
        console.rest.ok("POST", path, body)
    found = Levelled(
        Visitor(console, f"ada-{tenant}", **{tenant: "member"}),
        f"{tenant}-i-e-orders-value",
        f"{tenant}-e-orders-value",
    )
    versions = f"{estate.url}/registries/cluster-1/subjects/{found.subject}/versions"
    headers = {"Authorization": f"Bearer {found.member.token}"}
    registered = http.post(versions, json={"schema": avro("id")}, headers=headers, timeout=60)
    assert registered.status_code == 200, registered.text
    assert found.config("PUT", {"compatibility": "FULL", "normalize": True}).status_code == 200
    return found


def test_a_level_is_set_and_taken_back_as_the_registry_does_it(levelled: Levelled) -> None:
    member, mine = levelled.member, levelled.subject
    assert f'href="{FORM}?subject={mine}"' in member.get(f"/schemas/cluster-1/{mine}").text
    form = member.get(f"{FORM}?subject={mine}")
    assert '<option value="FULL" selected>' in form.text
    assert hidden(form)["version"] == "FULL"
    fields = {"subject": mine, "version": "FULL"}
    typed = member.send(FORM, step="check", level="BACKWARD_TRANSITIVE", **fields)
    means = "consumers with the new schema can read data of all earlier versions"
    assert f"will have compatibility level BACKWARD_TRANSITIVE: {means}" in said(typed)

    preview = member.preview(FORM, level="NONE", **fields)
    assert rows(preview, "data-field") == {
        "Compatibility": "Compatibility FULL NONE",
        "Source": "Source subject unchanged",
        "Normalize schemas": "Normalize schemas yes unchanged",
    }
    assert rows(preview, "data-cluster")["cluster-4"] == f"cluster-4 {levelled.short}"
    assert f'-X PUT "$TREELINE_URL/registries/cluster-1/config/{mine}"' in code(preview, "same-curl")
    assert levelled.config("GET").json()["compatibilityLevel"] == "FULL"
    done = member.client.post(FORM, data={**hidden(preview), "step": "confirm"})
    assert (done.status_code, done.headers["location"]) == (303, f"/schemas/cluster-1/{mine}")
    assert levelled.config("GET").json() == {"compatibilityLevel": "NONE", "normalize": True}
    assert "NONE (subject level)" in said(member.get(f"/schemas/cluster-1/{mine}"))
    same = member.preview(FORM, level="NONE", subject=mine, version="NONE")
    assert "Nothing would change" in said(same)

    back = member.preview(FORM, level="", subject=mine, version="NONE")
    assert rows(back, "data-field")["Source"] == "Source subject global default"
    assert rows(back, "data-field")["Compatibility"] == "Compatibility NONE BACKWARD"
    assert rows(back, "data-field")["Normalize schemas"] == "Normalize schemas yes no"
    assert "-X DELETE" in code(back, "same-curl")
    # Somebody is faster, by the registry.
    assert levelled.config("PUT", {"compatibility": "FORWARD"}).status_code == 200
    stale = member.client.post(FORM, data={**hidden(back), "step": "confirm"})
    assert stale.status_code == 412
    again = {**hidden(member.preview(FORM, level="", **{**fields, "version": hidden(stale)["version"]}))}
    assert member.client.post(FORM, data={**again, "step": "confirm"}).status_code == 303
    assert levelled.config("GET").json()["error_code"] == 40408
    assert "Nothing would change" in said(member.preview(FORM, level="", subject=mine, version=""))
