"""Every projection, in the order in which each event reaches them."""

from __future__ import annotations

from backend.projections import clusters, streams, tenants, trees
from backend.projections.framework import Projection

PROJECTIONS: tuple[Projection, ...] = (
    clusters.PROJECTION,
    trees.PROJECTION,
    tenants.PROJECTION,
    streams.PROJECTION,
)
