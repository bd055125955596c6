"""The reconcile loop: observe clusters, plan steps, execute them, record the outcomes.

All clusters are observed concurrently, so that one that is down blocks no other. Planning is
`domain/topics/steps.py`. All state of this process is read again each time: a restart loses nothing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.domain.topics import steps
from backend.domain.topics.steps import SeenCluster, SeenTopic, Step, UnwantedTopic, WantedTopic
from backend.kafka.admin.topics import NewTopic, TopicAdmin, TopicFacts
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters.clusters import ClusterRow
from backend.settings import Settings
from workers import context
from workers.topics import desired_topics, recording
from workers.topics.adoption import Adopter
from workers.topics.desired_topics import Wanted
from workers.topics.recording import Outcomes
from workers.topics.topic_settings import SettingsKeeper

log = structlog.get_logger("reconcile")

FULL_LOOK_SECONDS = 5.0
CONFIGS_PER_LOOK = 250
"""Settled topics of one cluster in one poll: all of them on a small estate; 2,000 take 40 s. Reading the
configuration of 250 topics takes a broker and us some 70 ms, of 2,000 some 800 ms."""
FAILED_LOOKS_UNTIL_OFFLINE = 2
_CLUSTERS_AT_ONCE = 16


class Reconciler:
    """Reconcile loop of one process; a Celery task that holds the lease calls `tick` about once a second."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._admins: dict[str, tuple[object, TopicAdmin]] = {}
        self._failed_looks: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        self._drifted: dict[tuple[str, str], Mapping[str, str]] = {}
        self._made: set[tuple[str, str]] = set()
        """(Cluster, topic) that this process created and that are not recorded yet."""
        self._settings_keeper = SettingsKeeper(engine)
        self._adopter = Adopter(engine, context.dispatcher())
        self._last_look = 0.0
        self._position: int | None = None
        self._work_left = True

    def tick(self) -> None:
        """Poll, unless nothing changed since the last poll and that was just now; then act."""
        with self._engine.connect() as connection:
            position = desired_topics.position(connection)
            due = time.monotonic() - self._last_look > FULL_LOOK_SECONDS
            if not (due or self._work_left or position != self._position):
                return
        adopting = self._adopter.work()
        with self._engine.connect() as connection:
            position = desired_topics.position(connection)
            desired = desired_topics.read(connection, self._settings)
        self._position, self._last_look = position, time.monotonic()
        if self._made:
            self._made -= {(row.cluster, row.topic) for row in desired.topics if row.topic_id is not None}
        seen = self._observe(desired)
        for cluster, look in seen.items():
            self._settings_keeper.keep(cluster, desired.topics_on(cluster), look.topics)
        planned = self._plan(desired, seen)
        outcomes = Outcomes()
        try:
            self._create([step for step in planned if isinstance(step, steps.CreateTopic)], outcomes)
            for step in planned:
                self._take(step, outcomes)
                outcomes.record_if_due()
        finally:
            # Also what was done before a step failed.
            outcomes.record()
        self._work_left = bool(planned or self._drifted or adopting)

    def _observe(self, desired: Wanted) -> dict[str, SeenCluster]:
        if not desired.clusters:
            return {}
        with ThreadPoolExecutor(max_workers=min(_CLUSTERS_AT_ONCE, len(desired.clusters))) as pool:
            looks = pool.map(lambda row: self._look(row, desired), desired.clusters)
            return dict(zip((row.name for row in desired.clusters), looks, strict=True))

    def _look(self, row: ClusterRow, desired: Wanted) -> SeenCluster:
        topics = desired.topics_on(row.name)
        names = [topic.topic for topic in topics]
        try:
            found = self._admin(row).observe(names + desired.deleted_on(row.name))
            asked = self._configs_to_ask(row.name, topics, found.topics)
            configs, refused = self._admin(row).configs(asked)
            new = [found.topics[t.topic] for t in topics if t.topic_id is None and t.topic in found.topics]
            records = self._admin(row).records(new)
        except (KafkaCallFailed, DomainError) as error:
            reason = error.reason if isinstance(error, KafkaCallFailed) else error.detail
            failed = self._failed_looks[row.name] = self._failed_looks.get(row.name, 0) + 1
            if failed < FAILED_LOOKS_UNTIL_OFFLINE and row.state == "online":
                # One lost answer is no outage; nothing is recorded or changed until a second one.
                return SeenCluster(kafka_cluster_id=row.kafka_cluster_id, brokers=row.brokers or 0, unsure=True)
            return SeenCluster(reason=reason)
        self._failed_looks[row.name] = 0
        seen = {
            name: SeenTopic(
                topic_id=topic.topic_id,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                in_sync=topic.in_sync,
                config=configs[name].values if name in configs else None,
                own=configs[name].own if name in configs else {},
                records=records.get(name),
            )
            for name, topic in found.topics.items()
        }
        return SeenCluster(
            kafka_cluster_id=found.facts.kafka_cluster_id,
            brokers=len(found.facts.brokers),
            topics=seen,
            refusals={**found.refused, **refused},
        )

    def _configs_to_ask(
        self, cluster: str, topics: list[WantedTopic], found: Mapping[str, TopicFacts]
    ) -> list[str]:
        """Return the topics whose settings this poll reads: all unsettled ones, and some settled in turn."""
        unsettled: list[str] = []
        settled: list[str] = []
        for topic in topics:
            present = found.get(topic.topic)
            if present is None:
                continue
            calm = topic.applied and topic.failure is None and topic.topic_id == present.topic_id
            calm = calm and topic.recorded_factor in (None, present.replication_factor)
            again = (cluster, topic.topic) in self._drifted
            (settled if calm and not again else unsettled).append(topic.topic)
        first = self._turns.get(cluster, 0)
        first = first if first < len(settled) else 0
        self._turns[cluster] = first + CONFIGS_PER_LOOK
        return unsettled + settled[first : first + CONFIGS_PER_LOOK]

    def _admin(self, row: ClusterRow) -> TopicAdmin:
        key = (row.bootstrap_servers, row.properties)
        known = self._admins.get(row.name)
        if known is None or known[0] != key:
            admin = TopicAdmin(row.bootstrap_servers, row.properties, self._settings.probe_timeout_seconds)
            self._admins[row.name] = known = (key, admin)
        return known[1]

    def _plan(self, desired: Wanted, seen: dict[str, SeenCluster]) -> list[Step]:
        planned: list[Step] = []
        for row in desired.clusters:
            known = steps.KnownCluster(
                online=row.state == "online",
                reason=row.reason,
                kafka_cluster_id=row.kafka_cluster_id,
                brokers=row.brokers,
            )
            planned += steps.cluster_steps(row.name, known, seen[row.name])
        sure = {name: look for name, look in seen.items() if not look.unsure}
        # Another Kafka cluster at a known address must not get our topics.
        expected = {row.name: row.kafka_cluster_id for row in desired.clusters}
        same = {name: look for name, look in sure.items() if expected[name] == look.kafka_cluster_id}
        return planned + self._twice_seen(steps.topic_steps(desired.topics, desired.deleted, same))

    def _twice_seen(self, planned: list[Step]) -> list[Step]:
        """Drop drifts that the previous poll did not show: a broker's metadata may be older than our change."""
        drifts = {
            (step.wanted.cluster, step.wanted.topic): step.found
            for step in planned
            if isinstance(step, steps.RestoreTopic)
        }
        sure = {place for place, found in drifts.items() if self._drifted.get(place) == found}
        self._drifted = {place: found for place, found in drifts.items() if place not in sure}
        return [
            step
            for step in planned
            if not isinstance(step, steps.RestoreTopic) or (step.wanted.cluster, step.wanted.topic) in sure
        ]

    def _take(self, step: Step, outcomes: Outcomes) -> None:
        request_id = f"reconcile-{uuid.uuid4().hex[:12]}"
        try:
            match step:
                case steps.RecordOnline() | steps.RecordOffline():
                    recording.cluster(step, request_id)
                case steps.RefuseTopic(wanted=topic, reason=reason):
                    outcomes.failed(topic, reason, request_id)
                case steps.FollowGrowth():
                    outcomes.grown(step, request_id)
                case steps.DeleteTopic(unwanted=gone, present=present):
                    self._delete(gone, outcomes, request_id, present=present)
                case steps.GrowTopic() | steps.AlignTopic() | steps.RestoreTopic():
                    self._apply(step, outcomes, request_id)
        except KafkaCallFailed as error:
            self._failed(step, outcomes, error.reason, request_id)
        except DomainError as error:
            log.warning(
                "step not recorded; it will be planned again", step=type(step).__name__, reason=error.detail
            )

    def _delete(self, gone: UnwantedTopic, outcomes: Outcomes, request_id: str, *, present: bool) -> None:
        admin = self._admins[gone.cluster][1]
        if present and gone.unconfirmed and admin.holds_records(gone.topic):
            log.warning(
                "topic of a deleted stream has records and is kept", cluster=gone.cluster, topic=gone.topic
            )
            outcomes.kept(gone, request_id)
            return
        if present:
            admin.delete(gone.topic)
        outcomes.removed(gone, request_id)

    def _create(self, planned: Sequence[steps.CreateTopic], outcomes: Outcomes) -> None:
        """Create topics in batches, on all clusters concurrently: one by one, 2,500 topics take minutes."""
        by_cluster: dict[str, list[steps.CreateTopic]] = {}
        for step in planned:
            by_cluster.setdefault(step.wanted.cluster, []).append(step)
        if not by_cluster:
            return
        with ThreadPoolExecutor(max_workers=min(_CLUSTERS_AT_ONCE, len(by_cluster))) as pool:
            results = pool.map(lambda name: self._create_on(name, by_cluster[name]), by_cluster)
        for cluster, failed in zip(by_cluster, results, strict=True):
            log.info("topics created", cluster=cluster, topics=len(by_cluster[cluster]) - len(failed))
            for step in by_cluster[cluster]:
                if step.wanted.topic not in failed:
                    self._made.add((cluster, step.wanted.topic))
                else:
                    request_id = f"reconcile-{uuid.uuid4().hex[:12]}"
                    self._failed(step, outcomes, failed[step.wanted.topic].reason, request_id)

    def _create_on(self, cluster: str, planned: Sequence[steps.CreateTopic]) -> dict[str, KafkaCallFailed]:
        wanted = [
            NewTopic(
                name=step.wanted.topic,
                partitions=step.wanted.partitions,
                replication_factor=step.replication_factor,
                config=step.config,
            )
            for step in planned
        ]
        return self._admins[cluster][1].create_many(wanted)

    def _apply(
        self,
        step: steps.GrowTopic | steps.AlignTopic | steps.RestoreTopic,
        outcomes: Outcomes,
        request_id: str,
    ) -> None:
        topic = step.wanted
        admin = self._admins[topic.cluster][1]
        match step:
            case steps.GrowTopic():
                admin.grow(topic.topic, topic.partitions)
                log.info("topic grown", cluster=topic.cluster, topic=topic.topic, partitions=topic.partitions)
            case steps.AlignTopic():
                if step.config or step.reset:
                    admin.configure(topic.topic, step.config, step.reset)
                    log.info(
                        "topic configured",
                        cluster=topic.cluster,
                        topic=topic.topic,
                        set=step.config,
                        reset=step.reset,
                    )
                outcomes.applied(step, request_id, made=(topic.cluster, topic.topic) in self._made)
            case steps.RestoreTopic():
                admin.configure(topic.topic, step.config)
                log.warning("topic restored", cluster=topic.cluster, topic=topic.topic, found=step.found)
                outcomes.drifted(step, None, request_id)

    def _failed(self, step: Step, outcomes: Outcomes, reason: str, request_id: str) -> None:
        topic: WantedTopic | UnwantedTopic | None = getattr(step, "wanted", None) or getattr(
            step, "unwanted", None
        )
        log.warning("step failed", step=type(step).__name__, topic=topic and topic.topic, reason=reason)
        if isinstance(step, steps.RestoreTopic):
            outcomes.drifted(step, reason, request_id)
        elif isinstance(topic, WantedTopic) and topic.failure != reason:
            outcomes.failed(topic, reason, request_id)
