"""Every projection, in the order in which each event reaches them."""

from __future__ import annotations

from backend.projections.framework import Projection

PROJECTIONS: tuple[Projection, ...] = ()
