"""Addition and removal of a broker in a cluster of the running estate.

Adding: the record for the next `up` is written first, then the broker joins the supervisor's plan. Removing goes
the other way round: process, metadata, data, and the record last. So a command that was killed halfway leaves a
broker that `up` brings back and that can be removed (again).
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from backend.estate.added_brokers import (
    BrokerHoldsReplicas,
    BrokerRefused,
    cluster_named,
    next_node,
    removable,
    save_added,
    zone_for,
)
from backend.estate.children import send
from backend.estate.class_archive import ensure_kafka
from backend.estate.document import ClusterSpec
from backend.estate.faults import order
from backend.estate.home import Home, command_lock_held
from backend.estate.plan import (
    Layout,
    broker_ports,
    broker_process,
    proxy_process,
    with_process,
    without_process,
)
from backend.estate.ports import Ports
from backend.estate.processes import Plan, load_plan, save_plan
from backend.estate.programs.broker import AddedBroker
from backend.estate.running import is_running, read_state
from backend.estate.saved_layout import restore_layout, save_layout
from backend.estate.start_progress import Patience
from backend.kafka.admin.broker_removal import replicas_on, unregister
from backend.kafka.base.errors import KafkaCallFailed

Progress = Callable[[str], None]
T = TypeVar("T")

STOP_SECONDS = 60.0
STARTS = 3
"""Failed starts after which a new broker is no longer waited for."""
REQUEST_SECONDS = 30.0


class MembershipFailed(RuntimeError):
    """A broker did not start or stop, or its cluster did not respond; the text says what remains of it."""


def add_broker(home: Home, cluster: str, zone: str | None, progress: Progress) -> AddedBroker:
    """Start a broker in a cluster of the running estate and wait until it serves.

    Without a zone it gets the one with the fewest brokers. Raises BrokerRefused for invalid requests, JavaMissing,
    FaultRefused if the proxy does not open a port for it, MembershipFailed if it does not start.
    """
    _running_or_refused(home)
    with command_lock_held(home, progress):
        layout = _layout(home)
        spec = cluster_named(layout.estate, cluster)
        there = layout.added_to(cluster)
        node, chosen = next_node(spec, there, _folders(layout, cluster)), zone_for(spec, there, zone)
        ports = Ports(layout.data / "ports.json", keep=True)
        added = AddedBroker(cluster=cluster, node=node, zone=chosen, ports=broker_ports(ports, spec, node))
        kafka = ensure_kafka(progress)
        ports.remember()
        layout = _keep(layout, (*layout.added, added))
        progress(f"starting {added.process} in {chosen}")
        process = broker_process(layout, kafka, spec, node, added)
        _change(home, lambda plan: _with_ways(with_process(plan, process, home), layout))
        if spec.via_proxy:
            order(home, "open_way", cluster, listen=added.ports.advertised, target=added.ports.client)
        _until_started(home, added)
        progress(f"{added.process} is running")
    return added


def remove_broker(home: Home, cluster: str, node: int, progress: Progress, *, force: bool = False) -> int:
    """Stop an added broker, unregister it from its cluster, and delete its data; return the replicas it held.

    The number can be above 0 only with `force`, and replicas that no other broker has are lost. Raises
    BrokerRefused, BrokerHoldsReplicas, FaultRefused, MembershipFailed.
    """
    _running_or_refused(home)
    with command_lock_held(home, progress):
        layout = _layout(home)
        spec = cluster_named(layout.estate, cluster)
        added = removable(spec, layout.added_to(cluster), node)
        _held(layout, spec, node, force)
        progress(f"stopping {added.process}")
        before = load_plan(home.plan)
        without = replace(layout, added=tuple(one for one in layout.added if one != added))
        _change(home, lambda plan: _with_ways(without_process(plan, added.process), without))
        _until_stopped(home, added)
        try:
            # Checked again: until it had stopped it could get replicas of new topics.
            held = _held(layout, spec, node, force)
        except BrokerHoldsReplicas:
            _change(home, lambda _: before)
            _until_started(home, added)
            raise
        if spec.via_proxy:
            order(home, "close_way", cluster, listen=added.ports.advertised)
        _asked(cluster, lambda: unregister(*_client(layout, spec), node, REQUEST_SECONDS))
        folder = layout.broker_folder(cluster, node)
        if (
            folder.exists()
        ):  # does not exist if the broker never started, or if an earlier removal was killed after this step
            shutil.rmtree(folder)
        ports = Ports(layout.data / "ports.json", keep=True)
        ports.forget(f":{cluster}:{node}")
        ports.remember()
        _keep(layout, without.added)
        progress(f"{added.process} is removed")
    return sum(held.values())


def _running_or_refused(home: Home) -> None:
    if not is_running(home):
        raise BrokerRefused("No estate runs. Start one with `treeline up`.")


def _layout(home: Home) -> Layout:
    """Return the running estate's layout; waits until its supervisor has started."""
    while is_running(home):
        if read_state(home) is not None:
            return restore_layout(home)
        time.sleep(0.05)
    raise BrokerRefused("The estate has just ended. Start it with `treeline up`.")


def _folders(layout: Layout, cluster: str) -> set[int]:
    """Return the numbers of brokers whose data exists, whoever left it: a new broker must start empty."""
    names = (path.name.removeprefix("broker-") for path in (layout.data / cluster).glob("broker-*"))
    return {int(name) for name in names if name.isdigit()}


def _keep(layout: Layout, added: tuple[AddedBroker, ...]) -> Layout:
    """Return the layout with these added brokers, saved for other commands and for the next `up`."""
    changed = replace(layout, added=added)
    save_added(layout.home, layout.estate, added)
    save_layout(changed)
    return changed


def _with_ways(plan: Plan, layout: Layout) -> Plan:
    """Return the plan whose proxy opens these ports when it restarts; without a proxy, the plan unchanged."""
    if layout.proxy_control_port is None:
        return plan
    return with_process(plan, proxy_process(layout, layout.proxy_control_port), layout.home)


def _change(home: Home, change: Callable[[Plan], Plan]) -> None:
    """Give the supervisor a changed plan; everything else in it stays, such as services that only `up` knew of."""
    save_plan(change(load_plan(home.plan)), home.plan)
    state = read_state(home)
    if state is not None and is_running(home):
        send(state["supervisor"], signal.SIGHUP)


def _row(home: Home, added: AddedBroker) -> dict[str, Any] | None:
    state = read_state(home)
    if state is None or not is_running(home):
        raise MembershipFailed(f"the supervisor ended; see {home.log('supervisor')}")
    return next((row for row in state["processes"] if row["name"] == added.process), None)


def _until_started(home: Home, added: AddedBroker) -> None:
    patience, row = Patience(), None
    while not patience.is_over(added.process) and (row is None or row["restarts"] < STARTS):
        row = _row(home, added)
        if row and row["state"] == "running":
            return
        patience.look({added.process: row["pid"] if row else None}, {}, time.monotonic())
        time.sleep(0.1)
    why = f" ({row['detail']})" if row and row["detail"] else ""
    raise MembershipFailed(
        f"{added.process} does not start{why}; log: {home.log(added.process)}. It is restarted again and again; "
        f"`treeline estate remove-broker {added.cluster} {added.node}` removes it."
    )


def _until_stopped(home: Home, added: AddedBroker) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while _row(home, added) is not None:
        if time.monotonic() > deadline:
            raise MembershipFailed(f"{added.process} does not end; log: {home.log(added.process)}")
        time.sleep(0.05)


def _held(layout: Layout, spec: ClusterSpec, node: int, force: bool) -> dict[str, int]:
    """Return replicas on a broker by topic; raises BrokerHoldsReplicas if there are any, unless `force`."""
    held = _asked(spec.name, lambda: replicas_on(*_client(layout, spec), node, REQUEST_SECONDS))
    if held and not force:
        raise BrokerHoldsReplicas(spec.name, node, held)
    return held


def _client(layout: Layout, spec: ClusterSpec) -> tuple[str, dict[str, str]]:
    return layout.bootstrap_servers(spec.name), layout.properties(spec)


def _asked(cluster: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except KafkaCallFailed as error:
        raise MembershipFailed(
            f"{cluster} failed the request: {error.reason}. It has to run, without faults on its "
            "link, for a broker to be removed; then try again."
        ) from error
