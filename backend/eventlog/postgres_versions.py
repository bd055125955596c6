"""Versions of PostgreSQL that Treeline runs on (tests/postgres/eventlog/test_postgres_versions.py)."""

from __future__ import annotations

from sqlalchemy import Connection

OLDEST, NEWEST = 15, 18
"""Oldest and newest major version that is tested."""


def why_unsupported(version_number: int) -> str | None:
    """Return why a server of this `server_version_num` is refused; None if it is accepted.

    A version newer than all tested ones is accepted: PostgreSQL breaks little, and a control plane that does not
    start after an upgrade of its database would be worse.
    """
    if version_number // 10_000 >= OLDEST:
        return None
    return (
        f"PostgreSQL {shown(version_number)} is too old: Treeline needs {OLDEST} or newer and is tested with "
        f"{OLDEST} to {NEWEST}. Upgrade the database (pg_upgrade, or a dump and restore), then start again."
    )


def why_untested(version_number: int) -> str | None:
    """Return a warning if a server of this `server_version_num` is newer than the tested versions; else None."""
    if version_number // 10_000 <= NEWEST:
        return None
    return f"PostgreSQL {shown(version_number)} is newer than {NEWEST}, the newest that Treeline is tested with."


def shown(version_number: int) -> str:
    """Format a `server_version_num`: 160002 is 16.2, and 90624 was 9.6.24."""
    if version_number < 100_000:
        return f"{version_number // 10_000}.{version_number // 100 % 100}.{version_number % 100}"
    return f"{version_number // 10_000}.{version_number % 10_000}"


def version_number(connection: Connection) -> int:
    """Return the server's `server_version_num`."""
    return int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
