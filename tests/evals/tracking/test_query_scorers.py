"""Scorers of `mlflow.genai.evaluate` beside `evals.evaluate`, query by query."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Span, Trace, TraceData, TraceInfo, TraceLocation, TraceState

from evals import Evaluation, evaluate
from evals.errors import DatasetError, ExperimentError, TrackingError
from evals.golden.case import Case
from evals.golden.mlflow_records import records_of
from evals.tracking import scorers
from evals.tracking.client import current
from evals.tracking.retrieved_documents import retrieved
from evals.tracking.traces import _content as content
from evals.tracking.traces import _span as span
from retrievers import QdrantRetriever
from tests.support.experiment import CASES, make_experiment, settings
from tests.support.foreign import plain

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow and what it imports
DOCS = Path(__file__).parents[3] / "docs" / "compare.md"
METRICS = ["ranking/*", "scope/*", "ragas/id_*"]
GOLDEN = [*CASES, {"id": "answered", "query": "a hand and the joints of an arm", "in_scope": False}]


@pytest.fixture(scope="module", autouse=True)
def database(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Iterator[None]:
    """An MLflow of this module's own, in the foreground and quiet."""
    folder = tmp_path_factory.mktemp("genai")
    shutil.copy(mlflow_database, folder)
    with current(f"sqlite:///{folder / 'mlflow.db'}"):
        mlflow.create_experiment("genai", artifact_location=folder.as_uri())
        mlflow.set_experiment("genai")
        yield


@pytest.fixture(scope="module")
def qdrant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantRetriever]:
    made = make_experiment(tmp_path_factory.mktemp("work"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.folder)
        evaluate(experiment=settings(made, metrics=["ranking/*"]))
        with QdrantRetriever.open(settings(made).retriever) as retriever:
            yield retriever


def measured(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    """Return query to metric to value, of what is scored."""
    return {
        row.query: {name: float(score) for name, score in row.scores.items() if isinstance(score, int | float)}
        for row in evaluation.report.rows()
    }


def assessed(run_id: str) -> dict[str, dict[str, Any]]:
    """Return query to scorer to value, of what was assessed; an error is its message."""
    return {
        retrieved(trace).questions[0]: {
            item.name: item.error.error_message if item.error else item.value
            for item in trace.info.assessments
            if item.feedback
        }
        for trace in mlflow.search_traces(run_id=run_id, return_type="list")
    }


def genai(data: Any, wanted: list[Any], predict: Any = None) -> dict[str, dict[str, Any]]:
    return assessed(mlflow.genai.evaluate(data=data, predict_fn=predict, scorers=wanted).run_id)


@pytest.mark.slow
def test_the_example_of_the_docs_gets_the_values_of_an_evaluation(qdrant: QdrantRetriever) -> None:
    _, example = DOCS.read_text(encoding="utf-8").split("## MLflow's own evaluation")
    wanted = measured(evaluate(qdrant, CASES, metrics=METRICS))
    Path("retriever.yaml").write_text(qdrant.settings.model_dump_json(exclude_unset=True), encoding="utf-8")
    names: dict[str, Any] = {}
    try:
        exec(example.split("```python\n")[1].split("```")[0], names)
        names["retriever"].close()
    finally:
        mlflow.langchain.autolog(disable=True)
    found = assessed(names["result"].run_id)
    mlflow.set_experiment("genai")
    assert found == {query: wanted[query] for query in names["queries"]}
    assert 0 < found["named channel of messages"]["ranking/ndcg_at_3"] < 1


@mlflow.trace(span_type="RETRIEVER")  # type: ignore[untyped-decorator]
def search(query: str) -> list[mlflow.entities.Document]:
    """Retrieve as in MLflow's tutorial."""
    return [mlflow.entities.Document(page_content=d.page_content, metadata=d.metadata) for d in OVERLAP.invoke(query)]


@mlflow.trace  # type: ignore[untyped-decorator]
def answer(question: str) -> str:
    return f"{len(search(f'{question}'))} passages"


OVERLAP = plain()


@pytest.mark.slow
def test_a_function_within_an_application_gets_them_too_and_no_assessment_where_there_is_no_score() -> None:
    wanted = measured(evaluate(OVERLAP, GOLDEN, metrics=METRICS, top_k=2))
    data = [{"inputs": {"question": case["query"]}} for case in GOLDEN]
    found = genai(data, scorers(GOLDEN, METRICS, top_k=2), answer)
    assert found == wanted
    # Not all relevant chunks are known.
    assert not {"ranking/recall_at_1", "ranking/ndcg_at_1"} & {name for values in found.values() for name in values}
    assert found["onion soup recipe with cheese"]["scope/abstention"] in (0, 1)


def scored(trace: Trace, wanted: list[Any], expectations: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return scorer to value as `mlflow.genai.evaluate` calls them."""
    values = {s.name: s.run(trace=trace, expectations=expectations, inputs={}, outputs=None) for s in wanted}
    return {name: value.value for name, value in values.items() if value is not None}


def traced(*outputs: Any, query: str = "forward kinematics of an arm", span_type: str = "RETRIEVER") -> Trace:
    """Return a trace of spans that return these, one after the other."""
    asked = {"messages": [{"role": "user", "content": query}]}
    found = [
        span("find", (1, number, 1), (number, number + 1), content(span_type, {"query": "a rewritten query"}, output))
        for number, output in enumerate(outputs, 2)
    ]
    return trace_of(span("app", (1, 1, None), (0, 9), content("CHAIN", asked, "an answer")), *found)


def trace_of(*spans: Span) -> Trace:
    location = TraceLocation.from_experiment_id("0")
    info = TraceInfo(trace_id=spans[0].trace_id, trace_location=location, request_time=0, state=TraceState.OK, tags={})
    return Trace(info, TraceData(list(spans)))


BY_ID = [{"id": "f", "query": "forward kinematics of an arm", "relevant_ids": {"a": 2, "b": 1, "z": 0}}]


def chunk(key: str) -> dict[str, Any]:
    return {"page_content": f"text {key}", "metadata": {"chunk_id": key, "doc_uri": f"/docs/{key}"}}


@pytest.mark.parametrize("outputs", [[[chunk("c"), chunk("a")]], [[chunk("c")], [chunk("a")]]])
def test_values_of_ids_counted_by_hand(outputs: list[Any]) -> None:
    wanted = scorers(BY_ID, ["ranking/mrr_at_3", "ranking/recall_at_5", "ranking/precision_at_1", "ragas/id_*"])
    assert scored(traced(*outputs), wanted) == {
        "ragas/id_context_precision": 0.5,
        "ragas/id_context_recall": 0.5,
        "ranking/precision_at_1": 0,
        "ranking/recall_at_5": 0.5,
        "ranking/mrr_at_3": 0.5,
    }


def test_retrievers_within_a_retriever_count_once() -> None:
    asked = "forward kinematics of an arm"
    outer = span("ensemble", (1, 1, None), (0, 9), content("RETRIEVER", asked, [chunk("c"), chunk("a")]))
    inner = span("part", (1, 2, 1), (1, 2), content("RETRIEVER", asked, [chunk("b")]))
    assert scored(trace_of(outer, inner), scorers(BY_ID, ["ranking/mrr_at_3"])) == {"ranking/mrr_at_3": 0.5}


def test_the_case_can_be_in_the_expectations() -> None:
    [record] = records_of([Case.model_validate(BY_ID[0])])
    wanted = scorers(metrics=["ranking/mrr_at_3"])
    assert scored(traced([chunk("a")]), wanted, record["expectations"]) == {"ranking/mrr_at_3": 1}
    with pytest.raises(DatasetError, match="expects no golden_case; give scorers the golden data"):
        scored(traced([chunk("a")]), wanted, {"expected_response": "42"})


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ({"outputs": ([],), "span_type": "TOOL"}, "no RETRIEVER span; trace the retriever with mlflow.langchain"),
        ({"outputs": ("text",)}, "returned 'text'; expected a list of documents"),
        ({"outputs": ([{"metadata": {}}],)}, "at place 1; expected a document with its text in page_content"),
        ({"outputs": ([],), "query": "what else?"}, "no golden query is 'what else\\?', which this trace was asked"),
    ],
)
def test_a_trace_that_cannot_be_scored_says_why(trace: dict[str, Any], message: str) -> None:
    outputs = trace.pop("outputs")
    with pytest.raises(TrackingError, match=message):
        scored(traced(*outputs, **trace), scorers(BY_ID, ["ranking/mrr_at_3"]))


def test_two_cases_of_one_query_are_told_apart_by_id_alone() -> None:
    cases = [*BY_ID, {**BY_ID[0], "id": "g", "relevant_ids": {"c": 1}}]
    wanted, trace = scorers(cases, ["ranking/mrr_at_3"]), traced([chunk("c")])
    with pytest.raises(TrackingError, match=r"the query of several cases \(f, g\); expected one"):
        scored(trace, wanted)
    trace.info.tags["query_id"] = "g"
    assert scored(trace, wanted) == {"ranking/mrr_at_3": 1}


@pytest.mark.parametrize("metric", ["scope/auroc", "latency/total_p95_ms", "candidates/*", "content/source_match"])
def test_what_a_trace_cannot_give_is_refused(metric: str) -> None:
    with pytest.raises(ExperimentError, match="metrics: "):
        scorers(BY_ID, [metric])


def test_few_metrics_are_chosen_unless_named() -> None:
    names = [made.name for made in scorers(BY_ID)]
    assert "ranking/ndcg_at_5" in names and "ranking/ndcg_at_3" not in names and len(names) < 15
