"""Requests about many groups at once that kafka-python has no classes for; JSON files define their fields.

KIP-848 (groups of the new protocol) and KIP-932 (share groups).
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Request for the members of groups of the protocol of KIP-848."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Response to ConsumerGroupDescribeRequest."""


class ShareGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Request for the members of share groups."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Response to ShareGroupDescribeRequest."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Request for the offsets at which share groups continue."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Response to DescribeShareGroupOffsetsRequest."""
