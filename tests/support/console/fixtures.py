"""A control plane with its pages, served on a thread of this process, as fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.queries.access import secrets
from tests.support.console.consoles import Console, serve_here
from tests.support.console.oidc import console_with
from tests.support.console.openid_provider import Provider, serving
from tests.support.console.visitors import Visitor, clusters_and_tenants
from tests.support.database.postgres import Content, Database


@pytest.fixture(scope="module", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Hash passwords at a small cost; tests/postgres/access/test_rest_users.py has the product's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "COST", 1 << 8)
        yield


@pytest.fixture
def database_content(request: pytest.FixtureRequest) -> Content | None:
    """Return the initial content that `acme` promises."""
    return clusters_and_tenants if "acme" in request.fixturenames else None


@pytest.fixture
def console(database: Database) -> Iterator[Console]:
    """Yield an empty control plane, without Kafka and workers.

    Clients' reports never expire, however slow the machine is.
    """
    with serve_here(database.url, discovery_ttl_ms=600_000, discovery_hold_ms=600_000) as running:
        yield running


@pytest.fixture
def acme(console: Console) -> Console:
    """Return a console with clusters in a tree and two tenants: see `visitors.clusters_and_tenants`."""
    return console


@pytest.fixture
def owner(acme: Console) -> Visitor:
    return Visitor(acme, "ada", acme="owner")


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(Provider()) as running:
        yield running


@pytest.fixture
def sso(database: Database, provider: Provider, tmp_path: Path) -> Iterator[Console]:
    """Yield a control plane that admits all users of the provider."""
    with console_with(database, provider, tmp_path) as running:
        yield running
