"""The requests that a gateway passes on, and up to which version it knows that their answers tell no address but
where `endpoints` moves it.

A broker that is newer speaks versions that nobody has looked at: clients are not told of them. Requests that only
brokers and controllers send each other are not told of either. Source: the message definitions of Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple


class Api(IntEnum):
    """Requests that the gateway knows more of than their number."""

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
    """The first and the last that are passed on."""

    first: int
    last: int


PASSED_ON: Mapping[int, Versions] = MappingProxyType(
    {
        Api.PRODUCE: Versions(3, 13),
        Api.FETCH: Versions(4, 18),
        Api.LIST_OFFSETS: Versions(1, 10),  # its version 11 is not there in Kafka 4.1
        Api.METADATA: Versions(0, 13),
        8: Versions(2, 10),  # OffsetCommit
        9: Versions(1, 10),  # OffsetFetch
        Api.FIND_COORDINATOR: Versions(0, 6),
        11: Versions(0, 9),  # JoinGroup
        12: Versions(0, 4),  # Heartbeat
        13: Versions(0, 5),  # LeaveGroup
        14: Versions(0, 5),  # SyncGroup
        15: Versions(0, 6),  # DescribeGroups
        16: Versions(0, 5),  # ListGroups
        # After a handshake of version 0 tokens come without Kafka's headers: nothing could be told from them.
        Api.SASL_HANDSHAKE: Versions(1, 1),
        Api.API_VERSIONS: Versions(0, 4),
        19: Versions(2, 7),  # CreateTopics
        20: Versions(1, 6),  # DeleteTopics
        21: Versions(0, 2),  # DeleteRecords
        22: Versions(0, 6),  # InitProducerId
        Api.OFFSET_FOR_LEADER_EPOCH: Versions(2, 4),
        24: Versions(0, 5),  # AddPartitionsToTxn
        25: Versions(0, 4),  # AddOffsetsToTxn
        26: Versions(0, 5),  # EndTxn
        27: Versions(1, 1),  # WriteTxnMarkers, by which an operator ends a transaction
        28: Versions(0, 5),  # TxnOffsetCommit
        29: Versions(1, 3),  # DescribeAcls
        30: Versions(1, 3),  # CreateAcls
        31: Versions(1, 3),  # DeleteAcls
        32: Versions(1, 4),  # DescribeConfigs
        33: Versions(0, 2),  # AlterConfigs
        34: Versions(1, 2),  # AlterReplicaLogDirs
        35: Versions(1, 4),  # DescribeLogDirs
        36: Versions(0, 2),  # SaslAuthenticate
        37: Versions(0, 3),  # CreatePartitions
        38: Versions(1, 3),  # CreateDelegationToken
        39: Versions(1, 2),  # RenewDelegationToken
        40: Versions(1, 2),  # ExpireDelegationToken
        41: Versions(1, 3),  # DescribeDelegationToken
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
        55: Versions(0, 2),  # DescribeQuorum; of controllers, to which clients do not go
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
        76: Versions(1, 1),  # ShareGroupHeartbeat
        77: Versions(1, 1),  # ShareGroupDescribe
        Api.SHARE_FETCH: Versions(1, 1),
        Api.SHARE_ACKNOWLEDGE: Versions(1, 1),
        80: Versions(0, 0),  # AddRaftVoter
        81: Versions(0, 0),  # RemoveRaftVoter
        88: Versions(0, 0),  # StreamsGroupHeartbeat; its endpoints are those of applications
        89: Versions(0, 0),  # StreamsGroupDescribe
        90: Versions(0, 0),  # DescribeShareGroupOffsets
        91: Versions(0, 0),  # AlterShareGroupOffsets
        92: Versions(0, 0),  # DeleteShareGroupOffsets
    }
)
"""By api key."""

FLEXIBLE_SINCE: Mapping[int, int] = MappingProxyType(
    {Api.PRODUCE: 9, Api.FETCH: 12, Api.API_VERSIONS: 3, Api.SHARE_FETCH: 0}
)
"""Of requests that are looked into beyond the client's name: the first version with compact types (KIP-482)."""


def is_passed_on(api_key: int, version: int) -> bool:
    known = PASSED_ON.get(api_key)
    return known is not None and known.first <= version <= known.last
