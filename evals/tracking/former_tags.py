"""What runs were tagged with before it moved into an artifact, by the tags' names. Pure."""

from collections.abc import Mapping
from typing import Any

# Tag to the fact's dotted name; `version.NAME` besides.
FORMER = {
    "dataset.fingerprint": "dataset_fingerprint",
    "collection.fingerprint": "collection.fingerprint",
    "collection.points": "collection.points",
    "retriever": "retriever",
    "relevance": "relevance",
    "judge.provider": "judge.provider",
    "judge.fingerprint": "judge.fingerprint",
}
VERSION = "version."


def is_former(tag: str) -> bool:
    """Return True for a tag that a run has as a fact instead."""
    return tag in FORMER or tag.startswith(VERSION)


def former_tag(tag: str, facts: Mapping[str, Any]) -> str | None:
    """Return the value that a former tag would have; None where the fact is not known.

    Args:
        tag: One for which `is_former` is true.
        facts: The run's artifact `facts.json`.
    """
    if tag.startswith(VERSION):
        value = facts.get("versions", {}).get(tag.removeprefix(VERSION))
    else:
        section, _, name = FORMER[tag].rpartition(".")
        value = ((facts.get(section) or {}) if section else facts).get(name)
    return None if value is None else str(value)
