"""ACLs, SCRAM credentials and quotas of principals on one cluster: reading and changing them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from backend.domain.access.access_steps import ACLS, CREDENTIALS, PARTS, QUOTAS, ObservedAccess
from backend.domain.access.acls import Acl
from backend.kafka.admin import acl_entries, client_quotas, scram_users
from backend.kafka.admin.client_quotas import Rates
from backend.kafka.base.errors import KafkaCallFailed, LoginUnsupported
from backend.kafka.base.protocol_client import ProtocolClient

V = TypeVar("V")

_NOT_BY_SCRAM = "the control plane does not log in to the cluster by SCRAM"
_NOT_OFFERED = "the cluster does not offer this to clients"
_UNABLE = {
    31: "the cluster does not let the control plane do this; it needs Alter and Describe (for quotas also "
    "AlterConfigs and DescribeConfigs) on the cluster",
    33: _NOT_OFFERED,
    35: _NOT_OFFERED,
    44: "a policy of the cluster forbids it",
    54: "the cluster has no authorizer",
}
"""Reasons by Kafka's codes: CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_SASL_MECHANISM, UNSUPPORTED_VERSION,
POLICY_VIOLATION, SECURITY_DISABLED."""


def unable(error: KafkaCallFailed) -> str | None:
    """Return why the cluster will not do this for any principal; None for a failure of any other kind."""
    return None if error.code is None else _UNABLE.get(error.code)


class AccessAdmin:
    """Administration of one cluster's principals, with connections kept between polls. For one thread at a time.

    Changes are given by principal and return the refused ones. They raise KafkaCallFailed if the cluster does not
    answer, and must not be requested for parts that `observe` reported as impossible.
    """

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float) -> None:
        """Create the client without connecting. Raises KafkaCallFailed."""
        self._no_login: str | None = None
        try:
            self._client = ProtocolClient(bootstrap_servers, properties, timeout_seconds)
        except LoginUnsupported as error:
            self._no_login = error.reason
        mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", "")
        by_sasl = properties.get("security.protocol", "").upper().startswith("SASL")
        self._mechanism = mechanism if by_sasl and mechanism in scram_users.NUMBERS else None

    def close(self) -> None:
        """Close the connections."""
        if self._no_login is None:
            self._client.close()

    def observe(self, principals: Collection[str], kafka_cluster_id: str | None) -> ObservedAccess:
        """Return what these principals have, in four requests, whatever their number.

        Raises KafkaCallFailed, also if another Kafka cluster than the one of this id answers (None: any).
        """
        if self._no_login is not None:
            return ObservedAccess(cannot=dict.fromkeys(PARTS, self._no_login))
        found = self._client.cluster_id()
        if kafka_cluster_id not in (None, found):
            raise KafkaCallFailed(f"another Kafka cluster answers: {found} instead of {kafka_cluster_id}")
        cannot = {} if self._mechanism else {CREDENTIALS: _NOT_BY_SCRAM}

        def look(part: str, ask: Callable[[ProtocolClient, Collection[str]], Mapping[str, V]]) -> Mapping[str, V]:
            if part in cannot:
                return {}
            try:
                return ask(self._client, principals)
            except KafkaCallFailed as error:
                reason = unable(error)
                if reason is None:
                    raise
                cannot[part] = reason
                return {}

        return ObservedAccess(
            acls=look(ACLS, acl_entries.entries),
            credentials=look(CREDENTIALS, scram_users.credentials),
            quotas=look(QUOTAS, client_quotas.user_quotas),
            mechanism=self._mechanism,
            cannot=cannot,
        )

    def add_acls(self, acls: Mapping[str, Iterable[Acl]]) -> dict[str, KafkaCallFailed]:
        """Create ACL entries; existing ones are no error."""
        return acl_entries.create(self._client, acls)

    def remove_acls(self, acls: Mapping[str, Iterable[Acl] | None]) -> dict[str, KafkaCallFailed]:
        """Delete exactly these ACL entries; None deletes all entries of the principal."""
        return acl_entries.delete(self._client, acls)

    def set_credentials(self, passwords: Mapping[str, tuple[str, int, str]]) -> dict[str, KafkaCallFailed]:
        """Set SCRAM credentials: (mechanism, iterations, password)."""
        return scram_users.upsert(self._client, passwords)

    def remove_credentials(self, mechanisms: Mapping[str, Iterable[str]]) -> dict[str, KafkaCallFailed]:
        """Delete the SCRAM credentials of these mechanisms."""
        return scram_users.delete(self._client, mechanisms)

    def set_quotas(self, changes: Mapping[str, Rates]) -> dict[str, KafkaCallFailed]:
        """Set quotas by Kafka's names; None removes one."""
        return client_quotas.alter_user_quotas(self._client, changes)
