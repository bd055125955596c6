"""ACL entries of a cluster: reading those of some principals, creating and deleting entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourceType
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from backend.domain.access.acls import Acl
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.protocol_client import ProtocolClient, refusal

_USER = "User:"
_CREATED_AT_ONCE = 1000
_DELETED_AT_ONCE = 100
"""Limited because a controller compares each filter with every entry that it has."""
_ANY = 1
"""ANY in all four of Kafka's enumerations."""

Fields = tuple[object, ...]


def _words(kind: Iterable[Any]) -> dict[int, str]:
    return {int(each): each.name.lower().replace("_", "-") for each in kind}


_RESOURCES, _PATTERNS = _words(ResourceType), _words(ACLResourcePatternType)
_OPERATIONS, _PERMISSIONS = _words(ACLOperation), _words(ACLPermissionType)
_KINDS = (_RESOURCES, _PATTERNS, _OPERATIONS, _PERMISSIONS)
_NUMBERS = tuple({word: number for number, word in kind.items()} for kind in _KINDS)


def entries(client: ProtocolClient, principals: Collection[str]) -> dict[str, frozenset[Acl]]:
    """Return all entries of these principals (without `User:`), in one request. Raises KafkaCallFailed."""
    answer = client.send(DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY))
    if answer.error_code:
        raise refusal(answer)
    ours = {_USER + principal: principal for principal in principals}
    found: dict[str, set[Acl]] = {}
    for resource in answer.resources:
        for each in resource.acls:
            if each.principal in ours and (acl := _acl(resource, each)) is not None:
                found.setdefault(ours[each.principal], set()).add(acl)
    return {principal: frozenset(acls) for principal, acls in found.items()}


def create(client: ProtocolClient, acls: Mapping[str, Iterable[Acl]]) -> dict[str, KafkaCallFailed]:
    """Create entries of principals; existing ones are no error. Return the principals that were refused.

    Raises KafkaCallFailed if there is no answer.
    """
    wanted = [(principal, _fields(principal, acl)) for principal, each in acls.items() for acl in each]
    refused: dict[str, KafkaCallFailed] = {}
    for some in _batches(wanted, _CREATED_AT_ONCE):
        answer = client.send(CreateAclsRequest([fields for _, fields in some]))
        refused |= _refused(some, answer.results)
    return refused


def delete(client: ProtocolClient, acls: Mapping[str, Iterable[Acl] | None]) -> dict[str, KafkaCallFailed]:
    """Delete exactly these entries of principals (None: all they have). Return the principals that were refused.

    Raises KafkaCallFailed if there is no answer.
    """
    filters: list[tuple[str, Fields]] = []
    for principal, each in acls.items():
        if each is None:
            filters.append((principal, (_ANY, None, _ANY, _USER + principal, None, _ANY, _ANY)))
        else:
            filters += [(principal, _fields(principal, acl)) for acl in each]
    refused: dict[str, KafkaCallFailed] = {}
    for some in _batches(filters, _DELETED_AT_ONCE):
        answer = client.send(DeleteAclsRequest([fields for _, fields in some]))
        refused |= _refused(some, answer.filter_results)
    return refused


def _batches(items: list[tuple[str, Fields]], size: int) -> Iterable[list[tuple[str, Fields]]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _refused(some: list[tuple[str, Fields]], results: Iterable[Any]) -> dict[str, KafkaCallFailed]:
    answered = zip(some, results, strict=True)
    return {principal: refusal(result) for (principal, _), result in answered if result.error_code}


def _acl(resource: Any, each: Any) -> Acl | None:
    """Parse an entry; None for a kind that is newer than this library."""
    numbers = (resource.resource_type, resource.pattern_type, each.operation, each.permission_type)
    words = [kind.get(number) for kind, number in zip(_KINDS, numbers, strict=True)]
    if None in words:
        return None
    of, pattern, operation, permission = map(str, words)
    return Acl(of, resource.resource_name, pattern, operation, each.host, permission)


def _fields(principal: str, acl: Acl) -> Fields:
    """Return an entry as both requests write it; in the delete request it is a filter for exactly this entry."""
    of, pattern, operation, permission = (
        numbers[word]
        for numbers, word in zip(_NUMBERS, (acl.resource, acl.pattern, acl.operation, acl.permission), strict=True)
    )
    return of, acl.name, pattern, _USER + principal, acl.host, operation, permission
