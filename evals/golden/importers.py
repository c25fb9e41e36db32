"""Test collections in BEIR's format as golden queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evals.errors import DatasetError
from evals.golden.case import Case
from evals.golden.loading import MOST_BYTES, explain, refusal
from retrievers.config.files import load_json, read_text
from retrievers.text.quoting import quoted

# Digits of a grade; int() of a long text takes quadratic time.
LONGEST_GRADE = 10


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Cases, and what was left out or decided on the way."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A query and where it stands."""

    place: str
    id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """One line of a qrels file."""

    place: str
    query_id: str
    document_id: str
    grade: int


def import_beir(folder: Path, qrels: Path | None = None) -> Imported:
    """Read `queries.jsonl` and a qrels file (tab-separated, with a header) of a BEIR folder.

    Args:
        folder: The folder.
        qrels: The judgements; `qrels/test.tsv` in the folder when left out.

    Raises:
        DatasetError: A file is missing or malformed; every fault at its file and line.
    """
    queries, faults = _beir_queries(folder / "queries.jsonl")
    judgements, more = _judgements(qrels or folder / "qrels" / "test.tsv")
    _refuse(faults + more)
    return _cases({query.id: query for query in queries}, judgements)


def _cases(queries: Mapping[str, Query], judgements: Sequence[Judgement]) -> Imported:
    judged: dict[str, dict[str, int]] = {}
    _refuse([f"{j.place}: no query {quoted(j.query_id)}" for j in judgements if j.query_id not in queries])
    for judgement in judgements:
        judged.setdefault(judgement.query_id, {})[judgement.document_id] = judgement.grade
    cases, faults = [], []
    for query in queries.values():
        # Without a relevant document every relevance metric is 0 or undefined.
        if not any(grade > 0 for grade in judged.get(query.id, {}).values()):
            continue
        values = {"id": query.id, "query": query.text, "relevant_ids": judged[query.id], "split": "test"}
        try:
            cases.append(Case.model_validate(values))
        except ValidationError as error:
            faults += [f"{query.place}: {explain(dict(item))}" for item in error.errors(include_url=False)]
    _refuse(faults)
    if not cases:
        raise DatasetError("no query has a document that is judged relevant")
    left_out = len(queries) - len(cases)
    notes = [f"{left_out} queries have no relevant document and were left out"] if left_out else []
    return Imported(cases=tuple(cases), notes=tuple(notes))


def _repeated(queries: Iterable[Query]) -> list[str]:
    """Return a fault for each query whose id an earlier one has."""
    first: dict[str, Query] = {}
    return [
        f"{query.place}: query id {quoted(query.id)} is used already at {first[query.id].place}"
        for query in queries
        if first.setdefault(query.id, query) is not query
    ]


def _beir_queries(file: Path) -> tuple[list[Query], list[str]]:
    queries, faults = [], []
    for number, line in _lines(file):
        where = f"{file}:{number}"
        try:
            row = load_json(line)
            if not isinstance(row, dict) or not isinstance(row.get("text"), str) or not str(row.get("_id", "")).strip():
                raise ValueError(f'expected an object with "_id" and "text", got {quoted(row)}')
            queries.append(Query(place=where, id=str(row["_id"]), text=row["text"]))
        except ValueError as error:
            faults.append(f"{where}: {error}")
    return queries, faults + _repeated(queries)


def _beir_line(number: int, line: str) -> tuple[str, str, str] | None:
    parts = line.split("\t")
    # BEIR files start with a header, some copies of them do not.
    if number == 1 and not parts[-1].strip().lstrip("-").isdigit():
        return None
    query_id, document_id, grade = parts
    return query_id, document_id, grade


def _judgements(file: Path) -> tuple[list[Judgement], list[str]]:
    judgements: dict[tuple[str, str], Judgement] = {}
    faults = []
    for number, line in _lines(file):
        where = f"{file}:{number}"
        try:
            parts = _beir_line(number, line)
            grade = _grade(parts[2]) if parts else 0
        except ValueError:
            faults.append(
                f"{where}: expected query id, document id and a whole-number grade, got {quoted(line.strip())}"
            )
            continue
        if parts is None:
            continue
        query_id, document_id, _ = parts
        judgement = Judgement(place=where, query_id=query_id, document_id=document_id, grade=grade)
        before = judgements.setdefault((query_id, document_id), judgement)
        if before is not judgement:
            named = f"document {quoted(document_id)} of query {quoted(query_id)}"
            faults.append(f"{where}: {named} is judged already at {before.place}")
    return list(judgements.values()), faults


def _grade(written: str) -> int:
    if len(written) > LONGEST_GRADE:
        raise ValueError(written)
    return int(written)


def _lines(file: Path) -> Iterable[tuple[int, str]]:
    text = read_text(file, "a file of queries or judgements", MOST_BYTES, DatasetError)
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise refusal(faults)
