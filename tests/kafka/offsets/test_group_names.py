"""Groups whose names have blanks, slashes, umlauts and other characters are translated like all others."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from treeline_client import SwitchingConsumer

from backend.kafka.groups.group_members import GroupAdmin
from tests.eventually import eventually
from tests.support.estate.groups import Groups, Made, numbered, path_of
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import DEADLINE_SECONDS

NAMES = ["Büro #1/ost", "a b", "50% of = it?&", "北" * 80]


@pytest.fixture(scope="module")
def named(make_groups: Made) -> list[Groups]:
    """Return four groups that committed on cluster-1 and were applied on all other clusters."""
    first = make_groups("exact")
    first.produce("cluster-1", numbered(30))
    first.wait_for(30)
    groups = [first.another(name) for name in NAMES]
    at = first.offset_of("cluster-1", "r0020")
    for each in groups:
        each.commit("cluster-1", at)
    for each in groups:
        each.until_applied("cluster-1", at)
    return groups


def test_each_goes_on_on_every_cluster_under_its_name_there(named: list[Groups]):
    for each in named:
        for cluster in each.servers:
            assert each.next_value(cluster) == "r0020"
            assert each.name(cluster).count(each.group) == 1


def test_rest_and_commands_find_each_by_its_name(estate: RunningEstate, named: list[Groups]):
    for each in named:
        (item,) = each.rest.ok("GET", f"/offsets?cluster=cluster-1&group={quote(each.group, safe='')}")["items"]
        assert item["group"] == each.group and len(item["elsewhere"]) == len(each.servers) - 1
        run = estate.treeline("get", "offsets", each.group, "--json")
        assert json.loads(run.stdout)["items"] == [item], run.stderr
        reset = ("offsets", "reset", each.stream, each.group, "--cluster", "cluster-2", "--to", "earliest")
        tried = estate.treeline(*reset, "--dry-run", "--json")
        assert json.loads(tried.stdout)["group"] == each.group, tried.stderr


def test_an_operators_reset_sets_one(named: list[Groups]):
    each = named[0].another(NAMES[0] + " again")
    body = {"cluster": "cluster-3", "stream": each.stream, "group": each.group, "to": "12"}
    done = each.rest.ok("POST", "/offsets/reset", body)
    assert (
        done["technical_group"] == each.name("cluster-3") and each.stands("cluster-3")[0] == done["offsets"]["0"]
    )
    each.until_applied("cluster-3", done["offsets"]["0"])


def test_the_plan_of_a_switch_names_each(named: list[Groups]):
    tenant, instance, environment, _ = named[0].place
    wish = {
        "from": "cluster-1",
        "to": "cluster-2",
        "tenant": tenant,
        "instance": instance,
        "environment": environment,
    }
    plan = named[0].rest.ok("POST", "/switches/plan", wish)
    told = {row["group"] for item in plan["items"] for row in item["groups"] if item["stream"] in named[0].stream}
    assert set(NAMES) <= told
    ours = [warning for warning in plan.get("warnings", []) if warning["slug"] == "group-not-followed"]
    assert not any(name in json.dumps(ours, ensure_ascii=False) for name in NAMES)


def test_an_application_may_be_granted_one(named: list[Groups]):
    home = path_of(named[0].place).rpartition("/streams/")[0]
    name = "names-" + named[0].place[3]
    shown = named[0].rest.ok("POST", f"{home}/applications?dry_run=true", {"name": name, "groups": NAMES})
    assert shown["groups"] == sorted(NAMES)
    refused = named[0].rest("POST", f"{home}/applications?dry_run=true", {"name": name, "groups": ["a\tb"]})
    assert refused.status_code == 422 and "U+0009 at position 2" in refused.json()["detail"]


def test_a_client_of_the_package_reads_as_one(estate: RunningEstate, named: list[Groups]):
    tenant, instance, environment, stream = named[1].place
    each = named[1].another("Kunden ä/ö")
    conf = {
        "treeline.url": estate.url,
        "treeline.token": estate.token,
        "treeline.tenant": tenant,
        "treeline.instance": instance,
        "treeline.environment": environment,
        "treeline.cache.directory": "",
        "group.id": each.group,
        "auto.offset.reset": "earliest",
    }
    consumer = SwitchingConsumer(conf)
    consumer.subscribe([stream])
    eventually(lambda: consumer.poll(0.5), "it reads")
    active = consumer.cluster()
    here = GroupAdmin.open({"bootstrap.servers": each.servers[active]}, DEADLINE_SECONDS)
    eventually(lambda: each.name(active) in here.names(), "the cluster knows the group by its name")
    consumer.close()


def test_a_name_that_cannot_be_seen_is_listed_with_its_character(named: list[Groups]):
    odd = named[0].another("a\u202eb")
    odd.commit("cluster-1", 3)

    def listed() -> str | None:
        rows = odd.rest.ok("GET", "/offsets/not-followed?limit=1000")["items"]
        return next((row["reason"] for row in rows if "U+202E" in row["reason"]), None)

    assert "at position 2" in str(eventually(listed, "it is listed"))
