"""Reading of the request document of `treeline placement plan`."""

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
# Output of kafka-reassign-partitions.sh also has log_dirs, the brokers' disks, which play no role here.
OF_A_PARTITION = ("topic", "partition", "replicas", "size_bytes", "log_dirs")
_NOWHERE = ""


@dataclass(frozen=True)
class Aims:
    """The options of a placement request, without its partitions."""

    racks: Mapping[int, str]
    """The rack of each broker that is available."""
    targets: frozenset[int]
    """Brokers that may hold replicas."""
    no_leaders: frozenset[int]
    factors: Mapping[str, int]
    """Requested replication factor by topic; topics that are not listed keep their present one."""
    excluded: frozenset[str]
    """Topics that stay as they are."""

    def brokers(self, holding: Iterable[int]) -> Brokers:
        """Return all brokers: the available ones by id, then those known only because they hold replicas."""
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
    """Read the options of a request: `{"brokers": [{"id", "rack"}], "target_brokers": [id]}`.

    Optional fields: `replication_factor` (one for all topics, or by topic), `excluded_topics`, `no_leaders`
    (broker ids). Partitions are ignored.

    Raises PlacementInvalid.
    """
    given = an_object(document, "")
    has_only(given, NAMES, "")
    racks = _brokers(a_list(given, "brokers", ""))
    targets = _ids(given, "target_brokers", racks) if "target_brokers" in given else set(racks)
    if not targets:
        raise PlacementInvalid("/target_brokers: is empty; list the brokers that may hold replicas")
    return Aims(
        racks=racks,
        targets=frozenset(targets),
        no_leaders=frozenset(_ids(given, "no_leaders", racks) if "no_leaders" in given else ()),
        factors=_factors(given, topics),
        excluded=frozenset(_names(given, "excluded_topics", topics)),
    )


def read_problem(document: object) -> Problem:
    """Read a request: the options with `"partitions": [{"topic", "partition", "replicas": [id], "size_bytes"}]`.

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
    """Read brokers that may all hold replicas: `[{"id", "rack"}]`, or a request whose other fields are ignored.

    Raises PlacementInvalid.
    """
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
            raise PlacementInvalid(f"/brokers/{at}/rack: must be a name, not {shown(rack)}")
        if broker in racks:
            raise PlacementInvalid(f"/brokers/{at}/id: broker {broker} is listed twice")
        racks[broker] = rack or None
    if not racks:
        raise PlacementInvalid("/brokers: is empty; list at least one broker")
    without = sorted(broker for broker, rack in racks.items() if rack is None)
    if without and len(without) < len(racks):
        raise PlacementInvalid(
            f"/brokers: {few(without)} have no rack and the others have one: rack awareness needs the racks "
            "of all brokers; set broker.rack on all of them, or on none"
        )
    return {broker: rack or _NOWHERE for broker, rack in racks.items()}


def _ids(given: Mapping[str, Any], name: str, known: Iterable[int]) -> set[int]:
    listed = a_list(given, name, "")
    found = [a_number(each, f"/{name}/{at}", "a broker's id", HIGHEST) for at, each in enumerate(listed)]
    strange = sorted(set(found) - set(known))
    if strange:
        raise PlacementInvalid(f"/{name}: {few(strange)} not among the cluster's brokers {few(sorted(known))}")
    return set(found)


def _names(given: Mapping[str, Any], name: str, known: Collection[str]) -> list[str]:
    found = a_list(given, name, "") if name in given else []
    for at, each in enumerate(found):
        if not isinstance(each, str):
            raise PlacementInvalid(f"/{name}/{at}: must be a topic's name, not {shown(each)}")
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
        raise PlacementInvalid(f"{at}: must be 1 or more")
    return found
