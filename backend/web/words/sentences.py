"""One short sentence per kind of event, for people who scan a timeline.

Sentences are made from stored data, which an older program or a newer one may have written: a missing value shows
as "?", and an unknown kind is shown by its name. For an event that carries all settings of a resource, the
sentence lists the settings that changed, if the earlier ones are given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from backend.domain.base.errors import TreeInvalid
from backend.domain.tree import tree_shape
from backend.domain.tree.tree import clusters_of
from backend.queries.base.names_of_events import NO_NAMES, Names
from backend.web.words.field_words import describe_changes
from backend.web.words.figures import counted, shortened

_LONGEST = 240

SENTENCES: Mapping[str, str] = {
    "ClusterAdded": "{name} added as number {number}",
    "ClusterChanged": "Connection of {of} changed: {bootstrap_servers}",
    "ClusterDefaultsSet": "Defaults of {of} set: replication factor {replication_factor}, "
    "min.insync.replicas {min_insync_replicas}",
    "ClusterRemoved": "{of} removed",
    "ClusterCameOnline": "{of} is online",
    "ClusterWentOffline": "{of} went offline: {reason}",
    "TreeReplaced": "Tree set: {clusters}, {distributors}; primary is {primary_cluster}{otherwise}",
    "PrimaryMoveBegun": "{cluster} is to replace {previous} as the primary",
    "PrimaryMoveCancelled": "{cluster} stays the primary",
    "PrimaryMoved": "{cluster} is the primary now; it was {previous}",
    "DistributorTargetSwitched": "{cluster} level {level} now copies to {target}; it was {previous}",
    "LeafEnteredRoutes": "{cluster} has entered its routes of position {routes}, {fenced} writers fenced",
    "OriginRerooted": "Records of cluster number {number}, which left the tree, continue from other leaves",
    "DistributorPaused": "{cluster} level {level} paused",
    "DistributorResumed": "{cluster} level {level} resumed",
    "DistributorLimitChanged": "{cluster} level {level} copies {limit}",
    "DistributorCompressionChanged": "{cluster} level {level} compresses its copies: {compression}",
    "RecordSetAside": "{target} refused a record of {stream}/{partition} from {cluster}, dead-lettered: {reason}",
    "SetAsideReplayed": "A dead-lettered record was replayed: {id}",
    "RecordsLost": "Records of {stream}/{partition} on {cluster} lost: {reason}",
    "SourceReplaced": "{stream} was recreated on {cluster}; of the former topic {target} {missing}",
    "LossesAcknowledged": "Losses of {cluster} level {level} acknowledged",
    "WorkerFenced": "Worker {holder} was fenced while alive: {fenced_leases}",
    "GroupOffsetsReset": "Offsets of group {group} for {stream} set on {cluster}: {to}",
    "MessageProduced": "Message produced to {stream} on {cluster}: {where}",
    "PreferredLeadersElected": "Preferred leaders elected on {cluster}: {elected} partitions",
    "SchemaConflictFound": "Schemas of {cluster}: {detail}",
    "SchemaConflictResolved": "Schemas of {cluster}: {subject} is no longer in conflict",
    "UserCreated": "User {user} created as {role}",
    "UserChanged": "User {user} is {role}, {state}",
    "MembershipGiven": "User {user} is {membership} of {tenant}",
    "MembershipEnded": "User {user} no longer belongs to {tenant}",
    "PasswordSet": "User {user} has a new password",
    "TokenIssued": "Token {token} issued to user {user}",
    "TokenRevoked": "Token {token} of user {user} revoked",
    "WebhookCreated": "Webhook {webhook} created: {url}",
    "WebhookChanged": "Webhook {webhook} changed: {url}",
    "WebhookSecretRotated": "Webhook {webhook} signs with a new secret",
    "WebhookTested": "A test was sent to webhook {webhook}",
    "WebhookDeliveryRetried": "The event at position {delivery} is sent to webhook {webhook} again",
    "WebhookDeleted": "Webhook {webhook} deleted",
    "IdentityLinked": "User {user} can log in as {subject} of {issuer}",
    "IdentityUnlinked": "User {user} can no longer log in by a provider",
    "PlacementRequested": "Placement plan for {cluster} requested (placement {placement})",
    "PlacementProposed": "Placement {placement} of {cluster} is proposed, since brokers joined or left",
    "PlacementHeldBack": "Placement {placement} of {cluster} is not applied automatically: {reason}",
    "PlacementPolicySet": "Placement policy of {cluster} when brokers join or leave: {policy}",
    "PlacementPlanned": "Placement {placement} of {cluster} is planned, digest {digest}",
    "PlacementGiven": "A reassignment of {partitions} partitions was submitted for {cluster} "
    "(placement {placement})",
    "PlacementFailed": "Placement {placement} of {cluster} could not be planned: {reason}",
    "PlacementRunStarted": "Replicas of {cluster} are being moved for placement {placement} (run {run})",
    "PlacementLimitsChanged": "Placement {placement} of {cluster} continues with new limits",
    "PlacementPaused": "Placement {placement} of {cluster} is paused",
    "PlacementResumed": "Placement {placement} of {cluster} resumed",
    "PlacementCancelled": "Placement {placement} of {cluster} is cancelled: moves in progress are reverted",
    "PlacementRunEnded": "Placement {placement} of {cluster} is {state}",
    "PlacementRunRefused": "Placement {placement} of {cluster} failed: {reason}",
    "RouteEpochBegun": "Route epoch {epoch} began; {fenced} and older are fenced",
    "RouteEpochCommitted": "Route epoch {epoch} committed: its objects are deleted from the router channel",
    "SwitchStarted": "Switch {switch} of clients from {source} to {target} started, {mode}",
    "SwitchAdvanced": "Switch {switch} is {phase}",
    "SwitchForced": "Switch {switch} no longer waits for: {clients}",
    "ClientsMoved": "Clients moved from {source} to {target}, generation {generation} (switch {switch})",
    "SwitchCompleted": "Switch {switch} completed",
    "SwitchAborted": "Switch {switch} aborted while {phase}",
    "StrandedRecordsArrived": "Unreplicated records of the cluster left by switch {switch}: {records} "
    "records{lost}",
    "SwitchFailed": "Switch {switch} failed while {phase}: {reason}",
    "TenantCreated": "Tenant {tenant} created",
    "InstanceCreated": "Instance {tenant}/{instance} created on tree {tree}",
    "EnvironmentCreated": "Environment {tenant}/{instance}/{environment} created",
    "EnvironmentChanged": "Environment {tenant}/{instance}/{environment} changed",
    "StreamDeclared": "Stream {path} declared, {partitions}",
    "StreamChanged": "Stream {path} changed, {partitions}",
    "StreamDeleted": "Stream {path} deleted",
    "StreamDrifted": "{path} on {cluster} had been changed outside Treeline",
    "AdoptionBegun": "Topics of {cluster} are being adopted as streams",
    "AdoptionEnded": "Adoption of topics of {cluster} ended",
    "StreamApplied": "Topic of {path} created on {cluster}",
    "StreamApplyFailed": "{path} could not be applied on {cluster}: {reason}",
    "StreamTailLost": "{path}/{partition} on {cluster} lost offsets {first_offset} to {last_offset}",
    "StreamRemoved": "{path} removed from {cluster}",
    "StreamTopicKept": "{path} was deleted because it was empty, but has records on {cluster}: its topic "
    "stays there",
    "ApplicationDeclared": "Application {of} declared",
    "ApplicationChanged": "Application {of} changed",
    "ApplicationDeleted": "Application {of} deleted",
    "AccessRequested": "{of} requests access to {operation}: {stream}",
    "AccessGranted": "{of} may {operation}: {stream}",
    "AccessRefused": "{of} may not {operation}: {stream}, refused: {reason}",
    "AccessWithdrawn": "{of} may no longer {operation}: {stream}, withdrawn by the {by}",
    "CredentialsIssued": "Application {of} has new credentials, number {number}",
    "CredentialsRevoked": "Credentials of application {of} revoked",
    "ApplicationApplied": "Access of {of} applied on {cluster}",
    "ApplicationApplyFailed": "Access of {of} could not be applied on {cluster}: {reason}",
    "ApplicationDrifted": "Access of {of} on {cluster} had been changed outside Treeline",
    "ApplicationRemoved": "Access of {of} removed from {cluster}",
}
# Sentences for events whose earlier settings are known, with the changes.
CHANGES: Mapping[str, str] = {
    "ApplicationChanged": "Application {of} changed: {otherwise}",
    "ClusterChanged": "Connection of {of} changed: {otherwise}",
    "EnvironmentChanged": "Environment {tenant}/{instance}/{environment} changed: {otherwise}",
    "PlacementLimitsChanged": "Placement {placement} of {cluster} continues with new limits: {otherwise}",
    "PlacementPolicySet": "Placement policy of {cluster} when brokers join or leave: {otherwise}",
    "StreamChanged": "Stream {path} changed: {otherwise}",
    "UserChanged": "User {user} changed: {otherwise}",
    "WebhookChanged": "Webhook {webhook} changed: {otherwise}",
}
# Events that an operator should not overlook.
TROUBLES = frozenset(
    {
        "ClusterWentOffline",
        "StreamApplyFailed",
        "ClusterRemoved",
        "StreamDeleted",
        "StreamTopicKept",
        "StreamTailLost",
        "RecordSetAside",
        "RecordsLost",
        "SourceReplaced",
        "SchemaConflictFound",
        "ApplicationApplyFailed",
        "ApplicationDrifted",
        "SwitchForced",
        "SwitchFailed",
        "WorkerFenced",
    }
)


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def sentence(
    name: str,
    stream: str,
    data: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    names: Names = NO_NAMES,
) -> str:
    """Return the sentence for an event, without a full stop.

    `before`: replaced settings, see `settings_before`; `names`: names in place of ids, see `names_in`.
    """
    pattern = SENTENCES.get(name)
    if pattern is None:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
    known = _Known(data)
    if before is not None and name in CHANGES and (changed := describe_changes(before, data)):
        pattern, known["otherwise"] = CHANGES[name], changed
    known.update(_named(pattern, data, names))
    known["of"] = stream.partition("-")[2]
    known["path"] = "/".join(str(known[part]) for part in ("tenant", "instance", "environment", "stream"))
    if isinstance(data.get("partitions"), int):
        known["partitions"] = counted(data["partitions"], "partition")
    if isinstance(data.get("bytes_per_second", ""), int | None):
        limit = data["bytes_per_second"]
        known["limit"] = "without a limit" if limit is None else f"at most {counted(limit, 'byte')} per second"
    if isinstance(data.get("disabled"), bool):
        known["state"] = "disabled" if data["disabled"] else "enabled"
    if name == "ClusterDefaultsSet":
        known |= {key: "automatic" for key, value in data.items() if value is None}
    if name == "WorkerFenced":
        known["fenced_leases"] = _fenced(data.get("leases"))
    if name == "MessageProduced":
        place = f"partition {known['partition']}, offset {known['offset']}"
        known["where"] = "not confirmed, it may have been written" if data.get("offset", 0) is None else place
    if name == "SourceReplaced":
        known["missing"] = _missing(data.get("partitions"))
    if name == "AccessRefused" and data.get("reason") is None:
        pattern = pattern.partition(":")[0] + ": {stream}"
    if name == "StrandedRecordsArrived":
        gone = data.get("lost")
        known["lost"] = f"; lost on {counted(len(gone), 'partition')}" if isinstance(gone, list) and gone else ""
    if name == "TreeReplaced":
        known.update(_shape(data.get("root")))
        known["otherwise"] = "" if before is None else _tree_otherwise(before, data)
    return shortened(pattern.format_map(known), _LONGEST)


def _named(pattern: str, data: Mapping[str, Any], names: Names) -> dict[str, str]:
    """Return the numbers of a switch, with its clusters unless the pattern has them, and of a placement."""
    found = {}
    if (switch := names.switches.get(str(data.get("switch")))) is not None:
        clusters = "" if "{source}" in pattern else f" ({switch.source} → {switch.target})"
        found["switch"] = f"{switch.number}{clusters}"
    if (placement := names.placements.get(str(data.get("placement")))) is not None:
        found["placement"] = str(placement.number)
    return found


def _missing(partitions: object) -> str:
    """Describe what a target lacks of a former topic, as far as that is known."""
    rows = partitions if isinstance(partitions, list) else []
    offsets = sum(row[2] for row in rows if isinstance(row, list) and len(row) == 3)
    seen = (
        f"lacks {counted(offsets, 'offset')} that were observed" if offsets else "lacks nothing that was observed"
    )
    return f"{seen}; records written after the last observation, if any, are lost"


def _fenced(leases: object) -> str:
    """Describe each lease with the epoch that the worker had, and the current one."""
    rows = [row for row in leases if isinstance(row, list) and len(row) == 4] if isinstance(leases, list) else []
    return "; ".join(
        f"{lease}, epoch {old}, now has epoch {new} ({holder or 'free'})" for lease, old, holder, new in rows
    )


def _parsed(document: object) -> tree_shape.Node | None:
    try:
        return tree_shape.parse(document, clusters_of(document))
    except TreeInvalid:
        return None


def _tree_otherwise(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Describe a change of the primary, and clusters that were added or removed."""
    moved = before.get("primary_cluster") != after.get("primary_cluster")
    said = f" (was {before.get('primary_cluster')})" if moved else ""
    was, now = _parsed(before.get("root")), _parsed(after.get("root"))
    if was is None or now is None or was == now:
        return said
    old, new = tree_shape.leaves(was), tree_shape.leaves(now)
    came, went = [name for name in new if name not in old], [name for name in old if name not in new]
    told = [f"{', '.join(names)} {word}" for names, word in ((came, "joined"), (went, "left")) if names]
    return said + "".join(f"; {each}" for each in told or ["the same clusters in another shape"])


def _shape(document: object) -> dict[str, str]:
    root = _parsed(document)
    if root is None:
        return {}
    names, distributors = tree_shape.leaves(root), list(tree_shape.siblings(root))
    return {
        "clusters": counted(len(names), "cluster"),
        "distributors": counted(len(distributors), "distributor"),
    }
