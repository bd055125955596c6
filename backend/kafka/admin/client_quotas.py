"""Client quotas of a cluster's users (KIP-546): reading, setting and removing them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.protocol_client import ProtocolClient, refusal

KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
"""Keys in bytes a second, bytes a second, percent of a broker's threads. Other keys of a user are not managed."""
_ANY_NAME = 2  # match type of a user, whichever
_USERS_AT_ONCE = 500

Rates = Mapping[str, float | None]


def user_quotas(client: ProtocolClient, users: Collection[str]) -> dict[str, dict[str, float]]:
    """Return the quotas (key -> value) of those of these users that have their own, in one request.

    Quotas set for a user together with a client id are not included. Raises KafkaCallFailed.
    """
    request = DescribeClientQuotasRequest(components=[("user", _ANY_NAME, None)], strict=True)
    answer = client.send(request)
    if answer.error_code:
        raise refusal(answer)
    wanted, found = frozenset(users), dict[str, dict[str, float]]()
    for entry in answer.entries or ():
        name = entry.entity[0].entity_name
        values = {each.key: each.value for each in entry.values if each.key in KEYS}
        if name in wanted and values:
            found[name] = values
    return found


def alter_user_quotas(client: ProtocolClient, changes: Mapping[str, Rates]) -> dict[str, KafkaCallFailed]:
    """Set these keys of users; None removes one. Return the users that were refused.

    Raises KafkaCallFailed if there is no answer.
    """
    refused: dict[str, KafkaCallFailed] = {}
    users = sorted(changes)
    for first in range(0, len(users), _USERS_AT_ONCE):
        some = users[first : first + _USERS_AT_ONCE]
        answer = client.send(AlterClientQuotasRequest(entries=_entries(some, changes), validate_only=False))
        for entry in answer.entries:
            if entry.error_code:
                refused[entry.entity[0].entity_name] = refusal(entry)
    return refused


def _entries(users: Iterable[str], changes: Mapping[str, Rates]) -> list[tuple[object, ...]]:
    return [
        ([("user", user)], [(key, 0.0 if value is None else value, value is None) for key, value in rates.items()])
        for user in users
        if (rates := changes[user])
    ]
