"""`golden check`: every fault of golden data with its place, what they can prove and cover, and what is doubtful."""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import sqrt
from statistics import median, pstdev
from typing import NamedTuple

import numpy as np

from evals.cases.case import Case
from evals.cases.pages import SourcePage
from evals.cases.reading import GoldenSet, case_fingerprint, golden_set
from evals.cases.relevance import Relevance, missing_chunks, normalise, resolve
from evals.config.telemetry import silence
from evals.errors import DatasetError, ReportError
from evals.golden.chunks import (
    Floats,
    chunked_pages,
    embedder,
    named_chunks,
    page_of,
    retriever_settings,
    say,
    section_of,
)
from evals.report.head import deepest
from evals.report.model import QueryRow, Report
from evals.report.parsing import MOST_BYTES, parse
from evals.stats.intervals import Z
from retrievers.config.files import read_text
from retrievers.config.languages import words
from retrievers.embedding.models import make_embeddings
from retrievers.records import Chunk

# Examples of a finding that are shown.
SHOWN = 5
# Below this share of out-of-scope queries, and this number of them, a threshold is hardly tested.
LEAST_OUTSIDE, FEWEST_OUTSIDE = 0.1, 10
# A type of fewer queries says little by itself.
FEWEST_OF_TYPE = 5
# Queries that are compared at once, so that memory does not grow with the square of their number.
BLOCK = 1_000
# Words of a stretch, and the share of a query's stretches that may stand in its passages: terms of the field have that
# many, too. Two chunks that have the second share of theirs in common are copies.
GRAM, MOST_COPIED, COPY = 4, 0.3, 0.8
# The scripts after it in Unicode put no space between words, so that each character is one.
WORD = re.compile(r"[⺀-\uffff]|\w+")
# 80% of a normal distribution lie below: the power that is usually asked for.
POWER_QUANTILE = 0.8416212335729143
# Queries that must all change the same way, so that McNemar's exact test (two-sided, 5%) rejects: 2 · 0.5⁶ < 0.05.
FEWEST_CHANGED = 6
# Largest standard deviation of values from 0 to 1; and the correlation of two runs' scores where only one is known.
LARGEST, ASSUMED_CORRELATION = 0.5, 0.5
METRICS = {"hit rate": "hit_rate", "nDCG": "ndcg"}
Scores = Mapping[str, Sequence[Mapping[str, float]]]
"""Metric (a key of `METRICS`) to the scores of each run, by case id."""


class Part(NamedTuple):
    """A part of what the command says.

    Attributes:
        title: Heading.
        lines: What was found, a sentence each.
        examples: Of it, of which the first few are shown.
        doubtful: True if somebody should look into it.
    """

    title: str
    lines: Sequence[str]
    examples: Sequence[str] = ()
    doubtful: bool = False

    def __str__(self) -> str:
        more = [f"  … and {len(self.examples) - SHOWN} more"] if len(self.examples) > SHOWN else []
        shown = [*self.lines, *(f"  {example}" for example in self.examples[:SHOWN]), *more]
        return "\n  ".join(["! " * self.doubtful + self.title, *shown])


def check(namespace: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        DatasetError: The data have faults, each with its place.
    """
    silence(hub=False)
    golden = golden_set(namespace.file)
    cases = golden.cases
    reports = {str(file): parse(read_text(file, "a report of evals.run", MOST_BYTES, ReportError), str(file))
               for file in namespace.report}  # fmt: skip
    runs = {name: _rows_of(name, report, cases) for name, report in reports.items()}
    config, env, _ = retriever_settings(namespace)
    chunks, found = named_chunks(namespace), "form checked; name --docs DIR or --config FILE to find the evidence too"
    relevance = {} if chunks is None else resolve(cases, chunks, golden.places)
    if namespace.docs:
        _check_quotes(golden, namespace)
    if chunks is not None:
        found = f"every piece of evidence found in {len(chunks)} chunks"
    vectors = embedder(make_embeddings(config.embedding, env))([case.query for case in cases])
    parts = [
        composition(golden, relevance),
        power(cases, {title: _scores(name, reports, runs) for title, name in METRICS.items()}),
        coverage(relevance, chunks),
        repeats(cases, vectors, namespace.near),
        both_sides(cases),
        copies(cases, relevance, chunks or ()),
        *(held_by(cases, relevance, chunks) if chunks else ()),
        unfound(cases, runs),
    ]
    return say(namespace, [f"{namespace.file}: {len(cases)} cases are valid ({found})", *map(str, parts)])


def composition(golden: GoldenSet, relevance: Mapping[str, Relevance]) -> Part:
    """Return the number and share of queries by type, scope and split, and what of them lacks its labels."""
    cases = golden.cases
    outside = sum(not case.in_scope for case in cases)
    types = Counter(case.query_type or "no type" for case in cases)
    by_split = Counter((case.split or "no split", case.in_scope) for case in cases)
    few = [name for name, count in types.items() if count < FEWEST_OF_TYPE]
    without = [case for case in cases if case.is_unlabelled]
    is_few = outside < max(FEWEST_OUTSIDE, LEAST_OUTSIDE * len(cases))
    lines = [
        f"{len(cases)} queries: {len(cases) - outside} in scope, {outside} out of scope ({outside / len(cases):.0%})"
    ]
    for split in sorted({name for name, _ in by_split}):
        lines.append(f"{split}: {by_split[split, True]} in scope, {by_split[split, False]} out of scope")
    lines.append(", ".join(f"{name}: {count}" for name, count in types.most_common()))
    if is_few:
        lines.append("few queries are out of scope: a threshold is hardly tested")
    if few:
        lines.append(f"fewer than {FEWEST_OF_TYPE} queries: {', '.join(few)}; their means say little")
    if without:
        first = golden.places[without[0].id]
        lines.append(f"{len(without)} have no labels, the first at {first}: only a judge (judge.model) can score these")
    return Part("Types, scope and labels", [*lines, *filter(None, [missing_chunks(relevance)])], doubtful=is_few)


def power(cases: Sequence[Case], scores: Scores) -> Part:
    """Return what differences of hit rate and nDCG the in-scope queries can prove, all and by split.

    At 5% significance, two-sided, and 80% power, paired by query: (1.96 + 0.84) · s / √n, with s the standard deviation
    of the differences: measured between the runs, or √(2 · (1 − 0.5)) times that of the one run's scores, or without a
    run times the largest that scores from 0 to 1 can have. A difference of hit rates is at least 6 / n (McNemar).
    """
    splits = Counter(case.split for case in cases if case.in_scope and case.split)
    groups = {"all": sum(case.in_scope for case in cases), **dict(sorted(splits.items()))}
    lines = []
    for title in METRICS:
        deviation, basis = deviation_of(scores.get(title, ()))
        least = {name: smallest_difference(deviation, n, binary=title == "hit rate") for name, n in groups.items() if n}
        differences = ", ".join(f"{value:.3f} ({name}, n {groups[name]})" for name, value in least.items())
        lines.append(f"{title}: {differences or 'no query in scope'}; deviation {deviation:.3f}, {basis}")
    lines.append("a difference between two runs that is smaller is proved in fewer than 80% of the cases")
    return Part("Smallest differences that can be proved", lines)


def smallest_difference(deviation: float, n: int, *, binary: bool) -> float:
    """Return the smallest difference of means that n paired queries prove with 80% power, at most 1.

    Args:
        deviation: Standard deviation of the differences.
        n: Number of queries, at least 1.
        binary: True for scores of 0 or 1.
    """
    least = (Z + POWER_QUANTILE) * deviation / sqrt(n)
    return min(1.0, max(least, FEWEST_CHANGED / n) if binary else least)


def deviation_of(runs: Sequence[Mapping[str, float]]) -> tuple[float, str]:
    """Return the standard deviation of the differences between runs, and what it rests on."""
    pairs = [
        [second[key] - first[key] for key in first.keys() & second.keys()] for first, second in combinations(runs, 2)
    ]
    if between := [pstdev(differences) for differences in pairs if any(differences)]:
        return max(between), f"the largest between {len(runs)} runs"
    own = pstdev(runs[0].values()) if runs and len(runs[0]) > 1 else 0.0
    basis = "from one run" if own else "the largest for scores of 0 to 1 (--report shows the real one)"
    basis += f", with a correlation of {ASSUMED_CORRELATION:g} between two runs"
    return sqrt(2 * (1 - ASSUMED_CORRELATION)) * (own or LARGEST), basis


def coverage(relevance: Mapping[str, Relevance], chunks: Sequence[Chunk] | None) -> Part:
    """Return the share of the collection's pages and sections that some evidence lies in, and the pages without."""
    if not chunks:
        return Part(
            "Coverage", ["not known: name the pages with --docs, or the collection with --config or --collection"]
        )
    relevant = {key for judged in relevance.values() for key in judged.grades}
    held = [chunk for chunk in chunks if chunk.chunk_id in relevant]
    sizes, sections = Counter(map(page_of, chunks)), set(map(section_of, chunks))
    pages, of_sections = set(map(page_of, held)), set(map(section_of, held))
    bare = sorted(sizes.keys() - pages, key=lambda page: (-sizes[page], page))
    lines = [
        f"{len(pages)} of {len(sizes)} pages ({len(pages) / len(sizes):.0%}), {len(of_sections)} of {len(sections)} "
        f"sections ({len(of_sections) / len(sections):.0%}) and {len(held)} of {len(chunks)} chunks are relevant to "
        "some query",
        f"{len(bare)} pages without, the largest first" if bare else "no page is without",
    ]
    return Part("Coverage of the collection", lines, bare, 2 * len(pages) < len(sizes))


def repeats(cases: Sequence[Case], vectors: Floats, near: float) -> Part:
    """Return pairs of queries that are the same words, or nearly the same, and those of them that cross splits.

    Args:
        cases: The golden queries.
        vectors: Their vectors of length 1, shape (queries, dimension).
        near: Cosine from which on two queries count as nearly the same.
    """
    pairs: dict[tuple[int, int], float] = {}
    for start in range(0, len(cases), BLOCK):
        cosines = np.triu(vectors[start : start + BLOCK] @ vectors.T, k=start + 1)
        pairs |= {
            (start + int(i), int(j)): float(cosines[i, j]) for i, j in zip(*np.nonzero(cosines >= near), strict=True)
        }
    same: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, case in enumerate(cases):
        same[tuple(words(case.query))].append(number)
    equal = [pair for numbers in same.values() for pair in combinations(numbers, 2)]
    pairs |= dict.fromkeys(equal, 1.0)
    across = {(i, j) for i, j in pairs if cases[i].split != cases[j].split}
    ordered = sorted(pairs, key=lambda pair: (pair not in across, -pairs[pair], pair))
    examples = [
        f"{cases[i].id} and {cases[j].id} ({pairs[i, j]:.2f}{', across splits' * ((i, j) in across)}): "
        f"{cases[i].query!r}, {cases[j].query!r}"
        for i, j in ordered
    ]
    line = f"{len(equal)} pairs of the same words, {len(pairs) - len(equal)} more with a cosine of {near:g} and above; "
    line += f"{len(across)} pairs across splits, so that a held-out figure is not" if across else "none across splits"
    return Part("Repeated queries", [line], examples, bool(equal or across))


def both_sides(cases: Sequence[Case]) -> Part:
    """Return the pages and the quotes that several splits have evidence in."""
    pages, quotes = defaultdict[str, set[str]](set), defaultdict[str, dict[str, str]](dict)
    for split, case_id, item in ((c.split, c.id, item) for c in cases if c.split for item in c.relevant_evidence):
        pages[item.source_url or ""].add(split)
        quotes[normalise(item.quote or "")].setdefault(split, case_id)
    shared = {quote: splits for quote, splits in quotes.items() if quote and len(splits) > 1}
    count = sum(len(splits) > 1 for page, splits in pages.items() if page)
    examples = [f"{' and '.join(splits.values())}: {quote[:80]!r}" for quote, splits in shared.items()]
    line = f"{count} of {len(pages.keys() - {''})} pages have evidence of several splits, and {len(shared)} quotes do"
    return Part("Evidence on both sides of a split", [line], examples, bool(shared))


def copies(cases: Sequence[Case], relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> Part:
    """Return the queries that copy their evidence: more than 30% of their stretches of four words stand in it."""
    texts = {chunk.chunk_id: chunk.text for chunk in chunks}
    shares: dict[str, float] = {}
    for case in cases:
        held = [texts[key] for key in relevance.get(case.id, Relevance()).grades if key in texts]
        if passages := [item.quote for item in case.relevant_evidence if item.quote] or held:
            shares[case.id] = copied_share(case.query, "\n".join(passages))
    queries = {case.id: case.query for case in cases}
    outliers = sorted((key for key in shares if shares[key] > MOST_COPIED), key=lambda key: (-shares[key], key))
    examples = [f"{key}: {shares[key]:.0%} of its stretches of four words: {queries[key]!r}" for key in outliers]
    middle = f", median {median(shares.values()):.0%}" if shares else ""
    line = f"{len(outliers)} of {len(shares)} queries copy more than {MOST_COPIED:.0%} of themselves from it{middle}"
    return Part("Words copied from the evidence", [line], examples, bool(outliers))


def held_by(cases: Sequence[Case], relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> Iterator[Part]:
    """Yield the queries whose whole text stands in a chunk, as searching for them is finding a copy; and near copies.

    A near copy of a relevant chunk counts twice where both are relevant, and as no find where one alone is.
    """
    sources = {chunk.chunk_id: chunk.source for chunk in chunks}
    labelled = {key for judged in relevance.values() for key in judged.grades}
    texts = {chunk.chunk_id: frozenset(grams(chunk.text)) for chunk in chunks if chunk.chunk_id in labelled}
    asked = {case.id: own for case in cases if (own := frozenset(grams(case.query)))}
    wanted = frozenset().union(*asked.values(), *texts.values())
    sizes, holders = dict[str, int](), defaultdict[tuple[str, ...], set[str]](set)
    for chunk in chunks:
        own = frozenset(grams(chunk.text))
        sizes[chunk.chunk_id] = len(own)
        for gram in own & wanted:
            holders[gram].add(chunk.chunk_id)
    copied = {key: found for key, own in asked.items() if (found := set.intersection(*(holders[gram] for gram in own)))}
    examples = [f"{case.id}: {case.query!r} in {sources[min(copied[case.id])]}" for case in cases if case.id in copied]
    line = f"{len(copied)} of {len(asked)} queries of four words and more stand in a chunk word for word"
    yield Part("Queries whose text stands in the corpus", [line], examples, bool(copied))
    copies_of: dict[str, list[str]] = {}
    for key, own in sorted(texts.items()):
        shared = Counter(other for gram in own for other in holders[gram] if other != key)
        copies_of[key] = [k for k, n in sorted(shared.items()) if n >= COPY * (len(own) + sizes[k] - n)]
    twice, once = [], []
    for case in cases:
        judged = relevance[case.id]
        pairs = [(key, other) for key in sorted(judged.grades) for other in copies_of.get(key, ())]
        twice += [(case.id, key, other) for key, other in pairs if other in judged.grades and key < other]
        once += [(case.id, key, other) for key, other in pairs if other not in {*judged.grades, *judged.irrelevant}]
    lines = [
        f"{len(twice)} pairs of near copies are both relevant to a query, which counts one passage twice",
        f"{len(once)} near copies of relevant chunks are unlabelled, which counts a find as none",
    ]
    examples = [f"{name}: {sources[one]} and {sources[other]}" for name, one, other in (*twice, *once)]
    yield Part("Near-duplicate chunks", lines, examples, bool(twice or once))


def unfound(cases: Sequence[Case], runs: Mapping[str, Mapping[str, QueryRow]]) -> Part:
    """Return the labelled queries of which no run found a relevant chunk, and how many chunks none returned."""
    title = "Evidence that no report finds"
    inside = {case.id: case.query for case in cases if case.in_scope}
    every = {key: [rows[key] for rows in runs.values() if key in rows] for key in inside}
    seen = {key: own for key, rows in every.items() if (own := [row for row in rows if row.outcome != "UNLABELLED"])}
    if not seen:
        return Part(
            title, ["no query of the runs has labels" if runs else "not known: give reports of runs with --report"]
        )
    nowhere = [key for key, rows in seen.items() if all(row.first_relevant is None for row in rows)]
    never = [set(rows[0].relevant) - {hit.chunk_id for row in rows for hit in row.retrieved} for rows in seen.values()]
    hint = ": wrong labels, or queries to improve the search with" if nowhere else ""
    lines = [
        f"{sum(map(len, never))} relevant chunks of {sum(map(bool, never))} queries are returned by no run",
        f"{len(nowhere)} of {len(seen)} queries have no relevant chunk among the candidates of {len(runs)} runs{hint}",
    ]
    return Part(title, lines, [f"{key}: {inside[key]!r}" for key in nowhere], bool(nowhere))


def copied_share(query: str, text: str) -> float:
    """Return the share of a query's stretches of four words that stand in a text, 0 to 1; 0 for fewer than four words.

    Case and punctuation are ignored; of scripts without spaces, each character is a word.
    """
    own, in_text = list(grams(query)), set(grams(text))
    return sum(gram in in_text for gram in own) / len(own) if own else 0.0


def grams(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the stretches of four words of a text."""
    found = WORD.findall(text.casefold())
    return (tuple(found[start : start + GRAM]) for start in range(len(found) - GRAM + 1))


def _check_quotes(golden: GoldenSet, namespace: argparse.Namespace) -> None:
    """Check that each quote stands in its page of `--docs` word for word, which a search for half of it lets pass."""
    pages = {page.source_url: SourcePage(page).text for page in chunked_pages(namespace)[0]}
    faults = [
        f"{golden.places[case.id]}: evidence.{number}: not in {item.source_url or 'any page'}: {item.quote[:60]!r}"
        for case in golden.cases
        for number, item in enumerate(case.evidence)
        if item.quote
        and not any(normalise(item.quote) in text for url, text in pages.items() if item.source_url in (None, url))
    ]
    if faults:
        raise DatasetError(f"{len(faults)} quotes are not in their page word for word:", faults)


def _rows_of(name: str, report: Report, cases: Sequence[Case]) -> Mapping[str, QueryRow]:
    """Return the rows of a run by case id, of the cases that are the same in the golden data."""
    own = {case.id: case_fingerprint(case) for case in cases}
    rows = {row.id: row for row in report.queries if own.get(row.id) == row.fingerprint}
    if not rows:
        raise ReportError(f"{name}: has none of these golden queries as they are now; run it again on this file")
    return rows


def _scores(
    measure: str, reports: Mapping[str, Report], runs: Mapping[str, Mapping[str, QueryRow]]
) -> list[Mapping[str, float]]:
    """Return the scores of a ranking measure at the deepest place that all runs have, in each run, by case id."""
    name = deepest(f"ranking/{measure}_at_K", *(report.metrics for report in reports.values())) if reports else ""
    return [
        {key: score for key, row in rows.items() if row.in_scope and isinstance(score := row.scores.get(name), float)}
        for rows in runs.values()
    ]
