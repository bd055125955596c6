"""Predictions of the replication lab for brokers assumed to be gone, for streams that a switch would move."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from backend.cluster_requests.broker_loss import document, what_if_broker_dies
from backend.domain.base.errors import ClusterSilent, FieldError, NotFound
from backend.domain.replication.replication_health import Place
from backend.domain.switch.switch_facts import BrokerLossFact, OutcomeFact, SwitchRequest
from backend.settings import Settings
from backend.switching.reading import PlanInput

MOST_BROKERS = 16
"""Limit of brokers that a plan assumes to be gone; their clusters are queried in parallel."""


def predict_broker_losses(
    ground: PlanInput, settings: Settings, request: SwitchRequest
) -> tuple[BrokerLossFact, ...]:
    """Query the cluster of each of these brokers for leaders and in-sync replicas, and predict its failure.

    Raises ClusterSilent and NotFound, with the broker's place in the request: a what-if without an answer would
    look like one in which nothing is lost.
    """
    wanted = request.without.brokers
    if not wanted:
        return ()

    def play(at: int) -> BrokerLossFact:
        return _play(ground, settings, *wanted[at], pointer=f"/without/brokers/{at}")

    with ThreadPoolExecutor(min(len(wanted), MOST_BROKERS)) as threads:
        return tuple(threads.map(play, range(len(wanted))))


def _play(ground: PlanInput, settings: Settings, cluster: str, broker: int, *, pointer: str) -> BrokerLossFact:
    streams = {
        row.technical_names[cluster]: row.stream for row in ground.streams if cluster in row.technical_names
    }

    def named(place: Place) -> str:
        return f"{streams[place[0]]}-{place[1]}"

    seconds = settings.probe_timeout_seconds
    try:
        loss = what_if_broker_dies(ground.clusters[cluster], broker, seconds, frozenset(streams))
    except NotFound as unknown:
        raise NotFound(unknown.detail, (FieldError(f"{pointer}/broker", unknown.detail),)) from unknown
    except ClusterSilent as silent:
        detail = (
            f"the loss of broker {broker} of {cluster} cannot be predicted: {silent.detail}. Retry when {cluster} "
            f"answers, or remove this broker from `without`"
        )
        raise ClusterSilent(detail, (FieldError(pointer, detail),)) from silent
    answer = document(loss, named)
    outcomes = tuple(OutcomeFact(**{**each, "examples": tuple(each["examples"])}) for each in answer["outcomes"])
    return BrokerLossFact(cluster=cluster, **{**answer, "outcomes": outcomes, "assumed": tuple(answer["assumed"])})
