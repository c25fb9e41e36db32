"""The embedding model that a collection records, against the one of the settings."""

from collections.abc import Mapping
from typing import Any

from retrievers.config import EmbeddingConfig
from retrievers.config.running_options import of_the_model

NOT_OF_THE_MODEL = {"dimension"}


def other_model(config: EmbeddingConfig, recorded: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the recorded model and that of the settings, with what tells them apart; None if they are the same."""
    names = _different(config, recorded)
    if not names:
        return None
    more = [name for name in names if name not in ("provider", "model")]
    return _named(recorded, more), _named(config.identity, more)


def settings_of(config: EmbeddingConfig, recorded: Mapping[str, Any]) -> str:
    """Return the names of the settings that differ from the recorded ones."""
    names = _different(config, recorded)
    if "provider" in names or "model" in names:
        names = ["provider", "model", *(name for name in names if name not in ("provider", "model"))]
    *first, last = [f"embedding.{name}" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def _different(config: EmbeddingConfig, recorded: Mapping[str, Any]) -> list[str]:
    expected = config.identity
    # What was recorded may hold options that say how the model ran.
    recorded = {**recorded, "options": of_the_model(recorded.get("options") or {}) or None}
    names = dict.fromkeys([*expected, *(name for name in recorded if name not in NOT_OF_THE_MODEL)])
    return [name for name in names if expected.get(name) != recorded.get(name)]


def _named(model: Mapping[str, Any], more: list[str]) -> str:
    settings = ", ".join(f"{name} {model.get(name)!r}" for name in more)
    return f"{model.get('provider')}:{model.get('model')}{f' with {settings}' if settings else ''}"
