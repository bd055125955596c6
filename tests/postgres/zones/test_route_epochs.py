"""Route epochs and reports over REST, and two workers that begin epochs from them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from backend.dispatch import Dispatcher
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.projections.route_epochs import route_epochs
from backend.queries.base.events import newest_events, newest_position
from backend.queries.zones import zone_router
from tests.support.api.rest import Rest, problem, rest_settings
from tests.support.api.shell import shell_of
from tests.support.database.postgres import Database
from tests.support.zones.zone_reports import pass_time, report
from workers import context
from workers.route_epochs import RouteEpochTicker

EPOCHS, REPORTS = "/route-epochs", "/route-epochs/reports"
SILENT = 31.0


@dataclass
class Ticking:
    """A control plane, and two workers of it that begin epochs."""

    rest: Rest
    database: Database
    workers: tuple[RouteEpochTicker, RouteEpochTicker]

    def tell(self, zone: str, main_of: int, epoch: int | None = None, **more: Any) -> dict[str, Any]:
        answer = self.rest("POST", REPORTS, report(zone, main_of, epoch, **more))
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def pass_time(self, seconds: float) -> None:
        """Backdate the start of the newest epoch."""
        with self.database.engine.begin() as connection:
            earlier = route_epochs.c.begun_at - sa.text(f"interval '{seconds} seconds'")
            connection.execute(sa.update(route_epochs).values(begun_at=earlier))
        for worker in self.workers:
            worker._not_before = 0

    def tick(self, times: int = 1) -> list[int]:
        """Begin so many epochs; return current, fenced and committed."""
        for _ in range(times):
            self.pass_time(10)
            for worker in self.workers * 2:
                worker.tick()
        return self.epochs()

    def epochs(self, query: str = "") -> list[int]:
        found = self.rest("GET", f"{EPOCHS}{query}").json()
        return [found[name] for name in ("current", "fenced", "committed")]


@pytest.fixture
def ticking(rest: Rest, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ticking]:
    dispatcher = Dispatcher(database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)
    settings = rest_settings(database.url)
    one, other = (RouteEpochTicker(database.engine, settings) for _ in range(2))
    yield Ticking(rest, database, (one, other))


def test_without_a_router_there_is_nothing_and_nothing_is_written(ticking: Ticking) -> None:
    assert ticking.rest("GET", EPOCHS).json() == {"current": 0, "fenced": 0, "committed": 0, "nodes": []}
    assert ticking.tick(3) == [0, 0, 0] and ticking.rest.head() == 0


def test_epochs_rise_are_fenced_and_committed_as_mains_report(ticking: Ticking) -> None:
    assert ticking.tell("az1", 1, 0) == {"current": 0, "fenced": 0, "committed": 0, "dead": []}
    assert ticking.tick() == [1, 0, 0]
    assert ticking.tick(3) == [4, 2, 0]
    ticking.tell("az2", 2, 1)
    assert ticking.tell("az1", 1, 2)["fenced"] == 2
    assert ticking.tick() == [5, 3, 1]
    before = ticking.rest.head()
    ticking.tell("az2", 2, 3)
    ticking.tell("az1", 1, 3)
    assert ticking.tick() == [6, 4, 3]
    assert ticking.epochs(f"?at={before}") == [5, 3, 1]
    assert ticking.rest("GET", f"{EPOCHS}?at={before}").json()["nodes"] is None
    names = [each["name"] for each in ticking.rest("GET", "/events?limit=100").json()["items"]]
    assert names == ["RouteEpochBegun"] * 5 + ["RouteEpochCommitted", "RouteEpochBegun", "RouteEpochCommitted"]
    assert ticking.rest("GET", "/events/verification").json()["ok"] is True


def test_an_epoch_lasts_ten_seconds_whoever_begins_the_next(ticking: Ticking) -> None:
    ticking.tell("az1", 1)
    ticking.tick()
    ticking.pass_time(9)
    for worker in ticking.workers:
        worker.tick()
    assert ticking.epochs() == [1, 0, 0]
    ticking.pass_time(2)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda worker: worker.tick(), ticking.workers))
    assert ticking.epochs() == [2, 0, 0]


def test_an_epoch_of_the_future_is_not_waited_for(ticking: Ticking) -> None:
    ticking.tell("az1", 1)
    ticking.tick()
    ticking.pass_time(-3600)
    ticking.workers[0].tick()
    assert ticking.epochs() == [2, 0, 0]
    ticking.workers[0].tick()
    assert ticking.epochs() == [2, 0, 0], "but nor does one follow the other at once"


def test_where_no_node_reports_no_epoch_begins(ticking: Ticking) -> None:
    ticking.tell("az1", 1)
    assert ticking.tick() == [1, 0, 0]
    pass_time(ticking.database, 61)
    assert ticking.tick(3) == [1, 0, 0]
    ticking.tell("az1", 1)
    assert ticking.tick() == [2, 0, 0]


def nodes(ticking: Ticking) -> dict[str, tuple[int | None, bool, int]]:
    told = ticking.rest("GET", EPOCHS).json()["nodes"]
    return {each["node"]: (each["reported_epoch"], each["fenced"], each["open_streams"]) for each in told}


def test_a_node_that_is_silent_is_dead_and_waited_for_only_with_open_streams(ticking: Ticking) -> None:
    ticking.tell("az1", 1, 2)
    ticking.tell("az2", 2, 1, open_streams=4)
    ticking.tick(5)
    pass_time(ticking.database, 0, since=600)
    pass_time(ticking.database, SILENT, "zr-az2")
    assert ticking.tell("az1", 1, 3)["dead"] == ["zr-az2"]
    assert nodes(ticking) == {"zr-az1": (3, False, 0), "zr-az2": (1, True, 4)}
    assert ticking.tick() == [6, 4, 1]
    assert ticking.rest("GET", "/zones").json()["epochs"]["held_back_by"] == ["zr-az2"]
    # It has come back, done with them, and gone.
    assert ticking.tell("az2", 2, 1)["dead"] == []
    pass_time(ticking.database, SILENT, "zr-az2")
    assert ticking.tick() == [7, 5, 3]


def test_a_node_that_does_not_come_back_is_forgotten_by_hand(ticking: Ticking) -> None:
    ticking.tell("az1", 1, 5)
    ticking.tell("az2", 2, 1, open_streams=4)
    ticking.tick(4)
    one = f"{REPORTS}/zr-az2"
    problem(ticking.rest("DELETE", one), 409, "state-conflict")
    pass_time(ticking.database, 0, since=600)
    pass_time(ticking.database, SILENT, "zr-az2")
    assert ticking.rest("DELETE", f"{one}?dry_run=true").status_code == 204 and "zr-az2" in nodes(ticking)
    assert ticking.rest("DELETE", one).status_code == 204 and "zr-az2" not in nodes(ticking)
    for name in ("zr-az2", "%00", "NO%20NAME"):
        problem(ticking.rest("DELETE", f"{REPORTS}/{name}"), 404, "not-found")
    assert ticking.tick() == [5, 3, 3]


def test_nodes_that_nobody_waits_for_are_forgotten_after_a_day(ticking: Ticking) -> None:
    for zone, broker in (("az1", 1), ("az2", 2), ("az3", 3)):
        ticking.tell(zone, broker, 0, open_streams=int(zone == "az3"))
    pass_time(ticking.database, 24 * 3600 + 1, "zr-az2", "zr-az3")
    ticking.workers[0].tick()
    assert set(nodes(ticking)) == {"zr-az1", "zr-az3"}


def test_nodes_are_bounded(ticking: Ticking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone_router, "MOST_NODES", 2)
    for broker, zone in enumerate(("az1", "az2", "az1"), start=1):
        ticking.tell(zone, broker)
    problem(ticking.rest("POST", REPORTS, report("az3", 3)), 409, "state-conflict")


def test_a_dry_run_keeps_nothing(ticking: Ticking) -> None:
    answer = ticking.rest("POST", f"{REPORTS}?dry_run=true", report("az1", 1))
    assert answer.status_code == 200 and nodes(ticking) == {}


MAIN = report("az1", 1, 4)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"node": ""}, "/node"),
        ({"node": "n" * 201}, "/node"),
        ({"node": "a\x00"}, "/node"),
        ({"serves": []}, "/serves"),
        ({"serves": ["leader"]}, "/serves/0"),
        ({"cluster": None}, ""),
        ({"broker": None}, ""),
        ({"serves": ["proxy"]}, ""),
        ({"serves": ["proxy"], "cluster": None, "broker": None}, ""),
        ({"reported_epoch": -1}, "/reported_epoch"),
        ({"reported_epoch": "4"}, "/reported_epoch"),
        ({"reported_epoch": 2**60}, "/reported_epoch"),
        ({"open_streams": 2**31}, "/open_streams"),
        ({"open_streams": True}, "/open_streams"),
        ({"stands_for": {"c1": [-1]}}, "/stands_for/c1/0"),
        ({"stands_for": {"c1": list(range(10_001))}}, "/stands_for/c1"),
        ({"traffic": [{"plane": "smoke", "from_zone": "a", "to_zone": "a", "bytes": 1}]}, "/traffic/0/plane"),
        ({"traffic": [{"plane": "fetch", "from_zone": "a", "to_zone": "a"}]}, "/traffic/0/bytes"),
        ({"cold_reads": {"reads": -1}}, "/cold_reads/reads"),
        ({"cache": {"bytes": 1.5}}, "/cache/bytes"),
        ({"surprise": 1}, "/surprise"),
    ],
)
def test_a_report_that_cannot_be_meant_says_where(empty_rest: Rest, change: dict[str, Any], pointer: str) -> None:
    told = problem(empty_rest("POST", REPORTS, {**MAIN, **change}), 422, "invalid")
    assert [each["pointer"] for each in told["errors"]] == [pointer]
    assert empty_rest("GET", EPOCHS).json()["nodes"] == []


def test_a_year_of_epochs_wakes_nobody_and_hides_no_other_event(ticking: Ticking) -> None:
    ticking.rest.add_clusters("c1")
    before = ticking.rest.head()
    ticking.tell("az1", 1)
    ticking.tick(5)
    with ticking.database.engine.connect() as connection:
        assert newest_position(connection, but=frozenset({"none"})) == before
        names = [each.name for each in newest_events(connection, ticking.rest.head(), 10)]
        assert names == ["ClusterWentOffline", "ClusterAdded"]
        connection.execute(sa.text("SET enable_seqscan = off"))
        plan = connection.execute(
            sa.text(
                "EXPLAIN SELECT position FROM events WHERE stream <> 'route-epochs' AND name NOT IN ('none') "
                "ORDER BY position DESC LIMIT 1"
            )
        )
        assert any("events_but_route_epochs" in line for (line,) in plan)


def test_the_router_is_told_at_one_look(ticking: Ticking) -> None:
    crossing = {"plane": "fetch", "from_zone": "az2", "to_zone": "az1", "bytes": 50}
    route = {"plane": "route", "from_zone": "az1", "to_zone": "az2", "bytes": 7}
    unknown = {"plane": "produce", "from_zone": "unknown", "to_zone": "az1", "bytes": 9}
    ticking.tell("az1", 1, 1, traffic=[crossing, route], stands_for={"c1": [1, 2]})
    ticking.tell("az2", 2, 1, traffic=[crossing, unknown])
    alone = {**report("az3", 3), "node": "only-proxy", "serves": ["proxy"], "cluster": None, "broker": None}
    assert ticking.rest("POST", REPORTS, {**alone, "traffic": []}).status_code == 200
    ticking.tick(4)
    found = ticking.rest("GET", "/zones").json()
    assert found["zones"] == ["az1", "az2", "az3"]
    assert [each["node"] for each in found["nodes"]] == ["only-proxy", "zr-az1", "zr-az2"]
    assert {each["broker"]: (each["zone"], each["main"]) for each in found["brokers"]} == {
        1: ("az1", "zr-az1"),
        2: ("az2", "zr-az2"),
        3: (None, None),
    }
    assert found["brokers"][2]["proxies"] == {"az3": ["only-proxy"], "az2": ["zr-az2"]}
    assert {**crossing, "bytes": 100} in found["traffic"] and route in found["traffic"]
    assert found["cross_zone_payload_bytes"] == 100, (
        "neither what mains are told, nor what nobody knows the zone of"
    )
    assert found["cold_reads"] == {"reads": 9, "bytes": 3 * 4711}
    epochs = found["epochs"]
    assert (epochs["current"], epochs["committed"], epochs["held_back_by"]) == (4, 1, [])
    assert epochs["current_age_seconds"] < epochs["committed_age_seconds"] + 600


def test_what_a_node_has_counted_is_not_forgotten_when_it_begins_anew(ticking: Ticking) -> None:
    crossing = {"plane": "fetch", "from_zone": "az2", "to_zone": "az1", "bytes": 5000}
    within = {**crossing, "from_zone": "az1"}
    few, many = {"reads": 1, "bytes": 10}, {"reads": 7, "bytes": 4711}
    for traffic, cold in (
        ([{**within, "bytes": 10}], few),
        ([within, crossing], many),
        ([], {"reads": 0, "bytes": 0}),
        ([{**within, "bytes": 30}], few),
        ([], {"reads": 0, "bytes": 0}),
        ([{**within, "bytes": 40}], few),
    ):
        ticking.tell("az1", 1, 1, traffic=traffic, cold_reads=cold)
    found = ticking.rest("GET", "/zones").json()
    assert found["cross_zone_payload_bytes"] == 5000
    assert {**within, "bytes": 5000 + 30 + 40} in found["traffic"]
    assert found["cold_reads"] == {"reads": 9, "bytes": 4731}


def test_the_command_shows_nodes_epochs_and_bytes_and_forgets_a_node(ticking: Ticking, tmp_path: Path) -> None:
    crossing = {"plane": "fetch", "from_zone": "az2", "to_zone": "az1", "bytes": 5000}
    with shell_of(ticking.database.url, tmp_path) as shell:
        assert "`zones: true`" in shell("zones").stderr
        ticking.tell("az1", 1, 2, traffic=[crossing])
        ticking.tell("az2", 2, None, open_streams=4, traffic=[])
        ticking.tick(4)
        shown = shell("zones")
        assert "epochs: 4 current, 2 fenced, 0 committed\ncommitted epoch held back by zr-az2\n" in shown.stderr
        assert "5,000 bytes of produced and consumed records crossed zones" in shown.stderr
        assert "6 cold reads" in shown.stderr
        (row,) = [line for line in shown.stdout.splitlines() if "zr-az2" in line]
        cells = [cell.strip() for cell in row.strip("│").split("│")]
        assert cells[:7] == ["zr-az2", "az2", "proxy, main", "c1:2", "3 brokers", "", "4"]
        assert cells[7].startswith("reachable, last report ")
        assert "5,000" in shell("zones", "--traffic").stdout
        assert shell.json("zones")["epochs"]["current"] == 4
        assert shell.json("zones", "epochs")["nodes"][1] == {
            "node": "zr-az2",
            "reported_epoch": None,
            "fenced": False,
            "open_streams": 4,
        }
        refused = shell("zones", "forget", "zr-az2")
        assert refused.exit_code == 3 and "zr-az2 is reachable" in refused.stderr
        pass_time(ticking.database, 0, since=600)
        pass_time(ticking.database, SILENT, "zr-az2")
        assert "unreachable: zr-az2" in shell("zones").stderr
        assert shell("zones", "forget", "zr-az2", "--dry-run").exit_code == 0 and "zr-az2" in nodes(ticking)
        assert shell("zones", "forget", "zr-az2").exit_code == 0 and "zr-az2" not in nodes(ticking)
