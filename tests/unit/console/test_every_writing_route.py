"""Every writing route of the API has a form in the console, or a reason why it has none.

The form's own tests show that it makes the same change, by the API call in its preview.
"""

from __future__ import annotations

import pytest

from backend import web
from backend.api.app import create_app
from backend.settings import Settings

IN = "/tenants/{tenant}/instances/{instance}/environments/{environment}"
AT = "/tenants/{tenant}/{instance}/{environment}"
ONE, AT_ONE = f"{IN}/applications/{{application}}", f"{AT}/-applications/{{application}}"
FORMS = {
    "POST /clusters": "/clusters/-new",
    "PATCH /clusters/{cluster}": "/clusters/{cluster}/-change",
    "DELETE /clusters/{cluster}": "/clusters/{cluster}/-remove",
    "POST /clusters/{cluster}/adoption": "/clusters/{cluster}/-adopt",
    "POST /clusters/{cluster}/elect-preferred-leaders": "/clusters/{cluster}/replication/-elect",
    "PUT /clusters/{cluster}/placement-policy": "/clusters/{cluster}/replication/-policy",
    "PUT /trees/main": "/tree/edit",
    "PUT /trees/main/primary": "/tree/-primary",
    "PUT /trees/main/targets/{cluster}/{level}": "/tree/-target/{cluster}/{level}",
    "PATCH /trees/main/distributors/{cluster}/{level}": "/tree/-settings/{cluster}/{level}",
    "DELETE /route-epochs/reports/{node}": "/zones/-forget",
    "POST /projections/rebuild": "/timeline/-rebuild",
    "POST /set-aside/replay": "/losses/-replay",
    "POST /losses/acknowledge": "/losses/-acknowledge",
    "POST /offsets/reset": "/offsets/-reset",
    "POST /messages": f"{AT}/{{stream}}/-messages/-produce",
    "POST /tenants": "/tenants/-new",
    "POST /tenants/{tenant}/instances": "/tenants/{tenant}/-new",
    "POST /tenants/{tenant}/instances/{instance}/environments": "/tenants/{tenant}/{instance}/-new",
    f"PATCH {IN}": f"{AT}/-change",
    f"POST {IN}/streams": f"{AT}/-new",
    f"PATCH {IN}/streams/{{stream}}": f"{AT}/{{stream}}/-change",
    f"DELETE {IN}/streams/{{stream}}": f"{AT}/{{stream}}/-delete",
    f"POST {IN}/applications": f"{AT}/-applications/-new",
    f"PATCH {ONE}": f"{AT_ONE}/-change",
    f"DELETE {ONE}": f"{AT_ONE}/-delete",
    f"POST {ONE}/credentials": f"{AT_ONE}/-credentials",
    f"DELETE {ONE}/credentials": f"{AT_ONE}/-revoke",
    "POST /tenants/{tenant}/grants": "/tenants/{tenant}/-grants/-decide",
    "PUT /tenants/{tenant}/members/{user}": "/tenants/{tenant}/-members/{user}/-change",
    "DELETE /tenants/{tenant}/members/{user}": "/tenants/{tenant}/-members/{user}/-remove",
    "POST /placements": "/placements/-new",
    "POST /placements/{placement}/apply": "/placements/{placement}/-apply",
    "POST /placements/{placement}/pause": "/placements/{placement}/-say",
    "POST /placements/{placement}/resume": "/placements/{placement}/-say",
    "POST /placements/{placement}/cancel": "/placements/{placement}/-say",
    "POST /placements/{placement}/rollback": "/placements/{placement}/-say",
    "POST /switches": "/switches/plan",
    "POST /switches/{switch}/abort": "/switches/{switch}/-abort",
    "POST /switches/{switch}/force": "/switches/{switch}/-force",
    "POST /switches/{switch}/reverse": "/switches/plan",
    "POST /users": "/users",
    "PATCH /users/{user}": "/users/{user}",
    "PUT /users/{user}/password": "/users/{user}/password",
    "POST /users/{user}/tokens": "/users/{user}/tokens",
    "DELETE /users/{user}/tokens/{token}": "/users/{user}/tokens/{token}/revoke",
    "PUT /users/{user}/identity": "/users/{user}/identity",
    "DELETE /users/{user}/identity": "/users/{user}/identity",
    "POST /webhooks": "/webhooks/-new",
    "PATCH /webhooks/{webhook}": "/webhooks/{webhook}/-change",
    "DELETE /webhooks/{webhook}": "/webhooks/{webhook}/-delete",
    "POST /webhooks/{webhook}/secret": "/webhooks/{webhook}/-secret",
    "POST /webhooks/{webhook}/test": "/webhooks/{webhook}/-test",
    "POST /webhooks/{webhook}/deliveries/{position}/retry": "/webhooks/{webhook}/-retry",
    "POST /events/{position}/undo": "/timeline/{position}/-undo",
}
ASKED_BY_ADDRESS = {
    "POST /switches/plan": "/switches/plan",
    "POST /drills/replication": "/drills/schedule",
}
"""Routes that change nothing: a page makes the same request by its address."""
NOT_FOR_PEOPLE = {
    f"POST {IN}/streams:declare": "many at once are what a file declares; by hand it is one after the other",
    "DELETE /discovery/clients/{client_id}": "a client says of itself that it has ended",
    "POST /route-epochs/reports": "a node of the zone router tells how far it is",
    "POST /login-links": "for who is not in the console yet; who is, has a session",
}


@pytest.fixture(scope="module")
def pages() -> dict[str, set[str]]:
    """Return method -> the addresses of pages that take it."""
    found: dict[str, set[str]] = {"GET": set(), "POST": set()}
    for module in vars(web).values():
        for route in getattr(getattr(module, "router", None), "routes", ()):
            for method in route.methods & found.keys():
                found[method].add(route.path)
    return found


def writing_routes() -> set[str]:
    """Return the writing routes of the OpenAPI, below /api/v1."""
    paths = create_app(Settings()).openapi()["paths"]
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in paths.items()
        for method in methods
        if method != "get"
    }


def test_each_writing_route_has_a_form_or_a_reason() -> None:
    told = [*FORMS, *ASKED_BY_ADDRESS, *NOT_FOR_PEOPLE]
    assert len(told) == len(set(told)), "each once"
    assert writing_routes() == set(told)


def test_each_form_is_there(pages: dict[str, set[str]]) -> None:
    assert set(FORMS.values()) <= pages["POST"]
    assert set(ASKED_BY_ADDRESS.values()) <= pages["GET"]
