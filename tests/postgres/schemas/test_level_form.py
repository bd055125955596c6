"""The form that sets a subject's compatibility level, over catalogs that were read; all clusters are away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from backend.registry.directory import Registry
from backend.registry.records import ConfigSet, Content, SchemaVersion
from tests.postgres.schemas.test_schemas_pages import MINE, NOBODYS, THEIRS, avro, version, was_read
from tests.support.api import http
from tests.support.console.consoles import Console, serve_here
from tests.support.console.visitors import Visitor, hidden, said
from tests.support.database.postgres import Database

FORM = "/schemas/-level"
KEYS = "acme-retail-prod-orders-key"


@pytest.fixture
def console(database: Database) -> Iterator[Console]:
    """Serve a console with registries."""
    with serve_here(database.url, with_schemas=True) as running:
        yield running


@pytest.fixture
def primary(acme: Console) -> Registry:
    """c1: a subject of acme's with FULL, one of JSON without a level, globex's, and a shared one."""
    keys = SchemaVersion(subject=KEYS, version=1, id=4, content=Content(text='{"type": "string"}', kind="JSON"))
    others = (
        version(each, 1, number, avro(f"f{number}")) for number, each in enumerate((MINE, THEIRS, NOBODYS), 1)
    )
    settings = ConfigSet(subject=MINE, fields={"compatibilityLevel": "FULL", "normalize": True})
    return was_read(acme, "c1", *others, keys, settings)


@pytest.fixture
def member(console: Console, primary: Registry) -> Visitor:
    return Visitor(console, "ada", acme="member")


def by_rest(user: Visitor, method: str, subject: str, body: Any = None, cluster: str = "c1") -> httpx2.Response:
    """The registry's own answer to the user."""
    headers = {"Authorization": f"Bearer {user.token}"}
    address = f"{str(user.client.base_url).rstrip('/')}/registries/{cluster}/config/{subject}"
    return http.request(method, address, json=body, headers=headers, timeout=60)


def test_what_cannot_be_checked_or_is_no_level_is_said(primary: Registry, member: Visitor) -> None:
    fields = {"subject": KEYS, "version": ""}
    preview = member.preview(FORM, level="FULL", **fields)
    assert "FULL cannot be checked for schemas of type JSON" in said(preview)
    assert "cannot be checked" not in said(member.preview(FORM, level="NONE", **fields))
    wrong = member.send(FORM, step="preview", level="SOME", **fields)
    assert wrong.status_code == 422
    assert 'id="wrong-level"' in wrong.text
    # The cluster is away, and so nothing is written.
    answer = member.client.post(FORM, data={**hidden(preview), "step": "confirm"})
    assert answer.status_code == 503
    assert "could not be used" in said(answer)


def test_who_may_not_set_a_level_is_told_what_the_registry_tells(
    console: Console, primary: Registry, member: Visitor
) -> None:
    viewer, operator = Visitor(console, "vic", "viewer"), Visitor(console, "op", "operator")
    for user, subject, status in (
        (member, THEIRS, 404),
        (member, "com.nobody.Unknown", 404),
        (member, NOBODYS, 403),
        (viewer, MINE, 403),
        (operator, THEIRS, 200),
        (operator, NOBODYS, 200),
    ):
        rest = by_rest(user, "PUT", subject, {"compatibility": "NONE"}).status_code
        # The operator's would be written, if the cluster were not away.
        assert rest == (503 if status == 200 else status), (user, subject)
        assert user.get(f"{FORM}?subject={subject}").status_code == status
        answer = user.send(FORM, step="preview", subject=subject, level="NONE", version="")
        assert answer.status_code == status, (subject, said(answer))
        page = user.get(f"/schemas/c1/{subject}")
        if page.status_code == 200:
            assert (FORM in page.text) == (status == 200)
    theirs, none = (
        said(member.send(FORM, step="confirm", once="x" * 20, subject=each, level="NONE")).replace(each, "X")
        for each in (THEIRS, "com.nobody.Unknown")
    )
    assert theirs == none
    data = {"step": "confirm", "once": "x" * 20, "subject": MINE, "level": "NONE", "version": "FULL"}
    assert member.client.post(FORM, data=data).status_code == 403
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert member.client.post(FORM, data={"key": member.key, **data}, headers=foreign).status_code == 403
    assert http.get(f"{console.url}{FORM}?subject={MINE}").status_code == 401
