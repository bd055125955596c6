"""Failures of a cluster as the domain's errors, with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from backend.domain.base.errors import ClusterSilent, ClusterUnreachable, FieldError, NotFound, StateConflict
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search.message_reading import OffsetOutside
from backend.kafka.search.topic_identity import TopicReplaced
from backend.messages.facts import MessageFacts


@contextmanager
def reading_failures(facts: MessageFacts) -> Iterator[None]:
    """Raise the domain's errors in place of those of the cluster."""
    try:
        yield
    except OffsetOutside as error:
        there = f"{facts.stream}, partition {error.partition} on {facts.cluster}"
        has = f"has offsets {error.low} to {error.high - 1}" if error.high > error.low else "is empty"
        said = f"{there} {has}: there is no offset {error.offset}"
        raise NotFound(said, (FieldError("/from", said),)) from error
    except TopicReplaced as error:
        again = "offsets begin again, so follow new messages once more in a few seconds"
        raise StateConflict(f"{error.reason} on {facts.cluster}: {again}") from error
    except KafkaCallFailed as error:
        does = "refuses to be read" if error.is_lasting else "does not answer"
        raise ClusterSilent(f"{facts.cluster} {does}: {error.reason}") from error
    except ClusterUnreachable as error:
        # For example a secret that cannot be read, named by its reference.
        raise ClusterSilent(f"{facts.cluster} cannot be reached: {error.detail}") from error
