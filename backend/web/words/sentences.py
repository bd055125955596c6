"""One short sentence per kind of event, for people who scan a timeline.

Sentences are made from stored data, which an older program or a newer one may have written: whatever is missing
shows as "?", and a kind that this program does not know is told by its name. Of an event that carries all settings
of a thing, the sentence says those that are other ones than before, if it is given what was before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from backend.domain.base.errors import TreeInvalid
from backend.domain.tree import tree_shape
from backend.domain.tree.tree import clusters_of
from backend.web.words.field_words import otherwise
from backend.web.words.figures import counted, shortened

_LONGEST = 240

SENTENCES: Mapping[str, str] = {
    "ClusterAdded": "{name} added as number {number}",
    "ClusterChanged": "{of} is described anew: {bootstrap_servers}",
    "ClusterDefaultsSet": "Defaults of {of} set: replication factor {replication_factor}, "
    "min.insync.replicas {min_insync_replicas}",
    "ClusterRemoved": "{of} removed",
    "ClusterCameOnline": "{of} is online",
    "ClusterWentOffline": "{of} went offline: {reason}",
    "TreeReplaced": "Tree set: {clusters}, {distributors}; primary is {primary_cluster}{otherwise}",
    "PrimaryMoveBegun": "{cluster} is to become the primary instead of {previous}",
    "PrimaryMoveCancelled": "{cluster} stays the primary",
    "PrimaryMoved": "{cluster} is the primary now, instead of {previous}",
    "DistributorTargetSwitched": "{cluster} level {level} now copies to {target} instead of {previous}",
    "LeafEnteredRoutes": "{cluster} has entered its routes of position {routes}, {fenced} writers fenced",
    "OriginRerooted": "Records of cluster number {number}, which left the tree, go on from other leaves",
    "DistributorPaused": "{cluster} level {level} paused",
    "DistributorResumed": "{cluster} level {level} resumed",
    "DistributorLimitChanged": "{cluster} level {level} copies {limit}",
    "DistributorCompressionChanged": "{cluster} level {level} compresses its copies: {compression}",
    "RecordSetAside": "{target} refused a record of {stream}/{partition} from {cluster}, set aside: {reason}",
    "SetAsideReplayed": "A record that had been set aside was replayed: {id}",
    "RecordsLost": "{stream}/{partition} on {cluster}: {reason}",
    "SourceReplaced": "{stream} on {cluster} was made anew; of the former topic {target} {missing}",
    "LossesAcknowledged": "Losses of {cluster} level {level} acknowledged",
    "WorkerFenced": "Worker {holder} was fenced while it was alive: {fenced_leases}",
    "GroupOffsetsReset": "Offsets of group {group} for {stream} set on {cluster}: {to}",
    "PreferredLeadersElected": "Preferred brokers of {cluster} elected to lead: {elected} partitions",
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
    "WebhookSecretRotated": "Webhook {webhook} signs with another secret",
    "WebhookTested": "A test was sent to webhook {webhook}",
    "WebhookDeliveryRetried": "The event of position {delivery} is sent to webhook {webhook} again",
    "WebhookDeleted": "Webhook {webhook} deleted",
    "IdentityLinked": "User {user} logs in as {subject} of {issuer}",
    "IdentityUnlinked": "User {user} no longer logs in by a provider",
    "PlacementRequested": "A plan for the replicas of {cluster} was asked for (placement {placement})",
    "PlacementProposed": "Placement {placement} of {cluster} is proposed, since brokers came or went",
    "PlacementHeldBack": "Placement {placement} of {cluster} is not applied by itself: {reason}",
    "PlacementPolicySet": "When brokers of {cluster} come or go: {policy}",
    "PlacementPlanned": "Placement {placement} of {cluster} is planned, digest {digest}",
    "PlacementGiven": "A reassignment of {partitions} partitions was handed in for {cluster} ({placement})",
    "PlacementFailed": "Placement {placement} of {cluster} could not be planned: {reason}",
    "PlacementRunStarted": "Replicas of {cluster} are moved for placement {placement} (run {run})",
    "PlacementLimitsChanged": "Placement {placement} of {cluster} goes on with other limits",
    "PlacementPaused": "Placement {placement} of {cluster} is paused",
    "PlacementResumed": "Placement {placement} of {cluster} goes on",
    "PlacementCancelled": "Placement {placement} of {cluster} is cancelled: what moves is given back",
    "PlacementRunEnded": "Placement {placement} of {cluster} is {state}",
    "PlacementRunRefused": "Placement {placement} of {cluster} was not carried out: {reason}",
    "RouteEpochBegun": "Route epoch {epoch} begun; {fenced} and older are fenced",
    "RouteEpochCommitted": "Route epoch {epoch} committed: what came under it goes from the router channel",
    "SwitchStarted": "Switch {switch} of clients from {source} to {target} started, {mode}",
    "SwitchAdvanced": "Switch {switch} is {phase}",
    "SwitchForced": "Switch {switch} no longer waits for: {clients}",
    "ClientsMoved": "Clients moved from {source} to {target}, generation {generation} (switch {switch})",
    "SwitchCompleted": "Switch {switch} completed",
    "SwitchAborted": "Switch {switch} aborted while {phase}",
    "StrandedRecordsArrived": "What only the cluster left by switch {switch} had is late: {records} records{lost}",
    "SwitchFailed": "Switch {switch} could not go on while {phase}: {reason}",
    "TenantCreated": "Tenant {tenant} created",
    "InstanceCreated": "Instance {tenant}/{instance} created on tree {tree}",
    "EnvironmentCreated": "Environment {tenant}/{instance}/{environment} created",
    "EnvironmentChanged": "Environment {tenant}/{instance}/{environment} changed",
    "StreamDeclared": "Stream {path} declared, {partitions}",
    "StreamChanged": "Stream {path} changed, {partitions}",
    "StreamDeleted": "Stream {path} deleted",
    "StreamDrifted": "{path} on {cluster} had been configured otherwise by somebody",
    "AdoptionBegun": "Topics of {cluster} are being adopted as streams",
    "AdoptionEnded": "Adoption of topics of {cluster} ended",
    "StreamApplied": "{path} has its topic on {cluster}",
    "StreamApplyFailed": "{path} could not be applied on {cluster}: {reason}",
    "StreamTailLost": "{path}/{partition} on {cluster} lost offsets {first_offset} to {last_offset}",
    "StreamRemoved": "{path} removed from {cluster}",
    "StreamTopicKept": "{path} was deleted for being empty, but has records on {cluster}: its topic stays there",
    "ApplicationDeclared": "Application {of} declared",
    "ApplicationChanged": "Application {of} changed",
    "ApplicationDeleted": "Application {of} deleted",
    "AccessRequested": "{of} asks to {operation}: {stream}",
    "AccessGranted": "{of} may {operation}: {stream}",
    "AccessRefused": "{of} may not {operation}: {stream}, refused: {reason}",
    "AccessWithdrawn": "{of} may no longer {operation}: {stream}, withdrawn by the {by}",
    "CredentialsIssued": "Application {of} has new credentials, number {number}",
    "CredentialsRevoked": "Credentials of application {of} revoked",
    "ApplicationApplied": "{of} has its access on {cluster}",
    "ApplicationApplyFailed": "Access of {of} could not be applied on {cluster}: {reason}",
    "ApplicationDrifted": "Access of {of} on {cluster} had been changed by somebody",
    "ApplicationRemoved": "Access of {of} removed from {cluster}",
}
# The same of what is known to have been set otherwise before, and how.
CHANGES: Mapping[str, str] = {
    "ApplicationChanged": "Application {of} changed: {otherwise}",
    "ClusterChanged": "{of} is described anew: {otherwise}",
    "EnvironmentChanged": "Environment {tenant}/{instance}/{environment} changed: {otherwise}",
    "PlacementLimitsChanged": "Placement {placement} of {cluster} goes on with other limits: {otherwise}",
    "PlacementPolicySet": "When brokers of {cluster} come or go: {otherwise}",
    "StreamChanged": "Stream {path} changed: {otherwise}",
    "UserChanged": "User {user} changed: {otherwise}",
    "WebhookChanged": "Webhook {webhook} changed: {otherwise}",
}
# What an operator should not overlook.
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


def sentence(name: str, stream: str, data: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """What happened, without a full stop. `before`: what it has replaced, see `settings_before`."""
    pattern = SENTENCES.get(name)
    if pattern is None:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
    known = _Known(data)
    if before is not None and name in CHANGES and (changed := otherwise(before, data)):
        pattern, known["otherwise"] = CHANGES[name], changed
    known["of"] = stream.partition("-")[2]
    known["path"] = "/".join(str(known[part]) for part in ("tenant", "instance", "environment", "stream"))
    if isinstance(data.get("partitions"), int):
        known["partitions"] = counted(data["partitions"], "partition")
    if isinstance(data.get("bytes_per_second", ""), int | None):
        limit = data["bytes_per_second"]
        known["limit"] = "without a limit" if limit is None else f"at most {counted(limit, 'byte')} a second"
    if isinstance(data.get("disabled"), bool):
        known["state"] = "disabled" if data["disabled"] else "enabled"
    if name == "ClusterDefaultsSet":
        known |= {key: "automatic" for key, value in data.items() if value is None}
    if name == "WorkerFenced":
        known["fenced_leases"] = _fenced(data.get("leases"))
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


def _missing(partitions: object) -> str:
    """What a target lacks of a former topic, as far as that is known."""
    rows = partitions if isinstance(partitions, list) else []
    offsets = sum(row[2] for row in rows if isinstance(row, list) and len(row) == 3)
    seen = f"lacks {counted(offsets, 'offset')} that were seen" if offsets else "lacks nothing that is known"
    return f"{seen}; what was written after the last look, if anything, is gone"


def _fenced(leases: object) -> str:
    """Each lease with the epoch that the worker had, and the one that is valid now."""
    rows = [row for row in leases if isinstance(row, list) and len(row) == 4] if isinstance(leases, list) else []
    return "; ".join(
        f"{lease}, epoch {old}, is of epoch {new} now ({holder or 'free'})" for lease, old, holder, new in rows
    )


def _parsed(document: object) -> tree_shape.Node | None:
    try:
        return tree_shape.parse(document, clusters_of(document))
    except TreeInvalid:
        return None


def _tree_otherwise(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Another primary, and the clusters that are in one of two trees only."""
    moved = before.get("primary_cluster") != after.get("primary_cluster")
    said = f" instead of {before.get('primary_cluster')}" if moved else ""
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
