"""Settings of a retriever that hold in any folder of this machine."""

from typing import Any

from retrievers.config import RetrieverConfig, dump
from retrievers.store.location import embedded_folder


def portable_settings(retriever: RetrieverConfig) -> dict[str, Any]:
    """Return a retriever's settings with the place of the embedded store."""
    settings = dump(retriever)
    store = retriever.store
    if "store" in settings and not store.url and not store.path:
        settings["store"]["path"] = str(embedded_folder(store).absolute())
    return settings
