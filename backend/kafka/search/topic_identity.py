"""Check that a topic still is the one whose log is read.

A topic that is deleted and created anew keeps its name, and librdkafka reads on at the same offsets in the new log
without a word. Ids never return: if the id is the same after records were read, they are of that topic.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, kafka_error, sentence
from backend.kafka.search.topic_reader import TopicPlace


class TopicReplaced(KafkaCallFailed):
    """The topic was deleted, or deleted and created anew; `reason` says which."""


class TopicIdentity:
    """Id of a topic, and a client that asks for it; used by one thread.

    Raises KafkaCallFailed, and ClusterUnreachable for a secret that cannot be read or a forbidden address.
    """

    def __init__(self, place: TopicPlace, seconds: float, topic_id: str | None) -> None:
        """Open the client without connecting; without an id, the one that the first check finds is right."""
        self._topic, self._seconds, self._id = place.topic, seconds, topic_id
        try:
            self._admin = AdminClient(client_config(place.bootstrap_servers, place.properties))
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error

    def close(self) -> None:
        """Close the connections."""
        with self._admin:  # the only way to close one
            pass

    def check(self) -> None:
        """Raise TopicReplaced unless the topic still has the id."""
        found = self._found()
        if found is None:
            raise TopicReplaced(f"topic {self._topic} was deleted")
        self._id = self._id or found
        if found != self._id:
            raise TopicReplaced(f"topic {self._topic} was deleted and created anew")

    def _found(self) -> str | None:
        """Return the id that the topic has now; None if there is no topic of this name."""
        wanted = TopicCollection([self._topic])
        (answer,) = self._admin.describe_topics(wanted, request_timeout=self._seconds).values()
        try:
            return str(answer.result(self._seconds + 1).topic_id)
        except TimeoutError as error:
            raise KafkaCallFailed(f"no answer within {self._seconds:g} s") from error
        except KafkaException as error:
            inner = kafka_error(error)
            code = None if inner is None else inner.code()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise KafkaCallFailed(sentence(error), code) from error
