"""Kafka producers and consumers that follow Treeline's discovery from cluster to cluster."""

from treeline_client.aio import AsyncSwitchingConsumer, AsyncSwitchingProducer
from treeline_client.consumer import SwitchingConsumer
from treeline_client.errors import (
    ClientClosed,
    ConfigurationRefused,
    DiscoveryRefused,
    DiscoveryUnavailable,
    OutcomeUnknown,
    StaleGeneration,
    TransactionAbortedBySwitch,
)
from treeline_client.groups import GroupMetadata
from treeline_client.metrics import Metrics
from treeline_client.producer import SwitchingProducer

__version__ = "0.2.0"

__all__ = [
    "AsyncSwitchingConsumer",
    "AsyncSwitchingProducer",
    "ClientClosed",
    "ConfigurationRefused",
    "DiscoveryRefused",
    "DiscoveryUnavailable",
    "GroupMetadata",
    "Metrics",
    "OutcomeUnknown",
    "StaleGeneration",
    "SwitchingConsumer",
    "SwitchingProducer",
    "TransactionAbortedBySwitch",
]
