"""Notes on a run that qualify its figures. Pure."""

from collections.abc import Collection, Iterator, Sequence

from evals.cases.case import Case
from evals.cases.pages import Sources
from evals.cases.relevance import missing_chunks
from evals.collect.observations import Observation, Observed
from evals.collect.pool import Pool
from evals.judge.tasks import PRECISION, RELEVANCE
from evals.judge.verdicts import Judging
from evals.metrics import metric_named, reach
from evals.metrics.llm import can_be_judged
from evals.stats.intervals import FEWEST
from retrievers.config import RetrieverConfig
from retrievers.text.language import differing

SHOWN = 5
# Queries whose language is detected.
MOST_ASKED = 1_000


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
        *_on_results(observations, pool, top_k),
        *_on_language(observations),
        *_on_sources(sources),
        *_on_judging(judging, sum(observation.case.in_scope for observation in observations)),
    ]


def depth_notes(metrics: Collection[str], settings: RetrieverConfig) -> list[str]:
    """Note metrics that read more places than the lists have.

    Args:
        metrics: The names of those that a run has.
        settings: The retriever's.
    """
    length = reach(settings)
    exceeding = [name for name in metrics if (m := metric_named(name)) and length.is_exceeded_by(m)]
    found = [name for name in exceeding if name.startswith("candidates/")]
    returned = [name for name in exceeding if name not in found]
    scored = "what was returned is scored as if nothing followed it, and candidates/* score what the search found"
    notes = [f"deeper than top_k {settings.top_k}: {_listed(returned)}; {scored}"] if returned else []
    return notes + ([f"deeper than the {settings.candidates} candidates: {_listed(found)}"] if found else [])


def _listed(names: Sequence[str], most: int = SHOWN, joint: str = ", ", rest: str = " and {} more") -> str:
    return joint.join(names[:most]) + (rest.format(len(names) - most) if len(names) > most else "")


def _on_kinds(observations: Sequence[Observation]) -> Iterator[str]:
    for kind, in_scope in (("in-scope", True), ("out-of-scope", False)):
        if not any(o.case.in_scope == in_scope for o in observations):
            yield f"the golden data holds no {kind} query: metrics over them have no value"


def _on_unlabelled(cases: Sequence[Case]) -> Iterator[str]:
    """Note which metrics the queries without labels have, of those in scope."""
    unlabelled = [case for case in cases if case.is_unlabelled]
    if unlabelled:
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
    pages, ids = {str(chunk.source_url) for chunk in pool.found}, {chunk.chunk_id for chunk in pool.found}
    evidence = {e.source_url for o in observations for e in o.case.evidence if e.source_url}
    relevant = {key for o in observations for key in o.case.relevant}
    for expected, returned, what, names in (
        (evidence, pages, "no returned chunk is from a page that evidence names", "addresses"),
        (relevant, ids, f"none of the {len(relevant)} relevant_ids was returned for any query", "ids"),
    ):
        if expected and returned and not expected & returned:
            yield (
                f"{what}: returned {min(returned)!r}, expected {min(expected)!r}; are {names} written alike "
                "(retriever.metadata.map)?"
            )


def _on_judged(observations: Sequence[Observation]) -> Iterator[str]:
    """Note missing relevant chunks and, where golden data judge chunks not relevant, unjudged returned ones."""
    if missing := missing_chunks({o.case.id: o.relevance for o in observations}):
        yield missing
    returned = [(o.relevance, key) for o in observations if o.relevance.irrelevant for key in o.ranked_ids]
    unknown = sum(key not in relevance.grades and key not in relevance.irrelevant for relevance, key in returned)
    if unknown:
        yield f"{unknown} of {len(returned)} returned chunks were never judged: they count as not relevant"


def _on_results(observations: Sequence[Observation], pool: Pool, top_k: int) -> Iterator[str]:
    """Note few, repeated and unplaced chunks."""
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


def _on_sources(sources: Sources | None) -> Iterator[str]:
    if sources and sources.faults:
        yield (
            f"{len(sources.faults)} source pages cannot be read, and what would be checked against them has failed: "
            f"{_listed(sources.faults, joint='; ', rest='; and {} more')}"
        )


def _on_language(observations: Sequence[Observation]) -> Iterator[str]:
    step = -(-len(observations) // MOST_ASKED) or 1  # a language takes half a millisecond to tell
    some = observations[::step]
    found = ((o.case.id, differing(o.case.query, [chunk.text for chunk in o.candidates.chunks])) for o in some)
    named = [f"{case_id} ({languages.asked})" for case_id, languages in found if languages]
    if named:
        looked_at = "" if step == 1 else f" (of {len(some):,} queries looked at)"
        yield f"apparently in another language than the chunks: {_listed(named)}{looked_at}"


def _on_judging(judging: Judging | None, in_scope: int) -> Iterator[str]:
    if judging is None:
        yield "there is no judge (judge.model): no LLM-graded metric was computed"
        return
    if judging.incomplete:
        yield f"not everything was judged: {judging.incomplete}"
    if judging.drawn is not None:
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
