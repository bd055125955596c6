"""Translation of REST calls that the control plane's messages advise into commands of the CLI."""

from __future__ import annotations

from backend.domain.base.calls import said_otherwise

_WAYS = (
    (r"GET /(clusters|tenants|users|webhooks|placements|switches)", r"`treeline get \1`"),
    (r"GET /trees/main/distributors", "`treeline get distributors`"),
    (r"GET /zones", "`treeline zones`"),
    (r"GET /history/subjects", "`treeline history METRIC`"),
    (r"GET /set-aside", "`treeline set-aside list`"),
    (r"GET /discovery", "`treeline discovery show`"),
    (r"GET /drills/replication", "`treeline drill replication --list`"),
    (r"POST /clusters|PUT /trees/main", "`treeline apply`"),
    (r"PUT /trees/main/primary", "`treeline schemas move-primary`"),
    (r"POST /switches/plan", "`treeline switch plan`"),
    (r"POST /switches/([\w-]+)/(abort|reverse)", r"`treeline switch \2 \1`"),
)


def in_commands(text: str) -> str:
    """Return a message with commands in place of REST calls."""
    return said_otherwise(text, _WAYS)
