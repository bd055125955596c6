"""Reader for YAML that people write: estates, declared resources, drill schedules, the zone router's file."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

_DEEPEST = 100
"""Maximum levels of nesting; libyaml's reader crashes the process on input that is nested very deeply."""
_MERGE = "tag:yaml.org,2002:merge"
# libyaml's reader is ten times faster, which matters for a file of some thousand streams.
_Fastest: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlInvalid(ValueError):
    """Invalid YAML or a duplicate key; `place` is its position (empty if unknown), `detail` says what is wrong."""

    def __init__(self, place: str, detail: str) -> None:
        self.place, self.detail = place, detail
        super().__init__(f"{place}: {detail}" if place else detail)


def load_yaml(text: str, *, keys_are_text: bool = False) -> Any:
    """Parse a YAML text. A duplicate key is refused, as it would silently replace the first.

    Raises YamlInvalid.
    """
    try:
        return yaml.load(text, Loader=_TextKeysLoader if keys_are_text else _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise YamlInvalid(place, error.problem or "is not valid YAML") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlInvalid("", f"is no YAML: {' '.join(str(error).split())}") from error


class _Loader(_Fastest):  # type: ignore[misc, valid-type]
    """Loader that refuses duplicate keys and unreasonably deep nesting."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def descend_resolver(self, node: yaml.Node, index: Any) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _wrong(node, f"is nested more than {_DEEPEST} deep")
        super().descend_resolver(node, index)

    def ascend_resolver(self) -> None:
        self._depth -= 1
        super().ascend_resolver()

    def mapping(self, node: yaml.MappingNode) -> dict[Any, Any]:
        seen = set()
        for key_node in [key for key, _ in node.value if key.tag != _MERGE]:
            key = self.construct_object(key_node, deep=True)
            self.check(key, key_node)
            if isinstance(key, Hashable):  # the base class reports other unhashable keys itself
                if key in seen:
                    raise _wrong(key_node, f"{key!r} is given twice")
                seen.add(key)
        found: dict[Any, Any] = self.construct_mapping(node, deep=True)
        return found

    def check(self, key: object, node: yaml.Node) -> None:
        """Check one key; subclasses that restrict keys override it."""


class _TextKeysLoader(_Loader):
    """Loader that also refuses keys that are not text."""

    def check(self, key: object, node: yaml.Node) -> None:
        if not isinstance(key, str):
            raise _wrong(node, f"the key {key!r} is not text")


def _wrong(node: yaml.Node, what: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _Loader.mapping)
