"""Content for every page."""

from __future__ import annotations

from backend.domain.switch.cluster_switch import Phase
from tests.database_fixture import Database
from tests.pages.consoles import Console
from tests.pages.placing import GROWN, ask, documents, failed, planned
from tests.pages.replicating import look, looked_at, online
from tests.pages.switching import client, commands, start
from tests.pages.switching import to as goes_to
from tests.pages.test_offsets_page import ORDERS, committed
from tests.pages.test_webhooks_pages import told_of
from tests.pages.visitors import API_PROD
from tests.pages.zoning import begin, reports


def fill(acme: Console, database: Database) -> None:
    """Add what pages show besides clusters and tenants."""
    rest = acme.rest
    rest.ok("POST", f"{API_PROD}/applications", {"name": "billing", "consumes": [ORDERS]})
    rest.ok("POST", "/users", {"name": "ada", "role": "viewer", "tenants": {"acme": "member"}})
    rest.ok("POST", "/users/ada/tokens", {"name": "ci"})
    told_of(acme, database)
    reports(acme, epochs=(41, 12, None), crossing=1000)
    begin(database, 43, committed=39)
    online(database)
    look(database, looked_at(away=(2,)))
    committed(database, ORDERS, "billing")
    ask(database, "p1")
    planned(database, "p1", documents(GROWN))
    ask(database, "p2")
    failed(database, "p2", "no broker answered")
    client(database, "checkout-1")
    commands(database, start(), goes_to(Phase.HOLDING))
