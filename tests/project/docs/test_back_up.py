"""The how-to for backup and restore: a real dump, restored on another server, its log verified."""

from __future__ import annotations

from pathlib import Path

from tests.project.docs.conftest import run_page
from tests.project.docs.pages import DOCS
from tests.support.console.consoles import serve_here
from tests.support.database.postgres import Database, RunningPostgres, run_as_owner

PAGE = DOCS / "howto" / "back-up.md"


def plain(url: str) -> str:
    """Return the URL in the form that PostgreSQL's own programs accept."""
    return url.replace("postgresql+psycopg://", "postgresql://")


def test_a_restored_control_plane_is_the_same(database: Database, tmp_path: Path) -> None:
    other = RunningPostgres(tmp_path / "other")
    other.start()
    run_as_owner(other.server, "DROP DATABASE treeline")
    try:
        addresses = {
            "DATABASE": plain(database.url),
            "NEW_SERVER": plain(other.server.url("postgres")),
            "NEW_DATABASE": plain(other.server.url("treeline")),
        }
        with serve_here(database.url) as console:
            run_page(PAGE, "back-up", tmp_path, console.url, console.token, **addresses)
            before = [console.rest.ok("GET", path) for path in ("/events/head", "/trees/main", "/clusters")]
        with serve_here(other.server.url("treeline")) as restored:
            run_page(PAGE, "restored", tmp_path, restored.url, restored.token)
            after = [restored.rest.ok("GET", path) for path in ("/events/head", "/trees/main", "/clusters")]
            restored.rest.ok("POST", "/tenants", {"name": "written-since"})
        assert after == before
    finally:
        other.kill()
