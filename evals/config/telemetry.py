"""Telemetry of dependencies, switched off. `silence` must run before any of them is imported."""

import os

SILENCED = {
    # Ragas reads exactly "true".
    **dict.fromkeys(("RAGAS_DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"), "true"),
    **dict.fromkeys(("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"), "false"),
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def silence(*, hub: bool) -> None:
    """Switch off telemetry and tracing of all dependencies, and the Hugging Face hub unless `hub` is True."""
    os.environ.update(SILENCED if hub else SILENCED | OFFLINE)
