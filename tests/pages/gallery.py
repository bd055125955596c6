"""The documentation's pictures of the console's pages: the table from which docs/console-gallery.md is made.

A new page is a line here; its content is created by `tests/pages/test_gallery.py`, `filled`. Then `make pictures`
takes its picture and writes the page. Names of pictures are those of files in docs/images/gallery.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend import web
from tests.pages.test_losses_page import ASIDE

PROD = "/tenants/acme/retail/prod"
TOKEN = "Name=laptop", "Days=30", "Issue a token"
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
        Picture("tree-edit", "/tree/edit?steps=level:r1:2&node=r1", "The tree is edited in steps", True, True),
        Picture("primary", "/tree/-primary", "The primary is moved"),
        Picture("target", "/tree/-target/c1/2", "A distributor's target is changed"),
        Picture("distributor", "/tree/-settings/c1/2", "A distributor's pause, limit and compression"),
        Picture("operation", "/operations/target-switch-52", "An operation and its progress"),
        Picture("losses", "/losses", "Losses and dead letters"),
        Picture("losses-acknowledge", "/losses/-acknowledge?cluster=c1&level=2", "Losses are acknowledged"),
        Picture("set-aside-replay", f"/losses/-replay?id={ASIDE.id}", "A dead letter is replayed"),
        Picture("clusters", "/clusters", "All clusters"),
        Picture("cluster-new", "/clusters/-new", "The form of a new cluster"),
        Picture("cluster-change", "/clusters/c1/-change", "The form that changes a cluster"),
        Picture("cluster-defaults", "/clusters/c1/-defaults", "A cluster's default replicas are set"),
        Picture("cluster-adopt", "/clusters/c1/-adopt", "A cluster's topics are taken over"),
        Picture("cluster-remove", "/clusters/c1/-remove", "The form that removes a cluster"),
        Picture("cluster", "/clusters/c1", "One cluster: names, client properties, distributors, environments"),
        Picture("timeline", "/timeline", "The event log in sentences", True, True),
        Picture("event", "/timeline/3", "One event, and the changes since"),
        Picture("differences", "/timeline/-differences?from=3&to=12", "Differences between two positions"),
        Picture("undo", "/timeline/52/-undo", "The effect of an undo", narrow=True),
        Picture("rebuild", "/timeline/-rebuild", "A projection is rebuilt"),
        Picture("zones", "/zones", "The zone router: epochs, nodes, bytes between zones", dark=True),
        Picture("zones-forget", "/zones/-forget?node=zr-az1", "A node of the zone router is forgotten"),
        Picture("webhooks", "/webhooks", "Who outside is told of what happens"),
        Picture("webhook", "/webhooks/ops", "One webhook, and how its deliveries went"),
        Picture("webhook-new", "/webhooks/-new", "The form of a new webhook"),
        Picture("webhook-change", "/webhooks/ops/-change", "The form that changes a webhook"),
        Picture("webhook-secret", "/webhooks/ops/-secret", "A webhook signs with a new secret"),
        Picture("webhook-test", "/webhooks/ops/-test", "A test is sent"),
        Picture("webhook-retry", "/webhooks/ops", "A delivery is sent again", acts=("Send again",)),
        Picture("webhook-delete", "/webhooks/ops/-delete", "The form that deletes a webhook"),
        Picture("trace", f"/trace?stream={PROD[9:]}/orders&cluster=c1&partition=0&offset=41", "A record's copies"),
    ),
    "Tenants and streams": (
        Picture("tenants", "/tenants", "All tenants"),
        Picture("tenant-new", "/tenants/-new", "The form of a new tenant"),
        Picture("tenant", "/tenants/acme", "One tenant: instances and members"),
        Picture("instance-new", "/tenants/acme/-new", "The form of a new instance"),
        Picture("environment-new", "/tenants/acme/retail/-new", "The form of a new environment"),
        Picture("environment", PROD, "One environment: its streams and applications"),
        Picture("environment-change", f"{PROD}/-change", "The form that changes an environment"),
        Picture("stream-new", f"{PROD}/-new", "The form of a new stream", narrow=True),
        Picture("stream", f"{PROD}/orders", "One stream on every cluster", dark=True),
        Picture("stream-change", f"{PROD}/orders/-change", "The form that changes a stream"),
        Picture("stream-delete", f"{PROD}/orders/-delete", "The form that deletes a stream"),
        Picture("member-new", "/tenants/acme/-members/-new", "The form that lets a user into a tenant"),
        Picture("member-change", "/tenants/acme/-members/ada/-change", "A member becomes an owner, or otherwise"),
        Picture("member-remove", "/tenants/acme/-members/ada/-remove", "A member leaves"),
    ),
    "Applications": (
        Picture("application-new", f"{PROD}/-applications/-new", "The form of a new application"),
        Picture("application", f"{PROD}/-applications/billing", "One application: streams, groups, access"),
        Picture("application-change", f"{PROD}/-applications/billing/-change", "The form that changes it"),
        Picture("application-delete", f"{PROD}/-applications/billing/-delete", "The form that deletes it"),
        Picture("credentials", f"{PROD}/-applications/billing/-credentials", "A new password is issued"),
        Picture("credentials-revoke", f"{PROD}/-applications/billing/-revoke", "A password is taken away"),
        Picture("grants", "/tenants/acme/-grants", "Who may use a tenant's streams"),
        Picture("grant-decide", "/tenants/acme/-grants/-decide?"
                "application=acme/retail/prod/billing&stream=acme/retail/prod/orders&operation=consume"
                "&decision=withdraw", "One grant is decided"),
    ),
    "Schemas and offsets": (
        Picture("schemas", "/schemas", "Subjects of the primary, and how far clusters follow"),
        Picture("subject", "/schemas/c1/acme-retail-prod-orders-value", "One subject, and what differs"),
        Picture("schema-new", "/schemas/-new", "The form that checks and registers a schema"),
        Picture("schema-level", "/schemas/-level?subject=acme-retail-prod-orders-value", "A level is set"),
        Picture("offsets-reset", "/offsets/-reset", "A group is set to other offsets"),
        Picture("offsets", "/offsets", "Where groups are on every cluster", narrow=True),
        Picture("offsets-earlier", "/offsets?at=52", "Groups at an earlier position"),
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
        Picture("account", "/account", "One's own account"),
        Picture("audit", "/audit", "Who did what, when, from where and by what", narrow=True),
        Picture("users", "/users", "All users"),
        Picture("user", "/users/ada", "One user"),
        Picture("password", "/users/ada", "A password is typed below what it does", narrow=True,
                acts=("Set a password",)),
        Picture("token-new", "/users/ada", "A token is looked at before it is issued", acts=TOKEN),
        Picture("token", "/users/ada", "A new token is shown this once", acts=(*TOKEN, "Issue the token")),
        Picture("session-end", "/account", "A session is looked at before it ends", acts=("End the session",)),
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
