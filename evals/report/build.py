"""A run's result to its report: the one place that computes the fields of `evals.report.model`. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, isnan

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Summary
from evals.grid.cells import Configuration
from evals.grid.choice import Choice, HeldOut, explain
from evals.grid.judging import CellProof
from evals.grid.measure import Measured, Swept
from evals.grid.objective import Ranking, describe
from evals.grid.sampled import sampled_summary
from evals.judge.trust import Correction, Trust
from evals.judge.verdicts import Judging
from evals.metrics import OWN, VERDICT_METRIC, declared, metric_named
from evals.metrics.declaration import QueryMetric, summarise
from evals.report.explored import explored
from evals.report.head import decided, head
from evals.report.headline import leading
from evals.report.model import (
    SCHEMA_VERSION,
    CellColumns,
    ConfigurationEntry,
    Disagreement,
    Facts,
    GridMetric,
    GridSection,
    JudgeSection,
    OwnMetric,
    RagasCheck,
    RankingSection,
    Report,
    SliceEntry,
    TierEntry,
    Validation,
)
from evals.report.rows import chunk_entries, columns, proxies, query_rows
from evals.sampling.order import NOT_DRAWN
from evals.stats.intervals import Interval, wilson
from retrievers.config import RERANKERS, RetrieverConfig, dump
from retrievers.config.layers import flatten

# A tag of fewer queries says nothing that their rows do not.
LEAST = 3
# Cells beyond these are left out of the report, from the end of the ranking; never one whose standing is shown.
MOST_CELLS = 10_000
# Standings beyond these are left out, from the end; never a member of the confidence set or the recommended.
MOST_STANDINGS = 200
FALSE_ANSWER = "scope/false_answer"
# Share of falsely answered queries above which a recommendation says so.
MOST_FALSE_ANSWERS = 0.5
READ_BY = {"each": "", "best": " on the best {}", "final": " on the final score"}
Numbers = NDArray[np.int64]


def build_report(result: Measured, facts: Facts, *, run: str = "", ragas_check: RagasCheck | None = None) -> Report:
    """Build the report of a run, or of a grid and the run of its recommended cell.

    Args:
        result: The run.
        facts: Facts that make it comparable, as they are at its end.
        run: Its name.
        ragas_check: The mark of scores that ragas has yet to see.
    """
    rows, metrics = list(query_rows(result)), {summary.metric: summary for summary in result.summaries}
    shown = [name for name, summary in metrics.items() if not _lacks_labels(name, summary, result)]
    wanted = {*result.config.metrics, *(gate.metric for gate in result.gates)}
    sparse = facts.collection.content.get("sparse_vectors", ()) if facts.collection else None
    # a field that is not set is absent from the file, as that of a grid is for a single run
    further = {
        "own_metrics": [OwnMetric.of(OWN[name]) for name in result.scores if name in OWN],
        "ragas_check": ragas_check,
        "grid": _grid(result),
    }
    report = Report(
        schema_version=SCHEMA_VERSION,
        name=result.config.name,
        run=run,
        passed=False,
        settings=_settings_line(result.config.retriever, facts),
        facts=facts,
        config=dump(result.config),
        metrics=metrics,
        headline=leading(shown, wanted),
        head=head(result, [row.cause for row in rows if row.cause], sparse),
        criteria=tuple(result.gates),
        slices=slices(result),
        validation=Validation.of(result.validation),
        notes=list(result.notes),
        caches=caches(result),
        judge=judge_section(result.judging, result.context.trust, facts.in_scope, result.summaries)
        if result.judging
        else None,
        chunks=chunk_entries(result),
        scores=columns(result, result.scores),
        proxies=proxies(result),
        queries=rows,
        **{name: value for name, value in further.items() if value},  # type: ignore[arg-type]
    )
    return decided(report)


def _lacks_labels(name: str, summary: Summary, result: Measured) -> bool:
    """Return True for a metric by labels of golden data without any, unless a criterion reads it."""
    wanted = any(gate.metric == name for gate in result.gates)
    return (
        summary.value is None and "labels" in declared(name).needs and result.validation.unlabelled > 0 and not wanted
    )


def _settings_line(retriever: RetrieverConfig, facts: Facts) -> str:
    """Return the settings that matter most, in a line."""
    threshold = retriever.used_threshold
    parts = [
        *([f"python {retriever.python} ({facts.retriever})"] if retriever.python else _search(retriever)),
        f"top_k {retriever.top_k}",
        "no threshold" if threshold is None else _threshold(threshold, retriever),
        f"candidates {retriever.candidates}",
        facts.embedding or "",
    ]
    return " · ".join(filter(None, parts))


def _threshold(threshold: float, retriever: RetrieverConfig) -> str:
    """Return the threshold with the score that it reads."""
    distance = retriever.used_distance
    named = READ_BY[retriever.threshold_on].format(distance)
    if distance != "cosine" and retriever.threshold_on == "each":
        named = f" on the {distance} score"
    return f"threshold {threshold:g}{named}"


def _search(retriever: RetrieverConfig) -> list[str]:
    """Return the mode, and the fusion and the reranker that are in force; reranking by rrf is fusion by rrf."""
    fusion = [f"fusion {retriever.used_fusion}"] if retriever.mode == "hybrid" else []
    rerank = [f"rerank {retriever.rerank}"] if RERANKERS[retriever.rerank].make else []
    distance = [] if retriever.used_distance == "cosine" else [f"distance {retriever.used_distance}"]
    index = [f"{name} {str(v).lower()}" for name, v in flatten({"search_params": retriever.search_params or {}}) if v]
    return [retriever.mode, *distance, *fusion, *rerank, *index]


def caches(result: Measured) -> dict[str, tuple[int, int]]:
    """Return hits and look-ups of the caches of query vectors, of results, and of the judge's verdicts.

    Timed and repeated calls ask no cache and do not count. A result is always searched for in a golden run, so that
    its cache is not asked. Of the judge every request counts as a look-up that found nothing.
    """
    states = [observation.candidates.cache for observation in result.observed.observations]
    values = {name: [state.get(name, "off") for state in states] for name in ("embedding", "result")}
    counts = {name: (each.count("hit"), each.count("miss")) for name, each in values.items()}
    if result.judging:
        counts["judge"] = result.judging.whole_usage.hits, result.judging.whole_usage.calls
    return {name: (hits, hits + misses) for name, (hits, misses) in counts.items()}


def slices(result: Measured) -> list[SliceEntry]:
    """Return the metrics of the queries of each type, then of each tag that three or more queries have, by name."""
    types: dict[str, list[str]] = {}
    tags: dict[str, list[str]] = {}
    for case in (observation.case for observation in result.observed.observations):
        if case.query_type:
            types.setdefault(case.query_type, []).append(case.id)
        for tag in case.tags:
            tags.setdefault(tag, []).append(case.id)
    outcomes = zip(result.validation.query_ids, result.validation.outcomes, strict=True)
    passed = {query_id: outcome == "SUCCESS" for query_id, outcome in outcomes if outcome != "UNLABELLED"}
    return [
        SliceEntry(by=by, name=name, n=len(ids), metrics=dict(_of_slice(result, ids, passed)))  # type: ignore[arg-type]
        for by, groups in (("query_type", types), ("tag", tags))
        for name, ids in sorted(groups.items())
        if by == "query_type" or len(ids) >= LEAST
    ]


def _of_slice(result: Measured, ids: Sequence[str], passed: Mapping[str, bool]) -> Iterator[tuple[str, Summary]]:
    for name, scores in result.scores.items():
        metric = metric_named(name)
        if isinstance(metric, QueryMetric) and any(query_id in scores for query_id in ids):
            summary = _summary(metric, ids, result)
            if summary.value is not None:
                yield name, summary
    decided = [passed[query_id] for query_id in ids if query_id in passed]
    if decided:
        n, ends = len(decided), wilson(sum(decided), len(decided))
        yield (
            VERDICT_METRIC,
            Summary(metric=VERDICT_METRIC, value=sum(decided) / n, ci_low=ends.low, ci_high=ends.high, n=n),
        )


def _summary(metric: QueryMetric, ids: Sequence[str], result: Measured) -> Summary:
    """Return the mean of a metric over a slice, corrected with the weight of the whole run where that is."""
    scores, by_case = result.scores[metric.name], result.proxies.get(metric.name, {})
    own = [scores[query_id] for query_id in ids if query_id in scores]
    sampled = next((each.sampled for each in result.summaries if each.metric == metric.name), None)
    if sampled is None or NOT_DRAWN not in own or not by_case:
        return summarise(metric.name, own, metric.interval)
    of_slice = [by_case[query_id] for query_id in ids if query_id in scores]
    return sampled_summary(metric, own, of_slice, sampled.proxy, sampled.weight)


def judge_section(
    judging: Judging, trust: Trust | None, queries: int, summaries: Sequence[Summary] = ()
) -> JudgeSection:
    """Return the judge of a run: model, cost, why it is incomplete, where labels disagree with it.

    Args:
        judging: Verdicts of the judge.
        trust: Quality of the judge, None where it is not known.
        queries: Number of in-scope queries.
        summaries: Means of the run.
    """
    agreement = trust.agreement if trust else None
    return JudgeSection(
        model=judging.model,
        usage=judging.whole_usage,
        incomplete=judging.incomplete,
        queries=queries,
        drawn=None if judging.drawn is None else len(judging.drawn),
        tiers=_tiers(judging, trust, queries, summaries),
        by_people=[_people_line(correction) for correction in trust.corrections] if trust else [],
        compared=agreement.n_verdicts if agreement else 0,
        disagreements=[
            Disagreement(query_id=row.query_id, chunk_id=row.chunk_id, label=int(row.label == 1), reason=row.reason)
            for row in (agreement.disagreements if agreement else ())
        ],
    )


def _tiers(judging: Judging, trust: Trust | None, queries: int, summaries: Sequence[Summary]) -> list[TierEntry]:
    """Return the cheap judge and the strong one, and people where their verdicts correct the mean; else nothing."""
    corrected = {summary.metric: summary.sampled.weight for summary in summaries if summary.sampled}
    by_people = [each for each in trust.corrections if each.weight is not None] if trust else []
    if not judging.below and not by_people:
        return []
    agreements = [*(trust.tiers if trust else ()), *(None for _ in judging.tiers)]
    judges = [
        TierEntry(
            model=tier.model,
            queries=queries if tier.drawn is None else len(tier.drawn),
            usage=tier.usage,
            verdicts=agreement.n_verdicts if agreement else 0,
            agreement=agreement.accuracy.value if agreement else None,
            kappa=agreement.kappa.value if agreement else None,
            # A judge corrects no mean of its own.
            weights=(corrected if tier is not judging else {})
            | {f"{c.metric}_corrected": c.weight for c in by_people if c.judge == number and c.weight is not None},
        )
        for number, (tier, agreement) in enumerate(zip(judging.tiers, agreements, strict=False))
    ]
    people = [each.corrected.n for each in by_people]
    return judges + [
        TierEntry(model="people", queries=count, usage=None, verdicts=0, agreement=None, kappa=None, weights={})
        for count in people
    ]


def _people_line(correction: Correction) -> str:
    """Return what people would have given all queries, beside what was judged, or why that is not known."""
    mean = correction.corrected
    if mean.value is None:
        return f"{correction.metric} by people: not computable, {mean.note}"
    interval = _ends(Interval(low=mean.ci_low, high=mean.ci_high))
    return f"{correction.metric} by people, from {mean.n:,} queries: {mean.value:.3f}{interval}"


def _ends(interval: Interval) -> str:
    low, high = interval.low, interval.high
    return "" if low is None or high is None else f" ({low:.3f} … {high:.3f})"


def _grid(result: Measured) -> GridSection | None:
    if result.swept is None:
        return None
    section, more = grid_section(result.swept), explored(result)
    return (
        section.model_copy(update={"explored": more})
        if more and len(section.cells.index) == len(more.gain)
        else section
    )


def grid_section(result: Swept, most: int = MOST_CELLS, most_standings: int = MOST_STANDINGS) -> GridSection:
    """Return the grid: axes, configurations, cells, every metric by cell, and the recommendation.

    Args:
        result: The grid.
        most: Number of cells beyond which some are left out.
        most_standings: Number of standings beyond which some are left out.
    """
    grid, choice, places = result.grid, None, list[int]()
    if result.choice:
        choice, places = _reported(result.choice, most_standings)
    shown = _shown_cells(len(grid), choice, result.ranking, most)
    cells = [grid.cell(index) for index in shown.tolist()]
    abstaining = result.abstaining
    told = [abstaining.known.statement, *(each.statement for each in abstaining.promised)] if abstaining else []
    return GridSection(
        axes={name: list(values) for name, values in grid.axes.items()},
        ranking=_ranking(result.ranking, shown),
        choice=choice,
        places=places,
        decision=result.decision if choice else None,
        held_out=result.held_out if choice else None,
        proof=proved(result, result.proof) if result.proof else "",
        explanation=_explanation(result),
        abstention=list(dict.fromkeys(told)),
        configurations=[_configuration(configuration) for configuration in grid.configurations],
        cells=CellColumns(
            count=len(grid),
            index=shown.tolist(),
            configuration=[cell.configuration for cell in cells],
            top_k=[cell.top_k for cell in cells],
            threshold=[cell.threshold for cell in cells],
        ),
        metrics={
            name: GridMetric(
                mean=_numbers(scores.mean[shown]), n=_counts(scores.n[shown]), n_failed=_counts(scores.n_failed[shown])
            )
            for name, scores in grid.metrics.items()
        },
        notes=list(grid.notes),
    )


def _reported(choice: Choice, most: int) -> tuple[Choice, list[int]]:
    """Return the choice with the standings that are reported, and the place of each from 1."""
    chosen = choice.recommended.cell
    ranked = enumerate(choice.standings, 1)
    shown = [(place, one) for place, one in ranked if place <= most or one.in_set or one.cell == chosen]
    return replace(choice, standings=tuple(one for _, one in shown)), [place for place, _ in shown]


def _shown_cells(count: int, choice: Choice | None, ranking: Ranking, most: int) -> Numbers:
    """Return the numbers of the cells that are reported, ascending."""
    every = np.arange(count)
    if count <= most:
        return every
    standings = [standing.cell for standing in choice.standings] if choice else []
    order = np.asarray(list(dict.fromkeys((*standings, *ranking.order))), dtype=np.int64)
    rest = np.setdiff1d(every, order)
    return np.sort(np.concatenate([order, rest])[: max(most, len(standings))])


def _ranking(ranking: Ranking, cells: Numbers) -> RankingSection:
    shown = set(cells.tolist())
    return RankingSection(
        metrics=dict(ranking.weights),
        n=dict(ranking.n),
        dropped=dict(ranking.dropped),
        constraints=dict(ranking.constraints),
        excluded=ranking.excluded,
        reason=ranking.reason,
        order=[cell for cell in ranking.order if cell in shown],
        values=_numbers(ranking.values[cells]),
    )


def _configuration(configuration: Configuration) -> ConfigurationEntry:
    return ConfigurationEntry(
        name=configuration.name,
        parameters=dict(configuration.parameters),
        metrics={summary.metric: summary for summary in configuration.summaries},
    )


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [None if isnan(value) else value for value in values.tolist()]


def _counts(values: Numbers) -> int | list[int]:
    """Return one number where all cells have the same."""
    counts: list[int] = values.tolist()
    return counts[0] if len(set(counts)) == 1 else counts


def _explanation(result: Swept) -> list[str]:
    """Return the choice in three sentences, and the unbiased figure; or why nothing was chosen."""
    if result.choice is None:
        return [f"The cells are not ranked: {result.ranking.reason}"]
    first, *others = explain(result.choice)
    held_out = [_held_out(result.held_out)] if result.held_out else []
    return [first + _warning(result), *others, *held_out]


def _held_out(held_out: HeldOut) -> str:
    return (
        f"Held out: {held_out.value:.3f}{_ends(held_out.interval)} on {held_out.n} queries that had no part in the "
        f"choice ({held_out.chosen_on:.3f} on those that had)"
    )


def _warning(result: Swept) -> str:
    """Return that the recommended cell answers what it should not; empty where it seldom does."""
    metric = result.grid.metrics.get(FALSE_ANSWER)
    share = float(metric.mean[result.chosen]) if metric and result.chosen is not None else 0.0
    if isnan(share) or share <= MOST_FALSE_ANSWERS:
        return ""
    return (
        f". It answers {share:.0%} of the out-of-scope queries: constrain that with "
        f"--objective.constraints '{FALSE_ANSWER} <= {MOST_FALSE_ANSWERS:g}'"
    )


def proved(result: Swept, proof: CellProof) -> str:
    """Return what the verdicts that were bought prove, of what all verdicts on these queries would say."""
    # Cells that scored the same on every query are one.
    members = list(result.choice.recommended.members) if result.choice else []
    bounds = [bound for bound in proof.within[members].tolist() if isfinite(bound)]
    share = proof.questions / max(1, proof.all_questions)
    bought = (
        f"with {proof.questions:,} of {proof.all_questions:,} verdicts ({share:.0%}) on {proof.queries} of "
        f"{proof.eligible} queries"
    )
    return f"{_proved(result, proof.margin, min(bounds, default=None))}, {bought}"


def _proved(result: Swept, margin: float, bound: float | None) -> str:
    if bound is None or result.chosen is None:
        return f"Not proved: too few queries were judged to compare {len(result.grid):,} cells"
    name = describe(result.grid, result.chosen)
    of = f"the best of {len(result.grid):,} cells by all verdicts of this judge, asked once, on these queries (95%)"
    if bound == 0:
        return f"Proved: {name} is {of}"
    started = "Proved" if bound <= margin else f"Not proved within {margin:g}"
    return f"{started}: {name} is at most {bound:.3f} below {of}"
