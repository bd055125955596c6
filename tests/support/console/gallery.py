"""The documentation's pictures of the console's pages: the table from which docs/console-gallery.md is made.

A new page is a line here; its content is created by `tests/browser/console/test_gallery.py`, `filled`. Then
`make pictures` takes its picture and writes the page. Names of pictures are those of files in docs/images/gallery.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend import web
from tests.browser.distribution.test_losses_page import ASIDE

PROD = "/tenants/acme/retail/prod"
TOKEN = "Name=laptop", "Days=30", "Issue token"
GROUP = "/groups/-of?cluster=c1&group=acme-retail-prod-billing"
LOSS = "/drills/replication/hw-truncation-loss"
FILLED, EMPTY, LARGE = "filled", "empty", "large"
"""Estates that pages show: two tenants on three clusters, an empty estate, or a tree of 50 clusters."""


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
    estate: str = FILLED

    @property
    def way(self) -> str:
        """Return the address with the steps that follow."""
        return ", ".join((self.address, *self.acts))

    @property
    def looks(self) -> tuple[str, ...]:
        """Return the suffixes of its files' names: wide and light, then dark, then narrow."""
        return "", *(("-dark",) if self.dark else ()), *(("-narrow",) if self.narrow else ())


GALLERY: dict[str, tuple[Picture, ...]] = {
    "The estate": (
        Picture("overview", "/overview", "One verdict, problems first, clusters, the last day", True, True),
        Picture("first-run", "/overview", "The first run: an empty estate", narrow=True, estate=EMPTY),
        Picture("tree", "/tree", "The tree with its clusters, and each distributor's rate and lag", True, True),
        Picture("tree-drawer", "/tree?open=c1:2", "A distributor of the tree, in the drawer", narrow=True),
        Picture("tree-large", "/tree?collapsed=none", "A tree of 50 clusters", narrow=True, estate=LARGE),
        Picture("tree-collapsed", "/tree", "The same tree, quiet subtrees collapsed", estate=LARGE),
        Picture("tree-earlier", "/tree?at=9", "The tree as of an earlier position of the event log"),
        Picture("find", "/find?q=ord", "Search results"),
        Picture("tree-edit", "/tree/edit?steps=level:r1:2&node=r1", "Editor of the tree", True, True),
        Picture("primary", "/tree/-primary", "Form: move the primary"),
        Picture("target", "/tree/-target/c1/2", "Form: change a distributor's target"),
        Picture("distributor", "/tree/-settings/c1/2", "Form: pause, throttle or compress a distributor"),
        Picture("operation", "/operations/target-switch-52", "Progress of an operation"),
        Picture("losses", "/losses", "Losses and dead letters"),
        Picture("losses-acknowledge", "/losses/-acknowledge?cluster=c1&level=2", "Form: acknowledge losses"),
        Picture("set-aside-replay", f"/losses/-replay?id={ASIDE.id}", "Form: replay a dead-lettered record"),
        Picture("clusters", "/clusters", "All clusters"),
        Picture("cluster-new", "/clusters/-new", "Form: add a cluster"),
        Picture("cluster-change", "/clusters/c1/-change", "Form: change a cluster"),
        Picture("cluster-defaults", "/clusters/c1/-defaults", "Form: set a cluster's default replicas"),
        Picture("cluster-adopt", "/clusters/c1/-adopt", "Form: adopt a cluster's topics"),
        Picture("cluster-remove", "/clusters/c1/-remove", "Form: remove a cluster"),
        Picture("cluster", "/clusters/c1", "One cluster: names, client properties, distributors, environments"),
        Picture("timeline", "/timeline", "The event log in sentences", narrow=True),
        Picture("charts", "/charts", "Charts of a measure: each distributor's lag"),
        Picture("chart", "/charts?metric=edge.records_per_second&subject=c1:2", "A chart of one subject"),
        Picture("event", "/timeline/3", "One event, and the changes since"),
        Picture("differences", "/timeline/-differences?from=3&to=12", "Differences between two positions"),
        Picture("undo", "/timeline/52/-undo", "Preview of an undo", narrow=True),
        Picture("rebuild", "/timeline/-rebuild", "Form: rebuild projections"),
        Picture("zones", "/zones", "The zone router: epochs, nodes, bytes between zones", dark=True),
        Picture("zones-forget", "/zones/-forget?node=zr-az1", "Form: forget a node of the zone router"),
        Picture("webhooks", "/webhooks", "All webhooks"),
        Picture("webhook", "/webhooks/ops", "One webhook and its deliveries"),
        Picture("webhook-new", "/webhooks/-new", "Form: add a webhook"),
        Picture("webhook-change", "/webhooks/ops/-change", "Form: change a webhook"),
        Picture("webhook-secret", "/webhooks/ops/-secret", "Form: rotate a webhook's secret"),
        Picture("webhook-test", "/webhooks/ops/-test", "Form: send a test event"),
        Picture("webhook-retry", "/webhooks/ops", "Retry of a delivery", acts=("Send again",)),
        Picture("webhook-delete", "/webhooks/ops/-delete", "Form: delete a webhook"),
        Picture("trace", f"/trace?stream={PROD[9:]}/orders&cluster=c1&partition=0&offset=41", "A record's copies"),
    ),
    "Tenants and streams": (
        Picture("tenants", "/tenants", "All tenants"),
        Picture("tenant-new", "/tenants/-new", "Form: create a tenant"),
        Picture("tenant", "/tenants/acme", "One tenant: instances and members"),
        Picture("instance-new", "/tenants/acme/-new", "Form: create an instance"),
        Picture("environment-new", "/tenants/acme/retail/-new", "Form: create an environment"),
        Picture("environment", PROD, "One environment: its streams and applications"),
        Picture("environment-change", f"{PROD}/-change", "Form: change an environment"),
        Picture("stream-new", f"{PROD}/-new", "Form: declare a stream", narrow=True),
        Picture("stream", f"{PROD}/orders?figures=1", "One stream on every cluster", dark=True),
        Picture("stream-messages", f"{PROD}/orders/-messages?limit=20#m-0-36191-headers",
                "The messages of a stream", narrow=True),
        Picture("stream-groups", f"{PROD}/orders/-groups", "The consumer groups of a stream"),
        Picture("stream-schema", f"{PROD}/orders/-schema", "The schema of a stream, and its last change"),
        Picture("stream-partitions", f"{PROD}/orders/-partitions?figures=1", "The partitions of a stream"),
        Picture("stream-settings", f"{PROD}/orders/-settings", "The settings of a stream, and of its topics"),
        Picture("stream-history", f"{PROD}/orders/-history", "What happened to a stream"),
        Picture("produce", f"{PROD}/orders/-messages/-produce", "Form: produce a message"),
        Picture("stream-change", f"{PROD}/orders/-change", "Form: change a stream"),
        Picture("stream-delete", f"{PROD}/orders/-delete", "Form: delete a stream"),
        Picture("member-new", "/tenants/acme/-members/-new", "Form: add a member to a tenant"),
        Picture("member-change", "/tenants/acme/-members/ada/-change", "Form: change a member"),
        Picture("member-remove", "/tenants/acme/-members/ada/-remove", "Form: remove a member"),
    ),
    "Applications": (
        Picture("application-new", f"{PROD}/-applications/-new", "Form: declare an application"),
        Picture("application", f"{PROD}/-applications/billing", "One application: streams, groups, access"),
        Picture("application-change", f"{PROD}/-applications/billing/-change", "Form: change an application"),
        Picture("application-delete", f"{PROD}/-applications/billing/-delete", "Form: delete an application"),
        Picture("credentials", f"{PROD}/-applications/billing/-credentials", "Form: issue a password"),
        Picture("credentials-revoke", f"{PROD}/-applications/billing/-revoke", "Form: revoke a password"),
        Picture("grants", "/tenants/acme/-grants", "Grants on a tenant's streams"),
        Picture("grant-decide", "/tenants/acme/-grants/-decide?"
                "application=acme/retail/prod/billing&stream=acme/retail/prod/orders&operation=consume"
                "&decision=withdraw", "Form: decide on a grant"),
    ),
    "Schemas and offsets": (
        Picture("schemas", "/schemas", "Subjects of the primary, and schema replication"),
        Picture("subject", "/schemas/c1/acme-retail-prod-orders-value", "One subject and its changes"),
        Picture("schema-new", "/schemas/-new", "Form: check and register a schema"),
        Picture("schema-level", "/schemas/-level?subject=acme-retail-prod-orders-value", "Form: schema level"),
        Picture("groups", "/groups", "Consumer groups on every cluster, and why they lag", narrow=True),
        Picture("group", GROUP, "One consumer group: members, partitions, where it would go on", narrow=True),
        Picture("offsets-reset", "/offsets/-reset", "Form: reset a group's offsets"),
        Picture("offsets", "/offsets", "Offsets of groups on every cluster", narrow=True),
        Picture("offsets-earlier", "/offsets?at=52", "Offsets of groups as of an earlier position"),
    ),
    "Switches": (
        Picture("switches", "/switches", "Active clusters and switches"),
        Picture("switch-plan", "/switches/plan?from=c1&to=c2", "Plan of a switch", True, True),
        Picture("switch", "/switches/s1", "A switch in progress: clients on hold", True, True),
        Picture("switch-abort", "/switches/s1/-abort", "Preview of an abort"),
        Picture("switch-force", "/switches/s1/-force", "Form: continue without clients that do not respond"),
        Picture("switch-report", "/switches/s0", "Report of a completed switch"),
    ),
    "Replicas": (
        Picture("placements", "/placements", "All placements"),
        Picture("placement-new", "/placements/-new", "Form: create a placement plan"),
        Picture("placement", "/placements/p1", "A plan: before and after, broker by broker", True, True),
        Picture("replication", "/clusters/c1/replication", "Leaders and in-sync replicas of a cluster"),
        Picture("replication-elect", "/clusters/c1/replication/-elect", "Form: elect preferred leaders"),
        Picture("replication-policy", "/clusters/c1/replication/-policy", "Form: set the placement policy"),
        Picture("what-if", "/clusters/c1/replication/what-if?broker=3", "Impact of a broker failure"),
    ),
    "The replication lab": (
        Picture("drills", "/drills", "Scenarios of the replication lab"),
        Picture("drill", f"{LOSS}?step=15", "A committed record is lost, step by step", narrow=True),
        Picture("drill-schedule", "/drills/schedule?faults=crash 1 1000 4500,cut 2-3 2000 800", "Custom faults"),
    ),
    "People": (
        Picture("account", "/account", "Your account"),
        Picture("audit", "/audit", "The audit log", narrow=True),
        Picture("users", "/users", "All users"),
        Picture("user", "/users/ada", "One user"),
        Picture("password", "/users/ada", "Form: set a password", narrow=True,
                acts=("Set password",)),
        Picture("token-new", "/users/ada", "Preview of a token before it is issued", acts=TOKEN),
        Picture("token", "/users/ada", "A new token, shown once", acts=(*TOKEN, "Issue token")),
        Picture("session-end", "/account", "Preview before a session is ended", acts=("End the session",)),
        Picture("login", "/login", "Login page", dark=True, narrow=True),
    ),
}  # fmt: skip
PICTURES = tuple(each for group in GALLERY.values() for each in group)
FILLED_PICTURES = tuple(each for each in PICTURES if each.estate == FILLED)
NO_PICTURE = {
    "/": "is /overview",
    "/static/{name:path}": "files",
    "/tree/live": "events for /tree",
    "/tree/-drawer": "the drawer of /tree, alone",
    "/find/-hits": "a block of the search window",
    "/find/-names": "suggestions for fields",
    "/timeline/-moment": "text for the slider",
    "/login/oidc": "redirects to the provider",
    "/login/oidc/callback": "redirects from the provider to the requested page",
    "/offsets/-export": "a file",
    "/groups/-export": "a file",
    "/charts/-export": "a file",
    "/tenants/-stream": "a list of environments",
    "/tenants/{tenant}/{instance}": "redirects to the tenant",
    "/tenants/{tenant}/{instance}/{environment}/-streams": "a block of the environment's page",
    "/tenants/{tenant}/{instance}/{environment}/{stream}/-partitions/-figures": "a block of the tab",
    "/tenants/{tenant}/{instance}/{environment}/{stream}/-figures": "a block of the stream's page",
    "/tenants/{tenant}/{instance}/{environment}/{stream}/-messages/-export": "a file",
    "/tenants/{tenant}/{instance}/{environment}/{stream}/-messages/-produced": "a message, which needs brokers",
}
"""Addresses that are no pages, with the reason; those that end with -live or -applied are none either."""


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
        "<!-- Written by `make pictures` from tests/support/console/gallery.py. -->",
        "",
        "The [console](console.md)'s pages, on a control plane with three clusters and two tenants; some, on an",
        "empty one or on one with 50 clusters. What is on them is made up by the test that takes the pictures:",
        "the clusters are not there.",
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
