"""A run's result to its report: the one place that computes the fields of `evals.report.model`. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, isnan

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Summary
from evals.grid.choice import explain
from evals.grid.judging import CellProof
from evals.grid.measure import Measured, Swept
from evals.grid.objective import describe
from evals.grid.sampled import sampled_summary
from evals.judge.trust import Trust
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
    Validation,
)
from evals.report.rows import chunk_entries, columns, proxies, query_rows
from evals.report.text import spent
from evals.sampling.order import NOT_DRAWN
from evals.stats.intervals import wilson
from retrievers.config import RERANKERS, RetrieverConfig, dump
from retrievers.config.layers import flatten

# A tag of fewer queries says nothing that their rows do not.
LEAST = 3
# Cells beyond these are left out of the report, from the end of the ranking; never the recommended one.
MOST_CELLS = 10_000
FALSE_ANSWER = "scope/false_answer"
# Share of falsely answered queries above which a recommendation says so.
MOST_FALSE_ANSWERS = 0.5
OF_A_CELL = ("index", "configuration", "top_k", "threshold")
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
    gated = {gate.metric for gate in result.gates}
    # Metrics by labels say nothing of golden data without any.
    unlabelled = {
        name
        for name, summary in metrics.items()
        if summary.value is None and "labels" in declared(name).needs and result.validation.unlabelled
    }
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
        headline=leading(
            [name for name in metrics if name not in unlabelled - gated], {*result.config.metrics, *gated}
        ),
        head=head(result, [row.cause for row in rows if row.cause], sparse),
        criteria=tuple(result.gates),
        slices=slices(result),
        validation=Validation.of(result.validation),
        notes=list(result.notes),
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


def _settings_line(retriever: RetrieverConfig, facts: Facts) -> str:
    """Return the settings that matter most, in a line; of fusion and reranking those that are in force."""
    threshold, distance, params = retriever.threshold, retriever.distance, retriever.search_params or {}
    is_plain = distance == "cosine"
    read = READ_BY[retriever.threshold_on].format(distance)
    if not is_plain and retriever.threshold_on == "each":
        read = f" on the {distance} score"
    found = [
        retriever.mode,
        "" if is_plain else f"distance {distance}",
        f"fusion {retriever.fusion}" if retriever.mode == "hybrid" else "",
        f"rerank {retriever.rerank}" if RERANKERS[retriever.rerank].make else "",
        *(f"{name} {str(value).lower()}" for name, value in flatten({"search_params": params}) if value),
    ]
    parts = [
        *([f"python {retriever.python} ({facts.retriever})"] if retriever.python else found),
        f"top_k {retriever.top_k}",
        "no threshold" if threshold is None else f"threshold {threshold:g}{read}",
        f"candidates {retriever.candidates}",
        facts.embedding or "",
    ]
    return " · ".join(filter(None, parts))


def slices(result: Measured) -> list[SliceEntry]:
    """Return the metrics of the queries of each type, then of each tag that three or more queries have, by name."""
    cases = [observation.case for observation in result.observed.observations]
    types = {one.query_type: [case.id for case in cases if case.query_type == one.query_type] for one in cases}
    tags = {tag: [case.id for case in cases if tag in case.tags] for one in cases for tag in one.tags}
    verdicts = zip(result.validation.query_ids, result.validation.outcomes, strict=True)
    passed = {query_id: outcome == "SUCCESS" for query_id, outcome in verdicts if outcome != "UNLABELLED"}
    groups = [("query_type", name, ids) for name, ids in types.items() if name]
    groups += [("tag", name, ids) for name, ids in tags.items() if len(ids) >= LEAST]
    return [
        SliceEntry(by=by, name=name, n=len(ids), metrics=dict(_of_slice(result, ids, passed)))  # type: ignore[arg-type]
        for by, name, ids in sorted(groups)
    ]


def _of_slice(result: Measured, ids: Sequence[str], passed: Mapping[str, bool]) -> Iterator[tuple[str, Summary]]:
    """Yield the metrics that score a slice, corrected with the weight of the whole run where that is, and its rate."""
    samples = {summary.metric: summary.sampled for summary in result.summaries}
    for name, scores in result.scores.items():
        metric, by_case, inside = metric_named(name), result.proxies.get(name, {}), [i for i in ids if i in scores]
        own = [scores[query_id] for query_id in inside]
        if not isinstance(metric, QueryMetric) or not own:
            continue
        if (sampled := samples.get(name)) and NOT_DRAWN in own and by_case:
            proxy = [by_case[query_id] for query_id in inside]
            summary = sampled_summary(metric, own, proxy, sampled.proxy, sampled.weight)
        else:
            summary = summarise(name, own, metric.interval)
        if summary.value is not None:
            yield name, summary
    if decided := [passed[query_id] for query_id in ids if query_id in passed]:
        rate, ends = sum(decided) / len(decided), wilson(sum(decided), len(decided))
        summary = Summary(metric=VERDICT_METRIC, value=rate, ci_low=ends.low, ci_high=ends.high, n=len(decided))
        yield VERDICT_METRIC, summary


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
        lines=list(_judge_lines(judging, trust, queries, summaries)),
        compared=agreement.n_verdicts if agreement else 0,
        disagreements=[Disagreement.of(row) for row in agreement.disagreements] if agreement else [],
    )


def _judge_lines(judging: Judging, trust: Trust | None, queries: int, summaries: Sequence[Summary]) -> Iterator[str]:
    """Yield what judging cost; each judge of several, and people, whose verdicts correct means; what people say."""
    corrections = trust.corrections if trust else ()
    by_people = [each for each in corrections if each.weight is not None]
    tiers = [*judging.tiers] if judging.below or by_people else []
    if len(tiers) != 1:
        yield f"{f'{len(tiers)} judges' if tiers else judging.model}: {spent(judging.whole_usage)}"
    agreements = [*(trust.tiers if trust else ()), *(None for _ in tiers)]
    for number, (tier, agreement) in enumerate(zip(tiers, agreements, strict=False)):
        drawn = queries if tier.drawn is None else len(tier.drawn)
        text = f"{tier.model}: {drawn:,} of {queries:,} queries, {spent(tier.usage)}"
        if agreement and agreement.accuracy.value is not None:
            kappa = "" if agreement.kappa.value is None else f" (kappa {agreement.kappa.value:.2f})"
            same = f"{agreement.accuracy.value:.0%} of {agreement.n_verdicts:,} chunks{kappa}"
            text += f"; says the same as the next on {same}"
        # A judge corrects no mean of its own.
        weights = {s.metric: s.sampled.weight for s in summaries if s.sampled and tier is not judging}
        weights |= {f"{one.metric}_corrected": one.weight or 0.0 for one in by_people if one.judge == number}
        told = ", ".join(f"{weight:.2f} in {metric}" for metric, weight in weights.items())
        yield f"{text}; weight {told}" if told else text
    means = {summary.metric: summary for summary in summaries}
    for metric in (each.metric for each in corrections):
        if (mean := means.get(f"{metric}_corrected")) and mean.value is None:
            yield f"{metric} by people: not computable, {mean.note}"
        elif mean:
            ends = _ends(mean.ci_low, mean.ci_high)
            yield f"{metric} by people, from {mean.n:,} queries: {mean.value:.3f}{ends}"
    if judging.drawn is not None and len(tiers) < 2:
        yield (
            f"The judged sample is {len(judging.drawn)} of {queries} in-scope queries, drawn at random (judge.sample, "
            "judge.stop); means are corrected by what all have without a judge, as far as it foretells the judge"
        )


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({low:.3f} … {high:.3f})"


def _grid(result: Measured) -> GridSection | None:
    if result.swept is None:
        return None
    section, more = grid_section(result.swept), explored(result)
    is_whole = more is not None and len(section.cells.index) == len(more.gain)
    return section.model_copy(update={"explored": more}) if is_whole else section


def grid_section(result: Swept, most: int = MOST_CELLS) -> GridSection:
    """Return the grid: axes, configurations, cells, every metric by cell, and the recommendation.

    Args:
        result: The grid.
        most: Number of cells beyond which some are left out.
    """
    grid, ranking, choice = result.grid, result.ranking, result.choice
    shown = _shown_cells(result, most)
    cells, kept = [grid.cell(index) for index in shown.tolist()], set(shown.tolist())
    if choice:
        choice = replace(choice, standings=tuple(one for one in choice.standings if one.cell in kept))
    order = [cell for cell in ranking.order if cell in kept]
    told = [result.separation, *(each.statement for each in result.promised)] if result.separation else []
    return GridSection(
        axes={name: list(values) for name, values in grid.plan.axes.items()},
        ranking=RankingSection.of(vars(ranking) | {"order": order, "values": _numbers(ranking.values[shown])}),
        choice=choice,
        decision=result.decision if choice else None,
        held_out=result.held_out if choice else None,
        proof=_proved(result, result.proof) if result.proof else "",
        explanation=list(_explanation(result)),
        abstention=list(dict.fromkeys(told)),
        configurations=[
            ConfigurationEntry.of(vars(one) | {"metrics": {each.metric: each for each in summaries}})
            for one, summaries in zip(grid.configurations, grid.summaries, strict=True)
        ],
        cells=CellColumns.of(
            {"count": len(grid)} | {name: [getattr(cell, name) for cell in cells] for name in OF_A_CELL}
        ),
        metrics={
            name: GridMetric(
                mean=_numbers(scores.mean[shown]), n=_counts(scores.n[shown]), n_failed=_counts(scores.n_failed[shown])
            )
            for name, scores in grid.metrics.items()
        },
    )


def _shown_cells(result: Swept, most: int) -> Numbers:
    """Return the numbers of the cells that are reported, ascending: the recommended one, then the best."""
    every, choice = np.arange(len(result.grid)), result.choice
    first = [choice.recommended.cell, *(one.cell for one in choice.standings)] if choice else []
    order = np.asarray(list(dict.fromkeys((*first, *result.ranking.order))), dtype=np.int64)
    return np.sort(np.concatenate([order, np.setdiff1d(every, order)])[:most])


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [None if isnan(value) else value for value in values.tolist()]


def _counts(values: Numbers) -> int | list[int]:
    """Return one number where all cells have the same."""
    counts: list[int] = values.tolist()
    return counts[0] if len(set(counts)) == 1 else counts


def _explanation(result: Swept) -> Iterator[str]:
    """Yield the choice in three sentences, and the unbiased figure; or why nothing was chosen."""
    if result.choice is None:
        yield f"The cells are not ranked: {result.ranking.reason}"
        return
    first, *others = explain(result.choice)
    metric, held_out = result.grid.metrics.get(FALSE_ANSWER), result.held_out
    answers = float(metric.mean[result.choice.recommended.cell]) if metric else 0.0
    if answers > MOST_FALSE_ANSWERS:  # which nan is not
        first += (
            f". It answers {answers:.0%} of the out-of-scope queries: constrain that with --objective.constraints "
            f"'{FALSE_ANSWER} <= {MOST_FALSE_ANSWERS:g}'"
        )
    yield from (first, *others)
    if held_out:
        ends = _ends(held_out.interval.low, held_out.interval.high)
        yield (
            f"Held out: {held_out.value:.3f}{ends} on {held_out.n} queries that had no part in the choice "
            f"({held_out.chosen_on:.3f} on those that had)"
        )


def _proved(result: Swept, proof: CellProof) -> str:
    """Return what the verdicts that were bought prove, of what all verdicts on these queries would say."""
    # Cells that scored the same on every query are one.
    members = list(result.choice.recommended.members) if result.choice else []
    bound = min((bound for bound in proof.within[members].tolist() if isfinite(bound)), default=None)
    if bound is None or result.chosen is None:
        said = f"Not proved: too few queries were judged to compare {len(result.grid):,} cells"
    else:
        proved = "Proved" if bound <= proof.margin else f"Not proved within {proof.margin:g}"
        far = f" at most {bound:.3f} below" if bound else ""
        best = (
            f"the best of {len(result.grid):,} cells by all verdicts of this judge, asked once, on these queries (95%)"
        )
        said = f"{proved}: {describe(result.grid, result.chosen)} is{far} {best}"
    bought = (
        f"with {proof.questions:,} of {proof.all_questions:,} verdicts "
        f"({proof.questions / max(1, proof.all_questions):.0%}) on {proof.n} of {proof.eligible} queries"
    )
    return f"{said}, {bought}"
