"""The documentation's pictures of the console's pages: the table from which docs/console-gallery.md is made.

A new page is a line here; its content is created by `tests/pages/test_gallery.py`, `filled`. Then `make pictures`
takes its picture and writes the page. Names of pictures are those of files in docs/images/gallery.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend import web
from tests.pages.test_losses_page import ASIDE

PROD = "/tenants/acme/retail/prod"
TOKEN = "Name=laptop", "Days=30", "Issue token"
LOSS = "/drills/replication/hw-truncation-loss"


@dataclass(frozen=True)
class Picture:
    """One page of the gallery: wide and light, and further looks if set."""

    name: str
    address: str
    shows: str
    """Caption of the picture."""
    dark: bool = False
    """True: also with the dark theme."""
    narrow: bool = False
    """True: also on a telephone."""
    acts: tuple[str, ...] = ()
    """Steps from the address to the picture: buttons to press, and `Name=ci`, which fills a field."""

    @property
    def way(self) -> str:
        """Return the address with the steps that follow."""
        return ", ".join((self.address, *self.acts))

    @property
    def looks(self) -> tuple[str, ...]:
        """The ends of the names of its files: wide and light, then dark, then narrow."""
        return "", *(("-dark",) if self.dark else ()), *(("-narrow",) if self.narrow else ())


GALLERY: dict[str, tuple[Picture, ...]] = {
    "The estate": (
        Picture("tree", "/tree", "The tree, its clusters, and each distributor with rate and lag", True, True),
        Picture("tree-earlier", "/tree?at=9", "The tree as it was at an earlier position of the event log"),
        Picture("find", "/find?q=ord", "What is found by words of its name"),
        Picture("tree-edit", "/tree/edit?steps=level:r1:2&node=r1", "The tree is edited by steps", True, True),
        Picture("primary", "/tree/-primary", "The primary is moved"),
        Picture("target", "/tree/-target/c1/2", "A distributor's target is changed"),
        Picture("distributor", "/tree/-settings/c1/2", "A distributor is paused, limited, or compresses"),
        Picture("operation", "/operations/target-switch-52", "What was begun, and how far it is"),
        Picture("losses", "/losses", "Records that were lost, or set aside"),
        Picture("losses-acknowledge", "/losses/-acknowledge?cluster=c1&level=2", "Losses are taken note of"),
        Picture("set-aside-replay", f"/losses/-replay?id={ASIDE.id}", "A record that was set aside is replayed"),
        Picture("clusters", "/clusters", "All clusters"),
        Picture("cluster-new", "/clusters/-new", "Adding a cluster"),
        Picture("cluster-change", "/clusters/c1/-change", "Changing a cluster"),
        Picture("cluster-defaults", "/clusters/c1/-defaults", "Replica defaults of a cluster"),
        Picture("cluster-adopt", "/clusters/c1/-adopt", "Adopting a cluster's topics"),
        Picture("cluster-remove", "/clusters/c1/-remove", "Removing a cluster"),
        Picture("cluster", "/clusters/c1", "One cluster: names, client properties, distributors, environments"),
        Picture("timeline", "/timeline", "The event log in sentences", True, True),
        Picture("event", "/timeline/3", "One event, and what is otherwise since it"),
        Picture("differences", "/timeline/-differences?from=3&to=12", "What differs between two positions"),
        Picture("undo", "/timeline/52/-undo", "What an undo would do, before it is done", narrow=True),
        Picture("rebuild", "/timeline/-rebuild", "A read model is made anew"),
        Picture("zones", "/zones", "The zone router: epochs, nodes, bytes between zones", dark=True),
        Picture("zones-forget", "/zones/-forget?node=zr-az1", "A node of the zone router is forgotten"),
        Picture("webhooks", "/webhooks", "All webhooks"),
        Picture("webhook", "/webhooks/ops", "One webhook and its deliveries"),
        Picture("webhook-new", "/webhooks/-new", "Creating a webhook"),
        Picture("webhook-change", "/webhooks/ops/-change", "Changing a webhook"),
        Picture("webhook-secret", "/webhooks/ops/-secret", "Rotating a webhook's secret"),
        Picture("webhook-test", "/webhooks/ops/-test", "Sending a test event"),
        Picture("webhook-retry", "/webhooks/ops", "Retrying a delivery", acts=("Send again",)),
        Picture("webhook-delete", "/webhooks/ops/-delete", "Deleting a webhook"),
        Picture("trace", f"/trace?stream={PROD[9:]}/orders&cluster=c1&partition=0&offset=41", "A record's copies"),
    ),
    "Tenants and streams": (
        Picture("tenants", "/tenants", "All tenants"),
        Picture("tenant-new", "/tenants/-new", "Creating a tenant"),
        Picture("tenant", "/tenants/acme", "One tenant: instances and members"),
        Picture("instance-new", "/tenants/acme/-new", "Creating an instance"),
        Picture("environment-new", "/tenants/acme/retail/-new", "Creating an environment"),
        Picture("environment", PROD, "One environment: its streams and applications"),
        Picture("environment-change", f"{PROD}/-change", "Changing an environment"),
        Picture("stream-new", f"{PROD}/-new", "Declaring a stream", narrow=True),
        Picture("stream", f"{PROD}/orders", "One stream on every cluster", dark=True),
        Picture("stream-change", f"{PROD}/orders/-change", "Changing a stream"),
        Picture("stream-delete", f"{PROD}/orders/-delete", "Deleting a stream"),
        Picture("member-new", "/tenants/acme/-members/-new", "Adding a member to a tenant"),
        Picture("member-change", "/tenants/acme/-members/ada/-change", "Changing a membership"),
        Picture("member-remove", "/tenants/acme/-members/ada/-remove", "Removing a member"),
    ),
    "Applications": (
        Picture("application-new", f"{PROD}/-applications/-new", "Declaring an application"),
        Picture("application", f"{PROD}/-applications/billing", "One application: streams, groups, access"),
        Picture("application-change", f"{PROD}/-applications/billing/-change", "Changing an application"),
        Picture("application-delete", f"{PROD}/-applications/billing/-delete", "Deleting an application"),
        Picture("credentials", f"{PROD}/-applications/billing/-credentials", "Issuing a password"),
        Picture("credentials-revoke", f"{PROD}/-applications/billing/-revoke", "Revoking a password"),
        Picture("grants", "/tenants/acme/-grants", "Grants for a tenant's streams"),
        Picture("grant-decide", "/tenants/acme/-grants/-decide?"
                "application=acme/retail/prod/billing&stream=acme/retail/prod/orders&operation=consume"
                "&decision=withdraw", "Deciding on a grant"),
    ),
    "Schemas and offsets": (
        Picture("schemas", "/schemas", "Subjects of the primary, and the progress of other clusters"),
        Picture("subject", "/schemas/c1/acme-retail-prod-orders-value", "One subject, and its differences"),
        Picture("schema-new", "/schemas/-new", "Checking and registering a schema"),
        Picture("schema-level", "/schemas/-level?subject=acme-retail-prod-orders-value", "Setting a level"),
        Picture("offsets-reset", "/offsets/-reset", "A group is set to other offsets"),
        Picture("offsets", "/offsets", "Where groups are on every cluster", narrow=True),
        Picture("offsets-earlier", "/offsets?at=52", "Where groups were, as a look saw it shortly before"),
    ),
    "Switches": (
        Picture("switches", "/switches", "Where clients are, and switches"),
        Picture("switch-plan", "/switches/plan?from=c1&to=c2", "What a switch would do", True, True),
        Picture("switch", "/switches/s1", "The cockpit: clients are held", True, True),
        Picture("switch-abort", "/switches/s1/-abort", "What an abort takes back"),
        Picture("switch-force", "/switches/s1/-force", "Going on without clients that do not answer"),
        Picture("switch-report", "/switches/s0", "The report of a switch that is over"),
    ),
    "Replicas": (
        Picture("placements", "/placements", "All placements"),
        Picture("placement-new", "/placements/-new", "A plan is asked for"),
        Picture("placement", "/placements/p1", "A plan: before and after, broker by broker", True, True),
        Picture("replication", "/clusters/c1/replication", "Leaders and replicas in sync of a cluster"),
        Picture("replication-elect", "/clusters/c1/replication/-elect", "Preferred leaders are elected"),
        Picture("replication-policy", "/clusters/c1/replication/-policy", "What is done when brokers come or go"),
        Picture("what-if", "/clusters/c1/replication/what-if?broker=3", "What would be lost if a broker died"),
    ),
    "The replication lab": (
        Picture("drills", "/drills", "The scenarios"),
        Picture("drill", f"{LOSS}?step=15", "A committed record is lost, step by step", True, True),
        Picture("drill-schedule", "/drills/schedule?faults=crash 1 1000 4500,cut 2-3 2000 800", "Own faults"),
    ),
    "People": (
        Picture("account", "/account", "Your own account"),
        Picture("audit", "/audit", "The audit: changes and logins with actor, time and origin", narrow=True),
        Picture("users", "/users", "All users"),
        Picture("user", "/users/ada", "One user"),
        Picture("password", "/users/ada", "Setting a password, below its effect", narrow=True,
                acts=("Set password",)),
        Picture("token-new", "/users/ada", "Preview of a new token", acts=TOKEN),
        Picture("token", "/users/ada", "A new token, shown once", acts=(*TOKEN, "Issue token")),
        Picture("session-end", "/account", "Ending a session", acts=("End session",)),
        Picture("login", "/login", "Logging in", dark=True, narrow=True),
    ),
}  # fmt: skip
PICTURES = tuple(each for group in GALLERY.values() for each in group)
NO_PICTURE = {
    "/": "is /tree",
    "/static/{name:path}": "files",
    "/tree/live": "events for /tree",
    "/find/-hits": "a block of the window that finds",
    "/timeline/-moment": "what the slider says",
    "/login/oidc": "leads to the provider",
    "/login/oidc/callback": "leads from the provider to the page that was asked for",
    "/offsets/-export": "a file",
    "/tenants/{tenant}/{instance}": "leads to the tenant",
    "/tenants/{tenant}/{instance}/{environment}/-streams": "a block of the environment's page",
}
"""Addresses that are no pages, and why; nor are those that end with -live or -applied."""


def routes() -> list[str]:
    """Return the addresses of the console that answer a GET, as they are declared; the plainest first."""
    routers = [page.router for page in vars(web).values() if hasattr(page, "router")]
    found = [
        each for router in routers for each in router.routes if "GET" in (getattr(each, "methods", None) or ())
    ]
    return sorted({each.path for each in found}, key=lambda path: path.count("{"))


def text() -> str:
    """Return the text of docs/console-gallery.md."""
    lines = [
        "# Pictures of every page",
        "<!-- Written by `make pictures` from tests/pages/gallery.py. -->",
        "",
        "The [console](console.md)'s pages, on a control plane with three clusters and two tenants. What is on",
        "them is made up by the test that takes the pictures; the clusters are not there.",
    ]
    for heading, pictures in GALLERY.items():
        lines += ["", f"## {heading}"]
        for each in pictures:
            way = "".join(f", {_told(act)}" for act in each.acts)
            lines += ["", f"### {each.shows}", "", f"`{each.address.partition('?')[0]}`{way}"]
            for look in each.looks:
                said = {"": "", "-dark": ", in the dark", "-narrow": ", on a telephone"}[look]
                lines += ["", f"![{each.shows}{said}](images/gallery/{each.name}{look}.webp)"]
    return "\n".join(lines) + "\n"


def _told(act: str) -> str:
    field, filled, value = act.partition("=")
    return f"{field}: `{value}`" if filled else f"**{act}**"
