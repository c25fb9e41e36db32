"""`golden validate`: every fault of a golden file."""

import argparse
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evals.golden.commands import Subcommands, add_chunk_flags, named_chunks, named_settings, say
from retrievers.config.layers import environment
from retrievers.terminal.command import add_logging_flags, path_argument

if TYPE_CHECKING:
    from evals.golden.case import Case, Evidence
    from evals.golden.loading import GoldenSet
    from evals.golden.source_pages import SourcePage
    from retrievers.records import Chunk


# Queries without labels that are named.
SHOWN = 3


def add_validate(commands: Subcommands) -> None:
    """Add the subcommand to a parser."""
    validate = commands.add_parser(
        "validate",
        help="check a golden file",
        description="List every fault of a file. Where pages are named, or a collection (--config, --collection), "
        "every piece of evidence must be found there.",
    )
    validate.add_argument("file", type=path_argument, help="golden .jsonl file, or a folder of them")
    add_chunk_flags(validate)
    add_logging_flags(validate)
    validate.set_defaults(run=_validate)


def _validate(namespace: argparse.Namespace) -> int:
    from evals.config.experiment import DatasetConfig
    from evals.golden.evidence import missing_chunks, resolve
    from evals.golden.loading import load_golden

    golden, env = load_golden(DatasetConfig(path=namespace.file)), environment(os.environ)
    config, is_named = named_settings(namespace, env)
    checked = (
        "form checked; name the pages with --docs DIR, or the collection with --config FILE, to find the evidence too"
    )
    chunks, missing = None, ""
    if namespace.docs:
        chunks, missing = _resolve_in_pages(golden, namespace.docs, namespace.base_url)
    elif is_named:
        chunks = named_chunks(namespace, config, env)
        missing = missing_chunks(resolve(golden.cases, chunks, golden.places))
    if chunks is not None:
        checked = f"every piece of evidence found in {len(chunks)} chunks"
    splits = Counter((case.split or "no split", case.in_scope) for case in golden.cases)
    types = Counter(case.query_type or "no type" for case in golden.cases)
    lines = [
        f"{namespace.file}: {len(golden.cases)} cases are valid ({checked})",
        *(
            f"  {split}: {splits[split, True]} in scope, {splits[split, False]} out of scope"
            for split in sorted({name for name, _ in splits})
        ),
        "  " + ", ".join(f"{name}: {count}" for name, count in types.most_common()),
        *_unlabelled(golden),
        *(f"  {line}" for line in _human_verdicts(golden.cases, chunks)),
        *([f"  {missing}"] if missing else []),
    ]
    return say(namespace, lines)


def _unlabelled(golden: "GoldenSet") -> list[str]:
    """Return what can score the queries in scope that have no labels."""
    cases = [case for case in golden.cases if case.is_unlabelled]
    if not cases:
        return []
    more = f" and {len(cases) - SHOWN} more" if len(cases) > SHOWN else ""
    answered = sum(case.reference_answer is not None for case in cases)
    return [
        f"  without labels: {len(cases)} ({', '.join(golden.places[case.id] for case in cases[:SHOWN])}{more}), "
        f"{answered} of them with a reference answer; a run needs a judge for these (judge.model)"
    ]


def _human_verdicts(cases: "Sequence[Case]", chunks: "Sequence[Chunk] | None") -> list[str]:
    from evals.golden.case import FEWEST_DRAWN, FEWEST_LABELLED
    from evals.golden.evidence import unplaced_verdicts

    judged = [case.human_verdicts for case in cases if case.human_verdicts]
    if not judged:
        return []
    useful = sum(sum(verdicts.values()) for verdicts in judged)
    count = f"human verdicts: {sum(map(len, judged))} in {len(judged)} cases, {useful} of them useful"
    needed = f"{FEWEST_LABELLED} cases drawn at random, or {FEWEST_DRAWN} that golden label --verdicts offers first"
    lines = [count + (f"; to correct a judge takes {needed}" if len(judged) < FEWEST_LABELLED else "")]
    unplaced = [] if chunks is None else unplaced_verdicts(cases, chunks)
    if unplaced:
        case_id, chunk_id = unplaced[0]
        where = f"as {chunk_id!r} of case {case_id!r}: is the chunking another one?"
        lines.append(f"{len(unplaced)} of the verdicts are on chunks that are not there, {where}")
    return lines


def _resolve_in_pages(golden: "GoldenSet", docs: Path, base_url: str) -> "tuple[list[Chunk], str]":
    """Return the chunks of the pages, and the relevant ones that the pages do not give."""
    from evals.errors import DatasetError
    from evals.golden.evidence import missing_chunks, resolve
    from evals.golden.listed_chunks import chunked_pages
    from evals.golden.source_pages import SourcePage

    pages, chunks = chunked_pages(docs, base_url)
    relevance = resolve(golden.cases, chunks, golden.places)
    faults = _misquoted(golden, {page.source_url: SourcePage(page) for page in pages})
    if faults:
        raise DatasetError(f"{len(faults)} quotes are not in their page word for word:", faults)
    return chunks, missing_chunks(relevance)


def _misquoted(golden: "GoldenSet", pages: Mapping[str, "SourcePage"]) -> list[str]:
    return [
        f"{golden.places[case.id]}: evidence.{number}: {evidence.source_url or 'no page'!r} does not hold "
        f"{evidence.quote[:60]!r}"
        for case in golden.cases
        for number, evidence in enumerate(case.evidence)
        if evidence.quote and not any(any(page.occurrences(evidence.quote)) for page in _named_pages(evidence, pages))
    ]


def _named_pages(evidence: "Evidence", pages: Mapping[str, "SourcePage"]) -> "Collection[SourcePage]":
    return [pages[evidence.source_url]] if evidence.source_url else pages.values()
