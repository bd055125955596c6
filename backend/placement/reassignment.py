"""Reading of a reassignment in the format of kafka-reassign-partitions.sh."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from backend.placement.errors import PlacementInvalid, few
from backend.placement.reading import Listed, a_list, a_number, an_object, partitions, shown

_KNOWN = frozenset({"topic", "partition", "replicas", "log_dirs"})
_ANYWHERE = "any"
# Names that no cluster can have are refused here: JSON allows names that no event could store.
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z")


def read_reassignment(document: object, at: str = "") -> list[Listed]:
    """Read `{"version": 1, "partitions": [{"topic", "partition", "replicas": [id], "log_dirs": ["any"]}]}`.

    `at` is the JSON pointer of the document. Raises PlacementInvalid.
    """
    given = an_object(document, at)
    if "version" in given and a_number(given["version"], f"{at}/version", "the number 1") != 1:
        raise PlacementInvalid(f"{at}/version: must be 1, not {given['version']}")
    strange = sorted(map(str, given.keys() - {"version", "partitions"}))
    if strange:
        raise PlacementInvalid(f"{at}: unknown fields of a reassignment: {few(strange)}")
    rows = a_list(given, "partitions", at)
    found = partitions(rows, f"{at}/partitions")
    if not found:
        raise PlacementInvalid(f"{at}/partitions: is empty; list at least one partition")
    for index, row in enumerate(rows):
        _check_row(row, f"{at}/partitions/{index}")
    return found


def _check_row(row: Mapping[str, Any], where: str) -> None:
    if not _TOPIC.match(row["topic"]):
        raise PlacementInvalid(f"{where}/topic: {shown(row['topic'])} is not a valid topic name in Kafka")
    strange = sorted(map(str, row.keys() - _KNOWN))
    if strange:
        raise PlacementInvalid(f"{where}: unknown fields of a reassignment: {few(strange)}")
    if "log_dirs" not in row:
        return
    folders = a_list(row, "log_dirs", where)
    if len(folders) != len(row["replicas"]):
        raise PlacementInvalid(f"{where}/log_dirs: has {len(folders)} entries for {len(row['replicas'])} replicas")
    other = [folder for folder in folders if folder != _ANYWHERE]
    if other:
        raise PlacementInvalid(
            f"{where}/log_dirs: {shown(other[0])} is not supported: log directories cannot be chosen; "
            'use "any", or omit log_dirs'
        )
