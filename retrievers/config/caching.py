"""The caches between searches."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from retrievers.config.settings import Settings


class CacheConfig(Settings):
    """Caches between searches: query vectors on disk, results in memory. A call may bypass either.

    Attributes:
        embeddings: `auto` keeps those of hosted models; a local one is faster than a file, or not known by its name.
        results: Those of an embedded store are dropped when it changes.
        results_ttl_s: A server does not tell of every change, so its results are kept only for as long as is set here.
    """

    embeddings: Literal["auto", "on", "off"] = Field("auto", description="keep query vectors on disk: auto, on or off")
    path: Path | None = Field(None, description="file of the query vectors; in the user's cache folder if left out")
    ttl_s: float = Field(3600.0, gt=0, description="seconds a query vector is kept")
    results: int = Field(256, ge=0, le=100_000, description="number of results kept in memory; 0 for none")
    results_ttl_s: float = Field(
        0.0, ge=0, le=86_400, description="seconds a result from a server is kept, changed or not; 0 for not at all"
    )
