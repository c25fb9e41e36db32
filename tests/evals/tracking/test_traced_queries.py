"""`golden import traces`: queries of a LangChain retriever and of a function, traced by MLflow itself."""

import json
import shutil
from pathlib import Path

import mlflow
import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from evals.golden import main
from tests.support.tracking import at

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow and what it imports


class Nothing(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return []


@pytest.fixture
def uri(tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    shutil.copy(mlflow_database, tmp_path)
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def asked(uri: str) -> None:
    """Ask a traced LangChain retriever and a traced function; another trace has no retriever."""

    def search(question: str, top_k: int) -> list[str]:
        return [question] * top_k

    traced = mlflow.trace(search, span_type="RETRIEVER")

    with at(uri):
        mlflow.set_experiment("live")
        mlflow.langchain.autolog()
        try:
            for query in ("how fast is a motor?", "How fast is a motor", "why is it loud?"):
                Nothing().invoke(query)
        finally:
            mlflow.langchain.autolog(disable=True)
        traced("how fast is a motor?", top_k=2)
        with mlflow.start_span("no retriever") as span:
            span.set_inputs({"query": "not a search"})
        mlflow.flush_trace_async_logging()


@pytest.mark.slow
def test_real_queries_become_skeletons_the_most_frequent_first(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked(uri)
    assert main(["init", "--traces", "live", "-o", "golden.jsonl", "--tracking.uri", uri]) == 0
    shown = capsys.readouterr().out
    assert "golden.jsonl: 2 skeletons of 4 traced queries, the most frequent first" in shown
    assert "  3 × 'how fast is a motor?'\n  1 × 'why is it loud?'" in shown
    rows = [json.loads(line) for line in Path("golden.jsonl").read_text().splitlines()]
    assert rows[0] == {"id": "case-001", "query": "how fast is a motor?", "tags": ["traced"]}
    assert main(["check", "golden.jsonl"]) == 0
    assert "golden.jsonl: 2 cases are valid" in capsys.readouterr().out, "their evidence may still be added"


def test_an_experiment_without_such_traces_is_named(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--traces", "lives", "-o", "golden.jsonl", "--tracking.uri", uri]) == 2
    assert "MLflow has no experiment 'lives'" in capsys.readouterr().err
    assert main(["init", "--traces", "Default", "-o", "golden.jsonl", "--tracking.uri", uri]) == 2
    assert "none of the 0 traces of experiment 'Default' has a RETRIEVER span with a query" in capsys.readouterr().err
    assert not Path("golden.jsonl").exists()
