"""The web console: one router per page, mounted by `backend.asgi`."""

from __future__ import annotations

from fastapi import APIRouter

from backend.web import (
    account_page,
    application_forms,
    application_page,
    credentials_form,
    grants_page,
    level_form,
    login_page,
    member_forms,
    schema_form,
    schemas_page,
    static,
    stream_delete_form,
    stream_forms,
    stream_page,
    switch_force_form,
    switch_page,
    switch_plan_page,
    switches_page,
    tenant_forms,
    tenants_page,
    tree_page,
    users_page,
)


def routes() -> list[APIRouter]:
    """Every page's router."""
    # Forms come before pages whose paths name things: no name begins with "-", as a form's address does.
    pages = (
        *(static, login_page, tree_page, users_page, account_page),
        *(switch_plan_page, switch_force_form, switch_page, switches_page),
        *(application_forms, credentials_form, application_page, grants_page, member_forms),
        *(tenant_forms, stream_forms, stream_delete_form, tenants_page, stream_page),
        *(schema_form, level_form, schemas_page),
    )
    return [page.router for page in pages]
