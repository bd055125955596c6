"""The question that `treeline placement plan` reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backend.placement.errors import PlacementInvalid, few
from backend.placement.problem import GONE, Brokers, Problem, Replicas
from backend.placement.reading import HIGHEST, a_list, a_number, an_object, has_only, partitions, shown

NAMES = ("brokers", "target_brokers", "partitions", "replication_factor", "excluded_topics", "no_leaders")
_OF_A_BROKER = ("id", "rack")
# What Kafka's own tool says is there has log_dirs, too: disks of brokers, which bear on nothing here.
OF_A_PARTITION = ("topic", "partition", "replicas", "size_bytes", "log_dirs")
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
    (of all, or of topics), `excluded_topics`, `no_leaders` (broker ids). Partitions are not looked at.

    Raises PlacementInvalid.
    """
    given = an_object(document, "")
    has_only(given, NAMES, "")
    racks = _brokers(a_list(given, "brokers", ""))
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
    given = an_object(document, "")
    has_only(given, NAMES, "")
    rows = a_list(given, "partitions", "")
    for at, row in enumerate(rows):
        has_only(an_object(row, f"/partitions/{at}"), OF_A_PARTITION, f"/partitions/{at}")
    listed = partitions(rows)
    listed.sort(key=lambda row: row[:2])
    names = sorted({row.topic for row in listed})
    aims = read_aims(given, names)
    brokers = aims.brokers(broker for row in listed for broker in row.replicas)
    index = {broker: at for at, broker in enumerate(brokers.broker_ids.tolist())}
    at_topic = {name: at for at, name in enumerate(names)}
    return Problem(
        **vars(brokers),
        topics=tuple(names),
        topic_of=np.array([at_topic[row.topic] for row in listed], np.int64),
        numbers=np.array([row.number for row in listed], np.int64),
        now=Replicas.listed([[index[broker] for broker in row.replicas] for row in listed]),
        wanted=np.array([aims.factors.get(row.topic, len(row.replicas)) for row in listed], np.int64),
        size_bytes=np.array([row.size_bytes for row in listed], np.int64),
        is_fixed=np.array([row.topic in aims.excluded for row in listed], bool),
    )


def read_brokers(document: object) -> Problem:
    """Brokers alone, that may all hold replicas: `[{"id", "rack"}]`, or a question, of which nothing else is
    looked at. Raises PlacementInvalid."""
    given = document if isinstance(document, Mapping) else {"brokers": document}
    has_only(given, NAMES, "")
    return read_problem({"brokers": given.get("brokers"), "partitions": []})


def _brokers(rows: Sequence[Any]) -> dict[int, str]:
    racks: dict[int, str | None] = {}
    for at, row in enumerate(rows):
        has_only(an_object(row, f"/brokers/{at}"), _OF_A_BROKER, f"/brokers/{at}")
        broker = a_number(row.get("id"), f"/brokers/{at}/id", "a broker's id", HIGHEST)
        rack = row.get("rack")
        if rack is not None and not isinstance(rack, str):
            raise PlacementInvalid(f"/brokers/{at}/rack: is to be a name, and is {shown(rack)}")
        if broker in racks:
            raise PlacementInvalid(f"/brokers/{at}/id: broker {broker} is listed twice")
        racks[broker] = rack or None
    if not racks:
        raise PlacementInvalid("/brokers: there is no broker")
    without = sorted(broker for broker, rack in racks.items() if rack is None)
    if without and len(without) < len(racks):
        raise PlacementInvalid(
            f"/brokers: {few(without)} have no rack and the others have: with half of the racks known nothing "
            "can be promised of them; give all of them one (broker.rack), or none"
        )
    return {broker: rack or _NOWHERE for broker, rack in racks.items()}


def _ids(given: Mapping[str, Any], name: str, known: Iterable[int]) -> set[int]:
    listed = a_list(given, name, "")
    found = [a_number(each, f"/{name}/{at}", "a broker's id", HIGHEST) for at, each in enumerate(listed)]
    strange = sorted(set(found) - set(known))
    if strange:
        raise PlacementInvalid(f"/{name}: {few(strange)} not among the brokers {few(sorted(known))}")
    return set(found)


def _names(given: Mapping[str, Any], name: str, known: Collection[str]) -> list[str]:
    found = a_list(given, name, "") if name in given else []
    for at, each in enumerate(found):
        if not isinstance(each, str):
            raise PlacementInvalid(f"/{name}/{at}: is to be a topic's name, and is {shown(each)}")
    strange = sorted(set(found) - set(known))
    if strange:
        raise PlacementInvalid(f"/{name}: there is no topic {few(strange)}")
    return list(found)


def _factors(given: Mapping[str, Any], topics: Collection[str]) -> dict[str, int]:
    wanted, at = given.get("replication_factor"), "/replication_factor"
    if wanted is None:
        return {}
    if not isinstance(wanted, Mapping):
        return dict.fromkeys(topics, _factor(wanted, at))
    strange = sorted(set(wanted) - set(topics))
    if strange:
        raise PlacementInvalid(f"{at}: there is no topic {few(strange)}")
    return {name: _factor(each, f"{at}/{name}") for name, each in wanted.items()}


def _factor(value: object, at: str) -> int:
    found = a_number(value, at, most=HIGHEST)
    if not found:
        raise PlacementInvalid(f"{at}: is to be 1 or more")
    return found
