"""Abstention: empty results of queries in and out of scope. Best scores of both kinds, and the length of results."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evals.collect.observations import Observation, Observed, Summary, Unscored
from evals.metrics.declaration import Context, Scorer, figure, within
from evals.metrics.results import Results, Values
from evals.stats import intervals as stats
from evals.stats.intervals import Floats

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
    cosines = r.laid_out(r.lists.column("semantic"), np.nan)
    above = ((r.grades > 0) & (cosines > 0.5)).any(axis=1)
    without = np.asarray([bool(reason) for reason in r.of_table("no_cosine")], dtype=np.bool_)
    return Values.of(above.astype(float), (without, Unscored(reason=NO_COSINE)))


def context_tokens(r: Results, _: Context) -> Floats:
    """Return the tokens of all returned chunks, which a language model would have to read; 0 for an empty result."""
    return np.asarray(r.tokens.sum(axis=1))


def auroc(observed: Observed, _: Context) -> Summary:
    """Return the AUROC of the best cosine before the threshold, in scope against out of scope, 0 to 1; 0.5 is chance.

    It is the probability that the best score of an in-scope query exceeds that of an out-of-scope query; a tie counts
    half.
    """
    inside, outside = (within(observed.observations, scope) for scope in ("in_scope", "out_of_scope"))
    if lacking := _without_cosine([*inside, *outside]):
        return lacking
    if not inside or not outside:
        return figure(None, "needs in-scope and out-of-scope queries")
    scores = _top_scores(inside), _top_scores(outside)
    area, interval = stats.auroc(*scores), stats.auroc_interval(*scores)
    note = interval.note or f"{len(inside)} in scope, {len(outside)} out of scope"
    return figure(area, note, ci_low=interval.low, ci_high=interval.high, n=len(inside) + len(outside))


def max_out_of_scope_score(observed: Observed, _: Context) -> Summary:
    """Return the highest cosine of any out-of-scope query before the threshold, 0 to 1, without an interval."""
    outside = within(observed.observations, "out_of_scope")
    if lacking := _without_cosine(outside):
        return lacking
    if not outside:
        return figure(None, "no query of this kind")
    return figure(max(_top_scores(outside)), "a maximum has no interval", n=len(outside))


def _top_scores(observations: Sequence[Observation]) -> list[float]:
    return [score for o in observations if (score := o.top_score) is not None]


def _without_cosine(observations: Sequence[Observation]) -> Summary | None:
    """Return an empty figure with its reason if some query has no cosine; else None."""
    reasons = [o.candidates.facts.no_cosine for o in observations if o.top_score is None]
    return figure(None, reasons[0], n_unscored=len(reasons)) if reasons else None


SCORES: Mapping[str, Scorer] = {
    "scope/abstention": abstained,
    "scope/false_answer": answered,
    "scope/false_abstention": abstained,
    "scope/enough_results": enough_results,
    "scope/relevant_above_half": relevant_above_half,
    "cost/context_tokens": context_tokens,
}
FIGURES: Mapping[str, Callable[[Observed, Context], Summary]] = {
    "scope/auroc": auroc,
    "scope/max_out_of_scope_score": max_out_of_scope_score,
}
