"""`/readyz` sends no request to a process that would answer from another version's tables, or from old rows."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from backend.domain.tenants.tenant import TenantCreated
from backend.eventlog.bulk_load import bulk_load
from backend.eventlog.recorded import Entry, Metadata
from backend.eventlog.registry import domain_registry
from tests.support.api.rest import Rest
from tests.support.database.postgres import Database


def _wrong(rest: Rest) -> dict[str, str]:
    """Return the failed checks, each with its reason."""
    answer = rest("GET", "./readyz")
    assert (answer.status_code, answer.json()["ready"]) == (503, False)
    return {name: reason for name, reason in answer.json()["checks"].items() if reason != "ok"}


def test_not_ready_on_the_tables_of_another_version(rest: Rest, database: Database) -> None:
    with database.owner.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0001'"))
    wrong = _wrong(rest)
    assert list(wrong) == ["migrations"] and wrong["migrations"].startswith("at 0001, not ")


def test_not_ready_while_projections_are_behind_the_log(rest: Rest, database: Database) -> None:
    registry, metadata = domain_registry(), Metadata(actor="seed", request_id="r")
    entry = Entry.of(registry, "tenant-acme", TenantCreated(tenant="acme"), metadata, datetime.now(UTC))
    with database.engine.begin() as connection:
        bulk_load(connection, registry, [entry])  # appended and not projected, as by a restore
    wrong = _wrong(rest)
    assert list(wrong) == ["projections"] and "'tenants': 1" in wrong["projections"]
