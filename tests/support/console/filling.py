"""Content for every page."""

from __future__ import annotations

from backend.domain.switch.cluster_switch import Phase
from tests.browser.offsets.test_offsets_page import ORDERS, committed
from tests.postgres.webhooks.test_webhooks_pages import told_of
from tests.support.console.consoles import Console
from tests.support.console.grouping import some_groups
from tests.support.console.measuring import a_week
from tests.support.console.placing import GROWN, ask, documents, failed, planned
from tests.support.console.replicating import look, looked_at, online
from tests.support.console.switching import client, commands, start
from tests.support.console.switching import to as goes_to
from tests.support.console.visitors import API_PROD
from tests.support.console.zoning import begin, reports
from tests.support.database.postgres import Database


def fill(acme: Console, database: Database) -> None:
    """Add what pages show besides clusters and tenants."""
    rest = acme.rest
    rest.ok("POST", f"{API_PROD}/applications", {"name": "billing", "consumes": [ORDERS]})
    rest.ok("POST", "/users", {"name": "ada", "role": "viewer", "tenants": {"acme": "member"}})
    rest.ok("POST", "/users/ada/tokens", {"name": "ci"})
    told_of(acme, database)
    reports(acme, epochs=(41, 12, None), crossing=1000)
    begin(database, 43, committed=39)
    a_week(database)
    online(database)
    look(database, looked_at(away=(2,)))
    committed(database, ORDERS, "billing")
    some_groups(database)
    ask(database, "p1")
    planned(database, "p1", documents(GROWN))
    ask(database, "p2")
    failed(database, "p2", "no broker answered")
    client(database, "checkout-1")
    commands(database, start(), goes_to(Phase.HOLDING))
