"""Everything that this package raises or reports of its own; one class for each failure, with typed facts."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


class ConfigurationRefused(ValueError):
    """A key is missing, unknown, or not for this client; the message names it and never shows a secret."""


class DiscoveryRefused(Exception):
    """The control plane refused this client at its start: unknown names, or a token without the right.

    `status` is HTTP's, `detail` what the control plane says about it.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"discovery was refused ({status}): {detail}")
        self.status = status
        self.detail = detail


class DiscoveryUnavailable(Exception):
    """No control plane could be asked.

    `may_have_arrived` says whether the request may have reached it all the same: a refused connection did not,
    a time-out or a reset may have. At a client's start: there was no cached answer to go on with either.
    """

    def __init__(self, detail: str, may_have_arrived: bool) -> None:
        super().__init__(detail)
        self.detail = detail
        self.may_have_arrived = may_have_arrived


class ClientClosed(RuntimeError):
    """The client was closed and takes no further calls."""


class StaleGeneration(KafkaException):
    """Offsets of an earlier generation were to be committed: not done, and not needed, since Treeline carries the
    group's progress over. Its KafkaError has the code ILLEGAL_GENERATION, and asks for an abort in a transaction.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(KafkaError(KafkaError.ILLEGAL_GENERATION, detail, False, False, True))


class TransactionAbortedBySwitch(KafkaException):
    """The transaction was open when the clients were moved and is aborted: nothing of it can be read anywhere.

    Call `abort_transaction()`, then begin again and send the same records. `outcome_unknown` is true where an
    emergency came while the commit was under way: then it may have been committed on the cluster that is gone.
    """

    def __init__(self, detail: str, outcome_unknown: bool = False) -> None:
        super().__init__(KafkaError(KafkaError.TRANSACTION_ABORTABLE, detail, False, False, True))
        self.outcome_unknown = outcome_unknown


class OutcomeUnknown(KafkaError):
    """A delivery report's error: the record was on its way when its cluster was given up in an emergency.

    It may stand in that cluster's log, and will then arrive everywhere when the cluster returns. Its code is
    _PURGE_INFLIGHT. `treeline.unknown.outcome = resend` sends such records again instead of reporting them.
    """

    def __init__(self, cluster: str) -> None:
        super().__init__(
            KafkaError._PURGE_INFLIGHT,
            f"the record may exist on {cluster}, which was given up while the record was on its way, and may"
            " arrive when that cluster returns",
        )
        self.cluster = cluster
