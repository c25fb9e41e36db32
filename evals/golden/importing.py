"""`golden import`: tables of other column names, and contexts without a page, as golden data."""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.cases.case import Case
from evals.cases.reading import validate_rows
from evals.cases.relevance import LEAST_CHARACTERS, normalise
from evals.cases.rows import FIELDS, RAGAS, beir_rows, hub_rows, rows_of
from evals.config.experiment import DatasetConfig
from evals.config.files import check_writable, write
from evals.config.telemetry import silence
from evals.errors import DatasetError
from evals.golden.chunks import json_lines, named_chunks, next_of_unlabelled, say
from retrievers.errors import nearest
from retrievers.records import Chunk
from retrievers.text.quoting import quoted

# Contexts that were found nowhere are shown up to this many.
CONTEXTS_SHOWN = 10
# Least similarity, 0 to 100, of a text and a stretch of a chunk that counts as it (rapidfuzz's `partial_ratio`).
ALIKE = 85.0
OLD_FORMATS = ("beir", "csv", "jsonl", "hf", "ragas", "traces")


@dataclass(frozen=True, kw_only=True)
class Located:
    """Where a text was found.

    Attributes:
        place: Place of its case.
        text: The text.
        evidence: Evidence that quotes the chunks; empty where it was found nowhere.
        how: `exact`, `white space`, `several chunks`, `alike`, or `not found`.
        score: Similarity of the best chunk, 0 to 100.
    """

    place: str
    text: str
    evidence: Sequence[dict[str, Any]] = ()
    how: str = "not found"
    score: float = 100.0


def import_cases(namespace: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        DatasetError: The source has faults, each with its place; nothing is written.
    """
    [source, *more] = namespace.source
    if source in OLD_FORMATS and more:
        instead = "init --traces EXPERIMENT" if source == "traces" else f"import {more[0]}"
        raise DatasetError(f"golden import {source} is gone: golden {instead} -o FILE takes its place")
    if more:
        raise DatasetError(f"golden import: expected one source, got {len(namespace.source)}: {more[0]!r}")
    check_writable(namespace.out)
    columns = parse_columns(namespace.column)
    cases, places = validate_rows(_rows(source, namespace, columns))
    chunks = named_chunks(namespace)
    located = [
        Located(place=places[case.id], text=evidence.quote)
        for case in cases
        for evidence in case.evidence
        if evidence.quote and not evidence.source_url
    ]
    if chunks is not None:
        texts = [normalise(chunk.text) for chunk in chunks]
        located = [locate(one, chunks, texts) for one in located]
        cases = tuple(filter(None, (_with_pages(case, places[case.id], located) for case in cases)))
    write(namespace.out, json_lines([case.model_dump(exclude_defaults=True) for case in cases]))
    outside = sum(not case.in_scope for case in cases)
    lines = [f"{namespace.out}: {len(cases)} cases of {source}, {outside} of them out of scope"]
    lines += _notes(located, chunks is not None, left_out=len(places) - len(cases), source=source)
    if judged := sum(len(case.relevant_ids) for case in cases):
        relevant = sum(len(case.relevant) for case in cases)
        lines.append(f"  {relevant} relevant documents, {judged - relevant} judged and not relevant")
        lines.append(
            "  relevant_ids must equal the chunk_id or the source_document_id of your collection (metadata.map)"
        )
    if unlabelled := sum(case.is_unlabelled for case in cases):
        lines.append(next_of_unlabelled(unlabelled, namespace.out))
    return say(namespace, lines)


def parse_columns(given: Sequence[str]) -> dict[str, str]:
    """Parse `query=question` into field to column.

    Raises:
        DatasetError: It has another form, or an unknown field.
    """
    columns: dict[str, str] = {}
    for text in given:
        name, mark, column = (part.strip() for part in text.partition("="))
        if not (mark and column):
            raise DatasetError(f"--column: expected FIELD=COLUMN, such as query=question, got {text!r}")
        if name not in FIELDS:
            fields = ", ".join(FIELDS)
            raise DatasetError(f"--column: unknown field {name!r}{nearest(name, FIELDS)}; expected one of {fields}")
        columns[name] = column
    return columns


def _rows(source: str, namespace: argparse.Namespace, columns: Mapping[str, str]) -> list[tuple[str, Any]]:
    """Return the rows of a file, folder or hub id, with the columns that are named, and the usual ones else."""
    present: dict[str, None] = {}

    def fields(cells: Mapping[str, Any]) -> dict[str, Any]:
        present.update(dict.fromkeys(cells))
        usual = RAGAS if "user_input" in cells and "query" not in cells else {name: name for name in FIELDS}
        wanted = {field: column for column, field in usual.items()} | dict(columns)
        return {field: cells[column] for field, column in wanted.items() if column in cells}

    if namespace.qrels:
        return list(beir_rows(Path(source), [namespace.qrels]))
    if Path(source).exists():
        silence(hub=False)
        rows = list(rows_of(Path(source), fields))
    else:
        if not namespace.revision:
            raise DatasetError(
                f"{source!r}: no such file or folder; of a hub id give --revision, a commit hash, or its data may "
                "change"
            )
        silence(hub=True)
        rows = list(hub_rows(DatasetConfig(hub=source, revision=namespace.revision, split=namespace.split), fields))
    missing = [name for name in columns.values() if present and name not in present]
    if present and "query" not in columns and not {"query", "user_input"} & present.keys():
        missing = ["query"]
    if missing:
        raise DatasetError(
            f"{source}: no column {missing[0]!r}{nearest(missing[0], present)}; it has "
            f"{', '.join(map(quoted, sorted(present)))}; name columns with --column FIELD=COLUMN"
        )
    return rows


def _with_pages(case: Case, place: str, located: Sequence[Located]) -> Case | None:
    """Return the case with the pages of its contexts; None where it had contexts, and none of them was found."""
    by_text = {one.text: one.evidence for one in located if one.place == place}
    evidence = []
    for one in case.evidence:
        found = by_text.get(one.quote or "") if not one.source_url else None
        evidence += [one.model_dump()] if found is None else [{"grade": one.grade, **new} for new in found]
    if case.evidence and not evidence:
        return None
    return Case.model_validate(case.model_dump() | {"evidence": evidence})


def locate(one: Located, chunks: Sequence[Chunk], texts: Sequence[str]) -> Located:
    """Find a text: as it is, then with white space normalised, as the sum of whole chunks, then the nearest."""
    from rapidfuzz import fuzz, process

    def said(how: str, *found: tuple[Chunk, str], score: float = 100.0) -> Located:
        evidence = [
            {
                name: value
                for name, value in (("source_url", c.source_url), ("heading", c.heading), ("quote", q))
                if value
            }
            for c, q in found
        ]
        return Located(place=one.place, text=one.text, evidence=evidence, how=how, score=score)

    text, plain = one.text.strip(), normalise(one.text)
    for chunk in chunks:
        if text in chunk.text:
            return said("exact", (chunk, text))
    for chunk, whole in zip(chunks, texts, strict=True):
        if plain in whole:
            return said("white space", (chunk, plain))
    inside = [
        (chunk, chunk.text.strip())
        for chunk, whole in zip(chunks, texts, strict=True)
        if len(whole) >= LEAST_CHARACTERS and whole in plain
    ]
    if inside:
        return said("several chunks", *inside)
    _, score, number = process.extractOne(plain, texts, scorer=fuzz.partial_ratio) or ("", 0.0, -1)
    if score < ALIKE:
        return said("not found", score=score)
    whole = texts[number]
    match = fuzz.partial_ratio_alignment(plain, whole)
    # Of a text longer than the chunk, the chunk is what was found of it.
    stretch = whole if match is None or len(plain) > len(whole) else whole[match.dest_start : match.dest_end]
    return said("alike", (chunks[number], stretch.strip()), score=score)


def _notes(located: Sequence[Located], looked_for: bool, *, left_out: int, source: str) -> list[str]:
    if not located:
        return []
    if not looked_for:
        return [
            f"  {len(located)} contexts are quotes without a page: name --docs or the collection to have them found"
        ]
    counts = Counter(one.how for one in located)
    alike = [one.score for one in located if one.how == "alike"]
    lines = [f"  {len(located)} contexts: " + ", ".join(f"{how} {count}" for how, count in counts.most_common())]
    if alike:
        lines.append(f"  alike: similarity {min(alike):.0f} to {max(alike):.0f} of 100; read these quotes")
    lost = [one for one in located if one.how == "not found"]
    lines += [
        f"  {one.place}: not found (most alike {one.score:.0f} of 100): {one.text[:60]!r}"
        for one in lost[:CONTEXTS_SHOWN]
    ]
    if left_out:
        lines.append(f"  {left_out} cases of {source} were left out, since none of their contexts was found")
    return lines
