"""Looking into a JSON Schema."""

import copy
from collections.abc import Iterator
from typing import Any


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema of an object with named properties, in a schema and below it."""
    if isinstance(node, dict):
        if "properties" in node:
            yield node
        for inner in node.values():
            yield from objects(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from objects(inner)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with no property allowed that it does not name."""
    made = copy.deepcopy(schema)
    for one in objects(made):
        one["additionalProperties"] = False
    return made
