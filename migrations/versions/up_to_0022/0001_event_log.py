"""Event log: events, head, idempotency keys, projection checkpoints, and the application's role."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import ProgrammingError

from backend.eventlog.postgres_versions import version_number

revision = "0001_event_log"
down_revision = None
branch_labels = None
depends_on = None

ROLE = "treeline_application"


def upgrade() -> None:
    _ensure_role()
    op.create_table(
        "events",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("stream", sa.Text(collation="C"), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("data", JSONB, nullable=False),
        sa.Column("metadata", JSONB, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("previous_hash", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.UniqueConstraint("stream", "version", name="events_stream_version"),
    )
    head = op.create_table(
        "event_log_head",
        sa.Column(
            "singleton",
            sa.Boolean,
            sa.CheckConstraint("singleton", name="event_log_head_one_row"),
            primary_key=True,
        ),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.bulk_insert(head, [{"singleton": True, "position": 0, "hash": "0" * 64}])
    op.create_table(
        "idempotency_keys",
        sa.Column("actor", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("headers", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Index("idempotency_keys_time", "time"),
    )
    op.create_table(
        "projection_checkpoints",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    _protect_history()
    _grant()


def downgrade() -> None:
    for table in ("projection_checkpoints", "idempotency_keys", "event_log_head", "events"):
        op.drop_table(table)
    op.execute("DROP FUNCTION refuse_change_of_history")
    op.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON TABLES FROM {ROLE}")
    op.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON SEQUENCES FROM {ROLE}")


def _protect_history() -> None:
    # Missing rights stop the application; the trigger stops owners and superusers from changing events by
    # accident.
    op.execute(
        """
        CREATE FUNCTION refuse_change_of_history() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'The event log only grows: % on events is refused', TG_OP
                USING ERRCODE = 'insufficient_privilege';
        END $$
        """
    )
    op.execute(
        """
        CREATE TRIGGER events_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON events
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_history()
        """
    )


def _grant() -> None:
    op.execute(f"GRANT USAGE ON SCHEMA public TO {ROLE}")
    op.execute(f"GRANT SELECT, INSERT ON events TO {ROLE}")
    op.execute(f"GRANT SELECT, UPDATE ON event_log_head TO {ROLE}")
    # Tables of later migrations are projections and work state: rows that can be rebuilt.
    op.execute(
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {ROLE}"
    )
    op.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO {ROLE}")
    for table in ("idempotency_keys", "projection_checkpoints"):
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")


def _ensure_role() -> None:
    """Create the role and let the application's login assume it, or report what an administrator must do."""
    connection = op.get_bind()
    present = connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": ROLE})
    if not present:
        _as_administrator(f"CREATE ROLE {ROLE} NOLOGIN")
    configured = op.get_context().config
    login = configured.attributes.get("application_login") if configured else None
    login = login or connection.scalar(sa.text("SELECT current_user"))
    # Before version 16 every member of a role could assume it, and the privilege SET did not exist.
    privilege = "SET" if version_number(connection) >= 160_000 else "MEMBER"
    may_become = connection.scalar(
        sa.text("SELECT pg_has_role(rolname, :role, :privilege) FROM pg_roles WHERE rolname = :login"),
        {"role": ROLE, "login": login, "privilege": privilege},
    )
    if may_become is False:
        quoted = connection.dialect.identifier_preparer.quote(login)
        _as_administrator(f"GRANT {ROLE} TO {quoted}")


def _as_administrator(statement: str) -> None:
    try:
        with op.get_bind().begin_nested():
            op.execute(statement)
    except ProgrammingError as error:
        raise RuntimeError(
            f"The migration's login may not manage roles. Have an administrator run `{statement};`, "
            "then migrate again."
        ) from error
