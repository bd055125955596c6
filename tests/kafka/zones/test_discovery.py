"""Applications only configure their zone: discovery directs them to its node, and they stay there."""

from __future__ import annotations

from typing import Any

import pytest
from treeline_client import SwitchingConsumer, SwitchingProducer

from tests.eventually import eventually
from tests.kafka.zones.control import Control
from tests.support.console.consoles import TOKEN, Console
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import CLUSTER

pytestmark = pytest.mark.parametrize("router", ["passed"], indirect=True)

ENVIRONMENT = "/tenants/acme/instances/retail/environments/prod"
AWAY = "127.0.0.1:9"


@pytest.fixture
def conf(control: Control, tmp_path: Any) -> dict[str, Any]:
    """Return the configuration of an application in az2, whose environment is on the router's cluster."""
    url = f"http://127.0.0.1:{control.port}"
    rest = Console(url, TOKEN).rest
    for name, servers in ((CLUSTER, control.router.brokers.servers), ("west", AWAY)):
        formats = {
            f"{kind}_format": f"{{tenant}}-{{instance}}-{{environment}}-{{{kind}}}" for kind in ("topic", "group")
        }
        formats["subject_format"] = formats["topic_format"]
        body = {"name": name, "bootstrap_servers": servers, "zone": "az1", "accept_offline": True, **formats}
        rest.ok("POST", "/clusters", body)
    rest.ok("PUT", "/trees/main", {"level": 1, "children": [{"cluster": CLUSTER}, {"cluster": "west"}]})
    rest.ok("POST", "/tenants", {"name": "acme"})
    rest.ok("POST", "/tenants/acme/instances", {"name": "retail", "tree": "main"})
    rest.ok("POST", "/tenants/acme/instances/retail/environments", {"name": "prod"})
    rest.ok("POST", "/users", {"name": "billing", "role": "tenant", "tenants": {"acme": "member"}})
    return {
        "treeline.url": url,
        "treeline.token": rest.ok("POST", "/users/billing/tokens", {"name": "t"})["secret"],
        "treeline.tenant": "acme",
        "treeline.instance": "retail",
        "treeline.environment": "prod",
        "treeline.zone": "az2",
        "treeline.cache.directory": str(tmp_path),
    }


def test_an_application_that_says_its_zone_stays_in_it(control: Control, conf: dict[str, Any]) -> None:
    control.router.brokers.create("acme-retail-prod-orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    node = control.router.nodes["az2"]
    eventually(lambda: len(control.living()) == 3, "all nodes have reported")
    zoneless = {zone: each.samples("zoneless_total") for zone, each in control.router.nodes.items()}
    with SwitchingProducer(conf) as producer:
        for number in range(300):
            producer.produce("orders", f"{number}", partition=number % 3)
        assert producer.flush(DEADLINE_SECONDS) == 0
        told = producer.list_topics(timeout=DEADLINE_SECONDS).brokers.values()
        assert {broker.port for broker in told} == set(node.brokers.values())
    read: set[str] = set()
    with SwitchingConsumer({**conf, "group.id": "billing", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["orders"])

        def all_read() -> bool:
            read.update(message.value().decode() for message in consumer.consume(100, 0.5) if not message.error())
            return len(read) == 300

        eventually(all_read, "all is read")
    assert zoneless == {zone: each.samples("zoneless_total") for zone, each in control.router.nodes.items()}
    payload = {plane: set() for plane in ("produce", "fetch")}
    for each in control.get("/zones")["traffic"]:
        if each["plane"] in payload and each["from_zone"] != each["to_zone"]:
            payload[each["plane"]].add((each["from_zone"], each["to_zone"]))
    assert payload == {"produce": set(), "fetch": set()}
