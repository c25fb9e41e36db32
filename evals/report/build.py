"""From the result of a run to its report. Only this file and `grid` compute the fields of `model`. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from evals.cases.reading import case_fingerprint
from evals.collect.observations import VERDICT_METRIC, Observation, Outcome, Score, Summary
from evals.grid.measure import Measured
from evals.grid.sampled import sampled_summary
from evals.judge.trust import Trust
from evals.judge.verdicts import Judging
from evals.metrics import OWN, PASS_RATE, metric_named
from evals.metrics.declaration import QueryMetric, summarise
from evals.metrics.outcomes import FIRST, is_cut_by_threshold
from evals.report.grid import grid_section, results_by_cell
from evals.report.head import FAILURES, conclusion, decided, leading, next_flags
from evals.report.model import (
    SCHEMA_VERSION,
    Cause,
    ChunkEntry,
    Facts,
    Hit,
    JudgeSection,
    OwnMetric,
    QueryRow,
    RagasCheck,
    Report,
    ScoreValue,
    SliceEntry,
)
from evals.report.sections import spent
from evals.sampling.order import NOT_DRAWN
from retrievers.config import RetrieverConfig, dump
from retrievers.records import RetrievedChunk, StageTimings

# Fewest queries of a tag that has a slice.
LEAST = 3
# Number of candidates that are shown for a query without results.
BEST_BELOW = 3
# Fields of a case that its row takes as they are.
OF_A_CASE = ("id", "query", "in_scope", "query_type", "tags", "reference_answer")


def build_report(result: Measured, facts: Facts, *, run: str, ragas_check: RagasCheck | None) -> Report:
    """Build the report of a run, or of a grid and the run of its recommended cell.

    Args:
        result: The run.
        facts: Facts that make the run comparable, as they are at its end.
        run: Name of the run.
        ragas_check: Mark of a report that ragas has not checked yet; None if no metric is one of ragas'.
    """
    rows = list(_query_rows(result))
    metrics = {summary.metric: summary for summary in result.summaries}
    wanted = {*result.config.metrics, *(gate.metric for gate in result.gates)}
    shown = [name for name, m in metrics.items() if name in wanted or m.value is not None or m.n_failed]
    causes = Counter(row.cause for row in rows if row.cause and row.cause in FAILURES)
    recorded = facts.collection.content.get("sparse_vectors", ()) if facts.collection else None
    sparse_vectors = () if facts.saved_retrieval else recorded  # a saved retrieval has its own modes alone
    report = Report(
        schema_version=SCHEMA_VERSION,
        name=result.config.name,
        run=run,
        passed=False,
        settings=_settings_line(result.config.retriever, facts),
        facts=facts,
        config=dump(result.config),
        metrics=metrics,
        baseline=None,
        ragas_check=ragas_check,
        own_metrics=[OwnMetric.of(OWN[name]) for name in result.scores if name in OWN],
        headline=leading(shown, {*wanted, *OWN}),
        verdict=conclusion(result, causes),
        next_flags=next_flags(result, next((cause for cause, _ in causes.most_common(1)), None), sparse_vectors),
        criteria=tuple(result.gates),
        slices=[*_slices(result, rows)],
        notes=list(result.notes),
        judge=_judge(result.judging, result.context.trust, sum(r.in_scope for r in rows)) if result.judging else None,
        grid=grid_section(result.swept, results_by_cell(result)) if result.swept else None,
        chunks=_chunks(result),
        scores=_columns(result, result.scores),
        proxies={
            name: [score if isinstance(score, float | int) else None for score in column]
            for name, column in _columns(result, result.proxies).items()
        },
        queries=rows,
    )
    return decided(report)


def _settings_line(retriever: RetrieverConfig, facts: Facts) -> str:
    """Return the most important settings in a line. Fusion and reranking are left out if they are not in force."""
    threshold, signal = retriever.threshold, retriever.threshold_signal
    on_each = "" if signal == "cosine" else f" on the {signal} score"
    on = {"each": on_each, "best": f" on the best {signal}", "final": " on the final score"}[retriever.threshold_on]
    search = [retriever.mode, f"fusion {retriever.fusion}" if retriever.mode == "hybrid" else ""]
    search += [f"rerank {retriever.rerank}"] if retriever.rerank != "none" else []
    cuts = f"top_k {retriever.top_k}", "no threshold" if threshold is None else f"threshold {threshold:g}{on}"
    if retriever.python:
        search = [f"python {retriever.python} ({facts.retriever})"]
    limits = {"where": retriever.filters, "one for each": retriever.group_by}
    limited = [f"{name} {value}" for name, value in limits.items() if value]
    return " · ".join(filter(None, (*search, *cuts, f"candidates {retriever.candidates}", facts.embedding, *limited)))


def _slices(result: Measured, rows: Sequence[QueryRow]) -> Iterator[SliceEntry]:
    """Yield the metrics of the queries of each type, and of each tag of at least three queries, ordered by name."""
    for name in sorted({row.query_type for row in rows if row.query_type}):
        of_type = [row for row in rows if row.query_type == name]
        yield SliceEntry(by="query_type", name=name, n=len(of_type), metrics=dict(_of_slice(result, of_type)))
    for name in sorted({tag for row in rows for tag in row.tags}):
        tagged = [row for row in rows if name in row.tags]
        if len(tagged) >= LEAST:
            yield SliceEntry(by="tag", name=name, n=len(tagged), metrics=dict(_of_slice(result, tagged)))


def _of_slice(result: Measured, rows: Sequence[QueryRow]) -> Iterator[tuple[str, Summary]]:
    """Yield the metrics of a slice, and last its pass rate. Judged samples are corrected as for the whole run."""
    samples = {summary.metric: summary.sampled for summary in result.summaries}
    for name, scores in result.scores.items():
        metric, proxies = metric_named(name), result.proxies.get(name)
        scored = [row.id for row in rows if row.id in scores]
        if not isinstance(metric, QueryMetric) or not scored:
            continue
        column = [scores[query_id] for query_id in scored]
        if (sampled := samples.get(name)) and NOT_DRAWN in column and proxies:
            proxy = [proxies[query_id] for query_id in scored]
            summary = sampled_summary(metric, column, proxy, sampled.proxy, sampled.weight)
        else:
            summary = summarise(metric, column)
        if summary.value is not None:
            yield name, summary
    if verdicts := [row.passed for row in rows if row.passed is not None]:
        yield VERDICT_METRIC, summarise(PASS_RATE, verdicts)


def _judge(judging: Judging, trust: Trust | None, queries: int) -> JudgeSection:
    """Return the judge of a run: its cost, why it is incomplete, and on which chunks it disagrees with labels."""
    return JudgeSection(
        usage=judging.whole_usage,
        incomplete=judging.incomplete,
        drawn=None if judging.drawn is None else len(judging.drawn),
        lines=list(_judge_lines(judging, trust, queries)),
        disagreements=trust.agreement.disagreements if trust and trust.agreement else (),
    )


def _judge_lines(judging: Judging, trust: Trust | None, queries: int) -> Iterator[str]:
    """Yield a line for each judge: its queries, cost, and agreement with the next judge or people."""
    agreements = [*(trust.tiers if trust else ()), *(None for _ in judging.tiers)]
    for place, (tier, agreement) in enumerate(zip(judging.tiers, agreements, strict=False), 1):
        drawn = "" if tier.drawn is None else f"{len(tier.drawn):,} of {queries:,} in-scope queries, drawn at random, "
        agreed = ""
        if agreement and agreement.accuracy.value is not None:
            kappa = "" if agreement.kappa.value is None else f" (kappa {agreement.kappa.value:.2f})"
            verdicts = f"{agreement.accuracy.value:.0%} of {agreement.accuracy.n:,} chunks{kappa}"
            agreed = f"; says the same as {'people' if place == len(judging.tiers) else 'the next'} on {verdicts}"
        yield f"{tier.model}: {drawn}{spent(tier.usage)}{agreed}"


def _query_rows(result: Measured) -> Iterator[QueryRow]:
    """Yield a row for each query, in the order of the golden data."""
    first_calls = dict(reversed(result.observed.latency.get(1, ())))
    for number, observation in enumerate(result.observed.observations):
        timings = first_calls.get(observation.case.id, observation.candidates.facts.timings)
        verdict = {name: column[number] for name, column in vars(result.validation).items()}
        yield _row(observation, verdict, timings, result)


def _chunks(result: Measured) -> dict[str, ChunkEntry]:
    """Return every chunk that a row names, by id."""
    return {
        hit.chunk.chunk_id: ChunkEntry(source=hit.source, breadcrumb=hit.breadcrumb, text=hit.chunk.text)
        for observation in result.observed.observations
        for hit in (*observation.selection, *_below(observation))
    }


def _columns(result: Measured, scores: Mapping[str, Mapping[str, Score]]) -> dict[str, list[ScoreValue | None]]:
    """Return the scores by metric in the order of the queries; None if a metric does not score a query."""
    ids = [observation.case.id for observation in result.observed.observations]
    return {name: [by_case.get(query_id) for query_id in ids] for name, by_case in scores.items()}


def cause_of(observation: Observation, outcome: Outcome, settings: RetrieverConfig) -> Cause:
    """Return the cause of an outcome.

    Args:
        observation: The query.
        outcome: Outcome of the query.
        settings: Settings of the retriever.
    """
    in_scope, grades = observation.case.in_scope, observation.relevance.grades
    first_relevant = observation.first_relevant
    rules: tuple[tuple[bool, Cause], ...] = (
        (outcome == "PARTIAL_SUCCESS", "details wrong"),
        (outcome == "UNLABELLED", "not labelled"),
        (outcome == "SUCCESS", "right" if in_scope else "rightly nothing"),
        (not in_scope, "wrongly answered"),
        (not observation.selection, "nothing returned"),
        (not grades.keys().isdisjoint(observation.ranked_ids[:FIRST]), "too few returned"),
        (first_relevant is None, "not a candidate"),
        (is_cut_by_threshold(first_relevant or 0, settings), "cut by the threshold"),
    )
    return next((cause for holds, cause in rules if holds), "ranked too low")


def _row(observation: Observation, verdict: dict[str, Any], timings: StageTimings, result: Measured) -> QueryRow:
    judging, case, relevance, best = result.judging, observation.case, observation.relevance, observation.top_score
    stages = {name: getattr(timings, f"{name}_ms") for name in ("embed", "search", "rerank", "total")}
    evidence = sorted(case.relevant_evidence, key=lambda evidence: -evidence.grade)
    return QueryRow.of(
        {name: getattr(case, name) for name in OF_A_CASE}
        | verdict
        | {
            "fingerprint": case_fingerprint(case),
            "expected": list(dict.fromkeys(item.place for item in evidence)),
            "relevant": dict(relevance.grades),
            "irrelevant": sorted(relevance.irrelevant),
            "first_relevant": observation.first_relevant,
            "top_score": best if best is not None and isfinite(best) else None,
            "retrieved": [_hit(hit, observation, judging) for hit in observation.selection],
            "best_below_threshold": [_hit(hit, observation, None) for hit in _below(observation)],
            "claims": list(judging.claims.get((case.id, observation.selection.chunk_ids), ())) if judging else [],
            "cause": cause_of(observation, verdict["outcome"], result.config.retriever),
            "stages_ms": {name: round(ms, 3) for name, ms in stages.items() if ms is not None},
        }
    )


def _below(observation: Observation) -> Sequence[RetrievedChunk]:
    return () if observation.selection else tuple(observation.candidates[:BEST_BELOW])


def _hit(hit: RetrievedChunk, observation: Observation, judging: Judging | None) -> Hit:
    chunk_id = hit.chunk.chunk_id
    return Hit(
        rank=hit.rank,
        chunk_id=chunk_id,
        score=hit.score,
        scale=hit.score_scale,
        scores=dict(hit.scores),
        grade=observation.relevance.grades.get(chunk_id, 0),
        judge=judging.verdicts.get((observation.case.id, chunk_id)) if judging else None,
    )
