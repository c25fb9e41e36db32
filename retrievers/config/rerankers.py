"""All rerankers, each declared once; their code is in `retrievers.search.rerank`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from retrievers.config.registry import late, one_of
from retrievers.records import ScoreScale

if TYPE_CHECKING:
    from retrievers.config.models import ModelConfig
    from retrievers.config.retriever import RetrieverConfig

Fusion = Literal["weighted", "rrf", "dbsf"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reranker:
    """A declaration of a reranker.

    Attributes:
        make: Makes a `retrievers.search.rerank.Rerank` from the settings and the environment that holds API keys;
            None where nothing is reranked after the search.
        scale: Scale of the scores it gives; None where candidates keep the scores of the search.
        needs_texts: It reads the texts of the candidates.
        needs_vectors: It reads the stored vectors of the candidates.
        diversifies: It moves candidates that are like earlier ones down.
        fusion: The fusion that it stands for, which needs mode `hybrid`.
        settings: Names of the retriever's settings that only this reranker reads.
        model: The settings of the model that it calls.
        note: A few words on it for `--help`.
    """

    make: "Callable[[RetrieverConfig, Mapping[str, str]], Any] | None" = None
    scale: ScoreScale | None = None
    needs_texts: bool = False
    needs_vectors: bool = False
    diversifies: bool = False
    fusion: Fusion | None = None
    settings: tuple[str, ...] = ()
    model: "Callable[[RetrieverConfig], ModelConfig] | None" = None
    note: str = ""


RERANKERS: dict[str, Reranker] = {
    "none": Reranker(),
    "cross-encoder": Reranker(
        make=late("retrievers.search.rerank:cross_encoder"),
        scale="rerank",
        needs_texts=True,
        model=lambda settings: settings.cross_encoder,
    ),
    "mmr": Reranker(
        make=late("retrievers.search.rerank:mmr"), needs_vectors=True, diversifies=True, settings=("mmr_lambda",)
    ),
    "rrf": Reranker(fusion="rrf", note="hybrid with rrf fusion"),
}


def listed(rerankers: Mapping[str, Reranker] = RERANKERS) -> str:
    """Return the names for `--help`, each with its note."""
    *names, last = [f"{name} ({declared.note})" if declared.note else name for name, declared in rerankers.items()]
    return f"{', '.join(names)}, or {last}"


# A name of `RERANKERS`.
RerankerName = Annotated[str, one_of(RERANKERS)]
