"""Passwords that are hashed at once: a hash takes a quarter of a second of a processor, on purpose."""

from __future__ import annotations

import pytest

from backend.queries.access import secrets


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scrypt use its least cost; tests/unit/access/test_password_checks.py has the real one."""
    monkeypatch.setattr(secrets, "COST", 2)
