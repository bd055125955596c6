"""Keys of a schemas topic that other registries spell differently, as older versions of Karapace do.

As JSON they are equal to ours; to compaction, which compares bytes, they are different. Our records for such a key
are also written under the other spelling: otherwise compaction would leave what we changed or deleted as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from backend.registry.records import Record, encode, key_of


class KeySpellings:
    """Other spellings of keys in one log, as far as it was read."""

    def __init__(self) -> None:
        self._found: dict[bytes, set[bytes]] = {}

    def note(self, key: bytes, said: Record) -> None:
        """A record of the log has this key."""
        ours = key_of(said)
        if key != ours:
            self._found.setdefault(ours, set()).add(key)

    def encoded(self, records: Iterable[Record]) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the keys and values that write records, under all spellings, ours last."""
        for record in records:
            key, value = encode(record)
            yield from ((other, value) for other in sorted(self._found.get(key, ())))
            yield key, value
