"""Formats: how a cluster turns logical names into technical ones.

A cluster has three: the topic and the subject format make names from (tenant, instance, environment, topic),
the group format from (tenant, instance, environment, group). A format may leave out parts, so a technical name
cannot be parsed back: it is looked up among the declared streams (decision 5). This
look-up works only while no two logical names share one technical name on a cluster, so every change that could
cause a clash (a new stream, a new cluster, a changed format, a cluster that joins a tree) is checked here first.

Kafka refuses a topic whose name differs from another's only in `.` against `_`, since its metrics write both the
same way. Topic names are therefore compared with `.` replaced by `_`; subjects literally.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.domain.base.errors import FieldError, FormatInvalid, NameInvalid, TechnicalNameTaken
from backend.domain.names.names import StreamName

DEFAULT_TOPIC_FORMAT = "{tenant}-{instance}-{environment}-{topic}"
DEFAULT_GROUP_FORMAT = "{tenant}-{instance}-{environment}-{group}"
DEFAULT_SUBJECT_FORMAT = "{tenant}-{instance}-{environment}-{topic}"
LONGEST_TECHNICAL_NAME = 249
MOST_ERRORS = 10

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_SCOPE = ("tenant", "instance", "environment")
_INTERNAL_PREFIXES = ("__", "_treeline")
_INTERNAL_NAMES = ("_schemas",)


@dataclass(frozen=True)
class ClusterFormats:
    """The formats of one cluster that make technical names of streams."""

    cluster: str
    topic_format: str
    subject_format: str


def check_format(text: str, name_part: str, pointer: str) -> None:
    """Raise FormatInvalid unless `text` is a format over {tenant}, {instance}, {environment} and {name_part}.

    `name_part` ("topic" or "group") is required: without it all streams of an environment would share one name.
    """
    problem = _format_problem(text, name_part)
    if problem:
        raise FormatInvalid(f"{pointer.lstrip('/')}: {problem}", (FieldError(pointer, problem),))


def _format_problem(text: str, name_part: str) -> str | None:
    known = (*_SCOPE, name_part)
    listed = ", ".join("{" + part + "}" for part in known)
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError:
        return "a brace is not closed or not opened"
    parts: list[str] = []
    for literal, part, spec, conversion in pieces:
        # parse() unescapes {{ to {, which then is no legal character of a topic.
        if literal and not _LEGAL.fullmatch(literal):
            return "only letters, digits, '.', '_' and '-' may stand around the placeholders"
        if part is not None:
            if part not in known or spec or conversion:
                return f"unknown placeholder {'{' + part + '}'!r}; known are {listed}"
            parts.append(part)
    if name_part not in parts:
        return f"it must contain {{{name_part}}}, or all names of an environment would be one"
    literal_length = sum(len(literal) for literal, *_ in pieces)
    if literal_length + len(parts) > LONGEST_TECHNICAL_NAME:
        return f"no name within {LONGEST_TECHNICAL_NAME} characters can come from it"
    if text.startswith(_INTERNAL_PREFIXES):
        return "names that start with '__' or '_treeline' are kept for internal use"
    return None


def technical_name(text: str, stream: StreamName) -> str:
    """Return the technical name of `stream` by a topic or subject format. It is not checked; see `check_topic`."""
    return text.format(
        tenant=stream.tenant, instance=stream.instance, environment=stream.environment, topic=stream.stream
    )


def clash_key(topic: str) -> str:
    """Return a key that two topics on one Kafka cluster must not share."""
    return topic.replace(".", "_")


def topic_problem(topic: str) -> str | None:
    """Return why Kafka or Treeline does not accept this topic name; None if it does."""
    if not topic or topic in (".", ".."):
        return "Kafka accepts no topic named '', '.' or '..'"
    if len(topic) > LONGEST_TECHNICAL_NAME:
        return f"it has {len(topic)} characters, Kafka accepts at most {LONGEST_TECHNICAL_NAME}"
    if not _LEGAL.fullmatch(topic):
        return "Kafka accepts letters, digits, '.', '_' and '-' only"
    if topic.startswith(_INTERNAL_PREFIXES) or topic in _INTERNAL_NAMES:
        return "it is the name of an internal topic"
    return None


def group_problem(group: str) -> str | None:
    """Return why no application may have a group of this technical name; None if one may."""
    if len(group) > LONGEST_TECHNICAL_NAME:
        return f"it has {len(group)} characters, at most {LONGEST_TECHNICAL_NAME} are allowed"
    if group.startswith(_INTERNAL_PREFIXES):
        return "names that start with '__' or '_treeline' are kept for internal use"
    if group == "*":
        # An access control entry for this name would apply to every group of the cluster.
        return "Kafka's access control takes '*' for every group"
    return None


def technical_names(stream: StreamName, clusters: Iterable[ClusterFormats]) -> dict[str, str]:
    """Return the stream's topic on each cluster. Raises NameInvalid naming the first cluster that refuses it."""
    names: dict[str, str] = {}
    for formats in clusters:
        topic = technical_name(formats.topic_format, stream)
        problem = topic_problem(topic)
        if problem:
            detail = f"{stream} would be topic {topic[:300]!r} on {formats.cluster}: {problem}"
            raise NameInvalid(detail, (FieldError("/name", detail),))
        names[formats.cluster] = topic
    return names


def refuse_taken(
    stream: StreamName,
    clusters: Iterable[ClusterFormats],
    topics: Mapping[tuple[str, str], StreamName],
    subjects: Mapping[tuple[str, str], StreamName],
) -> None:
    """Raise TechnicalNameTaken if another stream has one of the stream's technical names.

    `topics`: (cluster, clash key) -> stream that has it; `subjects`: (cluster, subject) -> stream.
    """
    for formats in clusters:
        topic = technical_name(formats.topic_format, stream)
        subject = technical_name(formats.subject_format, stream)
        for kind, name, other in (
            ("topic", topic, topics.get((formats.cluster, clash_key(topic)))),
            ("subject", subject, subjects.get((formats.cluster, subject))),
        ):
            if other is not None and other != stream:
                # The caller may belong to one tenant only, and must not learn names of another tenant.
                shown = str(other) if other.tenant == stream.tenant else "a stream of another tenant"
                raise _taken(kind, name, stream, shown, formats.cluster, "/name")


def take_names(
    stream: StreamName,
    clusters: Iterable[ClusterFormats],
    topics: dict[tuple[str, str], StreamName],
    subjects: dict[tuple[str, str], StreamName],
) -> None:
    """Add a stream's names on the clusters to the facts of `refuse_taken`."""
    for of in clusters:
        topics[of.cluster, clash_key(technical_name(of.topic_format, stream))] = stream
        subjects[of.cluster, technical_name(of.subject_format, stream)] = stream


def check_deployment(streams: Iterable[StreamName], formats: ClusterFormats, pointer: str) -> None:
    """Raise unless every stream has a legal technical name of its own on this cluster.

    For a cluster that gets other formats or joins a tree; `pointer` is the place in the request that would do it.
    Raises TechnicalNameTaken naming both streams, or FormatInvalid naming the streams that Kafka would refuse.
    """
    topics: dict[str, StreamName] = {}
    subjects: dict[str, StreamName] = {}
    refused: list[FieldError] = []
    for stream in streams:
        topic = technical_name(formats.topic_format, stream)
        subject = technical_name(formats.subject_format, stream)
        problem = topic_problem(topic)
        if problem and len(refused) < MOST_ERRORS:
            detail = f"{stream} would be {topic[:300]!r} on {formats.cluster}: {problem}"
            refused.append(FieldError(pointer, detail))
        for kind, name, other in (
            ("topic", topic, topics.setdefault(clash_key(topic), stream)),
            ("subject", subject, subjects.setdefault(subject, stream)),
        ):
            if other != stream:
                raise _taken(kind, name, stream, str(other), formats.cluster, pointer)
    if refused:
        raise FormatInvalid(refused[0].detail, tuple(refused))


def _taken(kind: str, name: str, stream: StreamName, other: str, cluster: str, pointer: str) -> TechnicalNameTaken:
    how = f"{kind} {name!r} on {cluster}"
    note = " (Kafka takes '.' and '_' for the same)" if kind == "topic" else ""
    detail = f"{stream} and {other} would both be {how}{note}"
    return TechnicalNameTaken(detail, (FieldError(pointer, detail),))
