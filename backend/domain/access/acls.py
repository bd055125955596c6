"""ACLs of an application on a cluster: the least that a stock Kafka client needs.

A producer needs `write` on its topics; idempotence comes with it (KIP-679). A transactional producer also needs
`write` on its transactional ids and, to send offsets to the transaction, `read` on its group and on the topics of
these offsets. A consumer needs `read` on topics and groups. Kafka's own authorizer implies `describe` with each of
them; it is written out as `kafka-acls --producer --consumer` does, since not every authorizer implies it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TOPIC = "topic"
GROUP = "group"
TRANSACTIONAL_ID = "transactional-id"
LITERAL = "literal"
PREFIXED = "prefixed"
READ = "read"
WRITE = "write"
DESCRIBE = "describe"
EVERY_HOST = "*"
ALLOW = "allow"


@dataclass(frozen=True, order=True)
class Acl:
    """One access control entry of one principal. Words are Kafka's, in lower case, with - instead of _."""

    resource: str
    """topic, group or transactional-id; in entries that others made also cluster, user, …."""
    name: str
    pattern: str
    """literal or prefixed."""
    operation: str
    host: str = EVERY_HOST
    permission: str = ALLOW
    """allow; in entries that others made also deny."""


def acls_of(
    produces: Iterable[str], consumes: Iterable[str], groups: Iterable[str], transactional_prefix: str | None
) -> frozenset[Acl]:
    """Return the ACLs that an application needs on one cluster; all names are technical names.

    `transactional_prefix`: what its transactional ids start with, None if it may have none.
    """
    consumed = frozenset(consumes)
    needed = {Acl(TOPIC, topic, LITERAL, operation) for topic in produces for operation in (WRITE, DESCRIBE)}
    needed |= {Acl(TOPIC, topic, LITERAL, operation) for topic in consumed for operation in (READ, DESCRIBE)}
    if consumed:
        # Without a topic to read from, a group is of no use.
        needed |= {Acl(GROUP, group, LITERAL, operation) for group in groups for operation in (READ, DESCRIBE)}
    if transactional_prefix is not None:
        needed |= {
            Acl(TRANSACTIONAL_ID, transactional_prefix, PREFIXED, operation) for operation in (WRITE, DESCRIBE)
        }
    return frozenset(needed)


def text(acl: Acl) -> str:
    """Describe an entry: `topic acme-retail-prod-orders: write`; a prefix ends in `*`."""
    name = f"{acl.name}*" if acl.pattern == PREFIXED else acl.name
    host = "" if acl.host == EVERY_HOST else f" from {acl.host}"
    permission = "" if acl.permission == ALLOW else f" ({acl.permission})"
    return f"{acl.resource} {name}: {acl.operation}{host}{permission}"
