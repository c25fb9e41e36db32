"""The measured retriever as a model of MLflow's registry."""

from collections.abc import Mapping
from contextlib import redirect_stderr
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

from evals.tracking.client import current, mlflow_at
from retrievers.retriever.qdrant import QdrantRetriever

CODE = Path(__file__).with_name("retriever_code.py")
DISTRIBUTION = "retrieval-evals"


def log_retriever(settings: Mapping[str, Any], name: str, run_id: str, uri: str) -> str:
    """Log a retriever to a run and register it: code that opens it, and its settings; no key, nothing of the store.

    The code runs once here, so that what cannot be loaded is not logged.

    Args:
        settings: Settings as `--export` writes them.
        name: Name in the registry, a new version of which is made.
        run_id: The run that measured it.
        uri: Address of MLflow.

    Returns:
        The version.

    Raises:
        TrackingError: MLflow failed, or the retriever cannot be opened.
    """
    with mlflow_at(uri), current(uri):
        from mlflow import langchain, start_run
        from mlflow.models import model as latest

        try:
            # MLflow tells there of the version that it makes. The model goes to the experiment of the active run.
            with redirect_stderr(StringIO()), start_run(run_id=run_id, nested=True):
                logged = langchain.log_model(
                    str(CODE),
                    name="retriever",
                    model_config=dict(settings),
                    registered_model_name=name,
                    pip_requirements=[f"{DISTRIBUTION}=={version(DISTRIBUTION)}"],
                )
        finally:
            # MLflow keeps the retriever that the code opened, which would keep its store.
            if isinstance(latest.__mlflow_model__, QdrantRetriever):
                latest.__mlflow_model__.close()
    return str(logged.registered_model_version)
