"""Runs migrations as the database's owner.

The URL comes from the settings; a caller with an open connection (the tests) passes it in
`config.attributes["connection"]`. `config.attributes["application_login"]` is the application's login, which the
first migration allows to assume the application's role.
"""

from __future__ import annotations

import logging
import sys

from alembic import context
from sqlalchemy import Connection, make_url

from backend.eventlog.engine import create_engine
from backend.eventlog.postgres_versions import version_number, why_unsupported, why_untested
from backend.settings import settings
from migrations.declared import declared_tables


def migrate(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=declared_tables())
    with context.begin_transaction():
        # Two machines that start at once would both find the same migration missing.
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7411733)")
        # Inside the transaction: one that an earlier statement had begun would not be committed by Alembic.
        if refusal := why_unsupported(version_number(connection)):
            sys.exit(refusal)
        if doubt := why_untested(version_number(connection)):
            logging.getLogger("alembic.env").warning(doubt)
        context.run_migrations()


attributes = context.config.attributes
if "connection" in attributes:
    migrate(attributes["connection"])
else:
    attributes["application_login"] = make_url(settings().database_url).username
    url = settings().migration_database_url or settings().database_url
    with create_engine(url, role=None, lock_timeout_ms=60_000, statement_timeout_ms=0).connect() as own_connection:
        migrate(own_connection)
