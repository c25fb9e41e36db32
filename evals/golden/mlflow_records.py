"""Golden queries as records of an MLflow evaluation dataset, and back. Pure.

A record has `inputs` (what the application is called with), `expectations` and `tags`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.errors import DatasetError
from evals.golden.case import Case
from evals.golden.loading import refusal, validate_rows
from retrievers.text.quoting import quoted

# MLflow's own scorers read the answer; the rest of a case is one expectation, as each becomes a column.
QUERY, ANSWER, REST = "query", "expected_response", "golden_case"
FACTS, CONTEXT = "expected_facts", "expected_retrieved_context"
ASKED = (QUERY, "question", "input", "prompt")
CASE, PLACE = "case_id", "place"
Record = Mapping[str, Any]


def records_of(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return a record a case.

    MLflow keeps one record for equal inputs: those of a repeated query have its case's id, too.
    """
    repeated = {case.id for case in repeating(cases)}
    return [
        {
            "inputs": {QUERY: case.query} | ({CASE: case.id} if case.id in repeated else {}),
            "expectations": {
                **({ANSWER: case.reference_answer} if case.reference_answer is not None else {}),
                REST: case.model_dump(mode="json", exclude={"query", "reference_answer"}, exclude_defaults=True),
            },
            "tags": {CASE: case.id, PLACE: str(number)},
        }
        for number, case in enumerate(cases)
    ]


def repeating(cases: Sequence[Case]) -> list[Case]:
    """Return the cases whose query an earlier one has asked."""
    first: dict[str, str] = {}
    return [case for case in cases if first.setdefault(case.query, case.id) != case.id]


def case_of(query: str, expectations: Mapping[str, Any]) -> Case:
    """Return the case of a row that `records_of` has made.

    Raises:
        DatasetError: It is none, or its case was changed into none.
    """
    if not isinstance(expectations.get(REST), Mapping):
        raise DatasetError(
            f"the row {quoted(query)} expects no {REST}; give scorers the golden data, or evaluate on a dataset that "
            "`python -m evals.golden export mlflow` has made"
        )
    [case], _ = validate_rows([(f"row {quoted(query)}", _row(query, expectations))])
    return case


def rows_of(records: Sequence[Record]) -> tuple[list[dict[str, Any]], int]:
    """Return golden rows in the order of export, and how many of them are skeletons: they lack their evidence.

    Raises:
        DatasetError: A case was changed into none, or a record asks nothing.
    """
    ordered = sorted(records, key=_place)
    rows, whole, faults = [], [], []
    for number, record in enumerate(ordered, 1):
        query, expectations = _asked(record["inputs"]), record.get("expectations") or {}
        if query is None:
            faults.append(f"record {number}: expected a question in inputs, got {quoted(record['inputs'])}")
            continue
        row = _row(query, expectations)
        if REST in expectations:
            whole.append((f"record {number}", row))
        rows.append({"id": f"case-{number:03}"} | row)
    if faults:
        raise refusal(faults)
    if whole:
        validate_rows(whole)
    return rows, sum("evidence" not in row and "relevant_ids" not in row and "in_scope" not in row for row in rows)


def _row(query: str, expectations: Mapping[str, Any]) -> dict[str, Any]:
    rest = expectations.get(REST)
    answer, facts = expectations.get(ANSWER), expectations.get(FACTS)
    if answer is None and isinstance(facts, list):
        answer = " ".join(str(fact).strip() for fact in facts)
    row = dict(rest) if isinstance(rest, Mapping) else _expected_context(expectations.get(CONTEXT))
    return row | {"query": query} | ({} if answer is None else {"reference_answer": answer})


def _expected_context(documents: Any) -> dict[str, Any]:
    """Return MLflow's expected documents as evidence, those with a text alone: an address names no passage."""
    with_text = [item for item in documents or () if isinstance(item, Mapping) and item.get("content")]
    evidence = [
        {"quote": item["content"]} | ({"source_url": item["doc_uri"]} if item.get("doc_uri") else {})
        for item in with_text
    ]
    return {"evidence": evidence} if evidence else {}


def _asked(inputs: Any) -> str | None:
    """Return the question: by the usual names, the last message of a user, or the only text there is."""
    if not isinstance(inputs, Mapping):
        return None
    messages = inputs.get("messages")
    said = [m.get("content") for m in messages if m.get("role") == "user"] if isinstance(messages, list) else []
    texts = [value for value in inputs.values() if isinstance(value, str)]
    candidates = [*(inputs[name] for name in ASKED if name in inputs), *said[-1:], *(texts if len(texts) == 1 else [])]
    return next((text for text in candidates if isinstance(text, str) and text.strip()), None)


def _place(record: Record) -> float:
    try:
        return int((record.get("tags") or {}).get(PLACE, ""))
    except ValueError:
        return float("inf")
