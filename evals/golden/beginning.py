"""`golden init` and `golden import`: golden data begun from chunks, from traced queries, or from tables of others."""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evals.cases.case import Case
from evals.cases.reading import FIELDS, rows_of, validate_rows
from evals.cases.relevance import LEAST_CHARACTERS, normalise
from evals.config.experiment import DatasetConfig
from evals.config.files import check_writable, write
from evals.config.telemetry import silence
from evals.errors import DatasetError
from evals.golden.chunks import (
    check_new,
    json_lines,
    named_chunks,
    next_check,
    page_of,
    prose,
    say,
    spread,
)
from retrievers.errors import nearest
from retrievers.records import Chunk

QUOTE_WORDS = 60
SHOWN = 5
# Least similarity, 0 to 100, of a text and a stretch of a chunk that counts as it (rapidfuzz's `partial_ratio`).
ALIKE = 85.0


def init(namespace: argparse.Namespace) -> int:
    """Run `golden init`.

    Raises:
        DatasetError: The file exists, or there is nothing to begin with.
    """
    check_new(namespace.out, force=namespace.force)
    chunks = named_chunks(namespace, needed=True) or []
    rows = skeletons(chunks, namespace.count, namespace.out_of_scope, namespace.seed)
    write(namespace.out, json_lines(rows))
    line = (
        f"{namespace.out}: {len(rows)} skeleton cases out of {len(chunks)} chunks; write a query and an answer "
        f"into each, shorten the quote to what answers it, then: {next_check(namespace.out, namespace)}"
    )
    return say(namespace, [line])


def skeletons(chunks: Sequence[Chunk], count: int, out_of_scope: int, seed: int) -> list[dict[str, Any]]:
    """Return cases with evidence but an empty query, spread over as many pages as possible.

    The evidence quotes prose of a chunk. Chunks without any, such as code and lists of references, are passed over, but
    in a collection that has no others.

    Args:
        chunks: Chunks of the collection.
        count: Number of in-scope cases; fewer if there are fewer chunks.
        out_of_scope: Number of out-of-scope cases to add, empty but for their id.
        seed: Seed of the choice.
    """
    turns, order = Counter[str](), list[tuple[int, Chunk]]()
    for chunk in spread(chunks, seed):
        order.append((turns[page_of(chunk)], chunk))
        turns[page_of(chunk)] += 1
    rows: list[dict[str, Any]] = []
    for number, (_, chunk) in enumerate(sorted(order, key=lambda entry: entry[0])[:count], 1):
        quote = " ".join((prose(chunk.text) or chunk.text).split()[:QUOTE_WORDS])
        evidence = {**_placed(chunk, quote), "grade": 3}
        written = {"query": "", "reference_answer": None, "query_type": "factual"}
        rows.append({"id": f"case-{number:03}", **written, "evidence": [evidence]})
    rows += [
        {"id": f"out-{number + 1:03}", "query": "", "in_scope": False, "query_type": "near_domain"}
        for number in range(out_of_scope)
    ]
    return [row | {"split": ("dev", "test")[number % 2]} for number, row in enumerate(rows)]


class Located(NamedTuple):
    """Where a text was found: how, as evidence of which chunks, and how alike the best chunk is, 0 to 100."""

    how: str
    evidence: Sequence[dict[str, Any]] = ()
    score: float = 100.0


def import_cases(namespace: argparse.Namespace) -> int:
    """Run `golden import`.

    Raises:
        DatasetError: The source has faults, each with its place; nothing is written.
    """
    [first, *more] = namespace.source
    if more:
        raise DatasetError(
            f"golden import: expected one source, whose format is found by itself, got {namespace.source}"
        )
    source = Path(first)
    if not source.exists() and not namespace.revision:
        hint = "of a hub id give --revision, a commit hash, or its data may change"
        raise DatasetError(f"{first!r}: no such file or folder; {hint}")
    check_writable(namespace.out)
    silence(hub=not source.exists())
    hub = None if source.exists() else first
    config = DatasetConfig(hub=hub, revision=namespace.revision, split=namespace.split)
    cases, places = validate_rows(rows_of(hub or source, config, parse_columns(namespace.column)))
    chunks = named_chunks(namespace)
    lines = []
    if quotes := {e.quote for case in cases for e in case.evidence if e.quote and not e.source_url}:
        if chunks is None:
            lines.append(f"  {len(quotes)} passages have no page: name --docs or the collection to have them found")
        else:
            located = locate(sorted(quotes), chunks)
            lines += _said(located)
            cases = tuple(case for old in cases if (case := _with_pages(old, located)))
            lines += [
                f"  {places[key]}: left out, as none of its passages was found"
                for key in places.keys() - {c.id for c in cases}
            ]
    write(namespace.out, json_lines([case.model_dump(exclude_defaults=True) for case in cases]))
    outside = sum(not case.in_scope for case in cases)
    if judged := sum(len(case.relevant_ids) for case in cases):
        relevant = sum(len(case.relevant) for case in cases)
        lines.append(
            f"  {relevant} relevant documents, {judged - relevant} judged and not relevant; their ids must equal the "
            "chunk_id or the source_document_id of your collection (metadata.map)"
        )
    if unlabelled := sum(case.is_unlabelled for case in cases):
        lines.append(_without_labels(unlabelled, namespace.out))
    return say(namespace, [f"{namespace.out}: {len(cases)} cases of {source}, {outside} of them out of scope", *lines])


def parse_columns(given: Sequence[str]) -> dict[str, str] | None:
    """Parse `query=question` into column to field; None where nothing is given.

    Raises:
        DatasetError: It has another form, or an unknown field.
    """
    columns: dict[str, str] = {}
    for text in given:
        name, mark, column = (part.strip() for part in text.partition("="))
        if not (mark and column and name in FIELDS):
            known = f"{nearest(name, FIELDS)}; fields are {', '.join(FIELDS)}"
            raise DatasetError(f"--column: expected FIELD=COLUMN, such as query=question, got {text!r}{known}")
        columns[column] = name
    return columns or None


def locate(texts: Sequence[str], chunks: Sequence[Chunk]) -> dict[str, Located]:
    """Find texts in chunks: word for word (white space aside), as several whole chunks, else the stretch most alike."""
    from rapidfuzz import fuzz, process

    held = [normalise(chunk.text) for chunk in chunks]

    def found(text: str) -> Located:
        plain = normalise(text)
        if whole := next((chunk for chunk, own in zip(chunks, held, strict=True) if plain in own), None):
            return Located("word for word", [_placed(whole, text.strip() if text.strip() in whole.text else plain)])
        parts = [c for c, own in zip(chunks, held, strict=True) if len(own) >= LEAST_CHARACTERS and own in plain]
        if parts:
            return Located("several chunks", [_placed(chunk, chunk.text.strip()) for chunk in parts])
        _, score, number = process.extractOne(plain, held, scorer=fuzz.partial_ratio) or ("", 0.0, -1)
        if score < ALIKE:
            return Located("not found", score=score)
        at = fuzz.partial_ratio_alignment(plain, held[number])
        # Of a text longer than the chunk, the chunk is what was found of it.
        stretch = held[number][at.dest_start : at.dest_end] if at and len(plain) <= len(held[number]) else held[number]
        return Located("alike", [_placed(chunks[number], stretch.strip())], score)

    return {text: found(text) for text in texts}


def _said(located: Mapping[str, Located]) -> list[str]:
    counts = Counter(one.how for one in located.values())
    lines = [f"  {len(located)} passages: " + ", ".join(f"{how} {count}" for how, count in counts.most_common())]
    if alike := [one.score for one in located.values() if one.how == "alike"]:
        lines.append(f"  alike: similarity {min(alike):.0f} to {max(alike):.0f} of 100; read these quotes")
    lost = [(one.score, text) for text, one in located.items() if not one.evidence]
    return lines + [f"  not found (most alike {score:.0f} of 100): {text[:60]!r}" for score, text in lost[:SHOWN]]


def _with_pages(case: Case, located: Mapping[str, Located]) -> Case | None:
    """Return the case with the pages of its passages; None where it had some, and none of them was found."""
    evidence = []
    for item in case.evidence:
        found = None if item.source_url else located[item.quote or ""].evidence
        evidence += [item.model_dump()] if found is None else [{"grade": item.grade, **place} for place in found]
    return Case.model_validate(case.model_dump() | {"evidence": evidence}) if evidence or not case.evidence else None


def _placed(chunk: Chunk, quote: str) -> dict[str, Any]:
    evidence = {"source_url": chunk.source_url, "heading": chunk.heading, "quote": quote}
    return {name: value for name, value in evidence.items() if value}


def _without_labels(count: int, file: Path) -> str:
    return (
        f"  {count} of them are without evidence, so that only a judge can score their results (python -m evals.run "
        f"--dataset.path {file} --judge.model PROVIDER:MODEL); or let people judge what a retriever finds (python -m "
        f"evals.golden label {file} --config EXPERIMENT)"
    )
