"""`golden check`: the faults of golden data with their places, what the data prove and cover, and what is doubtful."""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import sqrt
from pathlib import Path

import numpy as np

from evals.cases.case import Case
from evals.cases.reading import GoldenSet, case_fingerprint, golden_set
from evals.cases.relevance import Relevance, lacking, resolve
from evals.config.telemetry import silence
from evals.errors import ReportError
from evals.golden.chunks import embedder, named_chunks, say
from evals.report.model import QueryRow, Report
from evals.stats.intervals import Floats, student_quantile
from evals.tracking.store import read_report
from retrievers.embedding.models import make_embeddings
from retrievers.records import Chunk

# Most examples of a finding that are shown.
SHOWN = 5
# With a smaller share or number of out-of-scope queries, a threshold is hardly tested.
LEAST_OUTSIDE = 0.1
FEWEST_OUTSIDE = 10
# Queries that are compared at once, so that memory does not grow with the square of their number.
BLOCK = 1_000
# Lowest cosine of two queries that count as nearly the same.
NEAR = 0.85
# Words of a stretch.
GRAM = 4
# Largest share of a query's stretches that may stand in its passages. Technical terms alone can reach it.
MOST_COPIED = 0.3
# Lowest share of common stretches, out of all stretches of two chunks, for the chunks to count as copies.
COPY = 0.8
# From U+2E80 on, scripts put no space between words, so that each character counts as a word.
WORD = re.compile(r"[⺀-\uffff]|\w+")
# Fewest queries by which an exact test (two-sided, 5%) rejects if all of them change the same way: 2 · 0.5⁶ < 0.05.
FEWEST_CHANGED = 6
# Standard deviation of differences of nDCG, where two runs have little in common.
USUAL = 0.5
Rows = Mapping[str, QueryRow]
"""Case id to the row of a run, for the cases that are unchanged in the golden data."""


def finding(title: str, lines: Sequence[str], examples: Sequence[str] = (), *, doubtful: bool | None = None) -> str:
    """Return a finding as text: a heading, sentences, and the first few examples.

    Args:
        title: Heading.
        lines: Sentences.
        examples: Examples of the finding.
        doubtful: True if somebody should look into the finding; if left out, examples make it doubtful.
    """
    more = [f"  … and {len(examples) - SHOWN} more"] if len(examples) > SHOWN else []
    mark = "! " if (bool(examples) if doubtful is None else doubtful) else ""
    return "\n  ".join([mark + title, *lines, *(f"  {example}" for example in examples[:SHOWN]), *more])


def check(namespace: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        DatasetError: The data have faults. Each is listed with its place.
    """
    silence(hub=False)
    golden = golden_set(namespace.file)
    cases = golden.cases
    runs = [_rows_of(file, read_report(file)[0], cases) for file in namespace.report]
    config, env, chunks = named_chunks(namespace)
    how = "form checked; name --docs DIR or --config FILE to find the evidence too"
    relevance = {}
    if chunks is not None:
        relevance = resolve(cases, chunks, golden.places)
        how = f"every piece of evidence leads to one of {len(chunks)} chunks"
        gone = {key for case in cases for key in case.human_verdicts} - {chunk.chunk_id for chunk in chunks}
        how += f"; human_verdicts are on {len(gone)} other chunks, such as {min(gone)!r}" if gone else ""
    vectors = embedder(make_embeddings(config.embedding, env))([case.query for case in cases])
    findings = [composition(golden, relevance), power(cases), repeats(cases, vectors), copies(cases)]
    if chunks:
        findings += [coverage(relevance, chunks), in_the_corpus(cases, chunks), near_copies(cases, relevance, chunks)]
    if runs:
        findings.append(unfound(cases, runs))
    return say(namespace, [f"{namespace.file}: {len(cases)} cases are valid ({how})", *findings])


def composition(golden: GoldenSet, relevance: Mapping[str, Relevance]) -> str:
    """Return the numbers of queries by type, scope and split, and of queries and evidence without labels."""
    cases = golden.cases
    outside = sum(not case.in_scope for case in cases)
    by_split = Counter((case.split or "no split", case.in_scope) for case in cases)
    types = Counter(case.query_type or "no type" for case in cases).most_common()
    unlabelled = [golden.places[case.id] for case in cases if case.is_unlabelled]
    lacks = [*lacking(relevance)]
    is_few = outside < max(FEWEST_OUTSIDE, LEAST_OUTSIDE * len(cases))
    lines = [f"{len(cases)} queries: {len(cases) - outside} in scope, {outside} out of scope"]
    for split in sorted({split for split, _ in by_split}):
        lines.append(f"{split}: {by_split[split, True]} in scope, {by_split[split, False]} out of scope")
    lines.append(", ".join(f"{name}: {count}" for name, count in types))
    if is_few:
        lines.append("few queries are out of scope: a threshold is hardly tested")
    if unlabelled:
        lines.append(f"{len(unlabelled)} have no labels, the first at {unlabelled[0]}: only a judge can score these")
    return finding("Types, scope and labels", [*lines, *lacks], doubtful=is_few or bool(lacks))


def power(cases: Sequence[Case]) -> str:
    """Return which differences of nDCG the queries with labels can prove: all queries, and those of each split.

    This is (t₀.₉₇₅ + t₀.₈₀) · s / √n for a paired test with 5% significance, two-sided, and 80% power, with s = 0.5.
    Differences of hits vary more, with s up to √0.5 for two independent runs, and their exact test needs a little more.
    """
    groups = Counter(name for case in cases if case.is_labelled for name in ("all", case.split) if name)
    differences = [f"{smallest_difference(USUAL, n)} ({name}, n {n})" for name, n in sorted(groups.items())]
    return finding(
        "Smallest differences that can be proved",
        [
            f"nDCG, about: {', '.join(differences) or 'no query with labels'}; hit rates: up to half as much again",
            "a smaller one is proved in fewer than 80% of the cases; among ten metrics it takes 1.3 times as much",
        ],
    )


def smallest_difference(deviation: float, n: int) -> str:
    """Return as text the smallest difference of means, at most 1, that n paired queries prove with 80% power.

    Args:
        deviation: Standard deviation of the differences.
        n: Number of queries, at least 1.
    """
    quantiles = student_quantile(n - 1, 0.025) + student_quantile(n - 1, 0.2)
    return "none" if n < FEWEST_CHANGED else f"{min(1.0, quantiles * deviation / sqrt(n)):.3f}"


def coverage(relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> str:
    """Return the share of the collection's pages that hold evidence, and the other pages."""
    ids = {chunk_id for of_case in relevance.values() for chunk_id in of_case.grades}
    relevant = [chunk for chunk in chunks if chunk.chunk_id in ids]
    sizes, pages = Counter(chunk.page for chunk in chunks), {chunk.page for chunk in relevant}
    others = sorted(sizes.keys() - pages, key=lambda page: (-sizes[page], page))
    share = f"{len(pages)} of {len(sizes)} pages ({len(pages) / len(sizes):.0%})"
    covered = f"{share} and {len(relevant)} of {len(chunks)} chunks are relevant to some query"
    lines = [covered, f"{len(others)} pages are without, the largest first"]
    return finding("Coverage of the collection", lines, others, doubtful=2 * len(pages) < len(sizes))


def repeats(cases: Sequence[Case], vectors: Floats) -> str:
    """Return the pairs of queries that are nearly the same. Pairs of both scopes come first, then pairs across splits.

    Args:
        cases: The golden queries.
        vectors: Vectors of the queries, of length 1, shape (queries, dimension).
    """
    near = ((cases[i], cases[j], cosine) for i, j, cosine in near_pairs(vectors))
    pairs = sorted(near, key=lambda p: (p[0].in_scope == p[1].in_scope, p[0].split == p[1].split, -p[2]))
    examples, across = list[str](), 0
    for first, second, cosine in pairs:
        crosses = first.split != second.split
        across += crosses
        scope = ", one of them out of scope" * (first.in_scope != second.in_scope)
        about = f"{cosine:.2f}{', across splits' * crosses}{scope}"
        examples.append(f"{first.id} and {second.id} ({about}): {first.query!r}, {second.query!r}")
    line = f"{len(pairs)} pairs with a cosine of {NEAR:g} and above, {across} of them across splits"
    return finding("Repeated queries", [line + ", so that a held-out figure is not" * bool(across)], examples)


def near_pairs(vectors: Floats) -> Iterator[tuple[int, int, float]]:
    """Yield the places of two texts that are nearly the same, the lower one first, and the cosine of their vectors."""
    for start in range(0, len(vectors), BLOCK):
        cosines = np.triu(vectors[start : start + BLOCK] @ vectors.T, k=start + 1)
        for i, j in np.argwhere(cosines >= NEAR).tolist():
            yield start + i, j, float(cosines[i, j])


def copies(cases: Sequence[Case]) -> str:
    """Return the queries that copy their evidence: it holds more than 30% of their stretches of four words."""
    quotes = ((case, "\n".join(item.quote for item in case.relevant_evidence if item.quote)) for case in cases)
    shares = [(copied_share(case.query, text), case) for case, text in quotes if text]
    copied = sorted((p for p in shares if p[0] > MOST_COPIED), key=lambda p: -p[0])
    examples = [f"{case.id}: {share:.0%} of its stretches of four words: {case.query!r}" for share, case in copied]
    line = f"{len(copied)} of {len(shares)} queries copy more than {MOST_COPIED:.0%} of themselves from it"
    return finding("Words copied from the evidence", [line], examples)


def in_the_corpus(cases: Sequence[Case], chunks: Sequence[Chunk]) -> str:
    """Return the queries whose whole text stands in a chunk: to search for them is to find a copy."""
    queries = {case.id: (grams(case.query), _plain(case.query)) for case in cases if grams(case.query)}
    having = dict[str, list[str]]()  # the queries that have a stretch of words, which few chunks share
    for key, (stretches, _) in queries.items():
        having.setdefault(min(stretches), []).append(key)
    places = dict[str, str]()
    for chunk in chunks:
        for key in chain.from_iterable(having[stretch] for stretch in grams(chunk.text) & having.keys()):
            if key not in places and queries[key][1] in _plain(chunk.text):
                places[key] = chunk.source
    examples = [f"{case.id}: {case.query!r} in {places[case.id]}" for case in cases if case.id in places]
    line = f"{len(examples)} of {len(queries)} queries of four words and more stand in a chunk word for word"
    return finding("Queries whose text stands in the corpus", [line], examples)


def near_copies(cases: Sequence[Case], relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> str:
    """Return the near copies among the chunks that are relevant to a query, which count a passage twice."""
    by_id, examples = {chunk.chunk_id: chunk for chunk in chunks}, list[str]()
    for case in cases:
        relevant = (by_id[key] for key in sorted(relevance[case.id].grades) if key in by_id)
        stretches = [(chunk.source, grams(chunk.text)) for chunk in relevant]
        for (source, grams_a), (other, grams_b) in combinations(stretches, 2):
            if grams_a and len(grams_a & grams_b) >= COPY * len(grams_a | grams_b):
                examples.append(f"{case.id}: {source} and {other}")
    line = f"{len(examples)} pairs of near copies are both relevant to a query, which counts one passage twice"
    return finding("Near-duplicate chunks", [line], examples)


def unfound(cases: Sequence[Case], runs: Sequence[Rows]) -> str:
    """Return the labelled queries for which no run found a relevant chunk."""
    queries = {case.id: case.query for case in cases if case.in_scope}
    rows_of = {key: [run[key] for run in runs if key in run and run[key].outcome != "UNLABELLED"] for key in queries}
    nowhere = [key for key, rows in rows_of.items() if rows and all(row.first_relevant is None for row in rows)]
    hint = ": wrong labels, or queries to improve the search with" if nowhere else ""
    share = f"{len(nowhere)} of {sum(map(bool, rows_of.values()))} queries"
    line = f"{share} have no relevant chunk among the candidates of {len(runs)} runs{hint}"
    return finding("Evidence that no report finds", [line], [f"{key}: {queries[key]!r}" for key in nowhere])


def copied_share(query: str, text: str) -> float:
    """Return the share of a query's stretches of four words that stand in a text, 0 to 1; 0 for fewer than four words.

    Case and punctuation are ignored. In scripts without spaces, each character is a word.
    """
    stretches = grams(query)
    return len(stretches & grams(text)) / len(stretches) if stretches else 0.0


def grams(text: str) -> frozenset[str]:
    """Return the distinct stretches of four words of a text."""
    words = WORD.findall(text.casefold())
    return frozenset(" ".join(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1))


def _plain(text: str) -> str:
    """Return the words of a text in small letters, with a blank before and after each."""
    return f" {' '.join(WORD.findall(text.casefold()))} "


def _rows_of(file: Path, report: Report, cases: Sequence[Case]) -> Rows:
    """Return the rows of a report whose cases are unchanged in the golden data."""
    fingerprints = {case.id: case_fingerprint(case) for case in cases}
    rows = {row.id: row for row in report.queries if fingerprints.get(row.id) == row.fingerprint}
    if not rows:
        raise ReportError(f"{file}: has none of these golden queries as they are now; run it again on this file")
    return rows
