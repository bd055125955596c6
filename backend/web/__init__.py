"""The web console: one router per page; their routes are added by `backend.asgi`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from fastapi import FastAPI
from starlette.routing import BaseRoute

from backend.shared_routes import shared_routes
from backend.web.access import account_page, audit_page, member_forms, users_page
from backend.web.clusters import (
    adoption_page,
    cluster_defaults_form,
    cluster_forms,
    cluster_remove_form,
    clusters_page,
)
from backend.web.distribution import distributor_forms, losses_page, trace_page
from backend.web.finding import find_page, names_page
from backend.web.forms.refusals import show_refusals
from backend.web.frame import login_page, oidc_page, operation_page, static
from backend.web.history import charts_page, timeline_page, undo_page, upkeep_forms
from backend.web.lab import lab_page
from backend.web.messages import messages_live, messages_page, produce_form
from backend.web.offsets import group_page, groups_page, offset_reset_form, offsets_page
from backend.web.overview import overview_page
from backend.web.placement import placement_form, placement_page, placement_run_form
from backend.web.replication import (
    placement_policy_form,
    placements_page,
    replication_elect_form,
    replication_page,
    replication_what_if_page,
)
from backend.web.schemas import level_form, primary_form, schema_form, schemas_page, stream_schema_page
from backend.web.switch import switch_abort_form, switch_force_form, switch_page, switch_plan_page, switches_page
from backend.web.tenants import (
    application_forms,
    application_page,
    credentials_form,
    grants_page,
    stream_delete_form,
    stream_forms,
    stream_groups_page,
    stream_history_page,
    stream_page,
    stream_partitions_page,
    stream_place_page,
    stream_settings_page,
    tenant_forms,
    tenants_page,
)
from backend.web.tree import tree_edit_page, tree_page
from backend.web.webhooks import webhook_forms, webhooks_page
from backend.web.zones import zones_page


def add_pages(app: FastAPI) -> None:
    """Let an application show the pages, and its refusals as pages too."""
    app.router.routes.extend(routes())
    show_refusals(app)


@functools.cache
def routes() -> Sequence[BaseRoute]:
    """Every page's routes, which all applications of a process share."""
    # Forms come before pages whose paths name things: no name begins with "-", as a form's address does.
    pages = (
        overview_page,
        *(find_page, names_page, static, login_page, oidc_page, tree_page, users_page, audit_page, account_page),
        *(switch_plan_page, switch_abort_form, switch_force_form, switch_page, switches_page),
        *(placement_form, placement_page, placement_run_form, placements_page),
        *(distributor_forms, primary_form, tree_edit_page, operation_page),
        *(adoption_page, cluster_defaults_form, cluster_forms, cluster_remove_form, clusters_page, losses_page),
        *(replication_elect_form, replication_page, replication_what_if_page, placement_policy_form),
        *(upkeep_forms, lab_page, zones_page, undo_page, timeline_page, charts_page),
        *(group_page, groups_page, offset_reset_form, offsets_page, trace_page),
        *(application_forms, credentials_form, application_page, grants_page, member_forms),
        *(tenant_forms, stream_place_page, stream_forms, stream_delete_form, tenants_page),
        *(produce_form, messages_page, messages_live, stream_page),
        *(stream_groups_page, stream_partitions_page, stream_settings_page, stream_history_page),
        *(stream_schema_page, schema_form, level_form, schemas_page),
        *(webhook_forms, webhooks_page),
    )
    return shared_routes(page.router for page in pages)
