"""Notes on a run that qualify its figures. Pure."""

from collections.abc import Collection, Iterator, Sequence

from evals.cases.pages import SourcePages
from evals.cases.relevance import missing_chunks
from evals.collect.observations import Observation, Observed, Summary
from evals.collect.pool import Pool
from evals.judge.tasks import JUDGED, PRECISION, RELEVANCE
from evals.judge.trust import CORRECTED
from evals.judge.verdicts import Judging
from evals.metrics import metric_named
from evals.metrics.llm import NO_PEOPLE, can_be_judged
from retrievers.config import RetrieverConfig
from retrievers.text.language import differing

SHOWN = 5
# Queries whose language is detected: one takes half a millisecond to tell.
MOST_ASKED = 1_000


def notes(
    observed: Observed, pool: Pool, settings: RetrieverConfig, judging: Judging | None, sources: SourcePages | None
) -> Iterator[str]:
    """Yield all notes on a run, the most important first.

    Args:
        observed: The run.
        pool: Its candidates.
        settings: The retriever's.
        judging: Verdicts of the judge, None without one.
        sources: The source pages as far as they were read, None when not known.
    """
    observations = observed.observations
    yield from _on_labels(observations)
    yield from observed.retriever_notes
    yield from () if observed.listed else _on_unlisted(observations, pool)
    yield from _on_results(observations, pool, settings.top_k)
    if settings.threshold is not None and settings.group_by is None:
        yield from _on_threshold(observations, settings.top_k)
    yield from _on_language(observations)
    if sources and sources.faults:
        faults = f"{len(sources.faults)} source pages cannot be read, and what would be checked against them has failed"
        yield f"{faults}: {_listed(sources.faults, '; ')}"
    if judging is None:
        yield "there is no judge (judge.model): no LLM-graded metric was computed"
    elif judging.incomplete:
        yield f"not everything was judged: {judging.incomplete}"


def depth_notes(metrics: Collection[str], settings: RetrieverConfig) -> Iterator[str]:
    """Note metrics that read more places than the lists have.

    Args:
        metrics: The names of those that a run has.
        settings: The retriever's.
    """
    exceeding = [name for name in metrics if (metric := metric_named(name)) and metric.reads_beyond(settings)]
    of_candidates = [name for name in exceeding if name.startswith("candidates/")]
    if returned := [name for name in exceeding if name not in of_candidates]:
        scored = "what was returned is scored as if nothing followed it, and candidates/* score what the search found"
        yield f"deeper than top_k {settings.top_k}: {_listed(returned)}; {scored}"
    if of_candidates:
        yield f"deeper than the {settings.candidates} candidates: {_listed(of_candidates)}"


def judge_notes(summaries: Sequence[Summary]) -> Iterator[str]:
    """Note which metrics of a judge have no value although nothing failed, and why.

    Args:
        summaries: Those of a run with a judge.
    """
    lacking = dict[str, list[str]]()
    for summary in summaries:
        # That nobody labelled anything is no fault of the data.
        if summary.metric in (*JUDGED, CORRECTED) and summary.value is None and summary.note not in ("", NO_PEOPLE):
            if not (summary.n_failed or summary.n_missing):
                lacking.setdefault(summary.note, []).append(summary.metric)
    for why, names in lacking.items():
        yield f"no value of {_listed(names)}: {why}"


def _listed(names: Sequence[str], joint: str = ", ") -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return joint.join(names[:SHOWN]) + more


def _on_labels(observations: Sequence[Observation]) -> Iterator[str]:
    """Note which kind of query is missing, and which metrics the queries without labels have, of those in scope."""
    cases = [o.case for o in observations if o.case.in_scope]
    for kind, count in (("in-scope", len(cases)), ("out-of-scope", len(observations) - len(cases))):
        if not count:
            yield f"the golden data holds no {kind} query: metrics over them have no value"
    unlabelled = [case for case in cases if case.is_unlabelled]
    if unlabelled:
        rest = len(cases) - len(unlabelled)
        yield (
            f"{len(unlabelled)} of {len(cases)} in-scope queries have no labels (evidence or relevant_ids): metrics by "
            f"labels {f'are over the other {rest} alone' if rest else 'have no value'}"
        )
    if unanswered := sum(not can_be_judged(PRECISION, case) for case in unlabelled):
        yield f"{unanswered} queries have neither labels nor a reference_answer: {RELEVANCE} alone scores them"


def _on_unlisted(observations: Sequence[Observation], pool: Pool) -> Iterator[str]:
    """Note the limits of relevance resolved in returned chunks, and signs of differing names."""
    if any(o.relevance.incomplete for o in observations):
        yield (
            "the retriever's chunks cannot be listed: a returned chunk is relevant when it holds at least half of a "
            "quote, and what divides by all relevant chunks has no value; name retriever.store and "
            "retriever.collection if it reads from one"
        )
    pages, ids = {str(chunk.source_url) for chunk in pool.found}, {chunk.chunk_id for chunk in pool.found}
    evidence = {e.source_url for o in observations for e in o.case.evidence if e.source_url}
    relevant = {key for o in observations for key in o.case.relevant}
    for expected, returned, what in (
        (evidence, pages, "no returned chunk is from a page that evidence names"),
        (relevant, ids, f"none of the {len(relevant)} relevant_ids was returned for any query"),
    ):
        if expected and returned and not expected & returned:
            names = f"returned {min(returned)!r}, expected {min(expected)!r}"
            yield f"{what}: {names}; are they written alike (retriever.metadata.map)?"


def _on_threshold(observations: Sequence[Observation], top_k: int) -> Iterator[str]:
    """Note of how many queries the threshold cut relevant chunks that were within top_k."""
    lost = [
        not o.relevance.grades.keys().isdisjoint({*o.candidates.chunk_ids[:top_k]} - {*o.ranked_ids})
        for o in observations
        if o.case.in_scope
    ]
    if any(lost):
        yield f"the threshold cut relevant chunks of {sum(lost)} of {len(lost)} in-scope queries"


def _on_results(observations: Sequence[Observation], pool: Pool, top_k: int) -> Iterator[str]:
    """Note missing, unjudged, few, repeated and unplaced chunks."""
    if missing := missing_chunks({o.case.id: o.relevance for o in observations}):
        yield missing
    returned = [(o.relevance, key) for o in observations if o.relevance.irrelevant for key in o.ranked_ids]
    unknown = sum(key not in relevance.grades and key not in relevance.irrelevant for relevance, key in returned)
    if unknown:
        yield f"{unknown} of {len(returned)} returned chunks were never judged: they count as not relevant"
    most = max((len(o.candidates) for o in observations), default=0)
    if 0 < most < top_k:
        yield f"the retriever finds at most {most} chunks, fewer than top_k {top_k}"
    surplus = sum(len(o.selection) - len(o.ranked_ids) for o in observations)
    if surplus:
        yield f"{surplus} chunks were returned more than once for the same query: each counts once, at its first place"
    if not pool.carries("source_url"):
        yield (
            "no returned chunk says which page it is from: results are identified by chunk id and document; is the "
            "address under another key? retriever.metadata.map {source_url: KEY} names it"
        )


def _on_language(observations: Sequence[Observation]) -> Iterator[str]:
    asked = observations[:: -(-len(observations) // MOST_ASKED) or 1]
    told = ((o.case.id, differing(o.case.query, [chunk.text for chunk in o.candidates.chunks])) for o in asked)
    if named := [f"{case_id} ({languages.asked})" for case_id, languages in told if languages]:
        share = "" if len(asked) == len(observations) else f" (of {len(asked):,} queries looked at)"
        yield f"apparently in another language than the chunks: {_listed(named)}{share}"
