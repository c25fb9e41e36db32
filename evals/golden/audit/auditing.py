"""An audit: all its parts, from golden data, passages and reports; what is not in a file of its own stands below."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.errors import ReportError
from evals.golden.audit.doubtful_labels import Runs, contradicted, unfound
from evals.golden.audit.power import METRICS, power
from evals.golden.audit.section import SHOWN, AuditSection, first_few
from evals.golden.case import Case
from evals.golden.evidence import Relevance, resolve
from evals.golden.loading import GoldenSet, case_fingerprint
from evals.golden.synthesis.objections import MOST_COPIED, copied_share
from evals.golden.synthesis.sampling import page_of
from evals.report.headline import deepest
from evals.report.model import QueryRow, Report
from retrievers.config.languages import words
from retrievers.records import Chunk

NO_CHUNKS = "not known: name the pages with --docs, or the collection (--config, --collection)"
# Below this share of out-of-scope queries, and this number of them, a threshold is hardly tested.
LEAST_OUTSIDE, FEWEST_OUTSIDE = 0.1, 10
# A type of fewer queries says little by itself.
FEWEST_OF_TYPE = 5
# Shorter words, articles and prepositions, stand in any text.
LETTERS = 4
# Quartiles away from the third, from which on a share is an outlier (Tukey).
FENCE = 1.5
QUARTILES = (0, 25, 50, 75, 100)


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
        covered = _coverage(relevance, chunks)
        texts = {case.id: _evidence_text(case, relevance[case.id].grades, chunks) for case in cases}
    return [
        _composition(cases),
        power(cases, {title: _scores(name, reports, runs) for title, name in METRICS.items()}),
        covered,
        _repeated_queries(cases, embed([case.query for case in cases]), near),
        _shared_evidence(cases),
        _leak(cases, texts, chunks or (), seed),
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


def _composition(cases: Sequence[Case]) -> AuditSection:
    """Return the number and share of queries by type, scope and split."""
    outside = sum(not case.in_scope for case in cases)
    counts = Counter((case.query_type or "no type", case.split or "no split") for case in cases)
    splits = sorted({split for _, split in counts})
    types = Counter(case.query_type or "no type" for case in cases)
    lines = [
        f"{len(cases)} queries: {len(cases) - outside} in scope, {outside} out of scope ({outside / len(cases):.0%})"
    ]
    for name, count in types.most_common():
        by_split = ", ".join(f"{split} {counts[name, split]}" for split in splits)
        lines.append(f"{name:<14} {count:>5} ({count / len(cases):>4.0%})  {by_split}")
    few = [name for name, count in types.items() if count < FEWEST_OF_TYPE]
    if outside < max(FEWEST_OUTSIDE, LEAST_OUTSIDE * len(cases)):
        lines.append("few queries are out of scope: a threshold is hardly tested")
    if few:
        lines.append(f"fewer than {FEWEST_OF_TYPE} queries: {', '.join(few)}; their means say little")
    return AuditSection(
        name="composition",
        title="Types and scope",
        lines=tuple(lines),
        figures={
            "queries": len(cases),
            "out_of_scope": outside,
            "types": dict(types),
            "by_split": {name: {split: counts[name, split] for split in splits} for name in types},
        },
        doubtful=outside < max(FEWEST_OUTSIDE, LEAST_OUTSIDE * len(cases)),
    )


def _coverage(relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> AuditSection:
    """Return the share of the collection's pages and sections that some evidence lies in, and the pages without.

    Args:
        relevance: Case id to relevant chunks.
        chunks: All chunks of the collection.
    """
    relevant = {key for judged in relevance.values() for key in judged.grades}
    sizes = Counter(map(page_of, chunks))
    sections = {(page_of(chunk), chunk.section_path or chunk.heading or "") for chunk in chunks}
    held = [chunk for chunk in chunks if chunk.chunk_id in relevant]
    pages = {page_of(chunk) for chunk in held}
    in_sections = {(page_of(chunk), chunk.section_path or chunk.heading or "") for chunk in held}
    bare = sorted(sizes.keys() - pages, key=lambda page: (-sizes[page], page))
    shown = f": {', '.join(bare[:SHOWN])}{' …' if len(bare) > SHOWN else ''}" if bare else ""
    return AuditSection(
        name="coverage",
        title="Coverage of the collection",
        lines=(
            f"{len(pages)} of {len(sizes)} pages ({len(pages) / len(sizes):.0%}), "
            f"{len(in_sections)} of {len(sections)} sections ({len(in_sections) / len(sections):.0%}) and "
            f"{len(held)} of {len(chunks)} chunks are relevant to some query",
            f"{len(bare)} pages without, the largest first{shown}" if bare else "no page is without",
        ),
        figures={
            "pages": len(sizes), "pages_covered": len(pages), "sections": len(sections),
            "sections_covered": len(in_sections), "chunks": len(chunks), "chunks_relevant": len(held),
            "pages_without": bare,
        },
        doubtful=2 * len(pages) < len(sizes),
    )  # fmt: skip


def _leak(cases: Sequence[Case], texts: Mapping[str, str], chunks: Sequence[Chunk], seed: int) -> AuditSection:
    """Return the share of each query's words that stand in its evidence, its distribution, and the outliers.

    Beside it stands the share in a chunk drawn at random, which is what chance and the subject give.

    Args:
        cases: The golden queries.
        texts: Case id to the text of its evidence, or of its relevant chunks.
        chunks: All chunks of the collection; none where they are not known.
        seed: Seed of the draw.
    """
    inside = [case for case in cases if texts.get(case.id) and _words(case.query)]
    shares = {case.id: _shared_words(case.query, texts[case.id]) for case in inside}
    if not shares:
        return AuditSection(
            name="leak", title="Query words in the evidence", lines=("no query has evidence with text",)
        )
    rng = random.Random(seed)
    chance = [_shared_words(case.query, rng.choice(chunks).text) for case in inside] if chunks else []
    quartiles = [float(value) for value in np.percentile(list(shares.values()), QUARTILES)]
    fence = quartiles[3] + FENCE * (quartiles[3] - quartiles[1])
    copied = {case.id: copied_share(case.query, texts[case.id]) for case in inside}
    outliers = [case for case in inside if shares[case.id] > fence or copied[case.id] > MOST_COPIED]
    outliers.sort(key=lambda case: (-copied[case.id], -shares[case.id], case.id))
    examples = [
        f"{case.id}: {shares[case.id]:.0%} of its words, {copied[case.id]:.0%} of its stretches of four: {case.query!r}"
        for case in outliers
    ]
    beside = f"; in a chunk drawn at random {np.mean(chance):.0%} on average" if chance else ""
    return AuditSection(
        name="leak",
        title="Query words in the evidence",
        lines=(
            f"half of the {len(shares)} queries share {quartiles[1]:.0%} to {quartiles[3]:.0%} of their words with "
            f"their evidence (median {quartiles[2]:.0%}, most {quartiles[4]:.0%}){beside}",
            f"{len(outliers)} stand out, or copy four words in a row" if outliers else "none stands out",
            *first_few(examples),
        ),
        figures={
            "quartiles": quartiles, "at_random": float(np.mean(chance)) if chance else None, "fence": fence,
            "shares": shares, "copied": {key: share for key, share in copied.items() if share},
            "outliers": [case.id for case in outliers],
        },
        doubtful=bool(outliers),
    )  # fmt: skip


def _shared_words(query: str, text: str) -> float:
    """Return the share of a query's words, of four letters and more, that stand in a text, 0 to 1."""
    asked = _words(query)
    return len(asked & _words(text)) / len(asked) if asked else 0.0


def _words(text: str) -> set[str]:
    return {word for word in words(text) if len(word) >= LETTERS}


def _repeated_queries(cases: Sequence[Case], vectors: NDArray[np.float64], near: float) -> AuditSection:
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


def _shared_evidence(cases: Sequence[Case]) -> AuditSection:
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
