"""A console of a test's own that leads to clusters of the session's estate."""

from __future__ import annotations

from tests.support.console.fixtures import acme, console, database_content, owner

__all__ = ["acme", "console", "database_content", "owner"]
