"""`golden init` and `golden import`: golden data begun from chunks, or made of tables of others."""

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from evals.cases.case import Case
from evals.cases.reading import FIELDS, load_golden
from evals.cases.relevance import HALF, normalise, share_held
from evals.config.experiment import DatasetConfig
from evals.config.files import write
from evals.config.telemetry import silence
from evals.errors import DatasetError
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
            lost = [text for text, place in located.items() if place is None]
            lines.append(f"  {len(located)} passages: found {len(located) - len(lost)}, not found {len(lost)}")
            lines += [f"  not found: {text[:60]!r}" for text in lost[:SHOWN]]
            left_out = sorted({case.id for case in golden.cases} - {case.id for case in cases})
            lines += [f"  {golden.places[key]}: left out, as none of its passages was found" for key in left_out]
    if not cases:
        raise DatasetError("\n".join([f"{source}: no case is left, so that {namespace.out} was not written", *lines]))
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


def locate(texts: Collection[str], chunks: Sequence[Chunk]) -> dict[str, dict[str, Any] | None]:
    """Find texts in chunks, or across those of a page: the one that holds most, as a run does, if it holds half.

    Returns:
        Each text to the evidence that it is; None where nothing holds half of it.
    """
    of_page: dict[str, list[Chunk]] = {}
    for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_index or 0):
        of_page.setdefault(page_of(chunk), []).append(chunk)
    pages = [replace(page[0], heading=None, text="\n".join(chunk.text for chunk in page)) for page in of_page.values()]
    places = [(place, normalise(place.text)) for place in (*chunks, *pages)]

    def evidence(text: str) -> dict[str, Any] | None:
        plain = normalise(text)
        shares = ((share_held(plain, whole, HALF * len(plain)), place) for place, whole in places)
        share, place = max(shares, key=itemgetter(0))
        return evidence_of(place, text) if share >= HALF else None

    return {text: evidence(text) for text in texts}


def _with_pages(case: Case, located: Mapping[str, dict[str, Any] | None]) -> Case | None:
    """Return the case with the pages of its passages; None where it had some, and none of them was found."""
    evidence = []
    for item in case.evidence:
        place = {} if item.source_url else located[item.quote or ""]
        if place is not None:
            evidence.append({**item.model_dump(), **place})
    return Case.model_validate(case.model_dump() | {"evidence": evidence}) if evidence or not case.evidence else None
