"""`golden check`: every fault of golden data with its place, what they can prove and cover, and what is doubtful."""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import sqrt
from pathlib import Path

import numpy as np

from evals.cases.case import Case
from evals.cases.reading import GoldenSet, case_fingerprint, golden_set
from evals.cases.relevance import Relevance, missing_chunks, resolve
from evals.config.telemetry import silence
from evals.errors import ReportError
from evals.golden.chunks import Floats, embedder, named_chunks, page_of, retriever_settings, say
from evals.report.model import QueryRow, Report
from evals.stats.intervals import Z
from evals.tracking.store import read_report
from retrievers.embedding.models import make_embeddings
from retrievers.records import Chunk

# Examples of a finding that are shown.
SHOWN = 5
# Below this share of out-of-scope queries, or this number of them, a threshold is hardly tested.
LEAST_OUTSIDE = 0.1
FEWEST_OUTSIDE = 10
# Queries that are compared at once, so that memory does not grow with the square of their number.
BLOCK = 1_000
# Cosine from which on two queries count as nearly the same.
NEAR = 0.85
# Words of a stretch.
GRAM = 4
# Share of a query's stretches that may stand in its passages: terms of the field have that many, too.
MOST_COPIED = 0.3
# Share of the stretches of two chunks from which on they are copies, where both have them.
COPY = 0.8
# The scripts after it in Unicode put no space between words, so that each character is one.
WORD = re.compile(r"[⺀-\uffff]|\w+")
# Of the power that is usually asked for: 80% of a normal distribution lie below it.
POWER_QUANTILE = 0.8416212335729143
# Queries that must all change the same way, so that an exact test (two-sided, 5%) rejects: 2 · 0.5⁶ < 0.05.
FEWEST_CHANGED = 6
# Standard deviation of differences of nDCG, where two runs have little in common.
USUAL = 0.5
Rows = Mapping[str, QueryRow]
"""The rows of a run by case id, of the cases that are the same in the golden data."""


def part(title: str, lines: Sequence[str], examples: Sequence[str] = (), *, doubtful: bool | None = None) -> str:
    """Return a part of what the command says: a heading, sentences, and the first few examples.

    Args:
        title: Heading.
        lines: What was found, a sentence each.
        examples: Of it.
        doubtful: True if somebody should look into it; where there are examples, when left out.
    """
    more = [f"  … and {len(examples) - SHOWN} more"] if len(examples) > SHOWN else []
    mark = "! " if (bool(examples) if doubtful is None else doubtful) else ""
    return "\n  ".join([mark + title, *lines, *(f"  {example}" for example in examples[:SHOWN]), *more])


def check(namespace: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        DatasetError: The data have faults, each with its place.
    """
    silence(hub=False)
    golden = golden_set(namespace.file)
    cases = golden.cases
    runs = [_rows_of(file, read_report(file)[0], cases) for file in namespace.report]
    config, env, _ = retriever_settings(namespace)
    chunks = named_chunks(namespace)
    how = "form checked; name --docs DIR or --config FILE to find the evidence too"
    relevance = {}
    if chunks is not None:
        relevance = resolve(cases, chunks, golden.places)
        how = f"every piece of evidence found in {len(chunks)} chunks"
    vectors = embedder(make_embeddings(config.embedding, env))([case.query for case in cases])
    parts = [
        composition(golden, relevance),
        power(cases),
        repeats(cases, vectors),
        copies(cases),
    ]
    if chunks:
        parts += [coverage(relevance, chunks), in_the_corpus(cases, chunks), near_copies(cases, relevance, chunks)]
    if runs:
        parts.append(unfound(cases, runs))
    return say(namespace, [f"{namespace.file}: {len(cases)} cases are valid ({how})", *parts])


def composition(golden: GoldenSet, relevance: Mapping[str, Relevance]) -> str:
    """Return the number and share of queries by type, scope and split, and what of them lacks its labels."""
    cases = golden.cases
    outside = sum(not case.in_scope for case in cases)
    by_split = Counter((case.split or "no split", case.in_scope) for case in cases)
    types = Counter(case.query_type or "no type" for case in cases).most_common()
    unlabelled = [golden.places[case.id] for case in cases if case.is_unlabelled]
    is_few = outside < max(FEWEST_OUTSIDE, LEAST_OUTSIDE * len(cases))
    lines = [f"{len(cases)} queries: {len(cases) - outside} in scope, {outside} out of scope"]
    for split in sorted({split for split, _ in by_split}):
        lines.append(f"{split}: {by_split[split, True]} in scope, {by_split[split, False]} out of scope")
    lines.append(", ".join(f"{name}: {count}" for name, count in types))
    if is_few:
        lines.append("few queries are out of scope: a threshold is hardly tested")
    if unlabelled:
        lines.append(f"{len(unlabelled)} have no labels, the first at {unlabelled[0]}: only a judge can score these")
    return part("Types, scope and labels", [*lines, *filter(None, [missing_chunks(relevance)])], doubtful=is_few)


def power(cases: Sequence[Case]) -> str:
    """Return what difference of nDCG the in-scope queries can prove, all and by split.

    At 5% significance, two-sided, and 80% power, paired by query: (1.96 + 0.84) · s / √n, with s = 0.5. Differences of
    hits that two runs have independently vary more, by up to √0.5, and the exact test asks for a little more than that.
    """
    groups = Counter(name for case in cases if case.in_scope for name in ("all", case.split) if name)
    differences = [f"{smallest_difference(USUAL, n)} ({name}, n {n})" for name, n in sorted(groups.items())]
    return part(
        "Smallest differences that can be proved",
        [
            f"nDCG, about: {', '.join(differences) or 'no query in scope'}; hit rates: up to half as much again",
            "a difference between two runs that is smaller may be proved in fewer than 80% of the cases",
        ],
    )


def smallest_difference(deviation: float, n: int) -> str:
    """Return the smallest difference of means that n paired queries prove with 80% power, at most 1, as a text.

    Args:
        deviation: Standard deviation of the differences.
        n: Number of queries, at least 1.
    """
    return "none" if n < FEWEST_CHANGED else f"{min(1.0, (Z + POWER_QUANTILE) * deviation / sqrt(n)):.3f}"


def coverage(relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> str:
    """Return the share of the collection's pages that some evidence lies in, and the pages without."""
    relevant = {key for judged in relevance.values() for key in judged.grades}
    held = [chunk for chunk in chunks if chunk.chunk_id in relevant]
    sizes, pages = Counter(map(page_of, chunks)), set(map(page_of, held))
    bare = sorted(sizes.keys() - pages, key=lambda page: (-sizes[page], page))
    share = f"{len(pages)} of {len(sizes)} pages ({len(pages) / len(sizes):.0%})"
    relevant_to_some = f"{share} and {len(held)} of {len(chunks)} chunks are relevant to some query"
    lines = [relevant_to_some, f"{len(bare)} pages are without, the largest first"]
    return part("Coverage of the collection", lines, bare, doubtful=2 * len(pages) < len(sizes))


def repeats(cases: Sequence[Case], vectors: Floats) -> str:
    """Return pairs of queries that are nearly the same, and those of them that cross splits.

    Args:
        cases: The golden queries.
        vectors: Their vectors of length 1, shape (queries, dimension).
    """
    found = ((cases[i], cases[j], cosine) for i, j, cosine in near_pairs(vectors))
    pairs = sorted(found, key=lambda p: (p[0].in_scope == p[1].in_scope, p[0].split == p[1].split, -p[2]))
    across = [one.split != other.split for one, other, _ in pairs]
    scopes = [", one of them out of scope" * (one.in_scope != other.in_scope) for one, other, _ in pairs]
    examples = [
        f"{one.id} and {other.id} ({cosine:.2f}{', across splits' * crosses}{scope}): {one.query!r}, {other.query!r}"
        for (one, other, cosine), crosses, scope in zip(pairs, across, scopes, strict=True)
    ]
    line = f"{len(pairs)} pairs with a cosine of {NEAR:g} and above, {sum(across)} of them across splits"
    return part("Repeated queries", [line + ", so that a held-out figure is not" * any(across)], examples)


def near_pairs(vectors: Floats) -> Iterator[tuple[int, int, float]]:
    """Yield the places of texts that are nearly the same, the lower one first, with the cosine of their vectors."""
    for start in range(0, len(vectors), BLOCK):
        cosines = np.triu(vectors[start : start + BLOCK] @ vectors.T, k=start + 1)
        for i, j in np.argwhere(cosines >= NEAR).tolist():
            yield start + i, j, float(cosines[i, j])


def copies(cases: Sequence[Case]) -> str:
    """Return the queries that copy their evidence: more than 30% of their stretches of four words stand in it."""
    quotes = ((case, "\n".join(item.quote for item in case.relevant_evidence if item.quote)) for case in cases)
    shares = [(copied_share(case.query, text), case) for case, text in quotes if text]
    copied = sorted((pair for pair in shares if pair[0] > MOST_COPIED), key=lambda pair: -pair[0])
    examples = [f"{case.id}: {share:.0%} of its stretches of four words: {case.query!r}" for share, case in copied]
    line = f"{len(copied)} of {len(shares)} queries copy more than {MOST_COPIED:.0%} of themselves from it"
    return part("Words copied from the evidence", [line], examples)


def in_the_corpus(cases: Sequence[Case], chunks: Sequence[Chunk]) -> str:
    """Return the queries whose whole text stands in a chunk, as searching for them is finding a copy."""
    texts = [(chunk.source, _plain(chunk.text)) for chunk in chunks]
    queries = [(case, _plain(case.query)) for case in cases if grams(case.query)]
    places = ((case, next((place for place, text in texts if query in text), None)) for case, query in queries)
    examples = [f"{case.id}: {case.query!r} in {place}" for case, place in places if place]
    line = f"{len(examples)} of {len(queries)} queries of four words and more stand in a chunk word for word"
    return part("Queries whose text stands in the corpus", [line], examples)


def near_copies(cases: Sequence[Case], relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> str:
    """Return the near copies among the chunks that are relevant to one query, as they count a passage twice."""
    by_id, examples = {chunk.chunk_id: chunk for chunk in chunks}, list[str]()
    for case in cases:
        relevant = (by_id[key] for key in sorted(relevance[case.id].grades) if key in by_id)
        stretches = [(chunk.source, grams(chunk.text)) for chunk in relevant]
        for (one, own), (other, others) in combinations(stretches, 2):
            if own and len(own & others) >= COPY * len(own | others):
                examples.append(f"{case.id}: {one} and {other}")
    line = f"{len(examples)} pairs of near copies are both relevant to a query, which counts one passage twice"
    return part("Near-duplicate chunks", [line], examples)


def unfound(cases: Sequence[Case], runs: Sequence[Rows]) -> str:
    """Return the labelled queries of which no run found a relevant chunk."""
    inside = {case.id: case.query for case in cases if case.in_scope}
    by_run = {key: [run[key] for run in runs if key in run and run[key].outcome != "UNLABELLED"] for key in inside}
    nowhere = [key for key, rows in by_run.items() if rows and all(row.first_relevant is None for row in rows)]
    hint = ": wrong labels, or queries to improve the search with" if nowhere else ""
    share = f"{len(nowhere)} of {sum(map(bool, by_run.values()))} queries"
    line = f"{share} have no relevant chunk among the candidates of {len(runs)} runs{hint}"
    return part("Evidence that no report finds", [line], [f"{key}: {inside[key]!r}" for key in nowhere])


def copied_share(query: str, text: str) -> float:
    """Return the share of a query's stretches of four words that stand in a text, 0 to 1; 0 for fewer than four words.

    Case and punctuation are ignored; of scripts without spaces, each character is a word.
    """
    stretches = grams(query)
    return len(stretches & grams(text)) / len(stretches) if stretches else 0.0


def grams(text: str) -> frozenset[str]:
    """Return the distinct stretches of four words of a text."""
    words = WORD.findall(text.casefold())
    return frozenset(" ".join(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1))


def _plain(text: str) -> str:
    return f" {' '.join(WORD.findall(text.casefold()))} "


def _rows_of(file: Path, report: Report, cases: Sequence[Case]) -> Rows:
    fingerprints = {case.id: case_fingerprint(case) for case in cases}
    rows = {row.id: row for row in report.queries if fingerprints.get(row.id) == row.fingerprint}
    if not rows:
        raise ReportError(f"{file}: has none of these golden queries as they are now; run it again on this file")
    return rows
