"""Registries of the session's estate."""

from __future__ import annotations

from tests.support.schemas.addresses import other, primary

__all__ = ["other", "primary"]
