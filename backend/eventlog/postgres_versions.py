"""Which versions of PostgreSQL Treeline runs on (tests/integration/test_postgres_versions.py)."""

from __future__ import annotations

from sqlalchemy import Connection

OLDEST, NEWEST = 15, 18
"""Major versions that are tested."""


def why_unsupported(version_number: int) -> str | None:
    """Say why a server of this `server_version_num` is refused; None: it is not.

    One that is newer than all that are tested is let in: PostgreSQL breaks little, and a control plane that does
    not start after an upgrade of its database would be worse.
    """
    if version_number // 10_000 >= OLDEST:
        return None
    return (
        f"PostgreSQL {shown(version_number)} is too old: Treeline needs {OLDEST} or newer and is tested with "
        f"{OLDEST} to {NEWEST}. Upgrade the database (pg_upgrade, or a dump and restore), then start again."
    )


def why_untested(version_number: int) -> str | None:
    """Say that a server of this `server_version_num` is newer than those that are tested; None: it is not."""
    if version_number // 10_000 <= NEWEST:
        return None
    return f"PostgreSQL {shown(version_number)} is newer than {NEWEST}, the newest that Treeline is tested with."


def shown(version_number: int) -> str:
    """Return a `server_version_num` as people write it: 160002 is 16.2, and 90624 was 9.6.24."""
    if version_number < 100_000:
        return f"{version_number // 10_000}.{version_number // 100 % 100}.{version_number % 100}"
    return f"{version_number // 10_000}.{version_number % 10_000}"


def version_number(connection: Connection) -> int:
    """Return the server's `server_version_num`."""
    return int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
