"""The top of every page of a stream: its place, its actions, and the tabs, each of which has its own address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.domain.access.access import Action, Caller
from backend.domain.names.names import StreamName
from backend.web.frame.pages import Offer, offer, reasons

OVERVIEW, MESSAGES, GROUPS, SCHEMA = "Overview", "Messages", "Groups", "Schema"
PARTITIONS, SETTINGS, HISTORY = "Partitions", "Settings", "History"
_TABS = (
    (OVERVIEW, "", Action.READ_TENANT),
    (MESSAGES, "/-messages", Action.READ_MESSAGES),
    (GROUPS, "/-groups", Action.READ_TENANT),
    (SCHEMA, "/-schema", Action.READ_TENANT),
    (PARTITIONS, "/-partitions", Action.READ_TENANT),
    (SETTINGS, "/-settings", Action.READ_TENANT),
    (HISTORY, "/-history", Action.READ_TENANT),
)


@dataclass(frozen=True, kw_only=True)
class StreamTop:
    """The top of a page of a stream."""

    name: StreamName
    tab: str
    """Label of the tab that is shown."""
    tabs: Sequence[Offer]
    offers: Sequence[Offer]
    reasons: Sequence[str]

    @property
    def place(self) -> str:
        """Return the address of the stream's environment."""
        return f"/tenants/{self.name.tenant}/{self.name.instance}/{self.name.environment}"

    @property
    def here(self) -> str:
        """Return the address of the stream's first page."""
        return stream_address(self.name)

    @property
    def trail(self) -> list[tuple[str, str]]:
        """Return the pages above this one."""
        name = self.name
        above = [
            ("Tenants", "/tenants"),
            (name.tenant, f"/tenants/{name.tenant}"),
            (name.instance, f"/tenants/{name.tenant}#{name.instance}"),
            (name.environment, self.place),
        ]
        return above if self.tab == OVERVIEW else [*above, (name.stream, self.here)]

    @property
    def last(self) -> str:
        """Return the name of this page in its breadcrumbs."""
        return self.name.stream if self.tab == OVERVIEW else self.tab


def stream_address(name: StreamName) -> str:
    """Return the address of a stream's first page."""
    return f"/tenants/{name}"


def stream_top(caller: Caller, name: StreamName, tab: str, produce: str = "") -> StreamTop:
    """Return the top of a page; `produce`: query of the form that produces a message, such as `cluster=c1`."""
    here, tenant = stream_address(name), name.tenant
    tabs = [offer(caller, action, tenant, label, f"{here}{ending}") for label, ending, action in _TABS]
    form = f"{here}/-messages/-produce{'?' if produce else ''}{produce}"
    offers = [
        offer(caller, Action.PRODUCE_MESSAGES, tenant, "Produce message", form),
        offer(caller, Action.DECLARE_STREAMS, tenant, "Change", f"{here}/-change"),
        offer(caller, Action.MANAGE_TENANT, tenant, "Delete", f"{here}/-delete"),
    ]
    return StreamTop(name=name, tab=tab, tabs=tabs, offers=offers, reasons=reasons([*tabs, *offers]))
