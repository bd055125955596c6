"""The tables that the code declares, to compare them with those that the migrations create."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import sqlalchemy as sa

import backend.projections
import backend.queries
from backend.eventlog.tables import METADATA


def declared_tables() -> sa.MetaData:
    """Return all tables: importing a module puts its tables into the common METADATA."""
    for package in (backend.projections, backend.queries):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(found.name)
    return METADATA
