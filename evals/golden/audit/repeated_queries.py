"""Queries that repeat others, and evidence that both splits share. Pure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.golden.audit.section import AuditSection, first_few
from evals.golden.case import Case
from retrievers.config.languages import words


def repeated_queries(cases: Sequence[Case], vectors: NDArray[np.float64], near: float) -> AuditSection:
    """Return pairs of queries that are the same words, or nearly the same, and those of them that cross splits.

    Args:
        cases: The golden queries.
        vectors: Their vectors of length 1, shape (queries, dimension).
        near: Cosine from which on two queries count as nearly the same.
    """
    plain = [words(case.query) for case in cases]
    cosines = np.triu(vectors @ vectors.T, 1)
    places = sorted(zip(*np.nonzero(cosines >= near), strict=True), key=lambda pair: -cosines[pair])
    same = [(i, j) for i in range(len(cases)) for j in range(i + 1, len(cases)) if plain[i] == plain[j]]
    pairs: list[dict[str, Any]] = [
        {
            "first": cases[i].id,
            "second": cases[j].id,
            "cosine": round(float(cosines[i, j]), 4),
            "same_words": (i, j) in same,
            "across_splits": cases[i].split != cases[j].split,
        }
        for i, j in dict.fromkeys([*same, *((int(i), int(j)) for i, j in places)])
    ]
    across = [pair for pair in pairs if pair["across_splits"]]
    queries = {case.id: case.query for case in cases}
    examples = [
        f"{pair['first']} and {pair['second']} ({pair['cosine']:.2f}{', across splits' * pair['across_splits']}): "
        f"{queries[pair['first']]!r}, {queries[pair['second']]!r}"
        for pair in sorted(pairs, key=lambda pair: not pair["across_splits"])
    ]
    return AuditSection(
        name="repeated",
        title="Repeated queries",
        lines=(
            f"{len(same)} pairs of the same words, {len(pairs) - len(same)} more with a cosine of {near:g} and above; "
            + (
                f"{len(across)} pairs across splits, so that a held-out figure is not"
                if across
                else "none across splits"
            ),
            *first_few(examples),
        ),
        figures={"near": near, "pairs": pairs, "across_splits": len(across)},
        doubtful=bool(same or across),
    )


def shared_evidence(cases: Sequence[Case]) -> AuditSection:
    """Return the pages and the quotes that several splits have evidence in."""
    by_page: dict[str, set[str]] = {}
    by_quote: dict[str, dict[str, str]] = {}
    for case in cases:
        for evidence in case.relevant_evidence:
            if evidence.source_url and case.split:
                by_page.setdefault(evidence.source_url, set()).add(case.split)
            if evidence.quote and case.split:
                by_quote.setdefault(" ".join(evidence.quote.split()), {}).setdefault(case.split, case.id)
    pages = sorted(page for page, splits in by_page.items() if len(splits) > 1)
    quotes = {quote: splits for quote, splits in by_quote.items() if len(splits) > 1}
    examples = [f"{' and '.join(splits.values())}: {quote[:80]!r}" for quote, splits in quotes.items()]
    return AuditSection(
        name="shared_evidence",
        title="Evidence on both sides of a split",
        lines=(
            f"{len(pages)} of {len(by_page)} pages have evidence of several splits, and {len(quotes)} quotes do",
            *first_few(examples),
        ),
        figures={"pages": len(by_page), "pages_of_several": pages, "quotes_of_several": list(quotes)},
        doubtful=bool(quotes),
    )
