"""Verdicts that failed, more often on long chunks than on short ones: what is left is no random sample. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from evals.collect.observations import Failure, Observation, Unscored
from evals.judge.verdicts import Judging

# Fewer failures say nothing about what they have in common.
FEWEST_FAILED = 10
LEVEL = 0.01


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
