"""`golden init` and `golden import`: golden data begun from chunks, or made of tables of others."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from evals.cases.case import Case
from evals.cases.reading import FIELDS, load_golden
from evals.cases.relevance import normalise
from evals.config.experiment import DatasetConfig
from evals.config.files import write
from evals.config.telemetry import silence
from evals.errors import DatasetError
from evals.golden.check import WORD
from evals.golden.chunks import (
    check_new,
    evidence_of,
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
# Share of a text's words that a chunk or page has where its characters are compared, which takes far longer.
LEAST_WORDS = 0.5
# Similarity of texts that are equal; and the least of a text and a stretch that counts as it (rapidfuzz's `ratio`).
EXACT = 100.0
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
    rows: list[dict[str, Any]] = []
    for number, chunk in enumerate(spread(chunks, seed)[:count], 1):
        quote = " ".join((prose(chunk.text) or chunk.text).split()[:QUOTE_WORDS])
        written = {"query": "", "reference_answer": None, "query_type": "factual"}
        rows.append({"id": f"case-{number:03}", **written, "evidence": [{**evidence_of(chunk, quote), "grade": 3}]})
    outside = {"query": "", "in_scope": False, "query_type": "near_domain"}
    rows += [{"id": f"out-{number:03}", **outside} for number in range(1, out_of_scope + 1)]
    return [row | {"split": ("dev", "test")[number % 2]} for number, row in enumerate(rows)]


def import_cases(namespace: argparse.Namespace) -> int:
    """Run `golden import`.

    Raises:
        DatasetError: The source has faults, each with its place; nothing is written.
    """
    source = Path(namespace.source)
    hub = None if source.exists() else namespace.source
    if hub and not namespace.revision:
        hint = "of a hub id give --revision, a commit hash, or its data may change"
        raise DatasetError(f"{hub!r}: no such file or folder; {hint}")
    check_new(namespace.out, force=namespace.force)
    silence(hub=bool(hub))
    path = None if hub else source
    config = DatasetConfig(path=path, hub=hub, revision=namespace.revision, split=namespace.split)
    golden = load_golden(config, parse_columns(namespace.column))
    cases = golden.cases
    chunks = named_chunks(namespace)
    lines = []
    if quotes := {item.quote for case in cases for item in case.evidence if item.quote and not item.source_url}:
        if chunks is None:
            lines.append(f"  {len(quotes)} passages have no page: name --docs or the collection to have them found")
        else:
            located = locate(sorted(quotes), chunks)
            cases = tuple(placed for case in cases if (placed := _with_pages(case, located)))
            lost = sorted({case.id for case in golden.cases} - {case.id for case in cases})
            lines += _how_located(located)
            lines += [f"  {golden.places[key]}: left out, as none of its passages was found" for key in lost]
    write(namespace.out, json_lines([case.model_dump(exclude_defaults=True) for case in cases]))
    if judged := sum(len(case.relevant_ids) for case in cases):
        relevant = sum(len(case.relevant) for case in cases)
        lines.append(
            f"  {relevant} relevant documents, {judged - relevant} judged and not relevant; their ids must equal the "
            "chunk_id or the source_document_id of your collection (metadata.map)"
        )
    lines.append(f"  next: {next_check(namespace.out, namespace)}, and label what has no evidence")
    outside = sum(not case.in_scope for case in cases)
    return say(namespace, [f"{namespace.out}: {len(cases)} cases of {source}, {outside} of them out of scope", *lines])


def parse_columns(flags: Sequence[str]) -> dict[str, str] | None:
    """Parse `query=question` into column to field; None where nothing is given.

    Raises:
        DatasetError: It has another form, or an unknown field.
    """
    columns: dict[str, str] = {}
    for flag in flags:
        field, column = (word.strip() for word in flag.partition("=")[::2])
        if not column or field not in FIELDS:
            fields = f"{nearest(field, FIELDS)}; fields are {', '.join(FIELDS)}"
            raise DatasetError(f"--column: expected FIELD=COLUMN, such as query=question, got {flag!r}{fields}")
        columns[column] = field
    return columns or None


class Located(NamedTuple):
    """Where a text was found, None where it was not, and how alike it is, 0 to 100."""

    evidence: Mapping[str, Any] | None
    score: float


def locate(texts: Sequence[str], chunks: Sequence[Chunk]) -> dict[str, Located]:
    """Find texts in chunks, or across those of a page: word for word (white space aside), else what is most alike."""
    from rapidfuzz import fuzz

    of_page: dict[str, list[Chunk]] = {}
    for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_index or 0):
        of_page.setdefault(page_of(chunk), []).append(chunk)
    pages = [replace(page[0], heading=None, text="\n".join(chunk.text for chunk in page)) for page in of_page.values()]
    places = [(place, plain := normalise(place.text), {*WORD.findall(plain)}) for place in (*chunks, *pages)]

    def nearest_of(text: str) -> Located:
        plain = normalise(text)
        if holder := next((place for place, whole, _ in places if plain in whole), None):
            return Located(evidence_of(holder, text.strip() if text.strip() in holder.text else plain), EXACT)
        words, best = {*WORD.findall(plain)}, Located(None, 0.0)
        for place, whole, known in places:
            if len(words & known) >= LEAST_WORDS * len(words):
                stretch = fuzz.partial_ratio_alignment(plain, whole, score_cutoff=ALIKE)
                quote = whole[stretch.dest_start : stretch.dest_end].strip() if stretch else ""
                # All of a place that is shorter than the text may stand in it, and be little of it.
                if (score := fuzz.ratio(plain, quote)) >= ALIKE and score > best.score:
                    best = Located(evidence_of(place, quote), score)
        return best

    return {text: nearest_of(text) for text in texts}


def _how_located(located: Mapping[str, Located]) -> list[str]:
    lost = [text for text, (evidence, _) in located.items() if evidence is None]
    alike = [score for evidence, score in located.values() if evidence and score < EXACT]
    exact = len(located) - len(lost) - len(alike)
    lines = [f"  {len(located)} passages: word for word {exact}, alike {len(alike)}, not found {len(lost)}"]
    if alike:
        lines.append(f"  alike: similarity {min(alike):.0f} to {max(alike):.0f} of 100; read these quotes")
    return lines + [f"  not found: {text[:60]!r}" for text in lost[:SHOWN]]


def _with_pages(case: Case, located: Mapping[str, Located]) -> Case | None:
    """Return the case with the pages of its passages; None where it had some, and none of them was found."""
    evidence = []
    for item in case.evidence:
        place = {} if item.source_url else located[item.quote or ""].evidence
        if place is not None:
            evidence.append({**item.model_dump(), **place})
    return Case.model_validate(case.model_dump() | {"evidence": evidence}) if evidence or not case.evidence else None
