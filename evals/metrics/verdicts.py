"""The verdicts on queries, with reasons. Pure."""

from collections.abc import Sequence
from statistics import fmean

from evals.collect.observations import LatencyPass, Observation, Outcome, ValidationReport
from evals.golden.source_pages import SourcePageError
from evals.metrics.base import NO_LABELS, Context, each
from evals.metrics.content import source_match, topic_match
from evals.metrics.metadata import accuracy, missing_fields, wrong_fields
from evals.stats import intervals as stats
from retrievers.records import Chunk

FIRST = 5
SHOWN = 3


def validate(
    observations: Sequence[Observation], latency: LatencyPass | None, context: Context, top_k: int = FIRST
) -> ValidationReport:
    """Return the verdicts on the answers to queries, and their totals.

    Args:
        observations: The queries of the run.
        latency: The serial calls, for the times; None when they were not measured.
        context: Required metadata and sources.
        top_k: Number of chunks asked for.
    """
    times: dict[str, list[float]] = {}
    for query_id, timings in zip(latency.query_ids, latency.timings, strict=True) if latency else ():
        times.setdefault(query_id, []).append(timings.total_ms)
    every = [time for values in times.values() for time in values]
    outcomes, reasons = outcomes_of(observations, context, top_k)
    checked = each(accuracy)(observations, context)
    metadata = tuple(score if isinstance(score, float) else None for score in checked)
    relevance = tuple(map(content_relevance, observations))
    passed, unlabelled = outcomes.count("SUCCESS"), outcomes.count("UNLABELLED")
    decided = len(outcomes) - unlabelled
    return ValidationReport(
        total=len(outcomes),
        passed=passed,
        failed=decided - passed,
        unlabelled=unlabelled,
        pass_rate=passed / decided if decided else None,
        average_latency_ms=fmean(every) if every else None,
        p95_latency_ms=stats.percentile(every, 0.95) if every else None,
        query_ids=tuple(o.case.id for o in observations),
        outcomes=outcomes,
        reasons=reasons,
        metadata_accuracy=metadata,
        content_relevance=relevance,
        accuracy_scores=tuple(map(_mean_of_known, metadata, relevance)),
        times_ms=tuple(fmean(times.get(o.case.id, [o.candidates.timings.total_ms])) for o in observations),
    )


def _mean_of_known(*scores: float | None) -> float | None:
    given = [score for score in scores if score is not None]
    return fmean(given) if given else None


def outcomes_of(
    observations: Sequence[Observation], context: Context, top_k: int = FIRST
) -> tuple[tuple[Outcome, ...], tuple[tuple[str, ...], ...]]:
    """Return the outcome of each query, and the reasons why it is not SUCCESS.

    In scope a query must return at least `min_results` chunks, a relevant one among the first five; out of scope it
    must return nothing. With that it is a success if also all required metadata is valid and true to the source, every
    expected topic occurs and the source pattern matches; a partial success otherwise. A query in scope without labels
    has neither verdict, since what it returned may be relevant or not.

    Args:
        observations: The queries.
        context: Required metadata and sources.
        top_k: Number of chunks asked for, which a reason may name.
    """
    outcomes: list[Outcome] = []
    reasons = []
    for observation in observations:
        faults = _relevance_faults(observation, top_k)
        further = [] if faults else _other_faults(observation, context)
        unlabelled = observation.case.is_unlabelled
        verdict: Outcome = "FAILURE" if faults else "PARTIAL_SUCCESS" if further else "SUCCESS"
        outcomes.append("UNLABELLED" if unlabelled else verdict)
        reasons.append((*((NO_LABELS.reason,) if unlabelled else ()), *faults, *further))
    return tuple(outcomes), tuple(reasons)


def content_relevance(observation: Observation) -> float | None:
    """Return the share of relevant among the first five results, 0 for none; out of scope 1 if nothing was returned.

    None for a query in scope without labels.
    """
    if observation.case.is_unlabelled:
        return None
    first = observation.ranked_ids[:FIRST]
    if not observation.case.in_scope:
        # Out of scope the correct answer is an empty result.
        return float(not first)
    return sum(chunk_id in observation.relevance.grades for chunk_id in first) / len(first) if first else 0.0


def is_cut_by_threshold(first_relevant: int, top_k: int) -> bool:
    """Return True if a candidate of that rank is missing in the first results because of the threshold alone."""
    return first_relevant <= min(FIRST, top_k)


def _relevance_faults(observation: Observation, top_k: int) -> list[str]:
    case, returned = observation.case, observation.selection
    if not case.in_scope:
        best = returned[0] if returned else None
        score_text = "" if best is None or best.score is None else f" (best {best.score_scale} {best.score:.3f})"
        return [f"out of scope, but {len(returned)} chunks were returned{score_text}"] if returned else []
    faults = []
    if len(returned) < case.min_results:
        faults.append(f"returned {len(returned)} chunks, expected at least {case.min_results}")
    if returned and case.is_labelled and not set(observation.ranked_ids[:FIRST]) & set(observation.relevance.grades):
        faults.append(f"no relevant chunk among the first {FIRST}; {_first_relevant(observation, top_k)}")
    return faults


def _first_relevant(observation: Observation, top_k: int) -> str:
    ids = enumerate(observation.candidates.chunk_ids, 1)
    index = next((rank for rank, chunk_id in ids if chunk_id in observation.relevance.grades), None)
    if index is None:
        return f"none among the {len(observation.candidates)} candidates either"
    if is_cut_by_threshold(index, top_k):
        return f"the threshold cut the first relevant one, candidate {index}"
    return f"the first relevant one is candidate {index}"


def _against_source(chunk: Chunk, context: Context) -> list[str]:
    """Return the differences from the chunk's page; an unreadable page counts as one."""
    if context.sources is None:
        return []
    try:
        return wrong_fields(chunk, context.required, context.sources)[0]
    except SourcePageError as error:
        return [f"source page {error}"]


def _other_faults(observation: Observation, context: Context) -> list[str]:
    faults: list[str] = []
    for rank, chunk in enumerate(observation.selection.chunks, 1):
        wrong = missing_fields(chunk, context.required) + _against_source(chunk, context)
        # A chunk without metadata would list every field.
        faults += [f"rank {rank}: {fault}" for fault in wrong[:SHOWN]]
    if not observation.case.in_scope:
        return faults
    topics = topic_match(observation, context)
    if isinstance(topics, float) and topics < 1:
        faults.append(f"only {topics:.0%} of the expected topics occur: {', '.join(observation.case.expected_topics)}")
    if source_match(observation, context) == 0.0:
        faults.append(f"no result from a page that matches {observation.case.source_url_pattern!r}")
    return faults
