"""The deciders of all event streams; one object each, because the dispatcher caches states per decider."""

from __future__ import annotations

from backend.dispatch import Decider
from backend.domain.access import user
from backend.domain.clusters import adoption, cluster
from backend.domain.distribution import edge_losses, fenced_workers, leaf, lost_origin
from backend.domain.offsets import group_reset
from backend.domain.placement import leader_elections, placement_policy, placements
from backend.domain.schemas import schema_conflicts
from backend.domain.switch import cluster_switch, switch_commands
from backend.domain.tenants import application, application_commands, produced_messages, tenant, tenant_commands
from backend.domain.tree import tree
from backend.domain.webhooks import webhook
from backend.domain.zones import route_epochs

ADOPTION: Decider[adoption.Adoption | None, adoption.AdoptionCommand] = Decider(
    adoption.INITIAL, adoption.decide, adoption.evolve
)
APPLICATION: Decider[application.Application | None, application_commands.ApplicationCommand] = Decider(
    application.INITIAL, application_commands.decide, application.evolve
)
CLUSTER: Decider[cluster.Cluster | None, cluster.ClusterCommand] = Decider(
    cluster.INITIAL, cluster.decide, cluster.evolve
)
SWITCH: Decider[cluster_switch.Switch | None, switch_commands.SwitchCommand] = Decider(
    cluster_switch.INITIAL, switch_commands.decide, cluster_switch.evolve
)
TENANT: Decider[tenant.Tenant | None, tenant_commands.TenantCommand] = Decider(
    tenant.INITIAL, tenant_commands.decide, tenant.evolve
)
TREE: Decider[tree.Tree, tree.TreeCommand] = Decider(tree.INITIAL, tree.decide, tree.evolve)
LEAF: Decider[leaf.Leaf, leaf.EnterRoutes] = Decider(leaf.INITIAL, leaf.decide, leaf.evolve)
LOST_ORIGIN: Decider[lost_origin.LostOrigin, lost_origin.Reroot] = Decider(
    lost_origin.INITIAL, lost_origin.decide, lost_origin.evolve
)
EDGE: Decider[edge_losses.Edge, edge_losses.EdgeCommand] = Decider(
    edge_losses.INITIAL, edge_losses.decide, edge_losses.evolve
)
FENCED_WORKERS: Decider[fenced_workers.FencedWorkers, fenced_workers.RecordFenced] = Decider(
    fenced_workers.INITIAL, fenced_workers.decide, fenced_workers.evolve
)
GROUP_RESETS: Decider[group_reset.Resets, group_reset.RecordReset] = Decider(
    group_reset.INITIAL, group_reset.decide, group_reset.evolve
)
PRODUCED_MESSAGES: Decider[produced_messages.Produced, produced_messages.RecordProduced] = Decider(
    produced_messages.INITIAL, produced_messages.decide, produced_messages.evolve
)
LEADER_ELECTIONS: Decider[leader_elections.Elections, leader_elections.RecordElection] = Decider(
    leader_elections.INITIAL, leader_elections.decide, leader_elections.evolve
)
SCHEMA_CONFLICTS: Decider[schema_conflicts.TargetConflicts, schema_conflicts.RecordConflicts] = Decider(
    schema_conflicts.INITIAL, schema_conflicts.decide, schema_conflicts.evolve
)
USER: Decider[user.User | None, user.UserCommand] = Decider(user.INITIAL, user.decide, user.evolve)
WEBHOOK: Decider[webhook.Webhook | None, webhook.WebhookCommand] = Decider(
    webhook.INITIAL, webhook.decide, webhook.evolve
)
PLACEMENT: Decider[placements.Placement | None, placements.PlacementCommand] = Decider(
    placements.INITIAL, placements.decide, placements.evolve
)
PLACEMENT_POLICY: Decider[placement_policy.Policies, placement_policy.SetPolicy] = Decider(
    placement_policy.INITIAL, placement_policy.decide, placement_policy.evolve
)
ROUTE_EPOCHS: Decider[route_epochs.RouteEpochs, route_epochs.BeginEpoch] = Decider(
    route_epochs.INITIAL, route_epochs.decide, route_epochs.evolve
)
