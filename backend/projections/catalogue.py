"""All projections, in the order in which each event reaches them."""

from __future__ import annotations

from backend.projections import (
    active_clusters,
    adoptions,
    applications,
    clusters,
    edge_losses,
    leaf_routes,
    placement_policies,
    placements,
    route_epochs,
    streams,
    switches,
    tenants,
    trees,
    users,
    webhooks,
)
from backend.projections.framework import Projection

PROJECTIONS: tuple[Projection, ...] = (
    clusters.PROJECTION,
    trees.PROJECTION,
    leaf_routes.PROJECTION,
    tenants.PROJECTION,
    streams.PROJECTION,
    edge_losses.PROJECTION,
    adoptions.PROJECTION,
    users.PROJECTION,
    applications.PROJECTION,
    active_clusters.PROJECTION,
    switches.PROJECTION,
    placements.PROJECTION,
    placement_policies.PROJECTION,
    route_epochs.PROJECTION,
    webhooks.PROJECTION,
)
