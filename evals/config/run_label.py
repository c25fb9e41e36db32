"""A retriever's settings in about twelve letters, which is what MLflow's tables show of a run's name. Pure."""

from retrievers.config import RetrieverConfig


def run_label(retriever: RetrieverConfig) -> str:
    """Return mode, reranker, cut and threshold, such as `hybrid k5 t0.3` or `hybrid+mmr k5 t0.3`.

    A retriever of the user's own has the name of its factory in place of the mode.
    """
    return label(retriever.python or retriever.mode, retriever.rerank, retriever.top_k, retriever.used_threshold)


def label(which: str, rerank: str, top_k: int, threshold: float | None) -> str:
    """Return the same of single settings.

    Args:
        which: The mode, or `module:factory` of the user's own retriever.
        rerank: The reranker.
        top_k: The cut.
        threshold: The threshold; None where none is in force.
    """
    _, is_own, factory = which.rpartition(":")
    reranked = "" if rerank == "none" or is_own else f"+{rerank}"
    return f"{factory if is_own else which}{reranked} k{top_k}{'' if threshold is None else f' t{threshold:.3g}'}"
