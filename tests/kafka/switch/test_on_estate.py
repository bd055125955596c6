"""Switches as an operator makes them, over REST and on the command line, on the shared estate.

Each test moves the clients of a tenant of its own, from the primary to a cluster two hops away.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.eventually import eventually
from tests.faults.runs import Place
from tests.faults.step import running_batch
from tests.support.api.rest_client import RestClient
from tests.support.estate.applications import STREAM, Applications, ByHand, Tenant
from tests.support.estate.groups import Groups, numbered, of_stream
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import produce

OLD, NEW = "cluster-1", "cluster-5"


@pytest.fixture(scope="module")
def made(estate: RunningEstate, rest: RestClient, servers: dict[str, str]) -> Iterator[list[Tenant]]:
    """Create unused tenants, all at once, since workers create the topics of all of them in one round."""

    def make(_: int) -> Tenant:
        name = f"t{secrets.token_hex(3)}"
        return Tenant(name=name, ask=rest.ok, url=estate.url, token=estate.token, servers=servers).make("exact")

    with ThreadPoolExecutor(4) as threads:
        tenants = list(threads.map(make, range(9)))
    for each in tenants:
        eventually(each.is_there, f"the stream of {each.name} is on all clusters", 0.2)
    unused = list(tenants)
    yield unused
    for each in tenants:
        each.delete()


@pytest.fixture
def tenant(made: list[Tenant]) -> Tenant:
    return made.pop()


@pytest.fixture
def groups(tenant: Tenant, rest: RestClient, servers: dict[str, str]) -> Groups:
    """Create a group of the tenant that does not use discovery."""
    return of_stream(rest, servers, (tenant.name, "shop", "prod", STREAM))


@pytest.fixture
def neighbour(made: list[Tenant]) -> Tenant:
    return made[0]


@pytest.fixture
def treeline(estate: RunningEstate) -> Callable[..., Any]:
    """Return a function that runs `treeline switch ...` and returns its JSON."""

    def run(*words: str, code: int = 0) -> Any:
        ended = estate.treeline("switch", *words, "--json")
        assert ended.returncode == code, ended.stdout + ended.stderr
        return json.loads(ended.stdout) if ended.stdout else ended.stderr

    return run


def words_of(tenant: Tenant) -> tuple[str, ...]:
    return ("--from", OLD, "--to", NEW, "--tenant", tenant.name)


def problem(tenant: Tenant, path: str, body: Any, **headers: str) -> tuple[int, str]:
    """Return (status, slug) of a refusal."""
    answer = RestClient(tenant.url, tenant.token)("POST", path, body, **headers)
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def accepted(tenant: Tenant, path: str, body: Any, **headers: str) -> Any:
    """Return the JSON of a switch that is accepted as soon as nothing on the shared estate stands against it."""
    rest = RestClient(tenant.url, tenant.token)

    def answer() -> Any:
        told = rest("POST", path, body, **headers)
        if told.status_code == 202:
            return told.json()
        assert (told.status_code, told.json()["type"].rpartition(":")[2]) == (422, "switch-blocked"), told.text
        # On a busy machine a cluster may not respond to the plan in time; the plan then names it.
        logging.getLogger(__name__).warning("refused: %s", told.json()["detail"])
        return None

    return eventually(answer, f"{path} is accepted", 0.5)


@pytest.mark.nightly
def test_there_and_back_on_the_command_line(tenant: Tenant, neighbour: Tenant, treeline: Callable[..., Any]):
    with Applications(tenant) as applications, ByHand(neighbour, "bystander") as bystander:
        there = treeline("start", *words_of(tenant), "--yes")
        assert (there["state"], there["from"], there["to"]) == ("completed", OLD, NEW)
        assert tenant.active() == (NEW, 2)
        report = there["report"]
        assert (report["not_drained_records"], report["re_read_bound"], report["stray_records"]) == (0, 0, 0)
        assert (report["groups"], report["offsets"], report["refused_groups"]) == (2, 4, [])
        assert (report["clients_moved"], report["late_clients"], report["groups_left_behind"]) == (4, [], [])
        applications.all_read()
        back = treeline("reverse", there["id"], "--yes")
        assert (back["state"], back["from"], back["to"], back["reverses"]) == ("completed", NEW, OLD, there["id"])
        assert (back["report"]["not_drained_records"], back["report"]["re_read_bound"]) == (0, 0)
        assert tenant.active() == (OLD, 3)
        applications.all_read()
        told = bystander.tell()
        assert (told["cluster"], told["generation"], told["phase"]) == (OLD, 1, "active"), "nobody else is moved"
        applications.finish(OLD, NEW)
    assert applications.histories.stood == {1: {OLD}, 2: {NEW}, 3: {OLD}}
    assert treeline("watch", there["id"])["state"] == "completed"
    # A repeat without an environment to move: the operator typed it twice.
    assert "nothing-to-move" in treeline("reverse", there["id"], "--yes", code=1)


@pytest.mark.nightly
def test_an_abort_while_a_client_does_not_hold(tenant: Tenant, treeline: Callable[..., Any]):
    with Applications(tenant) as applications, ByHand(tenant, "stubborn") as stubborn:
        with ByHand(tenant, "killed") as killed:
            # It never reports again, and may still write.
            killed.be_silent()
        switch = treeline("start", *words_of(tenant), "--yes", "--no-watch")["id"]
        row = tenant.in_phase(switch, "holding", killed.name, stubborn.name)
        named = {each["client_id"]: each for each in row["now"]["waiting_for"]}
        assert named[killed.name]["silent_ms"] > 0 and named[stubborn.name]["phase"] == "active"
        assert row["now"]["clients"] == 6
        body = tenant.wish(OLD, NEW)
        assert problem(tenant, "/switches", {**body, "plan_digest": "x"}) == (409, "state-conflict")
        assert problem(tenant, f"/switches/{switch}/reverse", {}) == (409, "state-conflict")
        gone = treeline("abort", switch, "--reason", "not today")
        assert (gone["state"], gone["reason"]) == ("aborted", "not today")
        assert tenant.active() == (OLD, 1)
        told = stubborn.tell()
        assert (told["phase"], told["switch"], told["next"]) == ("active", None, None)
        applications.all_read()
        assert treeline("watch", switch, code=1)["state"] == "aborted"
        applications.finish(OLD)
    assert applications.histories.stood == {1: {OLD}} and applications.switches == [0, 0, 0, 0]


def test_a_client_that_is_forced_and_one_that_comes_late(
    tenant: Tenant, groups: Groups, treeline: Callable[..., Any]
):
    """Later writes of the forced client are counted and reach every cluster once.

    What a group reads on the old cluster after its offsets were translated is reported, since it is re-read.
    """
    with Applications(tenant) as applications, ByHand(tenant, "forced") as forced:
        groups.commit(OLD, 1)
        switch = tenant.start(OLD, NEW)["id"]
        tenant.in_phase(switch, "holding", forced.name)
        assert treeline("force", switch, "--client", forced.name)["forced"] == [forced.name]
        tenant.until(switch, "clients are moved", lambda row: row["state"] == "verifying")
        assert forced.tell()["cluster"] == NEW
        strays = [f"stray:{number}" for number in range(3)]
        produce(tenant.servers[OLD], tenant.topic(OLD), [{"key": one, "value": one} for one in strays])
        groups.commit(OLD, 4)
        # This client has not reported before: it has sent records, holds now, and asks whether they have arrived.
        with ByHand(tenant, "late") as late:
            eventually(lambda: late.tell(phase="held", generation=1)["arrived"], "it is told to go on", 0.2)
            # A client that knows of the move has moved once it is there.
            forced.tell(generation=2, still_in=1)
            late.tell(phase="active", generation=2)
            named = f"only {forced.name} is looked for"
            tenant.until(switch, named, lambda row: row["now"].get("late") == [forced.name])
        forced.tell(generation=2)
        row = tenant.over(switch)
        assert row["state"] == "completed" and row["forced"] == [forced.name]
        assert row["report"]["forced_clients"] == [forced.name]
        # An upper bound: records that arrive on the old cluster by now are in between.
        assert row["report"]["stray_records"] >= len(strays)
        (read_on,) = row["report"]["read_on"]
        place = (f"{tenant.name}/shop/prod/{groups.group}", f"{tenant.name}/shop/prod/{STREAM}", 0)
        assert (read_on["group"], read_on["stream"], read_on["partition"]) == place
        assert row["report"]["re_read_bound"] == read_on["records"] >= 3
        for one in strays:
            applications.acknowledged(one)
        applications.finish(OLD, NEW)


def test_a_commit_on_the_old_cluster_after_the_move_moves_no_group_back(tenant: Tenant, groups: Groups):
    groups.produce(OLD, numbered(40))
    groups.wait_for(40)
    groups.commit(OLD, groups.offset_of(OLD, "r0030"))
    assert tenant.over(tenant.start(OLD, NEW)["id"])["report"]["groups"] == 1
    assert groups.next_value(NEW) == "r0030"
    # It resumes there by itself, and one of its consumers was left behind.
    groups.commit(NEW, groups.offset_of(NEW, "r0035"))
    left_behind = groups.offset_of(OLD, "r0038")
    groups.commit(OLD, left_behind)
    # A later commit is handled later.
    next_one = groups.another()
    next_one.commit(OLD, left_behind)
    next_one.until_applied(OLD, left_behind)
    assert groups.next_value(NEW) == "r0035"


def test_what_stands_against_a_switch_is_refused(tenant: Tenant, groups: Groups):
    """Refused are a group that reads on the target already, and a plan that has changed."""
    body = tenant.wish(OLD, NEW)
    consumer = groups.consumer(NEW)
    consumer.subscribe([groups.topics[NEW]])
    try:
        eventually(lambda: (consumer.poll(0.2), consumer.assignment())[1], "it reads there")
        plan = tenant.ask("POST", "/switches/plan", body)
        assert [each["slug"] for each in plan["blockers"]] == ["group-active-on-target"]
        digest = {"plan_digest": plan["digest"]}
        assert problem(tenant, "/switches", {**body, **digest}) == (422, "switch-blocked")
    finally:
        consumer.close()
    assert problem(tenant, "/switches", {**body, **digest}) == (409, "plan-stale")
    assert problem(tenant, "/switches", body)[0] == 422
    rest = RestClient(tenant.url, tenant.token)
    fresh = {**body, "plan_digest": rest.ok("POST", "/switches/plan", body)["digest"]}
    accepted(tenant, "/switches?dry_run=true", fresh)
    assert tenant.name not in json.dumps(rest.ok("GET", "/switches")), "nothing has begun"
    # While an unresponsive client delays the switch, no other may move the tenant; a repeat is the same switch.
    with ByHand(tenant, "stubborn") as stubborn:
        first = accepted(tenant, "/switches", fresh, Idempotency_Key=tenant.name)
        again = accepted(tenant, "/switches", fresh, Idempotency_Key=tenant.name)
        assert again == first
        switch = first["id"]
        tenant.in_phase(switch, "holding", stubborn.name)
        assert problem(tenant, "/switches", fresh) == (409, "state-conflict")
        stubborn.tell(phase="held")
        assert tenant.until(switch, "it moves", lambda row: row["state"] == "verifying")
        stubborn.tell(phase="active", generation=2)
        assert tenant.over(switch)["state"] == "completed"
    rows = [
        row
        for row in rest.ok("GET", "/switches")["items"]
        if row["environments"] == [{**tenant.place, "zone": None}]
    ]
    assert [row["id"] for row in rows] == [switch]


def test_a_zone_is_moved_and_what_others_do_there_is_no_trouble(tenant: Tenant, groups: Groups):
    """Producers and groups of the other zone continue there; a group of both zones is reported."""
    idle = groups.another()
    for each in (groups, idle):
        each.commit(OLD, 0)
    with (
        ByHand(tenant, "near", zone="az1") as near,
        ByHand(tenant, "far", zone="az2") as far,
        closing(groups.consumer(OLD)) as consumer,
    ):
        consumer.subscribe([groups.topics[OLD]])
        eventually(lambda: (consumer.poll(0.2), consumer.assignment())[1], "it reads there")
        switch = tenant.start(OLD, NEW, zone="az1")["id"]
        tenant.in_phase(switch, "holding", near.name)
        assert far.tell()["phase"] == "active"
        near.tell(phase="held")
        tenant.until(switch, "it moves", lambda row: row["state"] == "verifying")
        groups.produce(OLD, numbered(3))
        assert near.tell(phase="held", generation=1)["arrived"], "it had held since before the drain"
        near.tell(phase="active", generation=2)
        row = tenant.over(switch)
        assert (near.answer["cluster"], far.tell()["cluster"]) == (NEW, OLD)
    report = row["report"]
    assert (row["state"], report["late_clients"], report["clients_moved"]) == ("completed", [], 1), row
    assert (report["stray_records"], report["groups_left_behind"], report["groups"]) == (None, [], 1), report
    assert [each["group"] for each in report["refused_groups"]] == [f"{tenant.name}/shop/prod/{groups.group}"]


@pytest.mark.parametrize(
    "ends", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["that ends", "that does not"]
)
def test_a_batch_that_runs_is_waited_for_before_clients_are_held(
    tenant: Tenant, estate: RunningEstate, ends: bool
):
    """The switch waits for a while; then the report of the phase says that the batch ran beside it."""
    with ByHand(tenant, "stubborn") as stubborn, ExitStack() as batch:
        batch.enter_context(running_batch(Place(estate)))
        switch = tenant.start(OLD, NEW)["id"]
        tenant.about_to_hold(switch)
        if ends:
            batch.close()
        row = tenant.in_phase(switch, "holding", stubborn.name)
        stubborn.tell(phase="held")
        tenant.until(switch, "it moves", lambda row: row["state"] == "verifying")
        stubborn.tell(phase="active", generation=2)
        assert tenant.over(switch)["state"] == "completed"
    assert row["phases"][0]["measured"]["beside_a_batch"] is not ends


@pytest.mark.nightly
def test_the_word_of_a_client_that_was_killed_while_it_held_runs_out(tenant: Tenant):
    """The client is listed again, and the others keep holding; nobody moves until the operator forces it."""
    with ByHand(tenant, "stubborn") as stubborn, ByHand(tenant, "killed") as killed:
        switch = tenant.start(OLD, NEW)["id"]
        tenant.in_phase(switch, "holding", killed.name, stubborn.name)
        killed.tell(phase="held")
        killed.be_silent()
        tenant.in_phase(switch, "holding", stubborn.name)
        tenant.in_phase(switch, "holding", killed.name, stubborn.name)
        stubborn.tell(phase="held")
        tenant.in_phase(switch, "holding", killed.name)
        tenant.ask("POST", f"/switches/{switch}/force", None)
        tenant.until(switch, "it moves", lambda row: row["state"] == "verifying")
        stubborn.tell(phase="active", generation=2)
        row = tenant.over(switch)
        assert row["report"]["forced_clients"] == row["report"]["late_clients"] == [killed.name]
