"""JSON documents of placements as they are read: tools or people wrote them, and each mistake is told with its
place."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from backend.placement.errors import PlacementInvalid

HIGHEST = 2**31 - 1
"""Ids of brokers and numbers of partitions, which Kafka has 32 bits for."""


MOST = 2**62
"""Bytes of a partition, which arrays have 64 bits for."""


class Listed(NamedTuple):
    """A partition as documents list it."""

    topic: str
    number: int
    replicas: list[int]
    """Ids of brokers, the preferred one first."""
    size_bytes: int


def parse(text: str | bytes) -> Any:
    """Of JSON, where no object may have a name twice: one of the two values would be dropped without a word.

    Raises PlacementInvalid.
    """

    def unlike(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise PlacementInvalid(
                    f"an object has {shown(name)} twice ({shown(found[name])} and {shown(value)}): remove one"
                )
            found[name] = value
        return found

    def no_number(word: str) -> NoReturn:
        raise PlacementInvalid(f"no JSON: {word} is no number")

    try:
        return json.loads(text, object_pairs_hook=unlike, parse_constant=no_number)
    except RecursionError:
        raise PlacementInvalid("no JSON that could be meant: it is nested too deeply") from None
    except PlacementInvalid:
        raise
    except ValueError as error:
        raise PlacementInvalid(f"no JSON: {error}") from error


def partitions(rows: Sequence[Any], at: str = "/partitions") -> list[Listed]:
    """From `[{"topic", "partition", "replicas": [id], "size_bytes"}]`. Raises PlacementInvalid."""
    found = []
    seen: dict[tuple[str, int], int] = {}
    for index, each in enumerate(rows):
        where = f"{at}/{index}"
        row = an_object(each, where)
        topic = row.get("topic")
        if not isinstance(topic, str) or not topic:
            raise PlacementInvalid(f"{where}/topic: is to be a topic's name, and is {shown(topic)}")
        number = a_number(row.get("partition"), f"{where}/partition", "a partition's number", HIGHEST)
        first = seen.setdefault((topic, number), index)
        if first != index:
            raise PlacementInvalid(f"{where}: {topic}-{number} is listed already, as {at}/{first}")
        replicas = [
            a_number(broker, f"{where}/replicas/{place}", "a broker's id", HIGHEST)
            for place, broker in enumerate(a_list(row, "replicas", where))
        ]
        if len(set(replicas)) < len(replicas):
            raise PlacementInvalid(f"{where}/replicas: {topic}-{number} names a broker twice: {shown(replicas)}")
        if not replicas:
            raise PlacementInvalid(f"{where}/replicas: {topic}-{number} has no replica")
        size = a_number(row.get("size_bytes", 0), f"{where}/size_bytes", "a number of bytes")
        found.append(Listed(topic, number, replicas, size))
    return found


def an_object(value: object, at: str) -> Mapping[str, Any]:
    """What stands at a place, if it is one. Raises PlacementInvalid."""
    if not isinstance(value, Mapping):
        raise PlacementInvalid(f"{at or '/'}: is to be an object, and is {shown(value)}")
    return value


def has_only(owner: Mapping[str, Any], names: Collection[str], at: str) -> None:
    """Refuses what an object at a place has besides: a wish that is spelled wrong would go unheard.

    Raises PlacementInvalid, with the name that was probably meant.
    """
    if owner.keys() <= set(names):
        return
    strange = min(str(name) for name in owner.keys() - set(names))
    near = get_close_matches(strange, names, 1, cutoff=0.5)
    meant = f"{near[0]}, perhaps" if near else f"there are {', '.join(names)}"
    raise PlacementInvalid(f"{at}/{shown(strange)[1:-1]}: is not understood here; {meant}")


def a_list(owner: Mapping[str, Any], name: str, at: str) -> Sequence[Any]:
    """The one of this name in an object that stands at a place. Raises PlacementInvalid."""
    value = owner.get(name)
    if not isinstance(value, list):
        what = "is missing" if name not in owner else f"is to be a list, and is {shown(value)}"
        raise PlacementInvalid(f"{at}/{name}: {what}")
    return value


def a_number(value: object, at: str, what: str = "a whole number", most: int = MOST) -> int:
    """What stands at a place, if it is one of 0 to `most`. Raises PlacementInvalid."""
    # JSON that was edited by hand, or went through a tool, has 1.0 where 1 was.
    if isinstance(value, float) and value.is_integer():
        raise PlacementInvalid(
            f"{at}: is to be {what}, and is the floating-point number {value}; write {int(value)}"
        )
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlacementInvalid(f"{at}: is to be {what}, and is {shown(value)}")
    if value < 0:
        raise PlacementInvalid(f"{at}: is to be {what} of 0 or more, and is {shown(value)}")
    if value > most:
        raise PlacementInvalid(f"{at}: is to be {what} of at most {most}, and is {shown(value)}")
    return value


def shown(value: object) -> str:
    """The beginning of what was read, as it was written."""
    return json.dumps(value, default=str)[:60]
