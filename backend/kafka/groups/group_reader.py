"""Committed offsets of groups, requested through a consumer's handle.

`AdminClient.list_consumer_group_offsets` sends the same request, but a broker that answers NOT_COORDINATOR (as
each does while it starts, or while a coordinator moves) then kills the process: librdkafka looks up the group of
the requesting client, and an admin client has none (librdkafka issue 5040, open in 2.16). A consumer has one.
confluent-kafka's consumer does not offer the request, so librdkafka's public functions are called directly. The
handle that they need is the first field of confluent-kafka's private structure: with an untested version,
`consumer_per_group` reads the offsets instead.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, cimpl

from backend.kafka.base.confluent_version import LAYOUT_KNOWN_OF
from backend.kafka.base.requests import Place
from backend.kafka.groups import consumer_per_group
from backend.kafka.groups.committed import Committed

TESTED_VERSIONS = frozenset({LAYOUT_KNOWN_OF})
"""Versions of confluent-kafka whose clients begin as `_Handle` says; tests/kafka/base/test_group_reader.py."""
_GROUP = "_treeline-reader"
"""Group id of consumers opened only for these requests; they join nothing and commit nothing."""
_LIST_CONSUMER_GROUP_OFFSETS = 14
_CONSUMER = 1
_PATIENCE_SECONDS = 1.0
MOVING = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
"""Errors returned while a group's coordinator moves or starts."""


class GroupReader(Consumer):
    """A consumer through which offsets of any group are requested. `config` opens others of its kind."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(dict(config))
        self.config = config


class _Part(ctypes.Structure):
    """rd_kafka_topic_partition_t of librdkafka."""

    _fields_ = (
        ("topic", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", ctypes.c_void_p),
        ("metadata_size", ctypes.c_size_t),
        ("opaque", ctypes.c_void_p),
        ("err", ctypes.c_int),
        ("private", ctypes.c_void_p),
    )


class _Parts(ctypes.Structure):
    """rd_kafka_topic_partition_list_t of librdkafka."""

    _fields_ = (("cnt", ctypes.c_int), ("size", ctypes.c_int), ("elems", ctypes.POINTER(_Part)))


class _Handle(ctypes.Structure):
    """First fields of confluent-kafka's client objects: PyObject_HEAD, rd_kafka_t *rk."""

    _fields_ = (("head", ctypes.c_byte * object.__basicsize__), ("rk", ctypes.c_void_p))


@cache
def _library() -> Any:
    """Return the librdkafka that confluent-kafka has loaded."""
    found = ctypes.CDLL(cimpl.__file__)
    pointer, text, size, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "type": (number, (pointer,)),
        "queue_new": (pointer, (pointer,)),
        "queue_destroy": (None, (pointer,)),
        "queue_poll": (pointer, (pointer, number)),
        "event_destroy": (None, (pointer,)),
        "event_error": (number, (pointer,)),
        "event_error_string": (text, (pointer,)),
        "event_ListConsumerGroupOffsets_result": (pointer, (pointer,)),
        "AdminOptions_new": (pointer, (pointer, number)),
        "AdminOptions_destroy": (None, (pointer,)),
        "AdminOptions_set_request_timeout": (number, (pointer, number, text, size)),
        "AdminOptions_set_require_stable_offsets": (pointer, (pointer, number)),
        "ListConsumerGroupOffsets": (None, (pointer, ctypes.POINTER(pointer), size, pointer, pointer)),
        "ListConsumerGroupOffsets_new": (pointer, (text, ctypes.POINTER(_Parts))),
        "ListConsumerGroupOffsets_destroy": (None, (pointer,)),
        "ListConsumerGroupOffsets_result_groups": (ctypes.POINTER(pointer), (pointer, ctypes.POINTER(size))),
        "group_result_error": (pointer, (pointer,)),
        "group_result_partitions": (ctypes.POINTER(_Parts), (pointer,)),
        "error_code": (number, (pointer,)),
        "error_string": (text, (pointer,)),
        "topic_partition_list_new": (ctypes.POINTER(_Parts), (number,)),
        "topic_partition_list_add": (ctypes.POINTER(_Part), (ctypes.POINTER(_Parts), text, ctypes.c_int32)),
        "topic_partition_list_destroy": (None, (ctypes.POINTER(_Parts),)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(found, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return found


@cache
def _is_tested() -> bool:
    """Tell whether the installed confluent-kafka is one that was tested; log once if not."""
    version = metadata.version("confluent-kafka")
    if version not in TESTED_VERSIONS:
        structlog.get_logger("group-reader").warning(
            "committed offsets are read with one consumer for each group",
            reason=f"confluent-kafka {version} was not tested; tested: {', '.join(sorted(TESTED_VERSIONS))}",
        )
    return version in TESTED_VERSIONS


def open_consumer(config: Mapping[str, Any]) -> GroupReader:
    """Open a reader with what `client_config` gives. Raises KafkaException, ValueError."""
    return GroupReader({**config, "group.id": _GROUP, "enable.auto.commit": False})


def request_offsets(
    consumer: GroupReader,
    wanted: Mapping[str, Iterable[Place] | None],
    timeout_seconds: float,
    *,
    require_stable: bool = False,
) -> dict[str, Sequence[Committed] | KafkaError]:
    """Return group -> its committed offsets for these partitions (None: all), or the error.

    `consumer` must have a group id and be open; offsets of any group may be requested. With `require_stable` a
    partition whose offset is pending in a transaction has the code UNSTABLE_OFFSET_COMMIT. Raises KafkaException
    if the client is closed or no consumer.
    """
    if not _is_tested():
        return consumer_per_group.read(consumer.config, wanted, timeout_seconds, require_stable=require_stable)
    lib = _library()
    handle = _Handle.from_address(id(consumer)).rk
    if not handle or lib.rd_kafka_type(handle) != _CONSUMER:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "group offsets are requested through a consumer"))
    options = lib.rd_kafka_AdminOptions_new(handle, _LIST_CONSUMER_GROUP_OFFSETS)
    queues: dict[str, int] = {}
    try:
        problem = ctypes.create_string_buffer(256)
        milliseconds = max(1, int(timeout_seconds * 1000))
        lib.rd_kafka_AdminOptions_set_request_timeout(options, milliseconds, problem, len(problem))
        lib.rd_kafka_AdminOptions_set_require_stable_offsets(options, int(require_stable))
        for group, places in wanted.items():
            # A queue for each group, since answers come in any order and failures do not name their group.
            queues[group] = lib.rd_kafka_queue_new(handle)
            _send(lib, handle, options, queues[group], group, places)
        deadline = time.monotonic() + timeout_seconds + _PATIENCE_SECONDS
        return {group: _answer(lib, queue, deadline) for group, queue in queues.items()}
    finally:
        for queue in queues.values():
            lib.rd_kafka_queue_destroy(queue)
        lib.rd_kafka_AdminOptions_destroy(options)


def _send(lib: Any, handle: int, options: int, queue: int, group: str, places: Iterable[Place] | None) -> None:
    parts = None
    if places is not None:
        parts = lib.rd_kafka_topic_partition_list_new(0)
        for topic, partition in places:
            lib.rd_kafka_topic_partition_list_add(parts, topic.encode(), partition)
    request = ctypes.c_void_p(lib.rd_kafka_ListConsumerGroupOffsets_new(group.encode(), parts))
    try:
        lib.rd_kafka_ListConsumerGroupOffsets(handle, ctypes.byref(request), 1, options, queue)
    finally:
        lib.rd_kafka_ListConsumerGroupOffsets_destroy(request)
        if parts is not None:
            lib.rd_kafka_topic_partition_list_destroy(parts)


def _answer(lib: Any, queue: int, deadline: float) -> Sequence[Committed] | KafkaError:
    event = lib.rd_kafka_queue_poll(queue, max(0, int((deadline - time.monotonic()) * 1000)))
    if not event:
        return KafkaError(KafkaError._TIMED_OUT, "no answer")
    try:
        code = lib.rd_kafka_event_error(event)
        if code:
            return KafkaError(code, _text(lib.rd_kafka_event_error_string(event)))
        count = ctypes.c_size_t()
        result = lib.rd_kafka_event_ListConsumerGroupOffsets_result(event)
        group = lib.rd_kafka_ListConsumerGroupOffsets_result_groups(result, ctypes.byref(count))[0]
        error = lib.rd_kafka_group_result_error(group)
        if error:
            return KafkaError(lib.rd_kafka_error_code(error), _text(lib.rd_kafka_error_string(error)))
        parts = lib.rd_kafka_group_result_partitions(group)
        return [_committed(parts.contents.elems[index]) for index in range(parts.contents.cnt)]
    finally:
        lib.rd_kafka_event_destroy(event)


def _committed(part: _Part) -> Committed:
    # confluent-kafka also commits the terminating 0 of its texts, and hides it when reading.
    metadata = ctypes.string_at(part.metadata, part.metadata_size).partition(b"\0")[0] if part.metadata else None
    return Committed(
        place=(part.topic.decode(), part.partition),
        offset=part.offset,
        metadata=None if metadata is None else metadata.decode("utf-8", "replace"),
        code=part.err,
    )


def _text(given: bytes | None) -> str:
    return (given or b"").decode("utf-8", "replace")
