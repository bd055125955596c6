"""Passwords that are hashed at once: a hash takes a quarter of a second of a processor, on purpose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.queries.access import secrets


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Let scrypt use its least cost; tests/unit/access/test_password_checks.py has the real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "COST", 2)
        yield
