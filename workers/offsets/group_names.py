"""Names by which groups and topics of a cluster belong to environments and streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.domain.names import formats
from backend.domain.offsets.group_places import GroupPlaces
from backend.queries.base.naming import declared_streams
from backend.queries.clusters.clusters import leaves_by_tree
from backend.queries.tenants.tenants import places_by_tree


@dataclass(frozen=True, kw_only=True)
class GroupNames:
    """Names on one cluster."""

    streams: Mapping[str, str]
    """Technical name of a topic -> full name of its stream."""
    places: GroupPlaces


NO_NAMES = GroupNames(streams={}, places=GroupPlaces("{group}", ()))
"""Names on a cluster that is in no tree: no topic belongs to a stream, no group to an environment."""


def read_names(connection: Connection) -> dict[str, GroupNames]:
    """Return the names on each cluster that is in a tree.

    Clusters of one tree have the same names by the same formats, which most have: these are made once.
    """
    found: dict[str, GroupNames] = {}
    environments = places_by_tree(connection)
    for tree, clusters in leaves_by_tree(connection).items():
        declared = declared_streams(connection, tree)
        streams = {
            each: {formats.technical_name(each, stream): str(stream) for stream in declared}
            for each in {row.topic_format for row in clusters}
        }
        places = {
            each: GroupPlaces(each, environments.get(tree, ())) for each in {row.group_format for row in clusters}
        }
        for row in clusters:
            found[row.name] = GroupNames(streams=streams[row.topic_format], places=places[row.group_format])
    return found
