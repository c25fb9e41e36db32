"""All parts of an audit, from golden data, passages and reports."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evals.errors import ReportError
from evals.golden.audit.composition import composition, coverage
from evals.golden.audit.doubtful_labels import Runs, contradicted, unfound
from evals.golden.audit.leak import leak
from evals.golden.audit.power import METRICS, power
from evals.golden.audit.repeated_queries import repeated_queries, shared_evidence
from evals.golden.audit.section import AuditSection
from evals.golden.case import Case
from evals.golden.evidence import resolve
from evals.golden.loading import GoldenSet, case_fingerprint
from evals.report.headline import deepest
from evals.report.model import QueryRow, Report
from retrievers.records import Chunk

NO_CHUNKS = "not known: name the pages with --docs, or the collection (--config, --collection)"


def audit(
    golden: GoldenSet,
    chunks: Sequence[Chunk] | None,
    reports: Mapping[str, Report],
    embed: Callable[[Sequence[str]], NDArray[np.float64]],
    *,
    near: float,
    seed: int,
) -> list[AuditSection]:
    """Return all parts, what the data can prove first.

    Args:
        golden: The golden queries.
        chunks: All chunks of the collection, None where it is not named.
        reports: Reports of runs, by name.
        embed: Queries to vectors of length 1.
        near: Cosine from which on two queries count as nearly the same.
        seed: Seed of the draw of chunks that evidence is compared with.

    Raises:
        DatasetError: Evidence that the chunks do not hold.
        ReportError: A report of other golden data.
    """
    cases = golden.cases
    runs = {name: _rows(name, report, cases) for name, report in reports.items()}
    relevance = None if chunks is None else resolve(cases, chunks, golden.places)
    if chunks is None or relevance is None:
        covered = AuditSection(name="coverage", title="Coverage of the collection", lines=(NO_CHUNKS,))
        texts = {case.id: "\n".join(e.quote or "" for e in case.relevant_evidence) for case in cases}
    else:
        covered = coverage(relevance, chunks)
        texts = {case.id: _evidence_text(case, relevance[case.id].grades, chunks) for case in cases}
    return [
        composition(cases),
        power(cases, {title: _scores(name, reports, runs) for title, name in METRICS.items()}),
        covered,
        repeated_queries(cases, embed([case.query for case in cases]), near),
        shared_evidence(cases),
        leak(cases, texts, chunks or (), seed),
        unfound(cases, runs),
        contradicted(runs),
    ]


def _rows(name: str, report: Report, cases: Sequence[Case]) -> Mapping[str, QueryRow]:
    own = {case.id: case_fingerprint(case) for case in cases}
    rows = {row.id: row for row in report.queries if own.get(row.id) == row.fingerprint}
    if not rows:
        raise ReportError(f"{name}: has none of these golden queries as they are now; run it again on this file")
    return rows


def _scores(measure: str, reports: Mapping[str, Report], runs: Runs) -> list[Mapping[str, float]]:
    """Return the scores of a ranking measure at the deepest place that all runs have, in each run, by case id."""
    if not reports:
        return []
    name = deepest(f"ranking/{measure}_at_K", *(report.metrics for report in reports.values()))
    return [
        {key: score for key, row in rows.items() if row.in_scope and isinstance(score := row.scores.get(name), float)}
        for rows in runs.values()
    ]


def _evidence_text(case: Case, grades: Mapping[str, int], chunks: Sequence[Chunk]) -> str:
    """Return the quotes of a case; of evidence without a quote, and of ids, the relevant chunks."""
    quotes = [evidence.quote for evidence in case.relevant_evidence if evidence.quote]
    if quotes and len(quotes) == len(case.relevant_evidence) and not case.relevant:
        return "\n".join(quotes)
    return "\n".join([*quotes, *(chunk.text for chunk in chunks if chunk.chunk_id in grades)])
