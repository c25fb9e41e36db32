"""Queries that a retriever was asked, out of MLflow's traces."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evals.errors import TrackingError
from evals.tracking.store import FOLDER, check_database, local_uri, mlflow_at
from retrievers.errors import nearest
from retrievers.text.quoting import quoted

if TYPE_CHECKING:
    from mlflow.entities import Span

AT_ONCE = 100
# Names of a retriever's argument that holds the query.
ARGUMENTS = ("query", "input", "question", "user_input", "text")


def read_queries(experiment: str, uri: str | None = None, *, most: int) -> list[str]:
    """Return the queries of an experiment's traces, the newest first, repeated ones too.

    Args:
        experiment: Name of the experiment.
        uri: Address of MLflow; the database under ./mlruns when left out.
        most: Number of traces to read at most.

    Raises:
        TrackingError: There is no such experiment, or none of its traces has a RETRIEVER span with a query.
        ConfigError: The database is damaged.
    """
    check_database(uri)
    address = uri or local_uri(FOLDER)
    with mlflow_at(address, writing=True) as client:
        existing = client.get_experiment_by_name(experiment)
        if existing is None:
            names = [each.name for each in client.search_experiments(max_results=1_000)]
            raise TrackingError(f"MLflow has no experiment {quoted(experiment)}{nearest(experiment, names)}")
        queries: list[str] = []
        read, token = 0, None
        while read < most:
            page = client.search_traces(
                locations=[existing.experiment_id],
                max_results=min(AT_ONCE, most - read),
                order_by=["timestamp_ms DESC"],
                page_token=token,
            )
            queries += [query for trace in page for query in _queries(trace.data.spans)]
            read, token = read + len(page), page.token
            if not token:
                break
    if not queries:
        raise TrackingError(
            f"none of the {read} traces of experiment {quoted(experiment)} has a RETRIEVER span with a query; trace "
            'the retriever with mlflow.langchain.autolog(), or decorate it with @mlflow.trace(span_type="RETRIEVER")'
        )
    return queries


def _queries(every: Sequence["Span"]) -> Iterator[str]:
    """Yield the queries of the RETRIEVER spans below no other one, in the order of their start."""
    spans = {span.span_id: span for span in every}

    def is_inner(span: "Span") -> bool:
        above = spans.get(span.parent_id)
        return above is not None and (above.span_type == "RETRIEVER" or is_inner(above))

    for span in sorted(every, key=lambda span: span.start_time_ns):
        if span.span_type == "RETRIEVER" and not is_inner(span) and (query := _text(span.inputs)):
            yield query


def _text(inputs: Any) -> str:
    """Return the query among a span's inputs: a text, an argument of a usual name, or the only text."""
    if isinstance(inputs, str):
        return inputs.strip()
    if not isinstance(inputs, Mapping):
        return ""
    texts = {name: value.strip() for name, value in inputs.items() if isinstance(value, str)}
    named = next((texts[name] for name in ARGUMENTS if texts.get(name)), "")
    return named or (next(iter(texts.values())) if len(texts) == 1 else "")
