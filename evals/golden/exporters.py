"""Golden queries in other formats: ragas' evaluation dataset, BEIR folders, TREC topics with qrels. Pure."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from evals.errors import DatasetError
from evals.golden.case import Case
from evals.golden.evidence import Relevance
from evals.golden.json_lines import json_lines
from retrievers.records import Chunk

# Judgements by case: chunk id to grade.
Qrels = Mapping[str, Mapping[str, int]]
SHOWN = 3


def qrels_of(cases: Sequence[Case], relevance: Mapping[str, Relevance] | None) -> Qrels:
    """Return the judgements of every case that has some, by chunk id.

    Args:
        cases: The golden queries.
        relevance: Case id to the chunks that its evidence names; None where the collection is not known.

    Raises:
        DatasetError: There is evidence, and the collection is not known.
    """
    if relevance is None:
        anchored = [case.id for case in cases if case.evidence]
        if anchored:
            more = " …" if len(anchored) > SHOWN else ""
            raise DatasetError(
                f"{len(anchored)} cases ({', '.join(anchored[:SHOWN])}{more}) have evidence in place of chunk ids: "
                "name the chunks with --docs DIR, or the collection (--config, --collection)"
            )
        return {case.id: case.relevant_ids for case in cases if case.relevant_ids}
    judgements = {
        key: {**dict.fromkeys(sorted(labels.irrelevant), 0), **labels.grades} for key, labels in relevance.items()
    }
    return {key: grades for key, grades in judgements.items() if grades}


def ragas_rows(
    cases: Sequence[Case], relevance: Mapping[str, Relevance] | None, chunks: Sequence[Chunk]
) -> list[dict[str, Any]]:
    """Return the in-scope cases as rows of ragas' `EvaluationDataset`, which has no queries without an answer.

    Reference contexts are the quotes; of evidence without one, and of chunk ids, the texts of the relevant chunks.

    Args:
        cases: The golden queries.
        relevance: Case id to the chunks that its evidence names; None where the collection is not known.
        chunks: All chunks of the collection.
    """
    texts = {chunk.chunk_id: chunk.text for chunk in chunks}
    rows = []
    for case in (case for case in cases if case.in_scope):
        grades = relevance[case.id].grades if relevance else case.relevant
        quotes = [evidence.quote for evidence in case.relevant_evidence if evidence.quote]
        whole = bool(quotes) and len(quotes) == len(case.relevant_evidence) and not case.relevant
        contexts = quotes if whole else [texts[key] for key in grades if key in texts] or quotes
        row = {"user_input": case.query, "reference": case.reference_answer, "reference_contexts": contexts}
        row["reference_context_ids"] = list(grades)
        rows.append({name: value for name, value in row.items() if value})
    return rows


def beir_files(cases: Sequence[Case], qrels: Qrels, chunks: Sequence[Chunk]) -> dict[str, str]:
    """Return the files of a BEIR folder by their names: queries, judgements by split, and the corpus where it is known.

    Args:
        cases: The golden queries; those without judgements are out of scope, and in the queries alone.
        qrels: Their judgements.
        chunks: All chunks of the collection, none where it is not known.
    """
    files = {"queries.jsonl": json_lines([{"_id": case.id, "text": case.query} for case in cases])}
    for split in dict.fromkeys(case.split or "test" for case in cases if case.id in qrels):
        judged = [case.id for case in cases if case.id in qrels and (case.split or "test") == split]
        lines = [f"{key}\t{chunk}\t{grade}\n" for key in judged for chunk, grade in qrels[key].items()]
        files[f"qrels/{split}.tsv"] = "".join(["query-id\tcorpus-id\tscore\n", *lines])
    if chunks:
        rows = [{"_id": chunk.chunk_id, "title": chunk.title or "", "text": chunk.text} for chunk in chunks]
        files["corpus.jsonl"] = json_lines(rows)
    return files


def trec_files(cases: Sequence[Case], qrels: Qrels) -> dict[str, str]:
    """Return topics and qrels by their file names; queries without judgements are topics alone.

    Args:
        cases: The golden queries.
        qrels: Their judgements.

    Raises:
        DatasetError: An id holds white space, which separates the columns of qrels.
    """
    ids = [*qrels, *(chunk for grades in qrels.values() for chunk in grades)]
    spaced = [key for key in ids if key.split() != [key]]
    if spaced:
        raise DatasetError(f"TREC's qrels take no id with white space, got {spaced[0]!r}; export beir does")
    topics = [
        f"<top>\n<num>{escape(case.id)}</num>\n<title>{escape(' '.join(case.query.split()))}</title>\n</top>\n"
        for case in cases
    ]
    lines = [f"{key} 0 {chunk} {grade}\n" for key, grades in qrels.items() for chunk, grade in grades.items()]
    return {"topics.xml": "".join(topics), "qrels.txt": "".join(lines)}
