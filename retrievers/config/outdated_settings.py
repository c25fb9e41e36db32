"""Settings of lower layers that mean nothing any more beside what a higher layer sets."""

from collections.abc import Mapping
from typing import Any

from retrievers.config.providers import CROSS_ENCODER_PROVIDERS, EMBEDDING_PROVIDERS

# Settings of which a higher layer's choice replaces the lower layer's other one.
EXCLUSIVE = (("store.url", "store.path"), ("dataset.path", "dataset.hub"))
# Settings of lower layers that say nothing any more when a higher layer sets one of those behind them.
OUTDATED_BY: Mapping[str, tuple[str, ...]] = {
    "baseline": ("dataset.path", "dataset.hub", "dataset.split", "dataset.ids"),
    "reference": ("dataset.path", "dataset.hub", "sources.dir", "retriever.python", "retriever.collection",
                  "retriever.store.url"),
}  # fmt: skip
# Settings of lower layers that still count when a higher layer names the user's own retriever (`python`).
KEPT = ("top_k", "candidates", "metadata", "include_metadata")
# Settings that name a model's provider, and those of a model that fit no other provider.
PROVIDER_NAMED_BY = ("provider", "model")
PROVIDERS = {*EMBEDDING_PROVIDERS, *CROSS_ENCODER_PROVIDERS}
OF_PROVIDER = (
    "model", "base_url", "api_key_env", "dimensions", "query_prefix", "document_prefix", "max_tokens", "options",
    "identity",
)  # fmt: skip


def drop_outdated(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Drop from the merged settings of lower layers what the values of the next one outdate.

    Args:
        merged: Settings of the lower layers by dotted name; changed.
        values: Settings of the layer above them.
    """
    for pair in EXCLUSIVE:
        _drop_replaced(merged, values, pair)
    _drop_retriever(merged, values)
    _drop_provider(merged, values)
    _drop_dependent(merged, values)


def _drop_replaced(merged: dict[str, Any], values: Mapping[str, Any], pair: tuple[str, str]) -> None:
    for first, other in (pair, pair[::-1]):
        chosen = [n for n in values if (n == first or n.endswith(f".{first}")) and values[n] is not None]
        for name in chosen:
            replaced = name.removesuffix(first) + other
            if replaced not in values:
                merged.pop(replaced, None)


def _drop_retriever(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Drop what lower layers set for another retriever where a layer names the user's own."""
    for name in (n for n in ("python", "retriever.python") if values.get(n) is not None):
        prefix = name.removesuffix("python")
        for below in [n for n in merged if n.startswith(prefix)]:
            if below.removeprefix(prefix).partition(".")[0] not in KEPT:
                del merged[below]


def _drop_provider(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Drop the settings of a lower layer's provider where a layer names another one; as `provider:model`, or by itself.

    The address of one provider's server, or the prefixes of its model, would be wrong for another.
    """
    for group in {group for name in values for group, _, last in [name.rpartition(".")] if last in PROVIDER_NAMED_BY}:
        new, old = _provider(values, group), _provider(merged, group)
        if new is None:
            if old in PROVIDERS:  # a model by its name alone is another of the same provider
                merged[f"{group}.provider"] = old
            continue
        if f"{group}.provider" not in values:
            merged.pop(f"{group}.provider", None)
        if old not in (None, new):
            for name in [name for name in merged if name.startswith(f"{group}.")]:
                if name.removeprefix(f"{group}.").partition(".")[0] in OF_PROVIDER:
                    del merged[name]


def _provider(values: Mapping[str, Any], group: str) -> str | None:
    """Return the provider that a group of settings names, None where it names none."""
    provider, model = values.get(f"{group}.provider"), str(values.get(f"{group}.model", ""))
    name, colon, _ = model.partition(":")
    if provider is None and colon and (name in PROVIDERS or group.endswith("judge")):
        return name
    return None if provider is None else str(provider)


def _drop_dependent(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, others in OUTDATED_BY.items():
        if any(values.get(other) is not None for other in others):
            merged.pop(name, None)
