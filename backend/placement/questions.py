"""The question that `treeline placement plan` reads."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.placement.problem import GONE, Brokers, PlacementInvalid, Problem, Replicas

_NOWHERE = ""


@dataclass(frozen=True)
class Aims:
    """A question without its partitions."""

    racks: Mapping[int, str]
    """Of each broker that is there."""
    targets: frozenset[int]
    """Brokers that are to hold replicas."""
    no_leaders: frozenset[int]
    factors: Mapping[str, int]
    """Replicas that topics are to have, of those that do not keep what they have."""
    excluded: frozenset[str]
    """Topics that stay as they are."""

    def brokers(self, holding: Iterable[int]) -> Brokers:
        """All of them: those that are there in order, then those that only hold replicas."""
        ids = [*sorted(self.racks), *sorted(set(holding) - self.racks.keys())]
        names = tuple(sorted(set(self.racks.values())))
        at_rack = {name: at for at, name in enumerate(names)}
        return Brokers(
            broker_ids=np.array(ids, np.int64),
            rack_of=np.array(
                [at_rack[self.racks[each]] if each in self.racks else GONE for each in ids], np.int64
            ),
            racks=names,
            may_hold=np.array([each in self.targets for each in ids], bool),
            may_lead=np.array([each in self.targets - self.no_leaders for each in ids], bool),
        )


def read_aims(document: object, topics: Collection[str]) -> Aims:
    """From `{"brokers": [{"id", "rack"}], "target_brokers": [id]}`; more that is understood: `replication_factor`
    (of all, or of topics), `excluded_topics`, `no_leaders` (broker ids).

    Raises PlacementInvalid.
    """
    given = _object(document, "")
    racks = _brokers(_list(given, "brokers", ""))
    targets = _ids(given, "target_brokers", racks) if "target_brokers" in given else set(racks)
    if not targets:
        raise PlacementInvalid("/target_brokers: names no broker; name those that are to hold replicas")
    return Aims(
        racks=racks,
        targets=frozenset(targets),
        no_leaders=frozenset(_ids(given, "no_leaders", racks) if "no_leaders" in given else ()),
        factors=_factors(given, topics),
        excluded=frozenset(_names(given, "excluded_topics", topics)),
    )


def read_problem(document: object) -> Problem:
    """From aims with `"partitions": [{"topic", "partition", "replicas": [id], "size_bytes"}]`.

    Raises PlacementInvalid.
    """
    given = _object(document, "")
    topics, numbers, replicas, sizes = _partitions(_list(given, "partitions", ""))
    names = sorted(set(topics))
    aims = read_aims(given, names)
    brokers = aims.brokers(broker for row in replicas for broker in row)
    index = {broker: at for at, broker in enumerate(brokers.broker_ids.tolist())}
    at_topic = {name: at for at, name in enumerate(names)}
    order = sorted(range(len(topics)), key=lambda at: (topics[at], numbers[at]))
    return Problem(
        **vars(brokers),
        topics=tuple(names),
        topic_of=np.array([at_topic[topics[at]] for at in order], np.int64),
        numbers=np.array([numbers[at] for at in order], np.int64),
        now=Replicas.listed([[index[broker] for broker in replicas[at]] for at in order]),
        wanted=np.array([aims.factors.get(topics[at], len(replicas[at])) for at in order], np.int64),
        size_bytes=np.array([sizes[at] for at in order], np.int64),
        is_fixed=np.array([topics[at] in aims.excluded for at in order], bool),
    )


def read_brokers(document: object) -> Problem:
    """Brokers alone, that may all hold replicas: `[{"id", "rack"}]`, or an object with that as `brokers`. Raises
    PlacementInvalid."""
    given = document if isinstance(document, Mapping) else {"brokers": document}
    return read_problem({"brokers": given.get("brokers"), "partitions": []})


def _object(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PlacementInvalid(f"{at or '/'}: is to be an object, and is {_kind(value)}")
    return value


def _list(owner: Mapping[str, Any], name: str, at: str) -> Sequence[Any]:
    value = owner.get(name)
    if not isinstance(value, list):
        what = "is missing" if name not in owner else f"is to be a list, and is {_kind(value)}"
        raise PlacementInvalid(f"{at}/{name}: {what}")
    return value


def _number(value: object, at: str, what: str = "a whole number") -> int:
    # JSON that was edited by hand, or went through a tool, has 1.0 where 1 was.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise PlacementInvalid(f"{at}: is to be {what}, and is {_kind(value)}")
    if isinstance(value, float):
        raise PlacementInvalid(
            f"{at}: is to be {what}, and is the floating-point number {value}; write {int(value)}"
        )
    if not 0 <= value < 2**62:
        raise PlacementInvalid(f"{at}: is to be {what} of 0 or more, and is {value}")
    return value


def _kind(value: object) -> str:
    return json.dumps(value, default=str)[:60]


def _brokers(rows: Sequence[Any]) -> dict[int, str]:
    racks: dict[int, str | None] = {}
    for at, row in enumerate(rows):
        broker = _number(_object(row, f"/brokers/{at}").get("id"), f"/brokers/{at}/id", "a broker's id")
        rack = row.get("rack")
        if rack is not None and not isinstance(rack, str):
            raise PlacementInvalid(f"/brokers/{at}/rack: is to be a name, and is {_kind(rack)}")
        if broker in racks:
            raise PlacementInvalid(f"/brokers/{at}/id: broker {broker} is listed twice")
        racks[broker] = rack or None
    if not racks:
        raise PlacementInvalid("/brokers: there is no broker")
    without = sorted(broker for broker, rack in racks.items() if rack is None)
    if without and len(without) < len(racks):
        raise PlacementInvalid(
            f"/brokers: {_few(without)} have no rack and the others have: with half of the racks known nothing "
            "can be promised of them; give all of them one (broker.rack), or none"
        )
    return {broker: rack or _NOWHERE for broker, rack in racks.items()}


def _few(values: Sequence[object]) -> str:
    shown = ", ".join(str(each) for each in values[:5])
    return shown if len(values) <= 5 else f"{shown} and {len(values) - 5} more"


def _ids(given: Mapping[str, Any], name: str, known: Iterable[int]) -> set[int]:
    found = [_number(each, f"/{name}/{at}", "a broker's id") for at, each in enumerate(_list(given, name, ""))]
    strange = sorted(set(found) - set(known))
    if strange:
        raise PlacementInvalid(f"/{name}: {_few(strange)} not among the brokers {_few(sorted(known))}")
    return set(found)


def _names(given: Mapping[str, Any], name: str, known: Collection[str]) -> list[str]:
    found = _list(given, name, "") if name in given else []
    strange = sorted({str(each) for each in found} - set(known))
    if strange:
        raise PlacementInvalid(f"/{name}: there is no topic {_few(strange)}")
    return list(found)


def _factors(given: Mapping[str, Any], topics: Collection[str]) -> dict[str, int]:
    wanted = given.get("replication_factor")
    if wanted is None:
        return {}
    by_topic = wanted if isinstance(wanted, Mapping) else dict.fromkeys(topics, wanted)
    strange = sorted(set(by_topic) - set(topics))
    if strange:
        raise PlacementInvalid(f"/replication_factor: there is no topic {_few(strange)}")
    found = {name: _number(each, f"/replication_factor/{name}") for name, each in by_topic.items()}
    if 0 in found.values():
        raise PlacementInvalid("/replication_factor: is to be 1 or more")
    return found


def _partitions(rows: Sequence[Any]) -> tuple[list[str], list[int], list[list[int]], list[int]]:
    topics, numbers, replicas, sizes = [], [], [], []
    seen: dict[tuple[str, int], int] = {}
    for at, each in enumerate(rows):
        where = f"/partitions/{at}"
        row = _object(each, where)
        topic = row.get("topic")
        if not isinstance(topic, str) or not topic:
            raise PlacementInvalid(f"{where}/topic: is to be a topic's name, and is {_kind(topic)}")
        number = _number(row.get("partition"), f"{where}/partition", "a partition's number")
        first = seen.setdefault((topic, number), at)
        if first != at:
            raise PlacementInvalid(f"{where}: {topic}-{number} is listed already, as /partitions/{first}")
        brokers = [
            _number(broker, f"{where}/replicas/{place}", "a broker's id")
            for place, broker in enumerate(_list(row, "replicas", where))
        ]
        if len(set(brokers)) < len(brokers):
            raise PlacementInvalid(f"{where}/replicas: {topic}-{number} names a broker twice: {brokers}")
        if not brokers:
            raise PlacementInvalid(f"{where}/replicas: {topic}-{number} has no replica")
        topics.append(topic)
        numbers.append(number)
        replicas.append(brokers)
        sizes.append(_number(row.get("size_bytes", 0), f"{where}/size_bytes", "a number of bytes"))
    return topics, numbers, replicas, sizes
