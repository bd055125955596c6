"""Translation of Kafka's failures into our exceptions, once at the edge."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


class CopyFailed(Exception):
    """A distributor's session has ended; the next one starts from what the target holds.

    `fenced`: another holder has taken over, or a barrier was passed; `refused`: the target will never accept one
    of the records.
    """

    def __init__(self, detail: str, *, fenced: bool = False, refused: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fenced = fenced
        self.refused = refused


class KafkaCallFailed(Exception):
    """A cluster refused an administrative call or did not answer; `code` is Kafka's, if it gave one."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code

    @property
    def is_lasting(self) -> bool:
        """Return whether the call fails again until the cluster or the rights there are changed."""
        return self.code in _NOT_ALLOWED


_NOT_ALLOWED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class OffsetsPending(KafkaCallFailed):
    """A transaction that commits a group's offsets has not ended, so the offsets are not known yet."""


class LoginUnsupported(Exception):
    """A client does not support the login that a cluster's properties require; `reason` is for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HeaderNameUnreadable(KafkaException):
    """A record has a header name that is not UTF-8, which a client in Python can neither read nor write."""


_REFUSALS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "it is larger than the topic's max.message.bytes there",
    KafkaError.RECORD_LIST_TOO_LARGE: "it is larger than the topic's segments there",
    KafkaError.INVALID_TIMESTAMP: "its timestamp is further from the broker's clock than is allowed there",
    KafkaError.INVALID_RECORD: "the broker calls it invalid (a compacted topic takes no record without a key)",
}
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


def kafka_error(error: BaseException) -> KafkaError | None:
    """Return the KafkaError inside an exception of confluent-kafka."""
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return error.args[0]
    return None


def sentence(error: BaseException) -> str:
    """Return the failure in librdkafka's words, without its class names."""
    inner = kafka_error(error)
    return str(inner.str() if inner else error)


def copy_failed(where: str, error: BaseException) -> CopyFailed:
    """Return the failure of a distributor's step; `where` names the step and the cluster."""
    inner = kafka_error(error)
    return CopyFailed(
        f"{where}: {sentence(error)}",
        fenced=inner is not None and inner.code() in _FENCED,
        refused=refusal(error) is not None,
    )


def refusal(error: BaseException) -> str | None:
    """Return why a target will never get a record as it is; None for a failure of any other kind."""
    if isinstance(error, HeaderNameUnreadable):
        return "the name of a header is not UTF-8, and only the record loop in C can write it"
    inner = kafka_error(error)
    return None if inner is None else _REFUSALS.get(inner.code())
