"""Abstention: empty results for queries that the documents do not answer, sufficient ones for others; their length."""

from collections.abc import Sequence

import numpy as np

from evals.collect.observations import Observation, Observed, Summary, Unscored
from evals.collect.pool import Floats
from evals.metrics.declaration import AMOUNT, LABELS, Context, Metric, QueryMetric, RunMetric, within
from evals.metrics.results import Results, Values
from evals.stats import intervals as stats
from retrievers.embedding.tokens import count_tokens
from retrievers.records import Chunk

HALF = 0.5
NO_COSINE = "the retriever gives no cosine similarity"


def abstained(r: Results, _: Context) -> Floats:
    """Return 1 if nothing was returned, else 0."""
    return np.asarray(r.lengths == 0, dtype=float)


def answered(r: Results, _: Context) -> Floats:
    """Return 1 if something was returned, else 0."""
    return np.asarray(r.lengths > 0, dtype=float)


def enough_results(r: Results, _: Context) -> Floats:
    """Return 1 if at least the `min_results` of the case were returned, else 0."""
    return np.asarray(r.lengths >= r.by_case(lambda case: case.min_results), dtype=float)


def relevant_above_half(r: Results, _: Context) -> Values:
    """Return 1 if a returned chunk is relevant and has a cosine above 0.5, else 0."""
    above = ((r.grades > 0) & (r.column("semantic") > HALF)).any(axis=1)
    pairs = zip(r.of_table("no_cosine"), r.of_table("distances"), strict=True)
    without = np.asarray([bool(reason) or distance != "cosine" for reason, distance in pairs], dtype=np.bool_)
    return Values.of(above.astype(float), (without, Unscored(reason=NO_COSINE)))


def context_tokens(r: Results, _: Context) -> Floats:
    """Tokens of the returned chunks together: what a language model would have to read. 0 for an empty result."""
    return np.asarray(np.nan_to_num(r.by_chunk("tokens", chunk_tokens)).sum(axis=1))


def chunk_tokens(chunk: Chunk) -> int:
    """Count the tokens of a chunk: as recorded, or else by the tokenizer."""
    return chunk.chunk_token_count or count_tokens(chunk.text)


def auroc(observed: Observed, _: Context) -> Summary:
    """Return the AUROC of the best cosine before the threshold, in scope against out of scope, 0 to 1; 0.5 is chance.

    The probability that an in-scope query's best score exceeds an out-of-scope query's, ties counted half. Of a dot
    product as of a cosine.
    """
    name = "scope/auroc"
    lacking = _without_cosine(name, observed.observations)
    if lacking:
        return lacking
    inside = top_scores(within(observed.observations, "in_scope"))
    outside = top_scores(within(observed.observations, "out_of_scope"))
    if not inside or not outside:
        return Summary(metric=name, value=None, note="needs in-scope and out-of-scope queries")
    area = stats.auroc(inside, outside)
    interval = stats.auroc_interval(area, len(inside), len(outside))
    note = interval.note or f"{len(inside)} in scope, {len(outside)} out of scope"
    count = len(inside) + len(outside)
    return Summary(metric=name, value=area, ci_low=interval.low, ci_high=interval.high, n=count, note=note)


def max_out_of_scope_score(observed: Observed, _: Context) -> Summary:
    """Return the highest cosine of any out-of-scope query before the threshold, 0 to 1; it has no interval."""
    name = "scope/max_out_of_scope_score"
    lacking = _without_cosine(name, within(observed.observations, "out_of_scope"))
    if lacking:
        return lacking
    distances = {o.candidates.distance for o in observed.observations} - {"cosine"}
    if distances:
        return Summary(metric=name, value=None, n_unscored=len(observed.observations), note=f"{NO_COSINE} but "
                       f"{distances.pop()} scores; scope/auroc reads these")  # fmt: skip
    scores = top_scores(within(observed.observations, "out_of_scope"))
    if not scores:
        return Summary(metric=name, value=None, note="no query of this kind")
    return Summary(metric=name, value=max(scores), n=len(scores), note="a maximum has no interval")


def top_scores(observations: Sequence[Observation]) -> list[float]:
    """Return the best score of each query that has one."""
    return [score for o in observations if (score := o.top_score) is not None]


def _without_cosine(name: str, observations: Sequence[Observation]) -> Summary | None:
    """Return the reason why there is no figure, where some queries have no cosine."""
    reasons = [o.candidates.no_cosine for o in observations if o.top_score is None]
    return Summary(metric=name, value=None, n_unscored=len(reasons), note=reasons[0]) if reasons else None


METRICS: tuple[Metric, ...] = (
    QueryMetric(name="scope/abstention", scope="out_of_scope", interval="proportion", score=abstained,
                about="out-of-scope queries for which nothing was returned"),
    QueryMetric(name="scope/false_answer", scope="out_of_scope", interval="proportion", score=answered,
                about="out-of-scope queries for which something was returned", direction="lower"),
    QueryMetric(name="scope/false_abstention", scope="in_scope", interval="proportion", score=abstained,
                about="in-scope queries for which nothing was returned", direction="lower"),
    QueryMetric(name="scope/enough_results", scope="in_scope", interval="proportion", score=enough_results,
                about="in-scope queries for which at least the case's min_results were returned", headline="never"),
    QueryMetric(name="scope/relevant_above_half", scope="in_scope", interval="proportion",
                score=relevant_above_half, headline="never", needs=LABELS,
                about="in-scope queries with a relevant returned chunk of a cosine above 0.5"),
    RunMetric(name="scope/auroc", summarise=auroc, unit="score", source="Hanley and McNeil (1982)",
              about="how well the best score tells in-scope from out-of-scope queries; 0.5 is chance"),
    RunMetric(name="scope/max_out_of_scope_score", summarise=max_out_of_scope_score,
              direction="lower", unit="cosine", range=(-1.0, 1.0),
              about="highest score of an out-of-scope query, before the threshold"),
)  # fmt: skip
COST = (
    QueryMetric(name="cost/context_tokens", scope="all", interval="amount", score=context_tokens,
                about="tokens of the returned chunks", direction="lower", unit="tokens", range=AMOUNT),
)  # fmt: skip
