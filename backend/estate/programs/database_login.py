"""`python -m backend.estate.programs.database_login`: create the control plane's database login, and migrate.

The embedded PostgreSQL starts with its owner alone, who may rewrite the event log. API, workers and `verify` get
another login, which owns nothing and may become the application's role (`backend.eventlog.engine`), as in
docker-compose.yml. Both URLs come from the settings: `migration_database_url` is the owner's, `database_url` the
login's. The program runs at each start, so that an estate of an earlier version gets the login, too.
"""

from __future__ import annotations

import runpy

import sqlalchemy as sa
from psycopg import sql

from backend.eventlog.engine import APPLICATION_ROLE, create_engine
from backend.settings import settings

LOGIN = "treeline_login"
_RIGHTS = sql.SQL("LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS")
_IS_ROLE = sa.text("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = :name)")


def ensure_login(owner_url: str, application_url: str) -> None:
    """Create the login of `application_url`, or reset an existing one to this password and exactly its rights.

    The role that the login may assume is created by the first migration, which grants it as well.
    """
    login = sa.make_url(application_url)
    name, password = sql.Identifier(login.username or ""), sql.Literal(login.password)
    engine = create_engine(owner_url, role=None)
    with engine.begin() as connection:
        verb = sql.SQL("ALTER" if connection.scalar(_IS_ROLE, {"name": login.username}) else "CREATE")
        # A role's password cannot be a parameter of a statement: psycopg quotes it.
        cursor = connection.connection.cursor()
        cursor.execute(sql.SQL("{} ROLE {} {} PASSWORD {}").format(verb, name, _RIGHTS, password))
        if connection.scalar(_IS_ROLE, {"name": APPLICATION_ROLE}):
            cursor.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(APPLICATION_ROLE), name))
    engine.dispose()


def main() -> None:
    """Create the login, and migrate the database to the tables of this version."""
    given = settings()
    if not given.migration_database_url:
        raise SystemExit(
            "TREELINE_MIGRATION_DATABASE_URL is not set: it must be the URL of the database as its owner."
        )
    ensure_login(given.migration_database_url, given.database_url)
    runpy.run_module("migrations", run_name="__main__")


if __name__ == "__main__":
    main()
