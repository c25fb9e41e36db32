"""A retriever's settings in about twelve letters, which is what MLflow's tables show of a run's name. Pure."""

from retrievers.config import RetrieverConfig


def run_label(retriever: RetrieverConfig) -> str:
    """Return mode, reranker, cut and threshold, such as `hybrid k5 t0.3` or `hybrid+mmr k5 t0.3`.

    A retriever of the user's own has the name of its factory in place of the mode.
    """
    reranked = "" if retriever.rerank == "none" else f"+{retriever.rerank}"
    which = retriever.python.rpartition(":")[2] if retriever.python else f"{retriever.mode}{reranked}"
    threshold = "" if retriever.used_threshold is None else f" t{retriever.used_threshold:.3g}"
    return f"{which} k{retriever.top_k}{threshold}"
