"""SCRAM credentials of a cluster's users (KIP-554): reading, setting and deleting them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.protocol_client import ProtocolClient, refusal

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES = {number: name for name, number in NUMBERS.items()}
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SALT_BYTES = 24
_AT_ONCE = 50
"""Users of a request; each costs some 10 ms of hashing."""
_RESOURCE_NOT_FOUND = 91


def credentials(client: ProtocolClient, users: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the credentials (mechanism -> iterations) of those of these users that have any, in one request.

    Raises KafkaCallFailed.
    """
    # An empty list means all users. Null does, too, but a 4.1 broker that has to refuse it does not answer at all.
    answer = client.send(DescribeUserScramCredentialsRequest([]))
    if answer.error_code:
        raise refusal(answer)
    wanted = frozenset(users)
    return {
        each.user: {
            _NAMES[info.mechanism]: info.iterations for info in each.credential_infos if info.mechanism in _NAMES
        }
        for each in answer.results
        if each.user in wanted and not each.error_code
    }


def upsert(client: ProtocolClient, passwords: Mapping[str, tuple[str, int, str]]) -> dict[str, KafkaCallFailed]:
    """Set credentials: user -> (mechanism, iterations, password). Return the users that were refused.

    Passwords are ASCII, which SASLprep leaves unchanged; only their salted form leaves this process (RFC 5802, 3).
    Raises KafkaCallFailed if there is no answer.
    """
    refused: dict[str, KafkaCallFailed] = {}
    users = sorted(passwords)
    for first in range(0, len(users), _AT_ONCE):
        some = users[first : first + _AT_ONCE]
        refused |= _alter(client, [], [_salted(user, *passwords[user]) for user in some])
    return refused


def delete(client: ProtocolClient, mechanisms: Mapping[str, Iterable[str]]) -> dict[str, KafkaCallFailed]:
    """Delete credentials: user -> mechanisms; missing ones are no error. Return the users that were refused.

    Raises KafkaCallFailed if there is no answer.
    """
    deletions = [(user, NUMBERS[mechanism]) for user, each in mechanisms.items() for mechanism in each]
    return _alter(client, deletions, [])


def _salted(user: str, mechanism: str, iterations: int, password: str) -> tuple[object, ...]:
    salt = os.urandom(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode("ascii"), salt, iterations)
    return user, NUMBERS[mechanism], iterations, salt, salted


def _alter(
    client: ProtocolClient, deletions: Sequence[Any], upsertions: Sequence[Any]
) -> dict[str, KafkaCallFailed]:
    answer = client.send(AlterUserScramCredentialsRequest(deletions, upsertions))
    fine = (0, _RESOURCE_NOT_FOUND)
    return {result.user: refusal(result) for result in answer.results if result.error_code not in fine}
