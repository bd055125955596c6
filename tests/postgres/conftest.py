"""The REST API called in this process, the console served on a thread of it, and how their databases begin."""

from __future__ import annotations

import pytest

from tests.support.api.quick_passwords import quick_passwords
from tests.support.api.rest import (
    both,
    cluster,
    clusters,
    content_for,
    empty_rest,
    grown,
    logged_events,
    rest,
    running_rest,
    settled,
    tenant,
)
from tests.support.console.fixtures import acme, console, owner, provider, sso
from tests.support.console.visitors import clusters_and_tenants
from tests.support.database.postgres import Content

__all__ = [
    "acme",
    "both",
    "cluster",
    "clusters",
    "console",
    "empty_rest",
    "grown",
    "logged_events",
    "owner",
    "provider",
    "quick_passwords",
    "rest",
    "running_rest",
    "settled",
    "sso",
    "tenant",
]


@pytest.fixture
def database_content(request: pytest.FixtureRequest) -> Content | None:
    """Return the initial content that the other fixtures of a test promise."""
    if "acme" in request.fixturenames:
        return clusters_and_tenants
    return content_for(request.fixturenames)
