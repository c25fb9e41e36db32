"""Telemetry of dependencies, switched off. `silence` must run before any of them is imported."""

import os

SILENCED = {
    "RAGAS_DO_NOT_TRACK": "true",  # exactly "true"
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGSMITH_TRACING": "false",
    "LANGSMITH_TRACING_V2": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "TOKENIZERS_PARALLELISM": "false",
}
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def silence(*, hub: bool) -> None:
    """Switch off telemetry and tracing of all dependencies, and the Hugging Face hub unless `hub` is True."""
    os.environ.update(SILENCED if hub else SILENCED | OFFLINE)
