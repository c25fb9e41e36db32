"""Documents and questions that a trace of MLflow holds, whoever wrote it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from evals.errors import TrackingError
from retrievers.text.quoting import quoted

if TYPE_CHECKING:
    from mlflow.entities import Span, Trace

# Keys of a document's text, as MLflow's own scorers know them.
TEXT_KEYS = ("page_content", "content", "text")
# Keys of a message that hold no text of it.
MARKS = ("role", "type")
ADDRESS, MLFLOW_ADDRESS = "source_url", "doc_uri"


@dataclass(frozen=True, kw_only=True)
class TracedRetrieval:
    """Retrieval of a trace.

    Attributes:
        questions: Texts that the trace was asked, the user's first; a retriever may be asked another.
        documents: Documents in rank order.
    """

    questions: tuple[str, ...]
    documents: tuple[Document, ...]


def retrieved(trace: "Trace") -> TracedRetrieval:
    """Read the outermost RETRIEVER spans of a trace, of several one after the other.

    Raises:
        TrackingError: The trace has no such span, one failed, or it holds something else than documents.
    """
    spans = outermost_retrievers(trace)
    if not spans:
        raise TrackingError(
            "the trace has no RETRIEVER span; trace the retriever with mlflow.langchain.autolog(), or decorate it with "
            '@mlflow.trace(span_type="RETRIEVER")'
        )
    roots = [span for span in trace.data.spans if span.parent_id is None]
    questions = dict.fromkeys(text for span in (*roots, *spans) for text in _texts(span.inputs))
    return TracedRetrieval(
        questions=tuple(questions),
        documents=tuple(document for span in spans for document in _documents(span)),
    )


def outermost_retrievers(trace: "Trace") -> list["Span"]:
    """Return the RETRIEVER spans below no other one, in the order of their start."""
    spans = {span.span_id: span for span in trace.data.spans}

    def is_inner(span: "Span") -> bool:
        above = spans.get(span.parent_id)
        return above is not None and (above.span_type == "RETRIEVER" or is_inner(above))

    retrievers = [span for span in spans.values() if span.span_type == "RETRIEVER" and not is_inner(span)]
    return sorted(retrievers, key=lambda span: span.start_time_ns)


def _documents(span: "Span") -> Iterator[Document]:
    outputs = span.outputs
    if span.status.status_code.value == "ERROR":
        raise TrackingError(f"the retriever of span {span.name!r} failed")
    if not isinstance(outputs, list):
        raise TrackingError(f"span {span.name!r} returned {quoted(outputs)}; expected a list of documents")
    for number, output in enumerate(outputs, 1):
        item = {"page_content": output} if isinstance(output, str) else output
        text = next((item[key] for key in TEXT_KEYS if key in item), None) if isinstance(item, Mapping) else None
        if not isinstance(text, str) or not text.strip():
            raise TrackingError(
                f"span {span.name!r} returned {quoted(output)} at place {number}; expected a document with its text in "
                f"{', '.join(TEXT_KEYS)}"
            )
        yield Document(page_content=text, metadata=_metadata(item), id=_text_or_none(item.get("id")))


def _metadata(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document's metadata; MLflow's address of it where it names no page."""
    own = item.get("metadata")
    metadata = dict(own) if isinstance(own, Mapping) else {}
    return {ADDRESS: metadata[MLFLOW_ADDRESS], **metadata} if MLFLOW_ADDRESS in metadata else metadata


def _text_or_none(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts within a span's inputs, which JSON text may hold."""
    if isinstance(value, str):
        yield value.strip()
        if value[:1] in "{[":
            try:
                yield from _texts(json.loads(value))
            except ValueError:
                return
    elif isinstance(value, Mapping):
        yield from _texts([inner for name, inner in value.items() if name not in MARKS])
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
