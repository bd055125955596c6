"""Links to pages in place of REST calls that messages advise."""

from __future__ import annotations

from markupsafe import Markup, escape

from backend.domain.base.calls import said_otherwise


def _page(address: str, name: str) -> str:
    return f'the page <a href="{address}">{name}</a>'


_WAYS = (
    (r"GET /clusters", _page("/clusters", "Clusters")),
    (r"GET /tenants", _page("/tenants", "Tenants")),
    (r"GET /users", _page("/users", "Users")),
    (r"GET /webhooks", _page("/webhooks", "Webhooks")),
    (r"GET /placements", _page("/placements", "Placements")),
    (r"GET /switches", _page("/switches", "Switches")),
    (r"GET /trees/main/distributors", _page("/tree", "Tree")),
    (r"GET /zones", _page("/zones", "Zones")),
    (r"GET /history/subjects", _page("/charts", "Charts")),
    (r"GET /set-aside", _page("/losses", "Losses and dead letters")),
    (r"GET /discovery", _page("/tenants", "Tenants")),
    (r"GET /drills/replication", _page("/drills", "Drills")),
    (r"POST /clusters", _page("/clusters/-new", "Add cluster")),
    (r"PUT /trees/main", _page("/tree/edit", "Edit tree")),
    (r"PUT /trees/main/primary", _page("/tree/-primary", "Move primary")),
    (r"POST /switches/plan", _page("/switches/plan", "Plan switch")),
    (r"POST /switches/([\w-]+)/(?:abort|reverse)", _page(r"/switches/\1", r"of switch \1")),
)


def with_links(text: str) -> Markup:
    """Return a message as HTML. Escaping does not change a call, so calls are replaced afterwards."""
    return Markup(said_otherwise(str(escape(text)), _WAYS))
