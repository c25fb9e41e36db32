"""Notes on a run for the reader of its figures. Pure."""

import fnmatch
from collections.abc import Collection, Iterator, Sequence

from evals.cases.pages import SourcePages
from evals.cases.relevance import lacking
from evals.collect.observations import Observation, Observed
from evals.collect.pool import Pool
from evals.judge.verdicts import Judging
from evals.metrics import NEED_A_JUDGE, metric_named
from retrievers.config import RetrieverConfig
from retrievers.text.language import differing

SHOWN = 5
# Number of queries whose language is detected, as one takes half a millisecond.
MOST_ASKED = 1_000


def notes(
    observed: Observed,
    pool: Pool,
    settings: RetrieverConfig,
    metrics: Collection[str],
    sources: SourcePages | None,
) -> Iterator[str]:
    """Yield all notes on the retrieval of a run, the most important first.

    Args:
        observed: The run.
        pool: Its candidates.
        settings: Settings of the retriever.
        metrics: Names of the metrics of the run.
        sources: The source pages, as far as they were read; None if the settings name none.
    """
    observations = observed.observations
    if deeper := [name for name in metrics if (metric := metric_named(name)) and metric.reads_beyond(settings)]:
        lists = f"top_k {settings.top_k}, candidates {settings.candidates}"
        yield f"read deeper than the results ({lists}): {_list(deeper)}; ranks beyond count as empty"
    yield from _on_labels(observations)
    yield from observed.retriever_notes
    if pool.texts is None or any(o.case.relevant_evidence for o in observations):
        yield from _on_ids(pool)
    yield from _on_unlisted(observations, pool) if pool.texts is None else ()
    yield from _on_results(observations, settings.metadata.text_key)
    if settings.threshold is not None and settings.group_by is None:
        yield from _on_threshold(observations, settings)
    yield from _on_language(observations[:MOST_ASKED])
    if sources and sources.faults:
        faults = f"{len(sources.faults)} source pages cannot be read, and nothing can be checked against them"
        yield f"{faults}: {_list(sources.faults, '; ')}"


def on_judge(model: str | None, judging: Judging | None, named: Sequence[str]) -> Iterator[str]:
    """Yield why no metric, or not every query, is judged.

    Args:
        model: The judge's model, if the experiment names one.
        judging: Its verdicts; None if it was not asked.
        named: The metrics that the experiment names; empty for all. Without a judge it matters if one needs it.
    """
    if judging is None and (model or not named or any(fnmatch.filter(NEED_A_JUDGE, name) for name in named)):
        why = "the judge was not asked, as no metric needs it (metrics)" if model else "there is no judge (judge.model)"
        yield f"{why}: no LLM-graded metric was computed"
    elif judging and judging.incomplete:
        yield f"not everything was judged: {judging.incomplete}; the same command continues from there"


def _list(names: Sequence[str], joint: str = ", ") -> str:
    return joint.join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _on_labels(observations: Sequence[Observation]) -> Iterator[str]:
    """Note which kind of query is missing, queries that repeat others, and that some have no labels."""
    cases = [o.case for o in observations if o.case.in_scope]
    for kind, count in (("in-scope", len(cases)), ("out-of-scope", len(observations) - len(cases))):
        if not count:
            yield f"no golden query of this run is {kind.replace('-', ' ')}: metrics over them have no value"
    if repeated := len(observations) - len({o.case.query for o in observations}):
        yield f"{repeated} queries repeat the text of another one, and count as independent: intervals are too narrow"
    unlabelled = [case for case in cases if case.is_unlabelled]
    if unlabelled:
        rest = len(cases) - len(unlabelled)
        yield (
            f"{len(unlabelled)} of {len(cases)} in-scope queries have no labels (evidence or relevant_ids): metrics by "
            f"labels {f'are over the other {rest} alone' if rest else 'have no value'}"
        )


def _on_ids(pool: Pool) -> Iterator[str]:
    """Note chunk ids that several texts share."""
    texts = dict[str, str]()
    shared = [chunk.chunk_id for chunk in pool.found if texts.setdefault(chunk.chunk_id, chunk.text) != chunk.text]
    if shared:
        told = f"{len({*shared})} chunk ids, such as {shared[0]!r}, name several texts, which count as one chunk"
        yield f"{told}: all are relevant if one is; name another key (retriever.metadata.map.chunk_id), or none"


def _on_unlisted(observations: Sequence[Observation], pool: Pool) -> Iterator[str]:
    """Note the limits of relevance that is looked for in returned chunks, and names that may be written differently."""
    if any(o.relevance.incomplete for o in observations):
        yield (
            "the retriever's chunks cannot be listed: a returned chunk is relevant when it holds at least half of a "
            "quote, and what divides by all relevant chunks has no value; name retriever.store and "
            "retriever.collection if it reads from one"
        )
    pages = {chunk.source_url for chunk in pool.found if chunk.source_url}
    ids = {chunk.chunk_id for chunk in pool.found}
    evidence = {e.source_url for o in observations for e in o.case.evidence if e.source_url}
    relevant = {key for o in observations for key in o.case.relevant}
    for expected, returned, fault in (
        (evidence, pages, "no returned chunk is from a page that evidence names"),
        (relevant, ids, f"none of the {len(relevant)} relevant_ids was returned for any query"),
    ):
        if expected and returned and not expected & returned:
            names = f"returned {min(returned)!r}, expected {min(expected)!r}"
            yield f"{fault}: {names}; are they written alike (retriever.metadata.map)?"


def _on_threshold(observations: Sequence[Observation], settings: RetrieverConfig) -> Iterator[str]:
    """Note for how many queries the threshold cut relevant chunks that were within top_k."""
    is_cut = [
        not o.relevance.grades.keys().isdisjoint({*o.candidates.chunk_ids[: settings.top_k]} - {*o.ranked_ids})
        for o in observations
        if o.case.in_scope
    ]
    if any(is_cut):
        is_each = settings.threshold_on == "each" and settings.python is None
        remedy = "; threshold_on: best keeps all of a query or none" if is_each else ""
        yield f"the threshold cut relevant chunks of {sum(is_cut)} of {len(is_cut)} in-scope queries{remedy}"


def _on_results(observations: Sequence[Observation], text_key: str) -> Iterator[str]:
    """Note what the collection lacks of the golden data, and returned chunks without text or that were never judged."""
    texts = [chunk.text for o in observations for chunk in o.selection.chunks]
    if empty := sum(not text.strip() for text in texts):
        yield f"{empty} of {len(texts)} returned chunks have no text under payload key {text_key!r} (metadata.text_key)"
    yield from lacking({o.case.id: o.relevance for o in observations})
    returned = [(o.relevance, key) for o in observations if o.relevance.irrelevant for key in o.ranked_ids]
    unjudged = sum(key not in relevance.grades and key not in relevance.irrelevant for relevance, key in returned)
    if unjudged:
        yield f"{unjudged} of {len(returned)} returned chunks were never judged: they count as not relevant"


def _on_language(observations: Sequence[Observation]) -> Iterator[str]:
    """Note queries that seem to be in another language than the chunks."""
    differ = ((o.case.id, differing(o.case.query, [chunk.text for chunk in o.candidates.chunks])) for o in observations)
    if queries := [f"{case_id} ({languages.asked})" for case_id, languages in differ if languages]:
        yield f"apparently in another language than the chunks: {_list(queries)}"
