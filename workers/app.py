"""The Celery application: settings, schedule, and the tasks.

A message is only a hint. Beat sends hints to the reconcile loop; the reconcile loop keeps one hint for a worker
session waiting in the queue, so that every free pool process finds one and a busy one loses nothing. Leases decide
which process runs what.
"""

from __future__ import annotations

import os
import select
from functools import cache
from typing import TYPE_CHECKING

import structlog
from celery import Celery
from celery.signals import worker_process_init, worker_shutting_down
from kombu import Connection as BrokerConnection
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError

from backend import logs
from backend.domain.base.errors import DomainError
from backend.parent_exit import exit_with_parent
from backend.settings import settings
from workers import context
from workers.distribution.audit_retention import AuditRetention
from workers.distribution.barrier import Barriers
from workers.distribution.rerooting import Rerooting
from workers.distribution.worker_session import TaskHost
from workers.leases import ended_holders, leases
from workers.leases.process_lease import ProcessLease
from workers.measure_sampler import MeasureSampler
from workers.placement.host import placement_run_host
from workers.placement.planning import PlacementHost
from workers.placement.policy import PlacementPolicies
from workers.replication import ReplicationHost
from workers.route_epochs import RouteEpochTicker
from workers.run_host import RunHost
from workers.snapshots import SnapshotKeeper
from workers.switches.host import switch_host
from workers.topics.reconcile import Reconciler
from workers.webhooks.host import WebhookHost

if TYPE_CHECKING:
    from workers.access.access import AccessReconciler
    from workers.offsets.group_observer import GroupObserver
    from workers.offsets.worker_session import OffsetsHost
    from workers.schemas.worker_session import SchemasHost

CONTROL_QUEUE = "treeline.control"
SHIFT_QUEUE = "treeline.shifts"
OFFSETS_QUEUE = "treeline.offsets"
SCHEMAS_QUEUE = "treeline.schemas"
RECONCILE_LEASE = "reconcile"
_BROKER_SECONDS = 3.0

app = Celery("treeline", broker=settings().celery_broker_url)
app.conf.update(
    # Each with an exchange of its own: queues on one exchange and key would each get every message.
    task_queues=tuple(
        Queue(name, Exchange(name), routing_key=name)  # type: ignore[no-untyped-call]
        for name in (CONTROL_QUEUE, SHIFT_QUEUE, OFFSETS_QUEUE, SCHEMAS_QUEUE)
    ),
    task_default_queue=CONTROL_QUEUE,
    task_routes={
        "treeline.shift": {"queue": SHIFT_QUEUE},
        "treeline.offsets": {"queue": OFFSETS_QUEUE},
        "treeline.schemas": {"queue": SCHEMAS_QUEUE},
    },
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    # A lost connection says nothing about the tasks: sessions continue. Their hints come twice, which is harmless.
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    worker_send_task_events=False,
    broker_transport_options={"visibility_timeout": settings().visibility_timeout_seconds},
    broker_connection_retry_on_startup=True,
    # Redis holds no state of record and comes back: never give up on it.
    broker_connection_max_retries=None,
    broker_channel_error_retry=True,
    beat_schedule={
        "reconcile": {
            "task": "treeline.reconcile",
            "schedule": settings().reconcile_seconds,
            # Hints that piled up while no worker was listening are redundant.
            "options": {"expires": 2 * settings().reconcile_seconds},
        }
    },
)
logs.configure()
log = structlog.get_logger("workers")

# Created before the fork and shared by it: the only way to tell a worker session in a pool process that its worker
# is stopping. A pipe that becomes readable for all and that is never read; a shared lock or event would be held
# for ever by a pool process that is killed or stopped at the wrong moment.
_stop_pipe_read, _stop_pipe_write = os.pipe()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop_sessions(**_: object) -> None:
    os.write(_stop_pipe_write, b".")


def _stopping(wait_seconds: float) -> bool:
    """Wait until the worker is stopping, at most `wait_seconds`; return whether it is."""
    readable, _, _ = select.select([_stop_pipe_read], [], [], wait_seconds)
    return bool(readable)


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _die_with_parent(**_: object) -> None:
    """End this pool process with its parent: it would otherwise run on as an orphan after the parent is killed."""
    exit_with_parent()


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _succeed_ended_holders(**_: object) -> None:
    """Mark this process as alive, and release the leases of processes that it may have replaced."""
    ended_holders.mark_alive(settings().home, leases.this_process())
    try:
        ended_holders.free_ended(context.engine(), settings().home)
    except DomainError as error:
        log.warning("leases of ended processes not released; they expire", reason=error.detail)


@cache
def _host() -> TaskHost:
    return TaskHost(context.engine(), settings())


@cache
def _offsets() -> OffsetsHost:
    # Spark's modules take 100 MB, which only the translating process should pay for.
    from workers.offsets.worker_session import OffsetsHost

    return OffsetsHost(context.engine(), settings())


@cache
def _schemas() -> SchemasHost:
    # The schema parsers take memory, too.
    from workers.schemas.worker_session import SchemasHost

    return SchemasHost(context.engine(), settings())


@cache
def _reconcile_lease() -> ProcessLease:
    return ProcessLease(context.engine(), RECONCILE_LEASE, settings().lease_ttl_seconds)


@cache
def _reconciler() -> Reconciler:
    return Reconciler(context.engine(), settings())


@cache
def _access() -> AccessReconciler:
    # It loads a second Kafka library, 10 MB that only the process of the reconcile loop should pay for.
    from workers.access.access import AccessReconciler

    return AccessReconciler(context.engine(), settings())


@cache
def _switches() -> RunHost:
    return switch_host(context.engine(), settings())


@cache
def _placements() -> PlacementHost:
    return PlacementHost(context.engine(), settings())


@cache
def _placement_runs() -> RunHost:
    return placement_run_host(context.engine(), settings())


@cache
def _replication() -> ReplicationHost:
    return ReplicationHost(context.engine(), settings())


@cache
def _groups() -> GroupObserver:
    # It loads a second Kafka library, like `_access`.
    from workers.offsets.group_observer import GroupObserver

    return GroupObserver(context.engine(), settings())


@cache
def _placement_policies() -> PlacementPolicies:
    return PlacementPolicies(context.engine(), settings())


@cache
def _route_epochs() -> RouteEpochTicker:
    return RouteEpochTicker(context.engine(), settings())


@cache
def _webhooks() -> WebhookHost:
    return WebhookHost(context.engine(), settings())


@cache
def _audit_retention() -> AuditRetention:
    return AuditRetention(context.engine(), settings())


@cache
def _snapshots() -> SnapshotKeeper:
    return SnapshotKeeper(context.engine(), settings())


@cache
def _measures() -> MeasureSampler:
    return MeasureSampler(context.engine(), settings())


@cache
def _barriers() -> Barriers:
    return Barriers(context.engine(), settings())


@cache
def _rerooting() -> Rerooting:
    return Rerooting(context.engine(), settings())


@app.task(name="treeline.shift")  # type: ignore[untyped-decorator]
def shift() -> None:
    """Run this process's tasks for `shift_seconds`; longer while no hint for the next session can arrive."""
    _run_sessions(_host())


def _run_sessions(host: TaskHost | OffsetsHost | SchemasHost) -> None:
    while True:
        host.run_session(settings().shift_seconds, _stopping)
        if _stopping(0) or _broker_answers():
            return


def _broker_answers() -> bool:
    try:
        # The timeout of each answer too: a hanging Redis still accepts connections.
        patience = {"socket_timeout": _BROKER_SECONDS}
        with app.connection_for_write(connect_timeout=_BROKER_SECONDS, transport_options=patience) as broker:
            broker.ensure_connection(max_retries=0, timeout=_BROKER_SECONDS)
    except OperationalError:
        return False
    return True


@app.task(name="treeline.offsets")  # type: ignore[untyped-decorator]
def offsets() -> None:
    """Translate commits for `shift_seconds`; longer while no hint for the next session can arrive."""
    _run_sessions(_offsets())


@app.task(name="treeline.schemas")  # type: ignore[untyped-decorator]
def schemas() -> None:
    """Distribute schemas for `shift_seconds`; longer while no hint for the next session can arrive."""
    _run_sessions(_schemas())


@app.task(name="treeline.reconcile")  # type: ignore[untyped-decorator]
def reconcile() -> None:
    """Run one round of the reconcile loop, unless another worker does."""
    mine = _reconcile_lease().keep()
    _keep_a_hint_waiting()
    if mine:
        # First the work that others wait for; these calls only start it.
        _switches().tick()
        _route_epochs().tick()
        _barriers().tick()
        _rerooting().tick()
        _access().tick()
        _placements().tick()
        _placement_runs().tick()
        _replication().tick()
        _groups().tick()
        _placement_policies().tick()
        _webhooks().tick()
        _snapshots().tick()
        _measures().tick()
        _audit_retention().tick()
        _reconciler().tick()


def _keep_a_hint_waiting() -> None:
    # The connection that also sends tasks: one of its own each second costs more than the query.
    with app.pool.acquire(block=True) as broker:
        for queue, task in ((SHIFT_QUEUE, shift), (OFFSETS_QUEUE, offsets), (SCHEMAS_QUEUE, schemas)):
            if _waiting(broker, queue) == 0:
                task.apply_async()


def _waiting(broker: BrokerConnection, queue: str) -> int:
    """Return the number of hints in a queue that no worker has taken."""
    declared = broker.default_channel.queue_declare(queue, durable=True)  # type: ignore[no-untyped-call]
    return int(declared.message_count)
