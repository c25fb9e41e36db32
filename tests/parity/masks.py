"""What may differ between two runs of the same code: times, dates, places, names of runs, versions."""

import re
from collections.abc import Mapping
from typing import Any

TEXT = (
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
    (re.compile(r"\b20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"), "DATE"),
    (re.compile(r"\b20\d{6}-\d{6}\b"), "DATE"),
    (re.compile(r"\b[\d,]+(\.\d+)?( …)? (ms|s|seconds?|minutes?)\b"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{40}(-dirty)?\b"), "COMMIT"),
    (re.compile(r' (time|hostname)="[^"]*"'), ""),
)
"""Patterns within a text, and what stands in their place."""
LATENCY = re.compile(r"latency|_ms\b|per second", re.IGNORECASE)
"""Lines whose numbers are times."""
NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?|–")
LEAVES = re.compile(
    r"""(^|\.)(
      .*(_ms|_s|_seconds|_at) | .*latency.* | timings?(\..*)? | duration.* | commit | versions\..* | run | run_name
      | generated.* | session_id | .*judge\.fingerprint | files\.(queries|candidates) | machine\..* | host
    )$""",
    re.VERBOSE,
)
"""Dotted paths of leaves that are noise."""


def masked(text: str, names: Mapping[str, str]) -> list[str]:
    """Return the lines of a text without what is noise.

    Args:
        text: What a command wrote.
        names: Folders, and what stands in their place.
    """
    for folder, name in names.items():
        text = text.replace(folder, name)
    for pattern, instead in TEXT:
        text = pattern.sub(instead, text)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [NUMBER.sub("N", line) if LATENCY.search(line) else line for line in lines if line]


def masked_leaves(value: Any, names: Mapping[str, str], path: str = "") -> Any:
    """Return a JSON value with `NOISE` in place of the leaves that are noise."""
    if LEAVES.search(path) and not isinstance(value, dict | list):
        return "NOISE"
    if isinstance(value, dict):
        if any(isinstance(one, str) and one.startswith("latency/") for one in value.values()):
            return {
                key: one if isinstance(one, str) and not NUMBER.search(one) else "NOISE" for key, one in value.items()
            }
        return {key: masked_leaves(one, names, f"{path}.{key}".lstrip(".")) for key, one in value.items()}
    if isinstance(value, list):
        return [masked_leaves(one, names, f"{path}.{place}".lstrip(".")) for place, one in enumerate(value)]
    if not isinstance(value, str):
        return value
    return "\n".join(masked(value, names))
