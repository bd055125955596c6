"""What principals have on one cluster: ACLs, SCRAM credentials, quotas; seeing them and changing them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from backend.domain.access_steps import ACLS, CREDENTIALS, QUOTAS, SeenAccess
from backend.domain.acls import Acl
from backend.kafka import client_quotas, identity
from backend.kafka.client_config import client_config, resolve
from backend.kafka.client_quotas import Rates
from backend.kafka.errors import KafkaCallFailed, PartUnsupported, kafka_error, sentence
from backend.kafka.probe import ConnectionReasons
from backend.kafka.protocol_client import ProtocolClient

K = TypeVar("K")

_ACLS_AT_ONCE = 1000
_USERS_AT_ONCE = 50
"""Of new credentials: librdkafka salts the passwords one by one, some 10 ms each, within the request's time."""
_WORDS: dict[object, str] = {
    each: each.name.lower().replace("_", "-")
    for kind in (ResourceType, ResourcePatternType, AclOperation, AclPermissionType)
    for each in kind
}
_WORDS[ResourceType.BROKER] = "cluster"  # librdkafka's name for it
_RESOURCES = {_WORDS[each]: each for each in ResourceType}
_PATTERNS = {_WORDS[each]: each for each in ResourcePatternType}
_OPERATIONS = {_WORDS[each]: each for each in AclOperation}
_PERMISSIONS = {_WORDS[each]: each for each in AclPermissionType}
_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_MECHANISM_NAMES = {each: name for name, each in _MECHANISMS.items()}
_USER = "User:"
_UNABLE = {
    KafkaError.SECURITY_DISABLED: "the cluster has no authorizer",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the cluster does not let the control plane do this; it needs Alter "
    "and Describe (for quotas also AlterConfigs and DescribeConfigs) on the cluster",
    KafkaError.UNSUPPORTED_VERSION: "the cluster does not offer this to clients",
    KafkaError._UNSUPPORTED_FEATURE: "the cluster does not offer this to clients",
    KafkaError.POLICY_VIOLATION: "a policy of the cluster forbids it",
}


def unable(error: KafkaCallFailed) -> str | None:
    """Why the cluster will not do this, whoever it is for; None for a failure of any other kind."""
    return _UNABLE.get(error.code) if error.code is not None else None


class AccessAdmin:
    """Administrative clients of one cluster, kept open between looks. Not for several threads at once."""

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float) -> None:
        """Connects to nothing yet. Raises KafkaCallFailed."""
        self._timeout = timeout_seconds
        self._reasons = ConnectionReasons()
        try:
            self._admin = AdminClient(client_config(bootstrap_servers, properties, error_cb=self._reasons))
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(f"the client refuses its configuration: {sentence(error)}") from error
        self._quotas: ProtocolClient | str
        try:
            self._quotas = ProtocolClient(bootstrap_servers, properties, timeout_seconds)
        except (PartUnsupported, KafkaCallFailed) as error:
            self._quotas = error.reason
        protocol = resolve(properties.get("security.protocol", "")).upper()
        named = resolve(properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", ""))
        self._mechanism = named if protocol.startswith("SASL") and named in _MECHANISMS else None

    def close(self) -> None:
        """End the connections that do not end by themselves."""
        if isinstance(self._quotas, ProtocolClient):
            self._quotas.close()

    def observe(self, principals: Collection[str], kafka_cluster_id: str | None) -> SeenAccess:
        """What these principals have; four requests, whatever their number.

        Raises KafkaCallFailed, also if it is another Kafka cluster than the one of this id (None: any).
        """
        self._check_identity(kafka_cluster_id)
        ours, cannot = frozenset(principals), dict[str, str]()

        def look(part: str, ask: Callable[[], Mapping[str, K]]) -> Mapping[str, K]:
            try:
                return ask()
            except PartUnsupported as error:
                cannot[part] = error.reason
            except KafkaCallFailed as error:
                reason = unable(error)
                if reason is None:
                    raise
                cannot[part] = reason
            return {}

        return SeenAccess(
            acls=look(ACLS, lambda: self._acls(ours)),
            credentials=look(CREDENTIALS, lambda: self._credentials(ours)),
            quotas=look(QUOTAS, lambda: client_quotas.user_quotas(self._quota_client(), ours)),
            mechanism=self._mechanism,
            cannot=cannot,
        )

    def _check_identity(self, kafka_cluster_id: str | None) -> None:
        try:
            other = identity.stranger(self._admin, kafka_cluster_id, self._timeout)
        except KafkaException as error:
            raise KafkaCallFailed(self._reasons.last or sentence(error)) from error
        if other is not None:
            raise KafkaCallFailed(f"another Kafka cluster answers: {other}")

    def _acls(self, ours: frozenset[str]) -> dict[str, frozenset[Acl]]:
        everything = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]
            ResourcePatternType.ANY,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        found: dict[str, set[Acl]] = {}
        for binding in self._wait(self._admin.describe_acls(everything, request_timeout=self._timeout)):
            principal = binding.principal.removeprefix(_USER)
            if principal in ours and binding.principal != principal and (acl := _acl(binding)) is not None:
                found.setdefault(principal, set()).add(acl)
        return {principal: frozenset(acls) for principal, acls in found.items()}

    def _credentials(self, ours: frozenset[str]) -> dict[str, dict[str, int]]:
        if self._mechanism is None:
            raise PartUnsupported("the control plane does not log in to the cluster by SCRAM")
        asked = self._admin.describe_user_scram_credentials(request_timeout=self._timeout)
        assert isinstance(asked, Future)  # one for all users, since none is named
        users = self._wait(asked)
        return {
            user: {_MECHANISM_NAMES[info.mechanism]: info.iterations for info in found.scram_credential_infos}
            for user, found in users.items()
            if user in ours
        }

    def add_acls(self, acls: Mapping[str, Iterable[Acl]]) -> dict[str, KafkaCallFailed]:
        """Create entries of principals, also where they are there already; the principals that were refused."""
        bindings = {_binding(principal, acl): principal for principal, each in acls.items() for acl in each}
        return self._each(
            list(bindings),
            _ACLS_AT_ONCE,
            lambda some: self._admin.create_acls(some, request_timeout=self._timeout),
            bindings.__getitem__,
        )

    def remove_acls(self, acls: Mapping[str, Iterable[Acl]]) -> dict[str, KafkaCallFailed]:
        """Delete just these entries of principals; the principals that were refused."""
        filters = {
            AclBindingFilter(*_binding(principal, acl)._to_tuple()): principal
            for principal, each in acls.items()
            for acl in each
        }
        return self._each(
            list(filters),
            _ACLS_AT_ONCE,
            lambda some: self._admin.delete_acls(some, request_timeout=self._timeout),
            filters.__getitem__,
        )

    def set_credentials(self, passwords: Mapping[str, tuple[str, int, str]]) -> dict[str, KafkaCallFailed]:
        """Set SCRAM credentials: principal -> (mechanism, iterations, password); those that were refused."""
        return self._alter_credentials(
            [
                UserScramCredentialUpsertion(
                    principal, ScramCredentialInfo(_MECHANISMS[mechanism], iterations), password.encode()
                )
                for principal, (mechanism, iterations, password) in passwords.items()
            ]
        )

    def remove_credentials(self, mechanisms: Mapping[str, Iterable[str]]) -> dict[str, KafkaCallFailed]:
        """Delete SCRAM credentials: principal -> mechanisms; the principals that were refused."""
        return self._alter_credentials(
            [
                UserScramCredentialDeletion(principal, _MECHANISMS[mechanism])
                for principal, each in mechanisms.items()
                for mechanism in each
            ]
        )

    def _alter_credentials(
        self, alterations: Sequence[UserScramCredentialAlteration]
    ) -> dict[str, KafkaCallFailed]:
        return self._each(
            alterations,
            _USERS_AT_ONCE,
            lambda some: self._admin.alter_user_scram_credentials(some, request_timeout=self._timeout),
            lambda user: user,
            fine=KafkaError.RESOURCE_NOT_FOUND,
        )

    def set_quotas(self, changes: Mapping[str, Rates]) -> dict[str, KafkaCallFailed]:
        """Set quotas of users, take away those that are None; the principals that were refused.

        Raises KafkaCallFailed without an answer, PartUnsupported if `observe` said so.
        """
        return client_quotas.alter_user_quotas(self._quota_client(), changes)

    def _quota_client(self) -> ProtocolClient:
        if isinstance(self._quotas, str):
            raise PartUnsupported(self._quotas)
        return self._quotas

    def _each(
        self,
        items: Sequence[Any],
        at_once: int,
        call: Callable[[list[Any]], Mapping[Any, Future[Any]]],
        principal: Callable[[Any], str],
        fine: int | None = None,
    ) -> dict[str, KafkaCallFailed]:
        """Call for some items at a time; the principals of those that the cluster refused.

        Raises KafkaCallFailed if it does not answer.
        """
        failed: dict[str, KafkaCallFailed] = {}
        for first in range(0, len(items), at_once):
            for item, future in call(list(items[first : first + at_once])).items():
                try:
                    self._wait(future)
                except KafkaCallFailed as error:
                    if error.code is None or (error.code < 0 and unable(error) is None):
                        # Not an answer: the others would wait in vain too.
                        raise
                    if error.code != fine:
                        failed[principal(item)] = error
        return failed

    def _wait(self, future: Future[Any]) -> Any:
        try:
            found = future.result(self._timeout + 1)
        except (KafkaException, TimeoutError) as error:
            inner = kafka_error(error)
            reason = (self._reasons.last if inner is None else None) or sentence(error)
            raise KafkaCallFailed(reason, inner.code() if inner else None) from error
        self._reasons.forget()
        return found


def _acl(binding: AclBinding) -> Acl | None:
    """None for an entry about what librdkafka does not know: delegation tokens, users."""
    words = [
        _WORDS[each]
        for each in (binding.restype, binding.resource_pattern_type, binding.operation, binding.permission_type)
    ]
    if "unknown" in words:
        return None
    resource, pattern, operation, permission = words
    return Acl(resource, binding.name, pattern, operation, binding.host, permission)


def _binding(principal: str, acl: Acl) -> AclBinding:
    return AclBinding(
        _RESOURCES[acl.resource],
        acl.name,
        _PATTERNS[acl.pattern],
        _USER + principal,
        acl.host,
        _OPERATIONS[acl.operation],
        _PERMISSIONS[acl.permission],
    )
