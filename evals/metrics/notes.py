"""Notes on a run that qualify its figures. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

from evals.cases.case import Case
from evals.cases.pages import SourcePageError, Sources
from evals.cases.relevance import missing_chunks
from evals.collect.observations import Failure, LatencyPass, Observation, Observed, Unscored
from evals.collect.pool import Pool
from evals.judge.tasks import PRECISION, RELEVANCE
from evals.judge.verdicts import Judging
from evals.metrics import metric_named, reach
from evals.metrics.llm import can_be_judged
from evals.metrics.metadata import address_fault, names_files, sequence_faults
from evals.stats.intervals import FEWEST
from retrievers.config import RetrieverConfig
from retrievers.records import Chunk
from retrievers.text.language import differing
from retrievers.text.quoting import quoted

SHOWN = 5
# Of faults that many chunks have alike.
EXAMPLES = 2
# Queries whose language is detected.
MOST_ASKED = 1_000
# Fewer failed verdicts say nothing about what they have in common.
FEWEST_FAILED = 10
LEVEL = 0.01


def notes(
    observed: Observed, pool: Pool, top_k: int, judging: Judging | None, sources: Sources | None = None
) -> list[str]:
    """Return all notes on a run, the most important first.

    Args:
        observed: The run.
        pool: Its candidates.
        top_k: Number of chunks asked for.
        judging: Verdicts of the judge, None without one.
        sources: The source pages as far as they were read, None when not known.
    """
    observations = observed.observations
    return [
        *_on_kinds(observations),
        *_on_unlabelled([o.case for o in observations if o.case.in_scope]),
        *observed.retriever_notes,
        *(() if observed.listed else _on_unlisted(observations, pool)),
        *_on_judged(observations),
        *_on_few(observations, top_k),
        *_on_repeated(observations),
        *_on_latency(observed.latency),
        *_on_language(observations),
        *_on_addresses(observations, pool, sources),
        *_on_numbering(observations, pool),
        *_on_sources(sources),
        *_on_judging(judging, sum(observation.case.in_scope for observation in observations)),
        *(missing_by_length(judging, observations) if judging else ()),
    ]


def depth_notes(metrics: Collection[str], settings: RetrieverConfig) -> list[str]:
    """Note metrics that read more places than the lists have.

    Args:
        metrics: The names of those that a run has.
        settings: The retriever's.
    """
    length = reach(settings)
    exceeding = [m for name in metrics if (m := metric_named(name)) and length.is_exceeded_by(m)]
    returned = [metric.name for metric in exceeding if not metric.name.startswith("candidates/")]
    names = [metric.name for metric in exceeding if metric.name.startswith("candidates/")]
    notes = []
    if returned:
        notes.append(
            f"deeper than top_k {settings.top_k}: {_listed(returned)}; what was returned is scored as if nothing "
            "followed it, and candidates/* score what the search found"
        )
    if names:
        notes.append(f"deeper than the {settings.candidates} candidates: {_listed(names)}")
    return notes


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _on_kinds(observations: Sequence[Observation]) -> Iterator[str]:
    for kind, in_scope in (("in-scope", True), ("out-of-scope", False)):
        if not any(o.case.in_scope == in_scope for o in observations):
            yield f"the golden data holds no {kind} query: metrics over them have no value"


def _on_unlabelled(cases: Sequence[Case]) -> Iterator[str]:
    """Note which metrics the queries without labels have, of those in scope."""
    unlabelled = [case for case in cases if case.is_unlabelled]
    if not unlabelled:
        return
    rest = len(cases) - len(unlabelled)
    by_labels = f"are over the other {rest} alone" if rest else "have no value"
    yield (
        f"{len(unlabelled)} of {len(cases)} in-scope queries have no labels (evidence or relevant_ids): metrics by "
        f"labels {by_labels}, and the judge's are over all that it can grade"
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
    evidence = [e for o in observations for e in o.case.evidence if e.source_url]
    returned = list(pool.found)
    pages = {chunk.source_url for chunk in returned}
    if evidence and returned and not any(e.source_url in pages for e in evidence):
        yield (
            f"no returned chunk is from a page that evidence names: returned {_first(pages)!r}, evidence "
            f"{evidence[0].source_url!r}; are addresses written alike (retriever.metadata.map)?"
        )
    relevant = {key for o in observations for key in o.case.relevant}
    ids = {chunk.chunk_id for chunk in returned}
    if relevant and ids and not relevant & ids:
        yield (
            f"none of the {len(relevant)} relevant_ids was returned for any query: returned {_first(ids)!r}, expected "
            f"{_first(relevant)!r}; are ids written alike (retriever.metadata.map)?"
        )


def _on_few(observations: Sequence[Observation], top_k: int) -> Iterator[str]:
    most = max((len(o.candidates) for o in observations), default=0)
    if 0 < most < top_k:
        yield f"the retriever finds at most {most} chunks, fewer than top_k {top_k}"


def _on_judged(observations: Sequence[Observation]) -> Iterator[str]:
    """Note missing relevant chunks and, where golden data judge chunks not relevant, unjudged returned ones."""
    if missing := missing_chunks({o.case.id: o.relevance for o in observations}):
        yield missing
    judged = [o for o in observations if o.relevance.irrelevant]
    returned = [(o, chunk_id) for o in judged for chunk_id in o.ranked_ids]
    unknown = sum(key not in o.relevance.grades and key not in o.relevance.irrelevant for o, key in returned)
    if unknown:
        yield f"{unknown} of {len(returned)} returned chunks were never judged: they count as not relevant"


def _on_repeated(observations: Sequence[Observation]) -> Iterator[str]:
    surplus = [len(o.selection) - len(o.ranked_ids) for o in observations]
    if any(surplus):
        queries = sum(count > 0 for count in surplus)
        yield (
            f"{sum(surplus)} chunks were returned more than once for the same query ({queries} queries): each counts "
            "once, at its first place"
        )


def _on_latency(passes: Sequence[LatencyPass]) -> Iterator[str]:
    for timed in passes:
        if timed.differing:
            yield (
                f"at concurrency {timed.concurrency} the results of {len(timed.differing)} queries differ from "
                f"the serial ones: {', '.join(timed.differing[:SHOWN])}"
            )


def _on_sources(sources: Sources | None) -> Iterator[str]:
    faults = sources.faults if sources else ()
    if faults:
        rest = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        yield (
            f"{len(faults)} source pages cannot be read, and what would be checked against them has failed: "
            f"{'; '.join(faults[:SHOWN])}{rest}"
        )


def _on_language(observations: Sequence[Observation]) -> Iterator[str]:
    step = -(-len(observations) // MOST_ASKED) or 1  # a language takes half a millisecond to tell
    some = observations[::step]
    by_case = {o.case.id: differing(o.case.query, [chunk.text for chunk in o.candidates.chunks]) for o in some}
    named = [f"{case_id} ({languages.asked})" for case_id, languages in by_case.items() if languages]
    if named:
        looked_at = "" if step == 1 else f" (of {len(some):,} queries looked at)"
        yield f"apparently in another language than the chunks: {_listed(named)}{looked_at}"


def _on_addresses(observations: Sequence[Observation], pool: Pool, sources: Sources | None) -> Iterator[str]:
    chunks = _returned(observations)
    if names_files(pool):
        return
    if any(chunk.source_url for chunk in chunks):
        faults = [fault for chunk in chunks if (fault := _address(chunk, sources))]
        yield from _on_faults("metadata/url_format", faults, len(chunks))
    elif chunks:
        yield (
            "no returned chunk says which page it is from: results are identified by chunk id and document; is the "
            "address under another key? retriever.metadata.map {source_url: KEY} names it"
        )


def _address(chunk: Chunk, sources: Sources | None) -> str:
    try:
        return address_fault(chunk, sources)
    except SourcePageError:  # named among the faults of the sources
        return ""


def _on_numbering(observations: Sequence[Observation], pool: Pool) -> Iterator[str]:
    sequence, returned = pool.once("sequence", sequence_faults), _returned(observations)
    faults = [f"chunk {quoted(c.chunk_id)} has {sequence[c.chunk_id]}" for c in returned if c.chunk_id in sequence]
    yield from _on_faults("metadata/chunk_sequence", faults, len(returned))


def _on_faults(metric: str, faults: Sequence[str], chunks: int) -> Iterator[str]:
    if faults:
        rest = f"; and {len(faults) - EXAMPLES} more" if len(faults) > EXAMPLES else ""
        yield f"{metric}: {len(faults)} of {chunks} returned chunks at fault: {'; '.join(faults[:EXAMPLES])}{rest}"


def _returned(observations: Sequence[Observation]) -> list[Chunk]:
    """Return the returned chunks of any query, each once."""
    return list({chunk.chunk_id: chunk for o in observations for chunk in o.selection.chunks}.values())


def _on_judging(judging: Judging | None, in_scope: int) -> Iterator[str]:
    if judging is None:
        yield "there is no judge (judge.model): no LLM-graded metric was computed"
    elif judging.incomplete:
        yield f"not everything was judged: {judging.incomplete}"
    if judging is not None and judging.drawn is not None:
        few = f"; {FEWEST} or more have an interval" if len(judging.drawn) < FEWEST else ""
        setting, judge = "judge.sample", ""
        by = "what all have without a judge (labels, or words of the reference answer), as far as it foretells it"
        if judging.below:
            setting, judge = "judge.second", f" ({judging.model})"
            by = f"the golden labels of all and {judging.below.model}'s verdicts on more, as far as they foretell these"
        yield (
            f"the judged sample{judge} is {len(judging.drawn)} of {in_scope} in-scope queries, drawn at random "
            f"({setting}); means of judged metrics are corrected by {by}{few}"
        )


def missing_by_length(judging: Judging, observations: Sequence[Observation]) -> Iterator[str]:
    """Note that the chunks whose verdict failed have another length than those with a verdict.

    By the rank-sum test (Mann and Whitney 1947), two-sided, at a level of 1%, from ten failures on. Verdicts that a
    budget did not buy are left out: which these are is random.

    Args:
        judging: Verdicts of the judge.
        observations: Results of the queries.
    """
    failed, judged = _lengths(judging, observations)
    if len(failed) < FEWEST_FAILED or not judged:
        return
    from scipy.stats import mannwhitneyu

    if mannwhitneyu(failed, judged).pvalue < LEVEL:
        which = "longer" if median(failed) > median(judged) else "shorter"
        yield (
            f"verdicts are missing not at random: the {len(failed)} chunks whose verdict failed are {which} than the "
            f"{len(judged)} that were judged (median {median(failed):,.0f} characters, {median(judged):,.0f}); means "
            "of judged metrics are of queries whose chunks the judge could take, and no estimate for the others"
        )


def _lengths(judging: Judging, observations: Sequence[Observation]) -> tuple[list[int], list[int]]:
    """Return the lengths of the chunks whose verdict failed, and of those that have one, query by query."""
    failed: list[int] = []
    judged: list[int] = []
    for observation in observations:
        for chunk_id, length in _asked(judging.verdicts, observation):
            verdict = judging.verdicts[observation.case.id, chunk_id]
            if not isinstance(verdict, Unscored):
                (failed if isinstance(verdict, Failure) else judged).append(length)
    return failed, judged


def _asked(by_chunk: Mapping[tuple[str, str], object], observation: Observation) -> Iterator[tuple[str, int]]:
    """Yield the chunks of a query that the judge was asked about, with their length."""
    ids = observation.candidates.chunk_ids
    places = [rank for rank, chunk_id in enumerate(ids) if (observation.case.id, chunk_id) in by_chunk]
    for chunk in observation.candidates.at(places).chunks:
        yield chunk.chunk_id, len(chunk.text)


def _first(values: set[str] | set[str | None]) -> str:
    return min(str(value) for value in values)
