"""Reading of JSON documents about placement, with errors that point to the place of each mistake.

Tools and people write these documents, so every mistake is reported with its JSON pointer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from backend.placement.errors import PlacementInvalid

HIGHEST = 2**31 - 1
"""Highest id of a broker and number of a partition: Kafka stores both in 32 bits, signed."""


MOST = 2**62
"""Largest size of a partition in bytes, far enough below the 64 bits of an array's element."""


class Listed(NamedTuple):
    """A partition as documents list it."""

    topic: str
    number: int
    replicas: list[int]
    """Ids of brokers, the preferred replica first."""
    size_bytes: int


def parse(text: str | bytes) -> Any:
    """Parse JSON, and refuse objects with a duplicate name: one of the two values would be dropped silently.

    Raises PlacementInvalid.
    """

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise PlacementInvalid(
                    f"an object has {shown(name)} twice ({shown(found[name])} and {shown(value)}): remove one"
                )
            found[name] = value
        return found

    def refuse_constant(word: str) -> NoReturn:
        raise PlacementInvalid(f"invalid JSON: {word} is not a number")

    try:
        return json.loads(text, object_pairs_hook=without_duplicates, parse_constant=refuse_constant)
    except RecursionError:
        raise PlacementInvalid("invalid JSON: it is nested too deeply") from None
    except PlacementInvalid:
        raise
    except ValueError as error:
        raise PlacementInvalid(f"invalid JSON: {error}") from error


def partitions(rows: Sequence[Any], at: str = "/partitions") -> list[Listed]:
    """Read `[{"topic", "partition", "replicas": [id], "size_bytes"}]`. Raises PlacementInvalid."""
    found = []
    seen: dict[tuple[str, int], int] = {}
    for index, each in enumerate(rows):
        where = f"{at}/{index}"
        row = an_object(each, where)
        topic = row.get("topic")
        if not isinstance(topic, str) or not topic:
            raise PlacementInvalid(f"{where}/topic: must be a topic's name, not {shown(topic)}")
        number = a_number(row.get("partition"), f"{where}/partition", "a partition's number", HIGHEST)
        first = seen.setdefault((topic, number), index)
        if first != index:
            raise PlacementInvalid(f"{where}: {topic}-{number} is listed twice, first at {at}/{first}")
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
    """Return the value if it is an object. Raises PlacementInvalid that names `at`."""
    if not isinstance(value, Mapping):
        raise PlacementInvalid(f"{at or '/'}: must be an object, not {shown(value)}")
    return value


def has_only(owner: Mapping[str, Any], names: Collection[str], at: str) -> None:
    """Refuse unknown fields of an object, because a misspelled option would be ignored silently.

    Raises PlacementInvalid, with the name that was probably meant.
    """
    if owner.keys() <= set(names):
        return
    strange = min(str(name) for name in owner.keys() - set(names))
    near = get_close_matches(strange, names, 1, cutoff=0.5)
    meant = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(names)}"
    raise PlacementInvalid(f"{at}/{shown(strange)[1:-1]}: unknown field; {meant}")


def a_list(owner: Mapping[str, Any], name: str, at: str) -> Sequence[Any]:
    """Return the list in field `name` of an object at `at`. Raises PlacementInvalid."""
    value = owner.get(name)
    if not isinstance(value, list):
        what = "is missing" if name not in owner else f"must be a list, not {shown(value)}"
        raise PlacementInvalid(f"{at}/{name}: {what}")
    return value


def a_number(value: object, at: str, what: str = "a whole number", most: int = MOST) -> int:
    """Return the value if it is an integer from 0 to `most`. Raises PlacementInvalid that names `at`."""
    # JSON that was edited by hand, or converted by a tool, may have 1.0 in place of 1.
    if isinstance(value, float) and value.is_integer():
        raise PlacementInvalid(f"{at}: must be {what}, not the floating-point number {value}; write {int(value)}")
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlacementInvalid(f"{at}: must be {what}, not {shown(value)}")
    if value < 0:
        raise PlacementInvalid(f"{at}: must be {what} of 0 or more, not {shown(value)}")
    if value > most:
        raise PlacementInvalid(f"{at}: must be {what} of at most {most}, not {shown(value)}")
    return value


def shown(value: object) -> str:
    """Return the beginning of a value as JSON, for error messages."""
    return json.dumps(value, default=str)[:60]
