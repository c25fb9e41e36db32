"""The parameters that go with a search of one side, out of the settings and of what the collection is. Pure."""

from typing import TYPE_CHECKING

from retrievers.config import RetrieverConfig
from retrievers.store import CollectionInfo

if TYPE_CHECKING:
    from qdrant_client import models


def search_params(config: RetrieverConfig, side: str, least_beam: int | None = None) -> "models.SearchParams | None":
    """Return the parameters of a search; None where all are as the collection has them.

    Args:
        config: The settings.
        side: `semantic`; a side of keywords takes `indexed_only` alone, since the rest concerns dense vectors.
        least_beam: The least beam in an HNSW index, whatever is configured.
    """
    named = dict(config.search_params or {})
    if side != "semantic":
        named = {name: value for name, value in named.items() if name == "indexed_only"}
    elif least_beam:
        named["hnsw_ef"] = max(least_beam, named.get("hnsw_ef", 0))
    if not named:
        return None
    from qdrant_client import models

    return models.SearchParams.model_validate(named)


def beam_of(config: RetrieverConfig, info: CollectionInfo) -> int | None:
    """Return the beam by which a short search in an HNSW index finds the first of what one at full depth finds.

    Qdrant keeps at least as many vectors on its way as it is to return; without this an answer of five chunks would
    be searched for less thoroughly than the candidates by which it was evaluated. None where no beam needs to be set.
    """
    depth, named = config.candidates + 1, config.search_params or {}
    if named.get("exact") or not info.in_hnsw or named.get("hnsw_ef", info.ef_construct) >= depth:
        return None
    return min(depth, info.limits.hnsw_ef or depth)


def rescores(config: RetrieverConfig, info: CollectionInfo) -> bool:
    """Return True if quantised vectors are compared: then the limit of a search decides how many are scored again."""
    named = config.search_params or {}
    return bool(info.quantization) and not named.get("exact") and not named.get("quantization", {}).get("ignore")


def notes(config: RetrieverConfig, info: CollectionInfo) -> tuple[str, ...]:
    """Return what a reader must know of parameters that are set and change nothing."""
    named = config.search_params or {}
    if config.mode == "keyword" or not named:
        return ()
    if not info.is_approximate:
        return (
            f"collection {info.name!r} has no built HNSW index and no quantisation, so that every search is exact: "
            f"{', '.join(f'search_params.{name}' for name in named)} changes nothing",
        )
    beam, depth = named.get("hnsw_ef"), config.candidates + 1
    if beam and beam < depth and info.in_hnsw and not named.get("exact"):
        return (
            f"search_params.hnsw_ef {beam} is less than the {depth} that a search returns, and Qdrant keeps no fewer "
            "on its way: lower candidates to search less thoroughly",
        )
    return ()
