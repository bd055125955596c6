"""A REST API or console of a test's own beside the estate that all tests of the session share."""

from __future__ import annotations

from tests.postgres.conftest import acme, console, database_content, grown, rest

__all__ = ["acme", "console", "database_content", "grown", "rest"]
