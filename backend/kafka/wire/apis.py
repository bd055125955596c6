"""Requests that a gateway forwards, and the supported versions of each.

Clients decide by the advertised versions what a broker can do: librdkafka up to 2.6 compresses with gzip, snappy
or lz4 only where Produce begins at version 0 (KAFKA-18659), and logs in only where SaslHandshake does. So a range
is restricted in two cases only:

- at its end, where a version is newer than Kafka 4.1: its responses may hold addresses that `endpoints` does not
  rewrite;
- at its beginning, where a version cannot be forwarded. A comment says why.

Requests that only brokers and controllers send each other are left out; brokers of Kafka 4.1 do not advertise them
to clients. Source: the message definitions of Kafka 0.10 to 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple


class Api(IntEnum):
    """Api keys of the requests that the gateway inspects."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CLUSTER = 60
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79


class Versions(NamedTuple):
    """First and last supported version of a request."""

    first: int
    last: int


SUPPORTED_VERSIONS: Mapping[int, Versions] = MappingProxyType(
    {
        # Brokers of Kafka 4 advertise versions 0 to 2 and refuse them; older brokers accept them.
        Api.PRODUCE: Versions(0, 13),
        # Versions 0 to 2 have no limit for the response, which the gateway buffers whole. For versions 0 to 3
        # brokers convert records to older formats, which zones do not store.
        Api.FETCH: Versions(4, 18),
        Api.LIST_OFFSETS: Versions(0, 10),  # Kafka 4.1 has no version 11
        Api.METADATA: Versions(0, 13),
        8: Versions(0, 10),  # OffsetCommit
        9: Versions(0, 10),  # OffsetFetch
        Api.FIND_COORDINATOR: Versions(0, 6),
        11: Versions(0, 9),  # JoinGroup
        12: Versions(0, 4),  # Heartbeat
        13: Versions(0, 5),  # LeaveGroup
        14: Versions(0, 5),  # SyncGroup
        15: Versions(0, 6),  # DescribeGroups
        16: Versions(0, 5),  # ListGroups
        Api.SASL_HANDSHAKE: Versions(0, 1),
        Api.API_VERSIONS: Versions(0, 4),
        19: Versions(0, 7),  # CreateTopics
        20: Versions(0, 6),  # DeleteTopics
        21: Versions(0, 2),  # DeleteRecords
        22: Versions(0, 6),  # InitProducerId
        Api.OFFSET_FOR_LEADER_EPOCH: Versions(0, 4),
        24: Versions(0, 5),  # AddPartitionsToTxn
        25: Versions(0, 4),  # AddOffsetsToTxn
        26: Versions(0, 5),  # EndTxn
        27: Versions(0, 1),  # WriteTxnMarkers, with which operators abort hanging transactions
        28: Versions(0, 5),  # TxnOffsetCommit
        29: Versions(0, 3),  # DescribeAcls
        30: Versions(0, 3),  # CreateAcls
        31: Versions(0, 3),  # DeleteAcls
        32: Versions(0, 4),  # DescribeConfigs
        33: Versions(0, 2),  # AlterConfigs
        34: Versions(0, 2),  # AlterReplicaLogDirs
        35: Versions(0, 4),  # DescribeLogDirs
        36: Versions(0, 2),  # SaslAuthenticate
        37: Versions(0, 3),  # CreatePartitions
        38: Versions(0, 3),  # CreateDelegationToken
        39: Versions(0, 2),  # RenewDelegationToken
        40: Versions(0, 2),  # ExpireDelegationToken
        41: Versions(0, 3),  # DescribeDelegationToken
        42: Versions(0, 2),  # DeleteGroups
        43: Versions(0, 2),  # ElectLeaders
        44: Versions(0, 1),  # IncrementalAlterConfigs
        45: Versions(0, 1),  # AlterPartitionReassignments
        46: Versions(0, 0),  # ListPartitionReassignments
        47: Versions(0, 0),  # OffsetDelete
        48: Versions(0, 1),  # DescribeClientQuotas
        49: Versions(0, 1),  # AlterClientQuotas
        50: Versions(0, 0),  # DescribeUserScramCredentials
        51: Versions(0, 0),  # AlterUserScramCredentials
        55: Versions(0, 2),  # DescribeQuorum; its addresses are of controllers, to which clients do not connect
        57: Versions(0, 2),  # UpdateFeatures
        Api.DESCRIBE_CLUSTER: Versions(0, 2),
        61: Versions(0, 0),  # DescribeProducers
        64: Versions(0, 0),  # UnregisterBroker
        65: Versions(0, 0),  # DescribeTransactions
        66: Versions(0, 2),  # ListTransactions
        68: Versions(0, 1),  # ConsumerGroupHeartbeat
        69: Versions(0, 1),  # ConsumerGroupDescribe
        71: Versions(0, 0),  # GetTelemetrySubscriptions
        72: Versions(0, 0),  # PushTelemetry
        74: Versions(0, 1),  # ListConfigResources
        75: Versions(0, 0),  # DescribeTopicPartitions
        # Version 0 of the next four was a preview in Kafka 4.0, with other fields.
        76: Versions(1, 1),  # ShareGroupHeartbeat
        77: Versions(1, 1),  # ShareGroupDescribe
        Api.SHARE_FETCH: Versions(1, 1),
        Api.SHARE_ACKNOWLEDGE: Versions(1, 1),
        80: Versions(0, 0),  # AddRaftVoter
        81: Versions(0, 0),  # RemoveRaftVoter
        83: Versions(0, 0),  # InitializeShareGroupState; this and the next four are for share coordinators
        84: Versions(0, 0),  # ReadShareGroupState
        85: Versions(0, 0),  # WriteShareGroupState
        86: Versions(0, 0),  # DeleteShareGroupState
        87: Versions(0, 0),  # ReadShareGroupStateSummary
        88: Versions(0, 0),  # StreamsGroupHeartbeat; its endpoints are those of applications, not of brokers
        89: Versions(0, 0),  # StreamsGroupDescribe
        90: Versions(0, 0),  # DescribeShareGroupOffsets
        91: Versions(0, 0),  # AlterShareGroupOffsets
        92: Versions(0, 0),  # DeleteShareGroupOffsets
    }
)
"""Versions advertised to clients at most, by api key. All but RAW_SASL_HANDSHAKE are forwarded."""

RAW_SASL_HANDSHAKE = (Api.SASL_HANDSHAKE, 0)
"""After this handshake, SASL tokens come without Kafka headers. It is refused, but advertised, as clients look for
it."""

PRODUCE_WITH_BATCHES = 3
"""First version of Produce with record batches (KIP-98) and with a transactional id."""

FLEXIBLE_SINCE: Mapping[int, int] = MappingProxyType(
    {Api.PRODUCE: 9, Api.FETCH: 12, Api.API_VERSIONS: 3, Api.SHARE_FETCH: 0}
)
"""First version with compact types (KIP-482) of each request that is parsed beyond its client id."""


def is_supported(api_key: int, version: int) -> bool:
    """Return whether a request of this version may be forwarded to a broker."""
    known = SUPPORTED_VERSIONS.get(api_key)
    return known is not None and known.first <= version <= known.last and (api_key, version) != RAW_SASL_HANDSHAKE
