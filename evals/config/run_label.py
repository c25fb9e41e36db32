"""A retriever's settings in about twelve letters, which is what MLflow's tables show of a run's name. Pure."""

from retrievers.config import RetrieverConfig


def run_label(retriever: RetrieverConfig) -> str:
    """Return mode, cut and threshold, such as `hybrid k5 t0.3`; a function's name in place of the mode."""
    which = retriever.python.rpartition(":")[2] if retriever.python else retriever.mode
    threshold = "" if retriever.used_threshold is None else f" t{retriever.used_threshold:.3g}"
    return f"{which} k{retriever.top_k}{threshold}"
