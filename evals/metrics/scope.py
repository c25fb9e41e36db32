"""Abstention: empty results for queries that the documents do not answer, sufficient ones for others; their length."""

from collections.abc import Sequence

import numpy as np

from evals.collect.observations import Observation, Observed, Summary, Unscored
from evals.collect.pool import Floats
from evals.metrics.declaration import AMOUNT, LABELS, Context, Metric, QueryMetric, RunMetric, within
from evals.metrics.results import Results, Values
from evals.stats import intervals as stats
from retrievers.embedding.tokens import count_tokens

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
    pairs = zip(r.of_table("no_cosine"), r.of_table("distance"), strict=True)
    without = np.asarray([bool(reason) or distance != "cosine" for reason, distance in pairs], dtype=np.bool_)
    return Values.of(above.astype(float), (without, Unscored(reason=NO_COSINE)))


def context_tokens(r: Results, _: Context) -> Floats:
    """Tokens of the returned chunks together: what a language model would have to read. 0 for an empty result."""
    counts = r.by_chunk("tokens", lambda chunk: chunk.chunk_token_count or count_tokens(chunk.text))[0]
    return np.asarray(np.nan_to_num(counts).sum(axis=1))


def auroc(observed: Observed, _: Context) -> Summary:
    """Return the AUROC of the best cosine before the threshold, in scope against out of scope, 0 to 1; 0.5 is chance.

    The probability that an in-scope query's best score exceeds an out-of-scope query's, ties counted half. Of a dot
    product as of a cosine.
    """
    inside, outside = (within(observed.observations, scope) for scope in ("in_scope", "out_of_scope"))
    if lacking := _without_cosine("scope/auroc", [*inside, *outside]):
        return lacking
    if not inside or not outside:
        return Summary(metric="scope/auroc", value=None, note="needs in-scope and out-of-scope queries")
    area = stats.auroc(_top_scores(inside), _top_scores(outside))
    found = stats.auroc_interval(area, len(inside), len(outside))
    note = found.note or f"{len(inside)} in scope, {len(outside)} out of scope"
    n = len(inside) + len(outside)
    return Summary(metric="scope/auroc", value=area, ci_low=found.low, ci_high=found.high, n=n, note=note)


def max_out_of_scope_score(observed: Observed, _: Context) -> Summary:
    """Return the highest cosine of any out-of-scope query before the threshold, 0 to 1; it has no interval."""
    name, outside = "scope/max_out_of_scope_score", within(observed.observations, "out_of_scope")
    if lacking := _without_cosine(name, outside):
        return lacking
    if distances := {o.candidates.facts.distance for o in observed.observations} - {"cosine"}:
        note = f"{NO_COSINE} but {distances.pop()} scores; scope/auroc reads these"
        return Summary(metric=name, value=None, n_unscored=len(observed.observations), note=note)
    if not outside:
        return Summary(metric=name, value=None, note="no query of this kind")
    return Summary(metric=name, value=max(_top_scores(outside)), n=len(outside), note="a maximum has no interval")


def _top_scores(observations: Sequence[Observation]) -> list[float]:
    return [score for o in observations if (score := o.top_score) is not None]


def _without_cosine(name: str, observations: Sequence[Observation]) -> Summary | None:
    """Return the reason why there is no figure, where some queries have no cosine."""
    reasons = [o.candidates.facts.no_cosine for o in observations if o.top_score is None]
    return Summary(metric=name, value=None, n_unscored=len(reasons), note=reasons[0]) if reasons else None


METRICS: tuple[Metric, ...] = (
    QueryMetric(name="scope/abstention", score=abstained, scope="out_of_scope",
                about="out-of-scope queries for which nothing was returned"),
    QueryMetric(name="scope/false_answer", score=answered, scope="out_of_scope", direction="lower",
                about="out-of-scope queries for which something was returned"),
    QueryMetric(name="scope/false_abstention", score=abstained, direction="lower",
                about="in-scope queries for which nothing was returned"),
    QueryMetric(name="scope/enough_results", score=enough_results, headline="never",
                about="in-scope queries for which at least the case's min_results were returned"),
    QueryMetric(name="scope/relevant_above_half", score=relevant_above_half, headline="never", needs=LABELS,
                about="in-scope queries with a relevant returned chunk of a cosine above 0.5"),
    RunMetric(name="scope/auroc", summarise=auroc, unit="score", source="Hanley and McNeil (1982)",
              about="how well the best score tells in-scope from out-of-scope queries; 0.5 is chance"),
    RunMetric(name="scope/max_out_of_scope_score", summarise=max_out_of_scope_score, direction="lower", unit="cosine",
              about="highest score of an out-of-scope query, before the threshold", range=(-1.0, 1.0)),
)  # fmt: skip
COST = (
    QueryMetric(name="cost/context_tokens", score=context_tokens, scope="all", direction="lower", unit="tokens",
                about="tokens of the returned chunks", range=AMOUNT),
)  # fmt: skip
