"""Errors that this package raises or reports; one class for each failure, with typed facts."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


class ConfigurationRefused(ValueError):
    """A key is missing, unknown, or not allowed; the message names it and never shows a secret."""


class DiscoveryRefused(Exception):
    """The control plane refused this client at its start: unknown names, or a token without the permission.

    `status` is the HTTP status, `detail` the control plane's explanation.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"discovery was refused ({status}): {detail}")
        self.status = status
        self.detail = detail


class DiscoveryUnavailable(Exception):
    """No control plane answered; at a client's start, there was no cached answer either.

    `may_have_arrived` is True if the request may have reached it nevertheless: after a timeout or a reset, but not
    after a refused connection.
    """

    def __init__(self, detail: str, may_have_arrived: bool) -> None:
        super().__init__(detail)
        self.detail = detail
        self.may_have_arrived = may_have_arrived


class ClientClosed(RuntimeError):
    """The client was closed and takes no further calls."""


class StaleGeneration(KafkaException):
    """Offsets of an earlier generation were refused and not committed.

    The commit is not needed, since Treeline translates the group's progress. The KafkaError has the code
    ILLEGAL_GENERATION, and in a transaction it requires an abort.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(KafkaError(KafkaError.ILLEGAL_GENERATION, detail, False, False, True))


class TransactionAbortedBySwitch(KafkaException):
    """The transaction was open when clients were moved, and was aborted; none of its records can be read anywhere.

    Call `abort_transaction()`, then begin again and send the same records. `outcome_unknown` is True if an
    emergency interrupted the commit: the transaction may have been committed on the cluster that is down.
    """

    def __init__(self, detail: str, outcome_unknown: bool = False) -> None:
        super().__init__(KafkaError(KafkaError.TRANSACTION_ABORTABLE, detail, False, False, True))
        self.outcome_unknown = outcome_unknown


class OutcomeUnknown(KafkaError):
    """Error of a delivery report: the record was in flight when its cluster was given up in an emergency.

    It may be in that cluster's log, and then arrives everywhere when the cluster returns. Its code is
    _PURGE_INFLIGHT. `treeline.unknown.outcome = resend` sends such records again instead of reporting them.
    """

    def __init__(self, cluster: str) -> None:
        super().__init__(
            KafkaError._PURGE_INFLIGHT,
            f"the record may exist on {cluster}, which was given up while the record was in flight, and may arrive"
            " when that cluster returns",
        )
        self.cluster = cluster
