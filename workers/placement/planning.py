"""Computation of plans: a worker reads the cluster, lets a process compute, and records the result.

The computation is a process of its own, because it takes gigabytes for millions of replicas, which this process
should not retain, and because it may be killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from backend import deciders
from backend.dispatch import Directed
from backend.domain.base.errors import DomainError
from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_runs import PlacementState
from backend.domain.placement.placements import PlacementCommand, RecordFailure, RecordPlan
from backend.eventlog.recorded import Metadata
from backend.kafka.admin.cluster_replicas import ClusterReplicas
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.base.errors import KafkaCallFailed
from backend.parent_exit import exit_with_parent
from backend.placement.errors import few
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.placement.placements import (
    PlacementRow,
    PlanDocuments,
    find_placement,
    read_reassignment,
    requested_placements,
    running_placements,
    store_documents,
)
from backend.settings import PROJECT_ROOT, Settings
from workers import AN_ERROR_OF_OURS, context
from workers.leases.process_lease import ProcessLease

log = structlog.get_logger("placements")

ACTOR = "worker:placements"
_COMMAND = (sys.executable, "-m", "backend.cli", "placement", "plan", "--input", "-")
_JOB = PROJECT_ROOT / "spark" / "jobs" / "replica_placement.py"
_BAD_INPUT = 2
_SUMMED = ("moves", "lower_bound", "moved_bytes", "leader_changes", "largest_share")


class CannotPlan(Exception):
    """No plan can be made; the message is for the operator."""


class PlacementHost:
    """The planner of one process; call `tick` about once a second, it does not block."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._thread: threading.Thread | None = None
        self._lease: ProcessLease | None = None

    def tick(self) -> None:
        """Start the oldest plan that no process computes; one at a time, since it needs the whole machine."""
        if self._thread is not None and self._thread.is_alive():
            if self._lease is not None:
                self._lease.renew()
            return
        with self._engine.connect() as connection:
            wanted = requested_placements(connection)
        for row in wanted:
            lease = ProcessLease(self._engine, f"placement:{row.id}", self._settings.lease_ttl_seconds)
            if lease.take():
                self._lease = lease
                log.info("computing placement plan", placement=row.id, cluster=row.cluster)
                # A daemon thread does not delay the end of the process; the request remains.
                self._thread = threading.Thread(
                    target=compute,
                    args=(self._engine, self._settings, row),
                    name=f"placement-{row.id}",
                    daemon=True,
                )
                self._thread.start()
                return


def compute(engine: Engine, settings: Settings, row: PlacementRow) -> None:
    """Compute one plan and record it."""
    try:
        documents = _documents(engine, settings, row)
    except (CannotPlan, KafkaCallFailed) as error:
        reason = error.reason if isinstance(error, KafkaCallFailed) else str(error)
        log.warning("placement plan failed", placement=row.id, cluster=row.cluster, reason=reason)
        _record(row, RecordFailure(reason=reason), None)
        return
    except DomainError as error:
        # The database may be unavailable; the request remains and is retried.
        log.warning("placement plan waiting", placement=row.id, reason=error.detail)
        return
    except Exception:
        # A retry would fail again, every second.
        log.exception("placement plan failed", placement=row.id, cluster=row.cluster)
        _record(row, RecordFailure(reason=AN_ERROR_OF_OURS), None)
        return
    plan = documents.plan
    violations = {each["constraint"]: each["count"] for each in plan["violations"]}
    summary = {name: plan[name] for name in _SUMMED}
    summary |= {"partitions": len(plan["partitions"]), "violations": violations}
    _record(row, RecordPlan(digest=plan["digest"], summary=summary), documents)


def _record(row: PlacementRow, command: PlacementCommand, documents: PlanDocuments | None) -> None:
    metadata = Metadata(actor=ACTOR, request_id=row.id)

    def build(connection: Connection) -> list[Directed]:
        # Under the append lock: if another process was faster, its documents belong to the recorded digest.
        is_mine = find_placement(connection, row.id).state is PlacementState.REQUESTED
        if documents is not None and is_mine:
            store_documents(connection, row.id, documents)
        return [Directed(deciders.PLACEMENT, f"placement-{row.id}", command, metadata)]

    try:
        context.dispatch_all(build)
    except DomainError as error:
        log.warning("placement plan will be computed again", placement=row.id, reason=error.detail)


def _documents(engine: Engine, settings: Settings, row: PlacementRow) -> PlanDocuments:
    with engine.connect() as connection:
        cluster = next((each for each in list_clusters(connection) if each.name == row.cluster), None)
        given = None if row.given is None else read_reassignment(connection, row.id)
        _refuse_concurrent(running_placements(connection), row)
    if cluster is None:
        raise CannotPlan(f"cluster {row.cluster} no longer exists")
    seen = read(cluster)
    if given is None:
        question = question_of(seen, row.aims)
        replicas = sum(len(each.replicas) for each in seen.partitions.values())
        on_spark = replicas >= settings.placement_spark_replicas and find_spec("pyspark") is not None
        answer = _on_spark(question, settings) if on_spark else _locally(question, settings)
    else:
        question = cluster_document(seen)
        answer = _locally({**question, "reassignment": given}, settings)
    _check(seen, answer["partitions"])
    notes = [*answer["notes"], *_at_the_minimum(seen, answer["partitions"])]
    return PlanDocuments(question=question, plan={**answer, "notes": notes})


def _refuse_concurrent(running: Sequence[PlacementRow], row: PlacementRow) -> None:
    """Refuse to plan while another placement of the cluster is executed, even if paused. Raises CannotPlan.

    A plan is for the cluster as it is read; the other placement will leave it in a different state, so that the
    plan could only be refused when it is applied.
    """
    for each in running:
        if each.cluster == row.cluster:
            raise CannotPlan(
                f"placement {each.id} is {each.state}: a plan made now would not fit afterwards; wait until it "
                "ends, or cancel it"
            )


def read(cluster: ClusterRow) -> ClusterReplicas:
    """Read the cluster. Raises CannotPlan while replicas are moving, and KafkaCallFailed."""
    with ReplicaAdmin(cluster.name, cluster.bootstrap_servers, cluster.properties) as admin:
        moving = admin.ongoing()
        if moving:
            some = few([f"{topic}-{number}" for topic, number in sorted(moving)])
            raise CannotPlan(f"replicas are being moved ({some}): wait until the reassignment ends, or cancel it")
        return admin.read()


def question_of(seen: ClusterReplicas, aims: Aims) -> dict[str, Any]:
    """Build the request for `treeline placement plan`. Raises CannotPlan if options do not fit the cluster."""
    away = sorted(broker for broker, each in seen.brokers.items() if not each.is_here)
    if away and aims.target_brokers is None:
        raise CannotPlan(
            f"brokers are unavailable ({few(away)}): start them, or set target_brokers without them to move "
            "their replicas elsewhere"
        )
    gone = sorted(set(away) & set(aims.target_brokers or ()))
    if gone:
        raise CannotPlan(f"target_brokers lists unavailable brokers ({few(gone)}): start them, or leave them out")
    topics = {topic for topic, _ in seen.partitions}
    factors = dict(aims.replication_factors)
    if aims.as_declared:
        # A stream may have been deleted since the request.
        factors = {topic: factor for topic, factor in factors.items() if topic in topics}
    if aims.replication_factor is not None:
        factors = dict.fromkeys(topics, aims.replication_factor) | factors
    question = cluster_document(seen)
    question |= {"excluded_topics": list(aims.excluded_topics), "no_leaders": list(aims.no_leaders)}
    if aims.target_brokers is not None:
        question["target_brokers"] = list(aims.target_brokers)
    if factors:
        question["replication_factor"] = factors
    return question


def cluster_document(seen: ClusterReplicas) -> dict[str, Any]:
    """Return the state of a cluster as `treeline placement plan` reads it."""
    return {
        "brokers": [{"id": broker, "rack": each.rack} for broker, each in sorted(seen.brokers.items())],
        "partitions": [
            {"topic": topic, "partition": number, "replicas": list(each.replicas), "size_bytes": each.size_bytes}
            for (topic, number), each in sorted(seen.partitions.items())
        ],
    }


def _check(seen: ClusterReplicas, planned: Sequence[Mapping[str, Any]]) -> None:
    """Refuse plans that a live cluster must not get. Raises CannotPlan."""
    away = {broker for broker, each in seen.brokers.items() if not each.is_here}
    too_few, on_unavailable = [], []
    for row in planned:
        name, now = f"{row['topic']}-{row['partition']}", seen.partitions[row["topic"], row["partition"]].replicas
        count, minimum = len(row["replicas"]), seen.min_insync_replicas.get(row["topic"], 1)
        if count < minimum and count < len(now):
            too_few.append(f"{name}: {count} of {minimum}")
        if gone := sorted((set(row["replicas"]) - set(now)) & away):
            on_unavailable.append(f"{name}: broker {gone[0]}")
    if too_few:
        raise CannotPlan(
            f"partitions would have fewer replicas than min.insync.replicas ({few(too_few)}), so that producers "
            "with acks=all would be refused: lower min.insync.replicas first, or use more replicas"
        )
    if on_unavailable:
        raise CannotPlan(
            f"replicas would be placed on unavailable brokers ({few(on_unavailable)}): start them first"
        )


def _at_the_minimum(seen: ClusterReplicas, planned: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a note for the operator if topics get no more replicas than min.insync.replicas."""
    topics = set()
    for row in planned:
        topic, count = row["topic"], len(row["replicas"])
        if count == seen.min_insync_replicas.get(topic) and count != len(
            seen.partitions[topic, row["partition"]].replicas
        ):
            topics.add(topic)
    if not topics:
        return []
    return [
        f"topics get only as many replicas as min.insync.replicas ({few(sorted(topics))}): while one of their "
        "brokers is away, producers with acks=all are refused; use one more replica, or lower min.insync.replicas"
    ]


def _locally(question: dict[str, Any], settings: Settings) -> dict[str, Any]:
    done = _run([*_COMMAND, "--json"], settings, json.dumps(question))
    found: dict[str, Any] = json.loads(done)
    return found


def _on_spark(question: dict[str, Any], settings: Settings) -> dict[str, Any]:
    # Spark is optional, and pyarrow comes with it.
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        aims = {key: value for key, value in question.items() if key != "partitions"}
        (folder / "question.json").write_text(json.dumps(aims))
        with (folder / "partitions.jsonl").open("w") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in question["partitions"])
        words = [str(folder / each) for each in ("question.json", "partitions.jsonl", "out")]
        found: dict[str, Any] = json.loads(_run([sys.executable, str(_JOB), *words], settings))
        rows = parquet.read_table(folder / "out" / "partitions").to_pylist()
    return {**found, "partitions": sorted(rows, key=lambda row: (row["topic"], row["partition"]))}


def _run(command: list[str], settings: Settings, stdin: str = "") -> str:
    """Run a process and return its output. Raises CannotPlan with the error that it reports."""
    try:
        done = subprocess.run(
            command,
            input=stdin,
            cwd=PROJECT_ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=settings.placement_seconds,
            preexec_fn=exit_with_parent,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotPlan(f"the computation took longer than {settings.placement_seconds:g} s") from error
    if done.returncode == _BAD_INPUT:
        raise CannotPlan(done.stderr.strip().splitlines()[-1].partition(": ")[2])
    if done.returncode:
        log.error("the computation of a placement failed", stderr=done.stderr[-4000:])
        raise CannotPlan(f"the computation failed with exit code {done.returncode}; see the worker's log")
    return done.stdout
