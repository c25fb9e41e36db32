"""Test collections of the IR field as golden queries: BEIR folders, TREC topics with qrels. Pure but for reading."""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.dataset.schema import Case
from evals.errors import DatasetError

TopicIds = Literal["auto", "num", "ordinal"]
TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
FIELD = re.compile(r"<(num|title)>(.*?)(?=<[a-z/])", re.DOTALL | re.IGNORECASE)
LABEL = re.compile(r"^\s*(?:Number|Topic)\s*:", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Cases, and what was left out or decided on the way."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...]


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
    judgements, more = _judgements(qrels or folder / "qrels" / "test.tsv", _beir_line)
    _refuse(faults + more)
    return _cases(queries, judgements)


def import_trec(topics: Path, qrels: Path, topic_ids: TopicIds = "auto") -> Imported:
    """Read TREC topics (`<top>` with `<num>` and `<title>`; well-formed XML or not) and a qrels file.

    Args:
        topics: The topics.
        qrels: Lines of `query iteration document grade`.
        topic_ids: What the qrels' query ids are: the topics' `<num>`, their ordinal in the file (as in Cranfield), or,
            with `auto`, the first of the two that knows every query id of the qrels.

    Raises:
        DatasetError: A file is missing or malformed, or the query ids fit neither.
    """
    found = list(_topics(_read(topics)))
    if not found:
        raise DatasetError(f"{topics}: holds no <top> with <num> and <title>")
    judgements, faults = _judgements(qrels, _trec_line)
    _refuse(faults)
    by_num = dict(found)
    by_ordinal = {str(number): title for number, (_, title) in enumerate(found, 1)}
    judged = {judgement.query_id for judgement in judgements}
    queries, note = _topic_names(topic_ids, by_num, by_ordinal, judged, qrels)
    imported = _cases(queries, judgements)
    return Imported(cases=imported.cases, notes=(note, *imported.notes))


def _topic_names(
    topic_ids: TopicIds, by_num: Mapping[str, str], by_ordinal: Mapping[str, str], judged: set[str], qrels: Path
) -> tuple[Mapping[str, str], str]:
    known = {"num": by_num, "ordinal": by_ordinal}
    tried = ("num", "ordinal") if topic_ids == "auto" else (topic_ids,)
    for name in tried:
        if judged <= known[name].keys():
            return known[name], f"the query ids of {qrels.name} are the topics' {name}"
    missing = {name: sorted(judged - known[name].keys())[:3] for name in tried}
    raise DatasetError(
        f"{qrels}: its query ids are not the topics' "
        + " and not their ".join(f"{name} (unknown: {', '.join(ids)} …)" for name, ids in missing.items())
    )


def _cases(queries: Mapping[str, str], judgements: Sequence[Judgement]) -> Imported:
    relevant: dict[str, dict[str, int]] = {}
    _refuse([f"{j.place}: no query {j.query_id!r}" for j in judgements if j.query_id not in queries])
    for judgement in judgements:
        if judgement.grade > 0:
            relevant.setdefault(judgement.query_id, {})[judgement.document_id] = judgement.grade
    cases = tuple(
        Case(id=query_id, query=text, relevant_ids=relevant[query_id], split="test")
        for query_id, text in queries.items()
        if query_id in relevant
    )
    if not cases:
        raise DatasetError("no query has a document that is judged relevant")
    left_out = len(queries) - len(cases)
    notes = [f"{left_out} queries have no relevant document and were left out"] if left_out else []
    return Imported(cases=cases, notes=tuple(notes))


def _topics(text: str) -> Iterator[tuple[str, str]]:
    for block in TOPIC.findall(text):
        fields = {name.lower(): LABEL.sub("", value) for name, value in FIELD.findall(f"{block}</top>")}
        if {"num", "title"} <= fields.keys():
            yield fields["num"].strip(), " ".join(html.unescape(fields["title"]).split())


def _beir_queries(file: Path) -> tuple[dict[str, str], list[str]]:
    queries: dict[str, str] = {}
    faults = []
    for number, line in _lines(file):
        try:
            row = json.loads(line)
            queries[str(row["_id"])] = str(row["text"])
        except (json.JSONDecodeError, KeyError, TypeError):
            faults.append(f'{file}:{number}: expected an object with "_id" and "text", got {line[:60]!r}')
    return queries, faults


def _beir_line(number: int, line: str) -> tuple[str, str, str] | None:
    parts = line.split("\t")
    if number == 1 and not parts[-1].strip().lstrip("-").isdigit():
        return None
    query_id, document_id, grade = parts
    return query_id, document_id, grade


def _trec_line(_: int, line: str) -> tuple[str, str, str]:
    query_id, _iteration, document_id, grade = line.split()
    return query_id, document_id, grade


def _judgements(
    file: Path, parse: Callable[[int, str], tuple[str, str, str] | None]
) -> tuple[list[Judgement], list[str]]:
    judgements, faults = [], []
    for number, line in _lines(file):
        place = f"{file}:{number}"
        try:
            parts = parse(number, line)
            if parts:
                query_id, document_id, grade = parts
                judgements.append(Judgement(place=place, query_id=query_id, document_id=document_id, grade=int(grade)))
        except ValueError:
            faults.append(
                f"{place}: expected query id, document id and a whole-number grade, got {line.strip()[:60]!r}"
            )
    return judgements, faults


def _lines(file: Path) -> Iterable[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(_read(file).splitlines(), 1) if line.strip())


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{file}: not UTF-8 (byte {error.start}: {error.reason})") from error
    except OSError as error:
        raise DatasetError(f"{file}: cannot be read: {error.strerror}") from error


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        shown = [*faults[:50], *([f"… and {len(faults) - 50} more"] if len(faults) > 50 else [])]
        raise DatasetError(f"{len(faults)} faults:", shown)
