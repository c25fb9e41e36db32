"""`golden check`: every fault of golden data with its place, what they can prove and cover, and what is doubtful."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import median, pstdev

import numpy as np

from evals.cases.case import FEWEST_DRAWN, FEWEST_LABELLED, Case
from evals.cases.pages import SourcePage
from evals.cases.reading import GoldenSet, case_fingerprint, golden_set
from evals.cases.relevance import Relevance, missing_chunks, resolve
from evals.config.telemetry import silence
from evals.errors import DatasetError, ReportError
from evals.golden.chunks import (
    Embed,
    chunked_pages,
    embedder,
    named_chunks,
    page_of,
    retriever_settings,
    say,
    section_of,
)
from evals.golden.texts import MOST_COPIED, copied_share, grams
from evals.report.headline import deepest
from evals.report.model import QueryRow, Report
from evals.report.parsing import MOST_BYTES, parse
from evals.stats.intervals import Z
from retrievers.config.files import read_text
from retrievers.config.languages import words
from retrievers.embedding.models import make_embeddings
from retrievers.records import Chunk

# Examples of a finding that are shown.
SHOWN = 5
NO_CHUNKS = "not known: name the pages with --docs, or the collection with --config or --collection"
NO_REPORTS = "not known: give reports of runs with --report"
# Below this share of out-of-scope queries, and this number of them, a threshold is hardly tested.
LEAST_OUTSIDE, FEWEST_OUTSIDE = 0.1, 10
# A type of fewer queries says little by itself.
FEWEST_OF_TYPE = 5
# Queries that are compared at once, so that memory does not grow with the square of their number.
BLOCK = 1_000
# Share of stretches of four words that two chunks have in common, from which on one is a copy of the other.
COPY = 0.8
# 80% of a normal distribution lie below: the power that is usually asked for.
POWER_QUANTILE = 0.8416212335729143
# Queries that must all change the same way, so that McNemar's exact test (two-sided, 5%) rejects: 2 · 0.5⁶ < 0.05.
FEWEST_CHANGED = 6
# Largest standard deviation of values from 0 to 1.
LARGEST = 0.5
# Correlation of two runs' scores of the same queries, where only one run is known.
ASSUMED_CORRELATION = 0.5
METRICS = {"hit rate": "hit_rate", "nDCG": "ndcg"}
Runs = Mapping[str, Mapping[str, QueryRow]]
"""Runs by name, each with its rows by case id, of the cases that are the same in the golden data."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of what the command says.

    Attributes:
        title: Heading.
        lines: What was found, a sentence each.
        doubtful: True if somebody should look into it.
    """

    title: str
    lines: Sequence[str]
    doubtful: bool = False


def check(namespace: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        DatasetError: The data have faults, each with its place.
    """
    silence(hub=False)
    golden = golden_set(namespace.file)
    reports = {str(file): parse(read_text(file, "a report of evals.run", MOST_BYTES, ReportError), str(file))
               for file in namespace.report}  # fmt: skip
    config, env, _ = retriever_settings(namespace)
    chunks, found = named_chunks(namespace), "form checked; name --docs DIR or --config FILE to find the evidence too"
    if namespace.docs:
        _check_quotes(golden, namespace.docs, namespace.base_url)
    if chunks is not None:
        found = f"every piece of evidence found in {len(chunks)} chunks"
    parts = checked(golden, chunks, reports, embedder(make_embeddings(config.embedding, env)), namespace.near)
    lines = [f"{'! ' * part.doubtful}{part.title}\n" + "\n".join(f"  {line}" for line in part.lines) for part in parts]
    return say(namespace, [f"{namespace.file}: {len(golden.cases)} cases are valid ({found})", *lines])


def checked(
    golden: GoldenSet, chunks: Sequence[Chunk] | None, reports: Mapping[str, Report], embed: Embed, near: float
) -> Iterator[Part]:
    """Yield all parts.

    Args:
        golden: The golden queries.
        chunks: All chunks of the collection, None where it is not named.
        reports: Reports of runs, by name.
        embed: Queries to vectors.
        near: Cosine from which on two queries count as nearly the same.

    Raises:
        DatasetError: Evidence that the chunks do not hold.
        ReportError: A report of other golden data.
    """
    cases = golden.cases
    runs = {name: _rows(name, report, cases) for name, report in reports.items()}
    relevance = resolve(cases, chunks, golden.places) if chunks is not None else {}
    yield composition(cases)
    yield from labels(golden, chunks, relevance)
    yield power(cases, {title: _scores(name, reports, runs) for title, name in METRICS.items()})
    yield coverage(relevance, chunks) if chunks is not None else Part(title="Coverage", lines=[NO_CHUNKS])
    yield repeats(cases, embed([case.query for case in cases]), near)
    yield both_sides(cases)
    yield copies(cases, relevance, chunks or ())
    if chunks is not None:
        yield in_corpus(cases, chunks)
        yield same_chunks(cases, relevance, chunks)
    yield unfound(cases, runs)


def composition(cases: Sequence[Case]) -> Part:
    """Return the number and share of queries by type, scope and split."""
    outside = sum(not case.in_scope for case in cases)
    types = Counter(case.query_type or "no type" for case in cases)
    by_split = Counter((case.split or "no split", case.in_scope) for case in cases)
    few = [name for name, count in types.items() if count < FEWEST_OF_TYPE]
    is_few = outside < max(FEWEST_OUTSIDE, LEAST_OUTSIDE * len(cases))
    lines = [
        f"{len(cases)} queries: {len(cases) - outside} in scope, {outside} out of scope ({outside / len(cases):.0%})",
        *(f"{split}: {by_split[split, True]} in scope, {by_split[split, False]} out of scope"
          for split in sorted({name for name, _ in by_split})),
        ", ".join(f"{name}: {count}" for name, count in types.most_common()),
        *(["few queries are out of scope: a threshold is hardly tested"] if is_few else []),
        *([f"fewer than {FEWEST_OF_TYPE} queries: {', '.join(few)}; their means say little"] if few else []),
    ]  # fmt: skip
    return Part(title="Types and scope", lines=lines, doubtful=is_few)


def labels(golden: GoldenSet, chunks: Sequence[Chunk] | None, relevance: Mapping[str, Relevance]) -> Iterator[Part]:
    """Yield what scores queries without labels, and what people's verdicts are on; nothing where there is neither."""
    without = [case for case in golden.cases if case.is_unlabelled]
    lines = []
    if without:
        answered = sum(case.reference_answer is not None for case in without)
        where = first_few([golden.places[case.id] for case in without])
        lines.append(
            f"without labels: {len(without)} ({', '.join(line.strip() for line in where)}), {answered} of them with a "
            "reference answer; a run needs a judge for these (judge.model)"
        )
    judged = [case for case in golden.cases if case.human_verdicts]
    if judged:
        verdicts = [verdict for case in judged for verdict in case.human_verdicts.values()]
        count = f"human verdicts: {len(verdicts)} in {len(judged)} cases, {sum(verdicts)} of them useful"
        needed = f"{FEWEST_LABELLED} cases drawn at random, or {FEWEST_DRAWN} that golden label offers first"
        lines.append(count + (f"; to correct a judge takes {needed}" if len(judged) < FEWEST_LABELLED else ""))
        ids = {chunk.chunk_id for chunk in chunks or ()}
        unplaced = [(case.id, key) for case in judged for key in case.human_verdicts if key not in ids]
        if unplaced and chunks is not None:
            lines.append(
                f"{len(unplaced)} of the verdicts are on chunks that are not there, as {unplaced[0][1]!r} of case "
                f"{unplaced[0][0]!r}: is the chunking another one?"
            )
    if missing := missing_chunks(relevance):
        lines.append(missing)
    if lines:
        yield Part(title="Labels", lines=lines)


def power(cases: Sequence[Case], scores: Mapping[str, Sequence[Mapping[str, float]]]) -> Part:
    """Return what differences of hit rate and nDCG the in-scope queries can prove, all and by split.

    At 5% significance, two-sided, and 80% power, paired by query: (1.96 + 0.84) · s / √n, with s the standard deviation
    of the differences: measured between the runs, or √(2 · (1 − 0.5)) times that of the one run's scores, or without a
    run times the largest that scores from 0 to 1 can have. A difference of hit rates is at least 6 / n (McNemar).

    Args:
        cases: The golden queries.
        scores: Metric (a key of `METRICS`) to the scores of each run, by case id.
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
    return Part(title="Smallest differences that can be proved", lines=lines)


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
    between = [pstdev(differences) for differences in pairs if any(differences)]
    if between:
        return max(between), f"the largest between {len(runs)} runs"
    own = pstdev(runs[0].values()) if runs and len(runs[0]) > 1 else 0.0
    if own:
        basis = f"from one run, taking its scores to have a correlation of {ASSUMED_CORRELATION:g} with another's"
    else:
        basis = f"the largest for scores of 0 to 1 with a correlation of {ASSUMED_CORRELATION:g}"
        basis += "; --report shows the real one"
    return sqrt(2 * (1 - ASSUMED_CORRELATION)) * (own or LARGEST), basis


def coverage(relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> Part:
    """Return the share of the collection's pages and sections that some evidence lies in, and the pages without."""
    relevant = {key for judged in relevance.values() for key in judged.grades}
    held = [chunk for chunk in chunks if chunk.chunk_id in relevant]
    sizes, sections = Counter(map(page_of, chunks)), set(map(section_of, chunks))
    pages, of_sections = set(map(page_of, held)), set(map(section_of, held))
    bare = sorted(sizes.keys() - pages, key=lambda page: (-sizes[page], page))
    lines = [
        f"{len(pages)} of {len(sizes)} pages ({len(pages) / len(sizes):.0%}), {len(of_sections)} of {len(sections)} "
        f"sections ({len(of_sections) / len(sections):.0%}) and {len(held)} of {len(chunks)} chunks are relevant to "
        "some query",
        *([f"{len(bare)} pages without, the largest first", *first_few(bare)] if bare else ["no page is without"]),
    ]
    return Part(title="Coverage of the collection", lines=lines, doubtful=2 * len(pages) < len(sizes))


def repeats(cases: Sequence[Case], vectors: "np.typing.NDArray[np.float64]", near: float) -> Part:
    """Return pairs of queries that are the same words, or nearly the same, and those of them that cross splits.

    Args:
        cases: The golden queries.
        vectors: Their vectors of length 1, shape (queries, dimension).
        near: Cosine from which on two queries count as nearly the same.
    """
    plain = [tuple(words(case.query)) for case in cases]
    alike: dict[tuple[int, int], float] = {}
    for start in range(0, len(cases), BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors.T
        alike |= {
            (start + int(i), int(j)): float(cosines[i, j]) for i, j in zip(*np.nonzero(cosines >= near), strict=True)
            if j > start + i
        }  # fmt: skip
    same: dict[tuple[str, ...], list[int]] = {}
    for number, key in enumerate(plain):
        same.setdefault(key, []).append(number)
    equal = [pair for numbers in same.values() for pair in combinations(numbers, 2)]
    pairs = dict.fromkeys(equal, 1.0) | {pair: cosine for pair, cosine in alike.items() if pair not in set(equal)}
    across = [pair for pair in pairs if cases[pair[0]].split != cases[pair[1]].split]
    ordered = sorted(pairs, key=lambda pair: (pair not in across, -pairs[pair], pair))
    examples = (
        f"{cases[i].id} and {cases[j].id} ({pairs[i, j]:.2f}{', across splits' * ((i, j) in across)}): "
        f"{cases[i].query!r}, {cases[j].query!r}"
        for i, j in ordered
    )
    line = f"{len(equal)} pairs of the same words, {len(pairs) - len(equal)} more with a cosine of {near:g} and above; "
    line += f"{len(across)} pairs across splits, so that a held-out figure is not" if across else "none across splits"
    return Part(title="Repeated queries", lines=[line, *first_few(examples)], doubtful=bool(equal or across))


def both_sides(cases: Sequence[Case]) -> Part:
    """Return the pages and the quotes that several splits have evidence in."""
    pages: dict[str, set[str]] = {}
    quotes: dict[str, dict[str, str]] = {}
    for case in cases:
        for evidence in case.relevant_evidence if case.split else ():
            if evidence.source_url:
                pages.setdefault(evidence.source_url, set()).add(str(case.split))
            if evidence.quote:
                quotes.setdefault(" ".join(evidence.quote.split()), {}).setdefault(str(case.split), case.id)
    shared = {quote: splits for quote, splits in quotes.items() if len(splits) > 1}
    count = sum(len(splits) > 1 for splits in pages.values())
    examples = (f"{' and '.join(splits.values())}: {quote[:80]!r}" for quote, splits in shared.items())
    line = f"{count} of {len(pages)} pages have evidence of several splits, and {len(shared)} quotes do"
    return Part(title="Evidence on both sides of a split", lines=[line, *first_few(examples)], doubtful=bool(shared))


def copies(cases: Sequence[Case], relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> Part:
    """Return the queries that copy their evidence: more than 30% of their stretches of four words stand in it."""
    texts = {chunk.chunk_id: chunk.text for chunk in chunks}
    shares = {}
    for case in cases:
        quotes = [evidence.quote for evidence in case.relevant_evidence if evidence.quote]
        held = [] if quotes else [texts[key] for key in relevance.get(case.id, Relevance()).grades if key in texts]
        if quotes or held:
            shares[case.id] = copied_share(case.query, "\n".join([*quotes, *held]))
    queries = {case.id: case.query for case in cases}
    outliers = sorted((key for key in shares if shares[key] > MOST_COPIED), key=lambda key: (-shares[key], key))
    examples = (f"{key}: {shares[key]:.0%} of its stretches of four words: {queries[key]!r}" for key in outliers)
    middle = f", median {median(shares.values()):.0%}" if shares else ""
    line = f"{len(outliers)} of {len(shares)} queries copy more than {MOST_COPIED:.0%} of themselves from it{middle}"
    return Part(title="Words copied from the evidence", lines=[line, *first_few(examples)], doubtful=bool(outliers))


def in_corpus(cases: Sequence[Case], chunks: Sequence[Chunk]) -> Part:
    """Return the queries whose whole text stands in a chunk: searching for them is finding a copy."""
    asked = {case.id: list(grams(case.query)) for case in cases}
    begins: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        if asked[case.id]:
            begins.setdefault(asked[case.id][0], []).append(case)
    held: dict[str, str] = {}
    for chunk in chunks:
        in_chunk = list(grams(chunk.text))
        for start, gram in enumerate(in_chunk):
            for case in begins.get(gram, ()):
                own = asked[case.id]
                if in_chunk[start : start + len(own)] == own:
                    held.setdefault(case.id, f"{case.id}: {case.query!r} in {chunk.source}")
    count = sum(map(bool, asked.values()))
    line = f"{len(held)} of {count} queries of four words and more stand in a chunk word for word"
    return Part(
        title="Queries whose text stands in the corpus", lines=[line, *first_few(held.values())], doubtful=bool(held)
    )


def same_chunks(cases: Sequence[Case], relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> Part:
    """Return chunks that are near copies and share a label, which counts twice, or of which one alone has it."""
    sources = {chunk.chunk_id: chunk.source for chunk in chunks}
    labelled = {key for judged in relevance.values() for key in judged.grades}
    stretches = {chunk.chunk_id: frozenset(grams(chunk.text)) for chunk in chunks if chunk.chunk_id in labelled}
    holders: dict[tuple[str, ...], list[str]] = {}
    for key, own in stretches.items():
        for gram in own:
            holders.setdefault(gram, []).append(key)
    copies_of: dict[str, set[str]] = {key: set() for key in stretches}
    for chunk in chunks:
        mine = frozenset(grams(chunk.text))
        shared = Counter(key for gram in mine for key in holders.get(gram, ()) if key != chunk.chunk_id)
        for key, count in shared.items():
            if count >= COPY * len(mine | stretches[key]):
                copies_of[key].add(chunk.chunk_id)
    twice, once = [], []
    for case in cases:
        judged = relevance[case.id]
        for key in sorted(stretches.keys() & judged.grades.keys()):
            twice += [(case.id, key, other) for other in sorted(copies_of[key] & judged.grades.keys()) if key < other]
            once += [(case.id, key, o) for o in sorted(copies_of[key] - judged.grades.keys() - judged.irrelevant)]
    examples = (f"{name}: {sources[one]} and {sources[other]}" for name, one, other in (*twice, *once))
    lines = [
        f"{len(twice)} pairs of near copies are both relevant to a query, which counts one passage twice",
        f"{len(once)} near copies of relevant chunks are unlabelled, which counts a find as none",
    ]
    return Part(title="Near-duplicate chunks", lines=[*lines, *first_few(examples)], doubtful=bool(twice or once))


def unfound(cases: Sequence[Case], runs: Runs) -> Part:
    """Return the labelled queries of which no run found a relevant chunk, and how many chunks none returned."""
    title = "Evidence that no report finds"
    inside = {case.id: case.query for case in cases if case.in_scope}
    every = {key: [rows[key] for rows in runs.values() if key in rows] for key in inside}
    seen = {key: own for key, rows in every.items() if (own := [row for row in rows if row.outcome != "UNLABELLED"])}
    if not seen:
        return Part(title=title, lines=["no query of the runs has labels" if any(every.values()) else NO_REPORTS])
    nowhere = [key for key, rows in seen.items() if all(row.first_relevant is None for row in rows)]
    never = [set(rows[0].relevant) - {hit.chunk_id for row in rows for hit in row.retrieved} for rows in seen.values()]
    which = "the run" if len(runs) == 1 else f"any of {len(runs)} runs"
    lines = [
        f"{len(nowhere)} of {len(seen)} queries have no relevant chunk among the candidates of {which}"
        + (": wrong labels, or queries to improve the search with" if nowhere else ""),
        *first_few(f"{key}: {inside[key]!r}" for key in nowhere),
        f"{sum(map(len, never))} relevant chunks of {sum(map(bool, never))} queries are returned by no run",
    ]
    return Part(title=title, lines=lines, doubtful=bool(nowhere))


def first_few(examples: Iterable[str]) -> list[str]:
    """Return the first examples, indented, and how many more there are."""
    every = list(examples)
    more = [f"  … and {len(every) - SHOWN} more"] if len(every) > SHOWN else []
    return [*(f"  {example}" for example in every[:SHOWN]), *more]


def _check_quotes(golden: GoldenSet, docs: Path, base_url: str) -> None:
    """Check that each quote stands in its page word for word.

    Raises:
        DatasetError: Evidence is in no chunk of the pages, or a quote is not in its page; each with its place.
    """
    parsed, chunks = chunked_pages(docs, base_url)
    resolve(golden.cases, chunks, golden.places)
    pages = {page.source_url: SourcePage(page) for page in parsed}

    faults = [
        f"{golden.places[case.id]}: evidence.{number}: {evidence.source_url or 'no page'!r} does not hold "
        f"{evidence.quote[:60]!r}"
        for case in golden.cases
        for number, evidence in enumerate(case.evidence)
        for named in [[pages[evidence.source_url]] if evidence.source_url else pages.values()]
        if evidence.quote and not any(any(page.occurrences(evidence.quote)) for page in named)
    ]
    if faults:
        raise DatasetError(f"{len(faults)} quotes are not in their page word for word:", faults)


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
