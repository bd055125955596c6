"""The version of Treeline, in the one place that names it: `pyproject.toml` reads it here."""

from __future__ import annotations

VERSION = "0.2.0"
