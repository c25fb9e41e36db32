"""Abstention: empty results for queries that the documents do not answer, and sufficient ones for the others."""

from collections.abc import Sequence
from functools import partial

from evals.collect.observations import Observation, Observed, Score, Summary, Unscored
from evals.metrics import prefixes
from evals.metrics.base import Context, Metric, QueryMetric, RunMetric, each, within
from evals.metrics.declaration import LABELS
from evals.stats import intervals as stats

HALF = 0.5
NO_COSINE = "the retriever gives no cosine similarity"


def abstained(observation: Observation, _: Context) -> Score:
    """Return 1 if nothing was returned, else 0."""
    return float(not observation.selection)


def answered(observation: Observation, _: Context) -> Score:
    """Return 1 if something was returned, else 0."""
    return float(bool(observation.selection))


def enough_results(observation: Observation, _: Context) -> Score:
    """Return 1 if at least the `min_results` of the case were returned, else 0."""
    return float(len(observation.selection) >= observation.case.min_results)


def relevant_above_half(observation: Observation, _: Context) -> Score:
    """Return 1 if a returned chunk is relevant and has a cosine above 0.5, else 0."""
    candidates = observation.candidates
    if candidates.no_cosine or candidates.distance != "cosine":
        return Unscored(reason=NO_COSINE)
    returned, grades = observation.selection, observation.relevance.grades
    cosines = returned.column("semantic").tolist()
    return float(any(key in grades and cosine > HALF for key, cosine in zip(returned.chunk_ids, cosines, strict=True)))


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
    QueryMetric(name="scope/abstention", scope="out_of_scope", interval="proportion", score=each(abstained),
                over_prefixes=prefixes.nothing_returned,
                about="out-of-scope queries for which nothing was returned"),
    QueryMetric(name="scope/false_answer", scope="out_of_scope", interval="proportion", score=each(answered),
                over_prefixes=prefixes.returned,
                about="out-of-scope queries for which something was returned", direction="lower"),
    QueryMetric(name="scope/false_abstention", scope="in_scope", interval="proportion", score=each(abstained),
                over_prefixes=prefixes.nothing_returned,
                about="in-scope queries for which nothing was returned", direction="lower"),
    QueryMetric(name="scope/enough_results", scope="in_scope", interval="proportion", score=each(enough_results),
                over_prefixes=prefixes.enough_results,
                about="in-scope queries for which at least the case's min_results were returned", headline="never"),
    QueryMetric(name="scope/relevant_above_half", scope="in_scope", interval="proportion",
                score=each(relevant_above_half), over_prefixes=partial(prefixes.relevant_above, cosine=HALF),
                undefined=NO_COSINE, headline="never", needs=LABELS,
                about="in-scope queries with a relevant returned chunk of a cosine above 0.5"),
    RunMetric(name="scope/auroc", summarise=auroc, unit="score", source="Hanley and McNeil (1982)",
              about="how well the best score tells in-scope from out-of-scope queries; 0.5 is chance"),
    RunMetric(name="scope/max_out_of_scope_score", summarise=max_out_of_scope_score,
              direction="lower", unit="cosine", range=(-1.0, 1.0),
              about="highest score of an out-of-scope query, before the threshold"),
)  # fmt: skip
